//! Rules about the text of source files.

use std::collections::BTreeSet;
use std::path::Path;

use crate::Violation;
use crate::crates::{DRIVERS, OUTSIDE, PLUGIN, dialects, relative};
use crate::rust_text::{RustText, has_word};

/// Folders whose `.rs` files are checked.
const FOLDERS: [&str; 6] = [
    "ir",
    "dialects",
    "passes",
    "tools",
    "test",
    "docs/book/examples",
];

/// What stands in the root beside hidden files and what is built.
const ROOT: [&str; 16] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "clippy.toml",
    "dialects",
    "docs",
    "ir",
    "passes",
    "target",
    "test",
    "tools",
];

/// Macros that may not stay in the code.
const UNFINISHED: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];

/// The files that may say `unsafe`, with a proof beside it.
const UNSAFE: [&str; 10] = [
    "ir/data/src/memory.rs",
    "ir/data/src/part.rs",
    "tools/native/src/llvm.rs",
    "tools/native/src/llvm/processor.rs",
    "tools/native/src/llvm/raw.rs",
    "tools/native/src/llvm/shared.rs",
    "tools/native/src/llvm/symbols.rs",
    "tools/native/src/pool.rs",
    "tools/native/src/run.rs",
    "tools/native/math/src/lib.rs",
];

/// Words that messages, help and reference pages do without: they say nothing that the terms of
/// MLIR, LLVM and egg do not say better.
const NO_TERMS: [&str; 11] = [
    "tell", "tells", "told", "dear", "dearer", "dearest", "nobody", "somebody", "chance",
    "account", "said",
];

const FIRST_LINE: &str = "whoever opens a file learns from its first line what it is";
const TIDY_ROOT: &str =
    "the root is what people see first, and what tools leave there is soon committed";
const FINISHED: &str = "users meet what is unfinished as a crash";
const SAFE: &str = "unsafe lives in few places with a proof beside it: mapping weights, giving \
memory back, calling LLVM and what it makes";
const TERMS: &str = "who knows MLIR, LLVM and egg reads messages and help without a dictionary";
const OP_NAMES: &str = "a pass asks interfaces, so that it works on ops that it does not know";
const GENERIC: &str =
    "generic passes ask interfaces; they work on dialects that are not known here";
const BELOW_TENSOR: &str = "below the tensor level a program is index expressions; a pass that \
knows an operator by name would not work for the next operator";

/// Checks all `.rs` files below the folders of the workspace.
pub fn check(root: &Path) -> Result<Vec<Violation>, String> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        let folder = root.join(folder);
        if folder.is_dir() {
            walk(&folder, &mut files)?;
        }
    }
    let mut texts = Vec::new();
    let mut ops = BTreeSet::new();
    for path in files {
        let file = relative(root, &path);
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{file}: {e}"))?;
        if file.starts_with("dialects/") {
            ops.extend(declared_ops(&text));
        }
        texts.push((file, text));
    }
    let mut found = Vec::new();
    check_root(root, &mut found)?;
    for (file, text) in &texts {
        check_file(file, text, uses_graph(root, file), &mut found);
        check_words(file, text, &ops, &mut found);
    }
    Ok(found)
}

/// Looks for files and folders in the root that do not belong there.
pub fn check_root(root: &Path, found: &mut Vec<Violation>) -> Result<(), String> {
    let entries = std::fs::read_dir(root).map_err(|e| format!("{}: {e}", root.display()))?;
    for entry in entries {
        let name = entry
            .map_err(|e| format!("{}: {e}", root.display()))?
            .file_name();
        let name = name.to_string_lossy().to_string();
        if !name.starts_with('.') && !ROOT.contains(&name.as_str()) {
            found.push(Violation {
                message: format!("'{name}' is none of what stands in the root"),
                file: name,
                line: 1,
                reason: TIDY_ROOT,
            });
        }
    }
    Ok(())
}

/// The `.rs` files below a folder, none if there is no such folder.
pub(crate) fn below(folder: &Path) -> Result<Vec<std::path::PathBuf>, String> {
    let mut files = Vec::new();
    if folder.is_dir() {
        walk(folder, &mut files)?;
    }
    Ok(files)
}

/// The names of the ops that a file of a dialect declares.
fn declared_ops(text: &str) -> impl Iterator<Item = String> {
    text.split("#[op(").skip(1).filter_map(|rest| {
        let name = rest.trim_start().strip_prefix('"')?;
        Some(name.split('"').next()?.to_string())
    })
}

/// Checks the words of strings and of what becomes help: of messages, and names of ops in passes.
pub fn check_words(file: &str, text: &str, ops: &BTreeSet<String>, found: &mut Vec<Violation>) {
    let layers = ["ir/", "dialects/", "passes/", "tools/"];
    if !file.contains("/src/") || !layers.iter().any(|layer| file.starts_with(layer)) {
        return;
    }
    let mut broken = |line: usize, message: String, reason: &'static str| {
        found.push(Violation {
            file: file.to_string(),
            line,
            message,
            reason,
        });
    };
    let rust = RustText::new(text);
    let odd = |text: &str| NO_TERMS.into_iter().find(|word| has_word(text, word));
    let tests = text.lines().position(|line| line.trim() == "#[cfg(test)]");
    let in_tests = |line: usize| tests.is_some_and(|at| line > at);
    // A single word is no message.
    let messages = rust.strings.iter();
    let messages = messages.filter(|(line, text)| text.contains(' ') && !in_tests(*line));
    for (line, text) in messages {
        if let Some(word) = odd(text) {
            broken(*line, format!("\"{word}\" in a message"), TERMS);
        }
    }
    // Doc comments of passes, ops and options are what help and reference pages print.
    let printed = ["pass! {", "#[op(", "clap::"]
        .iter()
        .any(|mark| text.contains(mark));
    let docs = text.lines().enumerate();
    let docs = docs.filter_map(|(at, line)| Some((at + 1, line.trim().strip_prefix("///")?)));
    for (line, text) in docs.filter(|_| printed) {
        if let Some(word) = odd(text) {
            broken(line, format!("\"{word}\" in a doc comment"), TERMS);
        }
    }
    if file.starts_with("passes/") {
        let lines: Vec<&str> = text.lines().collect();
        for (line, name) in rust.strings.iter().filter(|(_, text)| ops.contains(text)) {
            // An anchor of a pass or a pipeline: `on "func.func"`, `nest("func.func"`.
            let anchor = [format!("on \"{name}\""), format!("nest(\"{name}\"")];
            let code = lines.get(line - 1).copied().unwrap_or("");
            if !anchor.iter().any(|a| code.contains(a)) && !in_tests(*line) {
                broken(*line, format!("names the op \"{name}\""), OP_NAMES);
            }
        }
    }
}

/// Whether the crate of a file depends on the dialect graph.
fn uses_graph(root: &Path, file: &str) -> bool {
    let mut parts = file.split('/');
    let (Some(layer), Some(folder)) = (parts.next(), parts.next()) else {
        return false;
    };
    let manifest = root.join(layer).join(folder).join("Cargo.toml");
    let text = std::fs::read_to_string(manifest).unwrap_or_default();
    text.lines().any(|line| line.starts_with("tir-graph"))
}

fn walk(folder: &Path, files: &mut Vec<std::path::PathBuf>) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for entry in entries {
        let path = entry
            .map_err(|e| format!("{}: {e}", folder.display()))?
            .path();
        if path.is_dir() {
            if !path.ends_with("target") {
                walk(&path, files)?;
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Checks one file, named from the workspace's root; says whether its crate uses the dialect graph.
pub fn check_file(file: &str, text: &str, uses_graph: bool, found: &mut Vec<Violation>) {
    let mut broken = |line: usize, message: String, reason: &'static str| {
        found.push(Violation {
            file: file.to_string(),
            line,
            message,
            reason,
        });
    };
    let first = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("//!"));
    if first.is_none_or(|says| says.trim().is_empty()) {
        broken(1, "does not begin with a `//!` line".into(), FIRST_LINE);
    }
    let rust = RustText::new(text);
    for word in UNFINISHED {
        for line in rust.lines_with(word) {
            broken(line, format!("`{word}`"), FINISHED);
        }
    }
    if !UNSAFE.contains(&file) {
        for line in rust.lines_with("unsafe") {
            broken(line, "`unsafe`".into(), SAFE);
        }
    }
    if file.starts_with("passes/generic/src/") {
        for (line, message) in named_dialects(&rust) {
            broken(line, message, GENERIC);
        }
    }
    let plugin = file.strip_prefix(PLUGIN);
    let driver = ["/src/bin/", "/tests/"];
    if plugin.is_some_and(|path| !driver.iter().any(|folder| path.starts_with(folder))) {
        for crate_name in DRIVERS.map(|name| name.replace('-', "_")) {
            for line in rust.lines_with(&crate_name) {
                broken(line, format!("`{crate_name}` outside of a driver"), OUTSIDE);
            }
        }
    }
    if is_below_tensor(file, uses_graph) {
        for (line, text) in text.lines().enumerate() {
            if let Some(word) = operator_word(text) {
                broken(
                    line + 1,
                    format!("`{word}` below the tensor level"),
                    BELOW_TENSOR,
                );
            }
        }
    }
}

/// Where a text names a dialect other than builtin: its crate, or one of its ops in a string.
fn named_dialects(rust: &RustText) -> Vec<(usize, String)> {
    let mut named = Vec::new();
    for dialect in dialects().filter(|dialect| *dialect != "builtin") {
        let crate_name = format!("tir_{dialect}");
        named.extend(
            rust.lines_with(&crate_name)
                .map(|line| (line, format!("names `{crate_name}`"))),
        );
        let prefix = format!("{dialect}.");
        for (line, string) in &rust.strings {
            let op = string.strip_prefix(&prefix);
            if op.is_some_and(|op| op.starts_with(|c: char| c.is_ascii_lowercase())) {
                named.push((*line, format!("names \"{string}\"")));
            }
        }
    }
    named
}

/// Whether a file is of a pass that works below the tensor level.
///
/// The level of a pass follows from its path: where a folder or file is named for the graph level
/// (`graph_to_tensor.rs`, `fuse_graph.rs`, `passes/egraph/…`) in a crate that uses the dialect
/// graph, it works on operators; all else in `passes` works on what graph_to_tensor leaves, or on
/// any IR. Tests may say what they like.
pub fn is_below_tensor(file: &str, uses_graph: bool) -> bool {
    let Some(rest) = file.strip_prefix("passes/") else {
        return false;
    };
    let graph = |part: &str| {
        let mut words = part.split(['_', '-', '.']);
        words.any(|word| word == "graph" || word == "egraph")
    };
    rest.contains("/src/") && !(uses_graph && rest.split('/').any(graph))
}

/// The name of an operator that a line holds, if any: what begins a word with `conv` (but not
/// `convert`, `convention` and the like), or has `matmul` in it.
fn operator_word(line: &str) -> Option<String> {
    let lower = line.to_lowercase();
    if lower.contains("matmul") {
        return Some("matmul".into());
    }
    let usual = ["ert", "ers", "en", "erg", "ex", "ey", "in"];
    lower.match_indices("conv").find_map(|(at, _)| {
        let rest = &lower[at + 4..];
        if usual.iter().any(|end| rest.starts_with(end)) {
            return None;
        }
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
        Some(format!("conv{}", &rest[..end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(file: &str, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        let uses_graph = !["passes/memory/packing", "passes/memory"]
            .iter()
            .any(|p| file.starts_with(p));
        check_file(file, text, uses_graph, &mut found);
        found
            .iter()
            .map(|v| format!("{}: {}", v.line, v.message))
            .collect()
    }

    #[test]
    fn a_clean_file() {
        let text = "//! A file.\n#![forbid(unsafe_code)]\n// todo!() is a word\nfn f() {}\n";
        assert_eq!(messages("ir/core/src/lib.rs", text), [""; 0]);
    }

    #[test]
    fn first_line_and_unfinished_code() {
        let text = "fn f() { todo!() }\nfn g() { dbg!(1); unsafe { h() } }\n";
        let expected = [
            "1: does not begin with a `//!` line",
            "1: `todo!`",
            "2: `dbg!`",
            "2: `unsafe`",
        ];
        assert_eq!(messages("tools/x/src/a.rs", text), expected);
        assert_eq!(messages("tools/x/src/a.rs", "//!\n").len(), 1);
    }

    #[test]
    fn words_of_messages_and_names_of_ops() {
        let words = |file: &str, text: &str| -> Vec<String> {
            let mut found = Vec::new();
            let ops = ["func.func", "memref.view"].map(String::from).into();
            check_words(file, text, &ops, &mut found);
            found
                .iter()
                .map(|v| format!("{}: {}", v.line, v.message))
                .collect()
        };
        let text = "//! told\nlet a = \"said\";\nlet b = \"is said here\";\n/// Tells nobody.\n";
        assert_eq!(words("ir/x/src/a.rs", text), ["3: \"said\" in a message"]);
        let clap = format!("{text}use clap::Parser;\n");
        let expected = ["3: \"said\" in a message", "4: \"nobody\" in a doc comment"];
        assert_eq!(words("tools/x/src/a.rs", &clap), expected);
        assert_eq!(words("tools/x/tests/a.rs", &clap), [""; 0]);
        let text = "struct A = \"a\" on \"func.func\" {}\nif name == \"memref.view\" {}\n\
                    p.nest(\"func.func\", f)\n#[cfg(test)]\n\"func.func\"";
        let expected = ["2: names the op \"memref.view\""];
        assert_eq!(words("passes/x/src/a.rs", text), expected);
        assert_eq!(words("dialects/x/src/a.rs", text), [""; 0]);
    }

    #[test]
    fn generic_passes_name_no_dialect() {
        let text = "//! A pass.\nuse tir_arith::Add;\nuse tir_builtin::Module;\nconst X: &str = \"func.return\";\n// arith.addi\n";
        let expected = ["2: names `tir_arith`", "4: names \"func.return\""];
        let mut found = messages("passes/generic/src/a.rs", text);
        found.sort();
        assert_eq!(found, expected);
        assert_eq!(messages("passes/convert/src/a.rs", text), [""; 0]);
    }

    #[test]
    fn drivers_of_a_dialect_from_outside() {
        let text = "//! A file.\nfn main() { tir_opt::main(tir_opt::stock()) }\n";
        let expected = ["2: `tir_opt` outside of a driver"];
        assert_eq!(messages("test/plugin/src/lib.rs", text), expected);
        assert_eq!(messages("test/plugin/src/bin/x.rs", text), [""; 0]);
        assert_eq!(messages("test/plugin/tests/x.rs", text), [""; 0]);
        assert_eq!(messages("tools/x/src/lib.rs", text), [""; 0]);
    }

    #[test]
    fn operators_below_tensor() {
        let text = "//! A pass.\n// converts by convention\nfn is_Conv2d() {}\nlet x = \"MatMul\";\nfn f(conv: u8) {}\n";
        let expected = [
            "3: `conv2d` below the tensor level",
            "4: `matmul` below the tensor level",
            "5: `conv` below the tensor level",
        ];
        for file in [
            "passes/memory/src/tile.rs",
            "passes/memory/packing/src/graph.rs",
            "passes/convert/src/tensor_to_loop.rs",
        ] {
            assert_eq!(messages(file, text), expected);
        }
        for file in [
            "passes/convert/src/graph_to_tensor.rs",
            "passes/graph/src/decompose.rs",
            "passes/convert/src/fuse_graph.rs",
            "passes/egraph/src/a.rs",
            "dialects/graph/src/ops/conv.rs",
        ] {
            assert_eq!(messages(file, text), [""; 0]);
        }
    }
}
