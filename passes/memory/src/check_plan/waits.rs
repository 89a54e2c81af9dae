//! Work that certainly still runs when its bytes are used again.
//!
//! Forwards over the same graph of ops as the rest of the check: at a point of the program work *flies* if it was started on each
//! way there and nothing since may have ended it. A wait ends it if one of its tokens may be that of the work, or of later
//! work or marks that certainly or possibly end behind it: those of its queue, those that wait for one of these, and what comes behind
//! such on their queues; and so does any op that may do anything, such as a call or a semaphore. So work flies only where no wait, no
//! queue and no token in between can have ordered anything: what is said here is wrong in each run that comes there. Where no data
//! decide whether a run comes there ([`reachable`](super::reachable)), none may, and nothing is said: what orders work need not order
//! what never runs.
//!
//! Bytes are certainly shared where one side writes a whole buffer (or reads it, as a transfer reads its tile) and the other touches
//! some byte within. Memrefs that may be several buffers, or lie where no constant says, count for nothing, and of transfers counts
//! what they certainly move ([`moved`](super::moved)): next to nothing may be left of one that leaves its tensor.

mod rounds;

use std::collections::{BTreeSet, HashMap};

use smallvec::SmallVec;
use tir::interfaces::{overwritten, region_edges, successor_edges};
use tir::{Access, Ir, Name, OpId, Type, Value};
use tir_accel::{Direction, DmaStart, DmaWait, MachineInfo, Mark, token};

use super::bits::Bits;
use super::moved::{Moved, moved};
use super::reachable::Reachable;
use super::{Checker, hand_on, successors};

/// The most that flies at a time; of more the first of the text is forgotten.
const FLYING: usize = 64;
/// Work is forgotten when what ends behind it is spread over so many numbers of tokens.
const BEHIND: usize = 1024;

/// Two ops that use the same bytes, the second before the work of the first has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TooEarly {
    /// The number of the buffer that the first uses.
    pub(super) buffer: usize,
    /// Which started the work.
    pub(super) work: OpId,
    /// Which uses the bytes.
    pub(super) user: OpId,
}

/// Work that runs, by the place of its op in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Work {
    op: u32,
    /// The tokens that end behind it, by their numbers.
    tokens: Bits,
    /// The queues on which something does, by theirs.
    queues: Bits,
}

/// What flies, in the order of the text.
type Flying = Vec<Work>;

/// A use of a buffer.
#[derive(Clone, Copy, Debug)]
struct Use {
    buffer: usize,
    write: bool,
    whole: bool,
}

/// What an op does to work that flies.
#[derive(Clone, Debug, Default)]
struct Step {
    uses: SmallVec<[Use; 3]>,
    /// The queue on which it starts or marks work.
    queue: Option<u32>,
    /// Whether it starts some.
    starts: bool,
    /// The number of its token, if one is used.
    token: Option<u32>,
    /// The tokens that it comes behind.
    after: SmallVec<[u32; 4]>,
    /// Whether the thread waits for these.
    waits: bool,
    /// Whether it may wait for anything.
    clears: bool,
}

impl Step {
    fn is_behind(&self, work: &Work) -> bool {
        self.after.iter().any(|token| work.tokens.has(*token))
    }

    /// Whether work on the queue that it starts something on comes before that.
    fn is_queued(&self, work: &Work) -> bool {
        self.queue.is_some_and(|queue| work.queues.has(queue))
    }

    /// What flies behind it.
    fn run(&self, op: u32, state: &mut Flying) {
        if self.clears {
            state.clear();
        } else if self.waits {
            state.retain(|work| !self.is_behind(work));
        }
        let Some(queue) = self.queue else { return };
        for work in state.iter_mut() {
            if self.is_queued(work) || self.is_behind(work) {
                work.queues.insert(queue);
                if let Some(token) = self.token {
                    work.tokens.insert(token);
                }
            }
        }
        state.retain(|work| work.tokens.spread() <= BEHIND);
        if self.starts {
            let mut own = Work {
                op,
                tokens: Bits::default(),
                queues: Bits::default(),
            };
            own.queues.insert(queue);
            if let Some(token) = self.token {
                own.tokens.insert(token);
            }
            match state.binary_search_by_key(&op, |work| work.op) {
                Ok(at) => state[at] = own,
                Err(at) => state.insert(at, own),
            }
            if state.len() > FLYING {
                state.remove(0);
            }
        }
    }
}

/// Ops behind each other, the first of which control comes to from elsewhere.
#[derive(Clone, Debug, Default)]
struct Stretch {
    /// Those that do something to work that flies.
    steps: Vec<u32>,
    /// What may run next.
    next: SmallVec<[u32; 2]>,
}

/// The ops that use bytes too early; none if nothing waits in the function: then there is no order yet.
pub(super) fn too_early(
    checker: &Checker<'_>,
    machine: &MachineInfo,
    ops: &[OpId],
) -> BTreeSet<TooEarly> {
    let ir = checker.ir;
    let waits = ops.iter().any(|op| ir.is::<DmaWait>(*op));
    if machine.in_order || !waits || ops.is_empty() {
        return BTreeSet::new();
    }
    let all = Waits::of(checker, machine, ops);
    let mut found = all.run(checker);
    let mut reachable = Reachable::new(ir);
    found.retain(|found| reachable.by_data(found.user));
    found
}

/// The starts and marks that tokens may be of, by what is handed on from region to region and from block to block.
fn tokens(ir: &Ir, machine: &MachineInfo, ops: &[OpId]) -> HashMap<Value, BTreeSet<OpId>> {
    let is_token = |ty: Type| ty == token();
    let (mut out, mut pairs) = (HashMap::new(), Vec::new());
    for op in ops {
        if ir.regions(*op).len() > 0 {
            let edges = region_edges(ir, *op, &is_token);
            pairs.extend(edges.into_iter().flat_map(|edge| edge.values));
            continue;
        }
        for (_, values) in successor_edges(ir, *op, &is_token) {
            pairs.extend(values);
        }
        let own = queue(ir, machine, *op).is_some() || ir.is::<Mark>(*op);
        for result in ir.results(*op).filter(|v| is_token(ir.ty(*v))) {
            // Others may hand on what they take, as a selection does.
            let taken = ir.operands(*op).filter(|v| !own && is_token(ir.ty(*v)));
            pairs.extend(taken.map(|token| (token, result)));
            out.insert(result, BTreeSet::from([*op]));
        }
    }
    hand_on(&mut out, &pairs);
    out
}

/// Whether an op may wait for work, or order it, in ways that are not known here: it has effects on memory that it does not name.
fn does_anything(ir: &Ir, op: OpId) -> bool {
    if ir.regions(op).len() > 0 {
        return false;
    }
    let effects = ir.effects(op);
    effects.is_none_or(|all| {
        all.iter()
            .any(|e| e.on.is_none() && e.access == Access::Write)
    })
}

struct Waits<'a> {
    ops: &'a [OpId],
    steps: Vec<Step>,
    /// By their first op, as far as control may come there from elsewhere.
    stretches: HashMap<u32, Stretch>,
}

impl<'a> Waits<'a> {
    fn of(checker: &Checker<'_>, machine: &MachineInfo, ops: &'a [OpId]) -> Self {
        let ir = checker.ir;
        let of = tokens(ir, machine, ops);
        let mut numbers: HashMap<OpId, u32> = HashMap::new();
        for op in ops {
            let used = ir.operands(*op).filter(|v| ir.ty(*v) == token());
            for one in used.filter_map(|token| of.get(&token)).flatten() {
                numbers.entry(*one).or_default();
            }
        }
        // In the order of the text, so that what is near has near numbers.
        let used = ops.iter().filter(|op| numbers.contains_key(*op)).copied();
        let used: Vec<OpId> = used.collect();
        numbers.extend(used.into_iter().zip(0..));
        let mut queues: HashMap<Name, u32> = HashMap::new();
        let steps = ops.iter().map(|op| {
            let starts = queue(ir, machine, *op);
            let queue = starts.or_else(|| ir.get::<Mark>(*op).map(|mark| mark.queue.0));
            let next = queues.len() as u32;
            let queue = queue.map(|queue| *queues.entry(queue).or_insert(next));
            let after = ir.operands(*op).filter(|v| ir.ty(*v) == token());
            let after: BTreeSet<OpId> = (after.filter_map(|token| of.get(&token)))
                .flatten()
                .copied()
                .collect();
            let waits = ir.is::<DmaWait>(*op);
            let flows = ir.regions(*op).len() > 0 && starts.is_none();
            let clears = !waits && queue.is_none() && does_anything(ir, *op);
            Step {
                // What may wait for anything may do so before it uses something.
                uses: match waits || flows || clears || queue.is_some() && starts.is_none() {
                    true => SmallVec::new(),
                    false => uses(checker, *op),
                },
                queue,
                starts: starts.is_some(),
                token: numbers.get(op).copied(),
                after: match flows {
                    true => SmallVec::new(),
                    false => after.iter().map(|op| numbers[op]).collect(),
                },
                waits,
                clears,
            }
        });
        let steps = steps.collect();
        let mut all = Self {
            ops,
            steps,
            stretches: HashMap::new(),
        };
        all.find_stretches(ir);
        all
    }

    /// Finds what control may come to, from the first op on.
    fn find_stretches(&mut self, ir: &Ir) {
        let places: HashMap<OpId, u32> = self.ops.iter().copied().zip(0..).collect();
        let mut todo = vec![0];
        while let Some(first) = todo.pop() {
            if self.stretches.contains_key(&first) {
                continue;
            }
            let mut stretch = Stretch::default();
            let mut at = first;
            stretch.next = loop {
                let (op, step) = (self.ops[at as usize], &self.steps[at as usize]);
                if step.queue.is_some() || step.waits || step.clears || !step.uses.is_empty() {
                    stretch.steps.push(at);
                }
                let next = successors(ir, op);
                let next: SmallVec<[u32; 2]> = next.iter().map(|op| places[op]).collect();
                match next[..] {
                    // Nothing else leads to what stands behind an op without regions.
                    [one]
                        if ir.prev(self.ops[one as usize]) == Some(op)
                            && ir.regions(op).len() == 0 =>
                    {
                        at = one;
                    }
                    _ => break next,
                }
            };
            todo.extend(&stretch.next);
            self.stretches.insert(first, stretch);
        }
    }

    fn run(&self, checker: &Checker<'_>) -> BTreeSet<TooEarly> {
        let states = self.flow((0, Flying::new()), &|_| true);
        let mut out = self.rounds(checker, &states);
        out.extend(self.found(checker, states));
        out
    }

    /// What flies at the begin of each stretch, given what does at that of a first one, on ways that may be gone.
    fn flow(
        &self,
        (first, flying): (u32, Flying),
        goes: &dyn Fn(u32) -> bool,
    ) -> HashMap<u32, Flying> {
        let mut states = HashMap::from([(first, flying)]);
        let mut work = BTreeSet::from([first]);
        while let Some(first) = work.pop_first() {
            let stretch = &self.stretches[&first];
            let state = self.behind(stretch, &states[&first]);
            for one in stretch.next.iter().filter(|next| goes(**next)) {
                let new = match states.get_mut(one) {
                    Some(known) => join(known, &state),
                    None => {
                        states.insert(*one, state.clone());
                        true
                    }
                };
                if new {
                    work.insert(*one);
                }
            }
        }
        states
    }

    /// What is used too early, given what flies at the begin of stretches.
    fn found(&self, checker: &Checker<'_>, states: HashMap<u32, Flying>) -> BTreeSet<TooEarly> {
        let mut out = BTreeSet::new();
        for (first, mut state) in states {
            for op in &self.stretches[&first].steps {
                self.clashes(checker, *op, &state, &mut out);
                self.steps[*op as usize].run(*op, &mut state);
            }
        }
        out
    }

    /// What flies behind a stretch.
    fn behind(&self, stretch: &Stretch, before: &Flying) -> Flying {
        let mut state = before.clone();
        for op in &stretch.steps {
            self.steps[*op as usize].run(*op, &mut state);
        }
        state
    }

    /// The work that flies whose bytes an op uses.
    fn clashes(
        &self,
        checker: &Checker<'_>,
        op: u32,
        state: &Flying,
        out: &mut BTreeSet<TooEarly>,
    ) {
        let step = &self.steps[op as usize];
        if step.uses.is_empty() {
            return;
        }
        for work in state {
            if work.op == op || step.is_queued(work) || step.is_behind(work) {
                continue;
            }
            for running in &self.steps[work.op as usize].uses {
                if step.uses.iter().any(|own| clash(checker, *running, *own)) {
                    out.insert(TooEarly {
                        buffer: running.buffer,
                        work: self.ops[work.op as usize],
                        user: self.ops[op as usize],
                    });
                }
            }
        }
    }
}

/// The queue on which an op starts work.
fn queue(ir: &Ir, machine: &MachineInfo, op: OpId) -> Option<Name> {
    let dma: Option<DmaStart> = ir.get(op);
    dma.map(|dma| dma.engine.0)
        .or_else(|| machine.unit_of(ir, op))
}

/// What an op certainly does to buffers, where there is one that it can be.
fn uses(checker: &Checker<'_>, op: OpId) -> SmallVec<[Use; 3]> {
    let mut out = SmallVec::new();
    let touches = checker.touches(op);
    if touches.is_empty() {
        return out;
    }
    let wholes = overwritten(checker.ir, op);
    let transfer: Option<DmaStart> = checker.ir.get(op);
    let moves = (transfer.as_ref()).map(|transfer| moved(checker.ir, transfer));
    for (value, read, write) in touches {
        let Some(behind) = checker.behind.get(&value) else {
            continue;
        };
        let mut behind = behind.iter().copied();
        let (Some(buffer), None) = (behind.next(), behind.next()) else {
            continue;
        };
        let placed = &checker.all[buffer];
        if !placed.certain || placed.from >= placed.to || !(read || write) {
            continue;
        }
        let (mut some, mut all) = (true, wholes.contains(&value));
        if let Some((transfer, moves)) = transfer.as_ref().zip(moves) {
            // What is read beyond a tensor is padding: such a tile is written as a whole.
            let padded = value == transfer.tile && transfer.direction == Direction::Read;
            some = padded || moves >= Moved::Some;
            all |= value == transfer.tile && moves == Moved::All;
        }
        if some {
            out.push(Use {
                buffer,
                write,
                whole: all && value == placed.view,
            });
        }
    }
    out
}

/// Whether two uses certainly have a byte in common, and one of them writes.
fn clash(checker: &Checker<'_>, a: Use, b: Use) -> bool {
    let (x, y) = (&checker.all[a.buffer], &checker.all[b.buffer]);
    let inside = |x: &super::Placed, y: &super::Placed| y.from <= x.from && x.to <= y.to;
    let shared = x.from < y.to && y.from < x.to;
    let certain = match (a.whole, b.whole) {
        (true, true) => true,
        (true, false) => inside(y, x),
        (false, true) => inside(x, y),
        (false, false) => false,
    };
    x.arena == y.arena && shared && certain && (a.write || b.write)
}

/// Takes in what flies on another way to the same point: what flies on both; whether that changed anything.
fn join(known: &mut Flying, other: &Flying) -> bool {
    let mut changed = false;
    let mut others = other.iter().peekable();
    known.retain_mut(|work| {
        while others.next_if(|other| other.op < work.op).is_some() {}
        let Some(same) = others.next_if(|other| other.op == work.op) else {
            changed = true;
            return false;
        };
        changed |= work.tokens.extend(&same.tokens);
        changed |= work.queues.extend(&same.queues);
        true
    });
    changed
}
