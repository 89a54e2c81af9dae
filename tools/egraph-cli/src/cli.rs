//! The command line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use tir::{Diagnostic, Loc, Name, Sources};
use tir_extraction::{dot, solve};

use crate::gym::{explain, read};
use crate::{Report, is_acyclic};

/// Extracts the cheapest acyclic program from an e-graph: the cost of a shared e-node counts once
/// over all roots (DAG cost). Prints the cost and a lower bound.
/// Exit code: 0 on success, 1 if the file is malformed or a root has no finite derivation, 2 on a
/// wrong command line.
#[derive(Parser, Clone, Debug)]
#[command(name = "tir-egraph", max_term_width = 100)]
pub struct Options {
    /// E-graph in the JSON format of egraph-serialize and extraction-gym.
    #[arg(long, value_name = "FILE.json")]
    pub extract: PathBuf,
    /// Time limit in seconds; the best extraction so far is the result.
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub time_limit: Option<Duration>,
    /// Maximum number of search steps (deterministic); the best extraction so far is the result.
    /// [default: none with --time-limit, else 50000000]
    #[arg(long, value_name = "N")]
    pub max_steps: Option<u64>,
    /// Write the report and the extracted e-nodes as JSON.
    #[arg(long, value_name = "FILE.json")]
    pub json: Option<PathBuf>,
    /// Write the extracted program in DOT.
    #[arg(long, value_name = "FILE.dot")]
    pub dot: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    Duration::try_from_secs_f64(seconds).map_err(|e| e.to_string())
}

/// Reads, extracts, writes.
///
/// # Errors
/// A file that cannot be read or written, a malformed one, a root without finite derivation.
pub fn run(options: &Options, sources: &mut Sources) -> Result<Report, Diagnostic> {
    let start = Instant::now();
    let path = options.extract.display().to_string();
    let name = Name::new(&path);
    let bytes = std::fs::read(&options.extract)
        .map_err(|e| Diagnostic::error(format!("cannot read '{path}': {e}")))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Diagnostic::error("is no UTF-8 text".to_string()).at(Loc::file(name, 1, 1)))?;
    sources.add(name, text.as_str());
    let (graph, choice) = read(name, &text)?;
    let spent = || {
        let limit = options.time_limit.unwrap_or(Duration::MAX);
        start.elapsed().as_secs_f64() / limit.as_secs_f64()
    };
    let steps = match (options.max_steps, options.time_limit) {
        (Some(steps), _) => steps,
        (None, Some(_)) => u64::MAX,
        (None, None) => tir_extraction::Options::default().max_steps,
    };
    let solving = tir_extraction::Options {
        max_steps: steps,
        spent: options.time_limit.is_some().then_some(&spent),
        // One that is no answer is passed over.
        seeds: vec![choice],
    };
    let found = solve(&graph.problem, &solving).map_err(|e| explain(&graph, &e, name, &text))?;
    let seconds = start.elapsed().as_secs_f64();
    let chosen = found.choice.iter().enumerate();
    let chosen = chosen.filter_map(|(class, node)| Some((graph.classes[class].as_str(), (*node)?)));
    let chosen: BTreeMap<&str, usize> = chosen.collect();
    let report = Report {
        nodes: graph.problem.nodes.len(),
        classes: graph.problem.classes,
        roots: graph.problem.roots.len(),
        cost: found.cost,
        bound: found.bound,
        gap: if found.cost > 0.0 {
            (found.cost - found.bound) / found.cost
        } else {
            0.0
        },
        optimal: found.is_optimal(),
        acyclic: is_acyclic(&graph, &chosen),
        bottom_up: found.greedy,
        method: found.method.clone(),
        steps: found.steps,
        seconds,
        choice: chosen
            .iter()
            .map(|(class, &node)| (class.to_string(), graph.ids[node].clone()))
            .collect(),
        file: path,
    };
    if let Some(path) = &options.json {
        let json = serde_json::to_string_pretty(&report).map_err(|e| e.to_string())?;
        write(path, &(json + "\n"))?;
    }
    if let Some(path) = &options.dot {
        write(path, &dot(&graph, &found.choice))?;
    }
    Ok(report)
}

fn write(path: &Path, text: &str) -> Result<(), Diagnostic> {
    std::fs::write(path, text)
        .map_err(|e| Diagnostic::error(format!("cannot write '{}': {e}", path.display())))
}
