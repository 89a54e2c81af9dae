//! Local search that looks at what changes only: a class gets another node, and classes that
//! could use what thereby came in follow.
//!
//! The one move that single changes cannot make is that to a node of use to several classes (one
//! product for two that share an operand): for the first of them it only costs more. So a change
//! that costs more is kept while the classes above what came in are offered it too, and is undone
//! if all together still cost more: an ejection chain (Glover, "Ejection chains, reference
//! structures and alternating path methods", 1996).

use crate::core::Core;
use crate::sweep::NONE;
use fixedbitset::FixedBitSet;

/// How many classes that are not needed may lie between what came in and a class that follows.
const HOPS: usize = 3;
/// At most so many ways up from what came in are looked at.
const WAYS: usize = 256;

/// A choice with the number of users of each class.
pub(crate) struct Exchange<'c> {
    core: &'c Core,
    alive: &'c FixedBitSet,
    /// The node of each class; for classes that are not needed the one they would get.
    choice: Vec<u32>,
    /// How many chosen nodes and roots need a class.
    users: Vec<u32>,
    /// What the needed classes cost.
    pub cost: u64,
    /// What was done, to be undone.
    log: Vec<Change>,
    /// Classes that came to be needed since the last change that was asked for.
    entered: Vec<u32>,
    /// The ways from needed classes down to these, as far as they are found.
    ways: Vec<Way>,
    /// Ways to these from classes that are not needed.
    open: Vec<Way>,
    /// Classes to look at, of a walk from one class to others.
    stack: Vec<u32>,
    /// Classes on the way of a walk that comes back to them, each with its next child.
    path: Vec<(u32, usize)>,
    /// By class, its place in an order of what was needed at the last change that was kept,
    /// children first; [`NONE`] for the others.
    place: Vec<u32>,
    /// By class, the last walk that saw it, and whether that is on its way still.
    seen: Vec<(u32, bool)>,
    walk: u32,
    /// Classes that changed since the start, and those above them.
    pub touched: FixedBitSet,
    /// Classes and nodes looked at.
    pub steps: u64,
}

enum Change {
    /// A class had this node.
    Choice(u32, u32),
    /// A class is needed once more.
    Need(u32),
    /// A class is needed once less.
    Free(u32),
}

/// Nodes for classes, from the needed one down: to a class that came in, or without it.
#[derive(Clone, Copy)]
struct Way {
    steps: [(u32, u32); HOPS + 1],
    length: usize,
}

impl Way {
    /// To a class by its node.
    fn new(step: (u32, u32)) -> Self {
        let mut way = Way {
            steps: [(NONE, NONE); HOPS + 1],
            length: 1,
        };
        way.steps[0] = step;
        way
    }

    /// The same from one class further up. All steps are moved, whatever their number: ways are made by the million, and so many bytes
    /// are no more than a few registers. Whoever asks has seen that it may be longer.
    fn from(&self, above: (u32, u32)) -> Self {
        let mut way = Way {
            steps: [above; HOPS + 1],
            length: self.length + 1,
        };
        way.steps[1..].copy_from_slice(&self.steps[..HOPS]);
        way
    }

    /// The same without the last class.
    fn shorter(mut self) -> Self {
        self.length -= 1;
        self
    }

    fn steps(&self) -> &[(u32, u32)] {
        &self.steps[..self.length]
    }
}

impl<'c> Exchange<'c> {
    /// Starts from a choice of the needed classes and what the others would get.
    pub(crate) fn new(
        core: &'c Core,
        alive: &'c FixedBitSet,
        choice: &[Option<u32>],
        others: &[Option<u32>],
    ) -> Self {
        let either = choice.iter().zip(others);
        let mut exchange = Exchange {
            core,
            alive,
            choice: either.map(|(a, b)| a.or(*b).unwrap_or(NONE)).collect(),
            users: vec![0; core.classes],
            cost: 0,
            log: Vec::new(),
            entered: Vec::new(),
            ways: Vec::new(),
            open: Vec::new(),
            stack: Vec::new(),
            path: Vec::new(),
            place: vec![NONE; core.classes],
            seen: vec![(0, false); core.classes],
            walk: 0,
            touched: FixedBitSet::with_capacity(core.classes),
            steps: 0,
        };
        for &root in &core.roots {
            exchange.need(root);
        }
        exchange.log.clear();
        exchange.keep();
        exchange
    }

    /// The nodes of the classes that are needed.
    pub(crate) fn chosen(&self) -> Vec<Option<u32>> {
        let needed = self.users.iter().zip(&self.choice);
        needed.map(|(n, &node)| (*n > 0).then_some(node)).collect()
    }

    /// Tries every other node of a class; whether one was better.
    pub(crate) fn improve(&mut self, class: u32) -> bool {
        let mut better = false;
        let members = self.core.members.of(class as usize);
        for &node in members {
            if self.users[class as usize] == 0 {
                break;
            }
            let usable = self.alive.contains(node as usize) && self.computable(node);
            if usable && node != self.choice[class as usize] {
                better |= self.attempt(class, node);
            }
        }
        better
    }

    fn computable(&self, node: u32) -> bool {
        let children = self.core.children.of(node as usize);
        children.iter().all(|&c| self.choice[c as usize] != NONE)
    }

    /// Gives a class another node, lets others follow, and undoes it all if that is no better.
    fn attempt(&mut self, class: u32, node: u32) -> bool {
        let before = self.cost;
        self.entered.clear();
        self.ways.clear();
        self.set(class, node);
        if self.cost >= before {
            self.find_ways(class);
        }
        if self.cost >= before && self.ways.is_empty() || !self.is_acyclic(class) {
            self.undo(0);
            return false;
        }
        for k in 0..self.ways.len() {
            let way = self.ways[k];
            self.follow(way.steps());
        }
        if self.cost >= before {
            self.undo(0);
            return false;
        }
        self.keep();
        true
    }

    /// Keeps what was done, and puts what is needed in order.
    fn keep(&mut self) {
        let core = self.core;
        for change in self.log.drain(..) {
            let (Change::Choice(class, _) | Change::Need(class) | Change::Free(class)) = change;
            self.touched.insert(class as usize);
            for &user in core.users.of(class as usize) {
                self.touched.insert(core.class[user as usize] as usize);
            }
        }
        self.place.fill(NONE);
        self.walk += 1;
        let mut count = 0;
        let mut path = std::mem::take(&mut self.path);
        for &root in &core.roots {
            path.clear();
            path.push((root, 0));
            while let Some(top) = path.last_mut() {
                let (class, next) = *top;
                top.1 += 1;
                self.steps += 1;
                let node = self.choice[class as usize] as usize;
                match core.children.of(node).get(next) {
                    Some(&child) if self.seen[child as usize].0 != self.walk => {
                        self.seen[child as usize].0 = self.walk;
                        path.push((child, 0));
                    }
                    Some(_) => {}
                    None => {
                        if self.place[class as usize] == NONE {
                            self.place[class as usize] = count;
                            count += 1;
                        }
                        path.pop();
                    }
                }
            }
        }
        self.path = path;
    }

    /// Takes a way to what came in, if that is better.
    fn follow(&mut self, way: &[(u32, u32)]) {
        let top = way[0];
        let usable = self.users[top.0 as usize] > 0 && self.choice[top.0 as usize] != top.1;
        if !usable || !way.iter().all(|(_, node)| self.computable(*node)) {
            return;
        }
        let (mark, cost) = (self.log.len(), self.cost);
        for &(class, node) in way.iter().rev() {
            self.set(class, node);
        }
        if self.cost >= cost || !self.is_acyclic(top.0) {
            self.undo(mark);
        }
    }

    /// Finds the ways from needed classes down to the classes that came in.
    fn find_ways(&mut self, class: u32) {
        let core = self.core;
        self.open.clear();
        for &low in &self.entered {
            let node = self.choice[low as usize];
            if core.cost[node as usize] > 0 {
                self.open.push(Way::new((low, node)));
            }
        }
        let mut next = 0;
        while next < self.open.len() && self.ways.len() < WAYS && self.open.len() < 4 * WAYS {
            let below = self.open[next];
            next += 1;
            for &user in core.users.of(below.steps[0].0 as usize) {
                self.steps += 1;
                let above = core.class[user as usize];
                let is_known = || below.steps().iter().any(|(class, _)| *class == above);
                if !self.alive.contains(user as usize) || above == class || is_known() {
                    continue;
                }
                if self.users[above as usize] == 0 {
                    if below.length <= HOPS {
                        self.open.push(below.from((above, user)));
                    }
                } else if self.choice[above as usize] != user {
                    // What came in has its node already.
                    self.ways.push(below.shorter().from((above, user)));
                }
            }
        }
    }

    /// Gives a class another node, needed or not.
    fn set(&mut self, class: u32, node: u32) {
        let core = self.core;
        let old = std::mem::replace(&mut self.choice[class as usize], node);
        self.log.push(Change::Choice(class, old));
        if self.users[class as usize] > 0 {
            self.cost = self.cost + core.cost[node as usize] - core.cost[old as usize];
            for &child in core.children.of(node as usize) {
                self.need(child);
            }
            for &child in core.children.of(old as usize) {
                self.free(child);
            }
        }
    }

    fn need(&mut self, class: u32) {
        self.stack.push(class);
        while let Some(class) = self.stack.pop() {
            self.steps += 1;
            self.log.push(Change::Need(class));
            self.users[class as usize] += 1;
            if self.users[class as usize] == 1 {
                let node = self.choice[class as usize] as usize;
                self.cost += self.core.cost[node];
                self.entered.push(class);
                self.stack.extend(self.core.children.of(node));
            }
        }
    }

    fn free(&mut self, class: u32) {
        self.stack.push(class);
        while let Some(class) = self.stack.pop() {
            self.steps += 1;
            self.log.push(Change::Free(class));
            self.users[class as usize] -= 1;
            if self.users[class as usize] == 0 {
                let node = self.choice[class as usize] as usize;
                self.cost -= self.core.cost[node];
                self.stack.extend(self.core.children.of(node));
            }
        }
    }

    /// Undoes all but so many changes. Costs follow from what is needed with which node, so that
    /// each change is undone by itself.
    fn undo(&mut self, kept: usize) {
        while self.log.len() > kept {
            let cost = |class: u32| self.core.cost[self.choice[class as usize] as usize];
            match self.log.pop() {
                Some(Change::Need(class)) => {
                    self.users[class as usize] -= 1;
                    if self.users[class as usize] == 0 {
                        self.cost -= cost(class);
                    }
                }
                Some(Change::Free(class)) => {
                    self.users[class as usize] += 1;
                    if self.users[class as usize] == 1 {
                        self.cost += cost(class);
                    }
                }
                Some(Change::Choice(class, old)) => {
                    if self.users[class as usize] > 0 {
                        self.cost = self.cost + self.core.cost[old as usize] - cost(class);
                    }
                    self.choice[class as usize] = old;
                }
                None => return,
            }
        }
    }

    /// Whether no class that a class needs, directly or not, needs itself. What stood below all
    /// that changed needs what it did, which is acyclic.
    fn is_acyclic(&mut self, class: u32) -> bool {
        self.walk += 1;
        let changed = self.log.iter().filter_map(|change| match change {
            Change::Choice(class, _) => Some(self.place[*class as usize]),
            _ => None,
        });
        let lowest = changed.min().unwrap_or(NONE);
        self.path.clear();
        self.path.push((class, 0));
        self.seen[class as usize] = (self.walk, true);
        while let Some(top) = self.path.last_mut() {
            let (class, next) = *top;
            top.1 += 1;
            self.steps += 1;
            let node = self.choice[class as usize] as usize;
            let Some(&child) = self.core.children.of(node).get(next) else {
                self.seen[class as usize].1 = false;
                self.path.pop();
                continue;
            };
            match self.seen[child as usize] {
                (walk, true) if walk == self.walk => return false,
                (walk, false) if walk == self.walk => {}
                _ if self.place[child as usize] < lowest => {}
                _ => {
                    self.seen[child as usize] = (self.walk, true);
                    self.path.push((child, 0));
                }
            }
        }
        true
    }
}
