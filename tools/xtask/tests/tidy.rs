//! The source rules hold in this workspace, and a broken one is found.

use xtask::Violation;
use xtask::crates::{Dependency, Package, check_package};

#[test]
fn rules_of_the_house() {
    let found = xtask::tidy(&xtask::root()).expect("the workspace can be read");
    let found: Vec<String> = found.iter().map(Violation::to_string).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

const MANIFEST: &str = "\
[package]
name = \"x\"
version.workspace = true
edition.workspace = true
license.workspace = true
publish.workspace = true

[dependencies]
dep = \"1\"

[lints]
workspace = true
";

/// What is wrong if the package in `folder` depends on `name`, which lies at `path`.
fn broken(folder: &str, name: &str, path: Option<&str>, kind: Option<&str>) -> Vec<String> {
    let root = xtask::root();
    let manifest = format!("{folder}/Cargo.toml");
    let dependency = Dependency {
        name: name.into(),
        kind: kind.map(str::to_string),
        path: path.map(|path| root.join(path).display().to_string()),
    };
    let package = Package {
        name: folder.rsplit('/').next().unwrap_or(folder).into(),
        manifest_path: root.join(&manifest).display().to_string(),
        dependencies: vec![dependency],
        targets: Vec::new(),
    };
    let mut found = Vec::new();
    let text = MANIFEST.replace("dep =", &format!("{name} ="));
    check_package(&root, &package, &manifest, &text, &mut found);
    found
        .iter()
        .map(|v| format!("{}: {}", v.line, v.message))
        .collect()
}

#[test]
fn imports_go_one_way() {
    let upward = broken("ir/pass", "tir-func", Some("dialects/func"), None);
    assert_eq!(
        upward,
        ["9: depends on `tir-func` of the upper layer dialects"]
    );
    assert!(broken("ir/pass", "tir-func", Some("dialects/func"), Some("dev")).is_empty());
    assert!(broken("passes/convert", "tir-func", Some("dialects/func"), None).is_empty());
    assert_eq!(
        broken("passes/convert", "tir-opt", Some("tools/tir-opt"), None).len(),
        1
    );
}

#[test]
fn outside_crates_have_one_owner() {
    let other = broken("passes/memory", "slotmap", None, None);
    assert_eq!(
        other,
        ["9: depends on `slotmap`, which only ir/core may use"]
    );
    assert_eq!(broken("passes/memory", "egg", None, Some("dev")).len(), 1);
    assert!(broken("ir/core", "slotmap", None, None).is_empty());
}

#[test]
fn dialects_have_no_back_door() {
    let core = broken("dialects/arith", "tir-core", Some("ir/core"), None);
    assert_eq!(core, ["9: a dialect depends on `tir-core`"]);
    assert!(broken("dialects/arith", "tir", Some("ir/tir"), None).is_empty());
    assert!(broken("dialects/math", "libm", None, None).is_empty());
    let above = broken(
        "dialects/arith",
        "tir-tensor",
        Some("dialects/tensor"),
        None,
    );
    assert_eq!(above, ["9: depends on `tir-tensor`, a dialect above it"]);
}

#[test]
fn a_dialect_from_outside_has_the_front_door() {
    let behind = broken("test/plugin", "tir-core", Some("ir/core"), None);
    assert_eq!(behind, ["9: a dialect from outside depends on `tir-core`"]);
    let pass = broken("test/plugin", "tir-levels", Some("passes/levels"), None);
    assert_eq!(pass.len(), 1);
    assert_eq!(broken("test/plugin", "libc", None, None).len(), 1);
    for (name, path) in [
        ("tir", "ir/tir"),
        ("tir-graph", "dialects/graph"),
        ("tir-opt", "tools/tir-opt"),
    ] {
        assert!(broken("test/plugin", name, Some(path), None).is_empty());
    }
}

#[test]
fn generic_passes_depend_on_no_dialect() {
    let arith = broken("passes/generic", "tir-arith", Some("dialects/arith"), None);
    assert_eq!(arith, ["9: depends on the dialect `tir-arith`"]);
    assert!(
        broken(
            "passes/generic",
            "tir-builtin",
            Some("dialects/builtin"),
            None
        )
        .is_empty()
    );
}

#[test]
fn crates_are_named_after_their_folders() {
    let check = |folder: &str, name: &str| {
        let root = xtask::root();
        let manifest = format!("{folder}/Cargo.toml");
        let package = Package {
            name: name.into(),
            manifest_path: root.join(&manifest).display().to_string(),
            dependencies: Vec::new(),
            targets: Vec::new(),
        };
        let mut found = Vec::new();
        check_package(&root, &package, &manifest, MANIFEST, &mut found);
        found.len()
    };
    assert_eq!(check("passes/tile", "tir-tile"), 0);
    assert_eq!(check("tools/cargo-lit", "cargo-lit"), 0);
    assert_eq!(check("passes/tile", "tir-accel"), 1);
    assert_eq!(check("test/plugin", "fixed-point"), 0);
}

#[test]
fn nothing_lies_about_in_the_root() {
    let folder = std::env::temp_dir().join(format!("tir-tidy-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("passes")).expect("a folder");
    std::fs::create_dir_all(folder.join(".git")).expect("a folder");
    std::fs::write(folder.join("left.whl"), "").expect("a file");
    let mut found = Vec::new();
    let checked = xtask::sources::check_root(&folder, &mut found);
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    checked.expect("the folder can be read");
    let found: Vec<&str> = found.iter().map(|v| v.message.as_str()).collect();
    assert_eq!(found, ["'left.whl' is none of what stands in the root"]);
}
