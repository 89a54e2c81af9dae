//! The command line.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use tir::{Diagnostic, Loc, Name, Sources};
use tir_packing::{Algorithm, STEPS, solve};
use tir_plan_check::{Malformed, Shown};

use crate::read::read;
use crate::report::{Report, certificate, planned};
use crate::svg::svg;

/// Gives each buffer of a file an offset such that buffers that live at the same time share no byte. Prints the height of the
/// plan, what no plan can be lower than, and why.
/// Exit code: 0 if the plan fits the capacity or what was checked holds, 1 if not, 2 on a wrong command line or a malformed file.
#[derive(Parser, Clone, Debug)]
#[command(name = "tir-plan", max_term_width = 100)]
pub struct Options {
    /// Buffers: lines with commas below a header with `id`, `lower`, `upper`, `size` and, if wanted, `alignment`, `gaps`, `hint`
    /// (the formats of MiniMalloc and idealloc). A buffer of `size` bytes lives from `lower` until `upper`.
    #[arg(value_name = "FILE.csv", required_unless_present = "check")]
    pub file: Option<PathBuf>,
    /// Bytes there are. The search ends with the first plan that fits. [default: the lowest plan is looked for]
    #[arg(long, value_name = "BYTES")]
    pub capacity: Option<u64>,
    /// Look for the lowest plan, although one fits the capacity.
    #[arg(long)]
    pub lowest: bool,
    /// Which planners are asked.
    #[arg(long, value_enum, default_value = "auto")]
    pub algorithm: Member,
    /// Time limit in seconds; the best plan so far is the result.
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub time_limit: Option<Duration>,
    /// Maximum number of steps (buffers placed, nodes of searches): the same file and steps give the same plan.
    /// [default: none with --time-limit, else 2000000]
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// Write the rows of the file with a column `offset`.
    #[arg(short, long, value_name = "PLAN.csv")]
    pub output: Option<PathBuf>,
    /// Draw the plan: time to the right, bytes upward.
    #[arg(long, value_name = "FILE.svg")]
    pub svg: Option<PathBuf>,
    /// Write why no plan is lower than the bound; with --check, read and check it.
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// Print each better plan, and the steps until it.
    #[arg(long)]
    pub progress: bool,
    /// Check a plan that --output has written, instead of making one: that no two buffers overlap, that it fits the capacity,
    /// that its rows are those of FILE.csv (if that is given), and that the certificate holds.
    #[arg(long, value_name = "PLAN.csv", conflicts_with_all = ["algorithm", "time_limit", "steps", "output", "svg", "lowest", "progress"])]
    pub check: Option<PathBuf>,
}

/// Which planners are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Member {
    /// All.
    Auto,
    /// Each buffer has a place of its own.
    NoReuse,
    /// Partitions as large as their largest member.
    Colour,
    /// First fit in several orders.
    FirstFit,
    /// Best fit in several orders.
    BestFit,
    /// The buffer that can lie lowest is placed next.
    Upward,
    /// First fit, its order improved by hill climbing.
    Refine,
    /// Branch and bound.
    Exact,
}

impl From<Member> for Algorithm {
    fn from(member: Member) -> Algorithm {
        match member {
            Member::Auto => Algorithm::Auto,
            Member::NoReuse => Algorithm::NoReuse,
            Member::Colour => Algorithm::Colour,
            Member::FirstFit => Algorithm::FirstFit,
            Member::BestFit => Algorithm::BestFit,
            Member::Upward => Algorithm::Upward,
            Member::Refine => Algorithm::Refine,
            Member::Exact => Algorithm::Exact,
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    Duration::try_from_secs_f64(seconds).map_err(|e| e.to_string())
}

/// Reads, plans or checks, writes.
///
/// # Errors
/// A file that cannot be read or written, a malformed one.
pub fn run(options: &Options, sources: &mut Sources) -> Result<Report, Diagnostic> {
    if let Some(plan) = &options.check {
        return check(options, plan, sources);
    }
    let file = options.file.clone().unwrap_or_default();
    let (name, text) = load(&file, sources)?;
    let table = read(name, &text)?;
    let start = Instant::now();
    let enough = options.capacity.filter(|_| !options.lowest);
    let steps = match (options.steps, options.time_limit) {
        (Some(steps), _) => steps,
        (None, Some(_)) => u64::MAX,
        (None, None) => STEPS,
    };
    let solving = tir_packing::Options {
        algorithm: options.algorithm.into(),
        enough: enough.unwrap_or(0),
        steps,
        time: options.time_limit,
    };
    let found = solve(&table.problem, &solving);
    let took = start.elapsed().as_secs_f64();
    let shown = file.display().to_string();
    let mut report = planned(&shown, &table.problem, &found, options.capacity, took);
    if options.progress {
        let lines = found.progress.iter().map(|p| {
            let (steps, height, method) = (p.steps, p.height, &p.method);
            format!("{:<12}{height} after {steps} steps, {method}\n", "plan")
        });
        report.text = lines.collect::<String>() + &report.text;
    }
    if let Some(path) = &options.output {
        write(path, &table.with(&found.plan.offsets))?;
    }
    if let Some(path) = &options.certificate {
        write(path, &certificate(&table.problem, &found))?;
    }
    if let Some(path) = &options.svg {
        let buffers = table.problem.buffers();
        let offsets = &found.plan.offsets;
        write(path, &svg(buffers, &table.lives, offsets, options.capacity))?;
    }
    Ok(report)
}

/// Asks the judge, which shares nothing with what is above.
fn check(options: &Options, plan: &Path, sources: &mut Sources) -> Result<Report, Diagnostic> {
    let (name, text) = load(plan, sources)?;
    let problem = options.file.as_ref().map(|file| load(file, sources));
    let problem = problem.transpose()?;
    if let Some((name, text)) = &problem {
        // What is wrong in it is an error of its own.
        read(*name, text)?;
    }
    let at = |name: Name, malformed: Malformed| {
        let line = u32::try_from(malformed.line).unwrap_or(u32::MAX);
        Diagnostic::error(malformed.message).at(Loc::file(name, line, 1))
    };
    let own = problem.as_ref().map(|(_, text)| text.as_str());
    let verdict = tir_plan_check::plan(own, &text, options.capacity).map_err(|e| at(name, e))?;
    let mut report = match verdict {
        Ok(valid) => {
            let (buffers, height, live) = (valid.buffers, valid.height, valid.live);
            Report {
                fits: true,
                text: format!(
                    "plan        valid: {buffers} buffers, {height} bytes high, at most {live} live\n"
                ),
            }
        }
        Err(fault) => Report {
            fits: false,
            text: format!("plan        not valid: {}:{fault}\n", plan.display()),
        },
    };
    if let Some(path) = &options.certificate {
        let (name, shown) = load(path, sources)?;
        let buffers = own.unwrap_or(&text);
        let verdict = tir_plan_check::certificate(buffers, &shown).map_err(|e| at(name, e))?;
        report.fits &= verdict.is_ok();
        report.text += &match verdict {
            Ok(Shown::Bound(bound)) => {
                format!("certificate holds: no plan is lower than {bound} bytes\n")
            }
            Ok(Shown::Search { bound, live }) => format!(
                "certificate no plan is lower than {live} bytes; that none is lower than {bound}, a search says\n"
            ),
            Err(fault) => format!("certificate does not hold: {}:{fault}\n", path.display()),
        };
    }
    Ok(report)
}

fn load(path: &Path, sources: &mut Sources) -> Result<(Name, String), Diagnostic> {
    let shown = path.display().to_string();
    let name = Name::new(&shown);
    let bytes = std::fs::read(path)
        .map_err(|e| Diagnostic::error(format!("cannot read '{shown}': {e}")))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Diagnostic::error("is no UTF-8 text".to_string()).at(Loc::file(name, 1, 1)))?;
    sources.add(name, text.as_str());
    Ok((name, text))
}

fn write(path: &Path, text: &str) -> Result<(), Diagnostic> {
    std::fs::write(path, text)
        .map_err(|e| Diagnostic::error(format!("cannot write '{}': {e}", path.display())))
}
