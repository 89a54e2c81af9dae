//! Normalizations and activations that exporters write out in elementary operators: one operator that a unit or a nest computes
//! at once, and the same in steps, of which each unit takes those that it has.
//!
//! Exporters of ONNX before opset 17 have no layer norm, those before opset 20 no GELU.

use tir::{RuleText, rule};

/// The rules.
pub const RULES: &[RuleText] = &[
    // In formats of less range a square may be infinite that a layer norm has room for.
    rule!(equal contract "layer-norm-in-steps", "(graph.layer_norm ?x ?s ?b {axis = ?a, epsilon = ?e})"
        => "(graph.add (graph.mul (graph.div \
                (graph.sub ?x (graph.reduce_mean ?x {axes = (dims-from ?a ?x), keepdims = true})) \
                (graph.sqrt (graph.add (graph.reduce_mean (graph.mul \
                        (graph.sub ?x (graph.reduce_mean ?x {axes = (dims-from ?a ?x), keepdims = true})) \
                        (graph.sub ?x (graph.reduce_mean ?x {axes = (dims-from ?a ?x), keepdims = true}))) \
                    {axes = (dims-from ?a ?x), keepdims = true}) \
                    (graph.constant {value = (scalar ?e ?x)})))) ?s) ?b)",
        if "(>= (bits ?x) 32) (no-zero ?x)"),
    rule!(equal contract "layer-norm-of-steps",
        "(graph.add (graph.mul (graph.div \
                (graph.sub ?x (graph.reduce_mean ?x {axes = ?a, keepdims = true})) \
                (graph.sqrt (graph.add (graph.reduce_mean (graph.mul \
                        (graph.sub ?x (graph.reduce_mean ?x {axes = ?a, keepdims = true})) \
                        (graph.sub ?x (graph.reduce_mean ?x {axes = ?a, keepdims = true}))) \
                    {axes = ?a, keepdims = true}) #e))) ?s) ?b)"
        => "(graph.layer_norm ?x ?s ?b {axis = (nth ?a 0), epsilon = (only-number #e)})",
        if "(last-dims ?a ?x) (== (elements #e) 1) (broadcasts-to #e ?x ?x) (broadcasts-to ?s ?x ?x) (broadcasts-to ?b ?x ?x) (no-zero ?x)"),
    rule!(equal contract "layer-norm-of-reciprocals",
        "(graph.add (graph.mul (graph.mul \
                (graph.sub ?x (graph.reduce_mean ?x {axes = ?a, keepdims = true})) \
                (graph.reciprocal (graph.sqrt (graph.add (graph.reduce_mean (graph.mul \
                        (graph.sub ?x (graph.reduce_mean ?x {axes = ?a, keepdims = true})) \
                        (graph.sub ?x (graph.reduce_mean ?x {axes = ?a, keepdims = true}))) \
                    {axes = ?a, keepdims = true}) #e)))) ?s) ?b)"
        => "(graph.layer_norm ?x ?s ?b {axis = (nth ?a 0), epsilon = (only-number #e)})",
        if "(last-dims ?a ?x) (== (elements #e) 1) (broadcasts-to #e ?x ?x) (broadcasts-to ?s ?x ?x) (broadcasts-to ?b ?x ?x) (no-zero ?x)"),
    // What matrix units do at once is one step after another elsewhere. The matrix grows with the square of a row: 256 take 256 KiB of f32.
    // The quotient is distributed over the sum.
    rule!(equal reassoc "centered-by-product",
        "(graph.sub ?x (graph.reduce_mean ?x {axes = ?a, keepdims = true}))"
        => "(graph.matmul ?x (graph.constant {value = (centering ?x)}))",
        if "(last-dims ?a ?x) (== (length ?a) 1) (>= (rank ?x) 2) (<= (dim ?x (nth ?a 0)) 256) (>= (bits ?x) 32) (no-zero ?x)"),
    rule!(equal reassoc "mean-by-product", "(graph.reduce_mean ?x {axes = ?a, keepdims = true})"
        => "(graph.matmul ?x (graph.constant {value = (mean-column ?x)}))",
        if "(last-dims ?a ?x) (== (length ?a) 1) (>= (rank ?x) 2) (<= (dim ?x (nth ?a 0)) 256) (>= (bits ?x) 32) (no-zero ?x)"),
    // There is one root for each row, and constants fold into products. The reciprocal of a root is never denormal, and infinite only
    // where the quotient is.
    rule!(equal contract "div-by-root-is-mul", "(graph.div ?x (graph.sqrt ?y))"
        => "(graph.mul ?x (graph.reciprocal (graph.sqrt ?y)))"),
    // A diagonal from the left: the thread computes that alone, which is smaller where rows are longer than there are of them. Only of
    // norms: what is infinite in one row is NaN in all.
    rule!(equal reassoc "rows-by-roots-by-product", "(graph.mul ?x (graph.reciprocal (graph.sqrt ?y)))"
        => "(graph.matmul (graph.mul (graph.constant {value = (identity-of-rows ?x ?y)}) (graph.reciprocal (graph.sqrt ?y))) ?x)"),
    rule!(equal contract "softmax-in-steps", "(graph.softmax ?x {axis = ?a})"
        => "(graph.div (graph.exp (graph.sub ?x (graph.reduce_max ?x {axes = (list ?a), keepdims = true}))) \
            (graph.reduce_sum (graph.exp (graph.sub ?x (graph.reduce_max ?x {axes = (list ?a), keepdims = true}))) \
                {axes = (list ?a), keepdims = true}))",
        if "(>= (bits ?x) 32) (no-zero ?x)"),
    rule!(equal contract "softmax-of-steps",
        "(graph.div (graph.exp (graph.sub ?x (graph.reduce_max ?x {axes = ?a, keepdims = true}))) \
            (graph.reduce_sum (graph.exp (graph.sub ?x (graph.reduce_max ?x {axes = ?a, keepdims = true}))) \
                {axes = ?a, keepdims = true}))"
        => "(graph.softmax ?x {axis = (nth ?a 0)})",
        if "(== (length ?a) 1) (no-zero ?x)"),
    // The root of two as exporters write it has the digits of f32.
    rule!(equal contract "gelu-of-steps",
        "(graph.mul (graph.mul ?x:?T (graph.add (graph.erf (graph.div ?x 1.4142135)) 1.0)) 0.5):?T"
        => "(graph.gelu ?x {tanh = false})", if "(<= (bits ?x) 32)"),
    rule!(equal contract "gelu-of-halves",
        "(graph.mul (graph.mul ?x:?T 0.5) (graph.add (graph.erf (graph.div ?x 1.4142135)) 1.0)):?T"
        => "(graph.gelu ?x {tanh = false})", if "(<= (bits ?x) 32)"),
];
