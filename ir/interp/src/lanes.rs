//! Scalar operations on columns of values: one dispatch for many.

use tir_core::{Failure, Type};
use tir_data::{Array, BufferId, StridedBox};

use crate::columns::{Column, Columns, LANES};
use crate::data::{Data, tensor_form};
use crate::kernel::{Input, Kernel};
use crate::ops::{ScalarOp, Trap};
use crate::scalar::{Class, dtype_of};
use crate::semantics::{Visit, dispatch};
use crate::view::View;

/// One operation of a kernel: the result's column stands behind those of the operands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneOp {
    pub op: ScalarOp,
    pub dst: Column,
    pub args: [Column; 3],
}

impl LaneOp {
    /// Computes the first `n` lanes.
    pub(crate) fn run(&self, columns: &mut Columns, n: usize) -> Result<(), Trap> {
        let args = self.args.map(|c| c.at);
        dispatch(
            self.op,
            Lanes {
                columns,
                dst: self.dst.at,
                args,
                op: self,
                n: n.min(LANES),
            },
        )
    }
}

struct Lanes<'a> {
    columns: &'a mut Columns,
    dst: usize,
    args: [usize; 3],
    op: &'a LaneOp,
    n: usize,
}

macro_rules! lanes {
    ($($one:ident $two:ident $three:ident $field:ident $t:ty;)*) => {$(
        #[inline(always)]
        fn $one(self, f: impl Fn($t) -> $t) -> Self::Out {
            let (low, high) = self.columns.$field.split_at_mut(self.dst);
            let a = &low[self.args[0]][..self.n];
            for (out, a) in high[0][..self.n].iter_mut().zip(a) {
                *out = f(*a);
            }
            Ok(())
        }
        #[inline(always)]
        fn $two(self, f: impl Fn($t, $t) -> $t) -> Self::Out {
            let (low, high) = self.columns.$field.split_at_mut(self.dst);
            let (a, b) = (&low[self.args[0]][..self.n], &low[self.args[1]][..self.n]);
            for ((out, a), b) in high[0][..self.n].iter_mut().zip(a).zip(b) {
                *out = f(*a, *b);
            }
            Ok(())
        }
        lanes!(@three $three $field $t);
    )*};
    (@three none $field:ident $t:ty) => {};
    (@three $three:ident $field:ident $t:ty) => {
        #[inline(always)]
        fn $three(self, f: impl Fn($t, $t, $t) -> $t) -> Self::Out {
            let (low, high) = self.columns.$field.split_at_mut(self.dst);
            let [a, b, c] = self.args.map(|i| &low[i][..self.n]);
            for (((out, a), b), c) in high[0][..self.n].iter_mut().zip(a).zip(b).zip(c) {
                *out = f(*a, *b, *c);
            }
            Ok(())
        }
    };
}

macro_rules! chosen {
    ($self:ident, $field:ident) => {{
        let (low, high) = $self.columns.$field.split_at_mut($self.dst);
        let (a, b) = (
            &low[$self.args[1]][..$self.n],
            &low[$self.args[2]][..$self.n],
        );
        // Conditions are copied: they may be of the class that is written.
        let cond = $self.cond;
        for (((out, a), b), c) in high[0][..$self.n].iter_mut().zip(a).zip(b).zip(cond) {
            *out = if c != 0 { *a } else { *b };
        }
        Ok(())
    }};
}

struct Chosen<'a> {
    columns: &'a mut Columns,
    dst: usize,
    args: [usize; 3],
    cond: [i64; LANES],
    n: usize,
}
impl Chosen<'_> {
    fn run(self, class: Class) -> Result<(), Trap> {
        match class {
            Class::Int => chosen!(self, ints),
            Class::Single => chosen!(self, singles),
            Class::Double => chosen!(self, doubles),
        }
    }
}

impl Visit for Lanes<'_> {
    type Out = Result<(), Trap>;
    fn other(self) -> Self::Out {
        Err("an operation of another form")
    }
    lanes! {
        i1 i2 none ints i64;
        f1 f2 f3 singles f32;
        d1 d2 d3 doubles f64;
    }
    #[inline(always)]
    fn i2_try(self, trap: Trap, f: impl Fn(i64, i64) -> Option<i64>) -> Self::Out {
        let (low, high) = self.columns.ints.split_at_mut(self.dst);
        let (a, b) = (&low[self.args[0]][..self.n], &low[self.args[1]][..self.n]);
        for ((out, a), b) in high[0][..self.n].iter_mut().zip(a).zip(b) {
            *out = f(*a, *b).ok_or(trap)?;
        }
        Ok(())
    }
    #[inline(always)]
    fn f2_i(self, f: impl Fn(f32, f32) -> bool) -> Self::Out {
        let (a, b) = (
            &self.columns.singles[self.args[0]],
            &self.columns.singles[self.args[1]],
        );
        for ((out, a), b) in self.columns.ints[self.dst][..self.n]
            .iter_mut()
            .zip(a)
            .zip(b)
        {
            *out = f(*a, *b).into();
        }
        Ok(())
    }
    #[inline(always)]
    fn d2_i(self, f: impl Fn(f64, f64) -> bool) -> Self::Out {
        let (a, b) = (
            &self.columns.doubles[self.args[0]],
            &self.columns.doubles[self.args[1]],
        );
        for ((out, a), b) in self.columns.ints[self.dst][..self.n]
            .iter_mut()
            .zip(a)
            .zip(b)
        {
            *out = f(*a, *b).into();
        }
        Ok(())
    }
    fn select(self, class: Class) -> Self::Out {
        let cond = self.columns.ints[self.args[0]];
        let Self {
            columns,
            dst,
            args,
            n,
            ..
        } = self;
        Chosen {
            columns,
            dst,
            args,
            cond,
            n,
        }
        .run(class)
    }
    fn copy(self, _: Class) -> Self::Out {
        self.columns.copy(self.op.args[0], self.op.dst, self.n);
        Ok(())
    }
    fn convert(self, _: Class, _: Class, f: impl Fn(u64) -> u64) -> Self::Out {
        for lane in 0..self.n {
            let bits = f(self.columns.bits(self.op.args[0], lane));
            self.columns.set(self.op.dst, lane, bits);
        }
        Ok(())
    }
}

/// Combines a scalar with the lanes of a column, one after the other.
pub(crate) fn fold_lanes(
    op: ScalarOp,
    columns: &Columns,
    column: Column,
    n: usize,
    start: u64,
) -> Result<u64, Trap> {
    dispatch(
        op,
        FoldLanes {
            columns,
            column,
            n: n.min(LANES),
            start,
        },
    )
}

struct FoldLanes<'a> {
    columns: &'a Columns,
    column: Column,
    n: usize,
    start: u64,
}
impl Visit for FoldLanes<'_> {
    type Out = Result<u64, Trap>;
    fn other(self) -> Self::Out {
        Err(NO_COMBINER)
    }
    #[inline(always)]
    fn i2(self, f: impl Fn(i64, i64) -> i64) -> Self::Out {
        let lanes = &self.columns.ints[self.column.at][..self.n];
        Ok(lanes.iter().fold(self.start as i64, |acc, x| f(acc, *x)) as u64)
    }
    #[inline(always)]
    fn f2(self, f: impl Fn(f32, f32) -> f32) -> Self::Out {
        let lanes = &self.columns.singles[self.column.at][..self.n];
        let sum = lanes
            .iter()
            .fold(f32::from_bits(self.start as u32), |acc, x| f(acc, *x));
        Ok(sum.to_bits().into())
    }
    #[inline(always)]
    fn d2(self, f: impl Fn(f64, f64) -> f64) -> Self::Out {
        let lanes = &self.columns.doubles[self.column.at][..self.n];
        Ok(lanes
            .iter()
            .fold(f64::from_bits(self.start), |acc, x| f(acc, *x))
            .to_bits())
    }
    fn copy(self, _: Class) -> Self::Out {
        // Without a combiner the last value stays.
        match self.n.checked_sub(1) {
            Some(last) => Ok(self.columns.bits(self.column, last)),
            None => Ok(self.start),
        }
    }
}

const NO_COMBINER: Trap = "a combiner of another form";

/// `sum = op(sum, value)`, lane by lane; the value's column stands before the sum's.
pub(crate) fn join_lanes(
    op: ScalarOp,
    columns: &mut Columns,
    sum: Column,
    value: Column,
    n: usize,
) -> Result<(), Trap> {
    dispatch(
        op,
        JoinLanes {
            columns,
            sum,
            value,
            n: n.min(LANES),
        },
    )
}

struct JoinLanes<'a> {
    columns: &'a mut Columns,
    sum: Column,
    value: Column,
    n: usize,
}
macro_rules! join {
    ($($two:ident $field:ident $t:ty;)*) => {$(
        #[inline(always)]
        fn $two(self, f: impl Fn($t, $t) -> $t) -> Self::Out {
            let (low, high) = self.columns.$field.split_at_mut(self.sum.at);
            for (s, v) in high[0][..self.n].iter_mut().zip(&low[self.value.at][..self.n]) {
                *s = f(*s, *v);
            }
            Ok(())
        }
    )*};
}
impl Visit for JoinLanes<'_> {
    type Out = Result<(), Trap>;
    join! {
        i2 ints i64;
        f2 singles f32;
        d2 doubles f64;
    }
    fn other(self) -> Self::Out {
        Err(NO_COMBINER)
    }
    fn copy(self, _: Class) -> Self::Out {
        self.columns.copy(self.value, self.sum, self.n);
        Ok(())
    }
}

/// A scalar operation element by element: operands are tensors of one shape, or scalars that
/// stand for every element. `elem` is the element type of the result.
pub fn elementwise(op: ScalarOp, inputs: &[Data], elem: Type) -> Result<Data, Failure> {
    let shape = inputs
        .iter()
        .find_map(|d| d.as_tensor().ok())
        .ok_or("no operand is a tensor")?;
    let shape = shape.shape().to_vec();
    let (kinds, count) = op.inputs();
    if inputs.len() != count {
        return Err(format!("{} operands, expected {count}", inputs.len()).into());
    }
    let arrays: Vec<Array> = inputs
        .iter()
        .map(Data::to_array)
        .collect::<Result<_, _>>()?;
    let n = shape.iter().product::<usize>() as i64;
    let mut operands = Vec::new();
    for ((array, data), kind) in arrays.iter().zip(inputs).zip(kinds) {
        let whole = matches!(data, Data::Tensor(_));
        if whole && array.shape() != shape {
            return Err(format!("operands of shapes {:?} and {shape:?}", array.shape()).into());
        }
        if array.dtype().size() != kind.bytes() {
            return Err(format!("elements of {} as {kind:?}", array.dtype()).into());
        }
        let step = if whole { kind.bytes() as i64 } else { 0 };
        let strided = StridedBox::new(BufferId::NONE, 0, &[(n, step)], kind.bytes() as u64);
        let view = View { kind, strided };
        operands.push(Input {
            bytes: array.bytes(),
            view,
        });
    }
    let dtype = dtype_of(elem).ok_or_else(|| format!("{elem} cannot be held"))?;
    let out = crate::data::zeros(dtype, &shape)?;
    let results = Kernel::of_op(op).run_to(&[n], &operands, vec![out], &[])?;
    Ok(results.into_iter().next().map_or(Data::None, Data::Tensor))
}

/// One operation on vectors, element by element: they are short, and what prepares columns would take longer.
pub(crate) fn vector(op: ScalarOp, inputs: &[Data], ty: Type) -> Result<Data, Failure> {
    let (kinds, count) = op.inputs();
    let mut columns: [&[u8]; 3] = [&[]; 3];
    for (column, input) in columns.iter_mut().zip(inputs) {
        *column = input.as_tensor()?.bytes();
    }
    let (dtype, shape) = tensor_form(ty)?;
    let (length, kind, size) = (shape.iter().product::<usize>(), op.kind(), dtype.size());
    let mut bytes = vec![0; length * size];
    for (at, out) in bytes.chunks_exact_mut(size).enumerate() {
        let mut args = [0; 3];
        for k in 0..count {
            let from = columns[k].get(at * kinds[k].bytes()..);
            let read = from.and_then(|bytes| kinds[k].read(bytes));
            args[k] = read.ok_or("has vectors of different lengths")?;
        }
        let made = op.apply(args).map_err(Failure::from)?;
        kind.write(made, out)
            .ok_or("makes elements of another size")?;
    }
    let array = Array::new(dtype, &shape, bytes.into());
    array
        .map(Data::Tensor)
        .map_err(|e| Failure::from(e.to_string()))
}
