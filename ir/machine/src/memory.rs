//! The bytes of the machine's memory.

use crate::access::{Access, Rows};
use crate::alloc::BufferId;

/// What an operation does to memory; its error becomes a fault that names the operation.
pub type Effect<'p> = Box<dyn FnOnce(&mut Memory) -> Result<(), String> + 'p>;

/// The bytes of all buffers. Buffers at common addresses share their bytes.
///
/// This is data only: who may touch what, and when, is checked by the machine before an effect
/// runs. Elements are little-endian, in the logical order of an access.
#[derive(Debug, Default)]
pub struct Memory {
    pub(crate) regions: Vec<Vec<u8>>,
    pub(crate) places: Vec<Place>,
}

/// Where the bytes of a buffer are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub region: u32,
    pub offset: u64,
    pub bytes: u64,
}

impl Memory {
    /// The bytes of a buffer.
    pub fn bytes(&self, buffer: BufferId) -> Result<&[u8], String> {
        let p = self.places[buffer.0 as usize];
        let (from, to) = (p.offset as usize, (p.offset + p.bytes) as usize);
        self.regions
            .get(p.region as usize)
            .and_then(|r| r.get(from..to))
            .ok_or_else(released)
    }

    /// The bytes of a buffer, to change.
    pub fn bytes_mut(&mut self, buffer: BufferId) -> Result<&mut [u8], String> {
        let p = self.places[buffer.0 as usize];
        let (from, to) = (p.offset as usize, (p.offset + p.bytes) as usize);
        let region = self.regions.get_mut(p.region as usize);
        region
            .and_then(|r| r.get_mut(from..to))
            .ok_or_else(released)
    }

    /// Appends the bytes of an access.
    pub fn load(&self, access: &Access, out: &mut Vec<u8>) -> Result<(), String> {
        let bytes = self.bytes(access.buffer)?;
        each_row(access, bytes.len(), |at, run| {
            out.extend_from_slice(&bytes[at..at + run])
        })
    }

    /// Replaces the bytes of an access.
    pub fn store(&mut self, access: &Access, data: &[u8]) -> Result<(), String> {
        same_length(access.bytes(), data.len() as u64)?;
        let bytes = self.bytes_mut(access.buffer)?;
        let mut rest = data;
        each_row(access, bytes.len(), |at, run| {
            let (row, tail) = rest.split_at(run);
            bytes[at..at + run].copy_from_slice(row);
            rest = tail;
        })
    }

    /// Reads the `f32` elements of an access.
    pub fn load_f32(&self, access: &Access, out: &mut [f32]) -> Result<(), String> {
        same_length(access.bytes(), out.len() as u64 * 4)?;
        whole_words(access)?;
        let bytes = self.bytes(access.buffer)?;
        let mut rest = out;
        each_row(access, bytes.len(), |at, run| {
            let (row, tail) = std::mem::take(&mut rest).split_at_mut(run / 4);
            for (x, b) in row.iter_mut().zip(bytes[at..at + run].as_chunks::<4>().0) {
                *x = f32::from_le_bytes(*b);
            }
            rest = tail;
        })
    }

    /// Writes the `f32` elements of an access.
    pub fn store_f32(&mut self, access: &Access, data: &[f32]) -> Result<(), String> {
        same_length(access.bytes(), data.len() as u64 * 4)?;
        whole_words(access)?;
        let bytes = self.bytes_mut(access.buffer)?;
        let mut rest = data;
        each_row(access, bytes.len(), |at, run| {
            let (row, tail) = rest.split_at(run / 4);
            for (b, x) in bytes[at..at + run]
                .as_chunks_mut::<4>()
                .0
                .iter_mut()
                .zip(row)
            {
                *b = x.to_le_bytes();
            }
            rest = tail;
        })
    }

    /// Fills an access with copies of one element.
    pub fn fill(&mut self, access: &Access, element: &[u8]) -> Result<(), String> {
        if element.is_empty() || !access.elem.is_multiple_of(element.len() as u64) {
            return Err(format!(
                "{} bytes cannot fill elements of {}",
                element.len(),
                access.elem
            ));
        }
        let bytes = self.bytes_mut(access.buffer)?;
        each_row(access, bytes.len(), |at, run| {
            bytes[at..at + run]
                .chunks_mut(element.len())
                .for_each(|c| c.copy_from_slice(element));
        })
    }

    /// Copies the elements of one access to those of another of equal counts and element size.
    /// Between overlapping accesses, rows are copied in logical order.
    pub fn copy(&mut self, from: &Access, to: &Access) -> Result<(), String> {
        let rows = Rows::new(from, to)?;
        let (s, d) = (
            self.places[from.buffer.0 as usize],
            self.places[to.buffer.0 as usize],
        );
        in_bounds(from, self.bytes(from.buffer)?.len())?;
        in_bounds(to, self.bytes(to.buffer)?.len())?;
        if from.extent().is_none() {
            return Ok(());
        }
        let run = rows.run as usize;
        let (src, dst) = (s.offset as i64 + from.offset, d.offset as i64 + to.offset);
        if s.region == d.region {
            let bytes = &mut self.regions[s.region as usize];
            walk(&rows.dims, src, dst, &mut |i, j| {
                bytes.copy_within(i..i + run, j)
            });
        } else {
            let pair = [s.region as usize, d.region as usize];
            let Ok([a, b]) = self.regions.get_disjoint_mut(pair) else {
                return Err(released());
            };
            walk(&rows.dims, src, dst, &mut |i, j| {
                b[j..j + run].copy_from_slice(&a[i..i + run])
            });
        }
        Ok(())
    }
}

fn released() -> String {
    "the buffer has been released".to_string()
}

fn same_length(access: u64, data: u64) -> Result<(), String> {
    match access == data {
        true => Ok(()),
        false => Err(format!("the access has {access} bytes, the data {data}")),
    }
}

fn whole_words(access: &Access) -> Result<(), String> {
    match access.elem.is_multiple_of(4) {
        true => Ok(()),
        false => Err(format!("elements of {} bytes are no f32", access.elem)),
    }
}

fn in_bounds(access: &Access, bytes: usize) -> Result<(), String> {
    match access.extent() {
        Some((low, high)) if low < 0 || high > bytes as i128 => {
            Err(format!("bytes {low}..{high} of a buffer of {bytes}"))
        }
        _ => Ok(()),
    }
}

/// Calls `f(offset, length)` for each contiguous row in logical order, if all are inside.
fn each_row(access: &Access, bytes: usize, mut f: impl FnMut(usize, usize)) -> Result<(), String> {
    in_bounds(access, bytes)?;
    access.each_row(|at, run| f(at as usize, run as usize));
    Ok(())
}

fn walk(dims: &[(u64, i64, i64)], src: i64, dst: i64, f: &mut impl FnMut(usize, usize)) {
    match dims {
        [] => f(src as usize, dst as usize),
        [(count, s, d), rest @ ..] => {
            (0..*count as i64).for_each(|i| walk(rest, src + i * s, dst + i * d, f));
        }
    }
}
