//! A memref while a program runs: a strided view of a buffer.

use std::ops::Deref;

use tir_core::Failure;
use tir_data::{Array, BufferId, Extents, StridedBox};

use crate::scalar::Kind;

/// A strided box of elements of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// The kind of an element.
    pub kind: Kind,
    /// Where the elements are; an element has as many bytes as its kind.
    pub strided: StridedBox,
}

impl Deref for View {
    type Target = StridedBox;
    fn deref(&self) -> &StridedBox {
        &self.strided
    }
}

impl View {
    /// All of an array.
    pub fn of_array(array: &Array) -> Self {
        let shape: Vec<i64> = array.shape().iter().map(|&d| d as i64).collect();
        Self::dense(BufferId::NONE, Kind::of_dtype(array.dtype()), &shape)
    }

    /// All of a buffer that holds a dense row-major array.
    pub fn dense(buffer: BufferId, kind: Kind, shape: &[i64]) -> Self {
        let strided = StridedBox::dense(buffer, shape, kind.bytes() as u64);
        Self { kind, strided }
    }

    /// Other elements of the same buffer and kind.
    pub fn elsewhere(
        &self,
        offset: i64,
        shape: impl IntoIterator<Item = i64>,
        strides: impl IntoIterator<Item = i64>,
    ) -> Self {
        let strided = StridedBox {
            buffer: self.buffer,
            offset,
            shape: shape.into_iter().collect(),
            strides: strides.into_iter().collect(),
            elem: self.elem,
        };
        let kind = self.kind;
        Self { kind, strided }
    }

    /// The byte offset of an element.
    pub fn at(&self, index: &[i64]) -> Result<i64, Failure> {
        if index.len() != self.shape.len() {
            let (found, rank) = (index.len(), self.shape.len());
            return Err(format!("{found} indices into a memref of rank {rank}").into());
        }
        let mut at = self.offset;
        for (dim, (&i, (&n, &s))) in index
            .iter()
            .zip(self.shape.iter().zip(&self.strides))
            .enumerate()
        {
            if i < 0 || i >= n {
                return Err(out_of_bounds(dim, i, n));
            }
            at = at.wrapping_add(i.wrapping_mul(s));
        }
        Ok(at)
    }

    /// The part at `offsets` of these `sizes`, every `steps`-th element in each dimension.
    pub fn part(&self, offsets: &[i64], sizes: &[i64], steps: &[i64]) -> Result<Self, Failure> {
        if offsets.len() != self.shape.len() {
            return Err(self.wrong_rank());
        }
        self.part_of(|d| offsets[d], sizes, steps, &vec![true; sizes.len()])
    }

    /// The part at `offset(d)` in each dimension `d`, with the dimensions that `keep` says.
    pub(crate) fn part_of(
        &self,
        offset: impl Fn(usize) -> i64,
        sizes: &[i64],
        steps: &[i64],
        keep: &[bool],
    ) -> Result<Self, Failure> {
        let rank = keep.iter().filter(|keep| **keep).count();
        let zeros = || Extents::from_elem(0, rank);
        let mut part = self.elsewhere(0, zeros(), zeros());
        self.part_into(offset, sizes, steps, keep, &mut part)?;
        Ok(part)
    }

    /// As [`part_of`](Self::part_of), written over a view of the rank of the part.
    pub(crate) fn part_into(
        &self,
        offset: impl Fn(usize) -> i64,
        sizes: &[i64],
        steps: &[i64],
        keep: &[bool],
        part: &mut Self,
    ) -> Result<(), Failure> {
        let rank = self.shape.len();
        if [sizes.len(), steps.len(), keep.len()] != [rank; 3] {
            return Err(self.wrong_rank());
        }
        part.kind = self.kind;
        let part = &mut part.strided;
        (part.buffer, part.elem, part.offset) = (self.buffer, self.elem, self.offset);
        let mut at = 0;
        for dim in 0..rank {
            let (offset, size, step) = (offset(dim), sizes[dim], steps[dim]);
            let last = size
                .checked_sub(1)
                .and_then(|n| offset.checked_add(n.checked_mul(step)?));
            let inside = |i: i64| (0..self.shape[dim]).contains(&i);
            if size < 0 || size > 0 && !(inside(offset) && last.is_some_and(inside)) {
                let n = self.shape[dim];
                return Err(format!(
                    "dimension {dim}: {size} elements from {offset} in steps of {step} leave the {n} there are"
                )
                .into());
            }
            let stride = self.strides[dim];
            part.offset = part.offset.wrapping_add(offset.wrapping_mul(stride));
            if keep[dim] {
                (part.shape[at], part.strides[at]) = (size, stride.wrapping_mul(step));
                at += 1;
            }
        }
        Ok(())
    }

    fn wrong_rank(&self) -> Failure {
        let rank = self.shape.len();
        format!("a part of a memref of rank {rank} needs {rank} offsets, sizes and strides").into()
    }

    /// Without the dimensions of size 1 that `keep` says no to.
    pub fn drop_dims(&self, keep: impl Fn(usize) -> bool) -> Self {
        let pick = |v: &[i64]| -> Extents {
            let kept = v.iter().enumerate().filter(|(i, _)| keep(*i));
            kept.map(|(_, d)| *d).collect()
        };
        self.elsewhere(self.offset, pick(&self.shape), pick(&self.strides))
    }

    /// Dimension `i` of the result is dimension `order[i]` of this.
    pub fn permuted(&self, order: &[usize]) -> Result<Self, Failure> {
        let pick = |v: &[i64]| {
            order
                .iter()
                .map(|&d| v.get(d).copied())
                .collect::<Option<Extents>>()
        };
        let (shape, strides) = pick(&self.shape)
            .zip(pick(&self.strides))
            .ok_or("a dimension is out of range")?;
        Ok(self.elsewhere(self.offset, shape, strides))
    }
}

pub(crate) fn out_of_bounds(dim: usize, index: i64, size: i64) -> Failure {
    format!(
        "index {index} of dimension {dim} is out of bounds, expected 0 to {}",
        size - 1
    )
    .into()
}
