//! What divisions take at least, as far as that is known before their tiles are: most take too long, and are left out by it.
//!
//! Never more than the estimate of the division in any order of its loops, so that the same plan is found. Of operands the least
//! is kept with their tiles; what an operand is loaded again for is what the innermost loop moves.
//!
//! A window that slides loads less than a tile where the loop that it slides with goes on, but only one loop is the innermost of those
//! that move a tile: with all others it is loaded as a whole.

use tir::{AffineExpr, Type};

use super::{Loaded, Made, Parts, Shapes};
use crate::group::Group;
use crate::layout::{Space, Tile};
use crate::plan::cost::Cost;
use crate::plan::places::Places;
use crate::plan::strip::Strip;
use crate::plan::traffic::{Fixed, bytes, slides_in_rings};
use crate::plan::unit::Way;

/// What loading an operand takes at least.
#[derive(Clone, Copy, Default)]
pub(super) struct Least {
    /// Cycles whatever the order of the loops, and transfers.
    load: i64,
    starts: i64,
    /// Cycles of the first tile.
    first: i64,
    /// Trips of all loops that move it.
    trips: i64,
    /// Cycles if each of these trips loads all of a tile.
    anew: i64,
    /// Cycles if the innermost of these loops slides a window.
    slid: i64,
}

/// How the innermost loop moves a tile.
#[derive(Clone, Copy)]
enum Moves {
    /// It does not, or it is not known which loop that is.
    Unknown,
    /// All of the tile is another one in each trip.
    Anew,
    /// What the window showed before stays.
    Slides,
}

impl Least {
    /// Cycles and transfers where the innermost of all loops, of so many trips together, moves it so: then nothing is spared by an
    /// order of the loops.
    fn with(&self, innermost: Moves, trips: i64) -> [i64; 2] {
        let load = match innermost {
            Moves::Unknown => return [self.load, self.starts],
            Moves::Anew => self.anew,
            Moves::Slides => self.slid,
        };
        [load, self.starts].map(|n| n.saturating_mul(trips / self.trips.max(1)))
    }
}

/// What moving all points of a group takes, whatever its tiles: nothing is computed.
pub(super) struct Moving {
    /// Cycles before an engine moves a byte of a tile, of that which loads and of that which stores.
    latency: [i64; 2],
    /// Bytes that are stored.
    bytes: i64,
    /// Of them those of a tile that may be counted as none, and bytes in each cycle.
    granule: i64,
    rate: i64,
}

impl Moving {
    /// `None` where something of it is not loaded and stored, or of cores each moves a part.
    pub(super) fn new(
        group: &Group,
        elems: &[Type],
        places: &Places<'_>,
        cores: i64,
    ) -> Option<Self> {
        let ([operand], [out]) = (&group.operands[..], &group.outs[..]) else {
            return None;
        };
        let here = operand.near || operand.made || operand.inner.is_some();
        if here || group.into.is_some() || cores > 1 {
            return None;
        }
        let uses = |d: usize, exprs: &[AffineExpr]| exprs.iter().any(|e| e.uses(d));
        let mut moving = (0..group.core).filter(|d| group.domain[*d] > 1);
        let (from, to) = (&operand.map.exprs, &out.map.exprs);
        // What only one of them moves is moved fewer times.
        moving.all(|d| uses(d, from) && uses(d, to)).then_some(())?;
        let (load, store) = (places.operands[0].load?, places.store);
        let points = group.domain[..group.core].iter().copied();
        Some(Self {
            latency: [load.latency, store.latency],
            bytes: points.fold(bytes(*elems.first()?), i64::saturating_mul),
            granule: store.granule,
            rate: store.bytes_per_cycle.max(1),
        })
    }

    /// What it takes at least in so many tiles.
    fn least(&self, tiles: i64, none: &Cost) -> Cost {
        let [load, store] = self.latency;
        let less = tiles.saturating_mul(self.granule.max(1));
        let moved = self.bytes.saturating_sub(less).max(0) / self.rate;
        Cost {
            load: load.saturating_mul(tiles),
            store: store.saturating_mul(tiles).saturating_add(moved),
            first: load,
            last: store,
            starts: tiles.saturating_mul(2),
            ..none.clone()
        }
    }
}

impl Shapes<'_> {
    /// What the size of an iterator in a space adds to the number of calls, or of tiles that are moved.
    pub(in crate::plan) fn factor(&self, space: &Space, d: usize) -> i64 {
        match self.moving {
            _ if d >= self.made.group.core => 1,
            None => space.covered(d),
            // Of the last tile there may be little.
            Some(_) => (space.trips(d) - i64::from(space.is_ragged(d))).max(1),
        }
    }

    /// The least cycles of a division, whatever the order of its loops: those of the calls of a unit, or to move as many
    /// tiles as there are.
    pub(in crate::plan) fn calls(&self, space: &Space) -> i64 {
        let calls = (0..self.made.group.core).map(|d| self.factor(space, d));
        self.cycles(calls.fold(1, i64::saturating_mul))
    }

    /// The least cycles of so many calls of the unit, or to move so many tiles.
    pub(in crate::plan) fn cycles(&self, calls: i64) -> i64 {
        match &self.moving {
            None => self.calling.least(calls.saturating_mul(self.call)),
            Some(moving) => self.total(&moving.least(calls, &self.none)),
        }
    }

    /// Whether all orders of the loops take as long: each loop moves all tiles, and no rows of a tile stay.
    pub(in crate::plan) fn orders_alike(&self) -> bool {
        self.moving.is_some()
    }

    /// Which iterators move each operand, if others decide nothing of its tile.
    pub(in crate::plan) fn moved_by(&self) -> impl Iterator<Item = (usize, &[usize])> {
        let inner = self.made.group.has_inner();
        let known = self.operands.iter().enumerate();
        let known = known.map(|(i, known)| (i, &known.iterators[..]));
        known.filter(move |_| !inner && self.loading.cores == 1)
    }

    /// Adds what loading an operand takes at least, the sizes of whose iterators are those of a space, as are those of the
    /// iterators from `rank` on; whether it can be a tile.
    pub(in crate::plan) fn load(
        &mut self,
        space: &Space,
        i: usize,
        rank: usize,
        cost: &mut Cost,
    ) -> bool {
        let Self { made, operands, .. } = self;
        let known = operands[i].get(space, || Some(made.loaded(space, made.tile(space, i)?, i)));
        let operand = &made.group.operands[i];
        if let Some(of) = &known
            && !operand.made
            && !operand.near
        {
            let innermost = made.innermost(space).filter(|d| *d >= rank);
            let moves = made.moves(space, &of.tile, i, innermost);
            let around = |d: &usize| *d >= rank || of.tile.moves_with(space, *d);
            let trips = (0..made.group.core).filter(around);
            let trips = trips.map(|d| space.trips(d)).fold(1, i64::saturating_mul);
            let [load, starts] = of.least.with(moves, trips);
            cost.load = cost.load.saturating_add(load);
            cost.first = cost.first.saturating_add(of.least.first);
            cost.starts = cost.starts.saturating_add(starts);
        }
        known.is_some()
    }

    /// The least cycles of so many calls, with what some operands' loads take; of iterators without a size, the space has
    /// the least one.
    pub(in crate::plan) fn with_loads(&self, space: &Space, loads: &Cost, calls: i64) -> i64 {
        let compute = match &self.on_unit {
            Some(on_unit) => self.calling.least(calls.saturating_mul(on_unit.least())),
            None => 0,
        };
        let cost = Cost {
            compute,
            ..loads.clone()
        };
        // In strips what is loaded first is less.
        let Made { group, .. } = &self.made;
        let strips = (0..group.core).any(|d| group.reductions[d] && space.trips(d) > 1);
        match strips {
            true => cost.work(),
            false => self.total(&cost),
        }
    }

    /// The least that loading takes whatever the order of the loops, and the least bytes of near memory for each
    /// operand.
    pub(in crate::plan) fn least(
        &self,
        space: &Space,
        strip: Option<Strip>,
        operands: &[Loaded],
    ) -> (Cost, Vec<i64>) {
        let group = self.made.group;
        let (mut first, mut near, mut all) = (0i64, Vec::new(), Vec::new());
        let operands = group.operands.iter().zip(operands);
        for (i, (operand, of)) in operands.enumerate() {
            near.push(if operand.near { 0 } else { of.fixed.one });
            if operand.inner.is_some() || operand.made || operand.near {
                continue;
            }
            let strip = strip.filter(|strip| strip.divides(group, i));
            let least = match strip {
                Some(strip) => {
                    let times = strip.count(space);
                    self.made.least(space, &of.tile, &of.fixed, (i, times))
                }
                None => of.least,
            };
            first = first.saturating_add(least.first);
            all.push((i, least, &of.tile));
        }
        let trips = (0..group.core).map(|d| space.trips(d));
        let trips = trips.fold(1, i64::saturating_mul);
        // If a loop is the innermost one, all that it moves is loaded in each trip of all loops.
        let with = |innermost: Option<usize>| {
            let each = all.iter().map(|(i, least, tile)| {
                least.with(self.made.moves(space, tile, *i, innermost), trips)
            });
            each.fold([0i64; 2], |[load, starts], [more, others]| {
                [load.saturating_add(more), starts.saturating_add(others)]
            })
        };
        let [load, starts] = match self.made.innermost(space) {
            Some(reduction) => with(Some(reduction)),
            None => {
                let loops = (0..group.core).filter(|d| space.trips(*d) > 1);
                let each = loops.map(|d| with(Some(d)));
                let less = |a: [i64; 2], b: [i64; 2]| [a[0].min(b[0]), a[1].min(b[1])];
                each.reduce(less).unwrap_or_else(|| with(None))
            }
        };
        let cost = Cost {
            load: self.loading.least(load),
            first,
            starts,
            ..self.none.clone()
        };
        (cost, near)
    }

    /// What a division takes at least whatever the order of its loops, not in strips, given what loading does; `None` where
    /// that is not known before its tiles are.
    pub(in crate::plan) fn bound(
        &self,
        space: &Space,
        loads: &Cost,
        parts: &Parts,
    ) -> Option<Cost> {
        let Made { group, way, .. } = &self.made;
        let known = matches!(way, Way::Unit(_) | Way::Moved(_) | Way::Whole);
        if !known || self.loading.cores > 1 || parts.strips.is_some() {
            return None;
        }
        let mut cost = loads.clone();
        let issue = self.made.places.store.issue;
        for stored in parts.results.traffic.iter() {
            cost.store = cost.store.saturating_add(stored.cycles);
            cost.last = cost.last.saturating_add(stored.first);
            cost.starts = cost.starts.saturating_add(stored.starts);
            let issued = issue.saturating_mul(stored.starts);
            cost.issue = cost.issue.saturating_add(issued);
        }
        if let Some(on_unit) = &self.on_unit {
            let split = (0..group.core).any(|d| group.reductions[d] && space.trips(d) > 1);
            cost.issue = cost.issue.saturating_add(on_unit.issued(space));
            cost.compute = on_unit.points(space, split);
        }
        Some(cost)
    }

    /// Cycles of a bound, all in all.
    pub(in crate::plan) fn total(&self, bound: &Cost) -> i64 {
        bound.total(self.thread)
    }
}

impl Made<'_> {
    /// The loop of a reduction that is inside of all others, if a reduction is divided.
    fn innermost(&self, space: &Space) -> Option<usize> {
        let mut loops = (0..self.group.core).rev();
        loops.find(|d| self.group.reductions[*d] && space.trips(*d) > 1)
    }

    /// How a loop moves the tile of an operand, if that is the innermost one.
    fn moves(&self, space: &Space, tile: &Tile, i: usize, innermost: Option<usize>) -> Moves {
        match innermost.filter(|d| tile.moves_with(space, *d)) {
            None => Moves::Unknown,
            Some(d) if self.slides[d] && self.rings(i) && tile.ring(space, d).is_some() => {
                Moves::Slides
            }
            Some(_) => Moves::Anew,
        }
    }

    /// Whether rows of an operand may stay where a window slides over it.
    fn rings(&self, i: usize) -> bool {
        slides_in_rings(&self.group.operands[i], self.way.unit().is_some())
    }

    /// The least that loading the tile of an operand takes, so many times in each trip of the loops.
    pub(super) fn least(
        &self,
        space: &Space,
        tile: &Tile,
        fixed: &Fixed,
        (i, times): (usize, i64),
    ) -> Least {
        let (mut trips, mut share) = (1i64, 1.0);
        let moving = || (0..self.group.core).filter(|d| tile.moves_with(space, *d));
        for d in moving() {
            let own = space.trips(d);
            trips = trips.saturating_mul(own);
            // Of the last tile little may lie in the source: what lies beyond the range of an iterator may be beyond it.
            let covered = own.saturating_mul(space.extent(d));
            if space.is_ragged(d) {
                share *= space.domain[d].min(covered) as f64 / covered as f64;
            }
        }
        let inside = |load: i64| {
            // Not more for being rounded otherwise.
            match share < 1.0 {
                true => ((load as f64 * share) as i64 - 1).max(0),
                false => load,
            }
        };
        let count = times.saturating_mul(trips);
        let whole = fixed.cycles.saturating_mul(count);
        let (mut load, mut slid) = (i64::MAX, whole);
        for d in moving() {
            let ring = tile
                .ring(space, d)
                .filter(|_| self.slides[d] && self.rings(i));
            let own = match ring {
                Some(ring) => {
                    let place = &self.places.operands[i];
                    let engine = place.load.unwrap_or(self.places.store);
                    let shape = &self.group.operands[i].shape;
                    let again = fixed.again(tile, ring, (shape, bytes(self.elems[i])), engine);
                    let own = fixed.sliding(count, space.trips(d), again);
                    slid = slid.min(own);
                    own
                }
                None => whole,
            };
            load = load.min(own);
        }
        Least {
            load: inside(load.min(whole)),
            starts: fixed.starts.saturating_mul(count),
            first: fixed.cycles,
            trips,
            anew: inside(whole),
            slid: inside(slid),
        }
    }
}
