//! From arrays and messages to a file.

use std::path::Path;

use prost::Message;
use tir_data::{Array, Bytes, DataError, Staged};

use crate::ElementType;
use crate::proto::{self, attribute_type as kind};

/// Bytes that external data begin at a multiple of.
const ALIGN: usize = 64;

/// Constants of fewer bytes are never external: sizes and axes stay where readers look for them.
const SMALL: usize = 1024;

/// An array as a tensor of a name; its bytes are shared.
pub fn tensor(name: &str, array: &Array) -> proto::TensorProto {
    proto::TensorProto {
        name: name.to_string(),
        dims: array.shape().iter().map(|d| *d as i64).collect(),
        data_type: ElementType::of(array.dtype()).0,
        raw_data: Some(array.data().clone()),
        ..Default::default()
    }
}

/// A value of a known type.
pub fn value(name: &str, element: ElementType, shape: &[i64]) -> proto::ValueInfoProto {
    let dim = |n: &i64| proto::DimensionProto {
        value: Some(proto::DimensionKind::Value(*n)),
    };
    let shape = proto::TensorShapeProto {
        dim: shape.iter().map(dim).collect(),
    };
    proto::ValueInfoProto {
        name: name.to_string(),
        r#type: Some(proto::TypeProto {
            value: Some(proto::TypeKind::Tensor(proto::TensorTypeProto {
                elem_type: element.0,
                shape: Some(shape),
            })),
        }),
    }
}

/// An attribute that is an integer.
pub fn int(name: &str, i: i64) -> proto::AttributeProto {
    proto::AttributeProto {
        name: name.to_string(),
        r#type: kind::INT,
        i: Some(i),
        ..Default::default()
    }
}

/// An attribute that is a list of integers.
pub fn ints(name: &str, ints: &[i64]) -> proto::AttributeProto {
    proto::AttributeProto {
        name: name.to_string(),
        r#type: kind::INTS,
        ints: ints.to_vec(),
        ..Default::default()
    }
}

/// An attribute that is a float.
pub fn float(name: &str, f: f32) -> proto::AttributeProto {
    proto::AttributeProto {
        name: name.to_string(),
        r#type: kind::FLOAT,
        f: Some(f),
        ..Default::default()
    }
}

/// An attribute that is a string.
pub fn string(name: &str, text: &str) -> proto::AttributeProto {
    proto::AttributeProto {
        name: name.to_string(),
        r#type: kind::STRING,
        s: Some(Bytes::copy_from_slice(text.as_bytes())),
        ..Default::default()
    }
}

/// The bytes of a file.
pub fn encode(model: &proto::ModelProto) -> Vec<u8> {
    model.encode_to_vec()
}

/// Writes a model. If its constants have more bytes than `inline_bytes`, they go to `NAME.data` beside it as
/// external data: a file of this format has 2 GiB at most.
///
/// # Errors
/// If a file cannot be written.
pub fn save(
    mut model: proto::ModelProto,
    path: &Path,
    inline_bytes: usize,
) -> Result<(), DataError> {
    let mut beside = Vec::new();
    if let Some(graph) = &mut model.graph {
        let len = |tensor: &proto::TensorProto| tensor.raw_data.as_ref().map_or(0, Bytes::len);
        if graph.initializer.iter().map(len).sum::<usize>() > inline_bytes {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            beside = external(&mut graph.initializer, &format!("{name}.data"));
        }
    }
    let mut staged = Vec::new();
    if !beside.is_empty() {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(".data");
        staged.push(Staged::write_with(&path.with_file_name(name), |file| {
            for part in &beside {
                file.put(part)?;
            }
            Ok(())
        })?);
    }
    staged.push(Staged::write(path, &[&encode(&model)])?);
    // The model last: what it refers to is there.
    staged.into_iter().try_for_each(Staged::commit)
}

/// Makes large tensors external ones; gives the parts of the file.
fn external(tensors: &mut [proto::TensorProto], location: &str) -> Vec<Bytes> {
    let mut parts = Vec::new();
    let mut at = 0;
    for tensor in tensors {
        let Some(data) = tensor.raw_data.take_if(|data| data.len() >= SMALL) else {
            continue;
        };
        let entry = |key: &str, value: String| proto::StringStringEntryProto {
            key: key.to_string(),
            value,
        };
        tensor.data_location = 1;
        tensor.external_data = vec![
            entry("location", location.to_string()),
            entry("offset", at.to_string()),
            entry("length", data.len().to_string()),
        ];
        let gap = data.len().next_multiple_of(ALIGN) - data.len();
        at += data.len() + gap;
        parts.push(data);
        parts.push(Bytes::from_static(&[0; ALIGN]).slice(..gap));
    }
    parts
}
