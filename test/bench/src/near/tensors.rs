//! Where the bytes go: of each tensor of far memory that moves more than it must, how often, and by which operations.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use tir::Ir;

use super::{Accesses, with};

/// Tensors that are told at most, those that move the most beyond what must.
const TOLD: usize = 40;

/// A line for each tensor.
pub(super) fn tensors(network: &Ir, machine: &Path, policy: &str) -> Result<String, String> {
    let accesses = Accesses::of(network, machine, with(policy))?;
    let buffers = accesses.buffers().into_iter();
    let mut all: Vec<(u64, String)> = Vec::new();
    for (buffer, which) in buffers {
        let size = accesses.sizes[buffer];
        let between = accesses.is_between(&which);
        let (mut read, mut written) = (0, 0);
        let mut by: BTreeMap<(bool, String), u64> = BTreeMap::new();
        for i in &which {
            let access = &accesses.all[*i];
            let bytes = accesses.bytes(&[*i]);
            *(if access.write {
                &mut written
            } else {
                &mut read
            }) += bytes;
            *by.entry((access.write, access.loc.to_string()))
                .or_default() += bytes;
        }
        let must = if between { 0 } else { size.min(read + written) };
        let more = read + written - must;
        if more == 0 {
            continue;
        }
        let kind = if between { "between" } else { "outside" };
        let mut text = format!("{more:>10} more, {kind} of {size:>9} bytes:");
        for ((write, loc), bytes) in by {
            let verb = if write { "written" } else { "read" };
            let times = bytes as f64 / size.max(1) as f64;
            let _ = write!(text, " {verb} {times:.2} times at {loc};");
        }
        all.push((more, text));
    }
    all.sort_by_key(|(more, _)| std::cmp::Reverse(*more));
    let sum: u64 = all.iter().map(|(more, _)| more).sum();
    let mut text = format!("{sum} bytes beyond what must move\n");
    for (_, line) in all.iter().take(TOLD) {
        let _ = writeln!(text, "{line}");
    }
    Ok(text)
}
