//! Ops put together for a node: what has no op of its own in graph is a composition of those that are there.

use tir_core::{Attr, Op, Ret, Type, Value};
use tir_data::{Array, DType};
use tir_graph::*;
use tir_onnx::Node;

use super::import::{Cx, LARGEST, Outcome};
use super::{movement, numbers, parts, views};

/// The most bytes of a constant that is computed at import from smaller ones.
const KNOWN_BYTES: usize = 1 << 20;

/// Makes ops at a node.
pub(super) struct Make<'a, 'm> {
    pub cx: &'a mut Cx<'m>,
    pub node: &'a Node,
}

macro_rules! one {
    ($($(#[$doc:meta])* $name:ident: $op:ident;)*) => {$(
        $(#[$doc])*
        pub(super) fn $name(&mut self, x: Value) -> Outcome<Value> {
            self.op($op { x })
        }
    )*};
}
macro_rules! two {
    ($($name:ident: $op:ident;)*) => {$(
        /// The op of this name; shapes broadcast.
        pub(super) fn $name(&mut self, x: Value, y: Value) -> Outcome<Value> {
            self.op($op { x, y })
        }
    )*};
}
/// An op whose second operand is a number.
macro_rules! with {
    ($($name:ident: $op:ident;)*) => {$(
        /// The op, of each element and a number.
        pub(super) fn $name(&mut self, x: Value, number: f64) -> Outcome<Value> {
            let y = self.like(x, number)?;
            self.op($op { x, y })
        }
    )*};
}
macro_rules! reduce {
    ($($name:ident: $op:ident;)*) => {$(
        /// The reduction over dimensions, in any order; they stay, with size 1.
        pub(super) fn $name(&mut self, x: Value, axes: &[usize]) -> Outcome<Value> {
            let mut axes: Vec<i64> = axes.iter().map(|d| *d as i64).collect();
            axes.sort_unstable();
            self.op($op { x, axes, keepdims: true })
        }
    )*};
}

impl<'a, 'm> Make<'a, 'm> {
    pub(super) fn new(cx: &'a mut Cx<'m>, node: &'a Node) -> Self {
        Self { cx, node }
    }

    pub(super) fn fail<T>(&self, why: impl Into<String>) -> Outcome<T> {
        Err(Some(self.node.error(why)))
    }

    /// Operand `k`.
    pub(super) fn operand(&mut self, k: usize) -> Outcome<Value> {
        self.cx.operand(self.node, k)
    }

    /// Operand `k`, if it is there.
    pub(super) fn optional(&mut self, k: usize) -> Outcome<Option<Value>> {
        self.cx.optional(self.node, k)
    }

    /// The shape of a value.
    pub(super) fn shape(&self, x: Value) -> Vec<i64> {
        self.cx.shape(x).0.to_vec()
    }

    pub(super) fn rank(&self, x: Value) -> usize {
        self.cx.shape(x).0.len()
    }

    pub(super) fn elem(&self, x: Value) -> Type {
        self.cx.shape(x).1
    }

    /// An integer attribute.
    pub(super) fn int(&self, name: &str, otherwise: i64) -> Outcome<i64> {
        Ok(self.node.int(name).map_err(Some)?.unwrap_or(otherwise))
    }

    pub(super) fn flag(&self, name: &str) -> Outcome<bool> {
        Ok(self.int(name, 0)? != 0)
    }

    /// A float attribute.
    pub(super) fn float(&self, name: &str, otherwise: f32) -> Outcome<f64> {
        Ok(self
            .node
            .float(name)
            .map_err(Some)?
            .unwrap_or(otherwise)
            .into())
    }

    /// A string attribute.
    pub(super) fn word(&self, name: &str, otherwise: &'static str) -> Outcome<String> {
        let word = self.node.string(name).map_err(Some)?;
        Ok(word.unwrap_or(otherwise).to_string())
    }

    /// The result of an op; a constant if its operands are, and it is not much larger.
    pub(super) fn op<T: Op>(&mut self, op: T) -> Outcome<Value> {
        let value = self.cx.add(self.node, op)?;
        let ty = self.cx.ir().ty(value);
        let bytes = ty.elements().zip(ty.bytes());
        match bytes.and_then(|(n, size)| n.checked_mul(size)) {
            Some(bytes) if bytes <= KNOWN_BYTES => Ok(self.cx.evaluated(value, "constant")),
            _ => Ok(value),
        }
    }

    one! {
        exp: Exp; log: Log; sqrt: Sqrt; neg: Neg; abs: Abs; floor: Floor; ceil: Ceil; tanh: Tanh;
        sigmoid: Sigmoid; reciprocal: Reciprocal; round: Round; relu: Relu;
    }
    two! {
        add: Add; sub: Sub; mul: Mul; div: Div; max: Max; min: Min; pow: Pow; equal: Equal; less: Less;
        greater: Greater; greater_equal: GreaterEqual; and: And; or: Or; xor: Xor;
    }
    with! {
        plus: Add; times: Mul; at_least: Max; at_most: Min; equals: Equal; below: Less; above: Greater;
    }
    reduce! { sum: ReduceSum; mean: ReduceMean; largest: ReduceMax; smallest: ReduceMin; }

    /// A number of the element type of a value.
    pub(super) fn like(&mut self, x: Value, number: f64) -> Outcome<Value> {
        let elem = self.elem(x);
        self.numbers(elem, &[], &[number])
    }

    /// A constant.
    pub(super) fn numbers(&mut self, elem: Type, shape: &[i64], values: &[f64]) -> Outcome<Value> {
        numbers::constant(self.cx, self.node, elem, shape, values)
    }

    /// 0, 1, … along the last of `rank - dim` dimensions, the others of size 1.
    pub(super) fn counting(
        &mut self,
        elem: Type,
        count: i64,
        dim: usize,
        rank: usize,
    ) -> Outcome<Value> {
        self.cx.room(self.node, &[count])?;
        let mut shape = vec![1; rank];
        shape[dim] = count;
        let values: Vec<f64> = (0..count).map(|i| i as f64).collect();
        self.numbers(elem, &shape, &values)
    }

    /// Whether so many parts may be written out one after the other.
    pub(super) fn written(&self, parts: i64) -> Outcome<()> {
        let most = self.cx.options.max_steps;
        match usize::try_from(parts) {
            Ok(n) if n > most => self.fail(format!(
                "has {n} steps to be written out, at most {most} are: option --max-steps"
            )),
            _ => Ok(()),
        }
    }

    /// The same elements in another shape.
    pub(super) fn reshape(&mut self, x: Value, shape: &[i64]) -> Outcome<Value> {
        if self.cx.shape(x).0 == shape {
            return Ok(x);
        }
        let y = views::reshaped(self.cx, self.node, x, shape)?;
        Ok(self.cx.evaluated(y, "constant"))
    }

    /// With a dimension of size 1 at a place.
    pub(super) fn unsqueeze(&mut self, x: Value, at: usize) -> Outcome<Value> {
        let mut shape = self.shape(x);
        self.has(x, at, shape.len() + 1)?;
        shape.insert(at, 1);
        self.reshape(x, &shape)
    }

    /// Whether a tensor has a dimension, or a place for one.
    fn has(&self, x: Value, at: usize, count: usize) -> Outcome<()> {
        match at < count {
            true => Ok(()),
            false => self.fail(format!("needs dimension {at} of {:?}", self.shape(x))),
        }
    }

    /// Without a dimension of size 1.
    pub(super) fn squeeze(&mut self, x: Value, at: usize) -> Outcome<Value> {
        let mut shape = self.shape(x);
        self.has(x, at, shape.len())?;
        shape.remove(at);
        self.reshape(x, &shape)
    }

    pub(super) fn transpose(&mut self, x: Value, perm: &[usize]) -> Outcome<Value> {
        if perm.iter().enumerate().all(|(i, d)| i == *d) {
            return Ok(x);
        }
        let perm = perm.iter().map(|d| *d as i64).collect();
        self.op(Transpose { x, perm })
    }

    /// A dimension moved to the end.
    pub(super) fn moved_last(&mut self, x: Value, at: usize) -> Outcome<Value> {
        self.has(x, at, self.rank(x))?;
        let mut perm: Vec<usize> = (0..self.rank(x)).filter(|d| *d != at).collect();
        perm.push(at);
        self.transpose(x, &perm)
    }

    /// The last dimension moved to a place.
    pub(super) fn moved_back(&mut self, x: Value, at: usize) -> Outcome<Value> {
        self.has(x, at, self.rank(x))?;
        let last = self.rank(x) - 1;
        let mut perm: Vec<usize> = (0..last).collect();
        perm.insert(at, last);
        self.transpose(x, &perm)
    }

    pub(super) fn expand(&mut self, x: Value, shape: &[i64]) -> Outcome<Value> {
        let elem = self.elem(x);
        movement::expanded(self.cx, self.node, x, shape, elem)
    }

    pub(super) fn cast(&mut self, x: Value, elem: Type) -> Outcome<Value> {
        let (shape, from) = self.cx.shape(x);
        if from == elem {
            return Ok(x);
        }
        let y = Ret(Type::tensor(shape, elem));
        self.op(Cast { x, y })
    }

    /// `size` elements of a dimension from `start` on, in these steps.
    pub(super) fn along(
        &mut self,
        x: Value,
        dim: usize,
        start: i64,
        size: i64,
        step: i64,
    ) -> Outcome<Value> {
        let y = parts::along(self.cx, self.node, x, dim, start, size, step)?;
        // All of it is the tensor itself.
        Ok(match y == x {
            true => x,
            false => self.cx.evaluated(y, "constant"),
        })
    }

    /// One element of a dimension, which goes.
    pub(super) fn pick(&mut self, x: Value, dim: usize, at: i64) -> Outcome<Value> {
        let y = self.along(x, dim, at, 1, 1)?;
        self.squeeze(y, dim)
    }

    pub(super) fn concat(&mut self, xs: Vec<Value>, dim: usize) -> Outcome<Value> {
        match xs[..] {
            [x] => Ok(x),
            _ => self.op(Concat {
                xs,
                axis: dim as i64,
            }),
        }
    }

    /// Numbers around a tensor: how many before and behind, for each dimension.
    pub(super) fn pad(
        &mut self,
        x: Value,
        low: &[i64],
        high: &[i64],
        number: f64,
    ) -> Outcome<Value> {
        if low.iter().chain(high).all(|n| *n == 0) {
            return Ok(x);
        }
        let elem = self.elem(x);
        let value = match elem.is_float() {
            true => Attr::float(number, elem),
            false => Attr::int(number as i64, elem),
        };
        self.op(Pad {
            x,
            low: low.to_vec(),
            high: high.to_vec(),
            value,
        })
    }

    pub(super) fn matmul(&mut self, a: Value, b: Value) -> Outcome<Value> {
        self.op(MatMul { a, b })
    }

    /// `x` where a condition holds, else `y`.
    pub(super) fn choose(&mut self, condition: Value, x: Value, y: Value) -> Outcome<Value> {
        self.op(Where { condition, x, y })
    }

    pub(super) fn not(&mut self, x: Value) -> Outcome<Value> {
        let one = self.like(x, 1.0)?;
        self.xor(x, one)
    }

    /// Slices along a dimension, by numbers.
    pub(super) fn gather(&mut self, x: Value, indices: Value, dim: usize) -> Outcome<Value> {
        self.op(Gather {
            x,
            indices,
            axis: dim as i64,
        })
    }

    pub(super) fn softmax(&mut self, x: Value, dim: usize) -> Outcome<Value> {
        self.op(Softmax {
            x,
            axis: dim as i64,
        })
    }

    /// Numbers along dimensions counted from the end become those counted from the begin.
    pub(super) fn counted_up(&mut self, indices: Value, count: i64) -> Outcome<Value> {
        let negative = self.below(indices, 0.0)?;
        let other = self.plus(indices, count as f64)?;
        self.choose(negative, other, indices)
    }

    /// The element type of numbers of elements.
    pub(super) fn index_type() -> Type {
        tir_interp::elem_of(DType::I64)
    }

    /// Dimension `axis` of `rank`.
    pub(super) fn dimension(&self, axis: i64, rank: usize) -> Outcome<usize> {
        super::operands::dimension(self.node, axis, rank)
    }

    /// The integers of operand `k`, if it is there.
    pub(super) fn ints(&self, k: usize, what: &str) -> Outcome<Option<Vec<i64>>> {
        let list = super::operands::numbers(self.cx, self.node, k, what)?;
        self.sizes(list.as_deref().unwrap_or(&[]))?;
        Ok(list)
    }

    /// Numbers that are added and multiplied as sizes are.
    pub(super) fn sizes(&self, list: &[i64]) -> Outcome<()> {
        match list.iter().find(|n| n.unsigned_abs() > LARGEST as u64) {
            Some(n) => self.fail(format!("has a size of {n}, expected {LARGEST} at most")),
            None => Ok(()),
        }
    }

    /// Only these attributes are read.
    pub(super) fn attributes(&self, known: &[&str]) -> Outcome<()> {
        self.node.only_attributes(known).map_err(Some)
    }

    /// A constant array.
    pub(super) fn array(&mut self, array: &Array) -> Value {
        self.cx.constant(array, "constant")
    }

    /// The only result.
    pub(super) fn done(self, value: Value) -> Outcome<()> {
        self.cx.define(self.node, value)
    }
}
