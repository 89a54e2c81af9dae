//! Moving the ops of groups into `graph.fused`.

use std::collections::BTreeMap;

use tir::{At, BlockId, Ir, Mapping, OpId, Value};
use tir_graph::fusion::group;

use super::flow::Flow;
use super::partition::{Node, Partition, order};

/// Makes the groups of a block, those of at least `least` ops or of several steps; says how many.
pub(super) fn outline(
    ir: &mut Ir,
    block: BlockId,
    flow: &Flow,
    partition: &Partition,
    least: usize,
) -> usize {
    let mut partition = partition.clone();
    let copied = partition.copied.clone();
    // A copy alone in a group is the op itself, where it stands.
    partition.groups.retain(|set| flow.is_group(set, least));
    if partition.groups.is_empty() {
        return 0;
    }
    let keeps = |at: usize| !ir.is_pure(flow.ops[at]);
    let Some(nodes) = order(flow, &partition.groups, keeps) else {
        return 0;
    };
    // The ops of each group by place; later copies first, so that they use the copies of others.
    let sets = partition.groups.iter();
    let mut members: Vec<BTreeMap<usize, OpId>> = sets
        .map(|set| set.iter().map(|at| (*at, flow.ops[*at])).collect())
        .collect();
    for at in copied.iter().rev() {
        let mut owners = members.iter_mut().filter(|set| set.contains_key(at));
        owners.next();
        for set in owners {
            let op = flow.ops[*at];
            let copy = ir.duplicate(op, At::After(op), &mut Mapping::default());
            let inside: Vec<OpId> = set.values().copied().collect();
            let old: Vec<Value> = ir.results(op).collect();
            let new: Vec<Value> = ir.results(copy).collect();
            for (old, new) in old.into_iter().zip(new) {
                ir.replace_uses_if(old, new, |_, u| inside.contains(&u.op));
            }
            set.insert(*at, copy);
        }
    }
    let mut places: Vec<OpId> = Vec::new();
    for node in nodes {
        places.push(match node {
            Node::Op(at) => flow.ops[at],
            Node::Set(set) => {
                let ops: Vec<OpId> = members[set].values().copied().collect();
                group(ir, &ops)
            }
        });
    }
    if !ir.ops_in(block).eq(places.iter().copied()) {
        for op in places {
            ir.move_op(op, block);
        }
    }
    partition.groups.len()
}
