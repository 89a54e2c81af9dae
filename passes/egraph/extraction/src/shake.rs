//! Local search in large neighbourhoods: what some classes beside one another were given is forgotten, and found anew at costs
//! that are off at random; from there on local search by [`Exchange`](crate::exchange::Exchange).
//!
//! Sources: Shaw, "Using constraint programming and local search methods to solve vehicle routing problems", 1998 (large
//! neighbourhoods); Charon and Hudry, "The noising method: a new method for combinatorial optimization", 1993.

use fixedbitset::FixedBitSet;

use crate::budget::Budget;
use crate::search::Search;

/// Classes that are forgotten at most, and at least.
const CLASSES: std::ops::RangeInclusive<usize> = 2..=32;
/// Costs are off by these shares at most, one after the other.
const NOISE: [f64; 4] = [0.05, 0.2, 0.5, 1.0];
/// Random numbers are the same each time.
const SEED: u64 = 1;

impl Search<'_> {
    /// Searches until the stage ends or nothing cheaper is left.
    pub(crate) fn shake(&mut self, budget: &mut Budget) {
        let mut random = fastrand::Rng::with_seed(SEED);
        let (mut choice, mut cost) = (self.choice.clone(), self.cost);
        for noise in NOISE.into_iter().cycle() {
            if self.done() || !budget.lasts() {
                return;
            }
            let forgotten = self.neighbours(&choice, &mut random, budget);
            let core = self.core;
            let off: Vec<f64> = (0..core.nodes())
                .map(|_| 1.0 + noise * random.f64())
                .collect();
            let price = |i: usize| {
                let class = core.class[i] as usize;
                let cost = core.cost[i];
                let paid = choice[class] == Some(i as u32);
                let price = match (forgotten.contains(class), paid) {
                    (true, _) => (cost as f64 * off[i]) as u64,
                    (false, true) => 0,
                    (false, false) => cost,
                };
                (price, cost)
            };
            let Some((start, _)) = self.trees(None, budget, price) else {
                return;
            };
            let mut tried = forgotten;
            for class in 0..core.classes {
                if start[class] != choice[class] {
                    tried.insert(class);
                }
            }
            let (found, found_cost) = self.exchanged(start, tried, budget);
            // What is as good is another place to go on from.
            if found_cost <= cost {
                (choice, cost) = (found, found_cost);
            }
            if cost < self.cost {
                (self.choice, self.cost, self.method) = (choice.clone(), cost, "local search");
            }
        }
    }

    /// Some needed classes beside one another: what one at random needs and is needed by.
    fn neighbours(
        &self,
        choice: &[Option<u32>],
        random: &mut fastrand::Rng,
        budget: &mut Budget,
    ) -> FixedBitSet {
        let core = self.core;
        let mut found = FixedBitSet::with_capacity(core.classes);
        let needed: Vec<u32> = (0..core.classes as u32)
            .filter(|class| choice[*class as usize].is_some())
            .collect();
        if needed.is_empty() {
            return found;
        }
        // As many small neighbourhoods as large ones, by their logarithm.
        let (low, high) = (*CLASSES.start() as f64, *CLASSES.end() as f64);
        let count = (low * (high / low).powf(random.f64())) as usize;
        let mut work = vec![needed[random.usize(..needed.len())]];
        let mut steps = needed.len() as u64;
        while found.count_ones(..) < count && !work.is_empty() {
            let class = work.swap_remove(random.usize(..work.len()));
            if found.put(class as usize) {
                continue;
            }
            let Some(node) = choice[class as usize] else {
                continue;
            };
            work.extend(core.children.of(node as usize));
            for &user in core.users.of(class as usize) {
                steps += 1;
                let above = core.class[user as usize];
                if choice[above as usize] == Some(user) {
                    work.push(above);
                }
            }
        }
        budget.pay(steps);
        found
    }
}
