//! tir-opt with the dialect fixed.

use std::process::ExitCode;

fn main() -> ExitCode {
    let about = "Runs named passes over .tir files that may have fixed-point numbers.";
    let tool = tir_opt::stock().named("fixed-opt", about);
    let tool = tool.dialects([&fixed_point::DIALECT]);
    tir_opt::main(tool.passes(fixed_point::passes()))
}
