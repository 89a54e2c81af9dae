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
    /// Roots of each of tensat's rules: so many lines are one (1 for converted.txt, 2 for
    /// converted_multi.txt).
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        requires = "import_tensat_rules"
    )]
    tensat_roots: usize,
    /// Operands of elementwise ops on the left of tensat's rules have one type.
    #[arg(long, requires = "import_tensat_rules")]
    tensat_same_types: bool,
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
    /// Import a file of tensat's rules as a file of rules on graph ops.
    #[arg(long, value_name = "FILE.txt")]
    import_tensat_rules: Option<PathBuf>,
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
    let import = &cli.import;
    let mut module = if let Some(path) = &import.import_onnx {
        crate::import_onnx(path)?
    } else if let Some(path) = &import.import_tensat_model {
        crate::import_tensat_model(path)?
    } else if let Some(path) = &import.import_tensat_rules {
        let options = crate::RuleOptions {
            roots: cli.tensat_roots.max(1),
            same_types: cli.tensat_same_types,
        };
        crate::import_tensat_rules(path, options)?
    } else {
        return Ok(());
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
