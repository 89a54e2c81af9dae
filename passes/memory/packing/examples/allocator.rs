//! Offsets for the tensors of a small network: what an allocator does with this crate, and without the rest of tir.
//!
//! `cargo run -p tir-packing --example allocator` prints where each buffer lies, the bound, and who holds it.

use tir_packing::{Buffer, Certificate, Options, Problem, check, solve};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A step of the program is a unit of time; a buffer lives from the step that writes it until after the last that reads it.
    let network = [
        ("input", 150_528, 0..1),
        ("conv1", 802_816, 0..2),
        ("pool1", 200_704, 1..5),
        ("expand", 602_112, 2..4),
        ("depthwise", 602_112, 3..5),
        ("project", 200_704, 4..6),
        ("sum", 200_704, 5..7),
        ("logits", 4_000, 6..8),
    ];
    let (mut buffers, mut lives) = (Vec::new(), Vec::new());
    for (name, size, live) in network {
        buffers.push(Buffer {
            align: 64,
            ..Buffer::new(name, size)
        });
        lives.push(vec![live]);
    }
    // Something outside writes the input to the first bytes.
    buffers[0].within = Some(0..150_528);
    let problem = Problem::from_lives(buffers, lives)?;

    let capacity = 1_500_000;
    let options = Options {
        enough: capacity,
        ..Options::default()
    };
    let found = solve(&problem, &options);
    for (buffer, offset) in problem.buffers().iter().zip(&found.plan.offsets) {
        println!("{offset:>8}  {} ({} bytes)", buffer.name, buffer.size);
    }
    println!(
        "{} bytes by {}, no plan is lower than {}",
        found.plan.height, found.plan.method, found.bound
    );
    let (Certificate::LiveSet(set) | Certificate::Search { set, .. }) = &found.certificate;
    let names = set
        .members
        .iter()
        .map(|&i| problem.buffers()[i].name.as_str());
    let names: Vec<&str> = names.collect();
    println!("{} bytes live at once: {}", set.bytes, names.join(", "));
    // The judge shares nothing with the planners.
    match check(&problem, &found.plan.offsets, capacity).first() {
        None => Ok(()),
        Some(violation) => Err(violation.to_string().into()),
    }
}
