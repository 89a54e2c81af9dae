//! Choosing tiles: every division of the iterators that fits the near space is estimated, and the
//! quickest one is taken.
//!
//! A *way* is how points are computed: by an intrinsic of a unit, step by step over whole tiles, on
//! vector units or one by one by the thread, or not at all where elements are only moved. A *division* of a
//! way says how many blocks of each iterator a tile has. Where an intrinsic computes or nothing is computed,
//! that is any number: the last tile sticks out, and transfers drop what lies outside. Reductions, and what is
//! computed over whole tiles, have divisors, so that all tiles are equal; windows are whole, and the reductions of
//! what no unit takes as well, unless nothing fits then. For each division all orders of the loops of parallel iterators are tried, five at
//! most; reductions stand inside. Of equal estimates the first is taken, so a plan depends on the
//! group and the machine alone.

mod beyond;
mod blocks;
mod cost;
mod estimate;
mod fills;
mod hold;
mod in_place;
mod known;
mod lanes;
pub(crate) mod listing;
mod peel;
mod places;
mod shapes;
mod sizes;
mod slots;
mod staged;
mod strip;
mod target;
mod traffic;
mod vectors;

use std::rc::Rc;

use tir::{Ir, Name, Type};
use tir_accel::machine::SpaceInfo;
use tir_tensor::Generic;

use crate::group::{Group, Input, Operand, Step, StepRef};
use crate::layout::{Space, Tile, storage_order};
use crate::matching::{Assignment, Behaviour, By, Candidate, Joined, Mismatch};
use crate::scalar::Scalar;
pub use blocks::Block;
use blocks::blocks;
pub use blocks::{boxes, rows, takes_any_rows};
pub use cost::Cost;
use estimate::Estimate;
pub use hold::{Hold, held, hold};
use in_place::{Over, fits_in_place, written_over};
use known::Ways;
pub use peel::Peel;
pub use places::{Excess, excess};
use places::{Places, held_in};
use shapes::Shapes;
use sizes::{choices, divisors, joined, loop_orders, sizes, slides};
pub use slots::fit;
pub use strip::Strips;
use strip::strips;
pub use target::Target;
pub use traffic::{Holder, near_bytes};
use vectors::Vectors;

/// What the planner may use.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Slots of every buffer of a loop.
    pub depth: i64,
    /// Bytes of each near space at most.
    pub bytes: i64,
    /// One in so many bytes of each near space stays free; none if 0. Tiles of very different sizes leave gaps.
    pub spare: i64,
    /// Plans that are estimated at most for one group.
    pub limit: usize,
    /// How many of the quickest are listed.
    pub listed: usize,
}

impl Budget {
    /// Bytes of a space that tiles may take.
    pub fn free(&self, space: &SpaceInfo) -> i64 {
        let bytes = space.bytes.min(self.bytes);
        bytes - bytes.checked_div(self.spare).unwrap_or(0)
    }
}

/// The intrinsic or vector unit that comes nearest to what a group computes, and what differs.
#[derive(Clone, Debug)]
pub struct Nearest {
    /// What it is.
    pub kind: &'static str,
    /// Its name.
    pub name: Name,
    /// Why it is not used.
    pub mismatch: Mismatch,
}

impl Nearest {
    /// Keeps the nearer one; of equal ones the first.
    fn improve(best: &mut Option<Nearest>, kind: &'static str, name: Name, mismatch: Mismatch) {
        let better = |old: &Nearest| old.mismatch.rank < mismatch.rank;
        if best.as_ref().is_none_or(better) {
            *best = Some(Nearest {
                kind,
                name,
                mismatch,
            });
        }
    }
}

/// How a group is cut up.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The iteration space, cut up.
    pub space: Rc<Space>,
    /// The intrinsic and its dimensions, if a unit takes the points.
    pub unit: Option<Rc<Assignment>>,
    /// Iterators whose tiles are loops, outermost first; parallel ones before reductions.
    pub order: Vec<usize>,
    /// What is gone through inside of the loops of a reduction.
    pub strips: Option<Rc<Strips>>,
    /// The near space of each operand's tile.
    pub spaces: Rc<[Name]>,
    /// The near space of all that is computed.
    pub held: Name,
    /// The tile of each operand: the same for all orders of the loops, as are those below.
    pub tiles: Rc<[Rc<Tile>]>,
    /// The tile of what each step computes.
    pub out: Rc<Tile>,
    /// The same tile as part of each result.
    pub results: Rc<[Tile]>,
    /// Iterators that each dimension of the unit's result is, in order; none for those of one element.
    pub unit_out: Rc<[Vec<usize>]>,
    /// Whether the tile of the only operand is that of the result: nothing is computed.
    pub moves: bool,
    /// Whether vector units compute all points, or a unit could take them and one by one is quicker by
    /// the estimate.
    pub quicker: bool,
    /// Whether a unit or a vector unit computes some of the points, or engines alone move them.
    pub helps: bool,
    /// What the elementwise step of the group writes over, if each intrinsic that computes it does so
    /// and nothing else reads it: what the reduction gave, or the tile of an operand.
    pub in_place: Option<Input>,
    /// Which trips of the loops of a reduction are calls with what is before or behind.
    pub peel: Peel,
    /// Whether what is accumulated lies apart from the result, where it may become it.
    pub own_accumulator: bool,
    /// Operands whose tiles stay for all trips of loops that would move them, and inside of how many loops each
    /// is loaded.
    pub hold: Vec<Option<usize>>,
    /// Operands whose tiles have one slot, so that a tile is loaded when the one before was used.
    pub single: Vec<bool>,
    /// The same for the tiles of the results.
    pub single_result: bool,
    /// What lies in near memory with all slots: a tile of each operand, the results, what is held between
    /// steps.
    pub holders: Vec<Holder>,
    /// Bytes of near memory.
    pub bytes: i64,
    /// Estimated cycles.
    pub cycles: i64,
    /// What they come from.
    pub cost: Cost,
    /// Cycles of each unit, fills of accumulators and steps behind the reduction with them.
    pub busy: Vec<(Name, i64)>,
    /// Cycles of the thread for steps behind a unit.
    pub thread: i64,
    /// Those of the fills of accumulators, block by block, and their unit.
    pub resets: Option<(Name, i64)>,
    /// The engine that fills the accumulators of a tile at once, if one does.
    pub filled: Option<Name>,
    /// The quickest candidates with their estimates, as text, where they were asked for.
    pub listed: Vec<String>,
    /// Where no unit takes the points, the intrinsic that comes nearest.
    pub nearest: Option<Nearest>,
}

impl Plan {
    /// After how many of the loops an operand's tile is loaded: one more than there are, if for each strip.
    pub fn level(&self, operand: usize) -> usize {
        let strips = self.strips.as_ref();
        if strips.is_some_and(|strips| strips.operands[operand]) {
            return self.order.len() + 1;
        }
        if let Some(level) = self.hold[operand] {
            return level;
        }
        let tile = &self.tiles[operand];
        let mut loops = self.order.iter();
        let level = loops.rposition(|d| tile.moves_with(&self.space, *d));
        level.map_or(0, |i| i + 1)
    }
    /// How many of the loops are those of parallel iterators: the first ones.
    pub fn parallel(&self, group: &Group) -> usize {
        let order = self.order.iter();
        order.take_while(|d| !group.reductions[**d]).count()
    }
    /// Whether all that a tile accumulates lies where its result does, if another stage reads that.
    fn sums_in_place(&self, group: &Group) -> bool {
        let out = group.outs.first().map(|out| out.step);
        let over = self.in_place == Some(Input::Reduced);
        group.into.is_none() || out == Some(StepRef::Reduced) || over
    }
    /// Bytes of the operands' tiles with one slot for each that is loaded.
    pub fn loaded(&self, group: &Group) -> i64 {
        let operands = group.operands.iter().zip(&self.holders);
        let loaded = operands.filter(|(operand, _)| !operand.made);
        loaded.fold(0, |sum, (_, holder)| sum.saturating_add(holder.one))
    }
    /// Whether the loops of reductions stand around tiles.
    pub fn splits_reduction(&self, group: &Group) -> bool {
        self.order.iter().any(|d| group.reductions[*d])
    }
}

/// Why no plan was found.
#[derive(Clone, Debug)]
pub struct TooLarge {
    /// The space that the smallest plan does not fit.
    pub excess: Excess,
    /// Bytes of each operand's tile in it, of the results, and of what is accumulated.
    pub holders: Vec<i64>,
}

/// The quickest plan for a group, by estimate; of equal ones the first.
pub fn plan(ir: &Ir, group: &Group, target: &Target<'_>, budget: Budget) -> Result<Plan, TooLarge> {
    let mut search = Search::new(ir, group, target, budget);
    let elems = sources(ir, group);
    if group.moves(ir) {
        // Near memory holds the tile in the order of the source, or in that of the result.
        for map in [&group.operands[0].map, &group.out] {
            let order = storage_order(map, group.domain.len());
            if let Some(order) = order {
                divisions(group, target, &Way::Moved(order), &elems, &mut search);
            }
        }
    }
    if let Some(inner) = &target.inner {
        staged::staged(ir, group, target, inner, &elems, &mut search);
        let listed = listing::listing(group, target, &search);
        let plan = search.best.ok_or(search.least)?;
        return Ok(Plan { listed, ..plan });
    }
    let (mut units, mut nearest) = candidates(ir, group, target, &[]);
    // What reads each element once is as quick on whole tiles, in fewer calls.
    units.retain(|unit| group.reduce.is_some() || unit.assignment.intrinsic().is_some());
    for unit in units {
        let (kind, name) = match &unit.assignment.by {
            By::Intrinsic(index) => ("intrinsic", target.info.intrinsics[*index].name),
            By::Vector(block) => ("vector capability", block.name),
        };
        let declined = divisions(group, target, &Way::Unit(unit), &elems, &mut search);
        if let Some(mismatch) = declined {
            Nearest::improve(&mut nearest, kind, name, mismatch);
        }
    }
    // Where the unit is what all waits for, its blocks are filled better.
    let bound = |plan: &Plan| plan.unit.is_some() && plan.cost.compute > plan.cycles / 4 * 3;
    if search.best.as_ref().is_some_and(bound) {
        for unit in candidates(ir, group, target, &joined(group, target)).0 {
            divisions(group, target, &Way::Unit(unit), &elems, &mut search);
        }
    }
    // What the thread computes for a unit, it computes for all of the unit's block: without the
    // unit it may be less.
    let computes = group.operands.iter().any(|o| o.inner.is_some());
    let by_unit = search.best.is_some();
    if !by_unit || computes || search.vectors.any() {
        divisions(group, target, &Way::Whole, &elems, &mut search);
    }
    if search.best.is_none() && group.reduce.is_some() && !group.has_inner() {
        // What does not fit with whole reductions may fit in parts.
        search.parts = true;
        divisions(group, target, &Way::Whole, &elems, &mut search);
    }
    let listed = listing::listing(group, target, &search);
    let plan = search.best.ok_or(search.least)?;
    if let Some((name, mismatch)) = search.vectors.declined() {
        Nearest::improve(&mut nearest, "vector capability", name, mismatch);
    }
    let quicker = (by_unit || search.vectors.all()) && plan.unit.is_none() && !plan.moves;
    let helps = plan.unit.is_some() || plan.moves || search.vectors.any();
    let nearest = nearest.filter(|_| plan.unit.is_none() && !plan.moves && !quicker);
    let over = written_over(ir, group, target);
    let over = over.filter(|over| fits_in_place(group, over.input, &plan));
    let wanted = |over: &Over| over.only || !plan.own_accumulator;
    let in_place = over.filter(wanted).map(|over| over.input);
    let mut plan = Plan {
        quicker,
        helps,
        nearest,
        in_place,
        listed,
        ..plan
    };
    plan.fill_alone(group, target);
    Ok(plan)
}

/// All divisions of a group that is a stage of several, each on a unit and fitting by itself; the quickest
/// first. Only what moves its operands and accumulates over what others compute is divided; one that computes a
/// tile for another stage divides nothing but its reductions, if those are computed in `parts`, and plans that do
/// not come first.
pub fn stages(
    ir: &Ir,
    group: &Group,
    target: &Target<'_>,
    budget: Budget,
    parts: bool,
) -> Vec<Plan> {
    let mut search = Search::new(ir, group, target, budget);
    (search.all, search.parts) = (true, parts);
    let elems = sources(ir, group);
    // What lies in a tile that another nest reads is one iterator along each dimension of the unit.
    let mut ways = joined(group, target);
    ways.retain(|dims| dims.iter().all(|(d, _)| group.reductions[*d]));
    let ways = std::iter::once(Vec::new()).chain((!ways.is_empty()).then_some(ways));
    for ways in ways {
        for unit in candidates(ir, group, target, &ways).0 {
            divisions(group, target, &Way::Unit(unit), &elems, &mut search);
        }
    }
    let over = written_over(ir, group, target);
    let fits = search.kept.into_iter().filter(|(_, over)| over.is_none());
    let mut plans: Vec<Plan> = fits.map(|(plan, _)| plan).collect();
    for plan in &mut plans {
        // Near memory is short: what is accumulated becomes the result wherever it may.
        let over = over.filter(|over| fits_in_place(group, over.input, plan));
        plan.in_place = over.map(|over| over.input);
        if let (Some(Input::Reduced), Some(held)) = (plan.in_place, plan.holders.last_mut()) {
            (held.bytes, plan.own_accumulator) = (held.one, false);
        }
    }
    // What is summed in parts lies in the tile of another stage from the first part on.
    plans.retain(|plan| plan.sums_in_place(group) || !plan.splits_reduction(group));
    plans.retain_mut(|plan| reads_near(ir, group, target, budget, plan));
    plans.sort_by_key(|plan| {
        let parts = group.into.is_some() && plan.splits_reduction(group);
        (parts, plan.cycles, plan.bytes)
    });
    plans
}

/// Lets a stage read what lies in near memory as a whole; whether it can, and computes into a tile of another nest
/// what it is to lie there.
fn reads_near(
    ir: &Ir,
    group: &Group,
    target: &Target<'_>,
    budget: Budget,
    plan: &mut Plan,
) -> bool {
    for (i, operand) in group.operands.iter().enumerate() {
        if operand.near {
            // Whole blocks that lie beyond the range have nothing there.
            let read = |d: &usize| operand.map.exprs.iter().any(|e| e.uses(*d));
            let mut read = plan.order.iter().filter(|d| read(d));
            if read.any(|d| plan.space.is_ragged(*d)) {
                return false;
            }
            let elem = ir.ty(operand.source).elem();
            let Some(mut whole) = hold(group, target, plan, i, 0, (elem, budget)) else {
                return false;
            };
            whole.tile = whole.tile.joined_blocks();
            whole.holder = Holder::default();
            plan.keep(i, whole);
            if plan.in_place == Some(Input::Operand(i)) {
                plan.in_place = None;
            }
        }
    }
    // Sums of several tiles lie where the result does.
    let sums = plan.in_place == Some(Input::Reduced) || group.maps.is_empty();
    group.into.is_none() || sums || !plan.splits_reduction(group)
}

/// What was found so far.
struct Search {
    /// Whether all that is estimated is kept, and nothing is left out for being slower.
    all: bool,
    best: Option<Plan>,
    /// Cycles that some plan takes, whether it was considered yet or not.
    sounded: i64,
    /// Whether reductions are divided of what no unit takes, or what computes a tile for another stage.
    parts: bool,
    /// Iterators of the core that may be rounded up though they are reductions.
    may_exceed: Vec<bool>,
    /// All that were estimated, where they are listed.
    kept: Vec<(Plan, Option<Excess>)>,
    least: TooLarge,
    budget: Budget,
    vectors: Rc<Vectors>,
}

impl Search {
    fn new(ir: &Ir, group: &Group, target: &Target<'_>, budget: Budget) -> Self {
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
    fn consider(&mut self, plan: Plan, holders: Vec<i64>, excess: Option<Excess>) {
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

/// Element types of the operands.
fn sources(ir: &Ir, group: &Group) -> Vec<Type> {
    let operands = group.operands.iter();
    operands.map(|o| ir.ty(o.source).elem()).collect()
}

fn scalar<'a>(ir: &'a Ir, step: &Step) -> Scalar<'a> {
    Scalar {
        ir,
        body: step.body,
        extended: false,
    }
}

/// Element types of a step's inputs.
fn elems(ir: &Ir, group: &Group, step: &Step) -> Option<Vec<Type>> {
    let elem = |input: &Input| match input {
        Input::Operand(i) => Some(ir.ty(group.operands[*i].source).elem()),
        Input::Reduced => Some(group.reduce.as_ref()?.0.ty.elem()),
        Input::Mapped(i) => Some(group.maps.get(*i)?.ty.elem()),
    };
    step.inputs.iter().map(elem).collect()
}

/// The ways to run a step on each intrinsic, and the nearest one that does not compute it.
fn step_assignments(
    ir: &Ir,
    group: &Group,
    step: &Step,
    target: &Target<'_>,
    joined: &[Joined],
) -> (Vec<Assignment>, Option<Nearest>) {
    step_candidate(ir, group, step, joined, &mut |candidate| {
        target.known.ways(ir, candidate, target)
    })
}

/// What `with` gives for a step as something to run on a unit.
fn step_candidate<R: Default>(
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
    let (found, mut nearest) = one.then(|| target.known.ways(ir, &candidate, target))?;
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

/// A way to use units.
struct UnitChoice {
    /// How the step that decides the tiles runs.
    assignment: Rc<Assignment>,
    /// How each elementwise step runs; none for those that find no unit, and for that step.
    maps: Vec<Option<Assignment>>,
    /// The elementwise steps that find no intrinsic.
    others: Vec<usize>,
    /// Whether the accumulators may become the result.
    over: Option<Over>,
    /// The fill of a block of accumulators, if an intrinsic does it: its unit and its cycles.
    reset: Option<(Name, i64)>,
    /// What else runs on units for each block of the result: that fill and the steps behind, each with its
    /// unit and its cycles.
    beside: Vec<(Name, i64)>,
    /// The same where a tile has all of the reduction: less what one call does together.
    beside_whole: Vec<(Name, i64)>,
    /// Intrinsics that do so.
    peel: Peel,
    /// Where they want operands of the steps behind.
    behind: Vec<(usize, Name)>,
}

/// The fill of a block of accumulators, if an intrinsic does it: its unit and its cycles.
fn reset(group: &Group, target: &Target<'_>, assignment: &Assignment) -> Option<(Name, i64)> {
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
enum Way {
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
    fn unit(&self) -> Option<&UnitChoice> {
        match self {
            Way::Unit(choice) => Some(choice),
            _ => None,
        }
    }
}

fn out_order(target: &Target<'_>, assignment: &Assignment) -> Option<Vec<Vec<usize>>> {
    Some(assignment.operand_dims(target.called(assignment)?.places.last()?))
}

/// The ways to run a step; none for the step that decides the tiles.
type StepWays = Option<Vec<Assignment>>;

/// The ways to use units for a group: with one iterator for each of a unit, or with those of `joined`
/// that are one together.
fn candidates(
    ir: &Ir,
    group: &Group,
    target: &Target<'_>,
    joined: &[Joined],
) -> (Vec<UnitChoice>, Option<Nearest>) {
    let Some(main) = group.main() else {
        return (Vec::new(), None);
    };
    let (mut all, nearest) = step_assignments(ir, group, main, target, joined);
    if all.is_empty() && joined.is_empty() && !group.moves(ir) {
        all = blocks(ir, group, main, target);
    }
    all.retain(|assignment| assignment.is_joined() != joined.is_empty());
    let others: Vec<Option<&Step>> = (group.maps.iter())
        .map(|step| Some(step).filter(|step| !std::ptr::eq(*step, main)))
        .collect();
    let over = written_over(ir, group, target).filter(|over| over.input == Input::Reduced);
    // Steps behind find the same ways as long as the same iterators are one.
    let mut known: Option<(Vec<Joined>, Vec<StepWays>)> = None;
    // Of what is computed into a tile, the unit's result is the last dimensions.
    let places = group.into.as_ref().map(|_| group.out.as_projection());
    let rows = group.into.as_ref().map_or(1, |slot| slot.rows);
    let in_slot = |order: &[Vec<usize>]| match &places {
        Some(places) => places.as_ref().is_some_and(|places| {
            let last = places.iter().rev().zip(order.iter().rev());
            order.len() <= places.len() && last.into_iter().all(|(d, dims)| dims[..] == [*d])
        }),
        None => true,
    };
    let choice = |assignment: Assignment| {
        let order = out_order(target, &assignment).filter(|order| in_slot(order))?;
        let result = target.called(&assignment)?.result();
        let short = matches!(assignment.by, By::Vector(_)) && result.len() < 2;
        if rows > 1 && (short || result.first() != Some(&rows)) {
            return None;
        }
        let held = held_in(target, main, &assignment)?;
        let together = |dims: &&Joined| dims.len() > 1;
        let together: Vec<Joined> = assignment
            .unit_dims
            .iter()
            .filter(together)
            .cloned()
            .collect();
        if known.as_ref().is_none_or(|(of, _)| *of != together) {
            let ways = |step: &Option<&Step>| {
                Some(step_assignments(ir, group, (*step)?, target, &together).0)
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
            ways.as_ref()?.iter().find(|a| fits(step, a)).cloned()
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
        let (reset, behind) = (
            reset(group, target, &assignment),
            behind.collect::<Vec<_>>(),
        );
        let (mut peel, wanted) = Peel::of(ir, group, target, &assignment, &together);
        let each = target.called(&assignment)?;
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
            assignment: Rc::new(assignment),
            maps,
            others,
            over,
        })
    };
    (all.into_iter().filter_map(choice).collect(), nearest)
}

/// One in so many divisions is estimated before all of them.
const SOUNDED: usize = 16;

/// Estimates every division of a way; says why, if there is none that fits.
fn divisions(
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
    for tile in all {
        space.tile = tile;
        tried.division(with, &space, search, false);
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
