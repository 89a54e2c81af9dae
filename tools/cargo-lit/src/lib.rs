//! `cargo lit`: finds `.tir` tests, runs their RUN lines, and checks that they round-trip.
//!
//! A suite is a set of files with `RUN:` lines. [`discover`] finds them, [`run_suite`] runs them on
//! all cores, and [`main`] is the whole command.
//!
//! *How it is layered.* What a test means is decided here: directives, conditions, substitutions, the
//! round trip, which programs must be built. The **lit** crate executes: it runs the command lines by
//! bash, with this crate's `not`, `filecheck` and time limit around them, and saves what they print.
//! `engine` is the one module that knows lit.
//!
//! *Invariants.* Test files are untrusted: a bad line is a failed test, never a panic. Results are
//! reported in the order of paths, whatever the number of workers. Only this crate imports lit.

mod build;
mod cli;
mod config;
mod engine;
mod features;
mod local;
mod round_trip;
mod subst;
mod suite;
mod test;
mod test_file;
mod words;

pub use cli::main;
pub use config::{Command, Config};
pub use suite::{Test, discover, run_suite};
pub use test::{Outcome, Status};
