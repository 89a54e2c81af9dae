//! Which tensors may stay in near memory, in the order in which they are tried.

use std::collections::HashSet;
use std::rc::Rc;

use tir::{OpId, Value};
use tir_tensor::InsertSlice;

use super::brought::Load;
use super::{Candidate, Nest, Planner, concerned};
use crate::chain::partition::{is_stage, only_for};
use crate::parts::parts;

impl Planner<'_> {
    /// What may stay: what nests compute on a unit and other nests read, and nobody else.
    pub(super) fn candidates(&self, nests: &[Rc<Nest>]) -> Vec<Candidate> {
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
        let mut found: Vec<Candidate> = Vec::new();
        for (reader, nest) in nests.iter().enumerate() {
            let operands = nest.groups().flat_map(|g| &self.singles[g].group.operands);
            for value in operands.map(|operand| operand.source) {
                let all = found.iter_mut();
                if let Some(old) = all.into_iter().find(|other| other.value == value) {
                    old.reads += 1;
                    if !old.readers.contains(&reader) {
                        old.readers.push(reader);
                    }
                    continue;
                }
                let only = |part: &Value| {
                    *part == value || self.ir.uses(*part).all(|u| self.ir.is::<InsertSlice>(u.op))
                };
                let (mut writers, mut places, mut loads) = (Vec::new(), Vec::new(), Vec::new());
                for (part, at) in parts(self.ir, value).unwrap_or_default() {
                    if let Some(nest) = root(&part).filter(|_| only(&part)) {
                        writers.push(nest);
                        places.push(at);
                    } else {
                        let nest = copier(&part).filter(|_| only(&part));
                        loads.push(Load {
                            value: part,
                            at,
                            nest,
                        });
                    }
                }
                // What nests neither compute on units nor copy is loaded as it is.
                if writers.is_empty() && loads.iter().all(|load| load.nest.is_none()) {
                    loads.clear();
                }
                found.push(Candidate {
                    value,
                    writers,
                    places,
                    loads,
                    readers: vec![reader],
                    reads: 1,
                    life: (0, 0),
                });
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
            let last = candidate.readers.iter().copied().min();
            let writers = candidate.writers.iter().copied();
            let first = writers.max().or(candidate.readers.iter().copied().max());
            candidate.life = (last.unwrap_or(0), first.unwrap_or(0));
        }
        // A load less for each reader, and a store, for as long as the tensor is held; one load is left of what is loaded.
        let gain = |c: &Candidate| {
            let (last, first) = c.life;
            let saved = match c.is_put_together() {
                false => c.reads.saturating_sub(1) << 10,
                true => (c.readers.len() + 1) << 10,
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
