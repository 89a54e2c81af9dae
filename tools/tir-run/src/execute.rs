//! A function of a program, run once on arrays: with a machine if it starts transfers.

use std::time::Instant;

use tir::{Diagnostic, FunctionType, Ir, Loc, Name, OpRef, Type, TypeAttr};
use tir_data::Array;
use tir_interp::{Data, Interpreter, Options as Limits};

use crate::bind::{self, Param};
use crate::machine::MachineSummary;
use crate::native::NativeLayer;
use crate::on_machine;
use crate::timeline::Timeline;

type Errors = Vec<Diagnostic>;

/// A function that can be run.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: Name,
    /// Its place.
    pub loc: Loc,
    /// Its arguments, those that are outputs as well.
    pub params: Vec<Param>,
    /// Types of its results.
    pub results: Vec<Type>,
}

/// What a run gave.
#[derive(Debug)]
pub struct Execution {
    /// Results, then arguments that are outputs.
    pub outputs: Vec<Array>,
    /// The account, if the program ran on a machine.
    pub machine: Option<MachineSummary>,
    /// The time of each layer of native code, if it was asked for.
    pub layers: Vec<NativeLayer>,
    /// The events in Chrome's format, if they were asked for and the program ran on a machine.
    pub trace: Option<String>,
    /// The timeline, if it was asked for and the program ran on a machine.
    pub timeline: Option<Timeline>,
    /// Seconds that the function took.
    pub seconds: f64,
}

/// What is kept of a run on a machine beside its account.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// The events in Chrome's format.
    pub trace: bool,
    /// The timeline.
    pub timeline: bool,
}

/// Runs a verified program of any level, whose constants are in memory, on the arguments of its
/// function that are no outputs: `main`, or the only public function.
///
/// # Errors
/// If there is no such function, an argument is missing or too many, or the run fails.
pub fn execute(module: &Ir, inputs: &[Array]) -> Result<Execution, Errors> {
    let entry = Entry::of(module, None)?;
    let wanted: Vec<usize> = (0..entry.params.len())
        .filter(|k| !entry.params[*k].out)
        .collect();
    if wanted.len() != inputs.len() {
        let (given, count) = (inputs.len(), wanted.len());
        let error = Diagnostic::error(format!("{given} inputs for {count} arguments"));
        return Err(vec![error.at(entry.loc)]);
    }
    let inputs: Vec<(usize, &Array)> = wanted.into_iter().zip(inputs).collect();
    entry.execute(module, &inputs, Limits::default(), Keep::default())
}

impl Entry {
    /// The function of a name; without one, `main`, or the only public function with a body.
    ///
    /// # Errors
    /// If there is none, or it is no function.
    pub fn of(module: &Ir, name: Option<&str>) -> Result<Self, Errors> {
        let (name, function) = function(module, name)?;
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
        Ok(Self {
            name,
            loc: function.loc(),
            params: bind::params(function, &signature.inputs),
            results: signature.results.clone(),
        })
    }

    /// Runs it; an input is the number of an argument and its value, other arguments are outputs.
    ///
    /// # Errors
    /// If a value does not fit its argument, or the run fails.
    pub fn execute(
        &self,
        module: &Ir,
        inputs: &[(usize, &Array)],
        limits: Limits,
        keep: Keep,
    ) -> Result<Execution, Errors> {
        let place = |e: Box<Diagnostic>| vec![e.or_at(self.loc)];
        let mut interpreter = Interpreter::new(module).with_options(limits);
        on_machine::attach(&mut interpreter.env, module, keep.trace || keep.timeline)?;
        let args = arguments(&mut interpreter, &self.params, inputs).map_err(place)?;
        let start = Instant::now();
        let results = interpreter.run(self.name, args.clone())?;
        let seconds = start.elapsed().as_secs_f64();
        // Before outputs are read: that is no part of the program.
        let account = on_machine::finish(&mut interpreter.env, module, self.name, keep)?;
        let outputs = outputs(
            &mut interpreter,
            &self.results,
            &results,
            &self.params,
            &args,
        )
        .map_err(place)?;
        let (mut trace, mut timeline) = (None, None);
        let machine = account.map(|account| {
            (trace, timeline) = (account.trace, account.timeline);
            account.summary
        });
        Ok(Execution {
            outputs,
            machine,
            layers: Vec::new(),
            trace,
            timeline,
            seconds,
        })
    }
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
    inputs: &[(usize, &Array)],
) -> Result<Vec<Data>, Box<Diagnostic>> {
    let mut args = Vec::with_capacity(params.len());
    for (k, param) in params.iter().enumerate() {
        let input = inputs.iter().find(|(argument, _)| *argument == k);
        let data = match input {
            Some((_, array)) => bind::to_data(&mut interpreter.env, param.ty, array),
            None => bind::new_output(&mut interpreter.env, param),
        };
        args.push(data.map_err(|e| Box::new(e.context(format_args!("argument {k}: "))))?);
    }
    Ok(args)
}

/// Results, then arguments marked as outputs.
fn outputs(
    interpreter: &mut Interpreter<'_>,
    types: &[Type],
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
