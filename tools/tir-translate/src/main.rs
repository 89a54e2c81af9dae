//! `tir-translate`: programs from and to other formats.

use std::process::ExitCode;

/// Planning and saturation make and drop many small vectors (docs/decisions/0241-an-allocator-for-programs.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tir_translate::main()
}
