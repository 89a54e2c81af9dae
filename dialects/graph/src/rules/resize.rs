//! Images whose elements are repeated: what is computed for each element alone is computed before.

use tir::{RuleText, rule};

/// The rules.
pub const RULES: &[RuleText] = &[
    rule!(equal "repeated-pixels-are-nearest", "(graph.reshape (graph.expand (graph.reshape ?x):?M):?E):?T"
        => "(graph.resize ?x {mode = nearest, coordinates = asymmetric, rounding = floor}):?T",
        if "(repeats ?x ?M ?E ?T)"),
    rule!(equal "conv-1x1-before-nearest",
        "(graph.conv2d (graph.resize ?x {mode = nearest, coordinates = ?c, rounding = ?r, scales = ?s}):?S ?w ?bs... \
            {strides = [1, 1], pads = [0, 0, 0, 0], dilations = ?e, groups = ?g}):?T"
        => "(graph.resize (graph.conv2d ?x ?w ?bs... \
            {strides = [1, 1], pads = [0, 0, 0, 0], dilations = ?e, groups = ?g}) \
            {mode = nearest, coordinates = ?c, rounding = ?r, scales = ?s}):?T",
        if "(kernel-is ?w 1 1) (resizes-pixels ?x ?S ?s)"),
    rule!(equal "elementwise-before-nearest",
        "(?f:elementwise+same-type (graph.resize ?x {mode = nearest, coordinates = ?c, rounding = ?r, scales = ?s})):?T"
        => "(graph.resize (?f ?x) {mode = nearest, coordinates = ?c, rounding = ?r, scales = ?s}):?T"),
    rule!(equal "elementwise-behind-nearest",
        "(graph.resize (?f:elementwise+same-type ?x) {mode = nearest, coordinates = ?c, rounding = ?r, scales = ?s}):?T"
        => "(?f (graph.resize ?x {mode = nearest, coordinates = ?c, rounding = ?r, scales = ?s}):?T)",
        if "(varies ?x)"),
];
