//! Transposes, reshapes and expansions: composed, dropped, moved through other operators.

use tir::{RuleText, rule};

/// The rules.
pub const RULES: &[RuleText] = &[
    rule!("merge-transposes", "(graph.transpose (graph.transpose ?x {perm = ?p}) {perm = ?q})"
        => "(graph.transpose ?x {perm = (compose ?p ?q)})"),
    rule!("drop-transpose", "(graph.transpose ?x {perm = ?p})" => "?x", if "(is-identity ?p)"),
    rule!("merge-reshapes", "(graph.reshape (graph.reshape ?x)):?T" => "(graph.reshape ?x):?T"),
    rule!("drop-reshape", "(graph.reshape ?x:?T):?T" => "?x"),
    rule!("merge-expands", "(graph.expand (graph.expand ?x)):?T" => "(graph.expand ?x):?T"),
    rule!("drop-expand", "(graph.expand ?x:?T):?T" => "?x"),
    rule!("drop-expand-of-first", "(?f:elementwise+broadcasts (graph.expand ?x) ?y):?T" => "(?f ?x ?y)",
        if "(broadcasts-to ?x ?y ?T)"),
    rule!("drop-expand-of-second", "(?f:elementwise+broadcasts ?x (graph.expand ?y)):?T" => "(?f ?x ?y)",
        if "(broadcasts-to ?x ?y ?T)"),
    rule!(equal "transpose-of-units-is-reshape", "(graph.transpose ?x {perm = ?p}):?T"
        => "(graph.reshape ?x):?T", if "(moves-units ?x ?p)"),
    // Through pairs of elements.
    rule!("join-transposes-of-pair",
        "(?f:elementwise+broadcasts (graph.transpose ?x {perm = ?p}) (graph.transpose ?y {perm = ?p}))"
        => "(graph.transpose (?f ?x ?y) {perm = ?p})",
        if "(varies ?x) (varies ?y)"),
    rule!("join-reshapes-of-pair",
        "(?f:elementwise+broadcasts (graph.reshape ?x:?S):?T (graph.reshape ?y:?S):?T):?U"
        => "(graph.reshape (?f ?x ?y)):?U",
        if "(varies ?x) (varies ?y)"),
    rule!(equal "transpose-out-of-pair",
        "(?f:elementwise+broadcasts (graph.transpose ?x {perm = ?p}) ?y)"
        => "(graph.transpose (?f ?x (graph.transpose ?y {perm = (inverse ?p)})) {perm = ?p})",
        if "(same-rank ?x ?y)"),
    rule!(equal "transpose-into-pair", "(graph.transpose (?f:elementwise+broadcasts ?x ?y) {perm = ?p})"
        => "(?f (graph.transpose ?x {perm = ?p}) (graph.transpose ?y {perm = ?p}))",
        if "(same-rank ?x ?y)"),
    // Of matrices.
    rule!(reassoc "join-transposes-of-matmul",
        "(graph.matmul (graph.transpose ?x {perm = ?p}) (graph.transpose ?y {perm = ?p}))"
        => "(graph.transpose (graph.matmul ?y ?x) {perm = ?p})", if "(varies ?x) (varies ?y) (swaps-matrix ?p)"),
    rule!(equal reassoc "transpose-into-matmul", "(graph.transpose (graph.matmul ?x ?y) {perm = ?p})"
        => "(graph.matmul (graph.transpose ?y {perm = ?p}) (graph.transpose ?x {perm = ?p}))",
        if "(swaps-matrix ?p) (same-rank ?x ?y)"),
    rule!(reassoc "matmul-of-transposed-left", "(graph.matmul (graph.transpose ?a {perm = [1, 0]}) ?b)"
        => "(graph.gemm ?a ?b {trans_a = true})", if "(has-rank ?b 2)"),
    rule!(reassoc "matmul-of-transposed-right", "(graph.matmul ?a (graph.transpose ?b {perm = [1, 0]}))"
        => "(graph.gemm ?a ?b {trans_b = true})", if "(has-rank ?a 2)"),
    rule!(reassoc "gemm-takes-transpose-left",
        "(graph.gemm (graph.transpose ?a {perm = [1, 0]}) ?rest... {trans_a = ?s, trans_b = ?t})"
        => "(graph.gemm ?a ?rest... {trans_a = (not ?s), trans_b = ?t})"),
    rule!(reassoc "gemm-takes-transpose-right",
        "(graph.gemm ?a (graph.transpose ?b {perm = [1, 0]}) ?rest... {trans_a = ?s, trans_b = ?t})"
        => "(graph.gemm ?a ?b ?rest... {trans_a = ?s, trans_b = (not ?t)})"),
    rule!(equal reassoc "gemm-is-matmul", "(graph.gemm ?a ?b {trans_a = false, trans_b = false})"
        => "(graph.matmul ?a ?b)"),
    rule!(equal reassoc "matmul-is-gemm", "(graph.matmul ?a ?b)" => "(graph.gemm ?a ?b)",
        if "(has-rank ?a 2) (has-rank ?b 2)"),
    // Through reductions.
    rule!(reassoc "sum-of-transpose", "(graph.reduce_sum (graph.transpose ?x {perm = ?p}) {axes = ?a, keepdims = false})"
        => "(graph.reduce_sum ?x {axes = (axes-before ?a ?p), keepdims = false})",
        if "(keeps-order ?a ?p)"),
    rule!(reassoc "mean-of-transpose", "(graph.reduce_mean (graph.transpose ?x {perm = ?p}) {axes = ?a, keepdims = false})"
        => "(graph.reduce_mean ?x {axes = (axes-before ?a ?p), keepdims = false})",
        if "(keeps-order ?a ?p)"),
    rule!(nnan_nsz "drop-sum-of-units", "(graph.reduce_sum ?x:?T):?T" => "?x"),
    rule!(nnan_nsz "drop-mean-of-units", "(graph.reduce_mean ?x:?T):?T" => "?x"),
    rule!(reassoc "merge-sums", "(graph.reduce_sum (graph.reduce_sum ?x {axes = ?a, keepdims = true}) {axes = ?b, keepdims = true})"
        => "(graph.reduce_sum ?x {axes = (axes-of-both ?a ?b), keepdims = true})"),
    rule!(reassoc "merge-means", "(graph.reduce_mean (graph.reduce_mean ?x {axes = ?a, keepdims = true}) {axes = ?b, keepdims = true})"
        => "(graph.reduce_mean ?x {axes = (axes-of-both ?a ?b), keepdims = true})"),
    rule!("merge-maxima", "(graph.reduce_max (graph.reduce_max ?x {axes = ?a, keepdims = true}) {axes = ?b, keepdims = true})"
        => "(graph.reduce_max ?x {axes = (axes-of-both ?a ?b), keepdims = true})"),
];
