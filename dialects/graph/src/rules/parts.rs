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
    rule!("slice-behind-third-part",
        "(graph.slice (graph.concat ?x ?y ?z ?w ?ws... {axis = ?a}) {starts = ?b, sizes = ?n, steps = ?s})"
        => "(graph.slice (graph.concat ?w ?ws... {axis = ?a}) \
            {starts = (start-behind (start-behind (start-behind ?b ?x ?a) ?y ?a) ?z ?a), sizes = ?n, steps = ?s})",
        if "(varies ?w) (> (elements ?x) 0) (lies-behind ?a ?b ?n ?s ?x ?y ?z)"),
    // Splits are slices of one tensor: rules are about those.
    rule!("split-is-slices", "(graph.split ?x {axis = ?a, sizes = ?n}).?k:?T"
        => "(graph.slice ?x {starts = (starts-of-part ?x ?a ?n ?k), sizes = (shape ?T), steps = (ones ?T)})",
        if "(varies ?x) (< (elements ?T) (elements ?x))"),
    rule!("drop-split-to-all", "(graph.split ?x:?T).?k:?T" => "?x"),
    rule!("join-slices",
        "(graph.concat (graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s}) \
            (graph.slice ?x {starts = ?c, sizes = ?m, steps = ?s}) {axis = ?a})"
        => "(graph.slice ?x {starts = ?b, sizes = (joined ?n ?m ?a), steps = ?s})",
        if "(adjacent ?b ?n ?c ?s ?a)"),
    rule!("join-slices-in-front",
        "(graph.concat (graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s}) \
            (graph.slice ?x {starts = ?c, sizes = ?m, steps = ?s}) ?y ?ys... {axis = ?a})"
        => "(graph.concat (graph.slice ?x {starts = ?b, sizes = (joined ?n ?m ?a), steps = ?s}) ?y ?ys... {axis = ?a})",
        if "(adjacent ?b ?n ?c ?s ?a)"),
    rule!("join-slices-behind",
        "(graph.concat ?y (graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s}) \
            (graph.slice ?x {starts = ?c, sizes = ?m, steps = ?s}) ?ys... {axis = ?a})"
        => "(graph.concat ?y (graph.slice ?x {starts = ?b, sizes = (joined ?n ?m ?a), steps = ?s}) ?ys... {axis = ?a})",
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
    // Parts of parts, next to each other in both operands.
    rule!("join-pairs-of-slices",
        "(graph.concat \
            (?f:elementwise+broadcasts (graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s}) \
                (graph.slice ?y {starts = ?c, sizes = ?n, steps = ?t})) \
            (?f (graph.slice ?x {starts = ?d, sizes = ?m, steps = ?s}) \
                (graph.slice ?y {starts = ?e, sizes = ?m, steps = ?t})) ?zs... {axis = ?a})"
        => "(graph.concat (?f (graph.slice ?x {starts = ?b, sizes = (joined ?n ?m ?a), steps = ?s}) \
                (graph.slice ?y {starts = ?c, sizes = (joined ?n ?m ?a), steps = ?t})) ?zs... {axis = ?a})",
        if "(varies ?x) (varies ?y) (adjacent ?b ?n ?d ?s ?a) (adjacent ?c ?n ?e ?t ?a)"),
    rule!("join-pairs-of-slices-behind",
        "(graph.concat ?w \
            (?f:elementwise+broadcasts (graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s}) \
                (graph.slice ?y {starts = ?c, sizes = ?n, steps = ?t})) \
            (?f (graph.slice ?x {starts = ?d, sizes = ?m, steps = ?s}) \
                (graph.slice ?y {starts = ?e, sizes = ?m, steps = ?t})) ?zs... {axis = ?a})"
        => "(graph.concat ?w (?f (graph.slice ?x {starts = ?b, sizes = (joined ?n ?m ?a), steps = ?s}) \
                (graph.slice ?y {starts = ?c, sizes = (joined ?n ?m ?a), steps = ?t})) ?zs... {axis = ?a})",
        if "(varies ?x) (varies ?y) (adjacent ?b ?n ?d ?s ?a) (adjacent ?c ?n ?e ?t ?a)"),
    // One number beside the parts.
    rule!(equal "slice-out-of-pair-with-one",
        "(?f:elementwise+broadcasts (graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s}) ?c)"
        => "(graph.slice (?f ?x ?c) {starts = ?b, sizes = ?n, steps = ?s})",
        if "(varies ?x) (has-floats ?x) (== (elements ?c) 1) (<= (rank ?c) (rank ?x))"),
    rule!(equal "slice-into-pair-with-one",
        "(graph.slice (?f:elementwise+broadcasts ?x ?c):?T {starts = ?b, sizes = ?n, steps = ?s})"
        => "(?f (graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s}) ?c)",
        if "(varies ?x) (== (elements ?c) 1) (== (shape ?x) (shape ?T)) (> (elements ?T) 1)"),
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
    // What takes a part of a product's columns or of an image's channels computes no more than that. Not of rows: of
    // siblings with one right operand each part would be a sibling again, and eight would not become one.
    rule!(equal "slice-of-columns",
        "(graph.slice (graph.matmul ?x ?y):?T {starts = ?b, sizes = ?n, steps = ?s})"
        => "(graph.matmul ?x (graph.slice ?y \
            {starts = (with (zeros ?y) (last-axis ?y) (nth ?b -1)), \
             sizes = (with (shape ?y) (last-axis ?y) (nth ?n -1)), \
             steps = (with (ones ?y) (last-axis ?y) (nth ?s -1))}))",
        if "(is-whole-but ?T ?b ?n ?s (last-axis ?T))"),
    rule!(equal "slice-of-columns-of-transposed",
        "(graph.slice (graph.gemm ?x ?y {trans_a = ?t, trans_b = true}):?T {starts = ?b, sizes = ?n, steps = ?s})"
        => "(graph.gemm ?x (graph.slice ?y \
            {starts = (with (zeros ?y) 0 (nth ?b 1)), sizes = (with (shape ?y) 0 (nth ?n 1)), \
             steps = (with (ones ?y) 0 (nth ?s 1))}) {trans_a = ?t, trans_b = true})",
        if "(is-whole-but ?T ?b ?n ?s 1)"),
    rule!(equal "slice-of-channels",
        "(graph.slice (graph.conv2d ?x ?w ?cs... {strides = ?u, pads = ?p, dilations = ?d, groups = 1}):?T \
            {starts = ?b, sizes = ?n, steps = ?s})"
        => "(graph.conv2d ?x \
            (graph.slice ?w {starts = (with (zeros ?w) 0 (nth ?b 1)), \
                sizes = (with (shape ?w) 0 (nth ?n 1)), steps = (with (ones ?w) 0 (nth ?s 1))}) \
            (graph.slice ?cs {starts = (with [0] 0 (nth ?b 1)), sizes = (with [0] 0 (nth ?n 1)), \
                steps = (with [0] 0 (nth ?s 1))})... \
            {strides = ?u, pads = ?p, dilations = ?d, groups = 1})",
        if "(is-whole-but ?T ?b ?n ?s 1)"),
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
