//! Prices of groups in the place of what was expected of them.

use rustc_hash::{FxHashMap, FxHashSet};
use tir::PassCx;
use tir_extraction::Solution;

use super::super::body::{Body, Price};
use super::{Groups, Terms};

/// A group that does not run as one nest takes so many times what its ops are said to.
const APART: f64 = 8.0;

/// Groups of few dimensions are planned at once where they are so many quarters of all: otherwise others decide.
const MOST: usize = 3;

/// The others are, too, where they are no more than one in so many: with all known, one extraction is all there is.
const REST: usize = 6;

/// Prices of bodies.
pub(super) struct Prices<'a> {
    /// By number.
    known: FxHashMap<usize, Option<u64>>,
    /// How many of them were planned before one was chosen.
    at_once: usize,
    price: &'a dyn Price,
    cx: &'a PassCx<'a>,
}

impl<'a> Prices<'a> {
    pub(super) fn new(price: &'a dyn Price, cx: &'a PassCx<'a>) -> Self {
        Self {
            known: FxHashMap::default(),
            at_once: 0,
            price,
            cx,
        }
    }

    /// How many bodies were planned.
    pub(super) fn count(&self) -> usize {
        self.known.len()
    }

    /// How many of them were planned since they were to be chosen from.
    pub(super) fn by_need(&self) -> usize {
        self.known.len() - self.at_once
    }

    /// Plans those of some bodies that were not, family by family: within one the fewest ops first, as what is known of a group tells
    /// most of those with more steps behind.
    fn plan(&mut self, mut families: Vec<Vec<usize>>, all: &[Body]) {
        for family in &mut families {
            family.retain(|number| !self.known.contains_key(number));
            family.sort_by_key(|number| (all[*number].parts.len(), *number));
        }
        families.retain(|family| !family.is_empty());
        let (price, cx) = (self.price, self.cx);
        let planned = cx.map(families, |family| {
            let of = |number: usize| (number, price.cycles(&all[number], cx));
            family.into_iter().map(of).collect::<Vec<_>>()
        });
        self.known.extend(planned.into_iter().flatten());
    }
}

impl Groups {
    /// Prices what is to be planned before one is chosen.
    pub(super) fn price_at_once(&mut self, prices: &mut Prices<'_>, terms: Terms) {
        let few = |body: &Body| body.rank() <= terms.at_once;
        let taken: Vec<bool> = self.all.iter().map(few).collect();
        let count = taken.iter().filter(|taken| **taken).count();
        let all = self.all.len();
        if count <= terms.plans && MOST * all <= count * 4 {
            let others = all <= terms.plans && REST * (all - count) <= all;
            let taken = |group: &usize| {
                let body = self.bodies[*group];
                body.is_some_and(|body| others || taken[body]) && !self.priced[*group]
            };
            let fresh = (0..self.cuts.len()).filter(taken).collect();
            self.price_all(fresh, prices);
        }
        prices.at_once = prices.count();
    }

    /// Prices groups, and all that computes the same.
    fn price_all(&mut self, groups: Vec<usize>, prices: &mut Prices<'_>) {
        let mut families: Vec<Vec<usize>> = Vec::new();
        let mut places: FxHashMap<Option<usize>, usize> = FxHashMap::default();
        let mut seen = FxHashSet::default();
        for group in &groups {
            if let Some(body) = self.bodies[*group].filter(|body| seen.insert(*body)) {
                let next = families.len();
                let place = *places.entry(self.anchors[*group]).or_insert(next);
                if place == next {
                    families.push(Vec::new());
                }
                families[place].push(body);
            }
        }
        prices.plan(families, &self.all);
        for group in groups {
            let Some(body) = self.bodies[group] else {
                self.put(group, None);
                continue;
            };
            let cycles = prices.known.get(&body).copied().flatten();
            for group in std::mem::take(&mut self.same[body]) {
                self.put(group, cycles);
            }
        }
    }

    /// Prices what of a choice is not priced, and all that computes the same; says how many groups of the choice that were.
    pub(super) fn price(&mut self, solution: &Solution, prices: &mut Prices<'_>) -> usize {
        let mut fresh: Vec<usize> = solution.choice.iter().flatten().copied().collect();
        fresh.retain(|group| !self.priced[*group]);
        fresh.sort_unstable();
        let count = fresh.len();
        self.price_all(fresh, prices);
        count
    }

    /// Keeps a choice, all groups of which are priced, if it is the best one.
    pub(super) fn offer(&self, best: &mut Option<Solution>, mut solution: Solution) {
        let groups = solution
            .order
            .iter()
            .filter_map(|class| solution.choice[*class]);
        solution.cost = groups.map(|group| self.problem.nodes[group].cost).sum();
        if best.as_ref().is_none_or(|best| solution.cost < best.cost) {
            *best = Some(solution);
        }
    }

    /// Puts the price of a group in the place of its bound.
    fn put(&mut self, group: usize, cycles: Option<u64>) {
        let apart = APART * (self.apart[group] + 1.0);
        let (guess, bound) = (self.guesses[group], self.problem.nodes[group].cost);
        let below = |cycles: u64| cycles > 0 && (cycles as f64) < bound;
        self.below += usize::from(cycles.is_some_and(below));
        self.problem.nodes[group].cost = cycles.map_or(apart, |cycles| cycles as f64);
        if let Some(anchor) = self.anchors[group]
            && let Some(cycles) = cycles.filter(|_| guess > 0.0)
        {
            let share = cycles as f64 / guess;
            let hope = self.hopes.entry(anchor).or_insert(share);
            *hope = hope.min(share);
        }
        self.priced[group] = true;
    }
}
