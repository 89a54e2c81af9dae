//! Starting points of local search by slope scaling: the cost of a node that several classes use is shared out among them.
//!
//! Cheapest trees pay for a node once for each way from a root to it, so what many would share looks dear. Here each way pays its
//! part: at first of as many as there may be, then of as many as there were in the last trees, which keeps what those cost
//! together what the choice costs. What looked cheap for it might be shared, and was not, looks dear from then on.
//!
//! Source: Kim and Pardalos, "A solution approach to the fixed charge network flow problem using a dynamic slope scaling
//! procedure", Operations Research Letters 24, 1999.

use crate::budget::Budget;
use crate::core::{Core, Start};
use crate::search::Search;

/// Sweeps without a cheaper choice behind which prices are as hoped again, less a share at random.
const PATIENCE: usize = 24;
/// So often at most.
const STARTS: usize = 8;
/// The share that is taken off at most.
const OFF: f64 = 0.5;
/// Of what a node was expected to cost, the part that is kept when trees tell what it does.
const KEPT: f64 = 0.5;
/// No more ways to a class are counted.
const WAYS: f64 = 1e9;
/// Random numbers are the same each time.
const SEED: u64 = 1;

impl Search<'_> {
    /// Looks for choices in which much is shared; local search starts from the cheapest. No seed changes which that is, so it is found
    /// once for a component.
    pub(crate) fn scale(&mut self, budget: &mut Budget) {
        if self.done() {
            return;
        }
        let core = self.core;
        if let Some((_, steps)) = core.scaled.get() {
            budget.pay(*steps);
        }
        let (found, _) = core.scaled.get_or_init(|| {
            let before = budget.used;
            (self.scaled(budget), budget.used - before)
        });
        if let Some((choice, cost)) = found {
            self.begin("slope scaling", choice.clone(), *cost);
        }
    }

    fn scaled(&self, budget: &mut Budget) -> Option<Start> {
        let core = self.core;
        let hoped = hoped(core);
        let mut random = fastrand::Rng::with_seed(SEED);
        let mut best: Option<Start> = None;
        for start in 0..STARTS {
            if !budget.lasts() {
                break;
            }
            let mut off = || match start {
                0 => 1.0,
                _ => 1.0 - OFF * random.f64(),
            };
            let mut price: Vec<f64> = hoped.iter().map(|cost| cost * off()).collect();
            let (mut least, mut since) = (u64::MAX, 0);
            while since < PATIENCE && budget.lasts() {
                let found = self.trees(None, budget, |i| (price[i] as u64, core.cost[i]));
                let (choice, cost) = found?;
                let ways = ways(core, &choice);
                budget.pay(core.nodes() as u64);
                for class in 0..core.classes {
                    if choice[class].is_none() {
                        continue;
                    }
                    for &node in core.members.of(class) {
                        let node = node as usize;
                        let told = core.cost[node] as f64 / ways[class];
                        price[node] = KEPT * price[node] + (1.0 - KEPT) * told;
                    }
                }
                since += 1;
                if cost < least {
                    (least, since) = (cost, 0);
                    if best.as_ref().is_none_or(|(_, least)| cost < *least) {
                        best = Some((choice, cost));
                    }
                }
            }
        }
        best
    }
}

/// What each node costs if all that may use its class do.
fn hoped(core: &Core) -> Vec<f64> {
    let users = |class: usize| {
        let users = core.users.of(class).iter();
        let mut classes: Vec<u32> = users.map(|user| core.class[*user as usize]).collect();
        classes.sort_unstable();
        classes.dedup();
        classes.len().max(1) as f64
    };
    let users: Vec<f64> = (0..core.classes).map(users).collect();
    let each = core.class.iter().zip(&core.cost);
    each.map(|(class, cost)| *cost as f64 / users[*class as usize])
        .collect()
}

/// How many ways lead from the roots to each class by a choice.
fn ways(core: &Core, choice: &[Option<u32>]) -> Vec<f64> {
    let mut users = vec![0u32; core.classes];
    for node in choice.iter().flatten() {
        for &child in core.children.of(*node as usize) {
            users[child as usize] += 1;
        }
    }
    let mut ways = vec![0.0; core.classes];
    for &root in &core.roots {
        ways[root as usize] += 1.0;
    }
    let is_free = |class: &u32| users[*class as usize] == 0;
    let mut ready: Vec<u32> = core.roots.iter().copied().filter(is_free).collect();
    ready.sort_unstable();
    ready.dedup();
    while let Some(class) = ready.pop() {
        let Some(node) = choice[class as usize] else {
            continue;
        };
        for &child in core.children.of(node as usize) {
            let c = child as usize;
            ways[c] = f64::min(ways[c] + ways[class as usize], WAYS);
            users[c] -= 1;
            if users[c] == 0 {
                ready.push(child);
            }
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::CoreNode;

    /// Twenty gates, each by a product of its own or a part of one for all; the latter is an eighth of the sum.
    #[test]
    fn what_all_may_share_is_found_from_the_beginning() {
        const GATES: u32 = 20;
        let node = |class, cost, children: &[u32]| CoreNode {
            class,
            cost,
            children: children.to_vec(),
            origin: 0,
            meets: Vec::new(),
        };
        let mut nodes = vec![node(GATES, 50, &[])];
        for gate in 0..GATES {
            nodes.push(node(gate, 20, &[]));
            nodes.push(node(gate, 1, &[GATES]));
        }
        let core = Core::new(GATES as usize + 1, nodes, (0..GATES).collect());
        let mut budget = Budget::new(1_000_000, None);
        let mut search = Search::new(&core, &[], &mut budget);
        assert_eq!(search.cost, 400);
        search.scale(&mut budget);
        assert_eq!((search.cost, search.method), (70, "slope scaling"));
    }
}
