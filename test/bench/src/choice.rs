//! What the e-graph's choice brings: cycles of networks on machines without it and with it.
//!
//! Promised is that no network takes more cycles by more than a hundredth, and that the price, by which programs are
//! taken, is near what they take.

use std::path::{Path, PathBuf};
use std::time::Instant;

use tir::{Ir, Pipeline};
use tir_accel::machine::MachineInfo;
use tir_func::Func;
use tir_levels::{AttachMachine, ToAccel};

use crate::covers::{STEPS, machines, program, read, run};
use crate::networks::{root, said};

/// Cycles with the e-graph, as a multiple of those without, at most.
const WORSE: f64 = 1.01;

/// What is measured.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Models, folders with `model.onnx`, programs of graph ops, or squeezenet, mobilenet_v2 and resnet18, which are made;
    /// none: those of the repository
    #[arg(value_name = "FILE.onnx|FILE.tir|FOLDER|NAME")]
    files: Vec<PathBuf>,
    /// Machine files; none: npu, wide and bursts
    #[arg(long = "machine", value_name = "FILE.tir")]
    machines: Vec<PathBuf>,
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

/// The cycles of a network's first function on a machine, and the seconds of processor time that lowering takes.
fn cycles(network: &Ir, machine: &Path, egraph: Option<bool>) -> Result<(u64, f64), String> {
    let mut module = network.clone();
    let mut pipeline = Pipeline::new();
    pipeline.add(AttachMachine {
        file: Some(machine.display().to_string()),
    });
    pipeline.alias(ToAccel {
        egraph,
        ..ToAccel::default()
    });
    let start = Instant::now();
    run(pipeline, &mut module)?;
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
    let files = match options.files.is_empty() {
        true => committed(),
        false => options.files.clone(),
    };
    let machines = match options.machines.is_empty() {
        true => machines(&["npu", "wide", "bursts"]),
        false => options.machines.clone(),
    };
    println!(
        "cycles without the e-graph and with it; * where it takes more than {WORSE} times as many"
    );
    println!(
        "{:<13} {:<11} {:>11} {:>11} {:>7}  {:>6} {:>6}",
        "network", "machine", "without", "with", "ratio", "s", "s"
    );
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
            let (without, first) = cycles(&network, machine, Some(false)).map_err(fails)?;
            let (with, second) = cycles(&network, machine, None).map_err(fails)?;
            let ratio = with as f64 / without as f64;
            ratios.push(ratio);
            worse += usize::from(ratio > WORSE);
            let mark = if ratio > WORSE { '*' } else { ' ' };
            println!(
                "{name:<13} {on:<11} {without:>11} {with:>11} {ratio:>7.3}{mark} {first:>6.1} {second:>6.1}"
            );
        }
    }
    for (machine, ratios) in machines.iter().zip(&ratios) {
        let on = machine.file_stem().unwrap_or_default().display();
        let mean = ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len().max(1) as f64;
        println!("geometric mean on {on}: {:.3}", mean.exp());
    }
    println!("rows that take more than {WORSE} times as many cycles: {worse}");
    Ok(())
}
