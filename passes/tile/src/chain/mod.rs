//! Nests of several stages, and tensors that stay in near memory between nests.
//!
//! In a nest of several stages, what one stage reads is computed inside its loops by others, tile by tile, and never
//! leaves near memory.
//!
//! A *stage* is a group with its plan. The last one, the *root*, gives the result and decides the loops. Where
//! it would load a tile of an operand, a *producer* computes it: its iterators are the loops that stand
//! around it there, the dimensions of the tile, and its own reductions. So a producer computes just what is
//! read in a step, in the order in which the unit wants it; its own operands may be computed in turn. Where tiles
//! overlap from one trip of a loop to the next, it computes the common rows again, or they stay in a ring (`ring`). A
//! tensor that is put together from parts has a producer for each, and a loop along it is cut in *segments*, one for
//! each part. What lies outside of the tensor in a tile, its *border*, is filled with what is read there (`border`).
//!
//! Where near memory is short, a producer computes its *sums in parts*, inside of loops of its own over its
//! reductions, in the tile that its reader takes. Where all stages allow it, neighbouring iterators are one for all of
//! them (`flat`).
//!
//! A producer and its reader wait for one another, or the nest is a *pipeline* (`pipeline`): while a stage computes
//! with a tile, its producer computes the next one, in one of several tiles that take turns.
//!
//! What needs whole rows, a softmax between two products, is no stage: it is done to the tile between two of them,
//! or to parts of rows with what is carried from one to the next (`between`).
//!
//! `stage` makes stages one another's producers, of plans that `plans` remembers; `search` finds the quickest nest of some groups, over the divisions
//! of its root, the levels of its producers, rings and pipelines (`cost`, `keep`); `partition` cuts the sequence of groups in such
//! nests, trying chains that `grow` makes a group longer each time; `resident` then decides which tensors between nests stay where they are computed, in a *home* that all
//! readers find their tiles in (`home`).
//!
//! That a stage is computed at a loop of its reader is as in Halide's `compute_at`, with overlapped tiles; a
//! reduction's loop may be one too, then the reader accumulates in place while the tensor between exists a few
//! channels at a time.

mod begins;
mod between;
mod border;
mod cores;
mod cost;
mod filling;
mod flat;
mod forms;
mod grow;
mod home;
mod keep;
mod late;
mod least;
mod partition;
mod pipeline;
mod plans;
mod reach;
mod resident;
mod ring;
mod search;
mod series;
mod stage;
mod told;
mod ways;

pub use between::{Between, Done, Gives, Of, RowStep, Rows, Running};
pub use border::Fill;
pub use late::late;
pub(crate) use partition::only_for;
pub use partition::{Chains, Cuts, Limits, Single, partition};
pub(crate) use reach::zero;
pub use resident::{Brought, Far, Policy, Resident};
pub use ring::Ring;
pub use told::{Bounded, bounds};

use tir::Name;

use crate::group::Group;
use crate::plan::Plan;

/// A stage with those that compute its operands.
#[derive(Clone, Debug)]
pub struct Stage {
    /// What it computes.
    pub group: Group,
    /// How it is cut up.
    pub plan: Plan,
    /// Which of the plan's loops is cut in segments, if one is: the operand has parts that lie one behind
    /// the other along it.
    pub cut: Option<usize>,
    /// How many tiles take turns between a stage and its producers, which compute the next ones while it
    /// computes with theirs; one where each waits for the other.
    pub turns: i64,
    /// Where the stage is in a pipeline across the two innermost loops: no stage waits for the others at the end
    /// of the inner one.
    pub across: Option<Across>,
    /// The segments; one of all trips where no loop is cut.
    pub segments: Vec<Segment>,
    /// The trips of its reader's innermost loop in which it computes, where other parts are computed in others.
    pub share: Option<Share>,
}

/// Some trips of the innermost loop of a pipeline: a stage that computes one of several parts does so in these, and its
/// loop counts them from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// The first one.
    pub first: i64,
    /// How many.
    pub trips: i64,
}

/// A stage in a pipeline across two loops.
#[derive(Clone, Copy, Debug)]
pub struct Across {
    /// Inside of how many loops stands what moves with the outer one of the two alone.
    pub level: usize,
    /// How many trips the stage is behind the first ones.
    pub lag: usize,
    /// Whether it is the root.
    pub root: bool,
}

/// Some trips of a loop.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The first one.
    pub start: i64,
    /// How many.
    pub trips: i64,
    /// What is computed in them for the stage.
    pub made: Vec<Made>,
}

/// An operand that is computed inside of the loops.
#[derive(Clone, Debug)]
pub struct Made {
    /// Its number.
    pub operand: usize,
    /// Inside of how many of the reader's loops.
    pub level: usize,
    /// Rows of the tile that stay for later trips, if some do.
    pub ring: Option<Ring>,
    /// What is filled before, for reads outside of the tensor.
    pub before: Vec<Fill>,
    /// The vector unit that fills these, each at once, if there is one; else they are filled in blocks of the unit.
    pub boxes: Option<Name>,
    /// The producers; each fills a box of the tile.
    pub parts: Vec<Stage>,
    /// What is filled behind: where blocks of the unit stick out of the tensor.
    pub behind: Vec<Fill>,
    /// What is done to the tile before it is read, if anything is.
    pub between: Option<Done>,
}

impl Made {
    /// How many trips of a pipeline the reader is behind what computes the tile at the latest.
    pub fn lag(&self) -> i64 {
        1 + i64::from(self.between.is_some())
    }

    /// How often the tile is computed.
    pub fn times(&self) -> i64 {
        let mut shares: Vec<Option<Share>> = Vec::new();
        let mut times = 0i64;
        for part in &self.parts {
            if shares.contains(&part.share) {
                continue;
            }
            shares.push(part.share);
            let around = part.group.domain[..part.group.outer].iter().copied();
            times = times.saturating_add(around.fold(1, i64::saturating_mul));
        }
        times.max(1)
    }
}

impl Stage {
    /// A stage that loads all that it reads.
    pub fn alone(group: Group, plan: Plan) -> Self {
        Self {
            group,
            plan,
            cut: None,
            turns: 1,
            across: None,
            segments: Vec::new(),
            share: None,
        }
    }
    /// Whether some of those that compute for the stage do so in a part of the trips.
    pub fn shares(&self) -> bool {
        let parts = self.made().flat_map(|made| &made.parts);
        parts
            .into_iter()
            .any(|part| part.share.is_some() || part.shares())
    }
    /// All that is computed for the stage.
    pub fn made(&self) -> impl Iterator<Item = &Made> {
        self.segments.iter().flat_map(|segment| &segment.made)
    }
    /// The rings of tiles that are computed for the stage, and for those in turn.
    pub fn rings(&self) -> Box<dyn Iterator<Item = Ring> + '_> {
        let below = self.made().flat_map(|made| &made.parts);
        let own = self.made().filter_map(|made| made.ring);
        Box::new(own.chain(below.flat_map(Stage::rings)))
    }
    /// How many trips of the innermost loop the stage is behind the first of those that compute for it, where
    /// there are so many in a trip of the loop around it.
    pub fn lag(&self, columns: i64) -> i64 {
        let behind = |made: &Made| {
            let early = made.ring.map_or(0, |ring| ring.early);
            let parts = made.parts.iter().map(|part| part.lag(columns));
            parts.max().unwrap_or(0) + early * columns + made.lag()
        };
        self.made().map(behind).max().unwrap_or(0)
    }
    /// Whether a stage computes its sums in parts for another one.
    pub fn sums_in_parts(&self) -> bool {
        let own = self.group.into.is_some() && self.plan.splits_reduction(&self.group);
        let parts = self.made().flat_map(|made| &made.parts);
        own || parts.into_iter().any(Stage::sums_in_parts)
    }
    /// How many stages compute for one another at most; what is done to a tile between two counts as one.
    pub fn depth(&self) -> usize {
        let below = self.made().flat_map(|made| {
            let own = if made.between.is_some() { 2 } else { 1 };
            made.parts.iter().map(move |part| part.depth() + own)
        });
        below.max().unwrap_or(0)
    }
    /// Whether tiles of it have parts of rows that something is done to.
    pub fn is_running(&self) -> bool {
        let mut all = self.made().filter_map(|made| made.between.as_ref());
        all.any(|done| done.running)
    }
}
