//! Packing by colouring, as TOpLib does: buffers that do not interfere share a partition.
//!
//! A partition is as large as its largest member, so colouring large buffers first wastes least:
//! each later member is no larger than the partition already is.

use std::cmp::Reverse;

use crate::plan::{Partition, Plan, align_up};
use crate::problem::Problem;

/// Greedy colouring, tried in two orders (by size then degree, and by degree then size, both
/// falling); the lower plan is kept. Each buffer goes to the first partition without a neighbour
/// of it; partitions lie one after the other, those of larger alignment first.
pub fn colour(problem: &Problem) -> Plan {
    let size = |i: usize| Reverse(problem.buffers[i].size);
    let degree = |i: usize| Reverse(problem.graph().degree(i));
    let mut by_size: Vec<usize> = (0..problem.buffers.len()).collect();
    let mut by_degree = by_size.clone();
    by_size.sort_by_cached_key(|&i| (size(i), degree(i), i));
    by_degree.sort_by_cached_key(|&i| (degree(i), size(i), i));
    let a = in_order(problem, &by_size, "colouring by size");
    let b = in_order(problem, &by_degree, "colouring by degree");
    if b.height < a.height { b } else { a }
}

fn in_order(problem: &Problem, order: &[usize], method: &str) -> Plan {
    let mut classes: Vec<Vec<usize>> = Vec::new();
    // A buffer of no bytes needs no partition: it stays at offset 0.
    for &i in order.iter().filter(|&&i| problem.buffers[i].size > 0) {
        let free = |class: &&mut Vec<usize>| class.iter().all(|&j| !problem.graph().has(i, j));
        match classes.iter_mut().find(free) {
            Some(class) => class.push(i),
            None => classes.push(vec![i]),
        }
    }
    let largest = |class: &[usize], of: fn(&crate::Buffer) -> u64| {
        class
            .iter()
            .map(|&i| of(&problem.buffers[i]))
            .max()
            .unwrap_or(0)
    };
    classes.sort_by_key(|c| (Reverse(largest(c, |b| b.align)), c.first().copied()));
    let mut offsets = vec![0; problem.buffers.len()];
    let (mut end, mut partitions) = (0, Vec::new());
    for members in classes {
        let offset = align_up(end, largest(&members, |b| b.align));
        let size = largest(&members, |b| b.size);
        members.iter().for_each(|&i| offsets[i] = offset);
        end = offset + size;
        partitions.push(Partition {
            offset,
            size,
            members,
        });
    }
    Plan::new(problem, offsets, method, partitions)
}
