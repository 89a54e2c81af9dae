//! Prices beside cycles: random programs equal to a network, and each of their groups alone.
//!
//! What is measured is the estimate by which tiles, nests, and the e-graph's program are chosen (`Tile::price`), on
//! programs that nobody would choose as well as on good ones. A *cover* of a network is any program of its e-graph with its
//! operators fused at random: both are drawn by a seed, so a run gives the same table again. Each is priced, lowered to the
//! machine and run there without data, all of a network in one module, so that equal nests are planned once.
//!
//! What the price promises: covers are in the order of their prices (Spearman's rank correlation), a price is near the
//! cycles, and the cheapest cover by price is one of the best.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tir::interp::to_attr;
use tir::pass::Settings;
use tir::{At, Attr, Data, Ir, Mapping, Name, OpId, PassManager, Pipeline, Traits, Type, Value};
use tir_accel::machine::MachineInfo;
use tir_convert::FuseGraph;
use tir_egraph::Egraph;
use tir_func::Func;
use tir_generic::ConstantFold;
use tir_graph::Fused;
use tir_levels::{AttachMachine, ToAccel, ToTensor, alone};
use tir_tensor::{CollapseShape, ExpandShape};
use tir_tile::{CYCLES, EstimateCycles};

use tir_support::networks::{mobilenet_v2, resnet18, squeezenet};

use crate::networks::{root, said};

/// Ranks are compared where the dearest cover takes so many times the cycles of the cheapest at least.
const SPREAD: f64 = 1.05;
/// The rank correlation that a network has at least, and that they have in the median.
const RANKS: [f64; 2] = [0.85, 0.9];
/// What prices are of cycles.
const RATIO: [f64; 2] = [0.95, 1.15];
/// Cycles of the cover with the lowest price, as a multiple of those of the best one.
const BEST: f64 = 1.02;
/// What the price of a group alone is of its cycles.
const ALONE: [f64; 2] = [0.9, 1.1];
/// The share of groups of which that holds.
const GROUPS: f64 = 0.95;
/// Steps of a run without data.
pub(crate) const STEPS: u64 = 200_000_000;

/// What is measured.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    on: On,
    /// Covers of each network
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(2..))]
    covers: u64,
    /// What covers are drawn by
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Do not measure groups alone
    #[arg(long)]
    no_groups: bool,
    /// Print so many of the groups whose price is off most, as programs
    #[arg(long, value_name = "N", default_value_t = 0)]
    worst: usize,
    /// Print price and cycles of each cover
    #[arg(long)]
    each: bool,
}

/// A program with its price and its cycles.
struct Priced {
    name: String,
    price: Option<u64>,
    /// None where they depend on data.
    cycles: Option<u64>,
}

impl Priced {
    fn ratio(&self) -> Option<f64> {
        Some(self.price? as f64 / self.cycles? as f64)
    }
}

/// The networks of the project: models, those that are made, and programs of the e-graph's tests.
fn committed() -> Vec<PathBuf> {
    let models = ["micro", "walkthrough", "cnn", "encoder"].map(|n| format!("models/{n}.onnx"));
    let programs = [
        "bert",
        "inception",
        "nasnet",
        "nasrnn",
        "resnet50",
        "resnext50",
    ];
    let file = |file: String| root().join("test/e2e").join(file);
    let networks = ["squeezenet", "mobilenet_v2", "resnet18"].map(PathBuf::from);
    let models = models.map(file).into_iter().chain(networks);
    models.chain(programs.map(program)).collect()
}

/// A program of the e-graph's tests.
pub(crate) fn program(name: &str) -> PathBuf {
    root().join(format!("test/e2e/egraph/{name}.tir"))
}

/// Networks and machines.
#[derive(clap::Args)]
pub(crate) struct On {
    /// Models, folders with `model.onnx`, programs of graph ops, networks in TASO's text export, or squeezenet,
    /// mobilenet_v2 and resnet18, which are made; none: some of the repository
    #[arg(value_name = "FILE.onnx|FILE.tir|FILE.model|FOLDER|NAME")]
    files: Vec<PathBuf>,
    /// Machine files; none: npu, wide, bursts, and for covers npu-vector
    #[arg(long = "machine", value_name = "FILE.tir")]
    machines: Vec<PathBuf>,
}

impl On {
    /// The networks, or others if none are given.
    pub(crate) fn files(&self, others: impl FnOnce() -> Vec<PathBuf>) -> Vec<PathBuf> {
        match self.files.is_empty() {
            true => others(),
            false => self.files.clone(),
        }
    }
    /// The machine files, or those of these names if none are given.
    pub(crate) fn machines(&self, others: &[&str]) -> Vec<PathBuf> {
        match self.machines.is_empty() {
            true => machines(others),
            false => self.machines.clone(),
        }
    }
}

/// The machine files of names.
fn machines(names: &[&str]) -> Vec<PathBuf> {
    let file = |n: &&str| root().join(format!("test/e2e/machines/{n}.tir"));
    names.iter().map(file).collect()
}

/// A network made by its published architecture, by name.
fn made(name: &str) -> Option<Ir> {
    Some(match name {
        "squeezenet" => squeezenet(1),
        "mobilenet_v2" => mobilenet_v2(1),
        "resnet18" => resnet18(1),
        _ => return None,
    })
}

/// A network's name, and its module.
pub(crate) fn read(file: &Path) -> Result<(String, Ir), String> {
    let name = file.file_stem().unwrap_or_default().display().to_string();
    let fails = |what: String| format!("{}: {what}", file.display());
    if let Some(module) = file.to_str().and_then(made) {
        return Ok((name, module));
    }
    if file.extension().is_some_and(|e| e == "tir") {
        let text = std::fs::read_to_string(file).map_err(|e| fails(e.to_string()))?;
        let module = tir::text::parse(&text, Name::new(&name), &Default::default())
            .map_err(|e| fails(said(&e)))?;
        let folder = file.parent().unwrap_or(Path::new("."));
        tir_io::load_blobs(&module, folder).map_err(|e| fails(said(&e)))?;
        return Ok((name, bound(&module).map_err(fails)?));
    }
    if file.extension().is_some_and(|e| e == "model") {
        let module = tir_translate::import_tensat_model(file).map_err(|e| fails(said(&e)))?;
        return Ok((name, bound(&module).map_err(fails)?));
    }
    let model = match file.is_dir() {
        true => file.join("model.onnx"),
        false => file.to_path_buf(),
    };
    let module = tir_translate::import_onnx(&model).map_err(|e| fails(said(&e)))?;
    Ok((name, module))
}

/// A module whose functions have random constants for their arguments `%w…`, as networks have for their weights: then
/// they are brought into the order that units take at compile time.
fn bound(module: &Ir) -> Result<Ir, String> {
    let mut made = module.clone();
    for slot in made.slots() {
        let Some(function) = made.take(slot).filter(|f| f.is::<Func>(f.root())) else {
            return Err("has more than functions".to_string());
        };
        adopt(&mut made, with_weights(&function)?, "main");
    }
    Ok(made)
}

fn with_weights(function: &Ir) -> Result<Ir, String> {
    let entry = function.body_block(function.root(), 0).ok_or("no body")?;
    let is_weight = |v: &Value| {
        function
            .hint(*v)
            .is_some_and(|h| h.as_str().starts_with('w'))
    };
    let (weights, inputs): (Vec<Value>, Vec<Value>) = function.args(entry).partition(is_weight);
    let types: Vec<Type> = inputs.iter().map(|v| function.ty(*v)).collect();
    let end = function.terminator(entry).ok_or("no terminator")?;
    let results: Vec<Type> = function.operands(end).map(|v| function.ty(v)).collect();
    let (mut made, block) = tir_func::function("main", Type::function(types, results));
    let mut map = Mapping::default();
    for (number, value) in inputs.iter().enumerate() {
        map.map(*value, made.arg(block, number));
    }
    for (seed, value) in (1..).zip(weights) {
        let ty = function.ty(value);
        let data = Data::random(ty, seed).map_err(|e| said(&[*e]))?;
        let value_of = to_attr(&data, ty).ok_or("weights that are no tensors")?;
        let constant = tir_graph::Constant { value: value_of };
        map.map(value, made.add(At::End(block), constant));
    }
    for op in function.ops_in(entry) {
        made.copy_op(function, op, At::End(block), &mut map);
    }
    Ok(made)
}

/// A module of so many copies of a module's first function, each of a name of its own.
fn copies(module: &Ir, count: u64) -> Result<Ir, String> {
    let mut made = module.clone();
    let functions = made.slots().into_iter().filter(|s| made.is::<Func>(*s));
    let functions: Vec<OpId> = functions.collect();
    let Some(function) = functions.first().and_then(|slot| made.take(*slot)) else {
        return Err("no function".to_string());
    };
    for slot in &functions[1..] {
        made.take(*slot);
    }
    for number in 0..count {
        adopt(&mut made, function.clone(), &format!("cover_{number}"));
    }
    Ok(made)
}

fn adopt(module: &mut Ir, mut function: Ir, name: &str) {
    let root = function.root();
    function.set_attr(root, "sym_name", Attr::str(name));
    if let Some(body) = module.body_block(module.root(), 0) {
        module.adopt(At::End(body), function);
    }
}

pub(crate) fn run(pipeline: Pipeline, module: &mut Ir) -> Result<(), String> {
    run_without(pipeline, module, &[])
}

/// The same without some rules.
pub(crate) fn run_without(
    pipeline: Pipeline,
    module: &mut Ir,
    rules: &[String],
) -> Result<(), String> {
    // On one thread, what is known of nests is known to all functions.
    let settings = Settings {
        threads: 1,
        verify: false,
        disabled_rules: rules.iter().cloned().collect(),
        ..Settings::default()
    };
    let report = PassManager::with(pipeline, settings).run(module);
    report.into_result().map_err(|e| said(&e))
}

/// Makes every function of a module an equal one, of ops on tensors.
fn draw(module: &mut Ir, machine: &Path, seed: u64) -> Result<(), String> {
    let mut pipeline = Pipeline::new();
    pipeline.add(AttachMachine {
        file: Some(machine.display().to_string()),
    });
    pipeline.nest("func.func", |p| {
        p.add(Egraph {
            random: Some(seed),
            ..Egraph::default()
        });
        p.add(ConstantFold::default());
        p.add(FuseGraph {
            partition: "random".to_string(),
            seed,
            ..FuseGraph::default()
        });
    });
    pipeline.alias(ToTensor {
        egraph: Some(false),
        ..ToTensor::default()
    });
    run(pipeline, module)
}

/// Whether a group computes nothing: what it gives is what it is given, of another shape.
fn only_views(function: &Ir, group: OpId) -> bool {
    let view = |op: &OpId| {
        function.is::<CollapseShape>(*op)
            || function.is::<ExpandShape>(*op)
            || function.has(*op, Traits::Terminator)
    };
    function.walk_below(group).iter().all(view)
}

/// What decides about the cycles of a group: its text, but for the contents of constants and the names of values.
fn signature(function: &Ir) -> String {
    let mut plain = function.clone();
    for op in plain.walk_ids() {
        let mut values: Vec<Value> = plain.results(op).collect();
        for region in plain.regions(op) {
            for block in plain.blocks(region) {
                values.extend(plain.args(block));
            }
        }
        for value in values {
            plain.set_hint(value, None);
            if plain.constant(value).is_some() && plain.ty(value).shape().is_some() {
                plain.set_attr(op, "value", Attr::unit());
            }
        }
    }
    let options = tir::text::PrintOptions {
        generic: true,
        ..Default::default()
    };
    tir::text::print(&plain, &options)
}

/// Adds each distinct group of a module's functions as a function; gives how many.
fn add_groups(module: &mut Ir, known: &mut HashSet<String>) -> usize {
    let mut found = Vec::new();
    for slot in module.slots() {
        let Some(function) = module.child(slot).filter(|_| module.is::<Func>(slot)) else {
            continue;
        };
        for op in function.walk_ids() {
            if function.is::<Fused>(op) && !only_views(function, op) {
                let group = alone(function, op);
                if known.insert(signature(&group)) {
                    found.push(group);
                }
            }
        }
    }
    let count = found.len();
    for (number, group) in found.into_iter().enumerate() {
        adopt(module, group, &format!("group_{number}"));
    }
    count
}

/// Lowers the functions of a module, notes the price of each, and runs it without data.
fn measure(module: &mut Ir) -> Result<Vec<Priced>, String> {
    let mut pipeline = Pipeline::new();
    pipeline.nest("func.func", |p| {
        p.add(EstimateCycles::default());
    });
    pipeline.alias(ToAccel {
        egraph: Some(false),
        ..ToAccel::default()
    });
    run(pipeline, module)?;
    let info = MachineInfo::attached(module).ok_or("no machine")?;
    let mut all = Vec::new();
    for slot in module.slots() {
        let Some(function) = module.child(slot).filter(|_| module.is::<Func>(slot)) else {
            continue;
        };
        let root = function.root();
        let name = function.attr(root, "sym_name");
        let name = name.and_then(|name| Some(name.as_str()?.to_string()));
        let price = function.attr(root, CYCLES).and_then(|n| n.as_int());
        let report = tir_schedule::dry_run::dry_run(function, Some(module), &info, STEPS);
        let cycles = match report {
            Ok(report) => Some(report.cycles),
            Err(e) if e.message.contains("depends on data") => None,
            Err(e) => return Err(said(&[*e])),
        };
        all.push(Priced {
            name: name.unwrap_or_default(),
            price: price.and_then(|n| u64::try_from(n).ok()),
            cycles,
        });
    }
    Ok(all)
}

/// The places of numbers in their order; equal ones share the middle of theirs.
fn ranks(of: &[f64]) -> Vec<f64> {
    let rank = |n: &f64| {
        let below = of.iter().filter(|other| *other < n).count();
        let equal = of.iter().filter(|other| *other == n).count();
        below as f64 + (equal as f64 - 1.0) / 2.0
    };
    of.iter().map(rank).collect()
}

/// Spearman's rank correlation; none where all numbers of one kind are equal.
fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 - 1.0) / 2.0;
    let sum = |a: &[f64], b: &[f64]| -> f64 {
        let pairs = a.iter().zip(b);
        pairs.map(|(a, b)| (a - mean) * (b - mean)).sum()
    };
    let (aa, bb) = (sum(&a, &a), sum(&b, &b));
    (aa > 0.0 && bb > 0.0).then(|| sum(&a, &b) / (aa * bb).sqrt())
}

fn middle(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// What holds of all rows.
#[derive(Default)]
struct Held {
    rows: usize,
    ranks: Vec<f64>,
    ratio: usize,
    best: usize,
    groups: usize,
    near: usize,
}

impl Held {
    /// Prints the row of the covers of a network on a machine.
    fn covers(&mut self, head: &str, covers: &[Priced], seconds: f64) {
        let both = covers.iter().filter_map(|p| Some((p.price?, p.cycles?)));
        let both: Vec<(u64, u64)> = both.collect();
        if both.is_empty() {
            println!("{head}  cycles depend on data, or no price");
            return;
        }
        let prices: Vec<f64> = both.iter().map(|(price, _)| *price as f64).collect();
        let cycles: Vec<f64> = both.iter().map(|(_, cycles)| *cycles as f64).collect();
        let least = cycles.iter().copied().fold(f64::INFINITY, f64::min);
        let most = cycles.iter().copied().fold(0.0, f64::max);
        let ratios: Vec<f64> = covers.iter().filter_map(Priced::ratio).collect();
        let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ratios.iter().copied().fold(0.0, f64::max);
        let cheapest = both.iter().min().map_or(0, |(_, cycles)| *cycles);
        let best = cheapest as f64 / least.max(1.0);
        let ranks = spearman(&prices, &cycles).filter(|_| most >= SPREAD * least);
        self.rows += 1;
        self.ranks.extend(ranks);
        let outside = low < RATIO[0] || high > RATIO[1];
        self.ratio += usize::from(!outside);
        self.best += usize::from(best <= BEST);
        let mark = |off: bool| if off { '*' } else { ' ' };
        let ranked = ranks.map_or("      - ".to_string(), |ranks| {
            format!("{ranks:>7.3}{}", mark(ranks < RANKS[0]))
        });
        println!(
            "{head} {:>4} {least:>11} {:>6.2}  {ranked}  {:>6.3} {low:>6.3} {high:>6.3}{}  {best:>7.3}{} {seconds:>6.1}",
            both.len(),
            most / least.max(1.0),
            middle(ratios),
            mark(outside),
            mark(best > BEST),
        );
    }

    /// Prints the row of the groups of a network on a machine alone.
    fn groups(&mut self, groups: &[Priced]) {
        let mut ratios: Vec<f64> = groups.iter().filter_map(Priced::ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let near = ratios.iter().filter(|r| (ALONE[0]..=ALONE[1]).contains(*r));
        let near = near.count();
        self.groups += ratios.len();
        self.near += near;
        let at = |share: usize| {
            let at = (ratios.len() * share / 100).min(ratios.len().saturating_sub(1));
            ratios.get(at).copied().unwrap_or(f64::NAN)
        };
        println!(
            "{:<25} {:>4} groups alone, {:>5.1} % within 10 %; price / cycles {:.3} {:.3} {:.3} {:.3} {:.3}",
            "",
            ratios.len(),
            100.0 * near as f64 / ratios.len().max(1) as f64,
            at(0),
            at(5),
            at(50),
            at(95),
            at(100),
        );
    }

    fn print(&self) {
        let good = self.ranks.iter().filter(|r| **r >= RANKS[0]).count();
        println!("\nof {} networks on machines:", self.rows);
        println!(
            "  rank correlation {} or more: {good} of {} with covers that differ; median {:.3} ({} wanted)",
            RANKS[0],
            self.ranks.len(),
            middle(self.ranks.clone()),
            RANKS[1]
        );
        println!("  price / cycles within {RATIO:?}: {}", self.ratio);
        println!("  the cheapest within {BEST} of the best: {}", self.best);
        if self.groups > 0 {
            println!(
                "  of {} groups alone {:.1} % within 10 % ({:.0} % wanted)",
                self.groups,
                100.0 * self.near as f64 / self.groups as f64,
                100.0 * GROUPS
            );
        }
    }
}

/// Prints the groups whose price is off most.
fn print_worst(module: &Ir, groups: &[Priced], count: usize) {
    let off = |p: &Priced| p.ratio().map_or(0.0, |r| r.ln().abs());
    let mut order: Vec<&Priced> = groups.iter().filter(|p| p.ratio().is_some()).collect();
    order.sort_by(|a, b| off(b).total_cmp(&off(a)));
    let table = tir::SymbolTable::new(module);
    for group in order.into_iter().take(count) {
        let function = table.get(Name::new(&group.name));
        let Some(function) = function.and_then(|op| module.child(op.id)) else {
            continue;
        };
        println!(
            "\n// price {}, cycles {}: {:.3}\n{}",
            group.price.unwrap_or(0),
            group.cycles.unwrap_or(0),
            group.ratio().unwrap_or(0.0),
            tir::text::print(function, &Default::default())
        );
    }
}

/// Prints a row for the covers of each network on each machine, and one for their groups.
///
/// # Errors
/// A file that cannot be read, a cover that cannot be lowered or that does not run without a fault.
pub(crate) fn covers(options: &Options) -> Result<(), String> {
    tir_opt::stock().load();
    let files = options.on.files(committed);
    let machines = options
        .on
        .machines(&["npu", "wide", "bursts", "npu-vector"]);
    println!(
        "{} covers by seed {}; * where less is held than is promised",
        options.covers, options.seed
    );
    println!(
        "{:<13} {:<11} {:>4} {:>11} {:>6}  {:>8}  {:>6} {:>6} {:>6}   {:>7}  {:>6}",
        "network",
        "machine",
        "",
        "best",
        "spread",
        "ranks",
        "median",
        "least",
        "most",
        "chosen",
        "s"
    );
    let mut held = Held::default();
    for file in &files {
        let (name, network) = read(file)?;
        let network = copies(&network, options.covers).map_err(|e| format!("{name}: {e}"))?;
        for machine in &machines {
            let on = machine
                .file_stem()
                .unwrap_or_default()
                .display()
                .to_string();
            let fails = |what: String| format!("{name} on {on}: {what}");
            let start = Instant::now();
            let mut module = network.clone();
            draw(&mut module, machine, options.seed).map_err(fails)?;
            if !options.no_groups {
                add_groups(&mut module, &mut HashSet::new());
            }
            let before = module.clone();
            let measured = measure(&mut module).map_err(fails)?;
            let (groups, covers): (Vec<Priced>, Vec<Priced>) = measured
                .into_iter()
                .partition(|priced| priced.name.starts_with("group_"));
            let seconds = start.elapsed().as_secs_f64();
            held.covers(&format!("{name:<13} {on:<11}"), &covers, seconds);
            if options.each {
                for cover in &covers {
                    println!(
                        "  {} {:?} {:?} {:?}",
                        cover.name,
                        cover.price,
                        cover.cycles,
                        cover.ratio()
                    );
                }
            }
            if !options.no_groups {
                held.groups(&groups);
                print_worst(&before, &groups, options.worst);
            }
        }
    }
    held.print();
    Ok(())
}
