//! Offsets for the tensors of a small network in two memories: what an allocator does with this crate, and without the rest of tir.
//!
//! `cargo run -p tir-packing --example allocator` prints where each buffer lies, the bound, and who holds it. What the columns of
//! `tir-plan`'s files say is here: `space` is a problem of its own, `fixed` and `bank` are `within`, `gaps` are several ranges, `apart` is
//! `keep_apart`. A buffer `within` another is none here: the other one lives as long as it does.

use std::error::Error;
use std::ops::Range;

use tir_packing::{
    Buffer, Certificate, Kept, Options, Plan, Problem, STEPS, check, keep_apart, solve,
};

/// A name, a size in bytes, when it lives (from, to), and the bytes in which it must lie if it matters. A step of the program is a unit of time; a buffer
/// lives from the step that writes it until after the last that reads it.
type Row = (&'static str, u64, &'static [(u64, u64)], Option<Range<u64>>);

/// The far memory. `sum` is written anew at step 6, what it held before is no longer read at step 3.
const FAR: &[Row] = &[
    ("conv1", 802_816, &[(0, 2)], None),
    ("pool1", 200_704, &[(1, 5)], None),
    ("expand", 602_112, &[(2, 4)], None),
    ("sum", 200_704, &[(0, 3), (6, 8)], None),
    ("logits", 4_000, &[(6, 8)], None),
];

/// The near memory: 8 KiB in banks of 2 KiB. Something outside writes the input to its first bytes.
const NEAR: &[Row] = &[
    ("input", 1_536, &[(0, 2)], Some(0..1_536)),
    ("row", 1_536, &[(1, 4)], None),
    ("weights", 1_024, &[(1, 4)], None),
    ("total", 512, &[(2, 6)], Some(2_048..4_096)),
];
const BANK: u64 = 2_048;

fn main() -> Result<(), Box<dyn Error>> {
    let far = problem(FAR)?;
    show(&far, &planned(&far, 1_500_000)?);

    let near = problem(NEAR)?;
    // Both factors are read at once: one port a bank, so they lie in different ones.
    let must = [(1, 2)];
    let (kept, nodes) = keep_apart(&near, 8_192, BANK, &must, STEPS, &mut || false);
    match kept {
        Kept::Plan(plan) => show(&near, &plan),
        Kept::Impossible => return Err(format!("no plan does: a search of {nodes} nodes").into()),
        Kept::Stopped => return Err("no plan was found, there may be one".into()),
    }
    Ok(())
}

fn problem(rows: &[Row]) -> Result<Problem, Box<dyn Error>> {
    let buffers = rows.iter().map(|(name, size, _, within)| Buffer {
        align: 64,
        within: within.clone(),
        ..Buffer::new(name, *size)
    });
    let lives = rows
        .iter()
        .map(|(_, _, lives, _)| lives.iter().map(|(from, to)| *from..*to).collect());
    Ok(Problem::from_lives(buffers.collect(), lives.collect())?)
}

/// A plan that fits, as soon as there is one.
fn planned(problem: &Problem, capacity: u64) -> Result<Plan, Box<dyn Error>> {
    let options = Options {
        enough: capacity,
        ..Options::default()
    };
    let found = solve(problem, &options);
    let (Certificate::LiveSet(set) | Certificate::Search { set, .. }) = &found.certificate;
    let names = set.members.iter().map(|&i| &problem.buffers()[i].name[..]);
    let names: Vec<&str> = names.collect();
    println!(
        "no plan is lower than {}: {}",
        found.bound,
        names.join(", ")
    );
    // The judge shares nothing with the planners.
    match check(problem, &found.plan.offsets, capacity).first() {
        None => Ok(found.plan),
        Some(violation) => Err(violation.to_string().into()),
    }
}

fn show(problem: &Problem, plan: &Plan) {
    for (buffer, offset) in problem.buffers().iter().zip(&plan.offsets) {
        println!("{offset:>8}  {} ({} bytes)", buffer.name, buffer.size);
    }
    println!("{} bytes by {}", plan.height, plan.method);
}
