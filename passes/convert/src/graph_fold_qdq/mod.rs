//! `fold-qdq`: networks in QDQ form computed with integers.
//!
//! In QDQ form a quantized network says of each operator what it computes in real numbers:
//! `quantize(conv2d(dequantize(x), dequantize(w)))`. With `x = sx · (xq - zx)`, `w = sw · wq` the sum
//! of products is `sx · sw · (Σ xq · wq - zx · Σ wq)`: a sum of integers, a number for each output
//! channel, and one factor `sx · sw / sy` for the step to the result's scale.
//!
//! *What changes.* The integer sum is exact where that of floats rounds after each step, and one
//! factor takes the place of three roundings: where the real result lies next to the middle of two
//! integers, the other one may be taken. A result differs by one step of its scale at most, given
//! that the sum fits 32 bits. All else here is exact: steps of integers commute with `max`, `min`
//! and elements that only move.

mod means;
mod moves;
mod parameters;

use means::{Mean, mean};
use moves::{later, moved};
use parameters::{
    Quantized, Total, Weights, activation, addend, range, single, totals, weights, zero_of,
};
use tir::data::Array;
use tir::interp::attr_of;
use tir::rewrite::Rewriter;
use tir::{
    Attr, Diagnostic, Failure, IntType, Ir, Op, OpId, Pass, PassCx, PassResult, Ret, Sign, Type,
    Value, pass,
};
use tir_accel::{AttachedMachine, MachineInfo};
use tir_graph::shape::Window;
use tir_graph::*;

pass! {
    /// Computes quantized operators with integers: `quantize` of a convolution or product of
    /// dequantized operands becomes an integer one and one `requantize`, and so does one of a mean (of windows: a convolution by
    /// weights of 1), and of the sum of two tensors whose scales are powers of two apart.
    ///
    /// Results may differ by one step of their scale from sums in floats. Bounds (`relu`, `clip`)
    /// between them become bounds of integers, values between operators all signed ones or all unsigned ones, and what
    /// only moves or chooses numbers moves integers, all exactly. An operator whose parameters are not constants, or are by element where one is
    /// needed, stays as it is, with a remark.
    pub struct FoldQdq = "fold-qdq" {
        /// Store values between operators as signed integers of as many bits, if true, or as unsigned ones; none: as
        /// the attached machine multiplies them, signed ones if it does or there is none.
        pub signed: Option<bool> = None,
    }
}

impl Pass for FoldQdq {
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.analysis::<AttachedMachine>(parent);
        Ok(())
    }
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let attached = cx.outer::<AttachedMachine>();
        let machine = attached.as_deref().and_then(|a| Some(&a.0.as_ref()?.0));
        // Run on a module, it is the module's own.
        let own = MachineInfo::attached(ir);
        let unsigned = machine
            .or(own.as_ref())
            .is_some_and(MachineInfo::multiplies_unsigned);
        let sign = self.signed.unwrap_or(!unsigned);
        cx.each(ir, &|ir, cx| {
            let mut changed = every::<Quantize>(ir, |ir, op| signed(ir, op, sign).unwrap_or(false));
            changed += every::<Reshape>(ir, later) + every::<Transpose>(ir, later);
            changed += every::<MaxPool>(ir, later);
            let mut kept = Vec::new();
            let folded = every::<Quantize>(ir, |ir, op| match fold(ir, op) {
                Ok(done) => done,
                Err(Kept { at, why }) => {
                    let text = format!("is not computed with integers: {why}");
                    kept.push(Diagnostic::remark(text).at(ir.loc(at)));
                    false
                }
            });
            kept.into_iter().for_each(|remark| cx.remark(remark));
            cx.count("integer operators", folded);
            if folded > 0 {
                let what = if folded == 1 {
                    "operator is"
                } else {
                    "operators are"
                };
                let text = format!(
                    "{folded} {what} computed with integers; a result may differ by one step of \
                     its scale from sums in floats"
                );
                cx.remark(Diagnostic::remark(text).at(ir.loc(ir.root())));
            }
            changed += folded + every::<Quantize>(ir, moved);
            if changed == 0 {
                cx.unchanged();
            }
            Ok(())
        })
    }
}

/// Why an operator stays as it is.
struct Kept {
    at: OpId,
    why: String,
}

/// Runs on every op of a kind that is there; says how many were changed.
fn every<T: Op>(ir: &mut Ir, mut change: impl FnMut(&mut Ir, OpId) -> bool) -> usize {
    let ops = ir.walk_ids();
    let there = |ir: &Ir, op: OpId| ir.contains(op) && ir.is::<T>(op);
    ops.into_iter()
        .filter(|op| there(ir, *op) && change(ir, *op))
        .count()
}

/// The only user of a value that has one use.
fn only_user(ir: &Ir, value: Value) -> Option<OpId> {
    let mut uses = ir.uses(value);
    let user = uses.next()?.op;
    uses.next().is_none().then_some(user)
}

/// A zero point as a constant.
fn zero_point(rw: &mut Rewriter<'_>, zero: i64, elem: Type) -> Value {
    let value = Attr::new(tir::DenseElements {
        ty: Type::tensor(vec![], elem),
        data: zero.to_le_bytes()[..elem.bytes().unwrap_or(1)].into(),
    });
    rw.add(Constant { value })
}

/// The type of as many bits with a sign, or without, if it is another one, and by how much numbers of this one are more.
fn signed_type(elem: Type, sign: bool) -> Option<(Type, i64)> {
    let [low, _] = bounds(elem)?;
    let bits = elem.bits().filter(|bits| *bits > 1)?;
    let half = 1 << (bits - 1);
    match (low == 0, sign) {
        (true, true) => Some((Type::int(bits), half)),
        (false, false) => Some((unsigned_type(bits), -half)),
        _ => None,
    }
}

fn unsigned_type(width: u32) -> Type {
    Type::new(IntType {
        width,
        sign: Sign::Unsigned,
    })
}

/// Makes a value that is quantized to be dequantized again one with a sign, or without.
fn signed(ir: &mut Ir, op: OpId, sign: bool) -> Option<bool> {
    let quantize = ir.get::<Quantize>(op)?;
    let (elem, more) = signed_type(quantize.y.0.elem(), sign)?;
    let zero = zero_of(ir, quantize.zero)? - more;
    let y = ir.result(op, 0);
    let users: Vec<OpId> = ir.uses(y).map(|u| u.op).collect();
    for user in &users {
        zero_of(ir, ir.get::<Dequantize>(*user)?.zero)?;
    }
    let mut rw = Rewriter::new(ir, op);
    let point = zero_point(&mut rw, zero, elem);
    let made = rw.add(Quantize {
        zero: Some(point),
        y: Ret(quantize.y.0.with_elem(elem)),
        ..quantize
    });
    for user in users {
        rw.focus(user);
        let Some(dequantize) = rw.get::<Dequantize>(user) else {
            continue;
        };
        let zero = zero_of(rw.ir(), dequantize.zero)? - more;
        let point = zero_point(&mut rw, zero, elem);
        let new = Dequantize {
            x: made,
            zero: Some(point),
            ..dequantize
        };
        rw.replace_with(user, new);
    }
    rw.erase(op);
    Some(true)
}

/// What stands between the operator and the step to integers: bounds of real numbers.
struct Bounds {
    low: f64,
    high: f64,
}

/// The operator that a quantized value comes from, through bounds.
fn source(ir: &Ir, mut value: Value) -> Option<(OpId, Bounds)> {
    let mut bounds = Bounds {
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
    };
    loop {
        let op = ir.owner(value)?;
        only_user(ir, value)?;
        let (x, low, high) = if let Some(relu) = ir.get::<Relu>(op) {
            (relu.x, Some(0.0), None)
        } else if let Some(clip) = ir.get::<Clip>(op) {
            (clip.x, clip.min.map(|n| n.0), clip.max.map(|n| n.0))
        } else {
            return Some((op, bounds));
        };
        // What comes later bounds what came before.
        let (low, high) = (
            low.unwrap_or(f64::NEG_INFINITY),
            high.unwrap_or(f64::INFINITY),
        );
        let within = |v: f64, b: &Bounds| v.max(b.low).min(b.high);
        bounds = Bounds {
            low: within(low, &bounds),
            high: within(high, &bounds),
        };
        value = x;
    }
}

/// An operator that sums products: its integer form.
struct Sums {
    x: Quantized,
    /// The type of weights and what they are summed by for each channel.
    weights: Weights,
    bias: Option<Value>,
    /// The dimension of the result that channels are.
    axis: i64,
    channels: usize,
    /// `Σ w` of each channel.
    totals: Vec<Total>,
    kind: Kind,
}

enum Kind {
    Conv(Box<Conv2d>),
    /// Sums of windows, by weights of 1.
    Windows(Box<AvgPool>),
    /// Whether the right matrix is to be transposed.
    Product(bool),
}

fn sums(ir: &Ir, op: OpId) -> Result<Option<Sums>, &'static str> {
    if let Some(pool) = ir.get::<AvgPool>(op) {
        return windows(ir, op, pool).map(Some);
    }
    if let Some(conv) = ir.get::<Conv2d>(op) {
        let w = weights(ir, conv.w, 0)?;
        let channels = w.elements.shape().first().copied().unwrap_or(0);
        return Ok(Some(Sums {
            x: activation(ir, conv.x)?,
            totals: totals(&w.elements, channels, true),
            weights: w,
            bias: conv.bias,
            axis: 1,
            channels,
            kind: Kind::Conv(Box::new(conv)),
        }));
    }
    let (a, b, bias, transposed) = if let Some(product) = ir.get::<MatMul>(op) {
        (product.a, product.b, None, false)
    } else if let Some(gemm) = ir.get::<Gemm>(op) {
        if gemm.trans_a {
            return Err("the left matrix is transposed");
        }
        (gemm.a, gemm.b, gemm.c, gemm.trans_b)
    } else {
        return Ok(None);
    };
    let w = weights(ir, b, if transposed { 0 } else { 1 })?;
    let &[rows, cols] = w.elements.shape() else {
        return Err("the right operand is not one matrix");
    };
    let channels = if transposed { rows } else { cols };
    let rank = ir.ty(ir.result(op, 0)).shape().map_or(0, <[i64]>::len);
    Ok(Some(Sums {
        x: activation(ir, a)?,
        totals: totals(&w.elements, channels, transposed),
        weights: w,
        bias,
        axis: rank as i64 - 1,
        channels,
        kind: Kind::Product(transposed),
    }))
}

/// Elements of a window whose sum fits 32 bits, if they are of 8 bits.
const LARGEST_WINDOW: i64 = 1 << 23;

/// Means of windows of as many elements each: a sum of integers for each channel, and a factor.
fn windows(ir: &Ir, op: OpId, pool: AvgPool) -> Result<Sums, &'static str> {
    let x = activation(ir, pool.x)?;
    let (from, to) = (ir.ty(x.x), ir.ty(ir.result(op, 0)));
    let (Some(&[_, channels, ..]), Some(&[_, _, height, width])) = (from.shape(), to.shape())
    else {
        return Err("its windows are not of an image");
    };
    let [rows, columns] = pool
        .windows(ir.op(op))
        .map_err(|_| "its windows are not known")?;
    let equal = |window: &Window, size: i64, whole: i64| {
        (0..size).all(|at| window.count(at, pool.count_include_pad) as i64 == whole)
    };
    let &[tall, wide] = &pool.kernel[..] else {
        return Err("its windows are not of an image");
    };
    if !equal(&rows, height, tall) || !equal(&columns, width, wide) {
        return Err("its windows at the border are of fewer elements");
    }
    let count = tall.saturating_mul(wide);
    if !(1..=LARGEST_WINDOW).contains(&count) {
        return Err("its sums may not fit 32 bits");
    }
    let channels = usize::try_from(channels).map_err(|_| "its channels are not known")?;
    let shape = [channels, 1, tall as usize, wide as usize];
    let elements = Array::from_vec(&shape, vec![1i8; channels * count as usize]);
    Ok(Sums {
        x,
        totals: vec![
            Total {
                above: count,
                below: 0
            };
            channels
        ],
        weights: Weights {
            value: pool.x,
            elements: elements.map_err(|_| "its windows are too large")?,
            scales: vec![1.0 / count as f32],
        },
        bias: None,
        axis: 1,
        channels,
        kind: Kind::Windows(Box::new(pool)),
    })
}

/// Folds the operator behind a step to integers; false where there is none of those.
fn fold(ir: &mut Ir, op: OpId) -> Result<bool, Kept> {
    let Some(quantize) = ir.get::<Quantize>(op) else {
        return Ok(false);
    };
    let Some((at, limits)) = source(ir, quantize.x) else {
        return Ok(false);
    };
    let kept = |why: &str| Kept {
        at,
        why: why.to_string(),
    };
    let Some(sums) = sums(ir, at).map_err(kept)? else {
        return Ok(match mean(ir, at).map_err(kept)? {
            Some(mean) => averages(ir, op, at, &quantize, (&mean, &limits)).is_some(),
            None => images(ir, op, at, &quantize, &limits).is_some(),
        });
    };
    let scale =
        single(ir, quantize.scale).ok_or_else(|| kept("the result has no constant scale"))?;
    let zero = zero_of(ir, quantize.zero);
    let zero = zero.ok_or_else(|| kept("the result has no constant zero point"))?;
    // As ONNX has it for its integer operators: products and quotients of f32.
    let products: Vec<f32> = sums
        .weights
        .scales
        .iter()
        .map(|w| sums.x.scale as f32 * w)
        .collect();
    let factors: Vec<f32> = products.iter().map(|s| s / scale as f32).collect();
    let bias = addend(ir, sums.bias, &products, sums.channels).map_err(kept)?;
    let bias = in_32_bits(ir, &sums, &bias);
    let bias = bias.ok_or_else(|| kept("its sums may not fit 32 bits"))?;
    rewrite(
        ir,
        op,
        at,
        &quantize,
        (sums, bias, factors, scale, zero, limits),
    )
    .map_err(|error| kept(&error.to_string()))?;
    Ok(true)
}

/// What is added to the sums of each channel, `b - zx · Σ w`, if the sums fit 32 bits with it and without, whatever the input is.
fn in_32_bits(ir: &Ir, sums: &Sums, bias: &[i64]) -> Option<Vec<i32>> {
    let inputs = range(ir.ty(sums.x.x))?;
    let fits = |n: i64| i32::try_from(n).ok();
    let each = bias.iter().zip(&sums.totals).map(|(b, total)| {
        let added = b.saturating_sub(sums.x.zero.saturating_mul(total.sum()));
        let (low, high) = total.products(inputs);
        let with = [low, high].map(|sum| fits(sum.saturating_add(added)));
        (fits(low).is_some() && fits(high).is_some() && !with.contains(&None)).then_some(())?;
        fits(added)
    });
    each.collect()
}

/// How often a number is doubled at most, so that sums of two are exact in `f32` too.
const DOUBLED: u32 = 8;

/// Folds the sum of two tensors without zero points, whose scales are powers of two apart: the one of
/// the larger scale is doubled so often.
fn images(ir: &mut Ir, op: OpId, at: OpId, quantize: &Quantize, limits: &Bounds) -> Option<()> {
    let sum: Add = ir.get(at)?;
    let [x, y] = [sum.x, sum.y].map(|value| activation(ir, value).ok());
    let (x, y) = (x?, y?);
    let (scale, zero) = (single(ir, quantize.scale)?, zero_of(ir, quantize.zero)?);
    let step = x.scale.min(y.scale);
    let doublings = |part: &Quantized| {
        let times = (part.scale / step).log2();
        let whole = times.fract() == 0.0 && times <= f64::from(DOUBLED);
        let narrow = ir.ty(part.x).elem().bits().is_some_and(|bits| bits <= 8);
        (part.zero == 0 && whole && narrow && step > 0.0).then_some(times as u32)
    };
    let (more_x, more_y) = (doublings(&x)?, doublings(&y)?);
    let factor = Array::scalar((step / scale) as f32);
    let loc = ir.loc(at);
    let mut rw = Rewriter::new(ir, op);
    rw.set_loc(loc);
    let [x, y] = [(x.x, more_x), (y.x, more_y)].map(|(x, times)| {
        let ty = rw.ty(x).with_elem(Type::int(32));
        let mut y = rw.add(Cast { x, y: Ret(ty) });
        for _ in 0..times {
            y = rw.add(Add { x: y, y });
        }
        y
    });
    let sum = rw.add(Add { x, y });
    let sum = (sum, &factor, 1);
    bounded(rw, op, sum, quantize, (scale, zero, limits));
    Some(())
}

/// Folds a mean.
fn averages(
    ir: &mut Ir,
    op: OpId,
    at: OpId,
    quantize: &Quantize,
    (mean, limits): (&Mean, &Bounds),
) -> Option<()> {
    let (scale, zero) = (single(ir, quantize.scale)?, zero_of(ir, quantize.zero)?);
    let loc = ir.loc(at);
    let mut rw = Rewriter::new(ir, op);
    rw.set_loc(loc);
    let x = mean.sum(&mut rw, quantize);
    let sum = (x, &Array::scalar(mean.factor(scale)), 1);
    bounded(rw, op, sum, quantize, (scale, zero, limits));
    Some(())
}

/// Puts the step of sums to integers, by factors along an axis, and bounds of integers in place of a step from real numbers.
fn bounded(
    mut rw: Rewriter<'_>,
    op: OpId,
    (x, factors, axis): (Value, &Array, i64),
    quantize: &Quantize,
    (scale, zero, limits): (f64, i64, &Bounds),
) {
    let elem = quantize.y.0.elem();
    let value = attr_of(factors);
    let factor = rw.add(Constant { value });
    let mut result = rw.add(Requantize {
        x,
        factor,
        zero: quantize.zero,
        axis,
        y: quantize.y,
    });
    if let Some([least, most]) = bounds(elem) {
        // In steps of the result, as `quantize` takes them.
        let step = |bound: f64| {
            let step = f64::from((bound as f32 / scale as f32).round_ties_even()) + zero as f64;
            step.clamp(least as f64, most as f64)
        };
        let (low, high) = (step(limits.low), step(limits.high));
        let min = (low > least as f64).then_some(Number(low));
        let max = (high < most as f64).then_some(Number(high));
        if min.is_some() || max.is_some() {
            result = rw.add(Clip {
                x: result,
                min,
                max,
            });
        }
    }
    let unused = quantize.x;
    rw.replace(op, &[result]);
    sweep(rw, unused);
}

type Parts = (Sums, Vec<i32>, Vec<f32>, f64, i64, Bounds);

fn rewrite(
    ir: &mut Ir,
    op: OpId,
    at: OpId,
    quantize: &Quantize,
    (sums, bias, factors, scale, zero, limits): Parts,
) -> Result<(), Failure> {
    let of = |array: Result<Array, tir::data::DataError>| {
        let value = attr_of(&array.map_err(tir::interp::failure)?);
        Ok::<_, Failure>(Constant { value })
    };
    let biased = bias.iter().any(|b| *b != 0);
    let bias = of(Array::from_vec(&[bias.len()], bias))?;
    let factors = match &factors[..] {
        [one] => Array::scalar(*one),
        _ => Array::from_vec(&[factors.len()], factors).map_err(tir::interp::failure)?,
    };
    let loc = ir.loc(at);
    let mut rw = Rewriter::new(ir, op);
    rw.set_loc(loc);
    let bias = biased.then(|| rw.add(bias));
    let mut w = sums.weights.value;
    let sum = match sums.kind {
        Kind::Conv(conv) => rw.add(Conv2dInteger {
            x: sums.x.x,
            w,
            bias,
            padding: sums.x.zero,
            strides: conv.strides,
            pads: conv.pads,
            dilations: conv.dilations,
            groups: conv.groups,
        }),
        Kind::Windows(pool) => {
            let value = attr_of(&sums.weights.elements);
            w = rw.add(Constant { value });
            rw.add(Conv2dInteger {
                x: sums.x.x,
                w,
                bias,
                padding: sums.x.zero,
                strides: pool.strides,
                pads: pool.pads,
                dilations: pool.dilations,
                groups: sums.channels as i64,
            })
        }
        Kind::Product(transposed) => {
            if transposed {
                let array = transpose(&sums.weights.elements)?;
                let value = attr_of(&array);
                w = rw.add(Constant { value });
            }
            let x = rw.add(MatMulInteger { a: sums.x.x, b: w });
            match bias {
                Some(y) => rw.add(Add { x, y }),
                None => x,
            }
        }
    };
    let sum = (sum, &factors, sums.axis);
    bounded(rw, op, sum, quantize, (scale, zero, &limits));
    Ok(())
}

/// The transpose of a matrix.
fn transpose(matrix: &Array) -> Result<Array, Failure> {
    let &[rows, cols] = matrix.shape() else {
        return Err("is not a matrix".into());
    };
    let size = matrix.dtype().size();
    let mut bytes = Vec::with_capacity(matrix.bytes().len());
    for c in 0..cols {
        for r in 0..rows {
            bytes.extend_from_slice(&matrix.bytes()[(r * cols + c) * size..][..size]);
        }
    }
    Array::new(matrix.dtype(), &[cols, rows], bytes.into()).map_err(tir::interp::failure)
}

/// Erases what computed a value that nothing uses any more.
fn sweep(mut rw: Rewriter<'_>, value: Value) {
    let mut work = vec![value];
    while let Some(value) = work.pop() {
        let Some(op) = rw.owner(value) else { continue };
        if rw.contains(op) && rw.results(op).all(|v| rw.is_unused(v)) {
            let operands: Vec<Value> = rw.operands(op).collect();
            rw.erase(op);
            work.extend(operands);
        }
    }
}
