//! The stock `tir-run`: built-in dialects.

use std::process::ExitCode;

fn main() -> ExitCode {
    tir_run::main("tir-run", tir_opt::DIALECTS)
}
