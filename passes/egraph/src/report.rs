//! What the pass tells people: sizes, rules, costs.

use std::collections::BTreeMap;
use std::fmt::Write;

use tir::{Ir, Value};

use crate::build::Program;
use crate::extract::Extracted;
use crate::graph::Graph;
use crate::matching::Compiled;
use crate::proof::explain::Proof;
use crate::saturate::{Outcome, Stop, fired};

/// The report of `print`.
pub fn text(
    ir: &Ir,
    graph: &Graph,
    program: &Program,
    rules: &[Compiled],
    outcome: &Outcome,
    extracted: &Extracted,
) -> String {
    let mut out = String::new();
    let why = match outcome.stop {
        Stop::Saturated => "saturated",
        Stop::Iterations => "stopped by the limit on iterations",
        Stop::Nodes => "stopped by the limit on e-nodes",
    };
    let (classes, nodes) = (graph.number_of_classes(), graph.total_number_of_nodes());
    let rounds = outcome.iterations;
    let s = if rounds == 1 { "" } else { "s" };
    let _ = writeln!(
        out,
        "e-graph: {classes} classes, {nodes} nodes, {why} after {rounds} iteration{s}"
    );
    for (name, fired) in fired(rules, outcome) {
        let _ = write!(
            out,
            "  {name}: {} matches, {} united",
            fired.matches, fired.united
        );
        if fired.untyped > 0 {
            let _ = write!(out, ", {} not well typed", fired.untyped);
        }
        if fired.banned > 0 {
            let _ = write!(out, ", banned {} times", fired.banned);
        }
        out.push('\n');
    }
    if outcome.folded > 0 {
        let _ = writeln!(out, "  fold: {} united", outcome.folded);
    }
    let Extracted {
        before,
        after,
        bound,
        ..
    } = extracted;
    let _ = writeln!(
        out,
        "cost: {before} cycles before, {after} after, no program below {bound:.0}"
    );
    let greedy = extracted.seeds.iter().flatten().copied();
    if let Some(greedy) = greedy.min_by(f64::total_cmp) {
        let _ = writeln!(out, "greedy: {greedy} cycles");
    }
    for ((value, _), (before, after)) in program.roots.iter().zip(&extracted.roots) {
        let name = name(ir, *value);
        let _ = writeln!(out, "  {name}: {before} before, {after} after");
    }
    out
}

/// Why the chosen program equals the input: rules and what else a proof has, with the number of steps.
pub fn reasons(rules: &[Compiled], proof: &Proof) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for step in &proof.steps {
        *counts.entry(step.reason.text(rules)).or_default() += 1;
    }
    counts
}

/// The rule that a reason is.
pub fn rule_of(reason: &str) -> Option<&str> {
    reason.strip_prefix("rule ")
}

/// What a value is called in a report.
pub fn name(ir: &Ir, value: Value) -> String {
    match (ir.hint(value), ir.owner(value)) {
        (Some(hint), _) => format!("%{hint}"),
        (None, Some(op)) => match ir.loc(op).place() {
            Some((_, line, _)) => format!("'{}' of line {line}", ir.name(op)),
            None => format!("'{}'", ir.name(op)),
        },
        (None, None) => "an argument".to_string(),
    }
}
