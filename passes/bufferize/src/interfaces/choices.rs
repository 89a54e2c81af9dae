//! Single elements, and one of two tensors.

use tir::{At, Failure, OpId, OpRef, Rets, Type};
use tir_arith::Select;
use tir_loop::{If, Yield};
use tir_memref::Load;
use tir_memref::bufferize::{AliasingOperand, BufferizableOp, BufferizationContext};
use tir_tensor::Extract;

use super::{lies_in, record, result};
use crate::buffers::memref_type;

/// An element.
pub(super) struct OfElement;
impl BufferizableOp for OfElement {
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let extract: Extract = record(cx, op)?;
        let load = Load {
            memref: cx.buffer(extract.tensor)?,
            indices: extract.indices,
            nontemporal: None,
        };
        let element = result(cx, op)?;
        let loaded = cx.ir_mut().add(At::Before(op), load);
        let hint = cx.ir().hint(element);
        cx.ir_mut().set_hint(loaded, hint);
        cx.ir_mut().replace_uses(element, loaded);
        cx.erase_later(op);
        Ok(())
    }
}

/// One of two tensors: one of their buffers, without a copy, if these are of one type.
pub(super) struct OfSelect;
impl BufferizableOp for OfSelect {
    fn aliasing_operands(&self, _: OpRef<'_>) -> Vec<AliasingOperand> {
        let values = [1, 2].map(|operand| AliasingOperand {
            operand,
            result: 0,
            writes: false,
        });
        values.to_vec()
    }
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let select: Select = record(cx, op)?;
        if cx.ir().ty(select.condition) != Type::int(1) {
            return Err("selects each element of a tensor on its own".into());
        }
        let chosen = result(cx, op)?;
        let values = [select.true_value, select.false_value];
        let buffers = [cx.buffer(values[0])?, cx.buffer(values[1])?];
        let [a, b] = [
            memref_type(cx.ir(), buffers[0])?,
            memref_type(cx.ir(), buffers[1])?,
        ];
        let at = At::Before(op);
        if a == b {
            let one = Select {
                condition: select.condition,
                true_value: buffers[0],
                false_value: buffers[1],
            };
            let one = cx.ir_mut().add(at, one);
            return lies_in(cx, op, one);
        }
        let space = if a.space == b.space {
            a.space
        } else {
            cx.memory_space(None)
        };
        let ty = cx.ir().ty(chosen);
        let target = cx.allocate(op, 0, ty, space, Vec::new())?;
        let mut b = cx.ir_mut().at(at);
        let regions = [(); 2].map(|()| {
            b.body(&[], |b, _| {
                b.add(Yield { values: Vec::new() });
            })
        });
        b.add(If {
            condition: select.condition,
            then_region: regions[0],
            else_region: regions[1],
            results: Rets(Vec::new()),
        });
        for (region, value) in regions.into_iter().zip(values) {
            let end = cx.ir().entry(region).and_then(|block| cx.ir().last(block));
            cx.copy(end.ok_or("has an empty region")?, value, target)?;
        }
        lies_in(cx, op, target)
    }
}
