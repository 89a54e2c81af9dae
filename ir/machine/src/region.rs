//! The state of the bytes at a range of addresses.
//!
//! State is kept for cells of equal size, as large as every access so far allows: a region starts
//! as one cell, and an access whose places and lengths the cell does not divide splits all cells
//! down to the greatest common divisor. So tiles cost a few cells each, and the answer is exact
//! to the byte.

use crate::work::{WRITER_THREAD, Works};
use tir_data::{Footprint, gcd};

/// What is known of the bytes of a region.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region {
    /// Bytes of a cell; divides the length of the region.
    granule: u64,
    /// Last writer of each cell: 0 for none, a work id, or [`WRITER_THREAD`] and a site.
    writer: Vec<u32>,
    /// The buffer each cell was last written through; empty while the region has one buffer.
    owner: Vec<u32>,
    /// For every actor that has read: the number of its last read of each cell.
    readers: Vec<(usize, Vec<u32>)>,
}

/// Who accesses, and what is complete before that.
pub(crate) struct View<'a> {
    pub works: &'a Works,
    /// Complete before the access.
    pub clock: &'a [u32],
    /// The code that is written as last writer.
    pub code: u32,
    /// The buffer accessed.
    pub buffer: u32,
    /// Whether data written through another buffer is this buffer's data too.
    pub related: &'a dyn Fn(u32) -> bool,
}

/// An access that is not allowed: bytes `start..end` of the region, and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub start: u64,
    pub end: u64,
    pub why: Why,
}

/// Why an access is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Never written.
    Unwritten,
    /// Last written through another buffer, by this writer code.
    Foreign { owner: u32, code: u32 },
    /// Written by work that is not complete before.
    Writer(u32),
    /// Read by work that is not complete before.
    Reader(u32),
}

impl Region {
    pub(crate) fn new(bytes: u64) -> Region {
        let cells = usize::from(bytes > 0);
        Region {
            granule: bytes.max(1),
            writer: vec![0; cells],
            ..Region::default()
        }
    }

    /// Bytes of a cell.
    pub(crate) fn granule(&self) -> u64 {
        self.granule
    }
    /// Last writer of each cell.
    pub(crate) fn writers(&self) -> &[u32] {
        &self.writer
    }
    /// The buffer each cell was last written through; empty while there is one buffer.
    pub(crate) fn owners(&self) -> &[u32] {
        &self.owner
    }
    /// For every actor that has read: the number of its last read of each cell.
    pub(crate) fn readers(&self) -> &[(usize, Vec<u32>)] {
        &self.readers
    }

    /// The cells that hold a range of bytes.
    fn range(&self, low: u64, high: u64) -> std::ops::Range<usize> {
        (low / self.granule) as usize..high.div_ceil(self.granule) as usize
    }

    /// Whether all bytes of a range may be read, or written.
    pub(crate) fn check_range(&mut self, low: u64, high: u64, write: bool, v: &View) -> bool {
        let cells = self.range(low, high);
        let f = Footprint {
            start: cells.start as u64,
            run: cells.len() as u64,
            outer: Vec::new(),
        };
        match write {
            true => self.check_write(&f, v).is_ok(),
            false => self.check_read(&f, v).is_ok(),
        }
    }

    /// Whether cells begin and end where a range does.
    pub(crate) fn divides(&self, low: u64, high: u64) -> bool {
        low.is_multiple_of(self.granule) && high.is_multiple_of(self.granule)
    }

    /// Whether this holds of the last writers of all bytes of a range.
    pub(crate) fn written_by(&self, low: u64, high: u64, by: impl Fn(u32) -> bool) -> bool {
        let mut known = None;
        self.writer[self.range(low, high)].iter().all(|code| {
            let fine = known == Some(*code) || by(*code);
            known = Some(*code);
            fine
        })
    }

    /// Records a write of a range.
    pub(crate) fn write_range(&mut self, low: u64, high: u64, code: u32, buffer: u32) {
        let cells = self.range(low, high);
        self.writer[cells.clone()].fill(code);
        if !self.owner.is_empty() {
            self.owner[cells].fill(buffer);
        }
    }

    /// Records the `index`-th work of `actor` as a reader of a range.
    pub(crate) fn read_range(&mut self, low: u64, high: u64, actor: usize, index: u32) {
        let cells = self.range(low, high);
        self.reader(actor)[cells].fill(index);
    }

    /// Its length.
    pub(crate) fn bytes(&self) -> u64 {
        self.writer.len() as u64 * self.granule
    }

    /// Starts to keep, for every cell, the buffer it was written through.
    pub(crate) fn share(&mut self, buffer: u32) {
        if self.owner.is_empty() {
            self.owner = vec![buffer; self.writer.len()];
        }
    }

    /// Makes one region of `bytes` bytes of several, each with its offset and first buffer.
    pub(crate) fn merge(bytes: u64, parts: Vec<(u64, u32, Region)>) -> Region {
        let granule = parts
            .iter()
            .fold(bytes, |g, p| gcd(gcd(g, p.0), p.2.granule))
            .max(1);
        let cells = (bytes / granule) as usize;
        let mut out = Region {
            granule,
            writer: vec![0; cells],
            owner: vec![0; cells],
            ..Region::default()
        };
        for (offset, buffer, mut part) in parts {
            part.share(buffer);
            part.refine(granule);
            let at = (offset / granule) as usize;
            let range = at..at + part.writer.len();
            out.writer[range.clone()].copy_from_slice(&part.writer);
            out.owner[range.clone()].copy_from_slice(&part.owner);
            for (actor, cells) in part.readers {
                out.reader(actor)[range.clone()].copy_from_slice(&cells);
            }
        }
        out
    }

    /// Forgets what was written through a buffer in `start..start + bytes`.
    pub(crate) fn forget(&mut self, start: u64, bytes: u64, buffer: u32) {
        let f = self.cells(Footprint {
            start,
            run: bytes,
            outer: Vec::new(),
        });
        let range = f.start as usize..(f.start + f.run) as usize;
        for i in range {
            if self.owner.get(i).is_none_or(|&o| o == buffer) {
                self.writer[i] = 0;
            }
        }
    }

    /// Brings an access to cells, splitting them if need be.
    pub(crate) fn cells(&mut self, mut f: Footprint) -> Footprint {
        let g = f.granule(self.granule);
        self.refine(g);
        f.scale(g);
        f
    }

    fn refine(&mut self, granule: u64) {
        if granule == self.granule || granule == 0 {
            return;
        }
        let ratio = (self.granule / granule) as usize;
        self.granule = granule;
        let split = |cells: &mut Vec<u32>| {
            if cells.iter().all(|c| *c == 0) {
                // Memory that nobody has looked at takes no place.
                *cells = vec![0; cells.len() * ratio];
                return;
            }
            *cells = cells
                .iter()
                .flat_map(|&c| std::iter::repeat_n(c, ratio))
                .collect();
        };
        split(&mut self.writer);
        split(&mut self.owner);
        self.readers.iter_mut().for_each(|r| split(&mut r.1));
    }

    fn reader(&mut self, actor: usize) -> &mut Vec<u32> {
        let at = self
            .readers
            .iter()
            .position(|r| r.0 == actor)
            .unwrap_or_else(|| {
                self.readers.push((actor, vec![0; self.writer.len()]));
                self.readers.len() - 1
            });
        &mut self.readers[at].1
    }

    fn hit(&self, cell: usize, same: impl Fn(usize) -> bool, limit: usize, why: Why) -> Hit {
        let mut end = cell + 1;
        while end < limit && same(end) {
            end += 1;
        }
        Hit {
            start: cell as u64 * self.granule,
            end: end as u64 * self.granule,
            why,
        }
    }

    /// Whether cells may be read: written, through this buffer, by work complete before.
    pub(crate) fn check_read(&self, f: &Footprint, v: &View) -> Result<(), Hit> {
        let mut known = 0;
        let mut mine = v.buffer;
        f.each(|start, len| {
            for i in start..start + len {
                let code = self.writer[i];
                if code != known {
                    self.check_writer(i, start + len, v)?;
                    known = code;
                } else if code == 0 {
                    let why = Why::Unwritten;
                    return Err(self.hit(i, |j| self.writer[j] == 0, start + len, why));
                }
                if let Some(&owner) = self.owner.get(i)
                    && owner != mine
                {
                    if !(v.related)(owner) {
                        let same = |j: usize| self.owner[j] == owner && self.writer[j] == code;
                        let why = Why::Foreign { owner, code };
                        return Err(self.hit(i, same, start + len, why));
                    }
                    mine = owner;
                }
            }
            Ok(())
        })
    }

    /// Whether cells may be written: all earlier uses are complete before.
    pub(crate) fn check_write(&self, f: &Footprint, v: &View) -> Result<(), Hit> {
        f.each(|start, len| {
            let mut known = 0;
            for (i, &code) in self.writer[start..start + len].iter().enumerate() {
                if code != known && code != 0 {
                    self.check_writer(start + i, start + len, v)?;
                    known = code;
                }
            }
            for (actor, cells) in &self.readers {
                let limit = v.clock[*actor];
                if cells[start..start + len].iter().fold(0, |m, &r| m.max(r)) > limit {
                    let late = |i: usize| cells[i] > limit;
                    let first = (start..start + len).find(|&i| late(i)).unwrap_or(start);
                    let why = Why::Reader(v.works.nth(*actor, cells[first]));
                    return Err(self.hit(first, late, start + len, why));
                }
            }
            Ok(())
        })
    }

    fn check_writer(&self, cell: usize, limit: usize, v: &View) -> Result<(), Hit> {
        let code = self.writer[cell];
        if code == 0 {
            return Err(self.hit(cell, |j| self.writer[j] == 0, limit, Why::Unwritten));
        }
        if code & WRITER_THREAD != 0 || code == v.code || v.works.ordered(code, v.clock) {
            return Ok(());
        }
        Err(self.hit(cell, |j| self.writer[j] == code, limit, Why::Writer(code)))
    }

    /// Records a write.
    pub(crate) fn write(&mut self, f: &Footprint, code: u32, buffer: u32) {
        let _ = f.each(|start, len| {
            self.writer[start..start + len].fill(code);
            if !self.owner.is_empty() {
                self.owner[start..start + len].fill(buffer);
            }
            Ok::<_, ()>(())
        });
    }

    /// Records the `index`-th work of `actor` as a reader.
    pub(crate) fn read(&mut self, f: &Footprint, actor: usize, index: u32) {
        let cells = self.reader(actor);
        let _ = f.each(|start, len| {
            cells[start..start + len].fill(index);
            Ok::<_, ()>(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: u64, run: u64) -> Footprint {
        Footprint {
            start,
            run,
            outer: Vec::new(),
        }
    }

    #[test]
    fn cells_are_as_large_as_the_accesses_allow() {
        let mut r = Region::new(1 << 20);
        let whole = r.cells(run(0, 1 << 20));
        r.write(&whole, 7, 0);
        assert_eq!(r.writer, [7]);
        let tile = r.cells(Footprint {
            start: 4096,
            run: 64,
            outer: vec![(16, 256)],
        });
        assert_eq!(
            (r.granule, r.writer.len(), tile.start, tile.run),
            (64, 1 << 14, 64, 1)
        );
        r.write(&tile, 8, 0);
        let odd = r.cells(run(4100, 2));
        r.write(&odd, 9, 0);
        assert_eq!(r.writer[2048..2054], [8, 8, 9, 8, 8, 8]);
        assert_eq!(r.writer.iter().filter(|&&w| w == 8).count(), 16 * 32 - 1);
    }

    #[test]
    fn merging_keeps_writers_owners_and_readers() {
        let mut a = Region::new(96);
        let f = a.cells(run(0, 32));
        a.write(&f, 3, 0);
        a.read(&f, 2, 5);
        let mut b = Region::new(64);
        let f = b.cells(run(0, 64));
        b.write(&f, 4, 1);
        let m = Region::merge(192, vec![(0, 0, a), (128, 1, b)]);
        assert_eq!(
            (m.granule, m.writer, m.owner),
            (32, vec![3, 0, 0, 0, 4, 4], vec![0, 0, 0, 0, 1, 1])
        );
        assert_eq!(m.readers, [(2, vec![5, 0, 0, 0, 0, 0])]);
    }
}
