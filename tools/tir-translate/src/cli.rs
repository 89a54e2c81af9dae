//! The command line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use tir_core::{Diagnostic, Sources};
use tir_io::{Out, save};
use tir_text::{PrintOptions, print};

/// Translates programs from other formats to .tir.
#[derive(Parser, Debug)]
#[command(name = "tir-translate", version)]
struct Cli {
    /// Import an ONNX model as one function @main on graph ops.
    #[arg(long, value_name = "MODEL.onnx", required = true)]
    import_onnx: PathBuf,
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
    let mut module = crate::import_onnx(&cli.import_onnx)?;
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
