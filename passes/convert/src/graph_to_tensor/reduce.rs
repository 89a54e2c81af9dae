//! Reductions, and what is normalised by them: reductions and elementwise generics only.

use tir::rewrite::{PatternSet, Rewriter};
use tir::{AffineMap, Attr, Decline, IntAttr, IntType, OpId, Ret, Sign, Type, Value};
use tir_arith::{AddF, DivF, ExtUI, MulF, SubF, TruncI};
use tir_graph::{
    BatchNorm, LayerNorm, ReduceMax, ReduceMean, ReduceMin, ReduceSum, Softmax, accumulator,
    reduced,
};
use tir_math::{Exp, Sqrt};
use tir_tensor::Combine;

use super::elementwise::computed;
use super::nest::{
    E, Reduction, broadcast, elementwise, form, map, number, rounded, scalar, truncated,
};

pub(super) fn patterns(set: &mut PatternSet) {
    set.on("reduce-sum-to-generic", |r: ReduceSum, op, rw| {
        reduce(rw, op, r.x, &r.axes, r.keepdims, Combine::Add)
    });
    set.on("reduce-max-to-generic", |r: ReduceMax, op, rw| {
        extreme(rw, op, r.x, &r.axes, r.keepdims, Combine::Max)
    });
    set.on("reduce-min-to-generic", |r: ReduceMin, op, rw| {
        extreme(rw, op, r.x, &r.axes, r.keepdims, Combine::Min)
    });
    set.on("reduce-mean-to-generic", reduce_mean);
    set.on("batch-norm-to-generic", batch_norm);
    set.on("softmax-to-generics", softmax);
    set.on("layer-norm-to-generics", layer_norm);
}

/// What a reduction starts from, so that the first element stays as it is: the number whose bits
/// are least or largest with sign, whatever the type says.
fn start(combine: Combine, elem: Type) -> Attr {
    let Some(int) = elem.get::<IntType>() else {
        return scalar(
            match combine {
                Combine::Add => 0.0,
                Combine::Mul => 1.0,
                Combine::Max => f64::NEG_INFINITY,
                Combine::Min => f64::INFINITY,
            },
            elem,
        );
    };
    let (least, most) = match int.sign {
        Sign::Unsigned => (0, (1i128 << int.width) - 1),
        _ => (-(1i128 << (int.width - 1)), (1i128 << (int.width - 1)) - 1),
    };
    let value = match combine {
        Combine::Add => 0,
        Combine::Mul => 1,
        Combine::Max => least,
        Combine::Min => most,
    };
    Attr::new(IntAttr { value, ty: elem })
}

/// Dimensions of `x` together, sums in what its elements are accumulated in: the result has the iterators of what is kept (and, with
/// `keepdims`, unit ones for the others), then come those that are reduced.
fn along(
    rw: &mut Rewriter<'_>,
    inputs: &[(Value, &[bool])],
    keepdims: bool,
    combine: Combine,
    compute: impl FnOnce(&mut Rewriter<'_>, &[Value]) -> Value,
) -> Result<Value, Decline> {
    let (x, _) = inputs.first().ok_or("reduces nothing")?;
    let (_, elem) = form(rw, *x)?;
    // Only sums and products round.
    let elem = match combine {
        Combine::Max | Combine::Min => elem,
        Combine::Add | Combine::Mul => accumulator(elem),
    };
    along_as(rw, inputs, keepdims, combine, elem, compute)
}

/// The same, where what is reduced is of another type than `x`.
fn along_as(
    rw: &mut Rewriter<'_>,
    inputs: &[(Value, &[bool])],
    keepdims: bool,
    combine: Combine,
    elem: Type,
    compute: impl FnOnce(&mut Rewriter<'_>, &[Value]) -> Value,
) -> Result<Value, Decline> {
    let (x, gone) = inputs.first().ok_or("reduces nothing")?;
    let (shape, _) = form(rw, *x)?;
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
        start: Some(start(combine, elem)),
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
    let elem = form(rw, x)?.1;
    let y = along(rw, &[(x, &gone)], keepdims, combine, |_, args| args[0])?;
    let y = truncated(rw, y, elem);
    rw.replace(op, &[y]);
    Ok(())
}

/// The largest or smallest element; truth values are reduced as numbers.
fn extreme(
    rw: &mut Rewriter<'_>,
    op: OpId,
    x: Value,
    axes: &[i64],
    keepdims: bool,
    combine: Combine,
) -> Result<(), Decline> {
    let (shape, elem) = form(rw, x)?;
    if elem.get::<IntType>().is_none_or(|int| int.width != 1) {
        return reduce(rw, op, x, axes, keepdims, combine);
    }
    let gone = reduced(axes, shape.len())?;
    let within = Type::int(8);
    let y = along_as(rw, &[(x, &gone)], keepdims, combine, within, |rw, args| {
        rw.add(ExtUI {
            input: args[0],
            output: Ret(within),
        })
    })?;
    let (kept, _) = form(rw, y)?;
    let inputs = [(y, AffineMap::identity(kept.len()))];
    let ty = Type::tensor(kept, elem);
    let y = elementwise(rw, ty, &inputs, |rw, args| {
        rw.add(TruncI::new(args[0], elem))
    });
    rw.replace(op, &[y]);
    Ok(())
}

/// The sum over dimensions divided by their number of elements, rounded to elements of type
/// `elem`.
fn mean(
    rw: &mut Rewriter<'_>,
    x: Value,
    gone: &[bool],
    keepdims: bool,
    elem: Type,
    compute: impl FnOnce(&mut Rewriter<'_>, &[Value]) -> Value,
) -> Result<Value, Decline> {
    let (shape, _) = form(rw, x)?;
    let sizes = shape.iter().zip(gone);
    let count: i64 = sizes.filter(|(_, gone)| **gone).map(|(n, _)| n).product();
    let sum = along(rw, &[(x, gone)], keepdims, Combine::Add, compute)?;
    let ty = rw.ty(sum);
    let rank = ty.shape().map_or(0, <[i64]>::len);
    let inputs = [(sum, AffineMap::identity(rank))];
    let within = ty.elem();
    Ok(rounded(rw, ty.with_elem(elem), &inputs, |rw, args| {
        let count = number(rw, count as f64, within);
        rw.add(DivF::new(args[0], count))
    }))
}

fn reduce_mean(
    ReduceMean { x, axes, keepdims }: ReduceMean,
    op: OpId,
    rw: &mut Rewriter<'_>,
) -> Result<(), Decline> {
    let (shape, elem) = form(rw, x)?;
    let gone = reduced(&axes, shape.len())?;
    let y = mean(rw, x, &gone, keepdims, elem, |_, args| args[0])?;
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

/// The map of what was reduced of a tensor, with its dimensions kept, to the tensor's elements. Of a
/// dimension of size 1 as well it says that nothing is left of it.
fn kept(gone: &[bool]) -> AffineMap {
    let axis = |(i, gone): (usize, &bool)| if *gone { E::Const(0) } else { E::Dim(i) };
    map(
        gone.len(),
        gone.iter().enumerate().map(axis).collect::<Vec<_>>(),
    )
}

/// One element of `x` with what was reduced of the elements around it, as an element of type
/// `elem`.
fn with(
    rw: &mut Rewriter<'_>,
    x: Value,
    other: Value,
    gone: &[bool],
    elem: Type,
    compute: impl FnOnce(&mut Rewriter<'_>, Value, Value) -> Value,
) -> Result<Value, Decline> {
    let inputs = [(x, AffineMap::identity(gone.len())), (other, kept(gone))];
    let ty = rw.ty(x).with_elem(elem);
    Ok(rounded(rw, ty, &inputs, |rw, args| {
        compute(rw, args[0], args[1])
    }))
}

fn softmax(Softmax { x, axis }: Softmax, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let (shape, elem) = form(rw, x)?;
    let gone = reduced(&[axis], shape.len())?;
    let within = accumulator(elem);
    let largest = along(rw, &[(x, &gone)], true, Combine::Max, |_, args| args[0])?;
    let e = with(rw, x, largest, &gone, within, |rw, x, largest| {
        let below = rw.add(SubF::new(x, largest));
        rw.add(Exp::new(below))
    })?;
    let sum = along(rw, &[(e, &gone)], true, Combine::Add, |_, args| args[0])?;
    // One division for each sum, which is at least 1, and no other number for each element.
    let rank = shape.len();
    let ty = rw.ty(sum);
    let scale = rounded(rw, ty, &[(sum, AffineMap::identity(rank))], |rw, args| {
        let one = number(rw, 1.0, within);
        rw.add(DivF::new(one, args[0]))
    });
    let y = with(rw, e, scale, &gone, elem, |rw, e, scale| {
        rw.add(MulF::new(e, scale))
    })?;
    rw.replace(op, &[y]);
    Ok(())
}

fn layer_norm(norm: LayerNorm, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let (shape, elem) = form(rw, norm.x)?;
    let rank = shape.len();
    let axes: Vec<i64> = (norm.axis..rank as i64).collect();
    let gone = reduced(&axes, rank)?;
    let within = accumulator(elem);
    let centre = mean(rw, norm.x, &gone, true, within, |_, args| args[0])?;
    let centred = with(rw, norm.x, centre, &gone, within, |rw, x, mean| {
        rw.add(SubF::new(x, mean))
    })?;
    let var = mean(rw, centred, &gone, true, within, |rw, args| {
        rw.add(MulF::new(args[0], args[0]))
    })?;
    // One square root and one division for each variance.
    let ty = rw.ty(var);
    let scale = rounded(rw, ty, &[(var, AffineMap::identity(rank))], |rw, args| {
        let epsilon = number(rw, norm.epsilon.0, within);
        let spread = rw.add(AddF::new(args[0], epsilon));
        let (one, spread) = (number(rw, 1.0, within), rw.add(Sqrt::new(spread)));
        rw.add(DivF::new(one, spread))
    });
    let mut inputs = vec![(centred, AffineMap::identity(rank)), (scale, kept(&gone))];
    for value in [Some(norm.scale), norm.bias].into_iter().flatten() {
        inputs.push((value, broadcast(form(rw, value)?.0, shape, rank)));
    }
    let ty = rw.ty(norm.x);
    let y = rounded(rw, ty, &inputs, |rw, args| {
        let y = rw.add(MulF::new(args[0], args[1]));
        let y = rw.add(MulF::new(y, args[2]));
        match args.get(3) {
            Some(bias) => rw.add(AddF::new(y, *bias)),
            None => y,
        }
    });
    rw.replace(op, &[y]);
    Ok(())
}
