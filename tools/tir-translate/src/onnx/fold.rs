//! What is computed at import: nodes whose operands are all constants, shapes among them, and
//! nodes that have no op of graph because networks use them for shapes alone.

use tir_core::{OpId, Value};
use tir_data::{Array, DType};
use tir_interp::Data;
use tir_onnx::Node;

use super::import::{Cx, Outcome};
use super::operands::fail;

/// The most bytes that a folded constant has, unless its operands have as many.
const FOLD_BYTES: usize = 1 << 20;

impl Cx {
    /// Computes what a node with constant operands became: ops from `first` on. Its results are
    /// constants then, and the ops are gone.
    pub(super) fn fold(&mut self, node: &Node, made: &[OpId]) {
        let mut known: Vec<(Value, Array)> = Vec::new();
        let mut operands = 0usize;
        for k in 0..node.inputs.len() {
            if node.input(k).is_none() {
                continue;
            }
            let Some(array) = self.elements(node, k) else {
                return;
            };
            operands += array.bytes().len();
        }
        for op in made {
            let ir = self.ir();
            // Quantized constants stay so: their integers are what integer kernels take.
            if ir.is::<tir_graph::Dequantize>(*op) {
                return;
            }
            let results: Vec<Value> = ir.results(*op).collect();
            if let Some(constant) = ir.get::<tir_graph::Constant>(*op) {
                let Ok(array) = tir_interp::elements(constant.value) else {
                    return;
                };
                known.extend(results.first().map(|v| (*v, array)));
                continue;
            }
            let bytes = |v: &Value| {
                let ty = ir.ty(*v);
                ty.elements()?.checked_mul(ty.bytes()?)
            };
            let small = |n: usize| n <= FOLD_BYTES.max(operands);
            if !results.iter().all(|v| bytes(v).is_some_and(small)) {
                return;
            }
            let inputs: Option<Vec<Data>> = ir
                .operands(*op)
                .map(|v| {
                    let found = known.iter().find(|(k, _)| *k == v);
                    let array = found.map(|(_, a)| a.clone());
                    Some(Data::Tensor(array.or_else(|| self.constant_of(v))?))
                })
                .collect();
            let Some(inputs) = inputs else { return };
            let Some(Ok(values)) = tir_interp::evaluate_op(ir.op(*op), &inputs) else {
                return;
            };
            let arrays = values.iter().map(Data::to_array);
            let Ok(arrays) = arrays.collect::<Result<Vec<Array>, _>>() else {
                return;
            };
            known.extend(results.into_iter().zip(arrays));
        }
        self.settle(node, &known);
    }
}

fn constant(cx: &mut Cx, node: &Node, array: Result<Array, tir_data::DataError>) -> Outcome<()> {
    let array = array.map_err(|e| Some(node.error(e.to_string())))?;
    cx.define_constant(node, array)
}

/// Operand `k`, which must be a constant.
fn known(cx: &Cx, node: &Node, k: usize) -> Outcome<Array> {
    if cx.is_broken(node, k) {
        return Err(None);
    }
    match cx.elements(node, k) {
        Some(array) => Ok(array),
        None => fail(
            node,
            format!("operand {k} is not a constant: the operator is imported for shapes alone"),
        ),
    }
}

/// The sizes of operand 0.
fn sizes(cx: &mut Cx, node: &Node) -> Outcome<Vec<i64>> {
    // A constant needs no op for its shape.
    if let Some(array) = cx.elements(node, 0) {
        return Ok(array.shape().iter().map(|d| *d as i64).collect());
    }
    let x = cx.operand(node, 0)?;
    Ok(cx.shape(x).0.to_vec())
}

pub(super) fn shape(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["start", "end"]).map_err(Some)?;
    let sizes = sizes(cx, node)?;
    let rank = sizes.len() as i64;
    let bound = |name: &str, default: i64| -> Outcome<i64> {
        let at = node.int(name).map_err(Some)?.unwrap_or(default);
        Ok(if at < 0 { at + rank } else { at }.clamp(0, rank))
    };
    let (start, end) = (bound("start", 0)?, bound("end", rank)?);
    let sizes = sizes[start as usize..end.max(start) as usize].to_vec();
    constant(cx, node, Array::from_vec(&[sizes.len()], sizes))
}

pub(super) fn size(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let count = sizes(cx, node)?.iter().product::<i64>();
    cx.define_constant(node, Array::scalar(count))
}

pub(super) fn range(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let [start, limit, delta] = [
        known(cx, node, 0)?,
        known(cx, node, 1)?,
        known(cx, node, 2)?,
    ];
    let dtype = start.dtype();
    let number = |a: &Array| a.get_f64(0).filter(|_| a.len() == 1);
    let (Some(first), Some(last), Some(step)) = (number(&start), number(&limit), number(&delta))
    else {
        return fail(node, "has operands that are no single numbers");
    };
    let count = ((last - first) / step).ceil().max(0.0);
    if step == 0.0 || !count.is_finite() || count > FOLD_BYTES as f64 {
        return fail(
            node,
            format!("counts from {first} to {last} in steps of {step}"),
        );
    }
    let numbers: Vec<f64> = (0..count as usize)
        .map(|i| first + i as f64 * step)
        .collect();
    constant(cx, node, of_numbers(dtype, &[numbers.len()], &numbers))
}

/// An array of whole numbers or floats that fit the type.
fn of_numbers(
    dtype: DType,
    shape: &[usize],
    numbers: &[f64],
) -> Result<Array, tir_data::DataError> {
    match dtype {
        DType::F32 => Array::from_vec(shape, numbers.iter().map(|v| *v as f32).collect()),
        DType::F64 => Array::from_vec(shape, numbers.to_vec()),
        DType::I32 => Array::from_vec(shape, numbers.iter().map(|v| *v as i32).collect()),
        DType::I64 => Array::from_vec(shape, numbers.iter().map(|v| *v as i64).collect()),
        other => Err(tir_data::DataError::new(format!(
            "makes numbers of type {other}, which cannot be imported"
        ))),
    }
}

pub(super) fn constant_of_shape(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["value"]).map_err(Some)?;
    let Some(sizes) = known(cx, node, 0)?.to_i64s() else {
        return fail(node, "has sizes that are no integers");
    };
    let value = node.tensor("value").map_err(Some)?.cloned();
    let value = value.unwrap_or_else(|| Array::scalar(0f32));
    let shape: Result<Vec<usize>, _> = sizes.iter().map(|d| usize::try_from(*d)).collect();
    let count = shape
        .iter()
        .flatten()
        .try_fold(1usize, |n, d| n.checked_mul(*d));
    let (Ok(shape), Some(count), 1) = (shape, count, value.len()) else {
        return fail(
            node,
            format!("makes sizes {sizes:?} of {} numbers", value.len()),
        );
    };
    if count.saturating_mul(value.dtype().size()) > FOLD_BYTES {
        return fail(
            node,
            format!("makes {count} equal numbers, more than are folded"),
        );
    }
    let data = value.bytes().repeat(count);
    constant(cx, node, Array::new(value.dtype(), &shape, data.into()))
}

/// Two integer constants of one shape, or one of them a single number.
pub(super) fn modulo(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["fmod"]).map_err(Some)?;
    let [a, b] = [known(cx, node, 0)?, known(cx, node, 1)?];
    let as_c = node.int("fmod").map_err(Some)?.unwrap_or(0) != 0;
    let (Some(x), Some(y)) = (a.to_i64s(), b.to_i64s()) else {
        return fail(node, "has operands that are no integers");
    };
    let shape = if a.len() >= b.len() {
        a.shape()
    } else {
        b.shape()
    };
    if x.len() != y.len() && x.len() != 1 && y.len() != 1 || y.contains(&0) {
        return fail(node, format!("divides {x:?} by {y:?}"));
    }
    let at = |list: &[i64], i: usize| list[if list.len() == 1 { 0 } else { i }];
    let rest = |i: usize| {
        let (x, y) = (at(&x, i), at(&y, i));
        let rest = x.wrapping_rem(y);
        // The sign is that of the divisor.
        let other = !as_c && rest != 0 && (rest < 0) != (y < 0);
        (if other { rest + y } else { rest }) as f64
    };
    let numbers: Vec<f64> = (0..x.len().max(y.len())).map(rest).collect();
    constant(cx, node, of_numbers(a.dtype(), shape, &numbers))
}

/// The positions of what is not zero: a row for each dimension.
pub(super) fn non_zero(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let x = known(cx, node, 0)?;
    let holds = |i: &usize| match x.get_int(*i) {
        Some(n) => n != 0,
        None => x.get_f64(*i).is_some_and(|v| v != 0.0),
    };
    let found: Vec<Vec<usize>> = (0..x.len()).filter(holds).map(|i| x.unravel(i)).collect();
    let rank = x.shape().len();
    let rows = (0..rank).flat_map(|d| found.iter().map(move |at| at[d] as i64));
    constant(
        cx,
        node,
        Array::from_vec(&[rank, found.len()], rows.collect()),
    )
}

/// The product of all numbers of a list.
pub(super) fn reduce_prod(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["axes", "keepdims", "noop_with_empty_axes"])
        .map_err(Some)?;
    let x = known(cx, node, 0)?;
    let keep = node.int("keepdims").map_err(Some)?.unwrap_or(1) != 0;
    let Some(list) = x.to_i64s().filter(|_| x.shape().len() <= 1) else {
        return fail(node, "has an operand that is no list of integers");
    };
    let product = list.iter().try_fold(1i64, |n, d| n.checked_mul(*d));
    let Some(product) = product else {
        return fail(node, format!("multiplies {list:?} beyond 64 bits"));
    };
    let shape: &[usize] = if keep && !x.shape().is_empty() {
        &[1]
    } else {
        &[]
    };
    constant(cx, node, of_numbers(x.dtype(), shape, &[product as f64]))
}
