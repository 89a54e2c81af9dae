//! Rules about fixed-point numbers, and the conditions they name.

use tir::rewrite::PatternSet;
use tir::{Arg, RuleText, rule};

use crate::ops::{FLOAT_BITS, sizes};
use crate::point::Point;

/// The rules.
pub(crate) const RULES: &[RuleText] = &[
    // A matrix unit multiplies floats; where no sum is rounded, the numbers are the same.
    rule!(
        equal "multiply-fixed-as-floats",
        "(fixed.dequantize (fixed.matmul ?a ?b))"
            => "(graph.matmul (fixed.dequantize ?a) (fixed.dequantize ?b))",
        if "(fixed-sums-fit-floats ?a ?b)"
    ),
];

/// The conditions.
pub(crate) fn functions(set: &mut PatternSet) {
    set.guard("fixed-sums-fit-floats", |args| {
        sums_fit_floats(args).unwrap_or(false)
    })
    .about(&[(
        "fixed-sums-fit-floats",
        "?a ?b",
        "The sums of this product of matrices are exact as floats.",
    )]);
}

fn sums_fit_floats(args: &[Arg]) -> Option<bool> {
    let [a, b] = args else { return None };
    let (a, b) = (a.ty()?, b.ty()?);
    let [_, k, _] = sizes(a, b)?;
    Some(Point::of(a)?.greatest_sum(Point::of(b)?, k) <= 1 << FLOAT_BITS)
}
