//! Index arithmetic that folds as it is built, slices of it, and loops as counters.

use std::collections::HashSet;

use tir::{Access, At, Builder, DYNAMIC, Ir, Mapping, Op, OpId, Rets, Value};
use tir_arith::{AddI, CmpI, CmpIPredicate, DivUI, MulI, RemUI, SubI, constant_index};
use tir_loop::{For, If, Yield};

/// An index: a number, or a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ix {
    /// A number.
    C(i64),
    /// A value.
    V(Value),
}

impl Ix {
    /// As an operand.
    pub fn value(self, b: &mut Builder<'_>) -> Value {
        match self {
            Ix::C(n) => constant_index(b, n),
            Ix::V(v) => v,
        }
    }
    fn with<T: Op<Out = Value>>(
        self,
        b: &mut Builder<'_>,
        n: i64,
        fold: impl Fn(i64, i64) -> i64,
        make: impl Fn(Value, Value) -> T,
    ) -> Ix {
        match self {
            Ix::C(a) => Ix::C(fold(a, n)),
            Ix::V(v) => {
                let n = constant_index(b, n);
                Ix::V(b.add(make(v, n)))
            }
        }
    }
    /// `self + n`.
    pub fn plus(self, b: &mut Builder<'_>, n: i64) -> Ix {
        if n == 0 {
            return self;
        }
        self.with(
            b,
            n,
            |a, n| a + n,
            |lhs, rhs| AddI {
                lhs,
                rhs,
                overflow: None,
            },
        )
    }
    /// `self - n`.
    pub fn minus(self, b: &mut Builder<'_>, n: i64) -> Ix {
        if n == 0 {
            return self;
        }
        self.with(
            b,
            n,
            |a, n| a - n,
            |lhs, rhs| SubI {
                lhs,
                rhs,
                overflow: None,
            },
        )
    }
    /// `self * n`.
    pub fn times(self, b: &mut Builder<'_>, n: i64) -> Ix {
        match n {
            0 => Ix::C(0),
            1 => self,
            n => self.with(
                b,
                n,
                |a, n| a * n,
                |lhs, rhs| MulI {
                    lhs,
                    rhs,
                    overflow: None,
                },
            ),
        }
    }
    /// `self / n` of what is not negative.
    pub fn over(self, b: &mut Builder<'_>, n: i64) -> Ix {
        if n == 1 {
            return self;
        }
        self.with(
            b,
            n,
            |a, n| a / n,
            |lhs, rhs| DivUI {
                lhs,
                rhs,
                exact: None,
            },
        )
    }
    /// `self mod n` of what is not negative.
    pub fn modulo(self, b: &mut Builder<'_>, n: i64) -> Ix {
        if n == 1 {
            return Ix::C(0);
        }
        self.with(b, n, |a, n| a % n, |lhs, rhs| RemUI { lhs, rhs })
    }
    /// `self + other`.
    pub fn add(self, b: &mut Builder<'_>, other: Ix) -> Ix {
        match (self, other) {
            (a, Ix::C(n)) | (Ix::C(n), a) => a.plus(b, n),
            (Ix::V(lhs), Ix::V(rhs)) => Ix::V(b.add(AddI {
                lhs,
                rhs,
                overflow: None,
            })),
        }
    }
    /// Whether `self < n`.
    pub fn below(self, b: &mut Builder<'_>, n: i64) -> Value {
        compare(self, b, CmpIPredicate::Slt, n)
    }
    /// Whether `self > n`.
    pub fn above(self, b: &mut Builder<'_>, n: i64) -> Value {
        compare(self, b, CmpIPredicate::Sgt, n)
    }
}

fn compare(ix: Ix, b: &mut Builder<'_>, predicate: CmpIPredicate, n: i64) -> Value {
    let (lhs, rhs) = (ix.value(b), constant_index(b, n));
    b.add(CmpI {
        predicate,
        lhs,
        rhs,
    })
}

/// Lists of numbers and values as ops hold them.
pub fn split(all: &[Ix]) -> (Vec<Value>, Vec<i64>) {
    let value = |ix: &Ix| match ix {
        Ix::V(v) => Some(*v),
        Ix::C(_) => None,
    };
    let number = |ix: &Ix| match ix {
        Ix::V(_) => DYNAMIC,
        Ix::C(n) => *n,
    };
    (
        all.iter().filter_map(value).collect(),
        all.iter().map(number).collect(),
    )
}

/// The opposite of [`split`].
pub fn join(values: &[Value], numbers: &[i64]) -> Vec<Ix> {
    let mut values = values.iter();
    let one = |n: &i64| match n {
        n if *n == DYNAMIC => values.next().map_or(Ix::C(0), |v| Ix::V(*v)),
        n => Ix::C(*n),
    };
    numbers.iter().map(one).collect()
}

/// A loop of a known number of iterations.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// The `loop.for`.
    pub op: OpId,
    /// Its index.
    pub iv: Value,
    /// Its lower bound.
    pub low: i64,
    /// Its step.
    pub step: i64,
    /// Its number of iterations.
    pub trips: i64,
}

impl Counter {
    /// The loop at an op, if it has numbers for bounds.
    pub fn of(ir: &Ir, op: OpId) -> Option<Self> {
        let looped = ir.get::<For>(op)?;
        let [low, _, step] = looped.static_range()?;
        let iv = ir.args(ir.entry(looped.body)?).next()?;
        Some(Self {
            op,
            iv,
            low,
            step,
            trips: looped.trip_count()?,
        })
    }
    /// The iteration, from 0.
    pub fn count(&self, b: &mut Builder<'_>) -> Ix {
        Ix::V(self.iv).minus(b, self.low).over(b, self.step)
    }
    /// The index of an iteration.
    pub fn index(&self, b: &mut Builder<'_>, count: Ix) -> Ix {
        count.times(b, self.step).plus(b, self.low)
    }
}

/// The iteration of a nest, outermost loop first, counted through.
pub fn linear(b: &mut Builder<'_>, nest: &[Counter]) -> Ix {
    let mut sum = Ix::C(0);
    for counter in nest {
        let count = counter.count(b);
        sum = sum.times(b, counter.trips).add(b, count);
    }
    sum
}

/// The indices of a nest in an iteration counted through.
pub fn indices(b: &mut Builder<'_>, nest: &[Counter], linear: Ix) -> Vec<Ix> {
    let mut inner: i64 = nest.iter().map(|c| c.trips).product();
    let mut out = Vec::new();
    for (depth, counter) in nest.iter().enumerate() {
        inner /= counter.trips.max(1);
        let count = linear.over(b, inner);
        let count = if depth == 0 {
            count
        } else {
            count.modulo(b, counter.trips)
        };
        out.push(counter.index(b, count));
    }
    out
}

/// All iterations of a nest.
pub fn total(nest: &[Counter]) -> i64 {
    nest.iter().fold(1, |n, c| n.saturating_mul(c.trips))
}

/// The ops below `scope` that compute values, in program order; `None` if one of them does more
/// than compute.
pub fn slice(ir: &Ir, values: &[Value], scope: OpId) -> Option<Vec<OpId>> {
    let mut found = HashSet::new();
    let mut work: Vec<Value> = values.to_vec();
    while let Some(value) = work.pop() {
        let Some(op) = ir
            .owner(value)
            .filter(|op| *op != scope && ir.is_below(*op, scope))
        else {
            continue;
        };
        if !ir.is_pure(op) || ir.regions(op).len() > 0 {
            return None;
        }
        if found.insert(op) {
            work.extend(ir.operands(op));
        }
    }
    Some(
        ir.walk_below(scope)
            .into_iter()
            .filter(|op| found.contains(op))
            .collect(),
    )
}

/// Copies ops to a place.
pub fn copy(b: &mut Builder<'_>, ops: &[OpId], map: &mut Mapping) {
    for op in ops {
        let new = b.ir.duplicate(*op, b.at, map);
        if let At::Start(_) | At::After(_) = b.at {
            b.at = At::After(new);
        }
    }
}

/// A branch without results; gives a place at the end of its first region.
pub fn guard(b: &mut Builder<'_>, condition: Value) -> At {
    let then_region = b.body(&[], |b, _| {
        b.add(Yield { values: vec![] });
    });
    let else_region = b.ir.new_region();
    let block = b.ir.entry(then_region);
    b.add(If {
        condition,
        then_region,
        else_region,
        results: Rets(vec![]),
    });
    match block.and_then(|block| b.ir.first(block)) {
        Some(end) => At::Before(end),
        None => b.at,
    }
}

/// How much a value grows with each step of an index by one, as far as sums and products say.
pub fn growth(ir: &Ir, value: Value, iv: Value, scope: OpId) -> Option<i64> {
    if value == iv {
        return Some(1);
    }
    let Some(op) = ir.owner(value).filter(|op| ir.is_below(*op, scope)) else {
        // An argument of an inner region is none that stands still.
        let block = ir.value_block(value).and_then(|b| ir.block_parent(b));
        let inner = block.is_some_and(|holder| ir.is_below(holder, scope));
        return (!inner || ir.owner(value).is_some()).then_some(0);
    };
    if ir.constant_int(value).is_some() {
        return Some(0);
    }
    let side = |v: Value| growth(ir, v, iv, scope);
    if let Some(sum) = ir.get::<AddI>(op) {
        Some(side(sum.lhs)? + side(sum.rhs)?)
    } else if let Some(sum) = ir.get::<SubI>(op) {
        Some(side(sum.lhs)? - side(sum.rhs)?)
    } else if let Some(product) = ir.get::<MulI>(op) {
        let number = |v| ir.constant_int(v);
        match (number(product.lhs), number(product.rhs)) {
            (Some(n), _) => Some(n * side(product.rhs)?),
            (_, Some(n)) => Some(n * side(product.lhs)?),
            _ => None,
        }
    } else {
        let still = ir.is_pure(op) && ir.operands(op).all(|v| side(v) == Some(0));
        still.then_some(0)
    }
}

/// The memory behind a view.
pub fn root(ir: &Ir, mut value: Value) -> Value {
    while let Some(op) = ir.owner(value) {
        let view = [
            "memref.subview",
            "memref.view",
            "memref.collapse_shape",
            "memref.expand_shape",
        ];
        if !view.contains(&ir.name(op).as_str()) {
            break;
        }
        value = ir.operand(op, 0);
    }
    value
}

/// Whether an op, or what is below it, may write the memory behind a value.
pub fn writes(ir: &Ir, op: OpId, memory: Value) -> bool {
    let Some(effects) = ir.effects(op) else {
        return true;
    };
    let memory = root(ir, memory);
    let mut written = effects
        .iter()
        .filter(|e| matches!(e.access, Access::Write | Access::Free));
    written.any(|e| e.on.is_none_or(|v| root(ir, v) == memory))
}

/// Erases ops that compute what nobody uses.
pub fn drop_unused(ir: &mut Ir) {
    for op in ir.walk_ids().into_iter().rev() {
        let plain = ir.regions(op).len() == 0 && ir.child(op).is_none();
        let unused = ir.results(op).len() > 0 && ir.results(op).all(|v| ir.is_unused(v));
        if plain && unused && ir.is_pure(op) {
            ir.erase(op);
        }
    }
}
