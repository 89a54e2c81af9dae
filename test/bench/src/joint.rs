//! The choice of groups as a problem of extraction, every group at its price: how near to its bound it is solved.
//!
//! Promised is that the problems of blocks and small networks are proved optimal in half a second, and that of NasRNN within a
//! tenth in ten.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tir::Pipeline;
use tir_levels::{AttachMachine, ChooseGraph};

use crate::covers::{On, program, read, run_without};
use crate::networks::root;

/// What is measured.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    on: On,
    /// Seconds to solve each
    #[arg(long, value_name = "S", default_value_t = 10)]
    seconds: u64,
    /// Folder that keeps the problems, in the JSON format of extraction-gym
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

fn committed() -> Vec<PathBuf> {
    let names = [
        "fire",
        "bottleneck",
        "grouped",
        "inverted",
        "branches",
        "unet",
        "lstm",
        "nasrnn",
    ];
    let programs = names.into_iter().map(program);
    let encoder = root().join("test/e2e/models/encoder.onnx");
    programs.chain([encoder]).collect()
}

/// Prints a row for each network on each machine.
///
/// # Errors
/// A file that cannot be read or written, a network whose groups cannot be planned.
pub(crate) fn joint(options: &Options) -> Result<(), String> {
    tir_opt::stock().load();
    let machines = options.on.machines(&["npu"]);
    println!(
        "every group planned, then chosen; gap: what the cost may be above the cheapest of these groups"
    );
    println!(
        "{:<12} {:<11} {:>7} {:>12} {:>12} {:>9} {:>9} {:>8}",
        "network", "machine", "groups", "cycles", "bound", "gap", "ms", "plans s"
    );
    let (mut proved, mut all) = (0, 0);
    for file in &options.on.files(committed) {
        let (name, network) = read(file)?;
        for machine in &machines {
            let on = machine.file_stem().unwrap_or_default().display();
            let own = format!("{name}-{on}.json");
            let folder = match &options.keep {
                Some(folder) => folder.clone(),
                None => std::env::temp_dir(),
            };
            let problem = match options.keep {
                Some(_) => folder.join(own),
                None => folder.join(format!("tir-bench-{}-{own}", std::process::id())),
            };
            let mut module = network.clone();
            let mut pipeline = Pipeline::new();
            pipeline.add(AttachMachine {
                file: Some(machine.display().to_string()),
            });
            pipeline.nest("func.func", |p| {
                p.add(ChooseGraph {
                    at_once: usize::MAX,
                    plans: usize::MAX,
                    repeat: 1,
                    json: Some(problem.display().to_string()),
                    ..ChooseGraph::default()
                });
            });
            let start = Instant::now();
            run_without(pipeline, &mut module, &[])?;
            let planning = start.elapsed().as_secs_f64();
            let extract = tir_egraph_cli::Options {
                extract: problem.clone(),
                time_limit: Some(Duration::from_secs(options.seconds)),
                max_steps: None,
                json: None,
                dot: None,
            };
            let report = tir_egraph_cli::run(&extract, &mut tir::Sources::default());
            if options.keep.is_none() {
                std::fs::remove_file(&problem)
                    .map_err(|e| format!("{}: {e}", problem.display()))?;
            }
            let report = report.map_err(|e| format!("{name} on {on}: {}", e.message))?;
            all += 1;
            proved += usize::from(report.optimal);
            println!(
                "{name:<12} {on:<11} {:>7} {:>12.0} {:>12.0} {:>7.2} % {:>9.0} {planning:>8.1}",
                report.nodes,
                report.cost,
                report.bound,
                100.0 * report.gap,
                report.seconds * 1e3,
            );
        }
    }
    println!("proved optimal: {proved} of {all}");
    Ok(())
}
