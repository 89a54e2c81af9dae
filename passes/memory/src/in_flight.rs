//! Which asynchronous work may still run when the program comes to an op.
//!
//! Work is *in flight* from its start to a wait of the thread that ends it: for its own token, for that of later work of its queue,
//! or for a mark that was made behind it, as queues end their work in order; or for work that waited for one of these itself. Tokens that loops and branches hand on end nothing here:
//! that says too much of what is in flight, and never too little.
//!
//! Asked of programs that wait; in others the order is not there yet.

use std::collections::{HashMap, HashSet};

use fixedbitset::FixedBitSet;
use tir::{Definition, Ir, Name, OpId, Value};
use tir_accel::{DmaStart, DmaWait, MachineInfo, Mark};

use crate::liveness::Piece;

/// The most facts that are followed; with more, what is in flight stays so to the end.
const FACTS: usize = 1 << 16;

/// What is in flight in a function.
pub(crate) struct InFlight<'a> {
    ir: &'a Ir,
    pieces: &'a [Piece],
    /// Ops that start work, with their queue.
    starts: Vec<(OpId, Name)>,
    /// By start or mark: its number among those of its queue, and the queue.
    marks: HashMap<OpId, (usize, Name)>,
    /// Of each start the number of its first fact: that it is in flight. Then, for each mark of its queue: that it is not covered by it.
    first: Vec<usize>,
    facts: usize,
    into: Vec<FixedBitSet>,
    follow: bool,
}

impl<'a> InFlight<'a> {
    /// What is in flight in a function of these pieces; `None` if the thread waits for nothing, or work is not asynchronous.
    pub(crate) fn of(ir: &'a Ir, machine: &MachineInfo, pieces: &'a [Piece]) -> Option<Self> {
        let all = || {
            pieces
                .iter()
                .flat_map(|piece| &piece.ops)
                .map(|(_, op)| *op)
        };
        if machine.in_order || !all().any(|op| ir.is::<DmaWait>(op)) {
            return None;
        }
        let (mut starts, mut marks) = (Vec::new(), HashMap::new());
        let mut counts: HashMap<Name, usize> = HashMap::new();
        for op in all() {
            let dma: Option<DmaStart> = ir.get(op);
            let start = dma
                .map(|dma| dma.engine.0)
                .or_else(|| machine.unit_of(ir, op));
            starts.extend(start.map(|queue| (op, queue)));
            let mark: Option<Mark> = ir.get(op);
            if let Some(queue) = start.or(mark.map(|mark| mark.queue.0)) {
                let count = counts.entry(queue).or_default();
                marks.insert(op, (*count, queue));
                *count += 1;
            }
        }
        let (mut first, mut facts) = (Vec::new(), 0);
        for (_, queue) in &starts {
            first.push(facts);
            facts += 1 + counts[queue];
        }
        let follow = facts <= FACTS;
        if !follow {
            first = (0..starts.len()).collect();
            facts = starts.len();
        }
        let none = || FixedBitSet::with_capacity(facts);
        let mut all = Self {
            ir,
            pieces,
            starts,
            marks,
            first,
            facts,
            into: pieces.iter().map(|_| none()).collect(),
            follow,
        };
        all.solve();
        Some(all)
    }

    fn solve(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            for (at, piece) in self.pieces.iter().enumerate() {
                let mut now = self.into[at].clone();
                piece
                    .ops
                    .iter()
                    .for_each(|(_, op)| self.pass(*op, &mut now));
                for next in &piece.next {
                    changed |= !now.is_subset(&self.into[*next]);
                    self.into[*next].union_with(&now);
                }
            }
        }
    }

    /// What is in flight behind an op.
    fn pass(&self, op: OpId, now: &mut FixedBitSet) {
        let end = |i: usize| self.first.get(i + 1).copied().unwrap_or(self.facts);
        if let Some(i) = self.starts.iter().position(|(start, _)| *start == op) {
            now.insert_range(self.first[i]..end(i));
        }
        if !self.follow {
            return;
        }
        if let Some((mark, queue)) = self.marks.get(&op) {
            for (i, _) in self.of_queue(*queue) {
                now.set(self.first[i] + 1 + mark, false);
            }
        }
        let Some(DmaWait { tokens }) = self.ir.get(op) else {
            return;
        };
        for (mark, queue) in self.implied(tokens) {
            for (i, _) in self.of_queue(queue) {
                if !now.contains(self.first[i] + 1 + mark) {
                    now.set_range(self.first[i]..end(i), false);
                }
            }
        }
    }

    fn of_queue(&self, queue: Name) -> impl Iterator<Item = (usize, &(OpId, Name))> {
        let starts = self.starts.iter().enumerate();
        starts.filter(move |(_, (_, of))| *of == queue)
    }

    /// The marks of tokens, and of those that their work waited for itself.
    fn implied(&self, mut tokens: Vec<Value>) -> Vec<(usize, Name)> {
        let (mut seen, mut out) = (HashSet::new(), Vec::new());
        while let Some(token) = tokens.pop() {
            let Definition::Result(op, _) = self.ir.definition(token) else {
                continue;
            };
            if let Some(mark) = self.marks.get(&op).filter(|_| seen.insert(op)) {
                out.push(*mark);
                let after = self.ir.operands(op);
                tokens.extend(after.filter(|v| self.ir.ty(*v) == tir_accel::token()));
            }
        }
        out
    }

    /// For each time what is in flight then: the ops that started it. A wait is a time of what it ends.
    pub(crate) fn times(&self) -> Vec<(u64, OpId)> {
        let mut out = Vec::new();
        for (piece, into) in self.pieces.iter().zip(&self.into) {
            let mut now = into.clone();
            for (time, op) in &piece.ops {
                let flying = self.first.iter().zip(&self.starts);
                let flying = flying.filter(|(first, _)| now.contains(**first));
                out.extend(flying.map(|(_, (start, _))| (*time, *start)));
                self.pass(*op, &mut now);
            }
        }
        out
    }
}
