//! The e-graph on whole networks: sizes, seconds of saturation and of extraction, and the cost that
//! is chosen beside the input's, the greedy canonical form's and the bound.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tir::Ir;
use tir::text::{ParseOptions, parse};
use tir_egraph::cost_model::CostModel;
use tir_egraph::matching::Compiled;
use tir_egraph::optimize::Optimizer;

/// Seconds of a thread and of the clock.
#[derive(Clone, Copy)]
struct Used {
    cpu: Duration,
    wall: Duration,
}

struct Clock(Instant, Duration);

impl Clock {
    fn start() -> Self {
        Self(Instant::now(), on_cpu())
    }
    fn used(&self) -> Used {
        Used {
            wall: self.0.elapsed(),
            cpu: on_cpu().saturating_sub(self.1),
        }
    }
}

/// How long this thread has run on a processor; nothing where the system does not tell.
pub(crate) fn on_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// What one network gives.
struct Row {
    classes: usize,
    nodes: usize,
    saturation: Used,
    extraction: Used,
    before: f64,
    greedy: Option<f64>,
    after: f64,
    bound: f64,
}

/// The networks of the project, and those of tensat that lie beside it, as text.
fn networks(given: &[String]) -> Result<Vec<(String, String)>, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let listed = |folder: PathBuf, ending: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        found.retain(|path| path.extension().is_some_and(|e| e == ending));
        found.sort();
        found
    };
    let mut files: Vec<PathBuf> = given.iter().map(PathBuf::from).collect();
    if files.is_empty() {
        files = listed(root.join("test/e2e/egraph"), "tir");
    }
    let text = |file: &PathBuf| {
        if file.extension().is_some_and(|e| e == "model") {
            let tool = crate::tool("tir-translate");
            let made = Command::new(&tool)
                .arg("--import-tensat-model")
                .arg(file)
                .output();
            let made = made.map_err(|e| format!("{}: {e}", tool.display()))?;
            return String::from_utf8(made.stdout).map_err(|e| e.to_string());
        }
        std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))
    };
    let name = |file: &PathBuf| file.file_stem().unwrap_or_default().display().to_string();
    let all = files.iter().map(|file| Ok((name(file), text(file)?)));
    all.collect()
}

fn measure(ir: &Ir, optimizer: &Optimizer<'_>) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for slot in ir.slots() {
        let Some(body) = ir.child(slot) else { continue };
        let Some(block) = body.body_block(body.root(), 0) else {
            continue;
        };
        let clock = Clock::start();
        let found = optimizer.saturate(body, block);
        let saturation = clock.used();
        let mut found = found.map_err(|e| e.message.to_string())?;
        let clock = Clock::start();
        let extracted = optimizer.extract(&mut found)?;
        let extraction = clock.used();
        rows.push(Row {
            classes: found.graph.number_of_classes(),
            nodes: found.graph.total_number_of_nodes(),
            saturation,
            extraction,
            before: extracted.before,
            greedy: extracted.seeds.first().copied().flatten(),
            after: extracted.after,
            bound: extracted.bound,
        });
    }
    Ok(rows)
}

fn median(rows: &[Row], part: impl Fn(&Row) -> Duration) -> f64 {
    let mut all: Vec<Duration> = rows.iter().map(part).collect();
    all.sort();
    all[all.len() / 2].as_secs_f64()
}

/// Saturates and extracts each network `rounds` times with the limits that the pass has by
/// default, and prints a line for each function.
///
/// # Errors
/// A file that cannot be read, a rule that is wrong.
pub(crate) fn egraph(given: &[String], rounds: usize) -> Result<(), String> {
    tir_opt::stock().load();
    let first = |errors: Vec<tir::Diagnostic>| match errors.first() {
        Some(error) => error.message.to_string(),
        None => "cannot be read".to_string(),
    };
    let patterns = tir::rule_file::rules_of([]).and_then(|set| set.finish(&Default::default()));
    let patterns = patterns.map_err(first)?;
    let functions = Arc::new(patterns.functions().clone());
    let rules = patterns.rules().iter();
    let rules: Vec<Compiled> = rules
        .flat_map(|rule| Compiled::new(rule.clone(), functions.clone()))
        .collect();
    let pass = tir_egraph::Egraph::default();
    let model = CostModel::default();
    let optimizer = Optimizer {
        model: &model,
        patterns: &patterns,
        rules: &rules,
        layouts: &[],
        limits: pass.limits(),
        steps: pass.steps,
        proofs: false,
        random: None,
    };
    println!("cycles of the default machine; seconds are medians of {rounds}, cpu (wall)");
    println!(
        "{:<12} {:>7} {:>7}  {:>15} {:>15}  {:>12} {:>12} {:>12} {:>12}  {:>9} {:>8}",
        "network",
        "classes",
        "nodes",
        "saturation",
        "extraction",
        "input",
        "greedy",
        "chosen",
        "bound",
        "to greedy",
        "to bound"
    );
    for (name, text) in networks(given)? {
        let ir = parse(&text, tir::Name::new(&name), &ParseOptions::default()).map_err(first)?;
        let mut runs: Vec<Vec<Row>> = Vec::new();
        for _ in 0..rounds.max(1) {
            for (at, row) in measure(&ir, &optimizer)?.into_iter().enumerate() {
                if runs.len() == at {
                    runs.push(Vec::new());
                }
                runs[at].push(row);
            }
        }
        for rows in runs {
            let row = &rows[0];
            let greedy = row.greedy.unwrap_or(row.before);
            println!(
                "{name:<12} {:>7} {:>7}  {:>6.3} ({:>6.3}) {:>6.3} ({:>6.3})  {:>12} {:>12} {:>12} {:>12.0}  {:>9.4} {:>8.4}",
                row.classes,
                row.nodes,
                median(&rows, |r| r.saturation.cpu),
                median(&rows, |r| r.saturation.wall),
                median(&rows, |r| r.extraction.cpu),
                median(&rows, |r| r.extraction.wall),
                row.before,
                greedy,
                row.after,
                row.bound,
                row.after / greedy,
                row.after / row.bound,
            );
        }
    }
    Ok(())
}
