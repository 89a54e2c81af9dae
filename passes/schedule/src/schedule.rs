//! `schedule-transfers`: rotating buffers and transfers, with fewer slots until all fits in memory.

use tir::{Attr, Diagnostic, Ir, Name, OpId};
use tir_accel::MachineInfo;
use tir_memory::plan_memory::{NoPlan, Planned, plan_memory};
use tir_memref::Alloc;

use crate::insert_dma::InsertDma;
use crate::multi_buffer::{BUFFER, DEPTH, MultiBuffer, nest_of};

/// How buffers are scheduled.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Slots of a buffer of an iteration, to begin with.
    pub depth: i64,
    /// Make windows that slide rings.
    pub ring: bool,
    /// Plans that are tried at most.
    pub tries: usize,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Scheduled {
    /// The plan of each space.
    pub planned: Vec<Planned>,
    /// Plans that did not fit before it.
    pub retries: usize,
    /// Buffers with fewer slots than asked for.
    pub shallow: usize,
    /// What is to be said of transfers.
    pub remarks: Vec<Diagnostic>,
}

impl Schedule {
    /// Runs on the function at the root of an arena. Where the buffers do not fit, the largest
    /// one of the peak that has several slots gets one less; an error holds the last report.
    pub fn apply(&self, ir: &mut Ir, machine: &MachineInfo) -> Result<Scheduled, Diagnostic> {
        let allocs: Vec<OpId> = ir
            .walk_ids()
            .into_iter()
            .filter(|op| ir.is::<Alloc>(*op))
            .collect();
        let mut depths: Vec<i64> = Vec::new();
        for (i, op) in allocs.iter().enumerate() {
            ir.set_attr(*op, BUFFER, Attr::i64(i as i64));
            let said = ir.attr(*op, DEPTH).and_then(Attr::as_int);
            let looped = nest_of(ir, *op).is_some_and(|nest| !nest.is_empty());
            depths.push(if looped {
                said.unwrap_or(self.depth).max(1)
            } else {
                1
            });
        }
        let asked = depths.clone();
        let mut retries = 0;
        loop {
            let mut trial = ir.clone();
            for (op, depth) in allocs.iter().zip(&depths) {
                let op = trial.twin(*op, ir);
                trial.set_attr(op, DEPTH, Attr::i64(*depth));
            }
            let error = match self.one(&mut trial, machine) {
                Ok((planned, remarks)) => {
                    std::mem::swap(ir, &mut trial);
                    let shallow = asked.iter().zip(&depths).filter(|(a, d)| d < a).count();
                    return Ok(Scheduled {
                        planned,
                        retries,
                        shallow,
                        remarks,
                    });
                }
                Err(error) => error,
            };
            let NoPlan::TooLarge { holders, .. } = &error else {
                return Err(error.diagnostic(&trial));
            };
            retries += 1;
            let number = |op: &OpId| {
                let n = trial.attr(*op, BUFFER).and_then(Attr::as_int)?;
                usize::try_from(n)
                    .ok()
                    .filter(|n| depths.get(*n).is_some_and(|d| *d > 1))
            };
            let largest = holders.iter().find_map(number);
            match largest {
                Some(n) if retries + 1 < self.tries => depths[n] -= 1,
                // The last try has one slot of everything.
                Some(_) if retries < self.tries => depths.fill(1),
                _ => {
                    let tried = if retries == 1 { "time" } else { "times" };
                    return Err(error.diagnostic(&trial).note(format!(
                        "planned {retries} {tried}, with fewer slots each time"
                    )));
                }
            }
        }
    }

    fn one(
        &self,
        ir: &mut Ir,
        machine: &MachineInfo,
    ) -> Result<(Vec<Planned>, Vec<Diagnostic>), NoPlan> {
        let rotate = MultiBuffer {
            depth: self.depth,
            ring: self.ring,
        };
        rotate.apply(ir, machine).map_err(NoPlan::Other)?;
        let remarks = InsertDma::default()
            .apply(ir, machine)
            .map_err(NoPlan::Other)?;
        // Only whether it fits: what is simplified before the plan must not merge its views.
        let kept = ir.clone();
        let planned = plan_memory(ir, machine)?;
        *ir = kept;
        Ok((planned, remarks))
    }
}

/// Takes the marks of this pass out of a function.
pub fn unmark(ir: &mut Ir) {
    for op in ir.walk_ids() {
        if ir.is::<Alloc>(op) {
            for mark in [BUFFER, DEPTH] {
                ir.remove_attr(op, Name::new(mark).as_str());
            }
        }
    }
}
