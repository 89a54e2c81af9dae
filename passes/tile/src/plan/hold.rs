//! Operands that stay: a tile for all trips of loops that would move it, loaded before them.

use std::sync::Arc;

use tir::Type;
use tir_accel::machine::{EngineInfo, SpaceInfo};

use super::traffic::{Fixed, Holder, Moved, bytes};
use super::{Budget, Plan, Target};
use crate::group::Group;
use crate::layout::{Axis, Space, Tile};

/// What an operand's tile takes, and the tile.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The tile.
    pub tile: Tile,
    /// Inside of how many loops it is loaded.
    pub level: usize,
    /// What it takes in near memory.
    pub holder: Holder,
    /// Cycles of the engine that loads it, in all trips.
    pub load: i64,
    /// Of them those of the first trip.
    pub first: i64,
    /// Transfers that the thread starts.
    pub starts: i64,
}

/// The iterators of loops that a tile of an operand stays for: those of the loops that moved it.
pub fn held(plan: &Plan, operand: usize) -> impl Iterator<Item = usize> + '_ {
    let level = plan.hold[operand];
    let inner = level.map_or(&[][..], |level| &plan.order[level..]);
    let forms = &plan.tiles[operand].forms;
    inner.iter().copied().filter(|d| forms.uses(*d))
}

/// The tile of an operand that is loaded inside of so many loops, and what it takes; `None` if that is no
/// tile of the unit, or no tile that others are computed from.
pub fn hold(
    group: &Group,
    target: &Target<'_>,
    plan: &Plan,
    operand: usize,
    level: usize,
    (elem, budget): (Type, Budget),
) -> Option<Hold> {
    let (space, tile) = held_tile(group, plan, operand, level)?;
    let far = &group.operands[operand];
    let (near, engine) = loaded(target, plan, operand)?;
    let (elem, align) = (bytes(elem), near.align.max(1));
    let fixed = Fixed::load(&tile, elem, far, engine, align);
    let moved = Moved {
        tile: &tile,
        fixed: &fixed,
        space: &space,
        order: &plan.order,
        level,
        times: 1,
        elem,
        shape: &far.shape,
        engine,
        align,
        depth: budget.depth,
        slides: far.map.dims > 0,
    }
    .traffic();
    Some(Hold {
        level,
        holder: Holder {
            bytes: moved.near,
            one: moved.one,
            exposed: moved.cycles - moved.first,
        },
        load: moved.cycles,
        first: moved.first,
        starts: moved.starts,
        tile,
    })
}

/// The same as it lies in near memory that another nest computes it in: all of it is there, nothing loads it.
pub(super) fn hold_near(
    group: &Group,
    target: &Target<'_>,
    plan: &Plan,
    operand: usize,
) -> Option<Hold> {
    loaded(target, plan, operand)?;
    let (_, tile) = held_tile(group, plan, operand, 0)?;
    Some(Hold {
        level: 0,
        holder: Holder::default(),
        load: 0,
        first: 0,
        starts: 0,
        tile: tile.joined_blocks().aligned(),
    })
}

/// Where the tile of an operand lies, and what loads it.
fn loaded<'t>(
    target: &'t Target<'_>,
    plan: &Plan,
    operand: usize,
) -> Option<(&'t SpaceInfo, &'t EngineInfo)> {
    let near = target.info.space(plan.spaces[operand])?;
    let engine = target.info.engine_between(target.far.name, near.name)?;
    Some((near, engine))
}

/// The tile of an operand that stays inside of so many loops, and the space that it is a tile of.
fn held_tile(group: &Group, plan: &Plan, operand: usize, level: usize) -> Option<(Space, Tile)> {
    let far = &group.operands[operand];
    let old = &plan.tiles[operand];
    let mut space: Space = (*plan.space).clone();
    for d in &plan.order[level..] {
        if old.forms.uses(*d) {
            // Blocks of the last trip that lie beyond the range are read as well.
            space.tile[*d] = space.covered(*d);
        }
    }
    // The iterators of the unit's operand, as they are in the tile.
    let units = old.joined.iter().sum::<usize>();
    let mut dims = old.dims[old.dims.len() - units..].iter();
    let unit: Vec<Vec<usize>> = old
        .joined
        .iter()
        .map(|count| {
            let some = dims.by_ref().take(*count);
            some.filter_map(|dim| match dim.axis {
                Axis::Unit(d, ..) => Some(d),
                _ => None,
            })
            .collect()
        })
        .collect();
    let tile = Tile::new(&space, &Arc::new(far.map.linear()?), &unit)?;
    if !far.fits(&space, &tile) {
        return None;
    }
    // A value that is computed for a tile alone is computed from all of the tiles that it reads, not from parts of them.
    let mut inner = group.operands.iter().filter_map(|of| of.inner.as_ref());
    if tile.dims != old.dims && inner.any(|inner| inner.inputs.contains(&operand)) {
        return None;
    }
    Some((space, tile))
}

impl Plan {
    /// Loads an operand's tile as it says.
    pub fn keep(&mut self, operand: usize, hold: Hold) {
        let mut tiles = self.tiles.to_vec();
        tiles[operand] = Arc::new(hold.tile);
        self.tiles = Arc::from(tiles);
        self.hold[operand] = Some(hold.level);
        self.holders[operand] = hold.holder;
    }
}
