//! Extraction: what it costs beside its bound and beside bottom-up extraction.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tir_egraph_cli::run;

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

/// What is extracted from.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// E-graphs in the JSON format of extraction-gym; none: those of the repository
    #[arg(value_name = "FILE.json")]
    files: Vec<PathBuf>,
    /// Seconds for each e-graph
    #[arg(long, value_name = "S", default_value_t = 2)]
    seconds: u64,
}

/// Extracts from the files given, or from every file there is, and prints a line for each.
///
/// # Errors
/// A file that cannot be read or has no answer.
pub(crate) fn extract(given: &Options) -> Result<(), String> {
    let files = match given.files.is_empty() {
        true => files(),
        false => given.files.clone(),
    };
    println!(
        "gap: what the cost may be above the cheapest, 0 is proved optimal; bottom-up is the cheapest tree of each class"
    );
    println!(
        "{:<36} {:>8} {:>14} {:>14} {:>9} {:>14} {:>10}",
        "e-graph", "nodes", "cost", "bound", "gap", "bottom-up", "ms"
    );
    let mut proved = 0;
    for file in &files {
        let options = tir_egraph_cli::Options {
            extract: file.clone(),
            time_limit: Some(Duration::from_secs(given.seconds)),
            max_steps: None,
            json: None,
            dot: None,
        };
        let report = run(&options, &mut tir::Sources::default());
        let report = report.map_err(|e| format!("{}: {}", file.display(), e.message))?;
        proved += usize::from(report.optimal);
        println!(
            "{:<36} {:>8} {:>14.6} {:>14.6} {:>7.3} % {:>14.6} {:>10.1}",
            file.file_stem().unwrap_or_default().to_string_lossy(),
            report.nodes,
            report.cost,
            report.bound,
            100.0 * report.gap,
            report.bottom_up,
            report.seconds * 1e3,
        );
    }
    println!("proved optimal: {proved} of {}", files.len());
    Ok(())
}
