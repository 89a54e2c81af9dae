//! Siblings: convolutions and matrix products that share an operand become one, and its parts.

use tir::{RuleText, rule};

/// The rules, each with two roots.
pub const RULES: &[RuleText] = &[
    // Filters behind each other. The channels of a group would not stay together: one group only.
    rule!(equal "merge-convs-of-one-input",
        "(graph.conv2d ?x ?w {strides = ?s, pads = ?p, dilations = ?d, groups = 1}):?A \
         (graph.conv2d ?x ?v {strides = ?s, pads = ?p, dilations = ?d, groups = 1}):?B"
        => "(graph.slice (graph.conv2d ?x (graph.concat ?w ?v {axis = 0}) \
                {strides = ?s, pads = ?p, dilations = ?d, groups = 1}) \
                {starts = (zeros ?A), sizes = (shape ?A), steps = (ones ?A)}) \
            (graph.slice (graph.conv2d ?x (graph.concat ?w ?v {axis = 0}) \
                {strides = ?s, pads = ?p, dilations = ?d, groups = 1}) \
                {starts = (behind ?A 1), sizes = (shape ?B), steps = (ones ?B)})",
        if "(same-but ?w ?v 0)"),
    rule!(equal "merge-biased-convs-of-one-input",
        "(graph.conv2d ?x ?w ?b {strides = ?s, pads = ?p, dilations = ?d, groups = 1}):?A \
         (graph.conv2d ?x ?v ?c {strides = ?s, pads = ?p, dilations = ?d, groups = 1}):?B"
        => "(graph.slice (graph.conv2d ?x (graph.concat ?w ?v {axis = 0}) \
                (graph.concat ?b ?c {axis = 0}) \
                {strides = ?s, pads = ?p, dilations = ?d, groups = 1}) \
                {starts = (zeros ?A), sizes = (shape ?A), steps = (ones ?A)}) \
            (graph.slice (graph.conv2d ?x (graph.concat ?w ?v {axis = 0}) \
                (graph.concat ?b ?c {axis = 0}) \
                {strides = ?s, pads = ?p, dilations = ?d, groups = 1}) \
                {starts = (behind ?A 1), sizes = (shape ?B), steps = (ones ?B)})",
        if "(same-but ?w ?v 0)"),
    rule!(equal "merge-convs-of-one-kernel",
        "(graph.conv2d ?x ?rest... {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}):?A \
         (graph.conv2d ?y ?rest... {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}):?B"
        => "(graph.slice (graph.conv2d (graph.concat ?x ?y {axis = 0}) ?rest... \
                {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}) \
                {starts = (zeros ?A), sizes = (shape ?A), steps = (ones ?A)}) \
            (graph.slice (graph.conv2d (graph.concat ?x ?y {axis = 0}) ?rest... \
                {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}) \
                {starts = (behind ?A 0), sizes = (shape ?B), steps = (ones ?B)})",
        if "(same-but ?x ?y 0)"),
    rule!(equal "merge-matmuls-of-one-left",
        "(graph.matmul ?a ?b):?A (graph.matmul ?a ?c):?B"
        => "(graph.slice (graph.matmul ?a (graph.concat ?b ?c {axis = (last-axis ?b)})) \
                {starts = (zeros ?A), sizes = (shape ?A), steps = (ones ?A)}) \
            (graph.slice (graph.matmul ?a (graph.concat ?b ?c {axis = (last-axis ?b)})) \
                {starts = (behind ?A (last-axis ?A)), sizes = (shape ?B), steps = (ones ?B)})",
        if "(same-but ?b ?c (last-axis ?b))"),
    rule!(equal "merge-matmuls-of-one-right",
        "(graph.matmul ?b ?a):?A (graph.matmul ?c ?a):?B"
        => "(graph.slice (graph.matmul (graph.concat ?b ?c {axis = (row-axis ?b)}) ?a) \
                {starts = (zeros ?A), sizes = (shape ?A), steps = (ones ?A)}) \
            (graph.slice (graph.matmul (graph.concat ?b ?c {axis = (row-axis ?b)}) ?a) \
                {starts = (behind ?A (row-axis ?A)), sizes = (shape ?B), steps = (ones ?B)})",
        if "(same-but ?b ?c (row-axis ?b))"),
    rule!(equal "merge-gemms-of-one-left",
        "(graph.gemm ?a ?b {trans_a = ?t, trans_b = false}):?A \
         (graph.gemm ?a ?c {trans_a = ?t, trans_b = false}):?B"
        => "(graph.slice (graph.gemm ?a (graph.concat ?b ?c {axis = 1}) {trans_a = ?t, trans_b = false}) \
                {starts = (zeros ?A), sizes = (shape ?A), steps = (ones ?A)}) \
            (graph.slice (graph.gemm ?a (graph.concat ?b ?c {axis = 1}) {trans_a = ?t, trans_b = false}) \
                {starts = (behind ?A 1), sizes = (shape ?B), steps = (ones ?B)})"),
    rule!(equal "merge-transposed-gemms-of-one-left",
        "(graph.gemm ?a ?b {trans_a = ?t, trans_b = true}):?A \
         (graph.gemm ?a ?c {trans_a = ?t, trans_b = true}):?B"
        => "(graph.slice (graph.gemm ?a (graph.concat ?b ?c {axis = 0}) {trans_a = ?t, trans_b = true}) \
                {starts = (zeros ?A), sizes = (shape ?A), steps = (ones ?A)}) \
            (graph.slice (graph.gemm ?a (graph.concat ?b ?c {axis = 0}) {trans_a = ?t, trans_b = true}) \
                {starts = (behind ?A 1), sizes = (shape ?B), steps = (ones ?B)})"),
];
