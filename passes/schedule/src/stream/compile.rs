//! From the ops of a function to steps.

use std::collections::HashMap;

use tir::{Failure, Ir, MemRefType, Name, OpId, RegionId, Value};
use tir_accel::transfer::strided;
use tir_accel::{Call, DmaStart, DmaWait, MachineInfo, Mark, Ready};
use tir_loop::{Bounds, For, If};
use tir_memref::{CollapseShape, ExpandShape, GetGlobal, SubView, View};

use super::step::{Foot, Slot, Step, Val};
use super::{Actor, Root, Site, Stream, starts_work};

/// A function on its way to steps.
pub(super) struct Compile<'a> {
    pub(super) ir: &'a Ir,
    pub(super) machine: &'a MachineInfo,
    pub(super) slots: HashMap<Value, Slot>,
    /// Whether what a slot holds does not depend on data.
    pub(super) known: Vec<bool>,
    pub(super) out: Stream,
}

impl Compile<'_> {
    pub(super) fn slot(&mut self, value: Value) -> Slot {
        if let Some(slot) = self.slots.get(&value) {
            return *slot;
        }
        let slot = self.fresh(0);
        self.slots.insert(value, slot);
        slot
    }
    pub(super) fn fresh(&mut self, a: i64) -> Slot {
        self.out.init.push(Val { a, root: 0 });
        self.known.push(true);
        self.out.init.len() - 1
    }
    pub(super) fn root(
        &mut self,
        value: Value,
        slot: Slot,
        name: String,
        defined: bool,
        local: bool,
    ) -> Result<(), Failure> {
        let ty = self.ir.ty(value);
        let (shape, strides, elem) = strided(ty)?;
        let reach = shape
            .iter()
            .zip(&strides)
            .map(|(n, s)| (n - 1).max(0) * s.abs())
            .sum::<i64>();
        let bytes = if shape.contains(&0) { 0 } else { reach + elem };
        let space = ty.get::<MemRefType>().and_then(MemRefType::space_name);
        let far = self.machine.far().map(|s| s.name);
        let space = space.or(far).ok_or("has no memory space")?;
        self.out.init[slot] = Val {
            a: 0,
            root: self.out.roots.len(),
        };
        let name = self.ir.hint(value).map_or(name, |h| h.as_str().to_string());
        self.out.roots.push(Root {
            value,
            name,
            space,
            bytes,
            defined,
            local,
        });
        Ok(())
    }
    pub(super) fn foot(&mut self, value: Value) -> Result<Foot, Failure> {
        let (shape, strides, elem) = strided(self.ir.ty(value))?;
        let dims = shape.into_iter().zip(strides).collect();
        Ok(Foot {
            view: self.slot(value),
            dims,
            elem,
        })
    }
    pub(super) fn site(
        &mut self,
        op: OpId,
        actor: Actor,
        cycles: u64,
        label: Option<Name>,
    ) -> usize {
        self.out.sites.push(Site {
            op,
            actor,
            cycles,
            label,
        });
        self.out.sites.len() - 1
    }
    pub(super) fn slots_of(&mut self, values: &[Value]) -> Vec<Slot> {
        values.iter().map(|v| self.slot(*v)).collect()
    }

    pub(super) fn region(&mut self, region: RegionId) -> Result<Vec<Step>, Failure> {
        let mut steps = Vec::new();
        let Some(block) = self.ir.entry(region) else {
            return Ok(steps);
        };
        let ir = self.ir;
        for op in ir.ops_in(block) {
            let done = self.op(op, &mut steps);
            done.map_err(|e| {
                Box::new(
                    (*e).or_at(ir.loc(op))
                        .context(format_args!("'{}': ", ir.name(op))),
                )
            })?;
            if starts_work(ir, op) {
                self.out.points.push(op);
                steps.push(Step::Point {
                    point: self.out.points.len() - 1,
                });
            }
        }
        Ok(steps)
    }

    fn op(&mut self, op: OpId, steps: &mut Vec<Step>) -> Result<(), Failure> {
        let ir = self.ir;
        if let Some(value) = ir
            .attr(op, "value")
            .filter(|_| ir.has(op, tir::Traits::ConstantLike))
        {
            let slot = self.slot(ir.result(op, 0));
            self.out.init[slot].a = value.as_int().unwrap_or(0);
        } else if let Some(looped) = ir.get::<For>(op) {
            self.looped(op, &looped, steps)?;
        } else if let Some(branch) = ir.get::<If>(op) {
            self.branch(op, &branch, steps)?;
        } else if let Some(view) = ir.get::<SubView>(op) {
            self.sub_view(op, &view, steps)?;
        } else if let Some(view) = ir.get::<View>(op) {
            let (dst, src) = (self.slot(ir.result(op, 0)), self.slot(view.source));
            let shift = self.slot(view.byte_shift);
            steps.push(Step::Shift {
                dst,
                src,
                terms: vec![(shift, 1)],
                plus: 0,
            });
        } else if ir.is::<CollapseShape>(op) || ir.is::<ExpandShape>(op) {
            let (dst, src) = (self.slot(ir.result(op, 0)), self.slot(ir.operand(op, 0)));
            steps.push(Step::Shift {
                dst,
                src,
                terms: vec![],
                plus: 0,
            });
        } else if ir.is::<tir_memref::Alloc>(op) || ir.is::<GetGlobal>(op) {
            let value = ir.result(op, 0);
            let slot = self.slot(value);
            let local = ir.is::<tir_memref::Alloc>(op);
            let name = format!("buffer {}", self.out.roots.len());
            let name = ir
                .get::<GetGlobal>(op)
                .map_or(name, |g| g.name.0.as_str().to_string());
            self.root(value, slot, name, !local, local)?;
        } else if let Some(start) = ir.get::<DmaStart>(op) {
            self.start(op, &start, steps)?;
        } else if let Some(call) = ir.get::<Call>(op) {
            self.call(op, &call, steps)?;
        } else if let Some(mark) = ir.get::<Mark>(op) {
            let queue = self
                .out
                .queue(mark.queue.0)
                .ok_or("marks what is no queue")?;
            let dst = self.slot(ir.result(op, 0));
            steps.push(Step::Mark { dst, queue });
        } else if ir.is::<Ready>(op) {
            self.slot(ir.result(op, 0));
        } else if let Some(wait) = ir.get::<DmaWait>(op) {
            let (site, after) = (
                self.site(op, Actor::Wait, 0, None),
                self.slots_of(&wait.tokens),
            );
            steps.push(Step::Work {
                site,
                reads: vec![],
                writes: vec![],
                after,
                token: None,
            });
        } else if ir.name(op) == "func.return" {
            let site = self.site(op, Actor::Return, 0, None);
            steps.push(Step::Work {
                site,
                reads: vec![],
                writes: vec![],
                after: vec![],
                token: None,
            });
        } else if !self.transfer(op, steps)? {
            self.other(op, steps)?;
        }
        Ok(())
    }

    fn looped(&mut self, op: OpId, looped: &For, steps: &mut Vec<Step>) -> Result<(), Failure> {
        let ir = self.ir;
        let bounds = looped.all_bounds().ok_or("has no bounds")?;
        let bounds = bounds.map(|b| match b {
            Bounds::Static(n) => self.fresh(n),
            Bounds::Dynamic(v) => self.slot(v),
        });
        if bounds.iter().any(|b| !self.known[*b]) {
            return Err("has bounds that depend on data".into());
        }
        let block = ir.entry(looped.body).ok_or("has an empty region")?;
        let args: Vec<Value> = ir.args(block).collect();
        let args = self.slots_of(&args);
        let inits = self.slots_of(&looped.init);
        let body = self.region(looped.body)?;
        let end = ir.last(block).ok_or("has an empty region")?;
        let yields: Vec<Value> = ir.operands(end).collect();
        let yields = self.slots_of(&yields);
        let results: Vec<Value> = ir.results(op).collect();
        let results = self.slots_of(&results);
        steps.push(Step::Loop {
            bounds,
            iv: args[0],
            init: inits.into_iter().zip(args[1..].iter().copied()).collect(),
            body,
            carry: yields.into_iter().zip(args[1..].iter().copied()).collect(),
            out: args[1..].iter().copied().zip(results).collect(),
            op,
        });
        Ok(())
    }

    fn branch(&mut self, op: OpId, branch: &If, steps: &mut Vec<Step>) -> Result<(), Failure> {
        let ir = self.ir;
        let condition = self.slot(branch.condition);
        if !self.known[condition] && starts_work(ir, op) {
            return Err("starts work or not depending on data".into());
        }
        let results: Vec<Value> = ir.results(op).collect();
        let results = self.slots_of(&results);
        let mut branches = [vec![], vec![]];
        let mut yields = [vec![], vec![]];
        for (i, region) in [branch.then_region, branch.else_region]
            .into_iter()
            .enumerate()
        {
            branches[i] = self.region(region)?;
            if let Some(end) = ir.entry(region).and_then(|b| ir.last(b)) {
                let values: Vec<Value> = ir.operands(end).collect();
                yields[i] = self
                    .slots_of(&values)
                    .into_iter()
                    .zip(results.iter().copied())
                    .collect();
            }
        }
        steps.push(Step::If {
            condition,
            branches,
            yields,
        });
        Ok(())
    }
}
