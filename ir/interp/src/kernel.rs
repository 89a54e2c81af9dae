//! Kernels: the scalar region of an index expression, compiled once, run over strided views.
//!
//! *Terms.* A **column** holds one value for each of some neighbouring points (lanes) of the
//! iteration domain; registers of a region become columns. **Captures** are scalars from outside the
//! region. An output is **combined** with what it held, or replaced.
//!
//! *Invariants.* All positions that maps reach are checked against the views before the first point
//! runs. Values of one output element are combined in the order of the iterators, whatever the lanes,
//! so that results are the same bit for bit as those of the loop written out. Inputs are read as they
//! were before the run: the caller copies those that share a buffer with an output.

use tir_core::{AffineMap, BlockId, Failure, Ir, Name, Value};
use tir_data::Array;

use crate::code::Instr;
use crate::columns::Column;
use crate::compile::Compiler;
use crate::data::{failure, unshare};
use crate::lanes::LaneOp;
use crate::nest::Nest;
use crate::ops::{FloatOp, IntOp, ScalarOp};
use crate::scalar::{Class, Kind, Scalar};
use crate::view::View;
use crate::work::point_work;

/// How values for one element of an output are put together, in the order of the iterators.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Combine {
    /// Sum.
    Add,
    /// Product.
    Mul,
    /// Maximum: NaN if one is; signed.
    Max,
    /// Minimum: NaN if one is; signed.
    Min,
    /// Maximum of unsigned integers.
    MaxU,
    /// Minimum of unsigned integers.
    MinU,
}

impl Combine {
    /// The operation on this kind.
    pub fn op(self, kind: Kind) -> ScalarOp {
        let (int, float) = match self {
            Self::Add => (IntOp::Add, FloatOp::Add),
            Self::Mul => (IntOp::Mul, FloatOp::Mul),
            Self::Max => (IntOp::MaxS, FloatOp::Maximum),
            Self::Min => (IntOp::MinS, FloatOp::Minimum),
            Self::MaxU => (IntOp::MaxU, FloatOp::Maximum),
            Self::MinU => (IntOp::MinU, FloatOp::Minimum),
        };
        if kind.is_float() {
            ScalarOp::Float(float, kind)
        } else {
            ScalarOp::Int(int, kind)
        }
    }
}

/// What a kernel is made of.
#[derive(Clone, Copy, Debug)]
pub struct KernelSpec<'a> {
    /// The scalar computation: arguments are one element of each input; the operands of its
    /// terminator are one value for each output.
    pub body: BlockId,
    /// A map from iterators to positions for each input, then for each output.
    pub maps: &'a [AffineMap],
    /// How many of the maps are of inputs.
    pub inputs: usize,
    /// How values join what the output holds; without, they replace it.
    pub combine: Option<Combine>,
}

/// A scalar region over an iteration domain, ready to run on any views of its kinds.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    pub(crate) maps: Vec<AffineMap>,
    pub(crate) inputs: Vec<Column>,
    /// Which inputs the region reads.
    pub(crate) used: Vec<bool>,
    pub(crate) ops: Vec<LaneOp>,
    pub(crate) numbers: Vec<(Column, u64)>,
    pub(crate) iterators: Vec<(usize, Column)>,
    pub(crate) captures: Vec<Column>,
    pub(crate) captured: Vec<Value>,
    pub(crate) yields: Vec<Column>,
    /// Where values of an output gather while it is not in memory.
    pub(crate) sums: Vec<Column>,
    pub(crate) combine: Vec<ScalarOp>,
    pub(crate) combines: bool,
    /// What a thread does at one point: loads, operations on data, stores.
    pub(crate) work: u64,
    pub(crate) counts: [usize; 3],
}

/// What a kernel reads: a view of these bytes (the buffer the view names plays no part).
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Where the elements are in them.
    pub view: View,
}

/// What a kernel writes: a view of these bytes.
#[derive(Debug)]
pub struct Output<'a> {
    /// The bytes.
    pub bytes: &'a mut [u8],
    /// Where the elements are in them.
    pub view: View,
}

/// Gives out columns by class.
#[derive(Default)]
struct Count([usize; 3]);
impl Count {
    fn column(&mut self, kind: Kind) -> Column {
        let slot = match kind.class() {
            Class::Int => 0,
            Class::Single => 1,
            Class::Double => 2,
        };
        self.0[slot] += 1;
        Column {
            kind,
            at: self.0[slot] - 1,
        }
    }
}

impl Kernel {
    /// Compiles a region. Scalars from outside it are constants, or captured: their values are
    /// given at each run, in the order of [`captures`](Self::captures).
    pub fn compile(ir: &Ir, spec: &KernelSpec<'_>) -> Result<Kernel, Failure> {
        let dims = spec.maps.first().map_or(0, |m| m.dims);
        let mut cx = Compiler::new(ir, Name::new("kernel"));
        cx.kernel = true;
        for _ in 0..dims {
            let reg = cx.temp(Kind::Index);
            cx.iterators.push(reg);
        }
        let args: Vec<Value> = ir.args(spec.body).collect();
        if args.len() != spec.inputs || spec.maps.len() < spec.inputs {
            let (found, inputs) = (args.len(), spec.inputs);
            return Err(format!("a region of {found} arguments for {inputs} inputs").into());
        }
        let mut inputs = Vec::new();
        for arg in &args {
            inputs.push(cx.reg(*arg)?);
        }
        let mut captured = Vec::new();
        for op in ir.ops_in(spec.body) {
            for value in ir.operands(op) {
                if cx.has_slot(value) || ir.value_block(value) == Some(spec.body) {
                    continue;
                }
                match ir.constant(value) {
                    Some(attr) => cx.constant(value, attr)?,
                    None => captured.push((value, cx.reg(value)?)),
                }
            }
        }
        let yields = cx.block(spec.body)?;
        let yields = yields
            .iter()
            .map(|v| cx.reg(*v))
            .collect::<Result<Vec<_>, _>>()?;
        let outputs = spec.maps.len() - spec.inputs;
        if yields.len() != outputs {
            return Err(format!(
                "a region that yields {} values for {outputs} outputs",
                yields.len()
            )
            .into());
        }
        // Columns in the order of definition, so that a result stands behind its operands.
        let mut count = Count::default();
        let mut columns = std::collections::HashMap::new();
        let mut numbers = Vec::new();
        let iterators = cx.iterators.clone();
        let known = iterators
            .iter()
            .chain(&inputs)
            .chain(captured.iter().map(|(_, reg)| reg));
        for reg in known {
            columns.insert(reg.index, count.column(reg.kind));
        }
        let mut ops = Vec::new();
        for instr in &cx.code.instrs {
            let (op, dst, args) = match *instr {
                Instr::Op { op, dst, a, b, c } => (op, dst, [a, b, c]),
                Instr::Move { dst, src } => {
                    let kind = columns.get(&src).map_or(Kind::Index, |c: &Column| c.kind);
                    (ScalarOp::Copy(kind), dst, [src; 3])
                }
                _ => return Err("the region has more than scalar operations".into()),
            };
            let (kinds, used) = op.inputs();
            let mut sources = [Column {
                kind: Kind::Index,
                at: 0,
            }; 3];
            for ((source, reg), kind) in sources.iter_mut().zip(args).zip(kinds).take(used) {
                *source = *columns.entry(reg).or_insert_with(|| {
                    let column = count.column(kind);
                    numbers.push((column, cx.code.scalars[reg as usize]));
                    column
                });
            }
            let column = count.column(op.kind());
            columns.insert(dst, column);
            ops.push(LaneOp {
                op,
                dst: column,
                args: sources,
            });
        }
        let yields = yields.iter().map(|reg| {
            *columns.entry(reg.index).or_insert_with(|| {
                let column = count.column(reg.kind);
                numbers.push((column, cx.code.scalars[reg.index as usize]));
                column
            })
        });
        let yields: Vec<Column> = yields.collect();
        let read = |c: &Column| {
            let by_op = |op: &LaneOp| op.args.iter().take(op.op.inputs().1).any(|a| a == c);
            ops.iter().any(by_op) || yields.contains(c)
        };
        let inputs: Vec<Column> = inputs.iter().map(|reg| columns[&reg.index]).collect();
        let used = inputs.iter().map(read).collect();
        let iterators = iterators.iter().map(|reg| columns[&reg.index]).enumerate();
        let iterators = iterators.filter(|(_, c)| read(c)).collect();
        let captures = captured
            .iter()
            .map(|(_, reg)| columns[&reg.index])
            .collect();
        let captured = captured.into_iter().map(|(value, _)| value).collect();
        let maps = spec.maps.to_vec();
        let work = point_work(ir, spec.body, outputs, spec.combine.is_some());
        let kernel = Self {
            maps,
            work,
            inputs,
            used,
            ops,
            numbers,
            iterators,
            captures,
            captured,
            yields,
            ..Self::default()
        };
        Ok(kernel.with_outputs(spec.combine, count))
    }

    /// With columns for the outputs, and how values get there.
    fn with_outputs(mut self, combine: Option<Combine>, mut count: Count) -> Self {
        let how = |y: &Column| combine.map_or(ScalarOp::Copy(y.kind), |c| c.op(y.kind));
        self.combine = self.yields.iter().map(how).collect();
        self.combines = combine.is_some();
        let sums = self.yields.iter().map(|y| count.column(y.kind));
        self.sums = sums.collect();
        self.counts = count.0;
        self
    }

    /// One operation for each point of a one-dimensional domain.
    pub fn of_op(op: ScalarOp) -> Kernel {
        let (kinds, used) = op.inputs();
        let mut count = Count::default();
        let inputs: Vec<Column> = kinds.iter().take(used).map(|k| count.column(*k)).collect();
        let dst = count.column(op.kind());
        let at = |i: usize| inputs.get(i).copied().unwrap_or(dst);
        let kernel = Self {
            maps: vec![AffineMap::identity(1); used + 1],
            used: vec![true; used],
            ops: vec![LaneOp {
                op,
                dst,
                args: [at(0), at(1), at(2)],
            }],
            inputs,
            yields: vec![dst],
            ..Self::default()
        };
        kernel.with_outputs(None, count)
    }

    /// The values of the region's surroundings that it uses, by which no constant stands.
    pub fn captures(&self) -> &[Value] {
        &self.captured
    }

    /// Whether outputs are read: there is a combiner.
    pub fn reads_outputs(&self) -> bool {
        self.combines
    }

    /// The ranges of the iterators for these shapes of inputs and outputs, where each iterator
    /// indexes some dimension alone.
    pub fn sizes(&self, shapes: &[&[i64]]) -> Result<Vec<i64>, Failure> {
        let dims = self.maps.first().map_or(0, |m| m.dims);
        let mut sizes = vec![None; dims];
        for (map, shape) in self.maps.iter().zip(shapes) {
            for (expr, size) in map.exprs.iter().zip(*shape) {
                if let tir_core::AffineExpr::Dim(d) = expr
                    && let Some(slot @ None) = sizes.get_mut(*d)
                {
                    *slot = Some(*size);
                }
            }
        }
        let found: Option<Vec<i64>> = sizes.into_iter().collect();
        found.ok_or_else(|| "an iterator indexes no dimension alone".into())
    }

    /// Runs it over a domain. Every access is checked before the first.
    pub fn run(
        &self,
        sizes: &[i64],
        inputs: &[Input<'_>],
        outputs: &mut [Output<'_>],
        captures: &[Scalar],
    ) -> Result<(), Failure> {
        Nest::run(self, sizes, inputs, outputs, captures)
    }

    /// Runs it on views and arrays: gives the arrays with their new elements, changed in place
    /// where nobody shares them.
    pub fn run_to(
        &self,
        sizes: &[i64],
        inputs: &[Input<'_>],
        outputs: Vec<Array>,
        captures: &[Scalar],
    ) -> Result<Vec<Array>, Failure> {
        let flat = self
            .maps
            .last()
            .is_some_and(|m| m.dims == 1 && m.exprs.len() == 1);
        let mut owned = Vec::new();
        let mut forms = Vec::new();
        for array in outputs {
            let (dtype, shape) = (array.dtype(), array.shape().to_vec());
            let view = match (flat, sizes) {
                (true, [n]) if *n as usize == array.len() => {
                    View::dense(tir_data::BufferId::NONE, Kind::of_dtype(dtype), &[*n])
                }
                _ => View::of_array(&array),
            };
            forms.push((dtype, shape, view));
            owned.push(unshare(array)?);
        }
        let mut views: Vec<Output<'_>> = owned
            .iter_mut()
            .zip(&forms)
            .map(|(bytes, (_, _, view))| Output {
                bytes,
                view: view.clone(),
            })
            .collect();
        self.run(sizes, inputs, &mut views, captures)?;
        let joined = owned.into_iter().zip(forms);
        joined
            .map(|(bytes, (dtype, shape, _))| {
                Array::new(dtype, &shape, bytes.freeze()).map_err(failure)
            })
            .collect()
    }

    /// Runs it on tensors.
    pub fn run_arrays(
        &self,
        sizes: &[i64],
        inputs: &[Array],
        outputs: Vec<Array>,
        captures: &[Scalar],
    ) -> Result<Vec<Array>, Failure> {
        let inputs: Vec<Input<'_>> = inputs.iter().map(Input::array).collect();
        self.run_to(sizes, &inputs, outputs, captures)
    }
}

impl<'a> Input<'a> {
    /// All of a tensor.
    pub fn array(array: &'a Array) -> Self {
        Self {
            bytes: array.bytes(),
            view: View::of_array(array),
        }
    }
}
