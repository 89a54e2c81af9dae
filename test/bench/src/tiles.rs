//! Convolutions alone, beside the best of all divisions into tiles.
//!
//! The enumeration knows nothing of the compiler. A convolution has four loops around its tiles: output
//! channels, input channels (both in blocks of 16), rows and columns. It goes through all sizes of tiles, all
//! orders of the loops, and for each operand all loops that its tile may be loaded in. What is loaded again has
//! two slots of near memory, so that loads run ahead, or one; sums that leave before they are complete are
//! stored and loaded again; rows and columns that neighbouring tiles share are loaded by both. Blocks of pixels
//! are not looked at: a unit that takes 16 of a row of 14 computes two for nothing.
//!
//! The compiler may do better than this best: it keeps rows that tiles share, divides output channels twice, and
//! gives one slot where two are not needed.

use tir::Name;
use tir::text::{ParseOptions, parse};
use tir_data::{Array, DType};

use crate::networks::{bytes as bytes_moved, lower, said};

/// Bytes of near memory of `npu.tir`.
const NEAR: i64 = 262_144;
/// Channels of a block.
const BLOCK: i64 = 16;
/// Bytes of an element.
const ELEM: i64 = 4;

/// A convolution of a square image with as many zeros around as half of its kernel.
struct Layer {
    name: &'static str,
    inputs: i64,
    outputs: i64,
    kernel: i64,
    stride: i64,
    /// Rows and columns of the image.
    side: i64,
}

/// C2 to C12: the convolutions of ResNet-18 but the first one (He and others 2016, table 1).
const LAYERS: [Layer; 11] = [
    layer("C2", [64, 64, 3, 1, 56]),
    layer("C3", [64, 64, 1, 1, 56]),
    layer("C4", [64, 128, 3, 2, 56]),
    layer("C5", [64, 128, 1, 2, 56]),
    layer("C6", [128, 128, 3, 1, 28]),
    layer("C7", [128, 256, 3, 2, 28]),
    layer("C8", [128, 256, 1, 2, 28]),
    layer("C9", [256, 256, 3, 1, 14]),
    layer("C10", [256, 512, 3, 2, 14]),
    layer("C11", [256, 512, 1, 2, 14]),
    layer("C12", [512, 512, 3, 1, 7]),
];

const fn layer(name: &'static str, [inputs, outputs, kernel, stride, side]: [i64; 5]) -> Layer {
    Layer {
        name,
        inputs,
        outputs,
        kernel,
        stride,
        side,
    }
}

/// Loops, by number.
const OUT: usize = 0;
const IN: usize = 1;
const ROW: usize = 2;
const COLUMN: usize = 3;

/// The tiles of a loop.
#[derive(Clone, Copy)]
struct Axis {
    trips: i64,
    /// Points of a tile.
    tile: i64,
    /// Points of the image that a tile reads at most, and all tiles together.
    read: i64,
    read_all: i64,
}

impl Layer {
    fn out_side(&self) -> i64 {
        (self.side + self.kernel / 2 * 2 - self.kernel) / self.stride + 1
    }

    /// Rows of the image that the results from one row to before another read.
    fn rows(&self, from: i64, to: i64) -> i64 {
        let pad = self.kernel / 2;
        let mut seen = vec![false; usize::try_from(self.side).unwrap_or(0)];
        for at in (from..to).flat_map(|o| (0..self.kernel).map(move |k| o * self.stride + k - pad))
        {
            if let Some(row) = usize::try_from(at).ok().and_then(|at| seen.get_mut(at)) {
                *row = true;
            }
        }
        seen.into_iter().filter(|row| *row).count() as i64
    }

    /// All tiles of a loop: the smallest for each number of trips.
    fn axes(&self, number: usize) -> Vec<Axis> {
        let (range, block) = match number {
            OUT => (self.outputs, BLOCK),
            IN => (self.inputs, BLOCK),
            _ => (self.out_side(), 1),
        };
        let mut all: Vec<Axis> = Vec::new();
        for tile in (block..=range).step_by(block as usize) {
            let trips = (range + tile - 1) / tile;
            if all.last().is_some_and(|last| last.trips == trips) {
                continue;
            }
            let tiles = (0..trips).map(|i| (i * tile, range.min((i + 1) * tile)));
            let read = tiles.map(|(from, to)| self.rows(from, to));
            let (read, read_all) = match number {
                OUT | IN => (tile, range),
                _ => read.fold((0, 0), |(most, all), n| (most.max(n), all + n)),
            };
            all.push(Axis {
                trips,
                tile,
                read,
                read_all,
            });
        }
        all
    }

    /// The fewest bytes that tiles of a convolution with bias move, with so many slots for what is loaded again.
    fn best(&self, slots: i64) -> i64 {
        let axes = [OUT, IN, ROW, COLUMN].map(|number| self.axes(number));
        let whole = |number: usize| axes[number].iter().copied().find(|axis| axis.trips == 1);
        let [Some(o), Some(i), Some(h), Some(w)] = [OUT, IN, ROW, COLUMN].map(whole) else {
            return 0;
        };
        let (whole, orders) = ([o, i, h, w], orders());
        let mut best = i64::MAX;
        for o in &axes[OUT] {
            for i in &axes[IN] {
                for h in &axes[ROW] {
                    for w in &axes[COLUMN] {
                        let tiles = [*o, *i, *h, *w];
                        for order in &orders {
                            best = best.min(self.fewest(&tiles, &whole, order, slots));
                        }
                    }
                }
            }
        }
        best + self.outputs * ELEM
    }

    /// The same for tiles and an order of their loops.
    fn fewest(&self, tiles: &[Axis; 4], whole: &[Axis; 4], order: &[usize; 4], slots: i64) -> i64 {
        let order = order.iter().copied().filter(|d| tiles[*d].trips > 1);
        let order: Vec<usize> = order.collect();
        let options = [Operand::Image, Operand::Weights, Operand::Result]
            .map(|operand| self.places(operand, tiles, whole, &order, slots));
        let mut best = i64::MAX;
        for (x, x_bytes) in &options[0] {
            for (w, w_bytes) in options[1].iter().filter(|(w, _)| x + w <= NEAR) {
                let fits = options[2].iter().filter(|(y, _)| x + w + y <= NEAR);
                let least = fits.map(|(_, bytes)| x_bytes + w_bytes + bytes).min();
                best = best.min(least.unwrap_or(i64::MAX));
            }
        }
        best
    }

    /// Bytes of near memory and bytes moved, for each number of loops that an operand may be loaded in.
    fn places(
        &self,
        operand: Operand,
        tiles: &[Axis; 4],
        whole: &[Axis; 4],
        order: &[usize],
        slots: i64,
    ) -> Vec<(i64, i64)> {
        let loops: &[usize] = match operand {
            Operand::Image => &[IN, ROW, COLUMN],
            Operand::Weights => &[OUT, IN],
            Operand::Result => &[OUT, ROW, COLUMN],
        };
        let place = |level: usize| {
            let outer = &order[..level];
            // The part of a loop's range that lies near, and of it what all its tiles move.
            let part = |d: usize| {
                let whole = whole[d];
                let axis = if outer.contains(&d) { tiles[d] } else { whole };
                match operand {
                    Operand::Image => (axis.read, axis.read_all),
                    _ => (axis.tile.min(whole.tile), whole.tile),
                }
            };
            let parts = loops.iter().map(|d| part(*d));
            let (near, all) = parts.fold((ELEM, ELEM), |(near, all), (a, b)| (near * a, all * b));
            let kernel = match operand {
                Operand::Weights => self.kernel * self.kernel,
                _ => 1,
            };
            let (near, all) = (near * kernel, all * kernel);
            let last = outer.iter().rposition(|d| loops.contains(d));
            let around = &outer[..last.map_or(0, |last| last + 1)];
            let again = around.iter().filter(|d| !loops.contains(d));
            let times: i64 = again.map(|d| tiles[*d].trips).product();
            // Sums that are not complete are stored and loaded again.
            let times = match operand {
                Operand::Result => 2 * times - 1,
                _ => times,
            };
            let near = if last.is_some() { near * slots } else { near };
            (near, all * times)
        };
        (0..=order.len()).map(place).collect()
    }

    /// The layer with bias and relu.
    fn text(&self) -> String {
        let (side, pad, stride) = (self.out_side(), self.kernel / 2, self.stride);
        let (i, o, k, n) = (self.inputs, self.outputs, self.kernel, self.side);
        let x = format!("tensor<1x{i}x{n}x{n}xf32>");
        let w = format!("tensor<{o}x{i}x{k}x{k}xf32>");
        let b = format!("tensor<{o}xf32>");
        let y = format!("tensor<1x{o}x{side}x{side}xf32>");
        format!(
            "func.func @main(%x: {x}, %w: {w}, %b: {b}) -> {y} {{\n  %c = graph.conv2d %x, %w, %b {{strides = \
             array<i64: {stride}, {stride}>, pads = array<i64: {pad}, {pad}, {pad}, {pad}>}} : ({x}, {w}, {b}) -> \
             {y}\n  %y = graph.relu %c : {y}\n  func.return %y : {y}\n}}\n"
        )
    }

    fn inputs(&self) -> Result<Vec<Array>, String> {
        let (i, o, k, n) = (self.inputs, self.outputs, self.kernel, self.side);
        let shapes = [vec![1, i, n, n], vec![o, i, k, k], vec![o]];
        let random = |(seed, shape): (usize, &Vec<i64>)| {
            let shape: Vec<usize> = shape.iter().map(|n| *n as usize).collect();
            Array::random(DType::F32, &shape, seed as u64).map_err(|e| e.to_string())
        };
        shapes.iter().enumerate().map(random).collect()
    }
}

#[derive(Clone, Copy)]
enum Operand {
    Image,
    Weights,
    Result,
}

/// All orders of the four loops.
fn orders() -> Vec<[usize; 4]> {
    let all = (0..256usize).map(|n| [n / 64, n / 16 % 4, n / 4 % 4, n % 4]);
    all.filter(|order| (0..4).all(|d| order.contains(&d)))
        .collect()
}

/// Prints for each layer bytes and cycles on `npu.tir`, beside the best bytes and the bound.
pub(crate) fn tiles() -> Result<(), String> {
    let tool = tir_opt::stock();
    tool.load();
    println!(
        "       bytes moved   best, two slots   best, one slot        cycles   by the bound   busiest queue"
    );
    for layer in &LAYERS {
        let parsed = parse(
            &layer.text(),
            Name::new(layer.name),
            &ParseOptions::default(),
        );
        let mut module = parsed.map_err(|e| said(&e))?;
        lower(&tool, &mut module, "accel", true)?;
        let run = tir_run::execute(&module, &layer.inputs()?);
        let run = run.map_err(|e| said(&e))?;
        let machine = run.machine.ok_or("runs on no machine")?;
        let bytes = bytes_moved(&machine);
        let bound = machine.bounds.as_ref().map_or(0, |bounds| bounds.cycles);
        let busiest = machine.queues.iter().max_by_key(|queue| queue.busy);
        let busiest = busiest.map_or(String::new(), |queue| {
            format!("{} {:.1} %", queue.name, queue.busy_share * 100.0)
        });
        let ratio = |best: i64| bytes as f64 / best.max(1) as f64;
        let [two, one] = [2, 1].map(|slots| layer.best(slots));
        println!(
            "{:<4}{bytes:>14}{two:>13} {:.2}{one:>12} {:.2}{:>14}{:>15.2}   {busiest:>13}",
            layer.name,
            ratio(two),
            ratio(one),
            machine.cycles,
            machine.cycles as f64 / bound.max(1) as f64,
        );
    }
    Ok(())
}
