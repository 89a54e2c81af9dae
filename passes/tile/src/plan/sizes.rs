//! Which sizes tiles may have, which orders their loops, and which iterators one dimension of a unit.

use std::collections::BTreeSet;

use tir::AffineExpr;

use super::Target;
use crate::group::Group;
use crate::layout::Space;
use crate::matching::Joined;

/// All divisors, in order.
pub(crate) fn divisors(n: i64) -> Vec<i64> {
    let mut all = sizes(n);
    all.retain(|i| n % i == 0);
    all
}

/// The smallest size of a part for each number of parts that `n` may have, in order.
pub(super) fn sizes(n: i64) -> Vec<i64> {
    let root = |i: &i64| i.saturating_mul(*i) <= n;
    let mut all: Vec<i64> = (1..).take_while(root).collect();
    let few = 1..=all.len() as i64 + 1;
    all.extend(few.map(|parts| (n + parts - 1) / parts));
    all.sort_unstable();
    all.dedup();
    all
}

/// Leaves out sizes until there are no more than `limit` combinations: of the longest list the one that is
/// nearest to the next larger, never the extremes.
fn thin(options: &mut [Vec<i64>], limit: usize) {
    let count = |options: &[Vec<i64>]| {
        let counts = options.iter().map(Vec::len);
        counts.fold(1, usize::saturating_mul)
    };
    while count(options) > limit.max(1) {
        let Some(longest) = options.iter_mut().max_by_key(|list| list.len()) else {
            return;
        };
        if longest.len() <= 2 {
            return;
        }
        let inner = 1..longest.len() - 1;
        let near = |i: &usize| {
            let (here, next) = (longest[*i], longest[*i + 1].max(1));
            here.saturating_mul(1 << 16) / next
        };
        if let Some(i) = inner.max_by_key(near) {
            longest.remove(i);
        }
    }
}

/// One size of each list, in all combinations; of more than `limit` after thinning the lists, every so many-th.
pub(crate) struct Choices {
    /// The sizes of each iterator.
    pub(super) options: Vec<Vec<i64>>,
    total: usize,
    stride: usize,
}

impl Choices {
    pub(crate) fn new(mut options: Vec<Vec<i64>>, limit: usize) -> Self {
        thin(&mut options, limit);
        let counts = options.iter().map(Vec::len);
        let total: usize = counts.fold(1, usize::saturating_mul);
        // Lists of two sizes each may still be too many.
        let stride = total.div_ceil(limit.max(1)).max(1);
        Self {
            options,
            total,
            stride,
        }
    }

    /// Whether no combination is left out.
    pub(super) fn are_all(&self) -> bool {
        self.stride == 1
    }

    /// Every `step`-th combination; the sizes of the first iterator change fastest.
    pub(crate) fn every(&self, step: usize) -> impl Iterator<Item = Vec<i64>> + '_ {
        let stride = self.stride.saturating_mul(step.max(1));
        (0..self.total).step_by(stride).map(|mut rest| {
            let size = |option: &Vec<i64>| {
                let size = option[rest % option.len()];
                rest /= option.len();
                size
            };
            self.options.iter().map(size).collect()
        })
    }
}

/// The loops around tiles in some order, reductions last.
pub(super) fn any_order(group: &Group, space: &Space) -> Vec<usize> {
    let several = |d: &usize| *d < group.outer || space.trips(*d) > 1;
    let mut order: Vec<usize> = (0..group.core).filter(several).collect();
    order.sort_by_key(|d| group.reductions[*d]);
    order
}

/// Iterator orders of the loops around tiles: parallel ones in any order, then reductions.
pub(super) fn loop_orders(group: &Group, space: &Space) -> Vec<Vec<usize>> {
    let dims = (group.outer..group.core).filter(|d| space.trips(*d) > 1);
    let (reductions, parallel): (Vec<usize>, Vec<usize>) = dims.partition(|d| group.reductions[*d]);
    let orders = crate::matching::orders(parallel.len().min(5));
    let order = |o: Vec<usize>| {
        let mut order: Vec<usize> = (0..group.outer).collect();
        order.extend(o.into_iter().map(|i| parallel[i]));
        order.extend(parallel.iter().skip(5));
        order.extend(&reductions);
        order
    };
    orders.into_iter().map(order).collect()
}

/// Whether an operand is read in windows along an iterator: tiles of it would overlap.
pub(super) fn slides(group: &Group, d: usize) -> bool {
    let mut places = group.operands.iter().flat_map(|o| &o.map.exprs);
    places.any(|at| at.uses(d) && !matches!(at, AffineExpr::Dim(_)))
}

/// Whether an iterator moves a window over some operands, all of which lie near.
pub(crate) fn slides_near(group: &Group, d: usize) -> bool {
    let moves = |at: &AffineExpr| at.uses(d) && !matches!(at, AffineExpr::Dim(_));
    let mut over = group
        .operands
        .iter()
        .filter(|o| o.map.exprs.iter().any(moves));
    slides(group, d) && over.all(|operand| operand.near)
}

/// Pairs of iterators that fill a unit better together than each alone: of each pair those splits of the
/// unit's points that take the fewest blocks.
pub(super) fn joined(group: &Group, target: &Target<'_>) -> Vec<Joined> {
    // A value that is computed in near memory lies in one dimension for each iterator.
    if group.has_inner() {
        return Vec::new();
    }
    let behaviours = target.behaviours.iter().flatten();
    let points: BTreeSet<i64> = behaviours.flat_map(|b| b.domain.iter().copied()).collect();
    let blocks = |d: usize, size: i64| (group.domain[d] + size - 1) / size;
    let mut found = Vec::new();
    for points in points {
        for (a, b) in (0..group.core).flat_map(|a| (0..a).map(move |b| (b, a))) {
            let several = group.domain[a] > 1 && group.domain[b] > 1;
            if !several || group.reductions[a] != group.reductions[b] {
                continue;
            }
            let alone = |a: usize, b: usize| blocks(a, points) * group.domain[b];
            let mut least = alone(a, b).min(alone(b, a)) - 1;
            let mut best = Vec::new();
            for size in divisors(points) {
                let count = blocks(a, size) * blocks(b, points / size);
                if size == 1 || size == points || count > least {
                    continue;
                }
                if count < least {
                    best.clear();
                }
                least = count;
                best.push(vec![(a, size), (b, points / size)]);
                best.push(vec![(b, points / size), (a, size)]);
            }
            found.extend(best);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{divisors, sizes, thin};

    #[test]
    fn sizes_are_the_smallest_for_their_number_of_parts() {
        for n in 1..200 {
            let all = sizes(n);
            let mut parts: Vec<i64> = (1..=n).map(|parts| (n + parts - 1) / parts).collect();
            parts.sort_unstable();
            parts.dedup();
            assert_eq!(all, parts, "{n}");
            assert!(divisors(n).iter().all(|d| n % d == 0 && all.contains(d)));
        }
    }

    #[test]
    fn thinning_keeps_the_extremes() {
        let mut options = vec![sizes(1000), sizes(60), vec![7]];
        thin(&mut options, 100);
        assert!(options.iter().map(Vec::len).product::<usize>() <= 100);
        assert_eq!([options[0][0], options[1][0]], [1, 1]);
        assert_eq!(
            [options[0].last(), options[1].last()],
            [Some(&1000), Some(&60)]
        );
        assert_eq!(options[2], [7]);
    }
}
