//! tir-opt as a library: a driver is a list of dialects and passes, and one call.
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     // The stock tool, with a name, a dialect and passes of one's own:
//!     // tir_opt::stock().named("my-opt", "…").dialects([&my::DIALECT]).passes(my::passes())
//!     tir_opt::main(tir_opt::stock())
//! }
//! ```
#![forbid(unsafe_code)]

mod check_rules;
mod cli;
mod egraph;
mod expect;
mod io;
pub mod list;
mod print_ir;
mod process;
mod reproducer;
mod round_trip;
mod stock;

pub use check_rules::CheckRules;
pub use cli::{List, Options, command};
pub use expect::Expectations;
pub use io::{Input, color, read, render, write};
pub use round_trip::round_trip;
pub use stock::{DIALECTS, stock};

use std::io::{Read, Write};
use std::process::ExitCode;

use tir::{Diagnostic, Dialect, Sources};
use tir_pass::{PassInfo, PassRegistry};
use tir_text::ParseOptions;

/// What a driver is made of.
pub struct Tool {
    /// The name of the program.
    pub name: &'static str,
    /// What `--help` says first.
    pub about: &'static str,
    /// The dialects it knows.
    pub dialects: Vec<&'static Dialect>,
    /// The passes and pipelines it offers.
    pub passes: PassRegistry,
}

impl Tool {
    /// A driver that knows nothing yet.
    pub fn new(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            about,
            dialects: Vec::new(),
            passes: PassRegistry::new(),
        }
    }
    /// The same under another name.
    #[must_use]
    pub fn named(self, name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            about,
            ..self
        }
    }
    /// Adds dialects.
    #[must_use]
    pub fn dialects(mut self, more: impl IntoIterator<Item = &'static Dialect>) -> Self {
        self.dialects.extend(more);
        self
    }
    /// Adds passes and pipelines. Panics if a name is taken.
    #[must_use]
    pub fn passes(mut self, more: impl IntoIterator<Item = PassInfo>) -> Self {
        self.passes.add(more);
        self
    }
    /// Makes its dialects known to the process.
    pub fn load(&self) {
        self.dialects.iter().for_each(|dialect| dialect.load());
    }
}

/// What a run of the tool wrote, and its exit code.
#[derive(Default, Debug)]
pub struct Outcome {
    /// 0: all went well; 1: the input was refused or a pass failed; 2: wrong usage.
    pub code: u8,
    /// For standard output, unless `-o` took it.
    pub stdout: Vec<u8>,
    /// For standard error.
    pub stderr: String,
    /// Remarks and warnings with a category that it made; they are in `stderr` too.
    pub remarks: Vec<tir::Diagnostic>,
}

/// The main function of a driver.
pub fn main(tool: Tool) -> ExitCode {
    let args: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let outcome = run(&tool, &args, &mut std::io::stdin(), io::color());
    let mut said = outcome.stderr;
    let written = tir_data::write_stdout(&outcome.stdout);
    if let Err(error) = &written {
        said += &render(
            &Sources::default(),
            &[Diagnostic::error(error.to_string())],
            color(),
        );
    }
    // Nobody is left to tell if this stream is gone.
    let _ = std::io::stderr().lock().write_all(said.as_bytes());
    ExitCode::from(match written {
        Ok(()) => outcome.code,
        Err(_) => outcome.code.max(1),
    })
}

/// Runs the tool on a command line, the program's name first.
pub fn run(
    tool: &Tool,
    args: &[std::ffi::OsString],
    stdin: &mut (dyn Read + Send),
    color: bool,
) -> Outcome {
    let matches = match command(tool).try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(e) if e.use_stderr() => {
            return Outcome {
                code: 2,
                stderr: e.render().to_string(),
                ..Outcome::default()
            };
        }
        Err(e) => {
            let stdout = e.render().to_string().into_bytes();
            return Outcome {
                stdout,
                ..Outcome::default()
            };
        }
    };
    let options = Options::new(&matches, &tool.passes);
    tool.load();
    match &options.list {
        Some(list) => show(tool, list, &options, color),
        None if options.max_depth > ParseOptions::default().max_depth => {
            let level = tir_text::STACK_PER_LEVEL;
            let stack = options.max_depth.saturating_mul(level).max(8 << 20);
            on_stack(stack, || process::process(tool, &options, stdin, color))
        }
        None => process::process(tool, &options, stdin, color),
    }
}

/// Runs on a thread with a stack of this many bytes: what walks programs that nest deeply calls
/// itself as deep.
fn on_stack(bytes: usize, run: impl FnOnce() -> Outcome + Send) -> Outcome {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(bytes);
        match thread.spawn_scoped(scope, run).map(|handle| handle.join()) {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => Outcome {
                code: 1,
                stderr: format!("error: no stack of {bytes} bytes for --max-depth: {error}\n"),
                ..Outcome::default()
            },
        }
    })
}

fn show(tool: &Tool, what: &List, options: &Options, color: bool) -> Outcome {
    if matches!(what, List::Dialects | List::Dialect(_)) {
        let wrong = tool.dialects.iter();
        let wrong = wrong.filter_map(|dialect| tir_text::check_formats(dialect).err());
        let wrong: Vec<Diagnostic> = wrong.map(Diagnostic::error).collect();
        if !wrong.is_empty() {
            return Outcome {
                code: 1,
                stderr: render(&Sources::default(), &wrong, color),
                ..Outcome::default()
            };
        }
    }
    let text = match what {
        List::Rules => match list::rules(options) {
            Ok(text) => text,
            Err(errors) => {
                let sources = check_rules::sources(options.rule_files.iter());
                return Outcome {
                    code: 1,
                    stderr: render(&sources, &errors, color),
                    ..Outcome::default()
                };
            }
        },
        List::CheckRules(what) => return check_rules::check_rules(what, options, color),
        List::Passes => list::passes(&tool.passes),
        List::Dialects => list::dialects(&tool.dialects),
        List::DialectNames => tool
            .dialects
            .iter()
            .map(|d| format!("{}\n", d.name))
            .collect(),
        List::Dialect(name) => match tool.dialects.iter().find(|d| d.name == name) {
            Some(dialect) => list::reference(dialect),
            None => {
                let near = tir::closest(name, tool.dialects.iter().map(|d| d.name));
                let near = near.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
                let loaded = Dialect::loaded_names();
                let stderr = format!("error: there is no dialect '{name}'{near}\nnote: {loaded}\n");
                return Outcome {
                    code: 2,
                    stderr,
                    ..Outcome::default()
                };
            }
        },
    };
    Outcome {
        stdout: text.into_bytes(),
        ..Outcome::default()
    }
}
