//! The `xtask` program: `cargo xtask tidy`, `cargo xtask test`, `cargo xtask ready`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    ExitCode::from(xtask::main(&args))
}
