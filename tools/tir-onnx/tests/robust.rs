//! Malformed files: every cut and 10,000 seeded byte flips of the small committed models give a
//! model or an error with a place, never a panic, and allocate in proportion to the file.

use std::path::Path;

use cap::Cap;
use tir_data::Random;
use tir_onnx::decode;

/// Beyond the limit that a check sets, allocation fails and the test aborts.
#[global_allocator]
static ALLOCATOR: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

// One test, since the allocator's limit is shared by all threads.
#[test]
fn malformed_models_are_refused_with_a_place() {
    for name in ["micro.onnx", "unsupported.onnx"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../test/e2e/models")
            .join(name);
        let file = std::fs::read(&path).unwrap();
        let limit = 128 * file.len() + 65_536;
        let (mut good, mut bad) = (0, 0);
        let mut check = |bytes: Vec<u8>, what: &str| {
            ALLOCATOR.set_limit(ALLOCATOR.allocated() + limit).unwrap();
            match decode(bytes.into(), None) {
                Ok(_) => good += 1,
                Err(e) => {
                    bad += 1;
                    assert!(e.place.is_some(), "{name} {what}: no place in: {e}");
                }
            }
            ALLOCATOR.set_limit(usize::MAX).unwrap();
        };
        for cut in 0..file.len() {
            check(file[..cut].to_vec(), &format!("cut at {cut}"));
        }
        let mut random = Random::new(1);
        for round in 0..10_000 {
            let mut bytes = file.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len());
                bytes[at] = random.next_u64() as u8;
            }
            check(bytes, &format!("flip {round}"));
        }
        assert!(
            good > 100 && bad > file.len(),
            "{name}: {good} good, {bad} bad"
        );
    }
}
