//! Steps of ops that do work or touch memory: transfers, calls, generics, views.

use tir::{DYNAMIC, Failure, OpId, Value};
use tir_accel::transfer::{Pattern, strided};
use tir_accel::{Call, Direction, DmaStart};
use tir_memref::SubView;
use tir_tensor::Generic;

use super::Actor;
use super::compile::Compile;
use super::step::{Slot, Step};

impl Compile<'_> {
    /// A transfer on an engine.
    pub(super) fn start(
        &mut self,
        op: OpId,
        start: &DmaStart,
        steps: &mut Vec<Step>,
    ) -> Result<(), Failure> {
        let ir = self.ir;
        let pattern = Pattern::new(ir.ty(start.far), ir.ty(start.tile), &start.access)?;
        let queue = self
            .out
            .queue(start.engine.0)
            .ok_or("starts what is no queue")?;
        let site = self.site(op, Actor::Queue(queue), 0, Some(start.engine.0));
        let offsets = self.offsets(&start.offsets, &start.static_offsets);
        let (far, tile) = (self.slot(start.far), self.slot(start.tile));
        let (after, token) = (
            self.slots_of(&start.after),
            Some(self.slot(ir.result(op, 0))),
        );
        let read = start.direction == Direction::Read;
        steps.push(Step::Move {
            site,
            pattern: pattern.into(),
            far,
            tile,
            offsets,
            read,
            after,
            token,
        });
        Ok(())
    }

    /// Transfers of the memref level: the thread does them.
    pub(super) fn transfer(&mut self, op: OpId, steps: &mut Vec<Step>) -> Result<bool, Failure> {
        let ir = self.ir;
        let (far, tile, offsets, fixed, access, read) =
            if let Some(t) = ir.get::<tir_memref::TransferRead>(op) {
                (
                    t.source,
                    t.tile,
                    t.offsets,
                    t.static_offsets,
                    t.access,
                    true,
                )
            } else if let Some(t) = ir.get::<tir_memref::TransferWrite>(op) {
                (t.dest, t.tile, t.offsets, t.static_offsets, t.access, false)
            } else {
                return Ok(false);
            };
        let pattern = Pattern::new(ir.ty(far), ir.ty(tile), &access)?;
        let site = self.site(op, Actor::Thread, 0, None);
        let offsets = self.offsets(&offsets, &fixed);
        let (far, tile) = (self.slot(far), self.slot(tile));
        steps.push(Step::Move {
            site,
            pattern: pattern.into(),
            far,
            tile,
            offsets,
            read,
            after: vec![],
            token: None,
        });
        Ok(true)
    }

    pub(super) fn call(
        &mut self,
        op: OpId,
        call: &Call,
        steps: &mut Vec<Step>,
    ) -> Result<(), Failure> {
        let name = call.callee.0;
        let intrinsic = self
            .machine
            .intrinsic(name)
            .ok_or("calls what the machine has not")?;
        let queue = self
            .out
            .queue(intrinsic.unit)
            .ok_or("runs on what is no queue")?;
        let site = self.site(
            op,
            Actor::Queue(queue),
            intrinsic.cycles.max(0) as u64,
            Some(name),
        );
        let (mut reads, mut writes) = (vec![], vec![]);
        for (i, value) in call.operands.iter().enumerate() {
            if i < intrinsic.writes {
                writes.push(self.foot(*value)?);
            }
            if intrinsic.reads.get(i) == Some(&true) {
                reads.push(self.foot(*value)?);
            }
        }
        let after = self.slots_of(&call.after);
        steps.push(Step::Work {
            site,
            reads,
            writes,
            after,
            token: None,
        });
        Ok(())
    }

    /// What the thread does itself: accesses by effects, and arithmetic.
    pub(super) fn other(&mut self, op: OpId, steps: &mut Vec<Step>) -> Result<(), Failure> {
        let ir = self.ir;
        if let Some(generic) = ir.get::<Generic>(op) {
            let (mut reads, mut writes) = (vec![], vec![]);
            for value in &generic.inputs {
                reads.push(self.foot(*value)?);
            }
            for value in &generic.outputs {
                writes.push(self.foot(*value)?);
                if generic.combine.is_some() {
                    reads.push(self.foot(*value)?);
                }
            }
            let site = self.site(op, Actor::Thread, 0, None);
            steps.push(Step::Work {
                site,
                reads,
                writes,
                after: vec![],
                token: None,
            });
            return Ok(());
        }
        let effects = ir.effects(op).ok_or("is not known to the machine")?;
        if effects.is_empty() {
            for value in ir.results(op) {
                let slot = self.slot(value);
                let scalar = ir.ty(value).is_index() || ir.ty(value).is_int();
                if !scalar {
                    continue;
                }
                let mut args = [0; 3];
                for (arg, value) in args.iter_mut().zip(ir.operands(op)) {
                    *arg = self.slot(value);
                }
                let known = ir
                    .operands(op)
                    .all(|v| self.slots.get(&v).is_some_and(|s| self.known[*s]));
                self.known[slot] = known
                    && ir
                        .operands(op)
                        .all(|v| ir.ty(v).is_index() || ir.ty(v).is_int());
                let predicate = ir
                    .attr(op, "predicate")
                    .and_then(tir::Attr::as_int)
                    .unwrap_or(0);
                steps.push(Step::Int {
                    dst: slot,
                    op: ir.name(op),
                    args,
                    predicate,
                });
            }
            return Ok(());
        }
        let (mut reads, mut writes) = (vec![], vec![]);
        for effect in effects {
            let value = effect.on.ok_or("has effects on memory that is not known")?;
            match effect.access {
                tir::Access::Read => reads.push(self.foot(value)?),
                tir::Access::Write => writes.push(self.foot(value)?),
                tir::Access::Allocate | tir::Access::Free => {}
            }
        }
        for value in ir.results(op) {
            let slot = self.slot(value);
            self.known[slot] = false;
        }
        if !reads.is_empty() || !writes.is_empty() {
            let site = self.site(op, Actor::Thread, 0, None);
            steps.push(Step::Work {
                site,
                reads,
                writes,
                after: vec![],
                token: None,
            });
        }
        Ok(())
    }

    fn offsets(&mut self, values: &[Value], numbers: &[i64]) -> Vec<Slot> {
        let mut values = values.iter();
        let mut slots = Vec::new();
        for n in numbers {
            slots.push(match (*n, values.clone().next()) {
                (DYNAMIC, Some(v)) => {
                    values.next();
                    self.slot(*v)
                }
                (n, _) => self.fresh(n),
            });
        }
        slots
    }

    pub(super) fn sub_view(
        &mut self,
        op: OpId,
        view: &SubView,
        steps: &mut Vec<Step>,
    ) -> Result<(), Failure> {
        let (dst, src) = (self.slot(self.ir.result(op, 0)), self.slot(view.source));
        let (_, strides, _) = strided(self.ir.ty(view.source))?;
        let (mut terms, mut plus) = (vec![], 0i64);
        let mut dynamic = view.offsets.iter();
        for (n, stride) in view.static_offsets.iter().zip(strides) {
            if *n == DYNAMIC {
                let value = dynamic.next().ok_or("has too few offsets")?;
                terms.push((self.slot(*value), stride));
            } else {
                plus = plus.saturating_add(n.saturating_mul(stride));
            }
        }
        steps.push(Step::Shift {
            dst,
            src,
            terms,
            plus,
        });
        Ok(())
    }
}
