//! Which asynchronous work may still run when the program comes to an op.
//!
//! Work is *in flight* from its start to a wait of the thread that ends it: for its own token, for that of later work of its queue,
//! or for a mark that was made behind it, as queues end their work in order; or for work that waited for one of these itself, or that a queue did after such.
//!
//! Of work in flight it is known which starts and marks of its queue certainly came behind it: a wait for one of those ends it.
//! Within a piece that is all that stand behind it in the text; only what pieces hand on is kept. A token that is *handed* to an
//! iteration, a block, or out of a loop or a branch counts as a mark where it arrives: behind work that was in flight on a way there only
//! if what is handed on that way is. So a wait in an iteration ends what the one before started, whose token it was given.
//!
//! What `again` asks beside this: whether work of an earlier iteration uses a buffer that is allocated again.
//!
//! Asked of functions whose tokens or semaphores say what waits for what; in others the order is not there yet. What semaphores order, and
//! waits in functions that are called, is not looked at: work that nothing else ends is in flight to the end.

mod again;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use tir::{AttrValue, Ir, Name, Op, OpId, Sym, Traits, Value};
use tir_accel::{Acquire, DmaStart, DmaWait, MachineInfo, Mark};

use crate::pieces::{Piece, reached};

/// The most facts that pieces hand on; with more, what is in flight stays so to the end.
const FACTS: usize = 1 << 23;

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
    /// What stands before it in its piece on the same queue.
    before: Option<usize>,
}

/// What is in flight in a function.
pub(crate) struct InFlight<'a> {
    ir: &'a Ir,
    pieces: &'a [Piece],
    /// All starts and marks, in the order of the pieces.
    steps: Vec<Step>,
    /// The numbers of tokens: those of their starts and marks, and behind these those of the tokens that are handed on.
    number: HashMap<Value, usize>,
    /// By time: the number of the op there.
    at: Vec<Option<usize>>,
    queues: usize,
    /// At the begin of each piece, without what is handed to it.
    into: Vec<Flying>,
    /// At the end of each piece that hands tokens on.
    out: Vec<Flying>,
    /// By such a piece: those that it hands tokens to.
    takers: Vec<Vec<usize>>,
    /// Which pieces control may come to.
    reached: Vec<bool>,
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

/// What is in flight at a place in a piece.
struct State<'s, 'a> {
    all: &'s InFlight<'a>,
    piece: usize,
    /// At the begin of the piece.
    into: Cow<'s, Flying>,
    now: BTreeMap<usize, Now>,
    /// By queue, what stands in the piece before the place.
    here: Vec<Vec<usize>>,
    /// What was waited for.
    seen: HashSet<usize>,
}

impl<'s, 'a> State<'s, 'a> {
    fn new(all: &'s InFlight<'a>, piece: usize) -> Self {
        let into = all.entered(piece);
        let entered = Now {
            since: all.pieces[piece].ops.first().map_or(0, |(time, _)| *time),
            started: None,
        };
        Self {
            all,
            piece,
            now: into.keys().map(|start| (*start, entered)).collect(),
            into,
            here: vec![Vec::new(); all.queues],
            seen: HashSet::default(),
        }
    }

    /// Whether what has a number, and was done the last time that control came there, certainly came behind work.
    fn is_behind(&self, number: usize, start: usize, known: &Now, time: u64) -> bool {
        let before = || {
            let marks = self.into.get(&start);
            marks.is_some_and(|marks| marks.binary_search(&number).is_ok())
        };
        match (self.all.steps.get(number), known.started) {
            (Some(step), _) if step.queue != self.all.steps[start].queue => false,
            (Some(step), started) if step.piece == self.piece && step.time < time => {
                started.is_none_or(|started| started <= step.time)
            }
            (_, started) => started.is_none() && before(),
        }
    }

    /// What has ended at a time when what has some numbers has.
    fn ended(&self, known: Vec<usize>, time: u64) -> BTreeSet<usize> {
        let (all, now) = (self.all, &self.now);
        all.ended(
            known,
            now.keys(),
            |number, start| self.is_behind(number, start, &now[&start], time),
            // Not where the one has run again in this piece, and the other has not yet.
            |before, start| {
                let [before, start] = [before, start].map(|step| &all.steps[step]);
                start.piece != self.piece || time <= before.time || time > start.time
            },
        )
    }

    /// Goes past an op: says what is in flight no longer, and since when it was.
    fn step(&mut self, time: u64, op: OpId, say: &mut dyn FnMut(usize, Range<u64>)) {
        let all = self.all;
        if let Some(step) = all.at[time as usize] {
            self.seen.remove(&step);
            self.here[all.steps[step].queue].push(step);
            if all.steps[step].work {
                let since = self.now.get(&step).map_or(time + 1, |known| known.since);
                let started = Some(time);
                self.now.insert(step, Now { since, started });
            }
            return;
        }
        if !all.follow || all.ir.name(op) != DmaWait::name() {
            return;
        }
        let (now, tokens) = (&self.now, all.ir.operands(op).collect());
        let mut seen = std::mem::take(&mut self.seen);
        let waited = all.implied(tokens, &|step| now.contains_key(&step), &mut seen);
        let ended = self.ended(waited, time);
        self.seen = seen;
        for start in ended {
            if let Some(known) = self.now.remove(&start) {
                say(start, known.since..time + 1);
            }
        }
    }

    /// What is in flight at the end of the piece; says since when.
    fn end(mut self, say: &mut dyn FnMut(usize, Range<u64>)) -> Flying {
        let piece = &self.all.pieces[self.piece];
        let Some((last, _)) = piece.ops.last() else {
            return self.into.into_owned();
        };
        let mut out = Flying::new();
        for (start, known) in std::mem::take(&mut self.now) {
            say(start, known.since..*last + 1);
            if piece.next.is_empty() || !self.all.follow {
                out.insert(start, Vec::new());
                continue;
            }
            let here = &self.here[self.all.steps[start].queue];
            let marks = match known.started {
                Some(_) => {
                    let from = here.binary_search(&start).unwrap_or_else(|at| at);
                    here[from..].to_vec()
                }
                None => {
                    let before = self.into[&start].iter();
                    let all: BTreeSet<usize> = before.chain(here).copied().collect();
                    all.into_iter().collect()
                }
            };
            out.insert(start, marks);
        }
        out
    }
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
                        before: None,
                    });
                }
            }
        }
        let mut number: HashMap<Value, usize> = HashMap::default();
        for (i, step) in steps.iter().enumerate() {
            let tokens = ir
                .results(step.op)
                .filter(|v| ir.ty(*v) == tir_accel::token());
            number.extend(tokens.map(|token| (token, i)));
        }
        let mut takers = vec![Vec::new(); pieces.len()];
        for (at, piece) in pieces.iter().enumerate() {
            for handed in &piece.handed {
                let next = steps.len() + number.len();
                number.entry(handed.token).or_insert(next);
                for (from, _) in &handed.from {
                    if !takers[*from].contains(&at) {
                        takers[*from].push(at);
                    }
                }
            }
        }
        let times = pieces
            .iter()
            .filter_map(|piece| Some(piece.ops.last()?.0 + 1));
        let mut at = vec![None; times.max().unwrap_or(0) as usize];
        let mut last: HashMap<(usize, usize), usize> = HashMap::default();
        for (number, step) in steps.iter_mut().enumerate() {
            at[step.time as usize] = Some(number);
            step.before = last.insert((step.piece, step.queue), number);
        }
        let mut all = Self {
            ir,
            pieces,
            number,
            at,
            queues: queues.len(),
            steps,
            into: vec![Flying::new(); pieces.len()],
            out: vec![Flying::new(); pieces.len()],
            takers,
            reached: reached(pieces),
            follow: true,
        };
        if !all.solve() {
            all.follow = false;
            all.into = vec![Flying::new(); pieces.len()];
            all.out = vec![Flying::new(); pieces.len()];
            all.solve();
        }
        Some(all)
    }

    /// Whether it came to an end with as many facts as there may be.
    fn solve(&mut self) -> bool {
        let mut facts = 0;
        let mut work: BTreeSet<usize> = (0..self.pieces.len())
            .filter(|at| self.reached[*at])
            .collect();
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
            if self.follow && !self.takers[at].is_empty() && self.out[at] != out {
                work.extend(&self.takers[at]);
                self.out[at] = out;
            }
            if facts > FACTS && self.follow {
                return false;
            }
        }
        true
    }

    /// What is in flight at the begin of a piece, with the tokens that are handed to it.
    fn entered(&self, at: usize) -> Cow<'_, Flying> {
        let handed = &self.pieces[at].handed;
        if handed.is_empty() || !self.follow {
            return Cow::Borrowed(&self.into[at]);
        }
        let mut into = self.into[at].clone();
        for handed in handed {
            let own = self.number[&handed.token];
            let ways = handed.from.iter().map(|(from, token)| {
                let out = &self.out[*from];
                let flies = |step: usize| out.contains_key(&step);
                let known = self.implied(vec![*token], &flies, &mut HashSet::default());
                let behind =
                    |number: usize, start: usize| out[&start].binary_search(&number).is_ok();
                (*from, self.ended(known, out.keys(), behind, |_, _| true))
            });
            let ways: Vec<(usize, BTreeSet<usize>)> = ways.collect();
            for (start, marks) in &mut into {
                // On ways where it is not in flight nothing is asked.
                let mut asked = ways
                    .iter()
                    .filter(|(from, _)| self.out[*from].contains_key(start));
                let behind = asked.all(|(_, ended)| ended.contains(start));
                match (marks.binary_search(&own), behind) {
                    (Ok(place), false) => drop(marks.remove(place)),
                    (Err(place), true) => marks.insert(place, own),
                    _ => (),
                }
            }
        }
        Cow::Owned(into)
    }

    /// The work in flight that has ended when what has some numbers has: what these certainly came behind, and what that waited for
    /// in its own piece, if that is so of the last time that both ran.
    fn ended<'n>(
        &self,
        mut known: Vec<usize>,
        flying: impl Iterator<Item = &'n usize>,
        is_behind: impl Fn(usize, usize) -> bool,
        is_of_it: impl Fn(usize, usize) -> bool,
    ) -> BTreeSet<usize> {
        // Starts and marks say something of their queue alone.
        let mut left: Vec<Vec<usize>> = vec![Vec::new(); self.queues];
        flying.for_each(|start| left[self.steps[*start].queue].push(*start));
        let mut seen: HashSet<usize> = known.iter().copied().collect();
        let (mut ended, mut at) = (BTreeSet::new(), 0);
        while let Some(number) = known.get(at).copied() {
            at += 1;
            let queue = self.steps.get(number).map(|step| step.queue);
            let queues = queue.map_or(0..self.queues, |queue| queue..queue + 1);
            for left in &mut left[queues] {
                let new = left.extract_if(.., |start| is_behind(number, *start));
                for start in new {
                    ended.insert(start);
                    let own = &self.steps[start];
                    let tokens = self.ir.operands(own.op);
                    let before = tokens.filter_map(|token| self.number.get(&token).copied());
                    let before = before.filter(|number| {
                        let step = self.steps.get(*number);
                        step.is_some_and(|step| step.piece == own.piece)
                    });
                    let before = before.filter(|number| is_of_it(*number, start));
                    known.extend(before.filter(|number| seen.insert(*number)));
                }
            }
        }
        ended
    }

    /// Goes through a piece: says what is in flight when, and gives what is so at its end.
    fn pass(&self, at: usize, say: &mut dyn FnMut(usize, Range<u64>)) -> Flying {
        let mut state = State::new(self, at);
        for (time, op) in &self.pieces[at].ops {
            state.step(*time, *op, say);
        }
        state.end(say)
    }

    /// The numbers of tokens, of those that their work waited for itself, and of what their queues did before, as far as that `flies`:
    /// those that were not seen before.
    ///
    /// All of it was done the last time that control came there: a token that is known at a place is that of the last time,
    /// and so are those of what it waited for, and what stands before it in its piece.
    fn implied(
        &self,
        mut tokens: Vec<Value>,
        flies: &dyn Fn(usize) -> bool,
        seen: &mut HashSet<usize>,
    ) -> Vec<usize> {
        let (mut out, token_type) = (Vec::new(), tir_accel::token());
        let mut work: Vec<usize> = Vec::new();
        loop {
            let known = tokens.drain(..);
            work.extend(known.filter_map(|token| self.number.get(&token)));
            let Some(number) = work.pop() else {
                return out;
            };
            if !seen.insert(number) {
                continue;
            }
            out.push(number);
            if let Some(step) = self.steps.get(number) {
                let after = self.ir.operands(step.op);
                tokens.extend(after.filter(|v| self.ir.ty(*v) == token_type));
                work.extend(step.before.filter(|_| !step.work || flies(number)));
            }
        }
    }

    /// Whether waits are followed: not where pieces hand on too many facts.
    pub(crate) fn follows(&self) -> bool {
        self.follow
    }

    /// The work that is in flight at the end of a piece that nothing follows, by its start; none where waits are not followed.
    pub(crate) fn left(&self) -> BTreeSet<OpId> {
        if !self.follow {
            return BTreeSet::new();
        }
        let ends = (0..self.pieces.len()).filter(|at| self.pieces[*at].next.is_empty());
        let ends = ends.filter(|at| self.reached[*at]);
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
