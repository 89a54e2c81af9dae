//! The checked model: committed files, names and order, and what broken ones are told.

mod common;

use std::path::Path;

use common::{committed, graph, model, node, read, refused, value, with_tensor};
use prost::Message;
use tir_data::{Array, Bytes, DType, npy};
use tir_onnx::{Dim, ValueType, decode, load, proto};

#[test]
fn the_committed_network_is_read() {
    let path = committed("models/cnn.onnx");
    let model = load(&path).unwrap();
    assert_eq!(model.path.as_ref(), Some(&path));
    assert_eq!(
        (model.ir_version, model.opset[""], model.producer.as_str()),
        (8, 17, "tir make_models.py")
    );
    let graph = &model.graph;
    assert_eq!(graph.inputs.len(), 1);
    assert_eq!(graph.inputs[0].ty.to_string(), "1x3x32x32xf32");
    assert_eq!(graph.outputs[0].ty.to_string(), "1x10xf32");
    assert_eq!(
        graph.nodes.iter().filter(|n| n.op_type == "Conv").count(),
        8
    );
    let conv = graph.nodes.iter().find(|n| n.name == "conv3").unwrap();
    assert_eq!(conv.label(), "node 'conv3' (Conv)");
    assert_eq!(conv.ints("strides").unwrap(), Some(&[2, 2][..]));
    assert_eq!(conv.ints("dilations").unwrap(), None);
    let w = &graph.initializers[conv.input(1).unwrap()];
    assert_eq!((w.dtype(), w.shape()), (DType::F32, &[32, 48, 3, 3][..]));
    let x = npy::read(&committed("models/cnn.in_0.npy")).unwrap();
    let ValueType::Tensor(ty) = &graph.inputs[0].ty else {
        panic!()
    };
    assert_eq!(ty.static_shape().as_deref(), Some(x.shape()));
}

#[test]
fn every_committed_case_is_read() {
    let mut count = 0;
    for entry in std::fs::read_dir(committed("ops")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "onnx") {
            let model = load(&path).unwrap();
            for (values, what) in [(&model.graph.inputs, "in"), (&model.graph.outputs, "out")] {
                for (k, value) in values.iter().enumerate() {
                    let array = npy::read(&path.with_extension(format!("{what}_{k}.npy"))).unwrap();
                    let ValueType::Tensor(ty) = &value.ty else {
                        panic!("{}", path.display())
                    };
                    assert_eq!(
                        ty.static_shape().as_deref(),
                        Some(array.shape()),
                        "{}",
                        path.display()
                    );
                    assert_eq!(ty.element.dtype(), Some(array.dtype()));
                }
            }
            count += 1;
        }
    }
    assert!(count >= 100, "{count} cases");
}

#[test]
fn ops_of_other_domains_are_read() {
    let model = load(&committed("models/unsupported.onnx")).unwrap();
    let ops: Vec<String> = model.graph.nodes.iter().map(|n| n.op()).collect();
    assert_eq!(
        ops,
        [
            "Relu",
            "TopK",
            "Einsum",
            "com.example.FancyGate",
            "NonMaxSuppression"
        ]
    );
    assert_eq!(model.opset["com.example"], 1);
    let gate = &model.graph.nodes[3];
    assert_eq!(
        (
            gate.float("sharpness").unwrap(),
            gate.string("mode").unwrap()
        ),
        (Some(2.5), Some("soft"))
    );
    assert_eq!(gate.only_attributes(&["mode", "sharpness"]), Ok(()));
    let error = gate.only_attributes(&["mode"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "node 'gate' (com.example.FancyGate): attribute 'sharpness' is not known for this op"
    );
    assert_eq!(model.graph.outputs[2].ty.to_string(), "selectedx3xi64");
    let ValueType::Tensor(ty) = &model.graph.outputs[2].ty else {
        panic!()
    };
    assert_eq!(
        ty.shape,
        Some(vec![Dim::Param("selected".into()), Dim::Known(3)])
    );
    assert_eq!(ty.static_shape(), None);
}

#[test]
fn nodes_are_sorted_if_they_can_be() {
    let nodes = vec![
        node("c", "Add", &["a", "b"], &["y"]),
        node("b", "Relu", &["a"], &["b"]),
        node("a", "Relu", &["x"], &["a"]),
    ];
    let names: Vec<String> = read(graph(nodes))
        .unwrap()
        .graph
        .nodes
        .into_iter()
        .map(|n| n.name)
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
    let cycle = vec![
        node("first", "Relu", &["x"], &["f"]),
        node("a", "Add", &["f", "c"], &["a"]),
        node("", "Relu", &["a"], &["b"]),
        node("c", "Relu", &["b"], &["c"]),
        node("after", "Relu", &["c"], &["y"]),
    ];
    refused(
        graph(cycle),
        "node #2 (Relu): needs its own result: node #2 (Relu) → node 'c' (Relu) → node 'a' (Add) → node #2 (Relu)",
    );
    refused(
        graph(vec![node("a", "Relu", &["y"], &["y"])]),
        "node 'a' (Relu): needs its own result: node 'a' (Relu) → node 'a' (Relu)",
    );
}

#[test]
fn names_are_defined_once() {
    let relu = |i: &str, o: &str| node("", "Relu", &[i], &[o]);
    refused(
        graph(vec![relu("z", "y")]),
        "node #0 (Relu): 'z' is used, but nothing defines it",
    );
    refused(
        graph(vec![]),
        "the graph's outputs: 'y' is used, but nothing defines it",
    );
    refused(
        graph(vec![relu("x", "y"), relu("x", "y")]),
        "node #1 (Relu): result 'y' is also a result of node #0 (Relu)",
    );
    refused(
        graph(vec![relu("x", "x")]),
        "node #0 (Relu): result 'x' is also an input of the graph",
    );
    refused(
        with_t(graph(vec![relu("x", "t")])),
        "node #0 (Relu): result 't' is also an initializer",
    );
    let mut twice = graph(vec![relu("x", "y")]);
    twice.input.push(value("x"));
    refused(twice, "input 'x': is listed twice");
    let mut nameless = graph(vec![relu("x", "y")]);
    nameless.input.push(value(""));
    refused(nameless, "input #1: has no name");
    refused(
        graph(vec![node("n", "", &["x"], &["y"])]),
        "node 'n' (?): has no op_type",
    );
    // Omitted operands are no names.
    let model = read(graph(vec![node("", "Clip", &["x", "", "x"], &["y", ""])])).unwrap();
    assert_eq!(
        model.graph.nodes[0].inputs,
        [Some("x".into()), None, Some("x".into())]
    );
    assert_eq!(
        (
            model.graph.nodes[0].input(1),
            model.graph.nodes[0].output(7)
        ),
        (None, None)
    );
}

/// The graph with an initializer `t` of 1.
fn with_t(mut graph: proto::GraphProto) -> proto::GraphProto {
    let one = proto::TensorProto {
        data_type: 1,
        float_data: vec![1.0],
        ..Default::default()
    };
    graph.initializer = with_tensor(one).initializer;
    graph
}

#[test]
fn an_input_with_an_initializer_is_a_constant() {
    let mut g = with_t(graph(vec![node("", "Add", &["x", "t"], &["y"])]));
    g.input.push(value("t"));
    let model = read(g).unwrap();
    assert_eq!(model.graph.inputs.len(), 1);
    assert_eq!(model.graph.initializers["t"], Array::scalar(1f32));
}

#[test]
fn the_frame_is_checked() {
    let fail = |model: proto::ModelProto| {
        decode(model.encode_to_vec().into(), None)
            .unwrap_err()
            .to_string()
    };
    let good = || model(graph(vec![node("", "Relu", &["x"], &["y"])]));
    let import = |domain: &str, version| proto::OperatorSetIdProto {
        domain: domain.into(),
        version,
    };
    assert_eq!(
        fail(proto::ModelProto {
            ir_version: 0,
            ..good()
        }),
        "ir_version: is 0, expected at least 1"
    );
    assert_eq!(
        fail(proto::ModelProto {
            graph: None,
            ..good()
        }),
        "graph: is missing"
    );
    let opset = |imports| {
        fail(proto::ModelProto {
            opset_import: imports,
            ..good()
        })
    };
    assert_eq!(
        opset(vec![import("com.a", 1)]),
        "opset_import: has no version for ONNX's own domain"
    );
    assert_eq!(
        opset(vec![import("", -1)]),
        "opset_import: version of domain '' is -1, expected at least 1"
    );
    assert_eq!(
        opset(vec![import("", 17), import("ai.onnx", 18)]),
        "opset_import: has domain '' twice, with different versions"
    );
    let mut sparse = good();
    sparse.graph.as_mut().unwrap().sparse_initializer = vec![Bytes::new()];
    assert_eq!(
        fail(sparse),
        "graph: has sparse initializers, which cannot be read"
    );
    let error = decode(Bytes::from_static(b"\x08\x08\x3a\x05abc"), None).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("byte 4: is no ONNX model from here on: "),
        "{error}"
    );
    let empty = decode(Bytes::new(), None).unwrap_err();
    assert_eq!(empty.to_string(), "ir_version: is 0, expected at least 1");
    assert!(
        load(Path::new("none.onnx"))
            .unwrap_err()
            .to_string()
            .starts_with("none.onnx: cannot open")
    );
}
