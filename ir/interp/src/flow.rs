//! Control flow of compiled functions: blocks, branches, loops.

use tir_core::{BlockId, Failure, RegionId, Value};

use crate::code::{Instr, Label, Reg, Slot};
use crate::compile::Compiler;
use crate::ops::{IntCmp, ScalarOp};
use crate::optimize::{self, Counter};
use crate::scalar::{Kind, Scalar};

/// A counted loop: `for iv = lower; iv < upper; iv += step`, signed.
#[derive(Clone, Debug)]
pub struct CountedLoop<'a> {
    /// First value of the counter.
    pub lower: Reg,
    /// Where the counter ends, exclusive.
    pub upper: Reg,
    /// What is added to the counter: an error at run time unless it is positive.
    pub step: Reg,
    /// First values of what the loop carries.
    pub init: &'a [Value],
    /// One block: its arguments are the counter and what is carried; its terminator's operands
    /// are what is carried on.
    pub body: RegionId,
    /// What is carried in the end.
    pub results: &'a [Value],
}

impl<'m> Compiler<'m> {
    /// Compiles the blocks of a function.
    pub(crate) fn function(&mut self, region: RegionId) -> Result<(), Failure> {
        let blocks: Vec<BlockId> = self.ir.blocks(region).collect();
        let entry = *blocks.first().ok_or("the function has no body")?;
        let args: Vec<Value> = self.ir.args(entry).collect();
        for arg in args {
            let slot = self.slot(arg);
            self.code.params.push((slot, self.ir.ty(arg)));
        }
        for block in &blocks {
            let label = self.label();
            self.blocks.insert(*block, label);
        }
        for block in blocks {
            self.place(self.blocks[&block]);
            let ops: Vec<_> = self.ir.ops_in(block).collect();
            for op in ops {
                self.lower(op)?;
            }
            self.fail("the block ends without a terminator");
        }
        Ok(())
    }

    /// Puts a label here.
    pub fn place(&mut self, label: Label) {
        self.push(Instr::Label(label.0));
    }
    /// Jumps.
    pub fn jump(&mut self, to: Label) {
        self.push(Instr::Jump(to.0));
    }
    /// Jumps if the `i1` in a register is true.
    pub fn jump_if(&mut self, cond: Reg, to: Label) {
        self.push(Instr::JumpIf {
            cond: cond.index,
            to: to.0,
        });
    }
    /// Jumps if the `i1` in a register is false.
    pub fn jump_unless(&mut self, cond: Reg, to: Label) {
        self.push(Instr::JumpUnless {
            cond: cond.index,
            to: to.0,
        });
    }

    /// Copies values at once: `to[i]` becomes what `from[i]` was before.
    pub fn assign(&mut self, from: &[Value], to: &[Value]) -> Result<(), Failure> {
        if from.len() != to.len() {
            return Err(format!("{} values for {}", from.len(), to.len()).into());
        }
        let ports = self.ports(from);
        let mut moves = Vec::with_capacity(to.len());
        for (i, target) in to.iter().enumerate() {
            let (source, target) = (ports[i], self.slot(*target));
            match (source.slot, target) {
                (Slot::Scalar(a), Slot::Scalar(b)) if a.kind == b.kind => {}
                (Slot::Object(_), Slot::Object(_)) => {}
                _ => {
                    let (a, b) = (self.ir.ty(from[i]), self.ir.ty(to[i]));
                    return Err(format!("a value of type {a} for one of type {b}").into());
                }
            }
            if source.slot != target {
                // What also stays where it is, as another of the targets, is not moved away.
                let stays = |(j, v): (usize, &Value)| {
                    ports[j].slot == source.slot && self.slots_equal(*v, source.slot)
                };
                let last = source.last && !to.iter().enumerate().any(stays);
                moves.push((source.slot, target, last));
            }
        }
        self.moves(moves);
        Ok(())
    }

    /// Parallel moves: each target is written once, after its old content has been read.
    fn moves(&mut self, mut left: Vec<(Slot, Slot, bool)>) {
        while !left.is_empty() {
            let free = left
                .iter()
                .position(|(_, to, _)| left.iter().all(|(from, ..)| from != to));
            match free {
                Some(i) => {
                    let (from, to, last) = left.remove(i);
                    // The last of the moves from one source moves, whichever came last in the
                    // program.
                    let mut others = left.iter_mut().filter(|entry| entry.0 == from);
                    match others.next() {
                        Some(other) => {
                            other.2 |= last;
                            self.move_slot(from, to, false);
                        }
                        None => self.move_slot(from, to, last),
                    }
                }
                None => {
                    // Only cycles are left: one source goes to a temporary.
                    let from = left[0].0;
                    let temp = match from {
                        Slot::Scalar(reg) => Slot::Scalar(self.temp(reg.kind)),
                        Slot::Object(_) => Slot::Object(self.new_object()),
                    };
                    self.move_slot(from, temp, false);
                    for entry in left.iter_mut().filter(|entry| entry.0 == from) {
                        *entry = (temp, entry.1, true);
                    }
                }
            }
        }
    }
    fn move_slot(&mut self, from: Slot, to: Slot, last: bool) {
        match (from, to) {
            (Slot::Scalar(a), Slot::Scalar(b)) => self.push(Instr::Move {
                dst: b.index,
                src: a.index,
            }),
            (Slot::Object(src), Slot::Object(dst)) if last => {
                self.push(Instr::MoveObject { dst, src })
            }
            (Slot::Object(src), Slot::Object(dst)) => self.push(Instr::CopyObject { dst, src }),
            _ => {}
        }
    }

    /// Goes on with a block of the function.
    pub fn branch(&mut self, block: BlockId, args: &[Value]) -> Result<(), Failure> {
        let label = *self
            .blocks
            .get(&block)
            .ok_or("a branch out of the region")?;
        let params: Vec<Value> = self.ir.args(block).collect();
        self.assign(args, &params)?;
        self.jump(label);
        Ok(())
    }
    /// Goes on with one of two blocks of the function.
    pub fn branch_if(
        &mut self,
        cond: Value,
        then: (BlockId, &[Value]),
        other: (BlockId, &[Value]),
    ) -> Result<(), Failure> {
        let cond = self.reg(cond)?;
        let no = self.label();
        self.jump_unless(cond, no);
        self.branch(then.0, then.1)?;
        self.place(no);
        self.branch(other.0, other.1)
    }
    /// Goes on with the block of the first case that equals the flag, else with the default.
    pub fn branch_switch(
        &mut self,
        flag: Value,
        default: (BlockId, &[Value]),
        cases: &[(i64, BlockId, &[Value])],
    ) -> Result<(), Failure> {
        let flag = self.reg(flag)?;
        for (case, block, args) in cases {
            let next = self.label();
            let case = self.number(Scalar::int(*case, flag.kind));
            let hit = self.compute(ScalarOp::CmpInt(IntCmp::Eq, flag.kind), &[flag, case])?;
            self.jump_unless(hit, next);
            self.branch(*block, args)?;
            self.place(next);
        }
        self.branch(default.0, default.1)
    }

    /// One of two regions, whose terminators' operands become the results.
    pub fn if_else(
        &mut self,
        cond: Value,
        then: RegionId,
        other: Option<RegionId>,
        results: &[Value],
    ) -> Result<(), Failure> {
        let cond = self.reg(cond)?;
        let (no, end) = (self.label(), self.label());
        self.jump_unless(cond, no);
        let values = self.inline(then, &[])?;
        self.yield_to(then, &values, results)?;
        self.jump(end);
        self.place(no);
        if let Some(other) = other
            && self.ir.entry(other).is_some()
        {
            let values = self.inline(other, &[])?;
            self.yield_to(other, &values, results)?;
        }
        self.place(end);
        Ok(())
    }

    /// Assigns from the terminator of a region: what it uses last is moved.
    pub fn yield_to(
        &mut self,
        region: RegionId,
        values: &[Value],
        to: &[Value],
    ) -> Result<(), Failure> {
        let outer = self.op;
        self.op = self
            .ir
            .entry(region)
            .and_then(|b| self.ir.last(b))
            .or(outer);
        let done = self.assign(values, to);
        self.op = outer;
        done
    }

    /// A counted loop.
    pub fn counted_loop(&mut self, spec: &CountedLoop<'_>) -> Result<(), Failure> {
        let block = self.only_block(spec.body)?;
        let mut args = self.ir.args(block);
        let counter = args
            .next()
            .ok_or("the body of a loop needs its counter as argument")?;
        let carried: Vec<Value> = args.collect();
        let (lower, upper, step) = (spec.lower, spec.upper, spec.step);
        let iv = self.reg(counter)?;
        if self.is_once(lower, upper, step) {
            self.assign(spec.init, &carried)?;
            self.set_slot(counter, Slot::Scalar(lower));
            let yielded = self.block(block)?;
            return self.yield_to(spec.body, &yielded, spec.results);
        }
        let (head, exit) = (self.label(), self.label());
        let exit_at = exit.0;
        self.assign(spec.init, &carried)?;
        self.emit(ScalarOp::Copy(lower.kind), iv, &[lower])?;
        let (iv, upper, step) = (iv.index, upper.index, step.index);
        self.push(Instr::LoopEnter {
            iv,
            upper,
            step,
            exit: exit_at,
        });
        let start = self.code.instrs.len();
        if let Some(number) = self.watched_loop() {
            self.push(Instr::Round {
                number,
                iv,
                upper,
                step,
            });
        }
        let yielded = self.block(block)?;
        self.yield_to(spec.body, &yielded, &carried)?;
        let mut pinned = vec![iv];
        for value in &carried {
            if let Slot::Scalar(reg) = self.slot(*value) {
                pinned.push(reg.index);
            }
        }
        if optimize::shape(self, start, Counter { iv, upper, step }, &pinned, head) {
            self.push(Instr::LoopNext {
                iv,
                upper,
                step,
                body: head.0,
            });
        }
        self.place(exit);
        for (from, to) in carried.iter().zip(spec.results) {
            // Nobody reads what was carried after the loop.
            let (from, to) = (self.slot(*from), self.slot(*to));
            self.move_slot(from, to, true);
        }
        if spec.results.len() != carried.len() {
            return Err(format!(
                "{} results of a loop that carries {}",
                spec.results.len(),
                carried.len()
            )
            .into());
        }
        Ok(())
    }

    /// Whether a loop between numbers runs exactly once.
    fn is_once(&self, lower: Reg, upper: Reg, step: Reg) -> bool {
        let number = |r: Reg| self.is_number(r.index).map(|n| n as i64);
        let (Some(low), Some(high), Some(step)) = (number(lower), number(upper), number(step))
        else {
            return false;
        };
        step > 0 && low < high && low.checked_add(step).is_none_or(|next| next >= high)
    }

    /// A register with an index constant.
    pub fn index(&mut self, value: i64) -> Reg {
        self.number(Scalar::int(value, Kind::Index))
    }
}
