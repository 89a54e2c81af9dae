//! Boxes of tensors as they lie in near memory, and one as a part of another.
//!
//! A box has dimensions, each of which moves in one dimension of its tensor by a fixed step, and a place in the
//! tensor where its first element is. Whoever reads a smaller box of the same tensor in the same order of
//! dimensions reads a strided part of the larger one: rows of a larger step are every so many-th, and of
//! interleaved sequences one is taken.

use tir::{DYNAMIC, Ir, LinearExpr};
use tir_tensor::TransferRead;

use crate::layout::Tile;

/// A dimension of a box: the dimension of the tensor that it moves in, by how much, and its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    pub(crate) source: usize,
    pub(crate) step: i64,
    pub(crate) size: i64,
}

/// A box of a tensor in near memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Placed {
    /// Where in the tensor its first element is; it may be outside.
    pub(crate) start: Vec<i64>,
    pub(crate) dims: Vec<Extent>,
}

/// Where a box is in another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) offsets: Vec<i64>,
    pub(crate) sizes: Vec<i64>,
    pub(crate) strides: Vec<i64>,
}

impl Placed {
    /// That of a tile that no loop moves.
    pub(crate) fn of(tile: &Tile) -> Self {
        let start = tile.forms.iter().zip(&tile.low);
        let dims = tile.dims.iter().map(|dim| Extent {
            source: dim.source.0,
            step: dim.source.1,
            size: dim.size,
        });
        Self {
            start: start.map(|(form, low)| form.constant + low).collect(),
            dims: dims.collect(),
        }
    }

    /// That of what a transfer loads from a place that is known; `None` if it moves in several dimensions of the
    /// tensor at once.
    pub(crate) fn of_read(ir: &Ir, read: &TransferRead) -> Option<Self> {
        let shape = read.result.0.shape()?;
        if read.static_offsets.contains(&DYNAMIC) || ir.ty(read.source).shape().is_none() {
            return None;
        }
        let rows = read.access.exprs.iter();
        let rows: Vec<LinearExpr> = rows.map(|e| e.linear(shape.len())).collect::<Option<_>>()?;
        let start = read.static_offsets.iter().zip(&rows);
        let dim = |(t, size): (usize, &i64)| {
            let mut moves = (0..rows.len()).filter(|s| rows[*s].at(t) != 0);
            let source = moves.next().unwrap_or(0);
            moves.next().is_none().then(|| Extent {
                source,
                step: rows.get(source).map_or(0, |row| row.at(t)),
                size: *size,
            })
        };
        Some(Self {
            start: start.map(|(offset, row)| offset + row.constant).collect(),
            dims: shape.iter().enumerate().map(dim).collect::<Option<_>>()?,
        })
    }

    /// Whether it has elements outside of its tensor.
    pub(crate) fn leaves(&self, shape: &[i64]) -> bool {
        (0..self.start.len()).any(|s| self.leaves_in(s, shape))
    }

    /// Whether it has elements before or behind a dimension of its tensor.
    pub(crate) fn leaves_in(&self, s: usize, shape: &[i64]) -> bool {
        let own = self.dims.iter().filter(|dim| dim.source == s);
        let end = own.fold(self.start[s], |end, dim| end + (dim.size - 1) * dim.step);
        self.start[s] < 0 || shape.get(s).is_some_and(|n| end >= *n)
    }

    /// Whether it has all elements of its tensor, not only every other one or those of some rows.
    pub(crate) fn covers(&self, shape: &[i64]) -> bool {
        shape.iter().enumerate().all(|(s, size)| {
            let own = self.dims.iter().filter(|dim| dim.source == s);
            let mut own: Vec<&Extent> = own.filter(|dim| dim.step != 0).collect();
            own.sort_by_key(|dim| dim.step);
            // From the first element on, so many without a gap.
            let mut dense = 1i64;
            for dim in own.iter().filter(|dim| dim.size > 1) {
                if dim.step > dense {
                    return false;
                }
                dense = dense.saturating_add((dim.size - 1).saturating_mul(dim.step));
            }
            self.start[s] <= 0 && self.start[s].saturating_add(dense) >= *size
        })
    }

    /// The same box of a tensor that this one begins at a place of.
    pub(crate) fn moved(mut self, at: &[i64]) -> Self {
        for (start, at) in self.start.iter_mut().zip(at) {
            *start += at;
        }
        self
    }

    /// Where a dimension of the tensor is the last one of the box and no other, room for more of it as further blocks of as many.
    pub(crate) fn in_blocks(&mut self, s: usize) {
        let mut own = self.dims.iter().filter(|dim| dim.source == s);
        if let (Some(dim), None) = (own.next().copied(), own.next())
            && self.dims.last() == Some(&dim)
            && dim.step == 1
        {
            let block = Extent {
                source: s,
                step: dim.size,
                size: 1,
            };
            self.dims.insert(0, block);
        }
    }

    /// The same with so many interleaved sequences along the first one of the `dense` dimensions that a unit reads at once, where that
    /// counts a dimension of the tensor, alone and element by element.
    pub(crate) fn in_sequences(&self, dense: usize, count: i64) -> Option<Self> {
        let mut placed = self.clone();
        let t = placed.dims.len().checked_sub(dense)?;
        let row = *placed.dims.get(t)?;
        let s = row.source;
        let own = placed.dims.iter().filter(|dim| dim.source == s);
        if own.count() != 1 || row.step != 1 || count < 2 {
            return None;
        }
        let before = placed.start[s].rem_euclid(count);
        let size = row.size.saturating_add(before).saturating_add(count - 1) / count;
        placed.start[s] -= before;
        placed.dims[t] = Extent {
            source: s,
            step: count,
            size,
        };
        let phase = Extent {
            source: s,
            step: 1,
            size: count,
        };
        placed.dims.insert(t, phase);
        Some(placed)
    }

    /// The dimensions of the tensor along which it has interleaved sequences, and how many.
    pub(crate) fn sequences(&self) -> impl Iterator<Item = (usize, i64)> {
        self.dims.windows(2).filter_map(|pair| {
            let [phase, along] = pair else { return None };
            let found = phase.step == 1 && phase.size > 1;
            let behind = (along.source, along.step) == (phase.source, phase.size);
            (found && behind).then_some((phase.source, phase.size))
        })
    }

    /// Its elements.
    pub(crate) fn elements(&self) -> i64 {
        let sizes = self.dims.iter().map(|dim| dim.size);
        sizes.fold(1, i64::saturating_mul)
    }

    /// Where another box of the tensor is in it, if it is there; the last `dense` dimensions are the same but for
    /// the size of the first of them.
    pub(crate) fn find(&self, other: &Placed, dense: usize) -> Option<Part> {
        let mut chosen = vec![None; self.dims.len()];
        self.matched(other, dense, 0, 0, &mut chosen)
    }

    /// Matches dimensions of the other box from `theirs` on with own ones from `own` on.
    fn matched(
        &self,
        other: &Placed,
        dense: usize,
        own: usize,
        theirs: usize,
        chosen: &mut Vec<Option<usize>>,
    ) -> Option<Part> {
        let (left, wanted) = (self.dims.len() - own, other.dims.len() - theirs);
        if left < wanted {
            return None;
        }
        if left == 0 {
            return self.part(other, chosen);
        }
        if wanted > 0 {
            let (mine, its) = (self.dims[own], other.dims[theirs]);
            let still = its.size == 1 && its.step == 0;
            let along = mine.source == its.source && mine.step != 0;
            let moves = along && (its.size == 1 || its.step % mine.step == 0);
            let fits = match wanted <= dense {
                // What a unit reads at once.
                true => {
                    let whole = wanted == dense || mine.size == its.size;
                    left == wanted && mine.step == its.step && mine.source == its.source && whole
                }
                false => still && mine.step == 0 || moves,
            };
            if fits {
                chosen[own] = Some(theirs);
                let found = self.matched(other, dense, own + 1, theirs + 1, chosen);
                if found.is_some() {
                    return found;
                }
                chosen[own] = None;
            }
        }
        self.matched(other, dense, own + 1, theirs, chosen)
    }

    /// The part that the other box is with these dimensions of it; those that it lacks stand still.
    fn part(&self, other: &Placed, chosen: &[Option<usize>]) -> Option<Part> {
        let rank = self.dims.len();
        let (mut sizes, mut strides) = (vec![1; rank], vec![1; rank]);
        for (i, theirs) in chosen.iter().enumerate() {
            if let Some(j) = theirs {
                sizes[i] = other.dims[*j].size;
                if sizes[i] > 1 && self.dims[i].step != 0 {
                    strides[i] = other.dims[*j].step / self.dims[i].step;
                }
            }
        }
        let mut offsets = vec![0; rank];
        for (s, (own, its)) in self.start.iter().zip(&other.start).enumerate() {
            let mut along: Vec<usize> = (0..rank)
                .filter(|i| self.dims[*i].source == s && self.dims[*i].step != 0)
                .collect();
            along.sort_by_key(|i| std::cmp::Reverse(self.dims[*i].step));
            let mut left = its - own;
            for i in along {
                let most = self.dims[i].size - 1 - (sizes[i] - 1) * strides[i];
                let offset = left.div_euclid(self.dims[i].step);
                if !(0..=most).contains(&offset) {
                    return None;
                }
                offsets[i] = offset;
                left -= offset * self.dims[i].step;
            }
            if left != 0 {
                return None;
            }
        }
        Some(Part {
            offsets,
            sizes,
            strides,
        })
    }

    /// Makes it larger along the largest steps, so that another box may lie in it.
    pub(crate) fn reach(&mut self, other: &Placed) {
        let ends = |placed: &Placed, s: usize| {
            let dims = placed.dims.iter().filter(|dim| dim.source == s);
            let far = dims.map(|dim| (dim.size - 1).saturating_mul(dim.step));
            (
                placed.start[s],
                far.fold(placed.start[s], i64::saturating_add),
            )
        };
        for s in 0..self.start.len() {
            let ((low, high), (first, last)) = (ends(self, s), ends(other, s));
            let own = self.dims.iter_mut();
            let own = own.filter(|dim| dim.source == s && dim.step != 0);
            let Some(dim) = own.max_by_key(|dim| dim.step) else {
                continue;
            };
            let steps = |far: i64| (far.max(0) + dim.step - 1) / dim.step;
            let (before, behind) = (steps(low - first), steps(last - high));
            dim.size = dim.size.saturating_add(before + behind);
            self.start[s] -= before * dim.step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(start: &[i64], dims: &[(usize, i64, i64)]) -> Placed {
        let extent = |(source, step, size): &(usize, i64, i64)| Extent {
            source: *source,
            step: *step,
            size: *size,
        };
        Placed {
            start: start.to_vec(),
            dims: dims.iter().map(extent).collect(),
        }
    }

    #[test]
    fn a_residual_lies_in_what_a_window_reads() {
        // Channels in blocks of 16, rows and columns with a border of one.
        let mut window = placed(
            &[0, -1, -1],
            &[(0, 16, 4), (1, 1, 10), (2, 1, 18), (0, 1, 16)],
        );
        let residual = placed(&[0, 0, 0], &[(0, 16, 4), (1, 1, 8), (2, 1, 16), (0, 1, 16)]);
        let part = window.find(&residual, 2).expect("inside");
        assert_eq!(part.offsets, [0, 1, 1, 0]);
        assert_eq!(part.sizes, [4, 8, 16, 16]);
        assert_eq!(part.strides, [1, 1, 1, 1]);
        // The other way round it does not, until the box is larger.
        let mut small = residual.clone();
        assert_eq!(small.find(&window, 2), None);
        small.reach(&window);
        assert!(small.find(&window, 2).is_some());
        // More channels than there are.
        let wide = placed(&[0, 0, 0], &[(0, 16, 6), (1, 1, 8), (2, 1, 16), (0, 1, 16)]);
        assert_eq!(window.find(&wide, 2), None);
        window.reach(&wide);
        assert!(window.find(&wide, 2).is_some());
    }

    #[test]
    fn every_second_row_of_one_of_two_sequences() {
        let phases = placed(&[-1, -1], &[(0, 1, 9), (1, 1, 2), (1, 2, 9)]);
        let strided = placed(&[0, 0], &[(0, 2, 4), (1, 2, 4)]);
        let part = phases.find(&strided, 1).expect("inside");
        assert_eq!(part.offsets, [1, 1, 0]);
        assert_eq!(part.sizes, [4, 1, 4]);
        assert_eq!(part.strides, [2, 1, 1]);
        // All columns are no part of interleaved ones.
        let all = placed(&[0, 0], &[(0, 1, 8), (1, 1, 8)]);
        assert_eq!(phases.find(&all, 1), None);
    }

    #[test]
    fn a_part_lies_in_the_whole_as_sequences() {
        // Channels in blocks of 16, rows with a border of one: as two sequences it begins at an even pixel.
        let whole = placed(
            &[0, -1, -1],
            &[(0, 16, 4), (1, 1, 34), (2, 1, 34), (0, 1, 16)],
        );
        assert_eq!(whole.sequences().next(), None);
        let whole = whole.in_sequences(2, 2).expect("rows of a unit");
        let wanted = placed(
            &[0, -1, -2],
            &[(0, 16, 4), (1, 1, 34), (2, 1, 2), (2, 2, 18), (0, 1, 16)],
        );
        assert_eq!(whole, wanted);
        assert_eq!(whole.sequences().collect::<Vec<_>>(), [(2, 2)]);
        // They are sequences already, and rows of a unit are no channels.
        assert_eq!(whole.in_sequences(2, 2), None);
        // Pooling reads every second pixel of the part that begins at channel 32.
        let pooled = placed(
            &[0, 0, 1],
            &[(0, 16, 2), (1, 2, 16), (2, 2, 16), (0, 1, 16)],
        );
        let part = whole
            .find(&pooled.moved(&[32, 0, 0]), 2)
            .expect("inside of it");
        assert_eq!(part.offsets, [2, 1, 1, 1, 0]);
        assert_eq!(part.sizes, [2, 16, 1, 16, 16]);
        assert_eq!(part.strides, [1, 2, 1, 1, 1]);
    }

    #[test]
    fn one_block_is_one_of_several() {
        let mut small = placed(&[0, 0, 0], &[(1, 1, 8), (2, 1, 16), (0, 1, 16)]);
        let whole = placed(&[0, 0, 0], &[(0, 16, 2), (1, 1, 8), (2, 1, 16), (0, 1, 16)]);
        small.in_blocks(1);
        assert_eq!(small.dims.len(), 3);
        small.in_blocks(0);
        assert_eq!(small.find(&whole, 2), None);
        small.reach(&whole);
        assert!(small.find(&whole, 2).is_some());
    }
}
