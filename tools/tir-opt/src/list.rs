//! What `--list-…` prints: passes with their options, rules, dialects as an overview and as a reference page.

use std::fmt::Write;

use tir::rewrite::Functions;
use tir::{Diagnostic, Dialect, Name, OpInfo, Role};
use tir_pass::PassRegistry;

/// The first sentence of a documentation text, on one line.
pub fn sentence(doc: &str) -> String {
    let paragraph = doc.trim().split("\n\n").next().unwrap_or("");
    let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = line.match_indices(". ").map(|(at, _)| at + 1).find(|at| {
        // `e.g. x` and `i.e. x` go on.
        let word = line[..*at].rsplit(' ').next().unwrap_or("");
        word.matches('.').count() == 1
    });
    line[..end.unwrap_or(line.len())].to_string()
}

/// Names with one sentence each, in two columns.
pub fn columns(entries: &[(String, String)], indent: usize) -> String {
    let width = entries
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or(0)
        .min(28);
    let mut text = String::new();
    for (name, says) in entries {
        let line = format!("{:indent$}{name:width$}  {says}", "");
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Every dialect with what it holds, a sentence each.
pub fn dialects(all: &[&'static Dialect]) -> String {
    let mut text = String::new();
    for dialect in all {
        let _ = writeln!(text, "{}: {}", dialect.name, sentence(dialect.doc));
        let ops = dialect
            .ops
            .iter()
            .map(|op| (op.name.to_string(), sentence(op.doc)));
        text += &columns(&ops.collect::<Vec<_>>(), 2);
        let types = dialect
            .types
            .iter()
            .map(|ty| (format!("!{}", ty.name), sentence(ty.doc)));
        text += &columns(&types.collect::<Vec<_>>(), 2);
        let attrs = dialect
            .attrs
            .iter()
            .map(|at| (format!("#{}", at.name), sentence(at.doc)));
        text += &columns(&attrs.collect::<Vec<_>>(), 2);
        text.push('\n');
    }
    text
}

/// What `--list-passes` prints.
pub fn passes(passes: &PassRegistry) -> String {
    let mut text = String::new();
    for (aliases, heading) in [(true, "Pipelines"), (false, "Passes")] {
        let mut list = passes
            .iter()
            .filter(|info| info.is_alias == aliases)
            .peekable();
        if list.peek().is_none() {
            continue;
        }
        text += &format!("{heading}\n");
        for info in list {
            let on = info
                .anchor
                .map_or(String::new(), |anchor| format!(" (on {anchor})"));
            text += &format!("  --{}{on}\n      {}\n", info.name, sentence(info.doc));
            for option in info.options {
                let (name, default) = (option.name(), (option.default)());
                let (what, doc) = (option.what, sentence(option.doc));
                text += &format!("      {name}={default}: {what}. {doc}\n");
            }
        }
        text.push('\n');
    }
    text
}

/// The rules of all loaded dialects and of the files that the options name, without those that
/// are disabled, as a file of rules.
pub fn rules(options: &crate::Options) -> Result<String, Vec<Diagnostic>> {
    let mut set = tir::rule_file::rules_of(&options.rule_files)?;
    tir::rule_file::restrict(&mut set, &options.rule_classes)?;
    let disabled = options.disabled_rules.iter().cloned().collect();
    let patterns = set.finish(&disabled)?;
    let module = tir_builtin::rule::module(patterns.rules());
    let rules = tir_text::print(&module, &tir_text::PrintOptions::default());
    let mut text = String::new();
    for (heading, names) in named(patterns.functions()) {
        let _ = writeln!(text, "// {heading}");
        for line in columns(&names, 2).lines() {
            let _ = writeln!(text, "// {line}");
        }
        text.push_str("//\n");
    }
    Ok(text + &rules)
}

/// What rules may name, under its headings: guards, functions, classes of ops; each as it is written
/// with its arguments, and what it is.
pub fn named(functions: &Functions) -> [(&'static str, Vec<(String, String)>); 4] {
    let about = |name: &str| functions.about.get(&Name::new(name));
    let called = |name: &str| match about(name) {
        Some(about) => (format!("({name} {})", about.args), about.doc.to_string()),
        None => (format!("({name} ...)"), String::new()),
    };
    let guards = functions.guards.keys().map(|name| called(name));
    let attrs = functions.attrs.keys().map(|name| called(name));
    let builtins = tir::rewrite::BUILTINS.iter();
    let builtins = builtins.map(|b| (format!("({} {})", b.name, b.args), b.doc.to_string()));
    let classes = functions.class_names().into_iter().map(|class| {
        let ops = functions.in_classes(&[Name::new(&class)]);
        let names: Vec<&str> = ops.iter().map(|op| op.name.as_str()).collect();
        let doc = about(&class).map_or("", |about| about.doc);
        (
            class,
            format!("{doc} {}", names.join(" ")).trim().to_string(),
        )
    });
    // Traits that no op has which is without effects are no classes of use.
    let classes = classes.filter(|(_, ops)| !ops.is_empty());
    [
        ("Arithmetic and conditions", builtins.collect()),
        ("Guards of dialects", guards.collect()),
        ("Functions of dialects", attrs.collect()),
        ("Classes of ops, and who is in them", classes.collect()),
    ]
}

/// The reference page of a dialect, as Markdown.
pub fn reference(dialect: &Dialect) -> String {
    let mut text = format!("# {}\n\n{}\n", dialect.name, unindent(dialect.doc));
    for (what, list) in [
        (
            "Types",
            dialect
                .types
                .iter()
                .map(|t| (format!("!{}", t.name), t.doc))
                .collect(),
        ),
        (
            "Attributes",
            dialect
                .attrs
                .iter()
                .map(|a| (format!("#{}", a.name), a.doc))
                .collect(),
        ),
    ] as [(&str, Vec<(String, &str)>); 2]
    {
        if !list.is_empty() {
            let _ = writeln!(text, "\n## {what}");
        }
        for (name, doc) in list {
            let _ = writeln!(text, "\n### `{name}`\n\n{}", unindent(doc));
        }
    }
    if !dialect.ops.is_empty() {
        let _ = writeln!(text, "\n## Operations");
    }
    for spec in dialect.ops {
        text += &operation(&OpInfo::from_spec(spec));
    }
    text
}

fn operation(op: &OpInfo) -> String {
    let mut text = format!("\n### `{}`\n\n{}\n", op.name, unindent(&op.doc));
    if let Some(asm) = &op.asm {
        let asm = asm.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(text, "\nSyntax: ``{} {asm}``", op.name);
    }
    let traits: Vec<&str> = op.traits.names().collect();
    if !traits.is_empty() {
        let _ = writeln!(text, "\nTraits: {}.", traits.join(", "));
    }
    for (what, names) in [("Stands in", &op.parents), ("Ends in", &op.terminators)] {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        if !names.is_empty() {
            let _ = writeln!(text, "\n{what}: {}.", names.join(", "));
        }
    }
    if !op.fields.is_empty() || !op.results.is_empty() {
        let _ = writeln!(text, "\n| name | kind | description |\n|---|---|---|");
    }
    for field in &op.fields {
        let mut what = role(field.role);
        if let Some(constraint) = field.constraint {
            let _ = write!(what, ": {}", constraint.what);
        }
        if let Some(words) = field.keywords {
            let _ = write!(what, " ({})", words.all.join(", "));
        }
        if let Some(default) = &field.default {
            let _ = write!(what, ", default `{default}`");
        }
        let doc = field.doc.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(
            text,
            "| `{}` | {what} | {} |",
            field.name,
            doc.replace('|', "\\|")
        );
    }
    for result in &op.results {
        let _ = writeln!(text, "| `{result}` | result | |");
    }
    text
}

fn role(role: Role) -> String {
    match role {
        Role::Operand => "operand".into(),
        Role::OptionalOperand => "operand, optional".into(),
        Role::Operands => "operands".into(),
        Role::Result => "result".into(),
        Role::Results => "results".into(),
        Role::Attribute(what) => format!("attribute, {what}"),
        Role::OptionalAttribute(what) => format!("attribute, {what}, optional"),
        Role::Region => "region".into(),
        Role::Regions => "regions".into(),
        Role::Successor => "successor".into(),
        Role::Successors => "successors".into(),
    }
}

/// Doc comments keep the space behind `///`.
fn unindent(doc: &str) -> String {
    let lines = doc
        .trim()
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences() {
        assert_eq!(sentence(" Adds x\n to y. It wraps."), "Adds x to y.");
        assert_eq!(sentence("One, e.g. two. Three"), "One, e.g. two.");
        assert_eq!(sentence("No end\n\nMore."), "No end");
        assert_eq!(sentence(""), "");
    }
}
