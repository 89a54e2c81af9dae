//! Entry points: running a function of a module, one op, and folding by evaluation.

use tir_core::{Attr, Diagnostic, Failure, FunctionType, Ir, Name, OpRef, Type, TypeAttr};

use crate::data::{Data, fitted_all};
use crate::env::{Env, Options, constant, to_attr};
use crate::hooks::EvaluateOp;

/// Runs the functions of a module.
///
/// ```text
/// let mut interpreter = Interpreter::new(&module);
/// let results = interpreter.run(Name::new("main"), args)?;
/// ```
pub struct Interpreter<'m> {
    /// What the program can reach: memory, options, objects of dialects.
    pub env: Env<'m>,
}

impl<'m> Interpreter<'m> {
    /// An interpreter with plain memory. Functions are compiled when they are first called.
    pub fn new(module: &'m Ir) -> Self {
        Self {
            env: Env::new(module),
        }
    }
    /// With other limits.
    #[must_use]
    pub fn with_options(mut self, options: Options) -> Self {
        self.env.options = options;
        self
    }
    /// Calls a function. The step limit counts from here.
    pub fn run(&mut self, function: Name, args: Vec<Data>) -> Result<Vec<Data>, Vec<Diagnostic>> {
        self.env.left = self.env.options.steps;
        self.env.call(function, args).map_err(|e| vec![*e])
    }
    /// Types of the arguments and results of a function.
    pub fn signature(&self, function: Name) -> Result<(Vec<Type>, Vec<Type>), Failure> {
        let op = self.env.symbol(function);
        let op = op.ok_or_else(|| format!("there is no symbol @{function}"))?;
        let ty = op
            .attr("function_type")
            .and_then(|a| a.get::<TypeAttr>()?.0.get::<FunctionType>());
        let ty = ty.ok_or_else(|| format!("@{function} is not a function"))?;
        Ok((ty.inputs.clone(), ty.results.clone()))
    }
}

/// Seeded random values of these types: argument `k` is seeded with `seed + k`.
pub fn random_args(types: &[Type], seed: u64) -> Result<Vec<Data>, Failure> {
    let one = |(k, ty): (usize, &Type)| {
        let made = Data::random(*ty, seed.wrapping_add(k as u64));
        made.map_err(|e| Box::new((*e).context(format_args!("argument {k}: "))))
    };
    types.iter().enumerate().map(one).collect()
}

/// Evaluates one op by its `evaluate`, if it has one.
pub fn evaluate_op(op: OpRef<'_>, inputs: &[Data]) -> Option<Result<Vec<Data>, Failure>> {
    let hook = op.info()?.interface::<dyn EvaluateOp>()?;
    Some(Evaluation::of(hook, op).run(inputs))
}

/// An op that is evaluated, with what is known of its operands and results.
pub(crate) struct Evaluation<'m> {
    hook: &'static dyn EvaluateOp,
    op: OpRef<'m>,
    operands: Vec<Type>,
    results: Vec<Type>,
}

impl<'m> Evaluation<'m> {
    pub(crate) fn of(hook: &'static dyn EvaluateOp, op: OpRef<'m>) -> Self {
        Self {
            hook,
            op,
            operands: op.ir.operands(op.id).map(|v| op.ir.ty(v)).collect(),
            results: op.ir.result_types(op.id),
        }
    }

    /// The results for these operands.
    ///
    /// # Errors
    /// The hook fails, or gives what is not of the type of a result.
    pub(crate) fn run(&self, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let done = match fitted_all(inputs, &self.operands)? {
            Some(inputs) => self.hook.evaluate(self.op, &inputs),
            None => self.hook.evaluate(self.op, inputs),
        }?;
        for (data, ty) in done.iter().zip(&self.results) {
            let checked = data.check(*ty);
            checked.map_err(|error| error.context("what it gives: "))?;
        }
        Ok(done)
    }
}

/// Bytes of elements that folding may produce: more would be interned for ever.
const FOLD_LIMIT: usize = 1 << 10;

/// The results of an op that has `evaluate`, for constant operands; `None` if it has none, fails,
/// or a result is not a number or tensor of at most 1 KiB.
pub fn fold_by_evaluation(op: OpRef<'_>, constants: &[Attr]) -> Option<Vec<Attr>> {
    let types: Vec<Type> = op.ir.operands(op.id).map(|v| op.ir.ty(v)).collect();
    if types.len() != constants.len() {
        return None;
    }
    let results = op.ir.result_types(op.id);
    let small = |ty: &Type| Some(ty.elements()?.checked_mul(ty.bytes()?)? <= FOLD_LIMIT);
    if !results.iter().all(|ty| small(ty) == Some(true)) {
        return None;
    }
    let inputs = constants
        .iter()
        .zip(types)
        .map(|(attr, ty)| constant(*attr, ty).ok());
    let inputs = inputs.collect::<Option<Vec<Data>>>()?;
    let values = evaluate_op(op, &inputs)?.ok()?;
    if values.len() != results.len() {
        return None;
    }
    values
        .iter()
        .zip(results)
        .map(|(value, ty)| to_attr(value, ty))
        .collect()
}
