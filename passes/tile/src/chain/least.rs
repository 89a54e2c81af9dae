//! What the groups before a root take at the least, before any of them is planned.
//!
//! A stage computes each of its points, if all of its result is read, and no unit takes fewer cycles for a point than in full
//! blocks. Inside of a loop that does not move the tile which it computes for, it computes all of them in each trip; in one that
//! does, the tile in whole calls, but for rows that stay. So a division of the root for which that takes too long is passed over:
//! most divisions of a root are far slower than the quickest, and each gives its producers tiles that nobody has planned yet.
//!
//! What is read of far memory is loaded once, and again in each trip of a loop that does not move it if there is no room for all
//! of it inside of that loop.
//!
//! On a processor that does one thing after the other a nest takes what all its stages compute together; elsewhere what is busy
//! longest of the units and the engine that loads.

use std::collections::HashSet;

use tir::{Name, Value};

use super::stage::Context;
use crate::group::{Group, Operand};
use crate::layout::Dim;
use crate::plan::{Least, Plan, least};

/// What is computed for a root.
pub(super) struct Others<'a> {
    /// Whether all is done one after the other.
    in_order: bool,
    root: &'a Group,
    stages: Vec<Stage<'a>>,
    leaves: Vec<Leaf>,
    /// Bytes of near memory that tiles may take.
    free: i64,
    /// Bytes that an engine loads in a cycle.
    rate: i64,
    /// How many cycles more each one of an engine counts as.
    worth: i64,
}

/// What stages read of far memory.
struct Leaf {
    source: Value,
    /// Bytes of it that are read at the least.
    bytes: i64,
    /// The operand of the root that is computed from it, and in which of its dimensions other parts of this are read, if it is read
    /// for that one alone.
    moves: Option<(usize, Vec<bool>)>,
}

/// A group that computes a tensor, or a part of it, of which all is read.
struct Stage<'a> {
    group: &'a Group,
    tensor: Value,
    /// The operand of the root that it computes for, if that is the only one.
    operand: Option<usize>,
    /// Whether that operand is what it computes.
    whole: bool,
    ways: Vec<Least>,
}

impl<'a> Others<'a> {
    /// What others compute for a root.
    pub(super) fn of(cx: &Context<'a>, root: &'a Group) -> Self {
        let mut stages: Vec<Stage<'_>> = Vec::new();
        let mut leaves = Vec::new();
        let mut work: Vec<(&Group, Option<usize>)> = vec![(root, None)];
        while let Some((reader, of)) = work.pop() {
            for (number, operand) in reader.operands.iter().enumerate() {
                let Some(makers) = cx.makers.get(&operand.source) else {
                    continue;
                };
                // What is changed on its way may be less.
                let changed = makers.iter().any(|maker| maker.between.is_some());
                if changed || !reads_all(reader, operand) {
                    continue;
                }
                let tensor = operand.source;
                let mut again = stages.iter_mut().filter(|s| s.tensor == tensor).peekable();
                if again.peek().is_some() {
                    again.for_each(|stage| stage.operand = None);
                    continue;
                }
                for maker in makers {
                    let group = maker.group;
                    stages.push(Stage {
                        group,
                        tensor,
                        operand: of.or(Some(number)),
                        whole: of.is_none() && makers.len() == 1 && maker.at.is_empty(),
                        ways: least(cx.ir, group, cx.target),
                    });
                    work.push((group, of.or(Some(number))));
                }
            }
        }
        let of_root = Leaf::of(cx, root, None);
        let of_stages = stages
            .iter()
            .map(|stage| Leaf::of(cx, stage.group, stage.through()));
        for leaf in of_stages.fold(of_root, |all, some| all.into_iter().chain(some).collect()) {
            match leaves
                .iter_mut()
                .find(|other: &&mut Leaf| other.source == leaf.source)
            {
                Some(other) => {
                    other.bytes = other.bytes.max(leaf.bytes);
                    other.moves = None;
                }
                None => leaves.push(leaf),
            }
        }
        let rates = cx.target.loads().map(|engine| engine.bytes_per_cycle);
        Self {
            in_order: cx.target.info.in_order,
            root,
            stages,
            leaves,
            free: cx.budget.free(cx.target.near),
            rate: rates.max().unwrap_or(0).max(1),
            worth: cx.budget.worth,
        }
    }

    /// Cycles of a nest at the least that ends in the root with a plan; 0 where nothing is known.
    pub(super) fn least(&self, plan: &Plan) -> i64 {
        let of = |stage: &Stage<'_>| stage.least(self.root, plan);
        if self.in_order {
            let units = self.stages.iter().map(|stage| {
                let least = of(stage).into_iter().map(|(_, cycles)| cycles).min();
                least.unwrap_or(0)
            });
            let others = units.fold(0, i64::saturating_add);
            // What stays near is not loaded again; what is computed is computed.
            let root = plan.cycles - plan.cost.load;
            return if others > 0 {
                root.saturating_add(others)
            } else {
                0
            };
        }
        let mut busy = plan.busy.clone();
        // An engine may fill the accumulators in place of a unit.
        if let Some((unit, fills)) = plan.resets
            && let Some((_, sum)) = busy.iter_mut().find(|(name, _)| *name == unit)
        {
            *sum -= fills;
        }
        // What may run on several units keeps none of them busy for certain.
        for stage in &self.stages {
            let [(unit, cycles)] = of(stage)[..] else {
                continue;
            };
            match busy.iter_mut().find(|(name, _)| *name == unit) {
                Some((_, sum)) => *sum = sum.saturating_add(cycles),
                None => busy.push((unit, cycles)),
            }
        }
        let longest = busy.into_iter().map(|(_, cycles)| cycles).max();
        let loads = self.leaves.iter().map(|leaf| {
            let times = leaf.times(plan, self.free);
            leaf.bytes.saturating_mul(times) / self.rate
        });
        let loads = loads.fold(0, i64::saturating_add);
        let more = loads.saturating_mul(self.worth);
        longest.unwrap_or(0).max(loads).saturating_add(more)
    }
}

impl Leaf {
    /// What a group reads of far memory that is known; `through` says for which operand of the root it computes, and which of
    /// its iterators count each dimension of that.
    fn of(cx: &Context<'_>, group: &Group, through: Option<(usize, Vec<Vec<usize>>)>) -> Vec<Self> {
        let far = group.operands.iter().filter(|operand| {
            let made = cx.makers.contains_key(&operand.source);
            let moved = operand.inner.is_none() && operand.diagonal.is_none();
            let near = operand.near || cx.homes.contains_key(&operand.source);
            !made && moved && !near && reads_all(group, operand)
        });
        let leaf = |operand: &Operand| {
            let elem = cx.ir.ty(operand.source).elem().bytes()? as i64;
            let bytes = operand
                .shape
                .iter()
                .copied()
                .fold(elem, i64::saturating_mul);
            let uses = |d: &usize| operand.map.exprs.iter().any(|at| at.uses(*d));
            let moves = |(number, digits): &(usize, Vec<Vec<usize>>)| {
                let any = |of: &Vec<usize>| of.iter().any(uses);
                (*number, digits.iter().map(any).collect())
            };
            Some(Self {
                source: operand.source,
                bytes,
                moves: through.as_ref().map(moves),
            })
        };
        far.filter_map(leaf).collect()
    }

    /// How often it is loaded at the least for a root with a plan.
    fn times(&self, plan: &Plan, free: i64) -> i64 {
        let Some((operand, moves)) = &self.moves else {
            return 1;
        };
        let (tile, space) = (&plan.tiles[*operand], &plan.space);
        // What there is of it inside of a loop.
        let (mut inside, mut times) = (self.bytes, 1i64);
        for d in plan.order.iter().take(plan.level(*operand)) {
            let mut read = tile.forms.iter().zip(moves);
            if read.any(|(form, moves)| *moves && form.at(*d) != 0) {
                inside /= space.trips(*d).max(1);
            } else if inside > free {
                times = times.saturating_mul(space.trips(*d));
            }
        }
        times
    }
}

impl Stage<'_> {
    /// The operand of the root that it computes alone, and which of its iterators count each dimension of that.
    fn through(&self) -> Option<(usize, Vec<Vec<usize>>)> {
        let operand = self.operand.filter(|_| self.whole)?;
        Some((operand, self.group.digits()?))
    }

    /// The least that each unit takes which may compute it, for a root with a plan.
    fn least(&self, root: &Group, plan: &Plan) -> Vec<(Name, i64)> {
        let (times, parts) = match self.operand {
            Some(operand) => (again(plan, operand), self.parts(root, plan, operand)),
            None => (1, None),
        };
        let split = self.operand.is_some_and(|operand| is_split(plan, operand));
        let mut least: Vec<(Name, i64)> = Vec::new();
        for way in &self.ways {
            let all = way.all(self.group).saturating_mul(times);
            let tiles = parts
                .iter()
                .flatten()
                .map(|(points, times)| way.parts(self.group, points, *times, split));
            let cycles = all.max(tiles.min().unwrap_or(0));
            match least.iter_mut().find(|(unit, _)| *unit == way.unit) {
                Some((_, least)) => *least = cycles.min(*least),
                None => least.push((way.unit, cycles)),
            }
        }
        least
    }

    /// Points of each of its iterators that it computes for a tile, and for how many: with all rows of windows, and where
    /// those stay that were read before.
    fn parts(&self, root: &Group, plan: &Plan, operand: usize) -> Option<Vec<(Vec<i64>, i64)>> {
        let (_, digits) = self.through()?;
        let (tile, space) = (&plan.tiles[operand], &plan.space);
        let shape = &root.operands[operand].shape;
        let around = || plan.order.iter().take(plan.level(operand));
        let trips = around().fold(1, |all: i64, d| all.saturating_mul(space.trips(*d)));
        let with = |ring: Option<(usize, i64)>| {
            let mut points = self.group.domain[..self.group.core].to_vec();
            for (s, of) in digits.iter().enumerate() {
                let dims = tile.dims.iter().enumerate();
                let dims = dims.filter(|(_, dim)| dim.source.0 == s && dim.source.1 != 0);
                let sizes = dims.map(|(t, dim)| match ring {
                    Some((at, step)) if at == t => step,
                    _ => dim.size,
                });
                let mut all = sizes.fold(1, i64::saturating_mul).min(shape[s]);
                // What is not a whole number of groups has no less of them.
                for d in of.iter().rev() {
                    let size = self.group.domain[*d];
                    points[*d] = all.min(size);
                    all = all.div_euclid(size) + i64::from(all % size != 0);
                }
            }
            (points, trips)
        };
        let rings = around().filter_map(|d| tile.ring(space, *d));
        Some(
            std::iter::once(None)
                .chain(rings.map(Some))
                .map(with)
                .collect(),
        )
    }
}

/// Whether a dimension of an operand has several dimensions in its tile: what computes that has an iterator for each.
fn is_split(plan: &Plan, operand: usize) -> bool {
    let dims = &plan.tiles[operand].dims;
    let moving = |dim: &&Dim| dim.size > 1 && dim.source.1 != 0;
    let mut seen = HashSet::new();
    let mut moving = dims.iter().filter(moving);
    moving.any(|dim| !seen.insert(dim.source.0))
}

/// How often all of what an operand's tiles are cut from is computed at the least: in each trip of loops that do not move them.
fn again(plan: &Plan, operand: usize) -> i64 {
    let (tile, space) = (&plan.tiles[operand], &plan.space);
    let around = plan.order.iter().take(plan.level(operand));
    let still = around.filter(|d| !tile.moves_with(space, **d));
    still.fold(1, |all, d| all.saturating_mul(space.trips(*d)))
}

/// Whether the points of a group read every element of an operand.
fn reads_all(reader: &Group, operand: &Operand) -> bool {
    let Some(forms) = operand.map.linear().filter(|_| operand.inner.is_none()) else {
        return false;
    };
    let mut used = HashSet::new();
    forms.iter().zip(&operand.shape).all(|(form, size)| {
        let mut terms: Vec<(usize, i64)> = form.terms().collect();
        terms.sort_by_key(|(_, step)| step.abs());
        // What moves along two dimensions does not reach all pairs of places.
        let alone = terms.iter().all(|(d, _)| used.insert(*d));
        let mut reach = 0i64;
        let dense = terms.iter().all(|(d, step)| {
            let next = *step > 0 && *step <= reach.saturating_add(1);
            reach = reach.saturating_add(step.saturating_mul(reader.domain[*d] - 1));
            next
        });
        let ends = form.constant <= 0 && form.constant.saturating_add(reach) >= size - 1;
        alone && dense && ends
    })
}
