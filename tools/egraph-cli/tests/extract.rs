//! Extraction of whole files: known optima, the report, malformed files at their places.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tir::{Name, Sources};
use tir_egraph_cli::{Options, Report, read, run};

fn options(file: &Path) -> Options {
    Options {
        extract: file.to_path_buf(),
        time_limit: None,
        max_steps: None,
        json: None,
        dot: None,
    }
}

fn extract(options: &Options) -> Result<Report, String> {
    let mut sources = Sources::default();
    run(options, &mut sources).map_err(|e| match e.loc.place() {
        Some((_, line, column)) => format!("{line}:{column}: {}", e.message),
        None => e.message,
    })
}

fn own(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// The cheapest choice of each file costs this.
const OPTIMA: [(&str, f64); 6] = [
    ("resnet50_acyclic.json", 4.415993),
    ("vgg_acyclic.json", 4.866775),
    ("resnet50.json", 4.385795),
    ("vgg.json", 4.850757),
    ("bert.json", 0.704_720),
    // Costs are whole numbers.
    ("mul512.json", 136_680.0),
];

#[test]
fn networks_are_solved_to_the_optimum() {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, optimum) in OPTIMA {
        let mut file = own(name);
        if !file.exists() {
            let packed = own(&format!("{name}.zlib"));
            let packed = std::fs::read(&packed).unwrap_or_else(|e| panic!("{name}: {e}"));
            let text = miniz_oxide::inflate::decompress_to_vec_zlib(&packed).expect("zlib");
            file = dir.path().join(name);
            std::fs::write(&file, text).expect("written");
        }
        let report = extract(&options(&file)).expect("a report");
        assert!((report.cost - optimum).abs() < 1e-6, "{report}");
        assert!(
            report.optimal && report.acyclic && report.bound == report.cost,
            "{report}"
        );
        assert!(report.cost <= report.bottom_up);
    }
}

#[test]
fn time_limits_end_search() {
    let mut options = options(&own("resnet50_acyclic.json"));
    options.time_limit = Some(Duration::ZERO);
    let start = Instant::now();
    let report = extract(&options).expect("a report");
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(report.acyclic && report.bound <= report.cost);
}

#[test]
fn the_report_as_text_and_json_and_the_graph() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("small.json");
    let text = r#"{"nodes": {
        "a": {"op": "f", "eclass": "A", "cost": 2, "children": ["b", "b"]},
        "a2": {"op": "\"g\"", "eclass": "A", "cost": 9},
        "b": {"op": "x", "eclass": "B"}
    }, "root_eclasses": ["A"], "comment": 1}"#;
    std::fs::write(&file, text).expect("written");
    let mut options = options(&file);
    options.json = Some(dir.path().join("out.json"));
    options.dot = Some(dir.path().join("out.dot"));
    let report = extract(&options).expect("a report");
    let shown = report.to_string();
    for line in [
        "e-graph   3 nodes in 2 classes, 1 root\n",
        "cost      3\n",
        "acyclic   yes\n",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    let json = std::fs::read_to_string(dir.path().join("out.json")).expect("JSON");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["choice"], serde_json::json!({"A": "a", "B": "b"}));
    assert_eq!(json["gap"], 0.0);
    let dot = std::fs::read_to_string(dir.path().join("out.dot")).expect("DOT");
    assert!(
        dot.contains(r#"n1 [label="\"g\"\n9"]"#) && dot.contains("n0 -> n2"),
        "{dot}"
    );
}

#[test]
fn a_choice_with_a_cycle_is_seen() {
    let text = r#"{"nodes": {
        "a": {"op": "f", "eclass": "A", "children": ["b"]},
        "b": {"op": "g", "eclass": "B", "children": ["a"]},
        "c": {"op": "h", "eclass": "B"}
    }, "root_eclasses": ["A"]}"#;
    let (graph, _) = read(Name::new("t.json"), text).expect("an e-graph");
    let acyclic = |choice: &[(&'static str, usize)]| {
        tir_egraph_cli::is_acyclic(&graph, &choice.iter().copied().collect())
    };
    assert!(acyclic(&[("A", 0), ("B", 2)]));
    assert!(!acyclic(&[("A", 0), ("B", 1)]), "a cycle");
    assert!(!acyclic(&[("A", 0)]), "a class is missing");
    assert!(!acyclic(&[("B", 2)]), "the root is missing");
    assert!(!acyclic(&[("A", 2), ("B", 2)]), "a node of another class");
}

#[test]
fn malformed_files_are_refused_at_their_place() {
    let nodes = |nodes: &str, roots: &str| {
        format!("{{\"nodes\": {{\n{nodes}\n}},\n\"root_eclasses\": [{roots}]}}")
    };
    let a = r#""a": {"op": "f", "eclass": "A", "children": []}"#;
    let cases = [
        ("".to_string(), "1:1: EOF while parsing a value"),
        (
            "[]".to_string(),
            "1:2: invalid length 0, expected an object with nodes",
        ),
        ("{}".to_string(), "1:2: missing field `nodes`"),
        (
            r#"{"nodes": 3}"#.to_string(),
            "1:11: invalid type: integer `3`, expected an object of nodes",
        ),
        (
            nodes(&format!("{a},\n{a}"), ""),
            "3:3: there are two nodes 'a'",
        ),
        (
            nodes(r#""a": {"op": "f"}"#, ""),
            "2:16: missing field `eclass`",
        ),
        (
            nodes(
                r#""a": {"op": "f", "eclass": "A", "children": ["b"]}"#,
                "\"A\"",
            ),
            "2:1: node 'a' has a child 'b', which is no node",
        ),
        (
            nodes(
                &format!("{a},\n{}", r#""b": {"op": "f", "eclass": "A", "cost": -2}"#),
                "\"A\"",
            ),
            "3:1: node 'b' costs -2, less than zero",
        ),
        (
            nodes(r#""a": {"op": "f", "eclass": "A", "cost": 1e999}"#, ""),
            "2:45: number out of range",
        ),
        (nodes(a, "\"B\""), "4:1: root class 'B' has no node"),
        (
            nodes(
                r#""a": {"op": "f", "eclass": "A", "children": ["a"]}"#,
                "\"A\"",
            ),
            "4:1: root class 'A' has no finite derivation: 'A', which needs 'A' again",
        ),
    ];
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("t.json");
    for (text, expected) in cases {
        std::fs::write(&file, &text).expect("written");
        let error = extract(&options(&file)).expect_err("refused");
        assert!(error.starts_with(expected), "{text}\n{error}");
    }
    std::fs::write(&file, b"{\"nodes\": {\"\xff\": 1}}").expect("written");
    assert!(
        extract(&options(&file))
            .expect_err("refused")
            .contains("UTF-8")
    );
    let missing = extract(&options(&dir.path().join("none.json"))).expect_err("refused");
    assert!(missing.contains("cannot read"), "{missing}");
}
