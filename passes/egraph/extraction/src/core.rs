//! One component of a reduced problem, in flat arrays.

use std::cell::OnceCell;

use crate::parts::components_in_order;

/// Lists of numbers end to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    start: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    pub(crate) fn new(lists: impl IntoIterator<Item = impl AsRef<[u32]>>) -> Lists {
        let mut start = vec![0];
        let mut items = Vec::new();
        for list in lists {
            items.extend_from_slice(list.as_ref());
            start.push(items.len() as u32);
        }
        Lists { start, items }
    }

    /// By item, the numbers of the lists that it is in, as far as they count.
    pub(crate) fn inverse<L: IntoIterator<Item = usize>>(
        items: usize,
        lists: impl Iterator<Item = (usize, L)> + Clone,
    ) -> Lists {
        let mut start = vec![0u32; items + 1];
        for (_, list) in lists.clone() {
            list.into_iter().for_each(|item| start[item + 1] += 1);
        }
        for item in 0..items {
            start[item + 1] += start[item];
        }
        let mut next = start.clone();
        let mut all = vec![0u32; start[items] as usize];
        for (number, list) in lists {
            for item in list {
                all[next[item] as usize] = number as u32;
                next[item] += 1;
            }
        }
        Lists { start, items: all }
    }

    pub(crate) fn of(&self, i: usize) -> &[u32] {
        &self.items[self.start[i] as usize..self.start[i + 1] as usize]
    }
}

/// Numbers as indices.
fn wide(list: &[u32]) -> impl Iterator<Item = usize> + '_ {
    list.iter().map(|item| *item as usize)
}

/// A node as [`Core::new`] takes it.
pub(crate) struct CoreNode {
    pub class: u32,
    pub cost: u64,
    /// Sorted, without doubles.
    pub children: Vec<u32>,
    /// The node of the problem that it stands for.
    pub origin: usize,
    /// The pairs of landmarks that meet in it.
    pub meets: Vec<u32>,
}

/// Classes and nodes that no other component shares; every class can be computed and is reached
/// from a root.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    pub classes: usize,
    pub roots: Vec<u32>,
    pub class: Vec<u32>,
    pub cost: Vec<u64>,
    pub origin: Vec<usize>,
    /// Node to classes.
    pub children: Lists,
    /// Class to its nodes.
    pub members: Lists,
    /// Class to the nodes that need it.
    pub users: Lists,
    /// The nodes that need nothing.
    pub leaves: Vec<u32>,
    /// Pair of landmarks to the nodes where they meet.
    pub meetings: Lists,
    /// How many pairs.
    pub pairs: usize,
    /// The cheapest choice that slope scaling found, if it found one, and the steps that it took.
    pub scaled: OnceCell<(Option<Start>, u64)>,
    order: OnceCell<Order>,
}

/// Classes such that all that some node of each needs comes before it, as far as that can be.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub classes: Vec<u32>,
    /// The place of each class.
    pub place: Vec<u32>,
}

/// A choice of the classes that it needs, and its cost.
pub(crate) type Start = (Vec<Option<u32>>, u64);

impl Core {
    pub(crate) fn new(classes: usize, parts: Vec<CoreNode>, roots: Vec<u32>) -> Core {
        let all = || parts.iter().enumerate();
        let is_leaf = |(i, part): (usize, &CoreNode)| part.children.is_empty().then_some(i as u32);
        let members = Lists::inverse(classes, all().map(|(i, part)| (i, [part.class as usize])));
        let users = Lists::inverse(classes, all().map(|(i, part)| (i, wide(&part.children))));
        // Pairs are numbered anew, in their order.
        let met = || parts.iter().flat_map(|part| &part.meets);
        let mut numbers = vec![0; met().max().map_or(0, |last| *last as usize + 1)];
        met().for_each(|pair| numbers[*pair as usize] = 1);
        let mut pairs = 0;
        for number in &mut numbers {
            pairs += std::mem::replace(number, pairs);
        }
        let number = |pair| numbers[pair];
        let meetings = all().map(|(i, part)| (i, wide(&part.meets).map(number)));
        let meetings = Lists::inverse(pairs, meetings);
        Core {
            classes,
            roots,
            class: parts.iter().map(|p| p.class).collect(),
            cost: parts.iter().map(|p| p.cost).collect(),
            origin: parts.iter().map(|p| p.origin).collect(),
            children: Lists::new(parts.iter().map(|part| &part.children)),
            members,
            users,
            leaves: all().filter_map(is_leaf).collect(),
            meetings,
            pairs,
            scaled: OnceCell::new(),
            order: OnceCell::new(),
        }
    }

    /// The classes, those that are needed first: groups that need each other one after the other, and in each group as they can be
    /// computed.
    pub(crate) fn order(&self) -> &Order {
        self.order.get_or_init(|| {
            let mut classes = Vec::with_capacity(self.classes);
            let nodes = 0..self.nodes();
            let missing = nodes.map(|node| self.children.of(node).len() as u32);
            let mut missing: Vec<u32> = missing.collect();
            let mut known = vec![false; self.classes];
            for group in components_in_order(self) {
                let mut next = classes.len();
                for &class in &group {
                    let mut members = self.members.of(class as usize).iter();
                    known[class as usize] = members.any(|node| missing[*node as usize] == 0);
                    if known[class as usize] {
                        classes.push(class);
                    }
                }
                while let Some(&class) = classes.get(next) {
                    next += 1;
                    for &user in self.users.of(class as usize) {
                        missing[user as usize] -= 1;
                        let of = self.class[user as usize];
                        let ready = missing[user as usize] == 0 && group.binary_search(&of).is_ok();
                        if ready && !std::mem::replace(&mut known[of as usize], true) {
                            classes.push(of);
                        }
                    }
                }
                classes.extend(group.iter().filter(|class| !known[**class as usize]));
            }
            let mut place = vec![0; self.classes];
            for (at, class) in classes.iter().enumerate() {
                place[*class as usize] = at as u32;
            }
            Order { classes, place }
        })
    }

    /// The cores of `count` components: `component` gives each class's.
    pub(crate) fn split(
        count: usize,
        component: &[usize],
        parts: Vec<CoreNode>,
        roots: &[usize],
    ) -> Vec<Core> {
        let mut sizes = vec![0; count];
        let number = component.iter().map(|&c| {
            sizes[c] += 1;
            sizes[c] - 1
        });
        let number: Vec<u32> = number.collect();
        let mut cores: Vec<(Vec<CoreNode>, Vec<u32>)> = Vec::new();
        cores.resize_with(count, Default::default);
        for mut part in parts {
            let of = component[part.class as usize];
            part.class = number[part.class as usize];
            for child in &mut part.children {
                *child = number[*child as usize];
            }
            cores[of].0.push(part);
        }
        for &root in roots {
            cores[component[root]].1.push(number[root]);
        }
        let cores = sizes.into_iter().zip(cores);
        let cores = cores.map(|(n, (parts, roots))| Core::new(n as usize, parts, roots));
        cores.filter(|core| core.nodes() > 0).collect()
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.class.len()
    }

    /// What of a choice the roots need, and its cost; none if it lacks a class or needs itself.
    pub(crate) fn checked(&self, choice: &[Option<u32>]) -> Option<(Vec<Option<u32>>, u64)> {
        #[derive(Clone, Copy, PartialEq)]
        enum Seen {
            Not,
            Begun,
            Done,
        }
        let mut seen = vec![Seen::Not; self.classes];
        let mut needed = vec![None; self.classes];
        let mut cost = 0;
        let mut stack: Vec<u32> = self.roots.iter().rev().copied().collect();
        while let Some(&class) = stack.last() {
            let c = class as usize;
            let node = choice[c]?;
            match seen[c] {
                Seen::Done => _ = stack.pop(),
                Seen::Begun => {
                    stack.pop();
                    seen[c] = Seen::Done;
                }
                Seen::Not => {
                    seen[c] = Seen::Begun;
                    needed[c] = Some(node);
                    cost += self.cost[node as usize];
                    for &child in self.children.of(node as usize) {
                        match seen[child as usize] {
                            Seen::Not => stack.push(child),
                            Seen::Begun => return None,
                            Seen::Done => {}
                        }
                    }
                }
            }
        }
        Some((needed, cost))
    }

    /// The classes that the roots need by `choice`, and their cost.
    ///
    /// `choice` gives every class on the way a node; it panics if not.
    pub(crate) fn needed(&self, choice: &[Option<u32>]) -> (Vec<u32>, u64) {
        let mut seen = vec![false; self.classes];
        let (mut needed, mut cost) = (Vec::new(), 0);
        let mut stack: Vec<u32> = self.roots.iter().rev().copied().collect();
        while let Some(class) = stack.pop() {
            if std::mem::replace(&mut seen[class as usize], true) {
                continue;
            }
            let node = choice[class as usize].expect("a choice has a node for each class it needs");
            let node = node as usize;
            needed.push(class);
            cost += self.cost[node];
            stack.extend(self.children.of(node));
        }
        (needed, cost)
    }
}
