//! Random chains of operators compute the same in nests of several stages as at graph level, on the committed
//! machine and with less near memory, and take no more cycles than with a nest for each.
//!
//! Chains have convolutions of all kernels, strides, dilations and pads, depthwise ones, poolings, elementwise
//! steps, sums with earlier values, parts joined along channels, and values with several readers.

#[path = "../common/mod.rs"]
mod common;
#[path = "../levels/machine.rs"]
mod machine;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use common::{lower, reference, root, rounding, run_within, said, try_seeds};
use tir::{Ir, PassManager};
use tir_data::Random;
use tir_opt::Tool;

/// Chains that are tried.
const SEEDS: u64 = 48;
/// Chains that are tried with near memories of other sizes.
const SMALL: u64 = 48;

/// A value: its name and shape.
#[derive(Clone)]
struct Tensor {
    name: String,
    shape: [i64; 4],
}

/// A chain as text.
struct Chain {
    random: Random,
    body: String,
    arguments: Vec<Vec<i64>>,
    values: Vec<Tensor>,
    count: usize,
}

fn ty(shape: &[i64]) -> String {
    let dims: String = shape.iter().map(|d| format!("{d}x")).collect();
    format!("tensor<{dims}f32>")
}

impl Chain {
    fn new(seed: u64) -> Self {
        let mut chain = Self {
            random: Random::new(seed ^ 0x7374_6167),
            body: String::new(),
            arguments: Vec::new(),
            values: Vec::new(),
            count: 0,
        };
        let side = chain.pick(&[7, 13, 14, 20, 28]);
        let channels = chain.pick(&[3, 16, 24, 32, 48]);
        let shape = [1, channels, side, side];
        let name = chain.argument(shape.to_vec());
        chain.values.push(Tensor { name, shape });
        let ops = chain.pick(&[2, 3, 4, 5]);
        for _ in 0..ops {
            chain.grow();
        }
        chain
    }
    /// Products of many channels, whose sums near memory does not hold at once; mostly with the average of all
    /// pixels behind them.
    fn products(seed: u64) -> Self {
        let mut chain = Self::new(seed);
        chain.body.clear();
        chain.arguments.clear();
        chain.values.clear();
        let side = chain.pick(&[3, 5, 7, 10, 13]);
        let channels = chain.pick(&[64, 96, 144, 256, 320]);
        let shape = [1, channels, side, side];
        let name = chain.argument(shape.to_vec());
        chain.values.push(Tensor { name, shape });
        for _ in 0..chain.pick(&[1, 1, 2]) {
            let x = chain.last();
            let [n, c, h, w] = x.shape;
            let outputs = chain.pick(&[16, 48, 100, 128, 200]);
            let shape = [n, outputs, h, w];
            let (weights, bias) = (vec![outputs, c, 1, 1], vec![outputs]);
            let types = [ty(&x.shape), ty(&weights), ty(&bias)].join(", ");
            let (weights, bias) = (chain.argument(weights), chain.argument(bias));
            let text = format!(
                "graph.conv2d {}, {weights}, {bias} : ({types}) -> {}",
                x.name,
                ty(&shape)
            );
            let result = chain.op(&text, shape);
            let result = chain.clipped(result);
            chain.values.push(result);
        }
        if chain.pick(&[0, 1, 1]) == 1 {
            let x = chain.last();
            let shape = [1, x.shape[1], 1, 1];
            let (from, to) = (ty(&x.shape), ty(&shape));
            let text = format!("graph.global_avg_pool {} : ({from}) -> {to}", x.name);
            let result = chain.op(&text, shape);
            chain.values.push(result);
        }
        chain
    }
    fn pick(&mut self, all: &[i64]) -> i64 {
        all[self.random.below(all.len())]
    }
    fn argument(&mut self, shape: Vec<i64>) -> String {
        self.arguments.push(shape);
        format!("%a{}", self.arguments.len() - 1)
    }
    fn op(&mut self, text: &str, shape: [i64; 4]) -> Tensor {
        self.count += 1;
        let name = format!("%v{}", self.count);
        let _ = writeln!(self.body, "  {name} = {text}");
        Tensor { name, shape }
    }
    fn last(&self) -> Tensor {
        self.values[self.values.len() - 1].clone()
    }

    /// A convolution, perhaps with a clipped result.
    fn convolution(&mut self, x: &Tensor, groups: bool) -> Tensor {
        let [n, c, h, w] = x.shape;
        let outputs = if groups {
            c
        } else {
            self.pick(&[16, 32, 48, 64, 96])
        };
        let (kernel, stride) = (self.pick(&[1, 1, 3, 3, 5]), self.pick(&[1, 1, 1, 2]));
        let dilation = if kernel == 3 {
            self.pick(&[1, 1, 1, 2])
        } else {
            1
        };
        let reach = (kernel - 1) * dilation;
        let pads: [i64; 4] = [0; 4].map(|_| self.pick(&[0, reach / 2, reach / 2, (reach + 1) / 2]));
        let size = |n: i64, a: i64, b: i64| (n + a + b - reach - 1) / stride + 1;
        let (rows, columns) = (size(h, pads[0], pads[2]), size(w, pads[1], pads[3]));
        if h + pads[0] + pads[2] <= reach || w + pads[1] + pads[3] <= reach {
            return x.clone();
        }
        let inner = if groups { 1 } else { c };
        let weights = vec![outputs, inner, kernel, kernel];
        let (weights_ty, bias_ty) = (ty(&weights), ty(&[outputs]));
        let (weights, bias) = (self.argument(weights), self.argument(vec![outputs]));
        let groups = if groups { c } else { 1 };
        let shape = [n, outputs, rows, columns];
        let text = format!(
            "graph.conv2d {}, {weights}, {bias} {{groups = {groups} : i64, strides = array<i64: {stride}, {stride}>, \
             dilations = array<i64: {dilation}, {dilation}>, pads = array<i64: {}, {}, {}, {}>}} : ({}, {weights_ty}, {bias_ty}) -> {}",
            x.name,
            pads[0],
            pads[1],
            pads[2],
            pads[3],
            ty(&x.shape),
            ty(&shape)
        );
        let result = self.op(&text, shape);
        self.clipped(result)
    }

    /// A value, perhaps clipped.
    fn clipped(&mut self, result: Tensor) -> Tensor {
        let shape = result.shape;
        let step = match self.pick(&[0, 1, 2]) {
            0 => return result,
            1 => format!("graph.relu {} : {}", result.name, ty(&shape)),
            _ => format!(
                "graph.clip {} {{min = 0.0 : f64, max = 6.0 : f64}} : {}",
                result.name,
                ty(&shape)
            ),
        };
        self.op(&step, shape)
    }

    fn pooling(&mut self, x: &Tensor) -> Tensor {
        let [n, c, h, w] = x.shape;
        let (kernel, stride, pad) = (
            self.pick(&[2, 3]),
            self.pick(&[1, 2]),
            self.pick(&[0, 0, 1]),
        );
        let size = |n: i64| (n + 2 * pad - kernel) / stride + 1;
        if h + 2 * pad < kernel || w + 2 * pad < kernel {
            return x.clone();
        }
        let shape = [n, c, size(h), size(w)];
        let text = format!(
            "graph.max_pool {} {{kernel = array<i64: {kernel}, {kernel}>, strides = array<i64: {stride}, {stride}>, \
             pads = array<i64: {pad}, {pad}, {pad}, {pad}>}} : ({}) -> {}",
            x.name,
            ty(&x.shape),
            ty(&shape)
        );
        self.op(&text, shape)
    }

    /// Adds one operator, mostly on what was computed last.
    fn grow(&mut self) {
        let x = match self.pick(&[0, 0, 0, 0, 1]) {
            0 => self.last(),
            _ => self.values[self.random.below(self.values.len())].clone(),
        };
        let value = match self.pick(&[0, 0, 0, 0, 1, 1, 2, 3, 4]) {
            0 => self.convolution(&x, false),
            1 => self.convolution(&x, true),
            2 => self.pooling(&x),
            3 => {
                // The sum with a value of the same shape.
                let same = self.values.iter().filter(|v| v.shape == x.shape);
                let others: Vec<Tensor> = same.cloned().collect();
                let y = others[self.random.below(others.len())].clone();
                let t = ty(&x.shape);
                let text = format!("graph.add {}, {} : ({t}, {t}) -> {t}", x.name, y.name);
                self.op(&text, x.shape)
            }
            _ => {
                let (a, b) = (self.convolution(&x, false), self.convolution(&x, false));
                if a.shape[2..] != b.shape[2..] {
                    a
                } else {
                    let mut shape = a.shape;
                    shape[1] += b.shape[1];
                    let text = format!(
                        "graph.concat {}, {} {{axis = 1 : i64}} : ({}, {}) -> {}",
                        a.name,
                        b.name,
                        ty(&a.shape),
                        ty(&b.shape),
                        ty(&shape)
                    );
                    self.op(&text, shape)
                }
            }
        };
        self.values.push(value);
    }

    fn text(&self) -> String {
        let arguments = self.arguments.iter().enumerate();
        let arguments = arguments.map(|(i, shape)| format!("%a{i}: {}", ty(shape)));
        let result = self.last();
        let t = ty(&result.shape);
        format!(
            "func.func @main({}) -> {t} {{\n{}  return {} : {t}\n}}\n",
            arguments.collect::<Vec<_>>().join(", "),
            self.body,
            result.name
        )
    }
}

/// Cycles with one stage in each nest and with several; or what is wrong.
fn cycles(tool: &Tool, machine: &str, chain: &Chain) -> Result<[u64; 2], String> {
    let (module, inputs, expected) = reference(&chain.text(), chain.arguments.clone())?;
    let off = rounding(&chain.text(), None, &inputs, &expected)?;
    let mut found = [0; 2];
    for (found, stages) in found.iter_mut().zip([1, 8]) {
        let mut module = module.clone();
        for level in ["loop", "accel"] {
            let at = |why: String| format!("{stages} stages at {level}: {why}");
            // Of one program: which one is chosen is another question.
            let options = format!("machine={machine} egraph=false max_stages={stages}");
            let pipeline = format!("to-{level}{{{options}}}");
            lower(tool, &mut module, &pipeline).map_err(at)?;
            let run = run_within(&module, &inputs, &expected, |_| off).map_err(at)?;
            *found = run.machine.map_or(0, |machine| machine.cycles);
        }
    }
    Ok(found)
}

/// What there was to try in a program.
#[derive(Default)]
struct Joined {
    /// Whether it has nests of several stages.
    stages: bool,
    /// Whether some of their stages compute their sums in parts.
    parts: bool,
    /// Whether tensors stay near from nest to nest.
    residents: bool,
    /// Bytes that far memory gives and takes where no tensor stays, and where some do.
    bytes: [u64; 2],
}

/// A committed machine with near memory of any size, or a random one.
fn small(seed: u64) -> (String, PathBuf) {
    let mut random = Random::new(seed ^ 0x736d_616c);
    if seed % 3 == 2 {
        let path = machine::write(seed, machine::Numbers::Floats);
        return (path.display().to_string(), path);
    }
    let names = ["npu", "npu", "npu-vector", "bursts", "wide", "walkthrough"];
    let name = names[random.below(names.len())];
    // 12 to 160 KiB, small ones as often as large ones; now and then all that there could be use for.
    let bytes = ((12u64 << 10 << random.below(4)) + random.next_u64() % (64 << 10)) / 64 * 64;
    let bytes = if seed % 4 == 3 { 64 << 20 } else { bytes };
    let text = std::fs::read_to_string(root().join(format!("test/e2e/machines/{name}.tir")));
    let text = text.expect("a machine");
    let (before, behind) = text.split_once("@spm {bytes = ").expect("near memory");
    let behind = behind.split_once(',').expect("more of it").1;
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("small-{seed}.tir"));
    let align = [4, 64, 64, 256, 1024][random.below(5)];
    let text = format!("{before}@spm {{bytes = {bytes},{behind}")
        .replace("align = 64", &format!("align = {align}"));
    std::fs::write(&path, text).expect("a file");
    (
        format!("{name} with {bytes} bytes, aligned to {align}"),
        path,
    )
}

/// What there is to try in a chain where near memory has another size; or what is wrong with it: it must be lowered
/// if a nest for each operator can be, and take no more cycles where tensors stay near.
fn in_small(tool: &Tool, seed: u64) -> Result<Joined, String> {
    let (name, path) = small(seed);
    let chain = match seed % 2 {
        0 => Chain::new(seed ^ 0x736d),
        _ => Chain::products(seed ^ 0x736d),
    };
    let depth = 1 + seed % 3;
    let at = |why| format!("{name}, depth {depth}: {why}\n{}", chain.text());
    let made = reference(&chain.text(), chain.arguments.clone());
    let (module, inputs, expected) = made.map_err(at)?;
    let lowered = |stages: u64, resident: bool| {
        let mut module = module.clone();
        let machine = path.display();
        let options = format!("machine={machine} egraph=false depth={depth} max_stages={stages}");
        let options = format!("to-accel{{{options} resident={resident} print_tiles=1}}");
        let pipeline = tool.passes.parse(&options).map_err(|e| said(&e))?;
        let report = PassManager::with(pipeline, Default::default()).run(&mut module);
        if let Some(error) = report.errors.first() {
            return Err(said(std::slice::from_ref(error)));
        }
        let mut notes = report.remarks.iter().flat_map(|remark| &remark.notes);
        let parts = notes.any(|note| note.message.contains("sums in parts"));
        Ok((module, parts))
    };
    let Ok((single, _)) = lowered(1, true) else {
        return Ok(Joined::default());
    };
    let off = rounding(&chain.text(), None, &inputs, &expected).map_err(at)?;
    let run = |resident: bool| -> Result<(Ir, [u64; 2], bool), String> {
        let (module, parts) = lowered(8, resident)?;
        let run = run_within(&module, &inputs, &expected, |_| off)?;
        let machine = run.machine.ok_or("it runs on no machine")?;
        let far = machine.spaces.first().ok_or("it has no memory")?;
        Ok((module, [machine.cycles, far.read + far.written], parts))
    };
    let (far, [slow, most], parts) = run(false).map_err(at)?;
    let (near, [cycles, bytes], _) = run(true).map_err(at)?;
    // The estimate is not exact: what it takes for a gain may be a small loss.
    if cycles * 10 > slow * 11 + 20_000 {
        let why = format!("{cycles} cycles where tensors stay near, {slow} where they do not");
        return Err(at(why));
    }
    let text = |module: &Ir| tir::text::print(module, &Default::default());
    Ok(Joined {
        stages: text(&single) != text(&far),
        parts,
        residents: text(&near) != text(&far),
        bytes: [most, bytes],
    })
}

#[test]
fn what_fits_in_single_nests_fits_in_several_stages() {
    let tool = tir_opt::stock();
    tool.load();
    let all = Mutex::new((0, 0, 0, [0, 0]));
    try_seeds("TIR_SMALL", SMALL, |seed| match in_small(&tool, seed) {
        Ok(joined) => {
            let (stages, parts, residents, [far, near]) = &mut *all.lock().expect("no panic");
            *stages += u64::from(joined.stages);
            *parts += u64::from(joined.parts);
            *residents += u64::from(joined.residents);
            *far += joined.bytes[0];
            *near += joined.bytes[1];
            None
        }
        Err(why) => Some(why),
    });
    let (stages, parts, residents, [far, near]) = all.into_inner().expect("no panic");
    assert!(stages > 0, "no program has nests of several stages");
    assert!(parts > 0, "no program has stages with sums in parts");
    assert!(residents > 0, "in no program a tensor stays near");
    assert!(
        near < far,
        "{near} bytes where tensors stay near, {far} where they do not"
    );
}

#[test]
fn stages_change_no_result() {
    let tool = tir_opt::stock();
    tool.load();
    let npu = root().join("test/e2e/machines/npu.tir");
    let text = std::fs::read_to_string(&npu).expect("a machine");
    // The same with little near memory, so that there are many steps.
    let small = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stages.tir");
    std::fs::write(&small, text.replace("bytes = 262144", "bytes = 49152")).expect("a file");
    // And with plenty of it, so that tensors stay as their readers want them.
    let large = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plenty.tir");
    std::fs::write(&large, text.replace("bytes = 262144", "bytes = 67108864")).expect("a file");
    let machines = [&npu, &small, &large].map(|path| path.display().to_string());
    let number = |name: &str, or| {
        std::env::var(name)
            .ok()
            .and_then(|n| n.parse().ok())
            .unwrap_or(or)
    };
    let (first, seeds) = (number("TIR_SEED", 0), number("TIR_PROGRAMS", SEEDS));
    let (next, joined) = (AtomicU64::new(first), AtomicUsize::new(0));
    let failed = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds {
                        break;
                    }
                    let machine = &machines[(seed % 3) as usize];
                    let chain = Chain::new(seed);
                    let line = match cycles(&tool, machine, &chain) {
                        // The estimate is not exact: what it takes for a gain may be a small loss.
                        Ok([apart, together]) if together * 10 <= apart * 11 + 20_000 => {
                            joined.fetch_add(usize::from(apart != together), Ordering::Relaxed);
                            continue;
                        }
                        Ok([apart, together]) => format!("{apart} cycles, with stages {together}"),
                        Err(why) => why,
                    };
                    let text = chain.text();
                    let line = format!("seed {seed} on {machine}: {line}\n{text}");
                    failed.lock().expect("no panic").push(line);
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no panic");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    // Chains of operators that could be one nest are, mostly.
    let joined = joined.into_inner() as u64;
    assert!(
        joined * 4 >= seeds,
        "{joined} of {seeds} programs have nests of several stages"
    );
}
