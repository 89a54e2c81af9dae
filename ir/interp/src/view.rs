//! A memref while a program runs: a strided view of a buffer.

use tir_core::Failure;
use tir_data::Array;

use crate::memory::Buffer;
use crate::scalar::Kind;

/// A strided box of elements in a buffer. Offset and strides are bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// The buffer.
    pub buffer: Buffer,
    /// The kind of an element.
    pub kind: Kind,
    /// Where the first element starts.
    pub offset: i64,
    /// Elements in each dimension, outermost first.
    pub shape: Vec<i64>,
    /// Bytes between neighbours in each dimension.
    pub strides: Vec<i64>,
}

impl View {
    /// Stands for no buffer, in views of bytes that are at hand.
    pub const NO_BUFFER: Buffer = Buffer(u32::MAX);

    /// All of an array.
    pub fn of_array(array: &Array) -> Self {
        let shape: Vec<i64> = array.shape().iter().map(|&d| d as i64).collect();
        Self::dense(Self::NO_BUFFER, Kind::of_dtype(array.dtype()), &shape)
    }

    /// All of a buffer that holds a dense row-major array.
    pub fn dense(buffer: Buffer, kind: Kind, shape: &[i64]) -> Self {
        let strides = dense_strides(shape, kind.bytes());
        Self {
            buffer,
            kind,
            offset: 0,
            shape: shape.to_vec(),
            strides,
        }
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().fold(1, |n: usize, &d| {
            n.saturating_mul(usize::try_from(d).unwrap_or(0))
        })
    }

    /// Whether the elements lie one after the other in row-major order.
    pub fn is_dense(&self) -> bool {
        let dense = dense_strides(&self.shape, self.kind.bytes());
        let dims = self.shape.iter().zip(self.strides.iter().zip(dense));
        self.elements() == 0 || dims.into_iter().all(|(&n, (&s, d))| n == 1 || s == d)
    }

    /// First byte and the byte after the last; `None` if it is empty or overflows.
    pub fn extent(&self) -> Option<(i64, i64)> {
        let (mut low, mut high) = (self.offset, self.offset);
        for (&n, &stride) in self.shape.iter().zip(&self.strides) {
            let reach = stride.checked_mul(n.checked_sub(1).filter(|n| *n >= 0)?)?;
            if reach < 0 {
                low = low.checked_add(reach)?;
            } else {
                high = high.checked_add(reach)?;
            }
        }
        Some((low, high.checked_add(self.kind.bytes() as i64)?))
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
        let mut part = Self {
            shape: vec![0; rank],
            strides: vec![0; rank],
            ..*self
        };
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
        (part.buffer, part.kind, part.offset) = (self.buffer, self.kind, self.offset);
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
        let mut out = self.clone();
        let pick = |v: &[i64]| {
            v.iter()
                .enumerate()
                .filter(|(i, _)| keep(*i))
                .map(|(_, d)| *d)
                .collect()
        };
        out.shape = pick(&self.shape);
        out.strides = pick(&self.strides);
        out
    }

    /// Dimension `i` of the result is dimension `order[i]` of this.
    pub fn permuted(&self, order: &[usize]) -> Result<Self, Failure> {
        let pick = |v: &[i64]| {
            order
                .iter()
                .map(|&d| v.get(d).copied())
                .collect::<Option<Vec<_>>>()
        };
        let (shape, strides) = pick(&self.shape)
            .zip(pick(&self.strides))
            .ok_or("a dimension is out of range")?;
        Ok(Self {
            shape,
            strides,
            ..self.clone()
        })
    }

    /// Calls `f` with the byte offset of each element in row-major order.
    pub fn each(&self, mut f: impl FnMut(i64)) {
        fn walk(dims: &[(i64, i64)], at: i64, f: &mut impl FnMut(i64)) {
            match dims {
                [] => f(at),
                [(n, stride), rest @ ..] => (0..*n).for_each(|i| walk(rest, at + i * stride, f)),
            }
        }
        let dims: Vec<_> = self
            .shape
            .iter()
            .copied()
            .zip(self.strides.iter().copied())
            .collect();
        walk(&dims, self.offset, &mut f);
    }
}

/// Strides in bytes of a dense row-major array.
pub fn dense_strides(shape: &[i64], elem: usize) -> Vec<i64> {
    let mut strides = vec![elem as i64; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(shape[i].max(1));
    }
    strides
}

pub(crate) fn out_of_bounds(dim: usize, index: i64, size: i64) -> Failure {
    format!(
        "index {index} of dimension {dim} is out of bounds, expected 0 to {}",
        size - 1
    )
    .into()
}
