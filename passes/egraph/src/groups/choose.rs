//! Extraction of groups.
//!
//! To plan a group takes milliseconds, so extraction chooses, what it chose is planned, and it runs again; but where most
//! groups are of tensors of few dimensions, those are planned at once: that takes a fraction of a millisecond each, and what is known
//! need not be expected. Until a group is
//! planned it counts as what is *expected*: its products on the tiles that they fill, its bytes in the runs that they have
//! unfused, and more by the share that groups with the same anchor took more, less some *hope*. Where nothing that is chosen so
//! is new, and much is left to gain, groups count as their *bounds* ([`Cutter::bound`]), which none takes less than: what is
//! left out then is left out for good.

mod favour;
mod prices;
mod program;
mod search;

use egg::Id;
use rustc_hash::{FxHashMap, FxHashSet};
use tir::PassCx;
use tir_extraction::{Choice, EGraph, Options, Problem, Solution, Solver, solve};
use tir_graph::fusion::{FusionInfo, anchor};

use super::body::{Body, Price};
use super::cuts::{Candidate, Cut, Cutter, Kept};
use crate::build::Program;
use crate::cost_model::CostModel;
use crate::extract::{Listed, cost};
use crate::graph::{Graph, GraphExt};
use crate::layout;
use crate::node::{Head, Node};
use crate::one_op::{OpCache, ask};
use crate::seed::Seed;
use favour::layouts;
use prices::Prices;

/// How far the search goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Groups of a class, apart from those of one op.
    pub cuts: usize,
    /// Ops of a group.
    pub nodes: usize,
    /// Different groups that are planned, beside those that are at once.
    pub plans: usize,
    /// Groups of tensors of so many dimensions at most are planned before one is chosen, where most are such, and no more than `plans`;
    /// the others, too, where they are few.
    pub at_once: usize,
    /// Times that extraction runs without finding something better.
    pub rounds: usize,
    /// Steps of search of each to begin with.
    pub steps: u64,
    /// Steps of search of each at most: extraction goes on with more where one brought nothing to plan and proved nothing.
    pub most_steps: u64,
    /// What is better by one in so many cycles is a gain.
    pub gain: u64,
    /// Search ends where it can gain one in so many cycles at most.
    pub near: u64,
    /// Groups that are not planned count as their bounds in the end where more than one in so many cycles is expected to be left to
    /// gain, and there are no more groups than are planned.
    pub gap: u64,
    /// Whether a bound is asked for.
    pub bound: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            cuts: 6,
            nodes: 5,
            plans: 2000,
            at_once: 3,
            rounds: 24,
            steps: 2_000_000,
            most_steps: 10_000_000,
            gain: 500,
            near: 200,
            gap: 5,
            bound: false,
        }
    }
}

impl Terms {
    /// What is left of some cycles without one in so many.
    fn without(one_in: u64) -> f64 {
        1.0 - 1.0 / one_in.max(1) as f64
    }
}

/// A program of groups.
pub struct Grouped {
    /// The e-node of each class that is needed.
    pub choice: FxHashMap<Id, Node>,
    /// The classes of each group, operands first, but of those that another group computes by other e-nodes.
    pub groups: Vec<Vec<Id>>,
}

/// What was chosen.
pub struct Chosen {
    /// The program of the fewest cycles, each group by itself.
    pub program: Grouped,
    /// Others that may take fewer, for groups share what no price of one says: the best one before the search had more steps,
    /// and those that are best where products in one layout count less.
    pub others: Vec<Grouped>,
    /// Cycles of all groups, one behind the other.
    pub cycles: f64,
    /// No program of the groups that there are takes fewer, each by itself: of what was planned by its price, of all else by
    /// its products at the unit's peak or what it reads at the engine's, whatever its tiles and runs.
    pub bound: Option<f64>,
    /// The limit that the search reached, by its name and value, if it did.
    pub limit: Option<(&'static str, usize)>,
    /// Groups that there are, different ones that were planned, and times that extraction ran.
    pub counts: [usize; 3],
    /// Groups that took less than their bounds when they were planned: none, or bounds are wrong. Not those that take nothing, for
    /// what is moved turned out to lie as it is wanted.
    pub below: usize,
    /// The groups as nodes of an extraction problem, and which are chosen, if that was asked for.
    pub named: Option<(EGraph, Choice)>,
}

/// The share that is hoped for of what other groups with an anchor take, as a multiple of what was expected.
const HOPE: f64 = 0.85;

/// Chooses groups so that their cycles are few; `None` where what groups agree about makes no program. With a prefix of
/// names, gives the groups, too.
///
/// # Errors
/// If the e-graph has no program for a root, which the input rules out: a bug.
pub fn choose(
    (graph, op_cache): (&Graph, &mut OpCache),
    model: &CostModel,
    program: &Program,
    seeds: &[Seed],
    (price, cx): (&dyn Price, &PassCx<'_>),
    terms: Terms,
    named: Option<&str>,
) -> Result<Option<Chosen>, String> {
    let listed = Listed::new(graph, program);
    // Of `a + b` and `b + a` one is chosen from: with both, each group of three sums would be there eight times.
    let commuted = listed.as_commuted(graph);
    let seeds = numbered(&listed, &commuted, seeds);
    let mut problem = Groups::new(
        (graph, op_cache),
        model,
        (&listed, &commuted),
        &seeds,
        terms,
    );
    let mut prices = Prices::new(price, cx);
    problem.price_at_once(&mut prices, terms);
    let mut best: Option<Solution> = None;
    let mut others: Vec<Solution> = Vec::new();
    let (mut limit, mut rounds) = (None, 0);
    // Where sums of prices mislead, more groups to choose from may be worse: what is found without them is compared whole.
    for all in [false, true] {
        if all && !problem.usual.contains(&false) {
            break;
        }
        others.extend(best.clone());
        let taken = |groups: &Groups, at: usize| all || groups.usual[at];
        // What each seed takes by its best groups. It may be no program any more: classes that it names have been united.
        for seed in &seeds {
            let inside = |groups: &Groups, at: usize| {
                (taken(groups, at) && groups.is_inside(at, seed)).then_some(1.0)
            };
            problem.settled(&inside, &mut best, &mut prices, terms);
        }
        // What products in one layout share, no price of one says: for each, a program that is cheap if they take less.
        for layout in layouts(&problem.cutter.nodes) {
            let favoured =
                |groups: &Groups, at: usize| taken(groups, at).then(|| groups.share_in(at, layout));
            others.extend(problem.settled(&favoured, &mut best, &mut prices, terms));
        }
        let share = |groups: &Groups, at: usize| taken(groups, at).then_some(1.0);
        let found = problem.search(&share, &mut best, &mut prices, terms)?;
        others.extend(found.earlier);
        rounds += found.rounds;
        limit = found.limit;
    }
    let Some(best) = best else {
        return Ok(None);
    };
    let (solution, program) = problem.agreeing(&listed, best, &mut prices, terms);
    let bound = terms.bound.then(|| problem.bound(&solution, terms.steps));
    let bound = bound.transpose()?;
    let named = named.map(|prefix| {
        let groups = problem.named(graph, &listed, prefix);
        (groups, solution.choice.clone())
    });
    let counts = [problem.cuts.len(), prices.count(), rounds];
    let others = problem.others(&listed, others, &solution);
    Ok(program.map(|program| Chosen {
        program,
        others,
        cycles: solution.cost,
        bound,
        limit,
        counts,
        below: problem.below,
        named,
    }))
}

/// Programs by the numbers of their nodes, each in the order of operands that is chosen from.
fn numbered(listed: &Listed, commuted: &[usize], seeds: &[Seed]) -> Vec<FxHashSet<usize>> {
    let numbers = listed.all.iter().zip(commuted);
    let numbers: FxHashMap<&Node, usize> = numbers.map(|((.., node), i)| (node, *i)).collect();
    let of = |seed: &Seed| {
        let nodes = seed.values().filter_map(|node| numbers.get(node));
        nodes.copied().collect()
    };
    let mut input: Vec<Option<usize>> = vec![None; listed.ids.len()];
    for (number, (order, class, _)) in listed.all.iter().enumerate() {
        if *order != usize::MAX {
            input[*class].get_or_insert(number);
        }
    }
    let input: FxHashSet<usize> = input.into_iter().flatten().collect();
    std::iter::once(input).chain(seeds.iter().map(of)).collect()
}

/// What no choice costs less than, as far as so many steps find.
fn bound(problem: &Problem, best: &Solution, steps: u64) -> Result<f64, String> {
    let options = Options {
        max_steps: steps,
        seeds: vec![best.choice.clone()],
        ..Options::default()
    };
    let solution = solve(problem, &options).map_err(|e| e.to_string())?;
    Ok(solution.bound)
}

/// The groups as nodes of an extraction problem.
struct Groups {
    cutter: Cutter,
    cuts: Vec<Cut>,
    /// Whether each cut would be there without seeds, where there are no several layouts.
    usual: Vec<bool>,
    /// What each cut is expected to take.
    guesses: Vec<f64>,
    /// What the ops of each cut are said to cost, where it is no nest.
    apart: Vec<f64>,
    /// Whether its cost is no bound.
    priced: Vec<bool>,
    /// What each cut computes, by number; none of what is by itself.
    bodies: Vec<Option<usize>>,
    /// What there is to compute: equal layers compute the same.
    all: Vec<Body>,
    /// The cuts that compute each.
    same: Vec<Vec<usize>>,
    /// The node of each cut that decides its loops, by what it computes alone.
    anchors: Vec<Option<usize>>,
    /// The least that groups of an anchor take, as a multiple of what was expected of them.
    hopes: FxHashMap<usize, f64>,
    /// Whether groups that are not planned count as what they are expected to take, not as their bounds.
    expects: bool,
    /// Groups that took less than their bounds.
    below: usize,
    problem: Problem,
}

impl Groups {
    fn new(
        (graph, op_cache): (&Graph, &mut OpCache),
        model: &CostModel,
        (listed, commuted): (&Listed, &[usize]),
        seeds: &[FxHashSet<usize>],
        terms: Terms,
    ) -> Self {
        let bytes = |id: Id| -> u64 {
            let types = graph.types(id).iter();
            let size = |ty: &tir::Type| ty.elements().unwrap_or(0) * ty.bytes().unwrap_or(0);
            types.map(|ty| size(ty) as u64).sum()
        };
        let moves = |id: &Id| bytes(*id).div_ceil(model.bytes_per_cycle);
        let moves: Vec<u64> = listed.ids.iter().map(moves).collect();
        let mut candidates = Vec::new();
        let mut fixed = Vec::new();
        let mut classes = vec![Vec::new(); listed.ids.len()];
        for (number, (_, class, node)) in listed.all.iter().enumerate() {
            if commuted[number] == number {
                classes[*class].push(number);
            }
            let known = |id: &Id| graph[*id].data.known;
            let is_known = known(&listed.ids[*class]);
            let info = match node.head {
                Head::Op {
                    region: None,
                    types,
                    ..
                } if !is_known && graph.analysis.tables.types.get(types).len() == 1 => {
                    ask(graph, node, |op| FusionInfo::of(op.ir, op.id))
                }
                _ => None,
            };
            let places = |keep: &dyn Fn(&Id) -> bool| {
                let mut places: Vec<usize> = Vec::new();
                for child in node.children.iter().filter(|id| keep(id)) {
                    let place = listed.place(graph, *child);
                    if !places.contains(&place) {
                        places.push(place);
                    }
                }
                places.into_iter().collect()
            };
            let work = op_cache.work(graph, node);
            let all = |work: &tir::Work| -> u64 { work.reads.iter().chain(&work.writes).sum() };
            let paid = all(&layout::least_paid(graph, model, node, work.clone()));
            let short = paid
                .saturating_sub(all(&work))
                .div_ceil(model.bytes_per_cycle);
            let loaded = node.children.iter().filter(|id| known(id));
            // What is stored in the order that is wanted is not read: it is seen otherwise.
            let read = node.children.iter().zip(&work.reads);
            let read = read.filter(|(_, bytes)| paid > 0 && **bytes > 0);
            let reads =
                read.map(|(id, bytes)| (listed.place(graph, *id), bytes / model.bytes_per_cycle));
            let moves_alone = work.products.is_empty() && work.scalars == 0;
            candidates.push(Candidate {
                class: *class,
                needs: places(&|_| true),
                children: places(&|id| !known(id) && !is_known),
                info,
                products: work.products.iter().map(|p| model.product(p)).sum(),
                short,
                known: loaded.map(|id| moves[listed.place(graph, *id)]).sum(),
                least: work.products.iter().map(|p| model.least_product(p)).sum(),
                reads: reads.collect(),
                computes_in: layout::computes_in(graph, node),
                joins: moves_alone && work.reads.len() > 1,
            });
            fixed.push(match is_known {
                true => 0.0,
                false => cost(graph, op_cache, model, node),
            });
        }
        let mut cutter = Cutter {
            nodes: candidates,
            classes,
            moves,
            kept: Kept {
                cuts: terms.cuts,
                nodes: terms.nodes,
            },
            seeds: Vec::new(),
        };
        // Where each product is there in several layouts, they would push those of seeds out of the usual ones.
        let single = layouts(&cutter.nodes).is_empty();
        let usual = single.then(|| cutter.cuts());
        let usual: FxHashSet<Cut> = usual.into_iter().flatten().flatten().collect();
        cutter.seeds = seeds.to_vec();
        let mut made = Self {
            cuts: Vec::new(),
            usual: Vec::new(),
            guesses: Vec::new(),
            apart: Vec::new(),
            priced: Vec::new(),
            bodies: Vec::new(),
            all: Vec::new(),
            same: Vec::new(),
            anchors: Vec::new(),
            hopes: FxHashMap::default(),
            expects: true,
            below: 0,
            problem: Problem {
                classes: listed.ids.len(),
                nodes: Vec::new(),
                roots: listed.roots.clone(),
            },
            cutter,
        };
        let mut numbers: FxHashMap<Body, usize> = FxHashMap::default();
        let mut alone: Vec<Option<usize>> = vec![None; listed.all.len()];
        let mut anchors = Vec::new();
        for (class, cuts) in made.cutter.cuts().into_iter().enumerate() {
            for cut in cuts {
                let own = made.cutter.nodes[cut.nodes[0]].info.is_none();
                let apart: f64 = cut.nodes.iter().map(|node| fixed[*node]).sum();
                let (cost, guess) = match own {
                    true => (apart, apart),
                    false => {
                        let (bound, guess) = (made.cutter.bound(&cut), made.cutter.guess(&cut));
                        (bound as f64, guess as f64)
                    }
                };
                let nodes = cut.nodes.iter().map(|node| &made.cutter.nodes[*node]);
                let inside = |class: &usize| nodes.clone().any(|node| node.class == *class);
                // What is known is not priced, but is there.
                let needs = nodes.clone().flat_map(|node| node.needs.iter().copied());
                let mut children: Vec<usize> = needs.filter(|class| !inside(class)).collect();
                children.sort_unstable();
                children.dedup();
                made.problem
                    .nodes
                    .push(tir_extraction::Node::new(class, cost, children));
                made.usual.push(!single || usual.contains(&cut));
                made.guesses.push(guess.max(cost));
                made.apart.push(apart);
                made.priced.push(own);
                let infos: Option<Vec<FusionInfo>> = cut
                    .nodes
                    .iter()
                    .map(|n| made.cutter.nodes[*n].info)
                    .collect();
                let at = infos.and_then(|infos| anchor(&infos)).unwrap_or(0);
                anchors.push(cut.nodes[at]);
                let body = if own {
                    None
                } else {
                    made.body(graph, listed, &cut)
                };
                let body = body.map(|body| match numbers.get(&body) {
                    Some(number) => *number,
                    None => {
                        made.all.push(body.clone());
                        made.same.push(Vec::new());
                        numbers.insert(body, made.all.len() - 1);
                        made.all.len() - 1
                    }
                });
                if let Some(body) = body {
                    made.same[body].push(made.cuts.len());
                    if let [node] = cut.nodes[..] {
                        alone[node] = Some(body);
                    }
                }
                made.bodies.push(body);
                made.cuts.push(cut);
            }
        }
        made.anchors = anchors.into_iter().map(|node| alone[node]).collect();
        made
    }

    /// What a cut computes.
    fn body(&self, graph: &Graph, listed: &Listed, cut: &Cut) -> Option<Body> {
        let order = self.cutter.order(&cut.nodes)?;
        let nodes = order.iter().map(|at| {
            let (_, class, node) = &listed.all[*at];
            (listed.ids[*class], node)
        });
        let nodes: Vec<(Id, &Node)> = nodes.collect();
        Body::of(graph, &nodes)
    }

    /// What no choice of groups costs less than: prices where there are some, and no hope.
    fn bound(&self, best: &Solution, steps: u64) -> Result<f64, String> {
        bound(&self.problem, best, steps)
    }

    /// The same if each group that is not planned took what is expected, and no hope.
    fn expected(&self, best: &Solution, steps: u64) -> Result<f64, String> {
        let mut problem = self.problem.clone();
        for (at, node) in problem.nodes.iter_mut().enumerate() {
            if !self.priced[at] {
                node.cost = node.cost.max(self.guesses[at]);
            }
        }
        bound(&problem, best, steps)
    }

    /// Whether a group is of nodes of a set, or of what is by itself in any case.
    fn is_inside(&self, at: usize, set: &FxHashSet<usize>) -> bool {
        let nodes = &self.cuts[at].nodes;
        self.cutter.nodes[nodes[0]].info.is_none() || nodes.iter().all(|n| set.contains(n))
    }

    /// The cheapest choice that is found of groups that have a share, each at that share of its price, no dearer than the one to
    /// start from. Where prices are those of the last time, so is what is left of the problem.
    fn solve(
        &self,
        share: &dyn Fn(usize) -> Option<f64>,
        from: Option<&Solution>,
        steps: u64,
        last: &mut Option<Solver>,
    ) -> Result<Solution, String> {
        let all = (0..self.cuts.len()).filter_map(|at| Some((at, share(at)?)));
        let (kept, shares): (Vec<usize>, Vec<f64>) = all.unzip();
        let nodes = kept.iter().zip(&shares).map(|(at, own)| {
            let node = &self.problem.nodes[*at];
            let share = self.anchors[*at].and_then(|anchor| self.hopes.get(&anchor));
            let share = share.map_or(1.0, |share| f64::max(1.0, HOPE * share));
            let cost = match self.priced[*at] || !self.expects {
                true => node.cost,
                false => node.cost.max(share * self.guesses[*at]),
            };
            tir_extraction::Node {
                cost: own * cost,
                ..node.clone()
            }
        });
        let problem = Problem {
            classes: self.problem.classes,
            nodes: nodes.collect(),
            roots: self.problem.roots.clone(),
        };
        let places = kept.iter().enumerate();
        let places: FxHashMap<usize, usize> = places.map(|(i, at)| (*at, i)).collect();
        let seed = from.map(|from| {
            let number = |n: &Option<usize>| places.get(&(*n)?).copied();
            from.choice.iter().map(number).collect()
        });
        let solver = match last.take().filter(|last| last.is_of(&problem, steps)) {
            Some(solver) => solver,
            None => Solver::new(problem, steps).map_err(|e| e.to_string())?,
        };
        let mut solution = last.insert(solver).solve(seed.as_slice());
        for number in solution.choice.iter_mut().flatten() {
            *number = kept[*number];
        }
        Ok(solution)
    }
}
