//! How a pipeline is run, and around which passes the IR is printed.

use std::collections::BTreeSet;
use std::sync::Arc;

use tir_core::Ir;

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
    /// Whether passes say all that they have to remark, also what is usual.
    pub remarks: bool,
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
            remarks: false,
        }
    }
}

/// Prints IR; in generic form if the flag is set, whatever the user chose.
pub type Printer = Arc<dyn Fn(&Ir, bool) -> String + Send + Sync>;

/// Before and after which passes the IR is printed.
#[derive(Clone, Default, Debug)]
pub struct PrintIr {
    /// Before each pass.
    pub before_all: bool,
    /// Before passes of these names.
    pub before: BTreeSet<String>,
    /// After each pass.
    pub after_all: bool,
    /// After each pass that changed the text.
    pub after_change: bool,
    /// After passes of these names.
    pub after: BTreeSet<String>,
    /// When a pass fails, what it was given and what it left.
    pub after_failure: bool,
    /// Print the root instead of the op that the pass runs on.
    pub module_scope: bool,
}

impl PrintIr {
    /// Whether anything is printed.
    pub fn is_any(&self) -> bool {
        let all = self.before_all || self.after_all || self.after_change || self.after_failure;
        all || !self.before.is_empty() || !self.after.is_empty()
    }
}
