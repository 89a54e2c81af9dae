//! Work that certainly still runs when its bytes are used again.
//!
//! Forwards over the same graph of ops as the rest of the check: at a point of the program work *flies* if it was started on each
//! way there and nothing since may have ended it. A wait ends it if one of its tokens may be that of the work, or of later
//! work or marks that certainly or possibly end behind it: those of its queue, those that wait for one of these, and what comes behind
//! such on their queues. So work flies only where no wait, no queue and no token in between can have ordered anything: what is said here is
//! wrong in each run that comes there, but for transfers that leave their tensor: they count as ones that move their whole tile. Where no data decide whether a run comes there ([`reachable`](super::reachable)), none may, and nothing
//! is said: what orders work need not order what never runs.
//!
//! Bytes are certainly shared where one side writes a whole buffer (or reads it, as a transfer reads its tile) and the other touches
//! some byte within. Memrefs that may be several buffers, or lie where no constant says, count for nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tir::interfaces::{overwritten, region_edges, successor_edges};
use tir::{Ir, Name, OpId, Type, Value};
use tir_accel::{DmaStart, DmaWait, MachineInfo, Mark, token};

use super::reachable::Reachable;
use super::{Checker, hand_on, successors};

/// The most that flies at a time; of more the oldest is forgotten.
const FLYING: usize = 64;
/// Work is forgotten when it has so many that end behind it.
const BEHIND: usize = 512;

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

/// What ends behind work: ops, and the queues that they are on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Later {
    ops: BTreeSet<OpId>,
    queues: BTreeSet<Name>,
}

type Flying = BTreeMap<OpId, Later>;

/// A use of a buffer.
#[derive(Clone, Copy)]
struct Use {
    buffer: usize,
    write: bool,
    whole: bool,
}

pub(super) struct Waits<'a, 'b> {
    checker: &'b Checker<'a>,
    ir: &'a Ir,
    machine: &'a MachineInfo,
    /// Starts and marks that a token may be of, where it is handed on.
    of: HashMap<Value, BTreeSet<OpId>>,
}

/// The ops that use bytes too early; none if nothing waits in the function: then there is no order yet.
pub(super) fn too_early<'a>(
    checker: &Checker<'a>,
    machine: &'a MachineInfo,
    ops: &[OpId],
) -> BTreeSet<TooEarly> {
    let ir = checker.ir;
    let waits = ops.iter().any(|op| ir.is::<DmaWait>(*op));
    if machine.in_order || !waits {
        return BTreeSet::new();
    }
    let all = Waits {
        checker,
        ir,
        machine,
        of: tokens(ir, ops),
    };
    all.run(ops)
}

/// The ops that tokens may be of, by what is handed on from region to region and from block to block.
fn tokens(ir: &Ir, ops: &[OpId]) -> HashMap<Value, BTreeSet<OpId>> {
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
        for result in ir.results(*op).filter(|v| is_token(ir.ty(*v))) {
            out.insert(result, BTreeSet::from([*op]));
        }
    }
    hand_on(&mut out, &pairs);
    out
}

impl Waits<'_, '_> {
    fn run(&self, ops: &[OpId]) -> BTreeSet<TooEarly> {
        let ir = self.ir;
        let order: HashMap<OpId, usize> = ops.iter().enumerate().map(|(i, op)| (*op, i)).collect();
        let entry = ir.body_block(ir.root(), 0).and_then(|b| ir.first(b));
        let Some(entry) = entry else {
            return BTreeSet::new();
        };
        let mut states: HashMap<OpId, Flying> = HashMap::from([(entry, Flying::new())]);
        let mut work = BTreeSet::from([(order[&entry], entry)]);
        while let Some((_, first)) = work.pop_first() {
            let state = states[&first].clone();
            let (state, next) = self.along(first, state, &mut |_| ());
            for one in next {
                let new = match states.get_mut(&one) {
                    Some(known) => join(known, &state),
                    None => {
                        states.insert(one, state.clone());
                        true
                    }
                };
                if new {
                    work.insert((order[&one], one));
                }
            }
        }
        let mut out = BTreeSet::new();
        for (first, state) in states {
            self.along(first, state, &mut |found| {
                out.insert(found);
            });
        }
        let mut reachable = Reachable::new(ir);
        out.retain(|found| reachable.by_data(found.user));
        out
    }

    /// Follows ops until there is more than one way, or one from elsewhere; gives what flies then, and the ops there.
    fn along(
        &self,
        first: OpId,
        mut state: Flying,
        say: &mut dyn FnMut(TooEarly),
    ) -> (Flying, Vec<OpId>) {
        let mut op = first;
        loop {
            self.op(op, &mut state, say);
            let next = successors(self.ir, op);
            if let [one] = next[..]
                && self.ir.prev(one) == Some(op)
                && self.ir.regions(op).len() == 0
            {
                op = one;
                continue;
            }
            return (state, next);
        }
    }

    fn queue(&self, op: OpId) -> Option<Name> {
        let dma: Option<DmaStart> = self.ir.get(op);
        dma.map(|dma| dma.engine.0)
            .or_else(|| self.machine.unit_of(self.ir, op))
    }

    /// Whether a token among the operands may be of one of these ops.
    fn waits_for(&self, op: OpId, later: &Later) -> bool {
        let tokens = self.ir.operands(op).filter(|v| self.ir.ty(*v) == token());
        tokens
            .filter_map(|token| self.of.get(&token))
            .any(|of| of.iter().any(|op| later.ops.contains(op)))
    }

    fn op(&self, op: OpId, state: &mut Flying, say: &mut dyn FnMut(TooEarly)) {
        let ir = self.ir;
        if ir.is::<DmaWait>(op) {
            state.retain(|_, later| !self.waits_for(op, later));
            return;
        }
        let starts = self.queue(op);
        let marks = ir.get::<Mark>(op).map(|mark| mark.queue.0);
        if marks.is_none() && ir.regions(op).len() == 0 {
            let uses = self.uses(op);
            for (work, later) in state.iter().filter(|_| !uses.is_empty()) {
                let ordered = starts.is_some_and(|on| later.queues.contains(&on))
                    || self.waits_for(op, later);
                if ordered || *work == op {
                    continue;
                }
                for running in self.uses(*work) {
                    if uses.iter().any(|own| self.clash(running, *own)) {
                        say(TooEarly {
                            buffer: running.buffer,
                            work: *work,
                            user: op,
                        });
                    }
                }
            }
        }
        let Some(on) = starts.or(marks) else { return };
        for later in state.values_mut() {
            if later.queues.contains(&on) || self.waits_for(op, later) {
                later.ops.insert(op);
                later.queues.insert(on);
            }
        }
        if starts.is_some() {
            let own = Later {
                ops: BTreeSet::from([op]),
                queues: BTreeSet::from([on]),
            };
            state.insert(op, own);
        }
        state.retain(|_, later| later.ops.len() < BEHIND);
        while state.len() > FLYING {
            state.pop_first();
        }
    }

    /// What an op does to buffers, where there is one that it can be.
    fn uses(&self, op: OpId) -> Vec<Use> {
        let checker = self.checker;
        let wholes = overwritten(self.ir, op);
        let transfer: Option<DmaStart> = self.ir.get(op);
        let mut out = Vec::new();
        for (value, read, write) in checker.touches(op) {
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
            let moved = transfer.as_ref().is_some_and(|t| t.tile == value);
            let whole = value == placed.view && (wholes.contains(&value) || moved && !write);
            out.push(Use {
                buffer,
                write,
                whole,
            });
        }
        out
    }

    /// Whether two uses certainly have a byte in common, and one of them writes.
    fn clash(&self, a: Use, b: Use) -> bool {
        let all = &self.checker.all;
        let (x, y) = (&all[a.buffer], &all[b.buffer]);
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
}

/// Takes in what flies on another way to the same point: what flies on both; whether that changed anything.
fn join(known: &mut Flying, other: &Flying) -> bool {
    let before = known.clone();
    known.retain(|work, _| other.contains_key(work));
    for (work, later) in known.iter_mut() {
        let more = &other[work];
        later.ops.extend(&more.ops);
        later.queues.extend(&more.queues);
    }
    *known != before
}
