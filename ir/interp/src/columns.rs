//! Columns: registers of up to [`LANES`] values.

use crate::scalar::{Class, Kind};

/// Values in a column.
pub(crate) const LANES: usize = 64;

/// A column register: its class says in which of the three tables it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Column {
    pub kind: Kind,
    pub at: usize,
}

/// All columns, by class.
#[derive(Default)]
pub(crate) struct Columns {
    pub ints: Vec<[i64; LANES]>,
    pub singles: Vec<[f32; LANES]>,
    pub doubles: Vec<[f64; LANES]>,
}

impl Columns {
    pub(crate) fn new(counts: [usize; 3]) -> Self {
        Self {
            ints: vec![[0; LANES]; counts[0]],
            singles: vec![[0.0; LANES]; counts[1]],
            doubles: vec![[0.0; LANES]; counts[2]],
        }
    }
    pub(crate) fn bits(&self, column: Column, lane: usize) -> u64 {
        match column.kind.class() {
            Class::Int => self.ints[column.at][lane] as u64,
            Class::Single => self.singles[column.at][lane].to_bits().into(),
            Class::Double => self.doubles[column.at][lane].to_bits(),
        }
    }
    pub(crate) fn set(&mut self, column: Column, lane: usize, bits: u64) {
        match column.kind.class() {
            Class::Int => self.ints[column.at][lane] = bits as i64,
            Class::Single => self.singles[column.at][lane] = f32::from_bits(bits as u32),
            Class::Double => self.doubles[column.at][lane] = f64::from_bits(bits),
        }
    }
    pub(crate) fn splat(&mut self, column: Column, n: usize, bits: u64) {
        match column.kind.class() {
            Class::Int => self.ints[column.at][..n].fill(bits as i64),
            Class::Single => self.singles[column.at][..n].fill(f32::from_bits(bits as u32)),
            Class::Double => self.doubles[column.at][..n].fill(f64::from_bits(bits)),
        }
    }
    pub(crate) fn copy(&mut self, from: Column, to: Column, n: usize) {
        match to.kind.class() {
            Class::Int => self.ints[to.at] = self.ints[from.at],
            Class::Single if n == LANES => self.singles[to.at] = self.singles[from.at],
            Class::Single => {
                let source = self.singles[from.at];
                self.singles[to.at][..n].copy_from_slice(&source[..n]);
            }
            Class::Double => self.doubles[to.at] = self.doubles[from.at],
        }
    }
    /// Fills a column from memory; `None` past its end.
    pub(crate) fn load(
        &mut self,
        column: Column,
        bytes: &[u8],
        at: i64,
        step: i64,
        n: usize,
    ) -> Option<()> {
        let size = column.kind.bytes();
        if step == 0 {
            let bits = column.kind.read(bytes.get(at as usize..)?)?;
            self.splat(column, n, bits);
            return Some(());
        }
        if step == size as i64 {
            let run = bytes.get(at as usize..)?.get(..n * size)?;
            if column.kind == Kind::F32 {
                let out = self.singles[column.at][..n].iter_mut();
                for (x, chunk) in out.zip(run.as_chunks::<4>().0) {
                    *x = f32::from_le_bytes(*chunk);
                }
            } else {
                for (lane, chunk) in run.chunks_exact(size).enumerate() {
                    let bits = column.kind.read(chunk)?;
                    self.set(column, lane, bits);
                }
            }
            return Some(());
        }
        let mut at = at;
        if column.kind == Kind::F32 {
            for x in &mut self.singles[column.at][..n] {
                *x = f32::from_le_bytes(*bytes.get(at as usize..)?.first_chunk()?);
                at += step;
            }
            return Some(());
        }
        for lane in 0..n {
            let bits = column.kind.read(bytes.get(at as usize..)?)?;
            self.set(column, lane, bits);
            at += step;
        }
        Some(())
    }
    /// Writes a column to memory; `None` past its end.
    pub(crate) fn store(
        &self,
        column: Column,
        bytes: &mut [u8],
        at: i64,
        step: i64,
        n: usize,
    ) -> Option<()> {
        if column.kind == Kind::F32 && step == 4 {
            let run = bytes.get_mut(at as usize..)?.get_mut(..n * 4)?;
            for (x, chunk) in self.singles[column.at][..n]
                .iter()
                .zip(run.as_chunks_mut::<4>().0)
            {
                *chunk = x.to_le_bytes();
            }
            return Some(());
        }
        for lane in 0..n {
            let at = at + step * lane as i64;
            column
                .kind
                .write(self.bits(column, lane), bytes.get_mut(at as usize..)?)?;
        }
        Some(())
    }
}
