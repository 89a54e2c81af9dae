//! Attributes: typed access, graphs within nodes, and what broken ones are told.

mod common;

use common::{graph, model, node, read, refused, value};
use prost::Message;
use tir_data::{Bytes, DataError};
use tir_onnx::proto::{self, attribute_type as kind};
use tir_onnx::{AttributeValue, decode};

#[test]
fn attributes_are_typed() {
    let mut n = node("conv1", "Conv", &["x"], &["y"]);
    let named = |name: &str| proto::AttributeProto {
        name: name.into(),
        ..Default::default()
    };
    n.attribute = vec![
        proto::AttributeProto {
            r#type: kind::FLOAT,
            f: Some(1.5),
            ..named("strides")
        },
        proto::AttributeProto {
            ints: vec![1, -2],
            ..named("guessed")
        },
        proto::AttributeProto {
            r#type: kind::FLOATS,
            ..named("none")
        },
        proto::AttributeProto {
            r#type: kind::STRING,
            s: Some(Bytes::from_static(b"\xff")),
            ..named("binary")
        },
        proto::AttributeProto {
            r#type: kind::STRINGS,
            strings: vec![Bytes::from_static(b"a")],
            ..named("words")
        },
        proto::AttributeProto {
            r#type: kind::TENSOR,
            t: Some(Box::new(proto::TensorProto {
                data_type: 8,
                ..Default::default()
            })),
            ..named("texts")
        },
        proto::AttributeProto {
            r#type: kind::TYPE_PROTO,
            ..named("ty")
        },
    ];
    let read_node = |n: &proto::NodeProto| Ok(read(graph(vec![n.clone()]))?.graph.nodes.remove(0));
    let conv = read_node(&n).unwrap();
    let error = conv.ints("strides").unwrap_err();
    assert_eq!(
        error.to_string(),
        "node 'conv1' (Conv): attribute 'strides' is a float, expected ints"
    );
    assert_eq!(conv.ints("guessed").unwrap(), Some(&[1, -2][..]));
    assert_eq!(conv.floats("none").unwrap(), Some(&[][..]));
    assert_eq!(conv.strings("words").unwrap(), Some(&["a".to_string()][..]));
    assert!(
        conv.string("binary")
            .unwrap_err()
            .message
            .ends_with("is a string that is not UTF-8, expected a string")
    );
    assert!(
        conv.tensor("texts")
            .unwrap_err()
            .message
            .ends_with("is a tensor of element type string, expected a tensor")
    );
    assert!(
        conv.int("ty")
            .unwrap_err()
            .message
            .ends_with("is a type, expected an int")
    );
    assert_eq!(
        conv.missing("to").to_string(),
        "node 'conv1' (Conv): attribute 'to' is missing"
    );
    let mut check = |a: proto::AttributeProto, expected: &str| {
        n.attribute.push(a);
        let error: DataError = read_node(&n).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("node 'conv1' (Conv): attribute {expected}")
        );
        n.attribute.pop();
    };
    check(
        proto::AttributeProto {
            r#type: 99,
            ..named("odd")
        },
        "'odd': type is 99, expected 1 to 14",
    );
    check(
        proto::AttributeProto {
            r#type: kind::TENSOR,
            ..named("odd")
        },
        "'odd': is a tensor, but holds none",
    );
    check(named("words"), "'words' is given twice");
    let short = Some(Box::new(proto::TensorProto {
        data_type: 7,
        dims: vec![2],
        ..Default::default()
    }));
    check(
        proto::AttributeProto {
            r#type: kind::TENSOR,
            t: short,
            ..named("value")
        },
        "'value': 0 bytes of data, expected 16 for 2xi64",
    );
}

#[test]
fn attribute_kinds_have_names() {
    assert_eq!(AttributeValue::Int(1).kind(), "an int");
    assert_eq!(AttributeValue::Other("types".into()).kind(), "types");
}

/// A node with a graph that yields `inner_uses` through a Relu.
fn with_body(inner_uses: &str) -> proto::NodeProto {
    let body = proto::GraphProto {
        node: vec![node("inner", "Relu", &[inner_uses], &["b"])],
        output: vec![value("b")],
        ..Default::default()
    };
    let mut n = node("if", "If", &["x"], &["y"]);
    n.attribute = vec![proto::AttributeProto {
        name: "body".into(),
        r#type: kind::GRAPH,
        g: Some(Box::new(body)),
        ..Default::default()
    }];
    n
}

#[test]
fn inner_graphs_see_the_graphs_around_them() {
    let model = read(graph(vec![
        with_body("late"),
        node("make", "Relu", &["x"], &["late"]),
    ]))
    .unwrap();
    let names: Vec<&str> = model.graph.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["make", "if"], "a captured value orders nodes too");
    assert_eq!(
        model.graph.nodes[1].graph("body").unwrap().unwrap().nodes[0].name,
        "inner"
    );
    refused(
        graph(vec![with_body("late")]),
        "node 'if' (If): 'late' is used, but nothing defines it",
    );
    refused(
        graph(vec![with_body("b")]),
        "node 'if' (If): attribute 'body': node 'inner' (Relu): needs its own result: node 'inner' (Relu) → node 'inner' (Relu)",
    );
}

#[test]
fn deep_nesting_is_an_error() {
    let mut g = proto::GraphProto::default();
    for _ in 0..10_000 {
        let mut n = node("n", "If", &[], &[]);
        n.attribute = vec![proto::AttributeProto {
            name: "a".into(),
            r#type: kind::GRAPH,
            g: Some(Box::new(g)),
            ..Default::default()
        }];
        g = proto::GraphProto {
            node: vec![n],
            ..Default::default()
        };
        if g.encoded_len() > 20_000 {
            break;
        }
    }
    let error = decode(model(g).encode_to_vec().into(), None).unwrap_err();
    assert!(error.message.contains("recursion limit"), "{error}");
    assert!(matches!(error.place, Some(tir_data::ErrorPlace::Byte(_))));
}
