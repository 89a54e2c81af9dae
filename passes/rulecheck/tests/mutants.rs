//! Mutants of the rules of graph, listed in `mutants.tir`, are found to be wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tir_rulecheck::{Options, Verdict, check_all};

/// Mutants that are as right as the rule, each with the reason.
const EQUIVALENT: &str = include_str!("equivalent.txt");

#[test]
fn mutants_are_found() {
    for dialect in [
        &tir_builtin::DIALECT,
        &tir_func::DIALECT,
        &tir_graph::DIALECT,
        &tir_rule::DIALECT,
    ] {
        dialect.load();
    }
    let set = tir::rewrite::canonicalization();
    let functions = Arc::new(set.functions().clone());
    let text = include_str!("mutants.tir");
    let rules = tir::rule_file::parse_rules(text, "mutants.tir", &functions);
    let rules = rules.unwrap_or_else(|errors| panic!("{errors:?}"));
    let rules: Vec<_> = rules.into_iter().map(Arc::new).collect();
    let shipped = set.finish(&BTreeSet::new()).unwrap_or_else(|e| panic!("{e:?}"));
    let texts = shipped.rules().iter().map(|rule| rule.texts());
    let texts: BTreeSet<[String; 3]> = texts.collect();
    let equivalent: BTreeMap<&str, &str> = EQUIVALENT
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(": "))
        .collect();
    for name in equivalent.keys() {
        assert!(rules.iter().any(|r| r.name == **name), "there is no mutant {name}");
    }
    let options = Options {
        shrink: false,
        ..Options::default()
    };
    let tested = check_all(&rules, &functions, &options);
    let (mut counted, mut found, mut missed) = (0, 0, String::new());
    for (rule, tested) in rules.iter().zip(&tested) {
        assert!(!texts.contains(&rule.texts()), "{} is no mutant", rule.name);
        let wrong = matches!(tested.verdict, Verdict::Wrong { .. });
        if equivalent.contains_key(rule.name.as_str()) {
            assert!(!wrong, "{} is wrong: it is listed as equivalent", rule.name);
            continue;
        }
        counted += 1;
        found += usize::from(wrong);
        if !wrong {
            missed += &format!("{rule}\n  {:?}\n", tested.verdict);
        }
    }
    println!("{found} of {counted} mutants found, {} equivalent", equivalent.len());
    assert!(counted >= 100, "{counted} mutants");
    assert!(found * 100 >= counted * 95, "{found} of {counted} found, missed:\n{missed}");
}
