//! tir-run with the dialects of the book.

fn main() -> std::process::ExitCode {
    tir_run::main("toy-run", tir_opt::DIALECTS)
}
