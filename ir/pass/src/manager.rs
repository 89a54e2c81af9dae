//! `PassManager`: runs a pipeline on an isolated op.

use std::collections::BTreeSet;

use tir_core::Ir;

use crate::pass::PassResult;
use crate::pipeline::Pipeline;
use crate::print::{PrintIr, Printer};
use crate::report::Report;
use crate::run::Runner;

/// How a pipeline is run.
#[derive(Clone)]
pub struct Settings {
    /// Threads; 0 (the default) for as many as there are cores. The output does not depend on it.
    pub threads: usize,
    /// Whether the IR is verified after each pass; default yes.
    pub verify: bool,
    /// Whether times are taken; default no.
    pub timing: bool,
    /// Rules and patterns that are left out.
    pub disabled_rules: BTreeSet<String>,
    /// The classes of the rules that may fire, by their words; none for all of them, the default.
    pub rule_classes: Vec<String>,
    /// Files with rules that passes use besides those of the dialects, in this order.
    pub rule_files: Vec<String>,
    /// Around which passes the IR is printed.
    pub print: PrintIr,
    /// Prints the IR.
    pub printer: Option<Printer>,
    /// Whether the input of a pass that fails is kept; default no. The pipeline then runs pass by
    /// pass, and the root is copied before each.
    pub keep_input: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            threads: 0,
            verify: true,
            timing: false,
            disabled_rules: BTreeSet::new(),
            rule_classes: Vec::new(),
            rule_files: Vec::new(),
            print: PrintIr::default(),
            printer: None,
            keep_input: false,
        }
    }
}

pub(crate) type AfterPass<'a> = Box<dyn Fn(&'static str, &Ir) + Send + Sync + 'a>;
/// What is called after each member, with its name.
pub(crate) type AfterStep<'a> = dyn FnMut(&'static str, &Ir) -> PassResult + 'a;

/// Runs a pipeline on an isolated op.
pub struct PassManager<'a> {
    /// What is run.
    pub pipeline: Pipeline,
    /// How.
    pub settings: Settings,
    after_pass: Option<AfterPass<'a>>,
    after_step: Option<Box<AfterStep<'a>>>,
}

impl<'a> PassManager<'a> {
    /// A manager with the default settings.
    pub fn new(pipeline: Pipeline) -> Self {
        Self::with(pipeline, Settings::default())
    }
    /// A manager with settings.
    pub fn with(pipeline: Pipeline, settings: Settings) -> Self {
        Self {
            pipeline,
            settings,
            after_pass: None,
            after_step: None,
        }
    }
    /// Calls a function after each pass, with its name and the isolated op it ran on; on the
    /// thread of the pass, so the order of calls may differ between runs.
    #[must_use]
    pub fn after_pass(mut self, call: impl Fn(&'static str, &Ir) + Send + Sync + 'a) -> Self {
        self.after_pass = Some(Box::new(call));
        self
    }
    /// Calls a function after each pass, with its name and the *root*, once the pass has run on
    /// all ops that it runs on: passes in a nest then run one after the other on all of its ops.
    /// An error stops the run.
    #[must_use]
    pub fn after_step(mut self, call: impl FnMut(&'static str, &Ir) -> PassResult + 'a) -> Self {
        self.after_step = Some(Box::new(call));
        self
    }

    /// Runs the pipeline. If the report has errors the IR is in between and must not be written.
    pub fn run(&mut self, ir: &mut Ir) -> Report {
        let settings = &self.settings;
        if self.after_step.is_none() && !settings.keep_input && !settings.print.module_scope {
            return Runner::new(&self.pipeline, settings, self.after_pass.as_ref()).run(ir);
        }
        let pipeline = self.pipeline.flatten();
        let runner = Runner::new(&pipeline, settings, self.after_pass.as_ref());
        runner.run_steps(ir, self.after_step.as_deref_mut())
    }
}
