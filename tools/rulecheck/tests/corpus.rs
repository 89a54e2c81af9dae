//! Rules written by hand, wrong and right, are told apart: `test/bench/rules`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tir::rewrite::Rule;
use tir_rulecheck::{Fault, Options, Tested, Verdict, check_all, text};

fn files(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/bench/rules");
    let entries = std::fs::read_dir(folder.join(kind)).unwrap().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

fn tested(kind: &str) -> Vec<Tested> {
    for dialect in [
        &tir_builtin::DIALECT,
        &tir_builtin::rule::DIALECT,
        &tir_func::DIALECT,
        &tir_graph::DIALECT,
    ] {
        dialect.load();
    }
    let set = tir::rule_file::rules_of([]).unwrap();
    let functions = Arc::new(set.functions().clone());
    let read = |file: PathBuf| {
        let rules = tir::rule_file::read_rules(&file.to_string_lossy(), &functions);
        rules.unwrap_or_else(|errors| panic!("{}: {errors:?}", file.display()))
    };
    let rules = files(kind).into_iter().flat_map(read);
    let rules: Vec<Arc<Rule>> = rules.map(Arc::new).collect();
    let options = Options {
        shrink: false,
        ..Options::default()
    };
    check_all(&rules, &functions, &options)
}

/// A rule is found by what it computes, or as its right side cannot be built: that a measure does not
/// fall would say nothing of whether it is true.
fn is_found(tested: &Tested) -> bool {
    match &tested.verdict {
        Verdict::Wrong { fault, .. } => !matches!(fault, Fault::Measure(_)),
        _ => false,
    }
}

#[test]
fn wrong_rules_are_found() {
    let all = tested("wrong");
    let missed: Vec<Tested> = all.iter().filter(|t| !is_found(t)).cloned().collect();
    let found = all.len() - missed.len();
    assert!(all.len() >= 150, "{} wrong rules", all.len());
    assert!(
        found * 100 >= all.len() * 95,
        "{found} of {} found, missed:\n{}",
        all.len(),
        text(&missed)
    );
    let untested: Vec<&Tested> = all
        .iter()
        .filter(|t| matches!(t.verdict, Verdict::Untested(_)))
        .collect();
    assert!(untested.is_empty(), "{untested:?}");
}

#[test]
fn right_rules_are_not_called_wrong() {
    let all = tested("right");
    assert!(all.len() >= 50, "{} right rules", all.len());
    let wrong: Vec<Tested> = all
        .into_iter()
        .filter(|t| t.verdict != Verdict::Right)
        .collect();
    assert!(wrong.is_empty(), "{}", text(&wrong));
}

#[test]
fn every_wrong_rule_says_why() {
    for file in files("wrong") {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let says = |before: usize| lines[before].starts_with("// ");
            assert!(
                !line.starts_with("rule.") || (i > 0 && says(i - 1)),
                "{}:{}: says not why it is wrong",
                file.display(),
                i + 1
            );
        }
    }
}
