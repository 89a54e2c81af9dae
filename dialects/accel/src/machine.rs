//! What is known of a machine, read from its `accel.machine`.

use tir::{
    Attr, DictAttr, Failure, IntType, Ir, Name, Op, OpId, Scopes, SymbolTable, TensorType, Traits,
    Type, Value,
};
use tir_tensor::{Combine, Generic};

use crate::cores::Copies;
use crate::formula::Formula;
use crate::ops::describe::positive;
use crate::ops::describe::{Core, Dma, Intrinsic, Machine, Space, Unit, Vector, Yield};
use crate::route::RouteInfo;
use crate::vector::VectorInfo;
use crate::{Apply, Call};

/// A memory space; see [`Space`].
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct SpaceInfo {
    pub name: Name,
    /// Its name in the machine file.
    pub of: Name,
    /// The core that it is private to.
    pub core: Option<Name>,
    pub bytes: i64,
    pub align: i64,
    pub banks: i64,
    /// Of each bank; 0: no limit.
    pub ports: i64,
    pub bytes_per_cycle: i64,
    pub latency: i64,
}

/// A DMA engine; see [`Dma`].
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct EngineInfo {
    pub name: Name,
    pub from: Name,
    pub to: Name,
    pub bytes_per_cycle: i64,
    pub latency: i64,
    pub dims: i64,
    pub queue: i64,
    pub granule: i64,
    pub square: i64,
    pub pad: bool,
    pub packs: bool,
    pub issue: i64,
}

impl EngineInfo {
    /// Cycles for so many bytes in so many runs, of each of which a granule is moved at least, in so many transfers. Other
    /// transfers may make them more, where spaces have a bandwidth that engines share.
    pub fn cycles(&self, bytes: i64, runs: i64, transfers: i64) -> i64 {
        let moved = bytes.max(runs.saturating_mul(self.granule));
        let rate = self.bytes_per_cycle.max(1);
        let cycles = moved.saturating_add(rate - 1) / rate;
        let latency = self.latency.saturating_mul(transfers);
        latency.saturating_add(cycles)
    }
    /// Into how many pieces a transfer of so many cycles is cut, `most` at most, where other transfers are wanted
    /// in between: each takes several times the latency.
    pub fn pieces(&self, cycles: i64, most: i64) -> i64 {
        let shortest = self.latency.saturating_mul(PIECE).max(1);
        (cycles / shortest).min(most).max(1)
    }
}

/// A piece of a transfer takes at least as many times the latency of its engine.
const PIECE: i64 = 4;

/// A unit; see [`Unit`].
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct UnitInfo {
    pub name: Name,
    /// Its name in the machine file.
    pub of: Name,
    /// The core that it is part of.
    pub core: Option<Name>,
    /// Which of the cores that is.
    pub place: usize,
    pub queue: i64,
    /// Cycles of the thread for a start.
    pub issue: i64,
}

/// An intrinsic; see [`Intrinsic`].
#[derive(Clone, Debug)]
pub struct IntrinsicInfo {
    /// Its name.
    pub name: Name,
    /// The op, in the machine's arena.
    pub op: OpId,
    /// The unit that runs it.
    pub unit: Name,
    /// The space of each operand.
    pub spaces: Vec<Name>,
    /// Types of its operands, as tensors.
    pub operands: Vec<Type>,
    /// Types of the scalars that a call says as constants.
    pub immediates: Vec<Type>,
    /// The number of first operands that it writes.
    pub writes: usize,
    /// Whether the content of each operand is read: not that of one that is only written.
    pub reads: Vec<bool>,
    /// Whether each operand may lie in the buffer of the first one, which it writes: each element of
    /// it is read before that element is written, and none later.
    pub elementwise: Vec<bool>,
    /// Multiply-adds of a call.
    pub macs: i64,
    /// Operands that need not be dense.
    pub strided: Vec<usize>,
    /// Cycles of a call.
    pub cycles: i64,
}

/// A machine.
#[derive(Clone, Debug)]
pub struct MachineInfo {
    /// Its name.
    pub name: Name,
    /// Millions of cycles a second.
    pub clock_mhz: i64,
    /// Whether one processor moves and computes all; see [`Machine`].
    pub in_order: bool,
    /// Cycles of the thread for a scalar operation; see [`thread_cycles`](Self::thread_cycles).
    pub scalar_cycles: i64,
    /// Memory spaces in the order of the file; the first one is where arguments lie.
    pub spaces: Vec<SpaceInfo>,
    /// DMA engines in the order of the file.
    pub engines: Vec<EngineInfo>,
    /// Units in the order of the file.
    pub units: Vec<UnitInfo>,
    /// Intrinsics in the order of the file.
    pub intrinsics: Vec<IntrinsicInfo>,
    /// What units compute on vectors, in the order of the file.
    pub vectors: Vec<VectorInfo>,
    /// Ways between spaces that no engine joins.
    pub routes: Vec<RouteInfo>,
}

/// An engine fills a tile where the thread would take so many times its latency.
const FILL_WAITS: i64 = 8;

impl MachineInfo {
    /// The time in cycles that the program thread takes for scalar operations: elements that it
    /// loads or stores, and operations on data ([`computes`](tir::interp::computes)). The price of
    /// the planner, of the cost of ops, of runs without data and of runs.
    pub fn thread_cycles(&self, ops: u64) -> u64 {
        let each = u64::try_from(self.scalar_cycles).unwrap_or(0);
        ops.saturating_mul(each)
    }

    /// One memory without limit, where buffers begin at multiples of `align` bytes, and nothing else: what programs
    /// run on whose buffers lie in no space.
    pub fn one_memory(name: Name, align: i64) -> Self {
        let memory = SpaceInfo {
            name,
            of: name,
            core: None,
            bytes: i64::MAX,
            align,
            banks: 1,
            ports: 0,
            bytes_per_cycle: 1,
            latency: 0,
        };
        Self {
            name,
            clock_mhz: 1,
            in_order: true,
            scalar_cycles: 1,
            spaces: vec![memory],
            engines: Vec::new(),
            units: Vec::new(),
            intrinsics: Vec::new(),
            vectors: Vec::new(),
            routes: Vec::new(),
        }
    }

    /// Reads the arena of an `accel.machine` that verifies.
    pub fn of(ir: &Ir) -> Option<Self> {
        let machine: Machine = ir.get(ir.root())?;
        let mut info = Self {
            name: machine.sym_name,
            clock_mhz: machine.clock_mhz,
            in_order: machine.in_order,
            scalar_cycles: machine.scalar_cycles,
            spaces: Vec::new(),
            engines: Vec::new(),
            units: Vec::new(),
            intrinsics: Vec::new(),
            vectors: Vec::new(),
            routes: Vec::new(),
        };
        let mut copies = Copies::default();
        let mut implied = Vec::new();
        for op in ir.ops_in(ir.entry(machine.body)?) {
            if let Some(s) = ir.get::<Space>(op) {
                info.spaces.push(SpaceInfo {
                    name: s.sym_name,
                    of: s.sym_name,
                    core: s.core.map(|core| core.0),
                    bytes: s.bytes,
                    align: s.align,
                    banks: s.banks,
                    ports: s.ports,
                    bytes_per_cycle: s.bytes_per_cycle,
                    latency: s.latency,
                });
            } else if let Some(d) = ir.get::<Dma>(op) {
                implied.push(d.latency.is_none());
                copies.steps.push(d.step.clone());
                info.engines.push(EngineInfo {
                    name: d.sym_name,
                    from: d.from.0,
                    to: d.to.0,
                    bytes_per_cycle: d.bytes_per_cycle,
                    latency: d.latency.unwrap_or(0),
                    dims: d.dims,
                    queue: d.queue,
                    granule: d.granule,
                    square: d.square,
                    packs: d.packs,
                    pad: d.pad,
                    issue: d.issue,
                });
            } else if let Some(u) = ir.get::<Unit>(op) {
                info.units.push(UnitInfo {
                    name: u.sym_name,
                    of: u.sym_name,
                    core: u.core.map(|core| core.0),
                    place: 0,
                    queue: u.queue,
                    issue: u.issue,
                });
                copies.units.push(u.count);
            } else if let Some(c) = ir.get::<Core>(op) {
                copies.cores.push((c.sym_name, c.count, c.columns));
            } else if let Some(i) = ir.get::<Intrinsic>(op) {
                info.intrinsics.push(intrinsic(ir, op, &i)?);
            } else if let Some(v) = ir.get::<Vector>(op) {
                info.vectors.push(vector(&v).ok()?);
            }
        }
        // What an engine does not say is what its spaces do.
        let engines = info.engines.iter_mut().zip(implied);
        for (engine, _) in engines.filter(|(_, implied)| *implied) {
            let spaces = info.spaces.iter();
            let ends = spaces.filter(|s| s.name == engine.from || s.name == engine.to);
            engine.latency = ends.map(|s| s.latency).fold(0, i64::saturating_add);
        }
        copies.add(&mut info);
        info.routes = info.find_routes();
        Some(info)
    }

    /// The machine that is attached to a module.
    pub fn attached(module: &Ir) -> Option<Self> {
        let slot = Self::slot(module)?;
        Self::of(module.child(slot)?)
    }

    /// The slot of the machine that is attached to a module.
    pub fn slot(module: &Ir) -> Option<OpId> {
        let slots = module.slots();
        slots.into_iter().find(|slot| module.is::<Machine>(*slot))
    }

    /// The machine attached to the module around a place.
    pub fn in_scopes(scopes: &Scopes<'_>) -> Option<Self> {
        let machine = scopes.find(|op| op.ir.is::<Machine>(op.id))?;
        Self::of(machine.inner().0)
    }

    /// Whether products of integers of 8 bits take one factor without sign and one with: none takes two with one.
    pub fn multiplies_unsigned(&self) -> bool {
        let products = self.intrinsics.iter().filter(|i| i.macs > 0);
        let factors = products.filter_map(|i| i.operands.get(i.writes..));
        let mut factors = factors.map(|all| {
            let eight = all.iter().map(|ty| ty.elem());
            let eight = eight.filter(|elem| elem.is_int() && elem.bits() == Some(8));
            let signs = eight.map(|elem| elem.get::<IntType>().is_some_and(IntType::is_unsigned));
            signs.collect::<Vec<bool>>()
        });
        let mut found = false;
        let two = factors.any(|signs| {
            found |= signs.contains(&true) && signs.contains(&false);
            signs.len() > 1 && !signs.contains(&true)
        });
        found && !two
    }

    /// The space of this name.
    pub fn space(&self, name: Name) -> Option<&SpaceInfo> {
        self.spaces.iter().find(|s| s.name == name)
    }
    /// The engine of this name.
    pub fn engine(&self, name: Name) -> Option<&EngineInfo> {
        self.engines.iter().find(|e| e.name == name)
    }
    /// The first engine from one space to another.
    pub fn engine_between(&self, from: Name, to: Name) -> Option<&EngineInfo> {
        self.engines.iter().find(|e| e.from == from && e.to == to)
    }
    /// The engine that fills so many elements of a space with a constant: it pads, and takes a small part of the
    /// thread's time for them, for the thread may have to wait for it.
    pub fn fills(&self, space: Name, elements: i64) -> Option<&EngineInfo> {
        let engine = self.engine_between(self.far()?.name, space)?;
        let thread = self.thread_cycles(u64::try_from(elements).unwrap_or(0));
        let thread = i64::try_from(thread).unwrap_or(i64::MAX);
        let quicker = thread >= FILL_WAITS.saturating_mul(engine.latency);
        (engine.pad && quicker).then_some(engine)
    }
    /// The unit of this name.
    pub fn unit(&self, name: Name) -> Option<&UnitInfo> {
        self.units.iter().find(|u| u.name == name)
    }
    /// The intrinsic of this name.
    pub fn intrinsic(&self, name: Name) -> Option<&IntrinsicInfo> {
        self.intrinsics.iter().find(|i| i.name == name)
    }
    /// The unit that an op of a program runs on, if it is a call or a nest of a vector unit.
    pub fn unit_of(&self, ir: &Ir, op: OpId) -> Option<Name> {
        if let Some(call) = ir.get::<Call>(op) {
            let own = call.unit.map(|unit| unit.0);
            return own.or_else(|| Some(self.intrinsic(call.callee.0)?.unit));
        }
        let apply: Apply = ir.get(op)?;
        let own = apply.unit.map(|unit| unit.0);
        own.or_else(|| Some(self.vector(apply.vector.0)?.unit))
    }
    /// The vector capability of this name.
    pub fn vector(&self, name: Name) -> Option<&VectorInfo> {
        self.vectors.iter().find(|v| v.name == name)
    }
    /// The space where arguments, results and constants lie: the first one.
    pub fn far(&self) -> Option<&SpaceInfo> {
        self.spaces.first()
    }

    /// The space through which tiles go from a space to where units and vector units work, if no engine
    /// joins the two: of those that engines join with it in both directions, the one with the fewest
    /// transfers from there on; of several the largest.
    pub fn stage(&self, from: Name) -> Option<&SpaceInfo> {
        let operands = self.intrinsics.iter().flat_map(|i| &i.spaces).copied();
        let work: Vec<Name> = operands
            .chain(self.vectors.iter().map(|v| v.space))
            .collect();
        let joined = |a: Name, b: Name| self.engine_between(a, b).is_some();
        let near = |s: &Name| *s == from || joined(from, *s) || joined(*s, from);
        if work.is_empty() || work.iter().any(near) {
            return None;
        }
        let both = |s: &&SpaceInfo| joined(from, s.name) && joined(s.name, from);
        // Spaces that are reached by so many transfers, without going back.
        let distance = |start: Name| {
            let mut seen = vec![from, start];
            let mut last = vec![start];
            for steps in 0..self.spaces.len() {
                if last.iter().any(|s| work.contains(s)) {
                    return Some(steps);
                }
                let next = self.engines.iter().filter(|e| last.contains(&e.from));
                let next: Vec<Name> = next.map(|e| e.to).filter(|s| !seen.contains(s)).collect();
                seen.extend(&next);
                last = next;
            }
            None
        };
        let stages = self.spaces.iter().filter(both);
        let stages = stages.filter_map(|s| Some((s, distance(s.name)?)));
        stages
            .min_by_key(|(s, steps)| (*steps, std::cmp::Reverse(s.bytes)))
            .map(|(s, _)| s)
    }
}

pub(crate) fn spaces(record: &Intrinsic) -> Vec<Name> {
    let spaces = record.spaces.iter();
    spaces
        .filter_map(|space| crate::asm::symbol(*space))
        .collect()
}

fn intrinsic(ir: &Ir, op: OpId, record: &Intrinsic) -> Option<IntrinsicInfo> {
    let block = ir.entry(record.body)?;
    let all: Vec<Value> = ir.args(block).collect();
    let (tensors, scalars): (Vec<Value>, Vec<Value>) =
        all.into_iter().partition(|v| ir.ty(*v).is::<TensorType>());
    let operands: Vec<Type> = tensors.iter().map(|v| ir.ty(*v)).collect();
    let end = ir.last(block).filter(|last| ir.is::<Yield>(*last))?;
    let formula = Formula::parse(&record.cycles).ok()?;
    let strided = record.strided.iter().flatten();
    Some(IntrinsicInfo {
        name: record.sym_name,
        op,
        unit: record.unit.0,
        spaces: spaces(record),
        writes: ir.operands(end).len(),
        reads: tensors.iter().map(|v| is_read(ir, *v)).collect(),
        elementwise: tensors
            .iter()
            .map(|v| is_elementwise(ir, *v, end))
            .collect(),
        immediates: scalars.iter().map(|v| ir.ty(*v)).collect(),
        macs: {
            let generics = ir.ops_in(block).filter_map(|op| ir.get::<Generic>(op));
            generics.map(|nest| multiply_adds(ir, &nest)).sum()
        },
        strided: strided.filter_map(|i| usize::try_from(*i).ok()).collect(),
        cycles: formula.eval(operands.first()?.shape()?).ok()?,
        operands,
    })
}

/// The pairs of a name and a number of cycles in a dictionary.
fn costs(attr: Attr, what: &str) -> Result<Vec<(Name, i64)>, Failure> {
    let dict = attr.get::<DictAttr>();
    let dict = dict.ok_or_else(|| format!("has {what} {attr}, expected a dictionary of cycles"))?;
    let cost = |(name, value): &(Name, Attr)| match value.as_int() {
        Some(cycles @ 1..) => Ok((*name, cycles)),
        _ => Err(format!("has {what} {{{name} = {value}}}, expected cycles of at least 1").into()),
    };
    dict.entries().iter().map(cost).collect()
}

/// What is known of a vector capability, if what it says is right: others ask before it is verified.
pub(crate) fn vector(record: &Vector) -> Result<VectorInfo, Failure> {
    positive(&[
        ("lanes", record.lanes),
        ("chain", record.chain),
        ("apart", record.apart),
    ])?;
    for (name, n) in [("start", record.start), ("port", record.port)] {
        if n < 0 {
            return Err(format!("has {name} = {n}, expected at least 0").into());
        }
    }
    let ty = |attr: &Attr| {
        let found = attr.get::<tir::TypeAttr>().map(|ty| ty.0);
        let scalar = found.filter(|ty| ty.is_float() || ty.is_int());
        scalar.ok_or_else(|| Failure::from(format!("has types with {attr}, expected scalar types")))
    };
    let types = record.types.iter().map(ty).collect::<Result<_, _>>()?;
    let (mut ops, mut any) = (Vec::new(), None);
    for (name, cycles) in costs(record.ops, "ops")? {
        if name == "any" {
            any = Some(cycles);
            continue;
        }
        let info = name
            .info()
            .ok_or_else(|| format!("lists '{name}', which is no op"))?;
        let scalar = info.has(Traits::Pure) && info.has(Traits::Elementwise);
        if !scalar {
            return Err(format!("lists '{name}', which computes no scalar from scalars").into());
        }
        ops.push((name, cycles));
    }
    let mut reduce = Vec::new();
    for (name, cycles) in record
        .reduce
        .map_or(Ok(Vec::new()), |r| costs(r, "reduce"))?
    {
        let how = Combine::from_keyword(name.as_str());
        let how = how.ok_or_else(|| {
            format!("has reduce {{{name} = {cycles}}}, expected add, mul, max or min")
        })?;
        reduce.push((how, cycles));
    }
    Ok(VectorInfo {
        name: record.sym_name,
        unit: record.unit.0,
        space: record.space.0,
        types,
        ops,
        any,
        reduce,
        lanes: record.lanes,
        start: record.start,
        chain: record.chain,
        port: record.port,
        strided: record.strided,
        apart: record.apart,
    })
}

/// Whether anything but the shape of a value is used.
fn is_read(ir: &Ir, value: Value) -> bool {
    ir.uses(value).any(|u| match ir.get::<Generic>(u.op) {
        Some(generic) => u.operand < generic.inputs.len() || generic.combine.is_some(),
        None => true,
    })
}

/// Whether a value is read by one generic alone, which gives the only result, at the element that it
/// computes there.
fn is_elementwise(ir: &Ir, value: Value, end: OpId) -> bool {
    let mut results = ir.operands(end);
    let (Some(result), None) = (results.next(), results.next()) else {
        return false;
    };
    let Some(generic) = ir.def::<Generic>(result) else {
        return false;
    };
    let out = generic.indexing_maps.last();
    ir.uses(value)
        .all(|u| Some(u.op) == ir.owner(result) && generic.indexing_maps.get(u.operand) == out)
        && !generic.reductions().contains(&true)
}

/// Products that are summed up in a nest.
pub(crate) fn multiply_adds(ir: &Ir, generic: &Generic) -> i64 {
    if generic.combine != Some(Combine::Add) {
        return 0;
    }
    let product = |op: &OpId| ir.is::<tir_arith::MulF>(*op) || ir.is::<tir_arith::MulI>(*op);
    let inside = ir.entry(generic.body).map(|block| ir.ops_in(block));
    let products = inside.into_iter().flatten().filter(product).count() as i64;
    let points = generic.domain(ir).map_or(0, |d| d.iter().product());
    points * products
}

/// Names in a machine mean what they must: engines join spaces, intrinsics run on units in spaces.
pub(crate) fn check(ir: &Ir) -> Result<(), Failure> {
    let table = SymbolTable::new(ir);
    let expect = |op: OpId, field: &str, name: Name, kind: Name| {
        let found = table.get(name).map(|op| op.name());
        if found.is_some_and(|found| found == kind) {
            return Ok(());
        }
        let owner = ir.name(op);
        let found = found.map_or("not defined".to_string(), |found| format!("'{found}'"));
        let mut message =
            format!("'{owner}' has {field} = @{name}, which is {found}, expected an '{kind}'");
        let others = table.iter().filter(|(_, other)| other.name() == kind);
        let others: Vec<&str> = others.map(|(name, _)| name.as_str()).collect();
        if let Some(near) = tir::closest(name.as_str(), others) {
            message += &format!("; did you mean '@{near}'?");
        }
        Err(Box::new(tir::Diagnostic::error(message).at(ir.loc(op))))
    };
    let Some(block) = ir.body_block(ir.root(), 0) else {
        return Ok(());
    };
    for op in ir.ops_in(block) {
        if let Some(dma) = ir.get::<Dma>(op) {
            expect(op, "from", dma.from.0, <Space as Op>::name())?;
            expect(op, "to", dma.to.0, <Space as Op>::name())?;
        } else if let Some(intrinsic) = ir.get::<Intrinsic>(op) {
            expect(op, "unit", intrinsic.unit.0, <Unit as Op>::name())?;
            for space in spaces(&intrinsic) {
                expect(op, "spaces", space, <Space as Op>::name())?;
            }
        } else if let Some(vector) = ir.get::<Vector>(op) {
            expect(op, "unit", vector.unit.0, <Unit as Op>::name())?;
            expect(op, "space", vector.space.0, <Space as Op>::name())?;
        } else if let Some(core) = core_of(ir, op) {
            expect(op, "core", core, <Core as Op>::name())?;
        } else if !ir.is::<Space>(op) && !ir.is::<Unit>(op) && !ir.is::<Core>(op) {
            let message = format!("holds '{}', which describes no machine", ir.name(op));
            return Err(Box::new(tir::Diagnostic::error(message).at(ir.loc(op))));
        }
    }
    crate::cores::check(ir, block)
}

/// The core that a space or a unit is declared to be of.
fn core_of(ir: &Ir, op: OpId) -> Option<Name> {
    let space = ir.get::<Space>(op).and_then(|space| space.core);
    let core = space.or_else(|| ir.get::<Unit>(op)?.core);
    core.map(|core| core.0)
}
