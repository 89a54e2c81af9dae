//! The rule about targets: cargo builds one for tests where it has tests, and nowhere else.
//!
//! A library or program whose manifest does not say `test = false` is compiled, and a program
//! linked, once more for `cargo test`, whether or not there is a test in it. One that does say so
//! loses its tests without a word. So the manifest has to agree with the source.

use std::path::{Path, PathBuf};

use crate::Violation;
use crate::crates::{Package, Target, relative};
use crate::rust_text::RustText;

const AGREE: &str = "a target without tests that is built for them costs time in each run of all \
tests, and tests in a target that is not built for them never run";

/// Checks the targets of a package.
pub(crate) fn check(
    root: &Path,
    package: &Package,
    manifest: &str,
    found: &mut Vec<Violation>,
) -> Result<(), String> {
    let folder = root.join(manifest.strip_suffix("Cargo.toml").unwrap_or(manifest));
    let files = crate::sources::below(&folder.join("src"))?;
    let programs: Vec<&Target> = package.targets.iter().filter(|t| t.is("bin")).collect();
    let library = package.targets.iter().find(|t| t.is_library());
    for target in library.into_iter().chain(programs.iter().copied()) {
        let own = |file: &&PathBuf| match (library, target.is_library()) {
            (Some(_), true) => programs.iter().all(|p| file != &Path::new(&p.src_path)),
            (Some(_), false) => file == &Path::new(&target.src_path),
            (None, _) => true,
        };
        let mut has = Has::default();
        for file in files.iter().filter(own) {
            let text = std::fs::read_to_string(file);
            has.read(&text.map_err(|e| format!("{}: {e}", relative(root, file)))?);
        }
        for message in disagreements(target, has) {
            found.push(Violation {
                file: manifest.to_string(),
                line: 1,
                message,
                reason: AGREE,
            });
        }
    }
    Ok(())
}

/// What tests a source has.
#[derive(Clone, Copy, Default)]
struct Has {
    tests: bool,
    examples: bool,
}

impl Has {
    fn read(&mut self, text: &str) {
        let code = RustText::new(text).code;
        self.tests |= code.contains("#[test]") || code.contains("#[cfg(test)]");
        self.examples |= text.lines().map(str::trim_start).any(|line| {
            let doc = line.strip_prefix("///").or(line.strip_prefix("//!"));
            doc.is_some_and(|doc| doc.trim_start().starts_with("```"))
        });
    }
}

/// Where the manifest and the source of a target disagree.
fn disagreements(target: &Target, has: Has) -> Vec<String> {
    let what = if target.is_library() {
        "the library".to_string()
    } else {
        format!("the program `{}`", target.name)
    };
    let mut found = Vec::new();
    match (target.test, has.tests) {
        (true, false) => found.push(format!("{what} has no unit tests: say `test = false`")),
        (false, true) => found.push(format!("{what} has unit tests, and says `test = false`")),
        _ => {}
    }
    // Programs have no documentation that is tested.
    match (target.doctest && target.is_library(), has.examples) {
        (true, false) => found.push(format!(
            "{what} has no examples in its documentation: say `doctest = false`"
        )),
        (false, true) if target.is_library() => found.push(format!(
            "{what} has examples in its documentation, and says `doctest = false`"
        )),
        _ => {}
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(test: bool, doctest: bool) -> Target {
        Target {
            name: "x".into(),
            kind: vec!["lib".into()],
            src_path: "src/lib.rs".into(),
            test,
            doctest,
        }
    }

    fn of(text: &str) -> Has {
        let mut has = Has::default();
        has.read(text);
        has
    }

    #[test]
    fn a_manifest_agrees_with_the_source() {
        let plain = of("/// Not a test: `#[test]`.\nfn f() { \"#[test]\"; }\n");
        let both = of("//! ```\n//! f();\n//! ```\n#[cfg(test)]\nmod tests;\n");
        assert!(disagreements(&library(false, false), plain).is_empty());
        assert!(disagreements(&library(true, true), both).is_empty());
        assert_eq!(disagreements(&library(true, true), plain).len(), 2);
        assert_eq!(disagreements(&library(false, false), both).len(), 2);
        let program = Target {
            kind: vec!["bin".into()],
            ..library(true, false)
        };
        assert_eq!(
            disagreements(&program, plain),
            ["the program `x` has no unit tests: say `test = false`"]
        );
        assert!(disagreements(&program, both).is_empty());
    }
}
