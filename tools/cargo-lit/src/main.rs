//! The `cargo-lit` program: a short main over the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args_os()
        .map(|a| a.to_string_lossy().into_owned())
        .collect();
    ExitCode::from(tir_lit::main(&args))
}
