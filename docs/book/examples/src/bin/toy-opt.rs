//! tir-opt with the dialects of the book.

use book_examples::{demo, toy};

fn main() -> std::process::ExitCode {
    let tool = tir_opt::stock().named("toy-opt", "tir-opt with the dialects of the book.");
    let tool = tool.dialects([&toy::DIALECT, &demo::DIALECT]);
    tir_opt::main(tool.passes(toy::passes()).passes(demo::passes()))
}
