//! The neutral model: what a checked `.onnx` file says.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use tir_data::{Array, DataError};

use crate::{AttributeValue, ElementType};

/// A checked model.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    /// The file it was loaded from, for [`DataError::in_file`].
    pub path: Option<PathBuf>,
    /// Version of the file format, at least 1.
    pub ir_version: i64,
    /// Operator set version by domain; `ai.onnx` is the empty domain, which is always there.
    pub opset: BTreeMap<String, i64>,
    /// Name and version of the program that wrote it, `pytorch 2.5`; may be empty.
    pub producer: String,
    /// The network.
    pub graph: Graph,
    /// The functions that nodes may stand for.
    pub functions: Vec<Function>,
}

/// A function of a model: nodes that a node of its name and domain stands for.
#[derive(Clone, PartialEq, Debug)]
pub struct Function {
    /// The name, which is the operator of nodes that stand for it.
    pub name: String,
    /// The domain; empty for ONNX's own.
    pub domain: String,
    /// What tells it from others of the same name; may be empty.
    pub overload: String,
    /// Operator set version by domain, for its nodes.
    pub opset: BTreeMap<String, i64>,
    /// Attributes without a default that a node may have.
    pub attributes: Vec<String>,
    /// Attributes with defaults.
    pub defaults: BTreeMap<String, AttributeValue>,
    /// The body: inputs and outputs have no stated types, and nothing is used from around it.
    pub graph: Graph,
}

/// A graph: every name used is defined, no value is defined twice, nodes are in topological order
/// (the file's own order where that is one).
#[derive(Clone, PartialEq, Debug)]
pub struct Graph {
    /// The graph's name; may be empty.
    pub name: String,
    /// Inputs, in order, without those that have an initializer.
    pub inputs: Vec<Value>,
    /// Outputs, in order.
    pub outputs: Vec<Value>,
    /// Constants by name. An input with a default value is here, not among the inputs.
    pub initializers: BTreeMap<String, Array>,
    /// Nodes, each after those whose results it uses.
    pub nodes: Vec<Node>,
    /// Every type that the file states: of inputs, outputs and values in between.
    pub value_types: BTreeMap<String, ValueType>,
}

/// A named value and the type stated for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    /// The name.
    pub name: String,
    /// The type.
    pub ty: ValueType,
}

/// The type stated for a value.
#[derive(Clone, PartialEq, Debug)]
pub enum ValueType {
    /// A dense tensor.
    Tensor(TensorType),
    /// Something else: `sequence`, `map`, `optional`, `sparse tensor`.
    Other(&'static str),
    /// No type is stated.
    Unknown,
}

/// Element type and shape.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorType {
    /// The element type.
    pub element: ElementType,
    /// One entry per dimension; `None` if not even the rank is stated.
    pub shape: Option<Vec<Dim>>,
}

/// One dimension of a stated shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Dim {
    /// A number.
    Known(usize),
    /// A name: equal names stand for equal numbers.
    Param(String),
    /// Nothing is stated.
    Unknown,
}

impl TensorType {
    /// The shape, if all of it is known.
    pub fn static_shape(&self) -> Option<Vec<usize>> {
        let dims = self.shape.as_ref()?;
        dims.iter()
            .map(|d| {
                if let Dim::Known(n) = d {
                    Some(*n)
                } else {
                    None
                }
            })
            .collect()
    }
}

impl fmt::Display for ValueType {
    /// `1xNx?xf32`, `*xf32` for an unstated rank, `sequence`, `unknown type`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueType::Unknown => f.write_str("unknown type"),
            ValueType::Other(name) => f.write_str(name),
            ValueType::Tensor(TensorType {
                element,
                shape: None,
            }) => write!(f, "*x{element}"),
            ValueType::Tensor(TensorType {
                element,
                shape: Some(dims),
            }) => {
                for dim in dims {
                    match dim {
                        Dim::Known(n) => write!(f, "{n}x")?,
                        Dim::Param(name) => write!(f, "{name}x")?,
                        Dim::Unknown => f.write_str("?x")?,
                    }
                }
                write!(f, "{element}")
            }
        }
    }
}

/// One operator call.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Position in the file's list of nodes, from 0.
    pub index: usize,
    /// The name; may be empty and need not be unique.
    pub name: String,
    /// The operator, `Conv`.
    pub op_type: String,
    /// The operator's domain; empty for ONNX's own (also where the file says `ai.onnx`).
    pub domain: String,
    /// Which of several functions of the same name it stands for; empty for most.
    pub overload: String,
    /// Operands by position; `None` is an omitted one.
    pub inputs: Vec<Option<String>>,
    /// Results by position; `None` is one that nothing uses.
    pub outputs: Vec<Option<String>>,
    /// Attributes by name.
    pub attributes: BTreeMap<String, AttributeValue>,
}

impl Node {
    /// Operand `k`, or `None` if it is omitted.
    pub fn input(&self, k: usize) -> Option<&str> {
        self.inputs.get(k)?.as_deref()
    }

    /// Result `k`, or `None` if it is omitted.
    pub fn output(&self, k: usize) -> Option<&str> {
        self.outputs.get(k)?.as_deref()
    }

    /// The operator with its domain: `Conv`, `com.example.FancyGate`.
    pub fn op(&self) -> String {
        match self.domain.as_str() {
            "" => self.op_type.clone(),
            domain => format!("{domain}.{}", self.op_type),
        }
    }

    /// What the places of a program call the node: its name, or that of its first result, or its operator.
    pub fn title(&self) -> String {
        let first = self.outputs.iter().flatten().next();
        match (self.name.as_str(), first) {
            ("", Some(output)) => output.clone(),
            ("", None) => self.op(),
            (name, _) => name.to_string(),
        }
    }

    /// The node as errors name it: `node 'conv1' (Conv)`, `node #3 (Conv)` if it has no name.
    pub fn label(&self) -> String {
        label(&self.name, self.index, &self.op())
    }

    /// An error about this node.
    pub fn error(&self, message: impl Into<String>) -> DataError {
        DataError::at_part(self.label(), message)
    }
}

pub(crate) fn label(name: &str, index: usize, op: &str) -> String {
    match name {
        "" => format!("node #{index} ({op})"),
        name => format!("node '{name}' ({op})"),
    }
}
