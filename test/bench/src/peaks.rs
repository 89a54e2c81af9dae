//! How high plans are beside the largest live set, on graphs that are generated.
//!
//! Of each graph three programs are planned: all buffers in one memory, in the order of the text and in that of `reorder`; and
//! what the compiler makes for a machine, space by space. Plans are the lowest that are found: spare bytes are not used.

mod graphs;

use std::path::Path;

use crate::order::to_one_memory;
use crate::{run_for_text, tool};

/// Plans that must be as high as the largest live set, as a share.
const SHARE: f64 = 0.9;
/// How many times as high as that a plan may be.
const WORST: f64 = 1.02;

/// Which graphs.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Graphs of each family
    #[arg(long, value_name = "N", default_value_t = 10)]
    graphs: u64,
    /// Families of graphs: wired, cells, inception, attention; none: all
    #[arg(long, value_name = "NAME", value_parser = graphs::FAMILIES, value_delimiter = ',')]
    families: Vec<String>,
    /// The machine file for the third program; none: test/e2e/machines/npu.tir
    #[arg(long, value_name = "FILE")]
    machine: Option<String>,
    /// Leave the third program out: lowering takes a second or more each
    #[arg(long)]
    flat: bool,
    /// Keep the programs in this folder
    #[arg(long, value_name = "FOLDER")]
    keep: Option<std::path::PathBuf>,
}

/// Heights and largest live sets of the plans that a run prints.
fn heights(said: &str) -> Vec<[u64; 2]> {
    let plans = said.lines().filter_map(|line| {
        let (before, after) = line.split_once(", largest live set ")?;
        let (_, height) = before.rsplit_once(": ")?;
        let first = |text: &str| text.split_whitespace().next()?.parse().ok();
        Some([first(height)?, first(after)?])
    });
    plans.collect()
}

/// The ways to plan a graph, each with its arguments of tir-opt.
fn ways(options: &Options) -> Vec<(&'static str, Vec<String>)> {
    let own = |args: &[&str]| args.iter().map(ToString::to_string).collect();
    let reorder = to_one_memory(Some("--reorder".to_string()));
    let mut ways = vec![("text", to_one_memory(None)), ("reorder", reorder)];
    if !options.flat {
        let npu = Path::new(env!("CARGO_MANIFEST_DIR")).join("../e2e/machines/npu.tir");
        let npu = npu.to_string_lossy().to_string();
        let machine = tir::pass::option_text(options.machine.as_ref().unwrap_or(&npu));
        let lower = format!("--to-memref=machine={machine} egraph=false");
        ways.push((
            "machine",
            own(&[
                &lower,
                "--distribute",
                "--schedule-transfers",
                "--canonicalize",
                "--cse",
                "--place-buffers=tries=0 print=true",
            ]),
        ));
    }
    ways
}

/// Plans of one family in one way.
#[derive(Default)]
struct Row {
    plans: usize,
    equal: usize,
    worst: f64,
    above: Vec<String>,
}

impl Row {
    fn line(&self, family: &str, way: &str) {
        println!(
            "{family:<10} {way:<8} {:>6} {:>8} {:>7.3} {:>7.4}  {}",
            self.plans,
            self.equal,
            self.equal as f64 / self.plans.max(1) as f64,
            self.worst,
            self.above.join(" ")
        );
    }
}

/// Plans all graphs and prints a line for each family and way.
///
/// # Errors
/// A program that tir-opt refuses: none should.
pub(crate) fn peaks(options: &Options) -> Result<(), String> {
    println!(
        "plans as high as the largest live set ({SHARE} of all at least wanted), and the highest beside it ({WORST} at most \
         wanted); behind, seeds with others"
    );
    println!(
        "{:<10} {:<8} {:>6} {:>8} {:>7} {:>7}",
        "graphs", "way", "plans", "equal", "share", "worst"
    );
    let mut all = Row::default();
    for family in graphs::FAMILIES {
        if !options.families.is_empty() && !options.families.iter().any(|f| f == family) {
            continue;
        }
        for (way, args) in ways(options) {
            let mut row = Row::default();
            for seed in 1..=options.graphs {
                let name = format!("{family}-{seed}.tir");
                let file = match &options.keep {
                    Some(folder) => folder.join(&name),
                    None => std::env::temp_dir()
                        .join(format!("tir-bench-{}-{name}", std::process::id())),
                };
                std::fs::write(&file, graphs::program(family, seed)).map_err(|e| e.to_string())?;
                let mut run = vec![file.to_string_lossy().to_string()];
                run.extend(args.iter().cloned());
                run.extend(["-o", "/dev/null"].map(String::from));
                let said = run_for_text(&tool("tir-opt"), &run);
                if options.keep.is_none() {
                    let _ = std::fs::remove_file(&file);
                }
                let plans = heights(&said?);
                if plans.is_empty() {
                    return Err(format!("{name}, {way}: no plan was printed"));
                }
                for [height, live] in plans {
                    let ratio = height as f64 / live.max(1) as f64;
                    row.plans += 1;
                    row.equal += usize::from(height == live);
                    row.worst = row.worst.max(ratio);
                    if height > live {
                        row.above.push(format!("{seed}:{ratio:.4}"));
                    }
                }
            }
            row.line(family, way);
            all.plans += row.plans;
            all.equal += row.equal;
            all.worst = all.worst.max(row.worst);
        }
    }
    all.line("all", "");
    Ok(())
}
