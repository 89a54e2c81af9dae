//! Reductions, and what is normalised by them: reductions and elementwise generics only.

use tir::rewrite::{PatternSet, Rewriter};
use tir::{AffineMap, Decline, IntType, OpId, Sign, Type, Value};
use tir_arith::{AddF, DivF, MulF, SubF};
use tir_graph::{
    BatchNorm, LayerNorm, ReduceMax, ReduceMean, ReduceMin, ReduceSum, Softmax, reduced,
};
use tir_math::{Exp, Sqrt};
use tir_tensor::Combine;

use super::elementwise::computed;
use super::nest::{E, Reduction, broadcast, elementwise, form, map, number};

pub(super) fn patterns(set: &mut PatternSet) {
    set.on("reduce-sum-to-generic", |r: ReduceSum, op, rw| {
        reduce(rw, op, r.x, &r.axes, r.keepdims, Combine::Add)
    });
    set.on("reduce-max-to-generic", |r: ReduceMax, op, rw| {
        reduce(rw, op, r.x, &r.axes, r.keepdims, Combine::Max)
    });
    set.on("reduce-min-to-generic", |r: ReduceMin, op, rw| {
        reduce(rw, op, r.x, &r.axes, r.keepdims, Combine::Min)
    });
    set.on("reduce-mean-to-generic", reduce_mean);
    set.on("batch-norm-to-generic", batch_norm);
    set.on("softmax-to-generics", softmax);
    set.on("layer-norm-to-generics", layer_norm);
}

/// What a reduction starts from, so that the first element stays as it is.
fn start(combine: Combine, elem: Type) -> Result<f64, Decline> {
    let int = elem.get::<IntType>();
    let half = |width: u32| 2f64.powi(width as i32 - 1);
    Ok(match (combine, int) {
        (Combine::Add, _) => 0.0,
        (Combine::Mul, _) => 1.0,
        (Combine::Max, None) => f64::NEG_INFINITY,
        (Combine::Min, None) => f64::INFINITY,
        // Generics combine integers by sign.
        (_, Some(int)) if int.sign == Sign::Unsigned => {
            return Err("compares integers without sign, which no generic combines".into());
        }
        (Combine::Max, Some(int)) => -half(int.width),
        (Combine::Min, Some(int)) => half(int.width) - 1.0,
    })
}

/// Dimensions of `x` together: the result has the iterators of what is kept (and, with
/// `keepdims`, unit ones for the others), then come those that are reduced.
fn along(
    rw: &mut Rewriter<'_>,
    inputs: &[(Value, &[bool])],
    keepdims: bool,
    combine: Combine,
    compute: impl FnOnce(&mut Rewriter<'_>, &[Value]) -> Value,
) -> Result<Value, Decline> {
    let (x, gone) = inputs.first().ok_or("reduces nothing")?;
    let (shape, elem) = form(rw, *x)?;
    let count = gone.iter().filter(|gone| **gone).count();
    let parallel = if keepdims {
        shape.len()
    } else {
        shape.len() - count
    };
    let mut result = Vec::new();
    let mut exprs = Vec::new();
    let mut behind = parallel;
    for (size, gone) in shape.iter().zip(*gone) {
        if *gone {
            exprs.push(E::Dim(behind));
            behind += 1;
            if keepdims {
                result.push(1);
            }
        } else {
            exprs.push(E::Dim(result.len()));
            result.push(*size);
        }
    }
    let reduction = Reduction {
        ty: Type::tensor(result, elem),
        start: start(combine, elem)?,
        combine,
        iterators: [parallel, count],
        sizes: None,
    };
    let read = map(parallel + count, exprs);
    let inputs: Vec<(Value, AffineMap)> = inputs.iter().map(|(x, _)| (*x, read.clone())).collect();
    Ok(reduction.make(rw, &inputs, compute))
}

fn reduce(
    rw: &mut Rewriter<'_>,
    op: OpId,
    x: Value,
    axes: &[i64],
    keepdims: bool,
    combine: Combine,
) -> Result<(), Decline> {
    let gone = reduced(axes, form(rw, x)?.0.len())?;
    let y = along(rw, &[(x, &gone)], keepdims, combine, |_, args| args[0])?;
    rw.replace(op, &[y]);
    Ok(())
}

/// The sum over dimensions divided by their number of elements.
fn mean(
    rw: &mut Rewriter<'_>,
    x: Value,
    gone: &[bool],
    keepdims: bool,
    compute: impl FnOnce(&mut Rewriter<'_>, &[Value]) -> Value,
) -> Result<Value, Decline> {
    let (shape, elem) = form(rw, x)?;
    let sizes = shape.iter().zip(gone);
    let count: i64 = sizes.filter(|(_, gone)| **gone).map(|(n, _)| n).product();
    let sum = along(rw, &[(x, gone)], keepdims, Combine::Add, compute)?;
    let ty = rw.ty(sum);
    let rank = ty.shape().map_or(0, <[i64]>::len);
    let inputs = [(sum, AffineMap::identity(rank))];
    Ok(elementwise(rw, ty, &inputs, |rw, args| {
        let count = number(rw, count as f64, elem);
        rw.add(DivF::new(args[0], count))
    }))
}

fn reduce_mean(
    ReduceMean { x, axes, keepdims }: ReduceMean,
    op: OpId,
    rw: &mut Rewriter<'_>,
) -> Result<(), Decline> {
    let gone = reduced(&axes, form(rw, x)?.0.len())?;
    let y = mean(rw, x, &gone, keepdims, |_, args| args[0])?;
    rw.replace(op, &[y]);
    Ok(())
}

fn batch_norm(norm: BatchNorm, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let rank = form(rw, norm.x)?.0.len();
    let by_channel = AffineMap::project(rank, &[1]);
    let mut inputs = vec![(norm.x, AffineMap::identity(rank))];
    let others = [norm.scale, norm.bias, norm.mean, norm.var];
    inputs.extend(others.map(|value| (value, by_channel.clone())));
    let y = computed(rw, &norm, op, &inputs)?;
    rw.replace(op, &[y]);
    Ok(())
}

/// One element of `x` with one of a tensor that broadcasts to it.
fn with(
    rw: &mut Rewriter<'_>,
    x: Value,
    other: Value,
    compute: impl FnOnce(&mut Rewriter<'_>, Value, Value) -> Value,
) -> Result<Value, Decline> {
    let (shape, _) = form(rw, x)?;
    let (other_shape, _) = form(rw, other)?;
    let rank = shape.len();
    let inputs = [
        (x, AffineMap::identity(rank)),
        (other, broadcast(other_shape, shape, rank)),
    ];
    let ty = rw.ty(x);
    Ok(elementwise(rw, ty, &inputs, |rw, args| {
        compute(rw, args[0], args[1])
    }))
}

fn softmax(Softmax { x, axis }: Softmax, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let gone = reduced(&[axis], form(rw, x)?.0.len())?;
    let largest = along(rw, &[(x, &gone)], true, Combine::Max, |_, args| args[0])?;
    let e = with(rw, x, largest, |rw, x, largest| {
        let below = rw.add(SubF::new(x, largest));
        rw.add(Exp::new(below))
    })?;
    let sum = along(rw, &[(e, &gone)], true, Combine::Add, |_, args| args[0])?;
    let y = with(rw, e, sum, |rw, e, sum| rw.add(DivF::new(e, sum)))?;
    rw.replace(op, &[y]);
    Ok(())
}

fn layer_norm(norm: LayerNorm, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let (shape, elem) = form(rw, norm.x)?;
    let rank = shape.len();
    let axes: Vec<i64> = (norm.axis..rank as i64).collect();
    let gone = reduced(&axes, rank)?;
    let centre = mean(rw, norm.x, &gone, true, |_, args| args[0])?;
    let centred = with(rw, norm.x, centre, |rw, x, mean| rw.add(SubF::new(x, mean)))?;
    let var = mean(rw, centred, &gone, true, |rw, args| {
        rw.add(MulF::new(args[0], args[0]))
    })?;
    let mut inputs = vec![(centred, AffineMap::identity(rank))];
    for value in [Some(var), Some(norm.scale), norm.bias]
        .into_iter()
        .flatten()
    {
        inputs.push((value, broadcast(form(rw, value)?.0, shape, rank)));
    }
    let ty = rw.ty(norm.x);
    let y = elementwise(rw, ty, &inputs, |rw, args| {
        let epsilon = number(rw, norm.epsilon.0, elem);
        let spread = rw.add(AddF::new(args[1], epsilon));
        let spread = rw.add(Sqrt::new(spread));
        let y = rw.add(DivF::new(args[0], spread));
        let y = rw.add(MulF::new(y, args[2]));
        match args.get(3) {
            Some(bias) => rw.add(AddF::new(y, *bias)),
            None => y,
        }
    });
    rw.replace(op, &[y]);
    Ok(())
}
