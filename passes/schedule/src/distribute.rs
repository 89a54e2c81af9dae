//! `distribute`: iterations that are independent of each other run at the same time, on equal units and on
//! equal cores (unroll and jam).
//!
//! *Terms.* A loop is *split* among *lanes*, one for each unit or core: lane `j` of `n` runs the `j`-th part
//! of its iterations, and one of each that are left over. What the lanes do stands beside each other in each
//! iteration of the new loop, and loops inside are one loop for all lanes, so that the thread feeds all queues
//! in turn. Of a buffer in a space that is private to cores each lane has a copy in its own.
//!
//! *Invariants.* A loop is split only if it says that its iterations are independent, if all that they write
//! outside is written at places that move with its index, and if nothing of it lies in a space that would
//! have to hold it once for each lane. What is split reads no private buffer that it writes, other than its
//! own; so buffers around it hold the same in all cores, and what fills them is done for each.

use std::collections::{HashMap, HashSet};

use tir::{
    Access, At, Attr, BlockId, Builder, Ir, LinearMap, Mapping, MemRefType, Name, OpId, Rets, Sym,
    Traits, Type, Value,
};
use tir_accel::{Apply, Call, MachineInfo};
use tir_arith::OpFoldResult;
use tir_loop::{For, If, Yield};
use tir_memref::alias::{Origin, accesses, accesses_others, origins};
use tir_memref::{Alloc, Copy, TransferRead, TransferWrite};

pub use crate::passes::Distribute;

use crate::index::Counter;
use crate::views::sub_view;

/// What the lanes of a split are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Cores with memories of their own.
    Cores,
    /// Equal units that work in the same memory.
    Units,
}

/// Splits loops among cores, then among the units of each. Gives how many loops were split.
pub fn distribute(ir: &mut Ir, machine: &MachineInfo) -> [usize; 2] {
    [Kind::Cores, Kind::Units].map(|kind| {
        let chosen = match machine.has_equal_units() {
            true => Choice { ir, machine, kind }.all(),
            false => Vec::new(),
        };
        let mut split = Split {
            machine,
            kind,
            copies: HashMap::new(),
        };
        if kind == Kind::Cores {
            split.around(ir, &chosen);
        }
        for (looped, lanes) in &chosen {
            split.one(ir, looped, *lanes);
        }
        let nests = if kind == Kind::Units {
            split.nests(ir)
        } else {
            0
        };
        chosen.len() + nests
    })
}

/// The space of a value, if it is a buffer in a named one.
fn space(ir: &Ir, value: Value) -> Option<Name> {
    ir.ty(value).get::<MemRefType>()?.space_name()
}

/// Which loops are split.
struct Choice<'a> {
    ir: &'a Ir,
    machine: &'a MachineInfo,
    kind: Kind,
}

impl Choice<'_> {
    /// The loops that are split, none inside of another, and among how many lanes.
    fn all(&self) -> Vec<(Counter, usize)> {
        let mut found = Vec::new();
        for region in self.ir.regions(self.ir.root()) {
            for block in self.ir.blocks(region) {
                self.inside(block, &mut found);
            }
        }
        found
            .into_iter()
            .map(|(counter, lanes, _)| (counter, lanes))
            .collect()
    }

    /// Of a loop and those in it whatever keeps the lanes busiest; of equal ones the outermost.
    fn inside(&self, block: BlockId, found: &mut Vec<(Counter, usize, f64)>) {
        for op in self.ir.ops_in(block) {
            let before = found.len();
            for region in self.ir.regions(op) {
                for block in self.ir.blocks(region) {
                    self.inside(block, found);
                }
            }
            let Some((counter, lanes)) = self.may_split(op) else {
                continue;
            };
            let (trips, each) = (counter.trips as f64, lanes as i64);
            let busy = trips / (((counter.trips + each - 1) / each) * each) as f64;
            if found[before..].iter().all(|(.., other)| *other <= busy) {
                found.truncate(before);
                found.push((counter, lanes, busy));
            }
        }
    }

    /// How many lanes a loop may have, if more than one.
    fn may_split(&self, op: OpId) -> Option<(Counter, usize)> {
        let ir = self.ir;
        let looped = ir
            .get::<For>(op)
            .filter(|l| l.parallel && l.init.is_empty())?;
        let counter = Counter::of(ir, op).filter(|counter| counter.trips > 1)?;
        let around = std::iter::successors(ir.parent(op), |op| ir.parent(*op));
        let around: Vec<OpId> = around.collect();
        let plain = |op: &OpId| ir.get::<For>(*op).is_none_or(|l| l.init.is_empty());
        if !around
            .iter()
            .all(|op| plain(op) && ir.results(*op).len() == 0)
        {
            return None;
        }
        let below = ir.walk_below(op);
        let lanes = match self.kind {
            Kind::Cores => {
                let spaces = below.iter().flat_map(|op| ir.operands(*op));
                let spaces = spaces.filter_map(|value| space(ir, value));
                spaces.map(|space| self.machine.cores_with(space)).max()
            }
            Kind::Units => {
                let units = below.iter().filter_map(|op| self.machine.unit_of(ir, *op));
                units.map(|unit| self.units_beside(unit)).max()
            }
        }?;
        let moving = self.moving(&below, ir.args(ir.entry(looped.body)?).next()?);
        let may = |op: &OpId| self.may_run_beside(*op, counter.op, &moving);
        // Buffers of what is left over would be there in all iterations of a loop around.
        let again = |op: &OpId| ir.get::<For>(*op).is_some_and(|l| !l.parallel);
        let mut lanes = lanes;
        if around.iter().any(again) {
            lanes = (1..=lanes).rev().find(|n| counter.trips % *n as i64 == 0)?;
        }
        (lanes > 1 && below.iter().all(may)).then_some((counter, lanes))
    }

    /// How many units equal to one there are in its core.
    fn units_beside(&self, unit: Name) -> usize {
        let Some(unit) = self.machine.unit(unit) else {
            return 1;
        };
        let equal = self.machine.equal_units(unit.of);
        equal.filter(|other| other.place == unit.place).count()
    }

    /// Values that are others in each iteration.
    fn moving(&self, below: &[OpId], iv: Value) -> HashSet<Value> {
        let mut moving = HashSet::from([iv]);
        for op in below {
            let moves = self.ir.operands(*op).any(|v| moving.contains(&v));
            if moves || self.ir.is::<Alloc>(*op) {
                moving.extend(self.ir.results(*op));
            }
        }
        moving
    }

    /// Whether an op of a loop may run for several iterations at the same time.
    fn may_run_beside(&self, op: OpId, scope: OpId, moving: &HashSet<Value>) -> bool {
        let ir = self.ir;
        if let Some(inner) = ir.get::<For>(op) {
            return inner.init.is_empty();
        }
        if ir.is::<If>(op) {
            return ir.results(op).len() == 0;
        }
        let home = self.machine.far().map(|space| space.name);
        if ir.is::<Alloc>(op) {
            let space = space(ir, ir.result(op, 0));
            return match self.kind {
                Kind::Cores => space.is_some_and(|s| s == home.unwrap_or(s) || self.is_private(s)),
                Kind::Units => true,
            };
        }
        let transfers =
            ir.is::<TransferRead>(op) || ir.is::<TransferWrite>(op) || ir.is::<Copy>(op);
        // Each unit would need tiles of its own.
        if self.kind == Kind::Units && transfers {
            return false;
        }
        let Some(effects) = ir.effects(op) else {
            return false;
        };
        let mut written = effects.iter().filter(|e| matches!(e.access, Access::Write));
        written.all(|effect| {
            let Some(value) = effect.on else {
                return false;
            };
            let own = |origin: &Origin| match origin {
                Origin::Allocated(buffer) => {
                    ir.owner(*buffer).is_some_and(|op| ir.is_below(op, scope))
                }
                _ => false,
            };
            if origins(ir, value).iter().all(own) {
                return true;
            }
            // Around the loop a buffer holds the same in all cores.
            let shared = self.kind == Kind::Units
                || space(ir, value).is_none_or(|space| !self.is_private(space));
            let offsets = ir.get::<TransferWrite>(op).map(|t| t.offsets);
            let mut offsets = offsets.into_iter().flatten();
            shared && (moving.contains(&value) || offsets.any(|v| moving.contains(&v)))
        })
    }

    fn is_private(&self, space: Name) -> bool {
        self.machine.cores_with(space) > 1
    }
}

/// Splits loops.
struct Split<'a> {
    machine: &'a MachineInfo,
    kind: Kind,
    /// What a private buffer around split loops, or a view of it, is in each core.
    copies: HashMap<Value, Vec<Value>>,
}

impl Split<'_> {
    /// Gives each core its copy of the private buffers that lie around split loops and are used in them,
    /// and does for each what is done with them.
    fn around(&mut self, ir: &mut Ir, chosen: &[(Counter, usize)]) {
        let inside = |ir: &Ir, op: OpId| chosen.iter().any(|(l, _)| ir.is_below(op, l.op));
        let private = |ir: &Ir, value: Value| {
            let cores = space(ir, value).map_or(1, |space| self.machine.cores_with(space));
            (cores > 1).then_some(cores)
        };
        let all = ir.walk_ids();
        let mut needed: HashSet<Value> = HashSet::new();
        let buffers = |ir: &Ir, op: OpId| -> Vec<Value> {
            let values = ir.operands(op).chain(ir.results(op));
            let values = values.filter(|v| private(ir, *v).is_some());
            let roots = values.flat_map(|v| origins(ir, v));
            let roots = roots.filter_map(|origin| match origin {
                Origin::Allocated(buffer) => Some(buffer),
                _ => None,
            });
            roots.collect()
        };
        let (used, others): (Vec<OpId>, Vec<OpId>) =
            all.into_iter().partition(|op| inside(ir, *op));
        needed.extend(used.iter().flat_map(|op| buffers(ir, *op)));
        // What fills one of them may read another one.
        loop {
            let before = needed.len();
            for op in &others {
                let touched = buffers(ir, *op);
                if touched.iter().any(|buffer| needed.contains(buffer)) {
                    needed.extend(touched);
                }
            }
            if needed.len() == before {
                break;
            }
        }
        for op in others {
            let made = ir.is::<Alloc>(op) && needed.contains(&ir.result(op, 0));
            let touched = ir.operands(op).find_map(|v| self.copies.get(&v));
            let lanes = match (made, touched) {
                (true, _) => private(ir, ir.result(op, 0)).unwrap_or(1),
                (false, Some(copies)) => copies.len(),
                (false, None) => continue,
            };
            // What all hold is written back by one.
            if writes_elsewhere(ir, op, &self.copies) {
                continue;
            }
            let results: Vec<Value> = ir.results(op).collect();
            let mut copies: Vec<Vec<Value>> = results.iter().map(|v| vec![*v]).collect();
            let mut last = op;
            for place in 1..lanes {
                let mut map = self.mapping(place);
                last = ir.duplicate(op, At::After(last), &mut map);
                self.relocate(ir, last, place);
                for (copies, new) in copies.iter_mut().zip(ir.results(last)) {
                    copies.push(new);
                }
            }
            self.copies.extend(results.into_iter().zip(copies));
        }
    }

    /// What values around split loops are in a lane.
    fn mapping(&self, place: usize) -> Mapping {
        let mut map = Mapping::default();
        for (value, copies) in &self.copies {
            if let Some(copy) = copies.get(place) {
                map.map(*value, *copy);
            }
        }
        map
    }

    /// Makes an op that was copied for a lane one of its units and spaces.
    fn relocate(&self, ir: &mut Ir, op: OpId, lane: usize) {
        for op in std::iter::once(op).chain(ir.walk_below(op)) {
            if let Some(unit) = self.machine.unit_of(ir, op).filter(|_| lane > 0)
                && let Some(unit) = self.unit(unit, lane)
                && (ir.is::<Call>(op) || ir.is::<Apply>(op))
            {
                ir.set_attr(op, "unit", Attr::symbol(unit));
            }
            if self.kind == Kind::Units {
                continue;
            }
            let blocks: Vec<BlockId> = ir.regions(op).flat_map(|r| ir.blocks(r)).collect();
            let arguments = blocks.into_iter().flat_map(|block| ir.args(block));
            let values: Vec<Value> = ir.results(op).chain(arguments).collect();
            for value in values {
                let Some(memref) = ir.ty(value).get::<MemRefType>() else {
                    continue;
                };
                let Some(own) = memref.space_name() else {
                    continue;
                };
                let there = self.machine.space_of(own, lane);
                if there != own {
                    let ty = Type::new(MemRefType {
                        space: Some(Attr::str(there.as_str())),
                        ..memref.clone()
                    });
                    ir.set_type(value, ty);
                }
            }
        }
    }

    /// The unit of a lane that is equal to one of the first.
    fn unit(&self, unit: Name, lane: usize) -> Option<Name> {
        let of = self.machine.unit(unit)?.of;
        let equal: Vec<_> = self.machine.equal_units(of).collect();
        let at = equal.iter().position(|other| other.name == unit)?;
        let place = equal[at].place;
        let step = match self.kind {
            Kind::Cores => equal.iter().filter(|other| other.place == place).count(),
            Kind::Units => 1,
        };
        let there = equal.get(at + lane * step)?;
        let same = self.kind == Kind::Cores || there.place == place;
        same.then_some(there.name)
    }

    /// Splits one loop.
    fn one(&self, ir: &mut Ir, looped: &Counter, lanes: usize) {
        let Some(record) = ir.get::<For>(looped.op) else {
            return;
        };
        let Some(block) = ir.entry(record.body) else {
            return;
        };
        let count = lanes as i64;
        let (each, rest) = (looped.trips / count, looped.trips % count);
        let at = |lane: i64, b: &mut Builder<'_>, index: OpFoldResult| {
            let iteration = index.plus(b, lane * each);
            looped.index(b, iteration).value(b)
        };
        let mut b = ir.at(At::Before(looped.op));
        b.loc = b.ir.loc(looped.op);
        if each > 0 {
            let body = b.body(&[Type::index()], |b, args| {
                let index = OpFoldResult::Value(args[0]);
                let maps = (0..lanes).map(|lane| {
                    let mut map = self.mapping(lane);
                    map.map(looped.iv, at(lane as i64, b, index));
                    map
                });
                let mut maps: Vec<Mapping> = maps.collect();
                self.jam(b, block, &mut maps);
                b.add(Yield { values: vec![] });
            });
            let bounds = [0, each, 1].map(tir_loop::Bounds::Static);
            b.add(For {
                parallel: true,
                ..For::new(bounds, vec![], body, vec![])
            });
        }
        if rest > 0 {
            let maps = (0..rest).map(|lane| {
                let mut map = self.mapping(lane as usize);
                let last = OpFoldResult::Number(count * each + lane);
                let index = looped.index(&mut b, last).value(&mut b);
                map.map(looped.iv, index);
                map
            });
            let mut maps: Vec<Mapping> = maps.collect();
            self.jam(&mut b, block, &mut maps);
        }
        ir.erase(looped.op);
    }

    /// The ops of a block for all lanes, beside each other.
    fn jam(&self, b: &mut Builder<'_>, block: BlockId, lanes: &mut [Mapping]) {
        let ops: Vec<OpId> = b.ir.ops_in(block).collect();
        for op in ops {
            if b.ir.has(op, Traits::Terminator) {
                continue;
            }
            let operands: Vec<Value> = b.ir.operands(op).collect();
            let here: Vec<Value> = operands.iter().map(|v| lanes[0].get(*v)).collect();
            let same = lanes.iter().all(|map| {
                let there = operands.iter().map(|v| map.get(*v));
                there.eq(here.iter().copied())
            });
            if let Some(inner) = b.ir.get::<For>(op).filter(|_| same) {
                self.jam_loop(b, op, inner, lanes);
                continue;
            }
            let plain = b.ir.is_pure(op) && b.ir.regions(op).len() == 0;
            if plain && same {
                let new = b.ir.duplicate(op, b.at, &mut lanes[0]);
                let pairs: Vec<_> = b.ir.results(op).zip(b.ir.results(new)).collect();
                for map in &mut lanes[1..] {
                    pairs.iter().for_each(|(old, new)| map.map(*old, *new));
                }
                continue;
            }
            for (lane, map) in lanes.iter_mut().enumerate() {
                let new = b.ir.duplicate(op, b.at, map);
                self.relocate(b.ir, new, lane);
            }
        }
    }

    /// A loop that all lanes run through together.
    fn jam_loop(&self, b: &mut Builder<'_>, op: OpId, inner: For, lanes: &mut [Mapping]) {
        let Some(block) = b.ir.entry(inner.body) else {
            return;
        };
        let Some(iv) = b.ir.args(block).next() else {
            return;
        };
        let loc = std::mem::replace(&mut b.loc, b.ir.loc(op));
        let body = b.body(&[Type::index()], |b, args| {
            lanes.iter_mut().for_each(|map| map.map(iv, args[0]));
            self.jam(b, block, lanes);
            b.add(Yield { values: vec![] });
        });
        let bounds = inner.bounds.iter().map(|v| lanes[0].get(*v)).collect();
        b.add(For {
            bounds,
            body,
            ..inner
        });
        b.loc = loc;
    }
}

impl Split<'_> {
    /// Splits the nests of vector units that no split loop shares out. Gives how many.
    fn nests(&self, ir: &mut Ir) -> usize {
        if !self.machine.has_equal_units() {
            return 0;
        }
        let all = ir.walk_ids();
        // An op of a split loop stands beside those of the other lanes, or names its unit.
        let mut used: HashMap<BlockId, HashSet<Name>> = HashMap::new();
        for op in &all {
            if let Some((block, unit)) = ir.block_of(*op).zip(self.machine.unit_of(ir, *op)) {
                used.entry(block).or_default().insert(unit);
            }
        }
        let nests: Vec<OpId> = all.into_iter().filter(|op| ir.is::<Apply>(*op)).collect();
        let mut count = 0;
        for op in nests {
            let Some((apply, unit)) = ir.get::<Apply>(op).zip(self.machine.unit_of(ir, op)) else {
                continue;
            };
            let lanes = (0..).map_while(|lane| self.unit(unit, lane));
            let lanes: Vec<Name> = lanes.collect();
            let beside = ir.block_of(op).and_then(|block| used.get(&block));
            let shared = beside.is_some_and(|used| lanes[1..].iter().any(|u| used.contains(u)));
            if lanes.len() > 1 && !shared && self.nest(ir, op, &apply, &lanes).is_some() {
                count += 1;
            }
        }
        count
    }

    /// Puts a nest for each lane in place of one, each on a part of an iterator that is no reduction.
    fn nest(&self, ir: &mut Ir, op: OpId, apply: &Apply, lanes: &[Name]) -> Option<()> {
        let nest = apply.nest();
        let (domain, reductions) = (nest.domain(ir).ok()?, nest.reductions());
        let count = lanes.len() as i64;
        let turns = |d: &usize| ((domain[*d] + count - 1) / count * count, domain[*d]);
        let several = (0..domain.len()).filter(|d| !reductions[*d] && domain[*d] > 1);
        // The least idle; of equal ones the outermost.
        let d = several.min_by(|a, b| {
            let ((x, all), (y, of)) = (turns(a), turns(b));
            (x * of).cmp(&(y * all))
        })?;
        let maps = nest.indexing_maps.iter().map(|map| map.linear());
        let maps: Vec<LinearMap> = maps.collect::<Option<_>>()?;
        let forward = |map: &LinearMap| map.iter().all(|form| form.at(d) >= 0);
        let strided = |v: Value| ir.ty(v).get::<MemRefType>().is_some();
        if !maps.iter().all(forward) || !nest.operands().all(strided) {
            return None;
        }
        let each = (domain[d] + count - 1) / count;
        let values: Vec<Value> = nest.operands().collect();
        let mut b = ir.at(At::Before(op));
        b.loc = b.ir.loc(op);
        for (lane, unit) in lanes.iter().enumerate() {
            let from = each * lane as i64;
            let mut part = domain.clone();
            part[d] = each.min(domain[d] - from);
            if part[d] < 1 {
                break;
            }
            let mut views = Vec::new();
            for (value, map) in values.iter().zip(&maps) {
                let shape = b.ty(*value).shape()?.to_vec();
                let places = map.iter().zip(&shape).map(|(form, size)| match form.at(d) {
                    0 => Some((0, *size)),
                    c => Some((c * from, form.range(&part)?.high + 1)),
                });
                let places: Vec<(i64, i64)> = places.collect::<Option<_>>()?;
                let (offsets, sizes): (Vec<i64>, Vec<i64>) = places.into_iter().unzip();
                let offsets: Vec<OpFoldResult> =
                    offsets.into_iter().map(OpFoldResult::Number).collect();
                views.push(sub_view(&mut b, *value, &offsets, &sizes, &sizes).ok()?);
            }
            let outputs = views.split_off(nest.inputs.len());
            let body = b.ir.new_region();
            b.ir.duplicate_region(apply.body, body, &mut Mapping::default());
            let made = Apply {
                vector: apply.vector,
                inputs: views,
                outputs,
                after: Vec::new(),
                indexing_maps: apply.indexing_maps.clone(),
                iterator_types: apply.iterator_types.clone(),
                unit: (lane > 0).then_some(Sym(*unit)).or(apply.unit),
                combine: apply.combine,
                sizes: Some(part),
                body,
                results: Rets(Vec::new()),
            };
            b.add(made);
        }
        ir.erase(op);
        Some(())
    }
}

/// Whether an op that uses copied buffers writes one that is not copied.
fn writes_elsewhere(ir: &Ir, op: OpId, copies: &HashMap<Value, Vec<Value>>) -> bool {
    if ir.is::<Alloc>(op) {
        return false;
    }
    let mut written = accesses(ir, op).into_iter();
    accesses_others(ir, op)
        || written.any(|(access, value)| access == Access::Write && !copies.contains_key(&value))
}
