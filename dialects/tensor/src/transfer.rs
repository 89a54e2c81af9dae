//! Copies of tiles between a large tensor and a small one: what becomes a transfer of a DMA
//! engine. The tile may stick out of the large tensor: what is read there is padding, what is
//! written there is dropped.

use tir::constraints::{INDEX, SCALAR, TENSOR};
use tir::{AffineMap, DYNAMIC, Failure, Op, OpRef, Ret, Type, Value, Verify};

/// Reads a tile: element `t` of the result is element `offsets + access(t)` of the source, or
/// `padding` where that lies outside.
///
/// `access` maps positions in the tile to distances in the source; it is linear, so it can say
/// permutations (`(h, w, c) -> (0, c, h, w)`), blocks (`(p, w, q) -> (0, 16 * p + q, 0, w)`) and
/// strides.
///
/// With `into` the tile takes the place of a tensor of its type, all of which it overwrites: a part of a larger tile that
/// is filled by several transfers.
#[derive(Op)]
#[op("tensor.transfer_read", Pure, verify, evaluate, directives, cost)]
#[asm(
    "$source `` custom<indices>($offsets, $static_offsets) (`pad` $padding^)? (`into` $into^)? `access` custom<map>($access) attr-dict `:` type($source) `to` type($result)"
)]
pub struct TransferRead {
    /// The large tensor.
    #[is(TENSOR)]
    pub source: Value,
    /// Dynamic offsets.
    #[is(INDEX)]
    pub offsets: Vec<Value>,
    /// What is read outside; zero bits if absent.
    #[is(SCALAR)]
    pub padding: Option<Value>,
    /// In whose place the tile lies; in one of its own if absent.
    #[is(TENSOR)]
    pub into: Option<Value>,
    /// Offsets, `DYNAMIC` where they are operands.
    pub static_offsets: Vec<i64>,
    /// Distance in the source of each position of the tile.
    pub access: AffineMap,
    /// Memory space of the machine the tile is to lie in.
    pub space: Option<String>,
    /// Type of the tile.
    #[is(TENSOR)]
    pub result: Ret,
}

/// Writes a tile: the result is `dest` with element `offsets + access(t)` replaced by element `t`
/// of the tile, where that lies inside. `access` is injective.
#[derive(Op)]
#[op(
    "tensor.transfer_write",
    Pure,
    crate::slices::like_dest,
    verify,
    lower_to_eval,
    directives,
    cost
)]
#[asm(
    "$source `into` $dest `` custom<indices>($offsets, $static_offsets) `access` custom<map>($access) attr-dict `:` type($source) `into` type($dest)"
)]
pub struct TransferWrite {
    /// The tile.
    #[is(TENSOR)]
    pub source: Value,
    /// The large tensor.
    #[is(TENSOR)]
    pub dest: Value,
    /// Dynamic offsets.
    #[is(INDEX)]
    pub offsets: Vec<Value>,
    /// Offsets, `DYNAMIC` where they are operands.
    pub static_offsets: Vec<i64>,
    /// Distance in `dest` of each position of the tile.
    pub access: AffineMap,
    /// Type of the result: that of `dest`.
    #[is(TENSOR)]
    pub result: Ret,
}

/// What a transfer of either kind, on tensors or buffers, must fulfil.
pub fn check_access(
    large: Type,
    tile: Type,
    offsets: &[Value],
    static_offsets: &[i64],
    access: &AffineMap,
) -> Result<(), Failure> {
    let (rank, tile_rank) = (
        large.shape().map_or(0, <[i64]>::len),
        tile.shape().map_or(0, <[i64]>::len),
    );
    let dynamic = static_offsets.iter().filter(|n| **n == DYNAMIC).count();
    if static_offsets.len() != rank || offsets.len() != dynamic {
        return Err(format!("has {} offsets for a {large}", static_offsets.len()).into());
    }
    if access.dims != tile_rank || access.syms != 0 || access.exprs.len() != rank {
        return Err(format!("has access {access} between a {large} and a tile {tile}").into());
    }
    let linear = access.exprs.iter().all(|e| e.linear(tile_rank).is_some());
    if !linear {
        return Err(format!("has access {access}, which is not linear").into());
    }
    if large.elem() != tile.elem() {
        return Err(format!("moves elements between a {large} and a {tile}").into());
    }
    if tile.elements().is_none() {
        return Err(format!("has a tile of type {tile}, expected a static shape").into());
    }
    Ok(())
}

impl Verify for TransferRead {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let source = op.ir.ty(self.source);
        if let Some(padding) = self.padding
            && op.ir.ty(padding) != source.elem()
        {
            return Err(format!("pads {source} with {}", op.ir.ty(padding)).into());
        }
        if let Some(into) = self.into
            && op.ir.ty(into) != self.result.0
        {
            let (into, tile) = (op.ir.ty(into), self.result.0);
            return Err(format!("puts a tile of type {tile} in the place of a {into}").into());
        }
        check_access(
            source,
            self.result.0,
            &self.offsets,
            &self.static_offsets,
            &self.access,
        )
    }
}
impl Verify for TransferWrite {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let dest = op.ir.ty(self.dest);
        if dest != self.result.0 {
            return Err(format!("has a result of type {}, expected {dest}", self.result.0).into());
        }
        let tile = op.ir.ty(self.source);
        check_access(
            dest,
            tile,
            &self.offsets,
            &self.static_offsets,
            &self.access,
        )
    }
}
