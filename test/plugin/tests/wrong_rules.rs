//! A rule that is wrong is an error with its place in the source of the dialect.

use std::collections::BTreeSet;

use tir::rewrite::PatternSet;
use tir::{RuleText, rule};

/// What is said of a rule, after its file and line.
fn error(text: RuleText) -> String {
    tir_graph::DIALECT.load();
    fixed_point::DIALECT.load();
    let mut set = PatternSet::new();
    set.rule(text);
    let errors = set.finish(&BTreeSet::new()).err().unwrap_or_default();
    let [error] = &errors[..] else {
        panic!("expected one error, found {errors:?}");
    };
    let place = error.loc.to_string();
    assert!(place.contains("tests/wrong_rules.rs"), "{place}");
    let notes = error
        .notes
        .iter()
        .map(|note| format!(" | {}", note.message));
    error.message.clone() + &notes.collect::<String>()
}

#[test]
fn wrong_rules_are_placed() {
    let op = error(rule!("a", "(fixed.quantise ?x)" => "?x"));
    assert!(op.contains("unknown op 'fixed.quantise'"), "{op}");
    assert!(op.contains("did you mean 'fixed.quantize'?"), "{op}");
    let count = error(rule!("b", "(fixed.dequantize ?x ?y)" => "?x"));
    assert!(count.contains("has 1 operands, found 2"), "{count}");
    let guard = error(rule!("c", "(fixed.dequantize ?x)" => "?x", if "(fits ?x)"));
    assert!(guard.contains("unknown guard 'fits'"), "{guard}");
    let text = error(rule!("d", "(fixed.dequantize ?x" => "?x"));
    assert!(text.contains("of its left side"), "{text}");
}
