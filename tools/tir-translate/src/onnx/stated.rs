//! Shapes that a file states of values, and those that follow from them.

use std::collections::BTreeMap;

use tir_onnx::{Graph, ValueType};

/// Shapes by the names of values.
pub(super) type Shapes = BTreeMap<String, Vec<i64>>;

/// Operators whose result has the shape of operand 0.
const ALIKE: &[&str] = &[
    "Abs",
    "Cast",
    "CastLike",
    "Ceil",
    "Clip",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "Neg",
    "Not",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Sign",
    "Softmax",
    "Softplus",
    "Sqrt",
    "Tanh",
];

/// The shapes of a graph's values that are stated as numbers; `known` is what is known from around it.
pub(super) fn shapes(graph: &Graph, known: Shapes) -> Shapes {
    let mut found = known;
    let outputs = graph.outputs.iter().map(|v| (&v.name, &v.ty));
    for (name, ty) in graph.value_types.iter().chain(outputs) {
        let ValueType::Tensor(tensor) = ty else {
            continue;
        };
        let Some(shape) = tensor.static_shape() else {
            continue;
        };
        let shape: Result<Vec<i64>, _> = shape.into_iter().map(i64::try_from).collect();
        if let Ok(shape) = shape {
            found.insert(name.clone(), shape);
        }
    }
    for node in graph.nodes.iter().rev() {
        let alike = node.domain.is_empty() && ALIKE.contains(&node.op_type.as_str());
        if let (true, Some(x), Some(y)) = (alike, node.input(0), node.output(0))
            && let Some(shape) = found.get(y).cloned()
        {
            found.entry(x.to_string()).or_insert(shape);
        }
    }
    found
}
