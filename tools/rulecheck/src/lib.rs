//! Tests of rewrite rules: a rule is applied to random instances of its left side, and both sides
//! are run.
//!
//! An instance has random types, attributes and values under which the ops of the left side verify
//! and the guards hold: ranks 0 to 5, dimensions of 1 and 0, several element types, whatever
//! attributes the rule does not mention. Nothing is known of the ops but their tables: what
//! verifies is found by trying, with what fitted before as a guide. Values are whole numbers,
//! fractions, powers of two and the extremes of their types (module `draw`). The rule is applied by the
//! ordinary rewriter; the right side must verify, have the types of the left, and agree with it as
//! the rule's [`Class`](tir::Class) says (module `compare`). A rule of kind `reduce` must lower its
//! measure.
//!
//! A counterexample is made as small as can be found: types, then attributes, then values. A rule
//! with too few instances is untested, which is no success.
#![forbid(unsafe_code)]

mod compare;
mod corpus;
mod draw;
mod generate;
mod instance;
mod mutate;
mod plan;
mod report;
mod sample;
mod shrink;
mod tested;
mod warm_up;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tir::data::Random;
use tir::rewrite::{Functions, Kind, Rule};

pub use instance::Fault;
pub use mutate::{Mutant, mutants};
pub use report::{json, text};
pub use tested::{Coverage, Tested, Verdict};

use corpus::Corpus;
use draw::values;
use instance::{Outcome, Subject};
use plan::Plan;
use sample::Sampler;
use shrink::{Found, Shrinker};
use warm_up::WarmUp;

/// How much is tried.
#[derive(Clone, Debug)]
pub struct Options {
    /// Instances of each rule; default 64.
    pub instances: usize,
    /// A rule with fewer instances than this is untested; default 16.
    pub least: usize,
    /// Attempts to make an instance, for each rule; default 20,000.
    pub tries: usize,
    /// The seed; default 1.
    pub seed: u64,
    /// Whether a rule is wrong whose right side cannot be built on some instance; default true. If
    /// not, these count as none, as if shapes were checked wherever the rule is used.
    pub builds: bool,
    /// Whether counterexamples are made small; default true.
    pub shrink: bool,
    /// Element types to draw besides those that are built in; default none.
    pub types: Vec<tir::Type>,
    /// Threads; default 0: one per core. The verdicts do not depend on it.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            instances: 64,
            least: 16,
            tries: 30_000,
            seed: 1,
            builds: true,
            shrink: true,
            types: Vec::new(),
            threads: 0,
        }
    }
}

/// Tests a rule.
pub fn check(rule: &Arc<Rule>, functions: &Arc<Functions>, options: &Options) -> Tested {
    test(rule, functions, options, &WarmUp::new(options))
}

fn test(
    rule: &Arc<Rule>,
    functions: &Arc<Functions>,
    options: &Options,
    lessons: &WarmUp,
) -> Tested {
    let mut test = Test {
        subject: Subject {
            rule,
            functions,
            builds: options.builds,
        },
        choices: choices(rule, functions),
        random: Random::named(options.seed, &rule.to_string()),
        corpus: lessons.corpus(),
        lessons,
        turn: 0,
        coverage: Coverage::default(),
        refused: 0,
        unusual: BTreeMap::new(),
        unrun: None,
        passed: 0,
        hollow: 0,
        vacant: 0,
        options,
    };
    let verdict = match rule.check(functions) {
        Ok(()) => test.run(),
        Err(error) => Verdict::Untested(error.message.clone()),
    };
    Tested {
        name: rule.name.to_string(),
        rule: rule.to_string(),
        class: rule.class,
        loc: rule.loc,
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
    let lessons = WarmUp::new(options);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(rule) = rules.get(at) else {
                return done;
            };
            done.push((at, test(rule, functions, options, &lessons)));
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

/// The rule for each choice of ops that its variables stand for, and for each of the first results that a term may stand
/// for. A term that stands for several is there once to three times: in turn where there are as many ops, else for each
/// choice of ops.
fn choices(rule: &Rule, functions: &Functions) -> Vec<Rule> {
    if rule.has_results() {
        let each = RESULTS.map(|number| choices(&rule.with_results(number), functions));
        return each.into_iter().flatten().collect();
    }
    let ops = rule.instances(functions);
    if !rule.has_lists() {
        return ops;
    }
    let few = ops.len() < COUNTS.len();
    let one = |(at, rule): (usize, Rule)| {
        let counts = match few {
            true => &COUNTS[..],
            false => &COUNTS[at % COUNTS.len()..][..1],
        };
        let made = counts.iter().map(|count| rule.with_lists(*count));
        made.collect::<Vec<Rule>>()
    };
    ops.into_iter().enumerate().flat_map(one).collect()
}

struct Test<'a> {
    subject: Subject<'a>,
    /// The rule for each choice of ops that its variables stand for: left sides are drawn of each
    /// in turn, and the rule itself is applied to them.
    choices: Vec<Rule>,
    random: Random,
    corpus: Corpus,
    lessons: &'a WarmUp,
    /// How many attempts there were, of all choices together.
    turn: usize,
    coverage: Coverage,
    /// Instances of ranks of which there were enough; after some there may be no others.
    refused: usize,
    /// How many instances have an attribute that is not the default, by op and name.
    unusual: BTreeMap<(&'static str, &'static str), usize>,
    /// Why a left side did not run.
    unrun: Option<String>,
    /// Instances that were passed over for others with such attributes.
    passed: usize,
    /// Instances with a dimension of size 0 and something to compare, made of others.
    hollow: usize,
    /// Instances without anything to compare.
    vacant: usize,
    options: &'a Options,
}

/// Instances that are passed over at most for rare attributes, for each that is wanted.
const SELDOM: usize = 12;
/// Choices of constants for each instance of a rule of kind `reduce`.
const CONSTANTS: usize = 4;
/// How often a term that stands for several is drawn.
const COUNTS: [usize; 3] = [2, 3, 1];
/// The results that a term is drawn as that stands for any.
const RESULTS: [usize; 3] = [0, 1, 2];
/// Instances wanted for each choice of ops, where a rule has variables for ops.
const EACH: usize = 8;
/// One instance of so many has nothing to compare, one a dimension of size 0 and something to compare.
const HOLLOW: usize = 8;
/// Further values for each instance of few elements.
const VALUES: usize = 1;
/// The same where an op changes the type of elements: it may be wrong for few numbers.
const CHANGED: usize = 8;
/// Most elements of an instance that is run with further values.
const FEW: usize = 256;
/// Instances that are compared by size once a rule is found wrong.
const SMALL: usize = 40;

impl Test<'_> {
    fn run(&mut self) -> Verdict {
        if self.choices.is_empty() {
            return Verdict::Untested("no op is in the classes of its variables".to_string());
        }
        let mut names = BTreeMap::new();
        self.choices
            .iter()
            .for_each(|rule| names.extend(sample::ops(rule)));
        for name in names.into_values() {
            match self.lessons.of(name) {
                Some(corpus) => self.corpus.merge(&corpus),
                None => return Verdict::Untested(format!("the op '{name}' is not known")),
            }
        }
        let wanted = self.options.instances.max(EACH * self.choices.len());
        while self.coverage.instances < wanted && self.coverage.tries < self.options.tries {
            self.coverage.tries += 1;
            let Some((drawn, outcome)) = self.attempt() else {
                continue;
            };
            match outcome {
                Outcome::None => {}
                Outcome::Unrun(why) => self.unrun = Some(why),
                Outcome::Equal(compared) => {
                    if self.is_welcome(&drawn, compared) {
                        self.coverage.count(&drawn.plan.types(), compared);
                        self.count_ops(drawn.choice);
                        let worse = self.emptied(&drawn).or_else(|| self.other_values(&drawn));
                        if let Some(worse) = worse.or_else(|| self.other_constants(drawn)) {
                            return self.wrong(worse);
                        }
                    }
                }
                Outcome::Wrong(_) => return self.wrong(drawn),
            }
        }
        let found = self.coverage.instances;
        let tries = self.coverage.tries;
        let compared = found - self.coverage.vacant;
        // What agrees on nothing says nothing of numbers.
        if found >= self.options.least && compared == 0 {
            return Verdict::Untested(format!(
                "its guards held for tensors without elements alone: {found} instances in {tries} tries, of which none has an \
                 element to compare"
            ));
        }
        if found >= self.options.least {
            return Verdict::Right;
        }
        Verdict::Untested(match self.coverage.built {
            0 => {
                let stuck = match self.corpus.stuck() {
                    Some(op) => format!("; most often '{op}' did not"),
                    None => String::new(),
                };
                format!("no types and attributes verify on its left side, of {tries} tried{stuck}")
            }
            n => {
                let least = self.options.least;
                let unrun = match &self.unrun {
                    Some(why) => format!("; the left side did not run: {why}"),
                    None => String::new(),
                };
                format!(
                    "{found} instances in {tries} tries ({n} verify on its left side), expected \
                     {least}{unrun}"
                )
            }
        })
    }

    /// Counts an instance for the ops that the variables of the rule stand for in it.
    fn count_ops(&mut self, choice: usize) {
        let general = sample::ops(self.subject.rule);
        let special = sample::ops(&self.choices[choice]);
        for name in special
            .into_keys()
            .filter(|name| !general.contains_key(name))
        {
            *self.coverage.ops.entry(name).or_default() += 1;
        }
    }

    fn attempt(&mut self) -> Option<(Drawn, Outcome)> {
        let choice = self.turn % self.choices.len();
        self.turn += 1;
        let sampler = Sampler::new(&self.choices[choice], &mut self.corpus, &mut self.random);
        let plan = sampler.sample()?;
        self.coverage.built += 1;
        let values = values(&plan, self.subject.rule.class, self.random.next_u64())?;
        // Which leaves are constants matters to guards and to what a rule of kind `reduce` saves.
        let chance = self.random.pick(&[0, 0, 0, 12, 50]).unwrap_or(0);
        let mut constants: Vec<bool> = plan
            .leaves
            .iter()
            .map(|_| self.random.percent(chance))
            .collect();
        if !constants.is_empty() && self.random.percent(15) {
            // All but one.
            constants.fill(true);
            let one = self.random.below(constants.len());
            constants[one] = false;
        }
        let drawn = Drawn {
            choice,
            plan,
            values,
            constants,
        };
        let outcome = self
            .subject
            .outcome(&drawn.plan, &drawn.values, &drawn.constants);
        Some((drawn, outcome))
    }

    /// The instance with a dimension of size 0, if the rule is wrong then: all dimensions of one
    /// size, or one of one value.
    fn emptied(&mut self, drawn: &Drawn) -> Option<Drawn> {
        if self.hollow >= self.options.instances / HOLLOW {
            return None;
        }
        let types = drawn.plan.types();
        let places: Vec<(usize, usize)> = types
            .iter()
            .enumerate()
            .flat_map(|(i, ty)| (0..ty.shape().map_or(0, <[i64]>::len)).map(move |d| (i, d)))
            .collect();
        let (at, d) = self.random.pick(&places)?;
        let size = types[at].shape()?[d];
        let alike = self.random.percent(60);
        let empty = |(i, ty): (usize, &tir::Type)| {
            let Some(mut shape) = ty.shape().map(<[i64]>::to_vec) else {
                return *ty;
            };
            for (e, dim) in shape.iter_mut().enumerate() {
                if (alike && *dim == size) || (i, e) == (at, d) {
                    *dim = 0;
                }
            }
            tir::Type::tensor(shape, ty.elem())
        };
        let types: Vec<tir::Type> = types.iter().enumerate().map(empty).collect();
        let plan = drawn.plan.with_types(&types);
        let values = values(&plan, self.subject.rule.class, self.random.next_u64())?;
        let constants = drawn.constants.clone();
        match self.subject.outcome(&plan, &values, &constants) {
            Outcome::Wrong(_) => Some(Drawn {
                choice: drawn.choice,
                plan,
                values,
                constants,
            }),
            Outcome::Equal(compared) => {
                self.hollow += usize::from(compared > 0);
                None
            }
            _ => None,
        }
    }

    /// The instance with other values, if the rule is wrong then.
    fn other_values(&mut self, drawn: &Drawn) -> Option<Drawn> {
        let elements = drawn.plan.leaves.iter().filter_map(|l| l.ty.elements());
        if elements.sum::<usize>() > FEW {
            return None;
        }
        let changes = drawn.plan.changes_elements();
        for _ in 0..if changes { CHANGED } else { VALUES } {
            let values = values(&drawn.plan, self.subject.rule.class, self.random.next_u64())?;
            let found = self.subject.outcome(&drawn.plan, &values, &drawn.constants);
            if let Outcome::Wrong(_) = found {
                return Some(Drawn {
                    choice: drawn.choice,
                    plan: drawn.plan.clone(),
                    values,
                    constants: drawn.constants.clone(),
                });
            }
        }
        None
    }

    /// The instance with other leaves constant, if a rule of kind `reduce` is wrong then.
    fn other_constants(&mut self, mut drawn: Drawn) -> Option<Drawn> {
        let subject = &self.subject;
        let more = match subject.rule.kind {
            Kind::Reduce => CONSTANTS,
            Kind::Equal => 0,
        };
        for _ in 0..more {
            for constant in &mut drawn.constants {
                *constant = self.random.percent(50);
            }
            let shown = subject.outcome_unrun(&drawn.plan, &drawn.values, &drawn.constants);
            if let Outcome::Wrong(_) = shown {
                return Some(drawn);
            }
        }
        None
    }

    /// Whether an instance counts: it says something, and there are not too many of its rank yet.
    fn is_welcome(&mut self, drawn: &Drawn, compared: usize) -> bool {
        let types = drawn.plan.types();
        let shapes = || types.iter().filter_map(|ty| ty.shape());
        if compared == 0 {
            if !shapes().any(|s| s.contains(&0)) {
                return false;
            }
            // Some are for types alone, unless there are no others.
            self.vacant += 1;
            let some = self.options.instances / HOLLOW;
            if (some..SELDOM * self.options.instances).contains(&self.vacant) {
                return false;
            }
        }
        let rank = shapes().map(<[i64]>::len).max().unwrap_or(0);
        let found = self.coverage.ranks.get(&rank).copied().unwrap_or(0);
        let enough = found >= self.options.instances / 3;
        self.refused += usize::from(enough);
        if enough && self.refused <= 2 * self.options.instances {
            return false;
        }
        // The last instances are for attributes that were seldom other than their default: groups.
        let unusual = drawn.plan.unusual();
        let wanted = self.options.instances / 8;
        let seldom = |what: &(&_, &bool)| self.unusual.get(what.0).copied().unwrap_or(0) < wanted;
        if self.coverage.instances >= self.options.instances / 2
            && self.passed < SELDOM * self.options.instances
            && unusual.iter().any(|what| seldom(&what))
            && !unusual.iter().any(|what| *what.1 && seldom(&what))
        {
            self.passed += 1;
            return false;
        }
        for (what, other) in unusual {
            *self.unusual.entry(what).or_default() += usize::from(other);
        }
        true
    }

    /// Looks for further counterexamples, and makes the smallest smaller.
    fn wrong(&mut self, first: Drawn) -> Verdict {
        let mut best = first;
        let mut more = 0;
        let further = match self.options.shrink {
            true => self.options.tries.min(2000),
            false => 0,
        };
        for _ in 0..further {
            if let Some((drawn, Outcome::Wrong(_))) = self.attempt() {
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
        let found = match self.options.shrink {
            true => Shrinker::new(&self.subject, found).run(),
            false => found,
        };
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
    /// Which of the choices of ops.
    choice: usize,
    plan: Plan,
    values: Vec<tir::Data>,
    constants: Vec<bool>,
}
