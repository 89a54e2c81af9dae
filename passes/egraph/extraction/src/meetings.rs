//! Lower bounds: where two things that every derivation has come together.
//!
//! Terms: a *landmark* of a class is a class in every derivation of it; a landmark of all roots, or one that became a
//! root, is called *fixed* here. A node is a *meeting* of two fixed classes if what it needs has them both, but none of
//! its children has both by itself. A set of nodes is *unavoidable* if no root is left without them.
//!
//! Why: of a product `x · W` that may be computed alone, beside others, or in one group with what reads it, no class is in
//! every derivation and no node is; but `x` and `W` are, and one of the nodes where they meet is. A node that computes four
//! products at once is a meeting of four pairs, so what it costs is divided among these, where cuts by [`cuts`](crate::bound::cuts), each of
//! which looks at one child of each node, divide it as it happens.
//!
//! Sources: sets of which every plan has one (Hoffmann, Porteous and Sebastia, "Ordered landmarks in planning", 2004); a cost
//! that is divided among them (Karpas and Domshlak, "Cost-optimal planning with landmarks", 2009). That meetings of two
//! landmarks are such sets is only guessed; each is tried by itself.

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use crate::bound::Paid;
use crate::budget::Budget;
use crate::core::Core;
use crate::landmarks::Table;
use crate::sweep::Sweep;

/// Fixed classes below one node beyond which its pairs are not listed.
const MOST: usize = 64;
/// Children beyond which a node is passed over.
const CHILDREN: usize = u64::BITS as usize;

/// Nodes and pairs of which each is a meeting, pairs numbered from 0 as they are found.
///
/// `table` has the fixed landmarks of classes where the fixed ones are leaves.
pub(crate) fn meetings<'w>(
    classes: usize,
    table: &Table,
    nodes: impl Iterator<Item = (usize, &'w [usize])>,
    budget: &mut Budget,
) -> Vec<(usize, usize)> {
    let mut below: Vec<Option<Vec<usize>>> = vec![None; classes];
    // By fixed class, in which children of the node it is, as bits.
    let mut bits = vec![0u64; classes];
    let mut fixed: Vec<usize> = Vec::new();
    let mut pairs: FxHashMap<(usize, usize), usize> = FxHashMap::default();
    let mut found = Vec::new();
    for (node, children) in nodes {
        if children.len() < 2 || children.len() > CHILDREN {
            continue;
        }
        for (bit, &child) in children.iter().enumerate() {
            let below = below[child].get_or_insert_with(|| table.of(child).collect());
            for &class in below.iter() {
                if bits[class] == 0 {
                    fixed.push(class);
                }
                bits[class] |= 1 << bit;
            }
        }
        if fixed.len() <= MOST {
            fixed.sort_unstable();
            for (k, &a) in fixed.iter().enumerate() {
                for &b in &fixed[k + 1..] {
                    if bits[a] & bits[b] == 0 {
                        let new = pairs.len();
                        found.push((node, *pairs.entry((a, b)).or_insert(new)));
                    }
                }
            }
        }
        let count = fixed.len();
        fixed.drain(..).for_each(|class| bits[class] = 0);
        if !budget.pay((count * count) as u64 / 2) {
            break;
        }
    }
    found
}

/// Divides costs among the unavoidable sets in `meetings`: all grow alike, in parts of the dearest node that each cannot do without,
/// until a node of theirs has no cost left.
pub(crate) fn divide(
    core: &Core,
    alive: &FixedBitSet,
    sweep: &mut Sweep,
    budget: &mut Budget,
) -> Paid {
    let mut sets: Vec<(Vec<u32>, u64)> = Vec::new();
    let mut own = FixedBitSet::with_capacity(core.nodes());
    for pair in 0..core.pairs {
        let nodes = core.meetings.of(pair);
        own.clear();
        own.extend(
            nodes
                .iter()
                .map(|i| *i as usize)
                .filter(|i| alive.contains(*i)),
        );
        let (worth, visited) =
            sweep.bottleneck(
                core,
                alive,
                |i| if own.contains(i) { core.cost[i] } else { 0 },
            );
        let mut lasts = budget.pay(visited);
        if worth > 0 && worth != u64::MAX {
            let cheap: Vec<usize> = own.ones().filter(|i| core.cost[*i] < worth).collect();
            cheap.into_iter().for_each(|i| own.remove(i));
            // Only those that can be computed without any of the others.
            let mut others = alive.clone();
            others.difference_with(&own);
            let (_, visited) = sweep.bottleneck(core, &others, |_| 0);
            lasts = budget.pay(visited);
            let set: Vec<u32> = own
                .ones()
                .filter(|i| sweep.reached(*i))
                .map(|i| i as u32)
                .collect();
            if !sets.iter().any(|(known, _)| *known == set) {
                sets.push((set, worth));
            }
        }
        if !lasts {
            break;
        }
    }
    let mut left = core.cost.clone();
    let mut bound = 0;
    let mut open: Vec<usize> = (0..sets.len()).collect();
    while !open.is_empty() {
        // How fast each node is used up, and for how long the first lasts.
        let mut speed = vec![0.0f64; core.nodes()];
        for &k in &open {
            for &i in &sets[k].0 {
                speed[i as usize] += sets[k].1 as f64;
            }
        }
        let lasts = |i: usize| left[i] as f64 / speed[i];
        let used = (0..core.nodes()).filter(|i| speed[*i] > 0.0);
        let time = used.map(lasts).fold(f64::INFINITY, f64::min);
        let mut some = false;
        for &k in &open {
            let (set, worth) = &sets[k];
            let least = set.iter().map(|i| left[*i as usize]).min().unwrap_or(0);
            let step = ((*worth as f64 * time) as u64).min(least);
            some |= step > 0;
            bound += step;
            for &i in set {
                left[i as usize] -= step;
            }
        }
        let before = open.len();
        // What rounding leaves is nothing.
        let tight = |i: &u32| left[*i as usize] <= core.cost[*i as usize] >> 32;
        open.retain(|k| !sets[*k].0.iter().any(tight));
        if !budget.pay(core.nodes() as u64) || !some && open.len() == before {
            break;
        }
    }
    Paid { bound, left }
}
