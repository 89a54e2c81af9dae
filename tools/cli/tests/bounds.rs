//! Lower bounds of whole networks on `npu.tir`: those that an independent program computes, multiply-adds by 256 a
//! cycle and bytes by 8, and those by windows.

mod common;

use common::{root, said};
use tir::workload::Workload;
use tir::{Ir, Name, SymbolTable};
use tir_accel::MachineInfo;
use tir_accel::bounds::Bounds;
use tir_support::networks;

/// A network's true bound and window bound in cycles.
fn check(name: &str, mut module: Ir, cycles: u64, window: u64) {
    let tool = tir_opt::stock();
    let machine = root().join("test/e2e/machines/npu.tir");
    let pipeline = format!("attach-machine{{file={}}}", machine.display());
    common::lower(&tool, &mut module, &pipeline).unwrap_or_else(|e| panic!("{name}: {e}"));
    let info = MachineInfo::attached(&module).expect("a machine");
    let main = SymbolTable::new(&module).get(Name::new("main"));
    let function = main.and_then(|op| module.child(op.id)).expect("@main");
    let work = Workload::count(function).expect("ops on tensors");
    assert_eq!(Workload::from_attr(work.to_attr()).as_ref(), Some(&work));
    let bounds = Bounds::of(&work, &info);
    assert_eq!((bounds.cycles, bounds.window), (cycles, window), "{name}");
}

#[test]
fn bounds_of_a_file() {
    tir_opt::stock().load();
    let module = tir_translate::import_onnx(&root().join("test/e2e/models/cnn.onnx"));
    let module = module.unwrap_or_else(|e| panic!("{}", said(&e)));
    check("cnn", module, 90_653, 90_653);
}

#[test]
fn bounds_are_those_of_the_network() {
    tir_opt::stock().load();
    let squeezenet = networks::squeezenet(1);
    check("squeezenet", squeezenet, 1_363_875, 1_363_875);
    let mobilenet = networks::mobilenet_v2(1);
    check("mobilenet_v2", mobilenet, 1_819_172, 2_998_868);
    check("resnet18", networks::resnet18(1), 7_086_224, 9_264_692);
}
