//! Mutants of the rules of graph are found to be wrong; `mutants.txt` lists each with its verdict.
//!
//! After a change of rules: `TIR_BLESS=1 cargo test --release -p tir-rulecheck --test mutants`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use tir::rewrite::Rule;
use tir_rulecheck::{Fault, Mutant, Options, Tested, Verdict, check_all, mutants};

/// Mutants of each rule and operator.
const PLACES: usize = 1;

/// Why some mutants are not found: as far as anybody can say they are right. They count as missed.
const ARGUED: &[(&str, &str)] = &[
    (
        "without guard has-numbers",
        "bounds of truth values are numbers too",
    ),
    (
        "without guard kernel-is",
        "zeros around a kernel of any size change nothing: the guard limits growth",
    ),
    (
        "guard kernel-is",
        "zeros around a kernel of any size change nothing",
    ),
    (
        "without guard steps-fit",
        "products of steps beyond 64 bits are not drawn",
    ),
    (
        "guard same-but",
        "other types are equal here: the rule applies less often",
    ),
    (
        "a type need not be T",
        "what the guards say makes the types equal",
    ),
    (
        "without guard same-type",
        "one pair of types is equal by what is concatenated",
    ),
    (
        "without guard has-rank",
        "the function of the type gives none for other ranks",
    ),
    (
        "any groups on the left",
        "weights of one input have one group by their type",
    ),
    (
        "a need not be the same",
        "the type of the part says that nothing else is in it",
    ),
    (
        "without guard varies",
        "the right side has an op less, whatever is constant",
    ),
];

fn verdict(mutant: &Mutant, tested: &Tested, base: &Rule) -> &'static str {
    match &tested.verdict {
        Verdict::Wrong { fault, .. } => match fault {
            Fault::Types(_) => "found: types",
            Fault::Values(_) => "found: values",
            Fault::Stops(_) => "found: stops",
            Fault::Measure(_) => "found: measure",
        },
        // Such a rule is refused as well.
        Verdict::Untested(_) if tested.coverage.instances == 0 => "found: never applies",
        _ if mutant.is_equivalent(base) => "equivalent",
        _ => "missed",
    }
}

#[test]
fn mutants_are_found() {
    for dialect in [
        &tir_builtin::DIALECT,
        &tir_func::DIALECT,
        &tir_graph::DIALECT,
    ] {
        dialect.load();
    }
    let patterns = tir::rewrite::canonicalization().finish(&BTreeSet::new());
    let patterns = patterns.unwrap_or_else(|errors| panic!("{errors:?}"));
    let functions = Arc::new(patterns.functions().clone());
    let rules = patterns.rules();
    let shipped: BTreeMap<&str, &Arc<Rule>> = rules.iter().map(|r| (r.name.as_str(), r)).collect();
    let all = rules.iter().flat_map(|rule| mutants(rule, PLACES));
    // What names an attribute that an op has not is refused when it is read.
    let all: Vec<Mutant> = all.filter(|m| m.rule.check(&functions).is_ok()).collect();
    let rules: Vec<Arc<Rule>> = all.iter().map(|m| Arc::new(m.rule.clone())).collect();
    let options = Options {
        shrink: false,
        ..Options::default()
    };
    let tested = check_all(&rules, &functions, &options);

    let (mut found, mut equivalent, mut lines) = (0, 0, String::new());
    for (mutant, tested) in all.iter().zip(&tested) {
        let verdict = verdict(mutant, tested, shipped[mutant.base.as_str()]);
        found += usize::from(verdict.starts_with("found"));
        equivalent += usize::from(verdict == "equivalent");
        let argued = ARGUED
            .iter()
            .find(|(change, _)| mutant.change.contains(change));
        let why = match argued.filter(|_| verdict == "missed") {
            Some((_, why)) => format!(" ({why})"),
            None => String::new(),
        };
        let (name, change) = (mutant.rule.name, &mutant.change);
        lines += &format!("{verdict} | {name} | {change}{why}\n");
    }
    let counted = all.len() - equivalent;
    let list = format!(
        "# Mutants of the rules of graph: verdict, name (rule/operator), change.\n\
         # {found} of {counted} found; {equivalent} are the same rule by their text.\n{lines}"
    );
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mutants.txt");
    if std::env::var_os("TIR_BLESS").is_some() {
        std::fs::write(&file, &list).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    }
    let missed: Vec<&str> = lines.lines().filter(|l| l.starts_with("missed")).collect();
    assert!(counted >= 100, "{counted} mutants");
    assert!(
        found * 100 >= counted * 95,
        "{found} of {counted} found, missed:\n{}",
        missed.join("\n")
    );
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    let stored: BTreeSet<&str> = stored.lines().collect();
    let made: BTreeSet<&str> = list.lines().collect();
    let gone: Vec<&&str> = stored.difference(&made).collect();
    let new: Vec<&&str> = made.difference(&stored).collect();
    assert!(
        gone.is_empty() && new.is_empty(),
        "tests/mutants.txt is not up to date (TIR_BLESS=1 writes it)\ngone: {gone:#?}\nnew: {new:#?}"
    );
}
