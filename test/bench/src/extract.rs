//! Extraction: what it costs beside its bound and beside bottom-up extraction.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tir_egraph_cli::{Options, run};

/// The e-graphs of the project.
fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = std::fs::read_dir(root.join("tools/egraph-cli/tests/data"));
    let found = entries.into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "json"));
    files.sort();
    files
}

/// Extracts from `given`, or from every file there is, and prints a line for each.
///
/// # Errors
/// A file that cannot be read or has no answer.
pub(crate) fn extract(given: &[String]) -> Result<(), String> {
    let files = match given {
        [] => files(),
        given => given.iter().map(PathBuf::from).collect(),
    };
    println!("cost to bound: 1 is proved optimal; bottom-up is the cheapest tree of each class");
    for file in files {
        let options = Options {
            extract: file.clone(),
            time_limit: Some(Duration::from_secs(2)),
            max_steps: None,
            json: None,
            dot: None,
        };
        let report = run(&options, &mut tir::Sources::default());
        let report = report.map_err(|e| format!("{}: {}", file.display(), e.message))?;
        let ratio = |cost: f64| if cost > 0.0 { cost / report.bound } else { 1.0 };
        println!(
            "{:<24} cost {:>10.6}   to bound {:.6}   bottom-up to bound {:.6}   {:>8.1} ms",
            file.file_name().unwrap_or_default().to_string_lossy(),
            report.cost,
            ratio(report.cost),
            ratio(report.bottom_up),
            report.seconds * 1e3,
        );
    }
    Ok(())
}
