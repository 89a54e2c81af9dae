//! The pages that are made: reference pages from what ops, passes and rules say of themselves, and
//! the index of decisions.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use tir::pass::{OptionInfo, PassInfo};

/// The first line of a page that nobody edits.
const MARK: &str = "<!-- Made by `cargo xtask docs` from the sources; do not edit. -->\n\n";

/// All pages, by path from `src`.
fn pages(book: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let tool = tir_opt::stock();
    tool.load();
    let mut pages = Vec::new();
    for dialect in &tool.dialects {
        let path = PathBuf::from(format!("reference/dialects/{}.md", dialect.name));
        pages.push((path, tir_opt::list::reference(dialect)));
    }
    let passes: Vec<&PassInfo> = tool.passes.iter().collect();
    pages.push(("reference/passes.md".into(), passes_page(&passes)));
    pages.push(("reference/rules.md".into(), rules_page()));
    pages.extend(decisions(book)?);
    let marked = pages.into_iter();
    Ok(marked
        .map(|(path, text)| (path, format!("{MARK}{text}")))
        .collect())
}

/// The index of decisions, and the page of the book that includes them all.
fn decisions(book: &Path) -> io::Result<[(PathBuf, String); 2]> {
    let mut index =
        "# Decisions\n\nHalf a page each: context, choice, what it cost, what was measured. \
                     A decision that is replaced gets a\nnew page, and the old one says so.\n\n"
            .to_string();
    let mut page = "# Decisions\n\nWhy things are as they are.\n".to_string();
    let entries = fs::read_dir(book.join("../../decisions"))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<io::Result<Vec<String>>>()?;
    names.retain(|name| name.ends_with(".md") && name != "README.md");
    names.sort();
    for name in names {
        let text = fs::read_to_string(book.join("../../decisions").join(&name))?;
        let title = text.lines().next().unwrap_or_default();
        let title = title.trim_start_matches(|c: char| !c.is_alphabetic());
        let number = name.split('-').next().unwrap_or_default();
        let _ = writeln!(index, "- [{number}]({name}): {title}");
        let _ = write!(page, "\n{{{{#include ../../decisions/{name}}}}}\n");
    }
    Ok([
        ("../../decisions/README.md".into(), index),
        ("decisions.md".into(), page),
    ])
}

fn passes_page(passes: &[&PassInfo]) -> String {
    let mut text = "# Passes and pipelines\n".to_string();
    for (aliases, heading) in [(true, "Pipelines"), (false, "Passes")] {
        let _ = writeln!(text, "\n## {heading}");
        for info in passes.iter().filter(|info| info.is_alias == aliases) {
            let doc: Vec<&str> = info.doc.trim().lines().map(str::trim).collect();
            let _ = writeln!(text, "\n### `--{}`\n\n{}", info.name, doc.join("\n"));
            if let Some(anchor) = info.anchor {
                let _ = writeln!(text, "\nRuns on `{anchor}`.");
            }
            if !info.options.is_empty() {
                let _ = writeln!(
                    text,
                    "\n| option | type | default | description |\n|---|---|---|---|"
                );
            }
            for option in info.options {
                let _ = writeln!(text, "{}", row(option));
            }
        }
    }
    text
}

fn row(option: &OptionInfo) -> String {
    let doc: Vec<&str> = option.doc.split_whitespace().collect();
    let doc = doc.join(" ").replace('|', "\\|");
    let default = match (option.default)() {
        default if default.is_empty() => String::new(),
        default => format!("`{default}`"),
    };
    format!(
        "| `{}` | {} | {default} | {doc} |",
        option.name(),
        option.what
    )
}

/// All rules of the stock dialects, and the functions that rules may name.
fn rules_page() -> String {
    let none: [&String; 0] = [];
    let set = tir::rule_file::rules_of(none).expect("the stock rules are right");
    let patterns = set
        .finish(&Default::default())
        .expect("the stock rules are right");
    let mut text = "# Rules\n\nThe rules of all stock dialects, as \
                    `tir-opt --list-rules` prints them.\n"
        .to_string();
    let used = |name: &str| {
        let mut by = patterns
            .rules()
            .iter()
            .map(|rule| (rule.name, rule.to_string()));
        let uses = |rule: &str| {
            let classes = rule.split(&[':', '+', ' ', '('][..]);
            rule.contains(&format!("({name} ")) || classes.into_iter().any(|word| word == name)
        };
        by.find(|(_, rule)| uses(rule))
            .map_or(String::new(), |(rule, _)| format!("`{rule}`"))
    };
    for (heading, names) in tir_opt::list::named(patterns.functions()) {
        let anchor = heading.split(' ').next().unwrap_or_default().to_lowercase();
        let _ = writeln!(
            text,
            "\n## {heading} {{#{anchor}}}\n\n| written | what it is | a rule that uses it |\n\
             |---|---|---|"
        );
        for (call, doc) in names {
            let name = call
                .trim_start_matches('(')
                .split(' ')
                .next()
                .unwrap_or_default();
            let _ = writeln!(text, "| `{call}` | {doc} | {} |", used(name));
        }
    }
    let module = tir_builtin::rule::module(patterns.rules());
    let rules = tir::text::print(&module, &tir::PrintOptions::default());
    let _ = write!(
        text,
        "\n## All rules\n\n```text\n{}\n```\n",
        rules.trim_end()
    );
    text
}

/// Writes the pages, or says which are not as they should be.
pub(crate) fn check(book: &Path, overwrite: bool, problems: &mut Vec<String>) -> io::Result<()> {
    for (path, text) in pages(book)? {
        let file = book.join(&path);
        if fs::read_to_string(&file).is_ok_and(|old| old == text) {
            continue;
        }
        if overwrite {
            fs::create_dir_all(file.parent().unwrap_or(book))?;
            fs::write(file, text)?;
        } else {
            let path = path.display();
            problems.push(format!("{path} is not up to date: run cargo xtask docs"));
        }
    }
    Ok(())
}
