//! Transfers of the memref level, of all ops that are one.

use tir::{AffineExpr, AffineMap, Builder, Failure, Ir, Name, OpId, Value};
use tir_accel::{Direction, MachineInfo};
use tir_arith::{OpFoldResult, mixed_values};
use tir_memref::{Copy, TransferRead, TransferWrite};

use crate::staging::space;
use crate::views::sub_view;

/// Why a transfer cannot be cut.
const NOT_LINEAR: &str = "has an access that is not linear";

/// A transfer between a large buffer and a tile of it.
#[derive(Clone)]
pub(crate) struct Transfer {
    pub(crate) direction: Direction,
    pub(crate) far: Value,
    pub(crate) tile: Value,
    pub(crate) offsets: Vec<OpFoldResult>,
    pub(crate) padding: Option<Value>,
    pub(crate) access: AffineMap,
}

impl Transfer {
    /// What an op moves, if that is all it does.
    pub(crate) fn of(ir: &Ir, op: OpId) -> Option<Self> {
        if let Some(t) = ir.get::<TransferRead>(op) {
            return Some(Self {
                direction: Direction::Read,
                far: t.source,
                tile: t.tile,
                offsets: mixed_values(&t.offsets, &t.static_offsets),
                padding: t.padding,
                access: t.access,
            });
        }
        if let Some(t) = ir.get::<TransferWrite>(op) {
            return Some(Self {
                direction: Direction::Write,
                far: t.dest,
                tile: t.tile,
                offsets: mixed_values(&t.offsets, &t.static_offsets),
                padding: None,
                access: t.access,
            });
        }
        let copy = ir.get::<Copy>(op)?;
        let rank = ir.ty(copy.source).shape()?.len();
        Some(Self {
            direction: Direction::Read,
            far: copy.source,
            tile: copy.target,
            offsets: vec![OpFoldResult::Number(0); rank],
            padding: None,
            access: AffineMap::identity(rank),
        })
    }

    /// The spaces that it goes between: from one to the other.
    pub(crate) fn spaces(&self, ir: &Ir, machine: &MachineInfo) -> Option<[Name; 2]> {
        let (far, tile) = (
            space(ir, machine, self.far)?,
            space(ir, machine, self.tile)?,
        );
        Some(match self.direction {
            Direction::Read => [far, tile],
            Direction::Write => [tile, far],
        })
    }

    /// The transfer of `count` positions of a dimension of the tile from one on.
    pub(crate) fn part(
        &self,
        b: &mut Builder<'_>,
        dim: usize,
        from: i64,
        count: i64,
    ) -> Result<Self, Failure> {
        let mut shape = b.ty(self.tile).shape().unwrap_or(&[]).to_vec();
        let rank = shape.len();
        let mut at = vec![OpFoldResult::Number(0); rank];
        (at[dim], shape[dim]) = (OpFoldResult::Number(from), count);
        let tile = sub_view(b, self.tile, &at, &shape, &shape)?;
        let mut offsets = Vec::new();
        for (expr, offset) in self.access.exprs.iter().zip(&self.offsets) {
            let form = expr.linear(rank).ok_or(NOT_LINEAR)?;
            offsets.push(offset.plus(b, form.at(dim).saturating_mul(from)));
        }
        Ok(Self {
            tile,
            offsets,
            ..self.clone()
        })
    }

    /// The transfer of one position of a dimension of the tile.
    pub(crate) fn position(
        &self,
        b: &mut Builder<'_>,
        shape: &[i64],
        dim: usize,
        index: Value,
    ) -> Result<Self, Failure> {
        let mut at = vec![OpFoldResult::Number(0); shape.len()];
        let (mut sizes, mut part) = (shape.to_vec(), shape.to_vec());
        at[dim] = OpFoldResult::Value(index);
        sizes[dim] = 1;
        part.remove(dim);
        let tile = sub_view(b, self.tile, &at, &sizes, &part)?;
        let (mut offsets, mut exprs) = (Vec::new(), Vec::new());
        for (expr, offset) in self.access.exprs.iter().zip(&self.offsets) {
            let form = expr.linear(shape.len()).ok_or(NOT_LINEAR)?;
            let moved = OpFoldResult::Value(index).times(b, form.at(dim));
            offsets.push(offset.plus(b, moved));
            exprs.push(AffineExpr::from(&form.without(dim)));
        }
        let access = AffineMap::new(shape.len() - 1, exprs);
        Ok(Self {
            tile,
            offsets,
            access,
            ..self.clone()
        })
    }
}
