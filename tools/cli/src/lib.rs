//! `tir compile`: a network from ONNX through every level, run and checked at each.
#![forbid(unsafe_code)]

mod compile;
mod kept;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Compiles networks for machines with explicitly managed memory.
#[derive(Parser)]
#[command(name = "tir", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compile an ONNX network for a machine; execute and compare every level.
    /// The program of each level is written as text to the directory of --out. Exit code: 0 on
    /// success, 1 if a level failed or an output differs, 2 on a wrong command line.
    Compile(compile::Options),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nothing is left to do when the message cannot be shown.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let Command::Compile(options) = cli.command;
    match compile::compile(&options, &mut std::io::stdout()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            let _ = std::io::stderr().write_all(message.as_bytes());
            ExitCode::FAILURE
        }
    }
}
