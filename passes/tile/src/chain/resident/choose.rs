//! Which of the tensors that may stay do, by time or by bytes, and why others do not.

use std::collections::HashSet;

use tir::OpId;

use super::{Accept, Candidate, Home, NO_PLACE, Planner, SLACK, SLOWER, State, TOO_LARGE};
use crate::chain::home::Why;

/// All nests together are quicker by one in so many cycles at least where that decides.
const GAIN: i64 = 500;

/// Where near memory is plenty, all nests together may take one in so many cycles more for bytes that are not moved.
const WORTH: i64 = 8;

/// Orders of tensors that are tried at most, each with another one first.
const ORDERS: usize = 16;

/// Of a tensor that lies near for those that read it alone.
pub(super) const LOADED_ONCE: Why = "near memory has no place for it from where it is computed on; it is loaded once for all that read it";

/// A candidate by its number, and why it does not stay.
pub(super) type Refused = (usize, Why);

/// A tensor between nests that does not stay.
#[derive(Clone, Debug)]
pub struct Far {
    /// The generic that computes it.
    pub op: OpId,
    /// Why.
    pub why: &'static str,
    /// The groups that compute it and read it by number, the first and the last.
    pub(in crate::chain) groups: (usize, usize),
    /// Bytes that it moves: it is stored once, and loaded by each nest that reads it.
    pub bytes: i64,
    /// What there is to say of what would help.
    pub help: Option<String>,
}

impl Far {
    /// Whether it has no place in near memory, or leaves nests none.
    pub(in crate::chain) fn has_no_room(&self) -> bool {
        [NO_PLACE, TOO_LARGE, LOADED_ONCE].contains(&self.why)
    }
}

impl Candidate {
    /// The same tensor, computed into far memory and loaded once for all that read it, if several do.
    fn loaded(&self) -> Option<Self> {
        let last = self.readers.iter().copied().min()?;
        let first = self.readers.iter().copied().max()?;
        let several = self.is_put_together() && self.reads > 1;
        several.then(|| Self {
            value: self.value,
            writers: Vec::new(),
            places: Vec::new(),
            loads: Vec::new(),
            shared: Vec::new(),
            through: Vec::new(),
            apart: None,
            readers: self.readers.clone(),
            reads: self.reads,
            life: (last, first),
        })
    }
}

impl Planner<'_> {
    /// The state with one more tensor that stays, or is loaded once if it does not.
    fn stays(&self, state: &State, candidate: &Candidate, accept: Accept) -> Result<State, Why> {
        let apart = candidate.apart.as_deref();
        let ways = [
            candidate.with_copies(),
            apart.cloned(),
            apart.and_then(Candidate::with_copies),
        ];
        let first = self.with(state, candidate, accept);
        let why = first.as_ref().err().copied();
        // Of several ways in which it may stay the one that is worth the most.
        let others = ways.iter().flatten();
        let others = others.filter_map(|other| self.with(state, other, accept).ok());
        let mut found: Vec<State> = first.into_iter().chain(others).collect();
        if found.len() > 1 {
            found.sort_by_cached_key(|state| self.around(state, candidate));
        }
        if let Some(best) = found.into_iter().next() {
            return Ok(best);
        }
        let why = why.unwrap_or(SLOWER);
        let loaded = candidate.loaded().ok_or(why)?;
        self.with(state, &loaded, accept).map_err(|_| why)
    }

    /// What stays by a policy, one by one in the order of the candidates, and the numbers of those that do not.
    pub(super) fn chosen(
        &self,
        before: &State,
        candidates: &[Candidate],
        accept: Accept,
    ) -> (State, Vec<Refused>) {
        self.in_order(before, candidates, accept, 0..candidates.len())
    }

    /// What stays by a policy, one by one in an order, and the numbers of those that do not.
    fn in_order(
        &self,
        before: &State,
        candidates: &[Candidate],
        accept: Accept,
        order: impl Iterator<Item = usize>,
    ) -> (State, Vec<Refused>) {
        let (mut state, mut refused) = (before.clone(), Vec::new());
        for number in order {
            match self.stays(&state, &candidates[number], accept) {
                Ok(next) => state = next,
                Err(why) => refused.push((number, why)),
            }
        }
        (state, refused)
    }

    /// What stays where tensors that found no room for those before them come first, as long as fewer bytes move for it: what
    /// stays takes room from what is tried behind it, so the order decides, and none of them is the best everywhere.
    pub(super) fn refused_first(
        &self,
        before: &State,
        candidates: &[Candidate],
        accept: Accept,
    ) -> (State, Vec<Refused>) {
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        let (mut best, mut refused) = self.chosen(before, candidates, accept);
        let mut least = self.together(&best);
        let mut tried = HashSet::new();
        while tried.len() < ORDERS {
            let no_room = |(number, why): &Refused| {
                let without = [NO_PLACE, TOO_LARGE].contains(why);
                (without && !tried.contains(number)).then_some(*number)
            };
            let bytes = |number: &usize| {
                let times = i64::try_from(candidates[*number].reads).unwrap_or(i64::MAX);
                let bytes = self.bytes(candidates[*number].value);
                (bytes.saturating_mul(times), std::cmp::Reverse(*number))
            };
            let Some(number) = refused.iter().filter_map(no_room).max_by_key(bytes) else {
                break;
            };
            tried.insert(number);
            let mut other = order.clone();
            other.retain(|o| *o != number);
            other.insert(0, number);
            let next = self.in_order(before, candidates, accept, other.iter().copied());
            let then = self.together(&next.0);
            if then < least {
                (least, order) = (then, other);
                (best, refused) = next;
            }
        }
        (best, refused)
    }

    /// Of what stays by time, what stays then of the others as long as that makes all nests together quicker, and what stays
    /// by bytes, the quickest.
    pub(super) fn cheapest(
        &self,
        state: &State,
        refused: Vec<Refused>,
        candidates: &[Candidate],
        before: &State,
    ) -> (State, Vec<Refused>) {
        let (mut best, mut left) = (state.clone(), Vec::new());
        // With one more tensor that stays, by what changes around it.
        let mut cycles = self.together(&best);
        let gains = |then: i64, now: i64| then.saturating_add(now / GAIN) < now;
        for (number, why) in refused {
            let candidate = &candidates[number];
            let next = self.stays(&best, candidate, Accept::All).ok();
            let next = next.map(|next| {
                let [before, then] = [&best, &next].map(|state| self.around(state, candidate));
                (cycles.saturating_add(then - before), next)
            });
            match next.filter(|(then, _)| gains(*then, cycles)) {
                Some(next) => (cycles, best) = next,
                None => left.push((number, why)),
            }
        }
        let (other, others) = self.chosen(before, candidates, Accept::Fewer);
        match gains(self.together(&other), self.together(&best)) {
            true => (other, others),
            false => (best, left),
        }
    }

    /// What stays, where all nests together are no slower for it than bytes that are not moved are worth; otherwise what stays by
    /// the cycles of nests alone, or nothing.
    pub(super) fn no_slower(
        &self,
        found: (State, Vec<Refused>),
        candidates: &[Candidate],
        before: State,
    ) -> (State, Vec<Refused>) {
        let none = self.together(&before);
        if self.together(&found.0) <= none.saturating_add(none / WORTH) {
            return found;
        }
        let found = self.chosen(&before, candidates, Accept::Quicker);
        if self.together(&found.0) <= none.saturating_add(none / SLACK) {
            return found;
        }
        let all = (0..candidates.len()).map(|number| (number, SLOWER));
        (before, all.collect())
    }

    /// The candidates that nests could compute in near memory, and that are loaded once from far memory for all that read them.
    pub(super) fn loaded_once(&self, state: &State, candidates: &[Candidate]) -> Vec<usize> {
        let loaded = |candidate: &&Candidate| {
            let mut homes = state.homes.iter();
            let brought = |home: &Home| home.writers.is_empty() && home.loads.is_empty();
            homes.any(|home| home.value == candidate.value && brought(home))
        };
        let all = candidates.iter().enumerate();
        let all = all.filter(|(_, c)| c.is_put_together() && loaded(c));
        all.map(|(number, _)| number).collect()
    }

    /// Why a tensor does not stay, what that costs, and what would help.
    pub(super) fn far(&self, state: &State, candidate: &Candidate, why: Why) -> Far {
        let bytes = self.bytes(candidate.value);
        let times = match why {
            LOADED_ONCE => 1,
            _ => i64::try_from(candidate.reads).unwrap_or(i64::MAX),
        };
        let (last, first) = candidate.life;
        let free = (last..=first).map(|nest| self.room(&state.homes, nest));
        let free = free.min().unwrap_or(0);
        let help = match why {
            NO_PLACE | TOO_LARGE | LOADED_ONCE => Some(format!(
                "it has {bytes} bytes, for {} nests; {free} bytes of near memory are free then in one piece, in which their \
                 tiles lie as well",
                first - last + 1
            )),
            SLOWER => Some(
                "near-policy=bytes keeps it if fewer bytes move then, whatever that takes"
                    .to_string(),
            ),
            _ => None,
        };
        Far {
            op: self.singles[state.nests[first].first].op,
            groups: (
                state.nests[last].first,
                state.nests[first].groups().end.saturating_sub(1),
            ),
            why,
            bytes: bytes.saturating_mul(times.saturating_add(1)),
            help,
        }
    }
}
