//! Extraction again and again, each time with more groups planned.

use tir_extraction::Solution;

use super::prices::Prices;
use super::{Groups, Terms};

/// So many times the steps has an extraction behind one that found nothing to plan.
const FARTHER: u64 = 5;

/// What a search for groups ended with.
pub(super) struct Searched {
    /// The limit that it reached.
    pub(super) limit: Option<(&'static str, usize)>,
    /// The best choice before it had more steps, or went by bounds.
    pub(super) earlier: Option<Solution>,
    /// Times that extraction ran.
    pub(super) rounds: usize,
}

impl Groups {
    /// The choice of groups that have a share, each at that share of its price, all of it planned; it is offered as it is.
    pub(super) fn settled(
        &mut self,
        share: &dyn Fn(&Self, usize) -> Option<f64>,
        best: &mut Option<Solution>,
        prices: &mut Prices<'_>,
        terms: Terms,
    ) -> Option<Solution> {
        let (mut last, mut solver) = (None, None);
        for _ in 0..terms.rounds {
            let given = |at| share(self, at);
            let Ok(solution) = self.solve(&given, None, terms.steps, &mut solver) else {
                break;
            };
            let fresh = self.price(&solution, prices);
            self.offer(best, solution.clone());
            last = Some(solution);
            if fresh == 0 || prices.by_need() >= terms.plans {
                break;
            }
        }
        last
    }

    /// Extracts among groups that have a share, each at that share of its price, plans what is chosen, and goes on as long as that
    /// brings something.
    pub(super) fn search(
        &mut self,
        share: &dyn Fn(&Self, usize) -> Option<f64>,
        best: &mut Option<Solution>,
        prices: &mut Prices<'_>,
        terms: Terms,
    ) -> Result<Searched, String> {
        let (mut rounds, mut solver) = (0, None);
        self.expects = true;
        let (mut least_yet, mut last_gain) = (f64::INFINITY, 0);
        // Where all has its price, one extraction is all there is.
        let known = self.priced.iter().all(|priced| *priced);
        let steps = if known { terms.most_steps } else { terms.steps };
        let (mut steps, mut earlier) = (steps, None);
        // Whether it is known what there is to gain by what is expected, and the limit that keeps it from being looked for.
        let (mut asked, mut kept_from) = (false, None);
        let limit = loop {
            if rounds - last_gain >= terms.rounds {
                break Some(("rounds", terms.rounds));
            }
            let by_need = prices.count() < self.all.len();
            if prices.by_need() >= terms.plans && by_need {
                break Some(("plans", terms.plans));
            }
            rounds += 1;
            let given = |at| share(self, at);
            let solution = self.solve(&given, best.as_ref(), steps, &mut solver)?;
            let (least, bound) = (solution.cost, solution.bound);
            let fresh = self.price(&solution, prices);
            self.offer(best, solution);
            let cost = best.as_ref().map_or(f64::INFINITY, |best| best.cost);
            if cost < Terms::without(terms.gain) * least_yet {
                (least_yet, last_gain) = (cost, rounds);
            }
            let near = Terms::without(terms.near);
            if bound >= near * cost {
                break kept_from;
            }
            // All that promises something is planned: what is left to find takes longer to find.
            if fresh == 0 || least >= near * cost {
                // What is expected misleads where much of what is left shares: where it leaves much to gain, bounds decide what is
                // planned from here on. That many are planned then is only good where they are few.
                let from = best.as_ref().filter(|_| self.expects && !asked && !known);
                asked = true;
                if let Some(from) = from
                    && self.expected(from, terms.steps)? < Terms::without(terms.gap) * cost
                {
                    if self.all.len() <= terms.plans {
                        earlier = earlier.or_else(|| best.clone());
                        self.expects = false;
                        last_gain = rounds;
                        continue;
                    }
                    kept_from = Some(("plans", terms.plans));
                }
                if steps >= terms.most_steps && last_gain < rounds {
                    break kept_from;
                }
                earlier = earlier.or_else(|| best.clone());
                steps = steps.saturating_mul(FARTHER).min(terms.most_steps);
            }
        };
        Ok(Searched {
            limit,
            earlier,
            rounds,
        })
    }
}
