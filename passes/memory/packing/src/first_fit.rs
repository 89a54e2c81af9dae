//! First fit into byte offsets.

use std::cmp::Reverse;

use crate::bound::conflict;
use crate::crowd::tight;
use crate::placed::Placed;
use crate::plan::{Plan, align_up};
use crate::problem::{Buffer, Problem};
use crate::random::Random;

/// The order in which first fit places buffers; ties go by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Falling size.
    Size,
    /// Falling size, divided by the bytes that the largest set that lives with it leaves of the bound: where little is left,
    /// the small come early too.
    Tight,
    /// Falling size times lifetime (Greedy by area).
    Area,
    /// Falling lifetime, then size.
    Lifetime,
    /// Rising start of life, then falling size.
    Start,
    /// Falling sum of the neighbours' sizes, then size.
    Conflict,
    /// Falling size, those of one size by rising start of life: so these take as few places as live at once.
    Equal,
}

impl Order {
    /// All orders.
    pub const ALL: [Order; 7] = [
        Order::Size,
        Order::Tight,
        Order::Area,
        Order::Lifetime,
        Order::Start,
        Order::Conflict,
        Order::Equal,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Order::Size => "first fit by size",
            Order::Tight => "first fit by size where little is left",
            Order::Area => "first fit by size and lifetime",
            Order::Lifetime => "first fit by lifetime",
            Order::Start => "first fit by start",
            Order::Conflict => "first fit by conflict",
            Order::Equal => "first fit by size, equal ones by start",
        }
    }

    /// The buffers of a problem in this order.
    pub(crate) fn of(self, problem: &Problem) -> Vec<usize> {
        let mut order: Vec<usize> = (0..problem.buffers.len()).collect();
        let free = |i: usize| {
            problem.buffers[i]
                .within
                .as_ref()
                .map_or(u64::MAX, |w| w.end - w.start)
        };
        let size = |i: usize| problem.buffers[i].size;
        let crowds = (self == Order::Tight).then(|| problem.crowds()).flatten();
        let bound = problem.tallest_live_set().height;
        let crowded = |i: usize| {
            let crowd = crowds.as_ref().map_or(0, |crowds| crowds[i]);
            Reverse(tight(u128::from(size(i)), crowd, bound, 100))
        };
        let life = |i: usize| problem.lifetime(i);
        let wide = |n: u64| Reverse(u128::from(n));
        order.sort_by_cached_key(|&i| match self {
            Order::Size => (wide(size(i)), wide(life(i)), i),
            Order::Tight => (crowded(i), wide(0), i),
            Order::Area => (
                Reverse(u128::from(size(i)) * u128::from(life(i))),
                wide(size(i)),
                i,
            ),
            Order::Lifetime => (wide(life(i)), wide(size(i)), i),
            Order::Start => (wide(u64::MAX - problem.start(i)), wide(size(i)), i),
            Order::Conflict => (wide(conflict(problem, i)), wide(size(i)), i),
            Order::Equal => (wide(size(i)), wide(u64::MAX - problem.start(i)), i),
        });
        // What has little choice comes first.
        order.sort_by_key(|&i| free(i));
        order
    }
}

/// Places each buffer, in order, at the lowest aligned offset where no placed neighbour lies.
pub fn first_fit(problem: &Problem, order: Order) -> Plan {
    let offsets = place(problem, &order.of(problem));
    Plan::new(problem, offsets, order.name(), Vec::new())
}

/// First fit from the given order, then hill climbing for some rounds: each round moves one of the
/// buffers that end highest, or one of their neighbours, to an earlier place in the order, places
/// anew, and keeps the new order unless its plan is higher. Stops at the lower bound. The choices
/// come from a fixed sequence, so the same problem always gives the same plan.
pub fn refine(problem: &Problem, order: Order, rounds: usize) -> Plan {
    let mut order_now = order.of(problem);
    let first = place(problem, &order_now);
    let mut best = Plan::new(problem, first, order.name(), Vec::new());
    let mut random = Random::new(1);
    let mut below = |n: usize| random.below(n);
    for _ in 0..rounds {
        if best.is_optimal() || order_now.is_empty() {
            break;
        }
        let ends = |&i: &usize| best.offsets[i] + problem.buffers[i].size == best.height;
        let top: Vec<usize> = (0..best.offsets.len()).filter(ends).collect();
        let mut chosen = top[below(top.len())];
        let near = problem.graph().degree(chosen);
        if near > 0 && below(2) == 0 {
            chosen = problem
                .graph()
                .neighbours(chosen)
                .nth(below(near))
                .unwrap_or(chosen);
        }
        let at = order_now.iter().position(|&i| i == chosen).unwrap_or(0);
        let to = below(at + 1);
        order_now[to..=at].rotate_right(1);
        let offsets = place(problem, &order_now);
        let height = Plan::sized(problem, &offsets);
        if height <= best.height {
            if height < best.height {
                best.method = format!("{}, refined", order.name());
            }
            (best.offsets, best.height) = (offsets, height);
        } else {
            order_now[to..=at].rotate_left(1);
        }
    }
    best
}

fn place(problem: &Problem, order: &[usize]) -> Vec<u64> {
    place_until(problem, order, Fit::First, &mut || false).unwrap_or_default()
}

/// Which of the places that are free a buffer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The lowest.
    First,
    /// The one that leaves the fewest bytes free; above all others, if none is between them.
    Best,
}

/// Places all buffers in an order; `None` if `stop` says so first, which is asked once for each.
pub(crate) fn place_until(
    problem: &Problem,
    order: &[usize],
    fit: Fit,
    stop: &mut dyn FnMut() -> bool,
) -> Option<Vec<u64>> {
    let mut offsets = vec![0; problem.buffers.len()];
    let mut placed = Placed::new(problem);
    for &i in order {
        if stop() {
            return None;
        }
        let b = &problem.buffers[i];
        if b.size == 0 {
            offsets[i] = start(b);
            continue;
        }
        let mut place = Place::new(b);
        placed.near(i, &offsets, &mut |from, to| {
            place.pass(b, from, to) || fit == Fit::Best
        });
        offsets[i] = place.chosen(b, fit);
        placed.add(i, offsets[i]);
    }
    Some(offsets)
}

/// The places that are free for a buffer, when those that are taken are passed from the lowest on.
struct Place {
    /// Above all that was passed, or the first one that was free below the last.
    low: u64,
    first: Option<u64>,
    /// The bytes that the tightest one leaves.
    tightest: Option<(u64, u64)>,
}

impl Place {
    fn new(buffer: &Buffer) -> Place {
        Place {
            low: start(buffer),
            first: None,
            tightest: None,
        }
    }

    /// Passes bytes that are taken; whether no place was free below them.
    fn pass(&mut self, buffer: &Buffer, from: u64, to: u64) -> bool {
        if self.low + buffer.size <= from {
            self.first = self.first.or(Some(self.low));
            let spare = (from - self.low - buffer.size, self.low);
            self.tightest = Some(self.tightest.map_or(spare, |best| best.min(spare)));
        }
        self.low = self.low.max(align_up(to, buffer.align));
        self.first.is_none()
    }

    fn chosen(&self, buffer: &Buffer, fit: Fit) -> u64 {
        let end = buffer.within.as_ref().map_or(u64::MAX, |w| w.end);
        let lowest = self.first.unwrap_or(self.low);
        match self.tightest {
            Some((_, place)) if fit == Fit::Best && place + buffer.size <= end => place,
            _ => lowest,
        }
    }
}

/// Where a buffer may lie first.
pub(crate) fn start(b: &Buffer) -> u64 {
    b.within.as_ref().map_or(0, |w| align_up(w.start, b.align))
}

/// The lowest aligned offset from `low` on where a buffer overlaps none of these places, in rising order.
pub(crate) fn lowest(buffer: &Buffer, taken: &[(u64, u64)], mut low: u64) -> u64 {
    for &(start, end) in taken {
        if start < end && low + buffer.size <= start {
            break;
        }
        low = low.max(align_up(end, buffer.align));
    }
    low
}
