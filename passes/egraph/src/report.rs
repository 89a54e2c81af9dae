//! What the pass tells people: sizes, rules, costs.

use std::collections::BTreeMap;
use std::fmt::Write;

use tir::{Ir, Value};

use crate::build::Program;
use crate::extract::Extracted;
use crate::graph::Graph;
use crate::groups::Chosen;
use crate::matching::Compiled;
use crate::optimize::Saturated;
use crate::proof::explain::Proof;
use crate::saturate::{Outcome, Stop, fired};

/// The size of an e-graph, and why it grows no more.
fn size(graph: &Graph, outcome: &Outcome) -> String {
    let why = match outcome.stop {
        Stop::Saturated => "saturated",
        Stop::Iterations => "stopped by the limit on iterations",
        Stop::Nodes => "stopped by the limit on e-nodes",
    };
    let (classes, nodes) = (graph.number_of_classes(), graph.total_number_of_nodes());
    let rounds = outcome.iterations;
    let s = if rounds == 1 { "" } else { "s" };
    format!("e-graph: {classes} classes, {nodes} nodes, {why} after {rounds} iteration{s}\n")
}

/// The report of `print` where groups are chosen.
pub fn groups(found: &Saturated, chosen: &Chosen) -> String {
    let mut out = size(&found.graph, &found.outcome);
    let [groups, planned, rounds] = chosen.counts;
    let _ = write!(
        out,
        "groups: {groups} to choose from, {planned} different ones planned in {rounds} extractions"
    );
    if let Some((option, _)) = chosen.limit {
        let _ = write!(out, ", stopped by the limit on {option}");
    }
    let Chosen { cycles, bound, .. } = chosen;
    let _ = write!(
        out,
        "\ncycles of the groups chosen, each by itself: {cycles:.0}"
    );
    if let Some(bound) = bound {
        let _ = write!(out, ", bound {bound:.0}");
        if chosen.below > 0 {
            let _ = write!(out, ", which is none: {} groups took less", chosen.below);
        }
    }
    out
}

/// The report of `print`.
pub fn text(
    ir: &Ir,
    graph: &Graph,
    program: &Program,
    rules: &[Compiled],
    outcome: &Outcome,
    extracted: &Extracted,
) -> String {
    let mut out = size(graph, outcome);
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
        if fired.cut_off > 0 {
            let _ = write!(
                out,
                ", stopped by the limit on tries {} times",
                fired.cut_off
            );
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
        bytes: [moved, moves],
        ..
    } = extracted;
    let _ = writeln!(
        out,
        "cost: {before} cycles before, {after} after, no program below {bound:.0}"
    );
    let _ = writeln!(out, "moved: {moved} bytes before, {moves} after");
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

/// What rules bring: for each reason of the chosen program its steps, and for a rule what the program costs that is found
/// without it, if it was looked for.
pub fn brought(
    chosen: &Extracted,
    reasons: &BTreeMap<String, usize>,
    without: &BTreeMap<String, (f64, u64)>,
    limit: Option<(&str, usize)>,
) -> String {
    let mut out = String::new();
    for (name, steps) in reasons {
        let s = if *steps == 1 { "" } else { "s" };
        let _ = write!(out, "chosen by {name}: {steps} step{s}");
        match (without.get(name), limit) {
            (Some((cycles, bytes)), _) => {
                let brings = cycles - chosen.after;
                let moves = i128::from(*bytes) - i128::from(chosen.bytes[1]);
                let _ = write!(
                    out,
                    ", brings {brings} cycles and {moves} bytes: {cycles} and {bytes} without it"
                );
            }
            (None, Some((option, limit))) if rule_of(name).is_some() => {
                let _ = write!(out, ", not looked for without it: {option}={limit}");
            }
            _ => {}
        }
        out.push('\n');
    }
    out
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
