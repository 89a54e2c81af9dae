//! Verdicts as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

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
            "{} instances (ranks {}; dims to {}, {} with unit, {} with zero dims; {}); \
             {} tries, {} built",
            self.instances,
            ranks.join(" "),
            self.largest,
            self.unit,
            self.empty,
            elems.join(" "),
            self.tries,
            self.built
        )
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
                let _ = writeln!(text, "{name}: right on {}", tested.coverage);
            }
            Verdict::Wrong {
                fault,
                instance,
                program,
            } => {
                wrong += 1;
                let _ = writeln!(
                    text,
                    "{name}: WRONG: {fault}\n  {}{}\n  {instance}",
                    tested.rule,
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
    let mut text = String::from("[");
    for (i, tested) in all.iter().enumerate() {
        let mut fields = vec![
            ("rule", quoted(&tested.name)),
            ("text", quoted(&tested.rule)),
            ("place", quoted(&tested.loc.to_string())),
            ("tries", tested.coverage.tries.to_string()),
            ("built", tested.coverage.built.to_string()),
            ("instances", tested.coverage.instances.to_string()),
            ("ranks", counts(&tested.coverage.ranks)),
            ("largest_dim", tested.coverage.largest.to_string()),
            ("unit_dims", tested.coverage.unit.to_string()),
            ("zero_dims", tested.coverage.empty.to_string()),
            ("elements", counts(&tested.coverage.elems)),
        ];
        match &tested.verdict {
            Verdict::Right => fields.push(("verdict", quoted("right"))),
            Verdict::Wrong {
                fault,
                instance,
                program,
            } => fields.extend([
                ("verdict", quoted("wrong")),
                ("fault", quoted(&fault.to_string())),
                ("instance", quoted(instance)),
                ("program", quoted(program)),
            ]),
            Verdict::Untested(why) => {
                fields.extend([("verdict", quoted("untested")), ("why", quoted(why))]);
            }
        }
        let fields: Vec<String> = fields
            .into_iter()
            .map(|(k, v)| format!("\"{k}\": {v}"))
            .collect();
        let comma = if i == 0 { "" } else { "," };
        let _ = write!(text, "{comma}\n  {{{}}}", fields.join(", "));
    }
    text.push_str("\n]\n");
    text
}

/// How often each is there.
fn counts<K: std::fmt::Display>(all: &BTreeMap<K, usize>) -> String {
    let one = |(key, count): (&K, &usize)| format!("{}: {count}", quoted(&key.to_string()));
    format!("{{{}}}", all.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// A string as JSON writes it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
