//! Rules about crates: who may depend on whom, and what manifests say.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::Violation;
use crate::rust_text::{RustText, has_word};

/// The layers, lowest first: a crate depends on its own layer and those before it.
const LAYERS: [&str; 4] = ["ir", "dialects", "passes", "tools"];

/// The one owner of an outside crate.
const OWNERS: [(&str, &str); 9] = [
    ("slotmap", "ir/core"),
    ("typed-arena", "ir/core"),
    ("pest", "ir/text"),
    ("pest_derive", "ir/text"),
    ("pretty", "ir/text"),
    ("egg", "passes/egraph"),
    ("melior", "tools/native"),
    ("mlir-sys", "tools/native"),
    ("lit", "tools/cargo-lit"),
];

/// Dialects from the bottom up; a dialect uses those of its own rank and below.
const RANKS: [&[&str]; 5] = [
    &["builtin", "rule"],
    &["arith", "math", "func", "cf"],
    &["tensor", "memref", "vector"],
    &["loop", "graph"],
    &["accel"],
];

/// A dialect from outside, kept here: what a user's crate would be.
pub(crate) const PLUGIN: &str = "test/plugin";

/// What its drivers are made of, besides.
pub(crate) const DRIVERS: [&str; 2] = ["tir-opt", "tir-run"];

/// Crates of the layer `ir` that a dialect may use: the façade, which a plugin has too.
const DOORS: [&str; 1] = ["tir"];

/// Other crates that dialects may use: functions on numbers, arrays, and the machine model. They
/// know nothing of the IR.
const PURE: [&str; 6] = [
    "fixedbitset",
    "libm",
    "half",
    "tir-data",
    "tir-machine",
    "tir-packing",
];

const ONE_WAY: &str = "imports go one way (ir, dialects, passes, tools), so that each layer can \
be understood and replaced without those above it";
const ONE_OWNER: &str = "an outside crate has one owner, so that it can be replaced in one place";
const NO_BACK_DOOR: &str = "built-in dialects use no door that a plugin lacks: the façade, other \
dialects, and pure functions";
pub(crate) const OUTSIDE: &str = "a dialect from outside needs the façade and dialects, and a driver the \
libraries of the tools; what these do not offer is out of reach from outside";
const RANK: &str = "dialects use each other one way, so that a program can leave the upper levels \
behind";
const GENERIC: &str =
    "generic passes ask interfaces; they work on dialects that are not known here";
const INHERIT: &str = "version, edition, licence and lints stand once, in the workspace";
const FOLDER: &str = "whoever reads `use tir_tile` finds passes/tile";
const USED: &str = "each dependency is compiled, and says what the crate builds on";

/// A package of the workspace, as `cargo metadata` says it.
#[derive(Deserialize, Clone, Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// The path of its manifest.
    pub manifest_path: String,
    /// What it depends on.
    pub dependencies: Vec<Dependency>,
    /// Its library, programs and tests.
    pub targets: Vec<Target>,
}

/// A library, a program, or a file of tests.
#[derive(Deserialize, Clone, Debug)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// `lib`, `proc-macro`, `bin`, `test`, …
    pub kind: Vec<String>,
    /// The path of its first file.
    pub src_path: String,
    /// Whether `cargo test` builds it for tests.
    pub test: bool,
    /// Whether the examples of its documentation are tests.
    pub doctest: bool,
}

impl Target {
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind.iter().any(|own| own == kind)
    }
    pub(crate) fn is_library(&self) -> bool {
        self.is("lib") || self.is("proc-macro")
    }
}

/// A dependency.
#[derive(Deserialize, Clone, Debug)]
pub struct Dependency {
    /// The package's name.
    pub name: String,
    /// `dev`, `build`, or nothing for the usual kind.
    pub kind: Option<String>,
    /// Where it lies, if it is no package of a registry.
    pub path: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// The packages of the workspace.
pub fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let output = Command::new(crate::cargo())
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("cargo metadata cannot be read: {e}"))?;
    Ok(metadata.packages)
}

/// Checks all rules about crates.
pub fn check(root: &Path) -> Result<Vec<Violation>, String> {
    let mut found = Vec::new();
    for package in packages(root)? {
        let manifest = relative(root, &package.manifest_path);
        let text = std::fs::read_to_string(&package.manifest_path)
            .map_err(|e| format!("{manifest}: {e}"))?;
        check_package(root, &package, &manifest, &text, &mut found);
        check_used(root, &package, &manifest, &text, &mut found)?;
        crate::tested::check(root, &package, &manifest, &mut found)?;
    }
    Ok(found)
}

/// A path from the workspace's root, with `/`.
pub(crate) fn relative(root: &Path, path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    let path = path.strip_prefix(root).unwrap_or(path);
    path.to_string_lossy().replace('\\', "/")
}

/// Checks one package, given the text of its manifest.
pub fn check_package(
    root: &Path,
    package: &Package,
    manifest: &str,
    text: &str,
    found: &mut Vec<Violation>,
) {
    let folder = manifest.strip_suffix("/Cargo.toml").unwrap_or(manifest);
    check_manifest(manifest, text, found);
    // A dialect from outside is named as its user likes.
    if layer(folder).is_some() && !named_after(folder, &package.name) {
        found.push(Violation {
            file: manifest.to_string(),
            line: line_of(text, "name"),
            message: format!("`{}` is not named after its folder", package.name),
            reason: FOLDER,
        });
    }
    for dependency in &package.dependencies {
        let line = line_of(text, &dependency.name);
        let mut broken = |message: String, reason| {
            found.push(Violation {
                file: manifest.to_string(),
                line,
                message,
                reason,
            });
        };
        let name = &dependency.name;
        let owner = OWNERS.iter().find(|(outside, _)| outside == name);
        if let Some((_, owner)) = owner.filter(|(_, owner)| *owner != folder) {
            broken(
                format!("depends on `{name}`, which only {owner} may use"),
                ONE_OWNER,
            );
        }
        // Tests may look upward: they are no part of what is built on.
        if dependency.kind.as_deref() == Some("dev") {
            continue;
        }
        let target = dependency.path.as_ref().map(|path| relative(root, path));
        if let Some(target) = &target
            && let (Some(from), Some(to)) = (layer(folder), layer(target))
            && from < to
        {
            broken(
                format!("depends on `{name}` of the upper layer {}", LAYERS[to]),
                ONE_WAY,
            );
        }
        let dialect = folder
            .strip_prefix("dialects/")
            .filter(|d| rank(d).is_some());
        if let Some(dialect) = dialect
            && !PURE.contains(&name.as_str())
        {
            let other = target.as_deref().and_then(|t| t.strip_prefix("dialects/"));
            match other.and_then(rank) {
                Some(other) if rank(dialect) < Some(other) => {
                    broken(format!("depends on `{name}`, a dialect above it"), RANK);
                }
                Some(_) => {}
                None if DOORS.contains(&name.as_str()) => {}
                None => broken(format!("a dialect depends on `{name}`"), NO_BACK_DOOR),
            }
        }
        if folder == PLUGIN {
            let dialect = target.as_deref().and_then(layer) == Some(1);
            let mut open = DOORS.iter().chain(&DRIVERS);
            if !dialect && !open.any(|door| door == name) {
                broken(
                    format!("a dialect from outside depends on `{name}`"),
                    OUTSIDE,
                );
            }
        }
        let generic = folder == "passes/generic" && name != "tir-builtin";
        if generic && target.as_deref().and_then(layer) == Some(1) {
            broken(format!("depends on the dialect `{name}`"), GENERIC);
        }
    }
}

/// Checks that code names each dependency: that of the package, or for tests also that of tests.
fn check_used(
    root: &Path,
    package: &Package,
    manifest: &str,
    text: &str,
    found: &mut Vec<Violation>,
) -> Result<(), String> {
    let folder = root.join(manifest.strip_suffix("Cargo.toml").unwrap_or(manifest));
    let mut code = [String::new(), String::new()];
    for (which, names) in [&["src"][..], &["tests", "examples", "benches"]]
        .iter()
        .enumerate()
    {
        for name in *names {
            let mut open = crate::sources::below(&folder.join(name))?;
            while let Some(path) = open.pop() {
                let source = std::fs::read_to_string(&path);
                let source = source.map_err(|e| format!("{}: {e}", path.display()))?;
                let text = RustText::new(&source);
                open.extend(text.modules_elsewhere(&path));
                code[which] += &text.code;
            }
        }
    }
    for dependency in &package.dependencies {
        let word = dependency.name.replace('-', "_");
        let dev = dependency.kind.as_deref() == Some("dev");
        let build = dependency.kind.as_deref() == Some("build");
        let used = has_word(&code[0], &word) || dev && has_word(&code[1], &word);
        if !used && !build {
            found.push(Violation {
                file: manifest.to_string(),
                line: line_of(text, &dependency.name),
                message: format!(
                    "depends on `{}`, which no code of it names",
                    dependency.name
                ),
                reason: USED,
            });
        }
    }
    Ok(())
}

/// Whether a crate may have this name: that of its folder, or `tir-` and that.
fn named_after(folder: &str, name: &str) -> bool {
    let last = folder.rsplit('/').next().unwrap_or(folder);
    name == last || name.strip_prefix("tir-") == Some(last)
}

fn check_manifest(manifest: &str, text: &str, found: &mut Vec<Violation>) {
    let lines: Vec<String> = text.lines().map(|l| l.replace(' ', "")).collect();
    for key in ["version", "edition", "license", "publish"] {
        if !lines.iter().any(|l| *l == format!("{key}.workspace=true")) {
            let message = format!("does not say `{key}.workspace = true`");
            found.push(Violation {
                file: manifest.into(),
                line: 1,
                message,
                reason: INHERIT,
            });
        }
    }
    let lints = lines.iter().position(|l| l == "[lints]");
    let inherited = lints.and_then(|at| lines.get(at + 1));
    if inherited.is_none_or(|line| line != "workspace=true") {
        let message = "does not say `[lints]`, `workspace = true`".into();
        found.push(Violation {
            file: manifest.into(),
            line: 1,
            message,
            reason: INHERIT,
        });
    }
}

/// The number of the layer that a folder lies in.
fn layer(folder: &str) -> Option<usize> {
    let first = folder.split('/').next()?;
    LAYERS.iter().position(|layer| *layer == first)
}

fn rank(dialect: &str) -> Option<usize> {
    RANKS.iter().position(|rank| rank.contains(&dialect))
}

/// The names of the built-in dialects.
pub(crate) fn dialects() -> impl Iterator<Item = &'static str> {
    RANKS.iter().flat_map(|rank| rank.iter().copied())
}

/// The line of a manifest where a dependency stands.
fn line_of(text: &str, name: &str) -> usize {
    let at = text.lines().position(|line| {
        let rest = line.trim_start().trim_start_matches('"').strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with([' ', '=', '.', '"']))
    });
    at.map_or(1, |at| at + 1)
}
