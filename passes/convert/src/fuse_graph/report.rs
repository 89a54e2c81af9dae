//! What groups move and save, as text.

use std::collections::BTreeSet;
use std::fmt::Write;

use tir::Ir;

use super::flow::Flow;
use super::partition::{Partition, Terms, cost};

/// Groups of more than one step with the bytes that each reads and writes and that every value
/// inside saves: written once, and read by each op that uses it.
pub(super) fn report(
    ir: &Ir,
    flow: &mut Flow,
    partition: &Partition,
    greedy: Vec<BTreeSet<usize>>,
    terms: &Terms,
) -> String {
    let alone = cost(flow, &Partition::alone(flow), terms);
    let greedy = cost(flow, &Partition::new(greedy), terms);
    let chosen = cost(flow, partition, terms);
    let sets: Vec<&BTreeSet<usize>> = partition
        .groups
        .iter()
        .filter(|s| flow.is_group(s, 2))
        .collect();
    let mut text = format!(
        "{} groups move {chosen} bytes; greedy ones {greedy}, operators alone {alone}; \
         {} cycles at {} bytes per cycle\n",
        sets.len(),
        chosen / terms.bytes_per_cycle.max(1),
        terms.bytes_per_cycle
    );
    let name = |at: usize| ir.name(flow.ops[at]);
    for (i, set) in sets.into_iter().enumerate() {
        let names: Vec<String> = set.iter().map(|at| name(*at).to_string()).collect();
        let traffic = flow.traffic(set);
        let (read, written) = (traffic.read, traffic.written);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "group {i}: {}: reads {read}, writes {written}",
            names.join(", ")
        );
        for Saving {
            from,
            to,
            bytes,
            stays,
        } in savings(flow, set)
        {
            let to: Vec<String> = to.iter().map(|user| name(*user).to_string()).collect();
            let kind = if stays { "" } else { ", written for others" };
            let _ = writeln!(
                text,
                "  {} to {}: saves {bytes} bytes{kind}",
                name(from),
                to.join(", ")
            );
        }
    }
    text
}

/// A value that does not leave near memory on the way to those that use it in its group.
pub(super) struct Saving {
    /// What computes it.
    pub from: usize,
    /// Those that use it there.
    pub to: Vec<usize>,
    /// Bytes that are not moved: read by each of them, and written unless others need it.
    pub bytes: i64,
    /// Whether no others need it.
    pub stays: bool,
}

/// What the values inside of a group save.
pub(super) fn savings(flow: &Flow, set: &BTreeSet<usize>) -> Vec<Saving> {
    let leaving = flow.leaving(set);
    let savings = set.iter().map(|at| {
        let users = flow.users[*at].iter().copied();
        let to: Vec<usize> = users.filter(|u| set.contains(u)).collect();
        let stays = !leaving.contains(at);
        let times = to.len() as i64 + i64::from(stays);
        Saving {
            from: *at,
            bytes: flow.bytes[*at].saturating_mul(times),
            to,
            stays,
        }
    });
    savings.filter(|s| !s.to.is_empty()).collect()
}
