//! FileCheck as a command of a pipeline, on a thread of this process.

use crate::exec::{Event, Sink, Source};
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::Sender;

/// Is this command run in process?
pub(crate) fn is_name(program: &str) -> bool {
    matches!(program, "filecheck" | "FileCheck")
}

/// Runs FileCheck on a thread; ends with an [`Event::Checked`].
pub(crate) fn start(
    args: Vec<String>,
    dir: PathBuf,
    mut input: Source,
    mut out: Sink,
    mut err: Sink,
    index: usize,
    events: Sender<Event>,
) {
    std::thread::spawn(move || {
        let mut args = args;
        args.splice(0..0, tir_filecheck::env_options());
        let mut stdin = || {
            let mut text = Vec::new();
            input.read_to_end(&mut text)?;
            Ok(text)
        };
        // A panic is a bug in filecheck; the test must not hang on it.
        let run = AssertUnwindSafe(|| tir_filecheck::run(&args, &dir, &mut stdin));
        let outcome = catch_unwind(run).unwrap_or_else(|_| tir_filecheck::Outcome {
            code: 101,
            stderr: "filecheck panicked\n".into(),
            ..Default::default()
        });
        // Whoever reads may have gone; the code still counts.
        let _ = out.write_all(outcome.stdout.as_bytes());
        let _ = err.write_all(outcome.stderr.as_bytes());
        drop((out, err));
        let _ = events.send(Event::Checked(index, outcome.code));
    });
}
