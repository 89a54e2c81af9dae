//! Who reads and writes which tensor, and what a run of nests has to have in memory of it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

use tir::{Ir, OpId, Value};
use tir_tensor::{CollapseShape, Empty, ExpandShape, Generic, InsertSlice, TransferRead};

use super::Nest;
use super::pieces::{self, Boxes, Extent, elements};

/// A tensor that nests compute, with all that is put together in it: what is written in one place.
#[derive(Debug, Default)]
struct Made {
    bytes: i64,
    writers: BTreeSet<usize>,
    readers: BTreeSet<usize>,
    /// Whether something else than nests needs it, or what it is cannot be told.
    others: bool,
    /// Whether all that writes it is a nest.
    known: bool,
}

/// The tensors of a function.
pub(super) struct Tensors<'a> {
    ir: &'a Ir,
    made: Vec<Made>,
    /// By the value that a place is made by, its number.
    places: HashMap<Value, usize>,
    /// What each nest reads, through views.
    reads: Vec<Vec<Value>>,
    /// Of each value that nests read, the nests that it comes from, at once or through what is no nest.
    from: HashMap<Value, BTreeSet<usize>>,
    /// Nests of which something cannot be told.
    unknown: BTreeSet<usize>,
}

/// The number of what is written in one place.
type Place = usize;

/// A tensor that is read from outside, and by which piece of a section, if not by all.
pub(super) type Read = (Value, Option<usize>);

/// What a run of nests has in memory, the nests by their numbers in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Needs {
    /// What is loaded: its bytes, and the nests that use it first and last.
    pub(super) loads: Vec<(Read, i64, Range<usize>)>,
    /// What is computed and outlives its nest: its bytes, the first that writes it, and the last that uses it. The end is that
    /// of the range.
    pub(super) inside: Vec<(Place, i64, Range<usize>)>,
    /// What one nest computes and reads: it takes place where its stages turn out to be nests of their own.
    within: Vec<(Place, i64, Range<usize>)>,
    /// What is stored: its bytes, and the last nest that writes it.
    pub(super) stores: Vec<(Place, i64, usize)>,
    /// Whether something that is loaded is computed, by no nest, from what the run stores.
    between: bool,
}

/// What a value shows a part or another shape of.
pub(super) fn shown(ir: &Ir, mut value: Value) -> Value {
    loop {
        value = if let Some(view) = ir.def::<ExpandShape>(value) {
            view.src
        } else if let Some(view) = ir.def::<CollapseShape>(value) {
            view.src
        } else if let Some(read) = ir.def::<TransferRead>(value).filter(is_view) {
            read.source
        } else {
            return value;
        };
    }
}

/// Whether a transfer reads at places that are known, and into no memory.
pub(super) fn is_view(read: &TransferRead) -> bool {
    read.space.is_none() && read.offsets.is_empty()
}

/// Whether a generic has nothing to read: it fills what others compute in.
pub(super) fn fills(ir: &Ir, op: OpId) -> bool {
    ir.get::<Generic>(op).is_some_and(|of| of.inputs.is_empty())
}

/// The empty tensor that a value is computed in.
fn place(ir: &Ir, mut value: Value) -> Option<Value> {
    loop {
        if ir.def::<Empty>(value).is_some() {
            return Some(value);
        }
        value = if let Some(insert) = ir.def::<InsertSlice>(value) {
            insert.dest
        } else {
            let op = ir.owner(value)?;
            let index = ir.results(op).position(|result| result == value)?;
            *ir.get::<Generic>(op)?.outputs.get(index)?
        };
    }
}

pub(super) fn bytes(ir: &Ir, value: Value) -> i64 {
    let ty = ir.ty(value);
    let elem = ty.elem().bytes().unwrap_or(1) as i64;
    let elements = ty.shape().unwrap_or(&[]).iter().copied();
    elements.fold(elem, i64::saturating_mul)
}

/// The nests that a value comes from, at once or through ops of none.
fn sources(ir: &Ir, value: Value, nest_of: &HashMap<OpId, usize>) -> BTreeSet<usize> {
    let (mut nests, mut seen) = (BTreeSet::new(), HashSet::new());
    let mut work = vec![value];
    while let Some(value) = work.pop() {
        let Some(op) = ir.owner(value) else { continue };
        match nest_of.get(&op) {
            Some(nest) => {
                nests.insert(*nest);
            }
            None => work.extend(ir.operands(op).filter(|value| seen.insert(*value))),
        }
    }
    nests
}

impl<'a> Tensors<'a> {
    pub(super) fn new(ir: &'a Ir, nests: &[Nest], nest_of: &HashMap<OpId, usize>) -> Self {
        let mut all = Self {
            ir,
            made: Vec::new(),
            places: HashMap::new(),
            reads: vec![Vec::new(); nests.len()],
            from: HashMap::new(),
            unknown: BTreeSet::new(),
        };
        let ops = ir.walk_ids();
        // What is put together lies in one place with its parts.
        for op in &ops {
            if let Some(insert) = ir.get::<InsertSlice>(*op) {
                all.join(&insert);
            }
        }
        for op in ops {
            let nest = nest_of.get(&op).copied();
            let generic = ir.get::<Generic>(op);
            if let (Some(nest), Some(generic)) = (nest, &generic) {
                all.nest(nest, generic);
                continue;
            }
            let inside = generic.is_some() && fills(ir, op)
                || ir.is::<ExpandShape>(op)
                || ir.is::<CollapseShape>(op)
                || ir.is::<InsertSlice>(op)
                || ir.get::<TransferRead>(op).as_ref().is_some_and(is_view);
            if !inside {
                let written = generic.map_or(Vec::new(), |generic| generic.outputs);
                for value in ir.operands(op) {
                    if let Some(made) = all.of_value(shown(ir, value)) {
                        all.made[made].others = true;
                        all.made[made].known &= !written.contains(&value);
                    }
                }
            }
        }
        for value in all.reads.iter().flatten() {
            let from = || sources(ir, *value, nest_of);
            all.from.entry(*value).or_insert_with(from);
        }
        all
    }

    fn number(&mut self, place: Value) -> usize {
        let (next, bytes) = (self.made.len(), bytes(self.ir, place));
        let number = *self.places.entry(place).or_insert(next);
        if number == next {
            self.made.push(Made {
                bytes,
                known: true,
                ..Made::default()
            });
        }
        number
    }

    fn of_value(&mut self, value: Value) -> Option<usize> {
        let place = place(self.ir, value)?;
        Some(self.number(place))
    }

    /// Makes the place of a part that of what it is put into. What is put into something else cannot be told.
    fn join(&mut self, insert: &InsertSlice) {
        let whole = self.of_value(insert.dest);
        let Some(part) = self.of_value(shown(self.ir, insert.source)) else {
            return;
        };
        match whole {
            Some(whole) if whole != part => {
                let gone = std::mem::take(&mut self.made[part]);
                let all = &mut self.made[whole];
                all.bytes = all.bytes.max(gone.bytes);
                all.known &= gone.known;
                for number in self.places.values_mut().filter(|n| **n == part) {
                    *number = whole;
                }
            }
            Some(_) => {}
            None => self.made[part].known = false,
        }
    }

    fn nest(&mut self, nest: usize, generic: &Generic) {
        for value in &generic.inputs {
            let value = shown(self.ir, *value);
            if !self.reads[nest].contains(&value) {
                self.reads[nest].push(value);
            }
            if let Some(made) = self.of_value(value) {
                self.made[made].readers.insert(nest);
            }
        }
        for value in &generic.outputs {
            match self.of_value(*value) {
                Some(made) => {
                    self.made[made].writers.insert(nest);
                }
                None => {
                    self.unknown.insert(nest);
                }
            }
        }
    }

    /// What a run of nests needs; `None` where something is put together inside and outside of it, or cannot be told.
    pub(super) fn of(&self, run: Range<usize>) -> Option<Needs> {
        if run.clone().any(|nest| self.unknown.contains(&nest)) {
            return None;
        }
        let mut needs = Needs::default();
        let mut loads: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, made) in self.made.iter().enumerate() {
            let within = made.writers.range(run.clone()).count();
            if within == 0 {
                continue;
            }
            if within < made.writers.len() || !made.known {
                return None;
            }
            let first = *made.writers.first()? - run.start;
            let last = *made.writers.last()? - run.start;
            let read = made.readers.range(run.clone()).next_back();
            let stored = made.others || made.readers.iter().any(|nest| !run.contains(nest));
            let mut end = read.map_or(last, |read| (read - run.start).max(last)) + 1;
            if stored {
                // It is stored while the next one runs.
                end += 1;
                needs.stores.push((number, made.bytes, last));
            }
            let kept = match stored || end > first + 1 {
                true => &mut needs.inside,
                false => &mut needs.within,
            };
            kept.push((number, made.bytes, first..end));
        }
        let mut known: Vec<Value> = Vec::new();
        for (i, reads) in self.reads[run.clone()].iter().enumerate() {
            for value in reads {
                let made = place(self.ir, *value).and_then(|place| self.places.get(&place));
                let inside = made.is_some_and(|made| {
                    let mut writers = self.made[*made].writers.iter();
                    writers.any(|nest| run.contains(nest))
                });
                if inside {
                    continue;
                }
                let mut from = self.from.get(value).into_iter().flatten();
                needs.between |= from.any(|nest| run.contains(nest));
                match known.iter().position(|other| other == value) {
                    Some(at) => loads.entry(at).or_default().push(i),
                    None => {
                        loads.insert(known.len(), vec![i]);
                        known.push(*value);
                    }
                }
            }
        }
        for (number, nests) in loads {
            let (first, last) = (*nests.first()?, *nests.last()?);
            let value = known[number];
            let size = bytes(self.ir, value);
            needs.loads.push(((value, None), size, first..last + 1));
        }
        Some(needs)
    }

    /// What a section needs that is computed in pieces, each of which needs of every tensor what its boxes say.
    /// `None` where the first of them would read what is computed from the last.
    pub(super) fn in_pieces(&self, whole: &Needs, nests: usize, pieces: &[Boxes]) -> Option<Needs> {
        if whole.between {
            return None;
        }
        let mut needs = Needs::default();
        let bytes = |value: Value, extent: &Extent| {
            let elem = self.ir.ty(value).elem().bytes().unwrap_or(1) as i64;
            elements(extent).saturating_mul(elem)
        };
        let shared = |value: Value| {
            let all = pieces::whole(self.ir, value)?;
            let mut same = pieces.iter().map(|own| own.outside.get(&value));
            same.all(|own| own == Some(&all)).then_some(())
        };
        for (piece, own) in pieces.iter().enumerate() {
            let mut places: HashMap<Place, i64> = HashMap::new();
            for (value, extent) in &own.inside {
                let place = place(self.ir, *value).and_then(|place| self.places.get(&place));
                if let Some(place) = place {
                    let most = places.entry(*place).or_default();
                    *most = (*most).max(bytes(*value, extent));
                }
            }
            let first = piece * nests;
            let later = |range: &Range<usize>| range.start + first..range.end + first;
            // Other stages may be one nest in a piece than in the whole.
            for (place, _, range) in whole.inside.iter().chain(&whole.within) {
                let size = places.get(place).copied().unwrap_or(0);
                needs.inside.push((*place, size, later(range)));
            }
            for (place, _, last) in &whole.stores {
                let size = places.get(place).copied().unwrap_or(0);
                needs.stores.push((*place, size, last + first));
            }
            for ((value, _), size, range) in &whole.loads {
                let all = nests * (pieces.len() - 1) + range.end;
                match (shared(*value), own.outside.get(value)) {
                    (Some(()), _) if piece == 0 => {
                        needs.loads.push(((*value, None), *size, range.start..all));
                    }
                    (None, Some(extent)) => {
                        let size = bytes(*value, extent);
                        needs
                            .loads
                            .push(((*value, Some(piece)), size, later(range)));
                    }
                    _ => {}
                }
            }
        }
        Some(needs)
    }

    /// What of a section is needed outside of it.
    pub(super) fn stored(&self, ops: &[OpId]) -> Vec<Value> {
        let results = ops.iter().flat_map(|op| self.ir.results(*op));
        results.filter(|value| self.leaves(*value, ops)).collect()
    }

    fn leaves(&self, value: Value, ops: &[OpId]) -> bool {
        self.ir.uses(value).any(|u| {
            let shows = self.ir.is::<ExpandShape>(u.op)
                || self.ir.is::<CollapseShape>(u.op)
                || self.ir.is::<InsertSlice>(u.op)
                || self
                    .ir
                    .get::<TransferRead>(u.op)
                    .as_ref()
                    .is_some_and(is_view);
            match shows {
                true => self.ir.results(u.op).any(|value| self.leaves(value, ops)),
                false => !ops.contains(&u.op),
            }
        })
    }
}
