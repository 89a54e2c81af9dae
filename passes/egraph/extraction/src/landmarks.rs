//! The classes in every derivation of a class.

use crate::budget::Budget;

/// Words of a row that cost as much as one step.
const WORDS: u64 = 64;

/// Landmarks of classes, of all or of *kinds* that are asked for; the classes that can be computed are numbered anew, children
/// first, and so are the kinds. In the first derivation that was found of a class all others have smaller numbers, so that a
/// landmark of it has one too, and a row ends at the last kind up to its own number.
pub(crate) struct Table {
    /// The row of each class that can be computed.
    number: Vec<Option<usize>>,
    /// The bit of each kind.
    bit: Vec<Option<usize>>,
    /// The kind of each bit.
    class: Vec<usize>,
    /// The landmarks of each number as bits, itself among them if it is a kind.
    rows: Vec<Row>,
}

/// Bits of the kinds up to the row's own number.
type Row = Vec<u64>;

impl Table {
    /// How many bits the table of so many classes has.
    pub(crate) fn bits(classes: usize) -> usize {
        classes.saturating_mul(classes) / 2
    }

    /// The greatest solution of: a class is a landmark of itself, and has the landmarks common to
    /// all its nodes, which have those of all their children. None if that takes more than the
    /// stage may.
    ///
    /// `order` lists the classes that can be computed, as they are found to be, `is_kind` tells which landmarks are of
    /// interest; `nodes` gives the children of a class's nodes, `users` the classes that have a node which needs the class.
    pub(crate) fn new<'w, N: Iterator<Item = &'w [usize]> + Clone, U: Iterator<Item = usize>>(
        classes: usize,
        order: Vec<usize>,
        is_kind: impl Fn(usize) -> bool,
        nodes: impl Fn(usize) -> N,
        users: impl Fn(usize) -> U,
        budget: &mut Budget,
    ) -> Option<Table> {
        let mut table = Table {
            number: vec![None; classes],
            bit: vec![None; classes],
            class: Vec::new(),
            rows: Vec::new(),
        };
        for (n, &class) in order.iter().enumerate() {
            table.number[class] = Some(n);
            if is_kind(class) {
                table.bit[class] = Some(table.class.len());
                table.class.push(class);
            }
            table.rows.push(full(table.class.len()));
        }
        // In sweeps from children to users: what changed one child of a class has mostly changed the others when the class is next.
        let mut waits = vec![true; order.len()];
        let mut waiting = order.len();
        let (mut row, mut below, mut union) = (Row::new(), Vec::new(), Row::new());
        let mut sweeps = (0..order.len()).cycle();
        while waiting > 0
            && let Some(n) = sweeps.next()
        {
            if !std::mem::take(&mut waits[n]) {
                continue;
            }
            waiting -= 1;
            row.clear();
            row.extend(&table.rows[n]);
            let nodes = nodes(order[n]);
            for children in nodes.clone() {
                below.clear();
                below.extend(children.iter().filter_map(|&class| table.number[class]));
                table.intersect(&mut row, &below, &mut union);
            }
            if let Some(bit) = table.bit[order[n]] {
                row[bit / BITS] |= 1 << (bit % BITS);
            }
            if row != table.rows[n] {
                table.rows[n].copy_from_slice(&row);
                for user in users(order[n]) {
                    if let Some(u) = table.number[user]
                        && !std::mem::replace(&mut waits[u], true)
                    {
                        waiting += 1;
                    }
                }
            }
            let edges: usize = nodes.map(|children| children.len() + 1).sum();
            if !budget.pay(1 + (table.rows[n].len() * edges) as u64 / WORDS) {
                return None;
            }
        }
        Some(table)
    }

    /// Leaves in a row what is a landmark of any of these numbers.
    fn intersect(&self, row: &mut Row, numbers: &[usize], union: &mut Row) {
        let [first, others @ ..] = numbers else {
            return row.fill(0);
        };
        let own = |n: usize| &self.rows[n][..self.rows[n].len().min(row.len())];
        let below = match others {
            [] => own(*first),
            others => {
                union.clear();
                union.extend_from_slice(own(*first));
                for words in others.iter().map(|n| own(*n)) {
                    let (both, rest) = words.split_at(words.len().min(union.len()));
                    union
                        .iter_mut()
                        .zip(both)
                        .for_each(|(all, word)| *all |= word);
                    union.extend_from_slice(rest);
                }
                &union[..]
            }
        };
        let (inside, outside) = row.split_at_mut(below.len());
        inside
            .iter_mut()
            .zip(below)
            .for_each(|(word, below)| *word &= below);
        outside.fill(0);
    }

    /// Whether a class is a landmark of any of `classes`.
    pub(crate) fn is_below(&self, classes: &[usize], landmark: usize) -> bool {
        let Some(bit) = self.bit[landmark] else {
            return false;
        };
        let mut rows = classes.iter().filter_map(|&class| self.number[class]);
        rows.any(|n| {
            let word = self.rows[n].get(bit / BITS);
            word.is_some_and(|word| word >> (bit % BITS) & 1 == 1)
        })
    }

    /// The landmarks of a class.
    pub(crate) fn of(&self, class: usize) -> impl Iterator<Item = usize> + '_ {
        let row = self.number[class].map(|n| &self.rows[n]);
        let words = row.into_iter().flatten().enumerate();
        let ones = words.flat_map(|(k, word)| {
            let set = (0..BITS).filter(move |bit| word >> bit & 1 == 1);
            set.map(move |bit| k * BITS + bit)
        });
        ones.map(|n| self.class[n])
    }
}

/// Bits of a word.
const BITS: usize = u64::BITS as usize;

/// A row in which all of so many bits are set.
fn full(bits: usize) -> Row {
    let mut row = vec![u64::MAX; bits.div_ceil(BITS)];
    if let (Some(last), rest @ 1..) = (row.last_mut(), bits % BITS) {
        *last >>= BITS - rest;
    }
    row
}
