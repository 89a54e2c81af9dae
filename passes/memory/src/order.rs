//! In which order to compute, so that least memory is live at once.
//!
//! *Terms.* A *step* touches buffers; a buffer lives from the first step that touches it to the last, and to the end if it is
//! *kept*. A step may need others before it. The *peak* of an order is the largest sum of bytes that live while a step runs.
//!
//! *The search.* What is live depends on which steps are done, not on their order, so of all orders of the same set the one with the
//! lowest peak is kept: dynamic programming over sets, in rounds of one step more. Where a round has more sets than
//! [`Options::states`], those with the lowest peak, and of these the least live bytes, stay; then the result is no longer
//! known to be the lowest. A step that leaves no more bytes live than there were, and takes no more than the peak so far while it
//! runs, is done at once: whatever comes later has as much memory or more (the rule of R. Sethi for pebbles that can be taken
//! away for nothing, "Complete register allocation problems", 1975). Dynamic programming over sets of ops for the memory of irregularly
//! wired networks is of B. H. Ahn and others, "Ordering Chaos", MLSys 2020.

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;

/// What a search looks through at most.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Sets of done steps that are followed in each round.
    pub states: usize,
}

/// Sets in a round by default.
pub const STATES: usize = 2048;

impl Default for Options {
    fn default() -> Self {
        Self { states: STATES }
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
        let peak = self.peak(&source);
        let found = Search::new(self).run(options.states.max(1));
        match found.peak < peak {
            true => found,
            false => Order {
                steps: source,
                peak,
                exact: found.exact,
            },
        }
    }
}

/// A set of done steps, and the best way to it.
#[derive(Clone)]
struct State {
    /// Steps whose needs are done and that are not.
    ready: Vec<usize>,
    live: u64,
    peak: u64,
    /// Where its last step is noted.
    trace: usize,
}

struct Search<'a> {
    program: &'a Program,
    /// The steps that need each step.
    needed: Vec<Vec<usize>>,
    /// The steps that touch each buffer.
    touched: Vec<Vec<usize>>,
    /// Steps with those before them, of all states that were followed.
    traces: Vec<(usize, usize)>,
}

/// No trace.
const NONE: usize = usize::MAX;

impl<'a> Search<'a> {
    fn new(program: &'a Program) -> Self {
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
            traces: Vec::new(),
        }
    }

    /// What lives while a step runs, and after it.
    fn takes(&self, done: &FixedBitSet, live: u64, step: usize) -> (u64, u64) {
        let (mut during, mut freed) = (live, 0u64);
        for buffer in &self.program.steps[step].touches {
            let held = self.program.buffers[*buffer];
            let mut others = self.touched[*buffer].iter().filter(|other| **other != step);
            let mut begun = false;
            let mut over = true;
            for other in &mut others {
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

    /// Does a step.
    fn advance(&mut self, done: &mut FixedBitSet, state: &mut State, step: usize) {
        let (during, after) = self.takes(done, state.live, step);
        done.insert(step);
        state.peak = state.peak.max(during);
        state.live = after;
        state.ready.retain(|other| *other != step);
        for next in &self.needed[step] {
            let needs = &self.program.steps[*next].needs;
            if needs.iter().all(|before| done.contains(*before)) && !state.ready.contains(next) {
                state.ready.push(*next);
            }
        }
        state.ready.sort_unstable();
        self.traces.push((step, state.trace));
        state.trace = self.traces.len() - 1;
    }

    /// Does steps that cost nothing.
    fn settle(&mut self, done: &mut FixedBitSet, state: &mut State) {
        loop {
            let free = state.ready.iter().copied().find(|step| {
                let (during, after) = self.takes(done, state.live, *step);
                after <= state.live && during <= state.peak
            });
            match free {
                Some(step) => self.advance(done, state, step),
                None => return,
            }
        }
    }

    fn run(mut self, most: usize) -> Order {
        let count = self.program.steps.len();
        let steps = self.program.steps.iter().enumerate();
        let ready = steps.filter(|(_, step)| step.needs.is_empty());
        let mut first = State {
            ready: ready.map(|(number, _)| number).collect(),
            live: 0,
            peak: 0,
            trace: NONE,
        };
        let mut done = FixedBitSet::with_capacity(count);
        self.settle(&mut done, &mut first);
        // States by how many steps are done: what costs nothing is skipped over.
        let mut rounds: BTreeMap<usize, BTreeMap<FixedBitSet, State>> = BTreeMap::new();
        let begin = done.count_ones(..);
        rounds.entry(begin).or_default().insert(done, first);
        let mut exact = true;
        while let Some((number, round)) = rounds.pop_first() {
            let mut round: Vec<(FixedBitSet, State)> = round.into_iter().collect();
            if number == count {
                let end = round.pop().map(|(_, state)| state);
                let (peak, mut trace) = end.map_or((0, NONE), |end| (end.peak, end.trace));
                let mut steps = Vec::with_capacity(count);
                while let Some((step, before)) = self.traces.get(trace) {
                    steps.push(*step);
                    trace = *before;
                }
                steps.reverse();
                return Order { steps, peak, exact };
            }
            if round.len() > most {
                exact = false;
                round.sort_by_key(|(_, state)| (state.peak, state.live));
                round.truncate(most);
            }
            for (done, state) in round {
                for step in state.ready.clone() {
                    let (during, after) = self.takes(&done, state.live, step);
                    let mut next = done.clone();
                    next.insert(step);
                    let peak = state.peak.max(during);
                    // Another way to the same set that is no worse.
                    let known = rounds.get(&(number + 1)).and_then(|r| r.get(&next));
                    if known.is_some_and(|known| known.peak <= peak) {
                        continue;
                    }
                    let mut next = done.clone();
                    let mut to = state.clone();
                    self.advance(&mut next, &mut to, step);
                    debug_assert_eq!((to.peak, to.live), (peak, after));
                    self.settle(&mut next, &mut to);
                    let round = rounds.entry(next.count_ones(..)).or_default();
                    match round.get(&next) {
                        Some(known) if known.peak <= to.peak => {}
                        _ => {
                            round.insert(next, to);
                        }
                    }
                }
            }
        }
        // Steps that need each other: there is no order.
        Order {
            steps: (0..count).collect(),
            peak: u64::MAX,
            exact: false,
        }
    }
}
