//! Time of lowering: networks of bottlenecks, as deep as ResNet-50 and ResNet-101, which have the same distinct
//! layers.

use std::fmt::Write;
use std::path::Path;

use crate::{line, median, run, tool};

/// Seconds of CPU that 53 convolutions may take.
const BOUND: f64 = 5.0;

/// A network as text.
#[derive(Default)]
struct Network {
    arguments: Vec<String>,
    body: String,
}

/// A value: its name, channels, rows and columns.
#[derive(Clone)]
struct Image {
    name: String,
    channels: i64,
    side: i64,
}

impl Image {
    fn ty(&self) -> String {
        format!("tensor<1x{}x{1}x{1}xf32>", self.channels, self.side)
    }
}

impl Network {
    /// Four rows of so many bottlenecks (He and others 2016, table 1), without the classifier.
    fn bottlenecks(blocks: [i64; 4]) -> Self {
        let mut network = Self::default();
        let mut image = Image {
            name: network.argument("tensor<1x3x224x224xf32>".to_string()),
            channels: 3,
            side: 224,
        };
        image = network.convolution(&image, 64, 7, 2, None);
        let pooled = Image {
            name: "%pooled".to_string(),
            side: 56,
            ..image.clone()
        };
        let _ = writeln!(
            network.body,
            "  %pooled = graph.max_pool {} {{kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, \
             pads = array<i64: 1, 1, 1, 1>}} : ({}) -> {}",
            image.name,
            image.ty(),
            pooled.ty()
        );
        image = pooled;
        for (row, (count, inner)) in blocks.into_iter().zip([64, 128, 256, 512]).enumerate() {
            for block in 0..count {
                let stride = if row > 0 && block == 0 { 2 } else { 1 };
                let narrow = network.convolution(&image, inner, 1, 1, None);
                let narrow = network.convolution(&narrow, inner, 3, stride, None);
                if block == 0 {
                    image = network.convolution(&image, 4 * inner, 1, stride, None);
                }
                image = network.convolution(&narrow, 4 * inner, 1, 1, Some(&image));
            }
        }
        let _ = write!(
            network.body,
            "  return {} : {}\n}}\n",
            image.name,
            image.ty()
        );
        network
    }

    fn argument(&mut self, ty: String) -> String {
        let name = format!("%a{}", self.arguments.len());
        self.arguments.push(format!("{name}: {ty}"));
        name
    }

    /// A convolution with bias, perhaps a sum, and relu.
    fn convolution(
        &mut self,
        image: &Image,
        channels: i64,
        kernel: i64,
        stride: i64,
        other: Option<&Image>,
    ) -> Image {
        let number = self.arguments.len();
        let weights = format!(
            "tensor<{channels}x{}x{kernel}x{kernel}xf32>",
            image.channels
        );
        let bias = format!("tensor<{channels}xf32>");
        let (w, b) = (self.argument(weights.clone()), self.argument(bias.clone()));
        let pad = kernel / 2;
        let mut result = Image {
            name: format!("%c{number}"),
            channels,
            side: (image.side + 2 * pad - kernel) / stride + 1,
        };
        let ty = result.ty();
        let _ = writeln!(
            self.body,
            "  {} = graph.conv2d {}, {w}, {b} {{strides = array<i64: {stride}, {stride}>, \
             pads = array<i64: {pad}, {pad}, {pad}, {pad}>}} : ({}, {weights}, {bias}) -> {ty}",
            result.name,
            image.name,
            image.ty()
        );
        if let Some(other) = other {
            let sum = format!("%s{number}");
            let (a, b) = (&result.name, &other.name);
            let _ = writeln!(
                self.body,
                "  {sum} = graph.add {a}, {b} : ({ty}, {ty}) -> {ty}"
            );
            result.name = sum;
        }
        let relu = format!("%r{number}");
        let _ = writeln!(self.body, "  {relu} = graph.relu {} : {ty}", result.name);
        Image {
            name: relu,
            ..result
        }
    }

    fn text(&self) -> String {
        let result = self.body.rsplit(" : ").next().unwrap_or_default();
        let result = result.trim_end_matches("\n}\n");
        let arguments = self.arguments.join(", ");
        format!("func.func @main({arguments}) -> {result} {{\n{}", self.body)
    }
}

/// Lowers both networks to accel level.
pub(crate) fn lower(rounds: usize) -> Result<(), String> {
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../e2e/machines/npu.tir");
    let pipeline = format!("--to-accel=machine={}", machine.display());
    let file = std::env::temp_dir().join(format!("tir-bench-{}.tir", std::process::id()));
    let path = file.to_string_lossy().to_string();
    let mut seconds = Vec::new();
    for (name, blocks) in [
        ("53 convolutions", [3, 4, 6, 3]),
        ("104 convolutions", [3, 4, 23, 3]),
    ] {
        let text = Network::bottlenecks(blocks).text();
        std::fs::write(&file, text).map_err(|e| e.to_string())?;
        let args = [path.as_str(), pipeline.as_str(), "-o", "/dev/null"];
        let runs = (0..rounds.max(1)).map(|_| run(&tool("tir-opt"), &args));
        let runs: Result<Vec<_>, String> = runs.collect();
        let used = median(&runs?);
        line(name, used);
        seconds.push(used.cpu.as_secs_f64());
    }
    let _ = std::fs::remove_file(&file);
    println!(
        "ratio to the bound of {BOUND} s of CPU: {:.2}; 1.96 times the layers, as many distinct ones, take {:.2} times \
         as long",
        seconds[0] / BOUND,
        seconds[1] / seconds[0]
    );
    Ok(())
}
