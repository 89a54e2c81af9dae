//! The command line.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use tir::data::{Staged, write_stdout};
use tir::{Diagnostic, Loc, Name, Sources};
use tir_packing::{Algorithm, Kept, Plan, STEPS, apart, keep_apart, solve};
use tir_plan_check::{Limits, Malformed, Shown, Valid};

use crate::fields::place;
use crate::read::{Limit, Settings, Table, read};
use crate::report::{Report, certificate, planned};
use crate::spaces::limit;
use crate::svg::svg;

/// Gives each buffer of a file an offset such that buffers that live at the same time share no byte. Prints the height of the
/// plan, what no plan can be lower than, and why.
/// Exit code: 0 if the plan fits the capacity or what was checked holds, 1 if not, 2 on a wrong command line or a malformed file.
#[derive(Parser, Clone, Debug)]
#[command(name = "tir-plan", max_term_width = 100)]
pub struct Options {
    /// Buffers: lines with commas below a header with `id`, `lower`, `upper`, `size` (the formats of MiniMalloc and idealloc) and,
    /// if wanted, `alignment`, `gaps` (`LOWER-UPPER` when it does not live), `space`, `fixed` (its offset), `bank` (which it lies in),
    /// `apart` (`ID` or `ID:COST` of those to share no bank with), `within` (`ID+BYTES` in another), `hint`. A buffer of `size`
    /// bytes lives from `lower` until `upper`.
    #[arg(value_name = "FILE.csv", required_unless_present = "check")]
    pub file: Option<PathBuf>,
    /// Bytes there are in a space, as often as there are spaces; without a name, in rows without a space, or the only one. The
    /// search ends with the first plan that fits. [default: the lowest plan is looked for]
    #[arg(long, value_name = "[SPACE=]BYTES", value_parser = limited)]
    pub capacity: Vec<Limit>,
    /// Bytes of a bank of a space: bank N are the bytes from N times that on.
    #[arg(long, value_name = "[SPACE=]BYTES", value_parser = limited)]
    pub bank: Vec<Limit>,
    /// Buffers that have an `offset` in FILE.csv keep it; without this they are planned anew.
    #[arg(long)]
    pub keep_offsets: bool,
    /// Look for the lowest plan, although one fits the capacity.
    #[arg(long)]
    pub lowest: bool,
    /// Which planners are asked.
    #[arg(long, value_enum, default_value = "auto")]
    pub algorithm: Member,
    /// Time limit in seconds for a space; the best plan so far is the result.
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub time_limit: Option<Duration>,
    /// Maximum number of steps for a space (buffers placed, nodes of searches): the same file and steps give the same plan.
    /// [default: none with --time-limit, else 2000000]
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// Write the rows of the file with a column `offset`; `-` is standard output, and the report goes to standard error then.
    #[arg(short, long, value_name = "PLAN.csv")]
    pub output: Option<PathBuf>,
    /// Draw the plan: time to the right, bytes upward; one space above the other.
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

/// `BYTES` or `SPACE=BYTES`.
fn limited(text: &str) -> Result<Limit, String> {
    let (space, bytes) = match text.rsplit_once('=') {
        Some((space, bytes)) => (Some(space.to_string()), bytes),
        None => (None, text),
    };
    match bytes.parse::<u64>() {
        Ok(0) | Err(_) => Err("expected BYTES or SPACE=BYTES, more than 0".to_string()),
        Ok(bytes) => Ok((space, bytes)),
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
    let settings = Settings {
        banks: options.bank.clone(),
        keep: options.keep_offsets,
    };
    let table = read(name, &text, &settings)?;
    known(&options.capacity, "capacity", &table)?;
    known(&options.bank, "bank", &table)?;
    let steps = match (options.steps, options.time_limit) {
        (Some(steps), _) => steps,
        (None, Some(_)) => u64::MAX,
        (None, None) => STEPS,
    };
    let several = table.spaces.len() > 1;
    let mut report = Report {
        fits: true,
        text: format!("{:<12}{}\n", "file", file.display()),
    };
    let (mut offsets, mut bounds) = (Vec::new(), String::new());
    let mut drawn = Vec::new();
    for space in &table.spaces {
        let start = Instant::now();
        let capacity = limit(&options.capacity, &space.name, !several);
        let banked = !space.conflicts.is_empty() || !space.must.is_empty();
        if banked && capacity.is_none() {
            let message = "buffers are to be apart in banks: --capacity says how many there are";
            return Err(Diagnostic::error(message).at(place(name, 1, 0)));
        }
        let solving = tir_packing::Options {
            algorithm: options.algorithm.into(),
            enough: capacity.filter(|_| !options.lowest).unwrap_or(0),
            steps,
            time: options.time_limit,
        };
        let mut found = solve(&space.problem, &solving);
        let mut kept = None;
        if let (true, Some(capacity), Some(bank)) = (banked, capacity, space.bank)
            && found.bound <= capacity
        {
            let costs = space.costs();
            let moved = |plan: &Plan| apart(&space.problem, plan, capacity, bank, &costs);
            if found.plan.height <= capacity {
                found.plan = moved(&found.plan);
            }
            if found.plan.height > capacity || space.shared(&found.plan.offsets).1.is_some() {
                let until = options.time_limit.map(|time| start + time);
                let stop = &mut || until.is_some_and(|until| Instant::now() >= until);
                let left = steps.saturating_sub(found.steps);
                let must = &space.must;
                let (ended, nodes) = keep_apart(&space.problem, capacity, bank, must, left, stop);
                found.steps += nodes;
                if let Kept::Plan(plan) = &ended {
                    found.plan = moved(plan);
                }
                kept = Some((ended, nodes));
            }
        }
        let took = start.elapsed().as_secs_f64();
        if options.progress {
            for p in &found.progress {
                let (steps, height, method) = (p.steps, p.height, &p.method);
                report.text += &format!("{:<12}{height} after {steps} steps, {method}\n", "plan");
            }
        }
        let one = planned(space, several, (&found, kept.as_ref()), capacity, took);
        report.fits &= one.fits;
        report.text += &one.text;
        bounds += &certificate(space, several, &found);
        offsets.push(found.plan.offsets);
        drawn.push(capacity);
    }
    if let Some(path) = &options.output {
        write(path, &table.with(&offsets))?;
    }
    if let Some(path) = &options.certificate {
        write(path, &format!("# no plan is lower\n{bounds}"))?;
    }
    if let Some(path) = &options.svg {
        write(path, &svg(&table.spaces, &offsets, &drawn))?;
    }
    Ok(report)
}

/// Whether all spaces that options name are there.
fn known(limits: &[Limit], option: &str, table: &Table<'_>) -> Result<(), Diagnostic> {
    let names: Vec<&str> = table.spaces.iter().map(|s| s.name.as_str()).collect();
    for (space, bytes) in limits {
        let found = match space {
            Some(space) => names.contains(&space.as_str()),
            None => names.len() <= 1 || names.contains(&""),
        };
        if !found {
            let quoted: Vec<String> = names.iter().map(|n| format!("'{n}'")).collect();
            let all = quoted.join(", ");
            let message = match space {
                Some(space) => {
                    format!(
                        "--{option} {space}={bytes}: no buffer is in that space, expected {all}"
                    )
                }
                None => format!(
                    "--{option} {bytes}: there are several spaces, expected --{option} SPACE={bytes} with {all}"
                ),
            };
            return Err(Diagnostic::error(message));
        }
    }
    Ok(())
}

/// Asks the judge, which shares nothing with what is above.
fn check(options: &Options, plan: &Path, sources: &mut Sources) -> Result<Report, Diagnostic> {
    let (name, text) = load(plan, sources)?;
    let problem = options.file.as_ref().map(|file| load(file, sources));
    let problem = problem.transpose()?;
    if let Some((name, text)) = &problem {
        // What is wrong in it is an error of its own.
        let settings = Settings {
            banks: options.bank.clone(),
            keep: false,
        };
        let table = read(*name, text, &settings)?;
        known(&options.capacity, "capacity", &table)?;
    }
    let limits = Limits {
        capacity: options.capacity.clone(),
        banks: options.bank.clone(),
    };
    let at = |name: Name, malformed: Malformed| {
        let line = u32::try_from(malformed.line).unwrap_or(u32::MAX);
        let column = u32::try_from(malformed.column).unwrap_or(u32::MAX);
        Diagnostic::error(malformed.message).at(Loc::file(name, line, column))
    };
    let own = problem.as_ref().map(|(_, text)| text.as_str());
    let verdict = tir_plan_check::plan(own, &text, &limits).map_err(|e| at(name, e))?;
    let valid = verdict.as_ref().ok();
    let mut report = match &verdict {
        Ok(valid) => Report {
            fits: true,
            text: valid_text(valid),
        },
        Err(fault) => Report {
            fits: false,
            text: format!("plan        not valid: {}:{fault}\n", plan.display()),
        },
    };
    if let Some(path) = &options.certificate {
        let (name, shown) = load(path, sources)?;
        let buffers = own.unwrap_or(&text);
        let verdict = tir_plan_check::certificate(buffers, &shown, &limits);
        match verdict.map_err(|e| at(name, e))? {
            Ok(all) => {
                for (space, shown) in &all {
                    let held = valid.iter().flat_map(|valid| &valid.spaces);
                    let held = held.filter(|held| held.space == *space);
                    match held.map(|held| held.height).find(|h| *h < shown.bound()) {
                        Some(height) => {
                            let bound = shown.bound();
                            report.fits = false;
                            report.text += &format!(
                                "certificate does not hold: it says that no plan is lower than {bound} bytes, and the plan above is {height} high\n"
                            );
                        }
                        None => report.text += &shown_text(space, all.len() > 1, shown),
                    }
                }
            }
            Err(fault) => {
                report.fits = false;
                report.text += &format!("certificate does not hold: {}:{fault}\n", path.display());
            }
        }
    }
    Ok(report)
}

fn valid_text(valid: &Valid) -> String {
    let mut text = format!("plan        valid: {} buffers", valid.buffers);
    let several = valid.spaces.len() > 1;
    for held in &valid.spaces {
        let (height, live) = (held.height, held.live);
        text += &match several {
            true => format!(
                "\n{:<12}{height} bytes high, at most {live} live",
                held.space
            ),
            false => format!(", {height} bytes high, at most {live} live"),
        };
        if held.conflicts > 0 {
            text += &format!(", conflicts of banks cost {}", held.conflicts);
        }
    }
    text + "\n"
}

fn shown_text(space: &str, several: bool, shown: &Shown) -> String {
    let of = match several {
        true => format!(" of '{space}'"),
        false => String::new(),
    };
    match shown {
        Shown::Bound(bound) => {
            format!("certificate holds: no plan{of} is lower than {bound} bytes\n")
        }
        Shown::Search { bound, live } => format!(
            "certificate no plan{of} is lower than {live} bytes; that none is lower than {bound}, a search says\n"
        ),
    }
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

/// Writes a file as a whole, or to standard output.
fn write(path: &Path, text: &str) -> Result<(), Diagnostic> {
    let written = match path == Path::new("-") {
        true => write_stdout(text.as_bytes()),
        false => Staged::write(path, &[text.as_bytes()]).and_then(Staged::commit),
    };
    written.map_err(|error| Diagnostic::error(error.to_string()))
}

impl Options {
    /// Whether a file goes to standard output: then the report does not.
    pub fn prints(&self) -> bool {
        let files = [&self.output, &self.svg, &self.certificate];
        files
            .into_iter()
            .flatten()
            .any(|path| path == Path::new("-"))
    }
}
