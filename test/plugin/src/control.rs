//! Control flow of fixed: a loop and a condition that passes know only by what the ops say of themselves.
//!
//! Neither has results, nor hands anything to its regions but the number of an iteration.

use tir::constraints::{BOOL, INDEX};
use tir::interfaces::{RegionBranchLike, RegionEdge, RegionPoint};
use tir::interp::CountedLoop;
use tir::{
    Compiler, Failure, Interval, LoopLike, LowerToEval, Op, OpRef, RegionId, Type, Value, Verify,
};

/// Runs its region so many times; the argument of the region is the number of the iteration, from 0.
#[derive(Op)]
#[op(
    "fixed.repeat",
    SingleBlock,
    RecursiveEffects,
    terminator(Next),
    loop_like,
    region_branch,
    verify,
    lower_to_eval
)]
#[asm("$times $body attr-dict implicit-terminator(fixed.next)")]
pub struct Repeat {
    /// How many times; not negative.
    pub times: i64,
    /// What runs.
    pub body: RegionId,
}
impl Verify for Repeat {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        if self.times < 0 {
            return Err(format!("runs {} times, expected at least 0", self.times).into());
        }
        let entry = op.ir.entry(self.body).ok_or("has an empty region")?;
        let args: Vec<Type> = op.ir.args(entry).map(|arg| op.ir.ty(arg)).collect();
        match args[..] {
            [ty] if INDEX.holds(ty) => Ok(()),
            _ => Err("has a region that does not take one index".into()),
        }
    }
}
impl LoopLike for Repeat {
    fn bodies(&self, _: OpRef<'_>) -> Vec<RegionId> {
        vec![self.body]
    }
    fn trip_count(&self, _: OpRef<'_>) -> Option<i64> {
        Some(self.times)
    }
    fn counter(&self, op: OpRef<'_>) -> Option<(Value, Interval)> {
        let value = op.ir.args(op.ir.entry(self.body)?).next()?;
        (self.times > 0).then(|| (value, Interval::new(0, self.times - 1)))
    }
}
impl RegionBranchLike for Repeat {
    fn edges(&self, _: OpRef<'_>) -> Vec<RegionEdge> {
        use RegionPoint::{Parent, Region};
        let all = [
            (Parent, Region(0)),
            (Region(0), Region(0)),
            (Region(0), Parent),
            (Parent, Parent),
        ];
        all.map(edge).into()
    }
}
impl LowerToEval for Repeat {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let [lower, upper, step] = [0, self.times, 1].map(|n| cx.index(n));
        cx.counted_loop(&CountedLoop {
            lower,
            upper,
            step,
            init: &[],
            body: self.body,
            results: &[],
        })
    }
}

/// Runs its first region if a flag is set, else the second.
#[derive(Op)]
#[op(
    "fixed.fork",
    SingleBlock,
    RecursiveEffects,
    terminator(Next),
    region_branch,
    lower_to_eval
)]
#[asm("$flag $set `else` $unset attr-dict implicit-terminator(fixed.next)")]
pub struct Fork {
    /// Which one.
    #[is(BOOL)]
    pub flag: Value,
    /// What runs if the flag is set.
    pub set: RegionId,
    /// What runs if it is not.
    pub unset: RegionId,
}
impl RegionBranchLike for Fork {
    fn edges(&self, _: OpRef<'_>) -> Vec<RegionEdge> {
        use RegionPoint::{Parent, Region};
        let sides = [0, 1].map(Region);
        sides
            .into_iter()
            .flat_map(|side| [(Parent, side), (side, Parent)])
            .map(edge)
            .collect()
    }
}
impl LowerToEval for Fork {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.if_else(self.flag, self.set, Some(self.unset), &[])
    }
}

/// Ends an iteration or a side; it is not written.
#[derive(Op)]
#[op("fixed.next", Terminator, Pure, ReturnLike, parent(Repeat, Fork))]
#[asm("attr-dict")]
pub struct Next {}

/// A way that hands nothing over.
fn edge((from, to): (RegionPoint, RegionPoint)) -> RegionEdge {
    let values = Vec::new();
    RegionEdge { from, to, values }
}
