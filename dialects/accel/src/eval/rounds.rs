//! Which iterations a run without data leaves out: those of loops that do the same again and again.
//!
//! *How.* At the start of each iteration of a loop a snapshot of the machine is taken. Once one repeats an earlier one, a
//! *period* apart, two periods are watched; if the second one begins and ends alike and does what the first one did, further
//! periods are left out as far as whoever knows the text of the loop says that they do the same ([`Ahead`]).
//! What snapshots and periods are, and why that is right, says the module `rounds` of `tir-machine`.
//!
//! *Which loop.* The outermost one that is long enough: while it looks for a period, loops inside run all their iterations.
//! One that finds none gives up, and loops inside take over.

use std::collections::VecDeque;

use tir::Failure;
use tir::interp::{Round, StridedBox};
use tir_machine as sim;

use super::Started;
use super::memory::MachineMemory;
use crate::machine::EngineInfo;

/// The longest period, in iterations.
const LONGEST: usize = 12;
/// Iterations without a period after which a loop gives up.
const MOST_SEARCHED: u64 = 64;
/// Periods that turn out not to be after which a loop gives up.
const MOST_TRIED: u32 = 3;
/// Iterations that a loop has at least to run yet.
const LEAST: u64 = 8;

/// Iterations of a loop.
#[derive(Clone, Copy, Debug)]
pub struct Iterations {
    /// The number of the loop.
    pub number: u32,
    /// The counter in the first of them.
    pub at: i64,
    /// What is added to it.
    pub step: i64,
    /// How many.
    pub count: u64,
    /// A period.
    pub period: u64,
}

/// Says of how many iterations each of the first period does the same in all later ones, on bytes whose place moves by as
/// much each time. Given are the counters of loops around, by their numbers.
pub type Ahead = dyn Fn(&[(u32, i64)], Iterations) -> u64;

/// What iterations were left out, in terms of how often a loop was asked before.
#[derive(Clone, Copy, Debug)]
pub struct LeftOut {
    /// The two periods that were watched.
    watched: [u64; 2],
    /// Where it was.
    at: u64,
    iterations: u64,
    periods: u64,
}

/// What leaves out iterations.
pub enum Periods {
    /// Those that are found.
    Find {
        /// Of each loop, by its number, the one around it.
        parents: Vec<Option<u32>>,
        /// What knows the loops.
        ahead: Box<Ahead>,
        /// Pieces of work that a loop has at least to start yet.
        worth: u64,
    },
    /// As another run did.
    Known(Vec<LeftOut>),
}

/// A loop that runs.
struct Running {
    number: u32,
    at: i64,
    /// How often it was asked.
    rounds: u64,
    /// Pieces of work at the last start of an iteration.
    started: u64,
    tried: u32,
    search: Search,
}

enum Search {
    /// For a snapshot that repeats one of these.
    Period(VecDeque<sim::Snapshot>),
    /// In the first of two periods: its length, iterations left in it, and when it began.
    First(u64, u64, u64),
    /// In the second one: also how it began.
    Second(u64, u64, [u64; 2], Box<sim::Snapshot>),
    Never,
}

/// A transfer in a period.
struct Moved {
    local: bool,
    boxes: Vec<StridedBox>,
    read: bool,
    passed: bool,
    from: String,
    to: String,
}

/// What a memory knows of the loops that run on it.
#[derive(Default)]
pub(super) struct Rounds {
    periods: Option<Periods>,
    running: Vec<Running>,
    /// How often loops were asked.
    asked: u64,
    /// Pieces of work that were left out.
    skipped: u64,
    done: Vec<LeftOut>,
    /// Transfers of the periods that are watched.
    moved: Option<[Vec<Moved>; 2]>,
    second: bool,
    /// Bytes are not counted by cause.
    pub(super) uncounted: bool,
}

impl Rounds {
    /// Notes a transfer.
    pub(super) fn moved(
        &mut self,
        local: bool,
        boxes: &[StridedBox],
        read: bool,
        passed: bool,
        engine: &EngineInfo,
    ) {
        if let Some(moved) = &mut self.moved
            && !self.uncounted
        {
            moved[usize::from(self.second)].push(Moved {
                local,
                boxes: boxes.to_vec(),
                read,
                passed,
                from: engine.from.to_string(),
                to: engine.to.to_string(),
            });
        }
    }
}

impl MachineMemory {
    /// Leaves out iterations from now on.
    pub fn set_periods(&mut self, periods: Periods) {
        self.rounds.periods = Some(periods);
    }

    /// Counts no bytes by cause from now on.
    pub fn forget_causes(&mut self) {
        self.rounds.uncounted = true;
    }

    /// The iterations that were left out.
    pub fn left_out(&self) -> Vec<LeftOut> {
        self.rounds.done.clone()
    }

    /// How many iterations are left out from here on.
    pub(super) fn leave_out(&mut self, round: &Round<'_>) -> Result<u64, Failure> {
        let asked = self.rounds.asked;
        self.rounds.asked += 1;
        match self.rounds.periods.take() {
            None => Ok(0),
            Some(Periods::Known(known)) => {
                let done = self.as_known(round, asked, &known);
                self.rounds.periods = Some(Periods::Known(known));
                done
            }
            Some(Periods::Find {
                parents,
                ahead,
                worth,
            }) => {
                let skipped = self.find(round, asked, (&parents, worth), &*ahead);
                self.rounds.periods = Some(Periods::Find {
                    parents,
                    ahead,
                    worth,
                });
                Ok(skipped)
            }
        }
    }

    /// Records what another run has found.
    fn as_known(
        &mut self,
        round: &Round<'_>,
        asked: u64,
        known: &[LeftOut],
    ) -> Result<u64, Failure> {
        let mut skipped = 0;
        let site = sim::Site::default();
        // Where iterations are left out, watching may begin anew.
        for left in known.iter().filter(|left| left.at == asked) {
            let (at_hand, _) = at_hand(round);
            let noted = self
                .machine
                .note_period(site, Some(left.periods), false, &at_hand);
            self.check(noted)?;
            skipped = left.iterations;
        }
        for left in known {
            for (begin, again) in left.watched.into_iter().zip([false, true]) {
                if begin == asked {
                    let (at_hand, _) = at_hand(round);
                    let noted = self.machine.note_period(site, None, again, &at_hand);
                    self.check(noted)?;
                }
            }
        }
        Ok(skipped)
    }

    fn find(
        &mut self,
        round: &Round<'_>,
        asked: u64,
        (parents, worth): (&[Option<u32>], u64),
        ahead: &Ahead,
    ) -> u64 {
        // Loops that have ended are taken from the list.
        let parent = parents.get(round.number as usize).copied().flatten();
        let next = |r: &Running| {
            r.number == round.number && r.at.checked_add(round.step) == Some(round.at)
        };
        let known = self.rounds.running.iter().position(next);
        let keep = match known {
            Some(at) => at + 1,
            None => {
                let mut outer = self.rounds.running.iter();
                let outer = outer.rposition(|r| Some(r.number) == parent);
                outer.map_or(0, |at| at + 1)
            }
        };
        // What a loop watched has no end if the loop has.
        if self.rounds.running[keep..].iter().any(Running::watches) {
            self.stop();
        }
        self.rounds.running.truncate(keep);
        let started = self.machine.started() + self.rounds.skipped;
        if known.is_none() {
            self.rounds.running.push(Running {
                number: round.number,
                at: round.at,
                rounds: 0,
                started,
                tried: 0,
                search: Search::Period(VecDeque::new()),
            });
            return 0;
        }
        let place = keep - 1;
        let outer = &self.rounds.running[..place];
        let busy = outer.iter().any(Running::is_busy);
        let counters: Vec<(u32, i64)> = outer.iter().map(|r| (r.number, r.at)).collect();
        let running = &mut self.rounds.running[place];
        running.rounds += 1;
        running.at = round.at;
        let each = started - running.started;
        running.started = started;
        let mut search = std::mem::replace(&mut running.search, Search::Never);
        let (rounds, tried) = (running.rounds, running.tried);
        if busy || rounds > MOST_SEARCHED && matches!(search, Search::Period(_)) {
            self.rounds.running[place].search = match busy {
                true => Search::Period(VecDeque::new()),
                false => Search::Never,
            };
            return 0;
        }
        let mut skipped = 0;
        search = match search {
            Search::Never => Search::Never,
            Search::Period(mut seen) => {
                if round.left < LEAST || round.left.saturating_mul(each) < worth {
                    self.rounds.running[place].search = Search::Period(VecDeque::new());
                    return 0;
                }
                let (tokens, places) = at_hand(round);
                let now = self.machine.snapshot(&tokens, &places);
                let alike = |before: &sim::Snapshot| self.machine.repeats(before, &now, true);
                let period = seen.iter().rev().position(alike).map(|n| n as u64 + 1);
                let worth = period.filter(|period| round.left > 3 * period);
                match worth {
                    Some(period) => {
                        self.machine.watch_period(false);
                        self.rounds.moved = Some([Vec::new(), Vec::new()]);
                        self.rounds.second = false;
                        Search::First(period, period, asked)
                    }
                    None => {
                        seen.push_back(now);
                        if seen.len() > LONGEST {
                            seen.pop_front();
                        }
                        Search::Period(seen)
                    }
                }
            }
            Search::First(period, left, begin) if left > 1 => {
                Search::First(period, left - 1, begin)
            }
            Search::First(period, _, begin) => {
                let (tokens, places) = at_hand(round);
                self.machine.watch_period(true);
                self.rounds.second = true;
                let now = Box::new(self.machine.snapshot(&tokens, &places));
                Search::Second(period, period, [begin, asked], now)
            }
            Search::Second(period, left, begin, from) if left > 1 => {
                Search::Second(period, left - 1, begin, from)
            }
            Search::Second(period, _, watched, from) => {
                let (tokens, places) = at_hand(round);
                let now = self.machine.snapshot(&tokens, &places);
                let mut periods = 0;
                if self.machine.repeats(&from, &now, true) {
                    // The last two periods are as those to come, too.
                    let back = i64::try_from(2 * period).unwrap_or(0);
                    let all = ahead(
                        &counters,
                        Iterations {
                            number: round.number,
                            at: round.at - back * round.step,
                            step: round.step,
                            count: round.left - 1 + 2 * period,
                            period,
                        },
                    );
                    periods = (all / period).saturating_sub(2);
                }
                let work = each.saturating_mul(period);
                if periods > 0 && self.machine.leave_out(&from, periods) {
                    skipped = periods * period;
                    self.count_again(periods);
                    let work = work.saturating_mul(periods);
                    self.rounds.skipped += work;
                    self.rounds.done.push(LeftOut {
                        watched,
                        at: asked,
                        iterations: skipped,
                        periods,
                    });
                    let on = i64::try_from(skipped).unwrap_or(0) * round.step;
                    let running = &mut self.rounds.running[place];
                    running.at += on;
                    running.started += work;
                }
                self.stop();
                let running = &mut self.rounds.running[place];
                running.tried += 1;
                running.rounds = 1;
                match tried + 1 < MOST_TRIED {
                    true => Search::Period(VecDeque::new()),
                    false => Search::Never,
                }
            }
        };
        self.rounds.running[place].search = search;
        skipped
    }

    fn stop(&mut self) {
        self.machine.stop_watching();
        self.rounds.moved = None;
    }

    /// Counts the transfers of so many periods by cause.
    fn count_again(&mut self, periods: u64) {
        let Some([first, second]) = self.rounds.moved.take() else {
            return;
        };
        let periods = i64::try_from(periods).unwrap_or(0);
        let moves = |a: &Moved, b: &Moved| -> Vec<i64> {
            let boxes = a.boxes.iter().zip(&b.boxes);
            boxes
                .map(|(a, b)| b.offset.wrapping_sub(a.offset))
                .collect()
        };
        let moves: Vec<Vec<i64>> = first
            .iter()
            .zip(&second)
            .map(|(a, b)| moves(a, b))
            .collect();
        let mut all = second;
        for _ in 0..periods {
            for (moved, moves) in all.iter_mut().zip(&moves) {
                for (access, by) in moved.boxes.iter_mut().zip(moves) {
                    access.offset += by;
                }
                let Moved {
                    local,
                    boxes,
                    read,
                    passed,
                    from,
                    to,
                } = &*moved;
                match passed {
                    true => self.causes.pass_on(None, boxes, from, to),
                    false => self.causes.note(None, boxes, *read, *local, from, to),
                }
            }
        }
    }
}

impl Running {
    fn watches(&self) -> bool {
        matches!(self.search, Search::First(..) | Search::Second(..))
    }
    /// Whether loops inside run all their iterations.
    fn is_busy(&self) -> bool {
        match &self.search {
            Search::Period(seen) => !seen.is_empty(),
            Search::Never => false,
            _ => true,
        }
    }
}

/// The tokens that a function holds, and where.
fn at_hand(round: &Round<'_>) -> (Vec<sim::Token>, Vec<u32>) {
    let held = round.objects.iter().zip(0..);
    let token = |(object, place): (&tir::Data, u32)| {
        let started = object.as_object::<Started>().ok()?;
        Some((started.0?, place))
    };
    held.filter_map(token).unzip()
}
