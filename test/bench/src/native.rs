//! Networks as native code on this processor, whole, by layer and each convolution alone, beside ONNX Runtime and OpenVINO
//! where Python has them: one thread each, in turns.

mod alone;
mod by_layer;
mod convolution;
mod peak;
mod peer;
mod products;
mod stand_in;
mod table;
mod threads;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

use clap::ValueEnum;
use tir::workload::Workload;
use tir::{Ir, Name, PassManager};
use tir_accel::Processor;
use tir_data::{Array, compare, npy};
use tir_opt::Tool;
use tir_run::native::{Built, Native, NativeLayer, build, programs};
use tir_run::{Entry, Execution};

use crate::networks::{Network, said};
use by_layer::Nodes;
use peak::Peak;
use peer::{Model, ONNX_RUNTIME, OPENVINO, Peers};
use table::Table;

const RTOL: f64 = 1e-3;

/// Calls in a round, at least and at most; the time of a round is that of its quickest call.
const CALLS: [usize; 2] = [30, 1000];
/// Seconds that the calls of a round take, between these numbers.
const ROUND: f64 = 0.1;

/// The part of all layers' time below which a node of a peer that no layer has anything of has no line of its own.
const SMALL: f64 = 0.01;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Networks as a whole.
    Whole,
    /// Each layer, beside ONNX Runtime's profile.
    Layers,
    /// Each distinct convolution alone.
    Convolutions,
    /// Products of two matrices that are arguments.
    Products,
    /// Networks as a whole on one thread and on two.
    Threads,
}

/// Options of the measurement.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: crate::Rounds,
    /// Machine file to plan for; none: that of this processor. Peers are restricted to what it has
    #[arg(long, value_name = "FILE.tir", default_value = "host")]
    machine: PathBuf,
    /// Further options of to-native: winograd=best
    #[arg(long, value_name = "NAME=VALUE …", default_value = "")]
    options: String,
    /// What to measure; without, all
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART,…")]
    parts: Vec<Part>,
    /// Absolute tolerance of results
    #[arg(long, value_name = "A", default_value_t = 1e-4)]
    atol: f64,
    /// Networks: folders with `model.onnx`, inputs `in_K.npy` and outputs `out_K.npy`, or `NAME.onnx` beside `NAME.in_K.npy`
    /// and `NAME.out_K.npy`
    #[arg(value_name = "NETWORK")]
    networks: Vec<PathBuf>,
}

/// A program and the library that was made of it.
struct Ready {
    entry: Entry,
    built: Built,
    native: Native,
}

/// A folder for files of a measurement, gone with it.
pub(crate) struct Scratch(PathBuf);

/// A model with the values that it is run on.
struct Case {
    model: Model,
    inputs: Vec<Array>,
}

/// Medians, in milliseconds.
struct Measured {
    own: f64,
    onnx_runtime: Option<f64>,
    openvino: Option<f64>,
    macs: u64,
    /// Multiply-adds alone in the same rounds, in GFLOP/s.
    peak: f64,
}

/// What all measurements of a run share.
struct Bench {
    tool: Tool,
    options: Options,
    scratch: Scratch,
    peers: Result<Peers, String>,
    peak: Peak,
}

fn median(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

/// Multiplications with additions of a network's function.
fn work(module: &Ir) -> u64 {
    let functions = module.slots().into_iter();
    let mut functions = functions.filter_map(|slot| module.child(slot));
    functions
        .find_map(Workload::count)
        .map_or(0, |work| work.macs())
}

/// So many calls that a round of them takes long enough, of so many milliseconds each.
fn calls(ms: f64) -> usize {
    let [least, most] = CALLS;
    ((ROUND * 1e3 / ms.max(1e-6)) as usize).clamp(least, most)
}

impl Scratch {
    pub(crate) fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("tir-bench-{}", std::process::id()));
        let made = std::fs::create_dir_all(&path);
        made.map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self(path))
    }
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left is in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Ready {
    fn new(program: &Ir, by_layer: bool) -> Result<Self, String> {
        let native = Native {
            by_layer,
            ..Native::default()
        };
        Ok(Self {
            entry: Entry::of(program, None).map_err(|e| said(&e))?,
            built: build(program, &native, None).map_err(|e| said(&e))?,
            native,
        })
    }

    /// Calls it so often on one thread; the time is that of the quickest call.
    fn run(&self, inputs: &[Array], calls: usize) -> Result<Execution, String> {
        self.run_on(inputs, calls, 1)
    }

    /// Calls it so often on so many threads; the time is that of the quickest call.
    fn run_on(&self, inputs: &[Array], calls: usize, threads: usize) -> Result<Execution, String> {
        let inputs: Vec<(usize, &Array)> = inputs.iter().enumerate().collect();
        let native = Native {
            repeat: calls,
            threads,
            ..self.native.clone()
        };
        let run = self.entry.call_native(&self.built, &inputs, &native);
        run.map_err(|e| said(&e))
    }
}

impl Measured {
    /// GFLOP/s.
    fn rate(&self) -> f64 {
        2.0 * self.macs as f64 / self.own.max(1e-9) / 1e6
    }
    /// The time as a part of ONNX Runtime's.
    fn ratio(&self) -> Option<f64> {
        Some(self.own / self.onnx_runtime?)
    }
    /// The rate as a part of the peak.
    fn share(&self) -> f64 {
        self.rate() / self.peak
    }
}

impl Bench {
    /// Finds out what there is, and what it is called.
    fn new(options: Options) -> Result<Self, String> {
        programs().map_err(|e| said(&e))?;
        let tool = tir_opt::stock();
        tool.load();
        let mut empty =
            tir::text::parse("", Name::new("empty"), &Default::default()).map_err(|e| said(&e))?;
        let text = format!("attach-machine{{file={}}}", options.machine.display());
        let pipeline = tool.passes.parse(&text).map_err(|e| said(&e))?;
        let report = PassManager::with(pipeline, Default::default()).run(&mut empty);
        report.into_result().map_err(|e| said(&e))?;
        let processor = Processor::of_module(&empty)
            .ok_or_else(|| format!("{} is no processor", options.machine.display()))?;
        let scratch = Scratch::new()?;
        let peers = Peers::start(&processor, &scratch);
        let mut peak = Peak::new(&processor)?;
        peak.measure()?;
        let Processor {
            vector_bytes,
            registers,
            ..
        } = processor;
        println!(
            "planned with {}: {registers} registers of {vector_bytes} bytes; multiply-adds alone {:.1} GFLOP/s",
            options.machine.display(),
            peak.best()
        );
        match &peers {
            Ok(peers) => print!("{}", peers.says()),
            Err(why) => println!("no peers: {why}"),
        }
        println!(
            "one thread each; medians of {} rounds in turns, of each the quickest of {} to {} calls",
            options.rounds.rounds, CALLS[0], CALLS[1]
        );
        Ok(Self {
            tool,
            options,
            scratch,
            peers,
            peak,
        })
    }

    fn wants(&self, part: Part) -> bool {
        self.options.parts.is_empty() || self.options.parts.contains(&part)
    }

    /// An empty table with the columns that this run can fill.
    fn table(&self, what: &'static str, stand_ins: bool) -> Table {
        let has = |engine| {
            let peers = self.peers.as_ref();
            peers.is_ok_and(|peers| peers.version(engine).is_some())
        };
        Table::new(what, has(ONNX_RUNTIME), has(OPENVINO), stand_ins)
    }

    /// Takes a program to its last level.
    fn lower(&self, mut program: Ir) -> Result<Ir, String> {
        let Options {
            machine, options, ..
        } = &self.options;
        let text = format!("to-native{{machine={} {options}}}", machine.display());
        let pipeline = self.tool.passes.parse(&text).map_err(|e| said(&e))?;
        let report = PassManager::with(pipeline, Default::default()).run(&mut program);
        report.into_result().map_err(|e| said(&e))?;
        Ok(program)
    }

    fn rounds(&self) -> usize {
        self.options.rounds.rounds as usize
    }

    /// Checks results; the largest error.
    fn check(&self, wanted: &[Array], found: &[Array]) -> Result<f64, String> {
        if wanted.len() != found.len() {
            return Err(format!(
                "{} results, expected {}",
                found.len(),
                wanted.len()
            ));
        }
        let mut worst = 0f64;
        for (wanted, found) in wanted.iter().zip(found) {
            let comparison = compare(wanted, found, RTOL, self.options.atol);
            if !comparison.ok {
                return Err(comparison.to_string());
            }
            worst = worst.max(comparison.max_abs_error);
        }
        Ok(worst)
    }

    /// Measures a library and its peers in turns.
    fn in_turns(&mut self, ready: &Ready, case: &Case, macs: u64) -> Result<Measured, String> {
        let times = calls(ready.run(&case.inputs, 3)?.seconds * 1e3);
        let (mut own, mut theirs, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let mut peaks = Vec::new();
        for _ in 0..self.rounds() {
            own.push(ready.run(&case.inputs, times)?.seconds * 1e3);
            if let Ok(peers) = &mut self.peers {
                theirs.extend(peers.time(ONNX_RUNTIME, &case.model, times, 1, &[])?);
                others.extend(peers.time(OPENVINO, &case.model, times, 1, &[])?);
            }
            peaks.push(self.peak.measure()?);
        }
        Ok(Measured {
            own: median(own).unwrap_or_default(),
            onnx_runtime: median(theirs),
            openvino: median(others),
            macs,
            peak: median(peaks).unwrap_or_default(),
        })
    }

    /// Lowers and measures a program with one result, which is compared with ONNX Runtime's.
    fn case(&mut self, case: &Case, program: Ir) -> Result<Measured, String> {
        let macs = work(&program);
        let ready = Ready::new(&self.lower(program)?, false)?;
        let found = ready.run(&case.inputs, 1)?.outputs;
        let file = self.scratch.file("result.npy");
        let outputs = [file.clone()];
        if let Ok(peers) = &mut self.peers
            && peers
                .time(ONNX_RUNTIME, &case.model, 1, 1, &outputs)?
                .is_some()
        {
            let wanted = npy::read(&file).map_err(|e| e.to_string())?;
            self.check(&[wanted], &found)?;
        }
        let measured = self.in_turns(&ready, case, macs)?;
        if let Ok(peers) = &mut self.peers {
            peers.forget()?;
        }
        Ok(measured)
    }

    fn network(&mut self, network: &Network) -> Result<(), String> {
        let program = network.import()?;
        let macs = work(&program);
        let start = Instant::now();
        let program = self.lower(program)?;
        let lowered = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let ready = Ready::new(&program, false)?;
        let made = start.elapsed().as_secs_f64();
        let found = ready.run(network.inputs(), 1)?.outputs;
        let worst = self.check(network.outputs(), &found)?;
        println!(
            "  lowered in {lowered:.2} s, compiled or found in {made:.2} s; largest error {worst:.1e}"
        );
        let case = Case {
            model: Model {
                file: network.model(),
                inputs: network.stored(),
            },
            inputs: network.inputs().to_vec(),
        };
        if self.wants(Part::Whole) {
            let measured = self.in_turns(&ready, &case, macs)?;
            let mut table = self.table("network", true);
            let stand_in = stand_in::network(macs);
            let note = match stand_in {
                Some((_, ratio)) => {
                    format!("the stand-in took {ratio:.2} of ONNX Runtime's time")
                }
                None => String::new(),
            };
            let share = stand_in.map(|(share, _)| share);
            table.row("as a whole", &measured, share, &note);
            println!("{table}");
        }
        if self.wants(Part::Threads) {
            self.threads(&ready, &case)?;
        }
        if self.wants(Part::Layers) {
            self.layers(network, &program, &case)?;
        }
        Ok(())
    }

    /// Each layer beside ONNX Runtime's profile.
    fn layers(&mut self, network: &Network, program: &Ir, case: &Case) -> Result<(), String> {
        let model = tir_onnx::load(&case.model.file).map_err(|e| e.to_string())?;
        let forms = convolution::all(&model, &network.import()?);
        let ready = Ready::new(program, true)?;
        let times = calls(ready.run(&case.inputs, 3)?.seconds * 1e3);
        let optimized = self.scratch.file("optimized.onnx");
        let mut own: Vec<Vec<f64>> = Vec::new();
        let (mut layers, mut peaks): (Vec<NativeLayer>, Vec<f64>) = Default::default();
        let mut theirs: HashMap<String, Vec<f64>> = HashMap::new();
        for round in 0..self.rounds() {
            layers = ready.run(&case.inputs, times)?.layers;
            own.resize(layers.len(), Vec::new());
            for (all, layer) in own.iter_mut().zip(&layers) {
                all.push(layer.seconds * 1e3);
            }
            if let Ok(peers) = &mut self.peers {
                let graph = (round == 0).then_some(&*optimized);
                let profile = peers.profile(&case.model, times, graph)?;
                for (node, us) in profile.into_iter().flatten() {
                    theirs.entry(node).or_default().push(us * 1e-3);
                }
            }
            peaks.push(self.peak.measure()?);
        }
        let peak = median(peaks).unwrap_or_default();
        let own: Vec<f64> = own.into_iter().filter_map(median).collect();
        let theirs: HashMap<String, f64> = theirs
            .into_iter()
            .filter_map(|(node, all)| Some((node, median(all)?)))
            .collect();
        let lines = match theirs.is_empty() {
            true => by_layer::each(&layers),
            false => Nodes::read(&model, &optimized)?.beside(&model, &layers),
        };
        let mut table = Table::new("layer", !theirs.is_empty(), false, true);
        let (mut all_own, mut all_theirs) = (0.0, 0.0);
        let mut small = (0, 0.0);
        for line in lines {
            let of_line = || line.layers.iter().map(|k| &layers[*k]);
            let nodes = line.nodes.iter();
            let nodes: Vec<f64> = nodes.filter_map(|node| theirs.get(node).copied()).collect();
            let measured = Measured {
                own: line.layers.iter().map(|k| own[*k]).sum(),
                onnx_runtime: (!nodes.is_empty()).then(|| nodes.iter().sum()),
                openvino: None,
                macs: of_line().filter_map(|layer| layer.macs).sum(),
                peak,
            };
            all_own += measured.own;
            all_theirs += measured.onnx_runtime.unwrap_or_default();
            let nodes_alone = line.layers.is_empty();
            // Most of such nodes only lay values out anew.
            if nodes_alone && nodes.iter().sum::<f64>() < SMALL * all_own {
                small.0 += 1;
                small.1 += measured.onnx_runtime.unwrap_or_default();
                continue;
            }
            let names: Vec<&str> = of_line().map(|layer| &layer.name[..]).collect();
            let name = match nodes_alone {
                true => format!("only there: {}", line.nodes.join(" + ")),
                false => names.join(" + "),
            };
            let has = |title: &String| of_line().any(|layer| layer.at.contains(title));
            let mut known = forms.iter().filter(|one| has(&one.title));
            let form = known.next().filter(|_| known.next().is_none());
            let note = form.map(|one| one.form.to_string()).unwrap_or_default();
            let share = form.and_then(|one| stand_in::share(&one.form));
            table.row(&name, &measured, share, &note);
        }
        println!("{table}");
        if small.0 > 0 {
            let (count, ms) = small;
            let us = ms * 1e3;
            println!("  {count} small nodes that only ONNX Runtime has: {us:.1} us");
        }
        let sum = match theirs.is_empty() {
            true => String::new(),
            false => format!(", of ONNX Runtime's nodes {all_theirs:.3} ms"),
        };
        println!("  sum of layers {all_own:.3} ms{sum}");
        Ok(())
    }
}

/// Measures native code.
///
/// # Errors
/// If a network cannot be read or lowered, native code is not to be had, or a result is another one.
pub(crate) fn native(options: Options) -> Result<(), String> {
    let networks = options.networks.clone();
    let mut bench = Bench::new(options)?;
    for path in &networks {
        println!("\n{}", path.display());
        let done = Network::new(path).and_then(|network| {
            if [Part::Whole, Part::Layers, Part::Threads]
                .iter()
                .any(|part| bench.wants(*part))
            {
                bench.network(&network)?;
            }
            if bench.wants(Part::Convolutions) {
                bench.convolutions(&network)?;
            }
            Ok(())
        });
        done.map_err(|error: String| format!("{}: {error}", path.display()))?;
        if let Ok(peers) = &mut bench.peers {
            peers.forget()?;
        }
    }
    if bench.wants(Part::Products) {
        println!();
        bench.products()?;
    }
    println!(
        "\nmultiply-adds alone, the best of this run: {:.1} GFLOP/s",
        bench.peak.best()
    );
    Ok(())
}
