//! 3x3 convolutions by Winograd's filtering: as near to the convolution as it is defined as the bound of the error says, at
//! every level, for every machine file and as native code.
//!
//! `TIR_WINOGRAD_CASES` is how many random convolutions are tried, `TIR_SEED` the first one. Native code needs `tir-native`
//! (`TIR_NATIVE` says where it lies); without it a line says that it is left out.

#[path = "../common/mod.rs"]
mod common;

use std::fmt::Write;

use common::cases::{files, runs_here};
use common::{lower, reference, said, try_seeds};
use tir::Ir;
use tir_data::{Array, Random};
use tir_graph::winograd::{Bound, Winograd};
use tir_run::Entry;
use tir_run::native::{Native, programs};

/// Random convolutions that are tried.
const CASES: u64 = 24;

/// A convolution and what is done to its result.
#[derive(Debug)]
struct Case {
    images: i64,
    channels: i64,
    filters: i64,
    size: [i64; 2],
    pads: [i64; 4],
    tile: i64,
    /// A bias, a sum with another tensor, and a relu.
    bias: bool,
    sum: bool,
    relu: bool,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x7769_6e6f);
        let mut below = |n: usize| random.below(n) as i64;
        let tile = [2, 4][below(2) as usize];
        Self {
            images: 1 + below(2),
            channels: [1, 3, 8, 16, 20, 32][below(6) as usize],
            filters: [1, 5, 16, 24, 32][below(5) as usize],
            // With one row, or one column, of tiles too.
            size: [3 + below(14), 3 + below(14)],
            pads: [below(3), below(3), below(3), below(3)],
            tile,
            bias: below(2) == 1,
            sum: below(3) == 1,
            relu: below(2) == 1,
        }
    }

    fn result(&self) -> [i64; 4] {
        let [top, left, bottom, right] = self.pads;
        let [height, width] = self.size;
        let size = [height + top + bottom - 2, width + left + right - 2];
        [self.images, self.filters, size[0], size[1]]
    }

    /// The shapes of arguments: input, weights, bias, what is added.
    fn arguments(&self) -> Vec<Vec<i64>> {
        let [height, width] = self.size;
        vec![
            vec![self.images, self.channels, height, width],
            vec![self.filters, self.channels, 3, 3],
            vec![self.filters],
            self.result().to_vec(),
        ]
    }

    fn text(&self) -> String {
        let ty = |shape: &[i64]| {
            let dims: String = shape.iter().map(|d| format!("{d}x")).collect();
            format!("tensor<{dims}f32>")
        };
        let types: Vec<String> = self.arguments().iter().map(|shape| ty(shape)).collect();
        let [x, w, b, y] = &types[..] else {
            unreachable!("four arguments")
        };
        let mut text = format!("func.func @main(%x: {x}, %w: {w}, %b: {b}, %r: {y}) -> {y} {{\n");
        let [top, left, bottom, right] = self.pads;
        let (bias, bias_ty) = match self.bias {
            true => (", %b", format!(", {b}")),
            false => ("", String::new()),
        };
        let _ = writeln!(
            text,
            "  %0 = graph.conv2d %x, %w{bias} {{pads = array<i64: {top}, {left}, {bottom}, {right}>}} : ({x}, {w}{bias_ty}) -> {y}"
        );
        let mut last = 0;
        if self.sum {
            let _ = writeln!(text, "  %1 = graph.add %0, %r : ({y}, {y}) -> {y}");
            last = 1;
        }
        if self.relu {
            let _ = writeln!(text, "  %2 = graph.relu %{last} : {y}");
            last = 2;
        }
        let _ = writeln!(text, "  func.return %{last} : {y}\n}}");
        text
    }

    /// The pass that makes it so.
    fn pass(&self) -> String {
        let tile = self.tile;
        format!("func.func(winograd{{tile={tile} gain=0 min-channels=1}})")
    }

    fn bound(&self, inputs: &[Array]) -> Bound {
        let form = Winograd::new(self.tile).expect("a form");
        let channels = usize::try_from(self.channels).expect("a size");
        Bound::of(&form, channels, inputs[1].iter_f64())
    }
}

fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().map(f64::abs).fold(0.0, f64::max)
}

/// The root of the mean square.
fn root_mean_square(values: &[f64]) -> f64 {
    let squares: f64 = values.iter().map(|v| v * v).sum();
    (squares / values.len() as f64).sqrt()
}

/// How far the elements of two arrays are apart.
fn distances(a: &Array, b: &Array) -> Vec<f64> {
    assert_eq!(a.shape(), b.shape());
    a.iter_f64().zip(b.iter_f64()).map(|(a, b)| a - b).collect()
}

fn execute(module: &Ir, inputs: &[Array]) -> Result<Array, String> {
    let run = tir_run::execute(module, inputs).map_err(|e| said(&e))?;
    run.outputs.into_iter().next().ok_or("no output".into())
}

fn native(module: &Ir, inputs: &[Array], strict: bool) -> Result<Array, String> {
    let entry = Entry::of(module, None).map_err(|e| said(&e))?;
    let inputs: Vec<(usize, &Array)> = inputs.iter().enumerate().collect();
    let options = Native {
        strict,
        ..Native::default()
    };
    let run = entry.execute_native(module, &inputs, &options);
    let run = run.map_err(|e| said(&e))?;
    run.outputs.into_iter().next().ok_or("no output".into())
}

#[test]
fn errors_are_within_their_bound() {
    let tool = tir_opt::stock();
    tool.load();
    for (tile, channels) in [(2, 16), (2, 64), (4, 16), (4, 64), (4, 256)] {
        let case = Case {
            images: 1,
            channels,
            filters: 16,
            size: [22, 22],
            pads: [1, 1, 1, 1],
            tile,
            bias: false,
            sum: false,
            relu: false,
        };
        let (mut module, inputs, outputs) =
            reference(&case.text(), case.arguments()).expect("a program");
        lower(&tool, &mut module, &case.pass()).expect("its form");
        let found = execute(&module, &inputs).expect("its result");
        let apart = distances(&found, &outputs[0]);
        let bound = case.bound(&inputs);
        let x: Vec<f64> = inputs[0].iter_f64().collect();
        let (worst, expected) = (
            bound.worst * largest(x.iter().copied()),
            bound.expected * root_mean_square(&x),
        );
        let (most, usual) = (largest(apart.iter().copied()), root_mean_square(&apart));
        println!(
            "F({tile}) of {channels}: {most:.2e} of {worst:.2e}, {usual:.2e} of {expected:.2e}"
        );
        assert!(most <= worst, "{most:e} of {worst:e}");
        // Not one of eight thousand errors is more than twenty times as large as usual: at the corners of tiles they are
        // larger.
        assert!(most <= 20.0 * expected, "{most:e} of {expected:e}");
        assert!(
            (0.5..2.0).contains(&(usual / expected)),
            "{usual:e} of {expected:e}"
        );
        // In the worst case the roundings of all sums over channels add up, and all numbers are as large as any.
        assert!(
            worst <= 32.0 * channels as f64 * most,
            "{worst:e} of {most:e}"
        );
    }
}

#[test]
fn random_convolutions_agree_at_every_level() {
    let tool = tir_opt::stock();
    tool.load();
    let machines = files("machines", "tir");
    let compiled = programs().is_ok();
    if !compiled {
        println!("skipped: tir-native is not there, nothing is compiled");
    }
    try_seeds("TIR_WINOGRAD_CASES", CASES, |seed| {
        let case = Case::new(seed);
        let machine = &machines[seed as usize % machines.len()];
        let wrong = || -> Result<(), String> {
            let (module, inputs, outputs) = reference(&case.text(), case.arguments())?;
            // What follows the convolution rounds the result a few times more.
            let size = largest(outputs[0].iter_f64()) + largest(inputs[3].iter_f64()) + 2.0;
            let most = case.bound(&inputs).worst * largest(inputs[0].iter_f64())
                + 4.0 * size / f64::from(1 << 24);
            let near = |what: &str, found: &Array| -> Result<(), String> {
                let most_found = largest(distances(found, &outputs[0]));
                match most_found <= most {
                    true => Ok(()),
                    false => Err(format!(
                        "{what}: {most_found:e} apart, at most {most:e} is allowed"
                    )),
                }
            };
            let mut graph = module.clone();
            lower(&tool, &mut graph, &case.pass())?;
            near("graph", &execute(&graph, &inputs)?)?;
            let options = format!("machine={} depth=1", machine.display());
            let level = |pipeline: String| -> Result<(Ir, Array), String> {
                let mut lowered = graph.clone();
                lower(&tool, &mut lowered, &pipeline).map_err(|e| format!("{pipeline}: {e}"))?;
                let found = execute(&lowered, &inputs).map_err(|e| format!("{pipeline}: {e}"))?;
                near(&pipeline, &found)?;
                Ok((lowered, found))
            };
            level("to-tensor".to_string())?;
            let (_, memref) = level(format!("to-memref{{{options}}}"))?;
            level(format!("to-accel{{machine={}}}", machine.display()))?;
            level("to-native".to_string())?;
            let (lowered, found) = level(format!("to-native{{{options}}}"))?;
            if memref.bytes() != found.bytes() {
                return Err("what to-native leaves gives other bits".to_string());
            }
            if compiled && runs_here(machine) {
                let strict = native(&lowered, &inputs, true)?;
                if memref.bytes() != strict.bytes() {
                    return Err("strict native code gives other bits".to_string());
                }
                near("native", &native(&lowered, &inputs, false)?)?;
            }
            Ok(())
        };
        let why = wrong().err()?;
        Some(format!(
            "for {}: {why}\n{case:?}\n{}",
            machine.display(),
            case.text()
        ))
    });
}
