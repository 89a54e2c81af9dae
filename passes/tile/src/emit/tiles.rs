//! Steps over whole tiles: what no unit takes, and values that are computed for a tile alone.

use tir::{AffineExpr, AffineMap, Attr, Builder, LinearMap, Value};
use tir_tensor::generic::iterators;

use super::nest::{Nest, copy_body, fill};
use super::{At, Emit, Given};
use crate::group::{Inner, Input, Step};
use crate::layout::Tile;

impl Emit<'_> {
    /// Positions in a tile that is a box of its source, for points of the core in it.
    fn near_map(&self, tile: &Tile) -> AffineMap {
        let core = self.group.core;
        let places = tile.forms.iter().zip(&tile.low);
        let places: LinearMap = places.map(|(form, low)| form.with_constant(-low)).collect();
        places.affine(core)
    }

    /// All steps over whole tiles, for what no unit takes.
    pub(super) fn plain(&self, b: &mut Builder<'_>, at: &At) -> Vec<Value> {
        let core = self.group.core;
        let sizes: Vec<i64> = (0..core).map(|d| self.plan.space.extent(d)).collect();
        let out_map = self.near_map(&self.plan.out);
        let shape = self.plan.out.shape();
        let mut given = Given::default();
        if let Some((step, combine, start)) = &self.group.reduce {
            let acc = self.empty(b, shape.clone(), step.ty.elem());
            let acc = fill(b, acc, *start);
            let reduced = self.reduction_tiles(
                b,
                self.parallel(),
                at.clone(),
                vec![acc],
                &mut |b, at, acc| {
                    let (inputs, mut maps) = self.read(step, at, &Given::default(), &out_map);
                    maps.push(out_map.clone());
                    let kinds = self.group.reductions[..core].iter();
                    let kinds = kinds.map(|r| Attr::str(if *r { "reduction" } else { "parallel" }));
                    let nest = Nest {
                        maps,
                        kinds: kinds.collect(),
                        sizes: Some(sizes.clone()),
                        combine: Some(*combine),
                        body: copy_body(b, step.body),
                    };
                    vec![nest.generic(b, inputs, acc[0])]
                },
            );
            given.reduced = reduced.first().copied();
        }
        // Only the parallel iterators are left.
        let parallel: Vec<usize> = self.group.iterators(false).collect();
        let rename: Vec<AffineExpr> = (0..core)
            .map(|d| {
                let at = parallel.iter().position(|p| *p == d);
                at.map_or(AffineExpr::Const(0), AffineExpr::Dim)
            })
            .collect();
        let rename = AffineMap::new(parallel.len(), rename);
        for step in &self.group.maps {
            let dest = self.empty(b, shape.clone(), step.ty.elem());
            self.slots(b, dest, self.plan.single_result);
            let (inputs, mut maps) = self.read(step, at, &given, &out_map);
            maps.push(out_map.clone());
            let nest = Nest {
                maps: maps.iter().map(|map| map.compose(&rename)).collect(),
                kinds: iterators(parallel.len(), 0),
                sizes: Some(parallel.iter().map(|d| sizes[*d]).collect()),
                combine: None,
                body: copy_body(b, step.body),
            };
            let value = nest.generic(b, inputs, dest);
            given.mapped.push(value);
        }
        self.leaving(&given)
    }

    /// What leaves the group, in order.
    pub(super) fn leaving(&self, given: &Given) -> Vec<Value> {
        let outs = self.group.outs.iter();
        outs.filter_map(|out| given.out(out.step)).collect()
    }

    /// What a step reads of whole tiles, and where.
    fn read(
        &self,
        step: &Step,
        at: &At,
        given: &Given,
        out_map: &AffineMap,
    ) -> (Vec<Value>, Vec<AffineMap>) {
        let (mut inputs, mut maps) = (Vec::new(), Vec::new());
        for input in &step.inputs {
            match input {
                Input::Operand(i) => {
                    inputs.extend(at.loaded[*i]);
                    maps.push(self.near_map(&self.plan.tiles[*i]));
                }
                other => {
                    inputs.extend(given.input(*other));
                    maps.push(out_map.clone());
                }
            }
        }
        (inputs, maps)
    }

    /// The tile of a value that is computed for this tile alone.
    pub(super) fn inner(
        &self,
        b: &mut Builder<'_>,
        operand: usize,
        inner: &Inner,
        at: &At,
    ) -> Value {
        let tile = &self.plan.tiles[operand];
        let shape = tile.shape();
        let elem = b.ty(self.group.operands[operand].source).elem();
        let mut dest = self.empty_in(b, self.plan.spaces[operand], shape.clone(), elem);
        self.slots(b, dest, self.plan.single[operand]);
        if let Some((_, start)) = inner.reduce {
            dest = fill(b, dest, start);
        }
        let ranges: Vec<i64> = inner
            .reductions
            .iter()
            .map(|d| self.group.domain[*d])
            .collect();
        let dims = shape.len() + ranges.len();
        let (mut inputs, mut maps) = (Vec::new(), Vec::new());
        for (input, rows) in inner.inputs.iter().zip(&inner.rows) {
            // The plan was made of tiles for which this is some.
            let rows = tile.relative(&self.plan.tiles[*input], rows, &ranges);
            inputs.extend(at.loaded[*input]);
            maps.push(rows.unwrap_or_default().affine(dims));
        }
        maps.push(LinearMap::identity(shape.len()).affine(dims));
        let nest = Nest {
            maps,
            kinds: iterators(shape.len(), ranges.len()),
            sizes: Some([&shape[..], &ranges].concat()),
            combine: inner.reduce.map(|(combine, _)| combine),
            body: copy_body(b, inner.body),
        };
        nest.generic(b, inputs, dest)
    }
}
