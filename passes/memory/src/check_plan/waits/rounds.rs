//! Work of one iteration that certainly still runs when a later one uses its bytes.
//!
//! Where ways meet at the begin of a loop's body, only what flies on all of them is known to: nothing of what the body itself starts, as none of
//! it flies on the way in. So the body is gone through once more, for loops of two iterations or more, with what flies on the ways
//! round alone. What it finds is certain where the user runs in each iteration: within nothing but loops that run.

use std::collections::{BTreeSet, HashMap};

use tir::interfaces::trip_count;
use tir::{Ir, OpId};

use super::{Checker, Flying, TooEarly, Waits, join};

impl Waits<'_> {
    /// What is used too early by a second iteration, given what flies at the begin of each stretch.
    pub(super) fn rounds(
        &self,
        checker: &Checker<'_>,
        states: &HashMap<u32, Flying>,
    ) -> BTreeSet<TooEarly> {
        let ir = checker.ir;
        let mut out = BTreeSet::new();
        for (at, op) in self.ops.iter().enumerate() {
            if trip_count(ir, *op).is_some_and(|trips| trips > 1) {
                self.second(checker, at, states, &mut out);
            }
        }
        out
    }

    fn second(
        &self,
        checker: &Checker<'_>,
        at: usize,
        states: &HashMap<u32, Flying>,
        out: &mut BTreeSet<TooEarly>,
    ) {
        let ir = checker.ir;
        let around = self.ops[at];
        // What is in it stands behind it in the text, its entry first.
        let inside = self.ops[at + 1..].iter();
        let inside = inside.take_while(|op| ir.is_below(**op, around)).count();
        let entry = (at + 1) as u32;
        let body = entry..entry + inside as u32;
        let own: Vec<u32> = body.clone().filter(|op| states.contains_key(op)).collect();
        // What flies at the end of an iteration.
        let mut round: Option<Flying> = None;
        for first in &own {
            let stretch = &self.stretches[first];
            if !stretch.next.contains(&entry) {
                continue;
            }
            let end = self.behind(stretch, &states[first]);
            match &mut round {
                Some(known) => drop(join(known, &end)),
                None => round = Some(end),
            }
        }
        let Some(round) = round.filter(|round| !round.is_empty()) else {
            return;
        };
        let goes = |next: u32| next != entry && body.contains(&next);
        let second = self.flow((entry, round), &goes);
        let mut found = self.found(checker, second);
        found.retain(|one| runs_each_time(ir, around, one.user));
        out.extend(found);
    }
}

/// Whether an op in a loop runs in each of its iterations: it stands in the first block of the body, or of loops in it that run.
fn runs_each_time(ir: &Ir, around: OpId, op: OpId) -> bool {
    let mut op = op;
    loop {
        let block = ir.block_of(op);
        let Some(holder) = ir.parent(op) else {
            return false;
        };
        let entry = ir.regions(holder).next().and_then(|r| ir.entry(r));
        if entry != block {
            return false;
        }
        if holder == around {
            return true;
        }
        if trip_count(ir, holder).is_none_or(|trips| trips <= 0) {
            return false;
        }
        op = holder;
    }
}
