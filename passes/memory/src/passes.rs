//! The passes on functions.

use tir::pass::one_of;
use tir::{Diagnostic, Ir, Name, Pass, PassCx, PassResult, pass};
use tir_accel::{AttachedMachine, MachineInfo};

use crate::far::too_full;
use crate::liveness::{liveness, text, with_holes};
use crate::order;
use crate::plan_memory::{self, problem};
use crate::problem_file::texts;
use crate::unplanned::{Ordered, unplanned};

pass! {
    /// Assigns every buffer an offset in one arena per memory space.
    pub struct PlanMemory = "plan-memory" on "func.func" {
        /// Plan one memory without limit for buffers that lie in no space, each at a multiple of so many bytes, instead
        /// of the spaces of the attached machine.
        pub flat: Option<i64> = None,
        /// Print the plan: offsets, arena size, and the largest live set.
        pub print: bool = false,
        /// Write what is planned into this folder, as `tir-plan` reads it: `FUNCTION.csv`, and with offsets `FUNCTION.plan.csv`.
        pub problem: Option<String> = None,
        /// Say what fills each space: the moment at which most bytes are live, the buffers that live then and why, and
        /// what would lower it.
        pub memory_report: bool = false,
    }
}

pass! {
    /// Checks, independently of the planner, that buffers with overlapping live ranges do not
    /// overlap in memory, and that no bytes are used on which work certainly still runs: a wait, a token or a queue must come
    /// between.
    pub struct CheckPlan = "check-plan" on "func.func" {}
}

pass! {
    /// Orders the ops of functions on tensors so that fewer bytes live at once: those of tensors that are computed, from
    /// the op that makes one to the last that reads it.
    ///
    /// Of all orders the one with the lowest peak is taken, by dynamic programming over the sets of ops that may be
    /// done; the order of the text where none is lower. Operators fused into a group stay together.
    pub struct Reorder = "reorder" on "func.func" {
        /// Sets of ops that are followed at the same time; with more in a round the result may not be the lowest.
        pub states: usize = order::STATES,
        /// Ops that are tried behind such sets, in all; what needs more keeps the best order that was found.
        pub tries: u64 = order::TRIES,
        /// Change nothing where so many bytes suffice for the order of the text; none: those of the attached machine's far
        /// memory, or zero without a machine.
        pub enough: Option<u64> = None,
        /// Change nothing without a machine, nor where sizes are not known.
        pub needed: bool = false,
        /// Print the bytes before and after.
        pub print: bool = false,
    }
}

pass! {
    /// Prints the live ranges of buffers by memory space.
    pub struct PrintLiveness = "print-liveness" on "func.func" {
        /// With holes: a write of a whole buffer ends the range before it, as `plan-memory` uses it where buffers do not fit
        /// otherwise.
        pub holes: bool = true,
    }
}

pass! {
    /// Prints the interference graph of buffers by memory space.
    pub struct PrintInterference = "print-interference" on "func.func" {
        /// Output format: `text`, `dot` or `svg`.
        pub format: String = "text".to_string() => one_of(&["text", "dot", "svg"]),
    }
}

pass! {
    /// Checks that what a function holds of near memory where it calls another function leaves that one enough: each is planned
    /// as if a space were its own.
    pub struct CheckCalls = "check-calls" on "builtin.module" {}
}

pass! {
    /// Checks that no call hands over the same memory as two arguments of which the called function writes one: functions are
    /// compiled for arguments that do not overlap.
    pub struct CheckArguments = "check-arguments" on "builtin.module" {}
}

impl Pass for CheckArguments {
    fn run(&self, module: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.unchanged();
        let errors = crate::check_arguments::check_arguments(module);
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }
}

impl Pass for CheckCalls {
    fn run(&self, module: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.unchanged();
        let Some(info) = MachineInfo::attached(module) else {
            return Err(vec![AttachedMachine::none(module)]);
        };
        let errors = crate::check_calls::check_calls(module, &info);
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }
}

fn remark(ir: &Ir, cx: &mut PassCx<'_>, text: String) {
    cx.remark(Diagnostic::remark(text.trim_end()).at(ir.loc(ir.root())));
}

/// Says what fills each space of a function whose buffers are not planned yet.
pub fn say_report(ir: &Ir, cx: &mut PassCx<'_>, machine: &MachineInfo) -> PassResult {
    let reports = crate::report::reports(ir, machine).map_err(|e| vec![e])?;
    let all: Vec<String> = reports.iter().map(|report| report.text(ir)).collect();
    if !all.is_empty() {
        let said = Diagnostic::remark(all.concat().trim_end());
        cx.remark(said.category(tir::remarks::MEMORY).at(ir.loc(ir.root())));
    }
    Ok(())
}

macro_rules! prepare {
    () => {
        fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
            cx.analysis::<AttachedMachine>(parent);
            Ok(())
        }
    };
}

impl PlanMemory {
    fn plan(&self, ir: &mut Ir, cx: &mut PassCx<'_>, info: &MachineInfo) -> PassResult {
        let refused = unplanned(ir, info, Ordered::around(ir, cx));
        if !refused.is_empty() {
            return Err(refused);
        }
        if self.memory_report {
            say_report(ir, cx, info)?;
        }
        let plans = plan_memory::plans(ir, info).map_err(|e| vec![e.diagnostic(ir, info)])?;
        if let Some(error) = too_full(ir, info, &plans.planned) {
            return Err(vec![error]);
        }
        if let Some(folder) = &self.problem {
            let written = texts(ir, info, &plans).write_for(ir, folder);
            cx.remark(written.map_err(|e| vec![e])?);
        }
        plans.apply(ir, info).map_err(|e| vec![*e])?;
        let planned = plans.planned;
        for p in &planned {
            cx.count(&format!("bytes of @{}", p.space), p.plan.height as usize);
        }
        if self.print {
            remark(ir, cx, plan_memory::text(&planned));
        }
        Ok(())
    }
}

impl Pass for PlanMemory {
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.analysis::<AttachedMachine>(parent);
        cx.analysis::<Ordered>(parent);
        Ok(())
    }
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let Some(align) = self.flat else {
            return AttachedMachine::with(ir, cx, |ir, cx, info| self.plan(ir, cx, info));
        };
        if align < 1 || align.count_ones() != 1 {
            let text = format!("flat = {align}, expected a power of two");
            return Err(vec![Diagnostic::error(text).at(ir.loc(ir.root()))]);
        }
        self.plan(ir, cx, &MachineInfo::one_memory(Name::new("memory"), align))
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

impl Pass for Reorder {
    prepare!();
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let options = order::Options {
            states: self.states,
            tries: self.tries,
        };
        cx.each(ir, &|ir, cx| {
            let attached = cx.outer::<AttachedMachine>();
            let machine = attached.as_deref().and_then(|a| a.0.as_ref());
            let far = machine.and_then(|(machine, _)| machine.far());
            let far = far.and_then(|far| u64::try_from(far.bytes).ok());
            let enough = self.enough.or(far).unwrap_or(0);
            if self.needed && machine.is_none() {
                cx.unchanged();
                return Ok(());
            }
            let peak = crate::reorder::peak(ir);
            if self.needed && peak.is_none() || enough > 0 && peak.is_some_and(|n| n <= enough) {
                cx.unchanged();
                return Ok(());
            }
            let done = crate::reorder::reorder(ir, &options).map_err(|e| vec![e])?;
            let Some(done) = done else {
                cx.unchanged();
                return Ok(());
            };
            let (before, after) = (done.before, done.order.peak);
            if after == before {
                cx.unchanged();
            }
            let saved = usize::try_from(before - after).unwrap_or(usize::MAX);
            cx.count("bytes fewer at the peak", saved);
            if self.print {
                let exact = match done.order.exact {
                    true => "no order has fewer",
                    false => "not known to be the fewest; `states` would help",
                };
                let text =
                    format!("{before} bytes live at once, {after} in the new order ({exact})");
                remark(ir, cx, text);
            }
            Ok(())
        })
    }
}

impl Pass for PrintLiveness {
    prepare!();
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        AttachedMachine::with(ir, cx, |ir, cx, info| {
            cx.unchanged();
            let spaces = match self.holes {
                true => with_holes(ir, info),
                false => liveness(ir, info),
            };
            let table = text(ir, &spaces.map_err(|e| vec![e])?);
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
                    "svg" => graph.svg(space.as_str(), all),
                    "text" => format!("@{space}: {}", graph.text(all)),
                    other => {
                        let error = format!("has format={other}, expected text, dot or svg");
                        return Err(vec![Diagnostic::error(error)]);
                    }
                };
                remark(ir, cx, shown);
            }
            Ok(())
        })
    }
}
