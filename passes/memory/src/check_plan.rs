//! `check-plan`: buffers of a planned function that live at the same time do not overlap.
//!
//! This shares nothing with the planner. It reads the views of each byte allocation, and runs two
//! analyses over the text: which views may have been used before an op, and which may be used
//! after it. What is in both lives there. A view begins anew at its op.

use std::collections::BTreeSet;

use tir::{Diagnostic, Ir, MemRefType, OpId, Value};
use tir_accel::MachineInfo;
use tir_memref::{Alloc, View};

struct Placed {
    op: OpId,
    view: Value,
    arena: OpId,
    from: i64,
    to: i64,
}
type Set = BTreeSet<usize>;

/// All that is wrong with the plan of the function at the root of an arena.
pub fn check_plan(ir: &Ir, machine: &MachineInfo) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    let mut all: Vec<Placed> = Vec::new();
    for op in ir.walk_ids() {
        let Some(view) = ir.get::<View>(op) else {
            continue;
        };
        let arena = ir.owner(view.source).filter(|a| ir.is::<Alloc>(*a));
        let (Some(arena), Some(from)) = (arena, ir.constant_int(view.byte_shift)) else {
            continue;
        };
        let ty = view.result.0;
        let bytes = ty
            .elements()
            .zip(ty.bytes())
            .map_or(0, |(n, b)| (n * b) as i64);
        let space = ty.get::<MemRefType>().and_then(MemRefType::space_name);
        let space = space.and_then(|s| machine.space(s));
        if let Some(space) = space.filter(|s| from % s.align.max(1) != 0) {
            let text = format!(
                "lies at offset {from}, expected a multiple of {}",
                space.align
            );
            out.push(Diagnostic::error(text).at(ir.loc(op)));
        }
        let size = ir
            .ty(view.source)
            .shape()
            .and_then(|s| s.first().copied())
            .unwrap_or(0);
        if from < 0 || from + bytes > size {
            let text = format!("lies at bytes {from} to {} of {size}", from + bytes);
            out.push(Diagnostic::error(text).at(ir.loc(op)));
        }
        if let Some(space) = space.filter(|s| size > s.bytes) {
            let text = format!(
                "lies in {size} bytes of \"{}\", which has {}",
                space.name, space.bytes
            );
            out.push(Diagnostic::error(text).at(ir.loc(op)));
        }
        all.push(Placed {
            op,
            view: ir.result(op, 0),
            arena,
            from,
            to: from + bytes,
        });
    }
    let mut check = Check {
        ir,
        all: &all,
        bad: BTreeSet::new(),
    };
    if let Some(body) = ir.body_block(ir.root(), 0) {
        check.ops(ir.ops_in(body).collect(), &Set::new(), &Set::new());
    }
    for (a, b) in check.bad {
        let (x, y) = (&all[a], &all[b]);
        let name = |p: &Placed| {
            ir.hint(p.view)
                .map_or("a buffer".to_string(), |h| format!("%{h}"))
        };
        let (from, to) = (x.from.max(y.from), x.to.min(y.to));
        let text = format!(
            "{} and {} live at the same time and share bytes {from} to {to}",
            name(x),
            name(y)
        );
        out.push(
            Diagnostic::error(text)
                .at(ir.loc(y.op))
                .note_at(ir.loc(x.op), "the other is here"),
        );
    }
    out
}

struct Check<'a> {
    ir: &'a Ir,
    all: &'a [Placed],
    bad: BTreeSet<(usize, usize)>,
}

impl Check<'_> {
    /// The view behind a value.
    fn behind(&self, mut value: Value) -> Option<usize> {
        loop {
            if let Some(i) = self.all.iter().position(|p| p.view == value) {
                return Some(i);
            }
            let op = self.ir.owner(value)?;
            let part = self.ir.is_pure(op) && self.ir.operands(op).len() > 0;
            if !part || !self.ir.ty(self.ir.operand(op, 0)).is::<MemRefType>() {
                return None;
            }
            value = self.ir.operand(op, 0);
        }
    }

    /// Views that an op uses itself.
    fn used(&self, op: OpId) -> Set {
        if self.ir.is_pure(op) {
            return Set::new();
        }
        self.ir
            .operands(op)
            .filter(|v| self.ir.ty(*v).is::<MemRefType>())
            .filter_map(|v| self.behind(v))
            .collect()
    }

    fn used_below(&self, op: OpId) -> Set {
        self.ir
            .walk_below(op)
            .into_iter()
            .chain([op])
            .flat_map(|op| self.used(op))
            .collect()
    }

    fn begins(&self, op: OpId) -> Option<usize> {
        self.all.iter().position(|p| p.op == op)
    }

    /// Checks a list of ops; `before` was used before it, `after` is used behind it.
    fn ops(&mut self, ops: Vec<OpId>, before: &Set, after: &Set) {
        // What is used behind each op.
        let mut behind = vec![after.clone(); ops.len()];
        for i in (0..ops.len().saturating_sub(1)).rev() {
            let mut set = behind[i + 1].clone();
            if let Some(new) = self.begins(ops[i + 1]) {
                set.remove(&new);
            }
            set.extend(self.used_below(ops[i + 1]));
            behind[i] = set;
        }
        let mut before = before.clone();
        for (op, after) in ops.into_iter().zip(behind) {
            if let Some(new) = self.begins(op) {
                before.remove(&new);
                continue;
            }
            let below = self.used_below(op);
            if self.ir.regions(op).len() == 0 {
                let used: Set = before.union(&below).copied().collect();
                let live: Vec<usize> = used
                    .into_iter()
                    .filter(|v| after.contains(v) || below.contains(v))
                    .collect();
                self.compare(&live);
            } else {
                // A loop comes round: what it uses was used before it and is used behind it. What
                // begins in it does not come round.
                let inside: Set = self
                    .ir
                    .walk_below(op)
                    .into_iter()
                    .filter_map(|op| self.begins(op))
                    .collect();
                let round: Set = match self.ir.name(op) == "loop.for" {
                    true => below.difference(&inside).copied().collect(),
                    false => Set::new(),
                };
                let before: Set = before.union(&round).copied().collect();
                let after: Set = after.union(&round).copied().collect();
                for region in self.ir.regions(op) {
                    for block in self.ir.blocks(region) {
                        self.ops(self.ir.ops_in(block).collect(), &before, &after);
                    }
                }
            }
            before.extend(below);
        }
    }

    fn compare(&mut self, live: &[usize]) {
        for (i, a) in live.iter().enumerate() {
            for b in &live[i + 1..] {
                let (x, y) = (&self.all[*a], &self.all[*b]);
                if x.arena == y.arena && x.from < y.to && y.from < x.to {
                    self.bad.insert((*a.min(b), *a.max(b)));
                }
            }
        }
    }
}
