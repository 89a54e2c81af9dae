//! `tir compile`: a network from ONNX through every level, run and checked at each; `tir explain`: what a layer of it costs.
#![forbid(unsafe_code)]

mod compile;
mod explain;
mod kept;
mod progress;
mod report;

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
    /// Compile an ONNX network for a machine and explain what a layer costs: its work, waits, bytes, buffers and remarks.
    Explain(explain::Options),
}

/// Where there are machine files.
const MACHINES: &str = "Machine files lie in test/e2e/machines of the repository, npu.tir and cpu.tir among them; \
                        docs/book/src/machines.md says how to describe a machine.";

/// Whether a command line is wrong since no machine is given.
fn misses_machine(error: &clap::Error) -> bool {
    let missing = error.kind() == clap::error::ErrorKind::MissingRequiredArgument;
    missing && error.to_string().contains("  --machine <")
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nothing is left to do when the message cannot be shown.
            let _ = error.print();
            if misses_machine(&error) {
                let _ = writeln!(std::io::stderr(), "\n{MACHINES}");
            }
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let mut out = std::io::stdout();
    let done = match cli.command {
        Command::Compile(options) => compile::compile(&options, &mut out),
        Command::Explain(options) => explain::explain(&options).and_then(|text| {
            let written = tir_data::write_stdout(text.as_bytes());
            written.map_err(|error| format!("error: {error}\n"))?;
            Ok(true)
        }),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            let _ = std::io::stderr().write_all(message.as_bytes());
            ExitCode::FAILURE
        }
    }
}
