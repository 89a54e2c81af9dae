//! In which order to compute, so that least memory is live at once.
//!
//! *Terms.* A *step* touches buffers; a buffer lives from the first step that touches it to the last, and to the end if it is
//! *kept*. A step may need others before it. The *peak* of an order is the largest sum of bytes that live while a step runs.
//!
//! *The search.* Which orders stay below a number of bytes, a *budget*, depends on which steps are done and not on their order, so of each set of
//! done steps one way is enough: dynamic programming over sets, in rounds of one step more. Where a round has more sets than
//! [`Options::states`], those with the least live bytes stay, and that none is found proves nothing any more. The lowest budget is found
//! by halving, between what a single step takes and the best order known: that of the text, or one where each step is the one that leaves
//! least. A step that leaves no more bytes live than there were, and stays below the budget while it runs, is done at once:
//! whatever comes later has as much memory or more (as pebbles are taken away that cost nothing, R. Sethi, "Complete register allocation
//! problems", 1975). Sets of ops and budgets for the memory of irregularly wired networks are of B. H. Ahn and others,
//! "Ordering Chaos", MLSys 2020.

use std::cell::Cell;
use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;

/// What a search looks through at most.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Sets of done steps that are followed in each round.
    pub states: usize,
    /// Steps that are tried behind sets, in all.
    pub tries: u64,
}

/// Sets in a round by default.
pub const STATES: usize = 2048;
/// Steps that are tried by default.
pub const TRIES: u64 = 10_000_000;

impl Default for Options {
    fn default() -> Self {
        Self {
            states: STATES,
            tries: TRIES,
        }
    }
}

/// A step.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// The buffers that it touches.
    pub touches: Vec<usize>,
    /// The steps that come before it, by their numbers.
    pub needs: Vec<usize>,
}

/// A buffer.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Its bytes.
    pub bytes: u64,
    /// Whether it lives to the end.
    pub kept: bool,
}

/// Steps in an order that is possible, and what they touch.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The steps; each needs steps before it alone.
    pub steps: Vec<Step>,
    /// The buffers.
    pub buffers: Vec<Held>,
}

/// An order of steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The steps by their numbers.
    pub steps: Vec<usize>,
    /// Bytes that live at once at most.
    pub peak: u64,
    /// Whether no order has a lower peak.
    pub exact: bool,
}

impl Program {
    /// The peak of an order of all steps.
    pub fn peak(&self, order: &[usize]) -> u64 {
        let mut left = self.uses();
        let mut begun = FixedBitSet::with_capacity(self.buffers.len());
        let (mut live, mut peak) = (0u64, 0u64);
        for step in order {
            let touches = &self.steps[*step].touches;
            for buffer in touches {
                if !begun.put(*buffer) {
                    live = live.saturating_add(self.buffers[*buffer].bytes);
                }
            }
            peak = peak.max(live);
            for buffer in touches {
                left[*buffer] -= 1;
                if left[*buffer] == 0 && !self.buffers[*buffer].kept {
                    live -= self.buffers[*buffer].bytes;
                }
            }
        }
        peak
    }

    /// By how many steps each buffer is touched.
    fn uses(&self) -> Vec<u32> {
        let mut uses = vec![0; self.buffers.len()];
        for buffer in self.steps.iter().flat_map(|step| &step.touches) {
            uses[*buffer] += 1;
        }
        uses
    }

    /// The order with the lowest peak that is found; the one that the steps are in unless another is lower.
    pub fn order(&self, options: &Options) -> Order {
        let source: Vec<usize> = (0..self.steps.len()).collect();
        let (mut steps, mut peak) = (source.clone(), self.peak(&source));
        let search = Search::new(self, options.tries);
        for measure in [Measure::During, Measure::After] {
            if let Some(found) = search.greedy(measure) {
                let lower = self.peak(&found);
                if lower < peak {
                    (steps, peak) = (found, lower);
                }
            }
        }
        let single = self.steps.iter().map(|step| {
            let bytes = step.touches.iter().map(|b| self.buffers[*b].bytes);
            bytes.fold(0, u64::saturating_add)
        });
        // Of all sums of buffers, those that can be peaks.
        let unit = self.buffers.iter().fold(0, |a, b| gcd(a, b.bytes)).max(1);
        let kept = self.buffers.iter().zip(self.uses());
        let kept = kept.filter(|(b, uses)| b.kept && *uses > 0);
        let kept = kept.map(|(b, _)| b.bytes).fold(0, u64::saturating_add);
        // No order is lower than this, and none was found that is.
        let mut proved = single.max().unwrap_or(0).max(kept);
        let mut tried = proved;
        while tried < peak {
            let budget = tried + (peak - 1 - tried) / 2 / unit * unit;
            match search.below(budget, options.states.max(1)) {
                Found::Order(found) => {
                    peak = self.peak(&found);
                    steps = found;
                }
                Found::None { proof } => {
                    tried = budget + unit;
                    if proof {
                        proved = tried;
                    }
                }
            }
        }
        Order {
            steps,
            peak,
            exact: proved >= peak,
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        b => gcd(b, a % b),
    }
}

/// What is asked of a step that is taken greedily.
#[derive(Clone, Copy)]
enum Measure {
    /// Least lives while it runs.
    During,
    /// Least lives after it.
    After,
}

/// What came of a search below a budget.
enum Found {
    Order(Vec<usize>),
    /// Nothing; whether that is a proof.
    None {
        proof: bool,
    },
}

/// A way to a set of done steps.
#[derive(Clone)]
struct State {
    /// Steps whose needs are done and that are not.
    ready: Vec<usize>,
    live: u64,
    /// Where its last step is noted.
    trace: usize,
}

struct Search<'a> {
    program: &'a Program,
    /// The steps that need each step.
    needed: Vec<Vec<usize>>,
    /// The steps that touch each buffer.
    touched: Vec<Vec<usize>>,
    /// Steps that may be tried yet.
    left: Cell<u64>,
}

/// No trace.
const NONE: usize = usize::MAX;

impl<'a> Search<'a> {
    fn new(program: &'a Program, tries: u64) -> Self {
        let mut needed = vec![Vec::new(); program.steps.len()];
        let mut touched = vec![Vec::new(); program.buffers.len()];
        for (number, step) in program.steps.iter().enumerate() {
            for before in &step.needs {
                needed[*before].push(number);
            }
            for buffer in &step.touches {
                touched[*buffer].push(number);
            }
        }
        Self {
            program,
            needed,
            touched,
            left: Cell::new(tries),
        }
    }

    /// What lives while a step runs, and after it.
    fn takes(&self, done: &FixedBitSet, live: u64, step: usize) -> (u64, u64) {
        let (mut during, mut freed) = (live, 0u64);
        for buffer in &self.program.steps[step].touches {
            let held = self.program.buffers[*buffer];
            let (mut begun, mut over) = (false, true);
            for other in self.touched[*buffer].iter().filter(|other| **other != step) {
                match done.contains(*other) {
                    true => begun = true,
                    false => over = false,
                }
            }
            if !begun {
                during = during.saturating_add(held.bytes);
            }
            if over && !held.kept {
                freed += held.bytes;
            }
        }
        (during, during - freed)
    }

    fn first(&self) -> State {
        let steps = self.program.steps.iter().enumerate();
        let ready = steps.filter(|(_, step)| step.needs.is_empty());
        State {
            ready: ready.map(|(number, _)| number).collect(),
            live: 0,
            trace: NONE,
        }
    }

    /// Does a step that leaves so many bytes live.
    fn advance(&self, done: &mut FixedBitSet, state: &mut State, step: usize, after: u64) {
        done.insert(step);
        state.live = after;
        state.ready.retain(|other| *other != step);
        for next in &self.needed[step] {
            let needs = &self.program.steps[*next].needs;
            if needs.iter().all(|before| done.contains(*before)) && !state.ready.contains(next) {
                state.ready.push(*next);
            }
        }
        state.ready.sort_unstable();
    }

    /// Each step the one of those that are ready which leaves least; `None` if steps need each other.
    fn greedy(&self, measure: Measure) -> Option<Vec<usize>> {
        let count = self.program.steps.len();
        let mut done = FixedBitSet::with_capacity(count);
        let (mut state, mut order) = (self.first(), Vec::with_capacity(count));
        while order.len() < count {
            let ready = state.ready.iter().map(|step| {
                let (during, after) = self.takes(&done, state.live, *step);
                let by = match measure {
                    Measure::During => (during, after),
                    Measure::After => (after, during),
                };
                (by, *step, after)
            });
            let (_, step, after) = ready.min()?;
            self.advance(&mut done, &mut state, step, after);
            order.push(step);
        }
        Some(order)
    }

    /// An order in which no more bytes live at once.
    fn below(&self, budget: u64, most: usize) -> Found {
        let count = self.program.steps.len();
        // Steps with those before them, of all ways that are followed.
        let mut traces: Vec<(usize, usize)> = Vec::new();
        let settle = |done: &mut FixedBitSet, state: &mut State, traces: &mut Vec<_>| loop {
            let free = state.ready.iter().find_map(|step| {
                let (during, after) = self.takes(done, state.live, *step);
                (after <= state.live && during <= budget).then_some((*step, after))
            });
            let Some((step, after)) = free else { return };
            self.advance(done, state, step, after);
            traces.push((step, state.trace));
            state.trace = traces.len() - 1;
        };
        let mut first = self.first();
        let mut done = FixedBitSet::with_capacity(count);
        settle(&mut done, &mut first, &mut traces);
        // Ways by how many steps are done: what costs nothing is skipped over.
        let mut rounds: BTreeMap<usize, BTreeMap<FixedBitSet, State>> = BTreeMap::new();
        let begin = done.count_ones(..);
        rounds.entry(begin).or_default().insert(done, first);
        let mut proof = true;
        while let Some((number, round)) = rounds.pop_first() {
            let mut round: Vec<(FixedBitSet, State)> = round.into_iter().collect();
            if number == count {
                let mut trace = round.pop().map_or(NONE, |(_, state)| state.trace);
                let mut steps = Vec::with_capacity(count);
                while let Some((step, before)) = traces.get(trace) {
                    steps.push(*step);
                    trace = *before;
                }
                steps.reverse();
                return Found::Order(steps);
            }
            if round.len() > most {
                proof = false;
                round.sort_by_key(|(_, state)| state.live);
                round.truncate(most);
            }
            let ready = round.iter().map(|(_, state)| state.ready.len() as u64);
            let Some(left) = self.left.get().checked_sub(ready.sum()) else {
                return Found::None { proof: false };
            };
            self.left.set(left);
            for (done, state) in round {
                for step in &state.ready {
                    let (during, after) = self.takes(&done, state.live, *step);
                    if during > budget {
                        continue;
                    }
                    let mut next = done.clone();
                    let mut to = state.clone();
                    self.advance(&mut next, &mut to, *step, after);
                    traces.push((*step, to.trace));
                    to.trace = traces.len() - 1;
                    settle(&mut next, &mut to, &mut traces);
                    let round = rounds.entry(next.count_ones(..)).or_default();
                    round.entry(next).or_insert(to);
                }
            }
        }
        Found::None { proof }
    }
}
