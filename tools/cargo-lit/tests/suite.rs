//! Small suites, run through the lit crate.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tir_lit::{Config, Outcome, Status, discover, run_suite};

/// A fresh directory with a suite in `test`.
fn suite(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&root);
    for (file, text) in files {
        let path = root.join("test").join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root.canonicalize().unwrap()
}

fn config(root: &Path) -> Config {
    let mut config = Config::new(root);
    config.temp = root.join("temp");
    config
        .substitutions
        .insert("greet".into(), "echo hello".into());
    config.features.insert("here".into());
    config.program = env!("CARGO_BIN_EXE_cargo-lit").into();
    config
}

fn run(config: &Config) -> Vec<Outcome> {
    let tests = discover(config, &["test".into()]).unwrap();
    let mut seen = Vec::new();
    let outcomes = run_suite(config, &tests, &mut |o| seen.push(o.name.clone()));
    let names: Vec<String> = outcomes.iter().map(|o| o.name.clone()).collect();
    assert_eq!(seen, names, "results come in order");
    assert!(names.is_sorted());
    outcomes
}

use Status::{ExpectedFailure, Failed, Passed, Skipped, TimedOut, UnexpectedPass};

/// Name, text, status, and what the report says.
const CASES: &[(&str, &str, Status, &str)] = &[
    (
        "plain",
        "// RUN: cat %s | filecheck %s\n// CHECK: word\nword",
        Passed,
        "",
    ),
    (
        "llvm-name",
        "// RUN: cat %s | FileCheck %s\n// CHECK: word\n",
        Passed,
        "",
    ),
    (
        "mismatch",
        "// RUN: echo abd | filecheck %s\n// CHECK: abc",
        Failed,
        "expected string not found",
    ),
    (
        "line",
        "// RUN: true\n// RUN: false",
        Failed,
        "RUN (line 2): false",
    ),
    (
        "producer",
        "// RUN: sh -c 'echo ok; exit 3' | filecheck %s\n// CHECK: ok",
        Failed,
        "=> exit code 3",
    ),
    (
        "loop",
        "// RUN: for n in 1 2; do test $n = 2; done",
        Failed,
        "=> exit code 1",
    ),
    (
        "pipe-of-loop",
        "// RUN: for n in 1 2; do echo $n; test $n = 2; done | filecheck %s\n// CHECK: 1",
        Failed,
        "=> exit code 1",
    ),
    (
        "stderr",
        "// RUN: sh -c 'echo bad luck >&2; exit 1'",
        Failed,
        "bad luck",
    ),
    (
        "stdout",
        "// RUN: sh -c 'echo seen; exit 1'",
        Failed,
        "seen",
    ),
    (
        "merge",
        "// RUN: sh -c 'echo oops >&2' 2>&1 | filecheck %s\n// CHECK: oops",
        Passed,
        "",
    ),
    (
        "unmerged",
        "// RUN: sh -c 'echo oops >&2' | filecheck %s --allow-empty\n// CHECK-NOT: oops",
        Passed,
        "",
    ),
    (
        "not",
        "// RUN: not false\n// RUN: not not true\n// RUN: ! false",
        Passed,
        "",
    ),
    (
        "not-fails",
        "// RUN: not true",
        Failed,
        "'not' expects a failure",
    ),
    ("bang-fails", "// RUN: ! true", Failed, "exit code 1"),
    (
        "not-filecheck",
        "// RUN: echo a | not filecheck %s\n// CHECK: b",
        Passed,
        "",
    ),
    ("panic", "// RUN: not sh -c 'exit 101'", Failed, "panicked"),
    (
        "crash",
        "// RUN: not --crash sh -c 'kill -9 $$'\n// RUN: not --crash sh -c 'exit 101'",
        Passed,
        "",
    ),
    (
        "no-crash",
        "// RUN: not --crash false",
        Failed,
        "expects a crash",
    ),
    ("signal", "// RUN: sh -c 'kill -9 $$'", Failed, "signal 9"),
    ("and", "// RUN: false && echo no", Failed, "$ false"),
    ("or", "// RUN: false || true", Passed, ""),
    (
        "files",
        "// RUN: echo a > %t && echo b >> %t && cat < %t | filecheck %s\n// CHECK: a\n// CHECK-NEXT: b",
        Passed,
        "",
    ),
    (
        "compare",
        "// RUN: mkdir -p %T/x && echo a > %T/x/f && echo b > %t\n// RUN: diff %T/x/f %t",
        Failed,
        "< a",
    ),
    (
        "fresh",
        "// RUN: not test -e %t\n// RUN: echo > %t",
        Passed,
        "",
    ),
    (
        "cd",
        "// RUN: cd %T && echo a > f && test -e %T/f",
        Passed,
        "",
    ),
    (
        "continued",
        "// RUN: echo a \\\n// RUN:   b | filecheck %s\n// CHECK: a b",
        Passed,
        "",
    ),
    ("open", "// RUN: echo a \\\n", Failed, "backslash"),
    (
        "names",
        "// RUN: %{greet} %%s | filecheck %s\n// CHECK: hello %s",
        Passed,
        "",
    ),
    ("no-name", "// RUN: %{nobody}", Failed, "no substitution"),
    ("same-dir", "// RUN: test -e %S/plain.tir", Passed, ""),
    (
        "quotes",
        "// RUN: echo 'a  b' \"c|d\" e\\>f | filecheck %s --strict-whitespace\n// CHECK: a  b c|d e>f",
        Passed,
        "",
    ),
    ("syntax", "// RUN: echo (", Failed, "syntax error"),
    (
        "missing",
        "// RUN: no-such-program-at-all x",
        Failed,
        "not found",
    ),
    ("env", "// RUN: X=5 sh -c 'test $X = 5'", Passed, ""),
    ("xfail", "// XFAIL: *\n// RUN: false", ExpectedFailure, ""),
    (
        "xfail-other",
        "// XFAIL: elsewhere\n// RUN: true",
        Passed,
        "",
    ),
    (
        "xpass",
        "// XFAIL: here\n// RUN: true",
        UnexpectedPass,
        "passes",
    ),
    (
        "requires",
        "// REQUIRES: here, sh\n// RUN: true",
        Passed,
        "",
    ),
    (
        "first-failure",
        "// RUN: echo one > %t; false\n// RUN: rm %t; echo two >&2; false",
        Failed,
        "one > ",
    ),
    (
        "open-quote",
        "// RUN: echo 'a",
        Failed,
        "quote is not closed",
    ),
    (
        "requires-not",
        "// REQUIRES: elsewhere\n// RUN: false",
        Skipped,
        "elsewhere",
    ),
    (
        "unsupported",
        "// UNSUPPORTED: here && !elsewhere\n// RUN: false",
        Skipped,
        "",
    ),
    (
        "bad-condition",
        "// REQUIRES: here &&\n// RUN: true",
        Failed,
        "condition",
    ),
    ("no-run", "nothing", Failed, "no RUN line"),
    ("Inputs/data", "nothing", Skipped, ""),
    ("slow", "// RUN: sleep 30", TimedOut, "killed after 2 s"),
    (
        "slow-xfail",
        "// XFAIL: *\n// RUN: sleep 30 | cat",
        TimedOut,
        "killed",
    ),
    (
        "words",
        "// NOTE: FOO: @main BAR-BAZ: x\n// RUN: echo @main | filecheck %s\n// CHECK-LABEL: @main",
        Passed,
        "",
    ),
    (
        "bytes",
        "// RUN: printf '\\377\\000a' | filecheck %s\n// CHECK: a",
        Passed,
        "",
    ),
];

fn check_cases(outcomes: &[Outcome]) {
    assert_eq!(outcomes.len(), CASES.len());
    for (name, _, status, says) in CASES {
        let name = format!("test/{name}.tir");
        let outcome = outcomes.iter().find(|o| o.name == name).unwrap();
        assert_eq!(outcome.status, *status, "{name}: {}", outcome.report);
        assert!(outcome.report.contains(says), "{name}: {}", outcome.report);
    }
}

fn cases(name: &str) -> Config {
    let files: Vec<(String, &str)> = CASES
        .iter()
        .map(|(n, t, ..)| (format!("{n}.tir"), *t))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (n.as_str(), *t)).collect();
    let mut config = config(&suite(name, &files));
    config.timeout = 2;
    config
}

#[test]
fn semantics() {
    check_cases(&run(&cases("a suite")));
}

#[test]
fn a_program_that_is_no_engine_fails_the_tests() {
    let mut config = config(&suite("no engine", &[("a.tir", "// RUN: true")]));
    config.program = "/bin/false".into();
    let outcomes = run(&config);
    assert_eq!(outcomes[0].status, Failed);
    assert!(
        outcomes[0].report.contains("engine"),
        "{}",
        outcomes[0].report
    );
}

#[test]
fn round_trip() {
    let root = suite(
        "round trip",
        &[
            (
                "good.tir",
                "// RUN: tir-opt %s | filecheck %s\n// CHECK: tir",
            ),
            ("bad.tir", "// RUN: tir-opt %s\n// broken"),
            ("only.tir", "text"),
            ("only-bad.tir", "broken"),
            ("off.tir", "// RUN: tir-opt %s\n// NO-ROUNDTRIP\n// broken"),
            (
                "split.tir",
                "// RUN: tir-opt --split-input-file %s\n// broken",
            ),
            (
                "verify.tir",
                "// RUN: tir-opt -verify-diagnostics %s\n// broken",
            ),
            ("not.tir", "// RUN: not tir-opt --fail %s\n// broken"),
            ("other.tir", "// RUN: cat %s\n// broken"),
            (
                "flag.tir",
                "// RUN: tir-opt --allow-unregistered-dialect %s\n// unregistered",
            ),
            ("local/lit.local", "# ours\nREADERS: my-opt, my-run\n"),
            ("local/below/mine.tir", "// RUN: my-run %s\n// broken"),
            ("local/stock.tir", "// RUN: tir-opt %s\n// broken"),
            ("wrong/lit.local", "READER: my-opt\n"),
            ("wrong/any.tir", "// RUN: true"),
        ],
    );
    let tools = root.join("tools");
    std::fs::create_dir_all(&tools).unwrap();
    let script = "#!/bin/sh\n\
        case \"$*\" in *--fail*) exit 1;; esac\n\
        for f; do :; done\n\
        case \"$*\" in *--verify-roundtrip*)\n\
        grep -q 'broken$' \"$f\" && { echo differs >&2; exit 1; }\n\
        case \"$*\" in *--allow-unreg*) exit 0;; esac\n\
        grep -q 'unregistered$' \"$f\" && exit 1\n\
        exit 0;; esac\n\
        echo tir\n";
    for name in ["tir-opt", "my-opt", "my-run"] {
        let tool = tools.join(name);
        std::fs::write(&tool, script).unwrap();
        Command::new("chmod").arg("+x").arg(&tool).status().unwrap();
    }
    let mut config = config(&root);
    config.tool_dirs.push(tools);
    config.round_trip = Some(tir_lit::Command::new("tir-opt", &["--verify-roundtrip"]));
    let outcomes = run(&config);
    let failed: Vec<&str> = outcomes
        .iter()
        .filter(|o| o.status.is_failure())
        .map(|o| o.name.as_str())
        .collect();
    let wanted = [
        "test/bad.tir",
        "test/local/below/mine.tir",
        "test/only-bad.tir",
        "test/wrong/any.tir",
    ];
    assert_eq!(failed, wanted);
    let report = |name: &str| {
        let of = outcomes.iter().find(|o| o.name == name);
        of.map_or("", |o| o.report.as_str())
    };
    assert!(report("test/local/below/mine.tir").contains("$ my-opt --verify-roundtrip"));
    assert!(report("test/wrong/any.tir").contains("line 1: expected READERS:"));
    assert!(outcomes[0].report.contains("round trip") && outcomes[0].report.contains("differs"));
}

fn cargo_lit(root: &Path, args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_cargo-lit");
    Command::new(program)
        .args(["lit", "--root=.", "--no-build", "--no-round-trip"])
        .args(args)
        .current_dir(root)
        .output()
        .unwrap()
}

#[test]
fn command_line() {
    let root = suite(
        "command line",
        &[
            ("a/one.tir", "// RUN: true"),
            (
                "a/two.tir",
                "// RUN: echo abd | filecheck %s\n// CHECK: abc",
            ),
            ("b/three.tir", "// REQUIRES: nothing\n// RUN: false"),
            ("b/four.mlir", "// RUN: true"),
        ],
    );
    let text = |o: &Output| String::from_utf8_lossy(&o.stdout).into_owned();
    let all = cargo_lit(&root, &["--json", "out.json", "-j", "2"]);
    let shown = text(&all);
    let said = String::from_utf8_lossy(&all.stderr);
    assert_eq!(all.status.code(), Some(1), "{shown}{said}");
    assert_eq!(shown.lines().last(), Some("1 passed, 1 failed, 1 skipped"));
    assert!(
        shown.contains("FAIL: test/a/two.tir") && shown.contains("scanning from here"),
        "{shown}"
    );
    assert!(!shown.contains("one.tir"));
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(root.join("out.json")).unwrap()).unwrap();
    assert_eq!(json["failed"], 1);
    assert_eq!(json["tests"][2]["status"], "skipped");

    let some = cargo_lit(&root, &["test/a", "--filter", "one", "-v"]);
    assert_eq!(some.status.code(), Some(0));
    assert_eq!(
        text(&some),
        "PASS: test/a/one.tir\n1 passed, 0 failed, 0 skipped\n"
    );
    let suffix = cargo_lit(&root, &["--suffix", "tir,mlir", "--list"]);
    assert_eq!(text(&suffix).lines().count(), 4);
    for bad in [
        &["--filter", "("][..],
        &["nowhere"],
        &["--bogus"],
        &["--filter", "zzz"],
    ] {
        assert_eq!(cargo_lit(&root, bad).status.code(), Some(2), "{bad:?}");
    }
}
