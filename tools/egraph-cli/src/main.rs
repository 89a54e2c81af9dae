//! `tir-egraph`: e-graphs in files.

use std::process::ExitCode;

fn main() -> ExitCode {
    tir_egraph_cli::main()
}
