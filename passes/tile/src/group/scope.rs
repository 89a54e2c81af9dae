//! Which generics stand in one fused group, and who reads what they compute.

use std::collections::{HashMap, HashSet};

use tir::{AffineMap, Ir, OpId, Value};
use tir_tensor::generic::is_input;
use tir_tensor::{CollapseShape, ExpandShape, Generic, TransferRead};

/// The generics of a function, and which fused group each was in.
#[derive(Debug, Default)]
pub struct Scope {
    /// The generics, in order.
    pub generics: Vec<OpId>,
    /// The group of those that are in one.
    pub group: HashMap<OpId, usize>,
    /// Where each generic stands.
    places: HashMap<OpId, usize>,
    /// Where the generics of each group stand, and those of none, in order.
    peers: HashMap<Option<usize>, Vec<usize>>,
    /// Bytes of elements that no engine moves one by one for more than their bytes: what brings larger ones into another order, in a
    /// group of its own, may be read through.
    free: i64,
}

/// Who reads a value.
#[derive(Debug, Default)]
pub struct Readers {
    /// Generics that read it, directly or through views.
    pub generics: Vec<OpId>,
    /// Which of them read it directly.
    direct: Vec<bool>,
    /// Whether anything else needs it.
    pub others: bool,
}

impl Readers {
    /// Whether all generics read it directly.
    pub fn directly(&self) -> bool {
        self.direct.iter().all(|direct| *direct)
    }
    /// The same, where only some generics are looked at: all others are something else.
    #[must_use]
    pub fn only(self, keeps: impl Fn(OpId) -> bool) -> Self {
        let all = self.generics.into_iter().zip(self.direct);
        let (kept, rest): (Vec<_>, Vec<_>) = all.partition(|(op, _)| keeps(*op));
        let (generics, direct) = kept.into_iter().unzip();
        Self {
            generics,
            direct,
            others: self.others || !rest.is_empty(),
        }
    }
}

impl Scope {
    /// The scope of generics in order, and of the groups they were in.
    pub fn new(generics: Vec<OpId>, group: HashMap<OpId, usize>) -> Self {
        let places = generics
            .iter()
            .enumerate()
            .map(|(i, op)| (*op, i))
            .collect();
        let mut peers: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
        for (i, op) in generics.iter().enumerate() {
            peers.entry(group.get(op).copied()).or_default().push(i);
        }
        Self {
            generics,
            group,
            places,
            peers,
            free: 0,
        }
    }

    /// The same, where only elements of so many bytes are moved one by one for no more.
    #[must_use]
    pub fn moving(self, free: i64) -> Self {
        Self { free, ..self }
    }

    /// Whether a generic that only moves data, and that one other reads, is read through: what stands in another group was priced
    /// as a nest of its own, and where engines pay for runs it may be much quicker as such, unless runs stay what they are.
    pub fn may_move(&self, ir: &Ir, op: OpId, reader: Option<OpId>) -> bool {
        let number = |op: OpId| self.group.get(&op);
        let other = number(op).is_some() && number(op) != reader.and_then(number);
        let bytes = ir.ty(ir.result(op, 0)).elem().bytes();
        let free = bytes.is_none_or(|bytes| bytes as i64 >= self.free);
        let maps = ir.get::<Generic>(op).map(|generic| generic.indexing_maps);
        let runs = |maps: &Vec<AffineMap>| {
            let mut last = maps.iter().map(|map| map.exprs.last());
            let first = last.next();
            last.all(|expr| Some(expr) == first)
        };
        (free || !other || maps.as_ref().is_some_and(runs))
            && self.readers(ir, ir.result(op, 0)).generics.len() == 1
    }

    /// The generics before one in its block that were in the same group as it, the last one first;
    /// for one that was in none, those that were in none.
    pub fn before<'a>(&'a self, ir: &'a Ir, last: OpId) -> impl Iterator<Item = OpId> + 'a {
        let end = self.places.get(&last).copied().unwrap_or(0);
        let peers = self.peers.get(&self.group.get(&last).copied());
        let peers = peers.map_or(&[][..], Vec::as_slice);
        let peers = &peers[..peers.partition_point(|i| *i < end)];
        let block = ir.block_of(last);
        let all = peers.iter().rev().map(|i| self.generics[*i]);
        all.filter(move |op| ir.block_of(*op) == block)
    }

    /// Who reads a value.
    pub fn readers(&self, ir: &Ir, value: Value) -> Readers {
        let mut readers = Readers::default();
        let (mut work, mut seen) = (vec![(value, true)], HashSet::new());
        while let Some((value, direct)) = work.pop() {
            for u in ir.uses(value) {
                if let Some(input) = is_input(ir, u.op, u.operand) {
                    if input {
                        readers.direct.push(direct);
                        readers.generics.push(u.op);
                    } else {
                        readers.others = true;
                    }
                } else if ir.is::<TransferRead>(u.op)
                    || ir.is::<ExpandShape>(u.op)
                    || ir.is::<CollapseShape>(u.op)
                {
                    if seen.insert(u.op) {
                        work.push((ir.result(u.op, 0), false));
                    }
                } else {
                    readers.others = true;
                }
            }
        }
        readers
    }
}
