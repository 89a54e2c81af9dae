//! Winograd's transforms.

use std::borrow::Cow;
use std::marker::PhantomData;

use tir::{Data, Evaluate, Failure, OpRef};

use super::real::{Compute, Real, buffer, compute, product, size};
use crate::shape::ranked;
use crate::winograd::{Arithmetic, Doubles, KERNEL, LANES, Winograd, transform};
use crate::{WinogradFilter, WinogradInput, WinogradOutput};

/// Floats of a type, many at once.
struct Floats<T>(PhantomData<T>);
impl<T: Real> Arithmetic for Floats<T> {
    type Number = [T; LANES];
    fn add(&mut self, a: [T; LANES], b: [T; LANES]) -> [T; LANES] {
        std::array::from_fn(|i| a[i] + b[i])
    }
    fn sub(&mut self, a: [T; LANES], b: [T; LANES]) -> [T; LANES] {
        std::array::from_fn(|i| a[i] - b[i])
    }
    fn scale(&mut self, a: [T; LANES], by: f64) -> [T; LANES] {
        let by = T::of(by);
        a.map(|a| a * by)
    }
}

struct Filter {
    form: Winograd,
    filters: usize,
    channels: usize,
}
impl Evaluate for WinogradFilter {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let ([filters, channels, ..], _) = ranked::<4>(op, self.w, "w")?;
        let what = Filter {
            form: Winograd::new(self.tile)?,
            filters: size(filters)?,
            channels: size(channels)?,
        };
        compute(op, inputs, &what)
    }
}
impl Compute for Filter {
    fn run<T: Real>(&self, inputs: &[Cow<'_, [T]>]) -> Result<Vec<T>, Failure> {
        let w = inputs.first().ok_or("expects weights")?;
        let matrix = product(&[self.filters, self.channels])?;
        let mut u = buffer(product(&[matrix, self.form.points()])?, T::ZERO)?;
        let kernel = KERNEL * KERNEL;
        for c in 0..self.channels {
            for first in (0..self.filters).step_by(LANES) {
                let count = LANES.min(self.filters - first);
                let at = |i: usize| ((first + i.min(count - 1)) * self.channels + c) * kernel;
                let weights: Vec<_> = (0..kernel)
                    .map(|k| Some(std::array::from_fn(|i| w[at(i) + k].wide())))
                    .collect();
                let points = transform(self.form.filter, &weights, &mut Doubles);
                for (p, values) in points.into_iter().enumerate() {
                    let row = &mut u[p * matrix + c * self.filters + first..][..count];
                    for (u, value) in row.iter_mut().zip(values.unwrap_or([0.0; LANES])) {
                        *u = T::of(value);
                    }
                }
            }
        }
        Ok(u)
    }
}

/// Channels of a tile.
struct Channels {
    /// The place of the first one among those of a point.
    at: usize,
    /// The first one.
    channel: usize,
    count: usize,
    /// Where the plane of the first one begins.
    plane: usize,
    /// The first row and column of the tile, with padding.
    pixel: [usize; 2],
}

/// Where tiles are.
struct Tiles {
    form: Winograd,
    images: usize,
    /// Channels or filters.
    channels: usize,
    /// Of an image: rows and columns of tiles.
    tiles: [usize; 2],
    /// Rows and columns of the tensor that is not in tiles.
    pixels: [usize; 2],
    /// What is above and left of the first row and column.
    low: [usize; 2],
}
impl Tiles {
    /// The number of tiles, and of channels in all of them.
    fn sizes(&self) -> Result<[usize; 2], Failure> {
        let tiles = product(&[self.images, self.tiles[0], self.tiles[1]])?;
        Ok([tiles, product(&[tiles, self.channels])?])
    }

    /// Calls `each` for channels of every tile, as many as are transformed at once.
    fn each(&self, mut each: impl FnMut(Channels)) {
        let plane = self.pixels[0] * self.pixels[1];
        let mut tile = 0;
        for n in 0..self.images {
            for r in 0..self.tiles[0] {
                for s in 0..self.tiles[1] {
                    for first in (0..self.channels).step_by(LANES) {
                        each(Channels {
                            at: tile * self.channels + first,
                            channel: first,
                            count: LANES.min(self.channels - first),
                            plane: (n * self.channels + first) * plane,
                            pixel: [r * self.form.tile, s * self.form.tile],
                        });
                    }
                    tile += 1;
                }
            }
        }
    }

    /// The place in a plane of a row and column with padding; none if it is outside.
    fn inside(&self, [row, column]: [usize; 2]) -> Option<usize> {
        let row = row.checked_sub(self.low[0])?;
        let column = column.checked_sub(self.low[1])?;
        let inside = row < self.pixels[0] && column < self.pixels[1];
        inside.then(|| row * self.pixels[1] + column)
    }
}

struct Input(Tiles);
impl Evaluate for WinogradInput {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let form = Winograd::new(self.tile)?;
        let ([n, c, h, w], _) = ranked(op, self.x, "x")?;
        let windows = self.windows(op)?;
        let tiles = Tiles {
            form,
            images: size(n)?,
            channels: size(c)?,
            tiles: [
                size(form.tiles(windows[0].output()?))?,
                size(form.tiles(windows[1].output()?))?,
            ],
            pixels: [size(h)?, size(w)?],
            low: [size(windows[0].low)?, size(windows[1].low)?],
        };
        compute(op, inputs, &Input(tiles))
    }
}
impl Compute for Input {
    fn run<T: Real>(&self, inputs: &[Cow<'_, [T]>]) -> Result<Vec<T>, Failure> {
        let x = inputs.first().ok_or("expects an input")?;
        let (tiles, form) = (&self.0, &self.0.form);
        let (side, [_, all]) = (form.side(), tiles.sizes()?);
        let mut v = buffer(product(&[all, form.points()])?, T::ZERO)?;
        let plane = tiles.pixels[0] * tiles.pixels[1];
        tiles.each(|some| {
            let [row, column] = some.pixel;
            let place = |p: usize| tiles.inside([row + p / side, column + p % side]);
            let lanes = |i: usize| -> [T; LANES] {
                std::array::from_fn(|c| x[some.plane + c.min(some.count - 1) * plane + i])
            };
            let tile: Vec<_> = (0..form.points()).map(|p| place(p).map(lanes)).collect();
            let points = transform(form.input, &tile, &mut Floats(PhantomData));
            for (p, values) in points.into_iter().enumerate() {
                let values = values.unwrap_or([T::ZERO; LANES]);
                v[p * all + some.at..][..some.count].copy_from_slice(&values[..some.count]);
            }
        });
        Ok(v)
    }
}

struct Output(Tiles);
impl Evaluate for WinogradOutput {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let form = Winograd::new(self.tile)?;
        let &[n, o, h, w] = self.y.0.shape().unwrap_or(&[]) else {
            return Err("makes no tensor of rank 4".into());
        };
        let tiles = Tiles {
            form,
            images: size(n)?,
            channels: size(o)?,
            tiles: [size(form.tiles(h))?, size(form.tiles(w))?],
            pixels: [size(h)?, size(w)?],
            low: [0, 0],
        };
        compute(op, inputs, &Output(tiles))
    }
}
impl Compute for Output {
    fn run<T: Real>(&self, inputs: &[Cow<'_, [T]>]) -> Result<Vec<T>, Failure> {
        let m = inputs.first().ok_or("expects products")?;
        let (tiles, form) = (&self.0, &self.0.form);
        let [_, all] = tiles.sizes()?;
        let pixels = product(&tiles.pixels)?;
        let mut y = buffer(product(&[tiles.images, tiles.channels, pixels])?, T::ZERO)?;
        tiles.each(|some| {
            let row = |p: usize| &m[p * all + some.at..][..some.count];
            let lanes = |row: &[T]| std::array::from_fn(|c| row[c.min(some.count - 1)]);
            let points: Vec<_> = (0..form.points()).map(|p| Some(lanes(row(p)))).collect();
            let tile = transform(form.output, &points, &mut Floats(PhantomData));
            let [row, column] = some.pixel;
            for (p, values) in tile.into_iter().enumerate() {
                let place = [row + p / form.tile, column + p % form.tile];
                let (Some(i), values) = (tiles.inside(place), values.unwrap_or([T::ZERO; LANES]))
                else {
                    continue;
                };
                for (c, value) in values[..some.count].iter().enumerate() {
                    let bias = inputs.get(1).map(|bias| bias[some.channel + c]);
                    let y = &mut y[some.plane + c * pixels + i];
                    *y = bias.map_or(*value, |bias| *value + bias);
                }
            }
        });
        Ok(y)
    }
}
