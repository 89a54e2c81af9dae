//! The command line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser};
use tir_core::{Diagnostic, Sources};
use tir_io::{Out, save};
use tir_text::{PrintOptions, print};

/// Translates programs from other formats to .tir.
#[derive(Parser, Debug)]
#[command(name = "tir-translate", version)]
struct Cli {
    #[command(flatten)]
    import: Import,
    /// Where the program goes; constants of more than 1 KiB go to the .safetensors beside it.
    /// `-` is standard output.
    #[arg(short, long = "output", value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Where constants go if the program goes to standard output.
    #[arg(long, value_name = "FILE")]
    weights_out: Option<PathBuf>,
    /// Print where each op comes from: the name of its node.
    #[arg(long)]
    print_locations: bool,
    /// Print all ops in generic form.
    #[arg(long)]
    print_op_generic: bool,
}

/// What is translated: one of these.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Import {
    /// Import an ONNX model as one function @main on graph ops.
    #[arg(long, value_name = "MODEL.onnx")]
    import_onnx: Option<PathBuf>,
    /// Import a network in TASO's text export, as tensat has it, as one function @main on graph
    /// ops; weights are arguments.
    #[arg(long, value_name = "FILE.model")]
    import_tensat_model: Option<PathBuf>,
}

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, not errors.
            let failed = error.use_stderr();
            let _ = error.print();
            return ExitCode::from(u8::from(failed));
        }
    };
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(errors) => {
            let sources = Sources::default();
            for error in errors {
                eprint!("{}", sources.render(&error, false));
            }
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), Vec<Diagnostic>> {
    let mut module = match (&cli.import.import_onnx, &cli.import.import_tensat_model) {
        (Some(path), _) => crate::import_onnx(path)?,
        (None, Some(path)) => crate::import_tensat_model(path)?,
        (None, None) => return Ok(()),
    };
    let options = PrintOptions {
        generic: cli.print_op_generic,
        locations: cli.print_locations,
        ..PrintOptions::default()
    };
    let out = match cli.output.as_path() {
        path if path == Path::new("-") => Out::Stdout(cli.weights_out.as_deref()),
        path => Out::File(path),
    };
    save(&mut module, out, |module| print(module, &options)).map_err(|error| vec![*error])
}
