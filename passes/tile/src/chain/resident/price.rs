//! What nests take with what stays between them.

use std::ops::Range;

use super::{Candidate, Planner, State};
use crate::chain::Stage;
use crate::chain::series::{Played, REACH, series};
use crate::chain::stage::{Homes, Makers};

impl Planner<'_> {
    /// Cycles of all nests in the order in which they run, with what cycles of engines are worth.
    pub(super) fn together(&self, state: &State) -> i64 {
        self.worth(&self.played(state, 0..state.nests.len(), false))
    }

    /// The same of the nests that a tensor which stays concerns, and of some around them, whose loads and stores run beside
    /// theirs: what tells two ways in which it may stay apart, in no more time where there are more nests.
    pub(super) fn around(&self, state: &State, candidate: &Candidate) -> i64 {
        let (last, first) = candidate.span();
        let to = (first + REACH + 1).min(state.nests.len());
        self.worth(&self.played(state, last.saturating_sub(REACH)..to, false))
    }

    /// Cycles of nests in the order in which they run, with what cycles of engines are worth.
    pub(super) fn worth(&self, nests: &[Played]) -> i64 {
        let moved = nests.iter().map(Played::moved);
        let moved = moved.fold(0, i64::saturating_add);
        let more = moved.saturating_mul(self.budget.worth);
        series(self.ir, nests).saturating_add(more)
    }

    /// Some nests by number, in the order in which they run; `in_full` as a program is priced.
    pub(super) fn played(&self, state: &State, some: Range<usize>, in_full: bool) -> Vec<Played> {
        let (makers, homes) = (Makers::new(), Homes::new());
        let cx = self.context(self.budget, &makers, &homes);
        let nests = some.rev().map(|number| {
            let nest = &state.nests[number];
            let alone;
            let home = state
                .homes
                .iter()
                .find(|home| Some(home.value) == nest.writes);
            let stages: Vec<&Stage> = match (&nest.stage, home) {
                (Some(stage), _) => vec![stage],
                (None, Some(home)) => {
                    let parts = home.stage.made().flat_map(|made| &made.parts);
                    let own = parts.zip(&home.makers);
                    let own = own.filter(|(_, maker)| home.writers[**maker] == number);
                    own.map(|(part, _)| part).collect()
                }
                (None, None) => {
                    let single = &self.singles[nest.first];
                    let (group, plan) = single.apart();
                    alone = Stage::alone(group.clone(), plan.clone());
                    vec![&alone]
                }
            };
            let writes = nest
                .groups()
                .flat_map(|group| &self.singles[group].group.ops);
            let writes = match nest.writes {
                Some(_) => Vec::new(),
                None => writes.copied().collect(),
            };
            let room = (nest.bytes, self.room(&state.homes, number));
            let mut played = Played::new(&cx, &stages, self.thread, room, writes, in_full);
            let homes = state.homes.iter().filter(|home| home.reader == number);
            for home in homes.filter(|home| home.load > 0) {
                played.loads_first(home.value, home.load, home.bytes);
            }
            played
        });
        nests.collect()
    }
}
