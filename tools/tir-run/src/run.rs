//! A run from the file to the summary.

use std::path::{Path, PathBuf};
use std::time::Instant;

use tir::{Diagnostic, FunctionType, Ir, Name, OpRef, Sources, TypeAttr};
use tir_data::{Array, Comparison, Staged, npy};
use tir_interp::{Data, Interpreter, Options as Limits};
use tir_text::ParseOptions;

use crate::bind::{self, Param, Source};
use crate::cli::Options;
use crate::on_machine;
use crate::summary::{Compared, InputSummary, OutputSummary, Summary};

type Errors = Vec<Diagnostic>;

/// Runs the program; the files that the options name are written if all went well, or if an
/// output differs. Places in errors point into texts that are added to `sources`.
pub fn run(options: &Options, sources: &mut Sources) -> Result<Summary, Errors> {
    let mut module = load(options, sources)?;
    if let Some(file) = &options.machine {
        on_machine::replace(&mut module, file)?;
    }
    let module = module;
    let (name, function) = function(&module, options.function.as_deref())?;
    let signature = function
        .attr("function_type")
        .and_then(|a| a.get::<TypeAttr>()?.0.get::<FunctionType>());
    let Some(signature) = signature else {
        let what = function.name();
        return Err(
            Diagnostic::error(format!("@{name} is a {what}, no function"))
                .at(function.loc())
                .into(),
        );
    };
    let params = bind::params(function, &signature.inputs);
    let place = |e: Box<Diagnostic>| vec![e.or_at(function.loc())];
    let inputs = bind::inputs(&params, &options.input, options.random).map_err(place)?;
    let expected = expected(
        options,
        signature.results.len() + params.iter().filter(|p| p.out).count(),
    )?;

    let limits = Limits {
        steps: options.max_steps,
        ..Limits::default()
    };
    let mut interpreter = Interpreter::new(&module).with_options(limits);
    on_machine::attach(&mut interpreter.env, &module, options.trace.is_some())?;
    let args = arguments(&mut interpreter, &params, &inputs).map_err(place)?;
    let start = Instant::now();
    let results = interpreter.run(name, args.clone())?;
    let seconds = start.elapsed().as_secs_f64();

    // Before outputs are read: that is no part of the program.
    let machine = on_machine::finish(&mut interpreter.env, &module)?;

    let outputs = outputs(
        &mut interpreter,
        &signature.results,
        &results,
        &params,
        &args,
    )
    .map_err(place)?;
    let files = write_outputs(options, &outputs)?;
    if let Some(path) = &options.trace {
        write_trace(path, machine.as_ref().map(|(_, trace)| trace.as_str()))?;
    }
    let mut summary = Summary {
        file: options.file.clone(),
        function: format!("@{name}"),
        inputs: inputs
            .iter()
            .map(|(k, source, _)| input_summary(*k, &params[*k], source))
            .collect(),
        outputs: Vec::new(),
        ok: true,
        seconds,
        rtol: options.rtol,
        atol: options.atol,
        machine: machine.map(|(summary, _)| summary),
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

/// The verified program with its constants.
fn load(options: &Options, sources: &mut Sources) -> Result<Ir, Errors> {
    let input = tir_opt::read(&options.file, options.max_bytes)?;
    sources.add(input.name, input.text.as_str());
    let module = tir_text::parse(&input.text, input.name, &ParseOptions::default())?;
    tir::verify(&module)?;
    let folder = match options.file.as_str() {
        "-" => Path::new("."),
        path => Path::new(path).parent().unwrap_or(Path::new(".")),
    };
    tir_io::load_blobs(&module, folder)?;
    Ok(module)
}

/// The function of a name; without one, `main`, or the only public function with a body.
fn function<'m>(module: &'m Ir, name: Option<&str>) -> Result<(Name, OpRef<'m>), Errors> {
    let table = tir::SymbolTable::new(module);
    let is_function = |op: &OpRef<'_>| {
        let ty = op.attr("function_type").and_then(|a| a.get::<TypeAttr>());
        ty.is_some_and(|ty| ty.0.is::<FunctionType>())
    };
    let all: Vec<(Name, OpRef<'m>)> = table.iter().filter(|(_, op)| is_function(op)).collect();
    let names = || {
        let names: Vec<String> = all
            .iter()
            .take(20)
            .map(|(name, _)| format!("@{name}"))
            .collect();
        if names.is_empty() {
            "none".to_string()
        } else {
            names.join(", ")
        }
    };
    if let Some(name) = name {
        let name = name.strip_prefix('@').unwrap_or(name);
        let found = all.iter().find(|(other, _)| *other == name);
        return found.copied().ok_or_else(|| {
            let error = Diagnostic::error(format!("there is no function @{name}"));
            vec![error.note(format!("the functions are {}", names()))]
        });
    }
    if let Some(main) = all.iter().find(|(name, _)| *name == "main") {
        return Ok(*main);
    }
    let public: Vec<_> = all.iter().filter(|(_, op)| tir::is_public(*op)).collect();
    match public[..] {
        [one] => Ok(*one),
        _ => {
            let error = format!(
                "there are {} public functions and none is called main",
                public.len()
            );
            let error = Diagnostic::error(error)
                .note(format!("--function @NAME says which; they are {}", names()));
            Err(vec![error])
        }
    }
}

fn arguments(
    interpreter: &mut Interpreter<'_>,
    params: &[Param],
    inputs: &[(usize, Source, Array)],
) -> Result<Vec<Data>, Box<Diagnostic>> {
    let mut args = Vec::with_capacity(params.len());
    for (k, param) in params.iter().enumerate() {
        let input = inputs.iter().find(|(argument, ..)| *argument == k);
        let data = match input {
            Some((_, _, array)) => bind::to_data(&mut interpreter.env, param.ty, array),
            None => bind::new_output(&mut interpreter.env, param.ty),
        };
        args.push(data.map_err(|e| Box::new(e.context(format_args!("argument {k}: "))))?);
    }
    Ok(args)
}

/// Results, then arguments marked as outputs.
fn outputs(
    interpreter: &mut Interpreter<'_>,
    types: &[tir::Type],
    results: &[Data],
    params: &[Param],
    args: &[Data],
) -> Result<Vec<Array>, Box<Diagnostic>> {
    let results = types.iter().copied().zip(results);
    let marked = params.iter().zip(args).filter(|(param, _)| param.out);
    let all = results.chain(marked.map(|(param, data)| (param.ty, data)));
    all.enumerate()
        .map(|(k, (ty, data))| {
            let array = bind::to_array(&mut interpreter.env, ty, data);
            array.map_err(|e| Box::new(e.context(format_args!("output {k}: "))))
        })
        .collect()
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
        return Err(fail("--trace: the program runs on no machine".into()));
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
