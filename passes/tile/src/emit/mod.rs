//! Writing a planned group as loops around transfers and generics on tiles.
//!
//! A stage's loops stand one inside the other in the plan's order, those of parallel iterators first; a *level* is
//! how many of them are around. At its level each operand's *tile* is loaded, or computed by producers in the same
//! way (`produce`), with the tile of their reader as what they write into. Inside of the parallel loops one tile of
//! each result is computed and written: by a unit in *blocks*, each one operand of it (`blocks`, `place`, `unit`),
//! with accumulators that live through loops of the reduction where that is divided (`sums`), tile by tile or in
//! *strips* of a tile in turn (`strips`), or over the whole tile where no unit takes it (`tiles`). The innermost
//! loops of a nest of several stages may be a pipeline of them (`pipeline`).
//!
//! Code is written once, from the outside in: a function gets the builder, the place in the loops (`At`) and the
//! tensors to be written into, and gives these as they are behind what it wrote. Work on a part of a tile takes it out
//! and puts it back at the same offsets (`slice`), so that bufferization finds it to be in place.

mod between;
mod blocks;
mod flow;
mod nest;
mod pipeline;
mod place;
mod produce;
pub(crate) mod resident;
pub(crate) mod slice;
mod strips;
mod sums;
mod tiles;
mod transfers;
mod unit;

use tir::{Attr, Builder, Name, OpId, Ret, Type, Value};
use tir_arith::OpFoldResult;
use tir_tensor::{Empty, ExpandShape};

use crate::chain::{Made, Stage};
use crate::group::{Group, Input, StepRef};
use crate::plan::{Plan, Target};
pub(crate) use nest::{Nest, copy_body, fill, fill_by};
use transfers::{before, reassociation};

/// Where in the loops the code stands.
#[derive(Clone)]
struct At {
    /// The tile of each iterator.
    tile: Vec<OpFoldResult>,
    /// The block in the tile of each iterator.
    block: Vec<OpFoldResult>,
    /// The strip of the tile.
    strip: OpFoldResult,
    /// The tiles that are loaded.
    loaded: Vec<Option<Value>>,
    /// Which of the tiles that stages hand on is the stage's own.
    turn: OpFoldResult,
    /// The segment of a loop that the code is in, once it is in one.
    segment: Option<usize>,
    /// Where the code of each producer stands: by segment, operand and part.
    parts: Vec<Vec<Vec<At>>>,
}

impl At {
    /// Before all loops of a stage.
    fn start(stage: &Stage) -> Self {
        let rank = stage.group.domain.len();
        let parts = |made: &Made| made.parts.iter().map(At::start).collect();
        let segments = stage.segments.iter();
        let segments = segments.map(|segment| segment.made.iter().map(parts).collect());
        Self {
            tile: vec![OpFoldResult::Number(0); rank],
            block: vec![OpFoldResult::Number(0); rank],
            strip: OpFoldResult::Number(0),
            loaded: vec![None; stage.group.operands.len()],
            turn: OpFoldResult::Number(0),
            segment: None,
            parts: segments.collect(),
        }
    }
}

/// What the steps of a group gave.
#[derive(Clone, Default)]
struct Given {
    reduced: Option<Value>,
    mapped: Vec<Value>,
}

impl Given {
    fn input(&self, input: Input) -> Option<Value> {
        match input {
            Input::Operand(_) => None,
            Input::Reduced => self.reduced,
            Input::Mapped(i) => self.mapped.get(i).copied(),
        }
    }
    fn out(&self, out: StepRef) -> Option<Value> {
        match out {
            StepRef::Reduced => self.reduced,
            StepRef::Mapped(i) => self.mapped.get(i).copied(),
        }
    }
}

/// Writes stages.
pub struct Emit<'a> {
    stage: &'a Stage,
    group: &'a Group,
    plan: &'a Plan,
    /// Which loops of parallel iterators say so: there are equal units to share their work.
    marks: Marks,
    /// The op that stands before all of the nest; none where nothing does.
    before: Option<OpId>,
}

/// The loops of parallel iterators that say that they are.
#[derive(Clone, Copy, Default, Debug)]
struct Marks {
    /// Those around tiles.
    tiles: bool,
    /// Those over blocks of a tile.
    blocks: bool,
}

impl Marks {
    /// Of a nest on a machine. Among units that work in one memory, tiles hold what stages compute for one another;
    /// of cores each has tiles of its own.
    fn of(stage: &Stage, target: &Target<'_>) -> Self {
        let equal = target.info.has_equal_units();
        let cores = target.info.cores_with(stage.plan.held) > 1;
        Self {
            tiles: equal && (cores || stage.depth() == 0),
            blocks: equal,
        }
    }
}

/// A trip of a stage's loop: from where it stands and the carried values to those of the next.
type TripBody<'f> = &'f mut dyn FnMut(&mut Builder<'_>, At, Vec<Value>) -> Vec<Value>;

/// Replaces the groups of a stage and of all that compute for it by loops; gives what leaves them.
pub fn emit(b: &mut Builder<'_>, stage: &Stage, target: &Target<'_>) -> Vec<Value> {
    let emit = Emit {
        marks: Marks::of(stage, target),
        before: before(b),
        ..Emit::new(stage)
    };
    // Where results are tiles themselves.
    let space = target.stage();
    let types = stage.group.outs.iter();
    let types = types.filter_map(|out| stage.group.ty(out.step));
    let dests = types.map(|ty| {
        b.add(Empty {
            dynamic_sizes: Vec::new(),
            space: space.map(|space| space.to_string()),
            result: Ret(ty),
        })
    });
    let dests = dests.collect();
    let values = emit.around(b, 0, At::start(stage), dests);
    let outs = stage.group.outs.iter().zip(values);
    let outs = outs.map(|(out, src)| match &out.flat {
        Some(flat) => b.add(ExpandShape {
            src,
            reassociation: reassociation(flat),
            static_output_shape: None,
            result: Ret(b.ty(out.value)),
        }),
        None => src,
    });
    outs.collect()
}

impl<'a> Emit<'a> {
    /// A stage whose work is not shared among equal units: only `emit` says otherwise.
    fn new(stage: &'a Stage) -> Self {
        let (group, plan) = (&stage.group, &stage.plan);
        Self {
            stage,
            group,
            plan,
            marks: Marks::default(),
            before: None,
        }
    }
    /// A producer of this stage, whose blocks are shared as its own are.
    fn part<'p>(&self, stage: &'p Stage) -> Emit<'p> {
        let blocks = self.marks.blocks;
        Emit {
            marks: Marks {
                tiles: false,
                blocks,
            },
            before: self.before,
            ..Emit::new(stage)
        }
    }
    /// Writes ops whose place in the source is that of the group.
    fn named<R>(&self, b: &mut Builder<'_>, write: impl FnOnce(&mut Builder<'_>) -> R) -> R {
        let around = std::mem::replace(&mut b.loc, b.ir.loc(self.group.named));
        let written = write(b);
        b.loc = around;
        written
    }
    /// A tile for what is computed.
    fn empty(&self, b: &mut Builder<'_>, shape: Vec<i64>, elem: Type) -> Value {
        self.empty_in(b, self.plan.held, shape, elem)
    }
    /// A tile of a space.
    fn empty_in(&self, b: &mut Builder<'_>, space: Name, shape: Vec<i64>, elem: Type) -> Value {
        b.add(Empty {
            dynamic_sizes: Vec::new(),
            space: Some(space.to_string()),
            result: Ret(Type::tensor(shape, elem)),
        })
    }
    /// Says of the buffer that a tile will lie in that it has one slot, if so.
    fn slots(&self, b: &mut Builder<'_>, tile: Value, single: bool) {
        if let Some(op) = b.ir.owner(tile).filter(|_| single) {
            b.ir.set_attr(op, tir_accel::DEPTH, Attr::i64(1));
        }
    }
    /// Type of the elements that leave, or of what is reduced.
    fn elem(&self, out: StepRef) -> Type {
        self.group.ty(out).map_or(Type::f32(), Type::elem)
    }
    /// Which of the results a step gives.
    fn leaves(&self, what: StepRef) -> Option<usize> {
        self.group.outs.iter().position(|out| out.step == what)
    }

    /// Loops of parallel iterators around tiles: so many, the first ones.
    fn parallel(&self) -> usize {
        self.plan.parallel(self.group)
    }

    /// The loops around tiles, from `level` on; gives the result tensors.
    fn around(
        &self,
        b: &mut Builder<'_>,
        level: usize,
        mut at: At,
        dests: Vec<Value>,
    ) -> Vec<Value> {
        self.loads(b, level, &mut at);
        if level == self.parallel() {
            return self.tile(b, at, dests);
        }
        let marked = self.marks.tiles;
        self.trips(b, level, &at, marked, dests, &mut |b, at, carried| {
            self.around(b, level + 1, at, carried)
        })
    }

    /// At a level of the loops: what the stage and its producers load there, and what these compute there.
    fn loads(&self, b: &mut Builder<'_>, level: usize, at: &mut At) {
        // What producers read is needed first.
        self.ahead(b, level, at);
        self.far_loads(b, level, at);
        self.produce(b, level, at);
    }

    /// Loads what no producer computes.
    fn far_loads(&self, b: &mut Builder<'_>, level: usize, at: &mut At) {
        self.named(b, |b| {
            for operand in 0..self.group.operands.len() {
                if self.plan.level(operand) == level && !self.group.operands[operand].made {
                    at.loaded[operand] = Some(self.load(b, operand, at));
                }
            }
        });
    }

    /// Computes one tile of each result and writes it.
    fn tile(&self, b: &mut Builder<'_>, at: At, dests: Vec<Value>) -> Vec<Value> {
        self.named(b, |b| self.tile_here(b, at, dests))
    }

    fn tile_here(&self, b: &mut Builder<'_>, at: At, dests: Vec<Value>) -> Vec<Value> {
        let moved = at.loaded.first().copied().flatten();
        if self.group.into.is_some() {
            return match self.plan.splits_reduction(self.group) {
                true => self.split(b, &at, dests.first().copied()),
                false => self.whole(b, &at, Some(&dests)),
            };
        }
        let sources = if let (true, Some(tile)) = (self.plan.moves, moved) {
            vec![tile]
        } else if self.plan.unit.is_none() {
            self.plain(b, &at)
        } else if let Some(strips) = &self.plan.strips {
            return self.strips(b, &at, strips, dests);
        } else if self.plan.splits_reduction(self.group) {
            self.split(b, &at, None)
        } else {
            self.whole(b, &at, None)
        };
        self.write(b, &at, sources, dests)
    }
}

/// Sets the name of a value in printed text.
fn hint(b: &mut Builder<'_>, value: Value, text: &str) {
    b.ir.set_hint(value, Some(Name::new(text)));
}
