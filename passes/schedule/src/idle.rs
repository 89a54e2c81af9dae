//! Nests that leave equal units idle, which `distribute` could not split.

use std::collections::{BTreeMap, BTreeSet};

use tir::remarks::UNUSED_UNIT;
use tir::{Diagnostic, Ir, Name, OpId};
use tir_accel::MachineInfo;
use tir_loop::For;

use crate::index::Counter;
use crate::work::{Branches, Works, busy};

/// A nest is worth a remark if it takes one in so many cycles of the units.
const WORTH: i64 = 8;

/// What a nest does on one of several equal units, or on some of them.
struct Use {
    nest: OpId,
    /// The name that these units have in the machine file.
    of: Name,
    used: usize,
    all: usize,
    /// Cycles of each that it uses.
    cycles: i64,
}

/// A remark for each nest of a function that takes much of the time of equal units and leaves some of them idle.
pub(crate) fn idle(ir: &Ir, machine: &MachineInfo) -> Vec<Diagnostic> {
    if !machine.has_equal_units() {
        return Vec::new();
    }
    let body = ir.body_block(ir.root(), 0);
    let nests = body.into_iter().flat_map(|block| ir.ops_in(block));
    let uses: Vec<Use> = nests.flat_map(|nest| uses(ir, machine, nest)).collect();
    let total = uses
        .iter()
        .fold(0i64, |sum, u| sum.saturating_add(u.cycles));
    let worth = |u: &&Use| u.used < u.all && u.cycles.saturating_mul(WORTH) >= total;
    let remark = |u: &Use| {
        let (used, all, of) = (u.used, u.all, u.of);
        let text = format!("this runs on {used} of {all} equal units @{of}, the others are idle");
        let why = match is_parallel(ir, u.nest) {
            true => {
                "its independent iterations write, or hold, what only one of the cores has, or has once"
            }
            false => {
                "none of its loops has several independent iterations: its tiles are as large as what it computes"
            }
        };
        Diagnostic::remark(text)
            .category(UNUSED_UNIT)
            .cycles(u64::try_from(u.cycles).unwrap_or(0))
            .at(ir.loc(u.nest))
            .note(why)
    };
    uses.iter().filter(worth).map(remark).collect()
}

/// What a nest does on each kind of unit.
fn uses(ir: &Ir, machine: &MachineInfo, nest: OpId) -> Vec<Use> {
    let mut units: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
    for op in std::iter::once(nest).chain(ir.walk_below(nest)) {
        let unit = machine.unit_of(ir, op).and_then(|unit| machine.unit(unit));
        if let Some(unit) = unit {
            units.entry(unit.of).or_default().insert(unit.name);
        }
    }
    let cycles = busy(ir, machine, nest, Branches::Often);
    let one = |(of, used): (Name, BTreeSet<Name>)| {
        let all: Vec<Name> = machine.equal_units(of).map(|unit| unit.name).collect();
        // Calls count for the unit of their intrinsic, whichever of the equal ones runs them.
        let sum = all
            .iter()
            .filter_map(|name| cycles.get(&Works::Queue(*name)));
        let sum = sum.fold(0i64, |sum, n| sum.saturating_add(*n));
        let each = i64::try_from(used.len()).map_or(sum, |n| sum / n.max(1));
        Use {
            nest,
            of,
            used: used.len(),
            all: all.len(),
            cycles: each,
        }
    };
    units.into_iter().map(one).collect()
}

/// Whether a nest has a loop of several independent iterations.
fn is_parallel(ir: &Ir, nest: OpId) -> bool {
    let mut all = std::iter::once(nest).chain(ir.walk_below(nest));
    all.any(|op| {
        let parallel = ir.get::<For>(op).is_some_and(|looped| looped.parallel);
        parallel && Counter::of(ir, op).is_some_and(|counter| counter.trips > 1)
    })
}
