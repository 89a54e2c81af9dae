//! Arithmetic and comparisons that every rule may use: on numbers, lists of integers, shapes.
//!
//! A list with a list of the same length, or with a number, is computed place by place; a comparison of
//! lists holds if it does at every place. Nothing is computed (so that a guard does not hold, and a rule
//! with it does not apply) where an argument is no such thing, lists differ in length, a dimension is not
//! known, an integer has no place in 64 bits, or is divided by 0. Integers are `i64`; where one of both
//! numbers is a float, both are `f64`.

use std::cmp::Ordering;
use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use tir_core::{Attr, AttrValue, FloatType, Name, Type};

use crate::rule::{Arg, AttrFn};

/// A function that every rule may use.
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// Its arguments as they are written.
    pub args: &'static str,
    /// What it is.
    pub doc: &'static str,
    pub(crate) compute: AttrFn,
}

impl Builtin {
    /// Whether it says whether something holds, so that it may stand as a guard.
    pub fn is_condition(&self) -> bool {
        let name = self.name;
        ["and", "or", "not", "each"].contains(&name) || name.contains(['=', '<', '>'])
    }
    /// How many arguments it takes; `None` for any number.
    pub fn arity(&self) -> Option<usize> {
        (!self.args.ends_with("...")).then(|| self.args.split(' ').count())
    }
    /// The one of this name.
    pub fn named(name: Name) -> Option<&'static Builtin> {
        static BY_NAME: OnceLock<FxHashMap<Name, &'static Builtin>> = OnceLock::new();
        let by_name = || BUILTINS.iter().map(|b| (Name::new(b.name), b)).collect();
        BY_NAME.get_or_init(by_name).get(&name).copied()
    }
}

#[derive(Clone, Copy)]
enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    fn of(attr: Attr) -> Option<Number> {
        let int = attr.as_int().map(Number::Int);
        int.or_else(|| attr.as_float().map(Number::Float))
    }
    fn attr(self) -> Attr {
        match self {
            Number::Int(n) => Attr::i64(n),
            Number::Float(x) => Attr::float(x, Type::new(FloatType::F64)),
        }
    }
    fn float(self) -> f64 {
        match self {
            Number::Int(n) => n as f64,
            Number::Float(x) => x,
        }
    }
    fn compare(self, other: Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => Some(a.cmp(&b)),
            (a, b) => a.float().partial_cmp(&b.float()),
        }
    }
}

/// A number, or several.
enum Numbers {
    One(Number),
    List(Vec<i64>),
}

impl Numbers {
    fn of(arg: &Arg) -> Option<Numbers> {
        let attr = arg.attr()?;
        match Number::of(attr) {
            Some(number) => Some(Numbers::One(number)),
            None => Vec::<i64>::from_attr(attr).map(Numbers::List),
        }
    }
}

/// The dimensions of a value or type, where they are known.
fn shape(arg: &Arg) -> Option<&'static [i64]> {
    arg.ty()?.shape().filter(|s| s.iter().all(|d| *d >= 0))
}

/// The element of a list at a place, from the end where that is negative.
fn at(list: &[i64], place: &Arg) -> Option<i64> {
    let place = place.int()?;
    let from = if place < 0 { list.len() as i64 } else { 0 };
    list.get(usize::try_from(place.checked_add(from)?).ok()?)
        .copied()
}

fn combined(
    args: &[Arg],
    int: fn(i64, i64) -> Option<i64>,
    float: fn(f64, f64) -> f64,
) -> Option<Attr> {
    let [a, b] = args else { return None };
    let zip = |pairs: Vec<(i64, i64)>| {
        let all: Option<Vec<i64>> = pairs.into_iter().map(|(a, b)| int(a, b)).collect();
        all.map(|all| Attr::ints(&all))
    };
    match (Numbers::of(a)?, Numbers::of(b)?) {
        (Numbers::One(Number::Int(a)), Numbers::One(Number::Int(b))) => {
            int(a, b).map(|n| Number::Int(n).attr())
        }
        (Numbers::One(a), Numbers::One(b)) => {
            Some(Number::Float(float(a.float(), b.float())).attr())
        }
        (Numbers::List(a), Numbers::List(b)) if a.len() == b.len() => {
            zip(a.into_iter().zip(b).collect())
        }
        (Numbers::List(a), Numbers::One(Number::Int(b))) => {
            zip(a.into_iter().map(|a| (a, b)).collect())
        }
        (Numbers::One(Number::Int(a)), Numbers::List(b)) => {
            zip(b.into_iter().map(|b| (a, b)).collect())
        }
        _ => None,
    }
}

fn compared(args: &[Arg], holds: fn(Ordering) -> bool) -> Option<Attr> {
    let [a, b] = args else { return None };
    let ints = |a: i64, b: i64| holds(a.cmp(&b));
    let found = match (Numbers::of(a)?, Numbers::of(b)?) {
        (Numbers::One(a), Numbers::One(b)) => holds(a.compare(b)?),
        (Numbers::List(a), Numbers::List(b)) if a.len() == b.len() => {
            a.iter().zip(&b).all(|(a, b)| ints(*a, *b))
        }
        (Numbers::List(a), Numbers::One(Number::Int(b))) => a.iter().all(|a| ints(*a, b)),
        (Numbers::One(Number::Int(a)), Numbers::List(b)) => b.iter().all(|b| ints(a, *b)),
        _ => return None,
    };
    Some(Attr::bool(found))
}

/// Whether two arguments are the same: as numbers, as lists, as types, as any attributes.
fn same(args: &[Arg]) -> Option<bool> {
    let [a, b] = args else { return None };
    if let (Some(a), Some(b)) = (Numbers::of(a), Numbers::of(b)) {
        return Some(match (a, b) {
            (Numbers::One(a), Numbers::One(b)) => a.compare(b) == Some(Ordering::Equal),
            (Numbers::List(a), Numbers::List(b)) => a == b,
            (Numbers::List(list), Numbers::One(Number::Int(n)))
            | (Numbers::One(Number::Int(n)), Numbers::List(list)) => list.iter().all(|i| *i == n),
            _ => false,
        });
    }
    match (a, b) {
        (Arg::Type(a), Arg::Type(b)) => Some(a == b),
        (Arg::Op(a), Arg::Op(b)) => Some(a == b),
        (Arg::Absent, Arg::Absent) => Some(true),
        (Arg::Absent, _) | (_, Arg::Absent) => Some(false),
        _ => Some(a.attr()? == b.attr()?),
    }
}

fn truth(arg: &Arg) -> Option<bool> {
    arg.int().map(|n| n != 0)
}

/// To minus infinity, as sizes of shapes want it.
fn quotient(a: i64, b: i64) -> Option<i64> {
    let rest = a.checked_rem(b)?;
    let below = rest != 0 && (rest < 0) != (b < 0);
    a.checked_div(b)?.checked_sub(i64::from(below))
}

fn remainder(a: i64, b: i64) -> Option<i64> {
    a.checked_sub(quotient(a, b)?.checked_mul(b)?)
}

/// All of them.
pub const BUILTINS: &[Builtin] = &[
    Builtin {
        name: "+",
        args: "a b",
        doc: "Sum of numbers, or of lists place by place.",
        compute: |a| combined(a, i64::checked_add, |a, b| a + b),
    },
    Builtin {
        name: "-",
        args: "a b",
        doc: "Difference of numbers, or of lists place by place.",
        compute: |a| combined(a, i64::checked_sub, |a, b| a - b),
    },
    Builtin {
        name: "*",
        args: "a b",
        doc: "Product of numbers, or of lists place by place.",
        compute: |a| combined(a, i64::checked_mul, |a, b| a * b),
    },
    Builtin {
        name: "/",
        args: "a b",
        doc: "Quotient; of integers the largest that is not above.",
        compute: |a| combined(a, quotient, |a, b| a / b),
    },
    Builtin {
        name: "%",
        args: "a b",
        doc: "What is left of `a` beside `b` times `(/ a b)`.",
        compute: |a| combined(a, remainder, |a, b| a - (a / b).floor() * b),
    },
    Builtin {
        name: "min",
        args: "a b",
        doc: "The smaller one, place by place.",
        compute: |a| combined(a, |a, b| Some(a.min(b)), f64::min),
    },
    Builtin {
        name: "max",
        args: "a b",
        doc: "The larger one, place by place.",
        compute: |a| combined(a, |a, b| Some(a.max(b)), f64::max),
    },
    Builtin {
        name: "==",
        args: "a b",
        doc: "Whether both are the same number, list, type, op or attribute; each place of a list beside a number.",
        compute: |a| same(a).map(Attr::bool),
    },
    Builtin {
        name: "!=",
        args: "a b",
        doc: "Whether `==` does not hold.",
        compute: |a| same(a).map(|same| Attr::bool(!same)),
    },
    Builtin {
        name: "<",
        args: "a b",
        doc: "Whether `a` is less, at every place of lists.",
        compute: |a| compared(a, Ordering::is_lt),
    },
    Builtin {
        name: "<=",
        args: "a b",
        doc: "Whether `a` is less or equal, at every place of lists.",
        compute: |a| compared(a, Ordering::is_le),
    },
    Builtin {
        name: ">",
        args: "a b",
        doc: "Whether `a` is greater, at every place of lists.",
        compute: |a| compared(a, Ordering::is_gt),
    },
    Builtin {
        name: ">=",
        args: "a b",
        doc: "Whether `a` is greater or equal, at every place of lists.",
        compute: |a| compared(a, Ordering::is_ge),
    },
    Builtin {
        name: "and",
        args: "a...",
        doc: "Whether all of these conditions hold.",
        compute: |a| {
            let all: Option<Vec<bool>> = a.iter().map(truth).collect();
            all.map(|all| Attr::bool(all.into_iter().all(|b| b)))
        },
    },
    Builtin {
        name: "or",
        args: "a...",
        doc: "Whether one of these conditions holds.",
        compute: |a| {
            let all: Option<Vec<bool>> = a.iter().map(truth).collect();
            all.map(|all| Attr::bool(all.into_iter().any(|b| b)))
        },
    },
    Builtin {
        name: "each",
        args: "guard a...",
        doc: "Whether a guard holds at each place of lists of values: `(each same-type ?xs ?ys)`.",
        // It needs the other functions: see `Functions::compute`.
        compute: |_| None,
    },
    Builtin {
        name: "not",
        args: "a",
        doc: "Whether a condition does not hold.",
        compute: |a| match a {
            [a] => truth(a).map(|b| Attr::bool(!b)),
            _ => None,
        },
    },
    Builtin {
        name: "shape",
        args: "?x",
        doc: "The dimensions of a value or type, as a list.",
        compute: |a| match a {
            [x] => shape(x).map(Attr::ints),
            _ => None,
        },
    },
    Builtin {
        name: "rank",
        args: "?x",
        doc: "The number of dimensions of a value or type.",
        compute: |a| match a {
            [x] => Some(Attr::i64(x.ty()?.shape()?.len() as i64)),
            _ => None,
        },
    },
    Builtin {
        name: "dim",
        args: "?x i",
        doc: "A dimension of a value or type; from the last where `i` is negative.",
        compute: |a| match a {
            [x, i] => at(shape(x)?, i).map(Attr::i64),
            _ => None,
        },
    },
    Builtin {
        name: "elements",
        args: "?x",
        doc: "How many elements a value or type has.",
        compute: |a| match a {
            [x] => Some(Attr::i64(i64::try_from(x.ty()?.elements()?).ok()?)),
            _ => None,
        },
    },
    Builtin {
        name: "bits",
        args: "?x",
        doc: "How many bits an element of a value or type has.",
        compute: |a| match a {
            [x] => Some(Attr::i64(i64::from(x.ty()?.elem().bits()?))),
            _ => None,
        },
    },
    Builtin {
        name: "length",
        args: "?l",
        doc: "The length of a list, or how many values there are.",
        compute: |a| match a {
            [Arg::Values(all)] => Some(Attr::i64(all.len() as i64)),
            [list] => Some(Attr::i64(list.ints()?.len() as i64)),
            _ => None,
        },
    },
    Builtin {
        name: "nth",
        args: "?l i",
        doc: "An element of a list; from the last where `i` is negative.",
        compute: |a| match a {
            [list, i] => at(&list.ints()?, i).map(Attr::i64),
            _ => None,
        },
    },
    Builtin {
        name: "sum",
        args: "?l",
        doc: "The sum of a list.",
        compute: |a| match a {
            [list] => {
                let mut ints = list.ints()?.into_iter();
                ints.try_fold(0i64, i64::checked_add).map(Attr::i64)
            }
            _ => None,
        },
    },
    Builtin {
        name: "product-of",
        args: "?l",
        doc: "The product of a list.",
        compute: |a| match a {
            [list] => {
                let mut ints = list.ints()?.into_iter();
                ints.try_fold(1i64, i64::checked_mul).map(Attr::i64)
            }
            _ => None,
        },
    },
];
