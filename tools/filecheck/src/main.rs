//! The `filecheck` program: a short main over the library.

use std::io::{Read, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args: Vec<String> = tir_filecheck::env_options();
    args.extend(
        std::env::args_os()
            .skip(1)
            .map(|a| a.to_string_lossy().into_owned()),
    );
    let mut stdin = || {
        let mut text = Vec::new();
        std::io::stdin().lock().read_to_end(&mut text)?;
        Ok(text)
    };
    let outcome = tir_filecheck::run(&args, std::path::Path::new(""), &mut stdin);
    // A closed pipe is no reason to change the verdict.
    let _ = std::io::stdout().write_all(outcome.stdout.as_bytes());
    let _ = std::io::stderr().write_all(outcome.stderr.as_bytes());
    ExitCode::from(outcome.code)
}
