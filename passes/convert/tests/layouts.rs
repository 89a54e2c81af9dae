//! Random layouts, of ranks 1 to 5 with random blocks: what is stored and changed between them is
//! the same below graph level, bit for bit.

mod common;

use std::collections::BTreeSet;
use std::fmt::Write;

use common::{read, run_tensors, show};
use tir::Greedy;
use tir::data::Random;
use tir::rewrite::canonicalization;
use tir_convert::{FuseElementwise, FuseGraph, GraphToTensor};

struct Maker {
    random: Random,
}

impl Maker {
    fn below(&mut self, n: usize) -> usize {
        (self.random.next_u64() % n as u64) as usize
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
    common::load();
    let patterns = canonicalization().finish(&BTreeSet::new()).unwrap();
    for case in 0..150 {
        let text = maker.program();
        let mut ir = read(&text);
        let before = run_tensors(&ir, "f", case);
        // Changes that are merged and renamed, and as they stand.
        if case % 2 == 0 {
            let slot = ir.slots()[0];
            Greedy::new(&patterns).run(ir.child_mut(slot).unwrap());
        }
        let mut pipeline = tir::Pipeline::default();
        pipeline.add(FuseGraph::default());
        pipeline.add(GraphToTensor::default());
        pipeline.add(FuseElementwise::default());
        let run = tir::PassManager::new(pipeline).run(&mut ir).into_result();
        run.unwrap_or_else(|errors| panic!("case {case}: {errors:#?}\n{text}"));
        common::check(&ir);
        assert!(!show(&ir).contains("graph.layout"), "case {case}\n{text}");
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
