//! A strided box of bytes in a buffer: its extent, its rows, its footprint, and moving its elements.
//!
//! *Terms.* A **box** is elements of equal size at equal distances in each dimension; it stands
//! for one memref, one access or one side of a transfer. Its **extent** is the range of bytes from
//! its lowest to its highest. A **row** is a run of neighbouring bytes that innermost dimensions
//! make. A **footprint** is the set of bytes alone, without the order of elements.

use std::ops::Range;

use smallvec::SmallVec;

/// A handle to a buffer: its number in the memory it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(
    /// The number, from 0.
    pub u32,
);

impl BufferId {
    /// Stands for no buffer, in boxes of bytes that are at hand.
    pub const NONE: BufferId = BufferId(u32::MAX);

    /// Its number, from 0.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A number for each dimension, outermost first.
pub type Extents = SmallVec<[i64; 4]>;

/// A strided box of elements in a buffer.
///
/// The order of the dimensions is the logical order of the elements (outermost first): a copy
/// pairs the elements of two boxes of equal shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StridedBox {
    /// The buffer.
    pub buffer: BufferId,
    /// Byte offset of the first element in the buffer.
    pub offset: i64,
    /// Elements in each dimension, outermost first; there are none where one is below 1.
    pub shape: Extents,
    /// Bytes from one element to the next in each dimension; may be zero or negative.
    pub strides: Extents,
    /// Bytes of one element.
    pub elem: u64,
}

impl StridedBox {
    /// Elements of `elem` bytes, `(count, stride in bytes)` for each dimension.
    pub fn new(buffer: BufferId, offset: i64, dims: &[(i64, i64)], elem: u64) -> StridedBox {
        StridedBox {
            buffer,
            offset,
            shape: dims.iter().map(|d| d.0).collect(),
            strides: dims.iter().map(|d| d.1).collect(),
            elem,
        }
    }

    /// One element of `bytes` bytes at `offset`.
    pub fn contiguous(buffer: BufferId, offset: i64, bytes: u64) -> StridedBox {
        StridedBox::new(buffer, offset, &[], bytes)
    }

    /// All of a buffer that holds a dense row-major array.
    pub fn dense(buffer: BufferId, shape: &[i64], elem: u64) -> StridedBox {
        StridedBox {
            buffer,
            offset: 0,
            shape: shape.into(),
            strides: dense_strides(shape, elem as usize).into(),
            elem,
        }
    }

    fn dims(&self) -> impl DoubleEndedIterator<Item = (i64, i64)> {
        let strides = self.strides.iter().copied();
        self.shape.iter().copied().zip(strides)
    }

    /// Number of elements; saturates.
    pub fn elements(&self) -> usize {
        self.shape.iter().fold(1, |n: usize, &d| {
            n.saturating_mul(usize::try_from(d).unwrap_or(0))
        })
    }

    /// Bytes of all elements (a byte visited twice counts twice); saturates.
    pub fn bytes(&self) -> u64 {
        (self.elements() as u64).saturating_mul(self.elem)
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.elem == 0 || self.shape.iter().any(|n| *n < 1)
    }

    /// Whether the elements lie one after the other in row-major order.
    pub fn is_dense(&self) -> bool {
        let dense = dense_strides(&self.shape, self.elem as usize);
        let mut dims = self.dims().zip(dense);
        self.is_empty() || dims.all(|((n, stride), dense)| n == 1 || stride == dense)
    }

    /// Calls `f` with the byte offset of each element in logical order.
    pub fn each(&self, mut f: impl FnMut(i64)) {
        if !self.is_empty() {
            walk(&self.shape, &self.strides, self.offset, &mut f);
        }
    }

    /// Calls `f(offset, length)` for each contiguous row in logical order. Inner dimensions that
    /// continue the row belong to it.
    pub fn each_row(&self, mut f: impl FnMut(i64, u64)) {
        if self.is_empty() {
            return;
        }
        let (mut run, mut outer) = (self.elem as i64, self.shape.len());
        while outer > 0 && (self.shape[outer - 1] == 1 || self.strides[outer - 1] == run) {
            outer -= 1;
            run = run.saturating_mul(self.shape[outer]);
        }
        let (shape, strides) = (&self.shape[..outer], &self.strides[..outer]);
        walk(shape, strides, self.offset, &mut |at| f(at, run as u64));
    }

    /// First byte and the byte after the last, in the buffer; `None` when nothing is touched.
    pub fn extent(&self) -> Option<(i128, i128)> {
        if self.is_empty() {
            return None;
        }
        let (mut low, mut high) = (i128::from(self.offset), i128::from(self.offset));
        for (count, stride) in self.dims() {
            let reach = i128::from(count - 1).saturating_mul(stride.into());
            if reach < 0 {
                low = low.saturating_add(reach);
            } else {
                high = high.saturating_add(reach);
            }
        }
        Some((low, high.saturating_add(self.elem.into())))
    }

    /// Checks that it lies in a buffer of so many bytes.
    ///
    /// # Errors
    /// If it does not, with both.
    pub fn check(&self, bytes: usize) -> Result<(), String> {
        match self.extent() {
            Some((low, high)) if low < 0 || high > bytes as i128 => {
                Err(format!("bytes {low} to {high} of a buffer of {bytes}"))
            }
            _ => Ok(()),
        }
    }

    /// The elements as dense row-major bytes, from those of the buffer.
    ///
    /// # Errors
    /// If it does not lie in the buffer, or there is no memory for them.
    pub fn gather(&self, buffer: &[u8]) -> Result<Vec<u8>, String> {
        self.check(buffer.len())?;
        let (mut out, len) = (Vec::new(), self.bytes());
        usize::try_from(len)
            .ok()
            .and_then(|len| out.try_reserve_exact(len).ok())
            .ok_or_else(|| format!("no memory for {len} bytes"))?;
        self.each_row(|at, run| out.extend_from_slice(&buffer[range(at, run)]));
        Ok(out)
    }

    /// Replaces the elements by dense row-major bytes.
    ///
    /// # Errors
    /// If it does not lie in the buffer, or the bytes are not as many as its own.
    pub fn scatter(&self, buffer: &mut [u8], data: &[u8]) -> Result<(), String> {
        self.check(buffer.len())?;
        if data.len() as u64 != self.bytes() {
            let (found, want) = (data.len(), self.bytes());
            return Err(format!("{found} bytes for elements of {want}"));
        }
        let mut rest = data;
        self.each_row(|at, run| {
            let (row, tail) = rest.split_at(run as usize);
            buffer[range(at, run)].copy_from_slice(row);
            rest = tail;
        });
        Ok(())
    }

    /// Replaces each element by copies of a value that divides it.
    ///
    /// # Errors
    /// If it does not lie in the buffer, or the value is longer than an element or does not
    /// divide it.
    pub fn fill(&self, buffer: &mut [u8], value: &[u8]) -> Result<(), String> {
        if value.is_empty() || !self.elem.is_multiple_of(value.len() as u64) {
            let (found, want) = (value.len(), self.elem);
            return Err(format!("{found} bytes cannot fill elements of {want}"));
        }
        self.check(buffer.len())?;
        self.each_row(|at, run| {
            let row = buffer[range(at, run)].chunks_mut(value.len());
            row.for_each(|c| c.copy_from_slice(value));
        });
        Ok(())
    }

    /// The set of bytes as equal runs; `base` is added to the offset.
    /// The extent must be non-empty and, with `base`, inside the address space.
    pub fn footprint(&self, base: u64) -> Footprint {
        let mut start = base.wrapping_add_signed(self.offset);
        let mut run = self.elem;
        if self.shape.is_empty() {
            return Footprint {
                start,
                run,
                outer: Vec::new(),
            };
        }
        let mut outer: Vec<(u64, u64)> = Vec::with_capacity(self.shape.len());
        for (count, stride) in self.dims() {
            let count = count as u64;
            if count > 1 && stride != 0 {
                if stride < 0 {
                    start = start.wrapping_sub(stride.unsigned_abs() * (count - 1));
                }
                outer.push((count, stride.unsigned_abs()));
            }
        }
        outer.sort_by_key(|d| d.1);
        let mut kept = 0;
        for i in 0..outer.len() {
            let (count, stride) = outer[i];
            if kept == 0 && stride <= run {
                run += stride * (count - 1);
            } else if kept > 0 && outer[kept - 1].1 * outer[kept - 1].0 == stride {
                outer[kept - 1].0 *= count;
            } else {
                outer[kept] = (count, stride);
                kept += 1;
            }
        }
        outer.truncate(kept);
        Footprint { start, run, outer }
    }
}

/// A set of bytes: runs of equal length at strided places, smallest stride first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// The first byte, modulo 2^64: of a box without a place it may be below 0.
    pub start: u64,
    /// Bytes of a run.
    pub run: u64,
    /// `(count, stride)` of the runs.
    pub outer: Vec<(u64, u64)>,
}

impl Footprint {
    /// No bytes.
    pub const EMPTY: Footprint = Footprint {
        start: 0,
        run: 0,
        outer: Vec::new(),
    };

    /// Whether it holds no byte.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.run == 0
    }

    /// Greatest common divisor of `granule` and every place and length.
    pub fn granule(&self, granule: u64) -> u64 {
        let g = gcd(gcd(granule, self.start), self.run);
        self.outer.iter().fold(g, |g, d| gcd(g, d.1))
    }

    /// The same in units of `granule`, which must divide every place and length.
    pub fn scale(&mut self, granule: u64) {
        if granule > 1 {
            self.start /= granule;
            self.run /= granule;
            for d in &mut self.outer {
                d.1 /= granule;
            }
        }
    }

    /// Calls `f(start, length)` for every run, with `base` added to the places.
    pub fn each_at(&self, base: u64, mut f: impl FnMut(u64, u64)) {
        fn walk(outer: &[(u64, u64)], start: u64, run: u64, f: &mut impl FnMut(u64, u64)) {
            match outer {
                [] => f(start, run),
                [rest @ .., (count, stride)] => {
                    (0..*count).for_each(|i| walk(rest, start.wrapping_add(i * stride), run, f));
                }
            }
        }
        if self.run > 0 {
            walk(&self.outer, self.start.wrapping_add(base), self.run, &mut f);
        }
    }

    /// Calls `f(start, length)` for every run until it fails.
    pub fn each<E>(&self, mut f: impl FnMut(usize, usize) -> Result<(), E>) -> Result<(), E> {
        fn walk<E>(
            outer: &[(u64, u64)],
            start: u64,
            run: usize,
            f: &mut impl FnMut(usize, usize) -> Result<(), E>,
        ) -> Result<(), E> {
            match outer {
                [] => f(start as usize, run),
                [rest @ .., (count, stride)] => {
                    (0..*count).try_for_each(|i| walk(rest, start + i * stride, run, f))
                }
            }
        }
        walk(&self.outer, self.start, self.run as usize, &mut f)
    }
}

/// A transfer between two accesses as rows that are contiguous on both sides.
#[derive(Debug, PartialEq, Eq)]
pub struct Rows {
    /// Bytes of one row.
    pub run: u64,
    /// `(count, source stride, destination stride)`, outermost first.
    pub dims: Vec<(u64, i64, i64)>,
}

/// Rows of the smallest square that is moved as one: below, rows are as quick one by one.
pub const SMALLEST_SQUARE: u64 = 4;

impl Rows {
    /// Pairs the elements of two boxes.
    ///
    /// # Errors
    /// If their shapes or the sizes of their elements differ.
    pub fn new(from: &StridedBox, to: &StridedBox) -> Result<Rows, String> {
        if from.elem != to.elem || from.shape != to.shape {
            return Err(format!(
                "source has {:?} elements of {} bytes, destination {:?} of {}",
                from.shape, from.elem, to.shape, to.elem
            ));
        }
        let pairs = from.dims().zip(to.dims());
        let pairs = pairs.map(|((n, s), (_, d))| (u64::try_from(n).unwrap_or(0), s, d));
        Ok(Rows::of(from.elem, pairs))
    }

    /// Rows of elements of `elem` bytes at `(count, source stride, destination stride)` in each
    /// dimension, outermost first.
    pub fn of(elem: u64, dims: impl IntoIterator<Item = (u64, i64, i64)>) -> Rows {
        let mut dims: Vec<_> = dims.into_iter().filter(|d| d.0 != 1).collect();
        let mut run = elem;
        // A dimension whose stride is the row's length on both sides makes the row longer.
        let next = |dims: &[(u64, i64, i64)], run: u64| {
            dims.iter()
                .rposition(|d| i64::try_from(run).is_ok_and(|r| d.1 == r && d.2 == r))
        };
        while let Some(i) = next(&dims, run) {
            run = run.saturating_mul(dims.remove(i).0);
        }
        // Neighbours that step alike on both sides are one dimension.
        dims.dedup_by(|d, p| {
            let alike = follows(p.1, d.1, d.0) && follows(p.2, d.2, d.0);
            if alike {
                *p = (p.0.saturating_mul(d.0), d.1, d.2);
            }
            alike
        });
        Rows { run, dims }
    }

    /// Bytes along the sides of a square that is contiguous along one side at the source and along the other one at the
    /// destination, as whole rows: those of one row if there is no such square, or one of less than four rows, which are as
    /// quick one by one.
    pub fn square(&self) -> u64 {
        let beside = |stride: i64| i64::try_from(self.run) == Ok(stride);
        let source = self.dims.iter().find(|d| beside(d.1));
        let destination = self.dims.iter().find(|d| beside(d.2));
        let side = source.zip(destination).map(|(s, d)| s.0.min(d.0));
        let side = side.filter(|side| *side >= SMALLEST_SQUARE);
        self.run.saturating_mul(side.unwrap_or(1).max(1))
    }

    /// Number of rows; saturates.
    pub fn count(&self) -> u64 {
        self.dims.iter().fold(1, |n, d| n.saturating_mul(d.0))
    }

    /// Dimensions that the engine has to walk, the row included.
    pub fn rank(&self) -> u32 {
        self.dims.len() as u32 + 1
    }
}

fn walk(shape: &[i64], strides: &[i64], at: i64, f: &mut impl FnMut(i64)) {
    match (shape, strides) {
        ([n, shape @ ..], [step, strides @ ..]) => {
            (0..*n).for_each(|i| walk(shape, strides, at + i * step, f));
        }
        _ => f(at),
    }
}

fn range(at: i64, bytes: u64) -> Range<usize> {
    at as usize..at as usize + bytes as usize
}

/// Strides in bytes of a dense row-major array.
pub fn dense_strides(shape: &[i64], elem: usize) -> Vec<i64> {
    let mut strides = vec![elem as i64; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(shape[i].max(1));
    }
    strides
}

/// Whether stepping `outer` is stepping `inner` `count` times.
fn follows(outer: i64, inner: i64, count: u64) -> bool {
    i128::from(outer) == i128::from(inner).saturating_mul(count.into())
}

/// The greatest common divisor; that of a number and 0 is the number.
#[inline]
pub fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    fn buffer() -> BufferId {
        BufferId(0)
    }

    #[test]
    fn a_transposed_dense_box_is_one_run() {
        let a = StridedBox::new(buffer(), 8, &[(16, 4), (18, 64)], 4);
        let f = a.footprint(100);
        assert_eq!(
            f,
            Footprint {
                start: 108,
                run: 16 * 18 * 4,
                outer: vec![]
            }
        );
    }

    #[test]
    fn negative_strides_start_at_the_last_element() {
        let a = StridedBox::new(buffer(), 12, &[(4, -4)], 4);
        assert_eq!(a.extent(), Some((0, 16)));
        assert_eq!(
            a.footprint(0),
            Footprint {
                start: 0,
                run: 16,
                outer: vec![]
            }
        );
    }

    #[test]
    fn overlapping_windows_join_and_far_rows_do_not() {
        let a = StridedBox::new(buffer(), 0, &[(3, 100), (5, 4), (3, 4)], 4);
        let f = a.footprint(0);
        assert_eq!(
            f,
            Footprint {
                start: 0,
                run: 28,
                outer: vec![(3, 100)]
            }
        );
        assert_eq!(f.granule(64), 4);
    }

    #[test]
    fn footprints_hold_exactly_the_bytes_of_the_elements() {
        let mut random = Random::new(1);
        let mut next = |n: usize| random.below(n) as u64;
        for _ in 0..2000 {
            let dims: Vec<_> = (0..next(4))
                .map(|_| (1 + next(4) as i64, next(41) as i64 - 20))
                .collect();
            let a = StridedBox::new(buffer(), 300, &dims, 1 + next(5));
            let mut want = vec![false; 700];
            let mut places = vec![300i64];
            for d in a.dims() {
                places = (0..d.0)
                    .flat_map(|i| places.iter().map(move |p| p + i * d.1))
                    .collect();
            }
            for p in places {
                (0..a.elem as usize).for_each(|i| want[p as usize + i] = true);
            }
            let mut got = vec![false; 700];
            let f = a.footprint(0);
            let (low, high) = a.extent().unwrap_or_default();
            f.each(|s, n| {
                assert!(s as i128 >= low && (s + n) as i128 <= high, "{a:?}");
                got[s..s + n].fill(true);
                Ok::<_, ()>(())
            })
            .ok();
            assert_eq!(got, want, "{a:?} as {f:?}");
        }
    }

    #[test]
    fn rows_are_contiguous_on_both_sides() {
        let dense = StridedBox::new(buffer(), 0, &[(18, 64), (16, 4)], 4);
        let pitch = StridedBox::new(buffer(), 0, &[(18, 4), (16, 1296)], 4);
        let rows = Rows::new(&pitch, &dense).unwrap_or(Rows {
            run: 0,
            dims: vec![],
        });
        assert_eq!((rows.run, rows.count(), rows.rank()), (4, 288, 3));
        let rows = Rows::new(&dense, &dense).unwrap_or(Rows {
            run: 0,
            dims: vec![],
        });
        assert_eq!((rows.run, rows.count(), rows.rank()), (1152, 1, 1));
        assert!(Rows::new(&dense, &StridedBox::contiguous(buffer(), 0, 4)).is_err());
    }

    #[test]
    fn squares_are_as_long_as_their_shorter_side() {
        let square = |dims: &[(u64, i64, i64)]| Rows::of(4, dims.iter().copied()).square();
        assert_eq!(square(&[(18, 4, 64), (16, 1296, 4)]), 64);
        assert_eq!(square(&[(18, 64, 64), (16, 4, 4)]), 1152);
        // Pairs of elements change their order.
        assert_eq!(square(&[(6, 8, 64), (8, 96, 8), (2, 4, 4)]), 48);
        // Neighbours on one side only.
        assert_eq!(square(&[(18, 4, 64), (16, 1296, 8)]), 4);
        // Three channels.
        assert_eq!(square(&[(3, 4, 64), (16, 1296, 4)]), 4);
        assert_eq!(square(&[(4, 4, 64), (16, 1296, 4)]), 16);
    }
}
