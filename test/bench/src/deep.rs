//! The choice of programs for deep networks: the time it takes beside a bound, and whether layers that repeat are chosen alike.
//!
//! Time counts once for what is planned once: it may grow with the layers by what looking at them takes, not by planning each.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use tir::text::{ParseOptions, parse};
use tir::{Ir, Name, OpId, Pipeline};
use tir_convert::FuseGraph;
use tir_func::Func;
use tir_generic::{Canonicalize, Cse};
use tir_levels::{AttachMachine, ChooseGraph};
use tir_support::networks::{bottlenecks, dense, encoder};

use crate::covers::run_without;
use crate::egraph::on_cpu;
use crate::networks::{root, said};

/// What a choice may take.
const BOUND: Duration = Duration::from_secs(2);

/// What is measured.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Machine file; none: npu
    #[arg(long, value_name = "FILE.tir")]
    machine: Option<PathBuf>,
    /// Networks; none: all
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// Networks by name, as text: each once with few layers, once with many.
fn networks() -> Vec<(&'static str, String)> {
    vec![
        ("dense 16", dense(16)),
        ("dense 128", dense(128)),
        ("encoder 2", encoder(2)),
        ("encoder 24", encoder(24)),
        ("resnet 50", bottlenecks([3, 4, 6, 3])),
        ("resnet 152", bottlenecks([3, 8, 36, 3])),
    ]
}

/// What an op computes, without what it is computed from.
fn shape(ir: &Ir, op: OpId) -> String {
    let all = std::iter::once(op).chain(ir.walk_below(op));
    let text = all.map(|op| {
        let types = ir.operands(op).map(|value| ir.ty(value).to_string());
        let attrs = ir.attrs(op).iter();
        let attrs = attrs.map(|(name, value)| format!("{name}={value}"));
        let types: Vec<String> = types.chain(attrs).collect();
        format!("{}({})", ir.name(op), types.join(", "))
    });
    text.collect::<Vec<_>>().join(";")
}

/// Prints a row for each network.
///
/// # Errors
/// A network that cannot be chosen a program for: none should.
pub(crate) fn deep(options: &Options) -> Result<(), String> {
    tir_opt::stock().load();
    let machine = options.machine.clone();
    let machine = machine.unwrap_or_else(|| root().join("test/e2e/machines/npu.tir"));
    println!(
        "processor time to choose a program, beside {} s; how many of its groups differ",
        BOUND.as_secs()
    );
    println!(
        "{:<12} {:>6} {:>8} {:>7} {:>8} {:>8}",
        "network", "ops", "s", "ratio", "groups", "differ"
    );
    let mut late = 0;
    let all = networks();
    if let Some(name) = options
        .names
        .iter()
        .find(|name| all.iter().all(|(known, _)| known != name))
    {
        let known: Vec<&str> = all.iter().map(|(known, _)| *known).collect();
        return Err(format!(
            "no network '{name}'; there are {}",
            known.join(", ")
        ));
    }
    for (name, text) in all {
        if !options.names.is_empty() && options.names.iter().all(|own| own != name) {
            continue;
        }
        let module = parse(&text, Name::new(name), &ParseOptions::default());
        let mut module = module.map_err(|e| format!("{name}: {}", said(&e)))?;
        let mut before = Pipeline::new();
        before.add(AttachMachine {
            file: Some(machine.display().to_string()),
        });
        before.nest("func.func", |p| {
            p.add(Canonicalize::default());
            p.add(Cse::default());
        });
        run_without(before, &mut module, &[]).map_err(|e| format!("{name}: {e}"))?;
        let slots = module.slots().into_iter();
        let mut slots = slots.filter(|slot| module.is::<Func>(*slot));
        let slot = slots.next().ok_or("no function")?;
        let ops = module.child(slot).map_or(0, |ir| ir.walk_ids().len());
        let mut choice = Pipeline::new();
        choice.nest("func.func", |p| {
            p.add(ChooseGraph::default());
        });
        let begin = on_cpu();
        run_without(choice, &mut module, &[]).map_err(|e| format!("{name}: {e}"))?;
        let took = on_cpu().saturating_sub(begin);
        let mut fuse = Pipeline::new();
        fuse.nest("func.func", |p| {
            p.add(FuseGraph::default());
        });
        run_without(fuse, &mut module, &[]).map_err(|e| format!("{name}: {e}"))?;
        let function = module.child(slot).ok_or("no function")?;
        let groups = function.walk_ids().into_iter();
        let groups = groups.filter(|op| function.parent(*op) == Some(function.root()));
        let groups: Vec<String> = groups.map(|op| shape(function, op)).collect();
        let differ: HashSet<&String> = groups.iter().collect();
        late += usize::from(took > BOUND);
        println!(
            "{name:<12} {ops:>6} {:>8.2} {:>7.2} {:>8} {:>8}",
            took.as_secs_f64(),
            took.as_secs_f64() / BOUND.as_secs_f64(),
            groups.len(),
            differ.len()
        );
    }
    println!("later than the bound: {late}");
    Ok(())
}
