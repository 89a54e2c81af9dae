//! Concatenations and slices: of each other, through other operators, along with weights.

use tir::{RuleText, rule};

/// The rules.
pub const RULES: &[RuleText] = &[
    rule!("flatten-concat-first", "(graph.concat (graph.concat ?xs... {axis = ?a}) ?ys... {axis = ?a})"
        => "(graph.concat ?xs... ?ys... {axis = ?a})"),
    rule!("flatten-concat-second",
        "(graph.concat ?x (graph.concat ?ys... {axis = ?a}) ?zs... {axis = ?a})"
        => "(graph.concat ?x ?ys... ?zs... {axis = ?a})"),
    rule!("drop-empty-part-behind", "(graph.concat ?x:?T ?y {axis = ?a}):?T" => "?x"),
    rule!("drop-empty-part-before", "(graph.concat ?x ?y:?T {axis = ?a}):?T" => "?y"),
    rule!("drop-slice-of-all", "(graph.slice ?x:?T {steps = ?s}):?T" => "?x", if "(all-one ?s)"),
    rule!("merge-slices",
        "(graph.slice (graph.slice ?x {starts = ?a, sizes = ?n, steps = ?s}) \
            {starts = ?b, sizes = ?m, steps = ?t})"
        => "(graph.slice ?x {starts = (start-of-both ?a ?s ?b), sizes = ?m, steps = (product ?s ?t)})",
        if "(steps-fit ?s ?t)"),
    rule!("slice-of-first-part",
        "(graph.slice (graph.concat ?x ?ys... {axis = ?a}) {starts = ?b, sizes = ?n, steps = ?s})"
        => "(graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s})",
        if "(lies-inside ?x ?a ?b ?n ?s)"),
    rule!("slice-of-second-part",
        "(graph.slice (graph.concat ?x ?y ?zs... {axis = ?a}) {starts = ?b, sizes = ?n, steps = ?s})"
        => "(graph.slice ?y {starts = (start-behind ?b ?x ?a), sizes = ?n, steps = ?s})",
        if "(lies-inside ?y ?a (start-behind ?b ?x ?a) ?n ?s)"),
    rule!("slice-of-third-part",
        "(graph.slice (graph.concat ?x ?y ?z ?zs... {axis = ?a}) {starts = ?b, sizes = ?n, steps = ?s})"
        => "(graph.slice ?z {starts = (start-behind (start-behind ?b ?x ?a) ?y ?a), sizes = ?n, steps = ?s})",
        if "(lies-inside ?z ?a (start-behind (start-behind ?b ?x ?a) ?y ?a) ?n ?s)"),
    rule!("join-slices",
        "(graph.concat (graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s}) \
            (graph.slice ?x {starts = ?c, sizes = ?m, steps = ?s}) {axis = ?a})"
        => "(graph.slice ?x {starts = ?b, sizes = (joined ?n ?m ?a), steps = ?s})",
        if "(adjacent ?b ?n ?c ?s ?a)"),
    rule!("first-part-of-concat", "(graph.split (graph.concat ?x:?T ?ys... {axis = ?a}) {axis = ?a}).0:?T"
        => "?x"),
    // Through pairs of elements.
    rule!(equal "split-concats-of-pair",
        "(?f:elementwise+broadcasts (graph.concat ?xs... {axis = ?a}) (graph.concat ?ys... {axis = ?a}))"
        => "(graph.concat (?f ?xs ?ys)... {axis = ?a})",
        if "(each same-type ?xs ?ys)"),
    // Of two: sums and products have many forms each, and of more operands every choice would be tried.
    rule!(equal "concat-of-pairs",
        "(graph.concat (?f:elementwise+broadcasts ?x ?v) (?f ?y ?w) {axis = ?a})"
        => "(?f (graph.concat ?x ?y {axis = ?a}) (graph.concat ?v ?w {axis = ?a}))",
        if "(same-type ?x ?v) (same-type ?y ?w) (same-but ?x ?y ?a)"),
    rule!(equal "slice-of-pair",
        "(graph.slice (?f:elementwise+broadcasts ?x:?T ?y:?T) {starts = ?b, sizes = ?n, steps = ?s})"
        => "(?f (graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s}) \
            (graph.slice ?y {starts = ?b, sizes = ?n, steps = ?s}))"),
    rule!("transpose-of-concat",
        "(graph.concat (graph.transpose ?x {perm = ?p}) (graph.transpose ?ys {perm = ?p})... {axis = ?a})"
        => "(graph.transpose (graph.concat ?x ?ys... {axis = (at ?p ?a)}) {perm = ?p})",
        if "(varies ?x) (each varies ?ys)"),
    rule!(equal "slice-of-transpose",
        "(graph.slice (graph.transpose ?x {perm = ?p}) {starts = ?b, sizes = ?n, steps = ?s})"
        => "(graph.transpose (graph.slice ?x {starts = (compose ?b (inverse ?p)), \
            sizes = (compose ?n (inverse ?p)), steps = (compose ?s (inverse ?p))}) {perm = ?p})"),
    // Along with matrices and weights.
    rule!(reassoc "matmul-of-concats", "(graph.concat (graph.matmul ?a ?b) (graph.matmul ?a ?c) {axis = ?d})"
        => "(graph.matmul ?a (graph.concat ?b ?c {axis = (last-axis ?b)}))",
        if "(varies ?a) (is-last ?d ?a ?b) (same-but ?b ?c (last-axis ?b))"),
    rule!(equal reassoc "matmul-over-inner-concat",
        "(graph.add (graph.matmul ?a ?b) (graph.matmul ?c ?d))"
        => "(graph.matmul (graph.concat ?a ?c {axis = (last-axis ?a)}) \
            (graph.concat ?b ?d {axis = (row-axis ?b)}))",
        if "(same-but ?a ?c (last-axis ?a)) (same-but ?b ?d (row-axis ?b))"),
    rule!("conv-of-concat-of-filters",
        "(graph.concat (graph.conv2d ?x ?w {strides = ?s, pads = ?p, dilations = ?d, groups = 1}) \
            (graph.conv2d ?x ?v {strides = ?s, pads = ?p, dilations = ?d, groups = 1}) {axis = 1})"
        => "(graph.conv2d ?x (graph.concat ?w ?v {axis = 0}) \
            {strides = ?s, pads = ?p, dilations = ?d, groups = 1})",
        if "(varies ?x) (same-but ?w ?v 0)"),
    rule!(reassoc "conv-of-concat-of-inputs",
        "(graph.concat (graph.conv2d ?x ?rest... {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}) \
            (graph.conv2d ?y ?rest... {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}) {axis = 0})"
        => "(graph.conv2d (graph.concat ?x ?y {axis = 0}) ?rest... \
            {strides = ?s, pads = ?p, dilations = ?d, groups = ?g})",
        if "(varies ?x) (varies ?y) (same-but ?x ?y 0)"),
    rule!(equal reassoc "grouped-conv-of-two",
        "(graph.concat (graph.conv2d ?x ?w {strides = ?s, pads = ?p, dilations = ?d, groups = 1}) \
            (graph.conv2d ?y ?v {strides = ?s, pads = ?p, dilations = ?d, groups = 1}) {axis = 1})"
        => "(graph.conv2d (graph.concat ?x ?y {axis = 1}) (graph.concat ?w ?v {axis = 0}) \
            {strides = ?s, pads = ?p, dilations = ?d, groups = 2})",
        if "(same-type ?x ?y) (same-type ?w ?v)"),
    rule!(equal reassoc "conv-over-parts-of-input",
        "(graph.conv2d (graph.concat ?x ?y {axis = 1}) ?w {strides = ?s, pads = ?p, dilations = ?d, groups = 1})"
        => "(graph.add \
            (graph.conv2d ?x (graph.slice ?w {starts = [0, 0, 0, 0], sizes = (first-inputs ?w ?x), \
                steps = [1, 1, 1, 1]}) {strides = ?s, pads = ?p, dilations = ?d, groups = 1}) \
            (graph.conv2d ?y (graph.slice ?w {starts = (behind-inputs ?x), sizes = (first-inputs ?w ?y), \
                steps = [1, 1, 1, 1]}) {strides = ?s, pads = ?p, dilations = ?d, groups = 1}))"),
];
