//! Single layers of random shapes compute the same at accel level as at graph level: convolutions with
//! strides, dilations, groups, padding, small images and few channels, products of matrices, poolings,
//! with and without elementwise steps behind them.
//!
//! Sizes lie around those of units and around what near memory holds, so that tiles are ragged, reductions
//! are split, buffers have one slot, and several iterators fill one dimension of a unit.
//!
//! `TIR_LAYERS` and `TIR_IMAGES` say how many layers are tried, `TIR_SEED` the first seed.

#[path = "../common/mod.rs"]
mod common;
#[path = "../levels/machine.rs"]
mod machine;

use std::fmt::Write;

use common::{lower, reference, root, run, try_seeds};
use tir_data::Random;
use tir_opt::Tool;

/// Layers that are tried.
const LAYERS: u64 = 160;

/// Convolutions that are tried of images whose rows do not fill the blocks of a unit.
const IMAGES: u64 = 24;

/// A program of one layer, and the shapes of its arguments.
struct Layer {
    text: String,
    arguments: Vec<Vec<i64>>,
}

/// Picks numbers.
struct Pick(Random);

impl Pick {
    fn one(&mut self, all: &[i64]) -> i64 {
        all[(self.0.next_u64() % all.len() as u64) as usize]
    }
    fn below(&mut self, n: i64) -> i64 {
        self.one(&(0..n).collect::<Vec<_>>())
    }
}

fn tensor(shape: &[i64]) -> String {
    let sizes: String = shape.iter().map(|n| format!("{n}x")).collect();
    format!("tensor<{sizes}f32>")
}

impl Layer {
    fn new(seed: u64) -> Self {
        let mut pick = Pick(Random::new(seed ^ 0x6c61_7965));
        match pick.below(8) {
            0 | 1 => Self::product(&mut pick),
            2 => Self::pooling(&mut pick),
            _ => Self::convolution(&mut pick),
        }
    }

    /// `layer` of these arguments, with what stands behind it: another
    /// tensor, a step.
    fn behind(pick: &mut Pick, layer: &str, mut arguments: Vec<Vec<i64>>, out: &[i64]) -> Self {
        let ty = tensor(out);
        let mut body = format!("  %y0 = {layer} -> {ty}\n");
        let mut last = 0;
        if pick.below(3) == 0 {
            let other = arguments.len();
            arguments.push(out.to_vec());
            last += 1;
            let _ = writeln!(
                body,
                "  %y{last} = graph.add %y{}, %x{other} : ({ty}, {ty}) -> {ty}",
                last - 1
            );
        }
        let step = pick.one(&[0, 0, 1, 2]);
        if step > 0 {
            let name = ["relu", "tanh"][step as usize - 1];
            last += 1;
            let _ = writeln!(body, "  %y{last} = graph.{name} %y{} : {ty}", last - 1);
        }
        let list = arguments.iter().enumerate();
        let list = list.map(|(i, shape)| format!("%x{i}: {}", tensor(shape)));
        let text = format!(
            "func.func @main({}) -> {ty} {{\n{body}  func.return %y{last} : {ty}\n}}\n",
            list.collect::<Vec<_>>().join(", ")
        );
        Self { text, arguments }
    }

    fn convolution(pick: &mut Pick) -> Self {
        let groups = pick.one(&[1, 1, 1, 1, 2, 3]);
        let c = groups * pick.one(&[1, 2, 3, 4, 8, 15, 16, 17, 33, 48]);
        let o = groups * pick.one(&[1, 3, 8, 16, 17, 32, 40, 64]);
        let n = pick.one(&[1, 1, 1, 2, 3]);
        let (kh, kw) = (
            pick.one(&[1, 1, 2, 3, 3, 5, 7]),
            pick.one(&[1, 1, 2, 3, 3, 5, 7]),
        );
        let [sh, sw] = [0; 2].map(|_| pick.one(&[1, 1, 1, 2, 3]));
        let [dh, dw] = [0; 2].map(|_| pick.one(&[1, 1, 1, 2]));
        let pad: [i64; 4] = [0; 4].map(|_| pick.below(3));
        let size = |pick: &mut Pick, k: i64, d: i64| {
            let least = d * (k - 1) + 1;
            least + pick.one(&[0, 1, 3, 5, 6, 7, 11, 13, 16, 21, 28])
        };
        let (h, w) = (size(pick, kh, dh), size(pick, kw, dw));
        let out =
            |size: i64, pads: i64, k: i64, d: i64, s: i64| (size + pads - d * (k - 1) - 1) / s + 1;
        let out = [
            n,
            o,
            out(h, pad[0] + pad[2], kh, dh, sh),
            out(w, pad[1] + pad[3], kw, dw, sw),
        ];
        let mut arguments = vec![vec![n, c, h, w], vec![o, c / groups, kh, kw]];
        if pick.below(2) == 0 {
            arguments.push(vec![o]);
        }
        let names: Vec<String> = (0..arguments.len()).map(|i| format!("%x{i}")).collect();
        let types: Vec<String> = arguments.iter().map(|shape| tensor(shape)).collect();
        let layer = format!(
            "graph.conv2d {} {{groups = {groups} : i64, strides = array<i64: {sh}, {sw}>, dilations = array<i64: {dh}, {dw}>, pads = array<i64: {}, {}, {}, {}>}} : ({})",
            names.join(", "),
            pad[0],
            pad[1],
            pad[2],
            pad[3],
            types.join(", ")
        );
        Self::behind(pick, &layer, arguments, &out)
    }

    /// A convolution of enough channels that the unit is what takes longest, over rows that do not fill its blocks:
    /// those may be some pixels of rows that lie far from one another.
    fn image(pick: &mut Pick) -> Self {
        let (c, o) = (pick.one(&[16, 32, 48]), pick.one(&[32, 48, 64, 72]));
        let [kh, kw] = [0; 2].map(|_| pick.one(&[2, 3, 3, 3, 5]));
        let stride = pick.one(&[1, 1, 1, 2]);
        let [h, w] = [0; 2].map(|_| pick.one(&[13, 18, 20, 22, 24, 27, 28, 30, 36]));
        let pad: [i64; 4] = [0; 4].map(|_| pick.below(3));
        let out = |size: i64, pads: i64, k: i64| (size + pads - k) / stride + 1;
        let out = [
            1,
            o,
            out(h, pad[0] + pad[2], kh),
            out(w, pad[1] + pad[3], kw),
        ];
        let arguments = vec![vec![1, c, h, w], vec![o, c, kh, kw]];
        let layer = format!(
            "graph.conv2d %x0, %x1 {{strides = array<i64: {stride}, {stride}>, pads = array<i64: {}, {}, {}, {}>}} : ({}, {})",
            pad[0],
            pad[1],
            pad[2],
            pad[3],
            tensor(&arguments[0]),
            tensor(&arguments[1])
        );
        Self::behind(pick, &layer, arguments, &out)
    }

    fn product(pick: &mut Pick) -> Self {
        let sizes = [1, 2, 7, 15, 16, 17, 33, 48, 49, 80, 97, 130];
        let [m, n, k] = [0; 3].map(|_| pick.one(&sizes));
        let batch: Vec<i64> = match pick.below(3) {
            0 => vec![pick.one(&[2, 3, 5])],
            _ => Vec::new(),
        };
        let shape = |a: i64, b: i64| [&batch[..], &[a, b]].concat();
        let arguments = vec![shape(m, k), shape(k, n)];
        let layer = format!(
            "graph.matmul %x0, %x1 : ({}, {})",
            tensor(&arguments[0]),
            tensor(&arguments[1])
        );
        Self::behind(pick, &layer, arguments, &shape(m, n))
    }

    fn pooling(pick: &mut Pick) -> Self {
        let (n, c) = (pick.one(&[1, 2]), pick.one(&[1, 3, 16, 20, 48]));
        let (k, s) = (pick.one(&[2, 3]), pick.one(&[1, 2, 3]));
        let [h, w] = [0; 2].map(|_| k + pick.below(30));
        let name = ["max", "avg"][pick.below(2) as usize];
        let out = |size: i64| (size - k) / s + 1;
        let arguments = vec![vec![n, c, h, w]];
        let layer = format!(
            "graph.{name}_pool %x0 {{kernel = array<i64: {k}, {k}>, strides = array<i64: {s}, {s}>}} : ({})",
            tensor(&arguments[0])
        );
        Self::behind(pick, &layer, arguments, &[n, c, out(h), out(w)])
    }
}

/// What is wrong with a layer on a machine, if anything.
fn wrong(tool: &Tool, options: &str, layer: &Layer) -> Option<String> {
    let made = reference(&layer.text, layer.arguments.clone());
    let (mut module, inputs, expected) = match made {
        Ok(made) => made,
        Err(why) => return Some(why),
    };
    for level in ["loop", "accel"] {
        let lowered = lower(tool, &mut module, &format!("to-{level}{{{options}}}"));
        let done = lowered.and_then(|()| run(&module, &inputs, &expected));
        if let Err(why) = done {
            return Some(format!("at {level}: {why}"));
        }
    }
    None
}

/// A committed machine with so little near memory that tiles are small.
fn shrunk(name: &str, bytes: i64, pad: bool) -> std::path::PathBuf {
    let folder = root().join("test/e2e/machines");
    let text = std::fs::read_to_string(folder.join(format!("{name}.tir"))).expect("a machine");
    let line = text.lines().find(|line| line.contains("accel.space @spm"));
    let line = line.expect("near memory");
    let at = line.find("bytes = ").expect("its size") + "bytes = ".len();
    let rest = line[at..].find(',').expect("more attributes");
    let small = format!("{}{bytes}{}", &line[..at], &line[at + rest..]);
    let mut text = text.replace(line, &small);
    if !pad {
        text = text.replace(", pad = true", "");
    }
    let file = format!("{name}-{bytes}-{pad}.tir");
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    std::fs::write(&path, text).expect("a file");
    path
}

#[test]
fn layers_compute_the_same_on_every_machine() {
    let tool = tir_opt::stock();
    tool.load();
    let folder = root().join("test/e2e/machines");
    let mut machines: Vec<std::path::PathBuf> = ["npu", "wide", "walkthrough", "bursts"]
        .map(|name| folder.join(format!("{name}.tir")))
        .to_vec();
    machines.push(shrunk("npu", 40960, true));
    machines.push(shrunk("npu", 65536, false));
    machines.push(shrunk("wide", 49152, true));
    try_seeds("TIR_LAYERS", LAYERS, |seed| {
        let machine = match machines.get((seed % 8) as usize) {
            Some(machine) => machine.clone(),
            None => machine::write(seed, machine::Numbers::Floats),
        };
        let options = format!("machine={} egraph=false", machine.display());
        let layer = Layer::new(seed);
        let why = wrong(&tool, &options, &layer)?;
        Some(format!("{options}: {why}\n{}", layer.text))
    });
}

#[test]
fn images_in_parts_compute_the_same() {
    let tool = tir_opt::stock();
    tool.load();
    let machines = [
        root().join("test/e2e/machines/npu.tir"),
        shrunk("npu", 131_072, true),
        shrunk("npu", 262_144, false),
    ];
    try_seeds("TIR_IMAGES", IMAGES, |seed| {
        let machine = &machines[(seed % 3) as usize];
        let options = format!("machine={} egraph=false", machine.display());
        let layer = Layer::image(&mut Pick(Random::new(seed ^ 0x696d_6167)));
        let why = wrong(&tool, &options, &layer)?;
        Some(format!("{options}: {why}\n{}", layer.text))
    });
}
