//! Networks by their published architectures at graph level, with random weights: for what depends on shapes and
//! sizes alone.

use std::fmt::Write;

use tir::interp::to_attr;
use tir::{Data, Ir, Traits};

/// SqueezeNet 1.1 (Iandola and others 2016) on images of 224 by 224.
pub fn squeezenet(seed: u64) -> Ir {
    let mut network = Network::default();
    let x = network.image(3, 224);
    let stem = Conv::of(64, 3).stride(2).pad(0);
    let mut x = network.conv_relu(&x, stem);
    let rows = [
        &[(16, 64); 2][..],
        &[(32, 128); 2],
        &[(48, 192), (48, 192), (64, 256), (64, 256)],
    ];
    for row in rows {
        x = network.max_pool(&x, 3, 2, 0);
        for (inner, outer) in row {
            let narrow = network.conv_relu(&x, Conv::of(*inner, 1));
            let parts = [1, 3].map(|kernel| network.conv_relu(&narrow, Conv::of(*outer, kernel)));
            x = network.concat(&parts);
        }
    }
    let x = network.conv_relu(&x, Conv::of(1000, 1));
    let result = network.average(&x);
    seeded(&network.text(&result), seed)
}

/// MobileNet v2 (Sandler and others 2018, table 2) on images of 224 by 224, without batch normalization.
pub fn mobilenet_v2(seed: u64) -> Ir {
    let mut network = Network::default();
    let x = network.image(3, 224);
    let stem = network.conv(&x, Conv::of(32, 3).stride(2));
    let mut x = network.clip(&stem);
    // Expansion, channels, blocks, stride of the first one.
    let rows = [
        [1, 16, 1, 1],
        [6, 24, 2, 2],
        [6, 32, 3, 2],
        [6, 64, 4, 2],
        [6, 96, 3, 1],
        [6, 160, 3, 2],
        [6, 320, 1, 1],
    ];
    for [expansion, channels, blocks, first] in rows {
        for block in 0..blocks {
            let stride = if block == 0 { first } else { 1 };
            let mut wide = x.clone();
            if expansion > 1 {
                let made = network.conv(&x, Conv::of(expansion * x.channels, 1));
                wide = network.clip(&made);
            }
            let depthwise = Conv::of(wide.channels, 3)
                .stride(stride)
                .groups(wide.channels);
            let made = network.conv(&wide, depthwise);
            let made = network.clip(&made);
            let made = network.conv(&made, Conv::of(channels, 1));
            x = match block {
                0 => made,
                _ => network.add(&made, &x),
            };
        }
    }
    let made = network.conv(&x, Conv::of(1280, 1));
    let x = network.clip(&made);
    let features = network.average(&x);
    let result = network.classes(&features, 1000);
    seeded(&network.text(&result), seed)
}

/// ResNet-18 (He and others 2016, table 1) on images of 224 by 224, without batch normalization.
pub fn resnet18(seed: u64) -> Ir {
    let mut network = Network::default();
    let mut x = network.resnet_stem();
    for (row, channels) in [64, 128, 256, 512].into_iter().enumerate() {
        for block in 0..2 {
            let stride = if row > 0 && block == 0 { 2 } else { 1 };
            let made = network.conv_relu(&x, Conv::of(channels, 3).stride(stride));
            let made = network.conv(&made, Conv::of(channels, 3));
            if stride > 1 {
                x = network.conv(&x, Conv::of(channels, 1).stride(stride));
            }
            let sum = network.add(&made, &x);
            x = network.relu(&sum);
        }
    }
    let features = network.average(&x);
    let result = network.classes(&features, 1000);
    seeded(&network.text(&result), seed)
}

/// Four rows of so many bottlenecks behind one another (He and others 2016, table 1), as in ResNet-50 and
/// ResNet-101, without the classifier, as text; weights are arguments.
pub fn bottlenecks(blocks: [usize; 4]) -> String {
    let mut network = Network {
        open: true,
        ..Network::default()
    };
    let x = network.rows(blocks);
    network.text(&x.value())
}

/// So many layers of a product, a bias and a rectifier behind one another, of 64 rows and 256 columns, as text; weights are
/// arguments.
pub fn dense(layers: usize) -> String {
    let mut network = Network {
        open: true,
        ..Network::default()
    };
    let ty = tensor(&[64, 256]);
    let mut x = Tensor {
        name: network.argument(&ty),
        ty,
    };
    for _ in 0..layers {
        let made = network.linear(&x, &[64, 256], 256);
        let name = network.op(&format!("relu {} : {}", made.name, made.ty));
        x = Tensor { name, ..made };
    }
    network.text(&x)
}

/// So many encoder layers of a transformer (Vaswani and others 2017, section 3.1; gelu for the rectifier as in BERT), of 128
/// positions, 256 columns, 4 heads and 1024 columns inside, as text; weights are arguments.
pub fn encoder(layers: usize) -> String {
    const ROWS: usize = 128;
    const COLUMNS: usize = 256;
    const HEADS: usize = 4;
    const SCALE: &str = "constant dense<8.0> : tensor<f32>";
    let mut network = Network {
        open: true,
        ..Network::default()
    };
    let part = COLUMNS / HEADS;
    let (shape, split) = ([1, ROWS, COLUMNS], tensor(&[1, ROWS, HEADS, part]));
    let ty = tensor(&shape);
    let root = network.op(SCALE);
    let mut x = Tensor {
        name: network.argument(&ty),
        ty: ty.clone(),
    };
    for _ in 0..layers {
        let mut heads = |order: [usize; 4]| {
            let made = network.linear(&x, &shape, COLUMNS);
            let name = network.op(&format!("reshape {} : {ty} to {split}", made.name));
            let sizes = [1, ROWS, HEADS, part];
            let ty = tensor(&order.map(|dim| sizes[dim]));
            let text = format!("transpose {name} {order:?} : ({split}) -> {ty}");
            let name = network.op(&text);
            Tensor { name, ty }
        };
        let (query, key) = (heads([0, 2, 1, 3]), heads([0, 2, 3, 1]));
        let value = heads([0, 2, 1, 3]);
        let square = tensor(&[1, HEADS, ROWS, ROWS]);
        let scores = network.two("matmul", &query, &key, &square);
        let by = Tensor {
            name: root.clone(),
            ty: "tensor<f32>".to_string(),
        };
        let scaled = network.two("div", &scores, &by, &square);
        let softmax = format!("softmax {} {{axis = 3 : i64}}", scaled.name);
        let name = network.op(&format!("{softmax} : ({square}) -> {square}"));
        let weighed = Tensor {
            name,
            ty: square.clone(),
        };
        let mixed = network.two("matmul", &weighed, &value, &value.ty);
        let text = format!(
            "transpose {} [0, 2, 1, 3] : ({}) -> {split}",
            mixed.name, mixed.ty
        );
        let name = network.op(&text);
        let name = network.op(&format!("reshape {name} : {split} to {ty}"));
        let mixed = Tensor {
            name,
            ty: ty.clone(),
        };
        let made = network.linear(&mixed, &shape, COLUMNS);
        let sum = network.two("add", &made, &x, &ty);
        let inner = network.norm(&sum, COLUMNS);
        let wide = network.linear(&inner, &shape, 4 * COLUMNS);
        let name = network.op(&format!("gelu {} : {}", wide.name, wide.ty));
        let wide = Tensor { name, ..wide };
        let made = network.linear(&wide, &[1, ROWS, 4 * COLUMNS], COLUMNS);
        let sum = network.two("add", &made, &inner, &ty);
        x = network.norm(&sum, COLUMNS);
    }
    network.text(&x)
}

/// ResNet-50 (He and others 2016, table 1) on images of 224 by 224, without batch normalization, but with a rectifier behind
/// what changes the channels of a row: 25.6 million weights.
pub fn resnet50(seed: u64) -> Ir {
    let mut network = Network::default();
    let x = network.rows([3, 4, 6, 3]);
    let features = network.average(&x);
    let result = network.classes(&features, 1000);
    seeded(&network.text(&result), seed)
}

/// A module with seeded random numbers in its constants.
fn seeded(text: &str, seed: u64) -> Ir {
    let mut module = crate::read(text);
    for (_, func) in module.children_mut() {
        for (op, seed) in func.walk_ids().into_iter().zip(seed..) {
            if func.has(op, Traits::ConstantLike) {
                let ty = func.ty(func.result(op, 0));
                let data = Data::random(ty, seed).unwrap();
                func.set_attr(op, "value", to_attr(&data, ty).unwrap());
            }
        }
    }
    crate::check(&module);
    module
}

/// A function in the making.
#[derive(Default)]
struct Network {
    arguments: Vec<String>,
    body: String,
    values: usize,
    /// Whether weights are arguments; else they are constants, to be `seeded`.
    open: bool,
}

/// A tensor: its name and type.
#[derive(Clone)]
struct Tensor {
    name: String,
    ty: String,
}

/// An image: its name, channels, rows and columns.
#[derive(Clone)]
struct Image {
    name: String,
    channels: usize,
    side: usize,
}

/// A convolution with square windows.
#[derive(Clone, Copy)]
struct Conv {
    channels: usize,
    kernel: usize,
    stride: usize,
    pad: usize,
    groups: usize,
}

impl Conv {
    /// Of stride 1, padded so that the image keeps its size.
    fn of(channels: usize, kernel: usize) -> Self {
        Self {
            channels,
            kernel,
            stride: 1,
            pad: kernel / 2,
            groups: 1,
        }
    }
    fn stride(self, stride: usize) -> Self {
        Self { stride, ..self }
    }
    fn pad(self, pad: usize) -> Self {
        Self { pad, ..self }
    }
    fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }
}

impl Image {
    fn ty(&self) -> String {
        tensor(&[1, self.channels, self.side, self.side])
    }
    fn value(&self) -> Tensor {
        let name = self.name.clone();
        let ty = self.ty();
        Tensor { name, ty }
    }
}

/// The type of a tensor of floats.
fn tensor(shape: &[usize]) -> String {
    let shape: String = shape.iter().map(|size| format!("{size}x")).collect();
    format!("tensor<{shape}f32>")
}

/// How many places a window has.
fn places(side: usize, kernel: usize, stride: usize, pad: usize) -> usize {
    (side + 2 * pad - kernel) / stride + 1
}

impl Network {
    fn argument(&mut self, ty: &str) -> String {
        let name = format!("%a{}", self.arguments.len());
        self.arguments.push(format!("{name}: {ty}"));
        name
    }

    fn weights(&mut self, ty: &str) -> String {
        match self.open {
            true => self.argument(ty),
            false => self.op(&format!("constant dense<0.0> : {ty}")),
        }
    }

    fn image(&mut self, channels: usize, side: usize) -> Image {
        let mut image = Image {
            name: String::new(),
            channels,
            side,
        };
        image.name = self.argument(&image.ty());
        image
    }

    /// An op with one result; gives its name.
    fn op(&mut self, text: &str) -> String {
        let name = format!("%v{}", self.values);
        self.values += 1;
        let _ = writeln!(self.body, "  {name} = graph.{text}");
        name
    }

    /// An op of one image that changes no size.
    fn same(&mut self, x: &Image, op: &str) -> Image {
        let name = self.op(&format!("{op} : {}", x.ty()));
        Image { name, ..x.clone() }
    }

    fn relu(&mut self, x: &Image) -> Image {
        self.same(x, &format!("relu {}", x.name))
    }

    fn clip(&mut self, x: &Image) -> Image {
        let op = format!("clip {} {{max = 6.0 : f64, min = 0.0 : f64}}", x.name);
        self.same(x, &op)
    }

    fn add(&mut self, x: &Image, y: &Image) -> Image {
        let ty = x.ty();
        let name = self.op(&format!(
            "add {}, {} : ({ty}, {ty}) -> {ty}",
            x.name, y.name
        ));
        Image { name, ..x.clone() }
    }

    /// A convolution with bias.
    fn conv(&mut self, x: &Image, conv: Conv) -> Image {
        let Conv {
            channels,
            kernel,
            stride,
            pad,
            groups,
        } = conv;
        let weights = tensor(&[channels, x.channels / groups, kernel, kernel]);
        let bias = tensor(&[channels]);
        let (w, b) = (self.weights(&weights), self.weights(&bias));
        let mut result = Image {
            name: String::new(),
            channels,
            side: places(x.side, kernel, stride, pad),
        };
        let text = format!(
            "conv2d {}, {w}, {b} {{groups = {groups} : i64, strides = array<i64: {stride}, {stride}>, \
             pads = array<i64: {pad}, {pad}, {pad}, {pad}>}} : ({}, {weights}, {bias}) -> {}",
            x.name,
            x.ty(),
            result.ty()
        );
        result.name = self.op(&text);
        result
    }

    fn conv_relu(&mut self, x: &Image, conv: Conv) -> Image {
        let made = self.conv(x, conv);
        self.relu(&made)
    }

    fn max_pool(&mut self, x: &Image, kernel: usize, stride: usize, pad: usize) -> Image {
        let mut result = Image {
            side: places(x.side, kernel, stride, pad),
            ..x.clone()
        };
        let text = format!(
            "max_pool {} {{kernel = array<i64: {kernel}, {kernel}>, strides = array<i64: {stride}, {stride}>, \
             pads = array<i64: {pad}, {pad}, {pad}, {pad}>}} : ({}) -> {}",
            x.name,
            x.ty(),
            result.ty()
        );
        result.name = self.op(&text);
        result
    }

    /// What ResNets begin with.
    fn resnet_stem(&mut self) -> Image {
        let x = self.image(3, 224);
        let x = self.conv_relu(&x, Conv::of(64, 7).stride(2));
        self.max_pool(&x, 3, 2, 1)
    }

    /// The stem of a ResNet, and four rows of so many bottlenecks.
    fn rows(&mut self, blocks: [usize; 4]) -> Image {
        let mut x = self.resnet_stem();
        for (row, (count, inner)) in blocks.into_iter().zip([64, 128, 256, 512]).enumerate() {
            for block in 0..count {
                let stride = if row > 0 && block == 0 { 2 } else { 1 };
                let narrow = self.conv_relu(&x, Conv::of(inner, 1));
                let narrow = self.conv_relu(&narrow, Conv::of(inner, 3).stride(stride));
                if block == 0 {
                    x = self.conv_relu(&x, Conv::of(4 * inner, 1).stride(stride));
                }
                let made = self.conv(&narrow, Conv::of(4 * inner, 1));
                let sum = self.add(&made, &x);
                x = self.relu(&sum);
            }
        }
        x
    }

    /// The channels of two images of a size.
    fn concat(&mut self, [x, y]: &[Image; 2]) -> Image {
        let mut result = Image {
            channels: x.channels + y.channels,
            ..x.clone()
        };
        let text = format!(
            "concat {}, {} {{axis = 1 : i64}} : ({}, {}) -> {}",
            x.name,
            y.name,
            x.ty(),
            y.ty(),
            result.ty()
        );
        result.name = self.op(&text);
        result
    }

    /// The mean of each channel, as a row.
    fn average(&mut self, x: &Image) -> Tensor {
        let mean = tensor(&[1, x.channels, 1, 1]);
        let name = self.op(&format!(
            "global_avg_pool {} : ({}) -> {mean}",
            x.name,
            x.ty()
        ));
        let ty = tensor(&[1, x.channels]);
        let name = self.op(&format!("reshape {name} : {mean} to {ty}"));
        Tensor { name, ty }
    }

    /// A row times a matrix of so many rows, and a bias.
    fn classes(&mut self, x: &Tensor, classes: usize) -> Tensor {
        let inner = x.ty.trim_start_matches("tensor<1x");
        let weights = format!("tensor<{classes}x{inner}");
        let (bias, ty) = (tensor(&[classes]), tensor(&[1, classes]));
        let (w, b) = (self.weights(&weights), self.weights(&bias));
        let name = self.op(&format!(
            "gemm {}, {w}, {b} {{trans_b = true}} : ({}, {weights}, {bias}) -> {ty}",
            x.name, x.ty
        ));
        Tensor { name, ty }
    }

    /// An op of two operands.
    fn two(&mut self, op: &str, x: &Tensor, y: &Tensor, ty: &str) -> Tensor {
        let text = format!("{op} {}, {} : ({}, {}) -> {ty}", x.name, y.name, x.ty, y.ty);
        let (name, ty) = (self.op(&text), ty.to_string());
        Tensor { name, ty }
    }

    /// What has such a shape times a matrix of so many columns, and a bias.
    fn linear(&mut self, x: &Tensor, shape: &[usize], columns: usize) -> Tensor {
        let (rows, inner) = (&shape[..shape.len() - 1], shape[shape.len() - 1]);
        let ty = tensor(&[rows, &[columns]].concat());
        let weights = |network: &mut Self, shape: &[usize]| {
            let ty = tensor(shape);
            let name = network.weights(&ty);
            Tensor { name, ty }
        };
        let (w, b) = (weights(self, &[inner, columns]), weights(self, &[columns]));
        let made = self.two("matmul", x, &w, &ty);
        self.two("add", &made, &b, &ty)
    }

    /// Each row of so many columns with mean 0 and variance 1, scaled and shifted.
    fn norm(&mut self, x: &Tensor, columns: usize) -> Tensor {
        let of = tensor(&[columns]);
        let (scale, shift) = (self.weights(&of), self.weights(&of));
        let (name, ty) = (&x.name, &x.ty);
        let name = self.op(&format!(
            "layer_norm {name}, {scale}, {shift} {{axis = 2 : i64, epsilon = 1.0e-05 : f64}} : ({ty}, {of}, {of}) -> {ty}"
        ));
        Tensor {
            name,
            ty: x.ty.clone(),
        }
    }

    fn text(&self, result: &Tensor) -> String {
        let Tensor { name, ty } = result;
        let (arguments, body) = (self.arguments.join(", "), &self.body);
        format!("func.func @main({arguments}) -> {ty} {{\n{body}  return {name} : {ty}\n}}\n")
    }
}
