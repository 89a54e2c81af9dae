//! Ops that describe a machine.

use tir::{Attr, Failure, Name, Op, OpRef, RegionId, Sym, TensorType, Type, Value, Verify};

use crate::family;
use crate::formula::Formula;
use crate::ops::apply::Apply;
use crate::processor::Processor;

/// A machine: memory spaces, DMA engines, units, and what these compute. Passes take cost, capacity and
/// legality from it, and the simulator runs on it.
#[derive(Op)]
#[op(
    "accel.machine",
    Description,
    IsolatedFromAbove,
    Symbol,
    SymbolTable,
    SingleBlock,
    NoTerminator,
    StrictAttributes,
    verify
)]
#[asm("symbol($sym_name) attr-dict-with-keyword $body")]
pub struct Machine {
    /// Its name.
    pub sym_name: Name,
    /// Millions of cycles a second, to print times.
    #[default(1000)]
    pub clock_mhz: i64,
    /// Whether engines and units are names for what one processor does, one thing after the other:
    /// nothing is hidden behind anything else.
    #[default(false)]
    pub in_order: bool,
    /// Cycles that the program thread takes for each element that it loads or stores itself, and
    /// for each scalar operation on data; indices and conditions on them are free.
    #[default(1)]
    pub scalar_cycles: i64,
    /// LLVM's name of the processor that the machine is, as `x86-64-v3`: native code is made for it, and runs where all
    /// is there that the name stands for. Without it native code is made for the processor that it is made on.
    pub target: Option<String>,
    /// What that processor has beyond its name, or lacks: `+avx512vnni`.
    pub features: Option<String>,
    /// Bytes of each vector register of the processor that the machine is; 0: it is no processor.
    #[default(0)]
    pub vector_bytes: i64,
    /// Number of these registers.
    #[default(0)]
    pub registers: i64,
    /// Bytes of the smallest elements that the processor loads and stores vectors of by a mask, so that the others are not
    /// touched; 0: none.
    #[default(0)]
    pub masked_bytes: i64,
    /// What it consists of.
    pub body: RegionId,
}
impl Verify for Machine {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (ir, _) = op.inner();
        positive(&[("clock_mhz", self.clock_mhz)])?;
        cycles("scalar_cycles", self.scalar_cycles)?;
        Processor::of_machine(self)?;
        crate::machine::check(ir)
    }
}

/// Numbers that must be at least 1.
pub(crate) fn positive(numbers: &[(&str, i64)]) -> Result<(), Failure> {
    match numbers.iter().find(|(_, n)| *n < 1) {
        Some((name, n)) => Err(format!("has {name} = {n}, expected at least 1").into()),
        None => Ok(()),
    }
}

/// Cycles that something takes, which may be none: so few that what a program takes can be added up.
fn cycles(name: &str, cycles: i64) -> Result<(), Failure> {
    const MOST: i64 = 1 << 40;
    match cycles {
        0..=MOST => Ok(()),
        _ => Err(format!("has {name} = {cycles}, expected 0 to {MOST}").into()),
    }
}

/// A memory space.
#[derive(Op)]
#[op("accel.space", Symbol, Pure, StrictAttributes, parent(Machine), verify)]
#[asm("symbol($sym_name) attr-dict")]
pub struct Space {
    /// Its name, the memory space of memrefs as a string.
    pub sym_name: Name,
    /// The core that it is private to: each has one.
    pub core: Option<Sym>,
    /// Its size in bytes.
    pub bytes: i64,
    /// Alignment of buffers in it, in bytes: a power of two, to which plans round offsets up.
    #[default(1)]
    pub align: i64,
    /// Number of equal banks, one behind the other.
    #[default(1)]
    pub banks: i64,
    /// Ports of each bank: so many operands of running work may lie in it; 0: no limit.
    #[default(0)]
    pub ports: i64,
    /// Bytes it moves in a cycle, shared by all engines.
    #[default(1_000_000)]
    pub bytes_per_cycle: i64,
    /// Cycles until the first byte of a transfer, by engines that say no latency of their own.
    #[default(0)]
    pub latency: i64,
}
impl Verify for Space {
    fn verify(&self, _: OpRef<'_>) -> Result<(), Failure> {
        cycles("latency", self.latency)?;
        positive(&[
            ("bytes", self.bytes),
            ("align", self.align),
            ("banks", self.banks),
            ("bytes_per_cycle", self.bytes_per_cycle),
        ])?;
        if self.ports < 0 {
            return Err(format!("has ports = {}, expected at least 0", self.ports).into());
        }
        if self.bytes % self.banks != 0 {
            let (bytes, banks) = (self.bytes, self.banks);
            let text = format!("has bytes = {bytes}, expected a multiple of banks = {banks}");
            return Err(text.into());
        }
        if self.align & (self.align - 1) != 0 {
            let (align, below) = (self.align, 1i64 << self.align.ilog2());
            let above = below.checked_mul(2);
            let above = above.map_or(String::new(), |above| format!(" or {above}"));
            let text = format!(
                "has align = {align}, expected a power of two, such as {below}{above}, to which offsets are rounded up"
            );
            return Err(text.into());
        }
        Ok(())
    }
}

/// Equal cores: a space or a unit of it is there once for each, and so are the engines that reach such a
/// space.
///
/// The copies of `@l1` are the spaces `@l1`, `@l1.1`, `@l1.2`, …; units and engines are named in the same
/// way. The program thread starts the work of all of them.
#[derive(Op)]
#[op("accel.core", Symbol, Pure, StrictAttributes, parent(Machine), verify)]
#[asm("symbol($sym_name) attr-dict")]
pub struct Core {
    /// Its name.
    pub sym_name: Name,
    /// How many there are.
    #[default(1)]
    pub count: i64,
    /// How many stand beside each other in a row of a mesh; all of them if 0.
    #[default(0)]
    pub columns: i64,
}
impl Verify for Core {
    fn verify(&self, _: OpRef<'_>) -> Result<(), Failure> {
        most("count", self.count)?;
        let (count, columns) = (self.count, self.columns);
        match columns {
            0 => Ok(()),
            1.. if count % columns == 0 => Ok(()),
            _ => Err(
                format!("has columns = {columns}, expected a divisor of count = {count}").into(),
            ),
        }
    }
}

/// How many copies there may be of a core, and of a unit in it.
pub(crate) const MOST: i64 = 1024;

/// A number of copies.
fn most(name: &str, count: i64) -> Result<(), Failure> {
    match count {
        1..=MOST => Ok(()),
        _ => Err(format!("has {name} = {count}, expected 1 to {MOST}").into()),
    }
}

/// A DMA engine: moves tiles from one space to another, in order.
///
/// If one of the spaces is private to a core, each core has such an engine. With a `step` both are, and it
/// is a link: it writes the memory of the core so many rows and columns further on.
#[derive(Op)]
#[op("accel.dma", Symbol, Pure, StrictAttributes, parent(Machine), verify)]
#[asm("symbol($sym_name) attr-dict")]
pub struct Dma {
    /// Its name.
    pub sym_name: Name,
    /// The space it reads.
    pub from: Sym,
    /// The space it writes.
    pub to: Sym,
    /// Bytes it moves in a cycle.
    pub bytes_per_cycle: i64,
    /// Cycles before the first byte of a transfer; without it those of its two spaces together.
    pub latency: Option<i64>,
    /// Dimensions of a transfer, after neighbouring ones were merged.
    #[default(4)]
    pub dims: i64,
    /// Transfers that may be started and not complete.
    #[default(8)]
    pub queue: i64,
    /// Bytes that a contiguous run costs at least.
    #[default(1)]
    pub granule: i64,
    /// Bytes of the rows of a square that it transposes at once: where neighbours lie along one dimension in the tile and along
    /// another one in the large buffer, a run counts as so many bytes, or as the shorter of both where that is at least four runs;
    /// 0: it transposes none.
    #[default(0)]
    pub square: i64,
    /// Whether it can write padding.
    #[default(false)]
    pub pad: bool,
    /// Whether constants lie as its transfers would leave them, as `pack-constants` makes it for
    /// native code: a tile of one is one run.
    #[default(false)]
    pub packs: bool,
    /// Cycles that the program thread takes to start a transfer.
    #[default(0)]
    pub issue: i64,
    /// Rows and columns from the core that is read to the one that is written; of one number, columns.
    pub step: Option<Vec<i64>>,
}
impl Verify for Dma {
    fn verify(&self, _: OpRef<'_>) -> Result<(), Failure> {
        self.latency.map_or(Ok(()), |n| cycles("latency", n))?;
        if let Some(step) = &self.step
            && (!(1..=2).contains(&step.len()) || step.iter().all(|n| *n == 0))
        {
            let wanted = "expected columns, or rows and columns, to another core";
            return Err(format!("has step = {step:?}, {wanted}").into());
        }
        cycles("issue", self.issue)?;
        if self.square < 0 {
            return Err(format!("has square = {}, expected at least 0", self.square).into());
        }
        positive(&[
            ("bytes_per_cycle", self.bytes_per_cycle),
            ("dims", self.dims),
            ("queue", self.queue),
            ("granule", self.granule),
        ])
    }
}

/// A unit that runs intrinsics, in order.
///
/// Of several equal ones each has a queue: those of `@gemm` are `@gemm`, `@gemm.1`, …, of a core after
/// those of the one before.
#[derive(Op)]
#[op("accel.unit", Symbol, Pure, StrictAttributes, parent(Machine), verify)]
#[asm("symbol($sym_name) attr-dict")]
pub struct Unit {
    /// Its name.
    pub sym_name: Name,
    /// The core that it is part of: each has one.
    pub core: Option<Sym>,
    /// How many equal ones there are, in each core if it is part of one.
    #[default(1)]
    pub count: i64,
    /// Calls that may be started and not complete.
    #[default(16)]
    pub queue: i64,
    /// Cycles that the program thread takes to start a call or a nest.
    #[default(0)]
    pub issue: i64,
}
impl Verify for Unit {
    fn verify(&self, _: OpRef<'_>) -> Result<(), Failure> {
        most("count", self.count)?;
        cycles("issue", self.issue)?;
        positive(&[("queue", self.queue)])
    }
}

/// An intrinsic: what one call of a unit computes, as a tensor expression, and its cycles.
///
/// The region takes the operands as tensors and yields the new content of the first ones. The
/// operands lie in their spaces, dense and aligned; those listed in `strided` may have any strides in
/// all but their last dimension. Behind them may come scalars: immediates, which a call says as
/// constants. Between generics of the region may lie a `tensor.empty`, which holds what goes through no
/// memory.
///
/// Syntax: `accel.intrinsic @name on @unit (%c: t in @acc, %a: u in @inp) cycles "ceildiv(n, 16)" strided
/// [1] family {d0 = array<i64: 16, 8>} { … }`; `(%c: t, %a: u) in @space` where all operands lie in one space.
#[derive(Op)]
#[op(
    "accel.intrinsic",
    Symbol,
    SingleBlock,
    StrictAttributes,
    parent(Machine),
    terminator(Yield),
    asm,
    verify
)]
pub struct Intrinsic {
    /// Its name.
    pub sym_name: Name,
    /// The unit that runs it.
    pub unit: Sym,
    /// The space of each operand.
    pub spaces: Vec<Attr>,
    /// Cycles of a call: a formula over `n`, the elements of the first operand, and `d0`, `d1`, …,
    /// its dimensions, with `+`, `*`, `ceildiv(a, b)`, `min(a, b)` and `max(a, b)`.
    pub cycles: Name,
    /// Operands that need not be dense.
    pub strided: Option<Vec<i64>>,
    /// Sizes that dimensions of the first operand may have, by `d0`, `d1`, …: the description stands for an intrinsic of each
    /// of them, which `attach-machine` writes out. Dimensions of other operands that an iterator ties to one have its size.
    pub family: Option<Attr>,
    /// What it computes.
    pub body: RegionId,
}
impl Verify for Intrinsic {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let ir = op.ir;
        let Some(block) = ir.entry(self.body) else {
            return Err("has an empty region".into());
        };
        let mut args: Vec<Type> = ir.args(block).map(|v| ir.ty(v)).collect();
        let tensors = args.iter().take_while(|ty| ty.is::<TensorType>()).count();
        for ty in args.split_off(tensors) {
            if tensors == 0 || !ty.is_float() && !ty.is_int() {
                let behind = if tensors > 0 {
                    ", and scalars behind them"
                } else {
                    ""
                };
                let text = format!("takes a {ty}, expected statically shaped tensors{behind}");
                return Err(text.into());
            }
        }
        let unused = |i: &usize| ir.is_unused(ir.arg(block, *i));
        if let Some(i) = (tensors..ir.args(block).len()).find(unused) {
            return Err(format!("has an immediate, operand {i}, that it does not use").into());
        }
        if let Some(ty) = args.iter().find(|ty| ty.elements().is_none()) {
            return Err(format!("takes a {ty}, expected statically shaped tensors").into());
        }
        if let Some(ty) = args.iter().find(|ty| ty.elements() == Some(0)) {
            return Err(format!("takes a {ty}, which has no elements").into());
        }
        let Some(first) = args.first().copied() else {
            return Err("takes no tensor, expected one that it writes".into());
        };
        if self.spaces.len() != args.len() {
            let (found, wanted) = (self.spaces.len(), args.len());
            return Err(format!("has {found} spaces for {wanted} operands").into());
        }
        let end = ir.last(block).filter(|last| ir.is::<Yield>(*last));
        let Some(end) = end else {
            return Err("has a region that does not end in accel.yield".into());
        };
        let yielded: Vec<Type> = ir.operands(end).map(|v| ir.ty(v)).collect();
        if yielded.is_empty() || args.get(..yielded.len()) != Some(&yielded[..]) {
            let (found, all) = (Type::function([], yielded), Type::function(args, []));
            return Err(format!(
                "yields {found}, expected the types of its first operands, of {all}"
            )
            .into());
        }
        if let Some(bad) = self
            .strided
            .iter()
            .flatten()
            .find(|i| **i < 0 || **i >= args.len() as i64)
        {
            return Err(format!("says operand {bad} is strided, it has {}", args.len()).into());
        }
        let shape = first.shape().unwrap_or(&[]);
        let formula = Formula::parse(&self.cycles)
            .map_err(|e| format!("has cycles \"{}\": {e}", self.cycles))?;
        let check = |shape: &[i64]| match formula.eval(shape) {
            Ok(cycles) if cycles >= 0 => Ok(()),
            Ok(cycles) => Err(Failure::from(format!("takes {cycles} cycles"))),
            Err(error) => Err(format!("has cycles \"{}\": {error}", self.cycles).into()),
        };
        check(shape)?;
        if let Some(family) = self.family {
            for (dim, sizes) in family::sizes(family, shape)? {
                family::tied(ir, self, dim)?;
                for size in sizes {
                    let mut shape = shape.to_vec();
                    shape[dim] = size;
                    check(&shape)?;
                }
            }
        }
        Ok(())
    }
}

/// What a unit computes on vectors: every nest whose region is made of these ops on these types.
///
/// A nest takes `start + vectors · max(1, costliest op, ⌈Σ ops / chain⌉, ⌈bytes / port⌉)` cycles, where a
/// combiner is one more op, and `reduce` more for each result whose lanes are folded. A vector is
/// `lanes` points along which each operand is contiguous, constant, or of a period that divides
/// `lanes`; where there is no such direction, each point is a vector.
///
/// Syntax: `accel.vector @name on @unit in @space types [f32] ops {arith.addf = 1, math.exp = 4} reduce
/// {add = 5} {lanes = 16, start = 2}`.
#[derive(Op)]
#[op(
    "accel.vector",
    Symbol,
    Pure,
    StrictAttributes,
    parent(Machine),
    verify
)]
#[asm(
    "symbol($sym_name) `on` $unit `in` $space `types` $types `ops` $ops (`reduce` $reduce^)? attr-dict"
)]
pub struct Vector {
    /// Its name.
    pub sym_name: Name,
    /// The unit that runs it.
    pub unit: Sym,
    /// The space of its operands.
    pub space: Sym,
    /// Types of elements and of what is computed on the way; conditions of type i1 are always there.
    pub types: Vec<Attr>,
    /// Cycles of each op on a vector; `any` stands for all others.
    pub ops: Attr,
    /// Cycles to fold the lanes of one result, by combiner; one that is missing is not computed across
    /// lanes.
    pub reduce: Option<Attr>,
    /// Points of a vector.
    #[default(1)]
    pub lanes: i64,
    /// Cycles of a nest before its first vector.
    #[default(0)]
    pub start: i64,
    /// Ops of a region that one pass over a vector does.
    #[default(1)]
    pub chain: i64,
    /// Bytes that it moves in a cycle, reads and writes added; 0: no limit.
    #[default(0)]
    pub port: i64,
    /// Whether the elements of a vector may lie apart from each other.
    #[default(false)]
    pub strided: bool,
    /// The largest distance of elements that become a vector by as many loads as it says, where vectors are not `strided`:
    /// each load beyond the first costs a cycle more.
    #[default(1)]
    pub apart: i64,
}
impl Verify for Vector {
    fn verify(&self, _: OpRef<'_>) -> Result<(), Failure> {
        crate::machine::vector(self).map(|_| ())
    }
}

/// Ends the region of an intrinsic with the new content of its first operands, and that of
/// [`Apply`] with an element of each output.
#[derive(Op)]
#[op(
    "accel.yield",
    StrictAttributes,
    Terminator,
    Pure,
    ReturnLike,
    parent(Intrinsic, Apply)
)]
#[asm("attr-dict ($values^ `:` type($values))?")]
pub struct Yield {
    /// The content.
    pub values: Vec<Value>,
}
