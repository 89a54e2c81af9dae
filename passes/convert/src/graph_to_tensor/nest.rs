//! What the patterns share: loop nests, start values, padding.

use tir::rewrite::Rewriter;
use tir::{AffineMap, Attr, Decline, RegionId, Ret, Rets, TensorType, Type, Value};
use tir_arith::{Constant, ExtF, TruncF};
use tir_graph::shape::Window;
use tir_graph::{Layout, accumulator, bounds};
use tir_tensor::generic::iterators;
use tir_tensor::{Combine, Empty, Generic, TransferRead, Yield};

pub(super) use tir::AffineExpr as E;

/// The static shape and element type of a tensor.
pub(super) fn form(rw: &Rewriter<'_>, value: Value) -> Result<(&'static [i64], Type), Decline> {
    let ty = rw.ty(value);
    match ty.get::<TensorType>() {
        Some(t) if t.shape.iter().all(|d| *d >= 0) => Ok((&t.shape, t.elem)),
        _ => Err(Decline::because(move || {
            format!("{ty} is not a statically shaped tensor")
        })),
    }
}

/// The same, of a given rank.
pub(super) fn ranked<const N: usize>(
    rw: &Rewriter<'_>,
    value: Value,
) -> Result<([i64; N], Type), Decline> {
    let (shape, elem) = form(rw, value)?;
    match <[i64; N]>::try_from(shape) {
        Ok(shape) => Ok((shape, elem)),
        Err(_) => Err(Decline::because(move || {
            format!("{shape:?} has not rank {N}")
        })),
    }
}

/// A number as an attribute of an element type: the nearest one that it has.
pub(super) fn scalar(value: f64, elem: Type) -> Attr {
    match (elem.is_float(), bounds(elem)) {
        (true, _) => Attr::float(value, elem),
        (false, Some([low, high])) => Attr::int((value as i128).clamp(low, high) as i64, elem),
        (false, None) => Attr::int(value as i64, elem),
    }
}

/// A number of an element type.
pub(super) fn number(rw: &mut Rewriter<'_>, value: f64, elem: Type) -> Value {
    let value = scalar(value, elem);
    rw.add(Constant { value })
}

/// A tensor without content.
pub(super) fn empty(rw: &mut Rewriter<'_>, ty: Type) -> Value {
    rw.add(Empty {
        dynamic_sizes: Vec::new(),
        space: None,
        result: Ret(ty),
    })
}

/// `(d0, …, d(n-1)) -> (exprs)`.
pub(super) fn map(dims: usize, exprs: impl Into<Vec<E>>) -> AffineMap {
    AffineMap::new(dims, exprs.into())
}

/// Every element of a tensor of this type is this scalar.
fn filled(rw: &mut Rewriter<'_>, ty: Type, value: Attr) -> Value {
    let rank = ty.shape().map_or(0, <[i64]>::len);
    let out = empty(rw, ty);
    let body = rw.body(&[], |rw, _| {
        let value = rw.add(Constant { value });
        rw.add(Yield {
            values: vec![value],
        });
    });
    generic(
        rw,
        &[],
        (out, AffineMap::identity(rank)),
        [rank, 0],
        None,
        None,
        body,
    )
}

/// One value for each element of the result, from elements of the inputs.
pub(super) fn elementwise(
    rw: &mut Rewriter<'_>,
    ty: Type,
    inputs: &[(Value, AffineMap)],
    compute: impl FnOnce(&mut Rewriter<'_>, &[Value]) -> Value,
) -> Value {
    let rank = ty.shape().map_or(0, <[i64]>::len);
    let out = empty(rw, ty);
    let body = region(rw, inputs, compute);
    generic(
        rw,
        inputs,
        (out, AffineMap::identity(rank)),
        [rank, 0],
        None,
        None,
        body,
    )
}

/// The type of the same shape and layout whose elements are what those of `ty` are accumulated
/// in.
pub(super) fn wide(ty: Type) -> Type {
    ty.with_elem(accumulator(ty.elem()))
}

/// A float as one of a type that is as wide or wider; what is no float stays as it is.
pub(super) fn extended(rw: &mut Rewriter<'_>, x: Value, elem: Type) -> Value {
    let ty = rw.ty(x);
    if ty == elem || !ty.is_float() || !elem.is_float() {
        return x;
    }
    rw.add(ExtF::new(x, elem))
}

/// [`elementwise`], computed in what elements of `ty` are accumulated in and rounded once.
pub(super) fn rounded(
    rw: &mut Rewriter<'_>,
    ty: Type,
    inputs: &[(Value, AffineMap)],
    compute: impl FnOnce(&mut Rewriter<'_>, &[Value]) -> Value,
) -> Value {
    let within = accumulator(ty.elem());
    elementwise(rw, ty, inputs, |rw, args| {
        let args: Vec<Value> = args.iter().map(|x| extended(rw, *x, within)).collect();
        let y = compute(rw, &args);
        if within == ty.elem() {
            return y;
        }
        rw.add(TruncF::new(y, ty.elem()))
    })
}

/// A tensor of what elements of type `elem` are accumulated in, rounded to them; the tensor itself
/// if they are the same.
pub(super) fn truncated(rw: &mut Rewriter<'_>, x: Value, elem: Type) -> Value {
    let ty = rw.ty(x);
    if ty.elem() == elem {
        return x;
    }
    let rank = ty.shape().map_or(0, <[i64]>::len);
    let inputs = [(x, AffineMap::identity(rank))];
    rounded(rw, ty.with_elem(elem), &inputs, |_, args| args[0])
}

/// A reduction in the making.
pub(super) struct Reduction {
    /// Type of the result. Inputs that are narrower floats are extended to its elements.
    pub ty: Type,
    /// The scalar that the result starts from: the combiner's identity. Zero if absent.
    pub start: Option<Attr>,
    /// How values are combined.
    pub combine: Combine,
    /// How many iterators of the result there are, and how many are reduced.
    pub iterators: [usize; 2],
    /// The range of each iterator, where no operand shows it.
    pub sizes: Option<Vec<i64>>,
}

impl Reduction {
    /// Makes the fill and the reduction. The result's dimensions are the first iterators.
    pub(super) fn make(
        self,
        rw: &mut Rewriter<'_>,
        inputs: &[(Value, AffineMap)],
        compute: impl FnOnce(&mut Rewriter<'_>, &[Value]) -> Value,
    ) -> Value {
        let [parallel, reduced] = self.iterators;
        let start = self.start.unwrap_or_else(|| scalar(0.0, self.ty.elem()));
        let start = filled(rw, self.ty, start);
        let all: Vec<usize> = (0..parallel).collect();
        let out = AffineMap::project(parallel + reduced, &all);
        let elem = self.ty.elem();
        let body = region(rw, inputs, |rw, args| {
            let args: Vec<Value> = args.iter().map(|x| extended(rw, *x, elem)).collect();
            compute(rw, &args)
        });
        let combine = Some(self.combine);
        generic(
            rw,
            inputs,
            (start, out),
            self.iterators,
            combine,
            self.sizes,
            body,
        )
    }
}

fn region(
    rw: &mut Rewriter<'_>,
    inputs: &[(Value, AffineMap)],
    compute: impl FnOnce(&mut Rewriter<'_>, &[Value]) -> Value,
) -> RegionId {
    let args: Vec<Type> = inputs.iter().map(|(v, _)| rw.ty(*v).elem()).collect();
    rw.body(&args, |rw, args| {
        let value = compute(rw, args);
        rw.add(Yield {
            values: vec![value],
        });
    })
}

fn generic(
    rw: &mut Rewriter<'_>,
    inputs: &[(Value, AffineMap)],
    (out, out_map): (Value, AffineMap),
    [parallel, reduced]: [usize; 2],
    combine: Option<Combine>,
    sizes: Option<Vec<i64>>,
    body: RegionId,
) -> Value {
    let maps = inputs.iter().map(|(_, map)| map.clone());
    let ty = rw.ty(out);
    let results = rw.add(Generic {
        inputs: inputs.iter().map(|(value, _)| *value).collect(),
        outputs: vec![out],
        indexing_maps: maps.chain([out_map]).collect(),
        iterator_types: iterators(parallel, reduced),
        combine,
        sizes,
        body,
        results: Rets(vec![ty]),
    });
    // One output, so one result.
    results.first().copied().unwrap_or(out)
}

/// What windows over the last two dimensions of `x` (N x C x H x W) read, as a tensor that no
/// window leaves: `x` itself, or `x` with padding around it.
pub(super) fn padded(
    rw: &mut Rewriter<'_>,
    x: Value,
    windows: [Window; 2],
    padding: Option<f64>,
) -> Result<Value, Decline> {
    let ([n, c, height, width], elem) = ranked(rw, x)?;
    let mut shape = [n, c, height, width];
    let mut inside = true;
    for (window, size) in windows.iter().zip(&mut shape[2..]) {
        let last = (window.output()? - 1).max(0) * window.stride;
        let reach = last + (window.kernel - 1) * window.dilation + 1;
        inside &= window.low == 0 && reach <= *size;
        *size = reach;
    }
    if inside {
        return Ok(x);
    }
    let [vertical, horizontal] = windows;
    let padding = padding.map(|value| number(rw, value, elem));
    Ok(rw.add(TransferRead {
        source: x,
        offsets: Vec::new(),
        padding,
        into: None,
        static_offsets: vec![0, 0, -vertical.low, -horizontal.low],
        access: AffineMap::identity(4),
        space: None,
        result: Ret(Layout::on(Layout::of(rw.ty(x)), Type::tensor(shape, elem))),
    }))
}

/// Where window `at` reads for element `k`, both iterators.
pub(super) fn window(window: &Window, at: usize, k: usize) -> E {
    E::Dim(at) * E::Const(window.stride) + E::Dim(k) * E::Const(window.dilation)
}

/// The map of an operand that is broadcast, as numpy does it, to the first `whole.len()` of `dims`
/// iterators.
pub(super) fn broadcast(shape: &[i64], whole: &[i64], dims: usize) -> AffineMap {
    let missing = whole.len().saturating_sub(shape.len());
    let axis = |(i, size): (usize, &i64)| match whole.get(i + missing) {
        Some(w) if w != size => E::Const(0),
        _ => E::Dim(i + missing),
    };
    map(dims, shape.iter().enumerate().map(axis).collect::<Vec<_>>())
}

/// A constant tensor.
pub(super) fn elements(rw: &mut Rewriter<'_>, value: Attr) -> Value {
    rw.add(Constant { value })
}
