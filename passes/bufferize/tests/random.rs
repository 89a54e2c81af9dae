//! Random programs on tensors do the same on buffers, bit for bit, and write no argument.

mod common;
mod programs;

/// Programs of structured control flow alone, and as many with branches between blocks.
#[test]
fn random_programs_do_the_same() {
    let count = std::env::var("TIR_RANDOM_PROGRAMS")
        .ok()
        .and_then(|n| n.parse().ok());
    let mut copies = [0, 0];
    for seed in 0..count.unwrap_or(120) {
        for wide in [false, true] {
            let text = programs::program(seed, wide, true);
            let done = std::panic::catch_unwind(|| common::same(&text, "f").1.copies);
            copies[usize::from(wide)] += done.unwrap_or_else(|e| {
                let text = e.downcast_ref::<String>().cloned().unwrap_or_default();
                panic!("program {seed}, wide {wide}: {text}")
            });
        }
    }
    // There must be something to decide.
    assert!(copies.iter().all(|n| *n > 50), "{copies:?} copies");
}
