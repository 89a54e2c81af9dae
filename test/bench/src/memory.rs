//! Memory plans: heights beside bounds and the lowest known, after what time, and checked by what shares nothing with planners.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tir::{Name, Sources};
use tir_data::Random;
use tir_packing::{Options as Solving, Solution, solve};
use tir_plan::Space;
use tir_plan_check::{Limits, Shown};

/// What is planned.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Buffers in the formats of MiniMalloc and idealloc; `X.BYTES.csv` must fit that many bytes; none: those of the repository
    #[arg(value_name = "FILE.csv")]
    files: Vec<PathBuf>,
    /// Seconds for the lowest plan of each file
    #[arg(long, value_name = "S", default_value_t = 10)]
    seconds: u64,
    /// Buffers that are generated besides; 0 for none
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    generated: usize,
}

/// After these times heights are looked at.
const LOOKS: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
];

/// Plans all files and what is generated, and prints a line for each.
///
/// # Errors
/// A file that cannot be read, a plan or a certificate that the check refuses.
pub(crate) fn memory(options: &Options) -> Result<(), String> {
    let files = match options.files.is_empty() {
        true => own()?,
        false => options.files.clone(),
    };
    println!(
        "height: the first plan that fits the capacity in the file's name, or the lowest in {} s; time until it; then how much\n\
         higher than the lowest known plans are after 10 ms, 100 ms and 1 s; all plans and bounds checked",
        options.seconds
    );
    println!(
        "{:<14} {:>7} {:>12} {:>12} {:>12} {:>8} {:>9} {:>8} {:>8} {:>8}",
        "file", "buffers", "height", "lowest", "bound", "gap", "ms", "10 ms", "100 ms", "1 s"
    );
    let (mut above, mut fit, mut total) = (Vec::new(), 0, Duration::ZERO);
    for file in &files {
        let line = measured(file, options)?;
        fit += usize::from(line.fits);
        total += line.time;
        above.push(line.above);
    }
    println!(
        "{fit} of {} fit, in {:.3} s together",
        files.len(),
        total.as_secs_f64()
    );
    let median = |look: usize| {
        let mut all: Vec<f64> = above.iter().map(|a| a[look]).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(0.0)
    };
    println!(
        "medians above the lowest: {:.2} % after 10 ms, {:.2} % after 100 ms, {:.2} % after 1 s",
        median(0),
        median(1),
        median(2)
    );
    match options.generated {
        0 => Ok(()),
        count => generated(count),
    }
}

/// MiniMalloc's instances that are kept here.
fn own() -> Result<Vec<PathBuf>, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("passes/memory/packing/tests/data");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "csv"));
    files.sort();
    Ok(files)
}

struct Line {
    fits: bool,
    time: Duration,
    above: [f64; 3],
}

fn measured(file: &Path, options: &Options) -> Result<Line, String> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|e| format!("{shown}: {e}"))?;
    let name = Name::new(&shown.to_string());
    let mut sources = Sources::default();
    sources.add(name, text.as_str());
    let settings = tir_plan::Settings::default();
    let table = tir_plan::read(name, &text, &settings).map_err(|e| sources.render(&e, false))?;
    let [space] = &table.spaces[..] else {
        return Err(format!("{shown}: has several spaces"));
    };
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let capacity = stem
        .rsplit_once('.')
        .and_then(|(_, bytes)| bytes.parse::<u64>().ok());
    let within = |enough: Option<u64>, time: Duration| {
        let solving = Solving {
            enough: enough.unwrap_or(0),
            steps: u64::MAX,
            time: Some(time),
            ..Solving::default()
        };
        // Of the table only the buffers are known, not what planners looked up before.
        let problem = space.problem.clone();
        let start = Instant::now();
        (solve(&problem, &solving), start.elapsed())
    };
    let seconds = Duration::from_secs(options.seconds);
    let (first, time) = within(capacity, seconds);
    let (lowest, _) = match capacity {
        Some(_) => within(None, seconds),
        None => (first.clone(), time),
    };
    let looks = LOOKS.map(|look| within(None, look).0);
    for found in looks.iter().chain([&first, &lowest]) {
        let plan = table.with(std::slice::from_ref(&found.plan.offsets));
        check(&text, &plan, found, space).map_err(|e| format!("{shown}: {e}"))?;
    }
    let known = looks.iter().map(|l| l.plan.height).min().unwrap_or(0);
    let known = known.min(lowest.plan.height).min(first.plan.height);
    let above = looks.map(|l| (l.plan.height as f64 / known.max(1) as f64 - 1.0) * 100.0);
    println!(
        "{:<14} {:>7} {:>12} {:>12} {:>12} {:>6.3} % {:>9.1} {:>6.2} % {:>6.2} % {:>6.2} %",
        stem.split('.').next().unwrap_or_default(),
        space.lives.len(),
        first.plan.height,
        known,
        lowest.bound,
        (known as f64 / lowest.bound.max(1) as f64 - 1.0) * 100.0,
        time.as_secs_f64() * 1e3,
        above[0],
        above[1],
        above[2]
    );
    let fits = capacity.is_none_or(|capacity| first.plan.height <= capacity);
    Ok(Line { fits, time, above })
}

/// The judge's word on a plan and on its bound.
fn check(text: &str, plan: &str, found: &Solution, space: &Space) -> Result<(), String> {
    let height = found.plan.height;
    let malformed = |e: tir_plan_check::Malformed| format!("line {}: {}", e.line, e.message);
    let limits = Limits {
        capacity: vec![(None, height)],
        ..Limits::default()
    };
    let valid = tir_plan_check::plan(Some(text), plan, &limits).map_err(malformed)?;
    valid.map_err(|fault| format!("the plan is not valid: {fault}"))?;
    let certificate = tir_plan::certificate(space, false, found);
    let shown = tir_plan_check::certificate(text, &certificate, &limits).map_err(malformed)?;
    let shown = shown.map_err(|fault| format!("the certificate does not hold: {fault}"))?;
    match &shown[..] {
        [(_, Shown::Bound(bound) | Shown::Search { bound, .. })] if *bound == found.bound => Ok(()),
        _ => Err("the certificate is of another bound".to_string()),
    }
}

/// Buffers of sizes and lives that differ by orders of magnitude, each as often: planned by the program, for its memory.
fn generated(count: usize) -> Result<(), String> {
    let mut random = Random::new(12);
    let mut wide = || {
        let most = 1 << (1 + random.below(14));
        (random.below(2 * count), 1 + random.below(most))
    };
    let mut text = String::from("id,lower,upper,size\n");
    for i in 0..count {
        let ((start, life), (_, size)) = (wide(), wide());
        let size = 64 * size;
        text += &format!("{i},{start},{},{size}\n", start + life);
    }
    let file = std::env::temp_dir().join(format!("tir-bench-{}.csv", std::process::id()));
    std::fs::write(&file, &text).map_err(|e| e.to_string())?;
    let plan = file.with_extension("plan.csv");
    let (path, out) = (file.to_string_lossy(), plan.to_string_lossy());
    let used = crate::run(
        &crate::tool("tir-plan"),
        &[&path, "--time-limit", "20", "-o", &out],
    );
    let written = std::fs::read_to_string(&plan);
    let _ = (std::fs::remove_file(&file), std::fs::remove_file(&plan));
    let (used, written) = (used?, written.map_err(|e| e.to_string())?);
    let valid = tir_plan_check::plan(Some(&text), &written, &Limits::default());
    let valid = valid.map_err(|e| format!("line {}: {}", e.line, e.message))?;
    let valid = valid.map_err(|fault| format!("the plan is not valid: {fault}"))?;
    let valid = valid.spaces.first().ok_or("no buffers")?;
    println!(
        "{count} generated: height {}, bound {}, gap {:.3} %, {:.1} s of processor time, {:.0} MiB",
        valid.height,
        valid.live,
        (valid.height as f64 / valid.live.max(1) as f64 - 1.0) * 100.0,
        used.cpu.as_secs_f64(),
        used.memory as f64 / 1024.0
    );
    Ok(())
}
