//! `tir-native`: MLIR text to a shared library.
//!
//! One way for all: MLIR's dialects to that of LLVM by one pipeline, LLVM's module to an object for a processor, the
//! object to a library by the system's C compiler. What was made once of the same text, for the same processor, by the
//! same program lies in a folder.

// The names alone.
#[allow(dead_code)]
#[path = "../math/src/features.rs"]
mod features;
mod llvm;
mod parts;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use melior::Context;
use melior::dialect::DialectRegistry;
use melior::ir::Module;
use melior::pass::PassManager;
use melior::utility::{
    parse_pass_pipeline, register_all_dialects, register_all_llvm_translations, register_all_passes,
};
use sha2::{Digest, Sha256};

use llvm::{Asked, Emit, Processor, Symbols, UNROLL};
use parts::{Part, parts};

/// From loops of scalar operations to LLVM's dialect. Memory as bare pointers; views first, since they make index
/// arithmetic of the dialect affine.
const PIPELINE: &str = "builtin.module(\
    expand-strided-metadata,\
    lower-affine,\
    convert-scf-to-cf,\
    arith-expand,\
    convert-math-to-llvm,\
    convert-math-to-libm,\
    convert-vector-to-llvm,\
    finalize-memref-to-llvm,\
    convert-func-to-llvm{use-bare-ptr-memref-call-conv=true},\
    convert-arith-to-llvm,\
    convert-index-to-llvm,\
    convert-cf-to-llvm,\
    convert-ub-to-llvm,\
    reconcile-unrealized-casts)";

/// Bytes of MLIR that a part has at least: what is smaller is compiled with others, as each part takes some time by itself.
const PART: usize = 16 << 10;

const HELP: &str = "\
Compiles MLIR as tir-translate --export-mlir writes it.

Usage: tir-native [OPTIONS] FILE.mlir

Arguments:
  FILE.mlir  Input file; - is standard input

Options:
  -o, --output FILE  Output file; without it the output goes to the cache, and its path is printed
      --emit KIND    lib: a shared library; obj: an object, which calls libtir_math.a; asm: assembly; llvm: LLVM's text
                     [default: lib]
      --cpu NAME     Processor, as LLVM names it; host: this one [default: what the text says it is for, else host]
      --features F   What the processor has beyond its name, or lacks: +avx2,-avx512f
      --vector BITS  Bits of vectors [default: what the text says, those of the host; 256 for another processor]
      --opt LEVEL    Level of optimization, 0 to 3 [default: 2]
      --cache DIR    Folder of what was made [default: $TIR_CACHE, or tir/native in $XDG_CACHE_HOME or ~/.cache]
      --no-cache     Make it again
      --jobs N       Threads that compile parts of a library; it does not depend on them [default: as many as processors]
      --timing       Print the milliseconds of each step, on the first thread
      --version      Print versions
  -h, --help         Print help
";

/// What is asked for.
struct Options {
    input: String,
    output: Option<PathBuf>,
    emit: String,
    asked: Asked,
    level: u32,
    cache: Option<PathBuf>,
    fresh: bool,
    jobs: usize,
    timing: bool,
}

fn main() -> ExitCode {
    match run() {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the command line; the other form is a text to print.
fn options() -> Result<Result<Options, String>, String> {
    let (mut input, mut output, mut emit) = (None, None, "lib".to_string());
    let mut asked = Asked::default();
    let (mut level, mut cache, mut fresh) = (2, None, false);
    let (mut jobs, mut timing) = (0, false);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let (name, given) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => {
                (name.to_string(), Some(value.to_string()))
            }
            _ => (word, None),
        };
        let mut value = || {
            let value = given.clone().or_else(|| words.next());
            value.ok_or_else(|| format!("{name} needs a value"))
        };
        let number = |text: String| {
            text.parse::<u32>()
                .map_err(|_| format!("'{text}' is no number"))
        };
        match name.as_str() {
            "-h" | "--help" => return Ok(Err(HELP.to_string())),
            "--version" => return Ok(Err(format!("tir-native {}\n", version()))),
            "-o" | "--output" => output = Some(PathBuf::from(value()?)),
            "--emit" => emit = value()?,
            "--cpu" => {
                asked.processor = Some(match value()?.as_str() {
                    "host" => Processor::host(),
                    name => Processor::named(name),
                });
            }
            "--features" => asked.features = value()?,
            "--vector" => asked.vector = Some(number(value()?)?),
            "--opt" => level = number(value()?)?,
            "--cache" => cache = Some(PathBuf::from(value()?)),
            "--no-cache" => fresh = true,
            "--jobs" => jobs = number(value()?)? as usize,
            "--timing" => timing = true,
            "-" => input = Some(name),
            other if other.starts_with('-') => {
                return Err(format!("there is no option '{other}'; see --help"));
            }
            _ if input.is_some() => return Err(format!("'{name}' is a second input")),
            _ => input = Some(name),
        }
    }
    if !["lib", "obj", "asm", "llvm"].contains(&emit.as_str()) {
        return Err(format!("--emit {emit}: expected lib, obj, asm or llvm"));
    }
    if level > 3 {
        return Err(format!("--opt {level}: expected 0 to 3"));
    }
    Ok(Ok(Options {
        input: input.ok_or("no input is given; see --help")?,
        output,
        emit,
        asked,
        level,
        cache: cache.or_else(cache_folder),
        fresh,
        jobs: match jobs {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            jobs => jobs,
        },
        timing,
    }))
}

/// Version of this program and of LLVM.
fn version() -> String {
    format!("{} (LLVM 22, melior 0.27.8)", env!("CARGO_PKG_VERSION"))
}

fn cache_folder() -> Option<PathBuf> {
    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    let rest = Path::new("tir").join("native");
    variable("TIR_CACHE")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join(&rest)))
        .or_else(|| Some(variable("HOME")?.join(".cache").join(&rest)))
}

fn run() -> Result<String, String> {
    let options = match options()? {
        Ok(options) => options,
        Err(text) => return Ok(text),
    };
    let mut text = String::new();
    let read = match options.input.as_str() {
        "-" => std::io::stdin().read_to_string(&mut text).map(drop),
        path => std::fs::read_to_string(path).map(|all| text = all),
    };
    read.map_err(|e| format!("cannot read '{}': {e}", options.input))?;
    let cached = options.cache.as_ref().map(|folder| {
        folder.join(format!(
            "{}.{}",
            key(&options, &text, &options.emit),
            extension(&options)
        ))
    });
    if let Some(cached) = cached
        .as_ref()
        .filter(|file| !options.fresh && file.exists())
    {
        return deliver(cached, options.output.as_deref());
    }
    match (&options.output, &cached) {
        (Some(output), _) => {
            make(&options, &text, output)?;
            Ok(String::new())
        }
        (None, Some(cached)) => {
            let folder = cached.parent().unwrap_or(Path::new("."));
            std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
            // Others may make the same at the same time: whole files alone appear under the name.
            let own = cached.with_extension(format!("{}.tmp", std::process::id()));
            let made = make(&options, &text, &own).and_then(|()| {
                std::fs::rename(&own, cached).map_err(|e| format!("{}: {e}", cached.display()))
            });
            if made.is_err() {
                let _ = std::fs::remove_file(&own);
            }
            made?;
            Ok(format!("{}\n", cached.display()))
        }
        (None, None) => Err("there is no folder for a cache: give --output or --cache".to_string()),
    }
}

/// Gives what is in the cache.
fn deliver(cached: &Path, output: Option<&Path>) -> Result<String, String> {
    match output {
        None => Ok(format!("{}\n", cached.display())),
        Some(output) => {
            let copied = std::fs::copy(cached, output);
            copied.map_err(|e| format!("{}: {e}", output.display()))?;
            Ok(String::new())
        }
    }
}

/// The name in the cache of what is made of a text: by all that it depends on.
fn key(options: &Options, text: &str, what: &str) -> String {
    let mut hash = Sha256::new();
    // What the text says of a processor is a part of it.
    let host = Processor::host();
    let own = std::env::current_exe().and_then(|path| path.metadata()?.modified());
    let own = own.map_or(String::new(), |time| format!("{time:?}"));
    let level = options.level;
    for part in [
        &version(),
        &own,
        what,
        &format!("{:?} {host:?} {level}", options.asked),
        PIPELINE,
        &format!("{UNROLL:?}"),
        text,
    ] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let digest: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    digest
}

/// What a file of what is asked for ends with.
fn extension(options: &Options) -> &'static str {
    match options.emit.as_str() {
        "lib" => "so",
        "obj" => "o",
        "asm" => "s",
        _ => "ll",
    }
}

/// Makes what is asked for. A library is made of parts, each in its turn by the next thread that is free; their objects do
/// not depend on how many there are.
fn make(options: &Options, text: &str, output: &Path) -> Result<(), String> {
    let emit = match options.emit.as_str() {
        "llvm" => Emit::Llvm,
        "asm" => Emit::Assembly,
        _ => Emit::Object,
    };
    let mut clock = Clock::new(options.timing);
    register_all_passes();
    let context = context(false);
    let input = &options.input;
    let mut module =
        Module::parse(&context, text).ok_or_else(|| format!("'{input}' does not parse"))?;
    clock.lap("parse");
    let least = if options.emit == "lib" {
        PART
    } else {
        usize::MAX
    };
    let parts = parts(&module, least)
        .ok_or_else(|| format!("'{input}' has more than functions, or is not as tir exports it"))?;
    clock.lap("split");
    if options.emit != "lib" {
        let part = parts
            .first()
            .ok_or_else(|| format!("'{input}' has no functions"))?;
        let symbols = part.symbols(true);
        return compile(
            options,
            &context,
            &mut module,
            &symbols,
            emit,
            output,
            &mut clock,
        );
    }
    let folder = Objects::new(options, output)?;
    let jobs = Jobs::new(options, &parts, &folder);
    let threads = options.jobs.min(parts.len()).max(1);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| jobs.work(&mut Clock::new(false)));
        }
        jobs.work(&mut clock);
    });
    let objects = jobs.done().or_else(|why| {
        // The same again, as it was given: errors have the lines of the input.
        pipeline(&context, &mut module, input)?;
        Err(why)
    })?;
    clock.lap("wait for others");
    link(&objects, output)?;
    clock.lap("link");
    Ok(())
}

/// MLIR's things; `quiet` does not show errors.
fn context(quiet: bool) -> Context {
    let registry = DialectRegistry::new();
    register_all_dialects(&registry);
    let context = Context::new_with_registry(&registry, false);
    register_all_llvm_translations(&context);
    context.attach_diagnostic_handler(move |diagnostic| {
        if !quiet {
            eprintln!("{}: {diagnostic}", diagnostic.location());
        }
        true
    });
    context
}

/// To LLVM's dialect.
fn pipeline(context: &Context, module: &mut Module<'_>, input: &str) -> Result<(), String> {
    let manager = PassManager::new(context);
    // What was parsed is verified; passes of MLIR leave no other.
    manager.enable_verifier(false);
    parse_pass_pipeline(manager.as_operation_pass_manager(), PIPELINE)
        .map_err(|e| format!("internal error: the pipeline does not parse: {e}"))?;
    manager
        .run(module)
        .map_err(|_| format!("'{input}' does not lower to LLVM"))
}

/// MLIR to what LLVM makes of it.
fn compile(
    options: &Options,
    context: &Context,
    module: &mut Module<'_>,
    symbols: &Symbols<'_>,
    emit: Emit,
    file: &Path,
    clock: &mut Clock,
) -> Result<(), String> {
    let input = &options.input;
    pipeline(context, module, input)?;
    clock.lap("lower");
    llvm::compile(
        module,
        &options.asked,
        options.level,
        symbols,
        emit,
        file,
        clock,
    )
    .map_err(|why| format!("'{input}': {why}"))
}

/// Where objects lie: in the cache, or in a folder of their own that goes with this.
struct Objects {
    folder: PathBuf,
    kept: bool,
}

impl Objects {
    fn new(options: &Options, output: &Path) -> Result<Self, String> {
        let kept = options.cache.clone();
        let own = || output.with_extension(format!("{}.parts", std::process::id()));
        let made = Self {
            kept: kept.is_some(),
            folder: kept.unwrap_or_else(own),
        };
        let folder = &made.folder;
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(made)
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        if !self.kept {
            // What is left lies beside the output, with its name.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// Parts that are compiled.
struct Jobs<'a> {
    options: &'a Options,
    parts: &'a [Part],
    files: Vec<PathBuf>,
    /// Numbers of parts, the largest first.
    order: Vec<usize>,
    next: AtomicUsize,
    errors: Mutex<Vec<(usize, String)>>,
}

impl<'a> Jobs<'a> {
    fn new(options: &'a Options, parts: &'a [Part], objects: &Objects) -> Self {
        let files = parts.iter().map(|part| {
            let mut key = key(options, &part.text, "part");
            key += ".o";
            objects.folder.join(key)
        });
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|k| std::cmp::Reverse(parts[*k].text.len()));
        Self {
            options,
            parts,
            files: files.collect(),
            order,
            next: AtomicUsize::new(0),
            errors: Mutex::default(),
        }
    }

    /// Compiles what nobody has begun, until nothing is left.
    fn work(&self, clock: &mut Clock) {
        let mut own = None;
        while let Some(k) = self.order.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let file = &self.files[*k];
            if !self.options.fresh && file.exists() {
                continue;
            }
            let context = own.get_or_insert_with(|| context(true));
            if let Err(why) = self.one(context, &self.parts[*k], file, clock) {
                let errors = self.errors.lock();
                errors.unwrap_or_else(|p| p.into_inner()).push((*k, why));
            }
        }
    }

    fn one(
        &self,
        context: &Context,
        part: &Part,
        file: &Path,
        clock: &mut Clock,
    ) -> Result<(), String> {
        let input = &self.options.input;
        let module = Module::parse(context, &part.text);
        let mut module = module.ok_or_else(|| format!("a part of '{input}' does not parse"))?;
        clock.lap("parse parts");
        let symbols = part.symbols(false);
        // Others may make the same at the same time: whole files alone appear under the name.
        let own = file.with_extension(format!("{}.tmp", std::process::id()));
        let (options, emit) = (self.options, Emit::Object);
        compile(options, context, &mut module, &symbols, emit, &own, clock)?;
        std::fs::rename(&own, file).map_err(|e| format!("{}: {e}", file.display()))
    }

    /// The objects in the order of the parts, or the first error in that order.
    fn done(&self) -> Result<Vec<PathBuf>, String> {
        let errors = self.errors.lock().unwrap_or_else(|p| p.into_inner());
        match errors.iter().min_by_key(|(k, _)| *k) {
            Some((_, why)) => Err(why.clone()),
            None => Ok(self.files.clone()),
        }
    }
}

/// Milliseconds of each step on the first thread.
pub struct Clock {
    shown: bool,
    last: Instant,
    steps: Vec<(&'static str, f64)>,
}

impl Clock {
    fn new(shown: bool) -> Self {
        Self {
            shown,
            last: Instant::now(),
            steps: Vec::new(),
        }
    }

    /// Ends a step.
    pub fn lap(&mut self, step: &'static str) {
        let time = self.last.elapsed().as_secs_f64() * 1e3;
        self.last = Instant::now();
        match self.steps.iter_mut().find(|(name, _)| *name == step) {
            Some((_, sum)) => *sum += time,
            None => self.steps.push((step, time)),
        }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        if self.shown {
            for (step, time) in &self.steps {
                eprintln!("{time:10.3}  {step}");
            }
        }
    }
}

/// Objects to a shared library, with what they call of `libtir_math.a`.
fn link(objects: &[PathBuf], output: &Path) -> Result<(), String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let mut command = Command::new(&compiler);
    command.args(["-shared", "-o"]).arg(output).args(objects);
    let own = std::env::current_exe().map_err(|e| format!("where this program lies: {e}"))?;
    let folder = own.parent().unwrap_or(Path::new("."));
    let library = folder.join("libtir_math.a");
    if !library.exists() {
        let name = library.display();
        return Err(format!("there is no {name}, which libraries call"));
    }
    command.arg(library);
    command.args([
        "-Wl,--gc-sections",
        "-Wl,--strip-debug",
        "-Wl,--exclude-libs,ALL",
        "-Wl,--no-undefined",
        "-lm",
    ]);
    let done = command
        .output()
        .map_err(|e| format!("cannot start '{compiler}': {e}"))?;
    if !done.status.success() {
        let why = String::from_utf8_lossy(&done.stderr);
        return Err(format!("'{compiler}' cannot link: {why}"));
    }
    Ok(())
}
