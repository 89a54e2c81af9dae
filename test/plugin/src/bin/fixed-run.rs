//! tir-run with the dialect fixed.

use std::process::ExitCode;

fn main() -> ExitCode {
    let dialects = [tir_opt::DIALECTS, &[&fixed_point::DIALECT]].concat();
    tir_run::main("fixed-run", &dialects)
}
