//! The command line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser};
use tir_core::{Diagnostic, Name, Sources};
use tir_io::{Out, save};
use tir_text::{ParseOptions, PrintOptions, print};

/// Imports models and rewrite rules from other formats, and exports programs to MLIR and ONNX.
#[derive(Parser, Debug)]
#[command(name = "tir-translate", version)]
struct Cli {
    #[command(flatten)]
    import: Import,
    #[command(flatten)]
    onnx: crate::OnnxOptions,
    #[command(flatten)]
    export: crate::ExportOptions,
    /// Output file; `-` is standard output. Constants of more than 1 KiB are written to a
    /// .safetensors file beside it.
    #[arg(short, long = "output", value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// File for large constants; if it is not given, that beside the output file.
    #[arg(long, value_name = "FILE")]
    weights_out: Option<PathBuf>,
    /// Number of roots, and lines, per tensat rule: 1 for converted.txt, 2 for converted_multi.txt.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        requires = "import_tensat_rules"
    )]
    tensat_roots: usize,
    /// Require one type for all operands of an elementwise op on the left-hand side of tensat
    /// rules.
    #[arg(long, requires = "import_tensat_rules")]
    tensat_same_types: bool,
    /// Print locations of ops: the names of ONNX nodes.
    #[arg(long)]
    print_locations: bool,
    /// Print ops in generic form.
    #[arg(long)]
    print_op_generic: bool,
    /// Let the exported program contract multiplications and additions, and call the functions of the C library; without,
    /// it gives the interpreter's results to the bit.
    #[arg(long, conflicts_with_all = ["import_onnx", "import_tensat_model", "import_tensat_rules"])]
    fast: bool,
    /// Write the constants of the exported program to FILE, as its functions take them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["import_onnx", "import_tensat_model", "import_tensat_rules"])]
    constants_out: Option<PathBuf>,
}

/// The input: one of these.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Import {
    /// Import an ONNX model as function @main of graph ops.
    #[arg(long, value_name = "MODEL.onnx")]
    import_onnx: Option<PathBuf>,
    /// Import a network in TASO's text export, as used by tensat, as function @main of graph ops;
    /// weights become arguments.
    #[arg(long, value_name = "FILE.model")]
    import_tensat_model: Option<PathBuf>,
    /// Import a tensat rule file as a rule file for graph ops.
    #[arg(long, value_name = "FILE.txt")]
    import_tensat_rules: Option<PathBuf>,
    /// Export a program that the pipeline to-native left as MLIR, in generic form, of the dialects builtin, func, memref,
    /// arith, math, scf, cf and llvm. Comments at its begin say what its functions take: pointers to arguments,
    /// results, all constants, and an arena.
    #[arg(long, value_name = "FILE.tir")]
    export_mlir: Option<PathBuf>,
    /// Export a function of graph ops as an ONNX model of opset 21. Layouts of tensors are left behind, groups of ops written one
    /// by one. Needs --output.
    #[arg(long, value_name = "FILE.tir")]
    export_onnx: Option<PathBuf>,
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
    let mut sources = Sources::default();
    match run(&cli, &mut sources) {
        Ok(()) => ExitCode::SUCCESS,
        Err(errors) => {
            for error in errors {
                eprint!("{}", sources.render(&error, false));
            }
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli, sources: &mut Sources) -> Result<(), Vec<Diagnostic>> {
    let import = &cli.import;
    if let Some(path) = &import.export_mlir {
        return export(cli, path, sources);
    }
    if let Some(path) = &import.export_onnx {
        if cli.output == Path::new("-") {
            let error = Diagnostic::error("no file is named for the model: -o FILE says which");
            return Err(vec![error]);
        }
        let module = read(path, sources)?;
        return crate::export_onnx_to(&module, &cli.export, &cli.output);
    }
    let mut module = if let Some(path) = &import.import_onnx {
        let (module, remarks) = crate::import_onnx_noting(path, &cli.onnx)?;
        for remark in remarks {
            eprint!("{}", sources.render(&remark, false));
        }
        module
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
        path if path == Path::new("-") => Out::Stdout,
        path => Out::File(path),
    };
    let weights = cli.weights_out.as_deref();
    save(&mut module, out, weights, |module| print(module, &options)).map_err(|error| vec![*error])
}

/// Reads a program with its constants.
fn read(path: &Path, sources: &mut Sources) -> Result<tir_core::Ir, Vec<Diagnostic>> {
    let fail = |message: String| vec![Diagnostic::error(message)];
    let text = match path == Path::new("-") {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(path),
    };
    let text = text.map_err(|e| fail(format!("cannot read '{}': {e}", path.display())))?;
    let name = Name::new(&path.to_string_lossy());
    sources.add(name, text.as_str());
    crate::load_dialects();
    let module = tir_text::parse(&text, name, &ParseOptions::default())?;
    tir_core::verify(&module)?;
    tir_io::load_blobs(&module, path.parent().unwrap_or(Path::new(".")))?;
    Ok(module)
}

/// Writes a program as MLIR.
fn export(cli: &Cli, path: &Path, sources: &mut Sources) -> Result<(), Vec<Diagnostic>> {
    let module = read(path, sources)?;
    let options = tir_native::mlir::Options {
        strict: !cli.fast,
        ..Default::default()
    };
    let made = tir_native::mlir::export(&module, &options).map_err(|error| vec![*error])?;
    if let Some(file) = &cli.constants_out {
        made.write_weights(file).map_err(|error| vec![*error])?;
    }
    match cli.output.as_path() {
        path if path == Path::new("-") => {
            let written = tir_data::write_stdout(made.text.as_bytes());
            written.map_err(|error| vec![Diagnostic::error(error.to_string())])
        }
        path => write(path, &[made.text.as_bytes()]),
    }
}

fn write(path: &Path, parts: &[&[u8]]) -> Result<(), Vec<Diagnostic>> {
    let staged = tir_data::Staged::write(path, parts).and_then(tir_data::Staged::commit);
    staged.map_err(|e| vec![Diagnostic::error(e.to_string())])
}
