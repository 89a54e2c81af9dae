//! Winograd's transforms: every point of a tile is an input of one nest, every point of what it becomes an output, and the
//! region computes all of them from all, without loops over the small matrices.
//!
//! The input is padded first, so that each tile has all of its points. Last tiles of which only a part belongs to the result
//! are nests of their own, which write that part alone.

use std::ops::Range;

use tir::rewrite::{PatternSet, Rewriter};
use tir::{AffineMap, Decline, FloatType, OpId, Ret, Rets, Type, Value};
use tir_arith::{AddF, MulF, SubF, TruncF};
use tir_graph::winograd::{Arithmetic, Winograd, transform};
use tir_graph::{Layout, WinogradFilter, WinogradInput, WinogradOutput, accumulator};
use tir_tensor::generic::iterators;
use tir_tensor::{
    CollapseShape, ExpandShape, ExtractSlice, Generic, InsertSlice, Yield, reassociation,
};

use super::nest::{E, empty, extended, map, number, padded, ranked};

pub(super) fn patterns(set: &mut PatternSet) {
    set.on("winograd-filter-to-generic", filter);
    set.on("winograd-input-to-generics", input);
    set.on("winograd-output-to-generics", output);
}

/// Scalars of a type that a region computes.
struct Scalars<'a, 'b> {
    rw: &'a mut Rewriter<'b>,
    elem: Type,
}
impl Arithmetic for Scalars<'_, '_> {
    type Number = Value;
    fn add(&mut self, a: Value, b: Value) -> Value {
        self.rw.add(AddF::new(a, b))
    }
    fn sub(&mut self, a: Value, b: Value) -> Value {
        self.rw.add(SubF::new(a, b))
    }
    fn scale(&mut self, a: Value, by: f64) -> Value {
        let by = number(self.rw, by, self.elem);
        self.rw.add(MulF::new(a, by))
    }
}

/// A box of a tensor: its first element, its size, and the distance of its elements, for each dimension.
struct Part {
    offsets: Vec<i64>,
    sizes: Vec<i64>,
    strides: Vec<i64>,
}

/// A nest that computes parts of a tensor from elements of others.
struct Nest {
    /// The range of each iterator, which is the size of each dimension of a part that is not dropped.
    sizes: Vec<i64>,
    inputs: Vec<(Value, AffineMap)>,
    parts: Vec<Part>,
}

/// A tensor that is put together from parts. The nests come first, then the parts are put in: so what was put in is not
/// read while another nest writes beside it, and all of them write where the parts belong.
struct Assembly {
    whole: Value,
    parts: Vec<(Part, Value)>,
}

impl Assembly {
    /// Of a tensor of this type.
    fn new(rw: &mut Rewriter<'_>, ty: Type) -> Self {
        Self {
            whole: empty(rw, ty),
            parts: Vec::new(),
        }
    }

    /// The tensor.
    fn finish(self, rw: &mut Rewriter<'_>) -> Value {
        let ty = rw.ty(self.whole);
        let mut whole = self.whole;
        for (part, value) in self.parts {
            whole = rw.add(InsertSlice {
                source: value,
                dest: whole,
                offsets: Vec::new(),
                sizes: Vec::new(),
                strides: Vec::new(),
                static_offsets: part.offsets,
                static_sizes: part.sizes,
                static_strides: part.strides,
                result: Ret(ty),
            });
        }
        whole
    }

    /// Computes parts of it, a value of the region for each.
    fn add(
        &mut self,
        rw: &mut Rewriter<'_>,
        nest: Nest,
        compute: impl FnOnce(&mut Rewriter<'_>, &[Value]) -> Vec<Value>,
    ) {
        let whole = self.whole;
        let ty = rw.ty(whole);
        let mut outputs = Vec::new();
        for part in &nest.parts {
            let part_ty = Type::tensor(nest.sizes.clone(), ty.elem());
            outputs.push(rw.add(ExtractSlice {
                source: whole,
                offsets: Vec::new(),
                sizes: Vec::new(),
                strides: Vec::new(),
                static_offsets: part.offsets.clone(),
                static_sizes: part.sizes.clone(),
                static_strides: part.strides.clone(),
                result: Ret(Layout::on(Layout::of(ty), part_ty)),
            }));
        }
        let types: Vec<Type> = outputs.iter().map(|v| rw.ty(*v)).collect();
        let args: Vec<Type> = nest.inputs.iter().map(|(v, _)| rw.ty(*v).elem()).collect();
        let body = rw.body(&args, |rw, args| {
            let values = compute(rw, args);
            rw.add(Yield { values });
        });
        let maps = nest.inputs.iter().map(|(_, map)| map.clone());
        let rank = nest.sizes.len();
        let outs = std::iter::repeat_n(AffineMap::identity(rank), outputs.len());
        let made = rw.add(Generic {
            inputs: nest.inputs.iter().map(|(value, _)| *value).collect(),
            outputs,
            indexing_maps: maps.chain(outs).collect(),
            iterator_types: iterators(rank, 0),
            combine: None,
            sizes: Some(nest.sizes),
            body,
            results: Rets(types),
        });
        self.parts.extend(nest.parts.into_iter().zip(made));
    }
}

/// Numbers of the type they were computed in as elements of another one; absent ones are zero.
fn finished(rw: &mut Rewriter<'_>, values: Vec<Option<Value>>, elem: Type) -> Vec<Value> {
    let finish = |value: Option<Value>| match value {
        None => number(rw, 0.0, elem),
        Some(value) if rw.ty(value) == elem => value,
        Some(value) => rw.add(TruncF::new(value, elem)),
    };
    values.into_iter().map(finish).collect()
}

/// (c, o): all points of a kernel at once, in `f64`.
fn filter(filter: WinogradFilter, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let form = Winograd::new(filter.tile)?;
    let ([o, c, kh, kw], elem) = ranked(rw, filter.w)?;
    let kernel = (0..kh)
        .flat_map(|i| (0..kw).map(move |j| [E::Dim(1), E::Dim(0), E::Const(i), E::Const(j)]));
    let part = |p: usize| Part {
        offsets: vec![p as i64, 0, 0],
        sizes: vec![1, c, o],
        strides: vec![1; 3],
    };
    let nest = Nest {
        sizes: vec![c, o],
        inputs: kernel.map(|exprs| (filter.w, map(2, exprs))).collect(),
        parts: (0..form.points()).map(part).collect(),
    };
    let ty = rw.ty(rw.result(op, 0));
    let mut u = Assembly::new(rw, ty);
    u.add(rw, nest, |rw, args| {
        let wide = Type::new(FloatType::F64);
        let kernel: Vec<_> = args.iter().map(|w| Some(extended(rw, *w, wide))).collect();
        let mut scalars = Scalars { rw, elem: wide };
        let points = transform(form.filter, &kernel, &mut scalars);
        // As constants are: to what sums of the elements are taken in, and from there.
        let rw = scalars.rw;
        let points = finished(rw, points, accumulator(elem));
        finished(rw, points.into_iter().map(Some).collect(), elem)
    });
    let u = u.finish(rw);
    rw.replace(op, &[u]);
    Ok(())
}

/// (n, row, column, c): a tile of the padded input to all points.
fn input(input: WinogradInput, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let form = Winograd::new(input.tile)?;
    let windows = input.windows(rw.op(op))?;
    let ([n, c, ..], elem) = ranked::<4>(rw, input.x)?;
    let (step, side) = (form.tile as i64, form.side() as i64);
    let mut tiles = [0; 2];
    let mut overlapping = windows;
    for (tiles, window) in tiles.iter_mut().zip(&mut overlapping) {
        *tiles = form.tiles(window.output()?);
        // All of the last tile too.
        (window.kernel, window.stride) = (side, step);
        let reach = (*tiles - 1) * step + side;
        window.high = (reach - window.low - window.input).max(0);
    }
    let x = padded(rw, input.x, overlapping, None)?;
    let points = form.points() as i64;
    let sizes = vec![n, tiles[0], tiles[1], c];
    let point = |p: i64| {
        let at = |d: usize, i: i64| E::Dim(d) * E::Const(step) + E::Const(i);
        map(4, [E::Dim(0), E::Dim(3), at(1, p / side), at(2, p % side)])
    };
    let part = |p| Part {
        offsets: vec![p, 0, 0, 0, 0],
        sizes: [&[1], &sizes[..]].concat(),
        strides: vec![1; 5],
    };
    let nest = Nest {
        inputs: (0..points).map(|p| (x, point(p))).collect(),
        parts: (0..points).map(part).collect(),
        sizes: sizes.clone(),
    };
    let assembled = Type::tensor([&[points], &sizes[..]].concat(), elem);
    let mut v = Assembly::new(rw, assembled);
    v.add(rw, nest, |rw, args| {
        let wide = accumulator(elem);
        let tile: Vec<_> = args.iter().map(|x| Some(extended(rw, *x, wide))).collect();
        let mut scalars = Scalars { rw, elem: wide };
        let points = transform(form.input, &tile, &mut scalars);
        finished(scalars.rw, points, elem)
    });
    let ty = rw.ty(rw.result(op, 0));
    let src = v.finish(rw);
    let v = rw.add(CollapseShape {
        src,
        reassociation: reassociation(&[vec![0], vec![1, 2, 3], vec![4]]),
        result: Ret(ty),
    });
    rw.replace(op, &[v]);
    Ok(())
}

/// Tiles along a dimension of which so many results are to be computed.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Run {
    tiles: Range<i64>,
    results: i64,
}

/// Whole tiles of `tile` results, and what is left of `size`.
fn runs(size: i64, tile: i64) -> Vec<Run> {
    let (whole, results) = (size / tile, size % tile);
    let run = |tiles: Range<i64>, results| Run { tiles, results };
    let runs = [run(0..whole, tile), run(whole..whole + 1, results)];
    let some = |run: &Run| !run.tiles.is_empty() && run.results > 0;
    runs.into_iter().filter(some).collect()
}

/// (n, o, row, column) for tiles of the same form: all points to the results of a tile.
fn output(output: WinogradOutput, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let form = Winograd::new(output.tile)?;
    let ([n, o, height, width], elem) = ranked(rw, rw.result(op, 0))?;
    let step = form.tile as i64;
    let tiles = [height, width].map(|size| form.tiles(size));
    let (rows, columns) = (runs(height, step), runs(width, step));
    let points = form.points() as i64;
    let m = rw.add(ExpandShape {
        static_output_shape: None,
        src: output.m,
        reassociation: reassociation(&[vec![0], vec![1, 2, 3], vec![4]]),
        result: Ret(Type::tensor([points, n, tiles[0], tiles[1], o], elem)),
    });
    let ty = rw.ty(rw.result(op, 0));
    let mut y = Assembly::new(rw, ty);
    for (r, s) in rows
        .iter()
        .flat_map(|r| columns.iter().map(move |s| (r, s)))
    {
        let [high, wide] = [r, s].map(|run| run.tiles.end - run.tiles.start);
        let point = |p| {
            let at = |d: usize, run: &Run| E::Dim(d) + E::Const(run.tiles.start);
            map(4, [E::Const(p), E::Dim(0), at(2, r), at(3, s), E::Dim(1)])
        };
        let mut inputs: Vec<_> = (0..points).map(|p| (m, point(p))).collect();
        inputs.extend(output.bias.map(|bias| (bias, AffineMap::project(4, &[1]))));
        let places = (0..r.results).flat_map(|i| (0..s.results).map(move |j| [i, j]));
        let part = |[i, j]: [i64; 2]| Part {
            offsets: vec![0, 0, r.tiles.start * step + i, s.tiles.start * step + j],
            sizes: vec![n, o, high, wide],
            strides: vec![1, 1, step, step],
        };
        let nest = Nest {
            sizes: vec![n, o, high, wide],
            inputs,
            parts: places.map(part).collect(),
        };
        y.add(rw, nest, |rw, args| {
            let wide = accumulator(elem);
            let args: Vec<Value> = args.iter().map(|x| extended(rw, *x, wide)).collect();
            let (args, bias) = args.split_at(points as usize);
            let tile: Vec<_> = args.iter().copied().map(Some).collect();
            let mut scalars = Scalars { rw, elem: wide };
            let values = transform(form.output, &tile, &mut scalars);
            let inside = |(p, _): &(usize, _)| {
                let [i, j] = [p / form.tile, p % form.tile].map(|i| i as i64);
                i < r.results && j < s.results
            };
            let values = values.into_iter().enumerate().filter(inside);
            let values: Vec<_> = values
                .map(|(_, value)| match bias.first() {
                    Some(bias) => value.map(|value| scalars.add(value, *bias)),
                    None => value,
                })
                .collect();
            finished(scalars.rw, values, elem)
        });
    }
    let y = y.finish(rw);
    rw.replace(op, &[y]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_a_run_of_its_own() {
        let run = |tiles, results| Run { tiles, results };
        assert_eq!(runs(14, 4), [run(0..3, 4), run(3..4, 2)]);
        assert_eq!(runs(8, 4), [run(0..2, 4)]);
        assert_eq!(runs(3, 4), [run(0..1, 3)]);
        assert_eq!(runs(0, 4), []);
    }
}
