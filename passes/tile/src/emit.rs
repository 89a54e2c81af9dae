//! Writing a planned group as loops around transfers and generics on tiles.

use tir::{
    AffineExpr, AffineMap, Attr, Builder, DYNAMIC, Mapping, Name, RegionId, Ret, Rets, Type, Value,
};
use tir_arith::{AddI, DivUI, MulI, RemUI, constant_index};
use tir_loop::{Bounds, For, Yield as LoopYield};
use tir_tensor::generic::iterators;
use tir_tensor::{
    Combine, Empty, ExtractSlice, Generic, InsertSlice, TransferRead, TransferWrite, Yield,
};

use crate::group::{Group, Input, Step};
use crate::layout::{Axis, Tile};
use crate::plan::Plan;

/// A number that is known, or a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Index {
    Number(i64),
    Value(Value),
}

impl Index {
    fn value(self, b: &mut Builder<'_>) -> Value {
        match self {
            Index::Number(n) => constant_index(b, n),
            Index::Value(v) => v,
        }
    }
    fn times(self, n: i64, b: &mut Builder<'_>) -> Self {
        match self {
            Index::Number(m) => Index::Number(m * n),
            _ if n == 0 => Index::Number(0),
            Index::Value(v) if n == 1 => Index::Value(v),
            Index::Value(lhs) => {
                let rhs = constant_index(b, n);
                Index::Value(b.add(MulI {
                    lhs,
                    rhs,
                    overflow: None,
                }))
            }
        }
    }
    fn plus(self, other: Self, b: &mut Builder<'_>) -> Self {
        match (self, other) {
            (Index::Number(m), Index::Number(n)) => Index::Number(m + n),
            (Index::Number(0), x) | (x, Index::Number(0)) => x,
            (x, y) => {
                let (lhs, rhs) = (x.value(b), y.value(b));
                Index::Value(b.add(AddI {
                    lhs,
                    rhs,
                    overflow: None,
                }))
            }
        }
    }
    fn div_rem(self, n: i64, b: &mut Builder<'_>) -> (Self, Self) {
        match self {
            _ if n == 1 => (self, Index::Number(0)),
            Index::Number(m) => (
                Index::Number(m.div_euclid(n)),
                Index::Number(m.rem_euclid(n)),
            ),
            Index::Value(lhs) => {
                let rhs = constant_index(b, n);
                let div = b.add(DivUI { lhs, rhs });
                let rem = b.add(RemUI { lhs, rhs });
                (Index::Value(div), Index::Value(rem))
            }
        }
    }
}

/// Numbers and values as the two lists of an op.
fn mixed(indices: &[Index]) -> (Vec<Value>, Vec<i64>) {
    let values = indices.iter().filter_map(|i| match i {
        Index::Value(v) => Some(*v),
        Index::Number(_) => None,
    });
    let numbers = indices.iter().map(|i| match i {
        Index::Value(_) => DYNAMIC,
        Index::Number(n) => *n,
    });
    (values.collect(), numbers.collect())
}

/// Where in the loops the code stands.
#[derive(Clone)]
struct At {
    /// The tile of each iterator.
    tile: Vec<Index>,
    /// The block in the tile of each iterator.
    block: Vec<Index>,
    /// The tiles that are loaded.
    loaded: Vec<Option<Value>>,
}

/// Writes groups.
pub struct Emit<'a> {
    group: &'a Group,
    plan: &'a Plan,
    near: Name,
}

type Body<'f> = &'f mut dyn FnMut(&mut Builder<'_>, &At, Vec<Value>) -> Vec<Value>;

/// An iteration: from its index and the carried values to those of the next.
type LoopBody<'f> = &'f mut dyn FnMut(&mut Builder<'_>, Value, Vec<Value>) -> Vec<Value>;
/// One block of a tile: from its slot, and a block to start from, to its content.
type BlockBody<'f, E> = &'f mut dyn FnMut(&E, &mut Builder<'_>, &At, Value, Option<Value>) -> Value;

/// Replaces a group by its loops; gives the result.
pub fn emit(b: &mut Builder<'_>, group: &Group, plan: &Plan, near: Name) -> Value {
    let emit = Emit {
        group,
        plan,
        near,
    };
    let rank = group.domain.len();
    let at = At {
        tile: vec![Index::Number(0); rank],
        block: vec![Index::Number(0); rank],
        loaded: vec![None; group.operands.len()],
    };
    let dest = b.add(Empty {
        dynamic_sizes: Vec::new(),
        space: None,
        result: Ret(group.result),
    });
    emit.around(b, 0, at, dest)
}

/// A loop from 0 to `trips` that carries values.
fn counted(b: &mut Builder<'_>, trips: i64, init: Vec<Value>, body: LoopBody<'_>) -> Vec<Value> {
    let types: Vec<Type> = init.iter().map(|v| b.ty(*v)).collect();
    let mut args = vec![Type::index()];
    args.extend(&types);
    let region = b.body(&args, |b, args| {
        let values = body(b, args[0], args[1..].to_vec());
        b.add(LoopYield { values });
    });
    let bounds = [0, trips, 1].map(Bounds::Static);
    b.add(For::new(bounds, init, region, types))
}

impl Emit<'_> {
    fn unit(&self) -> bool {
        self.plan.unit.is_some()
    }
    /// Extent of a unit's dimension.
    fn unit_size(&self, d: usize) -> i64 {
        self.plan.space.block[d]
    }
    fn empty(&self, b: &mut Builder<'_>, shape: Vec<i64>, elem: Type) -> Value {
        b.add(Empty {
            dynamic_sizes: Vec::new(),
            space: Some(self.near.to_string()),
            result: Ret(Type::tensor(shape, elem)),
        })
    }

    /// Offsets of a tile in its source.
    fn offsets(&self, b: &mut Builder<'_>, tile: &Tile, at: &At) -> Vec<Index> {
        let rank = self.group.domain.len();
        let mut out = Vec::new();
        for form in &tile.forms {
            let mut sum = Index::Number(form[rank]);
            for (d, c) in form[..rank].iter().enumerate() {
                let step = at.tile[d].times(c * self.plan.space.extent(d), b);
                sum = step.plus(sum, b);
            }
            out.push(sum);
        }
        out
    }

    fn load(&self, b: &mut Builder<'_>, operand: usize, at: &At) -> Value {
        let tile = &self.plan.tiles[operand];
        let far = &self.group.operands[operand];
        let offsets = self.offsets(b, tile, at);
        let (offsets, static_offsets) = mixed(&offsets);
        let elem = b.ty(far.source).elem();
        let loaded = b.add(TransferRead {
            source: far.source,
            offsets,
            padding: far.padding,
            static_offsets,
            access: tile.access(),
            space: Some(self.near.to_string()),
            result: Ret(Type::tensor(tile.shape(), elem)),
        });
        let name = b.ir.hint(far.source);
        hint(
            b,
            loaded,
            &name.map_or("tile".to_string(), |n| format!("{n}_tile")),
        );
        loaded
    }

    /// The loops around tiles, from `level` on; gives the result tensor.
    fn around(&self, b: &mut Builder<'_>, level: usize, mut at: At, dest: Value) -> Value {
        self.loads(b, level, &mut at);
        let order = &self.plan.order;
        let parallel = order
            .iter()
            .take_while(|d| !self.group.reductions[**d])
            .count();
        if level == parallel {
            return self.tile(b, at, dest);
        }
        let d = order[level];
        let out = counted(
            b,
            self.plan.space.trips(d),
            vec![dest],
            &mut |b, iv, carried| {
                let mut at = at.clone();
                at.tile[d] = Index::Value(iv);
                vec![self.around(b, level + 1, at, carried[0])]
            },
        );
        out[0]
    }

    fn loads(&self, b: &mut Builder<'_>, level: usize, at: &mut At) {
        for operand in 0..self.group.operands.len() {
            if self.plan.level(operand) == level {
                at.loaded[operand] = Some(self.load(b, operand, at));
            }
        }
    }

    /// Computes one tile of the result and writes it.
    fn tile(&self, b: &mut Builder<'_>, at: At, dest: Value) -> Value {
        let elem = self.group.result.elem();
        let moved = at.loaded.first().copied().flatten();
        let source = if let (true, Some(tile)) = (self.plan.moves, moved) {
            tile
        } else if !self.unit() {
            self.plain(b, &at)
        } else if self.plan.splits_reduction(self.group) {
            self.split(b, &at)
        } else {
            self.blocks(b, &at, None, elem, &mut |emit, b, at, slot, _| {
                emit.whole_unit(b, at, slot)
            })
        };
        let tile = &self.plan.out;
        let offsets = self.offsets(b, tile, &at);
        let (offsets, static_offsets) = mixed(&offsets);
        b.add(TransferWrite {
            source,
            dest,
            offsets,
            static_offsets,
            access: tile.access(),
            result: Ret(self.group.result),
        })
    }

    /// The generic of a step over whole tiles, for what no unit takes.
    fn plain(&self, b: &mut Builder<'_>, at: &At) -> Value {
        let space = &self.plan.space;
        let rank = self.group.domain.len();
        let near_map = |tile: &Tile| {
            let exprs = tile.forms.iter().map(|form| {
                let mut form = form.clone();
                form[rank] = 0;
                AffineExpr::from_linear(&form)
            });
            AffineMap::new(rank, exprs.collect())
        };
        let sizes: Vec<i64> = (0..rank).map(|d| space.extent(d)).collect();
        let out_map = near_map(&self.plan.out);
        let shape = self.plan.out.shape();
        let elem = self.group.result.elem();
        let mut reduced = None;
        if let Some((step, combine, start)) = &self.group.reduce {
            let acc = self.empty(b, shape.clone(), self.group.sum);
            let acc = self.fill(b, acc, *start);
            let mut maps: Vec<AffineMap> = Vec::new();
            let mut inputs = Vec::new();
            for input in &step.inputs {
                if let Input::Operand(i) = input {
                    maps.push(near_map(&self.plan.tiles[*i]));
                    inputs.extend(at.loaded[*i]);
                }
            }
            maps.push(out_map.clone());
            let kinds = self.group.reductions.iter();
            let kinds = kinds.map(|r| Attr::str(if *r { "reduction" } else { "parallel" }));
            let kinds = kinds.collect();
            let body = copy_body(b, step.body);
            reduced = Some(generic(
                b,
                inputs,
                acc,
                maps,
                kinds,
                Some(*combine),
                Some(sizes.clone()),
                body,
            ));
        }
        let Some(step) = &self.group.map else {
            return reduced.unwrap_or_else(|| self.empty(b, shape, elem));
        };
        // Only the parallel iterators are left.
        let parallel: Vec<usize> = (0..rank).filter(|d| !self.group.reductions[*d]).collect();
        let rename: Vec<AffineExpr> = (0..rank)
            .map(|d| {
                let at = parallel.iter().position(|p| *p == d);
                at.map_or(AffineExpr::Const(0), AffineExpr::Dim)
            })
            .collect();
        let rename = AffineMap::new(parallel.len(), rename);
        let dest = self.empty(b, shape, elem);
        let mut maps = Vec::new();
        let mut inputs = Vec::new();
        for input in &step.inputs {
            match input {
                Input::Operand(i) => {
                    maps.push(near_map(&self.plan.tiles[*i]).compose(&rename));
                    inputs.extend(at.loaded[*i]);
                }
                Input::Reduced => {
                    maps.push(out_map.compose(&rename));
                    inputs.extend(reduced);
                }
            }
        }
        maps.push(out_map.compose(&rename));
        let kinds = iterators(parallel.len(), 0);
        let sizes = parallel.iter().map(|d| sizes[*d]).collect();
        let body = copy_body(b, step.body);
        generic(b, inputs, dest, maps, kinds, None, Some(sizes), body)
    }

    /// A tile filled with a constant.
    fn fill(&self, b: &mut Builder<'_>, dest: Value, value: Attr) -> Value {
        let ty = b.ty(dest);
        let rank = ty.shape().map_or(0, <[i64]>::len);
        let body = b.body(&[], |b, _| {
            let value = tir_arith::materialize(b, value, ty.elem());
            b.add(Yield {
                values: value.into_iter().collect(),
            });
        });
        let maps = vec![AffineMap::identity(rank)];
        generic(
            b,
            Vec::new(),
            dest,
            maps,
            iterators(rank, 0),
            None,
            None,
            body,
        )
    }

    /// Runs `body` for each block of the result's tile and puts what it gives together. `body`
    /// gets the slot for its block, of elements of this type, and the block of `base` if there is
    /// one.
    fn blocks(
        &self,
        b: &mut Builder<'_>,
        at: &At,
        base: Option<Value>,
        elem: Type,
        body: BlockBody<'_, Self>,
    ) -> Value {
        let space = &self.plan.space;
        let dims: Vec<usize> = (0..space.domain.len())
            .filter(|d| !self.group.reductions[*d] && space.tile[*d] > 1)
            .collect();
        let whole = self.empty(b, self.plan.out.shape(), elem);
        hint(b, whole, "out");
        if dims.is_empty() {
            return body(self, b, at, whole, base);
        }
        let out = self.nest(b, &dims, at, vec![whole], &mut |b, at, carried| {
            let slot = self.slice(b, &self.plan.out, carried[0], at);
            let from = base.map(|base| self.slice(b, &self.plan.out, base, at));
            let value = body(self, b, at, slot, from);
            vec![self.put(b, &self.plan.out, value, carried[0], at)]
        });
        out[0]
    }

    /// Loops over the blocks of iterators, outermost first.
    fn nest(
        &self,
        b: &mut Builder<'_>,
        dims: &[usize],
        at: &At,
        init: Vec<Value>,
        body: Body<'_>,
    ) -> Vec<Value> {
        let Some((d, rest)) = dims.split_first() else {
            return body(b, at, init);
        };
        counted(b, self.plan.space.tile[*d], init, &mut |b, iv, carried| {
            let mut at = at.clone();
            at.block[*d] = Index::Value(iv);
            self.nest(b, rest, &at, carried, body)
        })
    }

    /// Offsets and sizes of the unit's operand in a tile.
    fn place(&self, b: &mut Builder<'_>, tile: &Tile, at: &At) -> (Vec<Index>, Vec<i64>) {
        let sum = |b: &mut Builder<'_>, terms: &[(usize, i64)]| {
            let mut sum = Index::Number(0);
            for (d, c) in terms {
                let term = at.block[*d].times(*c, b);
                sum = sum.plus(term, b);
            }
            sum
        };
        let mut offsets = Vec::new();
        let mut sizes = Vec::new();
        for dim in &tile.dims {
            let (offset, size) = match &dim.axis {
                Axis::Block(d) => (at.block[*d], 1),
                Axis::Window(terms) => (sum(b, terms), 1),
                Axis::Phase(terms, stride) => (sum(b, terms).div_rem(*stride, b).1, 1),
                Axis::Unit(d, rest, stride) if !rest.is_empty() => {
                    let window = sum(b, rest).div_rem(*stride, b).0;
                    let block = at.block[*d].times(self.unit_size(*d), b);
                    (block.plus(window, b), self.unit_size(*d))
                }
                Axis::Unit(d, ..) => (Index::Number(0), self.unit_size(*d)),
            };
            offsets.push(offset);
            sizes.push(size);
        }
        (offsets, sizes)
    }

    /// The shape of the unit's operand: the last dimensions of the tile.
    fn unit_shape(&self, tile: &Tile) -> Vec<i64> {
        let units = tile.dims.iter().filter_map(|dim| match dim.axis {
            Axis::Unit(d, ..) => Some(self.unit_size(d)),
            _ => None,
        });
        units.collect()
    }

    /// The unit's operand in a tile.
    fn slice(&self, b: &mut Builder<'_>, tile: &Tile, source: Value, at: &At) -> Value {
        let shape = self.unit_shape(tile);
        let whole = b.ty(source);
        if whole.shape() == Some(&shape) {
            return source;
        }
        let (offsets, static_sizes) = self.place(b, tile, at);
        let static_strides = vec![1; static_sizes.len()];
        let (offsets, static_offsets) = mixed(&offsets);
        b.add(ExtractSlice {
            source,
            offsets,
            sizes: Vec::new(),
            strides: Vec::new(),
            static_offsets,
            static_sizes,
            static_strides,
            result: Ret(Type::tensor(shape, whole.elem())),
        })
    }

    /// A tile with the unit's operand replaced.
    fn put(&self, b: &mut Builder<'_>, tile: &Tile, source: Value, dest: Value, at: &At) -> Value {
        let whole = b.ty(dest);
        if whole == b.ty(source) {
            return source;
        }
        let (offsets, static_sizes) = self.place(b, tile, at);
        let static_strides = vec![1; static_sizes.len()];
        let (offsets, static_offsets) = mixed(&offsets);
        b.add(InsertSlice {
            source,
            dest,
            offsets,
            sizes: Vec::new(),
            strides: Vec::new(),
            static_offsets,
            static_sizes,
            static_strides,
            result: Ret(whole),
        })
    }

    /// All of one block: start, reduction, elementwise step, into a slot.
    fn whole_unit(&self, b: &mut Builder<'_>, at: &At, slot: Value) -> Value {
        let Some((_, _, start)) = &self.group.reduce else {
            return self.map_unit(b, at, slot, None);
        };
        let acc = if self.group.map.is_some() {
            let acc = self.empty(b, self.unit_shape(&self.plan.out), self.group.sum);
            hint(b, acc, "acc");
            acc
        } else {
            slot
        };
        let acc = self.fill(b, acc, *start);
        let acc = self.reduce_unit(b, at, acc);
        match self.group.map {
            Some(_) => self.map_unit(b, at, slot, Some(acc)),
            None => acc,
        }
    }

    /// The reduction of one block over the blocks of its iterators, into an accumulator.
    fn reduce_unit(&self, b: &mut Builder<'_>, at: &At, acc: Value) -> Value {
        let Some((step, combine, _)) = &self.group.reduce else {
            return acc;
        };
        let space = &self.plan.space;
        let dims: Vec<usize> = (0..space.domain.len())
            .filter(|d| self.group.reductions[*d] && space.tile[*d] > 1)
            .collect();
        let out = self.nest(b, &dims, at, vec![acc], &mut |b, at, carried| {
            vec![self.unit_step(b, at, step, Some(*combine), carried[0], None)]
        });
        out[0]
    }

    /// The elementwise step of one block.
    fn map_unit(&self, b: &mut Builder<'_>, at: &At, slot: Value, reduced: Option<Value>) -> Value {
        match &self.group.map {
            Some(step) => self.unit_step(b, at, step, None, slot, reduced),
            None => slot,
        }
    }

    /// The generic of a step on the unit's operands.
    fn unit_step(
        &self,
        b: &mut Builder<'_>,
        at: &At,
        step: &Step,
        combine: Option<Combine>,
        dest: Value,
        reduced: Option<Value>,
    ) -> Value {
        // Iterators: those of the result, then the unit's reductions.
        let mut dims = self.plan.unit_out.clone();
        if combine.is_some() {
            let reductions = self.plan.space.unit.iter().copied();
            dims.extend(reductions.filter(|d| self.group.reductions[*d]));
        }
        let map_of = |tile: &Tile| {
            let places = tile.dims.iter().filter_map(|dim| match dim.axis {
                Axis::Unit(d, ..) => dims.iter().position(|e| *e == d),
                _ => None,
            });
            AffineMap::project(dims.len(), &places.collect::<Vec<_>>())
        };
        let mut inputs = Vec::new();
        let mut maps = Vec::new();
        for input in &step.inputs {
            match input {
                Input::Operand(i) => {
                    let tile = &self.plan.tiles[*i];
                    if let Some(loaded) = at.loaded[*i] {
                        inputs.push(self.slice(b, tile, loaded, at));
                        maps.push(map_of(tile));
                    }
                }
                Input::Reduced => {
                    inputs.extend(reduced);
                    maps.push(map_of(&self.plan.out));
                }
            }
        }
        maps.push(map_of(&self.plan.out));
        let parallel = self.plan.unit_out.len();
        let kinds = iterators(parallel, dims.len() - parallel);
        let body = copy_body(b, step.body);
        generic(b, inputs, dest, maps, kinds, combine, None, body)
    }

    /// A tile whose reduction is divided: accumulators of the whole tile live through its loops.
    fn split(&self, b: &mut Builder<'_>, at: &At) -> Value {
        let Some((_, _, start)) = &self.group.reduce else {
            return self.plain(b, at);
        };
        let acc = self.blocks(b, at, None, self.group.sum, &mut |emit, b, _, slot, _| {
            emit.fill(b, slot, *start)
        });
        let parallel = self
            .plan
            .order
            .iter()
            .take_while(|d| !self.group.reductions[**d])
            .count();
        let acc = self.reduction_tiles(b, parallel, at.clone(), acc);
        if self.group.map.is_none() {
            return acc;
        }
        let elem = self.group.result.elem();
        self.blocks(b, at, Some(acc), elem, &mut |emit, b, at, slot, reduced| {
            emit.map_unit(b, at, slot, reduced)
        })
    }

    fn reduction_tiles(&self, b: &mut Builder<'_>, level: usize, mut at: At, acc: Value) -> Value {
        let order = &self.plan.order;
        // What is loaded at the first level was loaded by the loops around.
        if level > 0 && self.group.reductions[order[level - 1]] {
            self.loads(b, level, &mut at);
        }
        if level == order.len() {
            let space = &self.plan.space;
            let dims: Vec<usize> = (0..space.domain.len())
                .filter(|d| !self.group.reductions[*d] && space.tile[*d] > 1)
                .collect();
            let out = self.nest(b, &dims, &at, vec![acc], &mut |b, at, carried| {
                let slot = self.slice(b, &self.plan.out, carried[0], at);
                let value = self.reduce_unit(b, at, slot);
                vec![self.put(b, &self.plan.out, value, carried[0], at)]
            });
            return out[0];
        }
        let d = order[level];
        let out = counted(
            b,
            self.plan.space.trips(d),
            vec![acc],
            &mut |b, iv, carried| {
                let mut at = at.clone();
                at.tile[d] = Index::Value(iv);
                vec![self.reduction_tiles(b, level + 1, at, carried[0])]
            },
        );
        out[0]
    }
}

/// Says what the text calls a value, for dumps that can be read.
fn hint(b: &mut Builder<'_>, value: Value, text: &str) {
    b.ir.set_hint(value, Some(Name::new(text)));
}

/// A copy of a region of the same arena, detached.
fn copy_body(b: &mut Builder<'_>, body: RegionId) -> RegionId {
    let region = b.ir.new_region();
    b.ir.duplicate_region(body, region, &mut Mapping::default());
    region
}

#[allow(clippy::too_many_arguments)]
fn generic(
    b: &mut Builder<'_>,
    inputs: Vec<Value>,
    output: Value,
    indexing_maps: Vec<AffineMap>,
    iterator_types: Vec<Attr>,
    combine: Option<Combine>,
    sizes: Option<Vec<i64>>,
    body: RegionId,
) -> Value {
    let results = Rets(vec![b.ty(output)]);
    let outputs = vec![output];
    let mut op = Generic {
        inputs,
        outputs,
        indexing_maps,
        iterator_types,
        combine,
        sizes,
        body,
        results,
    };
    // Sizes are said only where no operand shows them.
    let said = op.sizes.take();
    if op.domain(b.ir).ok() != said && said.is_some() {
        op.sizes = said;
    }
    b.add(op)[0]
}
