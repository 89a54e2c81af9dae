//! The stock `tir-opt`: built-in dialects and passes.

use std::process::ExitCode;

fn main() -> ExitCode {
    tir_opt::main(tir_opt::stock())
}
