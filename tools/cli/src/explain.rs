//! `tir explain`: what one layer costs and why, as text.

use std::fmt::Write;

use tir_run::timeline::{Buffer, Timeline};
use tir_run::{LayerSummary, MachineSummary};

use crate::compile::{self, Compiled};
use crate::report::{self, Group};

/// What is compiled, and the layer that is asked for.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    compile: compile::Options,
    /// Name of an operator of the network, also of one that is computed with others: as it stands in the model or in a
    /// program; else the begin of names, or a part of them.
    #[arg(long, value_name = "NAME")]
    layer: String,
    /// Maximum number of lines of each list.
    #[arg(long, value_name = "N", default_value_t = 8)]
    lines: usize,
}

/// Compiles, runs, and explains the layers of a name. An error is a rendered text.
pub(crate) fn explain(options: &Options) -> Result<String, String> {
    let compiled = compile::levels(&options.compile, true, &mut std::io::sink())?;
    let last = compiled.last.as_ref();
    let account = last.and_then(|last| Some((last.machine.as_ref()?, last.timeline.as_ref()?)));
    let Some((machine, timeline)) = account else {
        return Err(format!("error: {}\n", tir_run::NO_WORK));
    };
    let found = named(&machine.layers, &options.layer)?;
    let mut text = String::new();
    for layer in found {
        one(&mut text, layer, machine, timeline, &compiled, options);
    }
    Ok(text)
}

/// The most names that are proposed.
const PROPOSED: usize = 5;

/// The layers that a name means: those that have it, exactly or but for what cannot stand in the name of a value; else those
/// with names that begin with it; else with names that contain it.
fn named<'a>(layers: &'a [LayerSummary], word: &str) -> Result<Vec<&'a LayerSummary>, String> {
    fn names(layer: &LayerSummary) -> impl Iterator<Item = &String> {
        [&layer.name].into_iter().chain(&layer.at)
    }
    let plain = |name: &str| name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let value = plain(word);
    let ways: [&dyn Fn(&str) -> bool; 4] = [
        &|name| name == word,
        &|name| plain(name).trim_matches('_') == value.trim_matches('_'),
        &|name| name.starts_with(word),
        &|name| name.contains(word),
    ];
    for way in ways {
        let has = |layer: &&LayerSummary| names(layer).any(|name| way(name));
        let found: Vec<&LayerSummary> = layers.iter().filter(has).collect();
        if !found.is_empty() {
            return Ok(found);
        }
    }
    // Of those as near, in an order that the schedule does not change.
    let mut all: Vec<&str> = layers.iter().flat_map(names).map(String::as_str).collect();
    all.sort_unstable();
    let mut near = tir::near(word, all);
    let mut seen = std::collections::HashSet::new();
    near.retain(|name| seen.insert(*name));
    near.truncate(PROPOSED);
    let near = match near.is_empty() {
        true => String::new(),
        false => format!("  near it are {}\n", near.join(", ")),
    };
    let names: Vec<&str> = layers.iter().map(|layer| layer.name.as_str()).collect();
    Err(format!(
        "error: no layer has an operator '{word}'\n{near}  the layers are {}\n",
        names.join(", ")
    ))
}

/// Explains a layer.
fn one(
    text: &mut String,
    layer: &LayerSummary,
    machine: &MachineSummary,
    timeline: &Timeline,
    compiled: &Compiled,
    options: &Options,
) {
    let lines = options.lines;
    let share = |cycles: u64| 100.0 * cycles as f64 / machine.cycles.max(1) as f64;
    let end = layer.start + layer.cycles;
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{}: {} of {} cycles ({:.1} %), from {} to {end}",
        layer.name,
        layer.cycles,
        machine.cycles,
        share(layer.cycles),
        layer.start
    );
    if layer.at.len() > 1 {
        let _ = writeln!(text, "  operators: {}", layer.at.join(", "));
    }
    let busy = [
        ("units compute", layer.unit),
        ("loads", layer.load),
        ("stores", layer.store),
        ("the thread computes", layer.thread),
        ("queues wait for other work", layer.stall),
        ("the thread waits", layer.waiting + layer.queue_full),
    ];
    for (what, cycles) in busy.into_iter().filter(|(_, cycles)| *cycles > 0) {
        let of = 100.0 * cycles as f64 / layer.cycles.max(1) as f64;
        let _ = writeln!(
            text,
            "  {what:27} {cycles:>12} cycles {of:>6.1} % of its span"
        );
    }
    for (cause, bytes) in layer.causes.iter().filter(|(_, bytes)| **bytes > 0) {
        let _ = writeln!(text, "  {cause:27} {bytes:>12} bytes");
    }
    if let Some(useful) = layer.useful_macs.filter(|_| layer.macs > 0) {
        let percent = 100.0 * useful as f64 / layer.macs as f64;
        let _ = writeln!(
            text,
            "  {useful} multiply-adds, {percent:.1} % of the {} that units do for them",
            layer.macs
        );
    }
    waits(text, layer, timeline, lines);
    buffers(text, layer, timeline, lines);
    let (group, shown) = match options.compile.remarks {
        true => (Group::Equal, usize::MAX),
        false => (Group::Alike, lines),
    };
    let about = report::ranked(&compiled.remarks, group);
    let mut about = about
        .iter()
        .filter(|alike| alike.places().iter().any(|place| layer.at.contains(place)))
        .peekable();
    if about.peek().is_some() {
        let _ = writeln!(text, "  remarks:");
    }
    for alike in about.take(shown) {
        let _ = write!(text, "  {alike}");
    }
    let _ = writeln!(text);
}

/// What the queues of a layer waited for, longest first.
fn waits(text: &mut String, layer: &LayerSummary, timeline: &Timeline, lines: usize) {
    let mut sums: Vec<(&str, &str, u64)> = Vec::new();
    let own = timeline.stretches.iter();
    for stretch in own.filter(|stretch| stretch.layer == layer.name && stretch.waited > 0) {
        let row = timeline.rows[stretch.row].name.as_str();
        match sums
            .iter_mut()
            .find(|(known, what, _)| *known == row && *what == stretch.waited_for)
        {
            Some((.., sum)) => *sum += stretch.waited,
            None => sums.push((row, &stretch.waited_for, stretch.waited)),
        }
    }
    sums.sort_by_key(|(.., cycles)| std::cmp::Reverse(*cycles));
    if !sums.is_empty() {
        let _ = writeln!(text, "  what its queues waited for:");
    }
    for (row, what, cycles) in sums.into_iter().take(lines) {
        let _ = writeln!(text, "    {row:12} {cycles:>12} cycles for {what}");
    }
}

/// The buffers that a layer uses first or last, largest first.
fn buffers(text: &mut String, layer: &LayerSummary, timeline: &Timeline, lines: usize) {
    let of = |buffer: &&Buffer| buffer.layer == layer.name || buffer.until == layer.name;
    for space in timeline.spaces.iter().skip(1) {
        let mut own: Vec<&Buffer> = space.buffers.iter().filter(of).collect();
        own.sort_by_key(|buffer| std::cmp::Reverse(buffer.bytes));
        if !own.is_empty() {
            let _ = writeln!(
                text,
                "  its buffers in {} ({} bytes):",
                space.name, space.bytes
            );
        }
        for buffer in own.into_iter().take(lines) {
            let until = match buffer.until == layer.name || buffer.until.is_empty() {
                true => String::new(),
                false => format!(", until {}", buffer.until),
            };
            let _ = writeln!(
                text,
                "    {:24} {:>9} bytes at {:>8}, cycles {} to {}{until}",
                buffer.name, buffer.bytes, buffer.address, buffer.start, buffer.end
            );
        }
    }
}
