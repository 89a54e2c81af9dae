//! Groups that differ in their elementwise steps alone: what is known of one bounds another.
//!
//! A product with a bias, the same with a rectifier behind it and the same with what it adds in another order read the same tiles
//! and store the same ones. Where each step of one takes no more of the machine than a step of the other, no division of the other
//! takes less than that division of the one does. So where the other takes as much on the tiles that are best for the one, those
//! are best for it, too, and no others are looked at. Which plan a group has does not depend on what was planned before: it is the
//! one that [`plan`] finds.

use std::hash::BuildHasher;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;
use tir::pass::Memo;
use tir::{Ir, Name, Type};

use super::search::{Search, divisions};
use super::sizes::joined;
use super::unit::{UnitChoice, Way, candidates};
use super::vectors::Vectors;
use super::{
    Budget, Lanes, Nearest, Plan, Target, TooLarge, cycles_of_calls, found, plan, sources,
    written_over,
};
use crate::group::{Group, Input, Signature};
use crate::matching::Assignment;

/// Plans of groups by what they have in common.
#[derive(Default)]
pub struct Siblings(Memo<Signature, Vec<Sibling>>);

/// A group that was planned.
type Sibling = Arc<(Steps, Plan)>;

/// What a machine makes of the steps of a group.
struct Steps {
    ways: Vec<OnWay>,
    maps: Vec<Map>,
    /// Whether the only elementwise step writes over what was accumulated, or over an operand; and whether it can do nothing else.
    over: Option<(bool, bool)>,
    /// Cycles of the thread where no unit computes the group.
    thread: i64,
    /// The intrinsic that comes nearest.
    nearest: Option<Nearest>,
}

/// The same beside a way to compute the step that decides the tiles.
struct OnWay {
    assignment: Assignment,
    /// Cycles for each block of the result by unit: in tiles of a part of a reduction, and of all of it.
    beside: [Vec<(Name, i64)>; 2],
    /// Cycles of the calls that take the first and the last part of a reduction.
    ends: [Option<i64>; 2],
    /// Whether the accumulators may become the result, and whether they have to.
    over: Option<bool>,
    /// The spaces where steps behind want operands.
    behind: Vec<Name>,
    /// Cycles of the thread, and with those of the unit's calls at least.
    thread: [i64; 2],
}

/// An elementwise step.
struct Map {
    ty: Type,
    /// What it reads: operands by what they are, 0 for what other steps compute.
    reads: Vec<u64>,
    /// On each vector capability, cycles of a vector and to fold its lanes.
    vectors: Vec<Option<(i64, Option<i64>)>>,
}

/// Takes a partner of each from others, each once; whether all have one.
fn all_paired<T>(all: &[T], others: &[T], fit: impl Fn(&T, &T) -> bool) -> bool {
    let mut left: Vec<&T> = others.iter().collect();
    all.iter().all(|own| {
        let at = left.iter().position(|other| fit(own, other));
        at.map(|at| left.remove(at)).is_some()
    })
}

/// Whether a step has a choice that another one has: what it writes over, if anything, and whether it has to.
fn is_freer(own: Option<bool>, other: Option<bool>) -> bool {
    own == other || own == Some(false) && other.is_none()
}

impl Map {
    /// Whether this takes no more of vector units than another step.
    fn is_less(&self, other: &Self) -> bool {
        let by_others = |step: &Self| step.vectors.iter().all(Option::is_none);
        if by_others(self) && by_others(other) {
            return self.ty == other.ty;
        }
        let mut vectors = self.vectors.iter().zip(&other.vectors);
        let cheaper = vectors.all(|(own, other)| match (own, other) {
            (Some((own, fold)), Some((other, folds))) => own <= other && fold == folds,
            (own, other) => own.is_some() == other.is_some(),
        });
        self.ty == other.ty
            && cheaper
            && all_paired(&self.reads, &other.reads, |own, other| own == other)
    }
}

impl OnWay {
    fn of(choice: UnitChoice, group: &Group, target: &Target<'_>, by_thread: &[i64]) -> Self {
        let sums = |all: &[(Name, i64)]| {
            let mut sums: Vec<(Name, i64)> = Vec::new();
            for (unit, cycles) in all {
                match sums.iter_mut().find(|(of, _)| of == unit) {
                    Some((_, sum)) => *sum += cycles,
                    None => sums.push((*unit, *cycles)),
                }
            }
            sums
        };
        let mut behind: Vec<Name> = choice.behind.iter().map(|(_, space)| *space).collect();
        behind.sort_unstable();
        let left = choice.others.iter().map(|step| by_thread[*step]);
        let thread = left.fold(0, i64::saturating_add);
        let calls = cycles_of_calls(&choice, group, target);
        let held = target
            .called(&choice.assignment)
            .map(|called| called.held());
        let assignment = (*choice.assignment).clone();
        let beside = [sums(&choice.beside), sums(&choice.beside_whole)];
        let (ends, over) = (
            [choice.peel.first, choice.peel.last],
            choice.over.map(|over| over.only),
        );
        let lanes = held.map(|held| Lanes::of(target, &Way::Unit(choice), held));
        let calls = lanes.map_or(0, |lanes| lanes.least(calls));
        Self {
            assignment,
            beside,
            ends,
            over,
            behind,
            thread: [thread, thread.saturating_add(calls)],
        }
    }

    /// Whether, of what takes fewer cycles than `most`, nothing takes more than beside another one.
    fn is_less(&self, other: &Self, most: i64) -> bool {
        let mut beside = self.beside.iter().zip(&other.beside);
        let alike = self.assignment == other.assignment
            && self.ends == other.ends
            && is_freer(self.over, other.over)
            && self.behind == other.behind;
        alike
            && (self.thread[0] <= other.thread[0] || other.thread[1] >= most)
            && beside.all(|(own, other)| {
                all_paired(own, other, |(unit, own), (of, other)| {
                    unit == of && own <= other
                })
            })
    }
}

impl Steps {
    fn of(ir: &Ir, group: &Group, target: &Target<'_>) -> Self {
        let (units, nearest) = candidates(ir, group, target, &[]);
        let vectors = Vectors::new(ir, group, target);
        let over = written_over(ir, group, target);
        let (of_sum, by_thread) = vectors.left_to_thread(group, target);
        let ways = units.into_iter();
        let ways = ways.map(|choice| OnWay::of(choice, group, target, &by_thread));
        let maps = group.maps.iter().zip(vectors.maps());
        let maps = maps.map(|(step, vectors)| {
            let reads = step.inputs.iter();
            Map {
                ty: step.ty,
                reads: reads.map(|input| what(ir, group, *input)).collect(),
                vectors,
            }
        });
        Self {
            ways: ways.collect(),
            maps: maps.collect(),
            over: over.map(|over| (over.input == Input::Reduced, over.only)),
            thread: by_thread.iter().copied().fold(of_sum, i64::saturating_add),
            nearest,
        }
    }

    /// Whether, of what takes fewer cycles than `most`, nothing takes more than with other steps.
    fn are_less(&self, others: &Self, most: i64) -> bool {
        let mut ways = self.ways.iter().zip(&others.ways);
        let reduced = |steps: &Self| steps.over.map(|(reduced, _)| reduced);
        let only = |steps: &Self| steps.over.map(|(_, only)| only);
        (reduced(self) == reduced(others) || others.over.is_none())
            && is_freer(only(self), only(others))
            && self.ways.len() == others.ways.len()
            && ways.all(|(own, other)| own.is_less(other, most))
            && (self.thread <= others.thread || others.thread >= most)
            && all_paired(&self.maps, &others.maps, Map::is_less)
    }
}

/// What an input of a step is, whatever its number.
fn what(ir: &Ir, group: &Group, input: Input) -> u64 {
    match input {
        Input::Operand(i) => FxBuildHasher.hash_one(group.operand_signature(ir, i)),
        Input::Reduced | Input::Mapped(_) => 0,
    }
}

impl Siblings {
    /// The quickest plan for a group, by estimate, as [`plan`] finds it: on the tiles of a group like it where those are known to be
    /// best.
    ///
    /// # Errors
    /// As [`plan`] has them.
    pub fn plan(
        &self,
        ir: &Ir,
        group: &Group,
        target: &Target<'_>,
        budget: Budget,
    ) -> Result<Plan, TooLarge> {
        let alike = budget.listed == 0 && target.inner.is_none() && !group.moves(ir);
        let Some(frame) = alike.then(|| group.frame(ir)).flatten() else {
            return plan(ir, group, target, budget);
        };
        let steps = Steps::of(ir, group, target);
        let known = self.0.get(&frame).unwrap_or_default();
        let known = known.iter().map(|sibling| (&sibling.0, &sibling.1));
        let less = known.filter(|(other, plan)| other.are_less(&steps, plan.cycles));
        // What bounds most: of the others none is as good.
        let most = less.max_by_key(|(_, plan)| (plan.cycles, plan.bytes));
        let found = most.and_then(|(_, other)| as_good(ir, group, (target, budget), &steps, other));
        let found = match found {
            Some(found) => found,
            None => plan(ir, group, target, budget)?,
        };
        self.0.push(frame, Arc::new((steps, found.clone())));
        Ok(found)
    }
}

/// The plan of a group on the tiles of another one, if it takes as much there as that.
fn as_good(
    ir: &Ir,
    group: &Group,
    (target, budget): (&Target<'_>, Budget),
    steps: &Steps,
    other: &Plan,
) -> Option<Plan> {
    let mut search = Search::new(ir, group, target, budget);
    search.only = Some(other.space.tile.clone());
    let elems = sources(ir, group);
    let way = match &other.unit {
        Some(unit) => {
            let joined = [Vec::new(), joined(group, target)].into_iter();
            let mut choices = joined.flat_map(|joined| candidates(ir, group, target, &joined).0);
            Way::Unit(choices.find(|choice| choice.assignment == *unit)?)
        }
        None if steps.ways.is_empty() && !other.moves => Way::Whole,
        None => return None,
    };
    divisions(group, target, &way, &elems, &mut search);
    // What takes less shows that the other bounds nothing. Of plans that take as long the one of the fewest bytes is taken: others of
    // this group have no fewer than those of the other, and so than this one has.
    let best = search.best.as_ref()?;
    if (best.cycles, best.bytes) != (other.cycles, other.bytes) {
        return None;
    }
    let by_unit = (way.unit().is_some(), steps.nearest.clone());
    found(ir, group, target, search, by_unit).ok()
}
