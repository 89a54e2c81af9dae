//! `PassManager`: runs a pipeline on an isolated op.

use tir_core::Ir;

use crate::context::PassResult;
use crate::pipeline::Pipeline;
use crate::report::Report;
use crate::run::{AfterPass, AfterStep, Runner};
use crate::settings::Settings;
use crate::shared::Shared;

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
        let shared = Shared::new(settings);
        if self.after_step.is_none() && !settings.keep_input && !settings.print.module_scope {
            return Runner::new(&self.pipeline, shared, self.after_pass.as_ref()).run(ir);
        }
        let pipeline = self.pipeline.flatten();
        let runner = Runner::new(&pipeline, shared, self.after_pass.as_ref());
        runner.run_steps(ir, self.after_step.as_deref_mut())
    }
}
