//! Nests and calls, which write their results into operands.

use tir::{OpRef, Scopes};
use tir_accel::MachineInfo;
use tir_memref::bufferize::{BufferRequirement, DestinationStyleOp, ElementOrder};
use tir_tensor::Generic;

use super::read;

/// Nests: `tensor.generic`, and `accel.apply`, which takes buffers of its space.
pub(super) struct OfNest;
impl OfNest {
    fn nest(op: OpRef<'_>) -> Option<Generic> {
        read(op).or_else(|| Some(read::<tir_accel::Apply>(op)?.nest()))
    }
}
impl DestinationStyleOp for OfNest {
    fn destinations(&self, op: OpRef<'_>) -> Vec<usize> {
        let Some(nest) = Self::nest(op) else {
            return Vec::new();
        };
        let first = nest.inputs.len();
        (first..first + nest.outputs.len()).collect()
    }
    fn reads_destination(&self, op: OpRef<'_>, _: usize) -> bool {
        Self::nest(op).is_none_or(|nest| nest.combine.is_some())
    }
    fn bufferizes_to_elementwise_access(
        &self,
        op: OpRef<'_>,
        read_: usize,
        written: usize,
    ) -> bool {
        let Some(nest) = Self::nest(op) else {
            return false;
        };
        let maps = &nest.indexing_maps;
        !nest.reductions().contains(&true) && maps.get(read_) == maps.get(written)
    }
    fn operand_requirement(
        &self,
        op: OpRef<'_>,
        operand: usize,
        scopes: &Scopes<'_>,
    ) -> Option<BufferRequirement> {
        let apply: tir_accel::Apply = read(op)?;
        let space = MachineInfo::in_scopes(scopes)?
            .vector(apply.vector.0)?
            .space;
        let of_nest = operand < apply.inputs.len() + apply.outputs.len();
        of_nest.then_some(BufferRequirement {
            space,
            order: ElementOrder::Any,
            elementwise: false,
            reads: operand < apply.inputs.len() || self.reads_destination(op, operand),
        })
    }
}

pub(super) struct OfCall;
impl DestinationStyleOp for OfCall {
    fn destinations(&self, op: OpRef<'_>) -> Vec<usize> {
        let writes = read::<tir_accel::Call>(op).map_or(0, |call| call.writes);
        (0..usize::try_from(writes).unwrap_or(0)).collect()
    }
    fn operand_requirement(
        &self,
        op: OpRef<'_>,
        operand: usize,
        scopes: &Scopes<'_>,
    ) -> Option<BufferRequirement> {
        let call: tir_accel::Call = read(op)?;
        let machine = MachineInfo::in_scopes(scopes)?;
        let intrinsic = machine.intrinsic(call.callee.0)?;
        let of_intrinsic = operand < intrinsic.operands.len();
        of_intrinsic.then(|| BufferRequirement {
            space: intrinsic.spaces[operand],
            order: match intrinsic.strided.contains(&operand) {
                true => ElementOrder::Rows,
                false => ElementOrder::Dense,
            },
            elementwise: call.writes == 1 && intrinsic.elementwise[operand],
            reads: intrinsic.reads[operand],
        })
    }
}
