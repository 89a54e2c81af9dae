//! From an e-graph to a choice of e-nodes: cost, extraction, and the input as one that must be
//! beaten; or a choice that is drawn, which what holds of all programs is tested on.

use egg::Id;
use rustc_hash::FxHashMap;
use tir::data::Random;
use tir::interp::EvaluateOp;
use tir::{Name, OpInfo, Traits, Work};
use tir_extraction::{Choice, Options, Problem, bottom_up, check, solve};
use tir_graph::fusion::{FusionInfo, edge_fuses};

use crate::build::Program;
use crate::cost_model::{CostModel, Fused};
use crate::graph::{Graph, GraphExt};
use crate::layout;
use crate::node::{Head, Node};
use crate::one_op::OpCache;
use crate::seed::Seed;

/// A program with its costs, in cycles.
pub struct Extracted {
    /// The e-node of each class that is needed.
    pub choice: FxHashMap<Id, Node>,
    /// What the input costs, equal ops each.
    pub before: f64,
    /// What each of the seeds costs, if it is a program.
    pub seeds: Vec<Option<f64>>,
    /// What the choice costs.
    pub after: f64,
    /// The bytes that the input and the choice move, as they are paid for.
    pub bytes: [u64; 2],
    /// What no choice is below; nothing where the choice was drawn.
    pub bound: f64,
    /// Cost of each root by itself before and after, in the order of the program's.
    pub roots: Vec<(f64, f64)>,
    /// What was extracted from: classes by number, all their e-nodes, the one chosen of each.
    pub problem: Problem,
    /// The classes by number.
    pub classes: Vec<Id>,
    /// The e-nodes by number.
    pub nodes: Vec<Node>,
    /// The number of the e-node of each class.
    pub numbers: Choice,
}

/// The cost of an e-node in cycles: that of its op, without what fuses with any node of its operands.
pub fn cost(graph: &Graph, op_cache: &mut OpCache, model: &CostModel, node: &Node) -> f64 {
    let paid = paid(graph, op_cache, model, node);
    paid.map_or(0.0, |(work, fused)| model.cycles(&work, &fused) as f64)
}

/// The bytes that an e-node moves, by the same terms.
fn bytes(graph: &Graph, op_cache: &mut OpCache, model: &CostModel, node: &Node) -> u64 {
    let paid = paid(graph, op_cache, model, node);
    paid.map_or(0, |(work, fused)| CostModel::bytes(&work, &fused))
}

/// What an e-node is paid for: none for what is known, and for leaves.
fn paid(
    graph: &Graph,
    op_cache: &mut OpCache,
    model: &CostModel,
    node: &Node,
) -> Option<(Work, Fused)> {
    let Head::Op { types, .. } = node.head else {
        return None;
    };
    if is_known(graph, node) {
        return None;
    }
    let work = layout::paid(graph, model, node, op_cache.work(graph, node));
    let types = graph.analysis.tables.types.get(types);
    let part = |node: &Node| {
        let info = graph.name_of(node).and_then(|name| name.info());
        match node.head {
            Head::Op { types, .. } => Some(FusionInfo::new(
                info,
                graph.analysis.tables.types.get(types),
            )),
            _ => None,
        }
    };
    let info = graph.name_of(node).and_then(|name| name.info());
    let own = FusionInfo::new(info, types);
    let fuses = |child: &Id| {
        let nodes = &graph[*child].nodes;
        !graph[*child].data.known
            && nodes
                .iter()
                .filter_map(part)
                .any(|producer| edge_fuses(&producer, &own))
    };
    // A group holds one product or reduction: of several operands that could be in it one is.
    let mut operands = Vec::new();
    let mut decided = false;
    for (at, child) in node.children.iter().enumerate() {
        if !model.fuses || !fuses(child) {
            continue;
        }
        let injective = graph[*child].nodes.iter().filter_map(part);
        let injective = injective
            .filter(|p| edge_fuses(p, &own))
            .any(|p| p.kind == tir_graph::fusion::FusionKind::Injective);
        if injective || !decided {
            operands.push(at);
            decided |= !injective;
        }
    }
    Some((work, Fused { operands }))
}

/// Which program is extracted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// The cheapest that so many steps of search find, dearer than none of the seeds.
    Cheapest {
        /// Steps of search at most.
        max_steps: u64,
    },
    /// Any, drawn by a seed.
    Drawn {
        /// Equal seeds give equal choices.
        seed: u64,
    },
}

/// Powers of two that the cost of a node is off at most where a choice is drawn.
const OFF: f64 = 3.0;

/// A choice that is drawn: the cheapest trees where the cost of each node is off by a random factor. Without any it
/// would be the cheapest program but for what is shared; how far factors go is drawn first, so that cheap programs come
/// as often as dear ones. One cycle is added to all: among nodes that cost nothing it is chosen, too.
fn drawn(problem: &Problem, seed: u64) -> Choice {
    let mut random = Random::new(seed);
    let mut unit = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let off = OFF * unit();
    let mut noisy = problem.clone();
    for node in &mut noisy.nodes {
        node.cost = (node.cost + 1.0) * (off * (2.0 * unit() - 1.0)).exp2();
    }
    bottom_up(&noisy)
}

/// The classes and e-nodes of an e-graph, by number, and those that the program needs.
pub struct Listed {
    /// The classes.
    pub ids: Vec<Id>,
    /// The e-nodes: place in the input (`usize::MAX`: it is not in it), number of the class, node. The ops of the input
    /// come first, in their order: among equals the earlier one is chosen.
    pub all: Vec<(usize, usize, Node)>,
    /// The numbers of the classes of roots.
    pub roots: Vec<usize>,
    places: FxHashMap<Id, usize>,
}

impl Listed {
    /// Lists all e-nodes that can stand where the program needs them.
    pub fn new(graph: &Graph, program: &Program) -> Self {
        let ids = graph.ids();
        let places: FxHashMap<Id, usize> = ids.iter().enumerate().map(|(i, id)| (*id, i)).collect();
        let place = |id: Id| places[&graph.find(id)];
        let ranks = ranks(graph, program, &ids, &places);
        let input = originals(graph, program);
        let mut all: Vec<(usize, usize, Node)> = Vec::new();
        for (at, id) in ids.iter().enumerate() {
            for node in &graph[*id].nodes {
                let rank = node_rank(program, node, &|id| ranks[place(id)]);
                if rank <= ranks[at] {
                    let order = match node.head {
                        Head::Leaf(index) => Some(2 * program.leaves[index as usize].after),
                        _ => input.get(node).map(|at| 2 * at + 1),
                    };
                    all.push((order.unwrap_or(usize::MAX), at, node.clone()));
                }
            }
        }
        all.sort_by_key(|(order, at, _)| (*order, *at));
        let roots = program.roots.iter().map(|(_, id)| place(*id)).collect();
        Self {
            ids,
            all,
            roots,
            places,
        }
    }

    /// The number of a class.
    pub fn place(&self, graph: &Graph, id: Id) -> usize {
        self.places[&graph.find(id)]
    }

    /// Of each e-node the number of the last one that is it but for the order of its operands, where that decides nothing: the order
    /// that rules made.
    pub fn as_commuted(&self, graph: &Graph) -> Vec<usize> {
        let mut known: FxHashMap<(Head, Vec<Id>), usize> = FxHashMap::default();
        let mut numbers: Vec<usize> = (0..self.all.len()).collect();
        for number in (0..self.all.len()).rev() {
            let node = &self.all[number].2;
            let info = graph.name_of(node).and_then(|name| name.info());
            if info.is_some_and(|info| info.has(Traits::Commutative)) {
                let mut operands: Vec<Id> =
                    node.children.iter().map(|id| graph.find(*id)).collect();
                operands.sort_unstable();
                numbers[number] = *known.entry((node.head, operands)).or_insert(number);
            }
        }
        numbers
    }
}

/// Extracts a program.
///
/// # Errors
/// If the e-graph has no program for a root, which the input rules out: a bug.
pub fn extract(
    graph: &Graph,
    op_cache: &mut OpCache,
    model: &CostModel,
    program: &Program,
    seeds: &[Seed],
    how: How,
) -> Result<Extracted, String> {
    let listed = Listed::new(graph, program);
    let place = |id: Id| listed.place(graph, id);
    let Listed {
        ids, all, roots, ..
    } = &listed;
    let mut problem = Problem {
        classes: ids.len(),
        ..Problem::default()
    };
    for (_, class, node) in all {
        let children: Vec<usize> = node.children.iter().map(|id| place(*id)).collect();
        let cost = cost(graph, op_cache, model, node);
        problem
            .nodes
            .push(tir_extraction::Node::new(*class, cost, children));
    }
    problem.roots.clone_from(roots);
    // The input as a choice: of each class what is defined first.
    let mut first: Vec<Option<usize>> = vec![None; ids.len()];
    for (number, (order, class, _)) in all.iter().enumerate() {
        if *order != usize::MAX {
            first[*class].get_or_insert(number);
        }
    }
    let numbers = all.iter().enumerate();
    let numbers: FxHashMap<&Node, usize> = numbers.map(|(i, (_, _, node))| (node, i)).collect();
    let numbered = |seed: &Seed| -> Choice {
        let node = |id: &Id| seed.get(id).and_then(|node| numbers.get(node)).copied();
        ids.iter().map(node).collect()
    };
    let seeds: Vec<Choice> = seeds.iter().map(numbered).collect();
    let priced = seeds.iter().map(|seed| Some(check(&problem, seed).ok()?.1));
    let priced = priced.collect();
    let (choice, after, bound) = match how {
        How::Cheapest { max_steps } => {
            let options = Options {
                max_steps,
                seeds: std::iter::once(first.clone()).chain(seeds).collect(),
                ..Options::default()
            };
            let solution = solve(&problem, &options).map_err(|e| e.to_string())?;
            (solution.choice, solution.cost, solution.bound)
        }
        How::Drawn { seed } => {
            let choice = drawn(&problem, seed);
            let (_, cost) = check(&problem, &choice).map_err(|e| e.to_string())?;
            (choice, cost, 0.0)
        }
    };
    let live = program
        .ops
        .iter()
        .zip(&program.live)
        .filter(|(_, live)| **live);
    let live: Vec<Node> = live.map(|((_, id), _)| canonical(graph, *id)).collect();
    let before = live.iter().map(|node| cost(graph, op_cache, model, node));
    let before = before.sum();
    let moved = live.iter().map(|node| bytes(graph, op_cache, model, node));
    let moved = moved.sum();
    let costs = problem.roots.iter().map(|root| {
        let sum = |choice: &[Option<usize>]| -> f64 {
            let nodes = reached(&problem, choice, [*root]);
            nodes.iter().map(|n| problem.nodes[*n].cost).sum()
        };
        (sum(&first), sum(&choice))
    });
    let costs = costs.collect();
    let chosen = reached(&problem, &choice, problem.roots.iter().copied());
    let chosen = chosen.iter().map(|number| {
        let (_, class, node) = &all[*number];
        (ids[*class], node.clone())
    });
    let chosen: FxHashMap<Id, Node> = chosen.collect();
    let wanted = chosen
        .values()
        .map(|node| bytes(graph, op_cache, model, node));
    let wanted = wanted.sum();
    Ok(Extracted {
        choice: chosen,
        before,
        seeds: priced,
        after,
        bytes: [moved, wanted],
        bound,
        roots: costs,
        nodes: listed.all.into_iter().map(|(_, _, node)| node).collect(),
        numbers: choice,
        classes: listed.ids,
        problem,
    })
}

/// The nodes of a choice that roots need, each once.
fn reached(
    problem: &Problem,
    choice: &[Option<usize>],
    roots: impl IntoIterator<Item = usize>,
) -> Vec<usize> {
    let mut seen = vec![false; problem.classes];
    let mut work: Vec<usize> = roots.into_iter().collect();
    let mut nodes = Vec::new();
    while let Some(class) = work.pop() {
        if std::mem::replace(&mut seen[class], true) {
            continue;
        }
        if let Some(node) = choice[class] {
            nodes.push(node);
            work.extend(&problem.nodes[node].children);
        }
    }
    nodes.sort_unstable();
    nodes
}

/// The first place of each e-node that an op of the input is, and of results of such.
pub fn originals(graph: &Graph, program: &Program) -> FxHashMap<Node, usize> {
    let mut found = FxHashMap::default();
    for (at, (_, id)) in program.ops.iter().enumerate() {
        let node = canonical(graph, *id);
        found.entry(node).or_insert(at);
        for parent in graph[*id].parents() {
            let node = canonical(graph, parent);
            if matches!(node.head, Head::Result(_)) {
                found.entry(node).or_insert(at);
            }
        }
    }
    found
}

/// The e-node that was added under this number, with its children as they are called now.
pub fn canonical(graph: &Graph, id: Id) -> Node {
    let mut node = graph.nodes()[usize::from(id)].clone();
    for child in &mut node.children {
        *child = graph.find(*child);
    }
    node
}

/// How many ops of the skeleton must have run before a class can be computed: so that no operand
/// of the skeleton comes to depend on a later op of it.
fn ranks(
    graph: &Graph,
    program: &Program,
    ids: &[Id],
    places: &FxHashMap<Id, usize>,
) -> Vec<usize> {
    let mut ranks = vec![usize::MAX; ids.len()];
    loop {
        let mut changed = false;
        for (at, id) in ids.iter().enumerate() {
            let best = graph[*id]
                .nodes
                .iter()
                .map(|node| node_rank(program, node, &|id| ranks[places[&graph.find(id)]]));
            let best = best.min().unwrap_or(usize::MAX);
            if best < ranks[at] {
                ranks[at] = best;
                changed = true;
            }
        }
        if !changed {
            return ranks;
        }
    }
}

fn node_rank(program: &Program, node: &Node, rank: &dyn Fn(Id) -> usize) -> usize {
    match node.head {
        Head::Leaf(index) => program.leaves[index as usize].rank,
        _ => node.children.iter().map(|id| rank(*id)).max().unwrap_or(0),
    }
}

/// Whether a node is a constant, or computed from constants alone.
fn is_known(graph: &Graph, node: &Node) -> bool {
    let mut found = graph.name_of(node).and_then(Name::info).into_iter();
    let folds = |info: &OpInfo| info.can_fold() || info.interface::<dyn EvaluateOp>().is_some();
    let computed = || {
        matches!(node.head, Head::Op { region: None, .. })
            && !node.children.is_empty()
            && node.children.iter().all(|id| graph[*id].data.known)
    };
    found.any(|info| info.has(Traits::ConstantLike) || folds(info) && computed())
}
