//! Decision diagrams: all choices at once, class by class, those alike together.
//!
//! Classes are decided one after the other, each behind all that may need it. What is left to be computed then is the set of
//! classes that are needed and not decided, a *state*; a *layer* is the states between two classes. Choices that come to the
//! same state go on alike, so only the cheapest is kept. Where a layer has more states than the *width*, the ones that
//! promise least are joined: what all of some need, at the least that one of these paid. Nothing is said of them but a bound;
//! without them the last layer has the cheapest choice.
//!
//! A state is bounded by what was paid, and by what every choice pays and the nodes chosen so far cost beside that.
//!
//! Source: Bergman, Cire, van Hoeve and Hooker, "Decision Diagrams for Optimization", 2016.

use std::collections::HashMap;

use fixedbitset::FixedBitSet;

use crate::budget::Budget;
use crate::core::Core;

/// No node came before.
const FIRST: u32 = u32::MAX;
/// States kept as they are where a layer is too wide, in quarters of the width; the others are joined to the rest.
const KEPT: usize = 3;

/// What a diagram tells.
pub(crate) struct Found {
    /// No choice of the nodes left costs less, unless it costs as much as the limit.
    pub bound: u64,
    /// A choice below the limit, if there is one.
    pub choice: Option<Vec<Option<u32>>>,
    /// Whether no states were joined: the choice is the cheapest below the limit.
    pub is_exact: bool,
}

/// The order in which classes are decided.
pub(crate) struct Order {
    steps: Vec<Step>,
    /// Numbers of classes needed at the same time.
    slots: usize,
}

/// A class to be decided.
struct Step {
    /// Its number while it is needed; another one's before and behind.
    slot: usize,
    /// Its nodes, and the numbers of their children.
    nodes: Vec<(u32, Vec<usize>)>,
}

/// What is known of the choices that came to a state.
struct Entry {
    /// No choice through here costs less.
    bound: u64,
    /// What the nodes chosen cost at least.
    paid: u64,
    /// What the nodes of one choice cost, and where the last of them is in the history.
    exact: Option<(u64, u32)>,
}

const UNKNOWN: Entry = Entry {
    bound: u64::MAX,
    paid: u64::MAX,
    exact: None,
};

impl Order {
    /// An order in which few classes are needed at the same time: always the one that adds fewest; none where the nodes left
    /// need each other.
    pub(crate) fn new(core: &Core, alive: &FixedBitSet) -> Option<Order> {
        let below = |class: usize| {
            let members = core.members.of(class).iter();
            let alive = members.filter(|i| alive.contains(**i as usize));
            let mut all: Vec<u32> = alive
                .flat_map(|i| core.children.of(*i as usize))
                .copied()
                .collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        let mut children: Vec<Option<Vec<u32>>> = vec![None; core.classes];
        let mut users = vec![0usize; core.classes];
        let mut stack = core.roots.clone();
        while let Some(class) = stack.pop() {
            let class = class as usize;
            if children[class].is_none() {
                let all = below(class);
                all.iter().for_each(|child| users[*child as usize] += 1);
                stack.extend(&all);
                children[class] = Some(all);
            }
        }
        let mut slot: Vec<Option<usize>> = vec![None; core.classes];
        let (mut free, mut slots) = (Vec::new(), core.roots.len());
        for (n, &root) in core.roots.iter().enumerate() {
            slot[root as usize] = Some(n);
        }
        let mut open: Vec<u32> = core.roots.clone();
        let mut steps = Vec::new();
        while !open.is_empty() {
            let added = |class: u32| {
                let all = children[class as usize].iter().flatten();
                all.filter(|child| slot[**child as usize].is_none()).count()
            };
            let ready = (0..open.len()).filter(|k| users[open[*k] as usize] == 0);
            let next = ready.min_by_key(|k| (added(open[*k]), open[*k]))?;
            let class = open.swap_remove(next) as usize;
            for &child in children[class].iter().flatten() {
                let child = child as usize;
                users[child] -= 1;
                if slot[child].is_none() {
                    slot[child] = Some(free.pop().unwrap_or_else(|| {
                        slots += 1;
                        slots - 1
                    }));
                    open.push(child as u32);
                }
            }
            let members = core.members.of(class).iter();
            let alive = members.filter(|i| alive.contains(**i as usize));
            let nodes = alive.map(|&node| {
                let children = core.children.of(node as usize).iter();
                (
                    node,
                    children.filter_map(|child| slot[*child as usize]).collect(),
                )
            });
            let nodes = nodes.collect();
            // A class that is open has a number, which is free behind it.
            let own = slot[class]?;
            free.push(own);
            steps.push(Step { slot: own, nodes });
        }
        Some(Order { steps, slots })
    }

    /// Looks at all choices below `limit`, with as many states in a layer as `width`. `paid` is what every choice pays, and what
    /// nodes cost beside that. None where too many classes are needed at the same time, or the budget ends.
    pub(crate) fn search(
        &self,
        core: &Core,
        paid: (u64, &[u64]),
        limit: u64,
        width: usize,
        budget: &mut Budget,
    ) -> Option<Found> {
        match self.slots.div_ceil(64) {
            0..=1 => self.layers::<1>(core, paid, limit, width, budget),
            2 => self.layers::<2>(core, paid, limit, width, budget),
            3..=4 => self.layers::<4>(core, paid, limit, width, budget),
            5..=8 => self.layers::<8>(core, paid, limit, width, budget),
            _ => None,
        }
    }

    fn layers<const WORDS: usize>(
        &self,
        core: &Core,
        (base, beside): (u64, &[u64]),
        limit: u64,
        width: usize,
        budget: &mut Budget,
    ) -> Option<Found> {
        let mut layer: HashMap<[u64; WORDS], Entry> = HashMap::new();
        let mut state = [0; WORDS];
        (0..core.roots.len()).for_each(|slot| state[slot / 64] |= 1 << (slot % 64));
        let start = Entry {
            bound: base,
            paid: 0,
            exact: Some((0, FIRST)),
        };
        layer.insert(state, start);
        // The node of each choice that was made, behind that before.
        let mut history: Vec<(u32, u32)> = Vec::new();
        let mut is_exact = true;
        for step in &self.steps {
            let (word, bit) = (step.slot / 64, 1 << (step.slot % 64));
            let needed = layer.extract_if(|state, _| state[word] & bit != 0);
            let mut needed: Vec<([u64; WORDS], Entry)> = needed.collect();
            needed.sort_unstable_by_key(|(state, _)| *state);
            let mut made = 1 + needed.len() * step.nodes.len();
            for (state, entry) in needed {
                for (node, children) in &step.nodes {
                    let (bound, paid) = (
                        entry.bound.saturating_add(beside[*node as usize]),
                        entry.paid + core.cost[*node as usize],
                    );
                    if bound >= limit || paid >= limit {
                        continue;
                    }
                    let mut state = state;
                    state[word] &= !bit;
                    children
                        .iter()
                        .for_each(|slot| state[slot / 64] |= 1 << (slot % 64));
                    let into = layer.entry(state).or_insert(UNKNOWN);
                    into.bound = into.bound.min(bound);
                    into.paid = into.paid.min(paid);
                    if let Some((cost, from)) = entry.exact {
                        let cost = cost + core.cost[*node as usize];
                        if cost < limit && into.exact.is_none_or(|(known, _)| cost < known) {
                            into.exact = Some((cost, history.len() as u32));
                            history.push((from, *node));
                        }
                    }
                }
            }
            if layer.len() > width {
                made += layer.len();
                join(&mut layer, width);
                is_exact = false;
            }
            if !budget.pay(made as u64) || history.len() >= FIRST as usize {
                return None;
            }
        }
        let end = layer.remove(&[0; WORDS]).unwrap_or(UNKNOWN);
        let choice = end.exact.map(|(_, mut last)| {
            let mut choice = vec![None; core.classes];
            while last != FIRST {
                let (before, node) = history[last as usize];
                choice[core.class[node as usize] as usize] = Some(node);
                last = before;
            }
            choice
        });
        Some(Found {
            bound: end.bound.max(end.paid).min(limit),
            choice,
            is_exact,
        })
    }
}

/// Leaves as many states as `width`.
fn join<const WORDS: usize>(layer: &mut HashMap<[u64; WORDS], Entry>, width: usize) {
    let mut all: Vec<([u64; WORDS], Entry)> = layer.drain().collect();
    all.sort_unstable_by_key(|(state, entry)| (entry.bound, entry.paid, *state));
    let kept = width * KEPT / 4;
    let mut others = all.split_off(kept);
    layer.extend(all);
    // Those that need the same beside one another have most in common.
    others.sort_unstable_by_key(|(state, _)| *state);
    for group in others.chunks(others.len().div_ceil((width - kept).max(1))) {
        let mut state = [u64::MAX; WORDS];
        for (one, _) in group {
            state
                .iter_mut()
                .zip(one)
                .for_each(|(all, word)| *all &= word);
        }
        let into = layer.entry(state).or_insert(UNKNOWN);
        for (_, entry) in group {
            into.bound = into.bound.min(entry.bound);
            into.paid = into.paid.min(entry.paid);
        }
    }
}

#[cfg(test)]
mod tests {
    use tir_data::Random;

    use super::*;
    use crate::core::CoreNode;

    /// Classes whose nodes need later ones only, two of which are roots.
    fn random_core(random: &mut Random) -> Core {
        let classes = 4 + random.below(9);
        let mut nodes = Vec::new();
        for class in 0..classes {
            for _ in 0..1 + random.below(3) {
                let later = classes - class - 1;
                let children = (0..random.below(4)).filter_map(|_| {
                    let child = class + 1 + random.below(later.max(1));
                    (child < classes).then_some(child as u32)
                });
                let mut children: Vec<u32> = children.collect();
                children.sort_unstable();
                children.dedup();
                nodes.push(CoreNode {
                    class: class as u32,
                    cost: random.below(6) as u64,
                    children,
                    origin: nodes.len(),
                    meets: Vec::new(),
                });
            }
        }
        Core::new(classes, nodes, vec![0, 1])
    }

    /// The least of all choices of nodes for classes that are needed, in the order of their numbers.
    fn cheapest(core: &Core, class: usize, needed: &FixedBitSet) -> u64 {
        match needed.ones().find(|c| *c >= class) {
            None => 0,
            Some(class) => {
                let nodes = core.members.of(class).iter().map(|&node| {
                    let mut needed = needed.clone();
                    let children = core.children.of(node as usize);
                    needed.extend(children.iter().map(|child| *child as usize));
                    core.cost[node as usize] + cheapest(core, class + 1, &needed)
                });
                nodes.min().expect("each class has a node")
            }
        }
    }

    #[test]
    fn wide_ones_find_the_cheapest_and_narrow_ones_a_bound() {
        let mut random = Random::new(11);
        let (mut exact, mut joined, mut tight) = (0, 0, 0);
        for _ in 0..3_000 {
            let core = random_core(&mut random);
            let needed: FixedBitSet = core.roots.iter().map(|root| *root as usize).collect();
            let best = cheapest(&core, 0, &needed);
            let mut alive = FixedBitSet::with_capacity(core.nodes());
            alive.insert_range(..);
            let order = Order::new(&core, &alive).expect("no class needs itself");
            let free = vec![0; core.nodes()];
            for width in [2, 5, 1 << 20] {
                let budget = &mut Budget::new(u64::MAX, None);
                let found = order.search(&core, (0, &free), best + 1, width, budget);
                let found = found.expect("few classes");
                assert!(found.bound <= best, "{} of {best}", found.bound);
                let choice = found.choice.and_then(|choice| core.checked(&choice));
                let cost = choice.map(|(_, cost)| cost);
                match found.is_exact {
                    true => assert_eq!((found.bound, cost), (best, Some(best))),
                    false => assert!(cost.is_none_or(|cost| cost == best)),
                }
                exact += usize::from(found.is_exact && width < 10);
                joined += usize::from(!found.is_exact);
                tight += usize::from(!found.is_exact && found.bound == best);
            }
        }
        assert!(
            exact > 500 && joined > 1_000 && tight > 200,
            "{exact} {joined} {tight}"
        );
    }
}
