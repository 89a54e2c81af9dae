//! The stock `tir-run`: built-in dialects.

use std::process::ExitCode;

/// Planning and saturation make and drop many small vectors (docs/decisions/0241-an-allocator-for-programs.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tir_run::main("tir-run", tir_opt::DIALECTS)
}
