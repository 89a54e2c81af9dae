//! tir-run as a library: runs a function of a program of any level, compares, and sums up.
#![forbid(unsafe_code)]

pub mod bind;
mod cli;
mod execute;
mod layers;
mod machine;
pub mod native;
mod on_machine;
mod run;
mod summary;
pub mod timeline;

pub use cli::Options;
pub use execute::{Entry, Execution, Keep, execute};
pub use layers::{Costliest, LayerSummary};
pub use machine::MachineSummary;
pub use run::{Program, run};
pub use summary::{Compared, InputSummary, OutputSummary, Summary};

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use tir::{Diagnostic, Dialect, Sources};

/// The main function of a runner of this name that knows these dialects.
pub fn main(name: &'static str, dialects: &[&'static Dialect]) -> ExitCode {
    let command = Options::command().name(name);
    let options = command
        .try_get_matches()
        .and_then(|matches| Options::from_arg_matches(&matches));
    let options = match options {
        Ok(options) => options,
        Err(e) => {
            // Nothing is left to do when the message cannot be shown.
            let _ = e.print();
            return ExitCode::from(if e.use_stderr() { 2 } else { 0 });
        }
    };
    dialects.iter().for_each(|dialect| dialect.load());
    let mut sources = Sources::default();
    let shown = run(&options, &mut sources)
        .and_then(|summary| show(&options, &summary).map(|()| summary.ok));
    match shown {
        Ok(ok) => ExitCode::from(u8::from(!ok)),
        Err(errors) => {
            let text = tir_opt::render(&sources, &errors, tir_opt::color());
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
            ExitCode::from(1)
        }
    }
}

/// Prints the summary, and writes it as JSON where that is asked for. If the JSON goes to
/// standard output, the text goes to standard error.
fn show(options: &Options, summary: &Summary) -> Result<(), Vec<Diagnostic>> {
    let fail = |message: String| vec![Diagnostic::error(message)];
    let say = |text: &str| {
        let written = tir_data::write_stdout(text.as_bytes());
        written.map_err(|error| fail(error.to_string()))
    };
    let text = summary.to_string();
    let Some(path) = &options.json else {
        return say(&text);
    };
    let json = serde_json::to_string_pretty(summary).map_err(|e| fail(e.to_string()))? + "\n";
    if path.as_os_str() == "-" {
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
        return say(&json);
    }
    tir_opt::write(path, json.as_bytes())?;
    say(&text)
}

/// Why there is nothing to show of a run on the machine model.
pub const NO_WORK: &str = "the program starts no work on a machine, so there are no cycles to show";
