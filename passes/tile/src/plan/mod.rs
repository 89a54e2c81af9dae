//! Choosing tiles: every division of the iterators that fits the near space is estimated, and the
//! quickest one is taken.

mod estimate;

use tir::{AffineExpr, Ir, Type};
use tir_accel::machine::{EngineInfo, MachineInfo, SpaceInfo};

use crate::group::{Group, Input, Step};
use crate::layout::{Space, Tile, storage_order};
use crate::matching::{Assignment, Behaviour, Candidate, Scalar, assignments};
use estimate::{Tiles, estimate};

/// What the planner may use.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Slots of every buffer of a loop.
    pub depth: i64,
    /// Bytes of near memory.
    pub bytes: i64,
    /// Plans that are estimated at most for one group.
    pub limit: usize,
}

/// A machine, with what its intrinsics compute.
pub struct Target<'a> {
    /// The machine.
    pub info: &'a MachineInfo,
    /// Behaviours, by index of the intrinsic.
    pub behaviours: Vec<Option<Behaviour<'a>>>,
    /// Where arguments, results and constants lie.
    pub far: &'a SpaceInfo,
    /// Where tiles lie.
    pub near: &'a SpaceInfo,
    load: &'a EngineInfo,
    store: &'a EngineInfo,
}

impl<'a> Target<'a> {
    /// The far space is the first one; the near one is the smallest that engines join with it in
    /// both directions.
    pub fn new(info: &'a MachineInfo, ir: &'a Ir) -> Option<Self> {
        let far = info.far()?;
        let joined = |s: &&SpaceInfo| {
            info.engine_between(far.name, s.name).is_some()
                && info.engine_between(s.name, far.name).is_some()
        };
        let near = info.spaces.iter().filter(joined).min_by_key(|s| s.bytes)?;
        let behaviours = info
            .intrinsics
            .iter()
            .map(|i| Behaviour::of(ir, i).filter(|_| i.space == near.name));
        Some(Self {
            info,
            behaviours: behaviours.collect(),
            far,
            near,
            load: info.engine_between(far.name, near.name)?,
            store: info.engine_between(near.name, far.name)?,
        })
    }
}

/// How a group is cut up.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The iteration space, cut up.
    pub space: Space,
    /// The intrinsic and its dimensions, if a unit takes the points.
    pub unit: Option<Assignment>,
    /// Iterators whose tiles are loops, outermost first; parallel ones before reductions.
    pub order: Vec<usize>,
    /// The tile of each operand.
    pub tiles: Vec<Tile>,
    /// The tile of each result.
    pub out: Tile,
    /// Iterators of the unit's result in the order of its dimensions.
    pub unit_out: Vec<usize>,
    /// Whether the tile of the only operand is that of the result: nothing is computed.
    pub moves: bool,
    /// Whether a unit could take the points, and one by one is quicker by the estimate.
    pub quicker: bool,
    /// Bytes of near memory.
    pub bytes: i64,
    /// Estimated cycles.
    pub cycles: i64,
}

impl Plan {
    /// After how many of the loops an operand's tile is loaded.
    pub fn level(&self, operand: usize) -> usize {
        let moves = self.tiles[operand].moves_with(&self.space);
        let level = self.order.iter().rposition(|d| moves.contains(d));
        level.map_or(0, |i| i + 1)
    }
    /// Whether the loops of reductions stand around tiles.
    pub fn splits_reduction(&self, group: &Group) -> bool {
        self.order.iter().any(|d| group.reductions[*d])
    }
}

/// Why no plan was found.
#[derive(Clone, Debug)]
pub struct TooLarge {
    /// Bytes that the smallest plan needs.
    pub bytes: i64,
    /// Bytes of each operand's tile in it, of the results, and of what is accumulated.
    pub holders: Vec<i64>,
}

/// The quickest plan for a group, by estimate; of equal ones the first.
pub fn plan(ir: &Ir, group: &Group, target: &Target<'_>, budget: Budget) -> Result<Plan, TooLarge> {
    let mut search = Search {
        best: None,
        least: TooLarge {
            bytes: i64::MAX,
            holders: Vec::new(),
        },
        budget,
    };
    let elems: Vec<Type> = group
        .operands
        .iter()
        .map(|o| ir.ty(o.source).elem())
        .collect();
    if group.moves(ir) {
        // Near memory holds the tile in the order of the source, or in that of the result.
        for map in [&group.operands[0].map, &group.out] {
            let order = storage_order(map, group.domain.len());
            if let Some(order) = order {
                divisions(group, target, &Way::Moved(order), &elems, &mut search);
            }
        }
    }
    for unit in candidates(ir, group, target) {
        divisions(group, target, &Way::Unit(unit), &elems, &mut search);
    }
    // What the thread computes for a unit, it computes for all of the unit's block: without the
    // unit it may be less.
    let computes = group.operands.iter().any(|o| o.inner.is_some());
    let by_unit = search.best.is_some();
    if !by_unit || computes {
        divisions(group, target, &Way::Scalar, &elems, &mut search);
    }
    let plan = search.best.ok_or(search.least)?;
    let quicker = by_unit && plan.unit.is_none();
    Ok(Plan { quicker, ..plan })
}

/// What was found so far.
struct Search {
    best: Option<Plan>,
    least: TooLarge,
    budget: Budget,
}

impl Search {
    fn consider(&mut self, plan: Plan, holders: Vec<i64>) {
        let better = |best: &Plan| (plan.cycles, plan.bytes) < (best.cycles, best.bytes);
        if plan.bytes > self.budget.bytes {
            if plan.bytes < self.least.bytes {
                self.least = TooLarge {
                    bytes: plan.bytes,
                    holders,
                };
            }
        } else if self.best.as_ref().is_none_or(better) {
            self.best = Some(plan);
        }
    }
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

fn step_assignments(ir: &Ir, group: &Group, step: &Step, target: &Target<'_>) -> Vec<Assignment> {
    let Some(mut elems) = elems(ir, group, step) else {
        return Vec::new();
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
        domain: &group.domain[..group.core],
    };
    let all = target.behaviours.iter().enumerate();
    all.filter_map(|(i, b)| Some(assignments(&candidate, i, b.as_ref()?, 64)))
        .flatten()
        .collect()
}

/// A way to use a unit, and how many of the elementwise steps behind find none.
struct UnitChoice {
    assignment: Assignment,
    scalar_steps: i64,
}

/// How the points of a group are computed.
enum Way {
    /// On a unit.
    Unit(UnitChoice),
    /// Not at all: elements are moved through tiles whose dimensions are iterators in this order.
    Moved(Vec<usize>),
    /// One by one, by the thread.
    Scalar,
}

impl Way {
    fn unit(&self) -> Option<&UnitChoice> {
        match self {
            Way::Unit(choice) => Some(choice),
            _ => None,
        }
    }
}

fn out_order(target: &Target<'_>, assignment: &Assignment) -> Option<Vec<usize>> {
    let behaviour = target.behaviours[assignment.intrinsic].as_ref()?;
    let dims = behaviour.generic.indexing_maps.last()?.as_projection()?;
    Some(dims.into_iter().map(|d| assignment.unit_dims[d]).collect())
}

fn candidates(ir: &Ir, group: &Group, target: &Target<'_>) -> Vec<UnitChoice> {
    let Some(main) = group.main() else {
        return Vec::new();
    };
    let steps = group.maps.iter().filter(|step| !std::ptr::eq(*step, main));
    let behind: Vec<Vec<Vec<usize>>> = steps
        .map(|step| {
            let all = step_assignments(ir, group, step, target);
            all.iter().filter_map(|a| out_order(target, a)).collect()
        })
        .collect();
    let all = step_assignments(ir, group, main, target);
    let choice = |assignment: Assignment| {
        let order = out_order(target, &assignment)?;
        let alone = behind.iter().filter(|orders| !orders.contains(&order));
        let scalar_steps = alone.count() as i64;
        Some(UnitChoice {
            assignment,
            scalar_steps,
        })
    };
    all.into_iter().filter_map(choice).collect()
}

fn divisors(n: i64) -> Vec<i64> {
    (1..=n).filter(|t| n % t == 0).collect()
}

/// Iterator orders of the loops around tiles: parallel ones in any order, then reductions.
fn loop_orders(group: &Group, space: &Space) -> Vec<Vec<usize>> {
    let dims = (0..group.core).filter(|d| space.trips(*d) > 1);
    let (reductions, parallel): (Vec<usize>, Vec<usize>) = dims.partition(|d| group.reductions[*d]);
    let orders = crate::matching::orders(parallel.len().min(5));
    let order = |o: Vec<usize>| {
        let mut order: Vec<usize> = o.into_iter().map(|i| parallel[i]).collect();
        order.extend(parallel.iter().skip(5));
        order.extend(&reductions);
        order
    };
    orders.into_iter().map(order).collect()
}

/// Whether an operand is read in windows along an iterator: tiles of it would overlap.
fn slides(group: &Group, d: usize) -> bool {
    let mut places = group.operands.iter().flat_map(|o| &o.map.exprs);
    places.any(|at| at.uses(d) && !matches!(at, AffineExpr::Dim(_)))
}

/// Whether an operand of the reduction is zero beyond the range of an iterator.
fn padded_beyond(group: &Group, d: usize) -> bool {
    let inputs = group.reduce.iter().flat_map(|(step, ..)| &step.inputs);
    let mut operands = inputs.filter_map(|input| match input {
        Input::Operand(i) => Some(&group.operands[*i]),
        _ => None,
    });
    operands.any(|o| !o.cut && o.inner.is_none() && o.map.exprs.iter().any(|e| e.uses(d)))
}

fn divisions(group: &Group, target: &Target<'_>, way: &Way, elems: &[Type], search: &mut Search) {
    let budget = search.budget;
    let unit = way.unit();
    let rank = group.domain.len();
    let mut block = vec![1; rank];
    let mut unit_dims = Vec::new();
    if let Some(choice) = unit
        && let Some(behaviour) = &target.behaviours[choice.assignment.intrinsic]
    {
        unit_dims = choice.assignment.unit_dims.clone();
        for (u, d) in unit_dims.iter().enumerate() {
            block[*d] = behaviour.domain[u];
        }
    }
    // The rest of a block beyond a reduction adds nothing only if an operand is padding there.
    let ragged = |d: usize| group.reductions[d] && group.domain[d] % block[d] != 0;
    if (0..group.core).any(|d| ragged(d) && !padded_beyond(group, d)) {
        return;
    }
    let mut space = Space {
        domain: group.domain.clone(),
        tile: vec![1; rank],
        block,
        unit: unit_dims,
    };
    let options: Vec<Vec<i64>> = (0..rank)
        .map(|d| {
            let all = space.blocks(d).max(1);
            // Windows, and reductions of what no unit takes, are not divided.
            let inner = d >= group.core || slides(group, d);
            let whole = unit.is_none() || space.block[d] == 1 && inner;
            let whole = group.reductions[d] && whole;
            if whole || group.whole.contains(&d) {
                vec![all]
            } else {
                divisors(all)
            }
        })
        .collect();
    let total: usize = options.iter().map(Vec::len).product();
    // Beyond the limit only every so many-th division is looked at, the extremes among them.
    let stride = total.div_ceil(budget.limit.max(1));
    for index in (0..total).step_by(stride.max(1)) {
        let mut rest = index;
        for (d, option) in options.iter().enumerate() {
            space.tile[d] = option[rest % option.len()];
            rest /= option.len();
        }
        let Some(tiles) = Tiles::new(group, target, way, &space, elems) else {
            continue;
        };
        for order in loop_orders(group, &space) {
            if let Some((plan, holders)) =
                estimate(group, target, way, &space, &tiles, order, budget)
            {
                search.consider(plan, holders);
            }
        }
    }
}
