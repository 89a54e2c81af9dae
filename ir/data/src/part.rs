//! Bytes that lie in files: in memory only while somebody looks at them.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::DataError;
use crate::array::filled;

/// Parts of at most so many bytes are read; a map of its own is not worth it for them.
pub(crate) const READ: usize = 16 << 10;

/// Some bytes of an open file. It takes no memory itself, and the file stays the one that was opened, whatever happens to its
/// name.
///
/// The file must not be truncated or written in place by another process meanwhile: replace it by
/// renaming ([`crate::Staged`] does), which leaves the opened one untouched.
#[derive(Clone, Debug)]
pub struct FilePart {
    file: Arc<File>,
    at: u64,
    len: usize,
}

/// A map of some bytes of a file.
struct Mapped {
    map: memmap2::Mmap,
}

/// Where maps lie: the first address of each, and what it shows.
static MAPS: Mutex<BTreeMap<usize, FilePart>> = Mutex::new(BTreeMap::new());

/// The file that [`FilePart::spill`] writes to.
static SPILLED: Mutex<Option<Spilled>> = Mutex::new(None);

struct Spilled {
    file: Arc<File>,
    end: u64,
}

fn lock<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // Before the addresses are free for another map.
        lock(&MAPS).remove(&(self.map.as_ptr() as usize));
    }
}

impl FilePart {
    /// All of a regular file.
    ///
    /// # Errors
    /// If it cannot be opened, or is no regular file.
    pub fn open(path: &Path) -> Result<FilePart, DataError> {
        let fail = |e: std::io::Error| DataError::io(path, "cannot open", &e);
        // Opening a pipe would wait for its other end: look before.
        if !fs::metadata(path).map_err(fail)?.is_file() {
            return Err(DataError::new("is not a regular file").in_file(path));
        }
        let file = File::open(path).map_err(fail)?;
        let len = file.metadata().map_err(fail)?.len();
        let len = usize::try_from(len).map_err(|_| {
            DataError::new(format!("{len} bytes are too many for this machine")).in_file(path)
        })?;
        Ok(FilePart {
            file: Arc::new(file),
            at: 0,
            len,
        })
    }

    /// Some of its bytes; None if they are not all in it.
    pub fn slice(&self, bytes: Range<usize>) -> Option<FilePart> {
        let len = bytes.end.checked_sub(bytes.start)?;
        (bytes.end <= self.len).then(|| FilePart {
            file: self.file.clone(),
            at: self.at + bytes.start as u64,
            len,
        })
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes, which leave memory with the last slice of the result: a map, or a copy of a few.
    ///
    /// # Errors
    /// If they cannot be read or mapped.
    pub fn bytes(&self) -> Result<Bytes, DataError> {
        match self.len {
            0..=READ => self.read(),
            _ => self.map(),
        }
    }

    #[cfg(test)]
    pub(crate) fn place(&self) -> (*const File, u64) {
        (Arc::as_ptr(&self.file), self.at)
    }

    fn read(&self) -> Result<Bytes, DataError> {
        // The position in a file is one for all that share it.
        let _alone = lock(&SPILLED);
        let mut file = &*self.file;
        let bytes = filled(self.len, |bytes| {
            file.seek(SeekFrom::Start(self.at))?;
            file.read_exact(bytes)
        });
        bytes.map_err(|e: std::io::Error| {
            DataError::new(format!("cannot read {} bytes: {e}", self.len))
        })
    }

    pub(crate) fn map(&self) -> Result<Bytes, DataError> {
        if self.is_empty() {
            return Ok(Bytes::new()); // an empty range cannot be mapped on every system
        }
        let mut options = memmap2::MmapOptions::new();
        options.offset(self.at).len(self.len);
        // SAFETY: the map is private and read-only, and is only ever seen as `&[u8]`, for which every
        // byte value is valid; `Bytes` owns it, so no slice outlives it. Nothing in this process
        // writes to a file in place: all writing goes to a fresh name followed by a rename, which
        // gives the name a new inode and leaves the mapped one unchanged, or behind the end of a file
        // without a name (`spill`). What remains is another process that writes or truncates the file
        // meanwhile, which the documentation above rules out, as for every program that maps its input.
        #[allow(unsafe_code)]
        let map = unsafe { options.map(&*self.file) };
        let map = map.map_err(|e| DataError::new(format!("cannot map {} bytes: {e}", self.len)))?;
        lock(&MAPS).insert(map.as_ptr() as usize, self.clone());
        Ok(Bytes::from_owner(Mapped { map }))
    }

    /// Where the bytes lie if they are mapped; None if they are in memory alone.
    pub fn of(bytes: &Bytes) -> Option<FilePart> {
        let start = bytes.as_ptr() as usize;
        let maps = lock(&MAPS);
        let (first, whole) = maps.range(..=start).next_back()?;
        let at = start - first;
        whole.slice(at..at.checked_add(bytes.len())?)
    }

    /// Writes bytes to a file without a name, in the folder for temporary files, which goes with this process.
    ///
    /// # Errors
    /// If there is no such folder, or it is full.
    pub fn spill(bytes: &[u8]) -> std::io::Result<FilePart> {
        let mut spilled = lock(&SPILLED);
        let to = match &mut *spilled {
            Some(to) => to,
            none => none.insert(Spilled {
                file: Arc::new(nameless()?),
                end: 0,
            }),
        };
        let mut file = &*to.file;
        file.seek(SeekFrom::Start(to.end))?;
        file.write_all(bytes)?;
        let part = FilePart {
            file: to.file.clone(),
            at: to.end,
            len: bytes.len(),
        };
        to.end += bytes.len() as u64;
        Ok(part)
    }
}

/// A new file in the folder for temporary files, whose name is gone.
fn nameless() -> std::io::Result<File> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".tir-{}.{n}.blobs", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut options = OpenOptions::new();
        match options.read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                fs::remove_file(&path)?;
                return Ok(file);
            }
            // Left by a process of this id that was killed: the next count is free.
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
}

/// Maps a regular file into memory; the map lives as long as any slice of the result.
///
/// The file must not be truncated or written in place by another process meanwhile: replace it by
/// renaming ([`crate::Staged`] does), which leaves the mapped one untouched.
///
/// # Errors
/// If it cannot be opened, is no regular file, or cannot be mapped.
pub fn map_file(path: &Path) -> Result<Bytes, DataError> {
    let whole = FilePart::open(path)?;
    whole.map().map_err(|e| e.in_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_bytes_know_their_place() {
        let all: Vec<u8> = (0..3 * READ).map(|k| (k % 251) as u8).collect();
        let part = FilePart::spill(&all).unwrap();
        let other = FilePart::spill(&[7; 2 * READ]).unwrap();
        let bytes = part.bytes().unwrap();
        assert_eq!(bytes, all);
        assert_eq!(other.bytes().unwrap(), vec![7; 2 * READ]);
        let slice = bytes.slice(100..2 * READ);
        let found = FilePart::of(&slice).unwrap();
        assert_eq!((found.at, found.len()), (part.at + 100, slice.len()));
        // A few are read, many mapped: the same ones.
        assert_eq!(part.slice(5..9).unwrap().bytes().unwrap(), all[5..9]);
        assert!(part.slice(0..all.len() + 1).is_none());
        let address = bytes.as_ptr() as usize;
        drop((bytes, slice));
        assert!(!lock(&MAPS).contains_key(&address));
        assert!(FilePart::of(&Bytes::from(all)).is_none());
    }
}
