//! Trips of a reduction's loops that an intrinsic of several generics computes with what is before or behind.

use tir::Ir;

use super::{Target, out_order, step_candidate};
use crate::group::{Group, Step};
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
    /// What there is for a group whose reduction runs on an intrinsic.
    pub(super) fn of(
        ir: &Ir,
        group: &Group,
        target: &Target<'_>,
        assignment: &Assignment,
        joined: &[Joined],
    ) -> Self {
        let mut found = Self::default();
        let Some(start) = group.reduce.as_ref().map(|(.., start)| *start) else {
            return found;
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
            let follows = |(step, other): (&Step, &crate::sequence::Step<'_>)| {
                let ways = step_candidate(ir, group, step, joined, &mut |candidate| {
                    assignments(candidate, 0, &other.behaviour, 64).unwrap_or_default()
                });
                let here = |way: &Assignment| {
                    let last = other.behaviour.places.len() - 1;
                    Some(way.operand_dims(&other.behaviour, last)) == order
                };
                ways.iter().any(here)
            };
            let all = behind.len() == group.maps.len() && !behind.is_empty();
            let ends = all && group.maps.iter().zip(behind).all(follows);
            if !behind.is_empty() && !ends {
                continue;
            }
            let cycles = Some(target.info.intrinsics[sequence.intrinsic].cycles);
            match (begins, ends) {
                (true, false) => found.first = found.first.or(cycles),
                (false, true) => found.last = found.last.or(cycles),
                _ => {}
            }
        }
        found
    }
}

/// The step of a sequence that is what an intrinsic computes, on operands in the same spaces.
fn core(sequence: &Sequence<'_>, target: &Target<'_>, assignment: &Assignment) -> Option<usize> {
    let main = target.behaviour(assignment)?;
    let at = sequence.core()?;
    let step = &sequence.steps[at];
    let spaces = &target.info.intrinsics[assignment.intrinsic].spaces;
    let theirs = &target.info.intrinsics[sequence.intrinsic].spaces;
    let ways = match_exact(main.ir, &main.generic, &step.behaviour);
    let mut same = ways.iter().filter(|way| {
        let mut inputs = way.inputs.iter().zip(&step.inputs);
        inputs.all(|(mine, source)| match source {
            Source::Operand(operand) => spaces[main.inputs[*mine]] == theirs[*operand],
            _ => false,
        })
    });
    same.next().map(|_| at)
}
