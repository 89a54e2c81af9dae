//! The command line of a driver of one's own: help, lists, order of flags, exit codes.

use std::ffi::OsString;

use tir::{Ir, Pass, PassCx, PassInfo, PassResult, pass};
use tir_opt::{Outcome, Tool};
use tir_pass::{Alias, Pipeline};

pass! {
    /// Writes its name on the op. A second sentence that help leaves out.
    pub struct Stamp = "stamp" on "builtin.module" {
        /// What is written.
        pub text: String = "stamped".to_string(),
        /// How often; at least once.
        pub times: usize = 1,
    }
}
impl Pass for Stamp {
    fn run(&self, ir: &mut Ir, _: &mut PassCx<'_>) -> PassResult {
        let root = ir.root();
        let old = ir
            .attr(root, "test.stamps")
            .and_then(|a| a.as_str().map(str::to_string));
        let new = old.unwrap_or_default() + &self.text.repeat(self.times);
        ir.set_attr(root, "test.stamps", tir::Attr::str(&new));
        Ok(())
    }
}

pass! {
    /// Fails.
    pub struct Fail = "fail" {}
}
impl Pass for Fail {
    fn run(&self, ir: &mut Ir, _: &mut PassCx<'_>) -> PassResult {
        Err(vec![
            tir::Diagnostic::error("this pass fails").at(ir.loc(ir.root())),
        ])
    }
}

pass! {
    /// Stamps two times.
    pub struct Twice = "twice" {}
}
impl Alias for Twice {
    fn expand(&self, pipeline: &mut Pipeline) {
        pipeline.add(Stamp::default()).add(Stamp::default());
    }
}

fn tool() -> Tool {
    Tool::new("my-opt", "Runs the passes of a test.")
        .dialects([&tir_builtin::DIALECT, &tir_builtin::TIR])
        .passes([
            PassInfo::of::<Stamp>(),
            PassInfo::of::<Fail>(),
            PassInfo::alias::<Twice>(),
        ])
}

const EMPTY: &str = "\"builtin.module\"() ({\n^bb0:\n}) : () -> ()\n";

fn run_on(input: &[u8], args: &[&str]) -> Outcome {
    let args: Vec<OsString> = ["my-opt"].iter().chain(args).map(OsString::from).collect();
    tir_opt::run(&tool(), &args, &mut &input[..], false)
}
fn stdout(args: &[&str]) -> String {
    let outcome = run_on(EMPTY.as_bytes(), args);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{args:?}");
    String::from_utf8(outcome.stdout).expect("text")
}

#[test]
fn help() {
    insta::assert_snapshot!(stdout(&["--help"]));
}

#[test]
fn list_passes() {
    insta::assert_snapshot!(stdout(&["--list-passes"]));
}

#[test]
fn list_dialects() {
    assert_eq!(stdout(&["--show-dialects"]), "builtin\ntir\n");
    assert!(stdout(&["--list-dialects"]).contains("\n  builtin.module"));
    assert!(stdout(&["--list-dialects=builtin"]).starts_with("# builtin\n"));
    let unknown = run_on(b"", &["--list-dialects=bultin"]);
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.stderr.contains("did you mean 'builtin'"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn passes_run_in_the_order_given() {
    let stamps = |args: &[&str]| {
        let text = stdout(args);
        text.split('"')
            .nth(1)
            .map(str::to_string)
            .unwrap_or_default()
    };
    let args = [
        "--stamp=text=a times=2",
        "--twice",
        "--stamp=text=b",
        "--stamp",
    ];
    assert_eq!(stamps(&args), "aastampedstampedbstamped");
    let args = [
        "--pass-pipeline=builtin.module(stamp{text=x})",
        "--stamp=text=y",
        "--pass-pipeline=stamp{text=z}",
    ];
    assert_eq!(stamps(&args), "xyz");
}

#[test]
fn exit_codes() {
    assert_eq!(run_on(EMPTY.as_bytes(), &["--fail"]).code, 1);
    assert_eq!(run_on(EMPTY.as_bytes(), &["--stamp=times=x"]).code, 1);
    assert_eq!(run_on(b"\"builtin.module\"(", &[]).code, 1);
    assert_eq!(run_on(EMPTY.as_bytes(), &["--no-such-flag"]).code, 2);
    assert_eq!(
        run_on(EMPTY.as_bytes(), &["--print-ir-after=no-such-pass"]).code,
        2
    );
    assert_eq!(run_on(EMPTY.as_bytes(), &["no-such-file.tir"]).code, 1);
}

#[test]
fn errors_have_places() {
    let bad = run_on(b"\"builtin.module\"() ({\n  \xff\n}) : () -> ()\n", &[]);
    assert!(
        bad.stderr
            .contains("byte 0xff is no UTF-8 text\n--> <stdin>:2:3"),
        "{}",
        bad.stderr
    );
    let long = run_on(EMPTY.as_bytes(), &["--max-bytes=10"]);
    assert!(
        long.stderr
            .contains("has more bytes than the limit of 10\n--> <stdin>:1:1"),
        "{}",
        long.stderr
    );
    let option = run_on(EMPTY.as_bytes(), &["--stamp=times=x"]);
    assert!(
        option.stderr.contains("--> <pass-pipeline>:1:13"),
        "{}",
        option.stderr
    );
}

#[test]
fn a_failing_pass_leaves_no_output() {
    let folder = std::env::temp_dir().join(format!("tir-opt-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (out, reproducer) = (folder.join("out.tir"), folder.join("bug.tir"));
    let flags = [
        format!("-o{}", out.display()),
        format!("--emit-reproducer={}", reproducer.display()),
    ];
    let failed = run_on(
        EMPTY.as_bytes(),
        &["--stamp", "--fail", &flags[0], &flags[1]],
    );
    assert_eq!(failed.code, 1);
    assert!(!out.exists());
    let text = std::fs::read_to_string(&reproducer).expect("a reproducer");
    assert!(
        text.starts_with(
            "// RUN: my-opt --run-reproducer %s\n\
             // configuration: '--pass-pipeline=fail' '--verify-each=true'\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("stamped"),
        "its input is what --stamp made: {text}"
    );
    let again = run_on(text.as_bytes(), &["--run-reproducer"]);
    assert_eq!(again.code, 1, "{}", again.stderr);
    assert_eq!(run_on(text.as_bytes(), &["--stamp", &flags[0]]).code, 0);
    assert!(out.exists());
    assert_eq!(
        std::fs::read_dir(&folder).expect("a folder").count(),
        2,
        "no temporary files"
    );
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn split_input() {
    let two = format!("{EMPTY}// -----\n{EMPTY}");
    let outcome = run_on(two.as_bytes(), &["--split-input-file", "--stamp"]);
    let text = String::from_utf8(outcome.stdout).expect("text");
    assert_eq!(text.matches("stamped").count(), 2);
    assert_eq!(text.matches("\n// -----\n").count(), 1);
    // An error in one piece is placed in the whole file, and nothing is printed.
    let bad = format!("{EMPTY}// -----\n\"builtin.module\"() ({{\n");
    let outcome = run_on(bad.as_bytes(), &["--split-input-file"]);
    assert_eq!((outcome.code, outcome.stdout.len()), (1, 0));
    assert!(
        outcome.stderr.contains("--> <stdin>:5:"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn verify_diagnostics() {
    let bad = "// expected-error@below {{no.such}}\n\"no.such\"() : () -> ()\n";
    let check = |text: &str| {
        run_on(
            text.as_bytes(),
            &["--verify-diagnostics", "--split-input-file"],
        )
    };
    let good = check(&format!("{bad}// -----\n{EMPTY}// -----\n{bad}"));
    assert_eq!((good.code, good.stderr.as_str()), (0, ""));
    assert_eq!(
        check(&format!(
            "{bad}// -----\n// expected-error@below {{{{never}}}}\n{EMPTY}"
        ))
        .code,
        1
    );
    assert_eq!(
        check(&bad.replace("no.such}}", "quite different}}")).code,
        1
    );
}

/// What is no regular file is written to, never replaced by a file of its name.
#[cfg(unix)]
#[test]
fn special_files_stay_what_they_are() {
    let folder = std::env::temp_dir().join(format!("tir-opt-pipe-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let pipe = folder.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    let reader = pipe.clone();
    let reader = std::thread::spawn(move || std::fs::read_to_string(reader));
    let outcome = run_on(
        EMPTY.as_bytes(),
        &["--stamp", "-o", &pipe.display().to_string()],
    );
    // Without a writer the reader would wait: only if the pipe is still one is it asked.
    let kind = std::fs::metadata(&pipe).expect("the pipe");
    assert!(!kind.is_file(), "the pipe was replaced by a file");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let text = reader.join().expect("no panic").expect("a text");
    assert!(text.contains("stamped"), "{text}");
    std::fs::remove_dir_all(&folder).expect("removed");
}
