//! Makes a group the producer of a tile: its iteration space is rewritten over the loops around the tile and the
//! tile's dimensions.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use tir::{AffineExpr, Ir, Value};

use super::border::{Border, Filling, Origins, border, is_short};
use super::forms::{Cuts, Forms};
use super::plans::Known;
use super::reach::{Within, outside, part, within};
use super::ring::Rows;
use super::{Between, Made, Ring, Share, Stage};
use crate::group::{Group, Operand, Slot};
use crate::layout::{Axis, Tile};
use crate::placed::Placed;
use crate::plan::{Budget, Plan, TRIED, Target, boxes, columns, gives_zero, rows};

/// A group that computes a box of a tensor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maker<'a> {
    pub(super) group: &'a Group,
    /// Where in the tensor its result begins; none where it begins.
    pub(super) at: &'a [i64],
    /// What is done to its result, if anything is.
    pub(super) between: Option<&'a Arc<Between>>,
}

/// Who computes the tensors that stages of a chain read.
pub(super) type Makers<'a> = HashMap<Value, Vec<Maker<'a>>>;

/// Which other ways there were while stages were made: where there was none, the other way is the same one.
#[derive(Default)]
pub(super) struct Seen {
    /// Rows of windows that could stay.
    pub(super) rows: Cell<bool>,
    /// What lies outside of tensors that engines could fill.
    pub(super) fills: Cell<bool>,
}

/// What stages are planned with.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) ir: &'a Ir,
    pub(super) target: &'a Target<'a>,
    pub(super) budget: Budget,
    pub(super) makers: &'a Makers<'a>,
    pub(super) known: &'a Known,
    /// What becomes of rows of windows that overlap.
    pub(super) rows: Rows,
    /// Whether engines fill what lies outside of tensors behind the units.
    pub(super) engines: bool,
    /// Whether a producer of a part computes in some trips of the innermost loop, which is not cut then.
    pub(super) shares: bool,
    /// Bytes that the tiles may take which a producer loads; where it would take more, its sums are computed in
    /// parts.
    pub(super) most: i64,
    /// Whether interleaved sequences are computed as one, not one by one; both where it is not said.
    pub(super) joint: Option<bool>,
    /// The tensors that lie in near memory for longer than a nest, and how.
    pub(super) homes: &'a Homes,
    /// Where to say what other ways there are, if someone asks.
    pub(super) seen: Option<&'a Seen>,
}

/// How tensors lie in near memory that do so for longer than a nest.
pub(super) type Homes = HashMap<Value, Lies>;

/// How a tensor lies in near memory.
#[derive(Clone, Debug)]
pub(super) struct Lies {
    pub(super) placed: Placed,
    /// The dimensions of the tensor in which what lies beyond its end is zero.
    pub(super) zeros: Vec<usize>,
    /// The dimensions in which other parts of a larger tensor lie around it: never zeros.
    pub(super) beside: Vec<usize>,
    /// Whether it may still be made larger, and zero beyond other ends.
    pub(super) grows: bool,
}

impl Lies {
    /// Whether a tile has a part of it, of which the last dimensions are those of a unit; what lies beyond the end in
    /// `ends` is to be zero.
    pub(super) fn holds(&self, tile: &Tile, ends: &[usize]) -> bool {
        let zero = |s: &usize| !self.beside.contains(s) && (self.grows || self.zeros.contains(s));
        if !ends.iter().all(zero) {
            return false;
        }
        let (other, dense) = (Placed::of(tile), tile.joined.len());
        let mut placed = self.placed.clone();
        if self.grows {
            placed.reach(&other);
        }
        placed.find(&other, dense).is_some()
    }
}

/// A group that computes an operand, or a part of it.
pub(super) struct Producer {
    /// The number of its maker.
    pub(super) which: usize,
    pub(super) group: Group,
    /// The trips of the innermost loop in which it computes, if these are not all.
    pub(super) share: Option<Share>,
}

/// An operand that stays in near memory.
#[derive(Clone, Copy)]
pub(super) struct Stays<'a> {
    /// The dimensions of the tensor beyond whose ends it is zero.
    pub(super) zeros: &'a [usize],
    /// Whether engines load parts of it.
    pub(super) loaded: bool,
    /// Whether those that compute parts do so in the order in which these lie.
    pub(super) ascends: bool,
    /// For each maker, the dimensions of the tensor in which it reads other parts of it.
    pub(super) reads: &'a [Vec<usize>],
}

/// An operand that others compute.
pub(super) struct Computed {
    /// Its borders.
    pub(super) made: Made,
    /// What computes it.
    pub(super) producers: Vec<Producer>,
    /// The indices of its tile between its borders, for each sequence that is computed by itself.
    pub(super) inside: Vec<Vec<(i64, i64)>>,
}

/// Why an operand cannot be computed inside the loops of a plan.
#[derive(Debug)]
pub(super) enum No {
    /// For good.
    Never(&'static str),
    /// A loop has to be cut before this trip: another producer's part begins there.
    Cut { level: usize, trip: i64 },
}

/// The loops around a tile in which a maker computes, and its share of the innermost one if that is cut.
type Shared = (Vec<Around>, Option<Share>);

/// A loop around a tile: which iterator of the reader it counts, its first trip, and how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    pub(super) iterator: usize,
    pub(super) start: i64,
    pub(super) trips: i64,
}

impl Context<'_> {
    /// The operand of a stage computed inside its loops.
    fn made(
        &self,
        reader: &Group,
        plan: &Plan,
        number: usize,
        loops: &[Around],
    ) -> Result<Made, No> {
        let Computed {
            mut made,
            producers,
            ..
        } = self.producers(reader, plan, number, loops, None)?;
        let mut loops = loops[..made.level].to_vec();
        if let Some(ring) = &made.ring {
            // What computes the rows that stay counts from the first of its early trips.
            loops[ring.level].trips += ring.early;
        }
        for Producer { group, share, .. } in producers {
            let mut loops = loops.clone();
            if let (Some(share), Some(innermost)) = (share, loops.last_mut()) {
                innermost.trips = share.trips;
            }
            let mut part = self.stage(group, plan.spaces[number], &loops)?;
            part.share = share;
            made.parts.push(part);
        }
        if let Some(done) = &made.between {
            done.what.fits(&plan.tiles[number], &made.parts)?;
        }
        Ok(made)
    }

    /// The borders of an operand that is computed inside the loops of a stage, and the groups that compute it; of one that stays in
    /// near memory, whatever this reader reads there.
    pub(super) fn producers(
        &self,
        reader: &Group,
        plan: &Plan,
        number: usize,
        loops: &[Around],
        stays: Option<Stays<'_>>,
    ) -> Result<Computed, No> {
        let zeros = stays.map(|stays| stays.zeros);
        let (operand, tile) = (&reader.operands[number], &plan.tiles[number]);
        let makers = &self.makers[&operand.source];
        let level = plan.level(number);
        let mut loops = loops[..level].to_vec();
        let ring = || Ring::of(plan, number, operand, &loops);
        let (ring, again) = match self.rows {
            Rows::Anew => {
                if let Some(seen) = self.seen.filter(|seen| !seen.rows.get()) {
                    seen.rows.set(ring().is_some());
                }
                (None, false)
            }
            Rows::Stay { again } => (ring(), again),
        };
        let again = again && ring.is_some() || stays.is_some() && self.budget.shifts;
        if let Some(ring) = &ring {
            let around = &mut loops[ring.level];
            (around.start, around.trips) = (around.start - ring.early, around.trips + ring.early);
        }
        let loops = &loops[..];
        if tile.reassociation().is_some() {
            return Err(No::Never("iterators are one dimension of a unit"));
        }
        let space = &plan.space;
        let block = plan.unit.as_ref().and_then(|_| {
            let units = tile.joined.len();
            let t = tile.dims.len().checked_sub(units)?;
            match tile.dims.get(t)?.axis {
                Axis::Unit(d, ..) => Some((t, d)),
                _ => None,
            }
        });
        // What a reduction reads beyond its range is zero where the tensor ends, so that it adds nothing.
        let rounded = |d: &usize| {
            let read = operand.map.exprs.iter().any(|e| e.uses(*d));
            read && space.covered(*d) * space.block[*d] != reader.domain[*d]
        };
        let rounded: Vec<usize> = reader.iterators(true).filter(rounded).collect();
        if zeros.is_none() && rounded.iter().any(|d| block.map(|(_, d)| d) != Some(*d)) {
            return Err(No::Never("a reduction is rounded up"));
        }
        let step = |s: usize, around: &Around| {
            tile.forms[s].at(around.iterator) * space.extent(around.iterator)
        };
        let begin = |loops: &[Around], s: usize| {
            let starts = loops.iter().map(|around| step(s, around) * around.start);
            tile.forms[s].constant + tile.low[s] + starts.sum::<i64>()
        };
        let origins = |loops: &[Around]| -> Origins {
            let all = (0..operand.shape.len()).map(|s| {
                let far = loops
                    .iter()
                    .map(|around| step(s, around) * (around.trips - 1));
                let far: Vec<i64> = far.collect();
                let low = far.iter().map(|f| (*f).min(0)).sum::<i64>();
                let high = far.iter().map(|f| (*f).max(0)).sum::<i64>();
                (begin(loops, s) + low, begin(loops, s) + high)
            });
            all.collect()
        };
        let whole = origins(loops);
        let value = outside(self.ir, operand)?;
        // Where an iterator counts a dimension, only what is rounded up lies outside, for results that are dropped.
        let counts = |(at, size): (&AffineExpr, &i64)| match at {
            AffineExpr::Dim(d) => reader.domain[*d] == *size,
            _ => false,
        };
        let ends = |s: usize| match zeros {
            Some(zeros) => zeros.contains(&s),
            None => rounded.iter().any(|d| tile.forms[s].at(*d) != 0),
        };
        let dims = operand.map.exprs.iter().zip(&operand.shape);
        let padded: Vec<bool> = dims
            .enumerate()
            .map(|(s, dim)| operand.leaves && !counts(dim) || ends(s))
            .collect();
        // Interleaved sequences are computed one by one.
        let mut phases: Vec<Vec<Option<i64>>> = vec![vec![None; tile.dims.len()]];
        for (t, dim) in tile.dims.iter().enumerate() {
            if matches!(dim.axis, Axis::Phase(..)) {
                let all = phases.iter().flat_map(|fixed| {
                    (0..dim.size).map(move |phase| {
                        let mut fixed = fixed.clone();
                        fixed[t] = Some(phase);
                        fixed
                    })
                });
                phases = all.collect();
            }
        }
        // Units write blocks of so many rows, as large as those of the reader where that is possible; a vector unit
        // as many as there are.
        let own = tile.dims.iter().filter_map(|dim| match dim.axis {
            Axis::Unit(d, ..) => Some(space.block[d]),
            _ => None,
        });
        let own = own.collect::<Vec<i64>>();
        let each = makers
            .iter()
            .map(|maker| rows(self.ir, maker.group, self.target));
        let each: Vec<Vec<(usize, i64)>> = each.collect();
        let rows = each.iter().flatten().copied();
        let rows = rows.max_by_key(|(_, size)| (own.contains(size), *size));
        // A vector unit writes no more than there is.
        let uneven = each
            .iter()
            .any(|own| rows.is_some_and(|rows| !own.contains(&rows)));
        let block = rows.and_then(|(rank, size)| Some((tile.dims.len().checked_sub(rank)?, size)));
        if let Some(zeros) = zeros
            && let rows = block.map(|(t, _)| tile.dims[t].source.0)
            && let zeros = zeros.iter().filter(|s| Some(**s) != rows).copied()
            && let zeros = zeros.collect::<Vec<usize>>()
            && makers.iter().any(|maker| self.exceeds(maker, &zeros))
        {
            return Err(No::Never(
                "blocks of a unit write what is not zero beyond its end",
            ));
        }
        let elem = self.ir.ty(operand.source).elem();
        let filler = boxes(self.target, plan.spaces[number], elem, &[]).map(|(unit, _)| unit);
        // Filled once, by what may be a few transfers: units would take whole blocks of near memory.
        let once = zeros.is_some() || level == 0 && ring.is_none() && self.budget.worth > 0;
        let later = |s: usize, maker: &Maker<'_>| maker.at.get(s).is_some_and(|at| *at != 0);
        let behind = (0..operand.shape.len()).map(|s| makers.iter().any(|m| later(s, m)));
        let behind: Vec<bool> = behind.collect();
        // What a block writes behind its part another one overwrites later.
        if let Some((t, size)) = block
            && stays.is_some_and(|stays| !stays.ascends)
            && let s = tile.dims[t].source.0
            && behind[s]
        {
            // Rows of a block lie apart where some of the tensor are not there, or in other sequences.
            let size = size * tile.dims[t].source.1.max(1);
            let whole = |maker| part(maker, s).is_some_and(|(from, to)| (to - from) % size == 0);
            if !makers.iter().all(whole) {
                let why = "blocks of a unit reach into a part that was computed before";
                return Err(No::Never(why));
            }
        }
        let filling = Filling {
            boxes: filler.is_some(),
            padded: &padded,
            value,
            unit: block,
            parts: &behind,
            exact: uneven || stays.is_some_and(|stays| stays.loaded),
            ring: ring.as_ref(),
            again,
            engine: &|sizes| self.fills_behind(plan.spaces[number], elem, sizes, once),
        };
        let with = |fixed: &Vec<_>| border(tile, &operand.shape, &whole, &filling, fixed);
        // In one nest for what stays, where the producers read the same weights for all of them.
        let joint = vec![None; tile.dims.len()];
        let joint = (zeros.is_some() || operand.joint).then(|| with(&joint).ok());
        let joint = joint.flatten();
        let borders = match joint {
            Some(joint) => vec![joint],
            None => {
                let each = phases.iter().map(with);
                let each = each.collect::<Result<Vec<Border>, _>>();
                each.map_err(No::Never)?
            }
        };
        let between = makers.iter().find_map(|maker| maker.between);
        let between = between.map(|between| {
            if makers.len() > 1 || ring.is_some() {
                return Err(No::Never("rows are put together from parts"));
            }
            let (reader, place) = ((reader, plan), (number, level));
            between.done(self.ir, self.target, reader, place, loops)
        });
        let mut made = Made {
            between: between.transpose()?,
            operand: number,
            level,
            ring,
            before: Vec::new(),
            boxes: filler,
            parts: Vec::new(),
            behind: Vec::new(),
        };
        let mut shape: Vec<i64> = tile.dims.iter().map(|dim| dim.size).collect();
        for border in &borders {
            let (mut before, mut behind) = (border.before.clone(), border.behind.clone());
            if once {
                // There is one fill of each box, before all loops: an engine needs its latency for it.
                for fill in before.iter_mut().filter(|fill| fill.rows.is_none()) {
                    fill.by = (filling.engine)(&fill.sizes);
                }
                (before, behind) = (self.in_pieces(&before), self.in_pieces(&behind));
            }
            made.before.extend(before);
            made.behind.extend(behind);
            for (size, needed) in shape.iter_mut().zip(&border.sizes) {
                *size = (*size).max(*needed);
            }
        }
        // What a unit reads at once is dense but for how many rows there are.
        let units = tile.joined.iter().sum::<usize>();
        let rows = tile.dims.len() - units;
        let wider = |t: usize| t > rows && shape[t] > tile.dims[t].size;
        if (0..tile.dims.len()).any(wider) {
            return Err(No::Never("blocks of a unit reach beyond a part"));
        }
        let whole_blocks = block.filter(|block| !again || is_short(&borders, *block));
        let rank = block.map_or(0, |(t, _)| tile.dims.len() - t);
        let mut producers = Vec::new();
        for border in &borders {
            for (which, maker) in makers.iter().enumerate() {
                // Rows that stay are all of one maker.
                let rows = ring.map(|ring| tile.dims[ring.dim].source.0);
                let all = |s: &usize| part(maker, *s) == Some((0, operand.shape[*s]));
                if !maker.at.is_empty() && rows.is_some_and(|s| !all(&s)) {
                    return Err(No::Never("parts lie along the rows that stay"));
                }
                let inside = &border.inside;
                let found = |loops: &[Around]| {
                    if maker.at.is_empty() {
                        return Ok(Some(inside.clone()));
                    }
                    let at = (&operand.shape[..], &origins(loops));
                    within(&|s| part(maker, s), tile, at, inside, loops, rows, &step)
                };
                for (loops, share) in self.shared(makers, loops, &found)? {
                    let Some(inside) = found(&loops)? else {
                        continue;
                    };
                    let mut cuts = Cuts::none(tile, inside, shape.clone());
                    // What stays is one tile, and so are its parts.
                    if let Some(stays) = stays {
                        let read = stays.reads.get(which).map_or(&[][..], |dims| dims);
                        cuts = cuts.by(maker.group, read).map_err(No::Never)?;
                    }
                    let Cuts {
                        tile,
                        inside,
                        shape,
                        cut,
                        begin: moved,
                    } = cuts;
                    let slot = Slot {
                        shape,
                        at: inside.iter().map(|(start, _)| *start).collect(),
                        cut,
                        again,
                        divided: false,
                        rows: whole_blocks.map_or(1, |(_, size)| size),
                        rank,
                        turns: ring.map(|ring| ring.dim),
                    };
                    let forms = Forms {
                        tile: &tile,
                        begin: &|s| begin(&loops, s) + moved[s],
                        step: &step,
                        loops: &loops,
                        inside: &inside,
                    };
                    producers.push(Producer {
                        which,
                        group: forms.producer(maker, slot)?,
                        share,
                    });
                }
            }
        }
        if producers.is_empty() && !makers.is_empty() {
            return Err(No::Never("nothing computes the tile"));
        }
        Ok(Computed {
            made,
            producers,
            inside: borders.into_iter().map(|border| border.inside).collect(),
        })
    }

    /// Whether blocks of a unit may write what is not zero beyond the end of some dimensions of a maker's result, in which no box is
    /// filled behind them.
    fn exceeds(&self, maker: &Maker<'_>, zeros: &[usize]) -> bool {
        let group = maker.group;
        let Some(digits) = group.digits() else {
            return true;
        };
        let sizes = columns(self.ir, group, self.target);
        let known = |operand: &Operand, s: usize| {
            let lies = self.homes.get(&operand.source);
            operand.near && lies.is_some_and(|lies| lies.zeros.contains(&s))
        };
        zeros.iter().any(|s| {
            let of = digits.get(*s).map_or(&[][..], |of| of);
            let Some(d) = of.last() else { return true };
            let whole = sizes.iter().all(|size| group.domain[*d] % size == 0);
            !whole && (of.len() > 1 || !gives_zero(self.ir, group, *d, &known))
        })
    }

    /// The loops around a tile, with those trips of the innermost one in which a maker computes its part alone: all of
    /// them, unless other parts begin at some.
    fn shared(
        &self,
        makers: &[Maker<'_>],
        loops: &[Around],
        found: &dyn Fn(&[Around]) -> Within,
    ) -> Result<Vec<Shared>, No> {
        let all = vec![(loops.to_vec(), None)];
        let Some(innermost) = loops.len().checked_sub(1) else {
            return Ok(all);
        };
        if !self.shares || makers.len() < 2 {
            return Ok(all);
        }
        let begin = loops[innermost].start;
        let end = begin + loops[innermost].trips;
        let mut cuts = vec![begin, end];
        let mut next = 0;
        let mut parts = Vec::new();
        while let [start, end, ..] = cuts[next..] {
            let mut here = loops.to_vec();
            (here[innermost].start, here[innermost].trips) = (start, end - start);
            match found(&here) {
                Err(No::Cut { level, trip })
                    if level == innermost && start < trip && trip < end =>
                {
                    cuts.insert(next + 1, trip);
                    continue;
                }
                Err(other) => return Err(other),
                Ok(Some(_)) => {
                    let share = Share {
                        first: start - begin,
                        trips: end - start,
                    };
                    let part = share.trips < loops[innermost].trips;
                    parts.push((here, part.then_some(share)));
                }
                Ok(None) => {}
            }
            next += 1;
        }
        Ok(parts)
    }

    /// Says of a stage's operands whether others compute them, and how.
    pub(super) fn mark(&self, group: &mut Group) {
        for operand in &mut group.operands {
            operand.made = self.makers.contains_key(&operand.source);
            operand.joint |= operand.made && self.joint == Some(true);
        }
    }

    /// A producer with a plan and what is computed for it in turn.
    fn stage(&self, mut group: Group, space: tir::Name, loops: &[Around]) -> Result<Stage, No> {
        self.mark(&mut group);
        let mut why: Option<No> = None;
        let plans = self.plans(&group);
        let here = |plan: &&Plan| plan.held == space;
        let loaded = plans.iter().filter(here).map(|plan| plan.loaded(&group));
        // One that never takes so little takes what it must.
        let most = loaded.min().map_or(self.most, |least| least.max(self.most));
        let fits =
            |plan: &&Plan| here(plan) && plan.loaded(&group) <= most && self.suits(&group, plan);
        for plan in plans.iter().filter(fits).take(TRIED).cloned() {
            // Loops are counted from where the segment begins: positions know that.
            let outer = loops.iter().map(|around| around.trips).enumerate();
            // Behind them come those over the parts of its sums.
            let parts = plan.order[loops.len()..].iter();
            let parts = parts.map(|d| (*d, plan.space.trips(*d)));
            let own = outer.chain(parts).map(|(iterator, trips)| Around {
                iterator,
                start: 0,
                trips,
            });
            let own: Vec<Around> = own.collect();
            match self.complete(group.clone(), plan, &own) {
                Ok(stage) => return Ok(stage),
                // A loop over parts of sums is not cut.
                Err(No::Cut { level, .. }) if level >= loops.len() => {}
                Err(cut @ No::Cut { .. }) => return Err(cut),
                // The quickest way says why.
                Err(other) => {
                    why.get_or_insert(other);
                }
            }
        }
        let none = No::Never("no unit computes it in the order of the tile");
        Err(why.unwrap_or(none))
    }

    /// A stage of one segment: all its operands that others compute are computed.
    pub(super) fn complete(&self, group: Group, plan: Plan, loops: &[Around]) -> Result<Stage, No> {
        let mut stage = Stage::alone(group, plan);
        let mut made = Vec::new();
        for number in 0..stage.group.operands.len() {
            if stage.group.operands[number].made {
                made.push(self.made(&stage.group, &stage.plan, number, loops)?);
            }
        }
        stage.segments.push(super::Segment {
            start: 0,
            trips: i64::MAX,
            made,
        });
        Ok(stage)
    }
}
