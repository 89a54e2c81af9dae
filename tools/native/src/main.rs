//! `tir-native`: MLIR text to a shared library.
//!
//! One way for all: MLIR's dialects to that of LLVM by one pipeline, LLVM's module to an object for a processor, the
//! object to a library by the system's C compiler. What was made once of the same text, for the same processor, by the
//! same program lies in a folder.

mod cache;
mod clock;
// The names alone.
#[allow(dead_code)]
#[path = "../math/src/features.rs"]
mod features;
mod jobs;
mod link;
mod llvm;
mod lower;
mod options;
mod parts;

use std::cell::LazyCell;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use melior::ir::Module;
use melior::utility::register_all_passes;

use cache::{extension, key};
use clock::Clock;
use jobs::{Jobs, Objects};
use link::link;
use llvm::Emit;
use lower::{compile, context, pipeline};
use options::{Options, options};
use parts::{parts, parts_of_text};

/// Bytes of MLIR that a part has at least: what is smaller is compiled with others, as each part takes some time by itself.
const PART: usize = 16 << 10;

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
            whole(output, |own| make(&options, &text, own))?;
            Ok(String::new())
        }
        (None, Some(cached)) => {
            let folder = cached.parent().unwrap_or(Path::new("."));
            std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
            whole(cached, |own| make(&options, &text, own))?;
            Ok(format!("{}\n", cached.display()))
        }
        (None, None) => Err("there is no folder for a cache: give --output or --cache".to_string()),
    }
}

/// Makes a file under a name of its own, then gives it the name that is wanted: that names all of it or what it named before,
/// whatever fails and whoever makes the same. What is no file is written as it is.
fn whole(file: &Path, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
    if file.exists() && !file.is_file() {
        return make(file);
    }
    let own = file.with_extension(format!("{}.tmp", std::process::id()));
    let made = make(&own)
        .and_then(|()| std::fs::rename(&own, file).map_err(|e| format!("{}: {e}", file.display())));
    if made.is_err() {
        let _ = std::fs::remove_file(&own);
    }
    made
}

/// Gives what is in the cache.
fn deliver(cached: &Path, output: Option<&Path>) -> Result<String, String> {
    match output {
        None => Ok(format!("{}\n", cached.display())),
        Some(output) => {
            whole(output, |own| {
                let copied = std::fs::copy(cached, own);
                copied
                    .map(drop)
                    .map_err(|e| format!("{}: {e}", output.display()))
            })?;
            Ok(String::new())
        }
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
    let input = &options.input;
    // Text that is cut needs none unless it has an error.
    let context = LazyCell::new(|| context(false));
    let parse = || Module::parse(&context, text).ok_or_else(|| format!("'{input}' does not parse"));
    let split = |module: &Module<'_>, least: usize| {
        parts(module, least).ok_or_else(|| {
            format!("'{input}' has more than functions, or is not as tir exports it")
        })
    };
    if options.emit != "lib" {
        let mut module = parse()?;
        clock.lap("parse");
        let parts = split(&module, usize::MAX)?;
        clock.lap("split");
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
    let parts = match parts_of_text(text, PART) {
        Some(parts) => parts,
        None => split(&parse()?, PART)?,
    };
    clock.lap("split");
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
        pipeline(&context, &mut parse()?, input)?;
        Err(why)
    })?;
    clock.lap("wait for others");
    link(&objects, output)?;
    clock.lap("link");
    Ok(())
}
