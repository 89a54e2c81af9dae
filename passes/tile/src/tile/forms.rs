//! Other forms of a function that compute the same, taken where its nests are quicker by the estimate.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tir::{Ir, OpId};

use super::edits::drop_empty;
use super::plans::Plans;
use super::{Known, singles, whole};
use crate::apart::Apart;
use crate::behind::Behind;
use crate::chain::{Limits, Single, partition};
use crate::plan::{Budget, Price, Target};
use crate::steps::{Steps, candidates, split};
use crate::strides::Strides;

/// Another form of a function that computes the same.
enum Form {
    Behind(Behind),
    Apart(Apart),
    Strides(Strides),
}

impl Form {
    /// All of one change, in order.
    fn of(func: &Ir, target: &Target<'_>, strides: bool) -> Vec<Self> {
        let behind = crate::behind::candidates(func).into_iter();
        let apart = crate::apart::candidates(func).into_iter();
        let strides = strides.then(|| crate::strides::candidates(func, target));
        let strides = strides.into_iter().flatten();
        let forms = behind.map(Self::Behind).chain(apart.map(Self::Apart));
        forms.chain(strides.map(Self::Strides)).collect()
    }

    fn apply(&self, func: &mut Ir, group: &mut HashMap<OpId, usize>) {
        match self {
            Self::Behind(behind) => crate::behind::apply(func, behind, group),
            Self::Apart(apart) => crate::apart::split(func, apart, group),
            Self::Strides(strides) => crate::strides::apply(func, strides, group),
        }
    }
}

/// Makes steps of elementwise nests where their groups, each alone, are quicker.
pub(super) fn in_steps(
    func: &mut Ir,
    group: &mut HashMap<OpId, usize>,
    target: &Target<'_>,
    budget: Budget,
    known: &Known,
) {
    if target.inner.is_some() {
        return;
    }
    let all = candidates(func, target);
    if all.is_empty() {
        return;
    }
    let of = |nests: &[Alone], op: &OpId| nests.iter().position(|(ops, _)| ops.contains(op));
    // Each way of all nests at once, with what was made of each nest.
    let mut tried: Vec<(usize, Vec<Alone>, Vec<Vec<OpId>>)> = Vec::new();
    for way in 0..all.iter().map(Steps::ways).max().unwrap_or(0) {
        let (mut other, mut own, _) = copied(func, group);
        let mut made = Vec::new();
        for steps in candidates(&mut other, target) {
            let way = way.min(steps.ways() - 1);
            made.push(split(&mut other, &steps, way, &mut own));
        }
        let then = alone(&other, &own, target, budget, known);
        tried.extend(then.map(|then| (way, then, made)));
    }
    // The quickest way of each place, for all nests there, where it takes less than the place does as it is.
    let quickest = |places: &[Option<usize>], as_it_is: &dyn Fn(Option<usize>) -> i64| {
        let mut best: BTreeMap<Option<usize>, (i64, usize)> = BTreeMap::new();
        for (way, then, made) in &tried {
            for place in places.iter().collect::<BTreeSet<_>>() {
                let own = places.iter().zip(made).filter(|(other, _)| *other == place);
                let nests = own.flat_map(|(_, made)| made);
                let nests: BTreeSet<usize> = nests.filter_map(|op| of(then, op)).collect();
                let cycles = nests.iter().map(|nest| then[*nest].1);
                let cycles = cycles.fold(0, i64::saturating_add);
                let least = best.get(place).map(|(cycles, _)| *cycles);
                if cycles < least.unwrap_or_else(|| as_it_is(*place)) {
                    best.insert(*place, (cycles, *way));
                }
            }
        }
        best
    };
    // Groups are not planned as they are where the thread alone would take longer: that is what takes longest to plan. Each nest is
    // a place by itself then, so no two are of one group.
    let numbers: HashSet<usize> = all
        .iter()
        .filter_map(|steps| group.get(&steps.op).copied())
        .collect();
    let grouped = all.iter().filter(|steps| group.contains_key(&steps.op));
    let bounds = all.iter().map(|steps| steps.by_thread(func, group, target));
    let bounds: Option<Vec<i64>> = bounds.collect();
    let bounds = bounds.filter(|_| numbers.len() == grouped.count());
    let apart: Vec<Option<usize>> = (0..all.len()).map(Some).collect();
    let sure = bounds.map(|least| quickest(&apart, &|place| place.map_or(i64::MAX, |i| least[i])));
    let (places, best) = match sure.filter(|best| best.len() == all.len()) {
        Some(best) => (apart, best),
        None => {
            // What does not fit as it is takes any number of cycles.
            let before = alone(func, group, target, budget, known).unwrap_or_default();
            let places: Vec<Option<usize>> =
                all.iter().map(|steps| of(&before, &steps.op)).collect();
            let best = quickest(&places, &|place| {
                place.map_or(i64::MAX, |place| before[place].1)
            });
            (places, best)
        }
    };
    for (steps, place) in all.iter().zip(&places) {
        if let Some((_, way)) = best.get(place) {
            split(func, steps, *way.min(&(steps.ways() - 1)), group);
        }
    }
}

/// The ops of a group, and the cycles that it takes alone.
type Alone = (HashSet<OpId>, i64);

/// The groups of a function and the cycles of each alone; `None` where one does not fit.
fn alone(
    func: &Ir,
    group: &HashMap<OpId, usize>,
    target: &Target<'_>,
    budget: Budget,
    known: &Known,
) -> Option<Vec<Alone>> {
    let Groups { from, singles, .. } = groups(func, group, target, budget, known);
    let nests = singles?.into_iter().map(|single| {
        let ops = single
            .group
            .ops
            .iter()
            .filter_map(|op| from.get(op).copied());
        (ops.collect(), single.apart().1.cycles)
    });
    Some(nests.collect())
}

/// Gives a function those forms in which all its nests are quicker.
pub(super) fn forms(
    func: &mut Ir,
    group: &mut HashMap<OpId, usize>,
    with: (&Target<'_>, Budget, Limits),
    strides: bool,
    known: &Known,
) {
    // Of all forms only the cycles are asked for.
    let (target, budget, limits) = with;
    let limits = Limits {
        written: false,
        ..limits
    };
    let with = (target, budget, limits);
    let mut next = 0;
    let mut now: Option<Nests> = None;
    let mut all = Form::of(func, with.0, strides);
    while let Some(form) = all.get(next) {
        let (mut other, mut own, _) = copied(func, group);
        if let Some(form) = Form::of(&other, with.0, strides).get(next) {
            form.apply(&mut other, &mut own);
        }
        // What another order of elements costs and saves is what stays between nests.
        if matches!(form, Form::Strides(_)) && with.2.resident {
            let before = priced(func, group, with, known);
            let then = priced(&other, &own, with, known);
            match before.zip(then) {
                Some((before, then)) if then < before => {
                    (*func, *group, now) = (other, own, None);
                    all = Form::of(func, with.0, strides);
                }
                _ => next += 1,
            }
            continue;
        }
        if now.is_none() {
            now = nests(func, group, with, known);
        }
        let Some(Nests { cycles, of, .. }) = &now else {
            return;
        };
        // What one nest computes goes nowhere in between.
        if let Form::Apart(apart) = form
            && of
                .iter()
                .any(|nest| apart.ops(func).all(|op| nest.contains(&op)))
        {
            next += 1;
            continue;
        }
        match nests(&other, &own, with, known) {
            // It is one less to look at.
            Some(then) if then.cycles < *cycles => {
                (*func, *group, now) = (other, own, Some(then));
                all = Form::of(func, with.0, strides);
            }
            _ => next += 1,
        }
    }
}

/// Cycles of all nests of a function with what stays between them; `None` where a group does not fit.
fn priced(
    func: &Ir,
    group: &HashMap<OpId, usize>,
    with: (&Target<'_>, Budget, Limits),
    known: &Known,
) -> Option<i64> {
    let mut text = tir::text::print(func, &Default::default());
    let numbers = func.walk_ids().into_iter().map(|op| group.get(&op));
    text.push_str(&format!("{:?} {:?}", with.2, numbers.collect::<Vec<_>>()));
    if let Some(cycles) = known.priced.get(&text) {
        return Some(cycles);
    }
    let (target, budget, limits) = with;
    let limits = Limits {
        written: true,
        ..limits
    };
    let cycles = nests(func, group, (target, budget, limits), known)?.stay?;
    Some(known.priced.or_find(text, || cycles))
}

/// A function and its groups once more, and which op of it each op of the copy is.
fn copied(
    func: &Ir,
    group: &HashMap<OpId, usize>,
) -> (Ir, HashMap<OpId, usize>, HashMap<OpId, OpId>) {
    let copy = func.clone();
    let ids = func.walk_ids().into_iter().zip(copy.walk_ids());
    let ids: Vec<(OpId, OpId)> = ids.collect();
    let own = ids
        .iter()
        .filter_map(|(old, new)| Some((*new, *group.get(old)?)));
    let own = own.collect();
    let from = ids.iter().map(|(old, new)| (*new, *old)).collect();
    (copy, own, from)
}

/// What nests are planned with that are not to be written: no candidate is listed.
fn quiet(budget: Budget) -> Budget {
    Budget {
        listed: 0,
        ..budget
    }
}

/// A copy of a function with its groups.
struct Groups {
    /// The copy, in the form that groups are cut in.
    func: Ir,
    /// Which op of the function each op of the copy is.
    from: HashMap<OpId, OpId>,
    /// The groups, each planned alone, the last one first; `None` where one does not fit.
    singles: Option<Vec<Single>>,
}

/// The groups of a function, each planned alone.
fn groups(
    func: &Ir,
    group: &HashMap<OpId, usize>,
    target: &Target<'_>,
    budget: Budget,
    known: &Known,
) -> Groups {
    let (mut func, mut group, from) = copied(func, group);
    crate::settle::settle(&mut func, &mut group);
    drop_empty(&mut func);
    let scope = whole(&func, group, target);
    let plans = Plans::new(target, quiet(budget), &known.plans);
    let singles = singles(&func, &scope, &plans);
    Groups {
        func,
        from,
        singles,
    }
}

/// The nests of a function by the estimate.
pub(super) struct Nests {
    /// Cycles of all of them, each for itself, before tensors stay between them.
    pub(super) cycles: i64,
    /// What all of them take one behind another, if they are to be written.
    pub(super) price: Option<Price>,
    /// The same with what stays between them, each nest for itself.
    stay: Option<i64>,
    /// What each computes.
    of: Vec<HashSet<OpId>>,
}

/// The nests of a function, with the tensors that stay between them if they are to be written; `None` where a group does
/// not fit.
pub(super) fn nests(
    func: &Ir,
    group: &HashMap<OpId, usize>,
    (target, budget, limits): (&Target<'_>, Budget, Limits),
    known: &Known,
) -> Option<Nests> {
    let budget = quiet(budget);
    let Groups {
        func,
        from,
        singles,
    } = groups(func, group, target, budget, known);
    let cuts = &known.cuts;
    let chains = partition(&func, &singles?, target, budget, limits, cuts);
    let here = |nest: &HashSet<OpId>| nest.iter().filter_map(|op| from.get(op).copied()).collect();
    Some(Nests {
        cycles: chains.cycles,
        price: chains.price,
        stay: chains.stay,
        of: chains.nests.iter().map(|(nest, _)| here(nest)).collect(),
    })
}
