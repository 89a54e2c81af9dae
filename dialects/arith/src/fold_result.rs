//! Indices that are numbers where they are known, and arithmetic on them that folds as it is built.

use tir::{Builder, DYNAMIC, Ir, Op, Value};

use crate::{AddI, CmpI, CmpIPredicate, DivUI, MulI, RemUI, SubI, constant_index};

/// An index: a number, or a value of type `index`.
///
/// Ops hold lists of them as two: `static` numbers, [`DYNAMIC`] where a value stands, and the
/// values in order ([`mixed_values`] and [`dispatch_values`]). Arithmetic makes ops only where a
/// value is left, and wraps as the ops do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpFoldResult {
    /// A number.
    Number(i64),
    /// A value.
    Value(Value),
}
use OpFoldResult as O;

impl From<i64> for OpFoldResult {
    fn from(n: i64) -> Self {
        O::Number(n)
    }
}
impl From<Value> for OpFoldResult {
    fn from(value: Value) -> Self {
        O::Value(value)
    }
}

impl OpFoldResult {
    /// A value, as a number if it is a constant.
    pub fn of(ir: &Ir, value: Value) -> Self {
        ir.constant_int(value).map_or(O::Value(value), O::Number)
    }
    /// The number that it is, if it is one.
    pub fn number(self) -> Option<i64> {
        match self {
            O::Number(n) => Some(n),
            O::Value(_) => None,
        }
    }
    /// As a value: a number becomes a constant.
    pub fn value(self, b: &mut Builder<'_>) -> Value {
        match self {
            O::Number(n) => constant_index(b, n),
            O::Value(value) => value,
        }
    }

    fn with<T: Op<Out = Value>>(
        self,
        b: &mut Builder<'_>,
        other: Self,
        fold: impl Fn(i64, i64) -> i64,
        op: impl Fn(Value, Value) -> T,
    ) -> Self {
        if let (O::Number(x), O::Number(y)) = (self, other) {
            return O::Number(fold(x, y));
        }
        let (lhs, rhs) = (self.value(b), other.value(b));
        O::Value(b.add(op(lhs, rhs)))
    }

    /// `self + other`.
    pub fn plus(self, b: &mut Builder<'_>, other: impl Into<Self>) -> Self {
        let add = |lhs, rhs| AddI {
            lhs,
            rhs,
            overflow: None,
        };
        match (self, other.into()) {
            (O::Number(0), x) | (x, O::Number(0)) => x,
            // A number stands on the right.
            (x @ O::Number(_), y) => y.with(b, x, i64::wrapping_add, add),
            (x, y) => x.with(b, y, i64::wrapping_add, add),
        }
    }
    /// `self - other`.
    pub fn minus(self, b: &mut Builder<'_>, other: impl Into<Self>) -> Self {
        let sub = |lhs, rhs| SubI {
            lhs,
            rhs,
            overflow: None,
        };
        match (self, other.into()) {
            (x, O::Number(0)) => x,
            (x, y) => x.with(b, y, i64::wrapping_sub, sub),
        }
    }
    /// `self · n`.
    pub fn times(self, b: &mut Builder<'_>, n: i64) -> Self {
        let mul = |lhs, rhs| MulI {
            lhs,
            rhs,
            overflow: None,
        };
        match n {
            0 => O::Number(0),
            1 => self,
            n => self.with(b, O::Number(n), i64::wrapping_mul, mul),
        }
    }
    /// `self div n` of an index that is not negative; `n` is positive.
    pub fn floor_div(self, b: &mut Builder<'_>, n: i64) -> Self {
        match n {
            1 => self,
            n => self.with(b, O::Number(n), i64::div_euclid, |lhs, rhs| DivUI {
                lhs,
                rhs,
                exact: None,
            }),
        }
    }
    /// `self mod n` of an index that is not negative; `n` is positive.
    pub fn modulo(self, b: &mut Builder<'_>, n: i64) -> Self {
        match n {
            1 => O::Number(0),
            n => self.with(b, O::Number(n), i64::rem_euclid, |lhs, rhs| RemUI {
                lhs,
                rhs,
            }),
        }
    }
    /// Compares with a number.
    pub fn compare(self, b: &mut Builder<'_>, predicate: CmpIPredicate, n: i64) -> Value {
        let (lhs, rhs) = (self.value(b), constant_index(b, n));
        b.add(CmpI {
            predicate,
            lhs,
            rhs,
        })
    }
}

/// Two lists of an op, values and numbers with [`DYNAMIC`] where a value stands, as one. There are
/// as many values as the verifier of such ops demands; a number without one stays [`DYNAMIC`].
pub fn mixed_values(values: &[Value], numbers: &[i64]) -> Vec<OpFoldResult> {
    let mut values = values.iter();
    let one = |n: &i64| match n {
        &DYNAMIC => values.next().map_or(O::Number(DYNAMIC), |v| O::Value(*v)),
        n => O::Number(*n),
    };
    numbers.iter().map(one).collect()
}

/// The opposite of [`mixed_values`].
pub fn dispatch_values(all: &[OpFoldResult]) -> (Vec<Value>, Vec<i64>) {
    let value = |index: &OpFoldResult| match index {
        O::Value(value) => Some(*value),
        O::Number(_) => None,
    };
    let number = |index: &OpFoldResult| index.number().unwrap_or(DYNAMIC);
    (
        all.iter().filter_map(value).collect(),
        all.iter().map(number).collect(),
    )
}
