//! Tensors between nests that cannot stay at all, and why: they are told of beside those that could.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use tir::{Ir, OpId, Value};
use tir_tensor::{CollapseShape, ExpandShape};

use super::{Far, Nest, Planner, Resident, Single};
use crate::chain::home::Why;
use crate::chain::partition::{is_stage, only_for};
use crate::parts::parts;

/// The tensor that a value shows in another shape.
fn shown(ir: &Ir, mut value: Value) -> Value {
    loop {
        let collapsed = ir.def::<CollapseShape>(value).map(|view| view.src);
        let expanded = ir.def::<ExpandShape>(value).map(|view| view.src);
        match collapsed.or(expanded) {
            Some(source) => value = source,
            None => return value,
        }
    }
}

impl Planner<'_> {
    /// What nests read of what others compute, without what could stay, and without parts of what does.
    pub(in crate::chain) fn never(&self, nests: &[Rc<Nest>], stay: &[Resident]) -> Vec<Far> {
        let candidates = self.candidates(nests, false);
        let known = candidates.iter().filter(|c| c.is_put_together());
        let known = known.map(|candidate| candidate.value);
        let shared = stay.iter().flat_map(|resident| &resident.shared);
        let known: HashSet<Value> = known.chain(shared.map(|(part, ..)| *part)).collect();
        let copied = stay.iter().flat_map(|resident| &resident.copied);
        let copied: HashSet<OpId> = copied.copied().collect();
        let singles = self.singles.iter().enumerate();
        let outs = singles.flat_map(|(number, single)| {
            let outs = single.group.outs.iter();
            outs.map(move |out| (shown(self.ir, out.value), number))
        });
        let makers: HashMap<Value, usize> = outs.collect();
        let all = self.singles.iter().flat_map(|s| s.group.ops.clone());
        let all: HashSet<OpId> = all.collect();
        let (mut seen, mut found) = (HashSet::new(), Vec::<Far>::new());
        let computed = |nest: &&Rc<Nest>| !copied.contains(&self.singles[nest.first].op);
        for reader in nests.iter().filter(computed) {
            let operands = reader
                .groups()
                .flat_map(|g| &self.singles[g].group.operands);
            for source in operands.map(|operand| operand.source) {
                if known.contains(&source) || !seen.insert(source) {
                    continue;
                }
                let of = parts(self.ir, shown(self.ir, source)).unwrap_or_default();
                for (part, _) in of {
                    let part = shown(self.ir, part);
                    let Some(maker) = makers.get(&part).copied() else {
                        continue;
                    };
                    // What a nest of several stages computes for itself lies near.
                    if reader.groups().contains(&maker) {
                        continue;
                    }
                    let why = self.why_never(maker, reader, (source, part), &all);
                    let Some(why) = why else { continue };
                    let op = self.singles[maker].op;
                    let bytes = self.bytes(part);
                    match found.iter_mut().find(|far| far.op == op && far.why == why) {
                        Some(far) => far.bytes = far.bytes.saturating_add(bytes),
                        None => found.push(Far {
                            op,
                            why,
                            groups: (reader.first, maker),
                            bytes: bytes.saturating_mul(2),
                            help: None,
                        }),
                    }
                }
            }
        }
        found
    }

    /// Why what a group computes cannot stay for a nest that reads it as a value.
    fn why_never(
        &self,
        maker: usize,
        reader: &Nest,
        (source, part): (Value, Value),
        all: &HashSet<OpId>,
    ) -> Option<Why> {
        let single = &self.singles[maker];
        let block = |number: usize| self.ir.block_of(self.singles[number].op);
        let group = &single.group;
        let reads = reader.groups().map(|number| &self.singles[number]);
        // Where the thread both computes and reads it, nothing is moved.
        let mut reads = reads.filter(|single| {
            let mut operands = single.group.operands.iter();
            operands.any(|operand| operand.source == source)
        });
        let thread = |s: &Single| !s.plan.moves && s.plan.busy.is_empty();
        if reads.all(thread) && thread(single) {
            return None;
        }
        Some(if single.plan.moves {
            "engines bring it into another order, from far memory to far memory"
        } else if thread(single) {
            "the thread computes it"
        } else if group.outs.len() > 1 {
            "its nest has several results"
        } else if !is_stage(self.ir, single, self.target) {
            "no unit computes it block by block"
        } else if group.outs.iter().any(|out| out.flat.is_some()) || source != part {
            "it is read in another shape, or as a part of what cannot stay"
        } else if block(maker) != block(reader.first) {
            "nests in other blocks read it"
        } else if !only_for(self.ir, part, all) {
            "not only nests read it"
        } else {
            return None;
        })
    }
}
