//! The cheapest choice of one component: starting points, local search, branch and bound.

use crate::bound::cuts;
use crate::budget::Budget;
use crate::core::Core;
use crate::diagram::Order;
use crate::exchange::Exchange;
use crate::meetings::divide;
use crate::shares::Shares;
use crate::sweep::{Sweep, cheapest_trees};
use fixedbitset::FixedBitSet;

/// How often one node of the tree of decisions is bounded again after nodes were ruled out.
const ROUNDS: usize = 4;
/// Smaller steps of the bound that are tried before branching, in parts of the dearest root.
const PARTS: [u64; 3] = [10, 30, 100];
/// Costs as they are stay in the running if they give a bound that is behind by one in so many parts at most.
const NEAR: u64 = 6;
/// States in a layer of the first diagram, and of the last: before they are joined there may be some twenty times as many, of up to
/// a hundred bytes.
const WIDTHS: [usize; 2] = [1 << 10, 1 << 16];

/// The search over one component.
pub(crate) struct Search<'c> {
    pub(crate) core: &'c Core,
    sweep: Sweep,
    /// What every choice pays, and what nodes cost beside: by [`Shares`], once they were looked for.
    paid: (u64, Vec<u64>),
    /// The bound by that.
    by_paid: u64,
    /// The bound by costs as they are, in one part.
    by_cost: u64,
    /// In how many parts the bound takes what the dearest root costs.
    parts: u64,
    /// States in a layer of the next diagram.
    width: usize,
    /// All costs are multiples of it, and so are those of choices.
    grain: u64,
    /// The nodes that a choice cheaper than the best may have.
    pub(crate) alive: FixedBitSet,
    /// The best choice, of the classes it needs.
    pub choice: Vec<Option<u32>>,
    /// Its cost.
    pub cost: u64,
    /// No choice costs less.
    pub bound: u64,
    /// How the best choice was found.
    pub method: &'static str,
    /// Choices that local search has not started from yet, with their costs.
    starts: Vec<(Vec<Option<u32>>, u64)>,
}

/// A decision: which node a class gets.
struct Decision {
    /// The nodes left when it was taken.
    alive: FixedBitSet,
    /// The class's nodes, in the order of trial.
    nodes: Vec<u32>,
    next: usize,
    /// No choice below it costs less.
    bound: u64,
}

impl<'c> Search<'c> {
    /// Starts from the cheapest trees, and from `seeds` as far as their nodes are left.
    pub(crate) fn new(core: &'c Core, seeds: &[FixedBitSet], budget: &mut Budget) -> Search<'c> {
        let mut search = Search {
            core,
            sweep: Sweep::new(core),
            paid: (0, core.cost.clone()),
            by_paid: 0,
            by_cost: 0,
            width: WIDTHS[0],
            parts: 1,
            grain: core.cost.iter().fold(0, |a, b| gcd(a, *b)).max(1),
            alive: full(core.nodes()),
            choice: Vec::new(),
            cost: u64::MAX,
            bound: 0,
            method: "bottom-up",
            starts: Vec::new(),
        };
        for seed in seeds {
            let paid = |i: usize| if seed.contains(i) { 0 } else { core.cost[i] };
            search.start("seed", None, budget, |i| (paid(i), core.cost[i]));
        }
        search.start("bottom-up", None, budget, |i| (core.cost[i], 0));
        search
    }

    /// Bounds by costs as they are.
    pub(crate) fn bound_plainly(&mut self, budget: &mut Budget) {
        self.pay((0, self.core.cost.clone()), 1, budget);
        self.by_cost = self.by_paid;
    }

    /// Bounds, and rules out nodes that no better choice has; gives the bound that was found now.
    fn bound(&mut self, budget: &mut Budget) -> u64 {
        if self.done() {
            return self.bound;
        }
        let mut alive = self.alive.clone();
        let bound = self.bounded(&mut alive, usize::MAX, true, budget);
        let bound = bound.unwrap_or(self.cost);
        self.bound = bound.clamp(self.bound, self.cost);
        self.alive = alive;
        bound
    }

    /// Raises the bound by smaller steps, by costs as they are and by what they are known to be worth.
    pub(crate) fn refine(&mut self, budget: &mut Budget) {
        for parts in PARTS {
            let plain = (0, self.core.cost.clone());
            // What is far behind at first stays so.
            let is_near = self.by_paid - self.by_cost <= self.by_paid / NEAR;
            for paid in is_near
                .then_some(plain)
                .into_iter()
                .chain([self.paid.clone()])
            {
                if self.done() || !budget.lasts() {
                    return;
                }
                self.pay(paid, parts, budget);
            }
        }
    }

    /// Raises the bound by sharing costs out and bounding again by what is left.
    pub(crate) fn share(&mut self, budget: &mut Budget) {
        if self.done() {
            return;
        }
        let core = self.core;
        let go_on = &mut |n| budget.pay(n);
        let (base, cost) = &self.paid;
        let mut shares = Shares::new(core);
        let mut shared = shares.ascend(core, &self.alive, cost, self.cost - base, go_on);
        shared.bound += base;
        self.pay((shared.bound, shared.left), 1, budget);
    }

    /// Raises the bound by dividing costs among nodes where landmarks meet and bounding again by what is left.
    pub(crate) fn meet(&mut self, budget: &mut Budget) {
        let core = self.core;
        if self.done() || core.pairs == 0 {
            return;
        }
        let met = divide(core, &self.alive, &mut self.sweep, budget);
        self.pay((met.bound, met.left), 1, budget);
    }

    /// Bounds by what every choice is known to pay and what nodes cost beside that, in so many parts; keeps to both if that is
    /// more than before.
    fn pay(&mut self, paid: (u64, Vec<u64>), parts: u64, budget: &mut Budget) {
        let paid = std::mem::replace(&mut self.paid, paid);
        let parts = std::mem::replace(&mut self.parts, parts);
        let bound = self.bound(budget);
        match bound > self.by_paid {
            true => self.by_paid = bound,
            false => (self.paid, self.parts) = (paid, parts),
        }
    }

    /// Whether what is left has a choice.
    pub(crate) fn is_feasible(&mut self, budget: &mut Budget) -> bool {
        let (price, visited) = self.sweep.bottleneck(self.core, &self.alive, |_| 0);
        budget.pay(visited);
        price != u64::MAX
    }

    /// Looks at all choices that may be cheaper, in diagrams four times as wide each time; where nodes left need each other, at none.
    pub(crate) fn diagram(&mut self, budget: &mut Budget) {
        let core = self.core;
        let (base, cost) = &self.paid;
        let go_on = &mut |n| budget.pay(n);
        let found = cuts(core, cost, self.parts, &self.alive, &mut self.sweep, go_on);
        let paid = (base + found.bound, &found.left[..]);
        let Some(order) = Order::new(core, &self.alive) else {
            return;
        };
        while !self.done() && self.width <= WIDTHS[1] {
            let Some(found) = order.search(core, paid, self.cost, self.width, budget) else {
                return;
            };
            self.width *= 4;
            if let Some((choice, cost)) = found.choice.and_then(|choice| core.checked(&choice)) {
                (self.choice, self.cost, self.method) = (choice, cost, "decision diagram");
            }
            let bound = match found.is_exact {
                true => self.cost,
                false => self.raised(found.bound),
            };
            self.bound = bound.clamp(self.bound, self.cost);
        }
    }

    /// A bound that is the cost of a choice or nothing.
    fn raised(&self, bound: u64) -> u64 {
        bound.div_ceil(self.grain).saturating_mul(self.grain)
    }

    /// Whether nothing cheaper is left to be found.
    pub(crate) fn done(&self) -> bool {
        self.bound >= self.cost
    }

    /// Tries the cheapest trees by `price` among `alive`, or among all nodes left; whether they are
    /// the best choice so far.
    fn offer(
        &mut self,
        method: &'static str,
        alive: Option<&FixedBitSet>,
        budget: &mut Budget,
        price: impl Fn(usize) -> (u64, u64),
    ) -> bool {
        match self.trees(alive, budget, price) {
            Some((choice, cost)) if cost < self.cost => {
                (self.choice, self.cost, self.method) = (choice, cost, method);
                true
            }
            _ => false,
        }
    }

    /// The same, and local search may start from them.
    fn start(
        &mut self,
        method: &'static str,
        alive: Option<&FixedBitSet>,
        budget: &mut Budget,
        price: impl Fn(usize) -> (u64, u64),
    ) {
        let Some((choice, cost)) = self.trees(alive, budget, price) else {
            return;
        };
        self.begin(method, choice, cost);
    }

    /// Takes a choice if it is the cheapest so far, and lets local search start from it.
    pub(crate) fn begin(&mut self, method: &'static str, choice: Vec<Option<u32>>, cost: u64) {
        if cost < self.cost {
            (self.choice, self.cost, self.method) = (choice.clone(), cost, method);
        }
        if !self.starts.iter().any(|(known, _)| *known == choice) {
            self.starts.push((choice, cost));
        }
    }

    /// The cheapest trees as a choice of the classes that the roots need, and what they cost
    /// together.
    pub(crate) fn trees(
        &self,
        alive: Option<&FixedBitSet>,
        budget: &mut Budget,
        price: impl Fn(usize) -> (u64, u64),
    ) -> Option<(Vec<Option<u32>>, u64)> {
        let mut visited = 0;
        let alive = alive.unwrap_or(&self.alive);
        let trees = cheapest_trees(self.core, alive, &mut visited, price);
        budget.pay(visited);
        let mut roots = self.core.roots.iter();
        if roots.any(|&r| trees[r as usize].is_none()) {
            return None;
        }
        let (needed, cost) = self.core.needed(&trees);
        let mut choice = vec![None; self.core.classes];
        for class in needed {
            choice[class as usize] = trees[class as usize];
        }
        Some((choice, cost))
    }

    /// Bounds what `alive` leaves and rules out nodes no better choice has; none if none is left.
    fn bounded(
        &mut self,
        alive: &mut FixedBitSet,
        rounds: usize,
        starts: bool,
        budget: &mut Budget,
    ) -> Option<u64> {
        let core = self.core;
        let mut bound = 0;
        for _ in 0..rounds {
            let (base, cost) = &self.paid;
            let go_on = &mut |n| budget.pay(n);
            let mut found = cuts(core, cost, self.parts, alive, &mut self.sweep, go_on);
            found.bound += base;
            bound = bound.max(self.raised(found.bound));
            if !found.feasible || bound >= self.cost {
                return None;
            }
            let left = &found.left;
            let price = |i: usize| (left[i], core.cost[i]);
            match starts {
                true => self.start("branch and bound", Some(alive), budget, price),
                false => _ = self.offer("branch and bound", Some(alive), budget, price),
            }
            if bound >= self.cost {
                return None;
            }
            let mut ruled_out = false;
            for (i, &left) in left.iter().enumerate() {
                if alive.contains(i) && self.raised(found.bound.saturating_add(left)) >= self.cost {
                    alive.remove(i);
                    ruled_out |= self.sweep.reached(i);
                }
            }
            if !ruled_out || !budget.lasts() {
                break;
            }
        }
        Some(bound)
    }

    /// Local search by [`Exchange`] from each choice that it has not started from yet, class by
    /// class, until nothing is cheaper.
    pub(crate) fn exchange(&mut self, budget: &mut Budget) {
        let mut starts = std::mem::take(&mut self.starts);
        starts.sort_by_key(|(_, cost)| *cost);
        for (start, _) in starts {
            if self.done() || !budget.lasts() {
                return;
            }
            let (choice, cost) = self.exchanged(start, full(self.core.classes), budget);
            if cost < self.cost {
                (self.choice, self.cost, self.method) = (choice, cost, "local search");
            }
        }
    }

    /// Local search from a choice, which begins with these classes.
    pub(crate) fn exchanged(
        &self,
        start: Vec<Option<u32>>,
        mut tried: FixedBitSet,
        budget: &mut Budget,
    ) -> (Vec<Option<u32>>, u64) {
        let core = self.core;
        let (mut chosen, mut cost) = (start, u64::MAX);
        loop {
            let mut visited = 0;
            let paid = |i: usize| chosen[core.class[i] as usize] == Some(i as u32);
            let others = cheapest_trees(core, &self.alive, &mut visited, |i| {
                let cost = if paid(i) { 0 } else { core.cost[i] };
                (cost, core.cost[i])
            });
            budget.pay(visited);
            let mut exchange = Exchange::new(core, &self.alive, &chosen, &others);
            let mut better = false;
            for class in tried.ones() {
                better |= exchange.improve(class as u32);
                if !budget.pay(std::mem::take(&mut exchange.steps)) {
                    break;
                }
            }
            if exchange.cost < cost {
                (chosen, cost) = (exchange.chosen(), exchange.cost);
            }
            tried = exchange.touched;
            if !better || !budget.lasts() {
                return (chosen, cost);
            }
        }
    }

    /// Local search: gives one class another node, or none, keeps what else is chosen as far as it
    /// is still of use, and takes what is cheaper; until nothing is.
    pub(crate) fn improve(&mut self, budget: &mut Budget) {
        let core = self.core;
        let mut again = true;
        while again && !self.done() {
            again = false;
            for class in 0..core.classes {
                let Some(current) = self.choice[class] else {
                    continue;
                };
                let members = core.members.of(class);
                let others: Vec<Option<u32>> = members
                    .iter()
                    .filter(|&&n| n != current && self.alive.contains(n as usize))
                    .map(|&n| Some(n))
                    .collect();
                for only in others.into_iter().chain([None]) {
                    if !budget.lasts() {
                        return;
                    }
                    let mut alive = self.alive.clone();
                    for &node in members {
                        if Some(node) != only {
                            alive.remove(node as usize);
                        }
                    }
                    let chosen = self.choice.clone();
                    let paid = |i: usize| chosen[core.class[i] as usize] == Some(i as u32);
                    let found = self.offer("local search", Some(&alive), budget, |i| {
                        let cost = if paid(i) { 0 } else { core.cost[i] };
                        (cost, core.cost[i])
                    });
                    again |= found;
                    if found {
                        break;
                    }
                }
            }
        }
    }

    /// Branch and bound: decides a needed class with several nodes left, node by node in order of
    /// what they still cost, depth first.
    pub(crate) fn branch(&mut self, budget: &mut Budget) {
        self.parts = 1;
        let mut stack: Vec<Decision> = Vec::new();
        let mut alive = self.alive.clone();
        let mut entered = true;
        loop {
            if entered
                && !self.done()
                && let Some(bound) = self.bounded(&mut alive, ROUNDS, false, budget)
                && let Some(nodes) = self.undecided(&alive)
            {
                let bound = stack.last().map_or(bound, |d| bound.max(d.bound));
                stack.push(Decision {
                    alive: alive.clone(),
                    nodes,
                    next: 0,
                    bound,
                });
            }
            if !budget.lasts() {
                let open = stack.iter().map(|d| d.bound).min();
                let open = open.unwrap_or(self.bound);
                self.bound = self.bound.max(open.min(self.cost));
                return;
            }
            let Some(top) = stack.last_mut() else {
                self.bound = self.cost;
                return;
            };
            entered = top.next < top.nodes.len() && top.bound < self.cost;
            if !entered {
                stack.pop();
                continue;
            }
            alive = top.alive.clone();
            for (i, &node) in top.nodes.iter().enumerate() {
                if i != top.next {
                    alive.remove(node as usize);
                }
            }
            top.next += 1;
        }
    }

    /// The nodes of the class to decide next: needed whatever is chosen, with the fewest nodes left
    /// but more than one.
    fn undecided(&mut self, alive: &FixedBitSet) -> Option<Vec<u32>> {
        let core = self.core;
        let mut seen = FixedBitSet::with_capacity(core.classes);
        let mut stack: Vec<u32> = core.roots.iter().rev().copied().collect();
        let mut best: Option<Vec<u32>> = None;
        while let Some(class) = stack.pop() {
            if seen.put(class as usize) {
                continue;
            }
            let members = core.members.of(class as usize).iter().copied();
            let usable = |&n: &u32| alive.contains(n as usize) && self.sweep.reached(n as usize);
            let nodes: Vec<u32> = members.filter(usable).collect();
            if let [only] = nodes[..] {
                stack.extend(core.children.of(only as usize));
            } else if best.as_ref().is_none_or(|b| nodes.len() < b.len()) {
                best = Some(nodes);
            }
        }
        best
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// All numbers below a limit.
fn full(limit: usize) -> FixedBitSet {
    let mut all = FixedBitSet::with_capacity(limit);
    all.insert_range(..);
    all
}
