//! The placed buffers that interfere with one, without a graph: live intervals in a tree over their starts, and the same buffers
//! by offset.
//!
//! Where few interfere, the tree finds them: the intervals of all buffers lie in the order of their starts, and a tree above them knows the latest end of
//! those that are placed. The ones that overlap `[start, end)` are among those that start before `end`; parts of the
//! tree in which nothing ends after `start` are left out. It takes memory for the intervals alone, and time for what
//! it finds times the depth of the tree. Where many do, all that is placed is looked at from the lowest on, until there is room: that
//! needs no sorting. What is placed lies in blocks, by offset; one of buffers that all live at the same time, without room between
//! them, is passed as a whole.

use crate::problem::{Live, Problem};

/// The buffers that are placed already.
pub(crate) enum Placed<'p> {
    /// By live intervals.
    Lives(Tree<'p>),
    /// By the graph, where only that is known.
    Graph(&'p Problem, Vec<bool>),
}

pub(crate) struct Tree<'p> {
    problem: &'p Problem,
    /// Start, buffer and end of each interval, by start.
    intervals: Vec<(u64, usize, u64)>,
    /// The intervals of each buffer, by their place in the order above.
    of: Vec<Vec<u32>>,
    /// The latest end of what is placed, below each node; leaves from `leaves` on.
    latest: Vec<u64>,
    leaves: usize,
    /// Blocks of buffers by offset.
    blocks: Vec<Block>,
    placed: usize,
    /// How many buffers live at the same time as each, or a few more.
    crowd: Vec<usize>,
    /// The last buffer that asked, for buffers of several intervals.
    seen: Vec<u32>,
    asked: u32,
}

impl<'p> Placed<'p> {
    pub(crate) fn new(problem: &'p Problem) -> Self {
        let count = problem.buffers.len();
        let Some(lives) = &problem.joined else {
            return Placed::Graph(problem, vec![false; count]);
        };
        let each = lives.iter().enumerate();
        let each = each.flat_map(|(i, live)| live.iter().map(move |l| (l.start, i, l.end)));
        let mut intervals: Vec<_> = each.collect();
        intervals.sort_unstable();
        let mut of = vec![Vec::new(); count];
        for (at, (_, i, _)) in intervals.iter().enumerate() {
            of[*i].push(at as u32);
        }
        let leaves = intervals.len().next_power_of_two();
        Placed::Lives(Tree {
            problem,
            intervals,
            of,
            latest: vec![0; 2 * leaves],
            leaves,
            blocks: vec![Block::default()],
            placed: 0,
            crowd: crowd(lives),
            seen: vec![0; count],
            asked: 0,
        })
    }

    /// Places a buffer.
    pub(crate) fn add(&mut self, i: usize, offset: u64) {
        match self {
            Placed::Graph(_, placed) => placed[i] = true,
            Placed::Lives(tree) => tree.add(i, offset),
        }
    }

    /// The bytes of every placed buffer that interferes with one, from the lowest on, until `found` returns false.
    pub(crate) fn near(
        &mut self,
        i: usize,
        offsets: &[u64],
        found: &mut dyn FnMut(u64, u64) -> bool,
    ) {
        if let Placed::Lives(tree) = self
            && tree.crowd[i] * DEEP > tree.placed
        {
            return tree.scan(i, found);
        }
        let mut all = Vec::new();
        let problem = match self {
            Placed::Graph(problem, placed) => {
                let near = problem.graph().neighbours(i);
                all.extend(near.filter(|&n| placed[n]));
                *problem
            }
            Placed::Lives(tree) => {
                tree.near(i, &mut |n| all.push(n));
                tree.problem
            }
        };
        let bytes = |&n: &usize| (offsets[n], offsets[n] + problem.buffers[n].size);
        let mut taken: Vec<(u64, u64)> = all.iter().map(bytes).collect();
        taken.sort_unstable();
        for (start, end) in taken {
            if !found(start, end) {
                return;
            }
        }
    }
}

/// A buffer that the tree finds and that is sorted costs as much as so many that are looked at in passing.
const DEEP: usize = 16;

/// Buffers of a block at most.
const BLOCK: usize = 256;

/// Placed buffers, by offset.
#[derive(Default)]
struct Block {
    rows: Vec<Row>,
    /// Of all of them, if that is known.
    all: Option<Together>,
}

/// What is common to the buffers of a block.
#[derive(Clone, Copy)]
struct Together {
    /// What lives at the last start and at the first end, or between, lives with all of them; none if one lives several times.
    lives: Option<(u64, u64)>,
    /// The most bytes between two of them that none has.
    gap: u64,
    /// Where the highest ends.
    to: u64,
}

impl Block {
    fn new(rows: Vec<Row>) -> Block {
        Block { rows, all: None }
    }

    fn together(&mut self) -> Together {
        let rows = &self.rows;
        *self.all.get_or_insert_with(|| {
            let (mut gap, mut to) = (0, rows.first().map_or(0, |row| row.from));
            for row in rows {
                gap = gap.max(row.from.saturating_sub(to));
                to = to.max(row.to);
            }
            let once = rows.iter().all(|row| row.once);
            let start = rows.iter().map(|row| row.start).max();
            let end = rows.iter().map(|row| row.end).min();
            let lives = start.zip(end).filter(|_| once);
            Together { lives, gap, to }
        })
    }
}

/// A placed buffer: its bytes, and when it lives from first to last.
#[derive(Clone, Copy)]
struct Row {
    from: u64,
    to: u64,
    start: u64,
    end: u64,
    /// Whether it lives all the time between.
    once: bool,
    buffer: u32,
}

/// How many buffers start before each ends, without those that end before it starts.
fn crowd(lives: &[Live]) -> Vec<usize> {
    let hull = |live: &Live| Some((live.first()?.start, live.last()?.end));
    let mut starts: Vec<u64> = lives.iter().filter_map(|l| Some(hull(l)?.0)).collect();
    let mut ends: Vec<u64> = lives.iter().filter_map(|l| Some(hull(l)?.1)).collect();
    starts.sort_unstable();
    ends.sort_unstable();
    let count = |live: &Live| {
        hull(live).map_or(0, |(start, end)| {
            let begun = starts.partition_point(|s| *s < end);
            begun - ends.partition_point(|e| *e <= start)
        })
    };
    lives.iter().map(count).collect()
}

impl Tree<'_> {
    fn add(&mut self, i: usize, offset: u64) {
        self.placed += 1;
        let row = self.row(i, offset);
        let begins = |block: &Block| block.rows.first().is_some_and(|r| r.from <= offset);
        let block = self.blocks.partition_point(begins).saturating_sub(1);
        self.blocks[block].all = None;
        let rows = &mut self.blocks[block].rows;
        rows.insert(rows.partition_point(|r| r.from <= offset), row);
        if rows.len() > BLOCK {
            let rows = rows.split_off(BLOCK / 2);
            self.blocks.insert(block + 1, Block::new(rows));
        }
        for &at in &self.of[i] {
            let end = self.intervals[at as usize].2;
            let mut node = self.leaves + at as usize;
            while node > 0 && self.latest[node] < end {
                self.latest[node] = end;
                node /= 2;
            }
        }
    }

    fn row(&self, i: usize, from: u64) -> Row {
        let live = self.problem.joined.as_ref().map(|lives| &lives[i]);
        let first = live.and_then(|live| live.first());
        let last = live.and_then(|live| live.last());
        Row {
            from,
            to: from + self.problem.buffers[i].size,
            start: first.map_or(0, |l| l.start),
            end: last.map_or(0, |l| l.end),
            once: live.is_some_and(|live| live.len() == 1),
            buffer: i as u32,
        }
    }

    fn scan(&mut self, i: usize, found: &mut dyn FnMut(u64, u64) -> bool) {
        let own = self.row(i, 0);
        let lives = self.problem.joined.as_ref();
        let meet = |other: &Row| {
            // Most live once: then what is known of first and last is all.
            lives.is_none_or(|lives| {
                let (a, b) = (&lives[i], &lives[other.buffer as usize]);
                own.once && other.once
                    || a.iter()
                        .any(|a| b.iter().any(|b| a.start < b.end && b.start < a.end))
            })
        };
        for block in &mut self.blocks {
            let Together { lives, gap, to } = block.together();
            let all = lives.is_some_and(|(start, end)| start < own.end && own.start < end);
            if let Some(first) = block.rows.first()
                && all
                && own.once
                && gap < own.to
            {
                if !found(first.from, to) {
                    return;
                }
                continue;
            }
            for row in &block.rows {
                let meets = row.start < own.end && own.start < row.end && meet(row);
                if meets && !found(row.from, row.to) {
                    return;
                }
            }
        }
    }

    fn near(&mut self, i: usize, found: &mut dyn FnMut(usize)) {
        self.asked += 1;
        let lives = self.problem.joined.as_ref();
        for live in lives.into_iter().flat_map(|lives| &lives[i]) {
            let until = self.intervals.partition_point(|x| x.0 < live.end);
            let mut open = vec![(1, 0, self.leaves)];
            while let Some((node, low, len)) = open.pop() {
                if low >= until || self.latest[node] <= live.start {
                    continue;
                }
                if len > 1 {
                    let half = len / 2;
                    open.push((2 * node + 1, low + half, half));
                    open.push((2 * node, low, half));
                    continue;
                }
                let other = self.intervals[low].1;
                if other != i && self.seen[other] != self.asked {
                    self.seen[other] = self.asked;
                    found(other);
                }
            }
        }
    }
}
