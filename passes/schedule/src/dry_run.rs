//! A run of a command stream on the machine model without data: races, reads of what was never
//! written, work not waited for, and the report.
//!
//! It is the run of `tir-run` but for the data: the same code of the same ops issues the same
//! steps to the same model, so both find the same faults and take the same cycles.

use tir::{Failure, Ir, OpId};
use tir_accel::MachineInfo;
use tir_accel::eval::{MachineMemory, run_dry};
use tir_machine as sim;

use crate::insert_tokens::{after_group, is_wait};
use crate::stream::Stream;

/// Runs the function at the root of an arena, at most `limit` steps of the stream; the
/// diagnostic of a fault names both ops.
pub fn dry_run(ir: &Ir, info: &MachineInfo, limit: u64) -> Result<sim::Report, Failure> {
    let memory = run_dry(ir, MachineMemory::dry(info)?, limit, &[])?;
    Ok(memory.report())
}

/// The operands of waits without which the function still runs without a fault: none, where each
/// edge is needed. The stream is recorded once, and judged again for each operand with a complete
/// token in its place.
///
/// # Errors
/// If the function does not run without a fault as it is.
pub fn needless_edges(
    ir: &Ir,
    info: &MachineInfo,
    limit: u64,
) -> Result<Vec<(OpId, usize)>, Failure> {
    let stream = Stream::record(ir, info, limit)?;
    let whole = stream.recording.replay(|_, _| false);
    whole.map_err(|fault| stream.diagnostic(ir, &fault))?;
    let token = tir_accel::token();
    let mut out = Vec::new();
    for (number, op) in stream.sites.iter().enumerate() {
        if !is_wait(ir, *op) && after_group(ir, *op).is_none() {
            continue;
        }
        let tokens = ir.operands(*op).enumerate();
        let tokens = tokens.filter(|(_, value)| ir.ty(*value) == token);
        for (nth, (operand, _)) in tokens.enumerate() {
            let cut = |site, n| stream.number(site) == Some(number) && n == nth;
            if stream.recording.replay(cut).is_ok() {
                out.push((*op, operand));
            }
        }
    }
    Ok(out)
}
