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
        message.ends_with("4 nodes use 4 operators that cannot be imported"),
        "{message}"
    );
    let notes = errors[0].notes.iter();
    let ops: Vec<&str> = notes.filter_map(|n| n.message.split(':').next()).collect();
    assert_eq!(
        ops,
        [
            "Einsum",
            "NonMaxSuppression",
            "TopK",
            "com.example.FancyGate"
        ]
    );
}
