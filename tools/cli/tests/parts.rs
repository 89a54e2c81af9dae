//! Tensors that are put together from parts of all kinds mean the same wherever they lie: random networks whose parts nests
//! compute on units, the thread computes, engines enlarge, others read, too, also those that compute other parts, or nobody computes,
//! one behind another along any dimension, in one tensor or in two, on machines and with each policy of what stays near. The machine model says, too, where what nothing has written is
//! read.

mod common;

use std::fmt::Write;

use common::{lower, reference, root, rounding, run_within};
use rayon::prelude::*;
use tir::data::Random;

/// Networks in the suite; `TIR_NETWORKS` says another number.
const NETWORKS: u64 = 48;

const MACHINES: [&str; 4] = ["npu", "wide", "bursts", "npu-vector"];

fn ty(shape: &[i64]) -> String {
    let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("tensor<{}xf32>", dims.join("x"))
}

/// A network as text.
#[derive(Default)]
struct Network {
    arguments: Vec<Vec<i64>>,
    body: String,
    values: usize,
}

impl Network {
    fn argument(&mut self, shape: &[i64]) -> String {
        self.arguments.push(shape.to_vec());
        format!("%a{}", self.arguments.len() - 1)
    }
    fn op(&mut self, text: &str) -> String {
        let name = format!("%v{}", self.values);
        self.values += 1;
        let _ = writeln!(self.body, "  {name} = graph.{text}");
        name
    }
    /// A convolution of an image; gives its shape, too.
    fn conv(
        &mut self,
        x: &str,
        from: &[i64],
        (to, kernel, stride, pad): (i64, i64, i64, i64),
    ) -> (String, Vec<i64>) {
        let weights = [to, from[1], kernel, kernel];
        let w = self.argument(&weights);
        let size = |d: usize| (from[d] + 2 * pad - kernel) / stride + 1;
        let shape = vec![1, to, size(2), size(3)];
        let name = self.op(&format!(
            "conv2d {x}, {w} {{pads = array<i64: {pad}, {pad}, {pad}, {pad}>, strides = array<i64: {stride}, {stride}>}} : ({}, {}) -> {}",
            ty(from),
            ty(&weights),
            ty(&shape)
        ));
        (name, shape)
    }
    /// Tensors one behind another along a dimension; gives the shape, too.
    fn concat(&mut self, parts: &[(String, Vec<i64>)], axis: i64) -> (String, Vec<i64>) {
        let mut whole = parts[0].1.clone();
        let along = axis as usize;
        whole[along] = parts.iter().map(|(_, shape)| shape[along]).sum();
        let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
        let types: Vec<String> = parts.iter().map(|(_, shape)| ty(shape)).collect();
        let all = self.op(&format!(
            "concat {} {{axis = {axis} : i64}} : ({}) -> {}",
            names.join(", "),
            types.join(", "),
            ty(&whole)
        ));
        (all, whole)
    }
    /// Each pixel so many times, one below the other and side by side.
    fn enlarged(&mut self, x: &str, from: &[i64], [down, aside]: [i64; 2]) -> String {
        let [c, h, w] = [from[1], from[2], from[3]];
        let apart = ty(&[1, c, h, 1, w, 1]);
        let repeated = ty(&[1, c, h, down, w, aside]);
        let a = self.op(&format!("reshape {x} : {} to {apart}", ty(from)));
        let b = self.op(&format!("expand {a} : {apart} to {repeated}"));
        let to = ty(&[1, c, h * down, w * aside]);
        self.op(&format!("reshape {b} : {repeated} to {to}"))
    }
}

/// A random network, and the shapes of its arguments.
fn network(seed: u64) -> (String, Vec<Vec<i64>>) {
    let mut random = Random::new(seed);
    let mut pick = |all: &[i64]| all[random.below(all.len())];
    let mut net = Network::default();
    let (h, w) = (pick(&[6, 8, 12, 14]), pick(&[6, 10, 16, 20]));
    let (axis, channels) = (pick(&[1, 1, 1, 2, 3]), pick(&[16, 32]));
    let image = [1, 16, h, w];
    let x = net.argument(&image);
    let (mut parts, mut results, mut late) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..pick(&[2, 2, 3, 4]) {
        let to = if axis == 1 {
            pick(&[16, 16, 24, 32])
        } else {
            channels
        };
        let shape = [1, to, h, w];
        let kernel = pick(&[1, 3]);
        let same = (to, kernel, 1, kernel / 2);
        let part = match pick(&[0, 0, 1, 1, 2, 3, 4, 5, 6, 7]) {
            0 => net.conv(&x, &image, same).0,
            1 => {
                let times = [pick(&[1, 2]), pick(&[1, 2])];
                let small = [1, 16, h / times[0], w / times[1]];
                let s = net.argument(&small);
                let (y, from) = net.conv(&s, &small, same);
                net.enlarged(&y, &from, times)
            }
            2 => {
                let s = net.argument(&shape);
                net.op(&format!("tanh {s} : {}", ty(&shape)))
            }
            3 => net.argument(&shape),
            // Something else reads it, too.
            4 => {
                let (y, from) = net.conv(&x, &image, same);
                results.push(net.conv(&y, &from, (16, 1, 1, 0)));
                y
            }
            5 => {
                let (y, from) = net.conv(&x, &image, same);
                let half = [1, to, h / 2, w / 2];
                let pooled = net.op(&format!(
                    "max_pool {y} {{kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>}} : ({}) -> {}",
                    ty(&from),
                    ty(&half)
                ));
                results.push(net.conv(&pooled, &half, (16, kernel, 1, kernel / 2)));
                y
            }
            // The same behind what reads all parts.
            6 => {
                let (y, from) = net.conv(&x, &image, same);
                late.push((y.clone(), from, kernel));
                y
            }
            // What computes another part.
            _ => {
                let last: Option<(String, Vec<i64>)> = parts.last().cloned();
                let (from, of) = last.unwrap_or((x.clone(), image.to_vec()));
                net.conv(&from, &of, same).0
            }
        };
        parts.push((part, shape.to_vec()));
    }
    // Not always in the order in which they are computed.
    if pick(&[0, 1]) == 1 {
        parts.reverse();
    }
    let (all, whole) = net.concat(&parts, axis);
    for _ in 0..pick(&[1, 1, 2]) {
        let kernel = pick(&[1, 3]);
        let pad = pick(&[0, kernel / 2]);
        results.push(net.conv(&all, &whole, (16, kernel, pick(&[1, 1, 2]), pad)));
    }
    // Again with what is computed from all of them, as the layers of a dense block are.
    let layers = if axis == 1 { pick(&[0, 0, 1, 2]) } else { 0 };
    let (mut all, mut whole) = (all, whole);
    for layer in 0..layers {
        let kernel = pick(&[1, 3]);
        parts.push(net.conv(&all, &whole, (16, kernel, 1, kernel / 2)));
        (all, whole) = net.concat(&parts, axis);
        if layer + 1 == layers {
            results.push(net.conv(&all, &whole, (16, kernel, 1, kernel / 2)));
        }
    }
    for (part, shape, kernel) in late {
        results.push(net.conv(&part, &shape, (16, kernel, 1, kernel / 2)));
    }
    let arguments = net.arguments.iter().enumerate();
    let arguments = arguments.map(|(k, shape)| format!("%a{k}: {}", ty(shape)));
    let arguments: Vec<String> = arguments.collect();
    let names: Vec<&str> = results.iter().map(|(name, _)| name.as_str()).collect();
    let types: Vec<String> = results.iter().map(|(_, shape)| ty(shape)).collect();
    let text = format!(
        "func.func @main({}) -> ({}) {{\n{}  func.return {} : {}\n}}\n",
        arguments.join(", "),
        types.join(", "),
        net.body,
        names.join(", "),
        types.join(", ")
    );
    (text, net.arguments)
}

/// Whether parts are loaded into a larger tile.
fn check(seed: u64) -> Result<bool, String> {
    let tool = tir_opt::stock();
    tool.load();
    let (text, shapes) = network(seed);
    let (module, inputs, outputs) = reference(&text, shapes)?;
    // Layers behind one another give numbers that are small beside what they are sums of.
    let off = rounding(&text, None, &inputs, &outputs)?;
    let machine = MACHINES[seed as usize % MACHINES.len()];
    let machine = root().join(format!("test/e2e/machines/{machine}.tir"));
    let mut loads = false;
    for policy in ["bytes", "static", "cycles"] {
        let options = format!(
            "machine={} egraph=false near-policy={policy}",
            machine.display()
        );
        let mut lowered = module.clone();
        let done = lower(&tool, &mut lowered, &format!("to-accel{{{options}}}"));
        let done = done.and_then(|()| {
            let run = run_within(&lowered, &inputs, &outputs, |_| off);
            run.map(|_| ())
        });
        done.map_err(|why| format!("{options}: {why}\n{text}"))?;
        let mut tiled = module.clone();
        lower(&tool, &mut tiled, &format!("to-loop{{{options}}}"))?;
        let tiled = tir::text::print(&tiled, &Default::default());
        let into = |line: &str| line.contains("tensor.transfer_read") && line.contains("] into %");
        loads |= tiled.lines().any(into);
    }
    Ok(loads)
}

#[test]
fn tensors_put_together_mean_the_same_wherever_they_lie() {
    let count = std::env::var("TIR_NETWORKS").ok();
    let count = count.map_or(NETWORKS, |n| n.parse().expect("a number"));
    let found: Vec<Result<bool, String>> = (0..count)
        .into_par_iter()
        .map(|seed| check(seed).map_err(|why| format!("seed {seed}, {why}")))
        .collect();
    let wrong: Vec<&String> = found
        .iter()
        .filter_map(|found| found.as_ref().err())
        .collect();
    assert!(wrong.is_empty(), "{} wrong; {}", wrong.len(), wrong[0]);
    let loads = found.iter().filter(|found| **found == Ok(true)).count();
    println!("{loads} of {count} networks load parts");
    assert!(loads as u64 * 4 > count, "{loads} of {count}");
}
