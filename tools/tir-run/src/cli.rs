//! The command line.

use std::path::PathBuf;

use clap::Parser;
use clap::builder::RangedU64ValueParser;

/// Executes a function of a program at any level of abstraction and reports its outputs.
/// Inputs bind to arguments in order. Outputs are arguments marked `func.out` and results; they are
/// written to DIR/out_0.npy, DIR/out_1.npy, … and compared in that order.
/// Exit code: 0 on success, 1 if the execution failed or an output differs, 2 on a wrong command
/// line.
#[derive(Parser, Clone, Debug)]
#[command(name = "tir-run", max_term_width = 100)]
pub struct Options {
    /// Input file; - is standard input.
    #[arg(value_name = "FILE.tir")]
    pub file: String,
    /// Function to execute; required if there are several public functions and none is called main.
    #[arg(long, value_name = "@NAME")]
    pub function: Option<String>,
    /// File with the value of the next argument.
    #[arg(long, value_name = "K.npy")]
    pub input: Vec<PathBuf>,
    /// Use random values for arguments without --input; argument K is seeded with SEED + K.
    #[arg(long, value_name = "SEED", value_parser = seed, allow_negative_numbers = true)]
    pub random: Option<u64>,
    /// Directory for the outputs.
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// File with the expected value of the next output.
    #[arg(long, value_name = "K.npy")]
    pub compare: Vec<PathBuf>,
    /// Relative tolerance: |actual - expected| <= atol + rtol * |expected|.
    #[arg(long, value_name = "R", default_value_t = 1e-5, value_parser = tolerance, allow_negative_numbers = true)]
    pub rtol: f64,
    /// Absolute tolerance.
    #[arg(long, value_name = "A", default_value_t = 1e-8, value_parser = tolerance, allow_negative_numbers = true)]
    pub atol: f64,
    /// Machine file to use instead of the machine in the program; host: that of this processor.
    #[arg(long, value_name = "FILE")]
    pub machine: Option<PathBuf>,
    /// Run the function as native code: it is lowered by to-native, and compiled by the program tir-native, which lies
    /// beside this one or where the variable TIR_NATIVE says. What was compiled once is kept. A program of whole tensors
    /// without machine is planned for the machine file of this processor.
    #[arg(long, conflicts_with = "trace")]
    pub native: bool,
    /// Native code that gives the interpreter's results to the bit: no multiplication and addition become one operation,
    /// and functions such as exp are those of the interpreter.
    #[arg(long, requires = "native")]
    pub strict: bool,
    /// Number of calls of native code; the time is that of the quickest.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "native", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub repeat: usize,
    /// Threads that share the nests of native code; results do not depend on their number.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "native", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub threads: usize,
    /// Print the full machine report: units, engines, spaces, transfers, calls. With --native: the time of each layer.
    /// The least of --repeat calls stands for each.
    #[arg(long)]
    pub timing: bool,
    /// Write a timeline of the machine in the trace event format of Chrome and Perfetto.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Keep the timeline of the machine in the summary.
    #[arg(skip)]
    pub timeline: bool,
    /// Write the summary as JSON; - is standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Maximum number of executed steps.
    #[arg(long, value_name = "N", default_value_t = tir_interp::Options::default().steps)]
    pub max_steps: u64,
    /// Maximum size of the input in bytes.
    #[arg(long, value_name = "N", default_value_t = 1 << 30)]
    pub max_bytes: u64,
}

/// A seed of a command line.
fn seed(text: &str) -> Result<u64, String> {
    let expected = || format!("expected an integer from 0 to {}", u64::MAX);
    text.parse().map_err(|_| expected())
}

/// A tolerance of a command line.
///
/// # Errors
/// If it is no number, or below zero: nothing would be close.
fn tolerance(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number".to_string())?;
    match number >= 0.0 {
        true => Ok(number),
        false => Err("expected a number that is not negative".to_string()),
    }
}
