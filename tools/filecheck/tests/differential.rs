//! One table of small cases: our verdict is asserted, and LLVM's wherever its FileCheck is installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

struct Case<'a> {
    name: &'a str,
    args: Vec<String>,
    checks: String,
    input: String,
    /// The exit code: 0 matched, 1 did not, 2 could not be tried.
    code: i32,
}

/// `### name [options] => code`, the check file, `---`, the input. `\r` stands for itself.
fn cases() -> Vec<Case<'static>> {
    let table = include_str!("cases.txt");
    let mut cases = Vec::new();
    for block in table.split("### ").skip(1) {
        let (head, body) = block.split_once('\n').unwrap();
        let (title, code) = head.rsplit_once(" => ").unwrap();
        let (name, args) = match title.split_once(" [") {
            Some((name, args)) => (name, args.strip_suffix(']').unwrap()),
            None => (title, ""),
        };
        let (checks, input) = body.split_once("---\n").unwrap();
        cases.push(Case {
            name,
            args: args.split_whitespace().map(String::from).collect(),
            checks: checks.to_string(),
            input: input.replace("\\r", "\r"),
            code: code.parse().unwrap(),
        });
    }
    cases
}

fn llvm() -> Option<PathBuf> {
    ["FileCheck-22", "/usr/lib/llvm-22/bin/FileCheck"]
        .into_iter()
        .map(PathBuf::from)
        .find(|program| {
            let version = Command::new(program)
                .arg("--version")
                .stdout(Stdio::null())
                .status();
            version.is_ok_and(|status| status.success())
        })
}

fn args(case: &Case<'_>, dir: &Path) -> Vec<String> {
    let (checks, input) = (dir.join("checks.txt"), dir.join("input.txt"));
    std::fs::write(&checks, &case.checks).unwrap();
    std::fs::write(&input, &case.input).unwrap();
    let mut args = case.args.clone();
    args.extend([
        checks.display().to_string(),
        format!("--input-file={}", input.display()),
    ]);
    args
}

#[test]
fn verdicts() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("differential");
    std::fs::create_dir_all(&dir).unwrap();
    let oracle = llvm();
    let cases = cases();
    assert!(cases.len() >= 150, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let args = args(case, &dir);
        let ours = tir_filecheck::run(&args, Path::new(""), &mut || Ok(Vec::new()));
        if i32::from(ours.code) != case.code {
            wrong.push(format!(
                "{}: expected {}, ours {}\n{}",
                case.name, case.code, ours.code, ours.stderr
            ));
        }
        let Some(program) = &oracle else { continue };
        let theirs = Command::new(program).args(&args).output().unwrap();
        if theirs.status.code() != Some(case.code) {
            let text = String::from_utf8_lossy(&theirs.stderr).into_owned();
            wrong.push(format!(
                "{}: expected {}, LLVM {:?}\n{text}",
                case.name,
                case.code,
                theirs.status.code()
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The table's texts cut, crossed and with bytes changed: any verdict, never a panic.
#[test]
fn no_panic_on_broken_text() {
    let cases = cases();
    let mut random = tir_data::Random::new(0x9e37_79b9_7f4a_7c15);
    for round in 0..6000 {
        let (a, b) = (
            &cases[random.below(cases.len())],
            &cases[random.below(cases.len())],
        );
        let mut texts = [a.checks.clone().into_bytes(), b.input.clone().into_bytes()];
        if round % 3 == 0 {
            texts[1] = a.input.clone().into_bytes();
        }
        for text in &mut texts {
            for _ in 0..random.below(4) {
                let at = random.below(text.len() + 1);
                match random.below(4) {
                    0 => text.truncate(at),
                    1 => text.insert(at, random.below(256) as u8),
                    2 => text.splice(at..at, "[[#X:]]{{(é|".bytes()).for_each(drop),
                    _ if at < text.len() => text[at] = random.below(256) as u8,
                    _ => {}
                }
            }
        }
        let options = tir_filecheck::Options {
            match_full_lines: random.below(4) == 0,
            strict_whitespace: random.below(3) == 0,
            ignore_case: random.below(3) == 0,
            allow_empty: true,
            verbose: true,
            ..Default::default()
        };
        let [checks, input] = &texts;
        let source = tir_filecheck::Source::new;
        match tir_filecheck::check(&options, source("checks", checks), source("input", input)) {
            Ok(_) => {}
            Err(failure) => assert!(failure.report.starts_with("error: "), "{}", failure.report),
        }
    }
}
