//! The lit crate as the engine: batches of generated files, a worker process per batch.
//!
//! A batch is a directory with `batch.json` (the settings and its tests) and, per test, a file that
//! holds nothing but `RUN: <number>`. The worker process hands the directory to lit with this
//! program as lit's shell; lit starts `cargo-lit -c <number>` for each file, which runs that test
//! and leaves `<number>.json`. lit's own verdict on the batch must agree with those results.

use crate::config::Config;
use crate::suite::{Finished, Test};
use crate::test::{Outcome, Status, run_test};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

/// Names the batch to the worker process and to what lit starts.
const BATCH: &str = "TIR_LIT_BATCH";
/// The most tests in one batch.
const MAX_BATCH: usize = 32;

#[derive(Serialize, Deserialize)]
struct Batch {
    config: Config,
    tests: Vec<Test>,
}

/// Takes batches off the queue until it is empty.
pub(crate) fn work(
    config: &Config,
    program: &Path,
    worker: usize,
    tests: &[Test],
    next: &AtomicUsize,
    done: &Sender<Finished>,
) {
    let dir = config
        .temp
        .join(".lit")
        .join(format!("{}-{worker}", std::process::id()));
    loop {
        // Batches get smaller towards the end, so that no worker is left with a long one.
        let left = tests.len().saturating_sub(next.load(Ordering::Relaxed));
        let size = (left / (4 * config.jobs.max(1))).clamp(1, MAX_BATCH);
        let first = next.fetch_add(size, Ordering::Relaxed);
        let Some(mine) = tests
            .get(first..tests.len().min(first + size))
            .filter(|m| !m.is_empty())
        else {
            break;
        };
        let outcomes = run_batch(config, program, &dir, mine);
        for (i, outcome) in outcomes.into_iter().enumerate() {
            if done.send((first + i, outcome)).is_err() {
                break;
            }
        }
    }
    // Left over only if something else holds it; the next run does not mind.
    let _ = std::fs::remove_dir_all(&dir);
}

fn run_batch(config: &Config, program: &Path, dir: &Path, tests: &[Test]) -> Vec<Outcome> {
    let broken = |reason: &str| -> Vec<Outcome> {
        let report = format!("  the test engine failed: {reason}\n");
        tests
            .iter()
            .map(|t| Outcome::new(t, Status::Failed, report.clone()))
            .collect()
    };
    if let Err(e) = write_batch(config, dir, tests) {
        return broken(&format!("cannot write '{}': {e}", dir.display()));
    }
    let worker = Command::new(program)
        .env(BATCH, dir)
        // lit looks the terminal up to colour what nobody sees.
        .env_remove("TERM")
        .current_dir(&config.root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output();
    let output = match worker {
        Ok(output) => output,
        Err(e) => return broken(&format!("cannot start '{}': {e}", program.display())),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let mut outcomes = Vec::new();
    for (i, test) in tests.iter().enumerate() {
        let text = std::fs::read_to_string(dir.join(format!("{i}.json"))).unwrap_or_default();
        outcomes.push(serde_json::from_str::<Outcome>(&text).unwrap_or_else(|_| {
            let last = said.lines().rev().take(5).collect::<Vec<_>>().join(" | ");
            let report = format!("  the test engine gave no result (it said: {last})\n");
            Outcome::new(test, Status::Failed, report)
        }));
    }
    let failed = outcomes.iter().any(|o| o.status.is_failure());
    if output.status.success() == failed && !outcomes.is_empty() {
        return broken(&format!(
            "lit's verdict ({}) is not that of the tests",
            output.status
        ));
    }
    outcomes
}

fn write_batch(config: &Config, dir: &Path, tests: &[Test]) -> std::io::Result<()> {
    if dir.exists() {
        std::fs::remove_dir_all(dir)?;
    }
    std::fs::create_dir_all(dir)?;
    let batch = Batch {
        config: config.clone(),
        tests: tests.to_vec(),
    };
    std::fs::write(dir.join("batch.json"), serde_json::to_vec(&batch)?)?;
    for i in 0..tests.len() {
        std::fs::write(dir.join(format!("{i}.run")), format!("RUN: {i}\n"))?;
    }
    Ok(())
}

/// If this process is part of a batch, does that part and returns its exit code.
pub(crate) fn inner_main(args: &[String]) -> Option<u8> {
    let dir = PathBuf::from(std::env::var_os(BATCH)?);
    match args {
        [_] => Some(u8::from(!run_lit(&dir))),
        [_, flag, index] if flag == "-c" => Some(run_one(&dir, index.trim())),
        _ => None,
    }
}

/// Lets lit run the generated files; true when it says that all passed.
fn run_lit(dir: &Path) -> bool {
    let Ok(program) = std::env::current_exe() else {
        return false;
    };
    lit::run::tests(lit::event_handler::Default::new(), |config| {
        config.add_extension("run");
        config.test_paths = vec![dir.to_path_buf()];
        config.shell = program.display().to_string();
        config.extra_executable_search_paths.clear();
        config.truncate_output_context_to_number_of_lines = Some(1);
    })
    .is_ok()
}

/// Runs the test of a generated file; 1 when it failed.
fn run_one(dir: &Path, index: &str) -> u8 {
    let batch = std::fs::read(dir.join("batch.json")).unwrap_or_default();
    let Ok(batch) = serde_json::from_slice::<Batch>(&batch) else {
        return 2;
    };
    let Some(test) = index.parse().ok().and_then(|i: usize| batch.tests.get(i)) else {
        return 2;
    };
    let outcome = run_test(&batch.config, test);
    let Ok(text) = serde_json::to_vec(&outcome) else {
        return 2;
    };
    match std::fs::write(dir.join(format!("{index}.json")), text) {
        Ok(()) => u8::from(outcome.status.is_failure()),
        Err(_) => 2,
    }
}
