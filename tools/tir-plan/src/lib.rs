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
use tir::Sources;

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
    match run(&options, &mut sources) {
        Ok(report) => {
            let _ = write!(std::io::stdout().lock(), "{report}");
            ExitCode::from(u8::from(!report.fits))
        }
        Err(error) => {
            let text = sources.render(&error, false);
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
            ExitCode::from(2)
        }
    }
}
