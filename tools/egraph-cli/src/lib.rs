//! tir-egraph as a library: reads e-graphs in the format of extraction-gym, extracts, reports.
#![forbid(unsafe_code)]

mod acyclic;
mod cli;
mod gym;
mod report;

pub use acyclic::is_acyclic;
pub use cli::{Options, run};
pub use gym::read;
pub use report::Report;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use tir::data::write_stdout;
use tir::{Diagnostic, Sources};

/// The main function.
pub fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            // Nothing is left to do when the message cannot be shown.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let mut sources = Sources::default();
    let shown = run(&options, &mut sources).and_then(|report| {
        let written = write_stdout(report.to_string().as_bytes());
        let written = written.map_err(|error| Diagnostic::error(error.to_string()));
        written.map(|()| u8::from(!report.acyclic))
    });
    match shown {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let text = sources.render(&error, false);
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
            ExitCode::from(1)
        }
    }
}
