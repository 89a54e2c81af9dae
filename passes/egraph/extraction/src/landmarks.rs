//! The classes in every derivation of a class.

use std::collections::VecDeque;

use crate::budget::Budget;

/// Words of a row that cost as much as one step.
const WORDS: u64 = 64;

/// Landmarks of classes; the classes that can be computed are numbered anew, children first. In
/// the first derivation that was found of a class all others have smaller numbers, so that a
/// landmark of it has one too, and a row ends at its own number.
pub(crate) struct Table {
    /// The number of each class that can be computed.
    number: Vec<Option<usize>>,
    /// The class of each number.
    class: Vec<usize>,
    /// Where the row of each number begins.
    start: Vec<usize>,
    /// The landmarks of each number, itself among them: a triangular matrix of bits, half as large
    /// as sets of one length.
    words: Vec<u64>,
}

impl Table {
    /// How many bits the table of so many classes has.
    pub fn bits(classes: usize) -> usize {
        classes.saturating_mul(classes) / 2
    }

    /// The greatest solution of: a class is a landmark of itself, and has the landmarks common to
    /// all its nodes, which have those of all their children. None if that takes more than the
    /// stage may.
    ///
    /// `order` lists the classes that can be computed, as they are found to be; `nodes` gives the
    /// children of a class's nodes, `users` the classes that have a node which needs the class.
    pub fn new<'w>(
        classes: usize,
        order: Vec<usize>,
        nodes: impl Fn(usize) -> Vec<&'w [usize]>,
        users: impl Fn(usize) -> Vec<usize>,
        budget: &mut Budget,
    ) -> Option<Table> {
        let mut number = vec![None; classes];
        for (n, &class) in order.iter().enumerate() {
            number[class] = Some(n);
        }
        let mut start = vec![0];
        for n in 0..order.len() {
            start.push(start[n] + n / 64 + 1);
        }
        let mut table = Table {
            number,
            words: vec![u64::MAX; start[order.len()]],
            start,
            class: order,
        };
        let mut queue: VecDeque<usize> = (0..table.class.len()).collect();
        let mut waits = vec![true; table.class.len()];
        let (mut row, mut below) = (Vec::new(), Vec::new());
        while let Some(n) = queue.pop_front() {
            waits[n] = false;
            row.clear();
            row.resize(n / 64 + 1, u64::MAX);
            let nodes = nodes(table.class[n]);
            for children in &nodes {
                table.intersect(&mut row, children, &mut below);
            }
            row[n / 64] |= 1 << (n % 64);
            row[n / 64] &= u64::MAX >> (63 - n % 64);
            let words = &mut table.words[table.start[n]..table.start[n + 1]];
            if *row != *words {
                words.copy_from_slice(&row);
                for user in users(table.class[n]) {
                    if let Some(u) = table.number[user]
                        && !std::mem::replace(&mut waits[u], true)
                    {
                        queue.push_back(u);
                    }
                }
            }
            let edges: usize = nodes.iter().map(|children| children.len() + 1).sum();
            if !budget.pay(1 + (row.len() * edges) as u64 / WORDS) {
                return None;
            }
        }
        Some(table)
    }

    /// Leaves in a row what is a landmark of any of these classes.
    fn intersect(&self, row: &mut [u64], classes: &[usize], scratch: &mut Vec<u64>) {
        let mut known = classes.iter().filter_map(|&class| self.number[class]);
        let below = match (known.next(), known.next()) {
            (None, _) => &[][..],
            (Some(n), None) => self.row(n),
            (Some(n), Some(m)) => {
                scratch.clear();
                scratch.resize(row.len(), 0);
                for n in [n, m].into_iter().chain(known) {
                    for (word, more) in scratch.iter_mut().zip(self.row(n)) {
                        *word |= more;
                    }
                }
                &scratch[..]
            }
        };
        for (word, other) in row.iter_mut().zip(below) {
            *word &= other;
        }
        if below.len() < row.len() {
            row[below.len()..].fill(0);
        }
    }

    fn row(&self, n: usize) -> &[u64] {
        &self.words[self.start[n]..self.start[n + 1]]
    }

    /// Whether a class is a landmark of any of `classes`.
    pub fn is_below(&self, classes: &[usize], landmark: usize) -> bool {
        let Some(bit) = self.number[landmark] else {
            return false;
        };
        let has = |row: &[u64]| row.get(bit / 64).is_some_and(|w| w >> (bit % 64) & 1 == 1);
        let mut rows = classes.iter().filter_map(|&class| self.number[class]);
        rows.any(|n| has(self.row(n)))
    }

    /// The landmarks of a class.
    pub fn of(&self, class: usize) -> impl Iterator<Item = usize> + '_ {
        let bits = self.number[class].map_or(0..0, |n| 0..n + 1);
        bits.map(|n| self.class[n])
            .filter(move |&landmark| self.is_below(&[class], landmark))
    }
}
