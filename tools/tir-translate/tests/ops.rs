//! Import, and evaluation at the graph level, against ONNX Runtime's answers.

mod common;

use common::{check_networks, check_ops, folder};

#[test]
fn single_ops_agree_with_onnx_runtime() {
    check_ops(|_| Ok(()));
}

#[test]
fn networks_agree_with_onnx_runtime() {
    check_networks(|_| Ok(()));
}

#[test]
fn all_unsupported_ops_are_listed_at_once() {
    let model = folder("models/unsupported.onnx");
    let errors = tir_translate::import_onnx(&model).err().unwrap();
    assert_eq!(errors.len(), 1);
    let message = &errors[0].message;
    assert!(
        message.ends_with("2 nodes use 2 operators that cannot be imported"),
        "{message}"
    );
    let notes = errors[0].notes.iter();
    let notes: Vec<&str> = notes.map(|n| n.message.as_str()).collect();
    assert_eq!(
        notes,
        [
            "NonMaxSuppression has as many results as data say: sizes are known before a program runs here: 1 node, 'nms'",
            "com.example.FancyGate: 1 node, 'gate'"
        ]
    );
}

#[test]
fn domains_that_are_not_read_are_refused_with_the_reason() {
    let mut model = tir_onnx::load(&folder("ops/relu.onnx")).unwrap();
    model.graph.nodes[0].domain = "ai.onnx.ml".to_string();
    model.graph.nodes[0].op_type = "Scaler".to_string();
    let errors = tir_translate::import_model(&model).err().unwrap();
    let note = &errors[0].notes[0].message;
    assert!(
        note.starts_with("ai.onnx.ml.Scaler is of the domain of decision trees, scalers"),
        "{note}"
    );
    assert!(note.ends_with("1 node, 'op'"), "{note}");
}

#[test]
fn versions_that_are_not_read_are_refused_by_name() {
    let read = |name: &str, opset: i64| {
        let mut model = tir_onnx::load(&folder("ops").join(name)).unwrap();
        model.opset.insert(String::new(), opset);
        tir_translate::import_model(&model)
    };
    let errors = read("softmax_opset11.onnx", 99).err().unwrap();
    let message = &errors[0].message;
    assert!(
        message.ends_with("the model is of opset 99, expected 1 to 28"),
        "{message}"
    );
    let errors = read("upsample_opset9.onnx", 10).err().unwrap();
    assert_eq!(
        errors[0].notes[0].message,
        "Upsample is not supported in opset 10, only in 7 to 9: 1 node, 'op'"
    );
    // The attribute of one version is no attribute of another.
    let errors = read("squeeze_opset11.onnx", 13).err().unwrap();
    let message = &errors[0].message;
    assert!(message.contains("node 'op' (Squeeze)"), "{message}");
    assert!(message.contains("attribute 'axes'"), "{message}");
    // The same file means something else by its version.
    let softmax = |opset| {
        let module = read("softmax_opset11.onnx", opset).unwrap();
        tir_text::print(&module, &tir_text::PrintOptions::default())
    };
    assert!(softmax(12).contains("graph.reshape"));
    assert!(!softmax(13).contains("graph.reshape"));
}
