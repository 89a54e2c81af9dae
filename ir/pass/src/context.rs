//! `PassCx`: what a pass may ask and say besides changing its op.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;

use tir_core::{Diagnostic, Ir, Name, Traits};

use crate::analysis::{Analyses, Analysis, Outer, Preserved};
use crate::pipeline::{Element, Pipeline};
use crate::run::Runner;
use crate::settings::{PrintIr, Settings};
use crate::shared::Shared;
use crate::symbols::{SymbolInfo, SymbolScope};

/// What a pass gives: nothing, or errors.
pub type PassResult = Result<(), Vec<Diagnostic>>;

/// Whether the value of an option is as large as it must be.
///
/// # Errors
/// If it is less: what it is, and what is expected.
pub fn at_least(option: &str, value: i64, least: i64) -> PassResult {
    match value < least {
        true => {
            let text = format!("has {option}={value}, expected at least {least}");
            Err(vec![Diagnostic::error(text)])
        }
        false => Ok(()),
    }
}

/// What surrounds an isolated op while passes run on it.
#[derive(Clone, Default)]
pub(crate) struct Surroundings {
    pub(crate) scope: Option<Arc<SymbolScope>>,
    pub(crate) outer: Option<Arc<Outer>>,
    /// The ops around, from the root on.
    pub(crate) ops: Vec<String>,
}

/// What a pass may ask and say besides changing its op.
pub struct PassCx<'a> {
    /// Isolated ops to put behind this one, once all of its siblings are done. The passes that
    /// follow run on them too.
    pub siblings: Vec<Ir>,
    pub(crate) pass: &'static str,
    pub(crate) shared: &'a Shared<'a>,
    pub(crate) around: &'a Surroundings,
    pub(crate) analyses: &'a mut Analyses,
    pub(crate) preserved: Preserved,
    pub(crate) remarks: Vec<Diagnostic>,
    pub(crate) counts: BTreeMap<String, u64>,
}

impl<'a> PassCx<'a> {
    pub(crate) fn new(
        pass: &'static str,
        shared: &'a Shared<'a>,
        around: &'a Surroundings,
        analyses: &'a mut Analyses,
    ) -> Self {
        Self {
            siblings: Vec::new(),
            pass,
            shared,
            around,
            analyses,
            preserved: Preserved::default(),
            remarks: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    /// The name of the pass.
    pub fn pass(&self) -> &'static str {
        self.pass
    }
    /// The settings of this run.
    pub fn settings(&self) -> &'a Settings {
        self.shared.settings
    }

    /// A symbol of the nearest table around the isolated op that has it, as it was before the
    /// passes on this op and its siblings began.
    pub fn symbol(&self, name: Name) -> Option<&SymbolInfo> {
        self.around.scope.as_ref()?.get(name)
    }

    /// An analysis of the isolated op, computed unless it is known.
    pub fn analysis<A: Analysis>(&mut self, ir: &Ir) -> Arc<A> {
        self.analyses.get(ir)
    }
    /// An analysis of an op around this one, if [`prepare`](crate::Pass::prepare) computed it.
    pub fn outer<A: Analysis>(&self) -> Option<Arc<A>> {
        self.around.outer.as_ref()?.get::<A>()
    }
    /// Says that what an analysis found still holds after this pass.
    pub fn preserve<A: Analysis>(&mut self) {
        self.preserved.some.insert(TypeId::of::<A>());
    }
    /// Says that this pass changed nothing.
    pub fn unchanged(&mut self) {
        self.preserved.all = true;
    }

    /// Something computed once for the whole run, whichever pass on whichever thread asks first:
    /// it must not depend on who asks.
    pub fn shared<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        self.shared.get(make)
    }

    /// Does the same with each of some items, on the threads of this run; answers come in the order of the items. An answer must
    /// not depend on when it is found: other items may be done before or meanwhile.
    pub fn map<T: Send, R: Send>(
        &self,
        items: Vec<T>,
        work: impl Fn(T) -> R + Sync + Send,
    ) -> Vec<R> {
        self.shared.map(items, work)
    }

    /// Tells the user something: a remark or a warning.
    pub fn remark(&mut self, remark: Diagnostic) {
        self.remarks.push(remark);
    }
    /// Adds to a statistic of this pass.
    pub fn count(&mut self, what: &str, n: usize) {
        if n > 0 {
            *self.counts.entry(what.to_string()).or_default() += n as u64;
        }
    }

    /// Runs the passes of a pipeline on another op, as if it stood where this one does: how a pass compares what becomes
    /// of programs. What they remark is the answer; they are not counted, printed or verified.
    ///
    /// # Errors
    /// Those of the first pass that fails, or that the pipeline has passes for ops below.
    pub fn attempt(
        &self,
        pipeline: &Pipeline,
        ir: &mut Ir,
    ) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
        let mut said = Vec::new();
        for element in &pipeline.flatten().elements {
            let Element::Pass(pass) = element else {
                let text = format!("'{}' tries a pipeline of ops below", self.pass);
                return Err(vec![Diagnostic::error(text)]);
            };
            let run = |ir: &mut Ir, cx: &mut PassCx<'_>| pass.run(ir, cx);
            said.append(&mut self.attempt_one(pass.name(), ir, &run)?);
        }
        Ok(said)
    }

    /// The same for what a pass does in another way than a pipeline says; `pass` is its name.
    ///
    /// # Errors
    /// Those of the function.
    pub fn attempt_one(
        &self,
        pass: &'static str,
        ir: &mut Ir,
        run: &dyn Fn(&mut Ir, &mut PassCx<'_>) -> PassResult,
    ) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
        let mut analyses = Analyses::default();
        let mut cx = PassCx::new(pass, self.shared, self.around, &mut analyses);
        run(ir, &mut cx)?;
        Ok(cx.remarks)
    }

    /// Runs a pipeline on an op that stands nowhere, such as a module with a copy of this one: it finds what passes of this run
    /// [share](Self::shared). What they remark is the answer; they are not timed, printed or verified.
    ///
    /// # Errors
    /// Those of the first pass that fails.
    pub fn attempt_root(
        &self,
        pipeline: &Pipeline,
        ir: &mut Ir,
    ) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
        let settings = Settings {
            verify: false,
            timing: false,
            print: PrintIr::default(),
            keep_input: false,
            ..self.shared.settings.clone()
        };
        let report = Runner::new(pipeline, self.shared.under(&settings), None).run(ir);
        match report.errors.is_empty() {
            true => Ok(report.remarks),
            false => Err(report.errors),
        }
    }

    /// Runs a function on every isolated op below, in parallel, and then on this one: how a pass
    /// that runs on any op reaches all. Errors come in program order. An op that only
    /// [describes](Traits::Description) something is left alone, with all that is in it: what it says is
    /// compared with programs, and another form of it would say something else.
    pub fn each(
        &mut self,
        ir: &mut Ir,
        work: &(dyn Fn(&mut Ir, &mut PassCx<'_>) -> PassResult + Sync),
    ) -> PassResult {
        if ir.has(ir.root(), Traits::Description) {
            self.unchanged();
            return Ok(());
        }
        let around = Surroundings {
            scope: SymbolScope::below(ir, self.around.scope.as_ref()),
            outer: self.around.outer.clone(),
            ops: Vec::new(),
        };
        let children = ir.children_mut().into_iter().map(|(_, child)| child);
        let (pass, shared) = (self.pass, self.shared);
        let results = shared.map(children.collect(), |child: &mut Ir| {
            let mut analyses = Analyses::default();
            let mut cx = PassCx::new(pass, shared, &around, &mut analyses);
            let result = cx.each(child, work);
            (result, cx.remarks, cx.counts, cx.preserved.all)
        });
        let mut errors = Vec::new();
        let mut unchanged = true;
        for (result, remarks, counts, same) in results {
            errors.extend(result.err().into_iter().flatten());
            self.remarks.extend(remarks);
            for (what, n) in counts {
                *self.counts.entry(what).or_default() += n;
            }
            unchanged &= same;
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        self.preserved.all = false;
        work(ir, self)?;
        self.preserved.all &= unchanged;
        Ok(())
    }
}
