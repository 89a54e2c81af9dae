//! Lower bounds of whole networks on `npu.tir`: those that an independent program computes from the
//! ONNX files, multiply-adds by 256 a cycle and bytes by 8, and those by windows.

mod common;

use common::{root, said};
use tir::workload::Workload;
use tir::{Name, SymbolTable};
use tir_accel::MachineInfo;
use tir_accel::bounds::Bounds;

/// Networks with their true bound and their window bound in cycles; the folder of shared data need
/// not be present.
const NETWORKS: [(&str, u64, u64); 4] = [
    ("test/e2e/models/cnn.onnx", 90_653, 90_653),
    (
        "../shared/data/models/squeezenet/model.onnx",
        1_363_875,
        1_363_875,
    ),
    (
        "../shared/data/models/mobilenet_v2/model.onnx",
        1_819_172,
        2_998_868,
    ),
    (
        "../shared/data/models/resnet18/model.onnx",
        7_086_224,
        9_264_692,
    ),
];

#[test]
fn bounds_are_those_of_the_network() {
    let tool = tir_opt::stock();
    tool.load();
    for (file, cycles, window) in NETWORKS {
        let path = root().join(file);
        if !path.exists() {
            println!("skipped: {file} is not there");
            continue;
        }
        let module = tir_translate::import_onnx(&path);
        let mut module = module.unwrap_or_else(|e| panic!("{file}: {}", said(&e)));
        let machine = root().join("test/e2e/machines/npu.tir");
        let pipeline = format!("attach-machine{{file={}}}", machine.display());
        common::lower(&tool, &mut module, &pipeline).unwrap_or_else(|e| panic!("{file}: {e}"));
        let info = MachineInfo::attached(&module).expect("a machine");
        let main = SymbolTable::new(&module).get(Name::new("main"));
        let function = main.and_then(|op| module.child(op.id)).expect("@main");
        let work = Workload::count(function).expect("ops on tensors");
        assert_eq!(Workload::from_attr(work.to_attr()).as_ref(), Some(&work));
        let bounds = Bounds::of(&work, &info);
        assert_eq!((bounds.cycles, bounds.window), (cycles, window), "{file}");
    }
}
