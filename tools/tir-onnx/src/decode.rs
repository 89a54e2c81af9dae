//! From bytes to the checked model.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use prost::Message;
use tir_data::{Array, Bytes, DataError};

use crate::model::label;
use crate::order::{self, Free};
use crate::proto::{self, attribute_type as kind};
use crate::tensor::Tensors;
use crate::{
    AttributeValue, Dim, ElementType, Function, Graph, Model, Node, TensorType, Value, ValueType,
};

/// Reads a `.onnx` file by mapping it; weights share the map.
///
/// # Errors
/// If it cannot be read or is no valid model, with the file and the byte, node or tensor.
pub fn load(path: &Path) -> Result<Model, DataError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let model = tir_data::map_file(path).and_then(|file| decode(file, Some(folder)));
    let mut model = model.map_err(|e| e.in_file(path))?;
    model.path = Some(path.to_path_buf());
    Ok(model)
}

/// Reads the bytes of a `.onnx` file. External data is looked for in `folder`; without one, a
/// model that has some is refused.
///
/// # Errors
/// If they are no valid model, with the byte, node or tensor.
pub fn decode(file: Bytes, folder: Option<&Path>) -> Result<Model, DataError> {
    let proto = messages(file)?;
    if proto.ir_version < 1 {
        return Err(DataError::at_part(
            "ir_version",
            format!("is {}, expected at least 1", proto.ir_version),
        ));
    }
    let opset = read_opset(&proto.opset_import)?;
    if !opset.contains_key("") {
        return Err(DataError::at_part(
            "opset_import",
            "has no version for ONNX's own domain",
        ));
    }
    let graph = proto
        .graph
        .ok_or_else(|| DataError::at_part("graph", "is missing"))?;
    let mut tensors = Tensors::new(folder);
    let (graph, free) = read_graph(graph, &mut tensors)?;
    // The alphabetically first, so that the message does not depend on hash order.
    if let Some((name, user)) = free.into_iter().min() {
        return Err(DataError::at_part(
            user,
            format!("'{name}' is used, but nothing defines it"),
        ));
    }
    let producer = format!("{} {}", proto.producer_name, proto.producer_version)
        .trim()
        .to_string();
    let mut functions = Vec::with_capacity(proto.functions.len());
    for function in proto.functions {
        functions.push(read_function(function, &mut tensors)?);
    }
    Ok(Model {
        path: None,
        ir_version: proto.ir_version,
        opset,
        producer,
        graph,
        functions,
    })
}

/// The version of each domain.
fn read_opset(imports: &[proto::OperatorSetIdProto]) -> Result<BTreeMap<String, i64>, DataError> {
    let mut opset = BTreeMap::new();
    for import in imports {
        let domain = domain(&import.domain);
        if import.version < 1 {
            let why = format!(
                "version of domain '{domain}' is {}, expected at least 1",
                import.version
            );
            return Err(DataError::at_part("opset_import", why));
        }
        if opset
            .insert(domain.to_string(), import.version)
            .is_some_and(|v| v != import.version)
        {
            let why = format!("has domain '{domain}' twice, with different versions");
            return Err(DataError::at_part("opset_import", why));
        }
    }
    Ok(opset)
}

fn read_function(
    proto: proto::FunctionProto,
    tensors: &mut Tensors<'_>,
) -> Result<Function, DataError> {
    let part = format!("function '{}'", proto.name);
    let inside = |error: DataError| {
        let place = error.place.as_ref().map(|place| format!("{part}: {place}"));
        DataError::at_part(place.unwrap_or_else(|| part.clone()), error.message.clone())
    };
    if proto.name.is_empty() {
        return Err(DataError::at_part("function", "has no name"));
    }
    let opset = read_opset(&proto.opset_import).map_err(inside)?;
    let named = |names: Vec<String>| {
        let value = |name| proto::ValueInfoProto {
            name,
            ..Default::default()
        };
        names.into_iter().map(value).collect()
    };
    let body = proto::GraphProto {
        name: proto.name.clone(),
        node: proto.node,
        input: named(proto.input),
        output: named(proto.output),
        ..Default::default()
    };
    let (graph, free) = read_graph(body, tensors).map_err(inside)?;
    if let Some((name, user)) = free.into_iter().min() {
        let why = format!("'{name}' is used, but nothing defines it");
        return Err(inside(DataError::at_part(user, why)));
    }
    let mut defaults = BTreeMap::new();
    for attribute in proto.attribute_proto {
        let name = attribute.name.clone();
        let value = read_attribute(attribute, tensors, &mut BTreeSet::new()).map_err(inside)?;
        defaults.insert(name, value);
    }
    Ok(Function {
        name: proto.name,
        domain: domain(&proto.domain).to_string(),
        overload: proto.overload,
        opset,
        attributes: proto.attribute,
        defaults,
        graph,
    })
}

/// The messages of a file as they are: what they say is not checked.
///
/// # Errors
/// If the bytes are no messages, with the first that is none.
pub fn messages(file: Bytes) -> Result<proto::ModelProto, DataError> {
    let len = file.len();
    let mut rest = file;
    proto::ModelProto::decode(&mut rest).map_err(|e| {
        let message = e.to_string();
        let message = message
            .strip_prefix("failed to decode Protobuf message: ")
            .unwrap_or(&message);
        DataError::at_byte(
            len - rest.len(),
            format!("is no ONNX model from here on: {message}"),
        )
    })
}

/// ONNX's own domain has two names.
fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

fn read_graph(
    proto: proto::GraphProto,
    tensors: &mut Tensors<'_>,
) -> Result<(Graph, Free), DataError> {
    if !proto.sparse_initializer.is_empty() {
        return Err(DataError::at_part(
            "graph",
            "has sparse initializers, which cannot be read",
        ));
    }
    let mut initializers: BTreeMap<String, Array> = BTreeMap::new();
    for (k, tensor) in proto.initializer.into_iter().enumerate() {
        let part = match tensor.name.as_str() {
            "" => format!("initializer #{k}"),
            name => format!("initializer '{name}'"),
        };
        let array = tensors.read(&tensor).map_err(|e| e.in_part(&part))?;
        if tensor.name.is_empty() {
            return Err(DataError::at_part(part, "has no name"));
        }
        if initializers.insert(tensor.name, array).is_some() {
            return Err(DataError::at_part(part, "is given twice"));
        }
    }
    let mut value_types = BTreeMap::new();
    let mut values = |infos: Vec<proto::ValueInfoProto>, what: &str| {
        let mut values = Vec::with_capacity(infos.len());
        for (k, info) in infos.into_iter().enumerate() {
            if info.name.is_empty() {
                return Err(DataError::at_part(format!("{what} #{k}"), "has no name"));
            }
            let value = Value {
                name: info.name,
                ty: read_type(info.r#type),
            };
            if value.ty != ValueType::Unknown {
                value_types.insert(value.name.clone(), value.ty.clone());
            }
            values.push(value);
        }
        Ok(values)
    };
    values(proto.value_info, "value_info")?;
    let mut inputs = values(proto.input, "input")?;
    let outputs = values(proto.output, "output")?;
    inputs.retain(|v| !initializers.contains_key(&v.name));

    let mut nodes = Vec::with_capacity(proto.node.len());
    let mut captures = Vec::with_capacity(proto.node.len());
    for (index, node) in proto.node.into_iter().enumerate() {
        let (node, captured) = read_node(node, index, tensors)?;
        nodes.push(node);
        captures.push(captured);
    }
    let mut graph = Graph {
        name: proto.name,
        inputs,
        outputs,
        initializers,
        nodes,
        value_types,
    };
    let free = order::resolve(&mut graph, &captures)?;
    Ok((graph, free))
}

fn read_type(proto: Option<proto::TypeProto>) -> ValueType {
    match proto.and_then(|t| t.value) {
        None => ValueType::Unknown,
        Some(proto::TypeKind::Tensor(tensor)) => {
            let dim = |d: proto::DimensionProto| match d.value {
                // Some exporters write ? for each dimension they do not know.
                Some(proto::DimensionKind::Param(name)) if !name.is_empty() && name != "?" => {
                    Dim::Param(name)
                }
                // Some exporters write -1 for a dimension they do not know.
                Some(proto::DimensionKind::Value(n)) => {
                    usize::try_from(n).map_or(Dim::Unknown, Dim::Known)
                }
                _ => Dim::Unknown,
            };
            let shape = tensor
                .shape
                .map(|shape| shape.dim.into_iter().map(dim).collect());
            ValueType::Tensor(TensorType {
                element: ElementType(tensor.elem_type),
                shape,
            })
        }
        Some(proto::TypeKind::Sequence(_)) => ValueType::Other("sequence"),
        Some(proto::TypeKind::Map(_)) => ValueType::Other("map"),
        Some(proto::TypeKind::SparseTensor(_)) => ValueType::Other("sparse tensor"),
        Some(proto::TypeKind::Optional(_)) => ValueType::Other("optional"),
    }
}

/// The node, and the names that the graphs in its attributes need from around it.
fn read_node(
    proto: proto::NodeProto,
    index: usize,
    tensors: &mut Tensors<'_>,
) -> Result<(Node, BTreeSet<String>), DataError> {
    let optional = |names: Vec<String>| {
        names
            .into_iter()
            .map(|n| Some(n).filter(|n| !n.is_empty()))
            .collect()
    };
    let mut node = Node {
        index,
        name: proto.name,
        domain: domain(&proto.domain).to_string(),
        op_type: proto.op_type,
        overload: proto.overload,
        inputs: optional(proto.input),
        outputs: optional(proto.output),
        attributes: BTreeMap::new(),
    };
    if node.op_type.is_empty() {
        return Err(DataError::at_part(
            label(&node.name, index, "?"),
            "has no op_type",
        ));
    }
    let mut captured = BTreeSet::new();
    for attribute in proto.attribute {
        let name = attribute.name.clone();
        let value = read_attribute(attribute, tensors, &mut captured).map_err(|e| {
            // Within the node's graph or tensor, the inner place says where.
            let inner = e.place.as_ref().map_or(String::new(), |p| format!("{p}: "));
            node.error(format!("attribute '{name}': {inner}{}", e.message))
        })?;
        if node.attributes.insert(name.clone(), value).is_some() {
            return Err(node.error(format!("attribute '{name}' is given twice")));
        }
    }
    Ok((node, captured))
}

fn read_attribute(
    proto: proto::AttributeProto,
    tensors: &mut Tensors<'_>,
    captured: &mut BTreeSet<String>,
) -> Result<AttributeValue, DataError> {
    if !proto.ref_attr_name.is_empty() {
        return Ok(AttributeValue::Reference(proto.ref_attr_name));
    }
    let stated = match proto.r#type {
        kind::UNDEFINED => guess_kind(&proto),
        stated => stated,
    };
    Ok(match stated {
        kind::FLOAT => AttributeValue::Float(proto.f.unwrap_or_default()),
        kind::INT => AttributeValue::Int(proto.i.unwrap_or_default()),
        kind::STRING => {
            let bytes = proto.s.unwrap_or_default();
            match std::str::from_utf8(&bytes) {
                Ok(text) => AttributeValue::String(text.to_string()),
                Err(_) => AttributeValue::Bytes(bytes),
            }
        }
        kind::FLOATS => AttributeValue::Floats(proto.floats),
        kind::INTS => AttributeValue::Ints(proto.ints),
        kind::STRINGS => {
            let texts = proto
                .strings
                .iter()
                .map(|b| std::str::from_utf8(b).map(str::to_string));
            match texts.collect() {
                Ok(texts) => AttributeValue::Strings(texts),
                Err(_) => AttributeValue::Other("strings that are not UTF-8".into()),
            }
        }
        kind::TENSOR => {
            let tensor = proto
                .t
                .ok_or_else(|| DataError::new("is a tensor, but holds none"))?;
            let element = ElementType(tensor.data_type);
            // Not an error here: the op may be one that the importer lists as unsupported anyway.
            if element.dtype().is_none() {
                return Ok(AttributeValue::Other(format!(
                    "a tensor of element type {element}"
                )));
            }
            AttributeValue::Tensor(tensors.read(&tensor)?)
        }
        kind::GRAPH => {
            let graph = proto
                .g
                .ok_or_else(|| DataError::new("is a graph, but holds none"))?;
            let (graph, free) = read_graph(*graph, tensors)?;
            captured.extend(free.into_keys());
            AttributeValue::Graph(Box::new(graph))
        }
        kind::TENSORS => AttributeValue::Other("tensors".into()),
        kind::GRAPHS => AttributeValue::Other("graphs".into()),
        kind::SPARSE_TENSOR => AttributeValue::Other("a sparse tensor".into()),
        kind::SPARSE_TENSORS => AttributeValue::Other("sparse tensors".into()),
        kind::TYPE_PROTO => AttributeValue::Other("a type".into()),
        kind::TYPE_PROTOS => AttributeValue::Other("types".into()),
        other => return Err(DataError::new(format!("type is {other}, expected 1 to 14"))),
    })
}

/// The kind by the field that is filled: files of the first format version state none.
fn guess_kind(proto: &proto::AttributeProto) -> i32 {
    let fields = [
        (proto.f.is_some(), kind::FLOAT),
        (proto.i.is_some(), kind::INT),
        (proto.s.is_some(), kind::STRING),
        (proto.t.is_some(), kind::TENSOR),
        (proto.g.is_some(), kind::GRAPH),
        (!proto.floats.is_empty(), kind::FLOATS),
        (!proto.strings.is_empty(), kind::STRINGS),
    ];
    fields
        .into_iter()
        .find(|(filled, _)| *filled)
        .map_or(kind::INTS, |(_, kind)| kind)
}
