//! Elementwise operators of one operand, moved through what only moves elements.

use tir::{RuleText, rule};

/// The rules, both ways: for every operator of one operand whose result has its type.
pub const RULES: &[RuleText] = &[
    rule!(equal "unary-into-concat", "(?f:elementwise+same-type (graph.concat ?xs... {axis = ?a}))"
        => "(graph.concat (?f ?xs)... {axis = ?a})"),
    rule!(equal "unary-out-of-concat",
        "(graph.concat (?f:elementwise+same-type ?xs)... {axis = ?a})"
        => "(?f (graph.concat ?xs... {axis = ?a}))"),
    rule!(equal "unary-into-slice",
        "(?f:elementwise+same-type (graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s}))"
        => "(graph.slice (?f ?x) {starts = ?b, sizes = ?n, steps = ?s})"),
    rule!(equal "unary-out-of-slice",
        "(graph.slice (?f:elementwise+same-type ?x) {starts = ?b, sizes = ?n, steps = ?s})"
        => "(?f (graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s}))"),
    rule!(equal "unary-into-transpose",
        "(?f:elementwise+same-type (graph.transpose ?x {perm = ?p}))"
        => "(graph.transpose (?f ?x) {perm = ?p})"),
    rule!(equal "unary-out-of-transpose",
        "(graph.transpose (?f:elementwise+same-type ?x) {perm = ?p})"
        => "(?f (graph.transpose ?x {perm = ?p}))"),
    rule!(equal "unary-into-reshape", "(?f:elementwise+same-type (graph.reshape ?x):?T)"
        => "(graph.reshape (?f ?x)):?T"),
    rule!(equal "unary-out-of-reshape", "(graph.reshape (?f:elementwise+same-type ?x)):?T"
        => "(?f (graph.reshape ?x):?T)"),
];
