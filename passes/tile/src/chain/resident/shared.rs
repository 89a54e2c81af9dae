//! Parts of a tensor that stays which nests read by themselves, where they lie in its home.
//!
//! A skip connection is such a part: the layers that it goes around read it, and behind them it is put together with what they
//! compute. As a tensor of its own it would stay near for these layers, and be stored and loaded for who reads all; so it is computed
//! into the home of all, which is there from then on. Of several parts one behind the other that are read as one tensor, the same
//! holds: each layer of a dense block reads what all before it gave.
//!
//! Around a part lie other parts, some of which are not computed yet, so no reader of a part may need zeros there.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use tir::{OpId, Value};
use tir_tensor::InsertSlice;

use super::{Candidate, Home, Nest, Planner, State};
use crate::chain::partition::{is_view, only_for};
use crate::chain::stage::Lies;
use crate::parts::{Part, parts};

/// What groups read, each once in the order in which they do: the value, what it is put together from, and the same with what is
/// copied as it is for what is copied; and by the first part of these.
#[derive(Default)]
pub(super) struct AllRead {
    all: Vec<(Value, Vec<Part>, Vec<Part>)>,
    of: HashMap<Value, Vec<usize>>,
}

/// A part, or several one behind the other.
#[derive(Clone, Debug)]
pub(in crate::chain) struct Shared {
    /// What is read.
    pub(in crate::chain) value: Value,
    /// Where it begins in the tensor.
    pub(in crate::chain) at: Vec<i64>,
    /// The dimensions in which there is more of the tensor than of the part.
    pub(in crate::chain) beside: Vec<usize>,
    /// The nests that read it.
    pub(super) readers: Vec<usize>,
    /// What it is put together from, itself if it is one part.
    of: Vec<Value>,
    /// What is copied to be put together, and the nests that would do so.
    pub(super) copied: Vec<Value>,
    pub(super) copiers: Vec<usize>,
    /// Which of the tensor's makers compute it.
    makers: Vec<usize>,
}

impl Shared {
    /// How it lies in the home of a tensor that lies so.
    pub(in crate::chain) fn lies(&self, whole: &Lies) -> Lies {
        let back: Vec<i64> = self.at.iter().map(|at| -at).collect();
        let zero = |s: &usize| !self.beside.contains(s);
        Lies {
            placed: whole.placed.clone().moved(&back),
            zeros: whole.zeros.iter().copied().filter(zero).collect(),
            beside: self.beside.clone(),
            grows: whole.grows,
        }
    }
}

impl Home {
    /// The parts that are read by themselves, where each begins, and behind how many writers, in the order of the program, it
    /// is computed.
    pub(super) fn told(&self) -> Vec<(Value, Vec<i64>, usize)> {
        let mut order: Vec<usize> = self.writers.clone();
        order.sort_unstable_by_key(|nest| std::cmp::Reverse(*nest));
        order.dedup();
        let behind = |part: &Shared| {
            let own = part.makers.iter().map(|maker| self.writers[*maker]);
            let last = own.filter_map(|nest| order.iter().position(|other| *other == nest));
            last.max().map_or(0, |place| place + 1)
        };
        let shared = self.shared.iter();
        let shared = shared.map(|part| (part.value, part.at.clone(), behind(part)));
        shared.collect()
    }
}

impl Candidate {
    /// Whether a value is read by itself where it lies in the tensor.
    pub(super) fn shares(&self, value: Value) -> bool {
        self.shared.iter().any(|part| part.value == value)
    }

    /// Whether a value is a part of what is.
    pub(super) fn shares_part(&self, value: Value) -> bool {
        self.shared.iter().any(|part| part.of.contains(&value))
    }

    /// Only some makers are left, in this order.
    pub(super) fn renumber(&mut self, left: &[usize]) {
        let new = |maker: &usize| left.iter().position(|other| other == maker);
        self.shared.retain_mut(|part| {
            let makers = part.makers.iter().map(new).collect::<Option<Vec<usize>>>();
            part.makers = makers.unwrap_or_default();
            !part.makers.is_empty()
        });
    }

    /// Which makers compute the parts that are read by themselves; those of which engines bring something are none.
    pub(super) fn share(&mut self, makers: &[(Value, usize)]) {
        self.shared.retain_mut(|part| {
            let maker = |value: &Value| makers.iter().find(|(other, _)| other == value);
            let own = part.of.iter().map(|value| Some(maker(value)?.1));
            let own: Option<Vec<usize>> = own.collect();
            part.makers = own.unwrap_or_default();
            !part.makers.is_empty()
        });
    }
}

/// Tensors that may stay, some of them with parts that are read by themselves, in orders in which they are tried. In one, none of
/// these parts stays by itself before all of what it is a part of is tried; in the other one all of these come first, and then what is
/// computed from them, in the order of the program: it may have to lie as they do.
pub(super) fn with_parts(plain: &[Candidate], sharing: &[Candidate]) -> [Vec<Candidate>; 2] {
    let (mut whole, mut first) = (plain.to_vec(), Vec::new());
    for candidate in sharing {
        let same = |other: &Candidate| other.value == candidate.value;
        let Some(old) = whole.iter().position(same) else {
            continue;
        };
        let mut candidate = candidate.clone();
        let part = whole.iter().position(|other| candidate.shares(other.value));
        candidate.apart = Some(Box::new(whole.remove(old)));
        first.push(candidate.clone());
        whole.insert(part.map_or(old, |part| part.min(old)), candidate);
    }
    // Of what lies in one another, the largest.
    first.sort_by_key(|candidate| std::cmp::Reverse(candidate.shared.len()));
    let mut others = whole.clone();
    others.retain(|candidate| candidate.shared.is_empty());
    others.sort_by_key(|candidate| std::cmp::Reverse(candidate.life.1));
    [whole, first.into_iter().chain(others).collect()]
}

impl Planner<'_> {
    /// All that groups read, by what it is put together from.
    pub(super) fn all_read(&self) -> AllRead {
        let mut found = AllRead::default();
        let mut seen = HashSet::new();
        for source in self.read(&HashSet::new()) {
            if !seen.insert(source) {
                continue;
            }
            let Some(put) = parts(self.ir, source) else {
                continue;
            };
            let own = self.as_they_are(&put);
            if let Some((first, _)) = own.first() {
                let all = found.of.entry(*first).or_default();
                all.push(found.all.len());
                found.all.push((source, put, own));
            }
        }
        found
    }

    /// Parts of a tensor that nests read by themselves and could read in its home, given all that they read and what it is put
    /// together from.
    pub(super) fn shared(
        &self,
        nests: &[Rc<Nest>],
        read: &AllRead,
        value: Value,
        of: &[Part],
    ) -> Vec<Shared> {
        if of.len() < 2 {
            return Vec::new();
        }
        let as_it_is = self.as_they_are(of);
        // In the order in which they are read.
        let first = as_it_is.iter().filter_map(|(part, _)| read.of.get(part));
        let some: BTreeSet<usize> = first.flatten().copied().collect();
        let some = some.iter().map(|number| &read.all[*number]);
        let some: Vec<_> = some.filter(|(source, ..)| *source != value).collect();
        if some.is_empty() {
            return Vec::new();
        }
        let all = self.singles.iter().flat_map(|s| s.group.ops.clone());
        let all: HashSet<OpId> = all.collect();
        let whole = self.ir.ty(value).shape().unwrap_or(&[]);
        // What is copied to be put there is there without.
        let copied = |of: &[Part]| -> Vec<Value> {
            let parts = of.iter().map(|(part, _)| *part);
            parts.filter(|part| self.as_it_is(*part) != *part).collect()
        };
        let number = |part: &Value| Some(self.copies(*part)?.number);
        let mut copies: HashSet<usize> = copied(of).iter().filter_map(number).collect();
        let of = as_it_is;
        let mut found: Vec<Shared> = Vec::new();
        for (source, put, own) in some {
            let source = *source;
            let Some(at) = begins(own, &of) else {
                continue;
            };
            let shape = self.ir.ty(source).shape().unwrap_or(&[]);
            if shape.len() != whole.len() || !only_for(self.ir, source, &all) {
                continue;
            }
            let copied = copied(put);
            let own_copies: HashSet<usize> = copied.iter().filter_map(number).collect();
            let copier = |nest: &Rc<Nest>| nest.count == 1 && own_copies.contains(&nest.first);
            found.push(Shared {
                value: source,
                at,
                beside: (0..whole.len())
                    .filter(|s| shape[*s] != whole[*s])
                    .collect(),
                readers: Vec::new(),
                of: own.iter().map(|(part, _)| *part).collect(),
                copiers: (0..nests.len()).filter(|i| copier(&nests[*i])).collect(),
                copied,
                makers: Vec::new(),
            });
            copies.extend(own_copies);
        }
        for (reader, nest) in nests.iter().enumerate() {
            if nest.count == 1 && copies.contains(&nest.first) {
                continue;
            }
            let operands = nest.groups().flat_map(|g| &self.singles[g].group.operands);
            let read: HashSet<Value> = operands.map(|operand| operand.source).collect();
            let parts = found.iter_mut().filter(|part| read.contains(&part.value));
            parts.for_each(|part| part.readers.push(reader));
        }
        found.retain(|part| !part.readers.is_empty());
        // All that reads it has to read it there, as it is nowhere else.
        let read: HashSet<Value> = self.read(&copies).collect();
        found.retain(|part| !self.is_shown(part.value, &all, &read));
        found
    }

    /// Parts, of what is copied as it is that.
    fn as_they_are(&self, parts: &[Part]) -> Vec<Part> {
        let parts = parts.iter().cloned();
        parts.map(|(part, at)| (self.as_it_is(part), at)).collect()
    }

    /// Whether all nests that read parts of a tensor which some makers compute read them in its home, by themselves or together.
    pub(super) fn reads_all(
        &self,
        nests: &[Rc<Nest>],
        candidate: &Candidate,
        makers: &[(Value, usize)],
    ) -> bool {
        let loads = candidate.loads.iter().map(|load| load.value);
        let mut loads = loads.filter_map(|value| Some(self.copies(value)?.operand.source));
        if loads.any(|source| makers.iter().any(|(made, _)| *made == source)) {
            return false;
        }
        let copiers: HashSet<usize> = candidate.copiers().collect();
        let others = nests.iter().enumerate();
        let mut others = others.filter(|(nest, _)| !copiers.contains(nest));
        others.all(|(nest, group)| {
            let operands = group.groups().flat_map(|g| &self.singles[g].group.operands);
            let mut sources = operands.map(|operand| operand.source);
            sources.all(|source| {
                let own = parts(self.ir, source).unwrap_or_default();
                let own = self.as_they_are(&own);
                let made = |part: &Value| makers.iter().any(|(made, _)| made == part);
                let mut shared = candidate.shared.iter();
                source == candidate.value
                    || shared.any(|part| part.value == source && part.readers.contains(&nest))
                    || !own.iter().any(|(part, _)| made(part))
            })
        })
    }

    /// Whether a tensor lies in the home of another one, or is not computed at all but in the order in which it would be copied to that.
    pub(super) fn is_elsewhere(&self, state: &State, value: Value) -> bool {
        let mut homes = state.homes.iter();
        homes.any(|home| {
            let shared = home.shared.iter().any(|part| part.value == value);
            let through = home.through.iter();
            let mut sources = through.filter_map(|part| self.copies(part.load.value));
            shared || sources.any(|copies| copies.operand.source == value)
        })
    }

    /// All that groups read but some.
    fn read<'s>(&'s self, without: &'s HashSet<usize>) -> impl Iterator<Item = Value> + 's {
        let singles = self.singles.iter().enumerate();
        let singles = singles.filter(|(number, _)| !without.contains(number));
        let operands = singles.flat_map(|(_, single)| &single.group.operands);
        operands.map(|operand| operand.source)
    }

    /// Whether groups read a value as what shows it otherwise.
    fn is_shown(&self, value: Value, all: &HashSet<OpId>, read: &HashSet<Value>) -> bool {
        let views = self.ir.uses(value).map(|u| u.op);
        let mut views =
            views.filter(|op| is_view(self.ir, *op, all) && !self.ir.is::<InsertSlice>(*op));
        views.any(|op| {
            let mut shown = self.ir.results(op);
            shown.any(|shown| read.contains(&shown) || self.is_shown(shown, all, read))
        })
    }
}

/// Where in a tensor another one begins, of which all parts are parts of it and lie there as they do here.
fn begins(own: &[Part], of: &[Part]) -> Option<Vec<i64>> {
    let place = |(part, at): &Part| {
        let (_, whole) = of.iter().find(|(other, _)| other == part)?;
        let back = |(s, whole): (usize, &i64)| whole - at.get(s).copied().unwrap_or(0);
        Some(whole.iter().enumerate().map(back).collect::<Vec<i64>>())
    };
    let mut places = own.iter().map(place);
    let first = places.next()??;
    places
        .all(|other| other.as_ref() == Some(&first))
        .then_some(first)
}
