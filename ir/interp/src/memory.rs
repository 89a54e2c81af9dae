//! Memory behind memrefs: the trait, and plain buffers.

use std::any::Any;

use tir_core::{Failure, Loc, Name, OpId, OpRef};
use tir_data::BufferId;

use crate::data::Data;
use crate::view::View;

/// Which op does something: for messages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Site {
    /// Its name.
    pub op: Name,
    /// Its place.
    pub loc: Loc,
    /// The op itself, in the arena of its function.
    pub id: OpId,
    /// Whether the host does it on the program's behalf: it brings arguments and constants, and
    /// takes results.
    pub host: bool,
}

impl Site {
    /// An op.
    pub fn of(op: OpRef<'_>) -> Self {
        Self {
            op: op.name(),
            loc: op.loc(),
            id: op.id,
            host: false,
        }
    }
}

/// Bytes that the places of arguments and constants are a multiple of, whatever their space asks for.
pub const GIVEN_ALIGN: u64 = 64;

/// What a new buffer shall be.
#[derive(Clone, Debug)]
pub struct Alloc {
    /// Its size.
    pub bytes: u64,
    /// Its alignment; 0 and 1 are any.
    pub align: u64,
    /// Its memory space; none is the default.
    pub space: Option<Name>,
    /// A name for messages.
    pub name: Option<Name>,
    /// Who asks.
    pub site: Site,
}

/// The start of an iteration of a watched loop.
pub struct Round<'a> {
    /// The number of the loop among those that are watched.
    pub number: u32,
    /// The loop's counter.
    pub at: i64,
    /// What is added to it.
    pub step: i64,
    /// Iterations from this one on, itself included.
    pub left: u64,
    /// What the function holds that is no scalar, in an order that stays the same.
    pub objects: &'a [Data],
}

/// Memory that runs behind memrefs.
///
/// `bytes` are there for whoever has asked by `touch` first; memory that checks nothing keeps the
/// `touch` that does nothing.
pub trait Memory: Any {
    /// A new buffer.
    fn alloc(&mut self, want: &Alloc) -> Result<BufferId, Failure>;
    /// Ends a buffer.
    fn dealloc(&mut self, buffer: BufferId, site: Site) -> Result<(), Failure>;
    /// The bytes of a buffer.
    fn bytes(&self, buffer: BufferId) -> Result<&[u8], Failure>;
    /// The bytes of a buffer, to change.
    fn bytes_mut(&mut self, buffer: BufferId) -> Result<&mut [u8], Failure>;
    /// Whether it holds no data: the program runs for the accesses it makes and the work it
    /// starts. What is loaded is then [`Data::Unknown`](crate::Data::Unknown), nobody asks for
    /// bytes, and a program that branches or addresses memory by what it loaded fails there.
    fn is_dataless(&self) -> bool {
        false
    }
    /// The op of this number among those that the run watches
    /// ([`Env::watch`](crate::Env::watch)) has run to its end.
    fn passed(&mut self, number: u32) {
        let _ = number;
    }
    /// An iteration of a watched loop ([`Env::watch_loops`](crate::Env::watch_loops)) is about to begin. Gives how many are
    /// left out from this one on: for a memory without data that knows what they would do. The last iteration is never
    /// left out.
    fn round(&mut self, round: &Round<'_>) -> Result<u64, Failure> {
        let _ = round;
        Ok(0)
    }
    /// The program thread is about to read or write the elements of a view.
    fn touch(&mut self, view: &View, write: bool, site: Site) -> Result<(), Failure> {
        let _ = (view, write, site);
        Ok(())
    }
    /// Whether it wants to know of scalar operations, by [`work`](Self::work).
    fn counts_work(&self) -> bool {
        false
    }
    /// The program thread does so many scalar operations on data ([`computes`](crate::computes)).
    fn work(&mut self, ops: u64, site: Site) -> Result<(), Failure> {
        let _ = (ops, site);
        Ok(())
    }
    /// A part of a buffer as a buffer of its own, for memory that tells apart what lies at one
    /// address: the same one for the same op and place. `None` where there is no difference.
    fn part(
        &mut self,
        outer: BufferId,
        offset: u64,
        bytes: u64,
        name: Option<Name>,
        site: Site,
    ) -> Result<Option<BufferId>, Failure> {
        let _ = (outer, offset, bytes, name, site);
        Ok(None)
    }
}

/// Buffers in the host's memory, zero at first; freed ones are known as such.
#[derive(Default)]
pub struct PlainMemory {
    buffers: Vec<PlainBuffer>,
    live: u64,
    /// Bytes that live buffers may take together; 0 is the default of 16 GiB.
    pub limit: u64,
}

#[derive(Default)]
struct PlainBuffer {
    bytes: Vec<u8>,
    freed: Option<Site>,
}

const LIMIT: u64 = 16 << 30;

impl PlainMemory {
    /// The bytes of a live buffer; the empty slice for others.
    #[inline]
    pub(crate) fn fast(&self, buffer: BufferId) -> &[u8] {
        self.buffers
            .get(buffer.0 as usize)
            .map_or(&[], |b| &b.bytes)
    }
    #[inline]
    pub(crate) fn fast_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        self.buffers
            .get_mut(buffer.0 as usize)
            .map_or(&mut [], |b| &mut b.bytes)
    }
    /// Takes the bytes of a buffer out, to be put back by [`give`](Self::give).
    pub(crate) fn lend(&mut self, buffer: BufferId) -> Vec<u8> {
        let found = self.buffers.get_mut(buffer.0 as usize);
        found.map_or_else(Vec::new, |b| std::mem::take(&mut b.bytes))
    }
    pub(crate) fn give(&mut self, buffer: BufferId, bytes: Vec<u8>) {
        if let Some(b) = self.buffers.get_mut(buffer.0 as usize) {
            b.bytes = bytes;
        }
    }
    fn get(&self, buffer: BufferId) -> Result<&PlainBuffer, Failure> {
        let found = self.buffers.get(buffer.0 as usize);
        let found = found.ok_or("the buffer is of another memory")?;
        match found.freed {
            None => Ok(found),
            Some(site) => Err(freed(site)),
        }
    }
}

fn freed(site: Site) -> Failure {
    use tir_core::Diagnostic;
    let error = Diagnostic::error("the buffer has been freed");
    Box::new(error.note_at(site.loc, format!("freed by '{}'", site.op)))
}

impl Memory for PlainMemory {
    fn alloc(&mut self, want: &Alloc) -> Result<BufferId, Failure> {
        let limit = if self.limit == 0 { LIMIT } else { self.limit };
        let full = || format!("no memory for a buffer of {} bytes", want.bytes);
        self.live = self
            .live
            .checked_add(want.bytes)
            .filter(|n| *n <= limit)
            .ok_or_else(full)?;
        let size = usize::try_from(want.bytes).map_err(|_| full())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).map_err(|_| full())?;
        bytes.resize(size, 0);
        let id = u32::try_from(self.buffers.len()).map_err(|_| "too many buffers")?;
        self.buffers.push(PlainBuffer { bytes, freed: None });
        Ok(BufferId(id))
    }
    fn dealloc(&mut self, buffer: BufferId, site: Site) -> Result<(), Failure> {
        self.get(buffer)?;
        if let Some(found) = self.buffers.get_mut(buffer.0 as usize) {
            self.live -= found.bytes.len() as u64;
            *found = PlainBuffer {
                bytes: Vec::new(),
                freed: Some(site),
            };
        }
        Ok(())
    }
    fn bytes(&self, buffer: BufferId) -> Result<&[u8], Failure> {
        Ok(&self.get(buffer)?.bytes)
    }
    fn bytes_mut(&mut self, buffer: BufferId) -> Result<&mut [u8], Failure> {
        self.get(buffer)?;
        Ok(self.fast_mut(buffer))
    }
}
