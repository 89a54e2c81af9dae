//! `join-groups`: groups of few channels that fill a unit together.
//!
//! A unit that multiplies 16 channels by 16 does so with four groups of 4 as well, if the weights
//! between one group and another are zeros: they lie along the diagonal. The unit does no more products
//! than with a group alone, where the other channels are padding, and four times as few calls.

use tir::data::Array;
use tir::interp::{attr_of, elements, failure};
use tir::{At, Diagnostic, Failure, Ir, Op, OpId, Pass, PassCx, PassResult, Type, pass};
use tir_accel::machine::IntrinsicInfo;
use tir_accel::{AttachedMachine, MachineInfo};
use tir_arith::{MulF, MulI};
use tir_graph::{Constant, Conv2d, Conv2dInteger};

pass! {
    /// Joins neighbouring groups of a convolution with constant weights, as many as the channels that a
    /// unit of the attached machine multiplies at once; weights between them are zeros.
    ///
    /// A depthwise convolution is joined only where no unit computes it lane by lane. Of floats, an
    /// infinity or NaN in one group makes NaN of the others that it is joined with; a remark names
    /// such convolutions.
    pub struct JoinGroups = "join-groups" on "func.func" {
        /// Which convolutions: `exact`, and `best` here, takes those of integers, where nothing changes; `all` those of
        /// floats too; `none` does nothing.
        pub groups: String = "exact".to_string(),
    }
}

impl Pass for JoinGroups {
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.analysis::<AttachedMachine>(parent);
        Ok(())
    }
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let floats = match self.groups.as_str() {
            // What is cheapest of floats is found where tiles are.
            "exact" | "best" => false,
            "all" => true,
            "none" => {
                cx.unchanged();
                return Ok(());
            }
            other => {
                let error = format!(
                    "joins groups of convolutions by '{other}', expected best, exact, all or none"
                );
                return Err(vec![Diagnostic::error(error)]);
            }
        };
        cx.each(ir, &|ir, cx| {
            let attached = cx.outer::<AttachedMachine>();
            let Some((machine, _)) = attached.as_deref().and_then(|a| a.0.as_ref()) else {
                cx.unchanged();
                return Ok(());
            };
            let mut joined = 0;
            for op in ir.walk_ids() {
                let done = join(ir, op, machine, floats);
                let done = done.map_err(|why| vec![(*why).at(ir.loc(op))])?;
                if let Some((groups, inexact)) = done {
                    joined += 1;
                    if inexact {
                        let text = format!("groups of this convolution are joined to {groups}");
                        let note = "an infinity or NaN in one makes NaN of those beside it";
                        cx.remark(Diagnostic::remark(text).at(ir.loc(op)).note(note));
                    }
                }
            }
            cx.count("joined", joined);
            if joined == 0 {
                cx.unchanged();
            }
            Ok(())
        })
    }
}

/// Joins the groups of a convolution; gives how many are left, and whether it is of floats.
fn join(
    ir: &mut Ir,
    op: OpId,
    machine: &MachineInfo,
    floats: bool,
) -> Result<Option<(i64, bool)>, Failure> {
    let (x, w, groups) = if let Some(conv) = ir.get::<Conv2d>(op) {
        (conv.x, conv.w, conv.groups)
    } else if let Some(conv) = ir.get::<Conv2dInteger>(op) {
        (conv.x, conv.w, conv.groups)
    } else {
        return Ok(None);
    };
    let elems = [x, w].map(|v| ir.ty(v).elem());
    let inexact = elems[0].is_float();
    if groups < 2 || inexact && !floats {
        return Ok(None);
    }
    let Some(weights) = ir.constant(w).and_then(|value| elements(value).ok()) else {
        return Ok(None);
    };
    let &[outputs, inputs, ..] = weights.shape() else {
        return Ok(None);
    };
    let width = channels(machine, elems);
    if inputs == 1 && lanes(machine, elems) {
        return Ok(None);
    }
    let per_group = outputs as i64 / groups;
    let fits = |n: &i64| groups % n == 0 && n * (inputs as i64).max(per_group) <= width;
    let Some(together) = (2..=groups).rev().find(fits) else {
        return Ok(None);
    };
    let diagonal = diagonal(&weights, per_group as usize, together as usize)?;
    let left = groups / together;
    let loc = ir.loc(ir.owner(w).unwrap_or(op));
    let mut b = ir.at(At::Before(op));
    b.loc = loc;
    let value = attr_of(&diagonal);
    let w = b.add(Constant { value });
    ir.set_operand(op, 1, w);
    ir.set_attr(op, "groups", tir::Attr::i64(left));
    Ok(Some((left, inexact)))
}

/// The weights of `together` groups each, those between groups being zeros.
fn diagonal(weights: &Array, per_group: usize, together: usize) -> Result<Array, Failure> {
    let shape = weights.shape();
    let outputs = shape.first().copied().unwrap_or(0);
    let own = weights.bytes().len() / outputs.max(1);
    let mut bytes = vec![0u8; weights.bytes().len() * together];
    for (o, filter) in weights.bytes().chunks_exact(own.max(1)).enumerate() {
        let at = o / per_group.max(1) % together;
        bytes[(o * together + at) * own..][..own].copy_from_slice(filter);
    }
    let mut shape = shape.to_vec();
    shape[1] *= together;
    Array::new(weights.dtype(), &shape, bytes.into()).map_err(failure)
}

/// The channels that a unit multiplies at once, of these elements: as many in as out.
fn channels(machine: &MachineInfo, elems: [Type; 2]) -> i64 {
    let width = |i: &IntrinsicInfo| {
        let result = i.operands.first()?;
        let points = i64::try_from(result.elements()?).ok().filter(|n| *n > 0)?;
        let wide = result.shape()?.iter().copied().max()?;
        let dense = i.macs > points && takes(i, elems);
        dense.then_some(wide.min(i.macs / points))
    };
    let widths = machine.intrinsics.iter().filter_map(width);
    widths.max().unwrap_or(0)
}

fn takes(intrinsic: &IntrinsicInfo, elems: [Type; 2]) -> bool {
    let mut operands = intrinsic.operands.iter().skip(1).map(|ty| ty.elem());
    let mut has = |elem: Type| operands.any(|found| found == elem);
    has(elems[0]) && has(elems[1])
}

/// Whether a unit computes products of these elements lane by lane.
fn lanes(machine: &MachineInfo, elems: [Type; 2]) -> bool {
    let product = match elems[0].is_float() {
        true => MulF::name(),
        false => MulI::name(),
    };
    let vectors = machine.vectors.iter().any(|v| {
        let listed = v.any.is_some() || v.ops.iter().any(|(op, _)| *op == product);
        listed && elems.iter().all(|elem| v.types.contains(elem))
    });
    let intrinsics = machine.intrinsics.iter().any(|i| {
        let most = i.operands.iter().filter_map(|ty| ty.elements()).max();
        i.macs > 0 && Some(i.macs) <= most.map(|n| n as i64) && takes(i, elems)
    });
    vectors || intrinsics
}
