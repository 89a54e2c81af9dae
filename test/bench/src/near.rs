//! Bytes between far memory and near memory, by size of near memory: of the compiled program, as the machine counts them,
//! beside those that must move, those of a scratchpad that holds what was used last, and the fewest that keeping whole
//! tensors can come to.
//!
//! The program beside is the same network without residency: each group of ops a nest of its own, every tensor between
//! two of them in far memory, tiles chosen for the same near memory. Its command stream is recorded, and what its engines
//! touch in far memory, in that order, goes through [`Tiles`] and [`Lru`]; recorded with less near memory too, it is what
//! [`exact`] chooses from.
//!
//! Two bounds say what no tiles and no replacement can avoid: see [`bound`].
//!
//! Promised is that no bytes move but those that must wherever the largest live set fits near memory: the tensors that
//! live between two nests at a time. Where it does not, four fifths of what the scratchpad moves beyond them are gone, unless
//! that is below the bound of programs in the same order: then the row says so; and
//! of few tensors, the bytes are at most 1.05 times those of the exact choice.

mod bound;
mod exact;
mod lru;
mod speedup;
mod tensors;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use tir::workload::Workload;
use tir::{Ir, Loc, OpId, Pipeline};
use tir_accel::machine::MachineInfo;
use tir_func::Func;
use tir_levels::{AttachMachine, CountWork, ToAccel};
use tir_machine::{Report, Step};
use tir_schedule::stream::Stream;

use crate::covers::{On, STEPS, read, run};
use crate::networks::{root, said};
use exact::Choice;
use lru::{Lru, Tiles};

/// The share of what a scratchpad moves beyond what must that is gone at least.
const GONE: f64 = 0.8;
/// Bytes as a multiple of those of the exact choice at most.
const EXACT: f64 = 1.05;
/// Tensors of a graph for which there is an exact choice, at most.
const FEW: usize = 40;
/// Sizes of near memory in KiB.
const SIZES: [u64; 8] = [64, 128, 256, 512, 1024, 2048, 4096, 8192];

/// What is measured.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    on: On,
    /// Sizes of near memory in KiB; none: 64 to 8192
    #[arg(long, value_name = "KIB", value_delimiter = ',')]
    kib: Vec<u64>,
    /// Graphs of few tensors, in place of ResNet-18 and MobileNetV2
    #[arg(long, conflicts_with = "files")]
    few: bool,
    /// Which tensors stay, as `tile` has it: cycles, bytes or static
    #[arg(long, value_name = "POLICY", default_value = "cycles")]
    policy: String,
    /// How many times quicker residency makes networks on onsram, beside each policy's and near memory without limit
    #[arg(long, conflicts_with_all = ["few", "kib", "policy"])]
    speedup: bool,
    /// What each tensor of far memory moves beyond what must, in place of the sums
    #[arg(long, conflicts_with = "speedup")]
    tensors: bool,
}

/// The network with one policy.
fn with(policy: &str) -> ToAccel {
    ToAccel {
        near_policy: policy.to_string(),
        ..ToAccel::default()
    }
}

/// A machine file with another size of the space that tiles lie in.
fn resized(machine: &Path, kib: u64) -> Result<PathBuf, String> {
    let fails = |what: &str| format!("{}: {what}", machine.display());
    let text = std::fs::read_to_string(machine).map_err(|e| fails(&e.to_string()))?;
    let mut spaces = text.match_indices("accel.space @").skip(1);
    let (at, _) = spaces.next().ok_or_else(|| fails("has one space"))?;
    let (before, rest) = text.split_at(at);
    let (head, rest) = rest
        .split_once("{bytes = ")
        .ok_or_else(|| fails("the size of a space does not come first"))?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    let made = format!("{before}{head}{{bytes = {}{}", kib << 10, &rest[end..]);
    let file = std::env::temp_dir().join(format!("tir-bench-{}-{kib}.tir", std::process::id()));
    std::fs::write(&file, made).map_err(|e| fails(&e.to_string()))?;
    Ok(file)
}

/// Bytes of all memory but the far one.
fn near_bytes(network: &Ir, machine: &Path) -> Result<u64, String> {
    let mut module = network.clone();
    let mut pipeline = Pipeline::new();
    pipeline.add(AttachMachine {
        file: Some(machine.display().to_string()),
    });
    run(pipeline, &mut module)?;
    let info = MachineInfo::attached(&module).ok_or("no machine")?;
    let near = info.spaces.iter().skip(1);
    Ok(near.map(|space| space.bytes.unsigned_abs()).sum())
}

/// Lowers a network; gives the module and its first function.
fn lowered(network: &Ir, machine: &Path, level: ToAccel) -> Result<(Ir, OpId), String> {
    let mut module = network.clone();
    let mut pipeline = Pipeline::new();
    pipeline.add(AttachMachine {
        file: Some(machine.display().to_string()),
    });
    pipeline.alias(level);
    run(pipeline, &mut module)?;
    let mut slots = module.slots().into_iter();
    let function = slots.find(|slot| module.is::<Func>(*slot));
    let function = function.ok_or("no function")?;
    Ok((module, function))
}

/// The network without residency.
pub(crate) fn without() -> ToAccel {
    ToAccel {
        egraph: Some(false),
        max_stages: 1,
        resident: false,
        ..ToAccel::default()
    }
}

/// What a network lowered so does on a machine, as the machine counts it.
pub(crate) fn report(network: &Ir, machine: &Path, level: ToAccel) -> Result<Report, String> {
    let (module, function) = lowered(network, machine, level)?;
    let info = MachineInfo::attached(&module).ok_or("no machine")?;
    let function = module.child(function).ok_or("no function")?;
    let report = tir_schedule::dry_run::dry_run(function, Some(&module), &info, STEPS);
    report.map_err(|e| said(&[*e]))
}

/// Bytes that engines read from far memory and write to it.
pub(crate) fn moved(report: &Report) -> u64 {
    let far = report.spaces.first();
    far.map_or(0, |far| far.read + far.written)
}

/// Runs of bytes of a buffer that work of an engine touches.
struct Access {
    time: u64,
    buffer: usize,
    write: bool,
    runs: Vec<(u64, u64)>,
    /// The place of the operation in the program.
    loc: Loc,
}

/// What the engines of a network touch in far memory, in order, and the bytes of each buffer.
struct Accesses {
    all: Vec<Access>,
    sizes: Vec<u64>,
}

impl Accesses {
    fn of(network: &Ir, machine: &Path, level: ToAccel) -> Result<Self, String> {
        let (module, function) = lowered(network, machine, level)?;
        let info = MachineInfo::attached(&module).ok_or("no machine")?;
        let function = module.child(function).ok_or("no function")?;
        let stream = Stream::record(function, Some(&module), &info, STEPS);
        let stream = stream.map_err(|_| "cannot be recorded without data")?;
        let engines = info.engines.len();
        let recording = &stream.recording;
        let places = recording.places();
        let mut all = Vec::new();
        for (time, step) in recording.steps().enumerate() {
            let engine = matches!(step.step, Step::Start(queue) if queue.index() < engines);
            for touch in step.touches.iter().filter(|_| engine) {
                // A part lies where the buffer does that it is part of.
                if stream.near[places[touch.buffer.index()].0.index()] {
                    continue;
                }
                let mut runs = Vec::new();
                let base = touch.offset as u64;
                let form = recording.form(touch.form);
                form.each_at(base, |start, run| runs.push((start, run)));
                all.push(Access {
                    time: time as u64,
                    buffer: touch.buffer.index(),
                    write: touch.write,
                    runs,
                    loc: stream
                        .ops
                        .get(step.site.index())
                        .map_or(Loc::UNKNOWN, |op| op.loc),
                });
            }
        }
        let sizes = places.iter().map(|place| place.2).collect();
        Ok(Self { all, sizes })
    }

    /// Buffers, each with the numbers of its accesses.
    fn buffers(&self) -> Vec<(usize, Vec<usize>)> {
        let mut by: HashMap<usize, Vec<usize>> = HashMap::new();
        for (number, access) in self.all.iter().enumerate() {
            by.entry(access.buffer).or_default().push(number);
        }
        let mut by: Vec<(usize, Vec<usize>)> = by.into_iter().collect();
        by.sort_unstable();
        by
    }

    fn bytes(&self, which: &[usize]) -> u64 {
        let runs = which.iter().flat_map(|i| &self.all[*i].runs);
        runs.map(|(_, run)| run).sum()
    }

    /// Whether a buffer is read and written: nobody needs what is in it behind its last access.
    fn is_between(&self, which: &[usize]) -> bool {
        let writes = |write: bool| which.iter().any(|i| self.all[*i].write == write);
        writes(true) && writes(false)
    }

    /// The number of each buffer's last access, if nobody needs what is in it behind that.
    fn ends(&self) -> HashMap<usize, usize> {
        let buffers = self.buffers().into_iter();
        let between = buffers.filter(|(_, which)| self.is_between(which));
        let last = between.filter_map(|(buffer, which)| Some((*which.last()?, buffer)));
        last.collect()
    }

    /// Bytes that are moved and held together at least.
    fn word(&self) -> u64 {
        let runs = self.all.iter().flat_map(|access| &access.runs);
        runs.fold(64, |all, (start, run)| {
            tir_machine::gcd(tir_machine::gcd(all, *start), *run)
        })
    }

    /// Bytes that a scratchpad of so many bytes moves that holds tiles, and one that holds words.
    fn lru(&self, capacity: u64) -> [u64; 2] {
        let (word, ends) = (self.word(), self.ends());
        let size = |buffer: usize| self.sizes[buffer].div_ceil(word) as usize;
        let touched: HashSet<usize> = self.all.iter().map(|access| access.buffer).collect();
        let sizes = (0..self.sizes.len()).map(|buffer| match touched.contains(&buffer) {
            true => size(buffer),
            false => 0,
        });
        let sizes: Vec<usize> = sizes.collect();
        let starts = sizes.iter().scan(0, |all, size| {
            *all += size;
            Some(*all - size)
        });
        let starts: Vec<usize> = starts.collect();
        let room = (capacity / word) as usize;
        let mut tiles = Tiles::new(room, sizes.iter().copied());
        let mut words = Lru::new(room, sizes.iter().sum());
        for (number, access) in self.all.iter().enumerate() {
            let base = starts[access.buffer];
            let runs = access.runs.iter();
            let runs = runs.map(|(start, run)| ((start / word) as usize, (run / word) as usize));
            let runs: Vec<(usize, usize)> = runs.collect();
            for (start, run) in &runs {
                let own = base + start..base + start + run;
                own.for_each(|at| words.touch(at, access.write));
            }
            tiles.touch((access.buffer, runs), access.write);
            if let Some(buffer) = ends.get(&number) {
                words.forget(base..base + sizes[*buffer]);
                tiles.forget(*buffer);
            }
        }
        tiles.finish();
        words.finish();
        let moved = [tiles.fetched + tiles.written, words.fetched + words.written];
        moved.map(|count| count * word)
    }
}

/// Bytes that must move: arguments, constants and results once.
pub(crate) fn compulsory(network: &Ir) -> Result<u64, String> {
    let mut module = network.clone();
    let mut pipeline = Pipeline::new();
    pipeline.nest("func.func", |p| {
        p.add(CountWork::default());
    });
    run(pipeline, &mut module)?;
    let mut slots = module.slots().into_iter();
    let function = slots.find_map(|slot| module.child(slot));
    let work = function.and_then(Workload::attached);
    let work = work.ok_or("what it computes is not known")?;
    Ok(work.bytes_in() + work.bytes_out())
}

/// The most bytes that live at a time between nests.
fn largest(accesses: &Accesses) -> u64 {
    let buffers = accesses.buffers().into_iter();
    let between = buffers.filter(|(_, which)| accesses.is_between(which));
    let time = |i: Option<&usize>| i.map_or(0, |i| accesses.all[*i].time);
    let lives = between.map(|(buffer, which)| {
        let life = time(which.first())..=time(which.last());
        (life, accesses.sizes[buffer])
    });
    let lives: Vec<_> = lives.collect();
    let at = |time: u64| -> u64 {
        let live = lives.iter().filter(|(life, _)| life.contains(&time));
        live.map(|(_, bytes)| bytes).sum()
    };
    lives
        .iter()
        .map(|(life, _)| at(*life.start()))
        .max()
        .unwrap_or(0)
}

fn small() -> Vec<PathBuf> {
    let blocks = [
        "fire",
        "bottleneck",
        "inverted",
        "branches",
        "unet",
        "dense",
    ]
    .map(crate::covers::program);
    let models = ["cnn", "encoder"].map(|n| root().join(format!("test/e2e/models/{n}.onnx")));
    blocks.into_iter().chain(models).collect()
}

/// Prints a row for each network and size.
///
/// # Errors
/// A file that cannot be read, a network that cannot be lowered or recorded.
pub(crate) fn near(options: &Options) -> Result<(), String> {
    tir_opt::stock().load();
    if options.speedup {
        return speedup::speedup(&options.on);
    }
    let files = options.on.files(|| match options.few {
        true => small(),
        false => ["resnet18", "mobilenet_v2"].map(PathBuf::from).to_vec(),
    });
    let sizes = match options.kib.is_empty() {
        true => SIZES.to_vec(),
        false => options.kib.clone(),
    };
    println!("bytes between far memory and near memory, and cycles, by size of near memory");
    println!(
        "{:<13} {:<7} {:>6} {:>9} {:>11} {:>11} {:>11} {:>11} {:>6} {:>11} {:>6} {:>6} {:>11} {:>11} {:>6} {:>11} {:>11} {:>6}",
        "network",
        "machine",
        "KiB",
        "live KiB",
        "compulsory",
        "moved",
        "LRU",
        "of words",
        "gone",
        "in order",
        "ratio",
        "gone",
        "any order",
        "exact",
        "ratio",
        "cycles",
        "without",
        ""
    );
    let mut missed = 0;
    for file in &files {
        let (name, network) = read(file)?;
        let must = compulsory(&network).map_err(|what| format!("{name}: {what}"))?;
        for machine in options.on.machines(&["npu"]) {
            for kib in &sizes {
                let on = machine
                    .file_stem()
                    .unwrap_or_default()
                    .display()
                    .to_string();
                let sized = resized(&machine, *kib)?;
                if options.tensors {
                    let told = tensors::tensors(&network, &sized, &options.policy);
                    let _ = std::fs::remove_file(&sized);
                    println!("{name} on {on}, {kib} KiB");
                    print!("{}", told.map_err(|what| format!("{name}: {what}"))?);
                    continue;
                }
                let line = row(&network, &sized, &options.policy, (*kib, must));
                let _ = std::fs::remove_file(&sized);
                let (line, ok) = line.map_err(|what| format!("{name}, {kib} KiB: {what}"))?;
                missed += usize::from(!ok);
                println!("{name:<13} {on:<7} {kib:>6} {line}");
            }
        }
    }
    println!(
        "wanted: moved = compulsory where what lives fits, {GONE} of what LRU moves beyond it gone elsewhere, {EXACT} of \
         exact; rows that miss one: {missed}"
    );
    Ok(())
}

/// The columns of a network on a machine, and whether they are what is promised.
fn row(
    network: &Ir,
    machine: &Path,
    policy: &str,
    (kib, must): (u64, u64),
) -> Result<(String, bool), String> {
    let capacity = kib << 10;
    let ours = report(network, machine, with(policy))?;
    let apart = report(network, machine, without())?;
    let accesses = Accesses::of(network, machine, without())?;
    let all = accesses.bytes(&(0..accesses.all.len()).collect::<Vec<_>>());
    // A transfer may read a byte several times; here it counts once.
    if all > moved(&apart) {
        return Err(format!(
            "the recorded stream moves {all} bytes, the machine counts {}",
            moved(&apart)
        ));
    }
    let [lru, words] = accesses.lru(capacity);
    let (live, bytes) = (largest(&accesses), moved(&ours));
    let beyond = |bytes: u64| bytes.saturating_sub(must) as f64;
    let gone = match beyond(lru) > 0.0 {
        true => 1.0 - beyond(bytes) / beyond(lru),
        false => 1.0,
    };
    let bounds = bound::bounds(network, near_bytes(network, machine)?, must)?;
    // Of what LRU moves beyond the least of programs in the same order.
    let over = |bytes: u64| bytes as f64 - bounds.in_order as f64;
    let avoidable = match over(lru) > 0.0 {
        true => format!("{:.3}", 1.0 - over(bytes) / over(lru)),
        false => "-".to_string(),
    };
    let times = bytes as f64 / bounds.in_order.max(1) as f64;
    let fits = live <= capacity;
    // What no program of the same order reaches is not asked for.
    let asked = must as f64 + (1.0 - GONE) * beyond(lru);
    let out_of_reach = !fits && asked < bounds.in_order as f64;
    let mut ok = match fits {
        true => bytes <= must,
        false => gone >= GONE || out_of_reach,
    };
    let buffers = accesses.buffers().into_iter();
    let few = buffers
        .filter(|(_, which)| accesses.is_between(which))
        .count()
        <= FEW;
    let chosen = few.then(|| Choice::of(network, machine, &accesses, capacity));
    let (exact, ratio) = match chosen.and_then(|choice| choice.best(capacity)) {
        Some(best) => {
            let least = best.moved;
            let ratio = bytes as f64 / least as f64;
            ok &= ratio <= EXACT;
            // Where its buffers have no places, it is a bound.
            let bound = if best.placed { "" } else { "<" };
            (format!("{bound}{least}"), format!("{ratio:.3}"))
        }
        None => ("-".to_string(), "-".to_string()),
    };
    let line = format!(
        "{:>9} {must:>11} {bytes:>11} {lru:>11} {words:>11} {gone:>6.3} {:>11} {times:>6.3} {avoidable:>6} {:>11} {exact:>11} {ratio:>6} {:>11} {:>11} {:>6}",
        live >> 10,
        bounds.in_order,
        bounds.any_order,
        ours.cycles,
        apart.cycles,
        match (ok, out_of_reach && gone < GONE) {
            (true, true) => "below bound",
            (true, false) => "",
            (false, _) => "missed",
        }
    );
    Ok((line, ok))
}
