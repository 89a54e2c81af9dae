//! The passes on functions.

use tir::{Diagnostic, Ir, Pass, PassCx, PassResult, pass};
use tir_accel::AttachedMachine;

use crate::liveness::{liveness, text};
use crate::plan_memory::{self, problem};

pass! {
    /// Assigns every buffer an offset in one arena per memory space.
    pub struct PlanMemory = "plan-memory" on "func.func" {
        /// Print the plan: offsets, arena size, and the largest live set.
        pub print: bool = false,
    }
}

pass! {
    /// Checks, independently of the planner, that buffers with overlapping live ranges do not
    /// overlap in memory.
    pub struct CheckPlan = "check-plan" on "func.func" {}
}

pass! {
    /// Prints the live ranges of buffers by memory space.
    pub struct PrintLiveness = "print-liveness" on "func.func" {}
}

pass! {
    /// Prints the interference graph of buffers by memory space.
    pub struct PrintInterference = "print-interference" on "func.func" {
        /// Output format: `text` or `dot`.
        pub format: String = "text".to_string(),
    }
}

fn remark(ir: &Ir, cx: &mut PassCx<'_>, text: String) {
    cx.remark(Diagnostic::remark(text.trim_end()).at(ir.loc(ir.root())));
}

macro_rules! prepare {
    () => {
        fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
            cx.analysis::<AttachedMachine>(parent);
            Ok(())
        }
    };
}

impl Pass for PlanMemory {
    prepare!();
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        AttachedMachine::with(ir, cx, |ir, cx, info| {
            let planned = plan_memory::plan_memory(ir, info).map_err(|e| vec![e.diagnostic(ir)])?;
            for p in &planned {
                cx.count(&format!("bytes of @{}", p.space), p.plan.height as usize);
            }
            if self.print {
                remark(ir, cx, plan_memory::text(&planned));
            }
            Ok(())
        })
    }
}

impl Pass for CheckPlan {
    prepare!();
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        AttachedMachine::with(ir, cx, |ir, cx, info| {
            cx.unchanged();
            let errors = crate::check_plan::check_plan(ir, info);
            if errors.is_empty() {
                Ok(())
            } else {
                Err(errors)
            }
        })
    }
}

impl Pass for PrintLiveness {
    prepare!();
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        AttachedMachine::with(ir, cx, |ir, cx, info| {
            cx.unchanged();
            let table = text(ir, &liveness(ir, info).map_err(|e| vec![e])?);
            remark(ir, cx, table);
            Ok(())
        })
    }
}

impl Pass for PrintInterference {
    prepare!();
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        AttachedMachine::with(ir, cx, |ir, cx, info| {
            cx.unchanged();
            for (space, buffers) in liveness(ir, info).map_err(|e| vec![e])? {
                let problem = problem(&buffers).map_err(|e| vec![*e])?;
                let (graph, all) = (problem.graph(), problem.buffers());
                let shown = match self.format.as_str() {
                    "dot" => graph.dot(space.as_str(), all),
                    "text" => format!("@{space}: {}", graph.text(all)),
                    other => {
                        let error = format!("has format={other}, expected text or dot");
                        return Err(vec![Diagnostic::error(error)]);
                    }
                };
                remark(ir, cx, shown);
            }
            Ok(())
        })
    }
}
