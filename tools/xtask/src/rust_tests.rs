//! All Rust tests, two test programs at a time.
//!
//! `cargo test` runs one program after the other, and the last test of each runs alone on one core. Here cargo builds the programs and says where they are; two run side by side, each in its package's folder as
//! cargo runs it. What a program prints is shown when it has ended, so that lines of two never mix.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use serde::Deserialize;

use crate::crates::relative;

/// Programs that run at a time. Tests within one run on all cores already: the second fills what a slow test leaves.
const AT_A_TIME: usize = 2;

/// A message of cargo about something that it built, and others, which have no `executable`.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    executable: Option<PathBuf>,
    #[serde(default)]
    profile: Option<Profile>,
    #[serde(default)]
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
}

/// A test program.
#[derive(PartialEq, Eq, Debug)]
struct Program {
    executable: PathBuf,
    /// The folder of its package.
    folder: PathBuf,
    source: PathBuf,
}

/// Builds and runs the tests of a profile; `false` if one fails or does not build.
pub(crate) fn run(cargo: &Path, root: &Path, profile: &str) -> Result<bool, String> {
    let build = ["test", "--profile", profile, "--workspace", "--no-run"];
    println!("== Rust tests: cargo {}", build.join(" "));
    let start = Instant::now();
    let built = Command::new(cargo)
        .args(build)
        .args(["--quiet", "--message-format=json-render-diagnostics"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if !built.status.success() {
        println!("== Rust tests: FAILED to build");
        return Ok(false);
    }
    let programs = programs(&String::from_utf8_lossy(&built.stdout))?;
    let built = start.elapsed().as_secs_f64();
    println!(
        "== Rust tests: {} programs built in {built:.0} s",
        programs.len()
    );
    let failed = run_all(&programs, &|program| {
        Command::new(&program.executable)
            .arg("--quiet")
            .env("CARGO", cargo)
            .env("CARGO_MANIFEST_DIR", &program.folder)
            .current_dir(&program.folder)
            .stdin(Stdio::null())
            .output()
    });
    for program in &failed {
        println!("== Rust tests: FAILED {}", relative(root, &program.source));
    }
    let seconds = start.elapsed().as_secs_f64();
    let end = if failed.is_empty() {
        "took"
    } else {
        "FAILED after"
    };
    eprintln!("== Rust tests: {end} {seconds:.0} s");
    Ok(failed.is_empty())
}

/// The test programs that cargo's messages name.
fn programs(messages: &str) -> Result<Vec<Program>, String> {
    let mut programs = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line)
            .map_err(|e| format!("cargo's message is not understood: {e}: {line}"))?;
        let (Some(executable), Some(target)) = (message.executable, message.target) else {
            continue;
        };
        if message.profile.is_some_and(|profile| profile.test) {
            let folder = message.manifest_path.parent();
            programs.push(Program {
                executable,
                folder: folder.unwrap_or(Path::new("")).to_path_buf(),
                source: target.src_path,
            });
        }
    }
    if programs.is_empty() {
        return Err("cargo names no test program".to_string());
    }
    // Those of the tools, which take longest, are first.
    programs.sort_by(|a, b| b.source.cmp(&a.source));
    Ok(programs)
}

/// Runs programs in their order, some at a time; gives those that failed.
fn run_all<'p>(
    programs: &'p [Program],
    start: &(dyn Fn(&Program) -> std::io::Result<Output> + Sync),
) -> Vec<&'p Program> {
    let waiting = Mutex::new(programs.iter());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().map(|mut waiting| waiting.next());
                    let Ok(Some(program)) = next else { break };
                    let begin = Instant::now();
                    let output = start(program);
                    let good = show(program, output, begin.elapsed().as_secs());
                    if let (false, Ok(mut failed)) = (good, failed.lock()) {
                        failed.push(program);
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap_or_default();
    failed.sort_by(|a, b| a.source.cmp(&b.source));
    failed
}

/// Prints how a program ended, after how many seconds, and all that it printed if it failed; whether it passed.
fn show(program: &Program, output: std::io::Result<Output>, seconds: u64) -> bool {
    let name = relative(&crate::root(), &program.source);
    let output = match output {
        Ok(output) => output,
        Err(e) => {
            println!("{name}: cannot start: {e}");
            return false;
        }
    };
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let good = output.status.success();
    let text = if good {
        let results = stdout
            .lines()
            .filter(|line| line.starts_with("test result"));
        results.map(|line| format!("{line}\n")).collect()
    } else {
        format!("{stdout}{stderr}{}\n", output.status)
    };
    print!("{name}, {seconds} s\n{text}");
    good
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str) -> Program {
        Program {
            executable: PathBuf::from("/nowhere").join(name),
            folder: PathBuf::from("/nowhere"),
            source: PathBuf::from(name),
        }
    }

    #[test]
    fn programs_of_tests_are_taken_from_messages() {
        let messages = r#"
{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"src_path":"/w/a/tests/t.rs"},"profile":{"test":true},"executable":"/t/t-1"}
{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"src_path":"/w/a/src/main.rs"},"profile":{"test":false},"executable":"/t/a"}
{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"src_path":"/w/a/src/lib.rs"},"profile":{"test":true},"executable":null}
{"reason":"build-finished","success":true}"#;
        let found = programs(messages).unwrap();
        let [test] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(test.executable, Path::new("/t/t-1"));
        assert_eq!(test.folder, Path::new("/w/a"));
        assert!(programs("{\"executable\": 1}").is_err());
        assert!(programs("").is_err());
    }

    #[test]
    fn all_run_and_those_that_fail_are_named() {
        let all = ["a", "b", "c", "d"].map(program);
        let ran = Mutex::new(Vec::new());
        let failed = run_all(&all, &|program| {
            ran.lock().unwrap().push(program.source.clone());
            // Of the two that do not start one has no program, the other no folder.
            let name = if program == &all[1] {
                "/nowhere/b"
            } else {
                "true"
            };
            let folder = if program == &all[3] {
                "/nowhere/at/all"
            } else {
                "/"
            };
            Command::new(name).current_dir(folder).output()
        });
        assert_eq!(failed, [&all[1], &all[3]]);
        let mut ran = ran.into_inner().unwrap();
        ran.sort();
        assert_eq!(ran, ["a", "b", "c", "d"].map(PathBuf::from));
    }
}
