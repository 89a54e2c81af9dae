//! tir-plan as a library: reads buffers, plans, checks, reports.
#![forbid(unsafe_code)]

mod cli;
mod fields;
mod read;
mod report;
mod spaces;
mod svg;

pub use cli::{Member, Options, run};
pub use read::{Limit, Settings, Table, read};
pub use report::{Report, certificate};
pub use spaces::Space;

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
        let text = report.to_string();
        let written = match options.prints() {
            true => {
                let _ = std::io::stderr().lock().write_all(text.as_bytes());
                Ok(())
            }
            false => write_stdout(text.as_bytes()),
        };
        let written = written.map_err(|error| Diagnostic::error(error.to_string()));
        written.map(|()| u8::from(!report.fits))
    });
    match shown {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let text = sources.render(&error, false);
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
            ExitCode::from(2)
        }
    }
}
