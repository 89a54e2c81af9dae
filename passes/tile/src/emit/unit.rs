//! Steps block by block, each block one operand of the unit.

use tir::{AffineExpr, AffineMap, Attr, Builder, LinearExpr, LinearMap, Type, Value};
use tir_arith::{CmpIPredicate, MinSI, OpFoldResult, constant_index};
use tir_tensor::Combine;
use tir_tensor::generic::iterators;

use super::flow::{counted, counted_from, when};
use super::slice::Slice;
use super::{At, Emit, Given, Nest, copy_body, fill, fill_by, hint};
use crate::group::{Input, Step, StepRef};
use crate::layout::{Axis, Dim, Tile};
use crate::plan::held;

type Body<'f> = &'f mut dyn FnMut(&mut Builder<'_>, &At, Vec<Value>) -> Vec<Value>;

/// Which trips of loops stand by themselves.
#[derive(Clone, Copy, Default)]
struct Ends {
    first: bool,
    last: bool,
}

/// One block of each tile: from its slots, and a block to start from, to their content.
type BlockBody<'f> =
    &'f mut dyn FnMut(&mut Builder<'_>, &At, &[Value], Option<Value>) -> Vec<Value>;

/// Adds to what is carried through the loops of a reduction what the tiles that are loaded give.
type SumTile<'f> = &'f mut dyn FnMut(&mut Builder<'_>, &At, Vec<Value>) -> Vec<Value>;

impl Emit<'_> {
    /// Extent of a unit's dimension.
    fn unit_size(&self, d: usize) -> i64 {
        self.plan.space.block[d]
    }
    fn is_unit(&self, d: usize) -> bool {
        self.plan.space.unit.contains(&d)
    }
    /// Extent of the unit's result in a dimension of a tile of another nest.
    fn slot_size(&self, d: usize) -> i64 {
        if self.is_unit(d) {
            self.unit_size(d)
        } else {
            1
        }
    }
    /// Extent of the dimension of a unit's operand that an iterator counts, with the unit's window.
    fn unit_extent(&self, d: usize, window: &[(usize, i64)]) -> i64 {
        let reach = window
            .iter()
            .map(|(d, step)| step * (self.unit_size(*d) - 1));
        self.unit_size(d) + reach.sum::<i64>()
    }
    /// Iterators of the core with more than one block in a tile.
    fn divided(&self, reductions: bool) -> Vec<usize> {
        let dims = self.group.iterators(reductions);
        let mut dims: Vec<usize> = dims.filter(|d| self.plan.space.tile[*d] > 1).collect();
        // A block that is moved back over the one before waits for it: others stand between.
        dims.sort_by_key(|d| self.plan.space.shifted != Some(*d));
        dims
    }

    /// Tiles of the result's shape to be filled, one for each element type.
    pub(super) fn wholes(&self, b: &mut Builder<'_>, elems: &[Type]) -> Vec<Value> {
        let shape = self.plan.out.unit_shape();
        let whole = elems.iter().map(|elem| {
            let whole = self.empty(b, shape.clone(), *elem);
            self.slots(b, whole, self.plan.single_result);
            hint(b, whole, "out");
            whole
        });
        whole.collect()
    }

    /// Runs `body` for each block of the result's tile and puts what it gives into `wholes`. `body`
    /// gets the slots for its block, and the block of `base` if there is one.
    fn blocks(
        &self,
        b: &mut Builder<'_>,
        at: &At,
        wholes: Vec<Value>,
        base: Option<Value>,
        body: BlockBody<'_>,
    ) -> Vec<Value> {
        let dims = self.divided(false);
        let tile = &self.plan.out;
        self.nest(b, &dims, at, wholes, &mut |b, at, carried| {
            let part = self.operand(b, tile, at);
            part.update_all(b, carried, &mut |b, slots| {
                let from = base.map(|base| part.take(b, base));
                body(b, at, &slots, from)
            })
        })
    }

    /// How many blocks the stage computes in a trip of the innermost loop around its tile.
    pub(super) fn count(&self) -> i64 {
        let dims = self.divided(false).into_iter();
        dims.map(|d| self.plan.space.tile[d]).product()
    }

    /// One of those blocks, by number: into the tensors that are carried.
    pub(super) fn block(
        &self,
        b: &mut Builder<'_>,
        at: &At,
        number: OpFoldResult,
        carried: Vec<Value>,
    ) -> Vec<Value> {
        let around = std::mem::replace(&mut b.loc, b.ir.loc(self.group.named));
        let done = self.block_here(b, at, number, carried);
        b.loc = around;
        done
    }

    fn block_here(
        &self,
        b: &mut Builder<'_>,
        at: &At,
        number: OpFoldResult,
        carried: Vec<Value>,
    ) -> Vec<Value> {
        let mut at = at.clone();
        let mut rest = number;
        let dims = self.divided(false);
        for (i, d) in dims.iter().enumerate().rev() {
            let size = self.plan.space.tile[*d];
            at.block[*d] = if i > 0 { rest.modulo(b, size) } else { rest };
            rest = rest.floor_div(b, size);
        }
        if self.plan.splits_reduction(self.group) {
            return vec![self.sum_block(b, &at, carried[0])];
        }
        let part = self.operand(b, &self.plan.out, &at);
        part.update_all(b, carried, &mut |b, slots| self.whole_block(b, &at, &slots))
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
        let parallel = self.marks && !self.group.reductions[*d];
        let trips = self.plan.space.tile[*d];
        counted(b, trips, parallel, init, &mut |b, iv, carried| {
            let mut at = at.clone();
            at.block[*d] = OpFoldResult::Value(iv);
            self.nest(b, rest, &at, carried, body)
        })
    }

    /// Offsets and sizes of the unit's operand in a tile.
    fn place(&self, b: &mut Builder<'_>, tile: &Tile, at: &At) -> (Vec<OpFoldResult>, Vec<i64>) {
        let sum = |b: &mut Builder<'_>, terms: &[(usize, i64)]| {
            let mut sum = OpFoldResult::Number(0);
            for (d, c) in terms {
                let term = at.block[*d].times(b, *c);
                sum = sum.plus(b, term);
            }
            sum
        };
        let mut offsets = Vec::new();
        let mut sizes = Vec::new();
        // Blocks that have a dimension of their own do not lie behind one another, however large each is.
        let apart = |d: &usize| tile.dims.iter().any(|dim| dim.axis == Axis::Block(*d));
        for dim in &tile.dims {
            let axis = match &dim.axis {
                Axis::Ring(axis, _) => axis,
                axis => axis,
            };
            let (offset, size) = match axis {
                Axis::Block(d) => (at.block[*d], 1),
                Axis::Window(terms) => (sum(b, terms), 1),
                Axis::Phase(terms, stride) => (sum(b, terms).modulo(b, *stride), 1),
                Axis::Unit(d, rest, stride, own)
                    if !(rest.is_empty() && own.is_empty())
                        || dim.size != self.unit_size(*d) && !apart(d) =>
                {
                    let moved = sum(b, rest).floor_div(b, *stride);
                    let mut at_block = self.points_before(b, at, *d);
                    for (d, step) in own {
                        let block = at.block[*d].times(b, step * self.unit_size(*d));
                        at_block = block.plus(b, at_block);
                    }
                    (at_block.plus(b, moved), self.unit_extent(*d, own))
                }
                Axis::Unit(d, ..) => (OpFoldResult::Number(0), self.unit_size(*d)),
                Axis::Slot(d, first) => {
                    let tile = at.tile[*d].times(b, self.plan.space.extent(*d));
                    let block = self.points_before(b, at, *d);
                    let moved = block.plus(b, tile);
                    (moved.plus(b, *first), self.slot_size(*d))
                }
                Axis::Turn => (at.turn, 1),
                Axis::Trip(d) => (at.tile[*d], 1),
                Axis::One | Axis::Ring(..) => (OpFoldResult::Number(0), 1),
            };
            let offset = self.in_ring(b, dim, at, offset);
            offsets.push(offset);
            sizes.push(size);
        }
        let Some(groups) = tile.reassociation() else {
            return (offsets, sizes);
        };
        // Of dimensions that are one the later ones are taken whole.
        let joined = groups.iter().map(|group| {
            let rest: i64 = group[1..].iter().map(|d| tile.dims[*d].size).product();
            (offsets[group[0]].times(b, rest), sizes[group[0]] * rest)
        });
        joined.unzip()
    }

    /// The points of an iterator before the block of the unit: a last one that is moved back begins where it ends
    /// with the range.
    fn points_before(&self, b: &mut Builder<'_>, at: &At, d: usize) -> OpFoldResult {
        let size = self.unit_size(d);
        let points = at.block[d].times(b, size);
        if self.plan.space.shifted != Some(d) {
            return points;
        }
        let last = self.plan.space.domain[d] - size;
        match points {
            OpFoldResult::Number(n) => OpFoldResult::Number(n.min(last)),
            OpFoldResult::Value(lhs) => {
                let rhs = constant_index(b, last);
                OpFoldResult::Value(b.add(MinSI { lhs, rhs }))
            }
        }
    }

    /// Where a row of a window is that slides in a ring; the same place for other dimensions.
    pub(super) fn in_ring(
        &self,
        b: &mut Builder<'_>,
        dim: &Dim,
        at: &At,
        row: OpFoldResult,
    ) -> OpFoldResult {
        let Axis::Ring(_, slide) = &dim.axis else {
            return row;
        };
        let moved = at.tile[slide.iterator].times(b, slide.step);
        let moved = moved.plus(b, slide.first);
        row.plus(b, moved).modulo(b, dim.size)
    }

    /// The shape of the unit's operand: the last dimensions of the tile.
    fn unit_shape(&self, tile: &Tile) -> Vec<i64> {
        let mut units = tile.dims.iter().filter_map(|dim| match dim.axis {
            Axis::Unit(d, _, _, ref own) => Some(self.unit_extent(d, own)),
            Axis::Slot(d, _) if self.is_unit(d) => Some(self.slot_size(d)),
            Axis::One => Some(1),
            _ => None,
        });
        let joined = tile.joined.iter();
        joined
            .map(|count| units.by_ref().take(*count).product())
            .collect()
    }

    /// The same place for an operand whose tile stays for all trips of some loops, or for all strips: blocks are
    /// counted over them.
    fn held(&self, b: &mut Builder<'_>, operand: usize, at: &At) -> At {
        let mut at = at.clone();
        for d in held(self.plan, operand) {
            let before = at.tile[d].times(b, self.plan.space.tile[d]);
            at.block[d] = before.plus(b, at.block[d]);
        }
        let strips = self.plan.strips.as_ref();
        if let Some(strips) = strips.filter(|strips| !strips.operands[operand]) {
            let before = at.strip.times(b, strips.blocks);
            at.block[strips.iterator] = before.plus(b, at.block[strips.iterator]);
        }
        at
    }

    /// The unit's operand in a tile.
    fn operand(&self, b: &mut Builder<'_>, tile: &Tile, at: &At) -> Slice {
        let (offsets, sizes) = self.place(b, tile, at);
        Slice::new(&offsets, sizes, self.unit_shape(tile))
    }

    /// A block for a value between steps.
    fn temporary(&self, b: &mut Builder<'_>, elem: Type, name: &str) -> Value {
        let value = self.empty(b, self.unit_shape(&self.plan.out), elem);
        hint(b, value, name);
        value
    }

    /// A tile whose reduction is not divided: all steps of a block, block by block.
    ///
    /// Blocks are put into `slots` if there are any, else into tiles of their own.
    pub(super) fn whole(
        &self,
        b: &mut Builder<'_>,
        at: &At,
        slots: Option<&[Value]>,
    ) -> Vec<Value> {
        let outs = self.group.outs.iter();
        let elems: Vec<Type> = outs.map(|out| self.elem(out.step)).collect();
        let wholes = match (self.plan.in_place, slots) {
            (_, Some(slots)) => slots.to_vec(),
            (Some(Input::Operand(i)), _) => at.loaded[i].into_iter().collect(),
            _ => {
                let mut wholes = self.wholes(b, &elems);
                self.fill_sums(b, &mut wholes);
                wholes
            }
        };
        self.blocks(b, at, wholes, None, &mut |b, at, slots, _| {
            self.whole_block(b, at, slots)
        })
    }

    /// Fills the tile that is accumulated in, of those of the results, if that is done at once.
    pub(super) fn fill_sums(&self, b: &mut Builder<'_>, wholes: &mut [Value]) {
        let (Some((_, _, start)), Some(engine)) = (&self.group.reduce, self.plan.filled) else {
            return;
        };
        let place = self.leaves(StepRef::Reduced).unwrap_or(0);
        wholes[place] = fill_by(b, engine, wholes[place], *start);
    }

    /// All steps of a block.
    fn whole_block(&self, b: &mut Builder<'_>, at: &At, slots: &[Value]) -> Vec<Value> {
        let slot = |what: StepRef| self.leaves(what).map(|i| slots[i]);
        let mut given = Given::default();
        if let Some((step, _, start)) = &self.group.reduce {
            let acc = match slot(StepRef::Reduced) {
                Some(slot) => slot,
                None if self.plan.in_place == Some(Input::Reduced) => slots[0],
                None => self.temporary(b, step.ty.elem(), "acc"),
            };
            let acc = match self.plan.filled {
                Some(_) => acc,
                None => fill(b, acc, *start),
            };
            given.reduced = Some(self.reduce_unit(b, at, acc, self.ends()));
        }
        self.map_units(b, at, &slot, &mut given);
        self.leaving(&given)
    }

    /// What the blocks of a reduction in its tiles add to a block of accumulators.
    fn sum_block(&self, b: &mut Builder<'_>, at: &At, acc: Value) -> Value {
        let part = self.operand(b, &self.plan.out, at);
        part.update(b, acc, &mut |b, slot| {
            self.reduce_unit(b, at, slot, Ends::default())
        })
    }

    /// The reduction of one block over the blocks of its iterators, into an accumulator.
    fn reduce_unit(&self, b: &mut Builder<'_>, at: &At, acc: Value, ends: Ends) -> Value {
        let Some((step, combine, _)) = &self.group.reduce else {
            return acc;
        };
        let dims = self.divided(true);
        let out = self.peeled(b, &dims, at, vec![acc], ends, &mut |b, at, carried| {
            let given = Given::default();
            vec![self.unit_step(b, at, step, Some(*combine), carried[0], &given)]
        });
        out[0]
    }

    /// The trips of a reduction that stand by themselves: one call does them with what is before or behind.
    fn ends(&self) -> Ends {
        let peel = &self.plan.peel;
        Ends {
            first: peel.first.is_some() && self.plan.filled.is_none(),
            last: peel.last.is_some(),
        }
    }

    /// Loops over the blocks of iterators, outermost first, with the very first and the very last trip
    /// outside of them where `ends` says so.
    fn peeled(
        &self,
        b: &mut Builder<'_>,
        dims: &[usize],
        at: &At,
        init: Vec<Value>,
        ends: Ends,
        body: Body<'_>,
    ) -> Vec<Value> {
        let (Some((d, rest)), true) = (dims.split_first(), ends.first || ends.last) else {
            return self.nest(b, dims, at, init, body);
        };
        let trips = self.plan.space.tile[*d];
        let trip = |number: i64| {
            let mut at = at.clone();
            at.block[*d] = OpFoldResult::Number(number);
            at
        };
        let (mut low, mut high, mut carried) = (0, trips, init);
        if ends.first {
            let ends = Ends {
                last: ends.last && trips == 1,
                ..ends
            };
            carried = self.peeled(b, rest, &trip(0), carried, ends, body);
            low = 1;
        }
        if ends.last && low < high {
            high -= 1;
        }
        if high - low == 1 {
            carried = self.nest(b, rest, &trip(low), carried, body);
        } else if low < high {
            carried = counted_from(b, [low, high], false, carried, &mut |b, iv, carried| {
                let mut at = at.clone();
                at.block[*d] = OpFoldResult::Value(iv);
                self.nest(b, rest, &at, carried, body)
            });
        }
        if high < trips {
            let ends = Ends {
                first: false,
                ..ends
            };
            carried = self.peeled(b, rest, &trip(high), carried, ends, body);
        }
        carried
    }

    /// The elementwise steps of one block.
    fn map_units(
        &self,
        b: &mut Builder<'_>,
        at: &At,
        slot: &dyn Fn(StepRef) -> Option<Value>,
        given: &mut Given,
    ) {
        for (i, step) in self.group.maps.iter().enumerate() {
            let over = given
                .reduced
                .filter(|_| self.plan.in_place == Some(Input::Reduced));
            let dest = match over.or_else(|| slot(StepRef::Mapped(i))) {
                Some(dest) => dest,
                None => self.temporary(b, step.ty.elem(), "step"),
            };
            let value = self.unit_step(b, at, step, None, dest, given);
            given.mapped.push(value);
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
        given: &Given,
    ) -> Value {
        // Iterators: those of the result, of one point for its dimensions of one element; then the
        // unit's reductions.
        let mut dims = self.plan.unit_out.to_vec();
        let parallel = dims.len();
        if let Some(unit) = self.plan.unit.as_ref().filter(|_| combine.is_some()) {
            let iterators = unit
                .unit_dims
                .iter()
                .map(|dims| dims.iter().map(|(d, _)| *d));
            let iterators = iterators.map(Iterator::collect::<Vec<usize>>);
            let is_reduction = |dims: &Vec<usize>| dims.iter().any(|d| self.group.reductions[*d]);
            dims.extend(iterators.filter(is_reduction));
        }
        let out_map = AffineMap::project(dims.len(), &(0..parallel).collect::<Vec<_>>());
        let map_of = |tile: &Tile| {
            let dim = |d: usize| dims.iter().position(|e| e.contains(&d));
            // Of a window of the unit's own, how it moves in the dimension beside the iterator.
            let mut units = tile.dims.iter().filter_map(|dim| match dim.axis {
                Axis::Unit(d, _, _, ref own) => Some(Some((d, own))),
                Axis::One => Some(None),
                _ => None,
            });
            let places = tile.joined.iter().filter_map(|count| {
                let parts: Vec<_> = units.by_ref().take(*count).flatten().collect();
                let Some((first, window)) = parts.first() else {
                    return Some(AffineExpr::Const(0));
                };
                let mut form = LinearExpr::dim(dim(*first)?);
                for (d, step) in *window {
                    form = form.plus(&LinearExpr::dim(dim(*d)?), *step)?;
                }
                let map: LinearMap = std::iter::once(form).collect();
                map.affine(dims.len()).exprs.pop()
            });
            AffineMap::new(dims.len(), places.collect())
        };
        let mut inputs = Vec::new();
        let mut maps = Vec::new();
        for input in &step.inputs {
            match input {
                Input::Operand(_) if self.plan.in_place == Some(*input) => {
                    inputs.push(dest);
                    maps.push(out_map.clone());
                }
                Input::Operand(i) => {
                    let tile = &self.plan.tiles[*i];
                    if let Some(loaded) = at.loaded[*i] {
                        let at = self.held(b, *i, at);
                        inputs.push(self.operand(b, tile, &at).take(b, loaded));
                        maps.push(map_of(tile));
                    }
                }
                other => {
                    inputs.extend(given.input(*other));
                    maps.push(out_map.clone());
                }
            }
        }
        maps.push(out_map);
        let nest = Nest {
            maps,
            kinds: iterators(parallel, dims.len() - parallel),
            sizes: None,
            combine,
            body: copy_body(b, step.body),
        };
        nest.generic(b, inputs, dest)
    }

    /// A tile whose reduction is divided: accumulators of the whole tile live through its loops, in a tile of
    /// another stage if there is one.
    pub(super) fn split(&self, b: &mut Builder<'_>, at: &At, into: Option<Value>) -> Vec<Value> {
        let Some((step, _, start)) = &self.group.reduce else {
            return self.whole(b, at, into.as_ref().map(std::slice::from_ref));
        };
        let acc = into.unwrap_or_else(|| self.wholes(b, &[step.ty.elem()])[0]);
        let acc = self.begun(b, at, acc, *start);
        // Steps behind follow block by block in the last part: their unit works beside that of the sums.
        let parts = &self.plan.order[self.parallel()..];
        let over = self.plan.in_place == Some(Input::Reduced) && self.group.outs.len() == 1;
        // A pipeline issues blocks by itself, and what is stored as a whole waits for all of it.
        let over = over && into.is_some() && self.stage.turns == 1;
        let last = parts.first().filter(|_| over && parts.len() == 1);
        let sum = &mut |b: &mut Builder<'_>, at: &At, sums: Vec<Value>| {
            let Some(d) = last else {
                return vec![self.sum_blocks(b, at, sums[0])];
            };
            let end = self.plan.space.trips(*d) - 1;
            let ends = at.tile[*d].compare(b, CmpIPredicate::Eq, end);
            let dims = self.divided(false);
            self.nest(b, &dims, at, sums, &mut |b, at, carried| {
                let acc = vec![self.sum_block(b, at, carried[0])];
                when(b, ends, acc, &mut |b, acc| {
                    vec![self.finished_block(b, at, acc[0])]
                })
            })
        };
        let acc = self.reduction_tiles(b, self.parallel(), at.clone(), vec![acc], sum)[0];
        match last {
            Some(_) => vec![acc],
            None => self.finished(b, at, acc),
        }
    }

    /// A block of accumulators with all that is added as the block of the result in its place.
    fn finished_block(&self, b: &mut Builder<'_>, at: &At, acc: Value) -> Value {
        let part = self.operand(b, &self.plan.out, at);
        part.update(b, acc, &mut |b, reduced| {
            let mut given = Given {
                reduced: Some(reduced),
                mapped: Vec::new(),
            };
            self.map_units(b, at, &|_| None, &mut given);
            given.mapped.last().copied().unwrap_or(reduced)
        })
    }

    /// Adds to the accumulators of a tile what the tiles that are loaded give.
    pub(super) fn sum_blocks(&self, b: &mut Builder<'_>, at: &At, acc: Value) -> Value {
        let dims = self.divided(false);
        let out = self.nest(b, &dims, at, vec![acc], &mut |b, at, carried| {
            vec![self.sum_block(b, at, carried[0])]
        });
        out[0]
    }

    /// The accumulators of a tile before anything is added.
    pub(super) fn begun(&self, b: &mut Builder<'_>, at: &At, acc: Value, start: Attr) -> Value {
        if let Some(engine) = self.plan.filled {
            return fill_by(b, engine, acc, start);
        }
        self.blocks(b, at, vec![acc], None, &mut |b, _, slots, _| {
            vec![fill(b, slots[0], start)]
        })[0]
    }

    /// What leaves a tile whose accumulators have all that is added.
    pub(super) fn finished(&self, b: &mut Builder<'_>, at: &At, acc: Value) -> Vec<Value> {
        let outs: Vec<StepRef> = self.group.outs.iter().map(|out| out.step).collect();
        let mapped: Vec<StepRef> = outs
            .iter()
            .copied()
            .filter(|out| *out != StepRef::Reduced)
            .collect();
        let elems: Vec<Type> = mapped.iter().map(|out| self.elem(*out)).collect();
        let mut values = Vec::new();
        if !mapped.is_empty() {
            // In place the accumulators become the result block by block: no other step reads them.
            let (wholes, base) = match self.plan.in_place {
                Some(Input::Reduced) => (vec![acc], None),
                _ => (self.wholes(b, &elems), Some(acc)),
            };
            values = self.blocks(b, at, wholes, base, &mut |b, at, slots, reduced| {
                let slot = |what: StepRef| {
                    let place = mapped.iter().position(|out| *out == what)?;
                    slots.get(place).copied()
                };
                let mut given = Given {
                    reduced: reduced.or_else(|| slots.first().copied()),
                    mapped: Vec::new(),
                };
                self.map_units(b, at, &slot, &mut given);
                mapped.iter().filter_map(|out| given.out(*out)).collect()
            });
        }
        let mut values = values.into_iter();
        let all = outs.iter().map(|out| match out {
            StepRef::Reduced => Some(acc),
            StepRef::Mapped(_) => values.next(),
        });
        all.collect::<Option<_>>().unwrap_or_default()
    }

    /// The loops of a divided reduction around what is accumulated in a tile.
    pub(super) fn reduction_tiles(
        &self,
        b: &mut Builder<'_>,
        level: usize,
        mut at: At,
        carried: Vec<Value>,
        sum: SumTile<'_>,
    ) -> Vec<Value> {
        let order = &self.plan.order;
        // What is loaded at the first level was loaded by the loops around.
        if level > 0 && self.group.reductions[order[level - 1]] {
            self.loads(b, level, &mut at);
        }
        if level == order.len() {
            return sum(b, &at, carried);
        }
        self.trips(b, level, &at, false, carried, &mut |b, at, carried| {
            self.reduction_tiles(b, level + 1, at, carried, sum)
        })
    }
}
