//! Names of what was made once.

use sha2::{Digest, Sha256};

use crate::llvm::{Processor, UNROLL};
use crate::lower::PIPELINE;
use crate::options::{Options, version};

/// The name in the cache of what is made of a text: by all that it depends on.
pub fn key(options: &Options, text: &str, what: &str) -> String {
    let mut hash = Sha256::new();
    // What the text says of a processor is a part of it.
    let host = Processor::host();
    let own = std::env::current_exe().and_then(|path| path.metadata()?.modified());
    let own = own.map_or(String::new(), |time| format!("{time:?}"));
    let level = options.level;
    for part in [
        &version(),
        &own,
        what,
        &format!("{:?} {host:?} {level}", options.asked),
        PIPELINE,
        &format!("{UNROLL:?}"),
        text,
    ] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let digest: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    digest
}

/// What a file of what is asked for ends with.
pub fn extension(options: &Options) -> &'static str {
    match options.emit.as_str() {
        "lib" => "so",
        "obj" => "o",
        "asm" => "s",
        _ => "ll",
    }
}
