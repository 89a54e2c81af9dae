//! Wrong rules that the checker finds, and right ones that it does not call wrong.
//!
//! The rules lie in `test/bench/rules`, written from what the ops say of themselves: wrong ones, each with a line that says
//! why, mutants of rules of the dialects among them, and right ones that differ from a wrong one in a guard, an operand or a
//! class. That at least 95 % of the wrong ones are found is held by a test (`tools/rulecheck/tests/corpus.rs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tir_rulecheck::{Fault, Options, Tested, Verdict, check_all};
use wait4::Wait4;

/// Rules of one file, tested.
fn test(file: &Path, options: &Options) -> Result<Vec<Tested>, String> {
    let said = |errors: Vec<tir::Diagnostic>| {
        let messages = errors.iter().map(|e| e.message.as_str());
        messages.collect::<Vec<_>>().join("; ")
    };
    let set = tir::rule_file::rules_of([]).map_err(said)?;
    let functions = Arc::new(set.functions().clone());
    let rules = tir::rule_file::read_rules(&file.to_string_lossy(), &functions).map_err(said)?;
    let rules: Vec<_> = rules.into_iter().map(Arc::new).collect();
    Ok(check_all(&rules, &functions, options))
}

/// Processor time of `tir-opt --check-rules` on a file, or on all rules of the dialects.
fn time(file: Option<&Path>) -> Result<Duration, String> {
    let what = match file {
        Some(file) => format!("--check-rules={}", file.display()),
        None => "--check-rules".to_string(),
    };
    let mut child = Command::new(crate::tool("tir-opt"))
        .args([what.as_str(), "--threads", "1"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("tir-opt: {e}"))?;
    let used = child.wait4().map_err(|e| e.to_string())?;
    Ok(used.rusage.utime + used.rusage.stime)
}

fn files(kind: &str) -> Result<Vec<PathBuf>, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("rules")
        .join(kind);
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    Ok(files)
}

fn how(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Wrong { fault, .. } => match fault {
            Fault::Values(_) => "by value",
            Fault::Types(_) => "not built",
            Fault::Stops(_) => "stops",
            Fault::Measure(_) => "measure",
        },
        Verdict::Right => "missed",
        Verdict::Untested(_) => "untested",
    }
}

/// Tests all rules of the corpus and prints a line for each file, then what was missed.
///
/// # Errors
/// A file that cannot be read, or a right rule that is called wrong.
pub(crate) fn rules() -> Result<(), String> {
    for dialect in [
        &tir_builtin::DIALECT,
        &tir_builtin::rule::DIALECT,
        &tir_func::DIALECT,
        &tir_graph::DIALECT,
    ] {
        dialect.load();
    }
    let options = Options {
        shrink: false,
        ..Options::default()
    };
    // Where a right side that cannot be built counts as no instance, a rule is found by values alone.
    let by_values = Options {
        builds: false,
        ..options.clone()
    };
    println!(
        "wrong rules: how each is found; how many are found by values alone, not by types; attempts; processor time"
    );
    let mut sums: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut all, mut valued, mut missed) = (0, 0, Vec::new());
    for file in files("wrong")? {
        let tested = test(&file, &options)?;
        let others = test(&file, &by_values)?;
        let others = others
            .iter()
            .filter(|t| matches!(t.verdict, Verdict::Wrong { .. }))
            .count();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for rule in &tested {
            *counts.entry(how(&rule.verdict)).or_default() += 1;
            *sums.entry(how(&rule.verdict)).or_default() += 1;
            if !matches!(rule.verdict, Verdict::Wrong { .. }) {
                missed.push(format!("{}: {}", rule.name, how(&rule.verdict)));
            }
        }
        let tries: usize = tested.iter().map(|t| t.coverage.tries).sum();
        let counts: Vec<String> = counts.iter().map(|(how, n)| format!("{n} {how}")).collect();
        println!(
            "{:<18} {:>3} rules: {:<44} {others:>3} by values alone {tries:>6} attempts {:>5.1} s",
            file.file_stem().unwrap_or_default().to_string_lossy(),
            tested.len(),
            counts.join(", "),
            time(Some(&file))?.as_secs_f64(),
        );
        all += tested.len();
        valued += others;
    }
    let found = all - missed.len();
    let sums: Vec<String> = sums.iter().map(|(how, n)| format!("{n} {how}")).collect();
    println!(
        "{found} of {all} wrong rules found ({:.1} %, at least 95 wanted): {}; {valued} by values alone",
        100.0 * found as f64 / all as f64,
        sums.join(", ")
    );
    missed.iter().for_each(|line| println!("  {line}"));
    let mut wrong = Vec::new();
    let mut right = 0;
    for file in files("right")? {
        for rule in test(&file, &options)? {
            right += 1;
            if rule.verdict != Verdict::Right {
                wrong.push(format!("{}: {}", rule.name, how(&rule.verdict)));
            }
        }
    }
    println!(
        "{} of {right} right rules are called right",
        right - wrong.len()
    );
    println!(
        "rules of the dialects: {:.1} s of processor time",
        time(None)?.as_secs_f64()
    );
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("right rules: {}", wrong.join("; "))),
    }
}
