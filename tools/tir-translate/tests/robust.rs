//! Malformed networks: every cut and 10,000 seeded byte flips of small committed models are
//! imported to a verified program or refused with a message, never a panic.

use std::path::Path;

use tir_data::Random;
use tir_translate::import_model;

#[test]
fn malformed_networks_are_refused() {
    let flips = if cfg!(debug_assertions) {
        1_000
    } else {
        10_000
    };
    let (mut programs, mut refused, mut unread) = (0, 0, 0);
    let mut check = |bytes: Vec<u8>| match tir_onnx::decode(bytes.into(), None) {
        Err(_) => unread += 1,
        Ok(model) => match import_model(&model) {
            Ok(ir) => {
                tir::verify(&ir).unwrap_or_else(|e| panic!("{e:?}"));
                programs += 1;
            }
            Err(errors) => {
                assert!(errors.iter().all(|e| !e.message.is_empty()) && !errors.is_empty());
                refused += 1;
            }
        },
    };
    let ops = ["conv_stride2", "flatten", "gemm"];
    let mut files = vec!["models/micro.onnx".to_string()];
    files.extend(ops.map(|op| format!("ops/{op}.onnx")));
    let mut random = Random::new(7);
    for name in files {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../test/e2e")
            .join(name);
        let file = std::fs::read(&path).expect("a committed model");
        let step = if cfg!(debug_assertions) { 7 } else { 1 };
        for cut in (0..file.len()).step_by(step) {
            check(file[..cut].to_vec());
        }
        for _ in 0..flips {
            let mut bytes = file.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len());
                bytes[at] = random.next_u64() as u8;
            }
            check(bytes);
        }
    }
    println!("{programs} programs, {refused} refused, {unread} no model");
    assert!(programs > 100 && refused > 100 && unread > 100);
}
