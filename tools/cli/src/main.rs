//! The program `tir`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tir_cli::main()
}
