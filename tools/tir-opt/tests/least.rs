//! What the bound of a division says before its producers are planned is held against what the chain is found to take: no
//! division may be found quicker, or the quickest chain may be one that was passed over.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use tir::data::Random;
use tir::pass::Settings;
use tir::text::{ParseOptions, parse};
use tir::{Ir, Name, PassManager};
use tir_tile::chain::{Bounded, bounds};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(text: &str) -> Ir {
    tir_opt::stock().load();
    let ir = parse(text, Name::new("test.tir"), &ParseOptions::default()).expect("a program");
    tir::verify(&ir).expect("a program that is well formed");
    ir
}

/// All divisions for which chains are found where a program is tiled for a machine.
fn divisions(text: &str, machine: &str, resident: bool) -> Vec<Bounded> {
    let machine = root().join(format!("test/e2e/machines/{machine}.tir"));
    let mut ir = read(text);
    let pipeline = format!(
        "attach-machine{{file=\"{}\"}},func.func(join-groups,fuse-graph,graph-to-tensor,fuse-elementwise,canonicalize,tile{{resident={resident}}})",
        machine.display()
    );
    let pipeline = tir_opt::stock().passes.parse(&pipeline);
    let pipeline = pipeline.expect("a pipeline");
    // What is found is told of on the thread that asks.
    let settings = Settings {
        threads: 1,
        ..Settings::default()
    };
    let (report, found) = bounds(|| PassManager::with(pipeline, settings).run(&mut ir));
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    found
}

/// What some divisions show.
#[derive(Default)]
struct Held {
    divisions: usize,
    /// Those of which a bound is known.
    known: usize,
    /// The least that a chain takes, as a multiple of its bound.
    closest: f64,
}

impl Held {
    /// Holds bounds of divisions against what was found.
    fn hold(&mut self, name: &str, divisions: &[Bounded]) {
        for division in divisions {
            let Bounded { least, found, .. } = *division;
            assert!(least <= found, "{name}: {division:?}");
            self.divisions += 1;
            if least > 0 {
                let times = found as f64 / least as f64;
                self.closest = match self.known {
                    0 => times,
                    _ => self.closest.min(times),
                };
                self.known += 1;
            }
        }
    }

    /// That so many bounds are looked at.
    fn are_known(&self, name: &str, least: usize) {
        let Self {
            divisions,
            known,
            closest,
        } = self;
        println!("{name}: {divisions} divisions, {known} bounds, closest {closest:.4}");
        assert!(*known >= least, "{name}: {known} bounds");
    }

    /// That one is so near to what is found that bounds which are higher by a twentieth would be too high.
    fn is_close(&self, name: &str) {
        assert!(self.closest < 1.05, "{name}: {}", self.closest);
    }
}

#[test]
fn no_chain_of_networks_is_below_its_bound() {
    // What engines do beside bytes makes chains of the other machines take longer than any bound.
    let mut held = Held::default();
    for machine in ["npu", "bursts", "wide", "levels"] {
        for network in ["fire", "bottleneck", "unet", "inverted", "branches"] {
            let path = root().join(format!("test/e2e/egraph/{network}.tir"));
            let text = std::fs::read_to_string(path).expect("text");
            held.hold(
                &format!("{network}, {machine}"),
                &divisions(&text, machine, true),
            );
        }
    }
    held.are_known("networks", 1000);
    held.is_close("networks");
}

/// A random network of convolutions, windows, and what is put together or added.
fn network(seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut pick = |all: &[u64]| all[random.below(all.len())];
    let side = pick(&[7, 14, 17, 28]);
    let ty = |c: u64, side: u64| format!("tensor<1x{c}x{side}x{side}xf32>");
    let channels = [16, 24, 32, 48, 64, 128];
    let (mut c, mut side) = (pick(&channels), side);
    let (mut args, mut text) = (format!("%x: {}", ty(c, side)), String::new());
    let mut value = "%x".to_string();
    let mut conv = |text: &mut String,
                    x: &str,
                    (c, to, side): (u64, u64, u64),
                    n: String,
                    (k, step): (u64, u64)| {
        let weights = format!("tensor<{to}x{c}x{k}x{k}xf32>");
        let _ = write!(args, ", %w{n}: {weights}, %b{n}: tensor<{to}xf32>");
        let pad = k / 2;
        let out = (side + 2 * pad - k) / step + 1;
        let from = ty(c, side);
        let _ = writeln!(
            text,
            "  %c{n} = graph.conv2d %{x}, %w{n}, %b{n} {{pads = array<i64: {pad}, {pad}, {pad}, {pad}>, strides = array<i64: {step}, {step}>}} : ({from}, {weights}, tensor<{to}xf32>) -> {}",
            ty(to, out)
        );
        out
    };
    for layer in 0..2 + pick(&[1, 2, 3]) {
        let (to, kernel) = (pick(&channels), pick(&[1, 3, 5]));
        let x = value.trim_start_matches('%').to_string();
        let n = |part: &str| format!("{layer}{part}");
        match pick(&[0, 0, 1, 2, 3]) {
            0 | 1 => {
                let step = if side > 10 { pick(&[1, 1, 2]) } else { 1 };
                side = conv(&mut text, &x, (c, to, side), n("a"), (kernel, step));
                let ty = ty(to, side);
                let _ = writeln!(text, "  %v{layer} = graph.relu %c{layer}a : {ty}");
                c = to;
            }
            2 => {
                let more = pick(&channels);
                conv(&mut text, &x, (c, to, side), n("a"), (1, 1));
                conv(&mut text, &x, (c, more, side), n("b"), (kernel, 1));
                let (a, b, both) = (ty(to, side), ty(more, side), ty(to + more, side));
                let _ = writeln!(
                    text,
                    "  %v{layer} = graph.concat %c{layer}a, %c{layer}b {{axis = 1 : i64}} : ({a}, {b}) -> {both}"
                );
                c = to + more;
            }
            _ => {
                conv(&mut text, &x, (c, to, side), n("a"), (1, 1));
                let a = format!("c{layer}a");
                conv(&mut text, &a, (to, c, side), n("b"), (kernel, 1));
                let ty = ty(c, side);
                let _ = writeln!(
                    text,
                    "  %v{layer} = graph.add %c{layer}b, %{x} : ({ty}, {ty}) -> {ty}"
                );
            }
        }
        value = format!("%v{layer}");
    }
    let out = ty(c, side);
    format!("func.func @main({args}) -> {out} {{\n{text}  func.return {value} : {out}\n}}\n")
}

#[test]
fn no_chain_of_random_networks_is_below_its_bound() {
    let count = std::env::var("TIR_NETWORKS").ok();
    let count: u64 = count.map_or(18, |n| n.parse().expect("a number"));
    let mut held = Held::default();
    // Where tensors stay that several stages of a chain read, what is estimated may be less than there is: not looked at here.
    for seed in 1..=count {
        let text = network(seed);
        for machine in ["npu", "bursts"] {
            held.hold(
                &format!("seed {seed}, {machine}\n{text}"),
                &divisions(&text, machine, false),
            );
        }
    }
    held.are_known("random", 1000);
}
