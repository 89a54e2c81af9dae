//! What groups move and save, as text.

use std::collections::BTreeSet;
use std::fmt::Write;

use tir::Ir;

use super::flow::Flow;
use super::partition::{Partition, Terms, cost};

/// Groups of more than one op with the bytes that each reads and writes and that every value
/// inside saves: written once, and read by each op that uses it.
pub fn report(
    ir: &Ir,
    flow: &mut Flow,
    partition: &Partition,
    greedy: Vec<BTreeSet<usize>>,
    terms: &Terms,
) -> String {
    let alone = cost(flow, &Partition::alone(flow), terms);
    let greedy = cost(flow, &Partition::new(greedy), terms);
    let chosen = cost(flow, partition, terms);
    let sets: Vec<&BTreeSet<usize>> = partition.groups.iter().filter(|s| s.len() > 1).collect();
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
        let leaving = flow.leaving(set);
        for at in set {
            let inner: Vec<usize> = flow.users[*at]
                .iter()
                .copied()
                .filter(|u| set.contains(u))
                .collect();
            if inner.is_empty() {
                continue;
            }
            let bytes = flow.bytes[*at];
            let stays = !leaving.contains(at);
            let saved = bytes * (inner.len() as i64 + i64::from(stays));
            let to: Vec<String> = inner.iter().map(|user| name(*user).to_string()).collect();
            let kind = if stays { "" } else { ", written for others" };
            let _ = writeln!(
                text,
                "  {} to {}: saves {saved} bytes{kind}",
                name(*at),
                to.join(", ")
            );
        }
    }
    text
}
