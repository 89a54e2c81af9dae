//! Every division of a way, estimated; what takes longer whatever the order of its loops is left out early.

use std::rc::Rc;

use tir::{Ir, Type};

use super::beyond;
use super::estimate::Estimate;
use super::places::{Excess, Places};
use super::shapes::Shapes;
use super::sizes::{choices, divisors, loop_orders, sizes, slides};
use super::strip::strips;
use super::unit::{Way, out_order};
use super::vectors::Vectors;
use super::{Budget, Plan, Target, TooLarge};
use crate::group::{Group, Operand};
use crate::layout::Space;
use crate::matching::Mismatch;

/// What was found so far.
pub(super) struct Search {
    /// Whether all that is estimated is kept, and nothing is left out for being slower.
    pub(super) all: bool,
    pub(super) best: Option<Plan>,
    /// Cycles that some plan takes, whether it was considered yet or not.
    pub(super) sounded: i64,
    /// Whether reductions are divided of what no unit takes, or what computes a tile for another stage.
    pub(super) parts: bool,
    /// Iterators of the core that may be rounded up though they are reductions.
    pub(super) may_exceed: Vec<bool>,
    /// All that were estimated, where they are listed.
    pub(super) kept: Vec<(Plan, Option<Excess>)>,
    pub(super) least: TooLarge,
    pub(super) budget: Budget,
    pub(super) vectors: Rc<Vectors>,
}

impl Search {
    pub(super) fn new(ir: &Ir, group: &Group, target: &Target<'_>, budget: Budget) -> Self {
        Self {
            all: false,
            best: None,
            sounded: i64::MAX,
            parts: false,
            may_exceed: beyond::may_exceed(ir, group),
            kept: Vec::new(),
            least: TooLarge {
                excess: Excess {
                    space: target.near.name,
                    needed: i64::MAX,
                    free: budget.free(target.near),
                },
                holders: Vec::new(),
            },
            budget,
            vectors: Rc::new(Vectors::new(ir, group, target)),
        }
    }
    /// The cycles that a plan may take to be the quickest so far.
    fn most(&self) -> i64 {
        let best = self.best.as_ref().filter(|_| !self.all);
        best.map_or(self.sounded, |best| best.cycles.min(self.sounded))
    }
    pub(super) fn consider(&mut self, plan: Plan, holders: Vec<i64>, excess: Option<Excess>) {
        let better = |best: &Plan| (plan.cycles, plan.bytes) < (best.cycles, best.bytes);
        if self.all {
            self.kept.push((plan, excess));
            return;
        }
        if self.budget.listed > 0 {
            self.kept.push((plan.clone(), excess));
        }
        if let Some(excess) = excess {
            if excess.needed < self.least.excess.needed {
                self.least = TooLarge { excess, holders };
            }
        } else if self.best.as_ref().is_none_or(better) {
            self.best = Some(plan);
        }
    }
}

/// One in so many divisions is estimated before all of them.
const SOUNDED: usize = 16;

/// Estimates every division of a way; says why, if there is none that fits.
pub(super) fn divisions(
    group: &Group,
    target: &Target<'_>,
    way: &Way,
    elems: &[Type],
    search: &mut Search,
) -> Option<Mismatch> {
    let budget = search.budget;
    let unit = way.unit();
    let places = match Places::new(group, target, way) {
        Ok(places) => places,
        Err(mismatch) => return Some(mismatch),
    };
    let rank = group.domain.len();
    let mut block = vec![1; rank];
    let mut unit_dims = Vec::new();
    if let Some(choice) = unit {
        for (d, points) in choice.assignment.unit_dims.iter().flatten() {
            unit_dims.push(*d);
            block[*d] = *points;
        }
    }
    // The rest of a block beyond a reduction adds nothing only if an operand is padding there.
    let ragged = |d: usize| group.reductions[d] && group.domain[d] % block[d] != 0;
    if let Some(d) = (0..group.core).find(|d| ragged(*d) && !search.may_exceed[*d]) {
        let text = format!(
            "no operand is zero beyond a reduction of {} points, which its {} do not divide",
            group.domain[d], block[d]
        );
        return Some(Mismatch::new(6, text));
    }
    let mut space = Space {
        domain: group.domain.clone(),
        tile: vec![1; rank],
        block,
        unit: unit_dims,
        shifted: None,
    };
    // What is computed twice is the same twice; blocks of a tile that others keep rows of do not stick out.
    if let (Some(choice), Some(slot)) = (unit, &group.into)
        && slot.again
        && let Some(order) = out_order(target, &choice.assignment)
        && let Some([d]) = order.first().map(|dims| &dims[..])
        && space.domain[*d] >= space.block[*d]
        && space.domain[*d] % space.block[*d] != 0
    {
        space.shifted = Some(*d);
    }
    // What the thread would compute of what sticks out costs as much as the rest, and may be no value that
    // it can compute with; an engine that cannot pad moves it in pieces.
    let pads = places
        .operands
        .iter()
        .all(|place| place.load.is_none_or(|engine| engine.pad));
    let ragged = (unit.is_some() || matches!(way, Way::Moved(_))) && pads;
    let options: Vec<Vec<i64>> = (0..rank)
        .map(|d| {
            let all = space.blocks(d).max(1);
            if d < group.outer {
                return vec![1];
            }
            // A stage computes all of the tile that another one reads, its sums in parts. One that reads what
            // others compute is not divided where it would let them compute that again.
            let mut made = group.operands.iter().filter(|operand| operand.made);
            let again = |o: &Operand| !o.map.exprs.iter().any(|e| e.uses(d));
            let summed = group.reductions[d] && search.parts;
            let whole = group.into.as_ref().is_some_and(|slot| !slot.divided);
            if whole && !summed || made.any(again) {
                return vec![all];
            }
            // Windows are not divided, and reductions of what no unit takes only if they must.
            let inner = d >= group.core || slides(group, d);
            let must = unit.is_none() && !search.parts;
            let whole = must || space.block[d] == 1 && inner;
            let whole = group.reductions[d] && whole;
            if whole || group.whole.contains(&d) {
                vec![all]
            } else if ragged && !group.reductions[d] && group.into.is_none() {
                sizes(all)
            } else {
                divisors(all)
            }
        })
        .collect();
    let vectors = Rc::clone(&search.vectors);
    let mut tried = Tried {
        shapes: Shapes::new(group, target, way, elems, &places),
        dense: false,
        slower: false,
        fits: false,
        least: None,
    };
    let with = (group, target, way, &*vectors);
    let all: Vec<Vec<i64>> = choices(options, budget.limit).collect();
    // What some of them take is no less than the quickest does, so much that is slower is left out early.
    if !search.all && budget.listed == 0 {
        for tile in all.iter().step_by(SOUNDED) {
            space.tile.clone_from(tile);
            tried.division(with, &space, search, true);
        }
    }
    loop {
        for tile in &all {
            space.tile.clone_from(tile);
            tried.division(with, &space, search, false);
        }
        if search.best.is_some() || search.sounded == i64::MAX {
            break;
        }
        // What bounds leave out of calls that do several things at once may be all there is. No remark says so: the
        // divisions of this group are looked at twice, the plan is the quickest all the same, and that a bound is too
        // high comes from the intrinsics of the machine and the shape, of which nobody would change one for it.
        search.sounded = i64::MAX;
    }
    let Tried {
        dense,
        slower,
        fits,
        least,
        ..
    } = tried;
    if slower {
        return None;
    }
    if !dense {
        return Some(Mismatch::new(6, "no tile of an operand is dense for it"));
    }
    let text =
        |Excess { needed, free, .. }| format!("its tiles need {needed} bytes, {free} are free");
    least
        .filter(|_| !fits)
        .map(|least| Mismatch::new(7, text(least)))
}

/// The divisions of a way that were looked at.
struct Tried<'a> {
    shapes: Shapes<'a>,
    /// Whether any has tiles that the unit can take.
    dense: bool,
    /// Whether any was left out for being slower.
    slower: bool,
    fits: bool,
    /// Of those that do not fit what needs the fewest bytes more.
    least: Option<Excess>,
}

impl Tried<'_> {
    /// Estimates a division in every order of its loops, and in strips; or only `sounds` how many cycles the quickest
    /// takes at most.
    fn division(
        &mut self,
        (group, target, way, vectors): (&Group, &Target<'_>, &Way, &Vectors),
        space: &Space,
        search: &mut Search,
        sounds: bool,
    ) {
        // What takes longer whatever the order of its loops is no plan.
        if self.shapes.calls(space) > search.most() {
            self.slower = true;
            return;
        }
        let strips = match search.all || sounds {
            true => Vec::new(),
            false => strips(group, target, way, space),
        };
        let budget = search.budget;
        // Strips of a tile move no fewer bytes and compute no less than the tile does at once.
        let mut at_once = 0;
        for strip in std::iter::once(None).chain(strips.into_iter().map(Some)) {
            let most = search.most();
            if at_once > most {
                return;
            }
            let Some(tiles) = self.shapes.of(space, strip) else {
                continue;
            };
            self.dense = true;
            let (loads, bytes) = self.shapes.least(&tiles);
            if loads.load > most {
                self.slower = true;
                if strip.is_none() {
                    return;
                }
                continue;
            }
            if let Some(excess) = tiles.places.excess(&bytes, budget)
                && search.least.excess.needed <= excess.needed
            {
                self.least = self.least.or(Some(excess));
                continue;
            }
            let estimate = Estimate::new(group, target, way, &tiles, budget, vectors);
            let Some(mut estimate) = estimate else {
                continue;
            };
            let (bound, mut work) = estimate.least(&loads);
            self.slower |= bound > most;
            let orders = match bound > most {
                true => Vec::new(),
                false => loop_orders(group, space),
            };
            for order in orders {
                let made = estimate.ordered(order, search.most());
                work = estimate.least_work;
                let Some((plan, holders)) = made else {
                    self.slower = true;
                    continue;
                };
                let excess = tiles.places.excess(&holders, budget);
                if sounds {
                    if excess.is_none() {
                        search.sounded = search.sounded.min(plan.cycles);
                    }
                    continue;
                }
                self.fits |= excess.is_none();
                if let Some(excess) = excess
                    && self.least.is_none_or(|least| excess.needed < least.needed)
                {
                    self.least = Some(excess);
                }
                search.consider(plan, holders, excess);
            }
            if strip.is_none() {
                at_once = work;
            }
        }
    }
}
