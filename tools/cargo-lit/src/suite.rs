//! A suite: which files are tests, and running them all.

use crate::config::Config;
use crate::engine;
use crate::test::{Outcome, prepare};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

/// A test file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Test {
    /// Its path from the root, with `/`.
    pub name: String,
    /// Its absolute path.
    pub path: PathBuf,
}

/// Finds the test files at and below `paths` (relative ones start at the root), in order of name.
///
/// A file named directly is taken whatever its suffix. Directories whose name starts with a dot
/// are left out. A path that does not exist is an error.
pub fn discover(config: &Config, paths: &[PathBuf]) -> Result<Vec<Test>, String> {
    let mut tests = Vec::new();
    let root = config
        .root
        .canonicalize()
        .unwrap_or_else(|_| config.root.clone());
    for path in paths {
        let shown = path.display();
        let path = config
            .root
            .join(path)
            .canonicalize()
            .map_err(|e| format!("{shown}: {e}"))?;
        if path.is_dir() {
            walk(config, &root, &path, &mut tests).map_err(|e| format!("{shown}: {e}"))?;
        } else {
            tests.push(Test {
                name: name(&root, &path),
                path,
            });
        }
    }
    tests.sort();
    tests.dedup();
    Ok(tests)
}

fn walk(config: &Config, root: &Path, dir: &Path, tests: &mut Vec<Test>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(config, root, &path, tests)?;
        } else if let Some(suffix) = path.extension()
            && config.suffixes.iter().any(|s| suffix == s.as_str())
        {
            tests.push(Test {
                name: name(root, &path),
                path,
            });
        }
    }
    Ok(())
}

/// The path from the root; a file elsewhere is named by its whole path, without leading `/`.
fn name(root: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(root).unwrap_or(path);
    let parts = relative.components().filter_map(|c| match c {
        Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
        _ => None,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Runs the tests on all workers. `seen` is called in the order of `tests`, each time a result and
/// all before it are known. Returns the outcomes in that order.
pub fn run_suite(config: &Config, tests: &[Test], seen: &mut dyn FnMut(&Outcome)) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let jobs = config.jobs.clamp(1, tests.len().max(1));
    let mut results: Vec<Option<Outcome>> = vec![None; tests.len()];
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for worker in 0..jobs {
            let sender = sender.clone();
            let next = &next;
            scope.spawn(move || work(config, worker, tests, next, &sender));
        }
        drop(sender);
        let mut shown = 0;
        for (index, outcome) in receiver {
            results[index] = Some(outcome);
            while let Some(Some(outcome)) = results.get(shown) {
                seen(outcome);
                shown += 1;
            }
        }
    });
    results.into_iter().flatten().collect()
}

/// The result of the test at an index.
pub(crate) type Finished = (usize, Outcome);

/// The most tests in one batch.
const MAX_BATCH: usize = 32;

/// Takes batches off the queue until it is empty.
fn work(
    config: &Config,
    worker: usize,
    tests: &[Test],
    next: &AtomicUsize,
    done: &Sender<Finished>,
) {
    let folder = format!("{}-{worker}", std::process::id());
    let folder = config.temp.join(".lit").join(folder);
    loop {
        // Batches get smaller towards the end, so that no worker is left with a long one.
        let left = tests.len().saturating_sub(next.load(Ordering::Relaxed));
        let size = (left / (4 * config.jobs.max(1))).clamp(1, MAX_BATCH);
        let first = next.fetch_add(size, Ordering::Relaxed);
        let mine = tests.iter().enumerate().skip(first).take(size);
        let mut places = Vec::new();
        let mut batch = Vec::new();
        for (i, test) in mine {
            match prepare(config, test) {
                Ok(prepared) => {
                    places.push(i);
                    batch.push(prepared);
                }
                // Nobody is left to be told if the other end is gone.
                Err(outcome) => drop(done.send((i, outcome))),
            }
        }
        if first >= tests.len() {
            break;
        }
        if batch.is_empty() {
            continue;
        }
        let outcomes = engine::run(config, &folder, &batch);
        for ((i, test), outcome) in places.into_iter().zip(&batch).zip(outcomes) {
            let outcome = match test.fails {
                true => outcome.expecting_failure(),
                false => outcome,
            };
            drop(done.send((i, outcome)));
        }
    }
    // Left over only if something else holds it; the next run does not mind.
    let _ = std::fs::remove_dir_all(&folder);
}
