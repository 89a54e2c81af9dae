//! `tir-translate`: programs from and to other formats.

use std::process::ExitCode;

fn main() -> ExitCode {
    tir_translate::main()
}
