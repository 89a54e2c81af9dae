//! Indices that are known or computed.

use tir::{Builder, DYNAMIC, Value};
use tir_arith::{AddI, DivUI, MulI, RemUI, constant_index};

/// A number that is known, or a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Index {
    Number(i64),
    Value(Value),
}

impl Index {
    /// As a value.
    pub(super) fn value(self, b: &mut Builder<'_>) -> Value {
        match self {
            Index::Number(n) => constant_index(b, n),
            Index::Value(v) => v,
        }
    }
    /// Times a number.
    pub(super) fn times(self, n: i64, b: &mut Builder<'_>) -> Self {
        match self {
            Index::Number(m) => Index::Number(m * n),
            _ if n == 0 => Index::Number(0),
            Index::Value(v) if n == 1 => Index::Value(v),
            Index::Value(lhs) => {
                let rhs = constant_index(b, n);
                Index::Value(b.add(MulI {
                    lhs,
                    rhs,
                    overflow: None,
                }))
            }
        }
    }
    /// The sum.
    pub(super) fn plus(self, other: Self, b: &mut Builder<'_>) -> Self {
        match (self, other) {
            (Index::Number(m), Index::Number(n)) => Index::Number(m + n),
            (Index::Number(0), x) | (x, Index::Number(0)) => x,
            (x, y) => {
                let (lhs, rhs) = (x.value(b), y.value(b));
                Index::Value(b.add(AddI {
                    lhs,
                    rhs,
                    overflow: None,
                }))
            }
        }
    }
    /// Quotient and rest, of what is not negative.
    pub(super) fn div_rem(self, n: i64, b: &mut Builder<'_>) -> (Self, Self) {
        match self {
            _ if n == 1 => (self, Index::Number(0)),
            Index::Number(m) => (
                Index::Number(m.div_euclid(n)),
                Index::Number(m.rem_euclid(n)),
            ),
            Index::Value(lhs) => {
                let rhs = constant_index(b, n);
                let div = b.add(DivUI {
                    lhs,
                    rhs,
                    exact: None,
                });
                let rem = b.add(RemUI { lhs, rhs });
                (Index::Value(div), Index::Value(rem))
            }
        }
    }
}

/// Numbers and values as the two lists of an op.
pub(super) fn mixed(indices: &[Index]) -> (Vec<Value>, Vec<i64>) {
    let values = indices.iter().filter_map(|i| match i {
        Index::Value(v) => Some(*v),
        Index::Number(_) => None,
    });
    let numbers = indices.iter().map(|i| match i {
        Index::Value(_) => DYNAMIC,
        Index::Number(n) => *n,
    });
    (values.collect(), numbers.collect())
}
