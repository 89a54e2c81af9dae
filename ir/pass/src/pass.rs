//! Passes and aliases, as written and as trait objects.

use tir_core::{Ir, Name};

use crate::context::{PassCx, PassResult};
use crate::options::{PassOptions, changed_options};
use crate::pipeline::Pipeline;

/// A transformation or analysis of an isolated op. The struct holds its options only: one value
/// runs on many ops, on many threads.
pub trait Pass: PassOptions {
    /// Works on an isolated op: its attributes and all below it. An error stops the pipeline.
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult;

    /// Called once before any pass of the pipeline runs: what does not depend on the IR is made
    /// here, with [`PassCx::shared`], and what is wrong with the options is found here.
    fn initialize(&self, cx: &mut PassCx<'_>) -> PassResult {
        let _ = cx;
        Ok(())
    }

    /// Called on the op around before the pass runs on those below it: what is computed here with
    /// [`PassCx::analysis`] can be read there with [`PassCx::outer`].
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        let _ = (parent, cx);
        Ok(())
    }

    /// The names of patterns of its own, besides those of the loaded dialects, that
    /// `--disable-rule` may name; default none.
    fn pattern_names() -> Vec<String>
    where
        Self: Sized,
    {
        Vec::new()
    }
}

/// A named pipeline that expands.
pub trait Alias: PassOptions {
    /// Adds the passes it stands for.
    fn expand(&self, pipeline: &mut Pipeline);
}

/// A [`Pass`] as an object.
pub trait AnyPass: Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;
    /// The name of the ops it runs on.
    fn anchor(&self) -> Option<Name>;
    /// Those of its options that are not at their default, as texts.
    fn options(&self) -> Vec<(String, String)>;
    /// See [`Pass::run`].
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult;
    /// See [`Pass::initialize`].
    fn initialize(&self, cx: &mut PassCx<'_>) -> PassResult;
    /// See [`Pass::prepare`].
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult;
    /// A copy.
    fn boxed(&self) -> Box<dyn AnyPass>;
}

impl<P: Pass> AnyPass for P {
    fn name(&self) -> &'static str {
        P::NAME
    }
    fn anchor(&self) -> Option<Name> {
        P::ANCHOR.map(Name::new)
    }
    fn options(&self) -> Vec<(String, String)> {
        changed_options(self)
    }
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        Pass::run(self, ir, cx)
    }
    fn initialize(&self, cx: &mut PassCx<'_>) -> PassResult {
        Pass::initialize(self, cx)
    }
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        Pass::prepare(self, parent, cx)
    }
    fn boxed(&self) -> Box<dyn AnyPass> {
        Box::new(self.clone())
    }
}
