//! Random convolutions in QDQ form.

use tir_data::Random;

/// A program: `dequantize(quantize(bounds(conv2d(dequantize(quantize(x)), dequantize(w)))))`, plus a
/// tensor of its shape.
#[derive(Clone)]
pub(crate) struct Program {
    random: Random,
    channels: [u64; 2],
    groups: u64,
    kernel: [u64; 2],
    strides: [u64; 2],
    size: [u64; 2],
    pads: [u64; 4],
    unsigned: bool,
    /// Whether scales are powers of two.
    exact: bool,
    step: f64,
}

impl Program {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let pick = |random: &mut Random, list: &[u64]| list[random.below(list.len())];
        let mut groups = pick(&mut random, &[1, 1, 1, 2, 4]);
        let mut channels = [
            groups * pick(&mut random, &[1, 3, 4, 5, 8, 16]),
            groups * pick(&mut random, &[1, 2, 5, 8, 17]),
        ];
        if random.below(5) == 0 {
            groups = channels[0];
            channels[1] = groups * pick(&mut random, &[1, 2]);
        }
        let kernels = [[1, 1], [3, 3], [3, 1], [5, 5], [2, 2]];
        let kernel = kernels[random.below(5)];
        let strides = [[1, 1], [1, 1], [2, 2], [2, 1]][random.below(4)];
        let size = [8, 10].map(|n| 5 + random.below(n) as u64);
        let pads = [0, 1, 0, 1].map(|d: usize| random.below(kernel[d] as usize / 2 + 1) as u64);
        let mut made = Self {
            unsigned: random.below(5) < 2,
            exact: random.below(2) == 0,
            random,
            channels,
            groups,
            kernel,
            strides,
            size,
            pads,
            step: 0.0,
        };
        made.step = made.scale();
        made
    }

    /// One step of the result.
    pub(crate) fn step(&self) -> f64 {
        self.step
    }

    fn result(&self) -> Vec<i64> {
        let out = |d: usize| {
            let padded = self.size[d] + self.pads[d] + self.pads[d + 2];
            (padded - self.kernel[d]) / self.strides[d] + 1
        };
        [1, self.channels[1], out(0), out(1)]
            .map(|n| n as i64)
            .to_vec()
    }

    /// The shapes of the arguments.
    pub(crate) fn arguments(&self) -> Vec<Vec<i64>> {
        let x = [1, self.channels[0], self.size[0], self.size[1]];
        vec![x.map(|n| n as i64).to_vec(), self.result()]
    }

    fn scale(&mut self) -> f64 {
        let exponent = 3 + self.random.below(7) as i32;
        let scale = 2f64.powi(-exponent);
        match self.exact {
            true => scale,
            false => scale * (1.0 + self.random.below(1000) as f64 / 1000.0),
        }
    }

    fn zero(&mut self) -> i64 {
        let zeros = match self.unsigned {
            true => [0, 128, 5, 200],
            false => [0, 0, 3, -100],
        };
        zeros[self.random.below(4)]
    }

    pub(crate) fn text(&self) -> String {
        self.clone().write()
    }

    fn write(&mut self) -> String {
        let tensor = |shape: &[i64], elem: &str| {
            let sizes: String = shape.iter().map(|d| format!("{d}x")).collect();
            format!("tensor<{sizes}{elem}>")
        };
        let elem = if self.unsigned { "ui8" } else { "i8" };
        let shapes = self.arguments();
        let [x, y] = [0, 1].map(|k: usize| tensor(&shapes[k], "f32"));
        let [xq, yq] = [0, 1].map(|k: usize| tensor(&shapes[k], elem));
        let [inputs, outputs] = self.channels;
        let shape = [
            outputs,
            inputs / self.groups,
            self.kernel[0],
            self.kernel[1],
        ];
        let shape = shape.map(|n| n as i64);
        let (w, wr) = (tensor(&shape, "i8"), tensor(&shape, "f32"));
        let count = shape.iter().product::<i64>();
        let bytes: String = (0..count)
            .map(|_| format!("{:02X}", self.random.below(256)))
            .collect();
        let several = outputs > 1 && self.random.below(2) == 0;
        let (scales, scale_type, axis) = if several {
            let all: Vec<String> = (0..outputs)
                .map(|_| format!("{:?}", self.scale()))
                .collect();
            (
                format!("[{}]", all.join(", ")),
                format!("tensor<{outputs}xf32>"),
                " {axis = 0}",
            )
        } else {
            (format!("{:?}", self.scale()), "tensor<f32>".to_string(), "")
        };
        let weights = match count {
            1 => "5".to_string(),
            _ => format!("\"0x{bytes}\""),
        };
        let (sx, zx, zy) = (self.scale(), self.zero(), self.zero());
        let list = |list: &[u64]| {
            let all: Vec<String> = list.iter().map(u64::to_string).collect();
            format!("array<i64: {}>", all.join(", "))
        };
        let attrs = format!(
            "{{groups = {}, pads = {}, strides = {}}}",
            self.groups,
            list(&self.pads),
            list(&self.strides)
        );
        let bias = self.random.below(2) == 0;
        let (operand, bias_type) = match bias {
            true => (", %b", format!(", tensor<{outputs}xf32>")),
            false => ("", String::new()),
        };
        let bound = match self.random.below(3) {
            0 => format!("graph.relu %c : {y}"),
            1 => format!("graph.clip %c {{min = -1.0 : f64, max = 6.0 : f64}} : {y}"),
            _ => format!("graph.clip %c : {y}"),
        };
        format!(
            "func.func @main(%x: {x}, %more: {y}) -> {y} {{
  %sx = graph.constant dense<{sx:?}> : tensor<f32>
  %zx = graph.constant dense<{zx}> : tensor<{elem}>
  %q = graph.quantize %x, %sx, %zx : ({x}, tensor<f32>, tensor<{elem}>) -> {xq}
  %d = graph.dequantize %q, %sx, %zx : ({xq}, tensor<f32>, tensor<{elem}>) -> {x}
  %w = graph.constant dense<{weights}> : {w}
  %sw = graph.constant dense<{scales}> : {scale_type}
  %dw = graph.dequantize %w, %sw{axis} : ({w}, {scale_type}) -> {wr}
  %b = graph.constant dense<0.375> : tensor<{outputs}xf32>
  %c = graph.conv2d %d, %dw{operand} {attrs} : ({x}, {wr}{bias_type}) -> {y}
  %r = {bound}
  %sy = graph.constant dense<{step:?}> : tensor<f32>
  %zy = graph.constant dense<{zy}> : tensor<{elem}>
  %qy = graph.quantize %r, %sy, %zy : ({y}, tensor<f32>, tensor<{elem}>) -> {yq}
  %dy = graph.dequantize %qy, %sy, %zy : ({yq}, tensor<f32>, tensor<{elem}>) -> {y}
  %o = graph.add %dy, %more : ({y}, {y}) -> {y}
  func.return %o : {y}
}}
",
            step = self.step
        )
    }
}
