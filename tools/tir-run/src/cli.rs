//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Runs a function of a program, whatever its level, and shows what came of it.
///
/// Inputs bind to arguments in order. Arguments marked `func.out` are outputs, as are results:
/// they are written to DIR/out_0.npy, DIR/out_1.npy, … and compared in that order.
///
/// Exit code: 0 if all went well, 1 if the run failed or an output differs, 2 for a wrong command
/// line.
#[derive(Parser, Clone, Debug)]
#[command(name = "tir-run", max_term_width = 100)]
pub struct Options {
    /// The .tir file; - is standard input.
    #[arg(value_name = "FILE.tir")]
    pub file: String,
    /// The function; needed if there is more than one public function and none is called main.
    #[arg(long, value_name = "@NAME")]
    pub function: Option<String>,
    /// The value of the next argument.
    #[arg(long, value_name = "K.npy")]
    pub input: Vec<PathBuf>,
    /// Random values for arguments without --input; argument K is seeded with SEED + K.
    #[arg(long, value_name = "SEED")]
    pub random: Option<u64>,
    /// Where outputs go.
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// What the next output should be, within the tolerances.
    #[arg(long, value_name = "K.npy")]
    pub compare: Vec<PathBuf>,
    /// Relative tolerance: |actual - expected| <= atol + rtol * |expected|.
    #[arg(long, value_name = "R", default_value_t = 1e-5)]
    pub rtol: f64,
    /// Absolute tolerance.
    #[arg(long, value_name = "A", default_value_t = 1e-8)]
    pub atol: f64,
    /// Run on this machine instead of the one in the program.
    #[arg(long, value_name = "FILE")]
    pub machine: Option<PathBuf>,
    /// Show the full account of the machine: units, engines, spaces, transfers, calls.
    #[arg(long)]
    pub timing: bool,
    /// Write a timeline of the machine, for Perfetto.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write the summary; - is standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Steps before the run is given up.
    #[arg(long, value_name = "N", default_value_t = tir_interp::Options::default().steps)]
    pub max_steps: u64,
    /// Most bytes of the program's text.
    #[arg(long, value_name = "N", default_value_t = 1 << 30)]
    pub max_bytes: u64,
}
