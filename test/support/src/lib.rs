//! What Rust tests share: programs of the dialects of this repository are read, shown, checked and
//! run on tensors. Whatever is wrong panics with the program.
#![allow(clippy::unwrap_used)]

mod digest;
pub mod equal;
pub mod networks;

pub use digest::digest;

use tir::data::Array;
use tir::text::{ParseOptions, PrintOptions, parse, print};
use tir::{Data, Dialect, Interpreter, Ir, Name};

/// As in the programs themselves.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Loads all dialects.
pub fn load() {
    let all: [&'static Dialect; 12] = [
        &tir_builtin::DIALECT,
        &tir_builtin::TIR,
        &tir_func::DIALECT,
        &tir_func::cf::DIALECT,
        &tir_arith::DIALECT,
        &tir_math::DIALECT,
        &tir_graph::DIALECT,
        &tir_tensor::DIALECT,
        &tir_loop::DIALECT,
        &tir_memref::DIALECT,
        &tir_vector::DIALECT,
        &tir_accel::DIALECT,
    ];
    all.into_iter().for_each(Dialect::load);
}

/// The text of a program.
pub fn show(ir: &Ir) -> String {
    print(ir, &PrintOptions::default())
}

/// Verifies a program.
pub fn check(ir: &Ir) {
    if let Err(errors) = tir::verify(ir) {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("{}\n{}", errors.join("\n"), show(ir));
    }
}

/// Reads and verifies a program.
pub fn read(text: &str) -> Ir {
    load();
    let ir = parse(text, Name::new("test.tir"), &ParseOptions::default());
    let ir = ir.unwrap_or_else(|errors| panic!("{errors:#?}\n{text}"));
    check(&ir);
    ir
}

/// Inputs of the function on tensors.
pub fn inputs(ir: &Ir, function: &str, seed: u64) -> Vec<Data> {
    let interpreter = Interpreter::new(ir);
    let (types, _) = interpreter.signature(Name::new(function)).unwrap();
    tir::interp::random_args(&types, seed).unwrap()
}

/// Results of a function on tensors.
pub fn run_tensors(ir: &Ir, function: &str, seed: u64) -> Vec<Array> {
    let args = inputs(ir, function, seed);
    let results = Interpreter::new(ir).run(Name::new(function), args);
    let results = results.unwrap_or_else(|e| panic!("{e:#?}\n{}", show(ir)));
    results
        .iter()
        .map(|data| data.as_tensor().unwrap().clone())
        .collect()
}
