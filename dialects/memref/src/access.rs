//! Reading and writing: single elements, whole buffers, tiles.

use tir::constraints::{INDEX, MEMREF, SCALAR};
use tir::interfaces::OverwritesLike;
use tir::{
    Access, AffineMap, Canonicalize, Decline, Directive, Directives, Effects, Failure, HasEffects,
    Infer, Op, OpRef, PatternSet, Rewriter, Type, Value, Verify, smallvec,
};
use tir_tensor::asm::directive;
use tir_tensor::check_access;
use tir_tensor::generic::fill;

use crate::on;

/// Says that an element and those beside it will be read soon; changes nothing.
#[derive(Op)]
#[op("memref.prefetch", effects, verify, lower_to_eval)]
#[asm("$memref `` `[` ($indices^)? `]` attr-dict `:` type($memref)")]
pub struct Prefetch {
    /// The buffer.
    #[is(MEMREF)]
    pub memref: Value,
    /// The position.
    #[is(INDEX)]
    pub indices: Vec<Value>,
}
impl HasEffects for Prefetch {
    fn effects(&self, _: OpRef<'_>) -> Effects {
        smallvec![on(Access::Fetch, self.memref)]
    }
}
impl Verify for Prefetch {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        check_rank(op.ir.ty(self.memref), &self.indices)
    }
}

/// Reads an element.
#[derive(Op)]
#[op("memref.load", results(result), infer, effects, verify, lower_to_eval)]
#[asm("$memref `` `[` ($indices^)? `]` attr-dict `:` type($memref)")]
pub struct Load {
    /// The buffer.
    #[is(MEMREF)]
    pub memref: Value,
    /// The position.
    #[is(INDEX)]
    pub indices: Vec<Value>,
    /// Whether it is not used again soon, as MLIR keeps it.
    pub nontemporal: Option<bool>,
}
impl Infer for Load {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        Ok(vec![op.ir.ty(self.memref).elem()])
    }
}
impl HasEffects for Load {
    fn effects(&self, _: OpRef<'_>) -> Effects {
        smallvec![on(Access::Read, self.memref)]
    }
}
impl Verify for Load {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        check_rank(op.ir.ty(self.memref), &self.indices)
    }
}
fn check_rank(ty: Type, indices: &[Value]) -> Result<(), Failure> {
    let rank = ty.shape().map_or(0, <[i64]>::len);
    if rank == indices.len() {
        Ok(())
    } else {
        Err(format!("has {} indices for a {ty}", indices.len()).into())
    }
}

/// Writes an element.
#[derive(Op)]
#[op("memref.store", effects, verify, lower_to_eval)]
#[asm("$value `,` $memref `` `[` ($indices^)? `]` attr-dict `:` type($memref)")]
pub struct Store {
    /// What is written.
    #[is(SCALAR)]
    pub value: Value,
    /// The buffer.
    #[is(MEMREF)]
    pub memref: Value,
    /// The position.
    #[is(INDEX)]
    pub indices: Vec<Value>,
    /// Whether it is not used again soon, as MLIR keeps it.
    pub nontemporal: Option<bool>,
}
impl HasEffects for Store {
    fn effects(&self, _: OpRef<'_>) -> Effects {
        smallvec![on(Access::Write, self.memref)]
    }
}
impl Verify for Store {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let ty = op.ir.ty(self.memref);
        let value = op.ir.ty(self.value);
        if value != ty.elem() {
            return Err(format!("stores {value} into a {ty}").into());
        }
        check_rank(ty, &self.indices)
    }
}

/// Copies all elements.
#[derive(Op)]
#[op(
    "memref.copy",
    canonicalize,
    effects,
    verify,
    lower_to_eval,
    tir::interfaces::overwrites
)]
#[asm("$source `,` $target attr-dict `:` type($source) `to` type($target)")]
pub struct Copy {
    /// What is read.
    #[is(MEMREF)]
    pub source: Value,
    /// What is written.
    #[is(MEMREF)]
    pub target: Value,
}
impl HasEffects for Copy {
    fn effects(&self, _: OpRef<'_>) -> Effects {
        smallvec![
            on(Access::Read, self.source),
            on(Access::Write, self.target)
        ]
    }
}
impl OverwritesLike for Copy {
    fn overwrites(&self, _: OpRef<'_>) -> Vec<Value> {
        vec![self.target]
    }
}
impl Verify for Copy {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (from, to) = (op.ir.ty(self.source), op.ir.ty(self.target));
        if from.shape() != to.shape() || from.elem() != to.elem() {
            return Err(format!("copies a {from} to a {to}").into());
        }
        Ok(())
    }
}

/// Reads a tile into a buffer, as `tensor.transfer_read` does: element `t` of the tile becomes
/// element `offsets + access(t)` of the source, or `padding` where that lies outside.
#[derive(Op)]
#[op(
    "memref.transfer_read",
    canonicalize,
    effects,
    verify,
    lower_to_eval,
    directives,
    tir::interfaces::overwrites
)]
#[asm(
    "$source `` custom<indices>($offsets, $static_offsets) `into` $tile (`pad` $padding^)? `access` custom<map>($access) attr-dict `:` type($source) `to` type($tile)"
)]
pub struct TransferRead {
    /// The large buffer.
    #[is(MEMREF)]
    pub source: Value,
    /// The tile.
    #[is(MEMREF)]
    pub tile: Value,
    /// Dynamic offsets.
    #[is(INDEX)]
    pub offsets: Vec<Value>,
    /// What is read outside; zero bits if absent.
    #[is(SCALAR)]
    pub padding: Option<Value>,
    /// Offsets, `DYNAMIC` where they are operands.
    pub static_offsets: Vec<i64>,
    /// Distance in the source of each position of the tile.
    pub access: AffineMap,
}
impl HasEffects for TransferRead {
    fn effects(&self, _: OpRef<'_>) -> Effects {
        smallvec![on(Access::Read, self.source), on(Access::Write, self.tile)]
    }
}
impl OverwritesLike for TransferRead {
    fn overwrites(&self, _: OpRef<'_>) -> Vec<Value> {
        vec![self.tile]
    }
}
impl Directives for TransferRead {
    fn directive(name: &str) -> Option<&'static dyn Directive> {
        directive(name)
    }
}
impl Verify for TransferRead {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (source, tile) = (op.ir.ty(self.source), op.ir.ty(self.tile));
        if let Some(padding) = self.padding
            && op.ir.ty(padding) != source.elem()
        {
            return Err(format!("pads {source} with {}", op.ir.ty(padding)).into());
        }
        check_access(
            source,
            tile,
            &self.offsets,
            &self.static_offsets,
            &self.access,
        )
    }
}

/// Writes a tile into a buffer, as `tensor.transfer_write` does: what lies outside is dropped.
#[derive(Op)]
#[op(
    "memref.transfer_write",
    canonicalize,
    effects,
    verify,
    lower_to_eval,
    directives
)]
#[asm(
    "$tile `into` $dest `` custom<indices>($offsets, $static_offsets) `access` custom<map>($access) attr-dict `:` type($tile) `into` type($dest)"
)]
pub struct TransferWrite {
    /// The tile.
    #[is(MEMREF)]
    pub tile: Value,
    /// The large buffer.
    #[is(MEMREF)]
    pub dest: Value,
    /// Dynamic offsets.
    #[is(INDEX)]
    pub offsets: Vec<Value>,
    /// Offsets, `DYNAMIC` where they are operands.
    pub static_offsets: Vec<i64>,
    /// Distance in `dest` of each position of the tile.
    pub access: AffineMap,
}
impl HasEffects for TransferWrite {
    fn effects(&self, _: OpRef<'_>) -> Effects {
        smallvec![on(Access::Read, self.tile), on(Access::Write, self.dest)]
    }
}
impl Directives for TransferWrite {
    fn directive(name: &str) -> Option<&'static dyn Directive> {
        directive(name)
    }
}
impl Verify for TransferWrite {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (dest, tile) = (op.ir.ty(self.dest), op.ir.ty(self.tile));
        check_access(
            dest,
            tile,
            &self.offsets,
            &self.static_offsets,
            &self.access,
        )
    }
}

/// Whether a buffer is known to have no elements, so that nothing is moved.
fn moves_nothing(rw: &Rewriter<'_>, buffer: Value) -> Result<(), Decline> {
    match rw
        .ty(buffer)
        .shape()
        .is_some_and(|shape| shape.contains(&0))
    {
        true => Ok(()),
        false => Err(Decline::because(|| "it may move an element".to_string())),
    }
}
impl Canonicalize for Copy {
    fn patterns(set: &mut PatternSet) {
        set.on("drop-empty-copy", |copy: Self, op, rw| {
            moves_nothing(rw, copy.source)?;
            rw.erase(op);
            Ok(())
        });
    }
}
impl Canonicalize for TransferRead {
    fn patterns(set: &mut PatternSet) {
        set.on("drop-empty-read", |read: Self, op, rw| {
            moves_nothing(rw, read.tile)?;
            rw.erase(op);
            Ok(())
        });
        set.on("fill-of-nothing", |read: Self, op, rw| {
            moves_nothing(rw, read.source)?;
            rw.build(|b| fill(b, read.tile, read.padding));
            rw.erase(op);
            Ok(())
        });
    }
}
impl Canonicalize for TransferWrite {
    fn patterns(set: &mut PatternSet) {
        set.on("drop-empty-write", |write: Self, op, rw| {
            moves_nothing(rw, write.tile).or_else(|_| moves_nothing(rw, write.dest))?;
            rw.erase(op);
            Ok(())
        });
    }
}
