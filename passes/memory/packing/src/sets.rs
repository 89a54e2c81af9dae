//! What the exact search works on: buffers that hold bytes, as rows of bits, and the sets that live at one time.

use crate::problem::{Live, Problem};

/// Buffers above which no search is made: rows of bits for each pair.
const SEARCHED: usize = 3000;

/// The same where only a graph is known, whose cliques must be found.
const SEARCHED_GRAPH: usize = 300;

/// Members of all sets together above which no search is made.
const MEMBERS: usize = 4_000_000;

/// An item is a buffer of some bytes; a set is an inclusion-maximal set of items that live at one time. Two items interfere
/// exactly if a set has both.
pub(crate) struct Sets {
    /// The buffer of each item.
    pub(crate) buffer: Vec<usize>,
    pub(crate) size: Vec<u64>,
    pub(crate) align: Vec<u64>,
    /// Where it may begin at first, and end at last.
    pub(crate) within: Vec<(u64, u64)>,
    pub(crate) life: Vec<u64>,
    /// Words of a row of items.
    pub(crate) words: usize,
    /// The items that interfere with each item.
    pub(crate) near: Vec<u64>,
    /// The items of each set.
    pub(crate) members: Vec<u64>,
    /// The sets of each item, rising.
    pub(crate) of: Vec<Vec<u32>>,
    /// The same as rows of bits.
    pub(crate) of_rows: Vec<u64>,
    /// Sum of the sizes of each set.
    pub(crate) total: Vec<u64>,
}

impl Sets {
    /// The sets of a problem, apart where no buffer of one interferes with one of another, or none if it is too large for a
    /// search.
    pub(crate) fn parts(problem: &Problem) -> Option<Vec<Sets>> {
        let buffer: Vec<usize> = (0..problem.buffers.len()).collect();
        let held = |&i: &usize| problem.buffers[i].size > 0 && alive(problem, i);
        let buffer: Vec<usize> = buffer.into_iter().filter(held).collect();
        let most = if problem.joined.is_some() {
            SEARCHED
        } else {
            SEARCHED_GRAPH
        };
        if buffer.len() > most {
            return None;
        }
        let sets = match &problem.joined {
            Some(lives) => at_times(&buffer, lives),
            None => cliques(problem, &buffer),
        };
        if sets.iter().map(Vec::len).sum::<usize>() > MEMBERS {
            return None;
        }
        let part = components(buffer.len(), &sets);
        let count = part.iter().max().map_or(0, |last| last + 1);
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); count];
        let mut place = vec![0; buffer.len()];
        for (item, &p) in part.iter().enumerate() {
            place[item] = members[p].len();
            members[p].push(buffer[item]);
        }
        let mut own: Vec<Vec<Vec<usize>>> = vec![Vec::new(); count];
        for set in &sets {
            own[part[set[0]]].push(set.iter().map(|&item| place[item]).collect());
        }
        let parts = members.into_iter().zip(own);
        Some(
            parts
                .map(|(buffer, sets)| Sets::of(problem, buffer, &sets))
                .collect(),
        )
    }

    fn of(problem: &Problem, buffer: Vec<usize>, sets: &[Vec<usize>]) -> Sets {
        let of_item = |f: fn(&crate::Buffer) -> u64| {
            let values = buffer.iter().map(|&i| f(&problem.buffers[i]));
            values.collect::<Vec<u64>>()
        };
        let place = |&i: &usize| {
            let b = &problem.buffers[i];
            let end = b.within.as_ref().map_or(u64::MAX, |w| w.end);
            (crate::first_fit::start(b), end)
        };
        let words = buffer.len().div_ceil(64);
        let mut all = Sets {
            size: of_item(|b| b.size),
            align: of_item(|b| b.align),
            within: buffer.iter().map(place).collect(),
            life: buffer.iter().map(|&i| problem.lifetime(i)).collect(),
            words,
            near: vec![0; words * buffer.len()],
            members: vec![0; words * sets.len()],
            of: vec![Vec::new(); buffer.len()],
            of_rows: vec![0; sets.len().div_ceil(64) * buffer.len()],
            total: Vec::new(),
            buffer,
        };
        for (s, set) in sets.iter().enumerate() {
            let row = &mut all.members[s * words..(s + 1) * words];
            set.iter().for_each(|i| row[i / 64] |= 1 << (i % 64));
            for i in set {
                all.of[*i].push(s as u32);
                all.of_rows[i * sets.len().div_ceil(64) + s / 64] |= 1 << (s % 64);
                let near = &mut all.near[i * words..(i + 1) * words];
                near.iter_mut()
                    .zip(&*row)
                    .for_each(|(near, row)| *near |= row);
            }
            all.total.push(set.iter().map(|i| all.size[*i]).sum());
        }
        for i in 0..all.size.len() {
            all.near[i * words + i / 64] &= !(1 << (i % 64));
        }
        all
    }

    pub(crate) fn len(&self) -> usize {
        self.size.len()
    }
}

/// The component of each item, numbered as their first items are.
fn components(items: usize, sets: &[Vec<usize>]) -> Vec<usize> {
    let mut parent: Vec<usize> = (0..items).collect();
    fn root(parent: &mut [usize], mut i: usize) -> usize {
        while parent[i] != i {
            parent[i] = parent[parent[i]];
            i = parent[i];
        }
        i
    }
    for pair in sets.iter().flat_map(|set| set.windows(2)) {
        let (a, b) = (root(&mut parent, pair[0]), root(&mut parent, pair[1]));
        parent[a.max(b)] = a.min(b);
    }
    let (mut number, mut count) = (vec![0; items], 0);
    for i in 0..items {
        let root = root(&mut parent, i);
        if root == i {
            number[i] = count;
            count += 1;
        } else {
            number[i] = number[root];
        }
    }
    number
}

fn alive(problem: &Problem, i: usize) -> bool {
    problem
        .joined
        .as_ref()
        .is_none_or(|lives| !lives[i].is_empty())
}

/// The sets after a start and before the next end: all others are parts of these.
fn at_times(buffer: &[usize], lives: &[Live]) -> Vec<Vec<usize>> {
    let mut events: Vec<(u64, bool, usize)> = Vec::new();
    for (item, &i) in buffer.iter().enumerate() {
        for l in &lives[i] {
            events.extend([(l.start, true, item), (l.end, false, item)]);
        }
    }
    events.sort_unstable();
    let (mut sets, mut now, mut grown) = (Vec::new(), std::collections::BTreeSet::new(), false);
    for (_, starts, item) in events {
        if starts {
            now.insert(item);
        } else {
            if grown {
                sets.push(now.iter().copied().collect());
            }
            now.remove(&item);
        }
        grown = starts;
    }
    sets
}

/// Cliques that have every edge of the graph, each grown from one that none has yet.
fn cliques(problem: &Problem, buffer: &[usize]) -> Vec<Vec<usize>> {
    let graph = problem.graph();
    let count = buffer.len();
    let mut covered = vec![false; count * count];
    let mut sets = Vec::new();
    for a in 0..count {
        let mut alone = true;
        for b in 0..count {
            if a == b || !graph.has(buffer[a], buffer[b]) {
                continue;
            }
            alone = false;
            if covered[a * count + b] {
                continue;
            }
            let mut set = vec![a, b];
            for c in 0..count {
                if set.iter().all(|&d| graph.has(buffer[c], buffer[d])) {
                    set.push(c);
                }
            }
            set.sort_unstable();
            for &x in &set {
                set.iter().for_each(|&y| covered[x * count + y] = true);
            }
            sets.push(set);
        }
        if alone {
            sets.push(vec![a]);
        }
    }
    sets
}
