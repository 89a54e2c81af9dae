//! IR printed around passes: what is asked for, and what was printed.
//!
//! What is printed is collected in [`Report::prints`](crate::Report) in program order, so it does
//! not depend on the number of threads. By default a pass in a nest prints the op it runs on; with
//! [`PrintIr::module_scope`] the pipeline runs pass by pass and each prints the root.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tir_core::{Ir, verify_local};

use crate::settings::Settings;

/// When a text was printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Before the pass.
    Before,
    /// After the pass.
    After,
    /// What a pass was given that failed then.
    Given,
    /// What a pass that failed left; it verifies.
    Left,
    /// The same in generic form, as it does not verify.
    Broken,
}

/// IR printed before or after a pass. `Display` gives it under a comment that says what it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IrPrint {
    /// When it was printed.
    pub when: When,
    /// The pass.
    pub pass: &'static str,
    /// The ops from the root to the one that was printed, each as `func.func @main`.
    pub ops: Vec<String>,
    /// Where the pass stands in the pipeline: positions from the outermost list inwards.
    pub position: Vec<usize>,
    /// The IR.
    pub text: String,
}

impl fmt::Display for IrPrint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pass, op) = (self.pass, self.ops.last().map_or("", String::as_str));
        match self.when {
            When::Before => writeln!(f, "// IR before '{pass}' on {op}"),
            When::After => writeln!(f, "// IR after '{pass}' on {op}"),
            When::Given => writeln!(f, "// IR before '{pass}', which failed, on {op}"),
            When::Left => writeln!(f, "// IR after '{pass}' failed on {op}"),
            When::Broken => writeln!(f, "// IR after '{pass}' failed on {op} (does not verify)"),
        }?;
        f.write_str(&self.text)?;
        f.write_str(if self.text.ends_with('\n') { "" } else { "\n" })
    }
}

/// A pass that is about to run on an op, and what was kept of the op to print it afterwards.
pub(crate) struct Watch<'a> {
    settings: &'a Settings,
    pass: &'static str,
    position: &'a [usize],
    /// The ops around.
    around: &'a [String],
    text: Option<String>,
    given: Option<Ir>,
}

impl<'a> Watch<'a> {
    /// Nothing is kept.
    pub(crate) fn new(
        settings: &'a Settings,
        (pass, position): (&'static str, &'a [usize]),
        around: &'a [String],
    ) -> Self {
        Self {
            settings,
            pass,
            position,
            around,
            text: None,
            given: None,
        }
    }

    /// Prints what is wanted before the pass; none if nothing is printed of this pass at all.
    pub(crate) fn start(
        settings: &'a Settings,
        (pass, position): (&'static str, &'a [usize]),
        around: &'a [String],
        ir: &Ir,
        prints: &mut Vec<IrPrint>,
    ) -> Option<Self> {
        let printer = settings.printer.as_ref()?;
        let print = &settings.print;
        let mut watch = Self::new(settings, (pass, position), around);
        let before = print.before_all || print.before.contains(pass);
        if before || print.after_change {
            let text = printer(ir, false);
            if before {
                prints.push(watch.print(When::Before, ir, text.clone()));
            }
            watch.text = print.after_change.then_some(text);
        }
        if print.after_failure && !before {
            watch.given = Some(ir.clone());
        }
        Some(watch)
    }

    fn print(&self, when: When, ir: &Ir, text: String) -> IrPrint {
        let own = described(ir);
        IrPrint {
            when,
            pass: self.pass,
            ops: self.around.iter().cloned().chain([own]).collect(),
            position: self.position.to_vec(),
            text,
        }
    }

    /// The pass gave no error.
    pub(crate) fn passed(&self, ir: &Ir, prints: &mut Vec<IrPrint>) {
        let (Some(printer), print) = (&self.settings.printer, &self.settings.print) else {
            return;
        };
        let wanted = print.after_all || print.after.contains(self.pass);
        if wanted || print.after_change {
            let text = printer(ir, false);
            if wanted || self.text.as_deref() != Some(&text) {
                prints.push(self.print(When::After, ir, text));
            }
        }
    }

    /// The pass failed, or what it left does not verify.
    pub(crate) fn failed(&self, ir: &Ir, prints: &mut Vec<IrPrint>) {
        let Some(printer) = &self.settings.printer else {
            return;
        };
        if !self.settings.print.after_failure {
            return;
        }
        let given = self
            .given
            .as_ref()
            .map(|given| (given, printer(given, false)));
        if let Some((given, text)) = &given {
            prints.push(self.print(When::Given, given, text.clone()));
        }
        // What a pass that panicked left may be in any state.
        let left = catch_unwind(AssertUnwindSafe(|| match verify_local(ir) {
            Ok(()) => (When::Left, printer(ir, false)),
            Err(_) => (When::Broken, printer(ir, true)),
        }));
        if let Ok((when, text)) = left
            && given.is_none_or(|(_, given)| given != text)
        {
            prints.push(self.print(when, ir, text));
        }
    }
}

/// `func.func @main`.
pub(crate) fn described(ir: &Ir) -> String {
    let name = ir.root_name();
    match ir.root_ref().symbol() {
        Some(symbol) => format!("{name} @{symbol}"),
        None => name.to_string(),
    }
}
