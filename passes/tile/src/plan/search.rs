//! Every division of a way, estimated; what takes longer whatever the order of its loops is left out early.

use std::cell::OnceCell;
use std::sync::Arc;

use tir::{Ir, Type};

use super::beyond;
use super::cost::Cost;
use super::estimate::{Estimate, Ordered};
use super::places::{Excess, Places};
use super::shapes::Shapes;
use super::sizes::{Choices, divisors, loop_orders, sizes, slides, slides_near};
use super::strip::strips;
use super::unit::{Way, out_order};
use super::vectors::Vectors;
use super::{Budget, Plan, Target, TooLarge};
use crate::group::{Group, Operand};
use crate::layout::Space;
use crate::matching::Mismatch;

/// What was found so far.
pub(super) struct Search<'a> {
    ir: &'a Ir,
    group: &'a Group,
    /// Whether all that is estimated is kept, and nothing is left out for being slower.
    pub(super) all: bool,
    pub(super) best: Option<Plan>,
    /// Of plans that take longer than the quickest by one cycle in so many at most, the one that moves the least is taken;
    /// the quickest if 0.
    pub(super) slack: i64,
    /// Those plans, and some that were until a quicker one was found.
    close: Vec<Plan>,
    /// Cycles that some plan takes, whether it was considered yet or not.
    pub(super) sounded: i64,
    /// The only tiles that are looked at, in blocks of each iterator.
    pub(super) only: Option<Vec<i64>>,
    /// Whether reductions are divided of what no unit takes, or what computes a tile for another stage.
    pub(super) parts: bool,
    /// Whether windows that slide over what lies near are divided.
    pub(super) windows: bool,
    /// Iterators of the core that may be rounded up though they are reductions, once that was asked.
    may_exceed: OnceCell<Vec<bool>>,
    /// All that were estimated, where they are listed.
    pub(super) kept: Vec<(Plan, Option<Excess>)>,
    pub(super) least: TooLarge,
    pub(super) budget: Budget,
    pub(super) vectors: Arc<Vectors>,
}

impl<'a> Search<'a> {
    pub(super) fn new(ir: &'a Ir, group: &'a Group, target: &Target<'_>, budget: Budget) -> Self {
        Self {
            ir,
            group,
            all: false,
            best: None,
            slack: 0,
            close: Vec::new(),
            sounded: i64::MAX,
            only: None,
            parts: false,
            windows: false,
            may_exceed: OnceCell::new(),
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
            vectors: Arc::new(Vectors::new(ir, group, target)),
        }
    }
    /// Whether an iterator may be rounded up though it is a reduction.
    fn may_exceed(&self, d: usize) -> bool {
        let of = || beyond::may_exceed(self.ir, self.group);
        self.may_exceed.get_or_init(of)[d]
    }
    /// The cycles that a plan may take to be the one that is taken of those so far.
    fn most(&self) -> i64 {
        let best = self.best.as_ref().filter(|_| !self.all);
        let least = best.map_or(self.sounded, |best| best.cycles.min(self.sounded));
        least.saturating_add(least.checked_div(self.slack).unwrap_or(0))
    }
    /// Whether a plan is one of those that may be taken for what they move, where the quickest takes so many cycles.
    pub(super) fn is_close(&self, plan: &Plan, least: i64) -> bool {
        let more = least.checked_div(self.slack);
        more.is_some_and(|more| plan.cycles <= least.saturating_add(more))
    }
    /// Changes where a plan is found that fits.
    fn found(&self) -> (usize, Option<i64>) {
        let best = self.best.as_ref().map(|plan| plan.cycles);
        (self.kept.len(), best)
    }
    /// The plan that is taken.
    pub(super) fn taken(&mut self) -> Option<Plan> {
        let best = self.best.take()?;
        let mut close = std::mem::take(&mut self.close);
        close.retain(|plan| self.is_close(plan, best.cycles));
        let least = close.into_iter();
        let least = least.min_by_key(|plan| (plan.moved(), plan.cycles, plan.bytes));
        Some(least.unwrap_or(best))
    }
    /// Whether what does not fit is forgotten.
    fn forgets(&self) -> bool {
        self.all && self.budget.listed == 0
    }
    /// Keeps a plan that fits, if it is the quickest so far or all are kept.
    pub(super) fn consider(&mut self, plan: Plan) {
        let better = |best: &Plan| (plan.cycles, plan.bytes) < (best.cycles, best.bytes);
        if self.all {
            self.kept.push((plan, None));
            return;
        }
        if self.budget.listed > 0 {
            self.kept.push((plan.clone(), None));
        }
        if self.slack > 0 && plan.cycles <= self.most() {
            self.close.push(plan.clone());
        }
        if self.best.as_ref().is_none_or(better) {
            self.best = Some(plan);
        }
    }
    /// Keeps a plan that fits, and takes it as the quickest unless all are kept.
    fn replace(&mut self, plan: Plan) {
        let all = self.all;
        self.consider(plan.clone());
        if !all {
            self.best = Some(plan);
        }
    }
    /// [`Search::consider`] for the order of loops that was estimated last: most orders are none that is kept, and no plan is made of
    /// them.
    fn consider_ordered(&mut self, estimate: &Estimate<'_>, made: Ordered, excess: Option<Excess>) {
        let Some(excess) = excess else {
            let better = |best: &Plan| {
                let (now, least) = ((made.cycles(), made.in_all()), (best.cycles, best.bytes));
                now < least || now == least && estimate.is_wider(best)
            };
            let close = self.slack > 0 && made.cycles() <= self.most();
            let kept = self.all || self.budget.listed > 0 || close;
            match self.best.as_ref().is_none_or(better) {
                true => self.replace(estimate.plan(made)),
                false if kept => self.consider(estimate.plan(made)),
                false => {}
            }
            return;
        };
        if !self.all {
            self.too_large(excess, &made.bytes);
        }
        if !self.forgets() && (self.all || self.budget.listed > 0) {
            self.kept.push((estimate.plan(made), Some(excess)));
        }
    }
    /// Looks for plans in parts from now on, if there is a reduction that may be divided: what does not fit with whole reductions may
    /// fit so.
    pub(super) fn in_parts(&mut self, group: &Group) -> bool {
        self.parts = group.reduce.is_some() && !group.has_inner();
        self.parts
    }

    /// Remembers what does not fit, if it needs the fewest bytes so far.
    pub(super) fn too_large(&mut self, excess: Excess, holders: &[i64]) {
        if excess.needed < self.least.excess.needed {
            let holders = holders.to_vec();
            self.least = TooLarge { excess, holders };
        }
    }
}

/// One in so many divisions is estimated before all of them.
const SOUNDED: usize = 16;

/// Estimates every division of a way; says why, if there is none that fits. With [`Budget::shifts`] those with blocks that are moved
/// back, and all others where none of these fits.
pub(super) fn divisions(
    group: &Group,
    target: &Target<'_>,
    way: &Way,
    elems: &[Type],
    search: &mut Search<'_>,
) -> Option<Mismatch> {
    let again = group.into.as_ref().map(|slot| slot.again);
    if again.is_none() && search.budget.shifts && !search.parts {
        let before = search.found();
        divisions_as(group, target, way, elems, (search, true));
        if search.found() != before {
            return None;
        }
    }
    divisions_as(group, target, way, elems, (search, again == Some(true)))
}

/// The same, with a last block of a unit that is moved back where it would stick out, if elements may be computed `again` for that.
fn divisions_as(
    group: &Group,
    target: &Target<'_>,
    way: &Way,
    elems: &[Type],
    (search, again): (&mut Search<'_>, bool),
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
    if let Some(d) = (0..group.core).find(|d| ragged(*d) && !search.may_exceed(*d)) {
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
    if let Some(choice) = unit
        && again
        && let Some(order) = out_order(target, &choice.assignment)
        && let Some([d]) = order.first().map(|dims| &dims[..])
        && space.domain[*d] >= space.block[*d]
        && space.domain[*d] % space.block[*d] != 0
    {
        space.shifted = Some(*d);
    }
    // What the thread would compute of what sticks out costs as much as the rest, and may be no value that
    // it can compute with; an engine that cannot pad moves it in pieces.
    let ragged = (unit.is_some() || matches!(way, Way::Moved(_))) && places.pad();
    let options: Vec<Vec<i64>> = (0..rank)
        .map(|d| {
            let all = space.blocks(d).max(1);
            if d < group.outer {
                return vec![1];
            }
            if let Some(only) = &search.only {
                return vec![only[d]];
            }
            // Nor are sums added to twice.
            if space.shifted == Some(d) || space.shifted.is_some() && group.reductions[d] {
                return vec![all];
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
            let slides = slides(group, d) && !(search.windows && slides_near(group, d));
            let inner = d >= group.core || slides;
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
    let vectors = Arc::clone(&search.vectors);
    let choices = Choices::new(options, budget.limit);
    let with = (group, target, way);
    let shapes = Shapes::new(with, elems, &places, &vectors, &space.block, budget);
    let mut tried = Tried {
        factors: factors(&shapes, &mut space, &choices),
        ready: match search.all {
            true => vec![Vec::new(); rank + 1],
            false => ready(&shapes, &choices),
        },
        shapes,
        dense: false,
        slower: false,
        fits: false,
        least: None,
    };
    let with = (group, target, way, &*vectors);
    // What some of them take is no less than the quickest does, so much that is slower is left out early.
    if !search.all && budget.listed == 0 {
        for tile in choices.every(SOUNDED) {
            space.tile = tile;
            if tried.may_gain(&space, search) {
                tried.division(with, &space, search, true);
            }
        }
    }
    loop {
        if choices.are_all() {
            // What has one size has it wherever others are looked at.
            for (size, sizes) in space.tile.iter_mut().zip(&choices.options) {
                *size = sizes[0];
            }
            let none = tried.shapes.none.clone();
            tried.each(with, &choices, &mut space, search, rank, (1, &none));
        } else {
            for tile in choices.every(1) {
                space.tile = tile;
                if tried.may_gain(&space, search) {
                    tried.division(with, &space, search, false);
                }
            }
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
        |Excess {
             space,
             needed,
             free,
         }| { format!("its tiles need {needed} bytes of \"{space}\", {free} are free") };
    least.filter(|_| !fits).map(|least| Mismatch {
        needed: Some(least.needed),
        ..Mismatch::new(7, text(least))
    })
}

/// What the sizes of an iterator's tiles add to the number of calls, or of tiles that are moved.
struct Factors {
    /// By the size, how many calls more there are for it.
    of: Vec<i64>,
    /// How many times more calls there are for all iterators before this one, at least.
    before: i64,
}

/// Those of each iterator.
fn factors(shapes: &Shapes<'_>, space: &mut Space, choices: &Choices) -> Vec<Factors> {
    let mut before = 1i64;
    let options = choices.options.iter().enumerate();
    let factors = options.map(|(d, sizes)| {
        let each = sizes.iter().map(|size| {
            space.tile[d] = *size;
            shapes.factor(space, d)
        });
        let of: Vec<i64> = each.collect();
        let least = of.iter().copied().min().unwrap_or(1);
        let own = Factors { of, before };
        before = before.saturating_mul(least);
        own
    });
    factors.collect()
}

/// By how many of the first iterators have no size yet, the operands whose tiles are known then and not with one more.
fn ready(shapes: &Shapes<'_>, choices: &Choices) -> Vec<Vec<usize>> {
    let rank = choices.options.len();
    let mut ready = vec![Vec::new(); rank + 1];
    for (operand, iterators) in shapes.moved_by() {
        let mut several = iterators.iter().filter(|d| choices.options[**d].len() > 1);
        let first = several.next().copied().unwrap_or(rank);
        ready[first].push(operand);
    }
    ready
}

/// The divisions of a way that were looked at.
struct Tried<'a> {
    shapes: Shapes<'a>,
    /// Of each iterator, what the sizes of its tiles add to the number of calls.
    factors: Vec<Factors>,
    /// The operands whose tiles are known when so many of the first iterators have no size yet, and not before.
    ready: Vec<Vec<usize>>,
    /// Whether any has tiles that the unit can take.
    dense: bool,
    /// Whether any was left out for being slower.
    slower: bool,
    fits: bool,
    /// Of those that do not fit what needs the fewest bytes more.
    least: Option<Excess>,
}

impl Tried<'_> {
    /// Whether a division may be the quickest so far: what its calls take is not too long whatever the order of its loops.
    fn may_gain(&mut self, space: &Space, search: &Search<'_>) -> bool {
        let may = self.shapes.calls(space) <= search.most();
        self.slower |= !may;
        may
    }

    /// Estimates every division, but for those whose calls and loads take too long; the sizes of the iterators from `rank`
    /// on are those of `space`, and there are so many calls for them, and such loads.
    fn each(
        &mut self,
        with: (&Group, &Target<'_>, &Way, &Vectors),
        choices: &Choices,
        space: &mut Space,
        search: &mut Search<'_>,
        rank: usize,
        (calls, loads): (i64, &Cost),
    ) {
        let Some(d) = rank.checked_sub(1) else {
            self.division(with, space, search, false);
            return;
        };
        for (i, size) in choices.options[d].iter().enumerate() {
            let Factors { of, before } = &self.factors[d];
            let calls = calls.saturating_mul(of[i]);
            let least = calls.saturating_mul(*before);
            // All that follow take as long.
            if self.shapes.cycles(least) > search.most() {
                self.slower = true;
                continue;
            }
            space.tile[d] = *size;
            let known = &self.ready[d];
            if known.is_empty() {
                self.each(with, choices, space, search, d, (calls, loads));
                continue;
            }
            let mut loads = loads.clone();
            // What is no tile of an operand is found to be none below.
            let all = known
                .iter()
                .all(|i| self.shapes.load(space, *i, d, &mut loads));
            if all && self.shapes.with_loads(space, &loads, least) > search.most() {
                self.slower = true;
                continue;
            }
            self.each(with, choices, space, search, d, (calls, &loads));
        }
        space.tile[d] = choices.options[d][0];
    }

    /// Estimates a division in every order of its loops, and in strips; or only `sounds` how many cycles the quickest
    /// takes at most.
    fn division(
        &mut self,
        (group, target, way, vectors): (&Group, &Target<'_>, &Way, &Vectors),
        space: &Space,
        search: &mut Search<'_>,
        sounds: bool,
    ) {
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
            let Some(operands) = self.shapes.operands(space, strip) else {
                continue;
            };
            let (loads, bytes) = self.shapes.least(space, strip, &operands);
            let slow = loads.load > most;
            let excess = match slow {
                true => None,
                false => self.shapes.places().excess(&bytes, budget),
            };
            let needs_more = |e: &Excess| search.least.excess.needed <= e.needed;
            let excess = excess.filter(|excess| search.forgets() || needs_more(excess));
            let left_out = slow || excess.is_some();
            // Where others were left out before, whether its results are tiles changes nothing: most divisions end here.
            let known = slow && self.slower || excess.is_some() && self.least.is_some();
            // Nor does it where nobody asks why nothing fits.
            let known = known && self.dense || search.forgets();
            let parts = match left_out && known {
                true => None,
                false => match self.shapes.parts(space, strip, operands) {
                    Some(parts) => Some(parts),
                    None => continue,
                },
            };
            self.dense = true;
            self.slower |= slow;
            if let Some(excess) = excess
                && self.least.is_none_or(|least| excess.needed < least.needed)
            {
                self.least = Some(excess);
            }
            if slow && strip.is_none() {
                return;
            }
            let Some(parts) = parts.filter(|_| !left_out) else {
                continue;
            };
            if let Some(least) = self.shapes.bound(space, &loads, &parts)
                && self.shapes.total(&least) > most
            {
                self.slower = true;
                at_once = least.work();
                continue;
            }
            let tiles = self.shapes.tiles(space, parts);
            let mut estimate = Estimate::new(group, target, way, &tiles, budget, vectors);
            let (bound, mut work) = estimate.least(&loads);
            self.slower |= bound > most;
            let orders = match bound > most {
                true => Vec::new(),
                false => loop_orders(group, space),
            };
            // Of equal ones the first is taken.
            let alike = self.shapes.orders_alike() && !search.all && budget.listed == 0;
            let orders = orders.into_iter();
            for order in orders.take(if alike { 1 } else { usize::MAX }) {
                let made = estimate.ordered(order, search.most());
                work = estimate.least_work;
                let Some(made) = made else {
                    self.slower = true;
                    continue;
                };
                let excess = tiles.places.excess(&made.bytes, budget);
                if sounds {
                    if excess.is_none() {
                        search.sounded = search.sounded.min(made.cycles());
                    }
                    continue;
                }
                self.fits |= excess.is_none();
                if let Some(excess) = excess
                    && self.least.is_none_or(|least| excess.needed < least.needed)
                {
                    self.least = Some(excess);
                }
                search.consider_ordered(&estimate, made, excess);
            }
            if strip.is_none() {
                at_once = work;
            }
        }
    }
}
