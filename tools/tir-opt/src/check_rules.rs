//! `--check-rules`: tests rules on random instances, and says what it found.

use std::sync::Arc;

use tir::{Diagnostic, Sources};
use tir_rulecheck::Verdict;

use crate::{Options, Outcome, render};

/// What `--check-rules` asks for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckRules {
    /// Only the rules of these files; if there are none, those of all dialects and of `--rules`.
    pub files: Vec<String>,
    /// Only rules of these names; if there are none, all.
    pub only: Vec<String>,
    /// Whether the answer is JSON.
    pub json: bool,
    /// Instances of each rule.
    pub instances: usize,
    /// Attempts for each rule.
    pub tries: usize,
    /// The seed.
    pub seed: u64,
    /// Element types to draw besides those that are built in.
    pub types: Vec<String>,
}

/// Tests the rules that the options name. The code is 1 if one is wrong or untested.
pub(crate) fn check_rules(what: &CheckRules, options: &Options, color: bool) -> Outcome {
    match check(what, options) {
        Ok((stdout, right)) => Outcome {
            code: u8::from(!right),
            stdout: stdout.into_bytes(),
            ..Outcome::default()
        },
        Err(errors) => Outcome {
            code: 1,
            stderr: render(
                &sources(options.rule_files.iter().chain(&what.files)),
                &errors,
                color,
            ),
            ..Outcome::default()
        },
    }
}

/// The texts of files of rules, as far as they can be read, to show errors in.
pub(crate) fn sources<'a>(files: impl Iterator<Item = &'a String>) -> Sources {
    let mut sources = Sources::default();
    for file in files {
        if let Ok(text) = std::fs::read_to_string(file) {
            sources.add(tir::Name::new(file), text);
        }
    }
    sources
}

fn check(what: &CheckRules, options: &Options) -> Result<(String, bool), Vec<Diagnostic>> {
    let disabled = options.disabled_rules.iter().cloned().collect();
    let set = tir::rule_file::rules_of(&options.rule_files)?;
    let functions = Arc::new(set.functions().clone());
    let mut rules = if what.files.is_empty() {
        set.finish(&disabled)?.rules().to_vec()
    } else {
        let mut rules = Vec::new();
        for file in &what.files {
            rules.extend(tir::rule_file::read_rules(file, &functions)?);
        }
        rules.retain(|rule| !disabled.contains(rule.name.as_str()));
        rules.into_iter().map(Arc::new).collect()
    };
    for name in &what.only {
        if !rules.iter().any(|rule| rule.name == *name.as_str()) {
            let names = rules.iter().map(|rule| rule.name.as_str());
            let error = Diagnostic::error(format!("there is no rule '{name}'"));
            return Err(vec![match tir::closest(name, names) {
                Some(near) => error.note(format!("did you mean '{near}'?")),
                None => error,
            }]);
        }
    }
    if !what.only.is_empty() {
        rules.retain(|rule| what.only.iter().any(|name| rule.name == *name.as_str()));
    }
    let types = what.types.iter().map(|text| tir::parse_type(text));
    let types = types
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| vec![error])?;
    let amount = tir_rulecheck::Options {
        types,
        instances: what.instances,
        least: tir_rulecheck::Options::default().least.min(what.instances),
        tries: what.tries,
        seed: what.seed,
        threads: options.threads,
        ..tir_rulecheck::Options::default()
    };
    let tested = tir_rulecheck::check_all(&rules, &functions, &amount);
    let right = tested.iter().all(|t| t.verdict == Verdict::Right);
    let text = match what.json {
        true => tir_rulecheck::json(&tested),
        false => tir_rulecheck::text(&tested),
    };
    Ok((text, right))
}
