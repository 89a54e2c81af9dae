//! Small machines with a matrix unit of any size, 1 in every position among them, and vector units.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use tir_data::Random;

/// What a machine multiplies. Not every test needs both.
#[allow(dead_code)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Products and sums are `f32`.
    Floats,
    /// Factors are `i8`, sums `i32`.
    Integers,
}

/// Writes the machine of a seed to a file.
pub(crate) fn write(seed: u64, numbers: Numbers) -> PathBuf {
    let mut random = Random::new(seed ^ 0x6d61_6368);
    let mut pick = |all: &[i64]| all[(random.next_u64() % all.len() as u64) as usize];
    let [m, n, k] = [0; 3].map(|_| pick(&[1, 1, 2, 3, 4, 16]));
    // Dimensions of one element may be left out of an operand, and the second may be transposed.
    let short = pick(&[0, 1]) == 1;
    let turned = pick(&[0, 1]) == 1;
    let (bytes, granule) = (pick(&[8192, 65536]), pick(&[4, 32]));
    let relu = pick(&[0, 1]) == 1;
    let (dims, scalar) = (pick(&[3, 4]), pick(&[1, 2]));
    // Types of factors and sums, and of the ops on them.
    let [factor, total, none, larger] = match numbers {
        Numbers::Floats => ["f32", "f32", "0.0", "maximumf"],
        Numbers::Integers => ["i8", "i32", "0", "maxsi"],
    };
    let operand = |dims: &[(char, i64)]| {
        let kept: Vec<_> = dims.iter().filter(|(_, n)| !short || *n != 1).collect();
        let shape: String = kept.iter().map(|(_, n)| format!("{n}x")).collect();
        let names: Vec<String> = kept.iter().map(|(d, _)| d.to_string()).collect();
        (format!("tensor<{shape}{factor}>"), names.join(", "))
    };
    let (m, n, k) = (('m', m), ('n', n), ('k', k));
    // The output names each parallel iterator once.
    let (c, out) = (format!("tensor<{}x{}x{total}>", m.1, n.1), "m, n");
    let (a, left) = operand(&[m, k]);
    let (b, right) = operand(&if turned { [n, k] } else { [k, n] });
    // Operands in one memory, or inputs, weights and sums apart.
    let [acc, inp, wgt] = match pick(&[0, 1]) {
        0 => ["spm"; 3],
        _ => ["spm", "inp", "wgt"],
    };
    let body = |text: &mut String, name: &str, ins: &str, work: &str| {
        let _ = write!(
            text,
            "  accel.intrinsic @{name} on @gemm (%c: {c} in @{acc}{ins}) cycles \"2\" {{\n    %r = tensor.generic {work} -> {c}\n    accel.yield %r : {c}\n  }}\n"
        );
    };
    let mut text = format!(
        "accel.machine @random attributes {{clock_mhz = 100, scalar_cycles = {scalar}}} {{\n  \
         accel.space @dram {{bytes = 16777216, align = 4, bytes_per_cycle = 4, latency = 8}}\n  \
         accel.space @spm {{bytes = {bytes}, align = 4, bytes_per_cycle = 16, latency = 1}}\n  \
         accel.dma @in {{from = @dram, to = @spm, bytes_per_cycle = 4, latency = 16, dims = {dims}, queue = 4, granule = {granule}, pad = true}}\n  \
         accel.dma @out {{from = @spm, to = @dram, bytes_per_cycle = 4, latency = 16, dims = {dims}, queue = 4, granule = {granule}}}\n  \
         accel.unit @gemm {{queue = 4}}\n"
    );
    if inp != acc {
        for space in [inp, wgt] {
            let _ = write!(
                text,
                "  accel.space @{space} {{bytes = {bytes}, align = 8}}\n  \
                 accel.dma @to_{space} {{from = @dram, to = @{space}, bytes_per_cycle = 4, latency = 16, dims = {dims}, queue = 4, pad = true}}\n"
            );
        }
    }
    let parallel = "iterator_types = [\"parallel\", \"parallel\"]";
    let zero = format!(
        "{{indexing_maps = [affine_map<(m, n) -> ({out})>], {parallel}}} ins() outs(%c : {c}) {{\n      \
         %v = arith.constant {none} : {total}\n      tensor.yield %v : {total}\n    }}"
    );
    body(&mut text, "clear", "", &zero);
    let maps = [left.as_str(), right.as_str(), out]
        .map(|dims| format!("affine_map<(m, n, k) -> ({dims})>"));
    let multiply = match numbers {
        Numbers::Floats => "      %p = arith.mulf %s, %t : f32\n",
        Numbers::Integers => {
            "      %s4 = arith.extsi %s : i8 to i32\n      %t4 = arith.extsi %t : i8 to i32\n      \
             %p = arith.muli %s4, %t4 : i32\n"
        }
    };
    let product = format!(
        "{{indexing_maps = [{}], iterator_types = [\"parallel\", \"parallel\", \"reduction\"], sizes = array<i64: {}, {}, {}>}} ins(%a, %b : {a}, {b}) outs(%c : {c}) combine add {{\n    \
         ^bb0(%s: {factor}, %t: {factor}):\n{multiply}      tensor.yield %p : {total}\n    }}",
        maps.join(", "),
        m.1,
        n.1,
        k.1
    );
    body(
        &mut text,
        "product",
        &format!(", %a: {a} in @{inp}, %b: {b} in @{wgt}"),
        &product,
    );
    if relu {
        let map = format!("affine_map<(m, n) -> ({out})>");
        let work = format!(
            "{{indexing_maps = [{map}, {map}], {parallel}}} ins(%x : {c}) outs(%c : {c}) {{\n    \
             ^bb0(%s: {total}):\n      %zero = arith.constant {none} : {total}\n      %y = arith.{larger} %s, %zero : {total}\n      tensor.yield %y : {total}\n    }}"
        );
        body(&mut text, "relu", &format!(", %x: {c} in @{acc}"), &work);
    }
    if pick(&[0, 1]) == 1 {
        // Some ops, or all; lanes that are folded, or not.
        let some = match numbers {
            Numbers::Floats => "arith.addf = 1, arith.mulf = 1, arith.subf = 2, arith.maximumf = 1",
            Numbers::Integers => {
                "arith.addi = 1, arith.maxsi = 1, arith.minsi = 1, arith.extsi = 1, arith.trunci = 1, \
                 arith.sitofp = 1, arith.fptosi = 1, arith.mulf = 1, arith.addf = 1, math.roundeven = 1, \
                 arith.maximumf = 1, arith.minimumf = 1"
            }
        };
        let types = match numbers {
            Numbers::Floats => "f32",
            Numbers::Integers => "f32, i32, i8",
        };
        let ops = ["any = 3", some];
        let ops = ops[pick(&[0, 1]) as usize];
        let reduce = ["", " reduce {add = 3, max = 2}"][pick(&[0, 1]) as usize];
        let (lanes, chain, start) = (pick(&[1, 4, 16]), pick(&[1, 2]), pick(&[0, 7]));
        let (port, strided) = (pick(&[0, 16]), pick(&[0, 1]) == 1);
        let _ = write!(
            text,
            "  accel.unit @simd {{queue = 4}}\n  \
             accel.vector @lanes on @simd in @spm types [{types}] ops {{{ops}}}{reduce} {{lanes = {lanes}, \
             chain = {chain}, start = {start}, port = {port}, strided = {strided}}}\n"
        );
    }
    if pick(&[0, 1, 2]) == 0 {
        // A level between far memory and the unit.
        let (pad, dims) = (pick(&[0, 1]) == 1, pick(&[2, 3, 4]));
        text = text
            .replace("from = @dram", "from = @mid")
            .replace("to = @dram", "to = @mid");
        let _ = write!(
            text,
            "  accel.space @mid {{bytes = 131072, align = 8, bytes_per_cycle = 8}}\n  \
             accel.dma @fill {{from = @dram, to = @mid, bytes_per_cycle = 2, latency = 30, dims = {dims}, queue = 4, pad = {pad}}}\n  \
             accel.dma @drain {{from = @mid, to = @dram, bytes_per_cycle = 2, latency = 30, dims = {dims}, queue = 4}}\n"
        );
    }
    // Several cores with memories of their own, several units in each.
    let (cores, units) = (pick(&[1, 1, 2, 3]), pick(&[1, 1, 2, 3]));
    if cores > 1 {
        let _ = writeln!(text, "  accel.core @core {{count = {cores}}}");
        for space in ["spm", "inp", "wgt"] {
            let space = format!("accel.space @{space} {{");
            text = text.replace(&space, &format!("{space}core = @core, "));
        }
        for unit in ["gemm", "simd"] {
            let unit = format!("accel.unit @{unit} {{");
            text = text.replace(&unit, &format!("{unit}core = @core, "));
        }
    }
    if pick(&[0, 1, 2]) == 0 {
        text = text.replace("accel.dma @in {", "accel.dma @in {issue = 3, ");
        text = text.replace("accel.unit @gemm {", "accel.unit @gemm {issue = 1, ");
    }
    if inp != acc && pick(&[0, 1]) == 0 {
        // No engine loads the weights: they go through the memory of the sums.
        let far = match text.contains("accel.space @mid") {
            true => "mid",
            false => "dram",
        };
        let direct = format!("@to_wgt {{from = @{far}");
        text = text.replace(&direct, "@to_wgt {from = @spm");
    }
    text = text.replace(
        "accel.unit @gemm {",
        &format!("accel.unit @gemm {{count = {units}, "),
    );
    // The first product with the fill, the last one with what follows it; a maximum with any number.
    let (first, last, clip) = (pick(&[0, 1]), pick(&[0, 1]), pick(&[0, 1]));
    let operands = format!("%c: {c} in @{acc}, %a: {a} in @{inp}, %b: {b} in @{wgt}");
    let step = |out: &str, from: &str, work: &str| {
        let work = work.replace("outs(%c :", &format!("outs({from} :"));
        format!("    {out} = tensor.generic {work} -> {c}\n")
    };
    if first == 1 {
        let (fill, sum) = (step("%z", "%c", &zero), step("%r", "%z", &product));
        let _ = write!(
            text,
            "  accel.intrinsic @first on @gemm ({operands}) cycles \"3\" {{\n{fill}{sum}    accel.yield %r : {c}\n  }}\n"
        );
    }
    let map = format!("affine_map<(m, n) -> ({out})>");
    let maximum = |input: &str| {
        format!(
            "{{indexing_maps = [{map}, {map}], {parallel}}} ins({input} : {c}) outs(%c : {c}) {{\n    \
             ^bb0(%s: {total}):\n      %y = arith.{larger} %s, %low : {total}\n      tensor.yield %y : {total}\n    }}"
        )
    };
    if last == 1 {
        let (sum, behind) = (step("%r", "%c", &product), step("%y", "%c", &maximum("%r")));
        let _ = write!(
            text,
            "  accel.intrinsic @last on @gemm ({operands}, %low: {total}) cycles \"3\" {{\n{sum}{behind}    accel.yield %y : {c}\n  }}\n"
        );
    }
    if clip == 1 {
        let work = step("%y", "%c", &maximum("%x"));
        let _ = write!(
            text,
            "  accel.intrinsic @clip on @gemm (%c: {c}, %x: {c}, %low: {total}) in @{acc} cycles \"2\" {{\n{work}    accel.yield %y : {c}\n  }}\n"
        );
    }
    // Banks, links from core to core, an engine that cannot pad.
    let (banks, ports) = (pick(&[1, 2, 4, 8]), pick(&[0, 1, 2, 3]));
    let space = "accel.space @spm {".to_string();
    text = text.replace(
        &space,
        &format!("{space}banks = {banks}, ports = {ports}, "),
    );
    if cores > 1 && pick(&[0, 1]) == 1 {
        let rate = pick(&[2, 4, 16]);
        let _ = writeln!(
            text,
            "  accel.dma @link {{from = @spm, to = @spm, step = array<i64: 1>, bytes_per_cycle = {rate}, latency = 5, dims = {dims}, queue = 2}}"
        );
    }
    if pick(&[0, 1, 2]) == 0 {
        text = text.replacen("pad = true", "pad = false", 1);
    }
    // Queues, alignment, rates and latencies; an engine whose latency is that of its spaces.
    for (at, all) in [
        (
            "queue = 4",
            &["queue = 1", "queue = 2", "queue = 4", "queue = 16"][..],
        ),
        ("align = 4", &["align = 4", "align = 16", "align = 256"]),
        ("align = 8", &["align = 1", "align = 8", "align = 64"]),
        (
            "bytes_per_cycle = 4, latency = 16",
            &[
                "bytes_per_cycle = 4",
                "bytes_per_cycle = 32, latency = 1",
                "bytes_per_cycle = 1, latency = 200",
                "bytes_per_cycle = 4, latency = 16",
            ],
        ),
        (
            "cycles \"2\"",
            &[
                "cycles \"n\"",
                "cycles \"ceildiv(n, 4) + d0\"",
                "cycles \"2\"",
                "cycles \"max(n, 9)\"",
            ],
        ),
    ] {
        let numbers: Vec<i64> = (0..all.len() as i64).collect();
        let mut parts = text.split(at).map(str::to_string);
        let mut made = parts.next().unwrap_or_default();
        for part in parts {
            made += all[pick(&numbers) as usize];
            made += &part;
        }
        text = made;
    }
    // Cores in rows.
    if cores > 1 && pick(&[0, 1]) == 1 {
        let core = format!("accel.core @core {{count = {cores}");
        let columns = pick(&[1, cores]);
        text = text.replace(&core, &format!("{core}, columns = {columns}"));
        if columns == 1 {
            text = text.replace("step = array<i64: 1>", "step = array<i64: 1, 0>");
        }
    }
    text += "}\n";
    // Tests that run beside each other make other machines of the same seed, and the same ones too.
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let name = format!("machine-{seed}-{:016x}.tir", hasher.finish());
    let thread = format!("{name}.{:?}", std::thread::current().id());
    let (path, own) = (folder.join(name), folder.join(thread));
    std::fs::write(&own, text).expect("a file");
    std::fs::rename(&own, &path).expect("a file");
    path
}
