//! Which asynchronous work may still run when the program comes to an op.
//!
//! Work is *in flight* from its start to a wait of the thread that ends it: for its own token, for that of later work of its queue,
//! or for a mark that was made behind it, as queues end their work in order; or for work that waited for one of these itself. What a
//! loop or a branch gives ends what every token ends that it may give; tokens that are handed to an iteration end nothing: that says too much of what is in flight, and never too little.
//!
//! Of work in flight it is known which starts and marks of its queue certainly came behind it: a wait for one of those ends it.
//! Within a piece that is all that stand behind it in the text; only what pieces hand on is kept.
//!
//! Asked of functions whose tokens or semaphores say what waits for what; in others the order is not there yet. What semaphores order, and
//! waits in functions that are called, is not looked at: work that nothing else ends is in flight to the end.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use tir::interfaces::{RegionPoint, region_edges, trip_count};
use tir::{AttrValue, Definition, Ir, Name, Op, OpId, Sym, Traits, Type, Value};
use tir_accel::{Acquire, DmaStart, DmaWait, MachineInfo, Mark};

use crate::liveness::Piece;

/// The most facts that pieces hand on; with more, what is in flight stays so to the end.
const FACTS: usize = 1 << 20;

/// Lists up to so many are looked through.
const FEW: usize = 16;

/// Work in flight, by its number, and the marks that certainly came behind it, rising.
type Flying = BTreeMap<usize, Vec<usize>>;

/// A start of work, or a mark on its queue.
struct Step {
    op: OpId,
    /// The number of its queue.
    queue: usize,
    /// Whether it is a start.
    work: bool,
    piece: usize,
    time: u64,
}

/// What is in flight in a function.
pub(crate) struct InFlight<'a> {
    ir: &'a Ir,
    pieces: &'a [Piece],
    /// All starts and marks, in the order of the pieces.
    steps: Vec<Step>,
    number: HashMap<OpId, usize>,
    /// By time: the number of the op there.
    at: Vec<Option<usize>>,
    queues: usize,
    /// At the begin of each piece.
    into: Vec<Flying>,
    follow: bool,
}

/// Whether an op orders work: it waits for some, or for what says more than is looked at.
pub(crate) fn orders(ir: &Ir, op: OpId) -> bool {
    ir.is::<DmaWait>(op) || may_order(ir, op)
}

/// Whether an op may order more than is looked at: it is that of a semaphore, or hands a token to who may wait for it.
pub(crate) fn may_order(ir: &Ir, op: OpId) -> bool {
    let token = tir_accel::token();
    let hands_on = || {
        let calls = ir.regions(op).len() == 0 && !ir.has(op, Traits::Terminator);
        calls && ir.effects(op).is_none() && ir.operands(op).any(|v| ir.ty(v) == token)
    };
    ir.is::<Acquire>(op) || hands_on()
}

/// The queue of a transfer: its attribute alone, as its record takes longer to read.
fn engine(ir: &Ir, transfer: OpId) -> Option<Name> {
    Some(Sym::from_attr(ir.attr(transfer, "engine")?)?.0)
}

/// Work that is in flight at a place in a piece.
#[derive(Clone, Copy)]
struct Now {
    /// Since when in this piece.
    since: u64,
    /// When it was started, if that was in this piece.
    started: Option<u64>,
}

impl<'a> InFlight<'a> {
    /// What is in flight in a function of these pieces, which is ordered; `None` if work is not asynchronous.
    pub(crate) fn of(ir: &'a Ir, machine: &MachineInfo, pieces: &'a [Piece]) -> Option<Self> {
        let [wait, transfer, mark] = [DmaWait::name(), DmaStart::name(), Mark::name()];
        if machine.in_order {
            return None;
        }
        let (mut steps, mut queues): (Vec<Step>, Vec<Name>) = (Vec::new(), Vec::new());
        for (piece, all) in pieces.iter().enumerate() {
            for (time, op) in &all.ops {
                let name = ir.name(*op);
                let start = match () {
                    () if name == transfer => engine(ir, *op),
                    () if name == wait || name == mark => None,
                    () => machine.unit_of(ir, *op),
                };
                let marks = || ir.get::<Mark>(*op).map(|mark| mark.queue.0);
                let queue = start.or_else(|| (name == mark).then(marks).flatten());
                if let Some(name) = queue {
                    let known = queues.iter().position(|queue| *queue == name);
                    let queue = known.unwrap_or(queues.len());
                    if known.is_none() {
                        queues.push(name);
                    }
                    steps.push(Step {
                        op: *op,
                        queue,
                        work: start.is_some(),
                        piece,
                        time: *time,
                    });
                }
            }
        }
        let number = steps.iter().enumerate().map(|(i, step)| (step.op, i));
        let times = pieces
            .iter()
            .filter_map(|piece| Some(piece.ops.last()?.0 + 1));
        let mut at = vec![None; times.max().unwrap_or(0) as usize];
        for (number, step) in steps.iter().enumerate() {
            at[step.time as usize] = Some(number);
        }
        let mut all = Self {
            ir,
            pieces,
            number: number.collect(),
            at,
            queues: queues.len(),
            steps,
            into: vec![Flying::new(); pieces.len()],
            follow: true,
        };
        if !all.solve() {
            all.follow = false;
            all.into = vec![Flying::new(); pieces.len()];
            all.solve();
        }
        Some(all)
    }

    /// Whether it came to an end with as many facts as there may be.
    fn solve(&mut self) -> bool {
        let mut facts = 0;
        let mut work: BTreeSet<usize> = (0..self.pieces.len()).collect();
        while let Some(at) = work.pop_first() {
            if self.pieces[at].next.is_empty() {
                continue;
            }
            let out = self.pass(at, &mut |_, _| ());
            for next in self.pieces[at].next.clone() {
                let into = &mut self.into[next];
                let mut changed = false;
                for (start, marks) in &out {
                    match into.get_mut(start) {
                        Some(known) => {
                            let before = known.len();
                            known.retain(|mark| marks.binary_search(mark).is_ok());
                            facts -= before - known.len();
                            changed |= known.len() != before;
                        }
                        None => {
                            facts += marks.len();
                            into.insert(*start, marks.clone());
                            changed = true;
                        }
                    }
                }
                if changed {
                    work.insert(next);
                }
            }
            if facts > FACTS && self.follow {
                return false;
            }
        }
        true
    }

    /// Goes through a piece: says what is in flight when, and gives what is so at its end.
    fn pass(&self, at: usize, say: &mut dyn FnMut(usize, Range<u64>)) -> Flying {
        let piece = &self.pieces[at];
        let (Some((first, _)), Some((last, _))) = (piece.ops.first(), piece.ops.last()) else {
            return self.into[at].clone();
        };
        let into = &self.into[at];
        let entered = Now {
            since: *first,
            started: None,
        };
        let mut now: BTreeMap<usize, Now> = into.keys().map(|start| (*start, entered)).collect();
        let mut steps: Vec<Vec<usize>> = vec![Vec::new(); self.queues];
        let wait = DmaWait::name();
        for (time, op) in &piece.ops {
            if let Some(step) = self.at[*time as usize] {
                steps[self.steps[step].queue].push(step);
                if self.steps[step].work {
                    let since = now.get(&step).map_or(*time + 1, |known| known.since);
                    let started = Some(*time);
                    now.insert(step, Now { since, started });
                }
                continue;
            }
            if !self.follow || self.ir.name(*op) != wait {
                continue;
            }
            let waited = self.implied(self.ir.operands(*op).collect());
            now.retain(|start, known| {
                let ends = |mark: &usize| {
                    let (mark, place) = (*mark, &self.steps[*mark]);
                    if place.queue != self.steps[*start].queue {
                        return false;
                    }
                    match known.started {
                        _ if place.piece == at && place.time < *time => {
                            known.started.is_none_or(|started| started <= place.time)
                        }
                        None => into[start].binary_search(&mark).is_ok(),
                        Some(_) => false,
                    }
                };
                let ended = waited.iter().any(ends);
                if ended {
                    say(*start, known.since..*time + 1);
                }
                !ended
            });
        }
        let mut out = Flying::new();
        for (start, known) in now {
            say(start, known.since..*last + 1);
            if piece.next.is_empty() || !self.follow {
                out.insert(start, Vec::new());
                continue;
            }
            let here = &steps[self.steps[start].queue];
            let marks = match known.started {
                Some(_) => {
                    let from = here.binary_search(&start).unwrap_or_else(|at| at);
                    here[from..].to_vec()
                }
                None => {
                    let all: BTreeSet<usize> = into[&start].iter().chain(here).copied().collect();
                    all.into_iter().collect()
                }
            };
            out.insert(start, marks);
        }
        out
    }

    /// The starts and marks that a token of an op with regions is behind, whichever it is.
    fn of_regions(&self, token: Value, op: OpId) -> Vec<usize> {
        let is_token = |ty: Type| ty == tir_accel::token();
        let runs = trip_count(self.ir, op).is_some_and(|trips| trips > 0);
        let edges = region_edges(self.ir, op, &is_token);
        // Around a body that certainly runs nothing goes.
        let edges = edges
            .iter()
            .filter(|edge| !runs || edge.from != RegionPoint::Parent);
        let values = edges.flat_map(|edge| &edge.values);
        let given = values.filter(|(_, to)| *to == token);
        let mut all = given.map(|(from, _)| self.implied(vec![*from]));
        let mut common = all.next().unwrap_or_default();
        for other in all {
            common.retain(|step| other.contains(step));
        }
        common
    }

    /// The starts and marks of tokens, and of those that their work waited for itself.
    fn implied(&self, mut tokens: Vec<Value>) -> Vec<usize> {
        let (mut out, token_type) = (Vec::new(), tir_accel::token());
        // What is in the list, once it is too long to be looked through.
        let mut seen: HashSet<usize> = HashSet::default();
        while let Some(token) = tokens.pop() {
            let Definition::Result(op, _) = self.ir.definition(token) else {
                continue;
            };
            if self.ir.regions(op).len() > 0 {
                let more = self.of_regions(token, op);
                let new: Vec<usize> = more.into_iter().filter(|s| !out.contains(s)).collect();
                out.extend(new);
                continue;
            }
            let Some(step) = self.number.get(&op) else {
                continue;
            };
            let new = if out.len() < FEW {
                !out.contains(step)
            } else {
                if seen.is_empty() {
                    seen.extend(&out);
                }
                seen.insert(*step)
            };
            if new {
                out.push(*step);
                let after = self.ir.operands(op);
                tokens.extend(after.filter(|v| self.ir.ty(*v) == token_type));
            }
        }
        out
    }

    /// The work that is in flight at the end of a piece that nothing follows, by its start; none where waits are not followed.
    pub(crate) fn left(&self) -> BTreeSet<OpId> {
        if !self.follow {
            return BTreeSet::new();
        }
        let ends = (0..self.pieces.len()).filter(|at| self.pieces[*at].next.is_empty());
        let left = ends.flat_map(|at| self.pass(at, &mut |_, _| ()));
        left.map(|(start, _)| self.steps[start].op).collect()
    }

    /// When work is in flight, with the time of the op that started it. A wait is a time of what it ends.
    pub(crate) fn times(&self) -> Vec<(Range<u64>, u64)> {
        let mut out = Vec::new();
        for at in 0..self.pieces.len() {
            self.pass(at, &mut |start, when| {
                if when.start < when.end {
                    out.push((when, self.steps[start].time));
                }
            });
        }
        out
    }
}
