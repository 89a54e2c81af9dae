//! Tiles whose reduction is divided: accumulators of the whole tile are *begun*, live through the loops of the
//! reduction, in which the tiles that are loaded are added block by block, and are *finished* by the steps behind.

use tir::{Attr, Builder, Type, Value};
use tir_arith::CmpIPredicate;

use super::blocks::{Body, Ends};
use super::flow::when;
use super::nest::{fill, fill_by};
use super::{At, Emit, Given};
use crate::group::{Input, StepRef};

impl Emit<'_> {
    /// A tile whose reduction is divided: accumulators of the whole tile live through its loops, in a tile of
    /// another stage if there is one.
    pub(super) fn split(&self, b: &mut Builder<'_>, at: &At, into: Option<Value>) -> Vec<Value> {
        let Some((step, _, start)) = &self.group.reduce else {
            return self.whole(b, at, into.as_ref().map(std::slice::from_ref));
        };
        let acc = match (into, self.plan.filled) {
            // An engine filled the tile of the other stage, before all that compute a part of it.
            (Some(whole), Some(_)) => whole,
            (into, _) => {
                let acc = into.unwrap_or_else(|| self.wholes(b, &[step.ty.elem()])[0]);
                self.begun(b, at, acc, *start)
            }
        };
        // Steps behind follow block by block in the last part: their unit works beside that of the sums.
        let parts = &self.plan.order[self.parallel()..];
        let over = self.plan.in_place == Some(Input::Reduced) && self.group.outs.len() == 1;
        // A pipeline issues blocks by itself, and what is stored as a whole waits for all of it.
        let over = over && into.is_some() && self.stage.turns == 1;
        let last = parts.first().filter(|_| over && parts.len() == 1);
        let sum = &mut |b: &mut Builder<'_>, at: &At, sums: Vec<Value>| {
            let Some(d) = last else {
                return vec![self.sum_blocks(b, at, sums[0])];
            };
            let end = self.plan.space.trips(*d) - 1;
            let ends = at.tile[*d].compare(b, CmpIPredicate::Eq, end);
            let dims = self.divided(false);
            self.nest(b, &dims, at, sums, &mut |b, at, carried| {
                let acc = vec![self.sum_block(b, at, carried[0])];
                when(b, ends, acc, &mut |b, acc| {
                    vec![self.finished_block(b, at, acc[0])]
                })
            })
        };
        let acc = self.reduction_tiles(b, self.parallel(), at.clone(), vec![acc], sum)[0];
        match last {
            Some(_) => vec![acc],
            None => self.finished(b, at, acc),
        }
    }

    /// The accumulators of a tile before anything is added.
    pub(super) fn begun(&self, b: &mut Builder<'_>, at: &At, acc: Value, start: Attr) -> Value {
        if let Some(engine) = self.plan.filled {
            return fill_by(b, engine, acc, start);
        }
        self.blocks(b, at, vec![acc], None, &mut |b, _, slots, _| {
            vec![fill(b, slots[0], start)]
        })[0]
    }

    /// Fills the tile that is accumulated in, of those of the results, if that is done at once.
    pub(super) fn fill_sums(&self, b: &mut Builder<'_>, wholes: &mut [Value]) {
        let (Some((_, _, start)), Some(engine)) = (&self.group.reduce, self.plan.filled) else {
            return;
        };
        let place = self.leaves(StepRef::Reduced).unwrap_or(0);
        wholes[place] = fill_by(b, engine, wholes[place], *start);
    }

    /// The loops of a divided reduction, around `sum`, which adds what the tiles that are loaded give.
    pub(super) fn reduction_tiles(
        &self,
        b: &mut Builder<'_>,
        level: usize,
        mut at: At,
        carried: Vec<Value>,
        sum: Body<'_>,
    ) -> Vec<Value> {
        let order = &self.plan.order;
        // What is loaded at the first level was loaded by the loops around.
        if level > 0 && self.group.reductions[order[level - 1]] {
            self.loads(b, level, &mut at);
        }
        if level == order.len() {
            return sum(b, &at, carried);
        }
        self.trips(b, level, &at, false, carried, &mut |b, at, carried| {
            self.reduction_tiles(b, level + 1, at, carried, sum)
        })
    }

    /// Adds to the accumulators of a tile what the tiles that are loaded give.
    pub(super) fn sum_blocks(&self, b: &mut Builder<'_>, at: &At, acc: Value) -> Value {
        let dims = self.divided(false);
        let out = self.nest(b, &dims, at, vec![acc], &mut |b, at, carried| {
            vec![self.sum_block(b, at, carried[0])]
        });
        out[0]
    }

    /// What the blocks of a reduction in its tiles add to a block of accumulators.
    pub(super) fn sum_block(&self, b: &mut Builder<'_>, at: &At, acc: Value) -> Value {
        let part = self.operand(b, &self.plan.out, at);
        part.update(b, acc, &mut |b, slot| {
            self.reduce_unit(b, at, slot, Ends::default())
        })
    }

    /// What leaves a tile whose accumulators have all that is added.
    pub(super) fn finished(&self, b: &mut Builder<'_>, at: &At, acc: Value) -> Vec<Value> {
        let outs: Vec<StepRef> = self.group.outs.iter().map(|out| out.step).collect();
        let mapped: Vec<StepRef> = outs
            .iter()
            .copied()
            .filter(|out| *out != StepRef::Reduced)
            .collect();
        let elems: Vec<Type> = mapped.iter().map(|out| self.elem(*out)).collect();
        let mut values = Vec::new();
        if !mapped.is_empty() {
            // In place the accumulators become the result block by block: no other step reads them.
            let (wholes, base) = match self.plan.in_place {
                Some(Input::Reduced) => (vec![acc], None),
                _ => (self.wholes(b, &elems), Some(acc)),
            };
            values = self.blocks(b, at, wholes, base, &mut |b, at, slots, reduced| {
                let slot = |what: StepRef| {
                    let place = mapped.iter().position(|out| *out == what)?;
                    slots.get(place).copied()
                };
                let mut given = Given {
                    reduced: reduced.or_else(|| slots.first().copied()),
                    mapped: Vec::new(),
                };
                self.map_units(b, at, &slot, &mut given);
                mapped.iter().filter_map(|out| given.out(*out)).collect()
            });
        }
        let mut values = values.into_iter();
        let all = outs.iter().map(|out| match out {
            StepRef::Reduced => Some(acc),
            StepRef::Mapped(_) => values.next(),
        });
        all.collect::<Option<_>>().unwrap_or_default()
    }

    /// A block of accumulators with all that is added as the block of the result in its place.
    fn finished_block(&self, b: &mut Builder<'_>, at: &At, acc: Value) -> Value {
        let part = self.operand(b, &self.plan.out, at);
        part.update(b, acc, &mut |b, reduced| {
            let mut given = Given {
                reduced: Some(reduced),
                mapped: Vec::new(),
            };
            self.map_units(b, at, &|_| None, &mut given);
            given.mapped.last().copied().unwrap_or(reduced)
        })
    }
}
