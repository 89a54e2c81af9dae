//! Ops as nodes.

use tir_core::{AttrValue, FloatType, Ir, OpId, Value, float_bits};
use tir_data::{Array, DType};
use tir_graph::*;
use tir_interp::elements;
use tir_onnx::proto::AttributeProto;
use tir_onnx::write::{float, int, ints, string};

use super::graph::{Outcome, Writer};
use super::products;

/// Operators of the same operands and no attributes.
fn plain(ir: &Ir, op: OpId) -> Option<&'static str> {
    Some(match ir.name(op).as_str() {
        "graph.sigmoid" => "Sigmoid",
        "graph.hard_swish" => "HardSwish",
        "graph.reciprocal" => "Reciprocal",
        "graph.neg" => "Neg",
        "graph.abs" => "Abs",
        "graph.exp" => "Exp",
        "graph.log" => "Log",
        "graph.sqrt" => "Sqrt",
        "graph.sin" => "Sin",
        "graph.cos" => "Cos",
        "graph.tanh" => "Tanh",
        "graph.erf" => "Erf",
        "graph.floor" => "Floor",
        "graph.ceil" => "Ceil",
        "graph.round" => "Round",
        "graph.relu" => "Relu",
        "graph.max" => "Max",
        "graph.min" => "Min",
        "graph.pow" => "Pow",
        "graph.equal" => "Equal",
        "graph.less" => "Less",
        "graph.less_equal" => "LessOrEqual",
        "graph.greater" => "Greater",
        "graph.greater_equal" => "GreaterOrEqual",
        "graph.add" => "Add",
        "graph.sub" => "Sub",
        "graph.mul" => "Mul",
        "graph.div" => "Div",
        "graph.matmul" => "MatMul",
        "graph.global_avg_pool" => "GlobalAveragePool",
        "graph.where" => "Where",
        // The same elements in another order of storage.
        "graph.relayout" => "Identity",
        _ => return None,
    })
}

/// Writes an op.
pub(super) fn write(w: &mut Writer<'_>, op: OpId) -> Outcome<()> {
    let ir = w.ir;
    for value in ir.operands(op).chain(ir.results(op)) {
        w.form(value)?;
    }
    if let Some(op_type) = plain(ir, op) {
        return simple(w, op, op_type, vec![]);
    }
    if let Some(constant) = ir.get::<Constant>(op) {
        let array = elements(constant.value).map_err(|e| e.to_string())?;
        let result = ir.result(op, 0);
        let name = match ir.hint(result) {
            Some(hint) => w.constant(hint.as_str(), &array),
            None => w.constant("constant", &array),
        };
        w.same(result, name);
        return Ok(());
    }
    match products::write(w, op) {
        Some(done) => done,
        None => other(w, op),
    }
}

/// A node of the op's operands and results.
pub(super) fn simple(
    w: &mut Writer<'_>,
    op: OpId,
    op_type: &str,
    attributes: Vec<AttributeProto>,
) -> Outcome<()> {
    let operands: Vec<String> = w.ir.operands(op).map(|v| w.operand(v)).collect();
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    node(w, op, op_type, &operands, attributes)
}

/// A node with the op's results.
pub(super) fn node(
    w: &mut Writer<'_>,
    op: OpId,
    op_type: &str,
    operands: &[&str],
    attributes: Vec<AttributeProto>,
) -> Outcome<()> {
    let results: Vec<Value> = w.ir.results(op).collect();
    let results = results.into_iter().map(|v| w.result(v)).collect();
    w.add(op_type, operands, results, attributes);
    Ok(())
}

/// A number of an element type, as a constant without dimensions.
fn scalar(w: &mut Writer<'_>, what: &str, number: f64, dtype: DType) -> Outcome<String> {
    let bytes = match dtype {
        DType::F32 => (number as f32).to_le_bytes().to_vec(),
        DType::F64 => number.to_le_bytes().to_vec(),
        DType::F16 | DType::BF16 => {
            let attr = Number(number).to_attr();
            return of(w, what, attr, dtype);
        }
        // Beyond the bounds of the type nothing is bounded.
        DType::U64 => (number as u64).to_le_bytes().to_vec(),
        other => {
            let limits = bounds(tir_interp::elem_of(other)).unwrap_or([0, 0]);
            let whole = (number as i128).clamp(limits[0], limits[1]);
            whole.to_le_bytes()[..other.size()].to_vec()
        }
    };
    let array = Array::new(dtype, &[], bytes.into()).map_err(|e| e.message)?;
    Ok(w.constant(what, &array))
}

/// A number that an attribute is, as a constant without dimensions.
fn of(w: &mut Writer<'_>, what: &str, value: tir_core::Attr, dtype: DType) -> Outcome<String> {
    let number = tir_interp::constant(value, tir_interp::elem_of(dtype));
    let number = number.and_then(|data| data.to_array().map_err(|e| e.message.into()));
    let number = number.map_err(|e| e.to_string())?;
    // The attribute has a type of its own: f64, say, where the operand is f16.
    let no_number = || format!("{value} is no number");
    let bits = match tir_interp::elem_of(dtype).get::<FloatType>() {
        Some(format) => {
            let number = number.get_f64(0).ok_or_else(no_number)?;
            i128::from(float_bits(number, *format))
        }
        None => number.get_int(0).ok_or_else(no_number)?,
    };
    let bytes = bits.to_le_bytes()[..dtype.size()].to_vec();
    let array = Array::new(dtype, &[], bytes.into()).map_err(|e| e.message)?;
    Ok(w.constant(what, &array))
}

fn other(w: &mut Writer<'_>, op: OpId) -> Outcome<()> {
    let ir = w.ir;
    if let Some(clip) = ir.get::<Clip>(op) {
        let (dtype, _) = w.form(clip.x)?;
        let mut operands = vec![w.operand(clip.x)];
        for (what, bound) in [("min", clip.min), ("max", clip.max)] {
            operands.push(match bound {
                Some(bound) => scalar(w, what, bound.0, dtype)?,
                None => String::new(),
            });
        }
        let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
        node(w, op, "Clip", &operands, vec![])
    } else if let Some(leaky) = ir.get::<LeakyRelu>(op) {
        let alpha = float("alpha", leaky.alpha.0 as f32);
        simple(w, op, "LeakyRelu", vec![alpha])
    } else if let Some(hard) = ir.get::<HardSigmoid>(op) {
        let (alpha, beta) = (hard.alpha.0 as f32, hard.beta.0 as f32);
        simple(
            w,
            op,
            "HardSigmoid",
            vec![float("alpha", alpha), float("beta", beta)],
        )
    } else if let Some(gelu) = ir.get::<Gelu>(op) {
        let how = if gelu.tanh { "tanh" } else { "none" };
        simple(w, op, "Gelu", vec![string("approximate", how)])
    } else if ir.is::<And>(op) || ir.is::<Or>(op) || ir.is::<Xor>(op) {
        let (dtype, _) = w.form(ir.operand(op, 0))?;
        let op_type = match (ir.is::<And>(op), ir.is::<Or>(op)) {
            (true, _) => "And",
            (_, true) => "Or",
            _ => "Xor",
        };
        match dtype {
            DType::Bool => simple(w, op, op_type, vec![]),
            _ => simple(w, op, &format!("Bitwise{op_type}"), vec![]),
        }
    } else if let Some(norm) = ir.get::<BatchNorm>(op) {
        let epsilon = float("epsilon", norm.epsilon.0 as f32);
        simple(w, op, "BatchNormalization", vec![epsilon])
    } else if let Some(softmax) = ir.get::<Softmax>(op) {
        simple(w, op, "Softmax", vec![int("axis", softmax.axis)])
    } else if let Some(norm) = ir.get::<LayerNorm>(op) {
        let epsilon = float("epsilon", norm.epsilon.0 as f32);
        simple(
            w,
            op,
            "LayerNormalization",
            vec![int("axis", norm.axis), epsilon],
        )
    } else if let Some(reduce) = ir.get::<ReduceSum>(op) {
        reduced_by(w, op, "ReduceSum", &reduce.axes, reduce.keepdims)
    } else if let Some(reduce) = ir.get::<ReduceMean>(op) {
        reduced_by(w, op, "ReduceMean", &reduce.axes, reduce.keepdims)
    } else if let Some(reduce) = ir.get::<ReduceMax>(op) {
        reduced_by(w, op, "ReduceMax", &reduce.axes, reduce.keepdims)
    } else if let Some(reduce) = ir.get::<ReduceMin>(op) {
        reduced_by(w, op, "ReduceMin", &reduce.axes, reduce.keepdims)
    } else if ir.is::<MaxPool>(op) || ir.is::<AvgPool>(op) {
        pool(w, op)
    } else {
        moves(w, op)
    }
}

fn reduced_by(
    w: &mut Writer<'_>,
    op: OpId,
    op_type: &str,
    axes: &[i64],
    keepdims: bool,
) -> Outcome<()> {
    let x = w.operand(w.ir.operand(op, 0));
    let axes = w.list("axes", axes)?;
    // No axes are none, not all.
    let attributes = vec![
        int("keepdims", keepdims.into()),
        int("noop_with_empty_axes", 1),
    ];
    node(w, op, op_type, &[&x, &axes], attributes)
}

fn pool(w: &mut Writer<'_>, op: OpId) -> Outcome<()> {
    let ir = w.ir;
    let (dtype, _) = w.form(ir.operand(op, 0))?;
    let window = |kernel: &[i64], strides: &[i64], pads: &[i64], dilations: &[i64], ceil: bool| {
        vec![
            ints("kernel_shape", kernel),
            ints("strides", strides),
            ints("pads", pads),
            ints("dilations", dilations),
            int("ceil_mode", ceil.into()),
        ]
    };
    if let Some(p) = ir.get::<AvgPool>(op) {
        let mut attributes = window(&p.kernel, &p.strides, &p.pads, &p.dilations, p.ceil_mode);
        attributes.push(int("count_include_pad", p.count_include_pad.into()));
        return simple(w, op, "AveragePool", attributes);
    }
    let Some(p) = ir.get::<MaxPool>(op) else {
        return Err("is unknown".into());
    };
    if matches!(dtype, DType::Bool | DType::I16 | DType::I32 | DType::I64)
        || matches!(dtype, DType::U16 | DType::U32 | DType::U64 | DType::BF16)
    {
        return Err(format!("MaxPool has no form for {dtype}"));
    }
    simple(
        w,
        op,
        "MaxPool",
        window(&p.kernel, &p.strides, &p.pads, &p.dilations, p.ceil_mode),
    )
}

/// Ops that move elements.
fn moves(w: &mut Writer<'_>, op: OpId) -> Outcome<()> {
    let ir = w.ir;
    let (x, shape) = match (ir.operands(op).next(), ir.results(op).next()) {
        (Some(x), Some(y)) => (w.operand(x), w.form(y)?.1),
        _ => return Err("is no operator on tensors".into()),
    };
    if ir.is::<Reshape>(op) {
        let to = w.list("shape", &shape)?;
        node(w, op, "Reshape", &[&x, &to], vec![int("allowzero", 1)])
    } else if let Some(transpose) = ir.get::<Transpose>(op) {
        node(
            w,
            op,
            "Transpose",
            &[&x],
            vec![ints("perm", &transpose.perm)],
        )
    } else if let Some(concat) = ir.get::<Concat>(op) {
        simple(w, op, "Concat", vec![int("axis", concat.axis)])
    } else if let Some(split) = ir.get::<Split>(op) {
        let sizes = w.list("sizes", &split.sizes)?;
        node(w, op, "Split", &[&x, &sizes], vec![int("axis", split.axis)])
    } else if let Some(slice) = ir.get::<Slice>(op) {
        sliced(w, op, (&x, &slice))
    } else if let Some(pad) = ir.get::<Pad>(op) {
        let pads: Vec<i64> = pad.low.iter().chain(&pad.high).copied().collect();
        let pads = w.list("pads", &pads)?;
        let (dtype, _) = w.form(pad.x)?;
        let value = of(w, "pad", pad.value, dtype)?;
        node(w, op, "Pad", &[&x, &pads, &value], vec![])
    } else if ir.is::<Expand>(op) {
        let to = w.list("shape", &shape)?;
        node(w, op, "Expand", &[&x, &to], vec![])
    } else if let Some(gather) = ir.get::<Gather>(op) {
        let (dtype, _) = w.form(gather.indices)?;
        let mut indices = w.operand(gather.indices);
        if !matches!(dtype, DType::I32 | DType::I64) {
            indices = cast(w, &indices, DType::I64);
        }
        node(
            w,
            op,
            "Gather",
            &[&x, &indices],
            vec![int("axis", gather.axis)],
        )
    } else if ir.is::<Cast>(op) {
        let (dtype, _) = w.form(ir.result(op, 0))?;
        node(w, op, "Cast", &[&x], vec![int("to", code(dtype))])
    } else if let Some(resize) = ir.get::<Resize>(op) {
        resized(w, op, (&x, &resize), &shape)
    } else {
        Err("there is no operator of ONNX for it".into())
    }
}

pub(super) fn code(dtype: DType) -> i64 {
    tir_onnx::ElementType::of(dtype).0.into()
}

/// The elements of a value as numbers of another type.
pub(super) fn cast(w: &mut Writer<'_>, x: &str, to: DType) -> String {
    w.node("Cast", &[x], vec![int("to", code(to))])
}

fn sliced(w: &mut Writer<'_>, op: OpId, (x, slice): (&str, &Slice)) -> Outcome<()> {
    let (_, from) = w.form(slice.x)?;
    let mut ends = Vec::new();
    for (d, size) in from.iter().enumerate() {
        let end = slice.starts[d] + slice.sizes[d] * slice.steps[d];
        // Before the first element: numbers below 0 count from the end.
        ends.push(if end < 0 { -size - 1 } else { end });
    }
    let starts = w.list("starts", &slice.starts)?;
    let ends = w.list("ends", &ends)?;
    let axes: Vec<i64> = (0..from.len() as i64).collect();
    let axes = w.list("axes", &axes)?;
    let steps = w.list("steps", &slice.steps)?;
    node(w, op, "Slice", &[x, &starts, &ends, &axes, &steps], vec![])
}

fn resized(
    w: &mut Writer<'_>,
    op: OpId,
    (x, resize): (&str, &Resize),
    shape: &[i64],
) -> Outcome<()> {
    let word = |attr: tir_core::Attr| attr.as_str().unwrap_or_default().to_string();
    let attributes = vec![
        string("mode", &word(resize.mode.to_attr())),
        string(
            "coordinate_transformation_mode",
            &word(resize.coordinates.to_attr()),
        ),
        string("nearest_mode", &word(resize.rounding.to_attr())),
    ];
    let Some(scales) = &resize.scales else {
        let sizes = w.list("sizes", shape)?;
        return node(w, op, "Resize", &[x, "", "", &sizes], attributes);
    };
    let (_, from) = w.form(resize.x)?;
    let mut given = Vec::new();
    for (d, scale) in scales.iter().enumerate() {
        let scale = scale.as_float().unwrap_or(1.0) as f32;
        let fits = scale_for(scale, from[d], shape[d]);
        given.push(fits.ok_or("its scales do not give its sizes")?);
    }
    let scales = w.numbers("scales", &[given.len()], given)?;
    node(w, op, "Resize", &[x, "", &scales], attributes)
}

/// A scale, or one that is next to it, by which a size becomes another one whether the product is one of `f32` or of `f64`.
fn scale_for(scale: f32, from: i64, to: i64) -> Option<f32> {
    let fits = |scale: &f32| {
        let narrow = (from as f32 * scale).floor() as i64;
        let wide = (from as f64 * f64::from(*scale)).floor() as i64;
        narrow == to && wide == to
    };
    let next = |steps: u32| f32::from_bits(scale.to_bits() + steps);
    [scale, next(1), next(2)].into_iter().find(fits)
}
