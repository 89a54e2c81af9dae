//! What is computed at import: nodes whose operands are all constants, shapes among them, and
//! nodes that have no op of graph because networks use them for shapes alone.

use tir_core::{OpId, Value};
use tir_data::Array;
use tir_interp::Data;
use tir_onnx::Node;

use super::computed;
use super::import::{Cx, Outcome};
use super::numbers;
use super::operands::fail;

/// The most bytes that a folded constant has, unless its operands have as many.
const FOLD_BYTES: usize = 1 << 20;

impl Cx<'_> {
    /// Computes what a node became, if all that they compute with is constant. Its results are
    /// constants then, and the ops are gone.
    pub(super) fn fold(&mut self, node: &Node, made: &[OpId]) {
        let mut known: Vec<(Value, Array)> = Vec::new();
        let inputs = (0..node.inputs.len()).filter_map(|k| self.elements(node, k));
        let operands: usize = inputs.map(|array| array.bytes().len()).sum();
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
pub(super) fn known(cx: &Cx, node: &Node, k: usize) -> Outcome<Array> {
    if cx.is_broken(node, k) {
        return Err(None);
    }
    match cx.elements(node, k) {
        Some(array) => Ok(array),
        None => cx.not_constant(node, k, &format!("operand {k} is not a constant")),
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
    if computed::applies(cx, node, &[0, 1, 2]) {
        return computed::range(cx, node);
    }
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
    constant(cx, node, numbers::array(dtype, &[numbers.len()], &numbers))
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

/// The positions of what is not zero: a row for each dimension.
pub(super) fn non_zero(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    if computed::applies(cx, node, &[0]) {
        return computed::non_zero(cx, node);
    }
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
