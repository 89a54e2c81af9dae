//! Plans, and the choice among planners.

use std::fmt;

use crate::bound::LiveSet;
use crate::colour::colour;
use crate::first_fit::{Order, first_fit, refine};
use crate::problem::Problem;

/// Offsets for all buffers of a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Byte offset of each buffer.
    pub offsets: Vec<u64>,
    /// End of the highest buffer.
    pub height: u64,
    /// What no plan can be lower than.
    pub lower_bound: LiveSet,
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
        self.height == self.lower_bound.bytes
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
        if self.peak <= self.capacity {
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

/// Rounds of [`refine`] that [`plan`] spends when the simple planners miss the lower bound.
pub const REFINE_ROUNDS: usize = 400;

/// Times as many rounds, from each order, where plans miss the capacity although what lives at any time does not.
const HARDER: usize = 8;

/// The lowest plan of all planners: colouring, first fit in every order, and, when none of these
/// reaches the lower bound, the best order refined; every one of them, and for longer, while none fits the capacity that the
/// lower bound does. An earlier planner wins a tie.
pub fn plan(problem: &Problem, capacity: u64) -> Result<Plan, Box<DoesNotFit>> {
    let mut best = colour(problem);
    let mut order = None;
    for o in Order::ALL {
        let next = first_fit(problem, o);
        if order.is_none_or(|(height, _)| next.height < height) {
            order = Some((next.height, o));
        }
        if next.height < best.height {
            best = next;
        }
    }
    if let Some((_, order)) = order
        && !best.is_optimal()
    {
        let refined = refine(problem, order, REFINE_ROUNDS);
        if refined.height < best.height {
            best = refined;
        }
    }
    // These would fit, but for gaps.
    let mut harder = Order::ALL.into_iter();
    while best.height > capacity
        && best.lower_bound.bytes <= capacity
        && let Some(order) = harder.next()
    {
        let refined = refine(problem, order, HARDER * REFINE_ROUNDS);
        if refined.height < best.height {
            best = refined;
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
        peak_time: peak.time,
        holders: holders.map(|b| (b.name.clone(), b.size)).collect(),
    }))
}

/// The next multiple of a power of two.
pub(crate) fn align_up(offset: u64, align: u64) -> u64 {
    offset.div_ceil(align.max(1)) * align.max(1)
}
