//! Algebra of elementwise operators and matrix products: identities, constants gathered, and what
//! associates, commutes and distributes.

use tir::{RuleText, rule};

/// The rules.
pub const RULES: &[RuleText] = &[
    // Identities. The types say that nothing is broadcast by the constant.
    rule!(nnan_nsz "drop-add-zero", "(graph.add ?x:?T 0.0):?T" => "?x"),
    rule!("drop-add-zero-int", "(graph.add ?x:?T 0):?T" => "?x"),
    rule!("drop-sub-zero", "(graph.sub ?x:?T 0.0):?T" => "?x"),
    rule!("drop-sub-zero-int", "(graph.sub ?x:?T 0):?T" => "?x"),
    rule!("drop-mul-one", "(graph.mul ?x:?T 1.0):?T" => "?x"),
    rule!("drop-mul-one-int", "(graph.mul ?x:?T 1):?T" => "?x"),
    rule!("drop-div-one", "(graph.div ?x:?T 1.0):?T" => "?x"),
    rule!("drop-pow-one", "(graph.pow ?x:?T 1.0):?T" => "?x"),
    rule!("drop-pair-of-self", "(?f:broadcasts+idempotent ?x ?x)" => "?x"),
    rule!(nnan_nsz "absorb-min-in-max", "(graph.max (graph.min ?x:?T ?y) ?x):?T" => "?x"),
    rule!(nnan_nsz "absorb-max-in-min", "(graph.min (graph.max ?x:?T ?y) ?x):?T" => "?x"),
    // Signs.
    rule!("drop-double-neg", "(graph.neg (graph.neg ?x))" => "?x"),
    rule!(nnan_nsz "turn-neg-of-sub", "(graph.neg (graph.sub ?x ?y))" => "(graph.sub ?y ?x)"),
    rule!("add-neg-is-sub", "(graph.add ?x (graph.neg ?y))" => "(graph.sub ?x ?y)"),
    rule!("sub-neg-is-add", "(graph.sub ?x (graph.neg ?y))" => "(graph.add ?x ?y)"),
    rule!("drop-signs-of-factors", "(graph.mul (graph.neg ?x) (graph.neg ?y))"
        => "(graph.mul ?x ?y)"),
    // Without a sign, -1 is the greatest number.
    rule!("drop-sign-in-abs", "(graph.abs (graph.neg ?x))" => "(graph.abs ?x)",
        if "(has-signs ?x)"),
    rule!("drop-sign-in-square", "(graph.mul (graph.neg ?x) (graph.neg ?x))"
        => "(graph.mul ?x ?x)"),
    // Where there are fewer of them, reciprocals are less work than quotients.
    rule!(contract "mul-reciprocal-is-div", "(graph.mul ?x (graph.reciprocal ?y))" => "(graph.div ?x ?y)",
        if "(== (elements ?x) (elements ?y))"),
    rule!(contract "div-reciprocal-is-mul", "(graph.div ?x (graph.reciprocal ?y))" => "(graph.mul ?x ?y)"),
    rule!(reassoc "drop-sqrt-of-square", "(graph.sqrt (graph.mul ?x ?x))" => "(graph.abs ?x)"),
    // Rectifiers and bounds.
    rule!("drop-relu-of-relu", "(graph.relu (graph.relu ?x))" => "(graph.relu ?x)"),
    rule!("drop-abs-of-relu", "(graph.abs (graph.relu ?x))" => "(graph.relu ?x)"),
    // The least integer is its own absolute value.
    rule!("drop-relu-of-abs", "(graph.relu (graph.abs ?x))" => "(graph.abs ?x)",
        if "(has-floats ?x)"),
    rule!("drop-relu-of-exp", "(graph.relu (graph.exp ?x))" => "(graph.exp ?x)"),
    rule!("drop-relu-of-sigmoid", "(graph.relu (graph.sigmoid ?x))" => "(graph.sigmoid ?x)"),
    rule!("clip-takes-relu-below", "(graph.clip (graph.relu ?x) {min = ?a, max = ?b})"
        => "(graph.clip ?x {min = (raise-low ?a 0), max = ?b})"),
    rule!("clip-takes-relu-above", "(graph.relu (graph.clip ?x {min = ?a, max = ?b}))"
        => "(graph.clip ?x {min = (raise-low ?a 0), max = (raise-high ?b 0)})"),
    rule!("merge-clips", "(graph.clip (graph.clip ?x {min = ?a, max = ?b}) {min = ?c, max = ?d})"
        => "(graph.clip ?x {min = (raise-low ?a ?c), max = (bound-high ?b ?c ?d)})"),
    rule!(equal "max-zero-is-relu", "(graph.max ?x:?T 0.0):?T" => "(graph.relu ?x)"),
    rule!(equal "relu-is-clip", "(graph.relu ?x)" => "(graph.clip ?x {min = 0.0})"),
    rule!(equal "clip-is-relu", "(graph.clip ?x {min = ?a, max = ?b})" => "(graph.relu ?x)",
        if "(is-zero ?a) (is-absent ?b)"),
    rule!("max-of-monotones", "(graph.max (?f:elementwise+monotone ?x:?T) (?f ?y:?T))"
        => "(?f (graph.max ?x ?y))"),
    rule!("min-of-monotones", "(graph.min (?f:elementwise+monotone ?x:?T) (?f ?y:?T))"
        => "(?f (graph.min ?x ?y))"),
    rule!("min-of-negs", "(graph.min (graph.neg ?x:?T) (graph.neg ?y:?T))"
        => "(graph.neg (graph.max ?x ?y))", if "(has-floats ?x)"),
    rule!("max-of-negs", "(graph.max (graph.neg ?x:?T) (graph.neg ?y:?T))"
        => "(graph.neg (graph.min ?x ?y))", if "(has-floats ?x)"),
    // Constants come together, where they fold; not where the one that they become is infinite, or
    // so small that it loses digits: applied one after the other they need not be.
    rule!(reassoc "gather-addends", "(graph.add (graph.add ?x #a) #b)"
        => "(graph.add ?x (graph.add #a #b))", if "(sum-is-finite ?a ?b) (varies ?x)"),
    rule!(reassoc "gather-addend-and-subtrahend", "(graph.sub (graph.add ?x #a) #b)"
        => "(graph.add ?x (graph.sub #a #b))", if "(sum-is-finite ?a ?b) (varies ?x)"),
    rule!(reassoc "gather-subtrahend-and-addend", "(graph.add (graph.sub ?x #a) #b)"
        => "(graph.add ?x (graph.sub #b #a))", if "(sum-is-finite ?a ?b) (varies ?x)"),
    rule!(reassoc "gather-subtrahends", "(graph.sub (graph.sub ?x #a) #b)"
        => "(graph.sub ?x (graph.add #a #b))", if "(sum-is-finite ?a ?b) (varies ?x)"),
    rule!(reassoc "gather-factors", "(graph.mul (graph.mul ?x #a) #b)"
        => "(graph.mul ?x (graph.mul #a #b))", if "(product-is-normal ?a ?b) (varies ?x)"),
    rule!("gather-constants", "(?f:broadcasts+associative (?f ?x #a) #b)"
        => "(?f ?x (?f #a #b))", if "(varies ?x)"),
    rule!(reassoc "gather-addend-across", "(graph.add (graph.add ?x #a) (graph.add ?y #b))"
        => "(graph.add (graph.add ?x ?y) (graph.add #a #b))", if "(sum-is-finite ?a ?b) (varies ?x) (varies ?y)"),
    // What commutes, associates and distributes.
    rule!(equal "commute", "(?f:broadcasts+commutative ?x ?y)" => "(?f ?y ?x)"),
    rule!(equal reassoc "associate-add", "(graph.add (graph.add ?x ?y) ?z)"
        => "(graph.add ?x (graph.add ?y ?z))", if "(sums-are-finite ?x ?y ?z)"),
    rule!(equal reassoc "associate-mul", "(graph.mul (graph.mul ?x ?y) ?z)"
        => "(graph.mul ?x (graph.mul ?y ?z))", if "(products-are-normal ?x ?y ?z)"),
    rule!(equal "associate", "(?f:broadcasts+associative (?f ?x ?y) ?z)" => "(?f ?x (?f ?y ?z))"),
    rule!(equal reassoc "sub-after-add", "(graph.sub (graph.add ?x ?y) ?z)"
        => "(graph.add ?x (graph.sub ?y ?z))", if "(sums-are-finite ?x ?y ?z)"),
    rule!(equal "sub-is-add-neg", "(graph.sub ?x ?y)" => "(graph.add ?x (graph.neg ?y))"),
    rule!(equal contract "div-by-constant-is-mul", "(graph.div ?x #c)"
        => "(graph.mul ?x (graph.reciprocal #c))", if "(reciprocal-is-normal ?c) (has-floats ?x)"),
    rule!(equal contract "square-is-mul", "(graph.pow ?x:?T 2.0):?T" => "(graph.mul ?x ?x)"),
    rule!(equal contract "square-root-is-power", "(graph.pow ?x:?T 0.5):?T" => "(graph.sqrt ?x)"),
    rule!(equal reassoc "distribute-mul", "(graph.mul ?x (?f:broadcasts+linear ?y ?z))"
        => "(?f (graph.mul ?x ?y) (graph.mul ?x ?z))"),
    rule!(reassoc "factor-out", "(?f:broadcasts+linear (graph.mul ?x ?y) (graph.mul ?x ?z))"
        => "(graph.mul ?x (?f ?y ?z))", if "(varies ?x)"),
    rule!(reassoc "factor-constant-out", "(?f:broadcasts+linear (graph.mul ?y #c) (graph.mul ?z #c))"
        => "(graph.mul (?f ?y ?z) #c)", if "(varies ?y) (varies ?z)"),
    rule!(reassoc "factor-quotient-out", "(?f:broadcasts+linear (graph.div ?x ?z) (graph.div ?y ?z))"
        => "(graph.div (?f ?x ?y) ?z)", if "(has-floats ?x) (varies ?x) (varies ?y)"),
    // Matrix products.
    rule!(equal reassoc "associate-matmul", "(graph.matmul (graph.matmul ?a ?b) ?c)"
        => "(graph.matmul ?a (graph.matmul ?b ?c))"),
    rule!(equal reassoc "associate-matmul-left", "(graph.matmul ?a (graph.matmul ?b ?c))"
        => "(graph.matmul (graph.matmul ?a ?b) ?c)"),
    rule!(reassoc "factor-left-matrix", "(?f:broadcasts+linear (graph.matmul ?a ?b) (graph.matmul ?a ?c))"
        => "(graph.matmul ?a (?f ?b ?c))", if "(varies ?a) (same-type ?b ?c)"),
    rule!(reassoc "factor-right-matrix", "(?f:broadcasts+linear (graph.matmul ?a ?c) (graph.matmul ?b ?c))"
        => "(graph.matmul (?f ?a ?b) ?c)", if "(varies ?c) (same-type ?a ?b)"),
    rule!(equal reassoc "distribute-matmul-left", "(graph.matmul ?a (?f:broadcasts+linear ?b ?c))"
        => "(?f (graph.matmul ?a ?b) (graph.matmul ?a ?c))", if "(same-type ?b ?c)"),
    rule!(equal reassoc "distribute-matmul-right", "(graph.matmul (?f:broadcasts+linear ?a ?b) ?c)"
        => "(?f (graph.matmul ?a ?c) (graph.matmul ?b ?c))", if "(same-type ?a ?b)"),
    rule!(reassoc "scale-columns", "(graph.mul (graph.matmul ?a #b) #s)"
        => "(graph.matmul ?a (graph.mul #b #s))", if "(product-is-finite ?b ?s) (varies ?a) (one-row ?s)"),
    rule!(reassoc "scale-rows", "(graph.mul (graph.matmul #a ?b) #s)"
        => "(graph.matmul (graph.mul #a #s) ?b)", if "(product-is-finite ?a ?s) (varies ?b) (one-column ?s)"),
    rule!(equal reassoc "scale-factor-of-matmul", "(graph.mul (graph.matmul ?a ?b) ?s)"
        => "(graph.matmul (graph.mul ?a ?s) ?b)", if "(one-column ?s)"),
    rule!(equal contract "gemm-of-matmul-and-add", "(graph.add (graph.matmul ?a ?b):?T ?c):?T"
        => "(graph.gemm ?a ?b ?c)", if "(has-rank ?a 2) (has-rank ?b 2)"),
    rule!(equal contract "matmul-and-add-of-gemm", "(graph.gemm ?a ?b ?c {trans_a = false, trans_b = false})"
        => "(graph.add (graph.matmul ?a ?b) ?c)"),
];
