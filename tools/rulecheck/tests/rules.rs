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
    let tested = check_all(patterns.rules(), &functions, &Options::default());
    let all = text(&tested);
    let bad = tested.iter().filter(|t| t.verdict != Verdict::Right);
    assert_eq!(bad.count(), 0, "{all}");
}
