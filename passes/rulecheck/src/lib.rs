//! Tests of rewrite rules: a rule is applied to random instances of its left side, and both sides
//! are run.
//!
//! An instance has random types, attributes and values under which the ops of the left side verify
//! and the guards hold: ranks 0 to 5, dimensions of 1 and 0, several element types, whatever
//! attributes the rule does not mention. Nothing is known of the ops but their tables: what
//! verifies is found by trying, with what fitted before as a guide. The rule is applied by the
//! ordinary rewriter; the right side must verify, have the types of the left, and compute the same
//! numbers: exactly where they are whole (values are small whole numbers, so that sums and products
//! are exact in any order), else within a tolerance. Where the left side is no finite number, the
//! right side may be anything. A rule of kind `reduce` must lower its measure.
//!
//! A counterexample is made as small as can be found: types, then attributes, then values. A rule
//! with too few instances is untested, which is no success.
#![forbid(unsafe_code)]

mod instance;
mod plan;
mod propose;
mod report;
mod sample;
mod shrink;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tir::rewrite::{Functions, Rule};

pub use instance::Fault;
pub use report::{json, text};

use instance::{Outcome, Subject, values};
use plan::{Plan, elems};
use propose::{Dice, Learned};
use sample::Sampler;
use shrink::{Found, Shrinker};

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Instances of each rule; default 64.
    pub instances: usize,
    /// A rule with fewer instances than this is untested; default 16.
    pub least: usize,
    /// Attempts to make an instance, for each rule; default 20,000.
    pub tries: usize,
    /// The seed; default 1.
    pub seed: u64,
    /// Threads; default 0: one per core. The verdicts do not depend on it.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            instances: 64,
            least: 16,
            tries: 20_000,
            seed: 1,
            threads: 0,
        }
    }
}

/// What instances were like.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Coverage {
    /// Instances.
    pub instances: usize,
    /// Attempts.
    pub tries: usize,
    /// How many have operands of this rank and none of a higher one.
    pub ranks: BTreeMap<usize, usize>,
    /// How many have a dimension of 1.
    pub unit: usize,
    /// How many have a dimension of 0.
    pub empty: usize,
    /// How many have elements of this type.
    pub elems: BTreeMap<String, usize>,
}

/// What is known of a rule after its test.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// Both sides agree on all instances.
    Right,
    /// They do not.
    Wrong {
        /// What differs.
        fault: Fault,
        /// Types and attributes of the counterexample, on one line.
        instance: String,
        /// Both sides with the values, as text that runs.
        program: String,
    },
    /// There were too few instances, and why.
    Untested(String),
}

/// A rule and what its test says.
#[derive(Clone, PartialEq, Debug)]
pub struct Tested {
    /// The rule.
    pub name: String,
    /// Its text.
    pub rule: String,
    /// What the test says.
    pub verdict: Verdict,
    /// What it was tested on.
    pub coverage: Coverage,
}

/// Tests a rule.
pub fn check(rule: &Arc<Rule>, functions: &Arc<Functions>, options: &Options) -> Tested {
    let mut test = Test {
        subject: Subject { rule, functions },
        dice: Dice::new(options.seed ^ seed_of(rule)),
        learned: Learned::default(),
        coverage: Coverage::default(),
        options,
    };
    let verdict = match rule.check(functions) {
        Ok(()) => test.run(),
        Err(error) => Verdict::Untested(error.message.clone()),
    };
    Tested {
        name: rule.name.to_string(),
        rule: rule.to_string(),
        verdict,
        coverage: test.coverage,
    }
}

/// Tests rules, several at once; the verdicts in the order of the rules.
pub fn check_all(
    rules: &[Arc<Rule>],
    functions: &Arc<Functions>,
    options: &Options,
) -> Vec<Tested> {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let threads = if options.threads == 0 {
        cores
    } else {
        options.threads
    };
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(rule) = rules.get(at) else {
                return done;
            };
            done.push((at, check(rule, functions, options)));
        }
    };
    let mut all: Vec<(usize, Tested)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.min(rules.len()))
            .map(|_| scope.spawn(work))
            .collect();
        let done = workers.into_iter().map(|worker| match worker.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        done.flatten().collect()
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, tested)| tested).collect()
}

/// A number that depends on the text of a rule and nothing else (FNV-1a).
fn seed_of(rule: &Rule) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    rule.to_string().bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

struct Test<'a> {
    subject: Subject<'a>,
    dice: Dice,
    learned: Learned,
    coverage: Coverage,
    options: &'a Options,
}

/// Attempts to learn what fits an op.
const WARM_UP: usize = 300;
/// Instances that are compared by size once a rule is found wrong.
const SMALL: usize = 40;

impl Test<'_> {
    fn run(&mut self) -> Verdict {
        for name in sample::ops(self.subject.rule).into_values() {
            let Some(info) = name.info() else {
                return Verdict::Untested(format!("the op '{name}' is not known"));
            };
            if let Some(any) = sample::any(info) {
                for _ in 0..WARM_UP {
                    Sampler::new(&any, &mut self.learned, &mut self.dice).sample();
                }
            }
        }
        let mut sampled = 0;
        while self.coverage.instances < self.options.instances
            && self.coverage.tries < self.options.tries
        {
            self.coverage.tries += 1;
            let Some((drawn, outcome)) = self.attempt(&mut sampled) else {
                continue;
            };
            match outcome {
                Outcome::None => {}
                Outcome::Equal(compared) => {
                    if self.is_welcome(&drawn, compared) {
                        self.count(&drawn);
                    }
                }
                Outcome::Wrong(_) => return self.wrong(drawn),
            }
        }
        let found = self.coverage.instances;
        if found >= self.options.least {
            return Verdict::Right;
        }
        let tries = self.coverage.tries;
        Verdict::Untested(match sampled {
            0 => format!("no types and attributes verify on its left side, of {tries} tried"),
            n => format!(
                "{found} instances in {tries} tries ({n} verify on its left side), expected {}",
                self.options.least
            ),
        })
    }

    fn attempt(&mut self, sampled: &mut usize) -> Option<(Drawn, Outcome)> {
        let sampler = Sampler::new(self.subject.rule, &mut self.learned, &mut self.dice);
        let plan = sampler.sample()?;
        *sampled += 1;
        let values = values(&plan, self.dice.seed())?;
        let constants = plan.leaves.iter().map(|_| self.dice.percent(12)).collect();
        let drawn = Drawn {
            plan,
            values,
            constants,
        };
        let outcome = self
            .subject
            .outcome(&drawn.plan, &drawn.values, &drawn.constants);
        Some((drawn, outcome))
    }

    /// Whether an instance counts: it says something, and there are not too many of its rank yet.
    fn is_welcome(&self, drawn: &Drawn, compared: usize) -> bool {
        let types = drawn.plan.types();
        let shapes = || types.iter().filter_map(|ty| ty.shape());
        if compared == 0 && !shapes().any(|s| s.contains(&0)) {
            return false;
        }
        let rank = shapes().map(<[i64]>::len).max().unwrap_or(0);
        let found = self.coverage.ranks.get(&rank).copied().unwrap_or(0);
        found < self.options.instances / 3 || self.coverage.tries > self.options.tries / 8
    }

    fn count(&mut self, drawn: &Drawn) {
        let types = drawn.plan.types();
        self.coverage.instances += 1;
        let ranks = types.iter().filter_map(|ty| Some(ty.shape()?.len()));
        if let Some(rank) = ranks.max() {
            *self.coverage.ranks.entry(rank).or_default() += 1;
        }
        for elem in elems(&types) {
            *self.coverage.elems.entry(elem).or_default() += 1;
        }
        let has = |n: i64| {
            types
                .iter()
                .any(|ty| ty.shape().is_some_and(|s| s.contains(&n)))
        };
        self.coverage.unit += usize::from(has(1));
        self.coverage.empty += usize::from(has(0));
    }

    /// Looks for further counterexamples, and makes the smallest smaller.
    fn wrong(&mut self, first: Drawn) -> Verdict {
        let mut best = first;
        let mut more = 0;
        for _ in 0..self.options.tries.min(2000) {
            if let Some((drawn, Outcome::Wrong(_))) = self.attempt(&mut 0) {
                more += 1;
                if drawn.plan.size() < best.plan.size() {
                    best = drawn;
                }
                if more == SMALL {
                    break;
                }
            }
        }
        let fault = match self
            .subject
            .outcome(&best.plan, &best.values, &best.constants)
        {
            Outcome::Wrong(fault) => fault,
            _ => Fault::Values("on one run and not on another".to_string()),
        };
        let found = Found {
            plan: best.plan,
            values: best.values,
            constants: best.constants,
            fault,
        };
        let found = Shrinker::new(&self.subject, found).run();
        let program = self.subject.program(&found.plan, &found.values);
        Verdict::Wrong {
            instance: report::instance(&found.plan),
            program: program.unwrap_or_default(),
            fault: found.fault,
        }
    }
}

/// An instance with values; some leaves that need not be constants are.
struct Drawn {
    plan: Plan,
    values: Vec<tir::Data>,
    constants: Vec<bool>,
}
