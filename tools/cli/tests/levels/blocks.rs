//! Random networks of the blocks that networks are made of: convolutions of all kinds, squeeze and excitation, branches
//! that are joined, shuffled channels, other layouts, attention, and products of small integers.

use tir_data::Random;

use crate::program::{Program, below, ints, pick};

/// Elements in rows of channels.
const ROWS: &str = "f32, #graph.layout<NHWC>";

/// A network that grows.
struct Network {
    program: Program,
    random: Random,
    /// Whether sizes are such that a unit of one element does not take millions of calls.
    small: bool,
}

/// The network of a seed, of so many blocks.
pub(crate) fn network(seed: u64, blocks: usize, small: bool) -> Program {
    let mut network = Network {
        program: Program::empty(true),
        random: Random::new(seed ^ 0x6e65_7477),
        small,
    };
    match seed % 4 {
        0 | 1 => network.image(blocks),
        2 => network.sequence(blocks.min(2)),
        _ => network.integers(blocks),
    }
    let Network {
        mut program,
        mut random,
        ..
    } = network;
    program.close(&mut random);
    program
}

impl Network {
    fn pick(&mut self, all: &[i64]) -> i64 {
        *pick(&mut self.random, all)
    }
    fn shape(&self, x: usize) -> Vec<i64> {
        self.program.shape(x).to_vec()
    }
    fn op(&mut self, text: impl Into<String>, operands: &[usize], shape: Vec<i64>) -> usize {
        self.program.op_of("f32", text, operands, shape)
    }
    fn pair(&mut self, name: &str, x: usize, y: usize) -> usize {
        let shape = self.shape(x);
        let text = format!("graph.{name} $0, $1 : (#0, #1) -> #r");
        self.op(text, &[x, y], shape)
    }
    fn each(&mut self, name: &str, x: usize) -> usize {
        let shape = self.shape(x);
        self.op(format!("graph.{name} $0 : #r"), &[x], shape)
    }
    fn reshaped(&mut self, x: usize, shape: Vec<i64>) -> usize {
        self.op("graph.reshape $0 : #0 to #r", &[x], shape)
    }
    fn turned(&mut self, x: usize, order: &[i64]) -> usize {
        let shape = order
            .iter()
            .map(|d| self.program.shape(x)[*d as usize])
            .collect();
        let text = format!("graph.transpose $0 [{}] : (#0) -> #r", ints(order));
        self.op(text, &[x], shape)
    }

    fn image(&mut self, blocks: usize) {
        let (c, h, w) = match self.small {
            true => (
                self.pick(&[2, 3, 6, 8]),
                self.pick(&[3, 5, 7]),
                self.pick(&[4, 5, 9]),
            ),
            false => (
                self.pick(&[3, 8, 16, 24, 33]),
                self.pick(&[5, 7, 8, 14]),
                self.pick(&[5, 7, 9, 14]),
            ),
        };
        let mut x = self.program.argument(vec![1, c, h, w]);
        for _ in 0..blocks {
            x = match below(&mut self.random, 9) {
                0 => self.point(x),
                1 => self.excitation(x),
                2 => self.grouped(x),
                3 => self.pooled(x),
                4 => self.branches(x),
                5 => self.residual(x),
                6 => self.shuffled(x),
                7 => self.in_rows(x),
                _ => {
                    let (outputs, k) = (self.channels(), self.pick(&[1, 3, 5]));
                    let stride = self.pick(&[1, 1, 2]);
                    self.convolution(x, [outputs, 1], k, stride, k / 2)
                }
            };
        }
    }
    fn channels(&mut self) -> i64 {
        match self.small {
            true => self.pick(&[2, 4, 5, 8, 9]),
            false => self.pick(&[4, 8, 16, 20, 32, 40]),
        }
    }
    fn convolution(
        &mut self,
        x: usize,
        [outputs, groups]: [i64; 2],
        kernel: i64,
        stride: i64,
        pad: i64,
    ) -> usize {
        let [n, c, h, w] = self.shape(x)[..] else {
            return x;
        };
        if h.min(w) + 2 * pad < kernel {
            return x;
        }
        let weights = self
            .program
            .argument(vec![outputs, c / groups, kernel, kernel]);
        let mut operands = vec![x, weights];
        let (mut names, mut types) = ("$0, $1".to_string(), "#0, #1".to_string());
        if below(&mut self.random, 3) > 0 {
            operands.push(self.program.argument(vec![outputs]));
            (names, types) = (names + ", $2", types + ", #2");
        }
        let size = |n: i64| (n + 2 * pad - kernel) / stride + 1;
        let text = format!(
            "graph.conv2d {names} {{groups = {groups} : i64, strides = array<i64: {stride}, {stride}>, \
             pads = array<i64: {pad}, {pad}, {pad}, {pad}>}} : ({types}) -> #r"
        );
        let result = self.op(text, &operands, vec![n, outputs, size(h), size(w)]);
        self.activated(result)
    }
    fn activated(&mut self, x: usize) -> usize {
        let shape = self.shape(x);
        match below(&mut self.random, 6) {
            0 => x,
            1 => self.op(
                "graph.clip $0 {min = 0.0 : f64, max = 6.0 : f64} : #r",
                &[x],
                shape,
            ),
            2 => self.each("hard_swish", x),
            3 => {
                let gate = self.each("sigmoid", x);
                self.pair("mul", x, gate)
            }
            _ => self.each("relu", x),
        }
    }
    /// A product at each second or third pixel, or at each.
    fn point(&mut self, x: usize) -> usize {
        let (outputs, stride) = (self.channels(), self.pick(&[1, 2, 2, 3]));
        self.convolution(x, [outputs, 1], 1, stride, 0)
    }
    fn excitation(&mut self, x: usize) -> usize {
        let [n, c, ..] = self.shape(x)[..] else {
            return x;
        };
        let few = self.pick(&[1, 4, 6]);
        let mean = self.op(
            "graph.global_avg_pool $0 : (#0) -> #r",
            &[x],
            vec![n, c, 1, 1],
        );
        let squeezed = self.convolution(mean, [few, 1], 1, 1, 0);
        let spread = self.convolution(squeezed, [c, 1], 1, 1, 0);
        let name = *pick(&mut self.random, &["sigmoid", "hard_sigmoid"]);
        let gate = self.each(name, spread);
        self.pair("mul", x, gate)
    }
    fn grouped(&mut self, x: usize) -> usize {
        let c = self.shape(x)[1];
        let groups: Vec<i64> = [2, 4, 8, c].into_iter().filter(|g| c % g == 0).collect();
        let groups = self.pick(&groups);
        let (each, k) = (self.pick(&[1, 2, c / groups]), self.pick(&[1, 3, 3]));
        let stride = self.pick(&[1, 1, 2]);
        self.convolution(x, [each * groups, groups], k, stride, k / 2)
    }
    fn pooled(&mut self, x: usize) -> usize {
        let [n, c, h, w] = self.shape(x)[..] else {
            return x;
        };
        let (k, stride, pad) = (self.pick(&[2, 3]), self.pick(&[1, 2]), self.pick(&[0, 1]));
        let size = |n: i64| (n + 2 * pad - k) / stride + 1;
        if h.min(w) + 2 * pad < k {
            return x;
        }
        let name = *pick(&mut self.random, &["avg", "avg", "max"]);
        let own = match (name, below(&mut self.random, 2)) {
            ("avg", 0) => ", count_include_pad = true",
            _ => "",
        };
        let text = format!(
            "graph.{name}_pool $0 {{kernel = array<i64: {k}, {k}>, strides = array<i64: {stride}, {stride}>, \
             pads = array<i64: {pad}, {pad}, {pad}, {pad}>{own}}} : (#0) -> #r"
        );
        self.op(text, &[x], vec![n, c, size(h), size(w)])
    }
    fn branches(&mut self, x: usize) -> usize {
        let stride = self.pick(&[1, 1, 2]);
        let mut parts = Vec::new();
        for _ in 0..self.pick(&[2, 3]) {
            let (outputs, k) = (self.channels(), self.pick(&[1, 3, 5]));
            parts.push(self.convolution(x, [outputs, 1], k, stride, k / 2));
        }
        let mut shape = self.shape(parts[0]);
        shape[1] = parts.iter().map(|part| self.program.shape(*part)[1]).sum();
        let names: Vec<String> = (0..parts.len()).map(|i| format!("${i}")).collect();
        let types: Vec<String> = (0..parts.len()).map(|i| format!("#{i}")).collect();
        let text = format!(
            "graph.concat {} {{axis = 1 : i64}} : ({}) -> #r",
            names.join(", "),
            types.join(", ")
        );
        self.op(text, &parts, shape)
    }
    fn residual(&mut self, x: usize) -> usize {
        let c = self.shape(x)[1];
        let wide = c * self.pick(&[1, 2, 4]);
        let mut y = self.convolution(x, [wide, 1], 1, 1, 0);
        y = self.convolution(y, [wide, wide], 3, 1, 1);
        if below(&mut self.random, 3) == 0 {
            y = self.excitation(y);
        }
        y = self.convolution(y, [c, 1], 1, 1, 0);
        self.pair("add", y, x)
    }
    fn shuffled(&mut self, x: usize) -> usize {
        let [n, c, h, w] = self.shape(x)[..] else {
            return x;
        };
        let groups = [4, 3, 2].into_iter().find(|g| c % g == 0).unwrap_or(1);
        let y = self.reshaped(x, vec![n, groups, c / groups, h, w]);
        let y = self.turned(y, &[0, 2, 1, 3, 4]);
        self.reshaped(y, vec![n, c, h, w])
    }
    /// Steps on rows of channels: by a layout, or by the shape.
    fn in_rows(&mut self, x: usize) -> usize {
        let shape = self.shape(x);
        let (c, outputs) = (shape[1], self.channels());
        if below(&mut self.random, 2) == 0 {
            let y = self.turned(x, &[0, 2, 3, 1]);
            let scale = self.program.argument(vec![c]);
            let y = self.pair("mul", y, scale);
            let y = self.activated(y);
            return self.turned(y, &[0, 3, 1, 2]);
        }
        let program = &mut self.program;
        let weights = program.argument(vec![outputs, c, 1, 1]);
        let y = program.op_of(ROWS, "graph.relayout $0 : #0 to #r", &[x], shape.clone());
        let shape = vec![shape[0], outputs, shape[2], shape[3]];
        let text = "graph.conv2d $0, $1 : (#0, #1) -> #r";
        let y = program.op_of(ROWS, text, &[y, weights], shape.clone());
        let y = program.op_of(ROWS, "graph.relu $0 : #r", &[y], shape.clone());
        self.op("graph.relayout $0 : #0 to #r", &[y], shape)
    }

    fn sequence(&mut self, blocks: usize) {
        let (rows, width) = (self.pick(&[5, 7, 16, 20]), self.pick(&[8, 12, 16, 24]));
        let mut x = self.program.argument(vec![rows, width]);
        for _ in 0..blocks {
            x = match below(&mut self.random, 3) {
                0 => self.perceptron(x),
                _ => self.attention(x),
            };
            if below(&mut self.random, 2) == 0 {
                let (scale, bias) = (
                    self.program.argument(vec![width]),
                    self.program.argument(vec![width]),
                );
                let text = "graph.layer_norm $0, $1, $2 {axis = 1} : (#0, #1, #2) -> #r";
                x = self.op(text, &[x, scale, bias], vec![rows, width]);
            }
        }
    }
    fn product(&mut self, x: usize, y: usize) -> usize {
        let mut shape = self.shape(x);
        let columns = self.program.shape(y).last().copied();
        if let (Some(last), Some(columns)) = (shape.last_mut(), columns) {
            *last = columns;
        }
        self.op("graph.matmul $0, $1 : (#0, #1) -> #r", &[x, y], shape)
    }
    fn dense(&mut self, x: usize, columns: i64) -> usize {
        let inputs = self.shape(x)[1];
        let weights = self.program.argument(vec![inputs, columns]);
        let y = self.product(x, weights);
        let bias = self.program.argument(vec![columns]);
        self.pair("add", y, bias)
    }
    fn perceptron(&mut self, x: usize) -> usize {
        let width = self.shape(x)[1];
        let inner = width * self.pick(&[1, 2, 3]);
        let y = self.dense(x, inner);
        let name = *pick(&mut self.random, &["gelu", "relu", "hard_swish"]);
        let y = self.each(name, y);
        let y = self.dense(y, width);
        self.pair("add", y, x)
    }
    fn attention(&mut self, x: usize) -> usize {
        let [rows, width] = self.shape(x)[..] else {
            return x;
        };
        let heads = self.pick(&[1, 2, 4]);
        let each = width / heads;
        // Attention to itself, or to more rows than near memory has room for scores of.
        let others = match below(&mut self.random, 2) {
            0 => rows,
            _ if self.small => self.pick(&[8, 48]),
            _ => self.pick(&[16, 48, 96, 256]),
        };
        let memory = match others == rows {
            true => x,
            false => self.program.argument(vec![others, width]),
        };
        let [queries, keys, values] = [x, memory, memory].map(|from| {
            let from_rows = self.shape(from)[0];
            let y = self.dense(from, width);
            self.reshaped(y, vec![from_rows, heads, each])
        });
        let queries = self.turned(queries, &[1, 0, 2]);
        let keys = self.turned(keys, &[1, 2, 0]);
        let values = self.turned(values, &[1, 0, 2]);
        let scores = self.product(queries, keys);
        let scale = self
            .program
            .op_of("f32", "graph.constant dense<0.35> : #r", &[], Vec::new());
        let mut scores = self.pair("mul", scores, scale);
        if below(&mut self.random, 3) == 0 {
            let bias = self.program.argument(vec![rows, others]);
            scores = self.pair("add", scores, bias);
        }
        let shares = self.op(
            "graph.softmax $0 {axis = 2} : (#0) -> #r",
            &[scores],
            vec![heads, rows, others],
        );
        let y = self.product(shares, values);
        let y = self.turned(y, &[1, 0, 2]);
        let y = self.reshaped(y, vec![rows, width]);
        let y = self.dense(y, width);
        self.pair("add", y, x)
    }

    /// Products of integers; scales are powers of two, so that sums in any order are exact.
    fn integers(&mut self, blocks: usize) {
        let flat = below(&mut self.random, 4) == 0;
        let shape = match flat {
            true => vec![self.pick(&[1, 5, 16, 20]), self.pick(&[8, 16, 24, 40])],
            false => vec![
                1,
                self.pick(&[3, 8, 16, 24]),
                self.pick(&[5, 7, 9]),
                self.pick(&[6, 7, 12]),
            ],
        };
        let x = self.program.argument(shape);
        let mut x = self.quantized(x, -4);
        for _ in 0..blocks {
            x = match (flat, below(&mut self.random, 6)) {
                (true, _) => self.narrow_product(x),
                (_, 0) => self.narrow_pool(x),
                (_, 1) => self.narrow_sum(x),
                (_, 2) => self.folded(x),
                _ => self.narrow_convolution(x),
            };
        }
        let shape = self.shape(x);
        let scale = self.power(-4);
        self.op(
            "graph.dequantize $0, $1 : (#0, #1) -> #r",
            &[x, scale],
            shape,
        );
    }
    fn power(&mut self, exponent: i32) -> usize {
        let text = format!("graph.constant dense<{:?}> : #r", 2f64.powi(exponent));
        self.op(text, &[], Vec::new())
    }
    fn narrow(&mut self, text: impl Into<String>, operands: &[usize], shape: Vec<i64>) -> usize {
        self.program.op_of("i8", text, operands, shape)
    }
    fn quantized(&mut self, x: usize, exponent: i32) -> usize {
        let (scale, shape) = (self.power(exponent), self.shape(x));
        let text = "graph.quantize $0, $1 : (#0, #1) -> #r";
        self.narrow(text, &[x, scale], shape)
    }
    /// Weights that are constant.
    fn weights(&mut self, shape: Vec<i64>) -> usize {
        let bytes = shape.iter().product::<i64>();
        let bytes: String = (0..bytes.max(2))
            .map(|_| format!("{:02X}", below(&mut self.random, 256)))
            .collect();
        let text = match shape.iter().product::<i64>() {
            1 => "graph.constant dense<5> : #r".to_string(),
            _ => format!("graph.constant dense<\"0x{bytes}\"> : #r"),
        };
        self.narrow(text, &[], shape)
    }
    /// Sums as small integers, perhaps none below 0.
    fn requantized(&mut self, sums: usize) -> usize {
        let shape = self.shape(sums);
        let bits = 7 + below(&mut self.random, 4) as i32;
        let factor = self.power(-bits);
        let mut operands = vec![sums, factor];
        let (mut names, mut types) = ("$0, $1", "#0, #1");
        if below(&mut self.random, 2) == 0 {
            let zero = *pick(&mut self.random, &[0, 3, -100]);
            let text = format!("graph.constant dense<{zero}> : #r");
            operands.push(self.narrow(text, &[], Vec::new()));
            (names, types) = ("$0, $1, $2", "#0, #1, #2");
        }
        let text = format!("graph.requantize {names} : ({types}) -> #r");
        let y = self.narrow(text, &operands, shape.clone());
        match below(&mut self.random, 2) {
            0 => self.narrow("graph.relu $0 : #r", &[y], shape),
            _ => y,
        }
    }
    fn narrow_product(&mut self, x: usize) -> usize {
        let [rows, inputs] = self.shape(x)[..] else {
            return x;
        };
        let columns = self.pick(&[4, 16, 17, 32]);
        let weights = self.weights(vec![inputs, columns]);
        let text = "graph.matmul_integer $0, $1 : (#0, #1) -> #r";
        let sums = self
            .program
            .op_of("i32", text, &[x, weights], vec![rows, columns]);
        self.requantized(sums)
    }
    fn narrow_convolution(&mut self, x: usize) -> usize {
        let [n, c, h, w] = self.shape(x)[..] else {
            return x;
        };
        let groups = if c % 2 == 0 {
            self.pick(&[1, 1, 2, c])
        } else {
            1
        };
        let outputs = groups * self.pick(&[1, 4, 8, 16]).min((64 / groups).max(1));
        let (k, stride) = (self.pick(&[1, 3]), self.pick(&[1, 1, 2]));
        let pad = (k / 2) * self.pick(&[0, 1]);
        if h.min(w) + 2 * pad < k {
            return x;
        }
        let size = |n: i64| (n + 2 * pad - k) / stride + 1;
        let padding = self.pick(&[0, 0, -3]);
        let weights = self.weights(vec![outputs, c / groups, k, k]);
        let text = format!(
            "graph.conv2d_integer $0, $1 {{groups = {groups} : i64, padding = {padding} : i64, strides = array<i64: {stride}, {stride}>, \
             pads = array<i64: {pad}, {pad}, {pad}, {pad}>}} : (#0, #1) -> #r"
        );
        let sums = self.program.op_of(
            "i32",
            text,
            &[x, weights],
            vec![n, outputs, size(h), size(w)],
        );
        self.requantized(sums)
    }
    fn narrow_pool(&mut self, x: usize) -> usize {
        let [n, c, h, w] = self.shape(x)[..] else {
            return x;
        };
        if h.min(w) < 2 {
            return x;
        }
        let stride = self.pick(&[1, 2]);
        let size = |n: i64| (n - 2) / stride + 1;
        let text = format!(
            "graph.max_pool $0 {{kernel = array<i64: 2, 2>, strides = array<i64: {stride}, {stride}>}} : (#0) -> #r"
        );
        self.narrow(text, &[x], vec![n, c, size(h), size(w)])
    }
    /// The sum of numbers that integers stand for, as integers again; or both beside one another.
    fn narrow_sum(&mut self, x: usize) -> usize {
        let mut shape = self.shape(x);
        let other = self.program.argument(shape.clone());
        let y = self.quantized(other, -3);
        if below(&mut self.random, 2) == 0 {
            shape[1] *= 2;
            let text = "graph.concat $0, $1 {axis = 1 : i64} : (#0, #1) -> #r";
            return self.narrow(text, &[x, y], shape);
        }
        let scale = self.power(-4);
        let text = "graph.dequantize $0, $1 : (#0, #1) -> #r";
        let [a, b] = [x, y].map(|v| self.op(text, &[v, scale], shape.clone()));
        let sum = self.pair("add", a, b);
        self.quantized(sum, -3)
    }
    /// A convolution of the numbers that integers stand for, quantized again: `fold-qdq` makes integers of it.
    fn folded(&mut self, x: usize) -> usize {
        let [n, c, h, w] = self.shape(x)[..] else {
            return x;
        };
        let outputs = self.pick(&[4, 16, 20]);
        let weights = self.weights(vec![outputs, c, 1, 1]);
        let (scale, fine) = (self.power(-4), self.power(-7));
        let text = "graph.dequantize $0, $1 : (#0, #1) -> #r";
        let wide = self.op(text, &[x, scale], vec![n, c, h, w]);
        let factors = self.op(text, &[weights, fine], vec![outputs, c, 1, 1]);
        let text = "graph.conv2d $0, $1 : (#0, #1) -> #r";
        let sums = self.op(text, &[wide, factors], vec![n, outputs, h, w]);
        let sums = self.each("relu", sums);
        self.quantized(sums, -2)
    }
}
