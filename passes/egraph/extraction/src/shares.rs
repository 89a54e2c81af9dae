//! Lower bounds: what classes cost is shared out among those that need them.

use fixedbitset::FixedBitSet;

use crate::bound::Paid;
use crate::core::{Core, Lists};
use crate::parts::components_in_order;

/// The most that is said of a class: no sum of shares leaves the range.
const MOST: u64 = 1 << 61;
/// The whole of a price, in parts of which shares are. Whole numbers, so that a class that becomes dearer lowers no share.
const WHOLE: u128 = 1 << 40;
/// How often the prices of classes that need each other are raised in one round, at most.
const RAISES: usize = 32;
/// The first step of weights, as a power of e, and the last.
const STEPS: [f64; 2] = [0.5, 2e-4];
/// Rounds without a better bound after which steps are halved.
const PATIENCE: usize = 24;

/// Prices of classes and their shares.
///
/// Each class has a *price*, and each class that may need it (through any of its nodes), and each root from outside,
/// bears a *share* of it; shares add up to no more than the price. A class is at most as dear as its cheapest node with
/// the shares that its class bears of what the node needs. Then no choice costs less than the roots' own shares: what
/// the nodes of a choice cost is at least the prices of their classes less the shares that these bear, and all other
/// shares of a price are borne by somebody or by nobody. That is the dual of the linear relaxation in which a class is
/// computed at least as much as any class needs it; cycles need no care, but are worth nothing.
///
/// Shares are found by ascent: a choice is read off, a cheapest node for each class that is needed, and of each class
/// that is needed those bear more that need it in this choice. Weights are multiplied (Kivinen and Warmuth,
/// "Exponentiated gradient versus gradient descent for linear predictors", 1997), with steps that become smaller where
/// the bound stays (Held, Wolfe and Crowder, "Validation of subgradient optimization", 1974).
pub(crate) struct Shares {
    /// Node to edges: one for each class and class that it may need.
    edges: Lists,
    /// Class to the edges by which it is needed.
    into: Lists,
    /// Class to its own number of an edge from outside, if it is a root.
    outside: Vec<Option<u32>>,
    /// Classes that need each other, children first.
    order: Vec<Vec<u32>>,
    /// The class that an edge leads to.
    to: Vec<u32>,
    /// By edge: how much of the price it bears, beside others.
    weight: Vec<f64>,
    price: Vec<u64>,
    share: Vec<u64>,
    /// By edge: how many parts of the price it bears, by the weights; all together [`WHOLE`] at most.
    part: Vec<u64>,
    cheapest: Vec<u32>,
}

impl Shares {
    pub(crate) fn new(core: &Core) -> Shares {
        let mut to: Vec<u32> = Vec::new();
        let mut edges: Vec<Vec<u32>> = vec![Vec::new(); core.nodes()];
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); core.classes];
        let mut of_class: Vec<Option<(u32, u32)>> = vec![None; core.classes];
        for class in 0..core.classes {
            for &node in core.members.of(class) {
                for &child in core.children.of(node as usize) {
                    let known = of_class[child as usize].filter(|(user, _)| *user == class as u32);
                    let edge = known.map_or(to.len() as u32, |(_, edge)| edge);
                    if known.is_none() {
                        of_class[child as usize] = Some((class as u32, edge));
                        to.push(child);
                        into[child as usize].push(edge);
                    }
                    edges[node as usize].push(edge);
                }
            }
        }
        let mut outside = vec![None; core.classes];
        for &root in &core.roots {
            let edge = to.len() as u32;
            outside[root as usize] = Some(edge);
            into[root as usize].push(edge);
            to.push(root);
        }
        Shares {
            edges: Lists::new(&edges),
            into: Lists::new(&into),
            outside,
            order: components_in_order(core),
            weight: vec![1.0; to.len()],
            share: vec![0; to.len()],
            part: vec![0; to.len()],
            price: vec![0; core.classes],
            cheapest: vec![u32::MAX; core.classes],
            to,
        }
    }

    /// Raises the bound for nodes of these costs, until steps are small or `go_on` says so, which is given the nodes and
    /// edges visited.
    pub(crate) fn ascend(
        &mut self,
        core: &Core,
        alive: &FixedBitSet,
        cost: &[u64],
        enough: u64,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Paid {
        let [mut step, last] = STEPS;
        let visits = (core.nodes() + 2 * self.to.len()) as u64;
        let mut best = (0, self.weight.clone());
        let mut since = 0;
        loop {
            let bound = self.round(core, alive, cost);
            if bound > best.0 {
                best = (bound, self.weight.clone());
                since = 0;
            } else {
                since += 1;
            }
            if since > PATIENCE {
                step /= 2.0;
                since = 0;
                self.weight.clone_from(&best.1);
                self.round(core, alive, cost);
            }
            if step < last || best.0 >= enough || !go_on(visits) {
                break;
            }
            self.shift(core, step);
        }
        self.weight = best.1;
        let bound = self.round(core, alive, cost);
        Paid {
            bound,
            left: self.left(core, cost),
        }
    }

    /// Prices all classes by the weights; gives the bound.
    fn round(&mut self, core: &Core, alive: &FixedBitSet, cost: &[u64]) -> u64 {
        self.price.fill(0);
        self.share.fill(0);
        for class in 0..core.classes {
            let into = self.into.of(class);
            let sum: f64 = into.iter().map(|e| self.weight[*e as usize]).sum();
            let mut rest = WHOLE as u64;
            for &edge in into {
                let part = (self.weight[edge as usize] / sum * WHOLE as f64) as u64;
                self.part[edge as usize] = part.min(rest);
                rest -= self.part[edge as usize];
            }
            // What rounding left over, to the last of them.
            if let Some(last) = into.last() {
                self.part[*last as usize] += rest;
            }
        }
        let order = std::mem::take(&mut self.order);
        for classes in &order {
            let rounds = if classes.len() == 1 { 1 } else { RAISES };
            for _ in 0..rounds {
                let mut raised = false;
                for &class in classes {
                    raised |= self.raise(core, alive, cost, class as usize);
                }
                if !raised {
                    break;
                }
            }
        }
        self.order = order;
        let own = self.outside.iter().flatten();
        own.map(|edge| self.share[*edge as usize]).sum()
    }

    /// Makes a class as dear as its cheapest node; whether it is dearer than before.
    fn raise(&mut self, core: &Core, alive: &FixedBitSet, cost: &[u64], class: usize) -> bool {
        let mut least = (MOST, u32::MAX);
        for &node in core.members.of(class) {
            let i = node as usize;
            if alive.contains(i) {
                let shares = self.edges.of(i).iter().map(|e| self.share[*e as usize]);
                let price = shares.fold(cost[i], u64::saturating_add);
                least = least.min((price, node));
            }
        }
        self.cheapest[class] = least.1;
        if least.0 <= self.price[class] {
            return false;
        }
        self.price[class] = least.0;
        for &edge in self.into.of(class) {
            let share = u128::from(least.0) * u128::from(self.part[edge as usize]) / WHOLE;
            self.share[edge as usize] = share as u64;
        }
        true
    }

    /// Reads a choice off, and lets those bear more that need a class in it.
    fn shift(&mut self, core: &Core, step: f64) {
        let mut needed = FixedBitSet::with_capacity(core.classes);
        let mut stack: Vec<u32> = Vec::new();
        let mut bears = FixedBitSet::with_capacity(self.to.len());
        for &root in &core.roots {
            bears.extend(self.outside[root as usize].map(|e| e as usize));
            needed.insert(root as usize);
            stack.push(root);
        }
        while let Some(class) = stack.pop() {
            let node = self.cheapest[class as usize];
            if node == u32::MAX {
                continue;
            }
            for &edge in self.edges.of(node as usize) {
                bears.insert(edge as usize);
                let child = self.to[edge as usize];
                if !needed.put(child as usize) {
                    stack.push(child);
                }
            }
        }
        let grown = step.exp();
        for class in needed.ones() {
            let into = self.into.of(class);
            let mut sum = 0.0;
            for &edge in into {
                let weight = &mut self.weight[edge as usize];
                if bears.contains(edge as usize) {
                    *weight *= grown;
                }
                sum += *weight;
            }
            // Weights that have no share any longer may have one again.
            for &edge in into {
                let weight = &mut self.weight[edge as usize];
                *weight = (*weight / sum).max(1e-12);
            }
        }
    }

    /// What nodes cost beyond the prices of their classes, as far as somebody bears these.
    fn left(&self, core: &Core, cost: &[u64]) -> Vec<u64> {
        let borne = |class: u32| {
            let into = self.into.of(class as usize).iter();
            into.map(|e| self.share[*e as usize]).sum::<u64>()
        };
        let left = |i: usize| {
            let shares = self.edges.of(i).iter().map(|e| self.share[*e as usize]);
            let price = shares.fold(cost[i], u64::saturating_add);
            price.saturating_sub(borne(core.class[i])).min(MOST)
        };
        (0..core.nodes()).map(left).collect()
    }
}
