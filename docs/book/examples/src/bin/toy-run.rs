//! tir-run with the dialects of the book.

use book_examples::{demo, toy};

fn main() -> std::process::ExitCode {
    let dialects = [tir_opt::DIALECTS, &[&toy::DIALECT, &demo::DIALECT]].concat();
    tir_run::main("toy-run", &dialects)
}
