//! The loop nest around a kernel's region.
//!
//! Iterators run in their order, outermost first, as far as a result can tell: iterators that
//! name a place of every output run outside the others, and one of them (or, if there is none,
//! the innermost) is run by columns of lanes. So for each element of an output the values come
//! in iterator order.

use tir_core::Failure;

use crate::columns::{Columns, LANES};
use crate::kernel::{Input, Kernel, Output};
use crate::lanes::{fold_lanes, join_lanes};
use crate::operand::Operand;
use crate::ops::{FloatOp, ScalarOp};
use crate::scalar::{Kind, Scalar};

/// How the innermost part runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Lanes are different elements of every output.
    Parallel,
    /// Lanes are values for one element of every output.
    Reduce,
    /// A point at a time, outputs in memory.
    Single,
}

pub(crate) struct Nest<'k> {
    kernel: &'k Kernel,
    sizes: &'k [i64],
    operands: Vec<Operand>,
    point: Vec<i64>,
    columns: Columns,
    /// The iterator that is run by lanes.
    lane: Option<usize>,
    mode: Mode,
    outer: Vec<usize>,
    inner: Vec<usize>,
}

const BEYOND: &str = "an access is beyond its buffer";

impl<'k> Nest<'k> {
    pub(crate) fn run(
        kernel: &'k Kernel,
        sizes: &'k [i64],
        inputs: &[Input<'_>],
        outputs: &mut [Output<'_>],
        captures: &[Scalar],
    ) -> Result<(), Failure> {
        let expected = (
            kernel.inputs.len(),
            kernel.yields.len(),
            kernel.captures.len(),
        );
        if expected != (inputs.len(), outputs.len(), captures.len()) {
            return Err(format!(
                "a kernel of {expected:?} inputs, outputs, captures run on others"
            )
            .into());
        }
        if kernel
            .maps
            .iter()
            .any(|m| m.dims != sizes.len() || m.syms > 0)
        {
            return Err(format!("{} ranges for maps of other dimensions", sizes.len()).into());
        }
        if sizes.iter().any(|n| *n <= 0) {
            return Ok(());
        }
        let kinds = kernel.inputs.iter().chain(&kernel.yields);
        let views = inputs
            .iter()
            .map(|i| &i.view)
            .chain(outputs.iter().map(|o| &o.view));
        if let Some((column, view)) = kinds.zip(views).find(|(c, v)| !c.kind.is_stored_as(v.kind)) {
            return Err(
                format!("an operand of {:?}, expected {:?}", view.kind, column.kind).into(),
            );
        }
        let mut operands = Vec::with_capacity(kernel.maps.len());
        for (map, input) in kernel.maps.iter().zip(inputs) {
            operands.push(Operand::new(map, &input.view, sizes, input.bytes.len())?);
        }
        for (map, output) in kernel.maps.iter().skip(inputs.len()).zip(&*outputs) {
            operands.push(Operand::new(map, &output.view, sizes, output.bytes.len())?);
        }
        let mut columns = Columns::new(kernel.counts);
        for (column, bits) in &kernel.numbers {
            columns.splat(*column, LANES, *bits);
        }
        for (column, scalar) in kernel.captures.iter().zip(captures) {
            columns.splat(*column, LANES, scalar.bits);
        }
        let mut nest = Nest {
            kernel,
            sizes,
            operands,
            point: vec![0; sizes.len()],
            columns,
            lane: None,
            mode: Mode::Single,
            outer: Vec::new(),
            inner: Vec::new(),
        };
        nest.plan();
        nest.drive(inputs, outputs)
    }

    /// Decides which iterators run where.
    fn plan(&mut self) {
        let rank = self.sizes.len();
        let maps = &self.kernel.maps[self.kernel.inputs.len()..];
        let mut places: Option<Vec<usize>> = None;
        let mut regular = true;
        for map in maps {
            let mut dims = map.as_projection().unwrap_or_default();
            regular &= dims.len() == map.exprs.len();
            dims.sort_unstable();
            regular &= places.as_ref().is_none_or(|p| *p == dims);
            places = Some(dims);
        }
        if !regular {
            self.inner = (0..rank).collect();
            return;
        }
        let places = places.unwrap_or_default();
        let score = |d: usize| {
            let good = |o: &&Operand| {
                o.odd.is_none() && (o.steps[d] == 0 || o.steps[d] == o.kind.bytes() as i64)
            };
            let good = self.operands.iter().filter(good).count() as i64;
            // Long columns first, then neighbours in memory.
            (self.sizes[d].min(16), good, d as i64)
        };
        let best = places.iter().copied().max_by_key(|d| score(*d));
        let last = (0..rank).rev().find(|d| !places.contains(d));
        let (lane, mode) = match (best, last) {
            (Some(d), None) => (Some(d), Mode::Parallel),
            (Some(d), Some(r)) if self.sizes[d] >= 8.min(self.sizes[r]) => {
                (Some(d), Mode::Parallel)
            }
            (_, Some(r)) => (Some(r), Mode::Reduce),
            (None, None) => (None, Mode::Parallel),
        };
        self.lane = lane;
        self.mode = mode;
        self.outer = places
            .iter()
            .copied()
            .filter(|d| Some(*d) != lane)
            .collect();
        self.inner = (0..rank)
            .filter(|d| !places.contains(d) && Some(*d) != lane)
            .collect();
    }

    /// Moves on to the next point of these iterators; false at the end, back at the start.
    fn advance(&mut self, outer: bool) -> bool {
        let list = if outer { &self.outer } else { &self.inner };
        for &d in list.iter().rev() {
            self.point[d] += 1;
            for o in &mut self.operands {
                o.at += o.steps[d];
            }
            if self.point[d] < self.sizes[d] {
                return true;
            }
            self.point[d] = 0;
            for o in &mut self.operands {
                o.at -= o.steps[d] * self.sizes[d];
            }
        }
        false
    }

    fn shift(&mut self, d: usize, by: i64) {
        self.point[d] += by;
        for o in &mut self.operands {
            o.at += o.steps[d] * by;
        }
    }

    fn drive(&mut self, inputs: &[Input<'_>], outputs: &mut [Output<'_>]) -> Result<(), Failure> {
        let length = self.lane.map_or(1, |d| self.sizes[d]);
        match self.mode {
            Mode::Parallel => loop {
                let mut done = 0;
                while done < length {
                    let n = (length - done).min(LANES as i64);
                    self.tile(inputs, outputs, n as usize)?;
                    if let Some(d) = self.lane {
                        self.shift(d, n);
                    }
                    done += n;
                }
                if let Some(d) = self.lane {
                    self.shift(d, -length);
                }
                if !self.advance(true) {
                    return Ok(());
                }
            },
            Mode::Reduce => loop {
                self.load_sums(outputs, 1)?;
                loop {
                    let mut done = 0;
                    while done < length {
                        let n = (length - done).min(LANES as i64);
                        self.body(inputs, n as usize)?;
                        self.fold(n as usize)?;
                        if let Some(d) = self.lane {
                            self.shift(d, n);
                        }
                        done += n;
                    }
                    if let Some(d) = self.lane {
                        self.shift(d, -length);
                    }
                    if !self.advance(false) {
                        break;
                    }
                }
                self.store_sums(outputs, 1)?;
                if !self.advance(true) {
                    return Ok(());
                }
            },
            Mode::Single => loop {
                self.load_sums(outputs, 1)?;
                self.body(inputs, 1)?;
                self.fold(1)?;
                self.store_sums(outputs, 1)?;
                if !self.advance(false) {
                    return Ok(());
                }
            },
        }
    }

    /// All values for `n` neighbouring elements of the outputs.
    fn tile(
        &mut self,
        inputs: &[Input<'_>],
        outputs: &mut [Output<'_>],
        n: usize,
    ) -> Result<(), Failure> {
        let kernel = self.kernel;
        self.load_sums(outputs, n)?;
        if let Some(fast) = self.sum_of_products() {
            self.products(inputs, n, fast)?;
        } else {
            loop {
                self.body(inputs, n)?;
                for ((sum, value), op) in
                    kernel.sums.iter().zip(&kernel.yields).zip(&kernel.combine)
                {
                    join_lanes(*op, &mut self.columns, *sum, *value, n)?;
                }
                if !self.advance(false) {
                    break;
                }
            }
        }
        self.store_sums(outputs, n)
    }

    /// The two inputs whose product is summed up in `f32`, if that is what the kernel does.
    fn sum_of_products(&self) -> Option<(usize, usize)> {
        let k = self.kernel;
        let ([op], [value], [sum]) = (&k.ops[..], &k.yields[..], &k.combine[..]) else {
            return None;
        };
        let product = op.op == ScalarOp::Float(FloatOp::Mul, Kind::F32) && op.dst == *value;
        let plain = product && k.combines && *sum == ScalarOp::Float(FloatOp::Add, Kind::F32);
        let find = |c| k.inputs.iter().position(|i| *i == c);
        let pair = (find(op.args[0])?, find(op.args[1])?);
        let linear = |i: usize| self.operands[i].odd.is_none();
        (plain && linear(pair.0) && linear(pair.1)).then_some(pair)
    }

    /// Sums up products over the inner iterators.
    fn products(
        &mut self,
        inputs: &[Input<'_>],
        n: usize,
        (a, b): (usize, usize),
    ) -> Result<(), Failure> {
        let column = self.kernel.sums[0].at;
        let mut sums = self.columns.singles[column];
        let step = |i: usize| self.lane.map_or(0, |d| self.operands[i].steps[d]);
        // The operand that stays the same along the lanes comes first.
        let (a, b) = if step(b) == 0 && step(a) != 0 {
            (b, a)
        } else {
            (a, b)
        };
        let (step_a, step_b) = (step(a), step(b));
        let (x, y) = (inputs[a].bytes, inputs[b].bytes);
        // The innermost of the inner iterators is a loop of its own.
        let last = self.inner.pop();
        let count = last.map_or(1, |d| self.sizes[d]);
        let along = |i: usize| last.map_or(0, |d| self.operands[i].steps[d]);
        let (along_a, along_b) = (along(a), along(b));
        let mut inside = true;
        'all: loop {
            let (mut i, mut j) = (self.operands[a].at, self.operands[b].at);
            for _ in 0..count {
                if add_products(&mut sums[..n], x, i, step_a, y, j, step_b).is_none() {
                    inside = false;
                    break 'all;
                }
                i += along_a;
                j += along_b;
            }
            if !self.advance(false) {
                break;
            }
        }
        self.inner.extend(last);
        self.columns.singles[column] = sums;
        if inside { Ok(()) } else { Err(BEYOND.into()) }
    }

    /// Where an output is at the current point, and how it goes on from lane to lane.
    fn output_place(&self, output: usize) -> (i64, i64) {
        let o = &self.operands[self.kernel.inputs.len() + output];
        let lane = self.lane.filter(|_| self.mode == Mode::Parallel);
        (o.place(&self.point), lane.map_or(0, |d| o.steps[d]))
    }
    fn load_sums(&mut self, outputs: &[Output<'_>], n: usize) -> Result<(), Failure> {
        if !self.kernel.combines {
            return Ok(());
        }
        for (i, (sum, output)) in self.kernel.sums.iter().zip(outputs).enumerate() {
            let (at, step) = self.output_place(i);
            self.columns
                .load(*sum, output.bytes, at, step, n)
                .ok_or(BEYOND)?;
        }
        Ok(())
    }
    fn store_sums(&mut self, outputs: &mut [Output<'_>], n: usize) -> Result<(), Failure> {
        for (i, (sum, output)) in self.kernel.sums.iter().zip(outputs).enumerate() {
            let (at, step) = self.output_place(i);
            self.columns
                .store(*sum, output.bytes, at, step, n)
                .ok_or(BEYOND)?;
        }
        Ok(())
    }

    /// Loads the inputs of `n` points and computes the region.
    fn body(&mut self, inputs: &[Input<'_>], n: usize) -> Result<(), Failure> {
        let kernel = self.kernel;
        for (i, (column, input)) in kernel.inputs.iter().zip(inputs).enumerate() {
            if !kernel.used[i] {
                continue;
            }
            let o = &self.operands[i];
            if o.odd.is_none() {
                let step = self.lane.map_or(0, |d| o.steps[d]);
                self.columns
                    .load(*column, input.bytes, o.at, step, n)
                    .ok_or(BEYOND)?;
                continue;
            }
            let mut point = self.point.clone();
            for lane in 0..n {
                let at = self.operands[i].place(&point);
                let bytes = input.bytes.get(at as usize..).ok_or(BEYOND)?;
                let bits = column.kind.read(bytes).ok_or(BEYOND)?;
                self.columns.set(*column, lane, bits);
                if let Some(d) = self.lane {
                    point[d] += 1;
                }
            }
        }
        for (d, column) in &kernel.iterators {
            if self.lane == Some(*d) {
                for lane in 0..n {
                    self.columns
                        .set(*column, lane, (self.point[*d] + lane as i64) as u64);
                }
            } else {
                self.columns.splat(*column, n, self.point[*d] as u64);
            }
        }
        for op in &kernel.ops {
            op.run(&mut self.columns, n)?;
        }
        Ok(())
    }

    /// Joins `n` values for one element to it, in order.
    fn fold(&mut self, n: usize) -> Result<(), Failure> {
        let kernel = self.kernel;
        for ((sum, value), op) in kernel.sums.iter().zip(&kernel.yields).zip(&kernel.combine) {
            let start = self.columns.bits(*sum, 0);
            let bits = fold_lanes(*op, &self.columns, *value, n, start)?;
            self.columns.set(*sum, 0, bits);
        }
        Ok(())
    }
}

/// `sums[l] += x[l] * y[l]` for bytes at strided places; `None` past an end.
#[inline(always)]
fn add_products(
    sums: &mut [f32],
    x: &[u8],
    i: i64,
    step_x: i64,
    y: &[u8],
    j: i64,
    step_y: i64,
) -> Option<()> {
    let n = sums.len();
    let one = |bytes: &[u8], at: i64| {
        Some(f32::from_le_bytes(
            *bytes.get(at as usize..)?.first_chunk()?,
        ))
    };
    if step_x == 0 && step_y == 4 {
        let a = one(x, i)?;
        let run = y.get(j as usize..)?.get(..n * 4)?;
        for (s, b) in sums.iter_mut().zip(run.as_chunks::<4>().0) {
            *s += a * f32::from_le_bytes(*b);
        }
    } else if step_x == 4 && step_y == 4 {
        let (p, q) = (
            x.get(i as usize..)?.get(..n * 4)?,
            y.get(j as usize..)?.get(..n * 4)?,
        );
        for ((s, a), b) in sums
            .iter_mut()
            .zip(p.as_chunks::<4>().0)
            .zip(q.as_chunks::<4>().0)
        {
            *s += f32::from_le_bytes(*a) * f32::from_le_bytes(*b);
        }
    } else {
        let (mut i, mut j) = (i, j);
        for s in sums {
            *s += one(x, i)? * one(y, j)?;
            i += step_x;
            j += step_y;
        }
    }
    Some(())
}
