//! What is said of broken text: one snapshot for each input.
#![allow(missing_docs)]

mod common;
use common::*;
use tir::*;

/// The inputs of a file of cases: `// == name` begins each.
fn cases() -> Vec<(&'static str, &'static str)> {
    let all = include_str!("broken.txt");
    let parts = all.split("// == ").skip(1);
    parts
        .map(|part| part.split_once('\n').unwrap_or((part, "")))
        .collect()
}

#[test]
fn broken_inputs() {
    load();
    for (name, text) in cases() {
        let opts = ParseOptions {
            max_depth: 60,
            ..ParseOptions::default()
        };
        let strict = name.starts_with("strict");
        let opts = ParseOptions {
            allow_unregistered: !strict,
            ..opts
        };
        let said = match text::parse(text, Name::new("test.tir"), &opts) {
            Ok(ir) => format!("accepted:\n{}", text::print(&ir, &PrintOptions::default())),
            Err(errors) => rendered(text, &errors),
        };
        insta::with_settings!({ omit_expression => true, description => text }, {
            insta::assert_snapshot!(name, said);
        });
    }
}
