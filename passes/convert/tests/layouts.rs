//! Random layouts, of ranks 1 to 5 with random blocks: what is stored and changed between them is
//! the same below graph level, bit for bit.

use std::collections::BTreeSet;
use std::fmt::Write;

use tir::Greedy;
use tir::data::Random;
use tir::rewrite::{Class, canonicalization};
use tir_convert::{FuseElementwise, FuseGraph, GraphToTensor};
use tir_support::{read, run_tensors, show};

struct Maker {
    random: Random,
}

impl Maker {
    fn below(&mut self, n: usize) -> usize {
        self.random.below(n)
    }

    fn shuffle(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }

    /// A layout of a shape: dimensions in any order, blocks of any divisor anywhere. A plain one
    /// has no name in types.
    fn layout(&mut self, shape: &[i64]) -> String {
        let letters: Vec<char> = ["N", "NC", "NCW", "NCHW", "NCDHW"][shape.len() - 1]
            .chars()
            .collect();
        let mut parts: Vec<String> = letters.iter().map(char::to_string).collect();
        for (letter, n) in letters.iter().zip(shape) {
            let blocks: Vec<i64> = (2..=*n).filter(|b| n % b == 0).collect();
            if !blocks.is_empty() && self.below(2) == 0 {
                let block = blocks[self.below(blocks.len())];
                parts.push(format!("{block}{}", letter.to_ascii_lowercase()));
            }
        }
        let order = self.shuffle(parts.len());
        let name: String = order.into_iter().map(|i| parts[i].clone()).collect();
        match name.chars().eq(letters) {
            true => String::new(),
            false => format!(", #graph.layout<{name}>"),
        }
    }

    /// Changes of layout one after another. In each layout a constant is added whose elements all
    /// differ, so that what is stored in the wrong order shows; then dimensions are renamed.
    fn program(&mut self) -> String {
        let rank = 1 + self.below(5);
        let sizes = [1, 2, 3, 4, 6, 8];
        let shape: Vec<i64> = (0..rank).map(|_| sizes[self.below(6)]).collect();
        let text: String = shape.iter().map(|n| format!("{n}x")).collect();
        let plain = format!("tensor<{text}f32>");
        let count: i64 = shape.iter().product();
        let hex: String = (0..count)
            .map(|i| format!("{:08X}", (i as f32).to_bits().swap_bytes()))
            .collect();
        let steps = 1 + self.below(3);
        let mut body = String::new();
        let (mut value, mut ty) = ("%x".to_string(), plain.clone());
        for i in 0..steps {
            let layout = self.layout(&shape);
            let to = format!("tensor<{text}f32{layout}>");
            let _ = writeln!(body, "  %r{i} = graph.relayout {value} : {ty} to {to}");
            let _ = writeln!(
                body,
                "  %p{i} = graph.constant dense<\"0x{hex}\"> : {plain}"
            );
            let _ = writeln!(body, "  %c{i} = graph.relayout %p{i} : {plain} to {to}");
            let _ = writeln!(
                body,
                "  %s{i} = graph.add %r{i}, %c{i} : ({to}, {to}) -> {to}"
            );
            (value, ty) = (format!("%s{i}"), to);
        }
        let _ = writeln!(body, "  %y = graph.relayout {value} : {ty} to {plain}");
        let order = self.shuffle(rank);
        let turned: String = order.iter().map(|d| format!("{}x", shape[*d])).collect();
        let turned = format!("tensor<{turned}f32>");
        let _ = writeln!(
            body,
            "  %t = graph.transpose %y {order:?} : ({plain}) -> {turned}"
        );
        let _ = writeln!(body, "  func.return %t, %y : {turned}, {plain}");
        format!("func.func @f(%x: {plain}) -> ({turned}, {plain}) {{\n{body}}}\n")
    }
}

#[test]
fn what_is_stored_is_the_same_below_graph() {
    let mut maker = Maker {
        random: Random::new(11),
    };
    // Bits are compared.
    let mut rules = canonicalization();
    rules.only_classes(&[Class::Exact]);
    let patterns = rules.finish(&BTreeSet::new()).unwrap();
    for case in 0..150 {
        let text = maker.program();
        let mut ir = read(&text);
        let before = run_tensors(&ir, "f", case);
        // Changes that are merged and renamed, and as they stand.
        if case % 2 == 0 {
            let slot = ir.slots()[0];
            Greedy::new(&patterns).run(ir.child_mut(slot).unwrap());
        }
        lower(&mut ir, &text);
        let after = run_tensors(&ir, "f", case);
        for (a, b) in before.iter().zip(&after) {
            assert_eq!(
                (a.shape(), a.bytes()),
                (b.shape(), b.bytes()),
                "case {case}\n{text}"
            );
        }
    }
}

/// A convolution, a sum, and a pool in a layout: channels last or in blocks, weights in a layout of
/// their own or plain, strides, padding, channels by themselves.
fn windows(maker: &mut Maker) -> String {
    let pick = |maker: &mut Maker, from: &[i64]| from[maker.below(from.len())];
    let block = pick(maker, &[1, 2, 4]);
    let (inputs, outputs) = match block {
        1 => (pick(maker, &[1, 3, 5]), pick(maker, &[1, 2, 7])),
        _ => (
            block * pick(maker, &[1, 2, 3]),
            block * pick(maker, &[1, 2]),
        ),
    };
    let alone = maker.below(3) == 0;
    let outputs = if alone { inputs } else { outputs };
    let (kernel, stride, pad) = (
        pick(maker, &[1, 2, 3]),
        pick(maker, &[1, 2]),
        pick(maker, &[0, 1]),
    );
    let [height, width] = [pick(maker, &[4, 5]), pick(maker, &[3, 6])];
    let size = |n: i64| (n + 2 * pad - kernel) / stride + 1;
    let (rows, columns) = (size(height), size(width));
    let name = match block {
        1 => "NHWC".to_string(),
        _ => format!("NCHW{block}c"),
    };
    let taken = if alone { 1 } else { inputs };
    let weights = match maker.below(3) {
        0 => String::new(),
        1 => ", #graph.layout<HWIO>".to_string(),
        _ if block > 1 && taken % block == 0 => format!(", #graph.layout<OIHW{block}i{block}o>"),
        _ if block > 1 => format!(", #graph.layout<OIHW{block}o>"),
        _ => ", #graph.layout<OHWI>".to_string(),
    };
    let groups = if alone { inputs } else { 1 };
    let stored = format!(", #graph.layout<{name}>");
    let x = |layout: &str| format!("tensor<2x{inputs}x{height}x{width}xf32{layout}>");
    let w = |layout: &str| format!("tensor<{outputs}x{taken}x{kernel}x{kernel}xf32{layout}>");
    let c = |layout: &str| format!("tensor<2x{outputs}x{rows}x{columns}xf32{layout}>");
    let g = |layout: &str| format!("tensor<2x{outputs}x1x1xf32{layout}>");
    let pool = ["max_pool", "avg_pool"][maker.below(2)];
    let (x0, xs, w0, ws) = (x(""), x(&stored), w(""), w(&weights));
    let (c0, cs, g0, gs) = (c(""), c(&stored), g(""), g(&stored));
    let b = format!("tensor<{outputs}x1x1xf32>");
    format!(
        "func.func @f(%x: {x0}, %w: {w0}, %r: {c0}, %b: {b}) -> ({c0}, {g0}) {{
  %xs = graph.relayout %x : {x0} to {xs}
  %ws = graph.relayout %w : {w0} to {ws}
  %rs = graph.relayout %r : {c0} to {cs}
  %c = graph.conv2d %xs, %ws {{groups = {groups}, pads = array<i64: {pad}, {pad}, {pad}, {pad}>, \
         strides = array<i64: {stride}, {stride}>}} : ({xs}, {ws}) -> {cs}
  %s = graph.add %c, %rs : ({cs}, {cs}) -> {cs}
  %t = graph.mul %s, %b : ({cs}, {b}) -> {cs}
  %p = graph.{pool} %t {{kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>}} : ({cs}) -> {cs}
  %g = graph.global_avg_pool %p : ({cs}) -> {gs}
  %y = graph.relayout %p : {cs} to {c0}
  %z = graph.relayout %g : {gs} to {g0}
  func.return %y, %z : {c0}, {g0}
}}
"
    )
}

#[test]
fn windows_slide_in_every_layout() {
    let mut maker = Maker {
        random: Random::new(12),
    };
    for case in 0..150 {
        let text = windows(&mut maker);
        let mut ir = read(&text);
        let before = run_tensors(&ir, "f", case);
        lower(&mut ir, &text);
        let after = run_tensors(&ir, "f", case);
        for (a, b) in before.iter().zip(&after) {
            let (a, b) = (a.as_f32().unwrap(), b.as_f32().unwrap());
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 + 1e-4 * a.abs();
            assert!(a.iter().zip(b.iter()).all(near), "case {case}\n{text}");
        }
    }
}

/// To index expressions, which know no layouts.
fn lower(ir: &mut tir::Ir, text: &str) {
    let mut pipeline = tir::Pipeline::default();
    pipeline.add(FuseGraph::default());
    pipeline.add(GraphToTensor::default());
    pipeline.add(FuseElementwise::default());
    let run = tir::PassManager::new(pipeline).run(ir).into_result();
    run.unwrap_or_else(|errors| panic!("{errors:#?}\n{text}"));
    tir_support::check(ir);
    assert!(!show(ir).contains("graph.layout"), "{text}");
}
