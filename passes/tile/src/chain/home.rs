//! The home of a tensor that stays near: a box that all readers find their tiles in.
//!
//! Readers are planned as if the tensor lay in near memory as each wants it; where the boxes that they read are not
//! parts of one, all are planned again with the order of one of them.

use std::sync::Arc;

use super::cost::each;
use super::reach::{ends, outside, zero};
use super::resident::{Candidate, Planner, Shared, State};
use super::stage::{Homes, Lies};
use super::{Made, Segment, Stage};
use crate::group::Group;
use crate::layout::{Axis, Dim, Tile};
use crate::placed::Placed;
use crate::plan::{Plan, boxes};

/// A nest by its number, and its stages.
pub(super) type Planned = (usize, Vec<Stage>);

/// A stage that reads a tensor as it lies in its home, and the dimensions of the tensor beyond whose ends it is zero
/// there.
pub(super) type Lying = (Stage, Vec<usize>);

/// Why a tensor does not stay.
pub(super) type Why = &'static str;

/// Why a tensor does not stay of which no home holds what all read.
const ORDERS: Why = "its readers want it in different orders";

/// What a stage reads of a tensor that stays.
struct Read<'a> {
    group: Group,
    plan: Plan,
    /// Which operand it is.
    operand: usize,
    /// The part of the tensor that the operand is, if it is not all of it.
    part: Option<&'a Shared>,
}

impl Read<'_> {
    fn tile(&self) -> &Arc<Tile> {
        &self.plan.tiles[self.operand]
    }
    /// Whether it is read outside, too.
    fn leaves(&self) -> bool {
        self.group.operands[self.operand].leaves
    }
    /// The box that is read, in the tensor.
    fn placed(&self) -> Placed {
        let placed = Placed::of(self.tile());
        match self.part {
            Some(part) => placed.moved(&part.at),
            None => placed,
        }
    }
    /// How far results lie apart, where not one behind the other.
    fn steps(&self) -> Vec<i64> {
        let group = &self.group;
        let forms = group.operands[self.operand].map.linear();
        let steps = forms
            .iter()
            .flat_map(|forms| forms.iter())
            .flat_map(|form| {
                let own = form.terms().filter(|(d, _)| !group.reductions[*d]);
                own.map(|(_, step)| step)
            });
        steps.filter(|step| *step > 1).collect()
    }
    /// The dimensions beyond whose ends a reduction reads what is to be zero.
    fn ends(&self) -> Vec<usize> {
        ends(&self.group, &self.plan, self.operand).unwrap_or_default()
    }
}

impl Planner<'_> {
    /// The nests that read a tensor, planned again, and its home. Where they want it in different orders, that of
    /// each is tried for all; it is as so many interleaved sequences if that is said.
    pub(super) fn readers(
        &self,
        state: &State,
        candidate: &Candidate,
        homes: &mut Homes,
        sequences: Option<i64>,
    ) -> Result<(Vec<Planned>, Lying), Why> {
        let plan = |homes: &Homes| -> Result<Vec<Planned>, Why> {
            let plan = |reader: usize| {
                let stages = self.plan(state, reader, homes);
                let why = match self.copies_only(state, reader) {
                    true => "engines bring it into another order",
                    false => "a nest does not run on a unit where it lies near",
                };
                Ok((reader, stages.ok_or(why)?))
            };
            candidate.all_readers().into_iter().map(plan).collect()
        };
        let mut planned = plan(homes)?;
        let read = reads(&mut planned, candidate);
        let why = match self.home(&read) {
            Ok(home) if sequences.is_none() => return Ok((planned, home)),
            Ok(_) => ORDERS,
            Err(why) => why,
        };
        let mut tried: Vec<Placed> = Vec::new();
        for placed in orders(&read, sequences) {
            if tried.contains(&placed) {
                continue;
            }
            tried.push(placed.clone());
            let lies = Lies {
                placed,
                zeros: Vec::new(),
                beside: Vec::new(),
                grows: true,
            };
            let shared = candidate.shared.iter();
            homes.extend(shared.map(|part| (part.value, part.lies(&lies))));
            homes.insert(candidate.value, lies);
            let again = plan(homes);
            homes.remove(&candidate.value);
            for part in &candidate.shared {
                homes.remove(&part.value);
            }
            let Ok(mut again) = again else { continue };
            if let Ok(home) = self.home(&reads(&mut again, candidate)) {
                return Ok((again, home));
            }
        }
        Err(why)
    }

    /// The home for what reads a tensor: the box of one reader, as large as all need it; and the dimensions of the
    /// tensor beyond whose ends it is zero.
    fn home(&self, read: &[Read<'_>]) -> Result<Lying, Why> {
        let placed: Vec<Placed> = read.iter().map(Read::placed).collect();
        // What lies beside a part is another one.
        let others = |read: &Read<'_>| {
            let Some(part) = read.part else { return false };
            let ends = read.ends();
            let zero = part.beside.iter().any(|s| ends.contains(s));
            let shape = self.ir.ty(part.value).shape().unwrap_or(&[]);
            let placed = Placed::of(read.tile());
            zero || read.leaves() && part.beside.iter().any(|s| placed.leaves_in(*s, shape))
        };
        if read.iter().any(others) {
            return Err("what is read around a part lies in another one");
        }
        let mut paddings = read.iter().filter(|read| read.leaves());
        let first = paddings.clone().next();
        let same = |read: &Read<'_>| {
            let padding = |read: &Read<'_>| outside(self.ir, &read.group.operands[read.operand]);
            let first = first.and_then(|first| padding(first).ok());
            first.is_some() && padding(read).ok() == first
        };
        if !paddings.all(same) {
            return Err("its readers want different borders");
        }
        let mut zeros = read.iter().flat_map(Read::ends).collect::<Vec<usize>>();
        zeros.sort_unstable();
        zeros.dedup();
        // Both are filled with the same.
        let nothing = |read: &Read<'_>| outside(self.ir, &read.group.operands[read.operand]);
        let elem = read.first().map(|read| {
            let operand = &read.group.operands[read.operand];
            self.ir.ty(operand.source).elem()
        });
        let zero = elem.and_then(zero);
        if !zeros.is_empty() && first.is_some_and(|read| nothing(read).ok() != zero) {
            return Err("its readers want different borders");
        }
        // What is computed from it in near memory goes by the tile that it was planned with.
        let inner = |read: &Read<'_>| {
            let mut inner = read.group.operands.iter().flat_map(|o| o.inner.as_ref());
            inner.any(|inner| inner.inputs.contains(&read.operand))
        };
        if read.iter().any(inner) {
            return Err("a value that is computed in near memory reads it");
        }
        let space = |read: &Read<'_>| read.plan.spaces[read.operand];
        if read
            .iter()
            .any(|other| space(other) != self.target.near.name)
        {
            return Err("it is read in another space");
        }
        // Those with a border first, then those that read the most.
        let mut order: Vec<usize> = (0..read.len()).collect();
        order.retain(|i| read[*i].part.is_none());
        order.sort_by_key(|i| std::cmp::Reverse((read[*i].leaves(), placed[*i].elements())));
        // As they are read, and with all sequences of which some read one.
        let bases = order
            .iter()
            .flat_map(|base| [(*base, false), (*base, true)]);
        for (base, sequences) in bases {
            let Read {
                group,
                plan,
                operand: number,
                ..
            } = &read[base];
            let mut tile = plan.tiles[*number].clone();
            if sequences {
                match interleaved(&tile) {
                    Some(all) => tile = Arc::new(all),
                    None => continue,
                }
            }
            let mut whole = Placed::of(&tile);
            let old = whole.start.clone();
            placed.iter().for_each(|other| whole.reach(other));
            let inside = read.iter().zip(&placed).all(|(read, other)| {
                let dense = read.tile().joined.len();
                whole.find(other, dense).is_some()
            });
            if !inside {
                continue;
            }
            let (mut group, mut plan) = (group.clone(), plan.clone());
            // What is read outside for results that are dropped is something, too.
            let outside = whole.start.iter().any(|start| *start < 0);
            group.operands[*number].leaves |= first.is_some() || outside;
            if let Some(other) = first {
                group.operands[*number].padding = other.group.operands[other.operand].padding;
            }
            let mut tiles = plan.tiles.to_vec();
            let own = Arc::make_mut(&mut tile);
            for (dim, extent) in own.dims.iter_mut().zip(&whole.dims) {
                dim.size = extent.size;
            }
            for ((low, start), old) in own.low.iter_mut().zip(&whole.start).zip(&old) {
                *low += start - old;
            }
            tiles[*number] = tile;
            plan.tiles = tiles.into();
            let elem = self.ir.ty(group.operands[*number].source).elem();
            let filler = boxes(self.target, plan.spaces[*number], elem, &[]);
            let filler = filler.map(|(unit, _)| unit);
            let mut stage = Stage::alone(group, plan);
            stage.segments.push(Segment {
                start: 0,
                trips: i64::MAX,
                made: vec![Made {
                    between: None,
                    operand: *number,
                    level: 0,
                    ring: None,
                    boxes: filler,
                    before: Vec::new(),
                    parts: Vec::new(),
                    behind: Vec::new(),
                }],
            });
            return Ok((stage, zeros));
        }
        Err(ORDERS)
    }
}

/// The orders of dimensions that readers want; where some read a part in steps along the rows of a unit, which others read as
/// they are, those of the others with interleaved sequences of rows, too. Only those with so many sequences if that is said.
fn orders(read: &[Read<'_>], sequences: Option<i64>) -> Vec<Placed> {
    let plain = read
        .iter()
        .filter(|read| read.tile().reassociation().is_none());
    let of = |read: &Read<'_>| {
        let mut placed = read.placed();
        for s in read.part.iter().flat_map(|part| &part.beside) {
            placed.in_blocks(*s);
        }
        placed
    };
    let whole = plain.clone().filter(|read| read.part.is_none());
    let in_sequences = |count: i64| {
        let units = |read: &Read<'_>| read.tile().joined.iter().sum();
        let all = whole.clone();
        all.filter_map(move |read| read.placed().in_sequences(units(read), count))
    };
    if let Some(count) = sequences {
        return in_sequences(count).collect();
    }
    let mut all: Vec<Placed> = plain.clone().map(of).collect();
    if read.iter().any(|read| read.part.is_some()) {
        let mut steps: Vec<i64> = read.iter().flat_map(Read::steps).collect();
        steps.sort_unstable();
        steps.dedup();
        all.extend(steps.into_iter().flat_map(in_sequences));
    }
    all
}

/// A tile of every so many-th element along a dimension of its source with all that lies between them, as interleaved
/// sequences; `None` if it has all.
fn interleaved(tile: &Tile) -> Option<Tile> {
    let mut tile = tile.clone();
    let phase = |s: usize| {
        let mut dims = tile.dims.iter();
        dims.any(|dim| dim.source.0 == s && matches!(dim.axis, Axis::Phase(..)))
    };
    let alone =
        |dim: &&Dim| matches!(dim.axis, Axis::Unit(..)) && dim.source.1 > 1 && !phase(dim.source.0);
    let t = tile.dims.iter().position(|dim| alone(&dim))?;
    let (s, stride) = tile.dims[t].source;
    let dim = Dim {
        axis: Axis::Phase(Vec::new(), stride),
        size: stride,
        source: (s, 1),
    };
    let units = tile.joined.iter().sum::<usize>();
    let first = tile.dims.len().checked_sub(units)?;
    tile.dims.insert(first, dim);
    let before = (tile.forms[s].constant + tile.low[s]).rem_euclid(stride);
    tile.low[s] -= before;
    Some(tile)
}

/// What stages read of a tensor in near memory, or of a part of it that lies there.
fn reads<'c>(planned: &mut [Planned], candidate: &'c Candidate) -> Vec<Read<'c>> {
    let mut read = Vec::new();
    for stage in planned.iter_mut().flat_map(|(_, stages)| stages) {
        each(stage, &mut |stage| {
            for (number, operand) in stage.group.operands.iter().enumerate() {
                let mut shared = candidate.shared.iter();
                let part = shared.find(|part| part.value == operand.source);
                if operand.near && (operand.source == candidate.value || part.is_some()) {
                    read.push(Read {
                        group: stage.group.clone(),
                        plan: stage.plan.clone(),
                        operand: number,
                        part,
                    });
                }
            }
        });
    }
    read
}
