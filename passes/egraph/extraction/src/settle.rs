//! Components solved: bounds first, then what they leave reduced again and solved, then search.

use fixedbitset::FixedBitSet;

use crate::budget::Budget;
use crate::core::Core;
use crate::reduce::reduce_again;
use crate::search::Search;

/// A component is reduced again if bounds left at most this share of its nodes, in eighths.
const LEFT: usize = 7;
/// The first of the rounds of search takes one in so many parts of what is left, the next ones four times as much each.
const ROUNDS: [u32; 4] = [64, 16, 4, 1];

/// A round that can look at each node fewer times than this is left to the next one.
const LOOKS: u64 = 200;

/// The best choice of a component.
pub(crate) struct Settled {
    /// The node of each class that is needed.
    pub choice: Vec<Option<u32>>,
    /// No choice costs less.
    pub bound: u64,
    /// How it was found.
    pub method: &'static str,
}

/// Solves components one after the other, small ones first; `seeds` are nodes of each to begin with.
pub(crate) fn settle_all(
    cores: &[Core],
    seeds: &dyn Fn(&Core) -> Vec<FixedBitSet>,
    budget: &mut Budget,
) -> Vec<Settled> {
    let mut order: Vec<usize> = (0..cores.len()).collect();
    order.sort_by_key(|k| cores[*k].nodes());
    let mut settled: Vec<Option<Settled>> = cores.iter().map(|_| None).collect();
    for (done, &k) in order.iter().enumerate() {
        let limit = budget.narrow((cores.len() - done) as u32);
        settled[k] = Some(settle(&cores[k], &seeds(&cores[k]), budget));
        budget.widen(limit);
    }
    settled.into_iter().flatten().collect()
}

/// Solves a component.
fn settle(core: &Core, seeds: &[FixedBitSet], budget: &mut Budget) -> Settled {
    let mut search = Search::new(core, seeds, budget);
    budget.stage(8);
    search.scale(budget);
    budget.stage(3);
    search.exchange(budget);
    budget.stage(2);
    search.bound_plainly(budget);
    budget.stage(2);
    search.exchange(budget);
    budget.stage(4);
    search.meet(budget);
    budget.stage(4);
    search.refine(budget);
    budget.stage(4);
    search.share(budget);
    budget.stage(2);
    search.exchange(budget);
    if !search.done() && !again(&mut search, budget) {
        for parts in ROUNDS {
            let limit = budget.narrow(parts);
            if parts == 1 || budget.has(LOOKS * core.nodes() as u64) {
                round(&mut search, budget);
            }
            budget.widen(limit);
            if search.done() || !budget.lasts() {
                break;
            }
        }
    }
    Settled {
        choice: search.choice,
        bound: search.bound,
        method: search.method,
    }
}

fn round(search: &mut Search, budget: &mut Budget) {
    budget.stage(4);
    search.diagram(budget);
    budget.stage(2);
    search.exchange(budget);
    budget.stage(4);
    search.improve(budget);
    budget.stage(2);
    search.shake(budget);
    budget.stage(1);
    search.branch(budget);
}

/// Reduces what bounds left of a component, and solves that.
fn again(search: &mut Search, budget: &mut Budget) -> bool {
    let core = search.core;
    if !search.is_feasible(budget) {
        search.bound = search.cost;
        return true;
    }
    budget.stage(2);
    let reduced = reduce_again(core, &search.alive, budget);
    let Some(cores) = &reduced.cores else {
        return false;
    };
    let nodes: usize = cores.iter().map(Core::nodes).sum();
    if nodes * 8 > core.nodes() * LEFT {
        return false;
    }
    let known = search.choice.clone();
    let seeds = |part: &Core| {
        let mut nodes = FixedBitSet::with_capacity(part.nodes());
        for (i, &origin) in part.origin.iter().enumerate() {
            if known[core.class[origin] as usize] == Some(origin as u32) {
                nodes.insert(i);
            }
        }
        vec![nodes]
    };
    let only = reduced.only.iter().map(|node| node.map(|i| i as u32));
    let mut choice: Vec<Option<u32>> = only.collect();
    let (mut bound, mut method) = (reduced.base, "bottom-up");
    for (part, settled) in cores.iter().zip(settle_all(cores, &seeds, budget)) {
        bound += settled.bound;
        if method == "bottom-up" {
            method = settled.method;
        }
        for node in settled.choice.iter().flatten() {
            let origin = part.origin[*node as usize];
            choice[core.class[origin] as usize] = Some(origin as u32);
        }
    }
    if let Some((choice, cost)) = core.checked(&choice)
        && cost < search.cost
    {
        (search.choice, search.cost, search.method) = (choice, cost, method);
    }
    search.bound = search.bound.max(bound).min(search.cost);
    true
}
