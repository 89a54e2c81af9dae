//! `cargo lit`: finds `.tir` tests, runs their RUN lines, and checks that they round-trip.
//!
//! A suite is a set of files with `RUN:` lines. [`discover`] finds them, [`run_suite`] runs them on
//! all cores, [`run_test`] runs one in this process, and [`main`] is the whole command.
//!
//! *How it is layered.* The **lit** crate executes: each worker is a process in which lit walks a
//! directory of generated files, one RUN line per test, and starts "the shell" for it, which is
//! this program again. Everything a test means (directives, substitutions, pipes, FileCheck,
//! timeouts) is decided there, in `run_test`. lit is sequential and panics on files it does not
//! like, so it never sees a test file, and what it prints is not shown. Without a program to call
//! back (`Config::program`), tests run on threads of this process, with the same results.
//!
//! *Invariants.* Test files are untrusted: a bad line is a failed test, never a panic. Results are
//! reported in the order of paths, whatever the number of workers. Only this crate imports lit.

mod build;
mod cli;
mod config;
mod engine;
mod exec;
mod features;
mod filecheck;
mod local;
mod round_trip;
mod shell;
mod subst;
mod suite;
mod test;
mod test_file;

pub use cli::main;
pub use config::{Command, Config};
pub use suite::{Test, discover, run_suite};
pub use test::{Outcome, Status, run_test};
