//! `check-calls`: what a function holds of near memory where it calls another one leaves that one enough.
//!
//! Each function is planned by itself, as if a space were its own. A plan that ends before a call leaves all of the space to what is
//! called; one that lives across it, as weights that are loaded before a loop, does not. What a function *needs* of a space is
//! the most that is allocated at any of its points, with what the functions need that it calls there.

use std::collections::HashMap;

use tir::{Diagnostic, Ir, Name, OpId};
use tir_accel::MachineInfo;
use tir_memref::Alloc;

use crate::held::{Held, aligned, each_point, space};

/// All calls of a module for which there is not enough room.
pub fn check_calls(module: &Ir, machine: &MachineInfo) -> Vec<Diagnostic> {
    let bodies = module
        .slots()
        .into_iter()
        .filter_map(|slot| module.child(slot));
    let bodies = bodies.filter(|ir| ir.body_block(ir.root(), 0).is_some());
    let named = bodies.filter_map(|ir| Some((ir.op(ir.root()).symbol()?, ir)));
    let functions: Vec<(Name, &Ir)> = named.collect();
    let mut run = Checker {
        machine,
        functions: functions.iter().copied().collect(),
        needs: HashMap::new(),
        found: Vec::new(),
        depth: 0,
    };
    for (name, _) in &functions {
        run.needs(*name);
    }
    run.found
}

/// Calls in calls that are followed: a run stops at as many.
const DEEPEST: usize = 400;

struct Checker<'a> {
    machine: &'a MachineInfo,
    functions: HashMap<Name, &'a Ir>,
    /// What functions need; nothing by now of those that are looked at, which call themselves then.
    needs: HashMap<Name, Held>,
    found: Vec<Diagnostic>,
    /// How many calls stand around what is looked at.
    depth: usize,
}

impl Checker<'_> {
    fn needs(&mut self, name: Name) -> Held {
        if let Some(known) = self.needs.get(&name) {
            return known.clone();
        }
        if self.depth > DEEPEST {
            return Held::new();
        }
        self.needs.insert(name, Held::new());
        let Some(ir) = self.functions.get(&name).copied() else {
            return Held::new();
        };
        let mut points: Vec<(OpId, Held)> = Vec::new();
        let near = |op: OpId| self.is_near(ir, op);
        each_point(ir, &near, &mut |op, held| {
            if near(op) || !ir.may_call(op).is_empty() {
                points.push((op, held.clone()));
            }
        });
        let mut most = Held::new();
        self.depth += 1;
        for (op, held) in points {
            let mut all = held.clone();
            let mut callees = ir.may_call(op);
            callees.retain(|name| self.functions.contains_key(name));
            for callee in callees {
                for (space, bytes) in self.needs(callee) {
                    let here = held.get(&space).copied().unwrap_or(0);
                    let align = self.machine.space(space).map_or(1, |space| space.align);
                    let here = aligned(here, align);
                    let both = here.saturating_add(bytes);
                    self.judge((ir, op), (callee, space), (here, bytes));
                    let all = all.entry(space).or_insert(0);
                    *all = (*all).max(both);
                }
            }
            for (space, bytes) in all {
                let most = most.entry(space).or_insert(0);
                *most = (*most).max(bytes);
            }
        }
        self.depth -= 1;
        self.needs.insert(name, most.clone());
        most
    }

    /// Whether an op allocates in a space that is not the far one.
    fn is_near(&self, ir: &Ir, op: OpId) -> bool {
        let named = ir
            .is::<Alloc>(op)
            .then(|| space(ir, ir.result(op, 0)))
            .flatten();
        let far = self.machine.far().map(|far| far.name);
        named.is_some_and(|named| Some(named) != far && self.machine.space(named).is_some())
    }

    fn judge(
        &mut self,
        (ir, op): (&Ir, OpId),
        (callee, space): (Name, Name),
        (held, needed): (i64, i64),
    ) {
        let Some(has) = self.machine.space(space).map(|space| space.bytes) else {
            return;
        };
        if held == 0 || held.saturating_add(needed) <= has {
            return;
        }
        let text = format!(
            "{held} of {has} bytes of \"{space}\" are held here, where @{callee} is called, which needs {needed}"
        );
        let error = Diagnostic::error(text).at(ir.loc(op));
        let missing = held.saturating_add(needed) - has;
        let help = format!(
            "help: {missing} bytes are missing: each function is planned as if \"{space}\" were its own, and what is allocated in front of a call is held across it; depth=1 makes smaller plans"
        );
        self.found.push(error.note(help));
    }
}
