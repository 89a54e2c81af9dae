//! Elementwise operators, with broadcasting: one generic, whose region is what the operator
//! computes of one element of each operand.

use tir::rewrite::{PatternSet, Rewriter};
use tir::{AffineMap, Decline, Failure, IntType, OpId, Sign, Type, Value};
use tir_arith::*;
use tir_graph::pointwise::{Pointwise, Scalar, Scalars};

use super::nest::{broadcast, elementwise, form, number};

pub(super) fn patterns(set: &mut PatternSet) {
    macro_rules! named {
        ($($text:literal $op:ident,)*) => {$(
            set.on(concat!($text, "-to-generic"), pointwise::<tir_graph::$op>);
        )*};
    }
    named! {
        "relu" Relu, "clip" Clip, "leaky-relu" LeakyRelu, "sigmoid" Sigmoid,
        "hard-sigmoid" HardSigmoid, "hard-swish" HardSwish, "gelu" Gelu,
        "reciprocal" Reciprocal, "neg" Neg, "abs" Abs, "exp" Exp, "log" Log, "sqrt" Sqrt,
        "sin" Sin, "cos" Cos, "tanh" Tanh, "erf" Erf, "floor" Floor, "ceil" Ceil, "round" Round,
        "add" Add, "sub" Sub, "mul" Mul, "div" Div, "max" Max, "min" Min, "pow" Pow,
        "equal" Equal, "less" Less, "less-equal" LessEqual, "greater" Greater,
        "greater-equal" GreaterEqual, "and" And, "or" Or, "xor" Xor,
    }
}

/// What arithmetic an element type has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Float,
    Signed,
    Unsigned,
}
impl Class {
    fn of(elem: Type) -> Self {
        match elem.get::<IntType>() {
            None => Self::Float,
            Some(IntType { width: 1, .. }) => Self::Unsigned,
            Some(IntType {
                sign: Sign::Unsigned,
                ..
            }) => Self::Unsigned,
            Some(_) => Self::Signed,
        }
    }
}

/// Scalar ops in the region of a generic, on values of one element type.
pub(super) struct Region<'a, 'r> {
    pub rw: &'a mut Rewriter<'r>,
    pub elem: Type,
}

impl Scalars for Region<'_, '_> {
    type V = Value;
    fn number(&mut self, value: f64) -> Result<Value, Failure> {
        Ok(number(self.rw, value, self.elem))
    }
    fn apply(&mut self, op: Scalar, args: &[Value]) -> Result<Value, Failure> {
        let class = Class::of(self.elem);
        let made = match *args {
            [x] if class == Class::Float => float_function(self.rw, op, x),
            [x] => self.int_function(op, x, class)?,
            [x, y] if class == Class::Float => float_pair(self.rw, op, x, y),
            [x, y] => int_pair(self.rw, op, x, y, class),
            _ => None,
        };
        let elem = self.elem;
        made.ok_or_else(|| format!("{op:?} is not defined on elements of type {elem}").into())
    }
}

impl Region<'_, '_> {
    fn int_function(
        &mut self,
        op: Scalar,
        x: Value,
        class: Class,
    ) -> Result<Option<Value>, Failure> {
        if op == Scalar::Abs && class == Class::Unsigned {
            return Ok(Some(x));
        }
        if !matches!(op, Scalar::Neg | Scalar::Abs) {
            return Ok(None);
        }
        let zero = self.number(0.0)?;
        let negated = self.two(Scalar::Sub, &zero, &x)?;
        match op {
            Scalar::Neg => Ok(Some(negated)),
            _ => self.two(Scalar::Max, &x, &negated).map(Some),
        }
    }
}

fn float_function(rw: &mut Rewriter<'_>, op: Scalar, x: Value) -> Option<Value> {
    use tir_math as math;
    Some(match op {
        Scalar::Neg => rw.add(NegF {
            operand: x,
            fastmath: None,
        }),
        Scalar::Abs => rw.add(math::AbsF::new(x)),
        Scalar::Exp => rw.add(math::Exp::new(x)),
        Scalar::Log => rw.add(math::Log::new(x)),
        Scalar::Sqrt => rw.add(math::Sqrt::new(x)),
        Scalar::Sin => rw.add(math::Sin::new(x)),
        Scalar::Cos => rw.add(math::Cos::new(x)),
        Scalar::Tanh => rw.add(math::Tanh::new(x)),
        Scalar::Erf => rw.add(math::Erf::new(x)),
        Scalar::Floor => rw.add(math::Floor::new(x)),
        Scalar::Ceil => rw.add(math::Ceil::new(x)),
        Scalar::Round => rw.add(math::RoundEven::new(x)),
        _ => return None,
    })
}

fn float_pair(rw: &mut Rewriter<'_>, op: Scalar, x: Value, y: Value) -> Option<Value> {
    let predicate = match op {
        Scalar::Add => return Some(rw.add(AddF::new(x, y))),
        Scalar::Sub => return Some(rw.add(SubF::new(x, y))),
        Scalar::Mul => return Some(rw.add(MulF::new(x, y))),
        Scalar::Div => return Some(rw.add(DivF::new(x, y))),
        Scalar::Max => return Some(rw.add(MaximumF::new(x, y))),
        Scalar::Min => return Some(rw.add(MinimumF::new(x, y))),
        Scalar::Pow => {
            return Some(rw.add(tir_math::PowF {
                lhs: x,
                rhs: y,
                fastmath: None,
            }));
        }
        Scalar::Equal => CmpFPredicate::Oeq,
        Scalar::Less => CmpFPredicate::Olt,
        Scalar::LessEqual => CmpFPredicate::Ole,
        Scalar::Greater => CmpFPredicate::Ogt,
        Scalar::GreaterEqual => CmpFPredicate::Oge,
        _ => return None,
    };
    Some(rw.add(CmpF {
        predicate,
        lhs: x,
        rhs: y,
        fastmath: None,
    }))
}

fn int_pair(
    rw: &mut Rewriter<'_>,
    op: Scalar,
    lhs: Value,
    rhs: Value,
    class: Class,
) -> Option<Value> {
    use CmpIPredicate as P;
    let signed = class == Class::Signed;
    let overflow = None;
    let predicate = match (op, signed) {
        (Scalar::Add, _) => return Some(rw.add(AddI { lhs, rhs, overflow })),
        (Scalar::Sub, _) => return Some(rw.add(SubI { lhs, rhs, overflow })),
        (Scalar::Mul, _) => return Some(rw.add(MulI { lhs, rhs, overflow })),
        (Scalar::Div, true) => {
            return Some(rw.add(DivSI {
                lhs,
                rhs,
                exact: None,
            }));
        }
        (Scalar::Div, false) => {
            return Some(rw.add(DivUI {
                lhs,
                rhs,
                exact: None,
            }));
        }
        (Scalar::Max, true) => return Some(rw.add(MaxSI { lhs, rhs })),
        (Scalar::Max, false) => return Some(rw.add(MaxUI { lhs, rhs })),
        (Scalar::Min, true) => return Some(rw.add(MinSI { lhs, rhs })),
        (Scalar::Min, false) => return Some(rw.add(MinUI { lhs, rhs })),
        (Scalar::And, _) => return Some(rw.add(AndI { lhs, rhs })),
        (Scalar::Or, _) => return Some(rw.add(OrI { lhs, rhs })),
        (Scalar::Xor, _) => return Some(rw.add(XOrI { lhs, rhs })),
        (Scalar::Equal, _) => P::Eq,
        (Scalar::Less, true) => P::Slt,
        (Scalar::Less, false) => P::Ult,
        (Scalar::LessEqual, true) => P::Sle,
        (Scalar::LessEqual, false) => P::Ule,
        (Scalar::Greater, true) => P::Sgt,
        (Scalar::Greater, false) => P::Ugt,
        (Scalar::GreaterEqual, true) => P::Sge,
        (Scalar::GreaterEqual, false) => P::Uge,
        _ => return None,
    };
    Some(rw.add(CmpI {
        predicate,
        lhs,
        rhs,
    }))
}

/// A generic that computes an operator on these operands, each read by its map, into the
/// operator's result.
pub(super) fn computed<T: Pointwise>(
    rw: &mut Rewriter<'_>,
    this: &T,
    op: OpId,
    operands: &[(Value, AffineMap)],
) -> Result<Value, Decline> {
    let ty = rw.ty(rw.result(op, 0));
    let elem = match operands {
        [(first, _), ..] => rw.ty(*first).elem(),
        [] => ty.elem(),
    };
    // A value that is read twice in one way is one input.
    let mut inputs: Vec<(Value, AffineMap)> = Vec::new();
    let mut places = Vec::new();
    for operand in operands {
        let known = inputs.iter().position(|input| input == operand);
        places.push(known.unwrap_or(inputs.len()));
        if known.is_none() {
            inputs.push(operand.clone());
        }
    }
    let mut failed = None;
    let y = elementwise(rw, ty, &inputs, |rw, args| {
        let args: Vec<Value> = places.iter().map(|at| args[*at]).collect();
        let computed = this.compute(&mut Region { rw, elem }, &args);
        computed.unwrap_or_else(|error| {
            failed = Some(error);
            args[0]
        })
    });
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(y),
    }
}

fn pointwise<T: Pointwise>(this: T, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let (whole, _) = form(rw, rw.result(op, 0))?;
    let operands: Vec<Value> = rw.operands(op).collect();
    let mut inputs = Vec::new();
    for value in operands {
        let (shape, _) = form(rw, value)?;
        inputs.push((value, broadcast(shape, whole, whole.len())));
    }
    let y = computed(rw, &this, op, &inputs)?;
    rw.replace(op, &[y]);
    Ok(())
}
