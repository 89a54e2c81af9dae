//! Which bytes a piece of work touches: a strided box in a buffer, and its merged forms.

use smallvec::SmallVec;

use crate::alloc::BufferId;

/// `(count, stride in bytes)` for each dimension, outermost first.
pub type Dims = SmallVec<[(u64, i64); 4]>;

/// A strided box of elements in a buffer.
///
/// The order of `dims` is the logical order of the elements (outermost first): a copy pairs the
/// elements of two accesses of equal counts. Strides are bytes and may be zero or negative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The buffer.
    pub buffer: BufferId,
    /// Byte offset of the first element in the buffer.
    pub offset: i64,
    /// `(count, stride in bytes)` for each dimension, outermost first.
    pub dims: Dims,
    /// Bytes of one element.
    pub elem: u64,
}

impl Access {
    /// `bytes` contiguous bytes at `offset`.
    pub fn dense(buffer: BufferId, offset: i64, bytes: u64) -> Access {
        Access {
            buffer,
            offset,
            dims: Dims::new(),
            elem: bytes,
        }
    }

    /// Elements of `elem` bytes, `(count, stride in bytes)` for each dimension.
    pub fn strided(buffer: BufferId, offset: i64, dims: &[(u64, i64)], elem: u64) -> Access {
        Access {
            buffer,
            offset,
            dims: dims.into(),
            elem,
        }
    }

    /// Number of elements; saturates.
    pub fn elements(&self) -> u64 {
        self.dims.iter().fold(1, |n, d| n.saturating_mul(d.0))
    }

    /// Bytes of all elements (a byte visited twice counts twice); saturates.
    pub fn bytes(&self) -> u64 {
        self.elements().saturating_mul(self.elem)
    }

    /// Calls `f(offset, length)` for each contiguous row in logical order. Inner dimensions that
    /// continue the row belong to it.
    pub fn each_row(&self, mut f: impl FnMut(i64, u64)) {
        fn walk(dims: &[(u64, i64)], at: i64, run: u64, f: &mut impl FnMut(i64, u64)) {
            match dims {
                [] => f(at, run),
                [(count, stride), rest @ ..] => {
                    (0..*count as i64).for_each(|i| walk(rest, at + i * stride, run, f));
                }
            }
        }
        if self.extent().is_none() {
            return;
        }
        let (mut run, mut dims) = (self.elem, self.dims.as_slice());
        while let [rest @ .., (count, stride)] = dims
            && (*count == 1 || i64::try_from(run).is_ok_and(|r| r == *stride))
        {
            run *= count;
            dims = rest;
        }
        walk(dims, self.offset, run, &mut f);
    }

    /// First byte and the byte after the last, in the buffer; `None` when nothing is touched.
    pub(crate) fn extent(&self) -> Option<(i128, i128)> {
        if self.elem == 0 || self.dims.iter().any(|d| d.0 == 0) {
            return None;
        }
        let (mut low, mut high) = (i128::from(self.offset), i128::from(self.offset));
        for &(count, stride) in &self.dims {
            let reach = i128::from(count - 1).saturating_mul(stride.into());
            if reach < 0 {
                low = low.saturating_add(reach);
            } else {
                high = high.saturating_add(reach);
            }
        }
        Some((low, high.saturating_add(self.elem.into())))
    }

    /// The set of bytes as equal runs; `base` is added to the offset.
    /// The extent must be non-empty and, with `base`, inside the address space.
    pub(crate) fn footprint(&self, base: u64) -> Footprint {
        let mut start = base.wrapping_add_signed(self.offset);
        let mut run = self.elem;
        if self.dims.is_empty() {
            return Footprint {
                start,
                run,
                outer: Vec::new(),
            };
        }
        let mut outer: Vec<(u64, u64)> = Vec::with_capacity(self.dims.len());
        for &(count, stride) in &self.dims {
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

impl Rows {
    /// Pairs the elements of `from` and `to`; says what differs when they cannot be paired.
    pub(crate) fn new(from: &Access, to: &Access) -> Result<Rows, String> {
        let counts = |a: &Access| a.dims.iter().map(|d| d.0).collect::<Vec<_>>();
        if from.elem != to.elem || counts(from) != counts(to) {
            return Err(format!(
                "source has {:?} elements of {} bytes, destination {:?} of {}",
                counts(from),
                from.elem,
                counts(to),
                to.elem
            ));
        }
        let pairs = from.dims.iter().zip(&to.dims).map(|(s, d)| (s.0, s.1, d.1));
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
        let mut merged: Vec<(u64, i64, i64)> = Vec::with_capacity(dims.len());
        for d in dims {
            match merged.last_mut() {
                Some(p) if follows(p.1, d.1, d.0) && follows(p.2, d.2, d.0) => {
                    *p = (p.0.saturating_mul(d.0), d.1, d.2);
                }
                _ => merged.push(d),
            }
        }
        Rows { run, dims: merged }
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

    fn buffer() -> BufferId {
        BufferId(0)
    }

    #[test]
    fn a_transposed_dense_box_is_one_run() {
        let a = Access::strided(buffer(), 8, &[(16, 4), (18, 64)], 4);
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
        let a = Access::strided(buffer(), 12, &[(4, -4)], 4);
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
        let a = Access::strided(buffer(), 0, &[(3, 100), (5, 4), (3, 4)], 4);
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
        let mut seed = 1u64;
        let mut next = |n: u64| {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (seed >> 33) % n
        };
        for _ in 0..2000 {
            let dims: Vec<_> = (0..next(4))
                .map(|_| (1 + next(4), next(41) as i64 - 20))
                .collect();
            let a = Access::strided(buffer(), 300, &dims, 1 + next(5));
            let mut want = vec![false; 700];
            let mut places = vec![300i64];
            for d in &a.dims {
                places = (0..d.0 as i64)
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
        let dense = Access::strided(buffer(), 0, &[(18, 64), (16, 4)], 4);
        let pitch = Access::strided(buffer(), 0, &[(18, 4), (16, 1296)], 4);
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
        assert!(Rows::new(&dense, &Access::dense(buffer(), 0, 4)).is_err());
    }
}
