//! Chains a group longer each time, from the root backward.

use std::collections::{HashMap, HashSet};

use tir::{Ir, OpId, Value};

use super::partition::{Single, Who, is_view, only_for};
use super::stage::{Maker, Makers};
use crate::group::Signature;
use crate::parts::{Part, parts};

/// A chain that grows backward.
pub(super) struct Grow<'a> {
    ir: &'a Ir,
    singles: &'a [Single],
    made: &'a Who,
    /// Members by number; the root first.
    pub(super) members: Vec<usize>,
    pub(super) ops: HashSet<OpId>,
    /// What the members read that is put together from results of groups, by the value that is read.
    parts: HashMap<Value, Vec<Part>>,
    /// Why it does not grow any more.
    pub(super) stopped: Option<&'static str>,
}

impl<'a> Grow<'a> {
    pub(super) fn new(ir: &'a Ir, singles: &'a [Single], made: &'a Who, root: usize) -> Self {
        let mut grow = Self {
            ir,
            singles,
            made,
            members: Vec::new(),
            ops: HashSet::new(),
            parts: HashMap::new(),
            stopped: None,
        };
        if grow.is_stage(root) {
            grow.take(root);
        }
        grow
    }

    /// Whether a group can be a stage.
    fn is_stage(&self, member: usize) -> bool {
        let mut outs = self.singles[member].group.outs.iter();
        outs.any(|out| self.made.stages.get(&out.value) == Some(&member))
    }

    fn take(&mut self, member: usize) {
        self.members.push(member);
        let group = &self.singles[member].group;
        self.ops.extend(&group.ops);
        for operand in &group.operands {
            if let Some(parts) = parts(self.ir, operand.source) {
                self.parts.insert(operand.source, parts);
            }
        }
    }

    /// Takes the next group in, if members read it and nothing else does.
    pub(super) fn grow(&mut self) -> bool {
        let next = self.members.last().map_or(0, |last| last + 1);
        if next >= self.singles.len() {
            return false;
        }
        self.stopped = self.refused();
        if self.stopped.is_none() {
            match self.made.behind(next) {
                // What is done to rows of a stage's result is so where the stage computes it.
                Some(stage) => {
                    self.members.push(next);
                    self.ops.extend(&self.singles[next].group.ops);
                    self.take(stage);
                }
                None => self.take(next),
            }
        }
        self.stopped.is_none()
    }

    /// Why the next group is not taken in, if it is not.
    fn refused(&self) -> Option<&'static str> {
        let Some(last) = self.members.last() else {
            return Some("no unit computes the last one into one tensor");
        };
        let next = last + 1;
        let single = &self.singles[next];
        if !self.is_stage(next) && self.made.behind(next).is_none() {
            return Some("no unit computes the one before into one tensor");
        }
        if single.group.outs[0].flat.is_some() {
            return Some("the one before gives its result in another shape");
        }
        let value = single.group.outs[0].value;
        let block = |number: usize| self.ir.block_of(self.singles[number].op);
        if block(next) != block(*last) {
            return Some("the one before is in another block");
        }
        let mut read = self.parts.values().flatten();
        if !read.any(|(part, _)| *part == value) {
            return Some("what is computed before is read elsewhere");
        }
        if !only_for(self.ir, value, &self.ops) {
            return Some("what is computed before is read by others too");
        }
        if self.is_read_apart(value) {
            return Some("what is computed before is read in another shape, too");
        }
        None
    }

    /// Whether a member reads a value otherwise than as it is computed: it would be read in far memory, where nobody writes it.
    fn is_read_apart(&self, value: Value) -> bool {
        let members = self.members.iter().map(|member| &self.singles[*member]);
        let mut sources = members.flat_map(|single| &single.group.operands);
        sources.any(|operand| {
            let parts = self.parts.get(&operand.source).into_iter().flatten();
            let mut values = parts.map(|(part, _)| *part);
            !values.any(|part| part == value) && self.shows(operand.source, value)
        })
    }

    /// Whether a tensor is another one, or has it as a part, in the same order or another one.
    fn shows(&self, tensor: Value, value: Value) -> bool {
        let mut work = vec![tensor];
        while let Some(tensor) = work.pop() {
            if tensor == value {
                return true;
            }
            let maker = self.ir.owner(tensor);
            let view = maker.filter(|op| is_view(self.ir, *op, &self.ops));
            work.extend(view.into_iter().flat_map(|op| self.ir.operands(op)));
        }
        false
    }

    /// Who computes what members read, and what the chain depends on; `None` if a part of a tensor
    /// is computed by no member.
    pub(super) fn makers(&self) -> Option<(Makers<'_>, Signature)> {
        let mut makers: Makers<'_> = HashMap::new();
        let mut signature = Signature::default();
        for member in &self.members {
            let group = &self.singles[*member].group;
            signature.group(self.ir, group);
            if self.made.behind(*member).is_some() {
                continue;
            }
            for operand in &group.operands {
                let Some(parts) = self.parts.get(&operand.source) else {
                    signature.count(0);
                    continue;
                };
                let inside = parts.iter().map(|(value, at)| {
                    let (number, between) = self.made.maker(*value)?;
                    let place = self.members.iter().position(|m| *m == number)?;
                    Some((place, number, at, between))
                });
                let inside: Vec<_> = inside.flatten().collect();
                signature.count(inside.len());
                if inside.is_empty() {
                    continue;
                }
                if inside.len() < parts.len() {
                    return None;
                }
                for (place, _, at, _) in &inside {
                    signature.count(*place);
                    signature.numbers(at.iter().copied());
                }
                let all = inside.iter().map(|(_, number, at, between)| Maker {
                    group: &self.singles[*number].group,
                    at,
                    between: *between,
                });
                makers.insert(operand.source, all.collect());
            }
        }
        (!makers.is_empty()).then_some((makers, signature))
    }
}
