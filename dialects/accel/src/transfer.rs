//! What a transfer of a tile moves: boxes of both sides, with what lies outside left out.

use tir::{AffineMap, DYNAMIC, Failure, Interval, LinearMap, MemRefType, Type};
use tir_machine::{Rows, StridedBox};

/// The static part of a transfer between a large buffer and a tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Shape of the large buffer.
    pub far_shape: Vec<i64>,
    /// Its strides in bytes.
    pub far_strides: Vec<i64>,
    /// Shape of the tile.
    pub tile_shape: Vec<i64>,
    /// Its strides in bytes.
    pub tile_strides: Vec<i64>,
    /// Position in the large buffer over the dimensions of the tile.
    pub access: LinearMap,
    /// Bytes of an element.
    pub elem: i64,
}

/// The elements of both sides that lie inside: of the large buffer and of the tile, in equal
/// shapes.
pub type Pair = (StridedBox, StridedBox);

/// Shape and strides in bytes of a memref of static shape and strides.
pub fn strided(ty: Type) -> Result<(Vec<i64>, Vec<i64>, i64), Failure> {
    let fail = || Failure::from(format!("needs static strides, found {ty}"));
    let memref = ty.get::<MemRefType>().ok_or_else(fail)?;
    let (strides, _) = memref.strides().ok_or_else(fail)?;
    let elem = memref.elem.bytes().ok_or_else(fail)? as i64;
    if memref.shape.contains(&DYNAMIC) || strides.contains(&DYNAMIC) {
        return Err(fail());
    }
    let strides = strides.iter().map(|s| s.saturating_mul(elem)).collect();
    Ok((memref.shape.clone(), strides, elem))
}

impl Pattern {
    /// The pattern of a transfer between buffers of these types.
    pub fn new(far: Type, tile: Type, access: &AffineMap) -> Result<Self, Failure> {
        let (far_shape, far_strides, elem) = strided(far)?;
        let (tile_shape, tile_strides, _) = strided(tile)?;
        let access = access.linear().ok_or("has an access that is not linear")?;
        Ok(Self {
            far_shape,
            far_strides,
            tile_shape,
            tile_strides,
            access,
            elem,
        })
    }

    /// What the transfer moves with these offsets between a large buffer and a tile, of which
    /// buffer and first byte count.
    pub fn pairs(&self, offsets: &[i64], large: &StridedBox, tile: &StridedBox) -> Vec<Pair> {
        let mut out = Vec::new();
        let ranges: Vec<_> = self.tile_shape.iter().map(|n| (0, *n)).collect();
        self.clip(offsets, ranges, &mut |from, dims| {
            let side = |all: &StridedBox, more: i64, stride: fn(&(i64, i64, i64)) -> i64| {
                let dims: Vec<_> = dims.iter().map(|d| (d.0, stride(d))).collect();
                StridedBox::new(all.buffer, all.offset + more, &dims, self.elem as u64)
            };
            out.push((side(large, from.0, |d| d.1), side(tile, from.1, |d| d.2)));
        });
        out
    }

    /// Whether all of the tile lies inside with these offsets.
    pub fn inside(&self, offsets: &[i64]) -> bool {
        let ranges: Vec<_> = self.tile_shape.iter().map(|n| (0, *n)).collect();
        (0..self.access.len()).all(|s| self.reach(s, offsets, &ranges).2)
    }

    /// Whether all of the tile lies inside in dimension `s` of the large buffer, with any offset of a range there.
    pub fn is_inside(&self, s: usize, offset: Interval) -> bool {
        let ranges: Vec<_> = self.tile_shape.iter().map(|n| (0, *n)).collect();
        [offset.low, offset.high].into_iter().all(|at| {
            let mut offsets = vec![0; self.access.len()];
            offsets[s] = at;
            self.reach(s, &offsets, &ranges).2
        })
    }

    /// Lowest and highest position in dimension `s`, and whether both are inside.
    fn reach(&self, s: usize, offsets: &[i64], ranges: &[(i64, i64)]) -> (i64, i64, bool) {
        let form = &self.access[s];
        let mut low = offsets[s].saturating_add(form.constant);
        let mut high = low;
        for (d, c) in form.terms() {
            let (from, to) = ranges[d];
            let (a, b) = (c.saturating_mul(from), c.saturating_mul(to - 1));
            low = low.saturating_add(a.min(b));
            high = high.saturating_add(a.max(b));
        }
        (low, high, low >= 0 && high < self.far_shape[s])
    }

    /// Calls `out` with the byte offsets in the large buffer and the tile, and `(count, stride in
    /// the large buffer, stride in the tile)` of each dimension.
    fn clip(
        &self,
        offsets: &[i64],
        mut ranges: Vec<(i64, i64)>,
        out: &mut impl FnMut((i64, i64), &[(i64, i64, i64)]),
    ) {
        for s in 0..self.access.len() {
            if ranges.iter().any(|(from, to)| from >= to) {
                return;
            }
            let (low, high, inside) = self.reach(s, offsets, &ranges);
            if inside {
                continue;
            }
            let size = self.far_shape[s];
            if high < 0 || low >= size {
                return;
            }
            let form = &self.access[s];
            let rank = ranges.len();
            let moving: Vec<usize> = (0..rank)
                .filter(|t| form.at(*t) != 0 && ranges[*t].1 - ranges[*t].0 > 1)
                .collect();
            let [t] = moving[..] else {
                // Several dimensions of the tile step in this one: each position of the first.
                let Some(&t) = moving.first() else { return };
                for i in ranges[t].0..ranges[t].1 {
                    let mut one = ranges.clone();
                    one[t] = (i, i + 1);
                    self.clip(offsets, one, out);
                }
                return;
            };
            let fixed: i64 = (0..rank)
                .filter(|d| *d != t)
                .map(|d| form.at(d) * ranges[d].0)
                .sum();
            let at = |i: i64| offsets[s] + form.constant + fixed + form.at(t) * i;
            let (mut from, mut to) = ranges[t];
            while from < to && !(0..size).contains(&at(from)) {
                from += 1;
            }
            while from < to && !(0..size).contains(&at(to - 1)) {
                to -= 1;
            }
            ranges[t] = (from, to);
        }
        if ranges.iter().any(|(from, to)| from >= to) {
            return;
        }
        let rank = ranges.len();
        let step = |t: usize| -> i64 {
            let terms = self.access.iter().zip(&self.far_strides);
            terms.map(|(form, stride)| form.at(t) * stride).sum()
        };
        let starts = self.access.iter().zip(offsets).zip(&self.far_strides);
        let start = starts.map(|((form, o), stride)| (form.constant + o) * stride);
        let (mut large, mut tile) = (start.sum::<i64>(), 0);
        let mut dims = Vec::with_capacity(rank);
        for (t, (from, to)) in ranges.iter().enumerate() {
            large += step(t) * from;
            tile += self.tile_strides[t] * from;
            dims.push((to - from, step(t), self.tile_strides[t]));
        }
        out((large, tile), &dims);
    }

    /// Dimensions of the transfer of the whole tile, after merging, the contiguous row included.
    pub fn rank(&self) -> usize {
        merged_rank(&self.whole(), self.elem)
    }

    /// The most dimensions that a transfer has, whatever is cut off of the dimensions `out` of the
    /// tile, which may stick out: what is cut off does not merge with the dimension around it.
    pub fn most_dims(&self, out: &[bool]) -> usize {
        most_merged(&mut self.whole(), &open(out, None), self.elem)
    }

    /// The dimension of the tile whose positions are moved one by one, for an engine that has
    /// `dims` dimensions: the one behind which the fewest are too many, and of several the one with
    /// the fewest positions.
    pub fn split(&self, out: &[bool], dims: usize) -> Option<usize> {
        split(&self.whole(), out, (self.elem, dims))
    }

    /// Transfers that an engine of `dims` dimensions needs for the tile, of which the dimensions `out` may stick out.
    pub fn transfers(&self, out: &[bool], dims: usize) -> i64 {
        transfers(self.whole(), out.to_vec(), (self.elem, dims))
    }

    /// Bytes in a run of the transfer of the whole tile, for an engine to which rows of a square of so many bytes are as good as
    /// one run (`square` of an engine).
    pub fn run(&self, square: i64) -> i64 {
        let steps = self.whole().into_iter();
        let steps = steps.map(|(count, far, tile)| (u64::try_from(count).unwrap_or(0), far, tile));
        let rows = Rows::of(u64::try_from(self.elem).unwrap_or(1), steps);
        let square = rows.square().min(u64::try_from(square).unwrap_or(0));
        i64::try_from(rows.run.max(square)).unwrap_or(i64::MAX)
    }

    fn whole(&self) -> Vec<Steps> {
        let steps = (0..self.tile_shape.len()).map(|t| {
            let terms = self.access.iter().zip(&self.far_strides);
            let far = terms.map(|(form, stride)| form.at(t) * stride).sum();
            (self.tile_shape[t], far, self.tile_strides[t])
        });
        steps.collect()
    }
}

/// Positions of a dimension of a tile, and how many bytes lie between two of them in the large buffer and in the tile.
pub type Steps = (i64, i64, i64);

/// Transfers of elements of `elem` bytes that an engine of `dims` dimensions needs for a tile, of which the dimensions `out` may stick
/// out: one for each position of those that are [split](Pattern::split).
pub fn transfers(mut steps: Vec<Steps>, mut out: Vec<bool>, (elem, dims): (i64, usize)) -> i64 {
    let mut all = 1;
    while most_merged(&mut steps, &open(&out, None), elem) > dims {
        let Some(at) = split(&steps, &out, (elem, dims)) else {
            break;
        };
        all *= steps.remove(at).0;
        if at < out.len() {
            out.remove(at);
        }
    }
    all
}

/// [`Pattern::split`] of the dimensions of a tile.
fn split(whole: &[Steps], out: &[bool], (elem, dims): (i64, usize)) -> Option<usize> {
    let mut rest = Vec::with_capacity(whole.len());
    let long = (0..whole.len()).filter(|t| whole[*t].0 > 1);
    long.min_by_key(|t| {
        rest.clear();
        rest.extend_from_slice(&whole[..*t]);
        rest.extend_from_slice(&whole[t + 1..]);
        let most = most_merged(&mut rest, &open(out, Some(*t)), elem);
        (most.saturating_sub(dims), whole[*t].0)
    })
}

/// The dimensions that may stick out, by their places once another one is gone.
fn open(out: &[bool], gone: Option<usize>) -> Vec<usize> {
    let left = (0..out.len()).filter(|d| out[*d] && Some(*d) != gone);
    left.map(|d| d - usize::from(gone.is_some_and(|gone| gone < d)))
        .collect()
}

/// The highest rank of a transfer of which parts of the dimensions `open` may be cut off. How much
/// is cut off does not matter, but for what is left: all, several positions, or one.
fn most_merged(dims: &mut [Steps], open: &[usize], elem: i64) -> usize {
    let Some((first, rest)) = open.split_first() else {
        return merged_rank(dims, elem);
    };
    let whole = dims[*first].0;
    let mut most = 0;
    for left in [whole, (whole - 1).max(1), 1] {
        dims[*first].0 = left;
        most = most.max(most_merged(dims, rest, elem));
    }
    dims[*first].0 = whole;
    most
}

/// Dimensions as the machine counts them.
fn merged_rank(dims: &[Steps], elem: i64) -> usize {
    let count = |n: i64| u64::try_from(n).unwrap_or(0);
    let dims = dims.iter().map(|d| (count(d.0), d.1, d.2));
    Rows::of(count(elem), dims).rank() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use tir::AffineExpr as E;
    use tir_machine::BufferId;

    fn memref(shape: &[i64]) -> Type {
        Type::memref(shape.to_vec(), Type::f32(), None)
    }
    fn pairs(p: &Pattern, offsets: &[i64]) -> Vec<Pair> {
        let [large, tile] = [0, 1].map(|b| StridedBox::contiguous(BufferId(b), 0, 4));
        p.pairs(offsets, &large, &tile)
    }
    fn side(buffer: u32, offset: i64, dims: &[(i64, i64)]) -> StridedBox {
        StridedBox::new(BufferId(buffer), offset, dims, 4)
    }
    fn map(dims: usize, exprs: Vec<E>) -> AffineMap {
        AffineMap {
            dims,
            syms: 0,
            exprs,
        }
    }

    #[test]
    fn a_window_that_sticks_out_is_clipped() {
        let map = map(2, vec![E::Dim(0), E::Dim(1)]);
        let p = Pattern::new(memref(&[4, 4]), memref(&[3, 4]), &map).unwrap();
        assert!(p.inside(&[1, 0]) && !p.inside(&[-1, 0]));
        let dims = [(2, 16), (4, 4)];
        assert_eq!(
            pairs(&p, &[-1, 0]),
            [(side(0, 0, &dims), side(1, 16, &dims))]
        );
        let dims = [(2, 16), (2, 4)];
        assert_eq!(
            pairs(&p, &[2, 2]),
            [(side(0, 40, &dims), side(1, 0, &dims))]
        );
        assert!(pairs(&p, &[4, 0]).is_empty());
    }

    #[test]
    fn blocks_that_stick_out_fall_into_pieces() {
        // (p, q) -> (4 p + q) of 6 elements: all of block 0, half of block 1.
        let map = map(2, vec![E::Dim(0) * E::Const(4) + E::Dim(1)]);
        let p = Pattern::new(memref(&[6]), memref(&[2, 4]), &map).unwrap();
        let counts: Vec<_> = pairs(&p, &[0]).iter().map(|p| p.0.elements()).collect();
        assert_eq!(counts, [4, 2]);
    }

    #[test]
    fn ranks_are_those_of_the_machine() {
        let d = E::Dim;
        // (p, kh, kw, c, q) -> (16 p + q, c, kh, kw)
        let exprs = vec![d(0) * E::Const(16) + d(4), d(3), d(1), d(2)];
        let p = Pattern::new(
            memref(&[32, 16, 3, 3]),
            memref(&[2, 3, 3, 16, 16]),
            &map(5, exprs),
        )
        .unwrap();
        assert_eq!((p.rank(), p.split(&[false; 5], 4)), (5, Some(0)));
        // Where the blocks stick out too: the fewest positions that leave 5 dimensions.
        let out = [true, false, false, false, true];
        assert_eq!((p.most_dims(&out), p.split(&out, 5)), (5, Some(0)));
        let rows = map(3, vec![d(2), d(0), d(1)]);
        let p = Pattern::new(memref(&[16, 18, 18]), memref(&[3, 18, 16]), &rows).unwrap();
        assert_eq!(p.rank(), 3);
    }
}
