//! Buffers that are allocated again while work on them is in flight.
//!
//! A buffer that a loop allocates has one place for all iterations. Work of an earlier iteration may go on at its allocation if
//! all that uses the buffer from there on comes behind that work: the thread once it has waited, work that waits for it by a token or by its
//! queue. Where the same op has started more since, that has to have ended: what uses the new buffer need not wait for that, if it
//! is on another part of it.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet as HashSet;
use tir::{OpId, Value};

use super::{InFlight, Now, State};
use crate::liveness::Lists;

/// A use of a buffer that nothing orders behind work of an earlier iteration on the same buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Again {
    /// The number of the buffer.
    pub(crate) buffer: usize,
    /// What started the work.
    pub(crate) work: OpId,
    /// What uses the buffer of the later iteration.
    pub(crate) user: OpId,
}

/// Work on buffers, by the numbers of both.
type On = BTreeSet<(usize, usize)>;

/// Work that goes on at a place: on a buffer that is still that of its name, and on one that was allocated again since.
#[derive(Clone, Default, PartialEq)]
struct Goes {
    on: On,
    old: On,
}

impl Goes {
    fn retain(&mut self, holds: impl Fn(usize) -> bool) {
        self.on.retain(|(_, start)| holds(*start));
        self.old.retain(|(_, start)| holds(*start));
    }
}

impl InFlight<'_> {
    /// The first such use in the order of the pieces, of buffers as they are used and made by time; `writes` says whether an op
    /// may write one.
    pub(crate) fn again(
        &self,
        used: &Lists,
        made: &[Option<usize>],
        writes: &dyn Fn(OpId, usize) -> bool,
    ) -> Option<Again> {
        let suspects = self.suspects(used, made);
        let pieces = suspects.iter().map(|(_, start)| self.steps[*start].piece);
        let mut work: BTreeSet<usize> = pieces.collect();
        let mut into: Vec<Goes> = vec![Goes::default(); self.pieces.len()];
        while let Some(at) = work.pop_first() {
            let mut goes = into[at].clone();
            let mut state = State::new(self, at);
            for (time, op) in &self.pieces[at].ops {
                if let Some(buffer) = made[*time as usize] {
                    let (again, on) = goes.on.iter().partition(|(known, _)| *known == buffer);
                    goes.on = on;
                    goes.old.extend::<On>(again);
                }
                for buffer in used.at(*time) {
                    let all = goes.old.iter().filter(|(known, _)| known == buffer);
                    for (_, start) in all {
                        let work = self.steps[*start].op;
                        let clash = writes(*op, *buffer) || writes(work, *buffer);
                        if clash && !state.comes_behind(*time, *start) {
                            return Some(Again {
                                buffer: *buffer,
                                work,
                                user: *op,
                            });
                        }
                    }
                }
                state.step(*time, *op, &mut |_, _| ());
                goes.retain(|start| state.now.contains_key(&start));
                if let Some(step) = self.at[*time as usize].filter(|at| self.steps[*at].work) {
                    let own = suspects.iter().filter(|(_, start)| *start == step);
                    goes.on.extend(own);
                }
            }
            for next in &self.pieces[at].next {
                let known = &mut into[*next];
                let before = known.clone();
                known.on.extend(&goes.on);
                known.old.extend(&goes.old);
                if *known != before {
                    work.insert(*next);
                }
            }
        }
        None
    }

    /// Buffers that may be allocated while work is in flight that uses them: by these it is asked closer.
    fn suspects(&self, used: &Lists, made: &[Option<usize>]) -> On {
        let mut out = On::new();
        for (at, piece) in self.pieces.iter().enumerate() {
            let makes = |(time, _): &(u64, OpId)| Some((*time, made[*time as usize]?));
            let makes: Vec<(u64, usize)> = piece.ops.iter().filter_map(makes).collect();
            if makes.is_empty() {
                continue;
            }
            self.pass(at, &mut |start, when| {
                let uses = used.at(self.steps[start].time);
                let own = makes.iter().filter(|(time, _)| when.contains(time));
                let own = own.filter(|(_, buffer)| uses.contains(buffer));
                out.extend(own.map(|(_, buffer)| (*buffer, start)));
            });
        }
        out
    }
}

impl State<'_, '_> {
    /// Whether what an op starts certainly comes behind work that is in flight at it.
    fn comes_behind(&self, time: u64, start: usize) -> bool {
        let all = self.all;
        let Some(user) = all.at[time as usize].map(|step| &all.steps[step]) else {
            return false;
        };
        if user.queue == all.steps[start].queue {
            return true;
        }
        let tokens = all.ir.operands(user.op);
        let mut tokens: Vec<Value> = tokens.collect();
        // What its queue does before waits for its own.
        let mut before = user.before;
        while let Some(step) = before.map(|step| &all.steps[step]) {
            tokens.extend(all.ir.operands(step.op));
            before = step.before;
        }
        let flies = |step: usize| self.now.contains_key(&step);
        let implied = all.implied(tokens, &flies, &mut HashSet::default());
        // Of work that was started again in the piece the earlier one, too.
        let earlier = Now {
            since: time,
            started: None,
        };
        let mut numbers = implied.iter();
        numbers.any(|number| self.is_behind(*number, start, &earlier, time))
            || self.ended(implied, time).contains(&start)
    }
}
