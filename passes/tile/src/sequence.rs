//! Intrinsics of several generics: a product that begins with zero, or one with what follows it.
//!
//! A *sequence* is what such an intrinsic computes: steps, each one generic, that read operands of the
//! intrinsic and what earlier steps gave, down to the last one. It is found in a program where the same
//! generics read one another and nothing else needs what goes between them, unless the intrinsic gives it as
//! a result. `tile` takes first and last trips out of the loops of a reduction where that makes a sequence;
//! `tensorize` puts the call in place of its generics.

use tir::{Attr, Definition, Ir, OpId, Value};
use tir_accel::machine::IntrinsicInfo;
use tir_tensor::{Empty, Generic};

use crate::matching::{Behaviour, body, match_exact};
use crate::scalar::Immediates;

/// What an intrinsic of several generics computes.
pub struct Sequence<'a> {
    /// Its index.
    pub intrinsic: usize,
    /// Its generics, in order; the last one needs all others.
    pub steps: Vec<Step<'a>>,
    /// The step that gives each result.
    yields: Vec<usize>,
}

/// One of the generics.
pub struct Step<'a> {
    /// What it computes; its inputs are not operands of the intrinsic alone.
    pub behaviour: Behaviour<'a>,
    /// Where each input comes from.
    pub inputs: Vec<Source>,
    /// What it writes.
    pub out: Source,
}

/// What a step reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// An operand of the intrinsic.
    Operand(usize),
    /// What an earlier step gave.
    Step(usize),
    /// A `tensor.empty`: nothing that is in memory.
    Nothing,
}

impl<'a> Sequence<'a> {
    /// What an intrinsic of several generics computes; none for one of one generic, or if what it computes
    /// is no sequence.
    pub fn of(machine: &'a Ir, intrinsic: usize, info: &IntrinsicInfo) -> Option<Self> {
        let (block, values) = body(machine, info)?;
        let ops = machine.ops_in(block);
        let generics: Vec<OpId> = ops.filter(|op| machine.is::<Generic>(*op)).collect();
        if generics.len() < 2 {
            return None;
        }
        let source = |value: &Value| match machine.definition(*value) {
            Definition::Argument(of, index) => (of == block).then_some(Source::Operand(index)),
            Definition::Result(op, _) if machine.is::<Empty>(op) => Some(Source::Nothing),
            Definition::Result(op, _) => {
                let step = generics.iter().position(|other| *other == op);
                step.map(Source::Step)
            }
        };
        let step = |op: &OpId| {
            let generic: Generic = machine.get(*op)?;
            let inputs = generic.inputs.iter().map(source).collect::<Option<_>>()?;
            let [out] = generic.outputs[..] else {
                return None;
            };
            Some(Step {
                inputs,
                out: source(&out)?,
                behaviour: Behaviour::new(machine, generic, Vec::new()).ok()?,
            })
        };
        let steps: Vec<Step<'_>> = generics.iter().map(step).collect::<Option<_>>()?;
        let given = |value: &Value| match source(value) {
            Some(Source::Step(step)) => Some(step),
            _ => None,
        };
        let yields = values.iter().map(given).collect::<Option<_>>()?;
        let sequence = Self {
            intrinsic,
            steps,
            yields,
        };
        let yields = sequence.yields.iter().enumerate();
        let mut places = yields.map(|(i, step)| sequence.place(*step) == Source::Operand(i));
        (places.all(|here| here) && sequence.is_one()).then_some(sequence)
    }

    /// The operand that a step writes, also over what earlier steps gave.
    pub(crate) fn place(&self, step: usize) -> Source {
        match self.steps[step].out {
            Source::Step(earlier) => self.place(earlier),
            other => other,
        }
    }

    /// Whether the last step needs all others.
    fn is_one(&self) -> bool {
        let mut needed = vec![false; self.steps.len()];
        if let Some(last) = needed.last_mut() {
            *last = true;
        }
        for at in (0..self.steps.len()).rev().filter(|at| *at > 0) {
            if needed[at] {
                for source in self.steps[at].read() {
                    if let Source::Step(earlier) = source {
                        needed[earlier] = true;
                    }
                }
            }
        }
        needed.into_iter().all(|needed| needed)
    }

    /// The step that combines, if there is exactly one.
    pub fn core(&self) -> Option<usize> {
        let combines = |step: &Step<'_>| step.behaviour.generic.combine.is_some();
        let mut found = (0..self.steps.len()).filter(|at| combines(&self.steps[*at]));
        found.next().filter(|_| found.next().is_none())
    }

    /// The generics of a program that are this sequence, the last of them given.
    pub fn find(&self, func: &Ir, last: OpId, operands: usize) -> Option<Found> {
        let end = self.steps.len() - 1;
        let found = Found {
            ops: vec![None; self.steps.len()],
            operands: vec![None; operands],
            immediates: Immediates::new(),
        };
        let mut found = self.bind(func, end, last, last, &found)?;
        let covered: Vec<OpId> = found.ops.iter().copied().collect::<Option<_>>()?;
        // What is only written is the place that a chain of such writes begins with.
        for (at, op) in covered.iter().enumerate() {
            if let Source::Operand(operand) = self.place(at) {
                let mut value = *func.get::<Generic>(*op)?.outputs.first()?;
                while let Some(op) = func.owner(value).filter(|op| covered.contains(op)) {
                    value = *func.get::<Generic>(op)?.outputs.first()?;
                }
                found.take(operand, value)?;
            }
        }
        let free = covered.iter().enumerate().all(|(at, op)| {
            let mut uses = func.uses(func.result(*op, 0));
            let given = self.yields.contains(&at);
            let block = func.block_of(last);
            uses.all(|u| {
                let user = block.and_then(|block| func.ancestor_in(u.op, block));
                let behind = || user.is_some_and(|user| func.is_before(last, user));
                covered.contains(&u.op) || given && behind()
            })
        });
        (free && found.operands.iter().all(Option::is_some)).then_some(found)
    }

    /// Takes an op as a step, and those whose results it reads as the steps before.
    fn bind(&self, func: &Ir, at: usize, op: OpId, last: OpId, found: &Found) -> Option<Found> {
        if found.ops[at] == Some(op) {
            return Some(found.clone());
        }
        if found.ops[at].is_some() || func.block_of(op) != func.block_of(last) {
            return None;
        }
        let (generic, step) = (func.get::<Generic>(op)?, &self.steps[at]);
        let ways = match_exact(func, &generic, &step.behaviour);
        ways.into_iter().find_map(|exact| {
            let mut found = found.clone();
            found.ops[at] = Some(op);
            for (number, value) in exact.immediates {
                if *found.immediates.entry(number).or_insert(value) != value {
                    return None;
                }
            }
            let inputs = step.inputs.iter().enumerate();
            let read = inputs.map(|(j, source)| (*source, generic.inputs[exact.inputs[j]]));
            let out = (step.out, generic.outputs[0]);
            let accumulates = generic.combine.is_some();
            for (source, value) in read.chain(accumulates.then_some(out)) {
                match source {
                    Source::Operand(operand) => found.take(operand, value)?,
                    Source::Step(earlier) => {
                        found = self.bind(func, earlier, func.owner(value)?, last, &found)?;
                    }
                    Source::Nothing => return None,
                }
            }
            Some(found)
        })
    }

    /// The results of the call, by the generics whose results they are.
    pub fn results(&self, found: &Found) -> Vec<OpId> {
        let ops = self.yields.iter().filter_map(|step| found.ops[*step]);
        ops.collect()
    }
}

impl Step<'_> {
    /// What it reads.
    fn read(&self) -> impl Iterator<Item = Source> + '_ {
        let out = self.behaviour.generic.combine.map(|_| self.out);
        self.inputs.iter().copied().chain(out)
    }

    /// The constant that it fills its result with, if it does nothing else.
    pub fn fills(&self) -> Option<Attr> {
        let Behaviour { ir, generic, .. } = &self.behaviour;
        generic.constant(ir)
    }
}

/// A sequence in a program.
#[derive(Clone)]
pub struct Found {
    /// The generic that each step is.
    pub ops: Vec<Option<OpId>>,
    /// The operands of the intrinsic.
    pub operands: Vec<Option<Value>>,
    /// What its immediates are.
    pub immediates: Immediates,
}

impl Found {
    /// Takes a value as an operand; `None` if that is another one.
    fn take(&mut self, operand: usize, value: Value) -> Option<()> {
        let found = self.operands.get_mut(operand)?;
        (*found.get_or_insert(value) == value).then_some(())
    }
}
