//! One sweep over a component from the leaves up: prices of classes, and which child decides.

use fixedbitset::FixedBitSet;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::core::Core;

/// No child decides: the node needs nothing, or has not been reached.
pub(crate) const NONE: u32 = u32::MAX;

/// What a sweep leaves, and its scratch space.
pub(crate) struct Sweep {
    /// Price of each class; [`u64::MAX`] where it cannot be computed.
    pub price: Vec<u64>,
    /// For each node the child settled last, which is a dearest one.
    pub last: Vec<u32>,
    missing: Vec<u32>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    free: Vec<u32>,
}

impl Sweep {
    pub(crate) fn new(core: &Core) -> Sweep {
        Sweep {
            price: vec![u64::MAX; core.classes],
            last: vec![NONE; core.nodes()],
            missing: vec![0; core.nodes()],
            heap: BinaryHeap::new(),
            free: Vec::new(),
        }
    }

    /// A class is as dear as its cheapest node among `alive`, a node as `cost` and its dearest
    /// child. Gives the number of nodes visited.
    pub(crate) fn dearest(&mut self, core: &Core, alive: &FixedBitSet, cost: &[u64]) -> u64 {
        self.swept(core, alive, |i| cost[i], |price, cost| price + cost)
    }

    /// The least that the dearest node of a derivation of all roots costs, and the number of nodes visited. [`Sweep::reached`] tells
    /// afterwards what can be computed.
    pub(crate) fn bottleneck(
        &mut self,
        core: &Core,
        alive: &FixedBitSet,
        cost: impl Fn(usize) -> u64,
    ) -> (u64, u64) {
        let visited = self.swept(core, alive, cost, u64::max);
        let prices = core.roots.iter().map(|root| self.price[*root as usize]);
        (prices.max().unwrap_or(0), visited)
    }

    /// Prices all classes from the leaves up, the cheapest first: a node as `with` says of the dearest of its children and its
    /// cost, which is no less than that. Gives the number of nodes visited.
    fn swept(
        &mut self,
        core: &Core,
        alive: &FixedBitSet,
        cost: impl Fn(usize) -> u64,
        with: impl Fn(u64, u64) -> u64,
    ) -> u64 {
        self.price.fill(u64::MAX);
        self.last.fill(NONE);
        for (i, missing) in self.missing.iter_mut().enumerate() {
            *missing = core.children.of(i).len() as u32;
        }
        let mut visited = core.nodes() as u64;
        for &leaf in &core.leaves {
            if alive.contains(leaf as usize) {
                self.heap.push(Reverse((cost(leaf as usize), leaf)));
            }
        }
        while let Some(Reverse((price, node))) = self.heap.pop() {
            self.free.push(node);
            // Nodes that cost no more settle at the same price and skip the heap.
            while let Some(node) = self.free.pop() {
                let class = core.class[node as usize];
                if self.price[class as usize] != u64::MAX {
                    continue;
                }
                self.price[class as usize] = price;
                for &user in core.users.of(class as usize) {
                    visited += 1;
                    let u = user as usize;
                    self.last[u] = class;
                    self.missing[u] -= 1;
                    if self.missing[u] == 0 && alive.contains(u) {
                        match with(price, cost(u)) {
                            own if own == price => self.free.push(user),
                            own => self.heap.push(Reverse((own, user))),
                        }
                    }
                }
            }
        }
        visited
    }

    /// The same prices once some nodes have become cheaper, from what they were. Gives the number
    /// of nodes visited.
    pub(crate) fn lower(
        &mut self,
        core: &Core,
        alive: &FixedBitSet,
        cost: &[u64],
        cheaper: &[u32],
    ) -> u64 {
        let mut visited = cheaper.len() as u64;
        for &node in cheaper {
            self.offer(core, node as usize, cost);
        }
        while let Some(Reverse((price, class))) = self.heap.pop() {
            if price > self.price[class as usize] {
                continue;
            }
            for &user in core.users.of(class as usize) {
                visited += 1;
                let u = user as usize;
                if self.last[u] != class || self.missing[u] > 0 || !alive.contains(u) {
                    continue;
                }
                for &child in core.children.of(u) {
                    visited += 1;
                    if self.price[child as usize] > self.price[self.last[u] as usize] {
                        self.last[u] = child;
                    }
                }
                self.offer(core, u, cost);
            }
        }
        visited
    }

    /// Lets a node price its class, if it is cheaper than what did.
    fn offer(&mut self, core: &Core, node: usize, cost: &[u64]) {
        let below = match self.last[node] {
            NONE => 0,
            child => self.price[child as usize],
        };
        let (class, price) = (core.class[node], below + cost[node]);
        if price < self.price[class as usize] {
            self.price[class as usize] = price;
            self.heap.push(Reverse((price, class)));
        }
    }

    /// Whether the last sweep reached all children of `node`.
    pub(crate) fn reached(&self, node: usize) -> bool {
        self.missing[node] == 0
    }
}

/// The node of each class whose tree is cheapest by `price`, two numbers in order of weight; none
/// where no tree is left. Adds the nodes visited to `visited`.
///
/// What trees cost is found by looking at classes in an order in which what they need comes first, again and again while trees get
/// cheaper: where nothing needs itself, once is enough. Which of the nodes that give it a class has is decided as Knuth's
/// generalization of Dijkstra's algorithm does ("A generalization of Dijkstra's algorithm", 1977): of nodes at the same cost the first
/// one of those whose children have theirs, so that no class needs itself.
pub(crate) fn cheapest_trees(
    core: &Core,
    alive: &FixedBitSet,
    visited: &mut u64,
    price: impl Fn(usize) -> (u64, u64),
) -> Vec<Option<u32>> {
    let total = cheapest(core, alive, &price);
    let known = (0..core.classes).filter(|class| total[*class] != UNKNOWN);
    let edges = known.map(|class| core.users.of(class).len() as u64);
    *visited += core.nodes() as u64 + edges.sum::<u64>();
    // The nodes that give their classes what these cost.
    let mut tight = Vec::with_capacity(core.classes);
    for (class, least) in total.iter().enumerate() {
        if *least == UNKNOWN {
            continue;
        }
        for &node in core.members.of(class) {
            let own = || tree(core, &total, node as usize, price(node as usize));
            if alive.contains(node as usize) && own() == *least {
                tight.push((*least, node));
            }
        }
    }
    tight.sort_unstable();
    let mut choice = vec![None; core.classes];
    let mut missing = vec![u32::MAX; core.nodes()];
    let mut ready = BinaryHeap::new();
    for level in tight.chunk_by(|a, b| a.0 == b.0) {
        for &(least, node) in level {
            let children = core.children.of(node as usize).iter();
            let here = children.filter(|child| total[**child as usize] == least);
            missing[node as usize] = here.count() as u32;
            if missing[node as usize] == 0 {
                ready.push(Reverse(node));
            }
        }
        while let Some(Reverse(node)) = ready.pop() {
            let class = core.class[node as usize] as usize;
            if choice[class].is_some() {
                continue;
            }
            choice[class] = Some(node);
            if level.len() == 1 {
                break;
            }
            for &user in core.users.of(class) {
                // Nodes of other levels wait for nothing here.
                let left = &mut missing[user as usize];
                if (1..u32::MAX).contains(left) {
                    *left -= 1;
                    if *left == 0 {
                        ready.push(Reverse(user));
                    }
                }
            }
        }
    }
    choice
}

/// What a tree costs, in two numbers which go no further than the largest there is; and whether there is none.
type Tree = (u64, u64, bool);

/// What a class costs that has no tree.
const UNKNOWN: Tree = (u64::MAX, u64::MAX, true);

/// What a node and the trees of its children cost.
fn tree(core: &Core, total: &[Tree], node: usize, own: (u64, u64)) -> Tree {
    let children = core.children.of(node).iter();
    children.fold((own.0, own.1, false), |sum, child| {
        with(sum, total[*child as usize])
    })
}

/// What two trees cost.
fn with(a: Tree, b: Tree) -> Tree {
    (a.0.saturating_add(b.0), a.1.saturating_add(b.1), a.2 || b.2)
}

/// What the cheapest tree of each class costs.
fn cheapest(core: &Core, alive: &FixedBitSet, price: &impl Fn(usize) -> (u64, u64)) -> Vec<Tree> {
    let order = core.order();
    let mut total = vec![UNKNOWN; core.classes];
    let mut waits = vec![true; order.classes.len()];
    let mut again = true;
    while std::mem::take(&mut again) {
        for (at, &class) in order.classes.iter().enumerate() {
            if !std::mem::take(&mut waits[at]) {
                continue;
            }
            let class = class as usize;
            let mut best = total[class];
            for &node in core.members.of(class) {
                let node = node as usize;
                if !alive.contains(node) {
                    continue;
                }
                let mut children = core.children.of(node).iter();
                let (first, second) = price(node);
                let sum = children.try_fold((first, second, false), |sum, child| {
                    let both = with(sum, total[*child as usize]);
                    (both < best).then_some(both)
                });
                best = sum.filter(|sum| *sum < best).unwrap_or(best);
            }
            if best == total[class] {
                continue;
            }
            total[class] = best;
            for &user in core.users.of(class) {
                let user = order.place[core.class[user as usize] as usize] as usize;
                again |= user <= at && !waits[user];
                waits[user] = true;
            }
        }
    }
    total
}
