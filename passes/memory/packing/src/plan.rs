//! Plans, and the choice among planners.

use std::fmt;

use crate::bound::LiveSet;
use crate::first_fit::{Order, first_fit, refine};
use crate::problem::Problem;
use crate::solve::{Options, solve};

/// Offsets for all buffers of a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Byte offset of each buffer.
    pub offsets: Vec<u64>,
    /// End of the highest buffer.
    pub height: u64,
    /// The largest live set, which no plan can be lower than.
    pub lower_bound: LiveSet,
    /// What no plan can be lower than for alignments, or by what a search showed, if that is more.
    pub proved: u64,
    /// The planner that made it.
    pub method: String,
    /// The partitions, of a plan by colouring.
    pub partitions: Vec<Partition>,
}

/// Buffers that share one place because no two of them interfere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Byte offset.
    pub offset: u64,
    /// Size of the largest member.
    pub size: u64,
    /// The buffers.
    pub members: Vec<usize>,
}

impl Plan {
    pub(crate) fn new(
        problem: &Problem,
        offsets: Vec<u64>,
        method: &str,
        partitions: Vec<Partition>,
    ) -> Plan {
        let (height, lower_bound) = (
            Plan::sized(problem, &offsets),
            problem.largest_live_set().clone(),
        );
        Plan {
            offsets,
            height,
            proved: problem.tallest_live_set().height,
            lower_bound,
            method: method.to_string(),
            partitions,
        }
    }

    /// The height of offsets.
    pub(crate) fn sized(problem: &Problem, offsets: &[u64]) -> u64 {
        let ends = offsets
            .iter()
            .zip(&problem.buffers)
            .filter(|(_, b)| b.size > 0);
        ends.map(|(o, b)| o + b.size).max().unwrap_or(0)
    }

    /// Whether it is known that no plan is lower.
    pub fn is_optimal(&self) -> bool {
        self.height <= self.proved.max(self.lower_bound.bytes)
    }
}

/// Buffers that no planner got into the capacity: who holds what at the peak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoesNotFit {
    /// Height of the lowest plan found.
    pub needed: u64,
    /// Bytes available.
    pub capacity: u64,
    /// Bytes of the largest live set. If this is more than the capacity, no plan fits.
    pub peak: u64,
    /// What no plan can be lower than as buffers are aligned, if that is more.
    pub aligned: u64,
    /// When that set lives, if live intervals are known.
    pub peak_time: Option<u64>,
    /// Its buffers and their sizes, largest first.
    pub holders: Vec<(String, u64)>,
}

impl fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "does not fit: {} bytes needed, {} available",
            self.needed, self.capacity
        )?;
        write!(f, "\n  {} bytes live", self.peak)?;
        match self.peak_time {
            Some(time) => write!(f, " at time {time}")?,
            None => write!(f, " at the same time")?,
        }
        if self.peak <= self.capacity && self.aligned > self.capacity {
            let aligned = self.aligned;
            write!(
                f,
                " (these would fit, but for their alignment: no plan ends below {aligned})"
            )?;
        } else if self.peak <= self.capacity {
            write!(f, " (these would fit: the plan has gaps)")?;
        }
        write!(f, ", held by")?;
        for (name, size) in &self.holders {
            write!(f, "\n    {name}: {size}")?;
        }
        Ok(())
    }
}

impl std::error::Error for DoesNotFit {}

/// Rounds of [`refine`] that are spent where neither greedy planners nor the search reach the lower bound.
pub const REFINE_ROUNDS: usize = 400;

/// Times as many rounds, from each order, where plans miss the capacity although what lives at any time does not.
const HARDER: usize = 8;

/// Steps of [`solve`] that [`plan`] takes.
pub const PLAN_STEPS: u64 = 20_000;

/// Steps of [`solve`] where a plan is more than one in `FAR` above what none is lower than: a fifth of a second.
pub const LONG_STEPS: u64 = 250_000;

/// See [`LONG_STEPS`].
const FAR: u64 = 100;

/// How long a plan that fits is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// As [`plan`] says.
    Whole,
    /// [`PLAN_STEPS`] and one order refined: what misses the capacity by that is given up.
    Little,
}

/// The lowest plan that [`solve`] finds in [`PLAN_STEPS`] steps, in [`LONG_STEPS`] where that is far above the bound, and where this is not known to be optimal, the best order
/// refined; every one of them, and for longer, while none fits the capacity that the lower bound does. An earlier
/// planner wins a tie. Large problems, and buffers that must lie in some bytes, are not refined.
pub fn plan(problem: &Problem, capacity: u64) -> Result<Plan, Box<DoesNotFit>> {
    plan_with(problem, capacity, Effort::Whole)
}

/// [`plan`] with more or less effort.
///
/// # Errors
/// As [`plan`].
pub fn plan_with(
    problem: &Problem,
    capacity: u64,
    effort: Effort,
) -> Result<Plan, Box<DoesNotFit>> {
    let whole = effort == Effort::Whole;
    let options = Options {
        steps: PLAN_STEPS,
        ..Options::default()
    };
    let mut best = solve(problem, &options).plan;
    if whole && best.height > best.proved + best.proved / FAR && best.proved > 0 {
        let steps = LONG_STEPS;
        let longer = solve(problem, &Options { steps, ..options }).plan;
        if longer.height < best.height || longer.proved > best.proved {
            best = longer;
        }
    }
    if problem.is_dense() && problem.buffers.iter().all(|b| b.within.is_none()) {
        let proved = best.proved;
        let take = |best: &mut Plan, order, rounds| {
            let refined = refine(problem, order, rounds);
            if refined.height < best.height {
                *best = Plan { proved, ..refined };
            }
        };
        let lowest = || {
            let height = |order: &Order| first_fit(problem, *order).height;
            Order::ALL.into_iter().min_by_key(height)
        };
        if !best.is_optimal()
            && let Some(order) = lowest()
        {
            take(&mut best, order, REFINE_ROUNDS);
        }
        // These would fit, but for gaps.
        let mut harder = Order::ALL.into_iter();
        while whole
            && best.height > capacity
            && best.proved <= capacity
            && let Some(order) = harder.next()
        {
            take(&mut best, order, HARDER * REFINE_ROUNDS);
        }
    }
    if best.height <= capacity {
        return Ok(best);
    }
    let peak = &best.lower_bound;
    let holders = peak.members.iter().map(|&i| &problem.buffers[i]);
    Err(Box::new(DoesNotFit {
        needed: best.height,
        capacity,
        peak: peak.bytes,
        aligned: problem.tallest_live_set().height,
        peak_time: peak.time,
        holders: holders.map(|b| (b.name.clone(), b.size)).collect(),
    }))
}

/// The next multiple of a power of two.
pub(crate) fn align_up(offset: u64, align: u64) -> u64 {
    offset.div_ceil(align.max(1)) * align.max(1)
}
