//! tir-opt with the dialects of the book.

fn main() -> std::process::ExitCode {
    let tool = tir_opt::stock().named("toy-opt", "Runs named passes over .tir files.");
    tir_opt::main(tool)
}
