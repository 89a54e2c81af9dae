//! Elementwise operators of arithmetic: one operand, and pairs that broadcast.

use tir::constraints::{FLOAT_TENSOR, INT_TENSOR, NUMBER_TENSOR};
use tir::{Failure, Infer, Op, OpRef, Type, Value};

use crate::fusion::{Fusable, FusionKind};
use crate::layout::{Keeps, LayoutRule};
use crate::number::Number;
use crate::pointwise::{Pointwise, Scalar, Scalars};
use crate::shape::{broadcast, tensor};

/// The only operands of an op; a failure if there are more or fewer.
pub(crate) fn operands<V, const N: usize>(args: &[V]) -> Result<&[V; N], Failure> {
    let found = args.len();
    args.try_into()
        .map_err(|_| format!("has {found} operands, expected {N}").into())
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident $text:literal $elems:ident [$($traits:ident),*]
        $({ $($(#[$field_meta:meta])* $field:ident: $ty:ty,)* })?
        |$this:ident, $s:ident, $x:ident| $compute:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Op)]
        #[op($text, StrictAttributes, Pure, SameType, Elementwise, $($traits,)* results(y), evaluate, crate::fusion::fusion)]
        #[asm("$x attr-dict `:` type($y)")]
        pub struct $name {
            /// Input.
            #[is($elems)]
            pub x: Value,
            $($($(#[$field_meta])* pub $field: $ty,)*)?
        }
        impl Fusable for $name {
            const KIND: FusionKind = FusionKind::Injective;
        }
        impl Pointwise for $name {
            fn compute<S: Scalars>(&self, $s: &mut S, args: &[S::V]) -> Result<S::V, Failure> {
                let ($this, [$x]) = (self, operands(args)?);
                let _ = $this;
                $compute
            }
        }
    )*};
}

unary! {
    /// `max(x, 0)` of each element.
    Relu "graph.relu" NUMBER_TENSOR [Idempotent, Monotone] |this, s, x| s.with(Scalar::Max, x, 0.0);
    /// The nearest number between two bounds; `max` where they are not in order.
    Clip "graph.clip" NUMBER_TENSOR [Idempotent, Monotone] {
        /// Lower bound; none if absent.
        min: Option<Number>,
        /// Upper bound; none if absent.
        max: Option<Number>,
    } |this, s, x| {
        let mut y = x.clone();
        for (op, bound) in [(Scalar::Max, this.min), (Scalar::Min, this.max)] {
            if let Some(Number(bound)) = bound {
                y = s.with(op, &y, bound)?;
            }
        }
        Ok(y)
    };
    /// `x` where it is positive, else `alpha · x`.
    LeakyRelu "graph.leaky_relu" FLOAT_TENSOR [] {
        /// Slope of the negative half.
        #[default(Number(0.01))]
        alpha: Number,
    } |this, s, x| {
        let (high, low) = (s.with(Scalar::Max, x, 0.0)?, s.with(Scalar::Min, x, 0.0)?);
        let low = s.with(Scalar::Mul, &low, this.alpha.0)?;
        s.two(Scalar::Add, &high, &low)
    };
    /// `1 / (1 + exp(-x))`.
    Sigmoid "graph.sigmoid" FLOAT_TENSOR [] |this, s, x| {
        let e = s.one(Scalar::Neg, x)?;
        let e = s.one(Scalar::Exp, &e)?;
        let below = s.with(Scalar::Add, &e, 1.0)?;
        let one = s.number(1.0)?;
        s.two(Scalar::Div, &one, &below)
    };
    /// `alpha · x + beta`, kept between 0 and 1.
    HardSigmoid "graph.hard_sigmoid" FLOAT_TENSOR [] {
        /// Slope.
        #[default(Number(0.2))]
        alpha: Number,
        /// Value at zero.
        #[default(Number(0.5))]
        beta: Number,
    } |this, s, x| hard_sigmoid(s, x, this.alpha.0, this.beta.0);
    /// `x` times its hard sigmoid of slope 1/6.
    HardSwish "graph.hard_swish" FLOAT_TENSOR [] |this, s, x| {
        let gate = hard_sigmoid(s, x, 1.0 / 6.0, 0.5)?;
        s.two(Scalar::Mul, x, &gate)
    };
    /// `x · Φ(x)`, Φ the distribution function of the normal distribution (Hendrycks and Gimpel,
    /// "Gaussian Error Linear Units", 2016): by the error function, or their approximation by tanh.
    Gelu "graph.gelu" FLOAT_TENSOR [] {
        /// Whether Φ is approximated: `(1 + tanh(√(2/π)·(x + 0.044715·x³))) / 2`.
        #[default(false)]
        tanh: bool,
    } |this, s, x| {
        let bell = if this.tanh {
            let square = s.two(Scalar::Mul, x, x)?;
            let slope = s.with(Scalar::Mul, &square, 0.044715)?;
            let slope = s.with(Scalar::Add, &slope, 1.0)?;
            let inner = s.two(Scalar::Mul, x, &slope)?;
            let inner = s.with(Scalar::Mul, &inner, (2.0 / std::f64::consts::PI).sqrt())?;
            s.one(Scalar::Tanh, &inner)?
        } else {
            let inner = s.with(Scalar::Mul, x, std::f64::consts::FRAC_1_SQRT_2)?;
            s.one(Scalar::Erf, &inner)?
        };
        let twice = s.with(Scalar::Add, &bell, 1.0)?;
        let half = s.with(Scalar::Mul, x, 0.5)?;
        s.two(Scalar::Mul, &half, &twice)
    };
    /// `1 / x`.
    Reciprocal "graph.reciprocal" FLOAT_TENSOR [] |this, s, x| {
        let one = s.number(1.0)?;
        s.two(Scalar::Div, &one, x)
    };
    /// `-x`.
    Neg "graph.neg" NUMBER_TENSOR [Involution, Linear] |this, s, x| s.one(Scalar::Neg, x);
    /// Absolute value.
    Abs "graph.abs" NUMBER_TENSOR [Idempotent] |this, s, x| s.one(Scalar::Abs, x);
    /// e to the power of each element.
    Exp "graph.exp" FLOAT_TENSOR [] |this, s, x| s.one(Scalar::Exp, x);
    /// Natural logarithm.
    Log "graph.log" FLOAT_TENSOR [] |this, s, x| s.one(Scalar::Log, x);
    /// Square root.
    Sqrt "graph.sqrt" FLOAT_TENSOR [] |this, s, x| s.one(Scalar::Sqrt, x);
    /// Sine of radians.
    Sin "graph.sin" FLOAT_TENSOR [] |this, s, x| s.one(Scalar::Sin, x);
    /// Cosine of radians.
    Cos "graph.cos" FLOAT_TENSOR [] |this, s, x| s.one(Scalar::Cos, x);
    /// Hyperbolic tangent.
    Tanh "graph.tanh" FLOAT_TENSOR [] |this, s, x| s.one(Scalar::Tanh, x);
    /// Error function.
    Erf "graph.erf" FLOAT_TENSOR [] |this, s, x| s.one(Scalar::Erf, x);
    /// Largest whole number not above.
    Floor "graph.floor" FLOAT_TENSOR [Idempotent, Monotone] |this, s, x| s.one(Scalar::Floor, x);
    /// Smallest whole number not below.
    Ceil "graph.ceil" FLOAT_TENSOR [Idempotent, Monotone] |this, s, x| s.one(Scalar::Ceil, x);
    /// Nearest whole number, ties to even.
    Round "graph.round" FLOAT_TENSOR [Idempotent, Monotone] |this, s, x| s.one(Scalar::Round, x);
}

fn hard_sigmoid<S: Scalars>(s: &mut S, x: &S::V, alpha: f64, beta: f64) -> Result<S::V, Failure> {
    let y = s.with(Scalar::Mul, x, alpha)?;
    let y = s.with(Scalar::Add, &y, beta)?;
    let y = s.with(Scalar::Max, &y, 0.0)?;
    s.with(Scalar::Min, &y, 1.0)
}

/// The type of a result whose elements come from those of two operands of one element type.
fn pair(op: OpRef<'_>, x: Value, y: Value, result: Option<Type>) -> Result<Vec<Type>, Failure> {
    let (x, elem) = tensor(op, x, "x")?;
    let (y, y_elem) = tensor(op, y, "y")?;
    if elem != y_elem {
        return Err(format!("has operands of {elem} and {y_elem}").into());
    }
    let shape = broadcast(&x, &y)?;
    Ok(vec![Type::tensor(shape, result.unwrap_or(elem))])
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident $text:literal $elems:ident [$($traits:ident),*] $scalar:ident $result:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Op)]
        #[op($text, StrictAttributes, Pure, Elementwise, Broadcasts, $($traits,)* results(result), crate::layout::infer, evaluate, crate::fusion::fusion, crate::layout::layouts)]
        #[asm("$x `,` $y attr-dict `:` functional-type(operands, results)")]
        pub struct $name {
            /// Left operand.
            #[is($elems)]
            pub x: Value,
            /// Right operand.
            #[is($elems)]
            pub y: Value,
        }
        impl Infer for $name {
            fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
                pair(op, self.x, self.y, $result)
            }
        }
        impl Fusable for $name {
            const KIND: FusionKind = FusionKind::Injective;
        }
        impl LayoutRule for $name {
            const KEEPS: Keeps = Keeps::Broadcast;
        }
        impl Pointwise for $name {
            fn compute<S: Scalars>(&self, s: &mut S, args: &[S::V]) -> Result<S::V, Failure> {
                let [x, y] = operands(args)?;
                s.two(Scalar::$scalar, x, y)
            }
        }
    )*};
}

binary! {
    /// Sum of each pair of elements; shapes broadcast.
    Add "graph.add" NUMBER_TENSOR [Commutative, Linear] Add None;
    /// Difference of each pair of elements; shapes broadcast.
    Sub "graph.sub" NUMBER_TENSOR [Linear] Sub None;
    /// Product of each pair of elements; shapes broadcast.
    Mul "graph.mul" NUMBER_TENSOR [Commutative] Mul None;
    /// Quotient of each pair of elements; shapes broadcast.
    Div "graph.div" NUMBER_TENSOR [IntegersMayStop] Div None;
    /// The larger of each pair of elements, NaN if one is; shapes broadcast.
    Max "graph.max" NUMBER_TENSOR [Commutative, Associative, Idempotent] Max None;
    /// The smaller of each pair of elements, NaN if one is; shapes broadcast.
    Min "graph.min" NUMBER_TENSOR [Commutative, Associative, Idempotent] Min None;
    /// The first of each pair of elements to the power of the second; shapes broadcast.
    Pow "graph.pow" FLOAT_TENSOR [] Pow None;
    /// Whether the elements of each pair are equal; shapes broadcast.
    Equal "graph.equal" NUMBER_TENSOR [Commutative] Equal Some(Type::int(1));
    /// Whether the first of each pair is less; shapes broadcast.
    Less "graph.less" NUMBER_TENSOR [] Less Some(Type::int(1));
    /// Whether the first of each pair is less or equal; shapes broadcast.
    LessEqual "graph.less_equal" NUMBER_TENSOR [] LessEqual Some(Type::int(1));
    /// Whether the first of each pair is greater; shapes broadcast.
    Greater "graph.greater" NUMBER_TENSOR [] Greater Some(Type::int(1));
    /// Whether the first of each pair is greater or equal; shapes broadcast.
    GreaterEqual "graph.greater_equal" NUMBER_TENSOR [] GreaterEqual Some(Type::int(1));
    /// Whether both of each pair hold; bit by bit on integers; shapes broadcast.
    And "graph.and" INT_TENSOR [Commutative, Associative, Idempotent] And None;
    /// Whether one of each pair holds; bit by bit on integers; shapes broadcast.
    Or "graph.or" INT_TENSOR [Commutative, Associative, Idempotent] Or None;
    /// Whether exactly one of each pair holds; bit by bit on integers; shapes broadcast.
    Xor "graph.xor" INT_TENSOR [Commutative, Associative] Xor None;
}
