//! The steps of a group on one block: the sums of its blocks in the reduction's iterators, then elementwise steps, each
//! a generic whose operands are the unit's.

use tir::{AffineExpr, AffineMap, Builder, LinearExpr, LinearMap, Type, Value};
use tir_tensor::Combine;
use tir_tensor::generic::iterators;

use super::blocks::Ends;
use super::nest::{Nest, copy_body, fill};
use super::{At, Emit, Given, hint};
use crate::group::{Input, Step, StepRef};
use crate::layout::{Axis, Tile};

impl Emit<'_> {
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

    /// All steps of a block.
    pub(super) fn whole_block(&self, b: &mut Builder<'_>, at: &At, slots: &[Value]) -> Vec<Value> {
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

    /// The reduction of one block over the blocks of its iterators, into an accumulator.
    pub(super) fn reduce_unit(
        &self,
        b: &mut Builder<'_>,
        at: &At,
        acc: Value,
        ends: Ends,
    ) -> Value {
        let Some((step, combine, _)) = &self.group.reduce else {
            return acc;
        };
        let mut dims = self.divided(true);
        // A processor reads its largest tile from one end to the other, for the sake of caches.
        let tiles = step.inputs.iter().filter_map(|input| match input {
            Input::Operand(i) => Some(&self.plan.tiles[*i]),
            _ => None,
        });
        let largest = tiles.max_by_key(|tile| tile.elements());
        if let Some(tile) = largest.filter(|_| self.plan.cost.in_order) {
            dims.sort_by_key(|d| tile.place(*d).unwrap_or(tile.dims.len()));
        }
        let out = self.peeled(b, &dims, at, vec![acc], ends, &mut |b, at, carried| {
            let given = Given::default();
            vec![self.unit_step(b, at, step, Some(*combine), carried[0], &given)]
        });
        out[0]
    }

    /// The elementwise steps of one block.
    pub(super) fn map_units(
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
            let iterators = unit.unit_dims.iter();
            let iterators = iterators.map(|dims| dims.iter().map(|(d, _)| *d).collect());
            let is_reduction = |dims: &Vec<usize>| dims.iter().any(|d| self.group.reductions[*d]);
            dims.extend(iterators.filter(is_reduction));
        }
        let out_map = AffineMap::project(dims.len(), &(0..parallel).collect::<Vec<_>>());
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
                        maps.push(unit_map(tile, &dims));
                    }
                }
                other => {
                    inputs.extend(given.input(*other));
                    maps.push(out_map.clone());
                }
            }
        }
        maps.push(out_map);
        // What counts no dimension alone, as a window without weights, has its range from nowhere else.
        let alone = |d: usize| {
            let mut places = maps.iter().flat_map(|map| &map.exprs);
            places.any(|at| *at == AffineExpr::Dim(d))
        };
        let points = |own: &Vec<usize>| own.iter().map(|d| self.plan.space.block[*d]).product();
        let sizes = !(0..dims.len()).all(alone);
        let sizes = sizes.then(|| dims.iter().map(points).collect());
        let nest = Nest {
            maps,
            kinds: iterators(parallel, dims.len() - parallel),
            sizes,
            combine,
            body: copy_body(b, step.body),
        };
        nest.generic(b, inputs, dest)
    }
}

/// How the unit's operand in a tile is indexed by iterators; each counts the points of some of the group's, `dims`.
fn unit_map(tile: &Tile, dims: &[Vec<usize>]) -> AffineMap {
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
}
