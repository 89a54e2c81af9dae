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

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use melior::Context;
use melior::dialect::DialectRegistry;
use melior::ir::Module;
use melior::pass::PassManager;
use melior::utility::{
    parse_pass_pipeline, register_all_dialects, register_all_llvm_translations, register_all_passes,
};
use sha2::{Digest, Sha256};

use llvm::{Asked, Emit, Processor};

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
    canonicalize,\
    cse,\
    reconcile-unrealized-casts)";

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
    let cached = options
        .cache
        .as_ref()
        .map(|folder| folder.join(key(&options, &text)));
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
fn key(options: &Options, text: &str) -> String {
    let mut hash = Sha256::new();
    // What the text says of a processor is a part of it.
    let host = Processor::host();
    let own = std::env::current_exe().and_then(|path| path.metadata()?.modified());
    let own = own.map_or(String::new(), |time| format!("{time:?}"));
    let level = options.level;
    for part in [
        &version(),
        &own,
        &options.emit,
        &format!("{:?} {host:?} {level}", options.asked),
        PIPELINE,
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
    let extension = match options.emit.as_str() {
        "lib" => "so",
        "obj" => "o",
        "asm" => "s",
        _ => "ll",
    };
    format!("{digest}.{extension}")
}

/// Makes what is asked for.
fn make(options: &Options, text: &str, output: &Path) -> Result<(), String> {
    let emit = match options.emit.as_str() {
        "llvm" => Emit::Llvm,
        "asm" => Emit::Assembly,
        _ => Emit::Object,
    };
    if options.emit != "lib" {
        return compile(options, text, emit, output);
    }
    let object = output.with_extension(format!("{}.o", std::process::id()));
    let done = compile(options, text, emit, &object).and_then(|()| link(&object, output));
    let _ = std::fs::remove_file(&object);
    done
}

/// MLIR to what LLVM makes of it.
fn compile(options: &Options, text: &str, emit: Emit, file: &Path) -> Result<(), String> {
    let registry = DialectRegistry::new();
    register_all_dialects(&registry);
    register_all_passes();
    let context = Context::new();
    context.append_dialect_registry(&registry);
    context.load_all_available_dialects();
    register_all_llvm_translations(&context);
    // Errors are shown where they are made.
    context.attach_diagnostic_handler(|diagnostic| {
        eprintln!("{}: {diagnostic}", diagnostic.location());
        true
    });
    let input = &options.input;
    let mut module =
        Module::parse(&context, text).ok_or_else(|| format!("'{input}' does not parse"))?;
    let manager = PassManager::new(&context);
    parse_pass_pipeline(manager.as_operation_pass_manager(), PIPELINE)
        .map_err(|e| format!("internal error: the pipeline does not parse: {e}"))?;
    manager
        .run(&mut module)
        .map_err(|_| format!("'{input}' does not lower to LLVM"))?;
    llvm::compile(&module, &options.asked, options.level, emit, file)
        .map_err(|why| format!("'{input}': {why}"))
}

/// An object to a shared library, with what it calls of `libtir_math.a`.
fn link(object: &Path, output: &Path) -> Result<(), String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let mut command = Command::new(&compiler);
    command.args(["-shared", "-o"]).arg(output).arg(object);
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
