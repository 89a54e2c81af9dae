//! From a network to a program of a machine, level by level.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use tir::{Diagnostic, Sources};
use tir_levels::processors::{self, HOST};
use tir_run::Summary;
use tir_run::native::{Built, Files, LESSER_PROCESSOR};

use crate::kept::Kept;
use crate::progress::Progress;
use crate::report::{self, Group};

/// Input, machine and expected outputs.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// ONNX model.
    #[arg(value_name = "MODEL.onnx")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    onnx: tir_translate::OnnxOptions,
    /// Machine file, such as those in test/e2e/machines of the repository; host, the default with --native: that of this processor.
    #[arg(long, value_name = "FILE.tir", required_unless_present = "native")]
    machine: Option<PathBuf>,
    /// Make a shared library with a C header, the constants and an example in C, in place of the
    /// program of the last level; with --machine planned as for that machine. Needs tir-native, see tir-run --help.
    /// What the output directory has of the same model, machine, options and programs is kept.
    #[arg(long)]
    native: bool,
    /// Make a library that gives the interpreter's results to the bit.
    #[arg(long, requires = "native")]
    strict: bool,
    /// Output directory [default: target/tir/MODEL].
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// File with the next input of the network; random values if absent.
    #[arg(long, value_name = "K.npy")]
    input: Vec<PathBuf>,
    /// File with the expected value of the next output.
    #[arg(long, value_name = "K.npy")]
    compare: Vec<PathBuf>,
    /// Relative tolerance.
    #[arg(long, value_name = "R", default_value_t = 1e-3)]
    rtol: f64,
    /// Absolute tolerance.
    #[arg(long, value_name = "A", default_value_t = 1e-4)]
    atol: f64,
    /// Multi-buffering depth: slots per loop buffer; 1 waits for each transfer, 2 overlaps them.
    #[arg(long, default_value_t = 2)]
    depth: i64,
    /// Compute quantized operators in QDQ form with integers: results may differ by one step of
    /// their scale from sums in floats.
    #[arg(long)]
    integer: bool,
    /// Compute 3x3 convolutions by Winograd's filtering where it pays, in tiles of 2 x 2, 4 x 4, or the better ones of
    /// both: results differ by rounding.
    #[arg(long, value_name = "TILE", value_parser = ["2", "4", "best"])]
    winograd: Option<String>,
    /// Which tensors between two layers stay in near memory, of those that fit: where that is no slower, where fewer bytes
    /// move whatever it takes, or as OnSRAM pins them.
    #[arg(long, value_name = "POLICY", default_value = "cycles", value_parser = ["cycles", "bytes", "static"])]
    near_policy: String,
    /// Print all remarks, not only the costliest.
    #[arg(long)]
    pub(crate) remarks: bool,
    /// Make remarks of these categories errors; see tir-opt --help.
    #[arg(long, value_name = "REMARK", value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(tir::remarks::ALL))]
    fail_on: Vec<String>,
    /// Say what fills each memory of the machine: the moment at which most bytes are live, the buffers that live then and
    /// why, and what would make it less.
    #[arg(long, conflicts_with = "native")]
    memory_report: bool,
    /// Write one HTML page that shows where the cycles and bytes of the program of the last level go.
    #[arg(long, value_name = "FILE.html", conflicts_with = "native")]
    report: Option<PathBuf>,
    /// Maximum number of stretches of work in the timeline of --report; more are joined.
    #[arg(long, value_name = "N", default_value_t = tir_report::STRETCHES)]
    pub(crate) report_stretches: usize,
    /// Maximum number of bytes of the programs in --report; what is longer is cut.
    #[arg(long, value_name = "N", default_value_t = tir_report::TEXT_BYTES)]
    pub(crate) report_text: usize,
}

impl Options {
    /// The machine file: without one, which only native code can be, that of this processor.
    pub(crate) fn machine(&self) -> &Path {
        self.machine.as_deref().unwrap_or(Path::new(HOST))
    }
}

const LEVELS: [&str; 5] = ["graph", "tensor", "loop", "memref", "accel"];

/// Those on the way to a library.
const NATIVE: [&str; 2] = ["graph", "native"];

/// Most layers in the table at the end.
const LAYERS: usize = 5;

/// Most remarks at the end, unless all are asked for.
const REMARKS: usize = 3;

/// What came of a compilation.
pub(crate) struct Compiled {
    /// Whether every comparison held.
    pub(crate) ok: bool,
    /// The programs of all levels.
    pub(crate) levels: Vec<Program>,
    /// The remarks of all passes.
    pub(crate) remarks: Vec<Diagnostic>,
    /// What fills each memory, of each function.
    pub(crate) memory: Vec<String>,
    /// The summary of the last run.
    pub(crate) last: Option<Summary>,
}

/// A program of a level.
pub(crate) struct Program {
    pub(crate) level: &'static str,
    pub(crate) file: PathBuf,
    /// How it compares with what was expected.
    pub(crate) compared: String,
}

/// Compiles, runs and compares; whether every comparison held. An error is a rendered text.
pub(crate) fn compile(options: &Options, out: &mut dyn Write) -> Result<bool, String> {
    let compiled = levels(options, options.report.is_some(), out)?;
    if let Some(path) = &options.report {
        let page = report::page(options, &compiled)?;
        tir_opt::write(path, page.as_bytes())
            .map_err(|e| tir_opt::render(&Sources::default(), &[e], tir_opt::color()))?;
        let said = format!(
            "\n  report    {}, {} kB\n",
            path.display(),
            page.len().div_ceil(1000)
        );
        let _ = out.write_all(said.as_bytes());
    }
    Ok(compiled.ok)
}

/// The programs of all levels, each run and compared; with `timeline`, that of the last run is kept.
pub(crate) fn levels(
    options: &Options,
    timeline: bool,
    out: &mut dyn Write,
) -> Result<Compiled, String> {
    let stem = options
        .model
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy();
    let dir = options
        .out
        .clone()
        .unwrap_or_else(|| Path::new("target/tir").join(&*stem));
    std::fs::create_dir_all(&dir).map_err(|e| format!("error: {}: {e}\n", dir.display()))?;
    let say = |out: &mut dyn Write, text: String| {
        // The work goes on when nobody reads.
        let _ = out.write_all(text.as_bytes());
        let _ = out.flush();
    };
    let (model, machine) = (options.model.display(), options.machine());
    say(out, format!("{model} for {}\n\n", machine.display()));
    if machine == Path::new(HOST) {
        say(out, format!("  {}\n\n", processors::host()));
    }
    say(
        out,
        format!(
            "  {:8} {:34} {:>9} {:>9} {:>9} {:>14}\n",
            "level", "program", "text", "lowered", "run", "largest error"
        ),
    );
    let tool = tir_opt::stock();
    tool.load();
    let kept = options.native.then(|| kept(options, &dir, &stem)).flatten();
    let before_said = kept.as_ref().and_then(Kept::said);
    if let Some(kept) = kept.as_ref().filter(|_| before_said.is_none()) {
        kept.begin();
    }
    let mut compiled = Compiled {
        ok: true,
        levels: Vec::new(),
        remarks: Vec::new(),
        memory: Vec::new(),
        last: None,
    };
    let mut before: Option<PathBuf> = None;
    let mut made = None;
    let levels = match (options.native, &before_said) {
        (true, Some(_)) => &NATIVE[1..],
        (true, None) => &NATIVE,
        (false, _) => &LEVELS,
    };
    for level in levels {
        let file = dir.join(format!("{level}.tir"));
        let start = Instant::now();
        let progress = Progress::of(format!("{level}: lowering"));
        match &before {
            None if before_said.is_some() => {}
            None => import(options, &file)?,
            Some(before) => {
                let said = lower(&tool, options, level, before, &file)?;
                let reports = |d: &Diagnostic| d.category == Some(tir::remarks::MEMORY);
                let (memory, said): (Vec<_>, Vec<_>) = said.into_iter().partition(reports);
                compiled
                    .memory
                    .extend(memory.into_iter().map(|d| d.message));
                let earlier = compiled.remarks.len();
                for remark in said {
                    if !is_told(&remark, &compiled.remarks[..earlier]) {
                        compiled.remarks.push(remark);
                    }
                }
            }
        }
        drop(progress);
        let lowered = match &before_said {
            Some(_) => "kept".to_string(),
            None => time(start.elapsed()),
        };
        let bytes = std::fs::metadata(&file).map_or(0, |m| m.len());
        let start = Instant::now();
        if options.native && *level == NATIVE[0] {
            // The library alone is asked for.
            let (name, bytes) = (file.display(), bytes.div_ceil(1000));
            let line = format!(
                "  {level:8} {name:34} {bytes:>6} kB {lowered:>9} {:>9}\n",
                "-"
            );
            say(out, line);
            before = Some(file);
            continue;
        }
        let files = options.native.then(|| Files {
            library: dir.join(format!("{stem}.so")),
            constants: dir.join(format!("{stem}.bin")),
            made: before_said.is_some(),
        });
        let progress = Progress::of(format!("{level}: running"));
        let (ran, built) = run(options, &file, files.as_ref(), timeline)?;
        drop(progress);
        made = built;
        let summary = match ran {
            Ran::Done(summary) => summary,
            Ran::Lesser(why) => {
                let (name, bytes) = (file.display(), bytes.div_ceil(1000));
                let line = format!(
                    "  {level:8} {name:34} {bytes:>6} kB {lowered:>9} {:>9} {:>14}\n\n  not run: {why}\n",
                    "-", "not compared"
                );
                say(out, line);
                before = Some(file);
                continue;
            }
        };
        if let Some(error) = incomparable(&summary) {
            return Err(error);
        }
        let compared = summary.outputs.iter().filter_map(|o| o.compared.as_ref());
        let worst = compared
            .map(|c| c.max_abs_error)
            .fold(None, |a: Option<f64>, b| Some(a.map_or(b, |a| a.max(b))));
        let error = match worst {
            Some(error) if summary.ok => format!("{error:.1e}"),
            Some(error) => format!("{error:.1e} WRONG"),
            None => "not compared".to_string(),
        };
        say(
            out,
            format!(
                "  {level:8} {:34} {:>6} kB {:>9} {:>9} {error:>14}\n",
                file.display(),
                bytes.div_ceil(1000),
                lowered,
                time(start.elapsed()),
            ),
        );
        compiled.ok &= summary.ok;
        compiled.last = Some(*summary);
        compiled.levels.push(Program {
            level,
            file: file.clone(),
            compared: error,
        });
        before = Some(file);
    }
    if let Some(summary) = &compiled.last {
        say(out, format!("\n{summary}"));
        if let Some(machine) = &summary.machine {
            say(
                out,
                tir_run::Costliest::new(&machine.layers, LAYERS).to_string(),
            );
        }
    }
    if options.memory_report {
        for text in &compiled.memory {
            say(out, format!("\n{text}\n"));
        }
    }
    if let Some(said) = before_said {
        say(out, said);
        return Ok(compiled);
    }
    let mut said = costliest(options, &compiled.remarks);
    if let Some(built) = made {
        said += &format!("\n{}", library(&built, &dir, &stem)?);
    }
    if let Some(kept) = kept {
        kept.keep(&said);
    }
    say(out, said);
    Ok(compiled)
}

/// An error if an output is not of the type of what it is to be compared with: no level changes that.
fn incomparable(summary: &Summary) -> Option<String> {
    summary.outputs.iter().find_map(|output| {
        let compared = output.compared.as_ref()?;
        let (with, why) = (&compared.with, compared.incomparable.as_ref()?);
        Some(format!(
            "error: output {} cannot be compared with {with}: {why}\n",
            output.output
        ))
    })
}

/// What was made before in a folder.
fn kept(options: &Options, dir: &Path, stem: &str) -> Option<Kept> {
    let made = ["so", "h", "bin", "c"].map(|ending| dir.join(format!("{stem}.{ending}")));
    let made = made.into_iter().chain([dir.join("native.tir")]);
    let ways = format!(
        "{} {} {} {:?} {}",
        dir.display(),
        flag(options, NATIVE[1]),
        options.strict,
        options.fail_on,
        options.onnx.key()?,
    );
    let machine: Vec<PathBuf> = options.machine.iter().cloned().collect();
    let file = dir.join("native.key");
    Kept::new(file, &options.model, &machine, &ways, made.collect())
}

/// Makes what a C program needs beside a library; says what was made.
fn library(built: &Built, dir: &Path, stem: &str) -> Result<String, String> {
    let path = |ending: &str| dir.join(format!("{stem}{ending}"));
    let write = |ending: &str, text: String| {
        tir_opt::write(&path(ending), text.as_bytes())
            .map_err(|e| tir_opt::render(&Sources::default(), &[e], tir_opt::color()))
    };
    let (made, library) = (&built.module, &built.library);
    write(".h", tir_native::c_interface::header(made, stem))?;
    let mut said = format!(
        "  library   {}\n  header    {}\n  constants {}, {} bytes\n",
        library.display(),
        path(".h").display(),
        path(".bin").display(),
        made.bytes
    );
    if let Some(function) = made.functions.first() {
        write(".c", tir_native::c_interface::example(function, stem))?;
        said += &format!(
            "  example   {}: cc {stem}.c ./{stem}.so -o {stem}\n  arena     {} bytes\n",
            path(".c").display(),
            function.arena
        );
    }
    Ok(said)
}

/// Whether a remark of an earlier level gives the reason why no unit computes what stands at this place. Later levels find the parts of
/// it that are left to the thread, and know less of the reason.
fn is_told(remark: &Diagnostic, earlier: &[Diagnostic]) -> bool {
    let same = |told: &Diagnostic| (told.category, told.loc) == (remark.category, remark.loc);
    remark.category == Some(tir::remarks::NO_UNIT) && earlier.iter().any(same)
}

/// The remarks that cost most, or all of them. Those that say the same are one.
fn costliest(options: &Options, remarks: &[Diagnostic]) -> String {
    if remarks.is_empty() {
        return String::new();
    }
    let all = remarks.len();
    let (mut text, ranked) = match options.remarks {
        true => {
            let title = format!("\n  {all} remarks, the costliest first:\n");
            (title, report::ranked(remarks, Group::Equal))
        }
        false => {
            let title = format!("\n  the costliest of {all} remarks, see --remarks for all:\n");
            (title, report::ranked(remarks, Group::Alike))
        }
    };
    let shown = if options.remarks {
        ranked.len()
    } else {
        REMARKS
    };
    for alike in ranked.iter().take(shown) {
        text += &alike.to_string();
    }
    text
}

fn time(t: Duration) -> String {
    match t.as_secs_f64() {
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

fn import(options: &Options, file: &Path) -> Result<(), String> {
    tir_translate::load_dialects();
    let render =
        |errors: Vec<Diagnostic>| tir_opt::render(&Sources::default(), &errors, tir_opt::color());
    let module = tir_translate::import_onnx_noting(&options.model, &options.onnx);
    let (mut module, remarks) = module.map_err(render)?;
    if !remarks.is_empty() {
        eprint!("{}", render(remarks));
    }
    // Names of layers come down to the last level with the locations of ops.
    let print = |ir: &tir::Ir| {
        let options = tir_text::PrintOptions {
            locations: true,
            ..Default::default()
        };
        tir_text::print(ir, &options)
    };
    tir_io::save(&mut module, tir_io::Out::File(file), None, print).map_err(|e| render(vec![*e]))
}

/// How a program is lowered to a level: an option of tir-opt.
fn flag(options: &Options, level: &str) -> String {
    let depth = match level {
        "tensor" | "native" => String::new(),
        _ => format!(" depth={}", options.depth),
    };
    let machine = tir::pass::option_text(&options.machine().to_string_lossy());
    let mut flag = format!("--to-{level}=machine={machine}{depth}");
    if options.integer {
        flag += " integer=true";
    }
    if let Some(tile) = &options.winograd {
        flag += &format!(" winograd={tile}");
    }
    flag += &format!(" near-policy={}", options.near_policy);
    if level == "accel" && (options.memory_report || options.report.is_some()) {
        flag += " memory-report=true";
    }
    flag
}

fn lower(
    tool: &tir_opt::Tool,
    options: &Options,
    level: &str,
    from: &Path,
    to: &Path,
) -> Result<Vec<Diagnostic>, String> {
    let flag = flag(options, level);
    let mut args = vec![
        OsString::from("tir-opt"),
        from.into(),
        flag.into(),
        "--remarks".into(),
        "--print-locations".into(),
        "-o".into(),
        to.into(),
    ];
    let fail_on = options.fail_on.iter();
    args.extend(fail_on.map(|name| format!("--fail-on={name}").into()));
    let outcome = tir_opt::run(tool, &args, &mut std::io::empty(), tir_opt::color());
    if outcome.code == 0 {
        Ok(outcome.remarks)
    } else {
        Err(outcome.stderr)
    }
}

/// What came of a run.
enum Ran {
    Done(Box<Summary>),
    /// The program is for a processor that has more than this one: why it was not run.
    Lesser(String),
}

/// Runs a program; as native code if files are given, which then hold what is run: what is compiled is what is run.
fn run(
    options: &Options,
    file: &Path,
    files: Option<&Files>,
    timeline: bool,
) -> Result<(Ran, Option<Built>), String> {
    let mut args: Vec<OsString> = vec!["tir-run".into(), file.into()];
    if files.is_some() {
        args.push("--native".into());
        args.extend(options.strict.then(|| "--strict".into()));
    }
    for (flag, files) in [("--input", &options.input), ("--compare", &options.compare)] {
        for file in files {
            args.extend([flag.into(), file.into()]);
        }
    }
    if options.input.is_empty() {
        args.extend(["--random".into(), "1".into()]);
    }
    args.extend(["--rtol".into(), options.rtol.to_string().into()]);
    args.extend(["--atol".into(), options.atol.to_string().into()]);
    let mut run = tir_run::Options::try_parse_from(args).map_err(|e| e.to_string())?;
    run.timeline = timeline;
    let mut sources = Sources::default();
    let loaded = tir_run::Program::load(&run, &mut sources);
    let ran = loaded.and_then(|program| {
        let built = files.map(|files| program.build(&run, Some(files)));
        let built = built.transpose()?;
        match program.run(&run, built.as_ref()) {
            Ok(summary) => Ok((Ran::Done(Box::new(summary)), built)),
            Err(errors) => match &errors[..] {
                [why] if why.category == Some(LESSER_PROCESSOR) => {
                    Ok((Ran::Lesser(why.message.clone()), built))
                }
                _ => Err(errors),
            },
        }
    });
    ran.map_err(|errors| tir_opt::render(&sources, &errors, tir_opt::color()))
}
