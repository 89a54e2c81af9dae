//! Of programs that are near to each other by the estimate, the quickest on the machine model.

use tir::{At, Diagnostic, Ir, PassCx};
use tir_accel::AttachedMachine;
use tir_schedule::dry_run::dry_run;

use super::ChooseGraph;
use crate::levels::ToAccel;

/// How a function came to be that nothing was made of.
pub(super) const AS_IT_IS: &str = "as it is";

/// A program that a function may become.
pub(super) struct Program {
    /// How it came to be.
    pub(super) what: &'static str,
    pub(super) ir: Ir,
    /// Its cycles by the estimate.
    pub(super) estimated: i64,
    /// On the machine model, once that has been tried; none if it cannot run there.
    run: Option<Option<i64>>,
}

impl Program {
    pub(super) fn new(what: &'static str, ir: Ir, estimated: i64) -> Self {
        let run = None;
        Self {
            what,
            ir,
            estimated,
            run,
        }
    }
}

/// Whether cycles are fewer than those before, by more than one in `part` of them.
fn fewer(cycles: i64, before: i64, part: i64) -> bool {
    cycles.saturating_add(before / part.max(1)) < before
}

impl ChooseGraph {
    /// The quickest of a program and others.
    pub(super) fn best(
        &self,
        given: Program,
        mut others: Vec<Program>,
        cx: &mut PassCx<'_>,
    ) -> Program {
        // What is as good by the estimate changes nothing.
        let before = given.estimated;
        others.retain(|other| fewer(other.estimated, before, self.slight));
        others.sort_by_key(|other| other.estimated);
        // What takes as many cycles to the last one differs in nothing that takes any, such as what constants hold.
        others.dedup_by_key(|other| other.estimated);
        let Some(least) = others.first().map(|other| other.estimated) else {
            return given;
        };
        if fewer(least, before, self.sure) {
            return others.swap_remove(0);
        }
        others.truncate(self.runs.max(1));
        let mut all = vec![given];
        all.append(&mut others);
        let taken = match self.run_dry(&mut all, cx) {
            Some(cycles) => (1..all.len()).fold(0, |best, next| {
                match fewer(cycles[next], cycles[best], self.slight) {
                    true => next,
                    false => best,
                }
            }),
            None => {
                let taken = fewer(least, before, self.doubt);
                if !taken && cx.settings().remarks {
                    let text = format!(
                        "another program takes {least} cycles by the estimate, this one {before}: that is too near to be taken, as \
                         programs so large (choose-graph{{largest=CYCLES}}), or that cannot run without data, are not run on the machine model"
                    );
                    cx.remark(Diagnostic::remark(text).at(all[0].ir.loc(all[0].ir.root())));
                }
                usize::from(taken)
            }
        };
        all.swap_remove(taken)
    }

    /// Whether the second of two programs is slower: by the estimate, or where that may be wrong about it, on the machine model.
    pub(super) fn is_slower(&self, both: [Program; 2], cx: &mut PassCx<'_>) -> bool {
        let [before, after] = [0, 1].map(|at: usize| both[at].estimated);
        if after == before || fewer(after, before, self.sure) {
            return false;
        }
        if fewer(before, after, self.sure) {
            return true;
        }
        let [before, after] = match self.run_dry(&mut Vec::from(both), cx).as_deref() {
            Some([before, after]) => [*before, *after],
            _ => [before, after],
        };
        fewer(before, after, self.slight)
    }

    /// The cycles of programs on the machine model, once they are lowered as `to-accel` lowers them; none if one is not to be run
    /// there, or cannot be.
    fn run_dry(&self, all: &mut [Program], cx: &mut PassCx<'_>) -> Option<Vec<i64>> {
        if self.runs == 0 || all.iter().any(|program| program.estimated > self.largest) {
            return None;
        }
        let fresh: Vec<&mut Program> = all.iter_mut().filter(|p| p.run.is_none()).collect();
        let run = |program: &mut Program| self.lower_and_run(&program.ir, cx);
        let found = cx.map(fresh, |program| {
            program.run = Some(run(program));
            &*program
        });
        for program in found {
            let (what, estimated) = (program.what, program.estimated);
            self.print(&program.ir, cx, || match program.run.flatten() {
                Some(cycles) => format!(
                    "{what} the function takes {cycles} cycles on the machine model, {estimated} by the estimate"
                ),
                None => format!("{what} the function cannot be run on the machine model"),
            });
        }
        all.iter().map(|program| program.run?).collect()
    }

    fn lower_and_run(&self, function: &Ir, cx: &PassCx<'_>) -> Option<i64> {
        let attached = cx.outer::<AttachedMachine>()?;
        let (info, machine) = attached.0.as_ref()?;
        let (mut module, block) = tir_builtin::module();
        module.adopt(At::End(block), machine.clone());
        let slot = module.adopt(At::End(block), function.clone());
        let level = ToAccel {
            fuse: self.fuses(),
            multi_output: self.multi_output,
            depth: self.depth,
            max_stages: self.max_stages,
            resident: self.resident,
            near_policy: self.near_policy.clone(),
            join_groups: self.join_groups.clone(),
            ..ToAccel::default()
        };
        cx.attempt_root(&level.behind_choice(), &mut module).ok()?;
        let report = dry_run(module.child(slot)?, None, info, self.limit).ok()?;
        i64::try_from(report.cycles).ok()
    }

    /// Says something about the choice, where that is asked for.
    pub(super) fn print(&self, ir: &Ir, cx: &mut PassCx<'_>, text: impl FnOnce() -> String) {
        if self.print {
            cx.remark(Diagnostic::remark(text()).at(ir.loc(ir.root())));
        }
    }
}
