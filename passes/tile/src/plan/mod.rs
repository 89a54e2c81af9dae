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
mod least;
pub(crate) mod listing;
mod peel;
mod places;
mod quicker;
mod room;
mod search;
mod shapes;
mod siblings;
mod sizes;
mod slots;
mod spread;
mod staged;
mod strip;
mod target;
mod traffic;
mod unit;
mod vectors;

use std::sync::Arc;

use tir::{Ir, Name, Type};
use tir_accel::machine::SpaceInfo;

use crate::group::{Group, Input, StepRef};
use crate::layout::{Space, Tile, storage_order};
use crate::matching::{Assignment, By, Joined, Mismatch};
pub use beyond::{adds_nothing, gives_zero};
pub use blocks::Block;
pub use blocks::{boxes, columns, rows, takes_any_rows};
pub use cost::{Cost, Price};
use hold::hold_near;
pub use hold::{Hold, held, hold};
use in_place::{Over, fits_in_place, written_over};
use known::Ways;
pub(crate) use lanes::Lanes;
pub(crate) use least::{Least, least};
pub use peel::Peel;
pub use places::{Excess, excess};
use search::{Search, divisions};
pub use siblings::Siblings;
use sizes::joined;
pub(crate) use sizes::{Choices, divisors, slides_near};
pub use slots::fit;
pub use spread::Spread;
pub use strip::Strips;
pub use target::Target;
pub use traffic::{Holder, load_cycles, near_bytes};
pub(crate) use unit::out_order;
use unit::{UnitChoice, Way, candidates};
pub use unit::{nearest, otherwise};

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
    /// Which products in groups of few channels may be in fewer groups.
    pub join: Join,
    /// Whether equal cores share the loops of a group; if not, it is planned for one of them.
    pub cores: bool,
    /// Whether the last block of a unit is moved back where it would stick out of a dimension: some elements are computed twice,
    /// and tiles are no larger than what they hold.
    pub shifts: bool,
    /// How many cycles more each cycle of an engine counts as where plans are compared: many where bytes decide, not cycles.
    pub worth: i64,
}

/// Which products in groups may be in fewer groups, with zeros between what becomes one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Join {
    /// None.
    None,
    /// Those of integers, of which zeros change nothing.
    Exact,
    /// Those of floats too: an infinity or NaN in one group makes NaN of those that it is one with.
    All,
}

impl Join {
    /// By its name as an option.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "none" => Self::None,
            "exact" => Self::Exact,
            "all" => Self::All,
            _ => return None,
        })
    }

    /// Whether products of these elements are taken.
    pub fn takes(self, elem: Type) -> bool {
        match self {
            Self::None => false,
            Self::Exact => !elem.is_float(),
            Self::All => true,
        }
    }
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
    /// Keeps the nearer one; of equal ones the first, and of those that do not fit the one of the fewest bytes.
    fn improve(best: &mut Option<Nearest>, kind: &'static str, name: Name, mismatch: Mismatch) {
        let better = |old: &Nearest| mismatch.is_nearer(&old.mismatch);
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
    pub space: Arc<Space>,
    /// The intrinsic and its dimensions, if a unit takes the points.
    pub unit: Option<Arc<Assignment>>,
    /// Iterators whose tiles are loops, outermost first; parallel ones before reductions.
    pub order: Vec<usize>,
    /// What is gone through inside of the loops of a reduction.
    pub strips: Option<Arc<Strips>>,
    /// The near space of each operand's tile.
    pub spaces: Arc<[Name]>,
    /// The near space of all that is computed.
    pub held: Name,
    /// The tile of each operand: the same for all orders of the loops, as are those below.
    pub tiles: Arc<[Arc<Tile>]>,
    /// The tile of what each step computes.
    pub out: Arc<Tile>,
    /// The same tile as part of each result.
    pub results: Arc<[Tile]>,
    /// Iterators that each dimension of the unit's result is, in order; none for those of one element.
    pub unit_out: Arc<[Vec<usize>]>,
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
    /// Cycles of the thread, of those that its points take: all, where nothing helps it.
    pub fn by_thread(&self, compute: i64) -> i64 {
        let works = self.unit.is_some() || !self.busy.is_empty();
        match works || self.moves || self.helps {
            true => self.thread,
            false => compute,
        }
    }

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
    /// Cycles of the engines, by the estimate.
    fn moved(&self) -> i64 {
        self.cost.moved()
    }
    /// Whether it is to be taken in the place of another one, by its cycles and by what it moves.
    pub fn is_less(&self, other: &Self) -> bool {
        let close = |a: &Self, b: &Self| a.cycles - b.cycles <= b.cycles / SLACK;
        match close(self, other) && close(other, self) {
            true => (self.moved(), self.cycles) < (other.moved(), other.cycles),
            false => self.cycles < other.cycles,
        }
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
        if search.best.is_none() && search.in_parts(group) {
            divisions(group, target, &Way::Whole, &elems, &mut search);
        }
        let listed = listing::listing(group, target, &search);
        let plan = search.best.ok_or(search.least)?;
        return Ok(Plan { listed, ..plan });
    }
    let (mut units, mut nearest) = candidates(ir, group, target, &[]);
    // What reads each element once is as quick on whole tiles, in fewer calls.
    units.retain(|unit| group.reduce.is_some() || unit.assignment.intrinsic().is_some());
    first_fewest(&mut units, group, target);
    let plain = units
        .iter()
        .map(|unit| cycles_of_calls(unit, group, target));
    let plain = plain.min().unwrap_or(0);
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
    // Where the unit is what all waits for, its blocks are filled better; and where they are mostly empty, as what they hold is
    // moved.
    if let Some(best) = search.best.as_ref().filter(|plan| plan.unit.is_some()) {
        let bound = best.cost.compute > best.cycles / 4 * 3;
        let (mut units, _) = candidates(ir, group, target, &joined(group, target));
        units.retain(|unit| bound || cycles_of_calls(unit, group, target) <= plain / EMPTY);
        first_fewest(&mut units, group, target);
        for unit in units {
            divisions(group, target, &Way::Unit(unit), &elems, &mut search);
        }
    }
    // What the thread computes for a unit, it computes for all of the unit's block: without the
    // unit it may be less.
    let computes = group.operands.iter().any(|o| o.inner.is_some());
    let by_unit = search.best.is_some();
    // Where engines pay for runs that are longer than an element, the thread may be quicker at another order of elements.
    let reorders = group.moves(ir) && elems.iter().any(|ty| pays_for_elements(*ty, target));
    if !by_unit || computes || reorders || search.vectors.any() {
        divisions(group, target, &Way::Whole, &elems, &mut search);
    }
    if search.best.is_none() && search.in_parts(group) {
        divisions(group, target, &Way::Whole, &elems, &mut search);
    }
    found(ir, group, target, search, (by_unit, nearest))
}

/// Stages are not computed in ways whose calls take more than so many times the cycles of another one's: most of a unit's block is
/// empty then, as where a dimension of it is an iterator of one point.
const FILLED: i64 = 4;

/// Of iterators that no unit has to wait for, those are joined by which its calls take one in so many cycles.
const EMPTY: i64 = 2;

/// Cycles of the calls of a way, if all blocks of the unit are full that can be.
fn cycles_of_calls(unit: &UnitChoice, group: &Group, target: &Target<'_>) -> i64 {
    let mut blocks = group.domain[..group.core].to_vec();
    for (d, points) in unit.assignment.unit_dims.iter().flatten() {
        blocks[*d] = (blocks[*d] + points - 1) / points;
    }
    let called = target.called(&unit.assignment);
    let each = called.map_or(1, |called| called.cycles);
    blocks.into_iter().fold(each, i64::saturating_mul)
}

/// Puts ways whose calls take the fewest cycles first: by what they take most divisions of the others are left out early. Of equal
/// ones the first stays before the others.
fn first_fewest(units: &mut [UnitChoice], group: &Group, target: &Target<'_>) {
    units.sort_by_cached_key(|unit| cycles_of_calls(unit, group, target));
}

/// Whether engines move elements that lie apart from each other for more than their bytes.
pub(crate) fn pays_for_elements(ty: Type, target: &Target<'_>) -> bool {
    ty.bytes()
        .is_some_and(|bytes| (bytes as i64) < free_elements(target))
}

/// Bytes of the smallest element that engines move by itself for no more than its bytes: no run is paid for that is longer, or squares
/// are transposed.
pub(crate) fn free_elements(target: &Target<'_>) -> i64 {
    let pays = |bytes: i64| {
        let mut engines = target.info.engines.iter();
        engines.any(|engine| engine.granule > bytes && engine.square <= bytes)
    };
    let mut sizes = (0..62).map(|power| 1i64 << power);
    sizes.find(|bytes| !pays(*bytes)).unwrap_or(i64::MAX)
}

/// Of plans that take one cycle in so many longer than the quickest, the one that moves the least is taken: estimates do
/// not tell them apart, and what an engine does not move is room for the nests before and behind.
const SLACK: i64 = 64;

/// The plan for a group on a unit of which one dimension is these iterators together: of the quickest ones, the one
/// that moves the least.
pub fn plan_joined(
    ir: &Ir,
    group: &Group,
    target: &Target<'_>,
    budget: Budget,
    dims: &Joined,
) -> Result<Plan, TooLarge> {
    let mut search = Search::new(ir, group, target, budget);
    search.slack = SLACK;
    let elems = sources(ir, group);
    for unit in candidates(ir, group, target, std::slice::from_ref(dims)).0 {
        divisions(group, target, &Way::Unit(unit), &elems, &mut search);
    }
    found(ir, group, target, search, (true, None))
}

/// The plan that a search found, with what does not depend on its division: whether a unit takes the group, and what
/// comes nearest to it.
fn found(
    ir: &Ir,
    group: &Group,
    target: &Target<'_>,
    mut search: Search<'_>,
    (by_unit, mut nearest): (bool, Option<Nearest>),
) -> Result<Plan, TooLarge> {
    let listed = listing::listing(group, target, &search);
    let plan = search.taken().ok_or(search.least)?;
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
/// not come first. With `windows`, windows that slide over what lies near are divided, too.
pub fn stages(
    ir: &Ir,
    group: &Group,
    target: &Target<'_>,
    budget: Budget,
    (parts, windows): (bool, bool),
) -> Vec<Plan> {
    let elems = sources(ir, group);
    // What would not fit in any way is only kept where it is listed.
    if budget.listed == 0 && !room::may_fit(group, target, &elems, budget, parts) {
        return Vec::new();
    }
    let mut search = Search::new(ir, group, target, budget);
    (search.all, search.parts, search.windows) = (true, parts, windows);
    // What lies in a tile that another nest reads is one iterator along each dimension of the unit.
    let mut ways = joined(group, target);
    ways.retain(|dims| dims.iter().all(|(d, _)| group.reductions[*d]));
    let ways = std::iter::once(Vec::new()).chain((!ways.is_empty()).then_some(ways));
    for ways in ways {
        let (mut units, _) = candidates(ir, group, target, &ways);
        first_fewest(&mut units, group, target);
        let mut least = i64::MAX;
        for unit in units {
            let cycles = cycles_of_calls(&unit, group, target);
            if cycles / FILLED > least {
                continue;
            }
            let before = search.kept.len();
            divisions(group, target, &Way::Unit(unit), &elems, &mut search);
            if search.kept.len() > before {
                least = least.min(cycles);
            }
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
    plans.retain_mut(|plan| reads_near(group, target, plan));
    let producer = group.into.as_ref().is_some_and(|slot| !slot.divided);
    plans.sort_by_key(|plan| {
        let parts = producer && plan.splits_reduction(group);
        (parts, plan.cycles, plan.bytes)
    });
    if producer && !group.operands.iter().any(|operand| operand.near) {
        plans = first_of_each(group, plans);
    }
    // They are remembered, a few of very many.
    plans.shrink_to_fit();
    plans
}

/// How many plans of a producer are tried at most.
pub(crate) const TRIED: usize = 4;

/// Those plans of a producer that may be tried, in their order: the first few that lie in one space and load no more for a
/// tile than some number of bytes, whatever the number.
fn first_of_each(group: &Group, plans: Vec<Plan>) -> Vec<Plan> {
    let mut before: Vec<(Name, i64)> = Vec::new();
    let fits = |plan: &Plan| {
        let (held, loaded) = (plan.held, plan.loaded(group));
        let better = before.iter().filter(|(h, l)| *h == held && *l <= loaded);
        let kept = better.count() < TRIED;
        if kept {
            before.push((held, loaded));
        }
        kept
    };
    plans.into_iter().filter(fits).collect()
}

/// Lets a stage read what lies in near memory as a whole; whether it can, and computes into a tile of another nest
/// what it is to lie there.
fn reads_near(group: &Group, target: &Target<'_>, plan: &mut Plan) -> bool {
    for (i, operand) in group.operands.iter().enumerate() {
        if operand.near {
            // Whole blocks that lie beyond the range have nothing there.
            let read = |d: &usize| operand.map.exprs.iter().any(|e| e.uses(*d));
            let mut read = plan.order.iter().filter(|d| read(d));
            if read.any(|d| plan.space.is_ragged(*d)) {
                return false;
            }
            let Some(whole) = hold_near(group, target, plan, i) else {
                return false;
            };
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

/// Element types of the operands.
pub(super) fn sources(ir: &Ir, group: &Group) -> Vec<Type> {
    let operands = group.operands.iter();
    operands.map(|o| ir.ty(o.source).elem()).collect()
}
