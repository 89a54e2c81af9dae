//! Makes a problem smaller without losing its cheapest choice.

use crate::Problem;
use crate::budget::Budget;
use crate::core::{Core, CoreNode, Lists};
use crate::landmarks::Table;
use crate::meetings::meetings;
use crate::parts::{components, cycles};
use fixedbitset::FixedBitSet;

/// Landmarks are computed if their table has at most this many bits.
const TABLE_BITS: usize = 1 << 30;
/// The most rounds of reduction; real e-graphs need three or four.
const ROUNDS: usize = 16;
/// A node is compared with this many of the cheapest nodes of its class.
const RIVALS: usize = 64;
/// A free class merges into its users if the edges become at most this many times as many.
const EDGES: usize = 4;

/// A problem while it shrinks.
struct Work {
    classes: usize,
    class: Vec<usize>,
    cost: Vec<u64>,
    /// Sorted, without doubles.
    children: Vec<Vec<usize>>,
    /// The pairs of landmarks that meet in each, sorted, without doubles.
    meets: Vec<Vec<u32>>,
    /// How many pairs there are.
    pairs: usize,
    /// Whether pairs were looked for.
    is_met: bool,
    alive: Vec<bool>,
    members: Vec<Vec<usize>>,
    /// Sorted, without doubles.
    roots: Vec<usize>,
    /// What every choice pays.
    base: u64,
}

/// What is left of a problem.
pub(crate) struct Reduced {
    /// Components that share no class; none if the budget ended before they were known.
    pub cores: Option<Vec<Core>>,
    /// What every choice pays besides.
    pub base: u64,
    /// The node of each class that has one left only.
    pub only: Vec<Option<usize>>,
}

/// Reduces until nothing changes, or for [`ROUNDS`]:
///
/// - Nodes that cannot be computed, or are not reached from the roots, go.
/// - The *landmarks* of a class are the classes in every derivation of it (the greatest solution of
///   Keyder, Richter and Helmert, "Sound and complete landmarks for AND/OR graphs", 2010). A node
///   below which its own class is a landmark goes; so does one that is no cheaper than another of
///   its class whose children are landmarks below it.
/// - Every choice pays the cheapest node of each landmark of the roots, which become roots; where
///   no cycle goes through a child that is one, it is no child any longer.
/// - A class with one node, which is free or of one user, merges into its users.
///
/// Ends early, less reduced, where the budget does.
pub(crate) fn reduce(problem: &Problem, costs: &[u64], budget: &mut Budget) -> Reduced {
    let nodes = &problem.nodes;
    let work = Work::new(
        problem.classes,
        nodes.iter().map(|n| n.class).collect(),
        costs.to_vec(),
        nodes.iter().map(|n| sorted(&n.children)).collect(),
        vec![true; nodes.len()],
        sorted(&problem.roots),
    );
    work.reduced(budget)
}

/// Reduces a component once more, of which only some nodes are left.
pub(crate) fn reduce_again(core: &Core, alive: &FixedBitSet, budget: &mut Budget) -> Reduced {
    let wide = |list: &[u32]| list.iter().map(|c| *c as usize).collect::<Vec<usize>>();
    let nodes = 0..core.nodes();
    let mut work = Work::new(
        core.classes,
        wide(&core.class),
        core.cost.clone(),
        nodes.clone().map(|i| wide(core.children.of(i))).collect(),
        nodes.map(|i| alive.contains(i)).collect(),
        sorted(&wide(&core.roots)),
    );
    for pair in 0..core.pairs {
        for &node in core.meetings.of(pair) {
            work.meets[node as usize].push(pair as u32);
        }
    }
    work.pairs = core.pairs;
    work.reduced(budget)
}

fn sorted<T: Copy + Ord>(list: &[T]) -> Vec<T> {
    let mut list = list.to_vec();
    list.sort_unstable();
    list.dedup();
    list
}

impl Work {
    fn new(
        classes: usize,
        class: Vec<usize>,
        cost: Vec<u64>,
        children: Vec<Vec<usize>>,
        alive: Vec<bool>,
        roots: Vec<usize>,
    ) -> Work {
        let mut members = vec![Vec::new(); classes];
        for (i, &class) in class.iter().enumerate() {
            if alive[i] {
                members[class].push(i);
            }
        }
        Work {
            classes,
            class,
            cost,
            children,
            meets: vec![Vec::new(); alive.len()],
            pairs: 0,
            is_met: false,
            alive,
            members,
            roots,
            base: 0,
        }
    }

    fn reduced(mut self, budget: &mut Budget) -> Reduced {
        let mut only = vec![None; self.classes];
        for _ in 0..ROUNDS {
            let before = self.size();
            if !self.round(&mut only, budget) || self.size() == before {
                break;
            }
        }
        // Finding the components takes as long as a round.
        let cores = match budget.is_spent() {
            true => None,
            false => {
                self.unreached();
                Some(self.components())
            }
        };
        Reduced {
            cores,
            base: self.base,
            only,
        }
    }

    /// Nodes left, edges left, roots and base: unequal if anything changed.
    fn size(&self) -> (usize, usize, usize, u64) {
        let alive = || (0..self.alive.len()).filter(|&i| self.alive[i]);
        let edges = alive().map(|i| self.children[i].len()).sum();
        (alive().count(), edges, self.roots.len(), self.base)
    }

    /// One round, or what of it the budget allows; whether there may be another.
    fn round(&mut self, only: &mut [Option<usize>], budget: &mut Budget) -> bool {
        let (nodes, edges, ..) = self.size();
        let pass = (nodes + edges) as u64;
        self.unreached();
        if !budget.pay(pass) {
            return false;
        }
        self.landmarks(budget);
        if !budget.pay(pass) {
            return false;
        }
        self.unreached();
        for (class, members) in self.members.iter().enumerate() {
            if let [node] = members[..] {
                only[class] = Some(node);
            }
        }
        self.merge();
        if !budget.pay(2 * pass) {
            return false;
        }
        self.cut_roots();
        budget.pay(pass)
    }

    /// The nodes left that need each class.
    fn users(&self) -> Lists {
        let nodes = self.children.iter().enumerate();
        let alive = nodes.filter(|(i, _)| self.alive[*i]);
        Lists::inverse(
            self.classes,
            alive.map(|(i, children)| (i, children.iter().copied())),
        )
    }

    /// Removes what cannot be computed, needs its own class, or is not reached.
    fn unreached(&mut self) {
        let order = self.bottom_up();
        let mut computed = vec![false; self.classes];
        for class in order {
            computed[class] = true;
        }
        for i in 0..self.alive.len() {
            let children = &self.children[i];
            self.alive[i] &= children.iter().all(|&c| computed[c] && c != self.class[i]);
        }
        let mut reached = vec![false; self.classes];
        let mut stack = self.roots.clone();
        while let Some(class) = stack.pop() {
            if !std::mem::replace(&mut reached[class], true) {
                let alive = self.members[class].iter().filter(|&&i| self.alive[i]);
                stack.extend(alive.flat_map(|&i| &self.children[i]));
            }
        }
        for (i, alive) in self.alive.iter_mut().enumerate() {
            *alive &= reached[self.class[i]];
        }
        for members in &mut self.members {
            members.retain(|&i| self.alive[i]);
        }
    }

    /// The classes that can be computed, children first.
    fn bottom_up(&self) -> Vec<usize> {
        let users = self.users();
        let mut missing: Vec<usize> = self.children.iter().map(Vec::len).collect();
        let mut seen = vec![false; self.classes];
        let mut order = Vec::new();
        for (i, &n) in missing.iter().enumerate() {
            if self.alive[i] && n == 0 && !std::mem::replace(&mut seen[self.class[i]], true) {
                order.push(self.class[i]);
            }
        }
        let mut next = 0;
        while let Some(&class) = order.get(next) {
            next += 1;
            for &user in users.of(class) {
                let user = user as usize;
                missing[user] -= 1;
                let class = self.class[user];
                if missing[user] == 0 && !std::mem::replace(&mut seen[class], true) {
                    order.push(class);
                }
            }
        }
        order
    }

    /// Removes nodes by landmarks, makes the roots' landmarks roots and pays them.
    fn landmarks(&mut self, budget: &mut Budget) {
        let live: Vec<usize> = self.bottom_up();
        if Table::bits(live.len()) <= TABLE_BITS
            && let Some(table) = self.table(live, budget)
        {
            self.dominated(&table);
            let mut roots = FixedBitSet::with_capacity(self.classes);
            for &root in &self.roots {
                for class in table.of(root) {
                    roots.insert(class);
                }
            }
            self.roots = roots.ones().collect();
            if !std::mem::replace(&mut self.is_met, true) {
                self.meet(budget);
            }
        }
        for &root in &self.roots {
            let members = &self.members[root];
            let alive = || members.iter().filter(|&&i| self.alive[i]);
            let least = alive().map(|&i| self.cost[i]).min().unwrap_or(0);
            self.base += least;
            let alive: Vec<usize> = alive().copied().collect();
            for i in alive {
                self.cost[i] -= least;
            }
        }
    }

    /// Looks for the pairs of roots that meet in nodes, where roots are leaves.
    fn meet(&mut self, budget: &mut Budget) {
        let order = self.bottom_up();
        let users = self.users();
        let mut is_root = vec![false; self.classes];
        self.roots.iter().for_each(|&root| is_root[root] = true);
        // A root has nothing below it.
        let leaf = |class: usize| is_root[class].then_some(&[][..]);
        let nodes = |class: usize| {
            let inner = leaf(class).is_none().then(|| self.below(class));
            leaf(class).into_iter().chain(inner.into_iter().flatten())
        };
        let above = |class: usize| self.above(&users, class);
        let table = Table::new(
            self.classes,
            order,
            |class| is_root[class],
            nodes,
            above,
            budget,
        );
        let Some(table) = table else {
            return;
        };
        let nodes = (0..self.alive.len()).filter(|i| self.alive[*i]);
        let nodes = nodes.map(|i| (i, &self.children[i][..]));
        let found = meetings(self.classes, &table, nodes, budget);
        for (node, pair) in found {
            self.meets[node].push((self.pairs + pair) as u32);
        }
    }

    fn table(&self, order: Vec<usize>, budget: &mut Budget) -> Option<Table> {
        let users = self.users();
        let nodes = |class: usize| self.below(class);
        let above = |class: usize| self.above(&users, class);
        Table::new(self.classes, order, |_| true, nodes, above, budget)
    }

    /// The children of each node of a class.
    fn below(&self, class: usize) -> impl Iterator<Item = &[usize]> + Clone {
        let alive = self.members[class].iter().filter(|&&i| self.alive[i]);
        alive.map(|&i| &self.children[i][..])
    }

    /// The classes of the nodes that need one.
    fn above(&self, users: &Lists, class: usize) -> impl Iterator<Item = usize> {
        let users = users.of(class).iter();
        users.map(|&i| self.class[i as usize])
    }

    fn dominated(&mut self, table: &Table) {
        for class in 0..self.classes {
            let mut members = self.members[class].clone();
            members.retain(|&i| self.alive[i]);
            members.sort_by_key(|&i| (self.cost[i], i));
            if members.len() < 2 {
                continue;
            }
            let children = |k: usize| &self.children[members[k]][..];
            let needs_itself = |&k: &usize| table.is_below(children(k), class);
            let selfish: Vec<usize> = (0..members.len()).filter(needs_itself).collect();
            for k in selfish {
                self.alive[members[k]] = false;
            }
            // Whether all that another node needs is computed in any case.
            let children = |k: usize| &self.children[members[k]][..];
            let covers = |k: usize, by: usize| {
                let mut needed = children(by).iter();
                needed.all(|&c| table.is_below(children(k), c))
            };
            let mut gone = vec![false; members.len()];
            for (k, &i) in members.iter().enumerate() {
                let rivals = members.iter().enumerate().take(RIVALS);
                gone[k] = rivals
                    .filter(|&(r, &j)| r != k && !gone[r] && self.alive[j])
                    .any(|(r, &j)| {
                        let cheaper = self.cost[j] < self.cost[i];
                        let same = self.cost[j] == self.cost[i];
                        let wins = cheaper || same && (j < i || !covers(r, k));
                        wins && covers(k, r)
                    });
            }
            for (k, &i) in members.iter().enumerate() {
                self.alive[i] &= !gone[k];
            }
        }
    }

    /// Merges classes with one node into the nodes that need them.
    fn merge(&mut self) {
        let users = self.users();
        let wide = |class| users.of(class).iter().map(|&i| i as usize).collect();
        let mut users: Vec<Vec<usize>> = (0..self.classes).map(wide).collect();
        for class in 0..self.classes {
            let [node] = self.members[class][..] else {
                continue;
            };
            let is_root = self.roots.binary_search(&class).is_ok();
            let free = self.cost[node] == 0;
            let needs_itself = self.children[node].contains(&class);
            let (above, below) = (users[class].len(), self.children[node].len());
            let small = above * below <= EDGES * (above + below);
            if needs_itself || !(free && small || above == 1 && !is_root) {
                continue;
            }
            let (cost, children) = (self.cost[node], self.children[node].clone());
            let met = self.meets[node].clone();
            for user in std::mem::take(&mut users[class]) {
                self.cost[user] += cost;
                self.meets[user] = sorted(&[&self.meets[user][..], &met].concat());
                let list = &mut self.children[user];
                list.retain(|&c| c != class);
                for &child in &children {
                    if let Err(at) = list.binary_search(&child) {
                        list.insert(at, child);
                        users[child].push(user);
                    }
                }
            }
            if is_root {
                self.roots.retain(|&r| r != class);
                self.roots.extend(&children);
                self.roots = sorted(&self.roots);
            }
            for child in children {
                users[child].retain(|&u| u != node);
            }
            self.alive[node] = false;
            self.members[class].clear();
        }
    }

    /// Roots are no children where no cycle goes through them.
    fn cut_roots(&mut self) {
        let component = cycles(self.classes, &self.edges());
        let mut is_root = vec![false; self.classes];
        self.roots.iter().for_each(|&r| is_root[r] = true);
        for (i, children) in self.children.iter_mut().enumerate() {
            let own = component[self.class[i]];
            children.retain(|&c| !is_root[c] || component[c] == own);
        }
    }
    /// From class to class, through the nodes left.
    fn edges(&self) -> Vec<Vec<usize>> {
        let of = |members: &Vec<usize>| {
            let alive = members.iter().filter(|&&i| self.alive[i]);
            let mut all: Vec<usize> = alive.flat_map(|&i| &self.children[i]).copied().collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        self.members.iter().map(of).collect()
    }

    fn components(&self) -> Vec<Core> {
        let alive = (0..self.alive.len()).filter(|&i| self.alive[i]);
        let parts = alive.map(|i| CoreNode {
            class: self.class[i] as u32,
            cost: self.cost[i],
            children: self.children[i].iter().map(|&c| c as u32).collect(),
            origin: i,
            meets: self.meets[i].clone(),
        });
        let (count, component) = components(self.classes, &self.edges());
        Core::split(count, &component, parts.collect(), &self.roots)
    }
}
