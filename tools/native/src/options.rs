//! The command line.

use std::path::{Path, PathBuf};

use crate::llvm::{Asked, Processor};

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
pub struct Options {
    pub input: String,
    pub output: Option<PathBuf>,
    pub emit: String,
    pub asked: Asked,
    pub level: u32,
    pub cache: Option<PathBuf>,
    pub fresh: bool,
    pub jobs: usize,
    pub timing: bool,
}

/// Reads the command line; the other form is a text to print.
pub fn options() -> Result<Result<Options, String>, String> {
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
                    "host" => Processor::host().clone(),
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
pub fn version() -> String {
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
