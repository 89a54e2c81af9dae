//! What the e-graph's choice brings: cycles of networks on machines without it and with it, and of the *sequential*
//! choice, which decides one thing after the other.
//!
//! Promised is that no network takes more cycles by more than a hundredth, and none more than by the sequential choice:
//! the network is saturated with the same rules, the program with the least sum of the costs of its ops is extracted,
//! each op priced by itself and in no other layout (Yang et al., "Equality Saturation for Tensor Graph
//! Superoptimization", MLSys 2021), and what is left is fused and planned as without the e-graph.

use std::path::{Path, PathBuf};
use std::time::Instant;

use tir::{Ir, Pipeline};
use tir_accel::machine::MachineInfo;
use tir_egraph::Egraph;
use tir_func::Func;
use tir_levels::{AttachMachine, ToAccel};

use crate::covers::{On, STEPS, program, read, run_without};
use crate::networks::{root, said};

/// Cycles with the e-graph, as a multiple of those without, at most.
const WORSE: f64 = 1.01;

/// What is measured.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    on: On,
    /// The networks of Tensat's evaluation beside the sequential choice: saturated, extracted by the sum of the costs of
    /// ops, then fused
    #[arg(long)]
    sequential: bool,
    /// Leave a rule out of the choice
    #[arg(long = "disable-rule", value_name = "NAME")]
    disabled: Vec<String>,
}

/// The networks of Tensat's evaluation: BERT, Inception, MobileNet, NASNet-A, NasRNN, ResNeXt-50, SqueezeNet and VGG.
fn tensat() -> Vec<PathBuf> {
    let model = |name: &str| root().join(format!("test/e2e/tensat/{name}.model"));
    let programs = ["bert", "inception", "nasnet", "nasrnn", "resnext50"].map(program);
    let models = ["mobilenetv2", "squeezenet", "vgg"].map(model);
    programs.into_iter().chain(models).collect()
}

/// Who chooses a program.
#[derive(Clone, Copy, PartialEq)]
enum Who {
    Nobody,
    Default,
    Sequential,
}

fn committed() -> Vec<PathBuf> {
    let blocks = ["fire", "bottleneck", "grouped", "inverted", "branches"];
    let networks = ["unet", "lstm", "nasrnn", "resnext50"];
    let programs = blocks.into_iter().chain(networks).map(program);
    let models = ["cnn", "encoder"];
    let models = models.map(|n| root().join(format!("test/e2e/models/{n}.onnx")));
    let made = ["squeezenet", "mobilenet_v2", "resnet18"].map(PathBuf::from);
    programs.chain(models).chain(made).collect()
}

/// The cycles of a network's first function on a machine, and the seconds that choosing and lowering take.
fn cycles(
    network: &Ir,
    machine: &Path,
    who: Who,
    disabled: &[String],
) -> Result<(u64, f64), String> {
    let mut module = network.clone();
    let mut pipeline = Pipeline::new();
    pipeline.add(AttachMachine {
        file: Some(machine.display().to_string()),
    });
    if who == Who::Sequential {
        pipeline.nest("func.func", |p| {
            p.add(Egraph {
                additive: true,
                layouts: vec!["NCHW".to_string()],
                ..Egraph::default()
            });
        });
    }
    pipeline.alias(ToAccel {
        egraph: (who != Who::Default).then_some(false),
        ..ToAccel::default()
    });
    let start = Instant::now();
    run_without(pipeline, &mut module, disabled)?;
    let seconds = start.elapsed().as_secs_f64();
    let info = MachineInfo::attached(&module).ok_or("no machine")?;
    let mut slots = module.slots().into_iter();
    let function = slots.find(|slot| module.is::<Func>(*slot));
    let function = function.and_then(|slot| module.child(slot));
    let function = function.ok_or("no function")?;
    let report = tir_schedule::dry_run::dry_run(function, Some(&module), &info, STEPS);
    let report = report.map_err(|e| said(&[*e]))?;
    Ok((report.cycles, seconds))
}

/// Prints a row for each network on each machine, and means.
///
/// # Errors
/// A file that cannot be read, a network that cannot be lowered or that does not run without a fault.
pub(crate) fn choice(options: &Options) -> Result<(), String> {
    tir_opt::stock().load();
    let (files, machines) = match options.sequential {
        true => (options.on.files(tensat), options.on.machines(&["npu"])),
        false => {
            let files = options.on.files(committed);
            (files, options.on.machines(&["npu", "wide", "bursts"]))
        }
    };
    println!(
        "cycles without the e-graph and with it; * where it takes more than {WORSE} times as many"
    );
    let head = match options.sequential {
        true => format!(" {:>11} {:>7}  {:>6}", "sequential", "to that", "s"),
        false => String::new(),
    };
    println!(
        "{:<13} {:<11} {:>11} {:>11} {:>7}  {:>6} {:>6}{head}",
        "network", "machine", "without", "with", "ratio", "s", "s"
    );
    let (mut dearer, mut cheaper) = (0, 0);
    let mut ratios: Vec<Vec<f64>> = vec![Vec::new(); machines.len()];
    let mut worse = 0;
    for file in &files {
        let (name, network) = read(file)?;
        for (machine, ratios) in machines.iter().zip(&mut ratios) {
            let on = machine
                .file_stem()
                .unwrap_or_default()
                .display()
                .to_string();
            let fails = |what: String| format!("{name} on {on}: {what}");
            let (without, first) = cycles(&network, machine, Who::Nobody, &[]).map_err(fails)?;
            let off = &options.disabled;
            let (with, second) = cycles(&network, machine, Who::Default, off).map_err(fails)?;
            let ratio = with as f64 / without as f64;
            ratios.push(ratio);
            worse += usize::from(ratio > WORSE);
            let mark = if ratio > WORSE { '*' } else { ' ' };
            let mut more = String::new();
            if options.sequential {
                let found = cycles(&network, machine, Who::Sequential, off).map_err(fails)?;
                let (sequential, third) = found;
                let to_that = with as f64 / sequential as f64;
                dearer += usize::from(with > sequential);
                cheaper += usize::from(with < sequential);
                more = format!(" {sequential:>11} {to_that:>7.3}  {third:>6.1}");
            }
            println!(
                "{name:<13} {on:<11} {without:>11} {with:>11} {ratio:>7.3}{mark} {first:>6.1} {second:>6.1}{more}"
            );
        }
    }
    for (machine, ratios) in machines.iter().zip(&ratios) {
        let on = machine.file_stem().unwrap_or_default().display();
        let mean = ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len().max(1) as f64;
        println!("geometric mean on {on}: {:.3}", mean.exp());
    }
    println!("rows that take more than {WORSE} times as many cycles: {worse}");
    if options.sequential {
        println!(
            "rows that take fewer cycles than by the sequential choice: {cheaper}; more: {dearer}"
        );
    }
    Ok(())
}
