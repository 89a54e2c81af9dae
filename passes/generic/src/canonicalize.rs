//! `canonicalize`: folds, rules and patterns of all loaded dialects until nothing changes.

use std::sync::{Arc, Mutex};

use tir::pass::place;
use tir::rewrite::{Stopped, erase_unreachable};
use tir::rule_file::rules;
use tir::{Diagnostic, Greedy, Ir, Pass, PassCx, PassResult, Patterns, pass};

pass! {
    /// Canonicalizes ops: applies the folders, rules and patterns of all loaded dialects greedily.
    ///
    /// Unused ops without effects and unreachable blocks go as well; constants move to the head
    /// of the function, one of a kind. Runs on the isolated op and on all below it.
    pub struct Canonicalize = "canonicalize" {
        /// Maximum number of iterations over each function.
        pub max_iterations: usize = 10,
        /// Maximum number of folds and rewrites per function; none: 4096 plus 64 per op.
        pub max_rewrites: Option<usize> = None,
        /// Rules and patterns to disable, in addition to `--disable-rule`.
        pub disable: Vec<String> = Vec::new(),
        /// Rule files to load in addition to the rules of the dialects and `--rules`.
        pub rules: Vec<String> = Vec::new(),
    }
}

impl Pass for Canonicalize {
    fn initialize(&self, cx: &mut PassCx<'_>) -> PassResult {
        self.prepared(cx).map(|_| ())
    }

    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let patterns = self.prepared(cx)?;
        self.with(ir, cx, &patterns)
    }
}

/// What patterns are made for: rules and patterns that are disabled, and rule files.
type Key = (Vec<String>, Vec<String>);

/// The patterns of each `canonicalize` of a run: those of equal options are made once.
#[derive(Default)]
struct Prepared(Mutex<Vec<(Key, Arc<Patterns>)>>);

impl Canonicalize {
    fn prepared(&self, cx: &PassCx<'_>) -> Result<Arc<Patterns>, Vec<Diagnostic>> {
        let key = (self.disable.clone(), self.rules.clone());
        let all = cx.shared(Prepared::default);
        // A panic while patterns are made leaves the list as it was.
        let mut all = all.0.lock().unwrap_or_else(|p| p.into_inner());
        if let Some((_, patterns)) = all.iter().find(|(known, _)| *known == key) {
            return Ok(patterns.clone());
        }
        let patterns = Arc::new(self.patterns(cx)?);
        all.push((key, patterns.clone()));
        Ok(patterns)
    }

    fn patterns(&self, cx: &PassCx<'_>) -> Result<Patterns, Vec<Diagnostic>> {
        let mut disabled = cx.settings().disabled_rules.clone();
        disabled.extend(self.disable.iter().cloned());
        let set = rules(cx, &self.rules)?;
        set.check_names(&self.disable)?;
        set.finish(&disabled)
    }

    fn with(&self, ir: &mut Ir, cx: &mut PassCx<'_>, patterns: &Patterns) -> PassResult {
        if self.max_iterations == 0 {
            let what = "'canonicalize' does nothing with max-iterations=0";
            cx.remark(Diagnostic::warning(what).at(place(ir)));
            cx.unchanged();
            return Ok(());
        }
        let mut greedy = Greedy::new(patterns);
        greedy.max_iterations = self.max_iterations;
        greedy.max_rewrites = self.max_rewrites;
        cx.each(ir, &|ir, cx| {
            if !greedily(ir, cx, &greedy) {
                cx.unchanged();
            }
            Ok(())
        })
    }
}

/// Runs the driver on one arena, with its counts as statistics and a warning where it gives up;
/// says whether anything changed.
pub(crate) fn greedily(ir: &mut Ir, cx: &mut PassCx<'_>, greedy: &Greedy<'_>) -> bool {
    let outcome = greedy.run(ir);
    let blocks = erase_unreachable(ir);
    for (name, n) in &outcome.stats.applied {
        cx.count(&format!("applied {name}"), *n as usize);
    }
    cx.count("folded", outcome.stats.folded as usize);
    cx.count("erased", outcome.stats.erased as usize);
    cx.count("unreachable blocks", blocks);
    if let Some(stopped) = outcome.stopped {
        let limit = match stopped {
            Stopped::Iterations => format!("{} iterations", outcome.iterations),
            Stopped::Rewrites => "its limit of rewrites".to_string(),
        };
        let what = format!("'{}' stopped after {limit}, not at the end", cx.pass());
        let mut warning = Diagnostic::warning(what).at(place(ir));
        let most = outcome.stats.applied.iter().max_by_key(|(_, n)| **n);
        if let Some((name, n)) = most {
            warning = warning.note(format!("'{name}' was applied most often: {n} times"));
        }
        cx.remark(warning);
    }
    outcome.changed || blocks != 0
}
