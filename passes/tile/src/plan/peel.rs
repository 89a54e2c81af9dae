//! Trips of a reduction's loops that an intrinsic of several generics computes with what is before or behind.

use tir::{Ir, Name};

use super::Target;
use super::unit::{out_order, step_candidate};
use crate::group::{Group, Input, Step};
use crate::matching::{Assignment, Joined, assignments, match_exact};
use crate::sequence::{Sequence, Source};

/// Cycles of the calls that take a step of the reduction together with others, where there are such
/// intrinsics.
#[derive(Clone, Copy, Default, Debug)]
pub struct Peel {
    /// The first one, with the fill of the accumulators before it.
    pub first: Option<i64>,
    /// The last one, with all elementwise steps behind it.
    pub last: Option<i64>,
}

impl Peel {
    /// What there is for a group whose reduction runs on an intrinsic, and where the steps behind then want
    /// operands.
    pub(super) fn of(
        ir: &Ir,
        group: &Group,
        target: &Target<'_>,
        assignment: &Assignment,
        joined: &[Joined],
    ) -> (Self, Vec<(usize, Name)>) {
        let (mut found, mut wanted) = (Self::default(), Vec::new());
        let Some(start) = group.reduce.as_ref().map(|(.., start)| *start) else {
            return (found, wanted);
        };
        for sequence in target.sequences.iter() {
            let Some(core) = core(sequence, target, assignment) else {
                continue;
            };
            let (before, behind) = (&sequence.steps[..core], &sequence.steps[core + 1..]);
            let begins = match before {
                [] => false,
                [fill] if fill.fills() == Some(start) => true,
                _ => continue,
            };
            let order = out_order(target, assignment);
            let spaces = &target.info.intrinsics[sequence.intrinsic].spaces;
            let mut here = Vec::new();
            let mut follows = |(step, other): (&Step, &crate::sequence::Step<'_>)| {
                let ways = step_candidate(ir, group, step, joined, &mut |candidate| {
                    assignments(candidate, 0, &other.behaviour, 64).unwrap_or_default()
                });
                let same = |way: &&Assignment| {
                    let places = other.behaviour.places.last();
                    places.map(|places| way.operand_dims(places)) == order
                };
                let Some(way) = ways.iter().find(same) else {
                    return false;
                };
                for (input, at) in step.inputs.iter().zip(&way.inputs) {
                    if let (Input::Operand(i), Source::Operand(o)) = (input, other.inputs[*at]) {
                        here.push((*i, spaces[o]));
                    }
                }
                true
            };
            let all = behind.len() == group.maps.len() && !behind.is_empty();
            let ends = all && group.maps.iter().zip(behind).all(&mut follows);
            if !behind.is_empty() && !ends {
                continue;
            }
            let cycles = Some(target.info.intrinsics[sequence.intrinsic].cycles);
            match (begins, ends) {
                (true, false) => found.first = found.first.or(cycles),
                (false, true) if found.last.is_none() => (found.last, wanted) = (cycles, here),
                _ => {}
            }
        }
        (found, wanted)
    }
}

/// The step of a sequence that is what an intrinsic computes, on operands in the same spaces.
fn core(sequence: &Sequence<'_>, target: &Target<'_>, assignment: &Assignment) -> Option<usize> {
    let main = target.behaviour(assignment)?;
    let at = sequence.core()?;
    let step = &sequence.steps[at];
    let spaces = &target.info.intrinsics[assignment.intrinsic()?].spaces;
    let theirs = &target.info.intrinsics[sequence.intrinsic].spaces;
    let ways = match_exact(main.ir, &main.generic, &step.behaviour);
    // What is computed lies in one space.
    let place = |step: usize| match sequence.place(step) {
        Source::Operand(operand) => theirs[operand] == spaces[0],
        _ => true,
    };
    if !(0..sequence.steps.len()).all(place) {
        return None;
    }
    let mut same = ways.iter().filter(|way| {
        let mut inputs = way.inputs.iter().zip(&step.inputs);
        inputs.all(|(mine, source)| match source {
            Source::Operand(operand) => spaces[main.inputs[*mine]] == theirs[*operand],
            _ => false,
        })
    });
    same.next().map(|_| at)
}
