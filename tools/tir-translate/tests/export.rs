//! Models that are imported, exported and imported again, against ONNX Runtime's answers to the first ones.

mod common;

use std::cell::Cell;

use common::{check_networks, check_ops};
use tir::{PassManager, Pipeline};
use tir_convert::{FoldQdq, FuseGraph};
use tir_core::Ir;

/// What the models of `test/e2e/ops` have that ONNX has no form for: zero points that are subtracted first.
const WIDE: &str = "ONNX convolves integers of 8 bits, not i32";

/// What is a loop or a branch of the program, and not exported: where what is in a branch may stop the program, and where tables would
/// be large.
const CONTROL: [&str; 3] = [
    "'tensor.extract' cannot be exported to ONNX: ONNX has no i1",
    "'tensor.empty' cannot be exported to ONNX: is no operator on tensors",
    "'loop.for' cannot be exported to ONNX: there is no operator of ONNX for it",
];

fn again(ir: &mut Ir) -> Result<(), String> {
    let model = tir_translate::export_onnx(ir, None);
    let model = model.map_err(|errors| errors[0].message.clone())?;
    let bytes = tir_onnx::write::encode(&model);
    let model = tir_onnx::decode(bytes.into(), None).map_err(|e| e.to_string())?;
    *ir = tir_translate::import_model(&model).map_err(|errors| errors[0].message.clone())?;
    Ok(())
}

#[test]
fn single_ops_are_the_same_after_a_round_trip() {
    let (wide, control) = (Cell::new(0), Cell::new(0));
    check_ops(|ir| match again(ir) {
        Err(why) if why.ends_with(WIDE) => {
            wide.set(wide.get() + 1);
            Ok(())
        }
        Err(why) if CONTROL.contains(&&why[..]) => {
            control.set(control.get() + 1);
            Ok(())
        }
        done => done,
    });
    assert_eq!((wide.get(), control.get()), (2, 6));
}

#[test]
fn networks_are_the_same_after_passes_and_a_round_trip() {
    check_networks(|ir| {
        let mut pipeline = Pipeline::new();
        pipeline.add(FoldQdq::default());
        pipeline.add(FuseGraph::default());
        let done = PassManager::new(pipeline).run(ir).into_result();
        done.map_err(|errors| errors[0].message.clone())?;
        again(ir)
    });
}
