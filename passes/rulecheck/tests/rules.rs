//! Every rule of graph is right on the instances that its guards admit.

use std::collections::BTreeSet;
use std::sync::Arc;

use tir_rulecheck::{Options, Verdict, check_all, text};

#[test]
fn rules_of_graph() {
    for dialect in [
        &tir_builtin::DIALECT,
        &tir_func::DIALECT,
        &tir_arith::DIALECT,
        &tir_graph::DIALECT,
    ] {
        dialect.load();
    }
    let patterns = tir::rewrite::canonicalization().finish(&BTreeSet::new());
    let patterns = patterns.unwrap_or_else(|errors| panic!("{errors:?}"));
    let functions = Arc::new(patterns.functions().clone());
    let only = std::env::var("F_RULES").unwrap_or_default();
    let rules: Vec<_> = patterns
        .rules()
        .iter()
        .filter(|r| r.name.as_str().contains(&only))
        .cloned()
        .collect();
    let tested = check_all(&rules, &functions, &Options::default());
    let all = text(&tested);
    std::fs::write("/tmp/f-report.txt", &all).ok();
    let bad = tested.iter().filter(|t| t.verdict != Verdict::Right);
    assert_eq!(bad.count(), 0, "{all}");
}
