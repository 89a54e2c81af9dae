//! `licm`: what a loop computes again and again moves before it.

use tir::rewrite::interfaces::{Loop, trip_count};
use tir::{At, Definition, Ir, OpId, Pass, PassCx, PassResult, RegionId, Traits, Value, pass};

pass! {
    /// Hoists loop-invariant ops without side effects out of loops.
    ///
    /// Which regions are loop bodies is what ops say by the interface `Loop`.
    pub struct Licm = "licm" {}
}

impl Pass for Licm {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.each(ir, &|ir, cx| {
            let mut moved = 0;
            // Inner loops first: what leaves one may leave the next.
            for op in ir.walk_ids().into_iter().rev() {
                moved += hoist(ir, op);
            }
            cx.count("moved", moved);
            if moved == 0 {
                cx.unchanged();
            }
            Ok(())
        })
    }
}

/// Moves what does not vary out of the bodies of a loop.
fn hoist(ir: &mut Ir, op: OpId) -> usize {
    let Some(interface) = ir.info(op).and_then(|info| info.interface::<dyn Loop>()) else {
        return 0;
    };
    let mut moved = 0;
    for region in interface.bodies(ir, op) {
        let ops: Vec<OpId> = ir.blocks(region).flat_map(|b| ir.ops_in(b)).collect();
        for inner in ops {
            if movable(ir, inner, op) && (runs_once(ir, op, region) || !may_stop(ir, inner)) {
                ir.move_op(inner, At::Before(op));
                moved += 1;
            }
        }
    }
    moved
}

/// Whether an op, or one below it, may stop the program.
fn may_stop(ir: &Ir, op: OpId) -> bool {
    let below = ir.walk_below(op).into_iter().chain([op]);
    below.into_iter().any(|op| ir.may_stop(op))
}

/// Whether all of the one block of a loop's body runs, where control reaches the loop.
fn runs_once(ir: &Ir, around: OpId, region: RegionId) -> bool {
    let trips = trip_count(ir, around).is_some_and(|trips| trips > 0);
    trips && ir.blocks(region).len() == 1
}

/// Whether an op has no effects, and all that it and those below it use is defined outside a loop
/// (or below the op itself).
fn movable(ir: &Ir, op: OpId, around: OpId) -> bool {
    let below: Vec<OpId> = ir.walk_below(op).into_iter().chain([op]).collect();
    if !ir.is_pure(op) || ir.has(op, Traits::Terminator) || ir.child(op).is_some() {
        return false;
    }
    let outside = |value: Value| {
        let definer = match ir.definition(value) {
            Definition::Result(definer, _) => Some(definer),
            Definition::Argument(block, _) => ir.block_parent(block),
        };
        definer.is_some_and(|d| !ir.is_below(d, around) || d != op && ir.is_below(d, op))
    };
    // Arguments of the op's own blocks have the op itself as their holder.
    let own = |value: Value| match ir.definition(value) {
        Definition::Argument(block, _) => ir.block_parent(block) == Some(op),
        Definition::Result(..) => false,
    };
    below
        .iter()
        .flat_map(|op| ir.operands(*op).collect::<Vec<_>>())
        .all(|value| outside(value) || own(value))
}
