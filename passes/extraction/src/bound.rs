//! Lower bounds: cuts that every derivation crosses.

use crate::bits::Bits;
use crate::core::Core;
use crate::sweep::{NONE, Sweep};

/// What [`cuts`] found.
pub(crate) struct Cuts {
    /// No valid choice among the nodes left costs less.
    pub bound: u64,
    /// What each node still costs: a choice with node `i` costs at least `bound + left[i]`.
    pub left: Vec<u64>,
    /// Whether all roots can be computed.
    pub feasible: bool,
}

/// The landmark-cut bound (Helmert and Domshlak, "Landmarks, critical paths and abstractions",
/// 2009), which was found for planning without deletions; a class is a fact there and a node an
/// action. Until every root is free: price classes by their dearest child; call *near* what leads
/// to the dearest root by free nodes alone, looking only at each node's dearest child; every
/// derivation has a node that enters *near* from outside; the least of those costs is taken from
/// all of them and added to the bound. Cycles need no care, since a price exists only where a
/// derivation does.
///
/// Stops early, with a smaller bound, when `go_on` says so; it is given the nodes visited.
pub(crate) fn cuts(
    core: &Core,
    alive: &Bits,
    sweep: &mut Sweep,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Cuts {
    let mut left = core.cost.clone();
    let mut bound = 0;
    loop {
        let visited = sweep.dearest(core, alive, &left);
        let price = |root: &&u32| sweep.price[**root as usize];
        // The first among equals, which `max_by_key` alone would not give.
        let Some(&goal) = core.roots.iter().rev().max_by_key(price) else {
            return done(bound, left, true);
        };
        match sweep.price[goal as usize] {
            u64::MAX => return done(bound, left, false),
            0 => return done(bound, left, true),
            _ => {}
        }
        let near = near(core, alive, sweep, &left, goal);
        let cut = entering(core, alive, sweep, &near);
        let least = cut.iter().map(|&i| left[i as usize]).min();
        let least = least.expect("a goal that is not free is entered by some node");
        bound += least;
        for &i in &cut {
            left[i as usize] -= least;
        }
        if !go_on(visited) {
            return done(bound, left, true);
        }
    }
}

fn done(bound: u64, left: Vec<u64>, feasible: bool) -> Cuts {
    Cuts {
        bound,
        left,
        feasible,
    }
}

/// The classes that lead to `goal` by free nodes.
fn near(core: &Core, alive: &Bits, sweep: &Sweep, left: &[u64], goal: u32) -> Bits {
    let mut near = Bits::none(core.classes);
    near.add(goal as usize);
    let mut stack = vec![goal];
    while let Some(class) = stack.pop() {
        for &node in core.members.of(class as usize) {
            let i = node as usize;
            if left[i] == 0 && alive.has(i) && sweep.reached(i) {
                let from = sweep.last[i];
                if from != NONE && near.add(from as usize) {
                    stack.push(from);
                }
            }
        }
    }
    near
}

/// The nodes of a class in `near` whose dearest child is reached from the leaves outside of it.
fn entering(core: &Core, alive: &Bits, sweep: &Sweep, near: &Bits) -> Vec<u32> {
    let mut cut = Vec::new();
    let mut seen = Bits::none(core.classes);
    let mut stack = Vec::new();
    let enter =
        |nodes: &[u32], from: u32, cut: &mut Vec<u32>, stack: &mut Vec<u32>, seen: &mut Bits| {
            for &node in nodes {
                let i = node as usize;
                if sweep.last[i] != from || !alive.has(i) || !sweep.reached(i) {
                    continue;
                }
                let class = core.class[i] as usize;
                if near.has(class) {
                    cut.push(node);
                } else if seen.add(class) {
                    stack.push(class as u32);
                }
            }
        };
    enter(&core.leaves, NONE, &mut cut, &mut stack, &mut seen);
    while let Some(class) = stack.pop() {
        let users = core.users.of(class as usize);
        enter(users, class, &mut cut, &mut stack, &mut seen);
    }
    cut
}
