//! Which tensors may stay in near memory, in the order in which they are tried.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use tir::{OpId, Value};
use tir_tensor::InsertSlice;

use super::brought::Load;
use super::through::Through;
use super::{Candidate, Nest, Planner, concerned};
use crate::chain::partition::{is_stage, only_for};
use crate::parts::parts;

impl Planner<'_> {
    /// What may stay: what nests compute on a unit and other nests read, and nobody else; with `share`, parts that nests read by
    /// themselves where they lie in it, too.
    pub(super) fn candidates(&self, nests: &[Rc<Nest>], share: bool) -> Vec<Candidate> {
        let block = |number: usize| self.ir.block_of(self.singles[number].op);
        let root = |value: &Value| {
            let number = *self.made.stages.get(value)?;
            let nest = nests.iter().position(|nest| nest.first == number)?;
            let single = &self.singles[number];
            let same = single.group.outs.iter().all(|out| out.flat.is_none());
            (same && is_stage(self.ir, single, self.target)).then_some(nest)
        };
        let copier = |value: &Value| {
            let number = self.copies(*value)?.number;
            let own = |nest: &Rc<Nest>| (nest.first, nest.count) == (number, 1);
            nests.iter().position(own)
        };
        let read = share.then(|| self.all_read());
        let mut found: Vec<Candidate> = Vec::new();
        let mut known: HashMap<Value, usize> = HashMap::new();
        for (reader, nest) in nests.iter().enumerate() {
            let operands = nest.groups().flat_map(|g| &self.singles[g].group.operands);
            for value in operands.map(|operand| operand.source) {
                if let Some(number) = known.get(&value) {
                    let old: &mut Candidate = &mut found[*number];
                    old.reads += 1;
                    if !old.readers.contains(&reader) {
                        old.readers.push(reader);
                    }
                    continue;
                }
                let of = parts(self.ir, value).unwrap_or_default();
                let shared = read.as_ref();
                let shared = shared.map(|read| self.shared(nests, read, value, &of));
                let mut candidate = Candidate {
                    value,
                    writers: Vec::new(),
                    places: Vec::new(),
                    loads: Vec::new(),
                    shared: shared.unwrap_or_default(),
                    through: Vec::new(),
                    apart: None,
                    readers: vec![reader],
                    reads: 1,
                    life: (0, 0),
                };
                let only = |part: &Value, candidate: &Candidate| {
                    let own = *part == value || candidate.shares(*part);
                    own || self.ir.uses(*part).all(|u| self.ir.is::<InsertSlice>(u.op))
                };
                let mut makers = Vec::new();
                for (part, at) in of {
                    if let Some(nest) = root(&part).filter(|_| only(&part, &candidate)) {
                        makers.push((part, candidate.writers.len()));
                        candidate.writers.push(nest);
                        candidate.places.push(at);
                    } else {
                        let nest = copier(&part).filter(|_| only(&part, &candidate));
                        let shared = |value| candidate.shares_part(value);
                        let from = nest.and_then(|_| self.copied_from(part, &shared));
                        let own = |nest: &Rc<Nest>| Some(nest.first) == from;
                        let load = Load {
                            value: part,
                            at,
                            nest,
                        };
                        match nests.iter().position(own) {
                            Some(writer) => {
                                makers.push((self.as_it_is(part), candidate.writers.len()));
                                candidate.through.push(Through {
                                    maker: candidate.writers.len(),
                                    load: load.clone(),
                                });
                                candidate.writers.push(writer);
                                candidate.places.push(load.at);
                            }
                            None => candidate.loads.push(load),
                        }
                    }
                }
                candidate.share(&makers);
                if !candidate.shared.is_empty() && !self.reads_all(nests, &candidate, &makers) {
                    candidate.shared.clear();
                }
                // What nests neither compute on units nor copy is loaded as it is.
                let mut loads = candidate.loads.iter();
                if candidate.writers.is_empty() && loads.all(|load| load.nest.is_none()) {
                    candidate.loads.clear();
                }
                known.insert(value, found.len());
                found.push(candidate);
            }
        }
        let all: HashSet<OpId> = self
            .singles
            .iter()
            .flat_map(|s| s.group.ops.clone())
            .collect();
        found.retain_mut(|candidate| {
            // What others read, too, lies in far memory.
            if !only_for(self.ir, candidate.value, &all) {
                candidate.writers.clear();
                candidate.places.clear();
                candidate.loads.clear();
                candidate.shared.clear();
                candidate.through.clear();
            }
            candidate.is_put_together() || candidate.reads > 1
        });
        // What is read in a loop is read again when the loop runs again.
        found.retain(|candidate| {
            let concerned = concerned(candidate).into_iter();
            let mut blocks = concerned.map(|nest| block(nests[nest].first));
            let first = blocks.next();
            blocks.all(|block| Some(block) == first)
        });
        for candidate in &mut found {
            let last = candidate.all_readers().into_iter().min();
            let writers = candidate.writers.iter().copied();
            let first = writers.max().or(candidate.readers.iter().copied().max());
            candidate.life = (last.unwrap_or(0), first.unwrap_or(0));
        }
        // A load less for each reader, and a store, for as long as the tensor is held; one load is left of what is loaded.
        let gain = |c: &Candidate| {
            let (last, first) = c.life;
            let saved = match c.is_put_together() {
                false => c.reads.saturating_sub(1) << 10,
                true => (c.all_readers().len() + 1) << 10,
            };
            std::cmp::Reverse(saved / (first.saturating_sub(last) + 1))
        };
        found.sort_by_key(gain);
        // Where all have room no one takes it from another, and readers come before those that compute for them: these
        // may lie in the order in which their own readers want what they compute.
        let bytes = found.iter().map(|candidate| self.bytes(candidate.value));
        if bytes.fold(0, i64::saturating_add) <= self.near_bytes() / 2 {
            found.sort_by_key(|candidate| candidate.life.1);
        }
        found
    }
}
