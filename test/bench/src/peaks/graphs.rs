//! Graphs that are generated: cells wired at random, cells of architecture search, inception blocks, attention.
//!
//! Each is the text of one function on tensors; a seed gives the same text again.

use std::fmt::Write;

use tir_data::Random;

/// Families of graphs.
pub(crate) const FAMILIES: [&str; 4] = ["wired", "cells", "inception", "attention"];

/// The program of a graph of a family.
pub(crate) fn program(family: &str, seed: u64) -> String {
    let net = Net {
        random: Random::new(seed),
        arguments: String::new(),
        body: String::new(),
        count: 0,
    };
    match family {
        "wired" => crate::order::program(32, seed),
        "cells" => net.cells(),
        "inception" => net.inception(),
        _ => net.attention(),
    }
}

/// A value and its shape.
#[derive(Clone)]
struct Of {
    name: String,
    shape: Vec<u64>,
}

impl Of {
    fn ty(&self) -> String {
        ty(&self.shape)
    }
}

fn ty(shape: &[u64]) -> String {
    let sizes: String = shape.iter().map(|n| format!("{n}x")).collect();
    format!("tensor<{sizes}f32>")
}

struct Net {
    random: Random,
    arguments: String,
    body: String,
    count: usize,
}

impl Net {
    fn argument(&mut self, shape: &[u64]) -> Of {
        let name = format!("%a{}", self.count);
        self.count += 1;
        let comma = if self.arguments.is_empty() { "" } else { ", " };
        let _ = write!(self.arguments, "{comma}{name}: {}", ty(shape));
        Of {
            name,
            shape: shape.to_vec(),
        }
    }

    /// An op of some values, with what stands behind them.
    fn op(&mut self, op: &str, of: &[&Of], attributes: &str, shape: &[u64]) -> Of {
        let name = format!("%v{}", self.count);
        self.count += 1;
        let names: Vec<&str> = of.iter().map(|v| v.name.as_str()).collect();
        let types: Vec<String> = of.iter().map(|v| v.ty()).collect();
        let _ = writeln!(
            self.body,
            "  {name} = graph.{op} {}{attributes} : ({}) -> {}",
            names.join(", "),
            types.join(", "),
            ty(shape)
        );
        Of {
            name,
            shape: shape.to_vec(),
        }
    }

    fn done(self, result: &Of) -> String {
        let (name, ty) = (&result.name, result.ty());
        format!(
            "func.func @main({}) -> {ty} {{\n{}  func.return {name} : {ty}\n}}\n",
            self.arguments, self.body
        )
    }

    fn add(&mut self, a: &Of, b: &Of) -> Of {
        let shape = a.shape.clone();
        self.op("add", &[a, b], "", &shape)
    }

    fn relu(&mut self, x: &Of) -> Of {
        let name = format!("%v{}", self.count);
        self.count += 1;
        let _ = writeln!(self.body, "  {name} = graph.relu {} : {}", x.name, x.ty());
        Of { name, ..x.clone() }
    }

    /// A convolution that keeps height and width, then relu.
    fn conv(&mut self, x: &Of, channels: u64, kernel: u64) -> Of {
        let w = self.argument(&[channels, x.shape[1], kernel, kernel]);
        let pad = kernel / 2;
        let pads = format!(" {{pads = array<i64: {pad}, {pad}, {pad}, {pad}>}}");
        let shape = [1, channels, x.shape[2], x.shape[3]];
        let y = self.op("conv2d", &[x, &w], &pads, &shape);
        self.relu(&y)
    }

    /// A pool of 3x3 that keeps height and width.
    fn pool(&mut self, kind: &str, x: &Of) -> Of {
        let attributes = " {kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>}";
        let shape = x.shape.clone();
        self.op(kind, &[x], attributes, &shape)
    }

    fn concat(&mut self, parts: &[Of]) -> Of {
        let mut shape = parts[0].shape.clone();
        shape[1] = parts.iter().map(|p| p.shape[1]).sum();
        let parts: Vec<&Of> = parts.iter().collect();
        self.op("concat", &parts, " {axis = 1}", &shape)
    }

    /// Cells as architecture search finds them (B. Zoph and others, "Learning Transferable Architectures for Scalable Image
    /// Recognition", CVPR 2018): five blocks, each the sum of two operators on any two of what is there; what no block reads
    /// is the result of the cell, with channels side by side.
    fn cells(mut self) -> String {
        let channels = 8 << self.random.below(3);
        let size = 8 << self.random.below(2);
        let mut last = [
            self.argument(&[1, channels, size, size]),
            self.argument(&[1, channels, size, size]),
        ];
        for _ in 0..4 {
            let mut there: Vec<Of> = Vec::new();
            for input in &last {
                let narrow = self.conv(input, channels, 1);
                there.push(narrow);
            }
            let mut read = vec![true, true];
            for _ in 0..5 {
                let sides = [0, 1].map(|_| {
                    let from = self.random.below(there.len());
                    read[from] = true;
                    let x = there[from].clone();
                    match self.random.below(5) {
                        0 => self.conv(&x, channels, 3),
                        1 => self.conv(&x, channels, 5),
                        2 => self.pool("max_pool", &x),
                        3 => self.pool("avg_pool", &x),
                        _ => x,
                    }
                });
                let sum = self.add(&sides[0], &sides[1]);
                there.push(sum);
                read.push(false);
            }
            let loose = there.iter().zip(&read).filter(|(_, read)| !**read);
            let loose: Vec<Of> = loose.map(|(of, _)| of.clone()).collect();
            let out = self.concat(&loose);
            let [_, before] = last;
            last = [before, out];
        }
        let [_, out] = last;
        self.done(&out)
    }

    /// Blocks of four branches (C. Szegedy and others, "Going Deeper with Convolutions", CVPR 2015) of random widths.
    fn inception(mut self) -> String {
        let size = 7 + self.random.below(10) as u64;
        let mut x = self.argument(&[1, 32, size, size]);
        for _ in 0..4 {
            let mut width = || 8 * (1 + self.random.below(6) as u64);
            let [one, before3, three, before5, five, pooled] = [0; 6].map(|_| width());
            let a = self.conv(&x, one, 1);
            let b = self.conv(&x, before3, 1);
            let b = self.conv(&b, three, 3);
            let c = self.conv(&x, before5, 1);
            let c = self.conv(&c, five, 5);
            let d = self.pool("max_pool", &x);
            let d = self.conv(&d, pooled, 1);
            x = self.concat(&[a, b, c, d]);
        }
        self.done(&x)
    }

    fn product(&mut self, a: &Of, b: &Of) -> Of {
        let mut shape = a.shape.clone();
        if let (Some(last), Some(columns)) = (shape.last_mut(), b.shape.last()) {
            *last = *columns;
        }
        self.op("matmul", &[a, b], "", &shape)
    }

    fn transposed(&mut self, x: &Of, order: [usize; 3]) -> Of {
        let name = format!("%v{}", self.count);
        self.count += 1;
        let shape: Vec<u64> = order.iter().map(|d| x.shape[*d]).collect();
        let order: Vec<String> = order.iter().map(ToString::to_string).collect();
        let (order, from, to) = (order.join(", "), x.ty(), ty(&shape));
        let _ = writeln!(
            self.body,
            "  {name} = graph.transpose {} [{order}] : ({from}) -> {to}",
            x.name
        );
        Of { name, shape }
    }

    fn reshaped(&mut self, x: &Of, shape: &[u64]) -> Of {
        let name = format!("%v{}", self.count);
        self.count += 1;
        let (from, to) = (x.ty(), ty(shape));
        let _ = writeln!(
            self.body,
            "  {name} = graph.reshape {} : {from} to {to}",
            x.name
        );
        Of {
            name,
            shape: shape.to_vec(),
        }
    }

    /// Blocks of attention with several heads and a perceptron (A. Vaswani and others, "Attention Is All You Need", 2017), of
    /// random length and width.
    fn attention(mut self) -> String {
        let length = 16 + 8 * self.random.below(8) as u64;
        let heads = 1 << self.random.below(3);
        let each = 8 << self.random.below(3);
        let width = heads * each;
        let mut x = self.argument(&[length, width]);
        for _ in 0..3 {
            let [q, k, v] = [0, 1, 2].map(|which| {
                let w = self.argument(&[width, width]);
                let all = self.product(&x, &w);
                let apart = self.reshaped(&all, &[length, heads, each]);
                let order = if which == 1 { [1, 2, 0] } else { [1, 0, 2] };
                self.transposed(&apart, order)
            });
            let scores = self.product(&q, &k);
            let shape = scores.shape.clone();
            let weights = self.op("softmax", &[&scores], " {axis = 2}", &shape);
            let seen = self.product(&weights, &v);
            let seen = self.transposed(&seen, [1, 0, 2]);
            let seen = self.reshaped(&seen, &[length, width]);
            let w = self.argument(&[width, width]);
            let seen = self.product(&seen, &w);
            let y = self.add(&x, &seen);
            let (up, down) = (
                self.argument(&[width, 4 * width]),
                self.argument(&[4 * width, width]),
            );
            let wide = self.product(&y, &up);
            let wide = self.relu(&wide);
            let narrow = self.product(&wide, &down);
            x = self.add(&y, &narrow);
        }
        self.done(&x)
    }
}
