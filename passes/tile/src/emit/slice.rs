//! A part of a tile, to be worked on: taken out, and put back in its place.
//!
//! The offsets are dispatched once, so that what is taken and what is put back are at the same values: that is
//! how bufferization sees that the work is done in place. A part that is all of the tile is the tile itself.

use tir::{Builder, Ret, Type, Value};
use tir_arith::{OpFoldResult, dispatch_values};
use tir_tensor::{ExtractSlice, InsertSlice};

use super::flow::Through;

/// A box of a tile.
pub(crate) struct Slice {
    /// The offsets that are values.
    offsets: Vec<Value>,
    static_offsets: Vec<i64>,
    sizes: Vec<i64>,
    /// The sizes without the dimensions of one that are dropped.
    shape: Vec<i64>,
}

impl Slice {
    /// A box with an offset and a size for each dimension of a tile, taken in `shape`.
    pub(crate) fn new(offsets: &[OpFoldResult], sizes: Vec<i64>, shape: Vec<i64>) -> Self {
        let (offsets, static_offsets) = dispatch_values(offsets);
        Self {
            offsets,
            static_offsets,
            sizes,
            shape,
        }
    }

    /// One of the tiles of this shape that lie along the first dimension of another tile.
    pub(super) fn numbered(number: OpFoldResult, shape: &[i64]) -> Self {
        let mut offsets = vec![OpFoldResult::Number(0); shape.len() + 1];
        offsets[0] = number;
        Self::new(&offsets, [&[1], shape].concat(), shape.to_vec())
    }

    /// The part of a tile.
    pub(crate) fn take(&self, b: &mut Builder<'_>, source: Value) -> Value {
        let whole = b.ty(source);
        if whole.shape() == Some(&self.shape) {
            return source;
        }
        b.add(ExtractSlice {
            source,
            offsets: self.offsets.clone(),
            sizes: Vec::new(),
            strides: Vec::new(),
            static_offsets: self.static_offsets.clone(),
            static_sizes: self.sizes.clone(),
            static_strides: vec![1; self.sizes.len()],
            result: Ret(Type::tensor(self.shape.clone(), whole.elem())),
        })
    }

    /// A tile with the part replaced.
    pub(crate) fn put(&self, b: &mut Builder<'_>, source: Value, dest: Value) -> Value {
        let whole = b.ty(dest);
        if whole == b.ty(source) {
            return source;
        }
        b.add(InsertSlice {
            source,
            dest,
            offsets: self.offsets.clone(),
            sizes: Vec::new(),
            strides: Vec::new(),
            static_offsets: self.static_offsets.clone(),
            static_sizes: self.sizes.clone(),
            static_strides: vec![1; self.sizes.len()],
            result: Ret(whole),
        })
    }

    /// Tiles with the part of each replaced by what the work gives for it, in order.
    pub(super) fn update_all(
        &self,
        b: &mut Builder<'_>,
        wholes: Vec<Value>,
        work: Through<'_>,
    ) -> Vec<Value> {
        let parts = wholes.iter().map(|whole| self.take(b, *whole)).collect();
        let done = work(b, parts).into_iter().zip(wholes);
        done.map(|(part, whole)| self.put(b, part, whole)).collect()
    }

    /// A tile with the part replaced by what the work gives for it.
    pub(super) fn update(
        &self,
        b: &mut Builder<'_>,
        whole: Value,
        work: &mut dyn FnMut(&mut Builder<'_>, Value) -> Value,
    ) -> Value {
        let part = self.take(b, whole);
        let part = work(b, part);
        self.put(b, part, whole)
    }

    /// Values through work that has the part of one of them, a tile, in its place.
    pub(super) fn update_at(
        &self,
        b: &mut Builder<'_>,
        place: usize,
        mut values: Vec<Value>,
        work: Through<'_>,
    ) -> Vec<Value> {
        let whole = values[place];
        values[place] = self.take(b, whole);
        let mut values = work(b, values);
        values[place] = self.put(b, values[place], whole);
        values
    }
}
