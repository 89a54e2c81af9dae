//! The bytes of the machine's memory.

use tir_data::BufferId;
use tir_data::{Rows, StridedBox};

/// What an operation does to memory; its error becomes a fault that names the operation.
pub type Effect<'p> = Box<dyn FnOnce(&mut Memory) -> Result<(), String> + 'p>;

/// The bytes of all buffers. Buffers at common addresses share their bytes.
///
/// This is data only: who may touch what, and when, is checked by the machine before an effect
/// runs. Elements are little-endian, in the logical order of an access.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub(crate) regions: Vec<Vec<u8>>,
    pub(crate) places: Vec<BufferPlace>,
}

/// Where the bytes of a buffer are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferPlace {
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

    /// The elements of an access as dense row-major bytes.
    pub fn load(&self, access: &StridedBox) -> Result<Vec<u8>, String> {
        access.gather(self.bytes(access.buffer)?)
    }

    /// Replaces the elements of an access by dense row-major bytes.
    pub fn store(&mut self, access: &StridedBox, data: &[u8]) -> Result<(), String> {
        access.scatter(self.bytes_mut(access.buffer)?, data)
    }

    /// Fills an access with copies of one element.
    pub fn fill(&mut self, access: &StridedBox, element: &[u8]) -> Result<(), String> {
        access.fill(self.bytes_mut(access.buffer)?, element)
    }

    /// Copies the elements of one access to those of another of equal counts and element size.
    /// Between overlapping accesses, rows are copied in logical order.
    pub fn copy(&mut self, from: &StridedBox, to: &StridedBox) -> Result<(), String> {
        let rows = Rows::new(from, to)?;
        let (s, d) = (
            self.places[from.buffer.0 as usize],
            self.places[to.buffer.0 as usize],
        );
        from.check(self.bytes(from.buffer)?.len())?;
        to.check(self.bytes(to.buffer)?.len())?;
        if from.is_empty() {
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

fn walk(dims: &[(u64, i64, i64)], src: i64, dst: i64, f: &mut impl FnMut(usize, usize)) {
    match dims {
        [] => f(src as usize, dst as usize),
        [(count, s, d), rest @ ..] => {
            (0..*count as i64).for_each(|i| walk(rest, src + i * s, dst + i * d, f));
        }
    }
}
