//! The ways to use units for a group: which intrinsic computes the step that decides the tiles, which of its iterators
//! are dimensions of the unit, and what computes the steps behind.

use std::sync::Arc;

use tir::{Ir, Name, Type};
use tir_tensor::Generic;

use super::blocks::{blocks, boxes};
use super::in_place::{Over, written_over};
use super::known::Found;
use super::peel::Peel;
use super::places::held_in;
use super::quicker::needed;
use super::{Nearest, Target};
use crate::group::{Group, Input, Slot, Step};
use crate::matching::{Assignment, Behaviour, By, Candidate, Joined, Mismatch};
use crate::scalar::Scalar;

pub(super) fn scalar<'a>(ir: &'a Ir, step: &Step) -> Scalar<'a> {
    Scalar {
        ir,
        body: step.body,
        extended: false,
    }
}

/// Element types of a step's inputs.
pub(super) fn elems(ir: &Ir, group: &Group, step: &Step) -> Option<Vec<Type>> {
    let elem = |input: &Input| match input {
        Input::Operand(i) => Some(ir.ty(group.operands[*i].source).elem()),
        Input::Reduced => Some(group.reduce.as_ref()?.0.ty.elem()),
        Input::Mapped(i) => Some(group.maps.get(*i)?.ty.elem()),
    };
    step.inputs.iter().map(elem).collect()
}

/// The ways to run a step on each intrinsic, and the nearest one that does not compute it.
pub(super) fn step_assignments(
    ir: &Ir,
    group: &Group,
    step: &Step,
    target: &Target<'_>,
    joined: &[Joined],
) -> Arc<Found> {
    step_candidate(ir, group, step, joined, &mut |candidate| {
        target.known.ways(ir, candidate, target)
    })
}

/// What `with` gives for a step as something to run on a unit.
pub(super) fn step_candidate<R: Default>(
    ir: &Ir,
    group: &Group,
    step: &Step,
    joined: &[Joined],
    with: &mut dyn FnMut(&Candidate<'_>) -> R,
) -> R {
    let Some(mut elems) = elems(ir, group, step) else {
        return R::default();
    };
    elems.push(step.ty.elem());
    let mut maps = step.maps.clone();
    maps.push(group.out.clone());
    let combine = match &group.reduce {
        Some((main, combine, _)) if std::ptr::eq(main, step) => Some(*combine),
        _ => None,
    };
    let candidate = Candidate {
        scalar: scalar(ir, step),
        combine,
        elems,
        maps: &maps,
        reductions: &group.reductions[..group.core],
        joined,
    };
    with(&candidate)
}

/// The intrinsic that comes nearest to a generic, if none computes it.
pub fn nearest(ir: &Ir, generic: &Generic, target: &Target<'_>) -> Option<Nearest> {
    let known = ways(ir, generic, target)?;
    let (found, mut nearest) = (&known.0, known.1.clone());
    for vector in &target.vectors {
        if let Err(why) = vector.computes(ir, generic) {
            Nearest::improve(
                &mut nearest,
                "vector capability",
                vector.name,
                Mismatch::new(4, why),
            );
        }
    }
    nearest.filter(|_| found.is_empty())
}

/// An intrinsic that computes a generic, though not on tiles as they lie here.
pub fn otherwise(ir: &Ir, generic: &Generic, target: &Target<'_>) -> Option<Nearest> {
    let known = ways(ir, generic, target)?;
    let called = target.called(known.0.first()?)?;
    let why =
        "it computes this along other dimensions of the tiles than lie beside each other here";
    Some(Nearest {
        kind: "intrinsic",
        name: called.name,
        mismatch: Mismatch::new(0, why.to_string()),
    })
}

/// The ways to run a generic of one result on each intrinsic, and the nearest one that does not compute it.
fn ways(ir: &Ir, generic: &Generic, target: &Target<'_>) -> Option<Arc<Found>> {
    let elems = generic.operands().map(|v| ir.ty(v).elem());
    let candidate = Candidate {
        scalar: Scalar {
            ir,
            body: generic.body,
            extended: false,
        },
        combine: generic.combine,
        elems: elems.collect(),
        maps: &generic.indexing_maps,
        reductions: &generic.reductions(),
        joined: &[],
    };
    let one = generic.outputs.len() == 1;
    one.then(|| target.known.ways(ir, &candidate, target))
}

/// A way to use units.
pub(super) struct UnitChoice {
    /// How the step that decides the tiles runs.
    pub(super) assignment: Arc<Assignment>,
    /// How each elementwise step runs; none for those that find no unit, and for that step.
    pub(super) maps: Vec<Option<Assignment>>,
    /// The elementwise steps that find no intrinsic.
    pub(super) others: Vec<usize>,
    /// Whether the accumulators may become the result.
    pub(super) over: Option<Over>,
    /// The fill of a block of accumulators, if an intrinsic does it: its unit and its cycles.
    pub(super) reset: Option<(Name, i64)>,
    /// What else runs on units for each block of the result: that fill and the steps behind, each with its
    /// unit and its cycles.
    pub(super) beside: Vec<(Name, i64)>,
    /// The same where a tile has all of the reduction: less what one call does together.
    pub(super) beside_whole: Vec<(Name, i64)>,
    /// Intrinsics that do so.
    pub(super) peel: Peel,
    /// Where they want operands of the steps behind.
    pub(super) behind: Vec<(usize, Name)>,
}

/// The fill of a block of accumulators, if an intrinsic does it: its unit and its cycles.
pub(super) fn reset(
    group: &Group,
    target: &Target<'_>,
    assignment: &Assignment,
) -> Option<(Name, i64)> {
    let (step, _, start) = group.reduce.as_ref()?;
    let main = target.called(assignment)?;
    let sizes = main.result();
    let fills = |behaviour: &Behaviour<'_>| {
        let generic = &behaviour.generic;
        let ty = behaviour.ir.ty(*generic.outputs.first()?);
        let same = ty.elem() == step.ty.elem() && ty.shape() == Some(&sizes[..]);
        Some(same && generic.constant(behaviour.ir)? == *start)
    };
    let all = target.behaviours.iter().zip(&target.info.intrinsics);
    let mut found = all.filter(|(behaviour, info)| {
        let behaviour = behaviour.as_ref().ok();
        info.spaces.first() == Some(&main.held()) && behaviour.and_then(fills) == Some(true)
    });
    let called = found.next().map(|(_, info)| (info.unit, info.cycles));
    // As `tensorize` chooses: a vector unit that is quicker.
    let all = called
        .into_iter()
        .chain(boxes(target, main.held(), step.ty.elem(), &sizes));
    all.min_by_key(|(_, cycles)| *cycles)
}

/// How the points of a group are computed.
pub(super) enum Way {
    /// On a unit.
    Unit(UnitChoice),
    /// Not at all: elements are moved through tiles whose dimensions are iterators in this order.
    Moved(Vec<usize>),
    /// Step by step over whole tiles: on a vector unit that computes the step, else one by one by the
    /// thread.
    Whole,
    /// In the space behind, through which these tiles are cut once more; cycles of all points there.
    Staged(i64),
}

impl Way {
    pub(super) fn unit(&self) -> Option<&UnitChoice> {
        match self {
            Way::Unit(choice) => Some(choice),
            _ => None,
        }
    }
}

/// The iterators that each dimension of a unit's result counts.
pub(crate) fn out_order(target: &Target<'_>, assignment: &Assignment) -> Option<Vec<Vec<usize>>> {
    Some(assignment.operand_dims(target.called(assignment)?.places.last()?))
}

/// The ways to run a step; none for the step that decides the tiles.
type StepWays = Option<Arc<Found>>;

/// The ways to use units for a group: with one iterator for each of a unit, or with those of `joined`
/// that are one together.
pub(super) fn candidates(
    ir: &Ir,
    group: &Group,
    target: &Target<'_>,
    joined: &[Joined],
) -> (Vec<UnitChoice>, Option<Nearest>) {
    let Some(main) = group.main() else {
        return (Vec::new(), None);
    };
    let found = step_assignments(ir, group, main, target, joined);
    let (all, nearest) = (&found.0, found.1.clone());
    let cut = match all.is_empty() && joined.is_empty() && !group.moves(ir) {
        true => blocks(ir, group, main, target),
        false => Vec::new(),
    };
    let all = needed(group, target, all).into_iter().chain(&cut);
    let all = all.filter(|assignment| assignment.is_joined() != joined.is_empty());
    let others: Vec<Option<&Step>> = (group.maps.iter())
        .map(|step| Some(step).filter(|step| !std::ptr::eq(*step, main)))
        .collect();
    let over = written_over(ir, group, target).filter(|over| over.input == Input::Reduced);
    // Steps behind find the same ways as long as the same iterators are one.
    let mut known: Option<(Vec<Joined>, Vec<StepWays>)> = None;
    // Of what is computed into a tile, the unit's result is the last dimensions.
    let places = group.into.as_ref().map(|_| group.out.as_projection());
    let rows = group.into.as_ref().filter(|slot| slot.rows > 1);
    let in_slot = |order: &[Vec<usize>]| match &places {
        Some(places) => places.as_ref().is_some_and(|places| {
            let last = places.iter().rev().zip(order.iter().rev());
            order.len() <= places.len() && last.into_iter().all(|(d, dims)| dims[..] == [*d])
        }),
        None => true,
    };
    let choice = |assignment: &Assignment| {
        let order = out_order(target, assignment).filter(|order| in_slot(order))?;
        let result = target.called(assignment)?.result();
        let short = matches!(assignment.by, By::Vector(_)) && result.len() < 2;
        let other =
            |slot: &&Slot| result.len() != slot.rank || result.first() != Some(&slot.rows) || short;
        if rows.filter(other).is_some() {
            return None;
        }
        let held = held_in(target, main, assignment)?;
        let together = |dims: &&Joined| dims.len() > 1;
        let together: Vec<Joined> = assignment
            .unit_dims
            .iter()
            .filter(together)
            .cloned()
            .collect();
        if known.as_ref().is_none_or(|(of, _)| *of != together) {
            let ways = |step: &Option<&Step>| {
                Some(step_assignments(ir, group, (*step)?, target, &together))
            };
            known = Some((together.clone(), others.iter().map(ways).collect()));
        }
        let (_, behind) = known.as_ref()?;
        let sizes = |a: &Assignment| -> Vec<Joined> {
            let dims = a.unit_dims.iter().filter(|dims| dims.len() > 1);
            dims.cloned().collect()
        };
        let fits = |step: &Step, a: &Assignment| {
            let same = |dims: &Joined| together.contains(dims);
            held_in(target, step, a) == Some(held)
                && out_order(target, a).as_ref() == Some(&order)
                && sizes(a).iter().all(same)
        };
        let way = |(ways, step): (&StepWays, &Step)| {
            ways.as_ref()?.0.iter().find(|a| fits(step, a)).cloned()
        };
        let steps = behind.iter().zip(&group.maps);
        let maps: Vec<Option<Assignment>> = steps.map(way).collect();
        let steps = behind.iter().zip(&maps).enumerate();
        let alone = steps.filter(|(_, (step, way))| step.is_some() && way.is_none());
        let others = alone.map(|(i, _)| i).collect();
        let behind = maps.iter().flatten().filter_map(|way| {
            let called = target.called(way)?;
            Some((called.unit, called.cycles))
        });
        let (reset, behind) = (reset(group, target, assignment), behind.collect::<Vec<_>>());
        let (mut peel, wanted) = Peel::of(ir, group, target, assignment, &together);
        let each = target.called(assignment)?;
        if let (By::Vector(_), Some(_)) = (&assignment.by, &group.reduce) {
            // The first trip combines its values with a constant instead of an accumulator.
            peel.first = Some(each.cycles);
        }
        let more = |cycles: Option<i64>| cycles.map(|cycles| (each.unit, cycles - each.cycles));
        let (first, last) = (more(peel.first).or(reset), more(peel.last));
        let all = first.into_iter().chain(last);
        let behind_whole = behind.iter().filter(|_| last.is_none());
        Some(UnitChoice {
            reset,
            beside_whole: all.chain(behind_whole.copied()).collect(),
            beside: reset.into_iter().chain(behind).collect(),
            peel,
            behind: wanted,
            assignment: Arc::new(assignment.clone()),
            maps,
            others,
            over,
        })
    };
    (all.filter_map(choice).collect(), nearest)
}
