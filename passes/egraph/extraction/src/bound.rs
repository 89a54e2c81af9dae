//! Lower bounds: cuts that every derivation crosses.

use crate::core::Core;
use crate::sweep::{NONE, Sweep};
use fixedbitset::FixedBitSet;

/// What every choice among the nodes left is known to pay.
pub(crate) struct Paid {
    /// No valid choice costs less.
    pub bound: u64,
    /// What each node still costs: a choice costs at least `bound` and `left` of its nodes.
    pub left: Vec<u64>,
}

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
/// With `parts` above 1 no cut takes more at once than the dearest root has in so many parts: then cuts are found anew
/// before one has taken all, and share what nodes cost more evenly (packing by small steps: Garg and Könemann, "Faster
/// and simpler algorithms for multicommodity flow and other fractional packing problems", 1998), which takes as many
/// times longer.
///
/// Stops early, with a smaller bound, when `go_on` says so; it is given the nodes visited.
pub(crate) fn cuts(
    core: &Core,
    cost: &[u64],
    parts: u64,
    alive: &FixedBitSet,
    sweep: &mut Sweep,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Cuts {
    let mut left = cost.to_vec();
    let mut bound = 0;
    let mut zone = Zone::new(core);
    let mut visited = sweep.dearest(core, alive, &left);
    let mut most = None;
    loop {
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
        visited += zone.find(core, alive, sweep, &left, goal);
        let least = zone.cut.iter().map(|&i| left[i as usize]).min();
        // The goal has a price, so it has a derivation, and that is not free: one of its nodes enters the zone, or the
        // whole derivation would lie in the zone and cost nothing.
        let least = least.expect("a derivation that costs something enters the zone of its goal");
        let dearest = sweep.price[goal as usize];
        let most = *most.get_or_insert_with(|| dearest.div_ceil(parts));
        let least = least.min(most);
        bound += least;
        for &i in &zone.cut {
            left[i as usize] -= least;
        }
        visited += sweep.lower(core, alive, &left, &zone.cut);
        if !go_on(std::mem::take(&mut visited)) {
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

/// The classes that lead to a goal by free nodes, and the nodes that enter them.
struct Zone {
    near: FixedBitSet,
    /// The members of `near`.
    classes: Vec<u32>,
    cut: Vec<u32>,
    /// Classes walked over on the way back from one that may be reached, in this walk.
    seen: Vec<u32>,
    walk: u32,
}

impl Zone {
    fn new(core: &Core) -> Zone {
        Zone {
            near: FixedBitSet::with_capacity(core.classes),
            classes: Vec::new(),
            cut: Vec::new(),
            seen: vec![0; core.classes],
            walk: 0,
        }
    }

    /// Finds both for a goal; gives the number of nodes visited.
    fn find(
        &mut self,
        core: &Core,
        alive: &FixedBitSet,
        sweep: &Sweep,
        left: &[u64],
        goal: u32,
    ) -> u64 {
        for class in self.classes.drain(..) {
            self.near.remove(class as usize);
        }
        self.cut.clear();
        self.near.insert(goal as usize);
        self.classes.push(goal);
        let mut visited = 1;
        let mut next = 0;
        while let Some(&class) = self.classes.get(next) {
            next += 1;
            for &node in core.members.of(class as usize) {
                visited += 1;
                let i = node as usize;
                if !alive.contains(i) || !sweep.reached(i) {
                    continue;
                }
                let from = sweep.last[i];
                if left[i] > 0 {
                    self.cut.push(node);
                } else if from != NONE && !self.near.put(from as usize) {
                    self.classes.push(from);
                }
            }
        }
        let mut cut = std::mem::take(&mut self.cut);
        cut.retain(|&node| {
            let from = sweep.last[node as usize];
            from == NONE
                || !self.near.contains(from as usize)
                    && self.is_reached(core, alive, sweep, from, goal, &mut visited)
        });
        self.cut = cut;
        visited
    }

    /// Whether the leaves lead to a class outside of `near`, looking at dearest children only.
    /// What is cheaper than the goal is reached: what it is reached by is cheaper still, and all
    /// in `near` is as dear as the goal.
    fn is_reached(
        &mut self,
        core: &Core,
        alive: &FixedBitSet,
        sweep: &Sweep,
        class: u32,
        goal: u32,
        visited: &mut u64,
    ) -> bool {
        let enough = sweep.price[goal as usize];
        if sweep.price[class as usize] < enough {
            return true;
        }
        self.walk += 1;
        self.seen[class as usize] = self.walk;
        let mut stack = vec![class];
        while let Some(class) = stack.pop() {
            for &node in core.members.of(class as usize) {
                *visited += 1;
                let i = node as usize;
                if !alive.contains(i) || !sweep.reached(i) {
                    continue;
                }
                let from = sweep.last[i];
                if from == NONE || sweep.price[from as usize] < enough {
                    return true;
                }
                let is_new = self.seen[from as usize] != self.walk;
                if is_new && !self.near.contains(from as usize) {
                    self.seen[from as usize] = self.walk;
                    stack.push(from);
                }
            }
        }
        false
    }
}
