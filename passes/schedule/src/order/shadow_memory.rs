//! Shadow memory: who used which bytes of a buffer last.
//!
//! *Terms.* A **grain** is a run of bytes that no access cuts; the size of all grains of a buffer
//! is the greatest common divisor of the places and lengths of its accesses. A **line** is 64
//! bytes of grains. A **user** is an instance of work, by its number plus one; 0 is nobody.
//!
//! *Invariants.* A line is uniform while all accesses took all of it: then its state is one entry
//! in `lines`, and what `grains` holds of it has no meaning. An access of a part spreads the entry
//! over the grains; a write of the whole line makes it uniform again. After a write nobody has
//! read the bytes. Whoever reads comes after the last write; whoever writes comes after the last
//! write and all reads since.
//!
//! The machine model keeps a state of its own (`tir_machine`), with which it judges a stream; this
//! one only collects what must be ordered, and the tests compare what comes out with the verdict.

use std::ops::Range;

/// Bytes of a line, where a grain is not larger.
const LINE: i64 = 64;

/// For each grain of a root, the last write and the last read of each queue since, as the number
/// of an instance plus one; 0 is none.
pub(super) struct ShadowMemory {
    grain: i64,
    /// Grains of a line.
    width: usize,
    /// Lines that are one.
    uniform: Vec<bool>,
    lines: Users,
    grains: Users,
}

/// The last users of each of some pieces.
struct Users {
    writer: Vec<u32>,
    /// For each queue; empty while it has read nothing.
    readers: Vec<Vec<u32>>,
}

impl Users {
    fn new(count: usize, queues: usize) -> Self {
        Self {
            writer: vec![0; count],
            readers: vec![Vec::new(); queues],
        }
    }
    fn look(&self, at: Range<usize>, after: &mut impl FnMut(u32)) {
        self.writer[at].iter().for_each(|writer| after(*writer));
    }
    fn read(&mut self, at: Range<usize>, queue: usize, user: u32, after: &mut impl FnMut(u32)) {
        self.look(at.clone(), after);
        let readers = &mut self.readers[queue];
        if readers.is_empty() {
            readers.resize(self.writer.len(), 0);
        }
        readers[at].fill(user);
    }
    fn write(&mut self, at: Range<usize>, user: u32, after: &mut impl FnMut(u32)) {
        self.look(at.clone(), after);
        self.writer[at.clone()].fill(user);
        for readers in &mut self.readers {
            if let Some(readers) = readers.get_mut(at.clone()) {
                readers.iter().for_each(|reader| after(*reader));
                readers.fill(0);
            }
        }
    }
    /// Makes pieces have the users of one piece of others.
    fn fill(&mut self, to: Range<usize>, other: &Users, at: usize) {
        self.writer[to.clone()].fill(other.writer[at]);
        for (mine, theirs) in self.readers.iter_mut().zip(&other.readers) {
            let user = theirs.get(at).copied().unwrap_or(0);
            if mine.is_empty() && user != 0 {
                mine.resize(self.writer.len(), 0);
            }
            if !mine.is_empty() {
                mine[to.clone()].fill(user);
            }
        }
    }
}

impl ShadowMemory {
    /// Nobody has used any of these bytes, of which no access cuts a grain.
    pub(super) fn new(bytes: i64, grain: i64, queues: usize) -> Self {
        let count = (bytes / grain) as usize;
        let width = (LINE / grain).max(1) as usize;
        let lines = count.div_ceil(width);
        Self {
            grain,
            width,
            uniform: vec![true; lines],
            lines: Users::new(lines, queues),
            grains: Users::new(count, queues),
        }
    }

    /// Calls `user` for lines that a run of bytes takes whole and that are one, as many at once as lie behind one another,
    /// and for the grains of what else the run takes. After a write a whole line is one again.
    fn visit(
        &mut self,
        (offset, bytes): (i64, i64),
        write: bool,
        mut user: impl FnMut(&mut Users, Range<usize>),
    ) {
        let end = ((offset + bytes) / self.grain) as usize;
        let mut at = (offset / self.grain) as usize;
        while at < end {
            let line = at / self.width;
            let start = line * self.width;
            let (count, grains) = (self.uniform.len(), self.grains.writer.len());
            if start == at {
                // The last line may be shorter.
                let beyond = if end == grains {
                    count
                } else {
                    end / self.width
                };
                let whole = self.uniform[line..beyond].iter().take_while(|one| **one);
                let whole = whole.count();
                if whole > 0 {
                    user(&mut self.lines, line..line + whole);
                    at = end.min((line + whole) * self.width);
                    continue;
                }
            }
            let all = start..(start + self.width).min(grains);
            let taken = at..all.end.min(end);
            at = taken.end;
            let whole = taken == all;
            if self.uniform[line] {
                self.uniform[line] = false;
                self.grains.fill(all, &self.lines, line);
            }
            user(&mut self.grains, taken);
            if whole && write {
                self.uniform[line] = true;
                self.lines.fill(line..line + 1, &self.grains, start);
            }
        }
    }

    /// Tells `after` who wrote a run of bytes.
    pub(super) fn look(&mut self, run: (i64, i64), after: &mut impl FnMut(u32)) {
        self.visit(run, false, |users, at| users.look(at, after));
    }
    /// A read of a run of bytes by a queue: tells `after` who wrote them.
    pub(super) fn read(
        &mut self,
        run: (i64, i64),
        queue: usize,
        id: u32,
        after: &mut impl FnMut(u32),
    ) {
        self.visit(run, false, |users, at| users.read(at, queue, id, after));
    }
    /// A write of a run of bytes: tells `after` who wrote and read them.
    pub(super) fn write(&mut self, run: (i64, i64), id: u32, after: &mut impl FnMut(u32)) {
        self.visit(run, true, |users, at| users.write(at, id, after));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The users of each byte.
    struct Plain {
        writer: Vec<u32>,
        readers: Vec<[u32; 2]>,
    }

    /// What an access came after, without order and without nobody.
    fn users(mut all: Vec<u32>) -> Vec<u32> {
        all.retain(|user| *user != 0);
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn lines_and_grains_say_what_bytes_say() {
        const BYTES: i64 = 500;
        let mut shadow = ShadowMemory::new(BYTES, 4, 2);
        let mut plain = Plain {
            writer: vec![0; BYTES as usize],
            readers: vec![[0; 2]; BYTES as usize],
        };
        // Any mixture of whole lines and parts will do.
        let mut random = tir::data::Random::new(1);
        let mut next = |n: i64| random.below(n as usize) as i64;
        for id in 1..=4000 {
            let unit = if next(2) == 0 { 64 } else { 4 };
            let from = next(BYTES / unit) * unit;
            let size = (next(4) + 1) * unit;
            let run = (from, size.min(BYTES - from));
            let range = run.0 as usize..(run.0 + run.1) as usize;
            let (mut found, mut wanted) = (Vec::new(), Vec::new());
            let mut after = |user: u32| found.push(user);
            match next(3) {
                0 => shadow.look(run, &mut after),
                1 => {
                    let queue = next(2) as usize;
                    shadow.read(run, queue, id, &mut after);
                    for at in range.clone() {
                        plain.readers[at][queue] = id;
                    }
                }
                _ => {
                    shadow.write(run, id, &mut after);
                    for at in range.clone() {
                        wanted.push(plain.writer[at]);
                        wanted.extend(plain.readers[at]);
                        plain.readers[at] = [0; 2];
                        plain.writer[at] = id;
                    }
                }
            }
            if wanted.is_empty() {
                wanted.extend(&plain.writer[range]);
            }
            assert_eq!(users(found), users(wanted), "access {id} of {run:?}");
        }
    }
}
