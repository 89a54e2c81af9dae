//! `pack-constants` says what it cannot pack: a constant whose file nobody loaded.

use tir::{PassManager, Pipeline};
use tir_native::PackConstants;
use tir_support::read;

const PROGRAM: &str = r#"
memref.global constant @w : memref<4x4xf32> = #tir.blob<"none.safetensors", "w", "sha256:0000000000000000000000000000000000000000000000000000000000000000", tensor<4x4xf32>>
func.func @main(%y: memref<4x2xf32> {func.out}) {
  %w = memref.get_global @w : memref<4x4xf32>
  %c0 = arith.constant 0 : index
  loop.for %j = 0 to 3 {
    %tile = memref.alloc() : memref<4x2xf32>
    memref.transfer_read %w[%c0, %j] into %tile access (d0, d1) -> (d0, d1) : memref<4x4xf32> to memref<4x2xf32>
    memref.copy %tile, %y : memref<4x2xf32> to memref<4x2xf32>
    memref.dealloc %tile : memref<4x2xf32>
  }
  func.return
}
"#;

#[test]
fn a_constant_that_is_not_loaded_is_named() {
    let mut module = read(PROGRAM);
    let before = tir_support::show(&module);
    let mut pipeline = Pipeline::new();
    pipeline.add(PackConstants::default());
    let report = PassManager::new(pipeline).run(&mut module);
    let notes: Vec<String> = report
        .remarks
        .iter()
        .flat_map(|remark| remark.notes.iter().map(|note| note.message.clone()))
        .collect();
    report.into_result().expect("it runs");
    let wanted = "'@w' cannot be packed: blob 'w' of 'none.safetensors' is not loaded";
    assert!(notes.iter().any(|note| note == wanted), "{notes:?}");
    assert_eq!(tir_support::show(&module), before);
}
