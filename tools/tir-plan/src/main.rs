//! `tir-plan`: memory plans in files.

use std::process::ExitCode;

fn main() -> ExitCode {
    tir_plan::main()
}
