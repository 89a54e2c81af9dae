//! Transfers between tensors and tiles, and what is allocated for them.

use tir::{At, DYNAMIC, Failure, OpId, OpRef};
use tir_arith::OpFoldResult;
use tir_memref::bufferize::{AliasingOperand, BufferizableOp, BufferizationContext};
use tir_tensor::{Empty, TransferRead, TransferWrite};

use super::{into_second, lies_in, read, record};

pub(super) struct OfEmpty;
impl BufferizableOp for OfEmpty {
    fn results_are_undefined(&self, _: OpRef<'_>) -> bool {
        true
    }
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let empty: Empty = record(cx, op)?;
        let space = cx.memory_space(empty.space.as_deref());
        let buffer = cx.allocate(op, 0, empty.result.0, space, empty.dynamic_sizes)?;
        lies_in(cx, op, buffer)
    }
}

pub(super) struct OfRead;
/// Which operand of a read its tile takes the place of.
fn place(read: &TransferRead) -> Option<usize> {
    read.into?;
    Some(1 + read.offsets.len() + usize::from(read.padding.is_some()))
}

impl BufferizableOp for OfRead {
    fn bufferizes_to_memory_read(&self, op: OpRef<'_>, operand: usize) -> bool {
        let place = super::read(op).as_ref().and_then(place);
        place != Some(operand)
    }
    fn aliasing_operands(&self, op: OpRef<'_>) -> Vec<AliasingOperand> {
        let place = super::read(op).as_ref().and_then(place);
        let place = place.map(|operand| AliasingOperand {
            operand,
            result: 0,
            writes: true,
        });
        place.into_iter().collect()
    }
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let read: TransferRead = record(cx, op)?;
        let tile = match place(&read) {
            Some(operand) => cx.destination(op, operand)?,
            None => {
                let space = cx.memory_space(read.space.as_deref());
                cx.allocate(op, 0, read.result.0, space, Vec::new())?
            }
        };
        let source = cx.buffer(read.source)?;
        cx.ir_mut().add(
            At::Before(op),
            tir_memref::TransferRead {
                source,
                tile,
                offsets: read.offsets,
                padding: read.padding,
                static_offsets: read.static_offsets,
                access: read.access,
            },
        );
        lies_in(cx, op, tile)
    }
}

pub(super) struct OfWrite;
impl BufferizableOp for OfWrite {
    fn aliasing_operands(&self, _: OpRef<'_>) -> Vec<AliasingOperand> {
        into_second()
    }
    fn written_subset(&self, op: OpRef<'_>) -> Option<Vec<OpFoldResult>> {
        let write: TransferWrite = read(op)?;
        let (dest, tile) = (write.result.0.shape()?, op.ir.ty(write.source).shape()?);
        written_box(dest, tile, &write)
    }
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let write: TransferWrite = record(cx, op)?;
        let tile = cx.buffer(write.source)?;
        let dest = cx.destination(op, 1)?;
        cx.ir_mut().add(
            At::Before(op),
            tir_memref::TransferWrite {
                tile,
                dest,
                offsets: write.offsets,
                static_offsets: write.static_offsets,
                access: write.access,
            },
        );
        lies_in(cx, op, dest)
    }
}

/// The elements of a tensor of some shape that a transfer writes, if they are a box inside it.
fn written_box(shape: &[i64], tile: &[i64], write: &TransferWrite) -> Option<Vec<OpFoldResult>> {
    let mut position = write.static_offsets.clone();
    let (mut sizes, mut strides) = (Vec::new(), Vec::new());
    let mut used = 0;
    for (d, expr) in write.access.exprs.iter().enumerate() {
        let expr = expr.linear(tile.len())?;
        let mut terms: Vec<(i64, i64)> = expr.terms().map(|(t, c)| (c, tile[t])).collect();
        terms.retain(|(_, size)| *size != 1);
        terms.sort_unstable();
        used += terms.len();
        // Dimensions of the tile that continue each other are one: (p, q) -> 16 * p + q.
        let stride = terms.first().map_or(1, |(c, _)| *c);
        let mut size = 1i64;
        for (c, n) in terms {
            (c > 0 && c == stride.checked_mul(size)?).then_some(())?;
            size = size.checked_mul(n)?;
        }
        let offset = position.get(d).filter(|n| **n != DYNAMIC)?;
        let first = offset.checked_add(expr.constant)?;
        let last = first.checked_add((size - 1).checked_mul(stride)?)?;
        (size > 0 && first >= 0 && last < *shape.get(d)?).then_some(())?;
        position[d] = first;
        sizes.push(size);
        strides.push(stride);
    }
    (used == tile.iter().filter(|n| **n != 1).count()).then_some(())?;
    position.extend(sizes.into_iter().chain(strides));
    Some(position.into_iter().map(OpFoldResult::from).collect())
}
