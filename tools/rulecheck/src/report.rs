//! Verdicts as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::instance::Fault;
use crate::plan::{Operand, Plan};
use crate::{Coverage, Tested, Verdict};

/// An instance on one line: types of the leaves, and what ops say besides their defaults.
pub(crate) fn instance(plan: &Plan) -> String {
    let mut parts = Vec::new();
    for leaf in &plan.leaves {
        parts.push(format!("{}: {}", leaf.name, leaf.ty));
    }
    for node in &plan.nodes {
        let mut said = Vec::new();
        for (name, slot) in &node.attrs {
            let field = node.name.info().and_then(|info| info.field(name));
            let default = field.and_then(|f| f.default);
            if let Some(attr) = plan.attrs[*slot].filter(|a| Some(*a) != default) {
                said.push(format!("{name} = {attr}"));
            }
        }
        said.extend(node.said.iter().map(|ty| format!("to {ty}")));
        if !said.is_empty() {
            let operands = node.operands.iter().map(|o| match o {
                Operand::Leaf(i) => plan.leaves[*i].name.to_string(),
                Operand::Node(..) => "..".to_string(),
            });
            let operands: Vec<String> = operands.collect();
            parts.push(format!(
                "{}({}) {{{}}}",
                node.name,
                operands.join(", "),
                said.join(", ")
            ));
        }
    }
    parts.join("; ")
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Types(why) => write!(f, "the right side cannot be built: {why}"),
            Fault::Values(why) => f.write_str(why),
            Fault::Stops(why) => write!(f, "the right side does not run: {why}"),
            Fault::Measure(why) => write!(f, "the measure does not fall: {why}"),
        }
    }
}

impl std::fmt::Display for Coverage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ranks: Vec<String> = self.ranks.keys().map(usize::to_string).collect();
        let elems: Vec<&str> = self.elems.keys().map(String::as_str).collect();
        write!(
            f,
            "{} instances (ranks {}; dims to {}, {} with unit, {} with zero dims{}; {}); \
             {} tries, {} built",
            self.instances,
            ranks.join(" "),
            self.largest,
            self.unit,
            self.empty,
            match self.vacant {
                0 => String::new(),
                vacant => format!(", {vacant} without elements"),
            },
            elems.join(" "),
            self.tries,
            self.built
        )?;
        if self.ops.is_empty() {
            return Ok(());
        }
        let ops: Vec<&str> = self.ops.keys().map(String::as_str).collect();
        write!(f, ", with {}", ops.join(" "))
    }
}

/// A line for each rule, counterexamples below it, and the sums.
pub fn text(all: &[Tested]) -> String {
    let mut text = String::new();
    let [mut right, mut wrong, mut untested] = [0; 3];
    for tested in all {
        let name = &tested.name;
        match &tested.verdict {
            Verdict::Right => {
                right += 1;
                let _ = writeln!(
                    text,
                    "{name}: right on {}, {}",
                    tested.coverage,
                    tested.class.keyword()
                );
            }
            Verdict::Wrong {
                fault,
                instance,
                program,
            } => {
                wrong += 1;
                let _ = writeln!(
                    text,
                    "{name}: WRONG: {fault}\n  {}, {}{}\n  {instance}",
                    tested.rule,
                    tested.class.keyword(),
                    place(tested)
                );
                for line in program.lines() {
                    let _ = writeln!(text, "  {line}");
                }
            }
            Verdict::Untested(why) => {
                untested += 1;
                let (rule, place) = (&tested.rule, place(tested));
                let _ = writeln!(text, "{name}: untested: {why}\n  {rule}{place}");
            }
        }
    }
    let count = all.len();
    let _ = writeln!(
        text,
        "{count} rules: {right} right, {wrong} wrong, {untested} untested"
    );
    text
}

/// Where a rule is written, if that is known.
fn place(tested: &Tested) -> String {
    match tested.loc.place() {
        Some(_) => format!("\n  at {}", tested.loc),
        None => String::new(),
    }
}

/// The same as JSON: a list of objects.
pub fn json(all: &[Tested]) -> String {
    let entries: Vec<Entry<'_>> = all.iter().map(Entry::new).collect();
    // Strings, numbers and maps by strings alone: nothing in it can fail.
    serde_json::to_string_pretty(&entries).unwrap_or_default() + "\n"
}

/// A rule in JSON; what its verdict does not have is left out.
#[derive(Serialize)]
struct Entry<'a> {
    rule: &'a str,
    text: &'a str,
    class: &'static str,
    place: String,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    tries: usize,
    built: usize,
    instances: usize,
    ranks: &'a BTreeMap<usize, usize>,
    largest_dim: i64,
    unit_dims: usize,
    zero_dims: usize,
    without_elements: usize,
    elements: &'a BTreeMap<String, usize>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    ops: &'a BTreeMap<String, usize>,
}

impl<'a> Entry<'a> {
    fn new(tested: &'a Tested) -> Self {
        let coverage = &tested.coverage;
        let mut entry = Entry {
            rule: &tested.name,
            text: &tested.rule,
            class: tested.class.keyword(),
            place: tested.loc.to_string(),
            verdict: "right",
            fault: None,
            instance: None,
            program: None,
            why: None,
            tries: coverage.tries,
            built: coverage.built,
            instances: coverage.instances,
            ranks: &coverage.ranks,
            largest_dim: coverage.largest,
            unit_dims: coverage.unit,
            zero_dims: coverage.empty,
            without_elements: coverage.vacant,
            elements: &coverage.elems,
            ops: &coverage.ops,
        };
        match &tested.verdict {
            Verdict::Right => {}
            Verdict::Wrong {
                fault,
                instance,
                program,
            } => {
                entry.verdict = "wrong";
                entry.fault = Some(fault.to_string());
                entry.instance = Some(instance);
                entry.program = Some(program);
            }
            Verdict::Untested(why) => {
                entry.verdict = "untested";
                entry.why = Some(why);
            }
        }
        entry
    }
}
