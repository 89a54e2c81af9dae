//! Convolutions of a network: their forms, and each as a model of its own.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use prost::Message;
use tir::Ir;
use tir::workload::places;
use tir_onnx::proto::{
    DimensionKind, DimensionProto, GraphProto, ModelProto, NodeProto, TensorProto,
    TensorShapeProto, TensorTypeProto, TypeKind, TypeProto, ValueInfoProto,
};
use tir_onnx::{ElementType, Model, Node};

/// What distinguishes a convolution, if its numbers do not.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Form {
    pub(super) kernel: [i64; 2],
    pub(super) strides: Vec<i64>,
    /// Borders and distances, where the node says any.
    further: Vec<Vec<i64>>,
    /// Rows and columns that are read.
    pub(super) side: [i64; 2],
    pub(super) groups: i64,
    pub(super) inputs: i64,
    pub(super) outputs: i64,
    /// Operators behind it that compute with its result alone, element by element.
    behind: Vec<String>,
    bias: bool,
}

/// A convolution of a network.
pub(super) struct Convolution {
    pub(super) form: Form,
    /// What places call its node.
    pub(super) title: String,
    /// Shape of what it reads.
    pub(super) shape: Vec<i64>,
    /// Its node, then those behind it.
    nodes: Vec<usize>,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([h, w], [rows, columns]) = (self.kernel, self.side);
        write!(f, "{h}x{w} ")?;
        match self.strides.first() {
            Some(1) | None => {}
            Some(stride) => write!(f, "s{stride} ")?,
        }
        match self.groups {
            1 => write!(f, "{}->{}", self.inputs, self.outputs)?,
            n if n == self.inputs && n == self.outputs => write!(f, "each of {n}")?,
            n => write!(f, "{}->{} in {n} groups", self.inputs, self.outputs)?,
        }
        match rows == columns {
            true => write!(f, ", {rows}")?,
            false => write!(f, ", {rows}x{columns}")?,
        }
        self.behind.iter().try_for_each(|op| write!(f, ", {op}"))
    }
}

/// Operators that compute with each element alone, and with constants.
const BEHIND: [&str; 7] = [
    "Relu",
    "Clip",
    "LeakyRelu",
    "Sigmoid",
    "HardSigmoid",
    "HardSwish",
    "Tanh",
];

/// The first operand's shape of the first op of each place.
fn shapes(module: &Ir) -> HashMap<String, Vec<i64>> {
    let mut shapes = HashMap::new();
    let functions = module.slots().into_iter();
    for ir in functions.filter_map(|slot| module.child(slot)) {
        for op in ir.walk_ids() {
            let Some(operand) = ir.operands(op).next() else {
                continue;
            };
            let mut at = Vec::new();
            places(ir.loc(op), &mut at);
            if let ([title], Some(shape)) = (&at[..], ir.ty(operand).shape()) {
                let entry = shapes.entry(title.clone());
                entry.or_insert_with(|| shape.to_vec());
            }
        }
    }
    shapes
}

/// The convolutions of a model, which was imported as this program.
pub(super) fn all(model: &Model, module: &Ir) -> Vec<Convolution> {
    let shapes = shapes(module);
    let nodes = &model.graph.nodes;
    let mut users: HashMap<&str, Vec<usize>> = HashMap::new();
    for (k, node) in nodes.iter().enumerate() {
        for input in node.inputs.iter().flatten() {
            users.entry(input).or_default().push(k);
        }
    }
    for output in &model.graph.outputs {
        // A result of the network has a user more.
        users.entry(&output.name).or_default().push(nodes.len());
    }
    let is = |node: &Node, ops: &[&str]| node.domain.is_empty() && ops.contains(&&node.op_type[..]);
    let convolutions = nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| is(node, &["Conv"]));
    convolutions
        .filter_map(|(k, node)| {
            let shape = shapes.get(&node.title())?;
            let [_, inputs, rows, columns] = shape[..] else {
                return None;
            };
            let weights = model.graph.initializers.get(node.input(1)?)?.shape();
            let [outputs, _, h, w] = weights[..] else {
                return None;
            };
            let mut chain = vec![k];
            let mut last = node;
            while let [next] = users.get(last.output(0)?).map(Vec::as_slice).unwrap_or(&[])
                && let Some(behind) = nodes.get(*next)
                && is(behind, &BEHIND)
                && behind.input(0) == last.output(0)
            {
                chain.push(*next);
                last = behind;
            }
            let list = |name: &str| node.ints(name).ok().flatten().map(<[i64]>::to_vec);
            let further = ["pads", "dilations"].map(|name| list(name).unwrap_or_default());
            let form = Form {
                kernel: [h as i64, w as i64],
                strides: list("strides").unwrap_or_default(),
                further: further.to_vec(),
                side: [rows, columns],
                groups: node.int("group").ok().flatten().unwrap_or(1),
                inputs,
                outputs: outputs as i64,
                behind: chain[1..]
                    .iter()
                    .map(|k| nodes[*k].op_type.clone())
                    .collect(),
                bias: node.input(2).is_some(),
            };
            Some(Convolution {
                form,
                title: node.title(),
                shape: shape.clone(),
                nodes: chain,
            })
        })
        .collect()
}

impl Convolution {
    /// Writes a model of this convolution, and what is behind it, alone: its weights are those of the network.
    ///
    /// # Errors
    /// If a constant of it is computed from what is none, or a file cannot be read or written.
    pub(super) fn write(&self, model: &Path, network: &Model, to: &Path) -> Result<(), String> {
        let fail = |e: &dyn fmt::Display| format!("{}: {e}", model.display());
        let file = std::fs::read(model).map_err(|e| fail(&e))?;
        let mut proto = ModelProto::decode(&file[..]).map_err(|e| fail(&e))?;
        let graph = proto.graph.take().unwrap_or_default();
        let mut part = GraphProto {
            name: self.title.clone(),
            ..GraphProto::default()
        };
        let first = &graph.node[self.nodes[0]];
        let input = first.input.first().cloned().unwrap_or_default();
        let mut wanted: Vec<String> = Vec::new();
        let mut taken: Vec<usize> = Vec::new();
        for k in &self.nodes {
            let from = graph.node[*k].input.iter().skip(1);
            wanted.extend(from.filter(|name| !name.is_empty()).cloned());
        }
        // Constants, and the nodes that compute them.
        while let Some(name) = wanted.pop() {
            if part.initializer.iter().any(|c| c.name == name) {
                continue;
            }
            if let Some(constant) = graph.initializer.iter().find(|c| c.name == name) {
                let array = network.graph.initializers.get(&name);
                let array = array.ok_or_else(|| fail(&format!("'{name}' has no value")))?;
                part.initializer.push(TensorProto {
                    dims: constant.dims.clone(),
                    data_type: constant.data_type,
                    name,
                    raw_data: Some(array.data().clone()),
                    ..TensorProto::default()
                });
                continue;
            }
            let makes = |node: &NodeProto| node.output.contains(&name);
            let Some(k) = graph.node.iter().position(makes) else {
                return Err(fail(&format!("{}: '{name}' is no constant", self.title)));
            };
            if !taken.contains(&k) {
                taken.push(k);
                wanted.extend(graph.node[k].input.iter().cloned());
            }
        }
        taken.sort_unstable();
        taken.extend(&self.nodes);
        let last = &graph.node[*taken.last().unwrap_or(&self.nodes[0])];
        let output = last.output.first().cloned().unwrap_or_default();
        part.node = taken.into_iter().map(|k| graph.node[k].clone()).collect();
        let dims: Vec<Option<i64>> = self.shape.iter().map(|n| Some(*n)).collect();
        part.input.push(value(input, &dims));
        part.output.push(value(output, &[None; 4]));
        proto.graph = Some(part);
        std::fs::write(to, proto.encode_to_vec()).map_err(|e| format!("{}: {e}", to.display()))
    }
}

/// A value of `f32`; dimensions may be left open.
pub(super) fn value(name: String, dims: &[Option<i64>]) -> ValueInfoProto {
    let open = |k: usize| DimensionKind::Param(format!("{name}_{k}"));
    let dim = |(k, n): (usize, &Option<i64>)| DimensionProto {
        value: Some(n.map_or_else(|| open(k), DimensionKind::Value)),
    };
    let shape = TensorShapeProto {
        dim: dims.iter().enumerate().map(dim).collect(),
    };
    let tensor = TensorTypeProto {
        elem_type: F32.0,
        shape: Some(shape),
    };
    ValueInfoProto {
        r#type: Some(TypeProto {
            value: Some(TypeKind::Tensor(tensor)),
        }),
        name,
    }
}

/// `f32` in ONNX.
const F32: ElementType = ElementType(1);
