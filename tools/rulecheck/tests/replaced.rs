//! Rules with variables for ops give every rule of single ops that they took the place of.

use std::collections::{BTreeMap, BTreeSet};

use tir::rewrite::{Class, Functions, Kind, Rule};
use tir::{RuleText, rule};

/// What was written of each operator of one operand, in turn.
const UNARY: &[(&str, &str)] = &[
    (
        "(F (graph.concat ?x ?y {axis = ?a}) A)",
        "(graph.concat (F ?x A) (F ?y A) {axis = ?a})",
    ),
    (
        "(graph.concat (F ?x A) (F ?y A) {axis = ?a})",
        "(F (graph.concat ?x ?y {axis = ?a}) A)",
    ),
    (
        "(F (graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s}) A)",
        "(graph.slice (F ?x A) {starts = ?b, sizes = ?n, steps = ?s})",
    ),
    (
        "(graph.slice (F ?x A) {starts = ?b, sizes = ?n, steps = ?s})",
        "(F (graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s}) A)",
    ),
    (
        "(F (graph.transpose ?x {perm = ?p}) A)",
        "(graph.transpose (F ?x A) {perm = ?p})",
    ),
    (
        "(graph.transpose (F ?x A) {perm = ?p})",
        "(F (graph.transpose ?x {perm = ?p}) A)",
    ),
    ("(F (graph.reshape ?x):?T A)", "(graph.reshape (F ?x A)):?T"),
    ("(graph.reshape (F ?x A)):?T", "(F (graph.reshape ?x):?T A)"),
];

/// Those operators, with the attributes that they have.
const OPS: &[(&str, &str)] = &[
    ("graph.relu", ""),
    ("graph.sigmoid", ""),
    ("graph.tanh", ""),
    ("graph.exp", ""),
    ("graph.sqrt", ""),
    ("graph.neg", ""),
    ("graph.abs", ""),
    ("graph.erf", ""),
    ("graph.clip", "{min = ?l, max = ?h}"),
];

/// What was written of pairs. That the result of `join-reshapes` has the type of its operands, as a
/// sum or product of them has, is said here as it is there: by a type of its own.
const PAIRS: &[RuleText] = &[
    rule!("drop-max-self", "(graph.max ?x ?x)" => "?x"),
    rule!("drop-min-self", "(graph.min ?x ?x)" => "?x"),
    rule!("max-of-relus", "(graph.max (graph.relu ?x:?T) (graph.relu ?y:?T))"
        => "(graph.relu (graph.max ?x ?y))"),
    rule!("min-of-relus", "(graph.min (graph.relu ?x:?T) (graph.relu ?y:?T))"
        => "(graph.relu (graph.min ?x ?y))"),
    rule!("gather-upper-bounds", "(graph.min (graph.min ?x #a) #b)"
        => "(graph.min ?x (graph.min #a #b))", if "(varies ?x)"),
    rule!("gather-lower-bounds", "(graph.max (graph.max ?x #a) #b)"
        => "(graph.max ?x (graph.max #a #b))", if "(varies ?x)"),
    rule!(equal "commute-add", "(graph.add ?x ?y)" => "(graph.add ?y ?x)"),
    rule!(equal "commute-mul", "(graph.mul ?x ?y)" => "(graph.mul ?y ?x)"),
    rule!(equal "commute-max", "(graph.max ?x ?y)" => "(graph.max ?y ?x)"),
    rule!(equal "commute-min", "(graph.min ?x ?y)" => "(graph.min ?y ?x)"),
    rule!(equal "associate-max", "(graph.max (graph.max ?x ?y) ?z)"
        => "(graph.max ?x (graph.max ?y ?z))"),
    rule!(equal "associate-min", "(graph.min (graph.min ?x ?y) ?z)"
        => "(graph.min ?x (graph.min ?y ?z))"),
    rule!(equal reassoc "distribute-mul-over-add", "(graph.mul ?x (graph.add ?y ?z))"
        => "(graph.add (graph.mul ?x ?y) (graph.mul ?x ?z))"),
    rule!(equal reassoc "distribute-mul-over-sub", "(graph.mul ?x (graph.sub ?y ?z))"
        => "(graph.sub (graph.mul ?x ?y) (graph.mul ?x ?z))"),
    rule!(reassoc "factor-out-of-add", "(graph.add (graph.mul ?x ?y) (graph.mul ?x ?z))"
        => "(graph.mul ?x (graph.add ?y ?z))", if "(varies ?x)"),
    rule!(reassoc "factor-out-of-sub", "(graph.sub (graph.mul ?x ?y) (graph.mul ?x ?z))"
        => "(graph.mul ?x (graph.sub ?y ?z))", if "(varies ?x)"),
    rule!(reassoc "factor-constant-out-of-add", "(graph.add (graph.mul ?y #c) (graph.mul ?z #c))"
        => "(graph.mul (graph.add ?y ?z) #c)", if "(varies ?y) (varies ?z)"),
    rule!(reassoc "factor-constant-out-of-sub", "(graph.sub (graph.mul ?y #c) (graph.mul ?z #c))"
        => "(graph.mul (graph.sub ?y ?z) #c)", if "(varies ?y) (varies ?z)"),
    rule!(reassoc "factor-sum-over-quotient", "(graph.add (graph.div ?x ?z) (graph.div ?y ?z))"
        => "(graph.div (graph.add ?x ?y) ?z)", if "(has-floats ?x) (varies ?x) (varies ?y)"),
    rule!(reassoc "factor-left-matrix", "(graph.add (graph.matmul ?a ?b) (graph.matmul ?a ?c))"
        => "(graph.matmul ?a (graph.add ?b ?c))", if "(varies ?a) (same-type ?b ?c)"),
    rule!(reassoc "factor-right-matrix", "(graph.add (graph.matmul ?a ?c) (graph.matmul ?b ?c))"
        => "(graph.matmul (graph.add ?a ?b) ?c)", if "(varies ?c) (same-type ?a ?b)"),
    rule!(equal reassoc "distribute-matmul-left", "(graph.matmul ?a (graph.add ?b ?c))"
        => "(graph.add (graph.matmul ?a ?b) (graph.matmul ?a ?c))", if "(same-type ?b ?c)"),
    rule!(equal reassoc "distribute-matmul-right", "(graph.matmul (graph.add ?a ?b) ?c)"
        => "(graph.add (graph.matmul ?a ?c) (graph.matmul ?b ?c))", if "(same-type ?a ?b)"),
    rule!(reassoc "factor-input-of-convs",
        "(graph.add (graph.conv2d ?x ?w {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}) \
            (graph.conv2d ?x ?v {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}))"
        => "(graph.conv2d ?x (graph.add ?w ?v) \
            {strides = ?s, pads = ?p, dilations = ?d, groups = ?g})",
        if "(varies ?x) (same-type ?w ?v)"),
    rule!(reassoc "factor-weights-of-convs",
        "(graph.add (graph.conv2d ?x ?w {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}) \
            (graph.conv2d ?y ?w {strides = ?s, pads = ?p, dilations = ?d, groups = ?g}))"
        => "(graph.conv2d (graph.add ?x ?y) ?w \
            {strides = ?s, pads = ?p, dilations = ?d, groups = ?g})",
        if "(varies ?x) (varies ?y) (same-type ?x ?y)"),
    rule!("drop-expand-of-addend", "(graph.add (graph.expand ?x) ?y):?T" => "(graph.add ?x ?y)",
        if "(broadcasts-to ?x ?y ?T)"),
    rule!("drop-expand-of-factor", "(graph.mul (graph.expand ?x) ?y):?T" => "(graph.mul ?x ?y)",
        if "(broadcasts-to ?x ?y ?T)"),
    rule!("drop-expand-of-minuend", "(graph.sub (graph.expand ?x) ?y):?T" => "(graph.sub ?x ?y)",
        if "(broadcasts-to ?x ?y ?T)"),
    rule!("drop-expand-of-subtrahend", "(graph.sub ?x (graph.expand ?y)):?T" => "(graph.sub ?x ?y)",
        if "(broadcasts-to ?x ?y ?T)"),
    rule!("drop-expand-of-divisor", "(graph.div ?x (graph.expand ?y)):?T" => "(graph.div ?x ?y)",
        if "(broadcasts-to ?x ?y ?T)"),
    rule!("join-transposes-of-add",
        "(graph.add (graph.transpose ?x {perm = ?p}) (graph.transpose ?y {perm = ?p}))"
        => "(graph.transpose (graph.add ?x ?y) {perm = ?p})", if "(varies ?x) (varies ?y)"),
    rule!("join-transposes-of-sub",
        "(graph.sub (graph.transpose ?x {perm = ?p}) (graph.transpose ?y {perm = ?p}))"
        => "(graph.transpose (graph.sub ?x ?y) {perm = ?p})", if "(varies ?x) (varies ?y)"),
    rule!("join-transposes-of-mul",
        "(graph.mul (graph.transpose ?x {perm = ?p}) (graph.transpose ?y {perm = ?p}))"
        => "(graph.transpose (graph.mul ?x ?y) {perm = ?p})", if "(varies ?x) (varies ?y)"),
    rule!("join-transposes-of-div",
        "(graph.div (graph.transpose ?x {perm = ?p}) (graph.transpose ?y {perm = ?p}))"
        => "(graph.transpose (graph.div ?x ?y) {perm = ?p})", if "(varies ?x) (varies ?y)"),
    rule!("join-reshapes-of-add",
        "(graph.add (graph.reshape ?x:?S):?T (graph.reshape ?y:?S):?T):?U"
        => "(graph.reshape (graph.add ?x ?y)):?U", if "(varies ?x) (varies ?y)"),
    rule!("join-reshapes-of-mul",
        "(graph.mul (graph.reshape ?x:?S):?T (graph.reshape ?y:?S):?T):?U"
        => "(graph.reshape (graph.mul ?x ?y)):?U", if "(varies ?x) (varies ?y)"),
    rule!(equal "transpose-out-of-add", "(graph.add (graph.transpose ?x {perm = ?p}) ?y)"
        => "(graph.transpose (graph.add ?x (graph.transpose ?y {perm = (inverse ?p)})) {perm = ?p})",
        if "(same-rank ?x ?y)"),
    rule!(equal "transpose-out-of-mul", "(graph.mul (graph.transpose ?x {perm = ?p}) ?y)"
        => "(graph.transpose (graph.mul ?x (graph.transpose ?y {perm = (inverse ?p)})) {perm = ?p})",
        if "(same-rank ?x ?y)"),
    rule!(equal "transpose-into-add", "(graph.transpose (graph.add ?x ?y) {perm = ?p})"
        => "(graph.add (graph.transpose ?x {perm = ?p}) (graph.transpose ?y {perm = ?p}))",
        if "(same-rank ?x ?y)"),
    rule!(equal "transpose-into-mul", "(graph.transpose (graph.mul ?x ?y) {perm = ?p})"
        => "(graph.mul (graph.transpose ?x {perm = ?p}) (graph.transpose ?y {perm = ?p}))",
        if "(same-rank ?x ?y)"),
    rule!(equal "split-concats-of-add",
        "(graph.add (graph.concat ?x ?y {axis = ?a}) (graph.concat ?v ?w {axis = ?a}))"
        => "(graph.concat (graph.add ?x ?v) (graph.add ?y ?w) {axis = ?a})",
        if "(same-type ?x ?v) (same-type ?y ?w)"),
    rule!(equal "split-concats-of-mul",
        "(graph.mul (graph.concat ?x ?y {axis = ?a}) (graph.concat ?v ?w {axis = ?a}))"
        => "(graph.concat (graph.mul ?x ?v) (graph.mul ?y ?w) {axis = ?a})",
        if "(same-type ?x ?v) (same-type ?y ?w)"),
    rule!(equal "concat-of-sums", "(graph.concat (graph.add ?x ?v) (graph.add ?y ?w) {axis = ?a})"
        => "(graph.add (graph.concat ?x ?y {axis = ?a}) (graph.concat ?v ?w {axis = ?a}))",
        if "(same-type ?x ?v) (same-type ?y ?w) (same-but ?x ?y ?a)"),
    rule!(equal "concat-of-products", "(graph.concat (graph.mul ?x ?v) (graph.mul ?y ?w) {axis = ?a})"
        => "(graph.mul (graph.concat ?x ?y {axis = ?a}) (graph.concat ?v ?w {axis = ?a}))",
        if "(same-type ?x ?v) (same-type ?y ?w) (same-but ?x ?y ?a)"),
    rule!("transpose-of-concat",
        "(graph.concat (graph.transpose ?x {perm = ?p}) (graph.transpose ?y {perm = ?p}) {axis = ?a})"
        => "(graph.transpose (graph.concat ?x ?y {axis = (at ?p ?a)}) {perm = ?p})",
        if "(varies ?x) (varies ?y)"),
    rule!(equal "max-pool-of-concat",
        "(graph.max_pool (graph.concat ?x ?y {axis = 1}) {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m})"
        => "(graph.concat \
            (graph.max_pool ?x {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m}) \
            (graph.max_pool ?y {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m}) {axis = 1})"),
    rule!("concat-of-max-pools",
        "(graph.concat \
            (graph.max_pool ?x {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m}) \
            (graph.max_pool ?y {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m}) {axis = 1})"
        => "(graph.max_pool (graph.concat ?x ?y {axis = 1}) {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m})",
        if "(varies ?x) (varies ?y) (same-but ?x ?y 1)"),
    rule!(equal "global-pool-of-concat", "(graph.global_avg_pool (graph.concat ?x ?y {axis = 1}))"
        => "(graph.concat (graph.global_avg_pool ?x) (graph.global_avg_pool ?y) {axis = 1})"),
    rule!(equal "concat-of-global-pools",
        "(graph.concat (graph.global_avg_pool ?x) (graph.global_avg_pool ?y) {axis = 1})"
        => "(graph.global_avg_pool (graph.concat ?x ?y {axis = 1}))", if "(same-but ?x ?y 1)"),
    rule!(equal "slice-of-sum", "(graph.slice (graph.add ?x:?T ?y:?T) {starts = ?b, sizes = ?n, steps = ?s})"
        => "(graph.add (graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s}) \
            (graph.slice ?y {starts = ?b, sizes = ?n, steps = ?s}))"),
    rule!(equal "slice-of-product", "(graph.slice (graph.mul ?x:?T ?y:?T) {starts = ?b, sizes = ?n, steps = ?s})"
        => "(graph.mul (graph.slice ?x {starts = ?b, sizes = ?n, steps = ?s}) \
            (graph.slice ?y {starts = ?b, sizes = ?n, steps = ?s}))"),
    rule!(equal "relu-into-max-pool",
        "(graph.relu (graph.max_pool ?x {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m}))"
        => "(graph.max_pool (graph.relu ?x) {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m})",
        if "(no-zero ?x) (has-inside ?k ?p ?d)"),
    rule!("relu-out-of-max-pool",
        "(graph.max_pool (graph.relu ?x) {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m}):?T"
        => "(graph.relu (graph.max_pool ?x {kernel = ?k, strides = ?s, pads = ?p, dilations = ?d, ceil_mode = ?m}))",
        if "(varies ?x) (no-zero ?x) (has-inside ?k ?p ?d) (has-fewer ?T ?x)"),
];

/// A rule without its name, with variables numbered in the order in which they stand there.
fn canonical(rule: &Rule) -> (bool, Class, String) {
    let text = rule.texts().join(" | ");
    let mut names: Vec<&str> = Vec::new();
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['?', '#']) {
        out += &rest[..=at];
        rest = &rest[at + 1..];
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
        let known = names.iter().position(|name| *name == &rest[..end]);
        out += &known.unwrap_or(names.len()).to_string();
        if known.is_none() {
            names.push(&rest[..end]);
        }
        rest = &rest[end..];
    }
    (rule.kind == Kind::Reduce, rule.class, out + rest)
}

fn known() -> (BTreeMap<(bool, Class, String), String>, Functions) {
    for dialect in [
        &tir_builtin::DIALECT,
        &tir_func::DIALECT,
        &tir_graph::DIALECT,
    ] {
        dialect.load();
    }
    let patterns = tir::rewrite::canonicalization().finish(&BTreeSet::new());
    let patterns = patterns.unwrap_or_else(|errors| panic!("{errors:?}"));
    let functions = patterns.functions().clone();
    let rules = patterns.rules().iter();
    let instances = rules.flat_map(|rule| rule.instances(&functions));
    let instances = instances.flat_map(|rule| [1, 2].map(|count| rule.with_lists(count)));
    let named = instances.map(|rule| (canonical(&rule), rule.name.to_string()));
    (named.collect(), functions)
}

#[test]
fn each_rule_of_single_ops_is_there() {
    let (known, functions) = known();
    let mut former: Vec<Rule> = PAIRS
        .iter()
        .map(|text| Rule::parse(text).unwrap())
        .collect();
    for (op, attrs) in OPS {
        for (left, right) in UNARY {
            let text = |side: &str| {
                let side = side.replace('F', op).replace(" A)", &format!(" {attrs})"));
                side.replace(" )", ")")
            };
            let [left, right] = [left, right].map(|side| tir::Name::new(&text(side)).as_str());
            let mut text = rule!(equal "unary", "" => "");
            (text.left, text.right) = (left, right);
            former.push(Rule::parse(&text).unwrap());
        }
    }
    assert_eq!(former.len(), PAIRS.len() + 72);
    for rule in &former {
        rule.check(&functions).unwrap();
        assert!(known.contains_key(&canonical(rule)), "{rule} is lost");
    }
}

#[test]
fn other_ops_of_a_class_take_part() {
    let (known, _) = known();
    for op in ["gelu", "leaky_relu", "hard_swish", "floor"] {
        let holds = |(_, _, text): &&(bool, Class, String)| text.contains(&format!("graph.{op} "));
        let rules: BTreeSet<&String> = known.keys().filter(holds).map(|key| &known[key]).collect();
        assert!(rules.len() >= 8, "{op}: {rules:?}");
    }
    // What is in no class does not.
    let text = |(_, _, text): &(bool, Class, String)| text.clone();
    assert!(
        !known
            .keys()
            .map(text)
            .any(|text| text.contains("(graph.softmax (graph.concat"))
    );
}
