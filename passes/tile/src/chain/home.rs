//! The home of a tensor that stays near: a box that all readers find their tiles in.
//!
//! Readers are planned as if the tensor lay in near memory as each wants it; where the boxes that they read are not
//! parts of one, all are planned again with the order of one of them.

use std::sync::Arc;

use tir::Value;

use super::cost::each;
use super::reach::{ends, outside, zero};
use super::resident::{Candidate, Planner, State};
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

impl Planner<'_> {
    /// The nests that read a tensor, planned again, and its home. Where they want it in different orders, that of
    /// each is tried for all.
    pub(super) fn readers(
        &self,
        state: &State,
        candidate: &Candidate,
        homes: &mut Homes,
    ) -> Result<(Vec<Planned>, Lying), Why> {
        let value = candidate.value;
        let plan = |homes: &Homes| -> Result<Vec<Planned>, Why> {
            let plan = |reader: &usize| {
                let stages = self.plan(state, *reader, homes);
                let why = match self.copies_only(state, *reader) {
                    true => "engines bring it into another order",
                    false => "a nest does not run on a unit where it lies near",
                };
                Ok((*reader, stages.ok_or(why)?))
            };
            candidate.readers.iter().map(plan).collect()
        };
        let mut planned = plan(homes)?;
        let read = reads(&mut planned, value);
        let why = match self.home(&read) {
            Ok(home) => return Ok((planned, home)),
            Err(why) => why,
        };
        let mut tried: Vec<Placed> = Vec::new();
        for (_, plan_of, i) in &read {
            let placed = Placed::of(&plan_of.tiles[*i]);
            if tried.contains(&placed) || plan_of.tiles[*i].reassociation().is_some() {
                continue;
            }
            tried.push(placed.clone());
            let lies = Lies {
                placed,
                zeros: Vec::new(),
                grows: true,
            };
            homes.insert(value, lies);
            let again = plan(homes);
            homes.remove(&value);
            let Ok(mut again) = again else { continue };
            if let Ok(home) = self.home(&reads(&mut again, value)) {
                return Ok((again, home));
            }
        }
        Err(why)
    }

    /// The home for what reads a tensor: the box of one reader, as large as all need it; and the dimensions of the
    /// tensor beyond whose ends it is zero.
    fn home(&self, read: &[(Group, Plan, usize)]) -> Result<Lying, Why> {
        let placed = read.iter().map(|(_, plan, i)| Placed::of(&plan.tiles[*i]));
        let placed: Vec<Placed> = placed.collect();
        let leaves = |(group, _, i): &(Group, Plan, usize)| group.operands[*i].leaves;
        let mut paddings = read.iter().filter(|read| leaves(read));
        let first = paddings.clone().next();
        let same = |(group, _, i): &(Group, Plan, usize)| {
            let padding = |group: &Group, i: usize| outside(self.ir, &group.operands[i]).ok();
            let first = first.and_then(|(group, _, i)| padding(group, *i));
            first.is_some() && padding(group, *i) == first
        };
        if !paddings.all(same) {
            return Err("its readers want different borders");
        }
        let beyond = read.iter().map(|(group, plan, i)| ends(group, plan, *i));
        let mut zeros = beyond.flatten().flatten().collect::<Vec<usize>>();
        zeros.sort_unstable();
        zeros.dedup();
        // Both are filled with the same.
        let nothing = |(group, _, i): &(Group, Plan, usize)| outside(self.ir, &group.operands[*i]);
        let elem = read
            .first()
            .map(|(group, _, i)| self.ir.ty(group.operands[*i].source).elem());
        let zero = elem.and_then(zero);
        if !zeros.is_empty() && first.is_some_and(|read| nothing(read).ok() != zero) {
            return Err("its readers want different borders");
        }
        // What is computed from it in near memory goes by the tile that it was planned with.
        let inner = |(group, _, i): &(Group, Plan, usize)| {
            let mut inner = group.operands.iter().flat_map(|o| o.inner.as_ref());
            inner.any(|inner| inner.inputs.contains(i))
        };
        if read.iter().any(inner) {
            return Err("a value that is computed in near memory reads it");
        }
        let space = |(_, plan, i): &(Group, Plan, usize)| plan.spaces[*i];
        if read
            .iter()
            .any(|other| space(other) != self.target.near.name)
        {
            return Err("it is read in another space");
        }
        // Those with a border first, then those that read the most.
        let mut order: Vec<usize> = (0..read.len()).collect();
        order.sort_by_key(|i| std::cmp::Reverse((leaves(&read[*i]), placed[*i].elements())));
        // As they are read, and with all sequences of which some read one.
        let bases = order
            .iter()
            .flat_map(|base| [(*base, false), (*base, true)]);
        for (base, sequences) in bases {
            let (group, plan, number) = &read[base];
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
            let inside = read.iter().zip(&placed).all(|((_, plan, i), other)| {
                let dense = plan.tiles[*i].joined.len();
                whole.find(other, dense).is_some()
            });
            if !inside {
                continue;
            }
            let (mut group, mut plan) = (group.clone(), plan.clone());
            // What is read outside for results that are dropped is something, too.
            let outside = whole.start.iter().any(|start| *start < 0);
            group.operands[*number].leaves |= first.is_some() || outside;
            if let Some((other, _, i)) = first {
                group.operands[*number].padding = other.operands[*i].padding;
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
        Err("its readers want it in different orders")
    }
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

/// What stages read of a tensor in near memory: the group, its plan, and which operand it is.
fn reads(planned: &mut [Planned], value: Value) -> Vec<(Group, Plan, usize)> {
    let mut read = Vec::new();
    for stage in planned.iter_mut().flat_map(|(_, stages)| stages) {
        each(stage, &mut |stage| {
            for (i, operand) in stage.group.operands.iter().enumerate() {
                if operand.near && operand.source == value {
                    read.push((stage.group.clone(), stage.plan.clone(), i));
                }
            }
        });
    }
    read
}
