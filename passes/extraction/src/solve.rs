//! Extraction: options, the solvers in order, the answer.

use crate::check::check;
use crate::greedy::{blocked, bottom_up};
use crate::{Choice, Error, Problem};

/// Limits and starting points.
#[derive(Clone)]
pub struct Options<'a> {
    /// How many steps of search at most; a step is one propagation over the reduced problem.
    /// The answer depends on this number alone, not on time. Default: 20,000.
    pub max_steps: u64,
    /// Asked between steps; search ends once it says true. Makes the answer depend on what it
    /// asks, so compilers leave it out. Default: none.
    pub stop: Option<&'a dyn Fn() -> bool>,
    /// Choices to start from. One that is no valid answer is passed over; the answer is never
    /// dearer than a valid one, and is the first of the cheapest if search finds none cheaper.
    /// Default: none.
    pub seeds: Vec<Choice>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            max_steps: 20_000,
            stop: None,
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
    /// Where the choice comes from: `seed 0`, `bottom-up`, `local search`, `branch and bound`.
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

/// The best choice found.
///
/// # Errors
/// What [`Problem::check`] finds, or the first root that has no finite derivation.
pub fn solve(problem: &Problem, options: &Options) -> Result<Solution, Error> {
    problem.check()?;
    let greedy = bottom_up(problem);
    for &root in &problem.roots {
        if greedy[root].is_none() {
            return Err(blocked(problem, &greedy, root));
        }
    }
    let mut best: Option<Solution> = None;
    let seeds = options.seeds.iter().enumerate();
    let mut all: Vec<(String, &Choice)> = seeds.map(|(i, s)| (format!("seed {i}"), s)).collect();
    all.push(("bottom-up".to_string(), &greedy));
    for (method, choice) in all {
        let Ok((order, cost)) = check(problem, choice) else {
            continue;
        };
        if best.as_ref().is_none_or(|b| cost < b.cost) {
            let mut only = vec![None; problem.classes];
            for &class in &order {
                only[class] = choice[class];
            }
            best = Some(Solution {
                choice: only,
                order,
                cost,
                bound: 0.0,
                method,
                steps: 0,
            });
        }
    }
    Ok(best.expect("bottom-up extraction computes every class that can be computed"))
}
