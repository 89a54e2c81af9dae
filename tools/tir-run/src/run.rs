//! A run from the file to the summary.

use std::io::Write;
use std::path::{Path, PathBuf};

use tir::{Diagnostic, Ir, Sources};
use tir_data::{Array, Comparison, Staged, npy};
use tir_interp::Options as Limits;
use tir_text::ParseOptions;

use crate::bind::{self, Param, Source};
use crate::cli::Options;
use crate::execute::{Entry, Execution, Keep};
use crate::native::{Built, Files, Native};
use crate::on_machine;
use crate::summary::{Compared, InputSummary, OutputSummary, Summary};

type Errors = Vec<Diagnostic>;

/// Runs the program; the files that the options name are written if all went well, or if an
/// output differs. Places in errors point into texts that are added to `sources`.
pub fn run(options: &Options, sources: &mut Sources) -> Result<Summary, Errors> {
    let program = Program::load(options, sources)?;
    let built = options.native.then(|| program.build(options, None));
    program.run(options, built.transpose()?.as_ref())
}

/// A program of a file, with its constants and its machine, and the function of it that is run.
pub struct Program {
    module: Ir,
    entry: Entry,
}

impl Program {
    /// Loads what the options name. Places in errors point into texts that are added to `sources`.
    ///
    /// # Errors
    /// If it cannot be read, is not valid, or has no such function.
    pub fn load(options: &Options, sources: &mut Sources) -> Result<Self, Errors> {
        let (mut module, mut said) = load(options, sources)?;
        if options.machine.is_none() && options.native {
            said = crate::native::plan(&mut module)?;
        }
        if let Some(remark) = said {
            let text = tir_opt::render(sources, &[remark], tir_opt::color());
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
        }
        let entry = Entry::of(&module, options.function.as_deref())?;
        Ok(Self { module, entry })
    }

    /// Makes a library of it, in files or in the cache.
    ///
    /// # Errors
    /// If it does not lower to native code, or the program that compiles it is not there or fails.
    pub fn build(&self, options: &Options, files: Option<&Files>) -> Result<Built, Errors> {
        crate::native::build(&self.module, &native(options), files)
    }

    /// Runs it: the function of a library if one is given. The files that the options name are written if all went well,
    /// or if an output differs.
    ///
    /// # Errors
    /// If an input does not fit, the run fails, or a file cannot be read or written.
    pub fn run(&self, options: &Options, built: Option<&Built>) -> Result<Summary, Errors> {
        summary(options, &self.module, &self.entry, built)
    }
}

fn native(options: &Options) -> Native {
    Native {
        strict: options.strict,
        repeat: options.repeat,
        threads: options.threads,
        by_layer: options.timing,
    }
}

fn summary(
    options: &Options,
    module: &Ir,
    entry: &Entry,
    built: Option<&Built>,
) -> Result<Summary, Errors> {
    let place = |e: Box<Diagnostic>| vec![e.or_at(entry.loc)];
    let inputs = bind::inputs(&entry.params, &options.input, options.random).map_err(place)?;
    let expected = expected(
        options,
        entry.results.len() + entry.params.iter().filter(|p| p.out).count(),
    )?;
    let limits = Limits {
        steps: options.max_steps,
        ..Limits::default()
    };
    let keep = Keep {
        trace: options.trace.is_some(),
        timeline: options.timeline,
    };
    let bound: Vec<(usize, &Array)> = inputs.iter().map(|(k, _, array)| (*k, array)).collect();
    let Execution {
        outputs,
        machine,
        layers,
        trace,
        timeline,
        seconds,
    } = match built {
        Some(built) => entry.call_native(built, &bound, &native(options))?,
        None => entry.execute(module, &bound, limits, keep)?,
    };
    let files = write_outputs(options, &outputs)?;
    if let Some(path) = &options.trace {
        write_trace(path, trace.as_deref())?;
    }
    let mut summary = Summary {
        file: options.file.clone(),
        function: format!("@{}", entry.name),
        inputs: inputs
            .iter()
            .map(|(k, source, _)| input_summary(*k, &entry.params[*k], source))
            .collect(),
        outputs: Vec::new(),
        ok: true,
        seconds,
        rtol: options.rtol,
        atol: options.atol,
        machine,
        layers,
        timeline,
        timing: options.timing,
    };
    for (k, array) in outputs.iter().enumerate() {
        let compared = expected
            .get(k)
            .map(|(path, expected)| compare(options, path, expected, array));
        summary.ok &= compared.as_ref().is_none_or(|c| c.ok);
        summary.outputs.push(OutputSummary {
            output: k,
            ty: tir_interp::type_of(array).to_string(),
            file: files.get(k).map(|path| path.display().to_string()),
            compared,
            value: (array.len() == 1).then(|| array.get_f64(0)).flatten(),
        });
    }
    Ok(summary)
}

/// The verified program with its constants, on the machine that was asked for; and what there is to say of that.
fn load(options: &Options, sources: &mut Sources) -> Result<(Ir, Option<Diagnostic>), Errors> {
    let input = tir_opt::read(&options.file, options.max_bytes)?;
    sources.add(input.name, input.text.as_str());
    let mut module = tir_text::parse(&input.text, input.name, &ParseOptions::default())?;
    // A function by itself, as `--print-ir-after` prints it, is valid on its machine alone.
    let said = match &options.machine {
        Some(file) => on_machine::replace(&mut module, file)?,
        None => None,
    };
    tir::verify(&module)?;
    let folder = match options.file.as_str() {
        "-" => Path::new("."),
        path => Path::new(path).parent().unwrap_or(Path::new(".")),
    };
    tir_io::load_blobs(&module, folder)?;
    Ok((module, said))
}

/// What the outputs should be.
fn expected(options: &Options, outputs: usize) -> Result<Vec<(PathBuf, Array)>, Errors> {
    let given = options.compare.len();
    if given > outputs {
        let s = if outputs == 1 { "" } else { "s" };
        let error = format!(
            "{given} files are given to compare with, the function has {outputs} output{s}"
        );
        return Err(Diagnostic::error(error).into());
    }
    let read = |path: &PathBuf| match npy::read(path) {
        Ok(array) => Ok((path.clone(), array)),
        Err(e) => Err(vec![Diagnostic::error(e.to_string())]),
    };
    options.compare.iter().map(read).collect()
}

fn compare(options: &Options, path: &Path, expected: &Array, actual: &Array) -> Compared {
    let comparison: Comparison = tir_data::compare(expected, actual, options.rtol, options.atol);
    Compared::new(path.display().to_string(), &comparison)
}

/// Writes all outputs, or none.
fn write_outputs(options: &Options, outputs: &[Array]) -> Result<Vec<PathBuf>, Errors> {
    let Some(folder) = &options.output else {
        return Ok(Vec::new());
    };
    let fail = |message: String| vec![Diagnostic::error(message)];
    std::fs::create_dir_all(folder).map_err(|e| {
        fail(format!(
            "cannot make the folder '{}': {e}",
            folder.display()
        ))
    })?;
    let paths = (0..outputs.len()).map(|k| folder.join(format!("out_{k}.npy")));
    let paths: Vec<PathBuf> = paths.collect();
    let mut staged = Vec::new();
    for (path, array) in paths.iter().zip(outputs) {
        staged.push(Staged::write(path, &[&npy::encode(array)]).map_err(|e| fail(e.to_string()))?);
    }
    for file in staged {
        file.commit().map_err(|e| fail(e.to_string()))?;
    }
    Ok(paths)
}

fn write_trace(path: &Path, trace: Option<&str>) -> Result<(), Errors> {
    let fail = |message: String| vec![Diagnostic::error(message)];
    let Some(trace) = trace else {
        return Err(fail(format!("--trace: {}", crate::NO_WORK)));
    };
    Ok(tir_opt::write(path, trace.as_bytes())?)
}

fn input_summary(k: usize, param: &Param, source: &Source) -> InputSummary {
    InputSummary {
        argument: k,
        ty: param.ty.to_string(),
        source: match source {
            Source::File(path) => path.display().to_string(),
            Source::Random(seed) => format!("random, seed {seed}"),
        },
    }
}
