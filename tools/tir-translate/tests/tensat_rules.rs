//! tensat's published rules, each with the verdict of the checker: `test/e2e/tensat/verdicts.md`.
//!
//! A run tries less than what the table was made with. Written anew, which takes minutes, with `TIR_BLESS=1 cargo test --release -p tir-translate --test tensat_rules`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tir::rewrite::{Functions, Rule};
use tir_rulecheck::{Fault, Options, Tested, Verdict, check_all};
use tir_translate::{RuleOptions, import_tensat_rule_text, import_tensat_rules};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/e2e/tensat")
}

/// The rules of a file, through their text as `.tir`.
fn rules(file: &str, options: RuleOptions, functions: &Functions) -> Vec<Arc<Rule>> {
    let module = import_tensat_rules(&folder().join(file), options);
    let module = module.unwrap_or_else(|errors| panic!("{file}: {errors:?}"));
    let text = tir_text::print(&module, &tir_text::PrintOptions::default());
    let rules = tir::rule_file::parse_rules(&text, file, functions);
    let rules = rules.unwrap_or_else(|errors| panic!("{file}: {errors:?}"));
    rules.into_iter().map(Arc::new).collect()
}

fn verdict(tested: &Tested) -> String {
    match &tested.verdict {
        Verdict::Right => "right".to_string(),
        Verdict::Wrong { fault, .. } => match fault {
            Fault::Types(_) => "not there".to_string(),
            _ => "wrong".to_string(),
        },
        Verdict::Untested(why) => format!("untested: {why}"),
    }
}

/// The smallest counterexample in a line.
fn shown(tested: &Tested) -> String {
    match &tested.verdict {
        Verdict::Wrong {
            fault, instance, ..
        } => format!("{} ({fault})", instance.replace("tensor", "")),
        _ => String::new(),
    }
}

/// The verdicts with less to be right on: what was right stays so, and (with `final_values`) what has
/// other values.
fn again(
    before: &[Tested],
    rules: &[Arc<Rule>],
    functions: &Arc<Functions>,
    options: &Options,
    final_values: bool,
) -> Vec<Tested> {
    let is_right =
        |t: &Tested| t.verdict == Verdict::Right || final_values && verdict(t) == "wrong";
    let pairs = before.iter().zip(rules);
    let open: Vec<Arc<Rule>> = pairs
        .filter(|(t, _)| !is_right(t))
        .map(|(_, r)| r.clone())
        .collect();
    let mut tested = check_all(&open, functions, options).into_iter();
    let keep = |t: &Tested| match is_right(t) {
        true => Some(t.clone()),
        false => tested.next(),
    };
    before.iter().filter_map(keep).collect()
}

/// How much is tried for the columns of the table: each leaves more out, so that what is left open
/// is rarer.
fn amounts(long: bool) -> [Options; 3] {
    let amount = |instances, tries, builds| Options {
        instances,
        tries,
        builds,
        least: 4,
        shrink: long,
        ..Options::default()
    };
    match long {
        true => [
            amount(40, 8000, true),
            amount(600, 60_000, false),
            amount(2000, 200_000, false),
        ],
        false => [
            amount(16, 6000, true),
            amount(100, 10_000, false),
            amount(48, 6000, false),
        ],
    }
}

const VERDICTS: [&str; 3] = ["right", "not there", "wrong"];

/// The rows of the table: name, verdicts by [`VERDICTS`], counterexample.
fn rows(amounts: &[Options; 3]) -> Vec<(String, [usize; 3], String)> {
    tir_translate::load_dialects();
    let functions = Arc::new(tir::rewrite::canonicalization().functions().clone());
    let mut rows = Vec::new();
    for (file, roots) in [("converted.txt", 1), ("converted_multi.txt", 2)] {
        let read = |same_types| rules(file, RuleOptions { roots, same_types }, &functions);
        let (any, same) = (read(false), read(true));
        let first = check_all(&any, &functions, &amounts[0]);
        let second = again(&first, &any, &functions, &amounts[1], true);
        let third = again(&second, &same, &functions, &amounts[2], false);
        for (i, rule) in any.iter().enumerate() {
            let tested = [&first[i], &second[i], &third[i]];
            let verdicts = tested.map(|tested| {
                let verdict = verdict(tested);
                let at = VERDICTS.iter().position(|v| *v == verdict);
                // A rule that cannot be tested is an error of the importer.
                at.unwrap_or_else(|| panic!("{}: {verdict}", tested.rule))
            });
            let shown = tested.map(shown).into_iter().rev();
            let example = shown.into_iter().find(|text| !text.is_empty());
            rows.push((rule.name.to_string(), verdicts, example.unwrap_or_default()));
        }
    }
    rows
}

/// The table as it is stored: names and verdicts.
fn stored(page: &str) -> Vec<(String, [usize; 3])> {
    let rows = page.lines().filter(|line| line.starts_with("| converted"));
    let cells = rows.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let place = |cell: &str| {
        VERDICTS
            .iter()
            .position(|v| *v == cell)
            .unwrap_or(usize::MAX)
    };
    let row = |cells: Vec<&str>| (cells[1].to_string(), [2, 3, 4].map(|i| place(cells[i])));
    cells.map(row).collect()
}

#[test]
fn verdicts() {
    let file = folder().join("verdicts.md");
    let bless = std::env::var_os("TIR_BLESS").is_some();
    let rows = rows(&amounts(bless));
    if bless {
        std::fs::write(&file, page(&rows)).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    }
    let stored = stored(&std::fs::read_to_string(&file).unwrap_or_default());
    let names: Vec<&String> = rows.iter().map(|row| &row.0).collect();
    let listed: Vec<&String> = stored.iter().map(|row| &row.0).collect();
    assert_eq!(
        names, listed,
        "verdicts.md lists other rules (TIR_BLESS=1 writes it)"
    );
    // A short run finds less, never something else.
    let (mut bad, mut found) = (0, 0);
    for ((name, now, example), (_, then)) in rows.iter().zip(&stored) {
        for k in 0..3 {
            // Which of several faults is found first may differ.
            let fits = now[k] == 0 || then[k] > 0;
            assert!(fits, "{name}: {} was right: {example}", VERDICTS[now[k]]);
            bad += usize::from(then[k] > 0);
            found += usize::from(now[k] > 0);
        }
    }
    assert!(
        found * 10 >= bad * 8,
        "{found} of {bad} verdicts that are not right were found"
    );
}

fn page(rows: &[(String, [usize; 3], String)]) -> String {
    let mut lines = String::new();
    for (name, verdicts, example) in rows {
        let [a, b, c] = verdicts.map(|v| VERDICTS[v]);
        lines += &format!("| {name} | {a} | {b} | {c} | {example} |\n");
    }
    let sums = [0, 1, 2].map(|column| {
        let [right, absent, wrong] =
            [0, 1, 2].map(|v| rows.iter().filter(|row| row.1[column] == v).count());
        format!("{right} right, {absent} not there, {wrong} wrong")
    });
    format!(
        "{HEAD}\nOf {} rules: as they are {}; where shapes are checked {}; and where nothing is \
         broadcast {}.\n\n| Rule | as it is | shapes checked | nothing broadcast | smallest \
         counterexample of the last verdict that is not right |\n|---|---|---|---|---|\n{lines}",
        rows.len(),
        sums[0],
        sums[1],
        sums[2]
    )
}

const HEAD: &str = "\
# Verdicts on tensat's rules

The rules of `converted.txt` (one root, named by line) and `converted_multi.txt` (two roots on two
lines), imported by `tir-translate --import-tensat-rules` and tested as our own are: on random
shapes, groups and kernels, values exact. *Right*: both sides agree wherever the left side is.
*Not there*: on some shapes the right side is no program. *Wrong*: there are shapes on which both
sides have different values.

The second column leaves out instances on which the right side cannot be built: a user who checks
shapes, as tensat does. The third leaves out those that broadcast operands of elementwise ops too.
";

#[test]
fn errors_are_placed() {
    let error = |text: &str, roots| {
        let options = RuleOptions {
            roots,
            same_types: false,
        };
        let errors = import_tensat_rule_text("x.txt", text, options)
            .err()
            .unwrap_or_default();
        let [error] = &errors[..] else {
            panic!("expected one error, found {errors:?}");
        };
        format!("{} {}", error.loc, error.message)
    };
    let op = error("(relu ?a)=>(relu ?a)\n(enlarge ?a)=>?a", 1);
    assert!(
        op.contains("\"x.txt\":2:1") && op.contains("'enlarge' with 1 operands"),
        "{op}"
    );
    assert!(error("(relu ?a)", 1).contains("expected 'left=>right'"));
    assert!(error("(relu ?a=>?a", 1).contains("found the end"));
    assert!(error("(relu ?a)=>?a", 2).contains("has 1 lines, expected 2"));
    assert!(error("(matmul 7 ?a ?b)=>?a", 1).contains("activation 7"));
    assert!(error("(conv2d 1 1 3 0 ?a ?b)=>?a", 1).contains("padding mode 3"));
}
