//! Indices as linear forms of other values: which values they take, how they grow with a loop, and
//! whether a tile lies inside of its source.

use tir::{Interval, Ir, LinearExpr, OpId, Value};
use tir_arith::{AddI, DivUI, MulI, OpFoldResult, RemUI, SubI};

use crate::index::Counter;

/// A linear form of values: iterator `i` of the form is the leaf `i`.
struct Form {
    leaves: Vec<Value>,
    expr: LinearExpr,
}

impl Form {
    /// Sums, differences and products with numbers are followed; anything else is a leaf. `None`
    /// if a number leaves 64 bits.
    fn of(ir: &Ir, value: Value) -> Option<Self> {
        let mut leaves = Vec::new();
        let expr = linear(ir, value, &mut leaves)?;
        Some(Self { leaves, expr })
    }
    /// Leaves with a part in the form, and their coefficients.
    fn terms(&self) -> impl Iterator<Item = (Value, i64)> {
        self.expr.terms().map(|(d, c)| (self.leaves[d], c))
    }
}

fn linear(ir: &Ir, value: Value, leaves: &mut Vec<Value>) -> Option<LinearExpr> {
    if let Some(n) = ir.constant_int(value) {
        return Some(LinearExpr::number(n));
    }
    if let Some(sum) = ir.def::<AddI>(value) {
        let lhs = linear(ir, sum.lhs, leaves)?;
        return lhs.plus(&linear(ir, sum.rhs, leaves)?, 1);
    }
    if let Some(sum) = ir.def::<SubI>(value) {
        let lhs = linear(ir, sum.lhs, leaves)?;
        return lhs.plus(&linear(ir, sum.rhs, leaves)?, -1);
    }
    if let Some(product) = ir.def::<MulI>(value) {
        let (lhs, rhs) = (product.lhs, product.rhs);
        for (n, other) in [(lhs, rhs), (rhs, lhs)] {
            if let Some(n) = ir.constant_int(n) {
                let other = linear(ir, other, leaves)?;
                return LinearExpr::default().plus(&other, n);
            }
        }
    }
    let known = leaves.iter().position(|leaf| *leaf == value);
    let leaf = known.unwrap_or(leaves.len());
    if known.is_none() {
        leaves.push(value);
    }
    Some(LinearExpr::dim(leaf))
}

/// The values of an index, as far as loops and arithmetic say.
pub fn range(ir: &Ir, value: Value) -> Option<Interval> {
    let form = Form::of(ir, value)?;
    let start = Interval::point(form.expr.constant);
    form.terms().try_fold(start, |sum, (leaf, c)| {
        sum.plus(leaf_range(ir, leaf)?.times(Interval::point(c))?)
    })
}

fn leaf_range(ir: &Ir, value: Value) -> Option<Interval> {
    let Some(op) = ir.owner(value) else {
        let holder = ir.value_block(value).and_then(|b| ir.block_parent(b))?;
        let counter = Counter::of(ir, holder).filter(|c| c.iv == value && c.trips > 0)?;
        let steps = LinearExpr::term(0, counter.step).with_constant(counter.low);
        return steps.range(&[counter.trips]);
    };
    if let Some(rest) = ir.get::<RemUI>(op) {
        let n = ir.constant_int(rest.rhs).filter(|n| *n > 0)?;
        let all = range(ir, rest.lhs).filter(|a| a.is_inside(n));
        return Some(all.unwrap_or(Interval::new(0, n - 1)));
    }
    if let Some(quotient) = ir.get::<DivUI>(op) {
        let n = ir.constant_int(quotient.rhs).filter(|n| *n > 0)?;
        let a = range(ir, quotient.lhs).filter(|a| a.low >= 0)?;
        return Some(Interval::new(a.low / n, a.high / n));
    }
    let product: MulI = ir.get(op)?;
    range(ir, product.lhs)?.times(range(ir, product.rhs)?)
}

/// How much a value grows with each step of an index by one, all else in `scope` standing still.
pub fn growth(ir: &Ir, value: Value, iv: Value, scope: OpId) -> Option<i64> {
    let mut grows = 0;
    for (leaf, c) in Form::of(ir, value)?.terms() {
        if leaf == iv {
            grows = c;
        } else if !stands_still(ir, leaf, iv, scope) {
            return None;
        }
    }
    Some(grows)
}

fn stands_still(ir: &Ir, value: Value, iv: Value, scope: OpId) -> bool {
    match ir.owner(value) {
        Some(op) if ir.is_below(op, scope) => {
            let still = |v: Value| growth(ir, v, iv, scope) == Some(0);
            ir.is_pure(op) && ir.operands(op).all(still)
        }
        Some(_) => true,
        // An argument of an inner region is none that stands still.
        None => {
            let holder = ir.value_block(value).and_then(|b| ir.block_parent(b));
            !holder.is_some_and(|holder| ir.is_below(holder, scope))
        }
    }
}

/// Whether positions along one dimension of a large buffer, which has `size`, all lie inside of it:
/// an offset, and a linear form of the positions of a tile.
pub fn inside(ir: &Ir, offset: OpFoldResult, form: &LinearExpr, tile: &[i64], size: i64) -> bool {
    let reach = match offset {
        OpFoldResult::Number(n) => Some(Interval::point(n)),
        OpFoldResult::Value(value) => range(ir, value),
    };
    let all = reach.and_then(|offset| offset.plus(form.range(tile)?));
    all.is_some_and(|all| all.is_inside(size))
}
