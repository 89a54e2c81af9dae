//! What elementwise ops compute of one element of each operand, written once: evaluation runs it
//! on whole tensors, the conversion to index expressions builds scalar ops from it.

use tir::{Failure, Op};

/// Scalar operations that elementwise ops are made of. Those on truth values take and give `i1`;
/// the others keep the element type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Scalar {
    Add,
    Sub,
    Mul,
    /// Integers: rounded to zero, by zero an error.
    Div,
    /// NaN if either is.
    Max,
    /// NaN if either is.
    Min,
    /// Floats only.
    Pow,
    Neg,
    Abs,
    Exp,
    Log,
    Sqrt,
    Sin,
    Cos,
    Tanh,
    Erf,
    Floor,
    Ceil,
    /// To nearest, ties to even.
    Round,
    /// False where one is NaN.
    Equal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
    Xor,
}

/// Where scalar operations go.
pub trait Scalars {
    /// An element, or all of them.
    type V: Clone;
    /// A constant of the operands' element type, rounded to it.
    fn number(&mut self, value: f64) -> Result<Self::V, Failure>;
    /// An operation on as many values as it has operands.
    fn apply(&mut self, op: Scalar, args: &[Self::V]) -> Result<Self::V, Failure>;
    /// An operation on one value.
    fn one(&mut self, op: Scalar, x: &Self::V) -> Result<Self::V, Failure> {
        self.apply(op, std::slice::from_ref(x))
    }
    /// An operation on two values.
    fn two(&mut self, op: Scalar, x: &Self::V, y: &Self::V) -> Result<Self::V, Failure> {
        self.apply(op, &[x.clone(), y.clone()])
    }
    /// An operation on a value and a number.
    fn with(&mut self, op: Scalar, x: &Self::V, number: f64) -> Result<Self::V, Failure> {
        let y = self.number(number)?;
        self.two(op, x, &y)
    }
}

/// An op that computes each element of its result from one element of each operand; operands
/// broadcast to the result.
pub trait Pointwise: Op {
    /// The computation, from one value for each operand.
    fn compute<S: Scalars>(&self, s: &mut S, args: &[S::V]) -> Result<S::V, Failure>;
}
