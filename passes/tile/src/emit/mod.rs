//! Writing a planned group as loops around transfers and generics on tiles.

mod flow;
mod pipeline;
mod produce;
pub(crate) mod resident;
mod slice;
mod strips;
mod tiles;
mod unit;

use tir::{AffineMap, Attr, Builder, Mapping, Name, RegionId, Ret, Rets, Type, Value};
use tir_arith::{OpFoldResult, dispatch_values};
use tir_tensor::generic::iterators;
use tir_tensor::{
    CollapseShape, Combine, Empty, ExpandShape, Generic, TransferRead, TransferWrite, Yield,
};

use crate::chain::{Made, Stage};
use crate::group::{Group, Input, StepRef};
use crate::layout::Tile;
use crate::plan::{Plan, Target};

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
    /// Whether loops of parallel iterators say so: there are equal units to share their work.
    marks: bool,
}

/// A trip of a stage's loop: from where it stands and the carried values to those of the next.
type TripBody<'f> = &'f mut dyn FnMut(&mut Builder<'_>, At, Vec<Value>) -> Vec<Value>;

/// Replaces the groups of a stage and of all that compute for it by loops; gives what leaves them.
pub fn emit(b: &mut Builder<'_>, stage: &Stage, target: &Target<'_>) -> Vec<Value> {
    let emit = Emit {
        marks: target.info.has_equal_units() && stage.depth() == 0,
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
    /// What stages compute for one another is not shared among equal units: only `emit` says otherwise.
    fn new(stage: &'a Stage) -> Self {
        let (group, plan) = (&stage.group, &stage.plan);
        Self {
            stage,
            group,
            plan,
            marks: false,
        }
    }
    /// A tile for what is computed.
    fn empty(&self, b: &mut Builder<'_>, shape: Vec<i64>, elem: Type) -> Value {
        self.empty_in(b, self.plan.held, shape, elem)
    }
    fn empty_in(&self, b: &mut Builder<'_>, space: Name, shape: Vec<i64>, elem: Type) -> Value {
        b.add(Empty {
            dynamic_sizes: Vec::new(),
            space: Some(space.to_string()),
            result: Ret(Type::tensor(shape, elem)),
        })
    }
    /// Says of what a tile lies in that it has one slot.
    fn slots(&self, b: &mut Builder<'_>, tile: Value, single: bool) {
        if let Some(op) = b.ir.owner(tile).filter(|_| single) {
            b.ir.set_attr(op, tir_accel::DEPTH, Attr::i64(1));
        }
    }
    /// Type of the elements that leave, or of what is reduced.
    fn elem(&self, out: StepRef) -> Type {
        self.group.ty(out).map_or(Type::f32(), Type::elem)
    }
    fn leaves(&self, what: StepRef) -> Option<usize> {
        self.group.outs.iter().position(|out| out.step == what)
    }

    /// Offsets of a tile in its source.
    fn offsets(&self, b: &mut Builder<'_>, tile: &Tile, at: &At) -> Vec<OpFoldResult> {
        let mut out = Vec::new();
        for (form, low) in tile.forms.iter().zip(&tile.low) {
            let mut sum = OpFoldResult::Number(form.constant + low);
            for (d, c) in form.terms() {
                let step = at.tile[d].times(b, c * self.plan.space.extent(d));
                sum = step.plus(b, sum);
            }
            out.push(sum);
        }
        out
    }

    /// The tile of an operand: loaded, or computed from others.
    fn load(&self, b: &mut Builder<'_>, operand: usize, at: &At) -> Value {
        let tile = &self.plan.tiles[operand];
        let far = &self.group.operands[operand];
        let name = b.ir.hint(far.source);
        let loaded = match &far.inner {
            Some(inner) => self.inner(b, operand, inner, at),
            None => {
                let offsets = self.offsets(b, tile, at);
                let (offsets, static_offsets) = dispatch_values(&offsets);
                let elem = b.ty(far.source).elem();
                let source = match &far.flat {
                    Some(flat) => b.add(CollapseShape {
                        src: far.source,
                        reassociation: reassociation(flat),
                        result: Ret(Type::tensor(far.shape.clone(), elem)),
                    }),
                    None => far.source,
                };
                let read = TransferRead {
                    source,
                    offsets,
                    padding: far.padding,
                    static_offsets,
                    access: tile.access(),
                    space: Some(self.plan.spaces[operand].to_string()),
                    result: Ret(Type::tensor(tile.shape(), elem)),
                };
                // Stages that load the same tile there share it, unless one writes over it.
                let written = self.plan.in_place == Some(Input::Operand(operand));
                let known =
                    same_read(b, &read).filter(|_| !written && self.plan.level(operand) == 0);
                known.unwrap_or_else(|| {
                    let loaded = b.add(read);
                    self.slots(b, loaded, self.plan.single[operand]);
                    loaded
                })
            }
        };
        let text = name.map_or("tile".to_string(), |n| format!("{n}_tile"));
        hint(b, loaded, &text);
        let Some(groups) = tile.reassociation() else {
            return loaded;
        };
        let elem = b.ty(loaded).elem();
        b.add(CollapseShape {
            src: loaded,
            reassociation: reassociation(&groups),
            result: Ret(Type::tensor(tile.unit_shape(), elem)),
        })
    }

    /// The tile of a result with a dimension for each that moves in the result.
    fn expanded(&self, b: &mut Builder<'_>, source: Value, tile: &Tile) -> Value {
        let Some(groups) = tile.reassociation() else {
            return source;
        };
        let elem = b.ty(source).elem();
        b.add(ExpandShape {
            src: source,
            reassociation: reassociation(&groups),
            static_output_shape: None,
            result: Ret(Type::tensor(tile.shape(), elem)),
        })
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
        self.trips(b, level, &at, self.marks, dests, &mut |b, at, carried| {
            self.around(b, level + 1, at, carried)
        })
    }

    fn loads(&self, b: &mut Builder<'_>, level: usize, at: &mut At) {
        self.far_loads(b, level, at);
        self.produce(b, level, at);
    }

    /// Loads what no producer computes.
    fn far_loads(&self, b: &mut Builder<'_>, level: usize, at: &mut At) {
        let around = std::mem::replace(&mut b.loc, b.ir.loc(self.group.named));
        for operand in 0..self.group.operands.len() {
            if self.plan.level(operand) == level && !self.group.operands[operand].made {
                at.loaded[operand] = Some(self.load(b, operand, at));
            }
        }
        b.loc = around;
    }

    /// Computes one tile of each result and writes it.
    fn tile(&self, b: &mut Builder<'_>, at: At, dests: Vec<Value>) -> Vec<Value> {
        let around = std::mem::replace(&mut b.loc, b.ir.loc(self.group.named));
        let done = self.tile_here(b, at, dests);
        b.loc = around;
        done
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

    /// Writes one tile of each result.
    fn write(
        &self,
        b: &mut Builder<'_>,
        at: &At,
        sources: Vec<Value>,
        dests: Vec<Value>,
    ) -> Vec<Value> {
        let mut written = Vec::new();
        for ((source, dest), tile) in sources.into_iter().zip(dests).zip(self.plan.results.iter()) {
            let source = self.expanded(b, source, tile);
            let offsets = self.offsets(b, tile, at);
            let (offsets, static_offsets) = dispatch_values(&offsets);
            let result = Ret(b.ty(dest));
            written.push(b.add(TransferWrite {
                source,
                dest,
                offsets,
                static_offsets,
                access: tile.access(),
                result,
            }));
        }
        written
    }
}

/// The tile of a transfer of the same nest that stands before and reads the same.
fn same_read(b: &Builder<'_>, read: &TransferRead) -> Option<Value> {
    let mut before = match b.at {
        tir::At::End(block) => b.ir.ops_in(block).last(),
        tir::At::Before(op) => b.ir.prev(op),
        tir::At::After(op) => Some(op),
        tir::At::Start(_) => None,
    };
    while let Some(op) = before {
        // Loops are those of other nests.
        if b.ir.regions(op).len() > 0 {
            return None;
        }
        let same = |other: TransferRead| {
            other.source == read.source
                && other.offsets == read.offsets
                && other.static_offsets == read.static_offsets
                && other.padding == read.padding
                && other.access == read.access
                && other.space == read.space
                && other.result.0 == read.result.0
        };
        if b.ir.get::<TransferRead>(op).is_some_and(same) {
            return Some(b.ir.result(op, 0));
        }
        before = b.ir.prev(op);
    }
    None
}

/// Groups of dimensions as attributes.
fn reassociation(groups: &[Vec<usize>]) -> Vec<Attr> {
    let dim = |d: &usize| i64::try_from(*d).unwrap_or(i64::MAX);
    let group = |group: &Vec<usize>| group.iter().map(dim).collect();
    tir_tensor::reassociation(&groups.iter().map(group).collect::<Vec<_>>())
}

/// A tile filled with a constant.
fn fill(b: &mut Builder<'_>, dest: Value, value: Attr) -> Value {
    let ty = b.ty(dest);
    let rank = ty.shape().map_or(0, <[i64]>::len);
    let body = b.body(&[], |b, _| {
        let value = tir_arith::materialize(b, value, ty.elem());
        b.add(Yield {
            values: value.into_iter().collect(),
        });
    });
    let nest = Nest {
        maps: vec![AffineMap::identity(rank)],
        kinds: iterators(rank, 0),
        sizes: None,
        combine: None,
        body,
    };
    nest.generic(b, Vec::new(), dest)
}

/// A tile filled with a constant by an engine.
fn fill_by(b: &mut Builder<'_>, engine: Name, dest: Value, value: Attr) -> Value {
    let filled = fill(b, dest, value);
    if let Some(op) = b.ir.owner(filled) {
        b.ir.set_attr(op, tir_accel::BY, Attr::str(engine.as_str()));
    }
    filled
}

/// Sets the name of a value in printed text.
fn hint(b: &mut Builder<'_>, value: Value, text: &str) {
    b.ir.set_hint(value, Some(Name::new(text)));
}

/// A copy of a region of the same arena, detached.
fn copy_body(b: &mut Builder<'_>, body: RegionId) -> RegionId {
    let region = b.ir.new_region();
    b.ir.duplicate_region(body, region, &mut Mapping::default());
    region
}

/// A generic with one output but for what it reads and writes.
struct Nest {
    /// Maps of the inputs, then of the output.
    maps: Vec<AffineMap>,
    /// Kinds of the iterators.
    kinds: Vec<Attr>,
    /// Their ranges, where operands may not show them.
    sizes: Option<Vec<i64>>,
    combine: Option<Combine>,
    body: RegionId,
}

impl Nest {
    fn generic(self, b: &mut Builder<'_>, inputs: Vec<Value>, output: Value) -> Value {
        let results = Rets(vec![b.ty(output)]);
        let mut op = Generic {
            inputs,
            outputs: vec![output],
            indexing_maps: self.maps,
            iterator_types: self.kinds,
            combine: self.combine,
            sizes: self.sizes,
            body: self.body,
            results,
        };
        // The attribute is there only where the operands' shapes do not give the ranges.
        let sizes = op.sizes.take();
        if op.domain(b.ir).ok() != sizes && sizes.is_some() {
            op.sizes = sizes;
        }
        b.add(op)[0]
    }
}
