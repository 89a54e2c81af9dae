//! Elementwise operators of one operand, moved through what only moves elements.

use tir::RuleText;
use tir::rewrite::Kind;

/// The rules of an operator for what lies below it, in both directions.
macro_rules! motion {
    ($($op:literal)*) => {
        &[$(
            motion!(@ $op "-into-concat", "(graph." $op " (graph.concat ?x ?y {axis = ?a}))",
                "(graph.concat (graph." $op " ?x) (graph." $op " ?y) {axis = ?a})", ""),
            motion!(@ $op "-out-of-concat",
                "(graph.concat (graph." $op " ?x) (graph." $op " ?y) {axis = ?a})",
                "(graph." $op " (graph.concat ?x ?y {axis = ?a}))", ""),
            motion!(@ $op "-into-slice",
                "(graph." $op " (graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s}))",
                "(graph.slice (graph." $op " ?x) {starts = ?b, sizes = ?n, steps = ?s})", ""),
            motion!(@ $op "-out-of-slice",
                "(graph.slice (graph." $op " ?x) {starts = ?b, sizes = ?n, steps = ?s})",
                "(graph." $op " (graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s}))", ""),
            motion!(@ $op "-into-transpose", "(graph." $op " (graph.transpose ?x {perm = ?p}))",
                "(graph.transpose (graph." $op " ?x) {perm = ?p})", ""),
            motion!(@ $op "-out-of-transpose", "(graph.transpose (graph." $op " ?x) {perm = ?p})",
                "(graph." $op " (graph.transpose ?x {perm = ?p}))", ""),
            motion!(@ $op "-into-reshape", "(graph." $op " (graph.reshape ?x):?T)",
                "(graph.reshape (graph." $op " ?x)):?T", ""),
            motion!(@ $op "-out-of-reshape", "(graph.reshape (graph." $op " ?x)):?T",
                "(graph." $op " (graph.reshape ?x):?T)", ""),
        )*]
    };
    (@ $op:literal $name:literal, $($left:literal)+, $($right:literal)+, $guard:literal) => {
        RuleText {
            name: concat!($op, $name),
            kind: Kind::Equal,
            class: tir::Class::Exact,
            left: concat!($($left),+),
            right: concat!($($right),+),
            guard: $guard,
            place: (file!(), line!(), column!()),
        }
    };
}

/// The rules.
pub const RULES: &[RuleText] = motion!["relu" "sigmoid" "tanh" "exp" "sqrt" "neg" "abs" "erf"];

/// The same for bounds, which have attributes.
pub const CLIP: &[RuleText] = &[
    tir::rule!(equal "clip-into-concat",
        "(graph.clip (graph.concat ?x ?y {axis = ?a}) {min = ?l, max = ?h})"
        => "(graph.concat (graph.clip ?x {min = ?l, max = ?h}) (graph.clip ?y {min = ?l, max = ?h}) {axis = ?a})"),
    tir::rule!(equal "clip-out-of-concat",
        "(graph.concat (graph.clip ?x {min = ?l, max = ?h}) (graph.clip ?y {min = ?l, max = ?h}) {axis = ?a})"
        => "(graph.clip (graph.concat ?x ?y {axis = ?a}) {min = ?l, max = ?h})"),
    tir::rule!(equal "clip-into-slice",
        "(graph.clip (graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s}) {min = ?l, max = ?h})"
        => "(graph.slice (graph.clip ?x {min = ?l, max = ?h}) {starts = ?b, sizes = ?n, steps = ?s})"),
    tir::rule!(equal "clip-into-transpose",
        "(graph.clip (graph.transpose ?x {perm = ?p}) {min = ?l, max = ?h})"
        => "(graph.transpose (graph.clip ?x {min = ?l, max = ?h}) {perm = ?p})"),
    tir::rule!(equal "clip-out-of-transpose",
        "(graph.transpose (graph.clip ?x {min = ?l, max = ?h}) {perm = ?p})"
        => "(graph.clip (graph.transpose ?x {perm = ?p}) {min = ?l, max = ?h})"),
    tir::rule!(equal "clip-into-reshape", "(graph.clip (graph.reshape ?x):?T {min = ?l, max = ?h})"
        => "(graph.reshape (graph.clip ?x {min = ?l, max = ?h})):?T"),
];
