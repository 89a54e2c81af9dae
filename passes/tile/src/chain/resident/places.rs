//! Places in near memory of tensors that stay, and the room that they leave nests.

use std::rc::Rc;

use super::{Home, Planner};

impl Planner<'_> {
    /// Bytes of near memory that may be taken at all.
    pub(super) fn near_bytes(&self) -> i64 {
        self.budget.bytes.min(self.target.near.bytes)
    }

    /// Bytes of the largest part of near memory in which nothing stays while a nest runs: its tiles lie there.
    pub(super) fn room(&self, homes: &[Rc<Home>], nest: usize) -> i64 {
        let gaps = gaps(homes, (nest, nest), self.near_bytes());
        gaps.map(|(start, end)| end - start).max().unwrap_or(0)
    }

    /// Where in near memory a tensor has place that lives so long: at an end of a gap between those that live then, the
    /// one that leaves the nests the most room; none if no gap holds it.
    pub(super) fn place(
        &self,
        homes: &[Rc<Home>],
        life: (usize, usize),
        bytes: i64,
    ) -> Option<i64> {
        let all = self.near_bytes();
        let holds = gaps(homes, life, all).filter(|(start, end)| end - start >= bytes);
        let align = self.target.near.align.max(1);
        let places =
            holds.flat_map(|(start, end)| [start, start.max((end - bytes) / align * align)]);
        let left = |at: i64| {
            let beside = |(start, end): (i64, i64)| {
                let (before, behind) = (at.min(end) - start, end - start.max(at + bytes));
                before.max(behind)
            };
            let room = |nest: usize| {
                gaps(homes, (nest, nest), all)
                    .map(beside)
                    .max()
                    .unwrap_or(0)
            };
            let rooms = life.0..=life.1;
            let least = rooms.clone().map(room).min().unwrap_or(0);
            (least, rooms.map(room).sum::<i64>())
        };
        // Of equal ones the first.
        places.min_by_key(|at| (std::cmp::Reverse(left(*at)), *at))
    }
}

/// The parts of so many bytes in which nothing stays in any of some nests, from the first byte on.
fn gaps(homes: &[Rc<Home>], life: (usize, usize), all: i64) -> impl Iterator<Item = (i64, i64)> {
    let meets = |home: &&Rc<Home>| home.life.0 <= life.1 && life.0 <= home.life.1;
    let there = homes.iter().filter(meets);
    let mut there: Vec<(i64, i64)> = there.map(|home| (home.at, home.at + home.bytes)).collect();
    there.sort_unstable();
    there.push((all, all));
    let mut free = 0;
    there.into_iter().filter_map(move |(start, end)| {
        let gap = (free, start);
        free = free.max(end);
        (gap.0 < gap.1).then_some(gap)
    })
}
