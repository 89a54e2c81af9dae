//! `prune-edges`: takes out operands of waits that the rest of the order implies.

use tir::{Failure, Ir, OpId, Value};
use tir_accel::{DmaWait, MachineInfo};

use crate::edit;
use crate::insert_tokens::after_group;
use crate::order::{Edge, Record, prune};
use crate::stream::Stream;

/// Takes out of a function what is not needed; gives the number of operands.
pub fn prune_edges(ir: &mut Ir, machine: &MachineInfo, limit: u64) -> Result<usize, Failure> {
    let stream = Stream::record(ir, None, machine, limit)?;
    let record = Record::new(&stream);
    // Tokens of one operand may be of several queues: an edge for each.
    let mut edges: Vec<(Edge, usize)> = Vec::new();
    let mut runs = vec![0usize; record.instances.len()];
    for all in &record.by_site {
        for (run, id) in all.iter().enumerate() {
            runs[*id as usize] = run;
        }
    }
    for (id, operand, (queue, count)) in &record.tokens {
        let site = record.instances[*id as usize].site as usize;
        let operand = *operand as usize;
        let same = |(e, o): &(Edge, usize)| e.site == site && *o == operand && e.queue == *queue;
        let at = edges.iter().position(same).unwrap_or_else(|| {
            let values = vec![0; record.by_site[site].len()];
            edges.push((
                Edge {
                    site,
                    queue: *queue,
                    values,
                },
                operand,
            ));
            edges.len() - 1
        });
        edges[at].0.values[runs[*id as usize]] = *count;
    }
    let all: Vec<Edge> = edges.iter().map(|(e, _)| e.clone()).collect();
    let keep = prune(&record, &all);
    let mut kept: Vec<(OpId, usize)> = Vec::new();
    for ((edge, operand), keep) in edges.iter().zip(keep) {
        if keep {
            kept.push((stream.sites[edge.site], *operand));
        }
    }
    let mut gone = 0;
    for op in ir.walk_ids() {
        let group = if ir.is::<DmaWait>(op) {
            Some(0)
        } else {
            after_group(ir, op)
        };
        let Some(group) = group else { continue };
        let tokens = edit::group(ir, op, group);
        let rest = tokens
            .iter()
            .enumerate()
            .filter(|(i, _)| kept.contains(&(op, *i)));
        let rest: Vec<Value> = rest.map(|(_, v)| *v).collect();
        gone += tokens.len() - rest.len();
        if rest.len() < tokens.len() {
            edit::set_group(ir, op, group, &rest);
        }
        if rest.is_empty() && ir.is::<DmaWait>(op) {
            ir.erase(op);
        }
    }
    edit::drop_dead_carried(ir, tir_accel::token());
    crate::insert_tokens::drop_unused(ir);
    Ok(gone)
}
