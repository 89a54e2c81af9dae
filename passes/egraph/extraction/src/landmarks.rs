//! The classes in every derivation of a class.

use std::collections::VecDeque;

use fixedbitset::FixedBitSet;

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
    /// The landmarks of each number, itself among them.
    rows: Vec<FixedBitSet>,
}

impl Table {
    /// How many bits the table of so many classes has.
    pub(crate) fn bits(classes: usize) -> usize {
        classes.saturating_mul(classes) / 2
    }

    /// The greatest solution of: a class is a landmark of itself, and has the landmarks common to
    /// all its nodes, which have those of all their children. None if that takes more than the
    /// stage may.
    ///
    /// `order` lists the classes that can be computed, as they are found to be; `nodes` gives the
    /// children of a class's nodes, `users` the classes that have a node which needs the class.
    pub(crate) fn new<'w>(
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
        let mut table = Table {
            number,
            rows: (0..order.len()).map(full).collect(),
            class: order,
        };
        let mut queue: VecDeque<usize> = (0..table.class.len()).collect();
        let mut waits = vec![true; table.class.len()];
        while let Some(n) = queue.pop_front() {
            waits[n] = false;
            let mut row = full(n);
            let nodes = nodes(table.class[n]);
            for children in &nodes {
                table.intersect(&mut row, children);
            }
            row.insert(n);
            if row != table.rows[n] {
                table.rows[n] = row;
                for user in users(table.class[n]) {
                    if let Some(u) = table.number[user]
                        && !std::mem::replace(&mut waits[u], true)
                    {
                        queue.push_back(u);
                    }
                }
            }
            let edges: usize = nodes.iter().map(|children| children.len() + 1).sum();
            if !budget.pay(1 + ((n / 64 + 1) * edges) as u64 / WORDS) {
                return None;
            }
        }
        Some(table)
    }

    /// Leaves in a row what is a landmark of any of these classes.
    fn intersect(&self, row: &mut FixedBitSet, classes: &[usize]) {
        let mut known = classes.iter().filter_map(|&class| self.number[class]);
        match (known.next(), known.next()) {
            (None, _) => row.clear(),
            (Some(n), None) => row.intersect_with(&self.rows[n]),
            (Some(n), Some(m)) => {
                let mut below = self.rows[n].clone();
                for n in [m].into_iter().chain(known) {
                    below.union_with(&self.rows[n]);
                }
                row.intersect_with(&below);
            }
        }
    }

    /// Whether a class is a landmark of any of `classes`.
    pub(crate) fn is_below(&self, classes: &[usize], landmark: usize) -> bool {
        let Some(bit) = self.number[landmark] else {
            return false;
        };
        let mut rows = classes.iter().filter_map(|&class| self.number[class]);
        rows.any(|n| self.rows[n].contains(bit))
    }

    /// The landmarks of a class.
    pub(crate) fn of(&self, class: usize) -> impl Iterator<Item = usize> + '_ {
        let row = self.number[class].map(|n| &self.rows[n]);
        row.into_iter()
            .flat_map(|row| row.ones())
            .map(|n| self.class[n])
    }
}

/// The row of a number without constraints.
fn full(n: usize) -> FixedBitSet {
    let mut row = FixedBitSet::with_capacity(n + 1);
    row.insert_range(..);
    row
}
