//! Building of models for the tests, message by message.
#![allow(dead_code)] // each test program uses its part

use std::path::{Path, PathBuf};

use prost::Message;
use tir_data::DataError;
use tir_onnx::{Model, decode, proto};

pub(crate) fn committed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../test/e2e")
        .join(name)
}

pub(crate) fn node(name: &str, op: &str, inputs: &[&str], outputs: &[&str]) -> proto::NodeProto {
    proto::NodeProto {
        name: name.into(),
        op_type: op.into(),
        input: inputs.iter().map(|s| s.to_string()).collect(),
        output: outputs.iter().map(|s| s.to_string()).collect(),
        ..Default::default()
    }
}

pub(crate) fn value(name: &str) -> proto::ValueInfoProto {
    proto::ValueInfoProto {
        name: name.into(),
        ..Default::default()
    }
}

/// A graph from x to y.
pub(crate) fn graph(nodes: Vec<proto::NodeProto>) -> proto::GraphProto {
    proto::GraphProto {
        node: nodes,
        input: vec![value("x")],
        output: vec![value("y")],
        ..Default::default()
    }
}

pub(crate) fn model(graph: proto::GraphProto) -> proto::ModelProto {
    proto::ModelProto {
        ir_version: 8,
        opset_import: vec![proto::OperatorSetIdProto {
            domain: "ai.onnx".into(),
            version: 17,
        }],
        graph: Some(graph),
        ..Default::default()
    }
}

pub(crate) fn read(graph: proto::GraphProto) -> Result<Model, DataError> {
    decode(model(graph).encode_to_vec().into(), None)
}

#[track_caller]
pub(crate) fn refused(graph: proto::GraphProto, expected: &str) {
    assert_eq!(read(graph).unwrap_err().to_string(), expected);
}

/// A graph with the initializer `t`.
pub(crate) fn with_tensor(tensor: proto::TensorProto) -> proto::GraphProto {
    let initializer = vec![proto::TensorProto {
        name: "t".into(),
        ..tensor
    }];
    proto::GraphProto {
        initializer,
        ..graph(vec![node("", "Relu", &["x"], &["y"])])
    }
}
