//! Choosing tiles: every division of the iterators that fits the near space is estimated, and the
//! quickest one is taken.

use tir::{Ir, Type};
use tir_accel::machine::{EngineInfo, MachineInfo, SpaceInfo};

use crate::group::{Group, Input, Step};
use crate::layout::{Axis, Space, Tile, storage_order};
use crate::matching::{Assignment, Behaviour, Candidate, Scalar, assignments};

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
    /// The tile of the result.
    pub out: Tile,
    /// Iterators of the unit's result in the order of its dimensions.
    pub unit_out: Vec<usize>,
    /// Whether the tile of the only operand is that of the result: nothing is computed.
    pub moves: bool,
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
    /// Bytes of each operand's tile in it, the result's last.
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
    if group.moves(ir) {
        // Near memory holds the tile in the order of the source, or in that of the result.
        for map in [&group.operands[0].map, &group.out] {
            let order = storage_order(map, group.domain.len());
            divisions(group, target, None, order.as_deref(), &mut search);
        }
    }
    for unit in candidates(ir, group, target) {
        divisions(group, target, Some(&unit), None, &mut search);
    }
    if search.best.is_none() {
        divisions(group, target, None, None, &mut search);
    }
    search.best.ok_or(search.least)
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
    }
}

/// Element types of a step's inputs.
fn elems(ir: &Ir, group: &Group, step: &Step) -> Vec<Type> {
    let elem = |input: &Input| match input {
        Input::Operand(i) => ir.ty(group.operands[*i].source).elem(),
        Input::Reduced => group.sum,
    };
    step.inputs.iter().map(elem).collect()
}

fn step_assignments(ir: &Ir, group: &Group, step: &Step, target: &Target<'_>) -> Vec<Assignment> {
    let mut elems = elems(ir, group, step);
    let mut maps = step.maps.clone();
    maps.push(group.out.clone());
    let reduces = group.main().is_some_and(|main| std::ptr::eq(main, step));
    elems.push(match group.reduce {
        Some(_) if reduces => group.sum,
        _ => group.result.elem(),
    });
    let combine = match &group.reduce {
        Some((_, combine, _)) if reduces => Some(*combine),
        _ => None,
    };
    let candidate = Candidate {
        scalar: scalar(ir, step),
        combine,
        elems,
        maps: &maps,
        reductions: &group.reductions,
        domain: &group.domain,
    };
    let all = target.behaviours.iter().enumerate();
    all.filter_map(|(i, b)| Some(assignments(&candidate, i, b.as_ref()?, 64)))
        .flatten()
        .collect()
}

/// A way to use a unit, and whether the elementwise step behind finds one too.
struct UnitChoice {
    assignment: Assignment,
    epilogue: bool,
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
    let behind: Vec<Vec<usize>> = match (&group.reduce, &group.map) {
        (Some(_), Some(step)) => {
            let all = step_assignments(ir, group, step, target);
            all.iter().filter_map(|a| out_order(target, a)).collect()
        }
        _ => Vec::new(),
    };
    let all = step_assignments(ir, group, main, target);
    let choice = |assignment: Assignment| {
        let order = out_order(target, &assignment)?;
        let epilogue = group.reduce.is_none() || group.map.is_none() || behind.contains(&order);
        Some(UnitChoice {
            assignment,
            epilogue,
        })
    };
    all.into_iter().filter_map(choice).collect()
}

fn divisors(n: i64) -> Vec<i64> {
    (1..=n).filter(|t| n % t == 0).collect()
}

/// Iterator orders of the loops around tiles: parallel ones in any order, then reductions.
fn loop_orders(group: &Group, space: &Space) -> Vec<Vec<usize>> {
    let dims = (0..space.domain.len()).filter(|d| space.trips(*d) > 1);
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

fn divisions(
    group: &Group,
    target: &Target<'_>,
    unit: Option<&UnitChoice>,
    moved: Option<&[usize]>,
    search: &mut Search,
) {
    let budget = search.budget;
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
            if group.reductions[d] && (unit.is_none() || space.block[d] == 1) {
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
        for order in loop_orders(group, &space) {
            if let Some((plan, holders)) =
                estimate(group, target, unit, moved, &space, order, budget)
            {
                search.consider(plan, holders);
            }
        }
    }
}

fn bytes(value_elem: Type) -> i64 {
    value_elem.bytes().unwrap_or(1) as i64
}

fn round_up(n: i64, to: i64) -> i64 {
    (n + to - 1) / to.max(1) * to.max(1)
}

/// What a tile costs in near memory and on the engine.
struct Traffic {
    near: i64,
    cycles: i64,
    first: i64,
}

#[allow(clippy::too_many_arguments)]
fn traffic(
    tile: &Tile,
    space: &Space,
    order: &[usize],
    level: usize,
    elem: i64,
    shape: &[i64],
    engine: &EngineInfo,
    align: i64,
    depth: i64,
    slides: bool,
) -> Traffic {
    let size = tile.elements() * elem;
    // What of the tile lies inside the source.
    let inside = |skip: Option<usize>| -> i64 {
        let mut extents = vec![1i64; shape.len()];
        for (i, dim) in tile.dims.iter().enumerate() {
            if Some(i) != skip {
                extents[dim.source.0] *= dim.size;
            }
        }
        extents
            .iter()
            .zip(shape)
            .map(|(e, s)| (*e).min(*s))
            .product::<i64>()
            * elem
    };
    let run = tile.run(shape) * elem;
    let starts = tile.starts(shape, elem, engine.dims);
    let cost = |moved: i64| -> i64 {
        let moved = if engine.granule > run {
            moved / run.max(1) * engine.granule
        } else {
            moved
        };
        engine.latency * starts
            + (moved + engine.bytes_per_cycle - 1) / engine.bytes_per_cycle.max(1)
    };
    let count: i64 = order[..level].iter().map(|d| space.trips(*d)).product();
    let whole = cost(inside(None));
    let mut near = round_up(size, align) * if level > 0 { depth } else { 1 };
    let mut cycles = whole * count;
    if slides && level > 0 {
        let d = order[level - 1];
        let steps = tile.step(space, d);
        let moving: Vec<usize> = (0..steps.len()).filter(|s| steps[*s] != 0).collect();
        if let [s] = moving[..]
            && let Some(i) = tile.dims.iter().position(|dim| {
                dim.source == (s, 1) && matches!(dim.axis, Axis::Window(_)) && dim.size > steps[s]
            })
        {
            let (window, step) = (tile.dims[i].size, steps[s]);
            let rows = round_up(window + step * (depth - 1), step);
            near = round_up(size / window * rows, align);
            let again = cost(inside(Some(i)) * step);
            let restarts = count / space.trips(d);
            cycles = restarts * whole + (count - restarts) * again;
        }
    }
    Traffic {
        near,
        cycles,
        first: whole,
    }
}

fn estimate(
    group: &Group,
    target: &Target<'_>,
    unit: Option<&UnitChoice>,
    moved: Option<&[usize]>,
    space: &Space,
    order: Vec<usize>,
    budget: Budget,
) -> Option<(Plan, Vec<i64>)> {
    let reduce_inputs = group
        .reduce
        .as_ref()
        .map_or(0, |(step, ..)| step.inputs.len());
    let unit_out = unit
        .and_then(|c| out_order(target, &c.assignment))
        .unwrap_or_default();
    let mut tiles = Vec::new();
    for (i, operand) in group.operands.iter().enumerate() {
        let tile = match unit {
            None if moved.is_some() => Tile::moved(space, &operand.map, moved?)?,
            None => Tile::plain(space, &operand.map)?,
            Some(choice) => {
                let behaviour = target.behaviours[choice.assignment.intrinsic].as_ref()?;
                let dims: Vec<usize> = if i < reduce_inputs || group.reduce.is_none() {
                    let j = choice.assignment.inputs[i];
                    let dims = behaviour.generic.indexing_maps[j].as_projection()?;
                    dims.into_iter()
                        .map(|d| choice.assignment.unit_dims[d])
                        .collect()
                } else {
                    let used = |d: &usize| operand.map.exprs.iter().any(|e| e.uses(*d));
                    unit_out.iter().copied().filter(used).collect()
                };
                Tile::new(space, &operand.map, &dims)?
            }
        };
        tiles.push(tile);
    }
    let out = match unit {
        None if moved.is_some() => Tile::moved(space, &group.out, moved?)?,
        None => Tile::plain(space, &group.out)?,
        Some(_) => Tile::new(space, &group.out, &unit_out)?,
    };
    let mut plan = Plan {
        space: space.clone(),
        unit: unit.map(|c| c.assignment.clone()),
        order,
        tiles,
        out,
        unit_out,
        moves: moved.is_some(),
        bytes: 0,
        cycles: 0,
    };
    let align = target.near.align.max(1);
    let elem = bytes(group.result.elem());
    let (mut load, mut first) = (0, 0);
    let mut holders = Vec::new();
    for (i, operand) in group.operands.iter().enumerate() {
        let shape = &group.shapes[i];
        let level = plan.level(i);
        let t = traffic(
            &plan.tiles[i],
            space,
            &plan.order,
            level,
            bytes(group.elems[i]),
            shape,
            target.load,
            align,
            budget.depth,
            operand.map.dims > 0,
        );
        load += t.cycles;
        first += t.first;
        holders.push(t.near);
    }
    let parallel = plan
        .order
        .iter()
        .take_while(|d| !group.reductions[**d])
        .count();
    let shape = group.result.shape()?;
    let t = traffic(
        &plan.out,
        space,
        &plan.order,
        parallel,
        elem,
        shape,
        target.store,
        align,
        budget.depth,
        false,
    );
    holders.push(if plan.moves { 0 } else { t.near });
    let (store, last) = (t.cycles, t.first);
    // Accumulators, where they are not the result itself.
    let unit_tile: i64 = plan
        .unit_out
        .iter()
        .map(|d| space.block[*d])
        .product::<i64>()
        * bytes(group.sum);
    let acc = match (&group.reduce, &group.map) {
        (Some(_), Some(_)) if unit.is_none() || plan.splits_reduction(group) => {
            round_up(plan.out.elements() * bytes(group.sum), align)
                * if parallel > 0 { budget.depth } else { 1 }
        }
        (Some(_), Some(_)) => {
            let inside = (0..space.tile.len())
                .any(|d| !group.reductions[d] && space.tile[d] * space.trips(d) > 1);
            round_up(unit_tile, align) * if inside { budget.depth } else { 1 }
        }
        _ => 0,
    };
    holders.push(acc);
    plan.bytes = holders.iter().sum();
    let scalar = target.info.scalar_cycles.max(1);
    let outputs: i64 = shape.iter().product();
    let compute = match unit {
        Some(choice) => {
            let calls: i64 = (0..space.domain.len()).map(|d| space.blocks(d)).product();
            let cycles = target.info.intrinsics[choice.assignment.intrinsic].cycles;
            let tail = if choice.epilogue {
                0
            } else {
                outputs.saturating_mul(6 * scalar)
            };
            calls.saturating_mul(cycles).saturating_add(tail)
        }
        None if plan.moves => 0,
        None => group.points().saturating_mul(6 * scalar),
    };
    plan.cycles = compute
        .max(load)
        .max(store)
        .saturating_add(first)
        .saturating_add(last);
    Some((plan, holders))
}
