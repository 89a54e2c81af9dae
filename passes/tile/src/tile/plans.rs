//! The plan of the group that ends in a generic, of all forms that the group may have.

use std::collections::{BTreeSet, HashSet};

use tir::pass::Memo;
use tir::{Ir, OpId, Value};

use crate::group::{Freedom, Group, Scope, Signature};
use crate::matching::Joined;
use crate::plan::{Budget, Plan, Siblings, Spread, Target, TooLarge, adds_nothing, plan_joined};

/// Plans by the signatures of their groups, and of those by what they were joined.
#[derive(Default)]
pub(super) struct KnownPlans {
    plans: Memo<(Signature, Joined), Result<Plan, TooLarge>>,
    siblings: Siblings,
    /// The same with one slot for each buffer.
    single: Siblings,
}

/// A group with its plan.
type Planned = (Group, Result<Plan, TooLarge>);

/// Plans by the signature of the group: equal layers are planned once.
pub(super) struct Plans<'a> {
    target: &'a Target<'a>,
    budget: Budget,
    known: &'a KnownPlans,
}

/// Whether a unit computes a group, or the thread in fewer cycles.
fn on_unit(plan: &Plan) -> bool {
    plan.unit.is_some() || plan.quicker
}

impl<'a> Plans<'a> {
    /// Those that are known already.
    pub(super) fn new(target: &'a Target<'a>, budget: Budget, known: &'a KnownPlans) -> Self {
        Self {
            target,
            budget,
            known,
        }
    }

    fn of(&self, func: &Ir, group: &Group) -> Result<Plan, TooLarge> {
        let KnownPlans {
            plans, siblings, ..
        } = self.known;
        let find = || {
            let found = siblings.plan(func, group, self.target, self.budget);
            self.or_single(func, group, found)
        };
        plans.or_find((group.signature(func), Vec::new()), find)
    }

    /// A plan, or the one with one slot for each buffer where there is none with several, or none on a unit: buffers have fewer slots
    /// later where they do not fit.
    fn or_single(
        &self,
        func: &Ir,
        group: &Group,
        found: Result<Plan, TooLarge>,
    ) -> Result<Plan, TooLarge> {
        let sums = group.reduce.as_ref();
        let product = sums.is_some_and(|(step, ..)| step.inputs.len() > 1);
        let may = match &found {
            Ok(plan) => product && !on_unit(plan),
            Err(_) => true,
        };
        if self.budget.depth < 2 || !may {
            return found;
        }
        let budget = Budget {
            depth: 1,
            ..self.budget
        };
        let single = (self.known.single).plan(func, group, self.target, budget);
        match (&found, &single) {
            (Ok(plan), Ok(single)) if on_unit(single) && single.cycles < plan.cycles => {}
            (Err(_), Ok(_)) => {}
            (Err(large), Err(less)) if less.excess.needed < large.excess.needed => {}
            _ => return found,
        }
        single
    }

    /// The group that ends in a generic, and its plan: with what it reads where it lay before nests of their own moved it, unless
    /// that does not fit, or keeps it from a unit and takes longer than those nests.
    pub(super) fn ending_in(&self, func: &Ir, op: OpId, scope: &Scope) -> Option<Planned> {
        let found = self.formed(func, op, scope, true)?;
        let through = found.1.as_ref().ok();
        if through.is_some_and(on_unit) {
            return Some(found);
        }
        let cycles = through.map_or(i64::MAX, |plan| plan.cycles);
        if let Some((other, Ok(apart))) = self.formed(func, op, scope, false)
            && (through.is_none() || on_unit(&apart))
            && apart.cycles < cycles
            && let Some(moved) = self.moved(func, scope, (&other, &found.0))
            && apart.cycles.saturating_add(moved) < cycles
        {
            return Some((other, Ok(apart)));
        }
        Some(found)
    }

    /// The same in the form of the fewest cycles: with values computed in near memory, unless that does not fit or keeps the group
    /// from a unit; and read through other shapes, unless the box around what is read does not fit.
    fn formed(&self, func: &Ir, op: OpId, scope: &Scope, moves: bool) -> Option<Planned> {
        let with = |inner: bool, reshapes: bool| Freedom {
            inner,
            reshapes,
            moves,
        };
        let mut best = self.attempt(func, op, scope, with(true, true))?;
        if best.0.has_inner() && !best.1.as_ref().is_ok_and(on_unit) {
            let smaller = self.attempt(func, op, scope, with(false, true))?;
            let better = match (&best.1, &smaller.1) {
                (Ok(_), Ok(other)) => other.unit.is_some(),
                (Err(_), _) => true,
                _ => false,
            };
            if better {
                best = smaller;
            }
        }
        if best.1.is_err()
            && let Some(apart) = self.attempt(func, op, scope, with(false, false))
            && apart.1.is_ok()
        {
            best = apart;
        }
        if let (group, Ok(plan)) = &best
            && let Some((group, plan)) = self.halves(func, group, plan)
        {
            best = (group, Ok(plan));
        }
        if let (group, Ok(plan)) = &best
            && let Some((group, plan)) = self.together(func, group, plan)
        {
            best = (group, Ok(plan));
        }
        Some(best)
    }

    fn attempt(&self, func: &Ir, op: OpId, scope: &Scope, freedom: Freedom) -> Option<Planned> {
        let group = Group::ending_in(func, op, scope, freedom)?;
        let found = self.of(func, &group);
        Some((group, found))
    }

    /// The cycles of the nests that move what a group reads and another form of it does not; `None` if there is no plan for one.
    fn moved(&self, func: &Ir, scope: &Scope, (group, other): (&Group, &Group)) -> Option<i64> {
        let mut known: HashSet<Value> = other.operands.iter().map(|o| o.source).collect();
        let sources = group.operands.iter().map(|o| o.source);
        let sources = sources.filter(|source| known.insert(*source));
        let mut all = 0i64;
        for maker in sources.filter_map(|source| func.owner(source)) {
            let (_, plan) = self.ending_in(func, maker, scope)?;
            all = all.saturating_add(plan.ok()?.cycles);
        }
        Some(all)
    }

    /// A product in groups with several of them as one, as many as a unit has place for, where that is quicker.
    fn together(&self, func: &Ir, group: &Group, plan: &Plan) -> Option<(Group, Plan)> {
        let mut best: Option<(Group, Plan)> = None;
        for (group, of) in group.grouped() {
            let group = group.as_ref();
            let (groups, rows) = (group.domain[of.group], group.domain[of.row]);
            let elem = func.ty(group.operands[of.weights].source).elem();
            if !self.budget.join.takes(elem)
                || !self.pads(plan, of.weights)
                || !adds_nothing(func, group, of.input)
            {
                continue;
            }
            let mut tried = Vec::new();
            for size in self.places(plan, of.row) {
                let fits = |times: &i64| groups % times == 0 && times * rows <= size;
                let times = (2..=groups.min(size)).rev().find(fits);
                let Some(times) = times.filter(|times| !tried.contains(times)) else {
                    continue;
                };
                tried.push(times);
                let joined = group.join(&of, times).map(|joined| joined.as_read(func));
                self.quicker(func, plan, joined, &mut best);
            }
        }
        best
    }

    /// Keeps another form of a group with its plan, if a unit computes it in fewer cycles than the best one before and than
    /// the plan of the group itself.
    fn quicker(
        &self,
        func: &Ir,
        plan: &Plan,
        other: Option<Group>,
        best: &mut Option<(Group, Plan)>,
    ) {
        let Some(other) = other else {
            return;
        };
        let Ok(found) = self.of(func, &other) else {
            return;
        };
        let least = best.as_ref().map_or(plan.cycles, |(_, best)| best.cycles);
        if found.unit.is_some() && found.cycles < least {
            *best = Some((other, found));
        }
    }

    /// How many points of an iterator a unit computes at once: the one that computes the group, if the iterator is a
    /// dimension of it, else each width of those that sum products.
    fn places(&self, plan: &Plan, d: usize) -> BTreeSet<i64> {
        let here = plan.unit.as_ref().and_then(|unit| {
            let mut dims = unit.unit_dims.iter().zip(self.target.called(unit)?.domain);
            let (_, size) = dims.find(|(dims, _)| dims.iter().any(|(of, _)| *of == d))?;
            Some(*size)
        });
        if let Some(here) = here {
            return BTreeSet::from([here]);
        }
        let all = self.target.behaviours.iter().flatten();
        let summing = all.filter(|behaviour| behaviour.generic.reductions().contains(&true));
        let widths = summing.flat_map(|behaviour| {
            let reductions = behaviour.generic.reductions();
            let dims = behaviour.domain.iter().zip(reductions);
            dims.filter(|(_, reduction)| !*reduction)
                .map(|(n, _)| *n)
                .collect::<Vec<_>>()
        });
        widths.filter(|n| *n > 1).collect()
    }

    /// Whether the engine that loads an operand fills in what lies outside of a tensor.
    fn pads(&self, plan: &Plan, operand: usize) -> bool {
        let engine = self
            .target
            .info
            .engine_between(self.target.far.name, plan.spaces[operand]);
        engine.is_some_and(|engine| engine.pad)
    }

    /// The group with an iterator in parts that lie far from one another, so that a block of a unit is some points of
    /// another iterator in each of them: a row of each part of an image. Of rows that lie apart none is above one block and
    /// below another, so that an image lies in near memory once. Where units are what all waits for and such blocks are
    /// fewer, or as many as where rows lie in near memory several times, and where that is quicker.
    pub(super) fn spread(&self, func: &Ir, group: &Group, plan: &Plan) -> Option<(Group, Plan)> {
        let mut best: Option<(Group, Plan)> = None;
        for Spread { d, parts, joined } in Spread::all(group, self.target, plan) {
            let Some(other) = group.split(d, (group.domain[d] + parts - 1) / parts) else {
                continue;
            };
            let make = || plan_joined(func, &other, self.target, self.budget, &joined);
            // The plan is not that of the group on any unit.
            let key = (other.signature(func), joined.clone());
            let Ok(found) = self.known.plans.or_find(key, make) else {
                continue;
            };
            let less = |(_, best): &(Group, Plan)| found.is_less(best);
            if found.cycles < plan.cycles && best.as_ref().is_none_or(less) {
                best = Some((other, found));
            }
        }
        best
    }

    /// The group with an iterator as two, so that each is a dimension of a unit, where that is quicker: one of
    /// the unit's dimensions has nothing else to run through.
    fn halves(&self, func: &Ir, group: &Group, plan: &Plan) -> Option<(Group, Plan)> {
        let unit = plan.unit.as_ref()?;
        let called = self.target.called(unit)?;
        let mut dims = unit.unit_dims.iter().zip(called.domain);
        let idle = dims.any(|(dims, points)| {
            let mut alone = dims.iter();
            *points > 1 && alone.all(|(d, _)| group.domain[*d] == 1 && !group.reductions[*d])
        });
        let mut best: Option<(Group, Plan)> = None;
        for (d, size) in unit.unit_dims.iter().flatten().filter(|_| idle) {
            if group.domain[*d] <= *size {
                continue;
            }
            self.quicker(func, plan, group.split(*d, *size), &mut best);
        }
        best
    }
}
