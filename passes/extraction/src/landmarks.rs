//! The classes in every derivation of a class.

use std::collections::VecDeque;

use crate::bits::Bits;

/// Landmarks of classes; the classes that can be computed are numbered anew, children first.
pub(crate) struct Table {
    /// The number of each class that can be computed.
    pub number: Vec<Option<usize>>,
    /// The class of each number.
    pub class: Vec<usize>,
    /// The landmarks of each number, itself among them.
    pub rows: Vec<Bits>,
}

impl Table {
    /// The greatest solution of: a class is a landmark of itself, and has the landmarks common to
    /// all its nodes, which have those of all their children.
    ///
    /// `order` lists the classes that can be computed, `nodes` gives the children of a class's
    /// nodes, `users` the classes that have a node which needs the class.
    pub fn new<'w>(
        classes: usize,
        order: Vec<usize>,
        nodes: impl Fn(usize) -> Vec<&'w [usize]>,
        users: impl Fn(usize) -> Vec<usize>,
    ) -> Table {
        let mut number = vec![None; classes];
        for (n, &class) in order.iter().enumerate() {
            number[class] = Some(n);
        }
        let mut table = Table {
            number,
            rows: vec![Bits::all(order.len()); order.len()],
            class: order,
        };
        let mut queue: VecDeque<usize> = (0..table.class.len()).collect();
        let mut waits = vec![true; table.class.len()];
        while let Some(n) = queue.pop_front() {
            waits[n] = false;
            let mut row = Bits::all(table.class.len());
            for children in nodes(table.class[n]) {
                row.intersect(&table.below(children));
            }
            row.add(n);
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
        }
        table
    }

    /// The landmarks of all of `classes`, by number.
    pub fn below(&self, classes: &[usize]) -> Bits {
        let mut all = Bits::none(self.class.len());
        for &class in classes {
            if let Some(n) = self.number[class] {
                all.unite(&self.rows[n]);
            }
        }
        all
    }
}
