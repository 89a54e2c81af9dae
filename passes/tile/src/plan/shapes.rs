//! The tiles of a division, whatever the order of its loops.
//!
//! What a tile is like depends on the sizes of the iterators alone that move it, so most divisions of a group share
//! their tiles with others: [`Shapes`] keeps them by those sizes.

mod bound;
mod known;

use std::sync::Arc;

use tir::{LinearMap, Name, Type};

use super::cost::Cost;
use super::estimate::OnUnit;
use super::lanes::Lanes;
use super::places::Places;
use super::sizes::{any_order, slides};
use super::strip::Strip;
use super::traffic::{Fixed, Moved, Traffic, bytes};
use super::unit::{UnitChoice, Way, out_order};
use super::vectors::Vectors;
use super::{Budget, Strips, Target};
use crate::group::{Group, Input, Operand, Out};
use crate::layout::{Space, Tile};

use bound::{Least, Moving};
use known::Known;

/// Tiles of one way to compute a group, by the sizes of the iterators that they depend on.
pub(super) struct Shapes<'a> {
    made: Made<'a>,
    operands: Vec<Known<Option<Loaded>>>,
    results: Known<Option<Stored>>,
    /// The near space of each operand.
    spaces: Arc<[Name]>,
    /// Cycles of a call of the unit, 0 without.
    call: i64,
    /// Cores and units that share the calls.
    calling: Lanes,
    /// Cores that load at the same time.
    loading: Lanes,
    /// What units do, if one computes the points.
    on_unit: Option<Arc<OnUnit<'a>>>,
    /// What is moved, where nothing is computed.
    moving: Option<Moving>,
    /// What nothing costs: how costs are counted.
    pub(super) none: Cost,
    /// Cycles of the thread for a scalar operation.
    thread: i64,
}

/// A step behind a unit that no intrinsic computes; the vector unit that computes it on a block and its cycles, if one
/// does.
pub(super) type OnBlock = (usize, Option<(Name, i64)>);

/// The tile of an operand, and what it costs wherever its loop stands.
pub(super) struct OfOperand {
    tile: Arc<Tile>,
    fixed: Arc<Fixed>,
    /// What loading it takes at least, if it is loaded.
    least: Least,
}

/// The same, shared by all divisions that have it.
pub(super) type Loaded = Arc<OfOperand>;

/// The tile of what each step computes, the same as part of each result, and what storing these takes.
struct OfResults {
    out: Arc<Tile>,
    results: Arc<[Tile]>,
    traffic: Arc<[Traffic]>,
}

/// The same, shared by all divisions that have it.
type Stored = Arc<OfResults>;

/// How tiles are made.
struct Made<'a> {
    group: &'a Group,
    way: &'a Way,
    places: &'a Places<'a>,
    /// Element types of the operands.
    elems: &'a [Type],
    /// Whether rows of results that stick out lie in one dimension.
    rows: bool,
    /// The iterators of the unit's result, by its dimensions.
    unit_out: Arc<[Vec<usize>]>,
    operands: Vec<Wanted>,
    /// Positions in the result, if they are linear.
    out: Option<Arc<LinearMap>>,
    /// Whether something is read in windows along each iterator.
    slides: Vec<bool>,
    /// Slots of what loops load and store.
    depth: i64,
}

/// How an operand is to lie in its tile.
struct Wanted {
    /// Whether a step of the core reads it.
    in_core: bool,
    /// The iterators of the dimensions of the unit's operand that it is: as the first step wants it that reads it on a
    /// unit, or those of the result that it has.
    unit: Option<Vec<Vec<usize>>>,
    /// Positions in its source, if they are linear: the same in all tiles.
    forms: Option<Arc<LinearMap>>,
}

impl Wanted {
    fn new(
        group: &Group,
        target: &Target<'_>,
        way: &Way,
        unit_out: &[Vec<usize>],
        operand: usize,
    ) -> Self {
        let mut steps = group.reduce.iter().map(|(s, ..)| s).chain(&group.maps);
        Self {
            in_core: steps.any(|s| s.inputs.contains(&Input::Operand(operand))),
            unit: way
                .unit()
                .and_then(|choice| unit_dims(group, target, choice, unit_out, operand)),
            forms: group.operands[operand].map.linear().map(Arc::new),
        }
    }
}

fn unit_dims(
    group: &Group,
    target: &Target<'_>,
    choice: &UnitChoice,
    unit_out: &[Vec<usize>],
    operand: usize,
) -> Option<Vec<Vec<usize>>> {
    let main = group.main()?;
    let steps = group.maps.iter().zip(&choice.maps);
    let steps = steps.filter_map(|(step, way)| Some((step, way.as_ref()?)));
    let mut all = std::iter::once((main, &*choice.assignment)).chain(steps);
    let wanted = all.find_map(|(step, way)| {
        let reads = |input: &Input| *input == Input::Operand(operand);
        Some((step.inputs.iter().position(reads)?, way))
    });
    if let Some((at, way)) = wanted {
        return Some(way.operand_dims(&target.called(way)?.places[way.inputs[at]]));
    }
    let map = &group.operands[operand].map;
    let used = |d: &usize| map.exprs.iter().any(|e| e.uses(*d));
    // Of iterators that are one dimension it has all or none.
    let has = |dims: &Vec<usize>| {
        let count = dims.iter().filter(|d| used(d)).count();
        (count == 0 || count == dims.len()).then_some(count > 0)
    };
    let mut kept = Vec::new();
    for dims in unit_out.iter().filter(|dims| !dims.is_empty()) {
        if has(dims)? {
            kept.push(dims.clone());
        }
    }
    Some(kept)
}

impl<'a> Shapes<'a> {
    pub(super) fn new(
        (group, target, way): (&'a Group, &'a Target<'a>, &'a Way),
        elems: &'a [Type],
        places: &'a Places<'a>,
        vectors: &Vectors,
        block: &[i64],
        budget: Budget,
    ) -> Self {
        let unit = way.unit();
        let unit_out = unit.and_then(|c| out_order(target, &c.assignment));
        let unit_out: Arc<[Vec<usize>]> = unit_out.unwrap_or_default().into();
        let called = unit.and_then(|choice| target.called(&choice.assignment));
        let held = called.map_or(places.held.name, |called| called.held());
        let rank = group.domain.len();
        let all = matches!(way, Way::Moved(_));
        let moving = |operand: &Operand| {
            let moves = |d: &usize| all || operand.map.exprs.iter().any(|e| e.uses(*d));
            Known::new((0..rank).filter(moves).collect())
        };
        // How often results are stored depends on all loops around their tiles.
        let out = group.out.exprs.iter();
        let around = |d: &usize| *d < group.core && !group.reductions[*d];
        let moves = |d: &usize| all || around(d) || out.clone().any(|e| e.uses(*d));
        let wanted = |i: usize| Wanted::new(group, target, way, &unit_out, i);
        let points = |dims: &Vec<usize>| dims.iter().map(|d| block[*d]).product();
        let sizes: Vec<i64> = unit_out.iter().map(points).collect();
        let others = unit.into_iter().flat_map(|choice| &choice.others);
        let on_blocks = others.map(|step| {
            let here = places.step_in(&group.maps[*step], target.near.name);
            let taken = here.then(|| vectors.block(group, target, &unit_out, *step, &sizes));
            (*step, taken.flatten())
        });
        let on_blocks: Vec<OnBlock> = on_blocks.collect();
        let calling = Lanes::of(target, way, held);
        let on_unit = unit.map(|choice| OnUnit::new(group, target, choice, calling, on_blocks));
        let loading = Lanes {
            units: 1,
            ..Lanes::of(target, way, places.held.name)
        };
        let moving_all = match way {
            Way::Moved(_) => Moving::new(group, elems, places, loading.cores),
            _ => None,
        };
        Self {
            on_unit: on_unit.map(Arc::new),
            moving: moving_all,
            none: Cost {
                in_order: target.info.in_order,
                worth: budget.worth,
                ..Cost::default()
            },
            thread: i64::try_from(target.info.thread_cycles(1)).unwrap_or(i64::MAX),
            operands: group.operands.iter().map(moving).collect(),
            results: Known::new((0..rank).filter(moves).collect()),
            spaces: places.names().into(),
            call: called.map_or(0, |called| called.cycles),
            calling,
            loading,
            made: Made {
                operands: (0..group.operands.len()).map(wanted).collect(),
                out: group.out.linear().map(Arc::new),
                slides: (0..rank).map(|d| slides(group, d)).collect(),
                depth: budget.depth,
                group,
                way,
                places,
                elems,
                rows: places.pad() && !target.info.in_order,
                unit_out,
            },
        }
    }

    /// The tile of each operand: by strips of the space what they divide. `None` if one cannot be a tile of the unit.
    pub(super) fn operands(&mut self, space: &Space, strip: Option<Strip>) -> Option<Vec<Loaded>> {
        let inside = strip.map(|strip| strip.space(space));
        let strip = strip.zip(inside.as_ref());
        let Self { made, operands, .. } = self;
        if made.group.has_inner() {
            let tiles = made.tiles(space)?.into_iter().enumerate();
            let loaded = tiles.map(|(i, tile)| made.loaded(space, tile, i));
            return Some(loaded.collect());
        }
        let known = operands.iter_mut().enumerate();
        known
            .map(|(i, known)| {
                let inside = strip.filter(|(strip, _)| strip.divides(made.group, i));
                let space = inside.map_or(space, |(_, inside)| inside);
                known.get(space, || Some(made.loaded(space, made.tile(space, i)?, i)))
            })
            .collect()
    }

    fn results(&mut self, space: &Space) -> Option<Stored> {
        let Self { made, results, .. } = self;
        results.get(space, || made.stored(space))
    }

    /// What the tiles of a division are made of, in strips if one is given. `None` if a result cannot be a tile.
    pub(super) fn parts(
        &mut self,
        space: &Space,
        strip: Option<Strip>,
        operands: Vec<Loaded>,
    ) -> Option<Parts> {
        let results = self.results(space)?;
        let strips = match strip {
            Some(strip) => {
                let short = self.results(&strip.space(space))?;
                let (out, results) = (Arc::clone(&short.out), Arc::clone(&short.results));
                let strips = Strips::new(self.made.group, space, strip, out, results);
                Some(Arc::new(strips))
            }
            None => None,
        };
        Some(Parts {
            operands,
            results,
            strips,
        })
    }

    /// The tiles of a division.
    pub(super) fn tiles(&self, space: &Space, parts: Parts) -> Tiles<'a> {
        let Parts {
            operands,
            results,
            strips,
        } = parts;
        Tiles {
            loads: operands.iter().map(|of| Arc::clone(&of.fixed)).collect(),
            operands: operands.iter().map(|of| Arc::clone(&of.tile)).collect(),
            out: Arc::clone(&results.out),
            results: Arc::clone(&results.results),
            stores: Arc::clone(&results.traffic),
            space: Arc::new(space.clone()),
            strips,
            places: self.made.places,
            spaces: Arc::clone(&self.spaces),
            unit_out: Arc::clone(&self.made.unit_out),
            on_unit: self.on_unit.clone(),
            elems: self.made.elems,
        }
    }

    /// Where the tiles lie.
    pub(super) fn places(&self) -> &'a Places<'a> {
        self.made.places
    }
}

/// What the tiles of a division are made of.
pub(super) struct Parts {
    operands: Vec<Loaded>,
    results: Stored,
    strips: Option<Arc<Strips>>,
}

/// The tiles of a division.
pub(super) struct Tiles<'a> {
    pub(super) space: Arc<Space>,
    pub(super) strips: Option<Arc<Strips>>,
    pub(super) places: &'a Places<'a>,
    /// The near space of each operand.
    pub(super) spaces: Arc<[Name]>,
    pub(super) operands: Arc<[Arc<Tile>]>,
    /// What each step computes.
    pub(super) out: Arc<Tile>,
    /// The same tile as part of each result.
    pub(super) results: Arc<[Tile]>,
    pub(super) unit_out: Arc<[Vec<usize>]>,
    /// Element types of the operands.
    pub(super) elems: &'a [Type],
    pub(super) loads: Vec<Arc<Fixed>>,
    pub(super) stores: Arc<[Traffic]>,
    /// What units do, if one computes the points.
    pub(super) on_unit: Option<Arc<OnUnit<'a>>>,
}

impl Made<'_> {
    /// The tile of an operand that no other one decides: in the order that the unit wants for what the core reads, as
    /// a box else. `None` if it cannot be such a tile.
    fn tile(&self, space: &Space, i: usize) -> Option<Tile> {
        let tile = self.any_tile(space, i)?;
        self.group.operands[i].fits(space, &tile).then_some(tile)
    }

    fn any_tile(&self, space: &Space, i: usize) -> Option<Tile> {
        let (group, operand) = (self.group, &self.group.operands[i]);
        let forms = self.operands[i].forms.as_ref()?;
        match self.way {
            Way::Moved(order) => Tile::moved(space, forms, order),
            Way::Unit(_) if self.operands[i].in_core => {
                let tile = Tile::new(space, forms, self.operands[i].unit.as_ref()?)?;
                // Where what is computed for a sum ends, zeros follow right behind.
                let rounded = |d: &usize| space.extent(*d) * space.trips(*d) != space.domain[*d];
                let mut ends = group.iterators(true).filter(rounded);
                let ends =
                    ends.find(|d| operand.made && operand.map.exprs.iter().any(|e| e.uses(*d)));
                let tile = match ends {
                    Some(d) => tile.in_one(space, d),
                    None => tile,
                };
                Some(match operand.made && operand.joint {
                    true => tile.aligned(),
                    false => tile,
                })
            }
            _ => Some(Tile::plain(space, forms)),
        }
    }

    /// The tile of each operand. `None` if one cannot be such a tile, or what is computed is at no linear place in it.
    fn tiles(&self, space: &Space) -> Option<Vec<Tile>> {
        let group = self.group;
        let mut tiles: Vec<Option<Tile>> = vec![None; group.operands.len()];
        for i in (0..tiles.len()).rev() {
            let operand = &group.operands[i];
            let tile = match tiles[i].take() {
                Some(tile) => tile,
                None => self.tile(space, i)?,
            };
            if let Some(inner) = &operand.inner {
                for (input, rows) in inner.inputs.iter().zip(&inner.rows) {
                    let far = &group.operands[*input];
                    let straight = rows.is_identity() && rows.len() == operand.shape.len();
                    let free = tiles[*input].is_none() && !self.operands[*input].in_core;
                    if free && straight && far.map == operand.map {
                        tiles[*input] = Some(tile.clone());
                    }
                }
            }
            tiles[i] = Some(tile);
        }
        let tiles: Vec<Tile> = tiles.into_iter().collect::<Option<_>>()?;
        for (operand, tile) in group.operands.iter().zip(&tiles) {
            if let Some(inner) = &operand.inner {
                let ranges: Vec<i64> = inner.reductions.iter().map(|d| group.domain[*d]).collect();
                for (input, rows) in inner.inputs.iter().zip(&inner.rows) {
                    tile.relative(&tiles[*input], rows, &ranges)?;
                }
            }
        }
        Some(tiles)
    }

    /// The tile of what is computed with the blocks of a row one right behind the other, where they stick out of its range:
    /// a transfer that leaves out what lies beyond then has a box to move, where blocks with a dimension of their own take
    /// one each. Not where an engine cannot pad: of what sticks out there the thread loads a part, which no estimate counts,
    /// so that cheaper stores would only make tiles of other shapes seem quicker. Nor on a processor, which has no transfers
    /// to start, and whose results are stored from registers block by block.
    fn rows(&self, space: &Space, tile: Tile) -> Tile {
        match self.unit_out.first().map(|dims| &dims[..]) {
            Some([d]) if self.rows && space.domain[*d] % space.block[*d] != 0 => {
                tile.in_one(space, *d)
            }
            _ => tile,
        }
    }

    fn loaded(&self, space: &Space, tile: Tile, i: usize) -> Loaded {
        let place = &self.places.operands[i];
        let engine = place.load.unwrap_or(self.places.store);
        let align = place.space.align.max(1);
        let operand = &self.group.operands[i];
        let fixed = Fixed::load(&tile, bytes(self.elems[i]), operand, engine, align);
        Arc::new(OfOperand {
            least: self.least(space, &tile, &fixed, (i, 1)),
            tile: Arc::new(tile),
            fixed: Arc::new(fixed),
        })
    }

    fn stored(&self, space: &Space) -> Option<Stored> {
        let group = self.group;
        // Sums that two blocks share would be added to in both.
        let forms = self.out.as_ref();
        if !forms.is_none_or(|forms| space.is_distinct(forms)) {
            return None;
        }
        let forms = forms?;
        let out = match self.way {
            Way::Unit(_) if group.into.is_some() => {
                Tile::slot(space, forms, &self.unit_out, group.into.as_ref()?)?
            }
            Way::Whole | Way::Staged(_) => Tile::plain(space, forms),
            Way::Moved(order) => Tile::moved(space, forms, order)?,
            Way::Unit(_) => self.rows(space, Tile::new(space, forms, &self.unit_out)?),
        };
        let results = group.outs.iter().map(|out_of| match self.way {
            // What is moved has one result, and its tile may be in the order of the source.
            Way::Moved(_) => Some(out.clone()),
            _ if out_of.map == group.out => Some(out.clone()),
            _ => out.part_of(&out_of.map),
        });
        let results: Vec<Tile> = results.collect::<Option<_>>()?;
        let order = any_order(group, space);
        let parallel = order.iter().take_while(|d| !group.reductions[**d]);
        let parallel = parallel.count();
        let cost = |(out, tile): (&Out, &Tile)| {
            let ty = group.ty(out.step)?;
            let elem = bytes(ty.elem());
            let (engine, align) = (self.places.store, self.places.held.align.max(1));
            let shape = ty.shape()?;
            let moved = Moved {
                tile,
                fixed: &Fixed::new(tile, elem, shape, engine, align),
                space,
                order: &order,
                level: parallel,
                times: 1,
                elem,
                shape,
                engine,
                align,
                depth: self.depth,
                slides: false,
            };
            Some(moved.traffic())
        };
        // What is computed into the tile of another nest is not stored.
        let stored = match group.into {
            None => group.outs.iter().zip(&results).map(cost).collect(),
            Some(_) => Some(Vec::new()),
        };
        Some(Arc::new(OfResults {
            traffic: stored?.into(),
            out: Arc::new(out),
            results: results.into(),
        }))
    }
}
