//! Extraction: options, the solvers in order, the answer.

use crate::budget::Budget;
use crate::check::check;
use crate::core::Core;
use crate::greedy::{blocked, bottom_up};
use crate::reduce::{Reduced, reduce};
use crate::settle::settle_all;
use crate::units::Units;
use crate::{Choice, Error, Problem};
use fixedbitset::FixedBitSet;

/// Limits and starting points.
#[derive(Clone)]
pub struct Options<'a> {
    /// How many steps of search at most; a step is one node looked at in a sweep over what
    /// reduction left, some nanoseconds. The answer depends on this number alone, not on time.
    /// Default: 50 million.
    pub max_steps: u64,
    /// Asked now and then which share of something else than steps is spent, such as time; search
    /// ends at 1, and its stages at parts of it. Makes the answer depend on what it asks, so
    /// compilers leave it out. Default: none.
    pub spent: Option<&'a dyn Fn() -> f64>,
    /// Choices to start from. One that is no valid answer is passed over; the answer is never
    /// dearer than a valid one, and is the first of the cheapest unless a cheaper one is found.
    /// Default: none.
    pub seeds: Vec<Choice>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            max_steps: 50_000_000,
            spent: None,
            seeds: Vec::new(),
        }
    }
}

/// A valid choice for all roots, and what is known of the cheapest.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// The node of each class that is needed; none for the others.
    pub choice: Choice,
    /// The classes needed, children before users.
    pub order: Vec<usize>,
    /// The chosen nodes' cost, each once.
    pub cost: f64,
    /// No valid choice costs less.
    pub bound: f64,
    /// What bottom-up extraction by the cost of trees costs, to compare with.
    pub greedy: f64,
    /// Where the choice comes from: `seed 0`, `bottom-up`, `slope scaling`, `local search`, `decision diagram`, `branch and bound`.
    pub method: String,
    /// Steps of search taken.
    pub steps: u64,
}

impl Solution {
    /// Whether the cost is the bound: no choice is cheaper.
    pub fn is_optimal(&self) -> bool {
        self.bound >= self.cost
    }
}

/// A valid choice in the making.
struct Best {
    choice: Choice,
    order: Vec<usize>,
    cost: f64,
    units: u64,
    method: String,
}

/// The best choice found: the cheapest of the seeds, of bottom-up extraction and of what search
/// finds in the reduced problem, component by component: with the cost of each node shared out among
/// its users, bottom-up by what the cuts of the bound left of each cost, local search, branch and
/// bound. The bound is by cuts, and exact where search came to its end. Costs are compared in units of 2^-61 of all costs' sum or less, so that an
/// answer called optimal is so up to as many units as there are nodes.
///
/// # Errors
/// What [`Problem::check`] finds, or the first root that has no finite derivation.
pub fn solve(problem: &Problem, options: &Options) -> Result<Solution, Error> {
    let mut budget = Budget::new(options.max_steps, options.spent);
    let ready = Ready::new(problem, &mut budget)?;
    Ok(ready.solve(problem, &options.seeds, &mut budget))
}

/// A problem to solve several times, each time from other choices: it is made smaller once.
pub struct Solver {
    problem: Problem,
    ready: Ready,
    max_steps: u64,
    /// Steps that it took to make it smaller.
    used: u64,
}

impl Solver {
    /// Makes a problem ready to be solved in so many steps at most.
    ///
    /// # Errors
    /// As [`solve`] has them.
    pub fn new(problem: Problem, max_steps: u64) -> Result<Solver, Error> {
        let mut budget = Budget::new(max_steps, None);
        let ready = Ready::new(&problem, &mut budget)?;
        Ok(Solver {
            problem,
            ready,
            max_steps,
            used: budget.used,
        })
    }

    /// Whether this is the solver of a problem and so many steps.
    pub fn is_of(&self, problem: &Problem, max_steps: u64) -> bool {
        self.max_steps == max_steps && self.problem == *problem
    }

    /// What [`solve`] gives with these seeds.
    pub fn solve(&self, seeds: &[Choice]) -> Solution {
        let mut budget = Budget::new(self.max_steps, None);
        budget.pay(self.used);
        self.ready.solve(&self.problem, seeds, &mut budget)
    }
}

/// What is known of a problem before there is a choice to start from.
struct Ready {
    units: Units,
    bottom_up: Choice,
    reduced: Reduced,
}

impl Ready {
    fn new(problem: &Problem, budget: &mut Budget) -> Result<Ready, Error> {
        problem.check()?;
        let bottom_up = bottom_up(problem);
        for &root in &problem.roots {
            if bottom_up[root].is_none() {
                return Err(blocked(problem, &bottom_up, root));
            }
        }
        let units = Units::new(problem);
        budget.stage(2);
        let reduced = reduce(problem, &units.costs, budget);
        Ok(Ready {
            units,
            bottom_up,
            reduced,
        })
    }

    fn solve(&self, problem: &Problem, seeds: &[Choice], budget: &mut Budget) -> Solution {
        let units = &self.units;
        let mut best: Option<Best> = None;
        let mut offer = |method: String, choice: &Choice| {
            let Ok((order, cost)) = check(problem, choice) else {
                return;
            };
            let mut only = vec![None; problem.classes];
            let mut total = 0;
            for &class in &order {
                only[class] = choice[class];
                total += choice[class].map_or(0, |i| units.costs[i]);
            }
            if best.as_ref().is_none_or(|b| total < b.units) {
                best = Some(Best {
                    choice: only,
                    order,
                    cost,
                    units: total,
                    method,
                });
            }
        };
        for (i, seed) in seeds.iter().enumerate() {
            offer(format!("seed {i}"), seed);
        }
        offer("bottom-up".to_string(), &self.bottom_up);
        let greedy = check(problem, &self.bottom_up).map_or(f64::INFINITY, |(_, cost)| cost);
        let (found, bound, method) = search(problem, &self.reduced, seeds, budget);
        offer(method, &found);
        // Bottom-up extraction gave all roots a node, or the problem was refused: a choice that `check` takes, offered
        // above.
        let best = best.expect("what bottom-up extraction chose is valid");
        let proved = bound >= best.units;
        Solution {
            bound: if proved {
                best.cost
            } else {
                units.price(bound).min(best.cost)
            },
            greedy,
            choice: best.choice,
            order: best.order,
            cost: best.cost,
            method: best.method,
            steps: budget.used,
        }
    }
}

/// A choice by search, a bound in units, and the dearest method that was of use.
fn search(
    problem: &Problem,
    reduced: &Reduced,
    seeds: &[Choice],
    budget: &mut Budget,
) -> (Choice, u64, String) {
    let Some(cores) = &reduced.cores else {
        let none = vec![None; problem.classes];
        return (none, reduced.base, "bottom-up".to_string());
    };
    let seeds = |core: &Core| {
        let seeds = seeds.iter().map(|seed| {
            let mut nodes = FixedBitSet::with_capacity(core.nodes());
            for (i, &origin) in core.origin.iter().enumerate() {
                let class = problem.nodes[origin].class;
                if seed.get(class) == Some(&Some(origin)) {
                    nodes.insert(i);
                }
            }
            nodes
        });
        seeds.collect()
    };
    let mut choice = reduced.only.clone();
    let (mut bound, mut method) = (reduced.base, "bottom-up");
    let all = settle_all(cores, &seeds, budget);
    for (core, settled) in cores.iter().zip(all) {
        bound += settled.bound;
        if method == "bottom-up" {
            method = settled.method;
        }
        for node in settled.choice.iter().flatten() {
            let origin = core.origin[*node as usize];
            choice[problem.nodes[origin].class] = Some(origin);
        }
    }
    (choice, bound, method.to_string())
}
