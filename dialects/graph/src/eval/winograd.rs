//! Winograd's transforms.

use std::borrow::Cow;
use std::marker::PhantomData;

use tir::{Data, Evaluate, Failure, OpRef};

use super::real::{Compute, Real, buffer, compute, product, size};
use crate::shape::ranked;
use crate::winograd::{Arithmetic, Doubles, Winograd, transform};
use crate::{WinogradFilter, WinogradInput, WinogradOutput};

/// Floats of a type.
struct Floats<T>(PhantomData<T>);
impl<T: Real> Arithmetic for Floats<T> {
    type Number = T;
    fn add(&mut self, a: T, b: T) -> T {
        a + b
    }
    fn sub(&mut self, a: T, b: T) -> T {
        a - b
    }
    fn scale(&mut self, a: T, by: f64) -> T {
        a * T::of(by)
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
        for (at, kernel) in w.chunks_exact(9).enumerate() {
            let kernel: Vec<Option<f64>> = kernel.iter().map(|w| Some(w.wide())).collect();
            let (o, c) = (at / self.channels, at % self.channels);
            let points = transform(self.form.filter, &kernel, &mut Doubles);
            for (p, value) in points.into_iter().enumerate() {
                u[p * matrix + c * self.filters + o] = T::of(value.unwrap_or(0.0));
            }
        }
        Ok(u)
    }
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

    /// Calls `each` for every channel of every tile: its place among the points, the place of its plane, the first row
    /// and column with padding.
    fn each(&self, mut each: impl FnMut(usize, usize, [usize; 2])) {
        let plane = self.pixels[0] * self.pixels[1];
        let mut at = 0;
        for n in 0..self.images {
            for r in 0..self.tiles[0] {
                for s in 0..self.tiles[1] {
                    for c in 0..self.channels {
                        let first = [r * self.form.tile, s * self.form.tile];
                        each(at, (n * self.channels + c) * plane, first);
                        at += 1;
                    }
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
        tiles.each(|at, plane, [row, column]| {
            let place = |p: usize| tiles.inside([row + p / side, column + p % side]);
            let tile = (0..form.points()).map(|p| place(p).map(|i| x[plane + i]));
            let tile: Vec<Option<T>> = tile.collect();
            let points = transform(form.input, &tile, &mut Floats(PhantomData));
            for (p, value) in points.into_iter().enumerate() {
                v[p * all + at] = value.unwrap_or(T::ZERO);
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
        tiles.each(|at, plane, [row, column]| {
            let points: Vec<Option<T>> = (0..form.points()).map(|p| Some(m[p * all + at])).collect();
            let tile = transform(form.output, &points, &mut Floats(PhantomData));
            let bias = inputs.get(1).map(|bias| bias[at % tiles.channels]);
            for (p, value) in tile.into_iter().enumerate() {
                let place = [row + p / form.tile, column + p % form.tile];
                let value = value.unwrap_or(T::ZERO);
                if let Some(i) = tiles.inside(place) {
                    y[plane + i] = bias.map_or(value, |bias| value + bias);
                }
            }
        });
        Ok(y)
    }
}
