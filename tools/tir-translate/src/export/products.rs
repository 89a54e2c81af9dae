//! Convolutions, products of matrices, and numbers as small integers.

use tir_core::{OpId, Value};
use tir_data::DType;
use tir_graph::*;
use tir_onnx::proto::AttributeProto;
use tir_onnx::write::{int, ints};

use super::graph::{Outcome, Writer};
use super::nodes::{cast, node, simple};

/// Writes an op if it is one of these.
pub(super) fn write(w: &mut Writer<'_>, op: OpId) -> Option<Outcome<()>> {
    let ir = w.ir;
    Some(if let Some(conv) = ir.get::<Conv2d>(op) {
        let pads = &conv.pads;
        window(
            w,
            conv.w,
            (&conv.strides, pads, &conv.dilations),
            conv.groups,
        )
        .and_then(|attributes| simple(w, op, "Conv", attributes))
    } else if let Some(gemm) = ir.get::<Gemm>(op) {
        let attributes = vec![
            int("transA", gemm.trans_a.into()),
            int("transB", gemm.trans_b.into()),
        ];
        simple(w, op, "Gemm", attributes)
    } else if let Some(conv) = ir.get::<Conv2dInteger>(op) {
        convolution(w, op, &conv)
    } else if let Some(product) = ir.get::<MatMulInteger>(op) {
        matrices(w, op, &product)
    } else if let Some(product) = ir.get::<ModeProduct>(op) {
        along(w, op, &product)
    } else if let Some(quantize) = ir.get::<Quantize>(op) {
        quantized(w, op, &quantize)
    } else if let Some(dequantize) = ir.get::<Dequantize>(op) {
        dequantized(w, op, &dequantize)
    } else if let Some(requantize) = ir.get::<Requantize>(op) {
        requantized(w, op, &requantize)
    } else {
        return None;
    })
}

fn window(
    w: &Writer<'_>,
    weights: Value,
    (strides, pads, dilations): (&[i64], &[i64], &[i64]),
    groups: i64,
) -> Outcome<Vec<AttributeProto>> {
    let (_, shape) = w.form(weights)?;
    Ok(vec![
        ints("kernel_shape", &shape[2..]),
        ints("strides", strides),
        ints("pads", pads),
        ints("dilations", dilations),
        int("group", groups),
    ])
}

/// ONNX's convolutions of integers are of 8 bits.
fn small(w: &Writer<'_>, value: Value) -> Outcome<DType> {
    let (dtype, _) = w.form(value)?;
    match dtype {
        DType::I8 | DType::U8 => Ok(dtype),
        _ => Err(format!("ONNX convolves integers of 8 bits, not {dtype}")),
    }
}

/// A product of integers: where they have more than 8 bits, one of `i32`.
fn matrices(w: &mut Writer<'_>, op: OpId, product: &MatMulInteger) -> Outcome<()> {
    if small(w, product.a).and(small(w, product.b)).is_ok() {
        return simple(w, op, "MatMulInteger", vec![]);
    }
    let mut operands = Vec::new();
    for value in [product.a, product.b] {
        let name = w.operand(value);
        operands.push(match w.form(value)?.0 {
            DType::I32 => name,
            _ => cast(w, &name, DType::I32),
        });
    }
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    node(w, op, "MatMul", &operands, vec![])
}

/// A product along an axis is one of matrices where the axis is the last but one.
fn along(w: &mut Writer<'_>, op: OpId, product: &ModeProduct) -> Outcome<()> {
    let rank = w.form(product.x)?.1.len() as i64;
    let (x, m) = (w.operand(product.x), w.operand(product.m));
    let at = (rank - 2).max(0);
    if product.axis == at {
        return node(w, op, "MatMul", &[&m, &x], vec![]);
    }
    // Exchanged once more, the two dimensions are where they were.
    let exchanged = (0..rank).map(|d| match d {
        d if d == at => product.axis,
        d if d == product.axis => at,
        d => d,
    });
    let exchanged: Vec<i64> = exchanged.collect();
    let perm = || vec![ints("perm", &exchanged)];
    let seen = w.node("Transpose", &[&x], perm());
    let y = w.node("MatMul", &[&m, &seen], vec![]);
    node(w, op, "Transpose", &[&y], perm())
}

/// A convolution of integers. Around the input may be what stands for zero, which ONNX says by a node of its own; numbers
/// with a sign are those without one less 128, as ONNX Runtime convolves these alone.
fn convolution(w: &mut Writer<'_>, op: OpId, conv: &Conv2dInteger) -> Outcome<()> {
    let dtype = small(w, conv.x)?;
    small(w, conv.w)?;
    let mut x = w.operand(conv.x);
    let mut pads = conv.pads.clone();
    if conv.padding != 0 && pads.iter().any(|n| *n != 0) {
        let around = [0, 0, pads[0], pads[1], 0, 0, pads[2], pads[3]];
        let around = w.list("pads", &around)?;
        let value = match dtype {
            DType::I8 => w.numbers("padding", &[], vec![conv.padding as i8])?,
            _ => w.numbers("padding", &[], vec![conv.padding as u8])?,
        };
        x = w.node("Pad", &[&x, &around, &value], vec![]);
        pads = vec![0; 4];
    }
    let mut operands = vec![x, w.operand(conv.w)];
    if dtype == DType::I8 {
        let half = w.numbers("half", &[], vec![128i32])?;
        let wide = cast(w, &operands[0], DType::I32);
        let more = w.node("Add", &[&wide, &half], vec![]);
        operands[0] = cast(w, &more, DType::U8);
        operands.push(w.numbers("zero", &[], vec![128u8])?);
    }
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    let attributes = window(
        w,
        conv.w,
        (&conv.strides, &pads, &conv.dilations),
        conv.groups,
    )?;
    let Some(bias) = conv.bias else {
        return node(w, op, "ConvInteger", &operands, attributes);
    };
    let sum = w.node("ConvInteger", &operands, attributes);
    let to = w.list("shape", &[1, -1, 1, 1])?;
    let bias = w.operand(bias);
    let bias = w.node("Reshape", &[&bias, &to], vec![]);
    node(w, op, "Add", &[&sum, &bias], vec![])
}

/// A scale or zero point that is one number, without dimensions; the others as they are.
fn parameter(w: &mut Writer<'_>, value: Value) -> Outcome<String> {
    let name = w.operand(value);
    match &w.form(value)?.1[..] {
        [1] => {
            let to = w.list("shape", &[])?;
            Ok(w.node("Reshape", &[&name, &to], vec![]))
        }
        _ => Ok(name),
    }
}

/// A zero point for a type of integers and as many scales, if none is said.
fn zero(w: &mut Writer<'_>, zero: Option<Value>, dtype: DType, scales: &[i64]) -> Outcome<String> {
    if let Some(zero) = zero {
        return parameter(w, zero);
    }
    let shape: Vec<usize> = match scales {
        [1] => vec![],
        scales => scales.iter().map(|n| *n as usize).collect(),
    };
    let array = tir_data::Array::zeros(dtype, &shape).map_err(|e| e.message)?;
    Ok(w.constant("zero", &array))
}

/// Integers that `QuantizeLinear` makes.
fn stored(w: &Writer<'_>, op: OpId) -> Outcome<DType> {
    let (dtype, _) = w.form(w.ir.result(op, 0))?;
    Ok(dtype)
}

fn quantized(w: &mut Writer<'_>, op: OpId, quantize: &Quantize) -> Outcome<()> {
    let dtype = stored(w, op)?;
    let (scales, from) = (w.form(quantize.scale)?.1, w.form(quantize.x)?.0);
    let mut x = w.operand(quantize.x);
    if from != DType::F32 {
        x = cast(w, &x, DType::F32);
    }
    let scale = parameter(w, quantize.scale)?;
    let zero = zero(w, quantize.zero, dtype, &scales)?;
    node(
        w,
        op,
        "QuantizeLinear",
        &[&x, &scale, &zero],
        axis(&scales, quantize.axis),
    )
}

/// The dimension of scales, where there are several: a tensor may not have the usual one.
fn axis(scales: &[i64], axis: i64) -> Vec<AttributeProto> {
    match scales {
        [] | [1] => vec![],
        _ => vec![int("axis", axis)],
    }
}

fn dequantized(w: &mut Writer<'_>, op: OpId, dequantize: &Dequantize) -> Outcome<()> {
    let scales = w.form(dequantize.scale)?.1;
    let x = w.operand(dequantize.x);
    let scale = parameter(w, dequantize.scale)?;
    let mut operands = vec![x, scale];
    if let Some(zero) = dequantize.zero {
        operands.push(parameter(w, zero)?);
    }
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    node(
        w,
        op,
        "DequantizeLinear",
        &operands,
        axis(&scales, dequantize.axis),
    )
}

/// `saturate(round(x · factor) + zero)`: a product, and a step to integers of scale 1.
fn requantized(w: &mut Writer<'_>, op: OpId, requantize: &Requantize) -> Outcome<()> {
    let dtype = stored(w, op)?;
    let rank = w.form(requantize.x)?.1.len();
    let x = w.operand(requantize.x);
    let x = cast(w, &x, DType::F32);
    let factors = w.form(requantize.factor)?.1;
    let mut factor = parameter(w, requantize.factor)?;
    if !matches!(&factors[..], [] | [1]) {
        let mut to = vec![1; rank];
        let place = to.get_mut(requantize.axis as usize);
        *place.ok_or("its factors belong to no dimension")? = -1;
        let to = w.list("shape", &to)?;
        factor = w.node("Reshape", &[&factor, &to], vec![]);
    }
    let product = w.node("Mul", &[&x, &factor], vec![]);
    let zeros = match requantize.zero {
        Some(zero) => w.form(zero)?.1,
        None => vec![],
    };
    let one: Vec<usize> = match &zeros[..] {
        [] | [1] => vec![],
        zeros => zeros.iter().map(|n| *n as usize).collect(),
    };
    let ones = vec![1f32; one.iter().product()];
    let scale = w.numbers("one", &one, ones)?;
    let zero = zero(w, requantize.zero, dtype, &zeros)?;
    node(
        w,
        op,
        "QuantizeLinear",
        &[&product, &scale, &zero],
        axis(&zeros, requantize.axis),
    )
}
