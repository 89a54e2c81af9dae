//! Files: reading whole, mapping, and writing so that a name holds all of a file or nothing new.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::DataError;

/// Reads a whole file.
///
/// # Errors
/// If it cannot be read.
pub fn read_file(path: &Path) -> Result<Bytes, DataError> {
    fs::read(path)
        .map(Bytes::from)
        .map_err(|e| DataError::io(path, "cannot read", &e))
}

/// Maps a regular file into memory; the map lives as long as any slice of the result.
///
/// The file must not be truncated or written in place by another process meanwhile: replace it by
/// renaming ([`Staged`] does), which leaves the mapped one untouched.
///
/// # Errors
/// If it cannot be opened, is no regular file, or cannot be mapped.
pub fn map_file(path: &Path) -> Result<Bytes, DataError> {
    let fail = |what: &str, e: std::io::Error| DataError::io(path, what, &e);
    // Opening a pipe would wait for its other end: look before.
    if !fs::metadata(path)
        .map_err(|e| fail("cannot open", e))?
        .is_file()
    {
        return Err(DataError::new("is not a regular file").in_file(path));
    }
    let file = File::open(path).map_err(|e| fail("cannot open", e))?;
    if file.metadata().map_err(|e| fail("cannot open", e))?.len() == 0 {
        return Ok(Bytes::new()); // an empty range cannot be mapped on every system
    }
    // SAFETY: the map is private and read-only, and is only ever seen as `&[u8]`, for which every
    // byte value is valid; `Bytes` owns it, so no slice outlives it. Nothing in this process
    // writes to a file in place: all writing goes to a fresh name followed by a rename, which
    // gives the name a new inode and leaves the mapped one unchanged. What remains is another
    // process that writes or truncates the file meanwhile, which the documentation above rules
    // out, as for every program that maps its input.
    #[allow(unsafe_code)]
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|e| fail("cannot map", e))?;
    Ok(Bytes::from_owner(map))
}

/// A file being written beside its final name. [`Staged::commit`] renames it into place; dropped
/// without that, it is removed and the name holds what it held before.
///
/// To publish several files together, stage all, then commit all.
#[derive(Debug)]
pub struct Staged {
    target: PathBuf,
    temporary: PathBuf,
    done: bool,
}

impl Staged {
    /// Writes `parts`, one after another, to a temporary file beside `target`; to `target` itself
    /// where that is no regular file (a device, a pipe).
    ///
    /// # Errors
    /// If the folder cannot be written or the disk is full.
    pub fn write(target: &Path, parts: &[&[u8]]) -> Result<Staged, DataError> {
        let fail = |e: std::io::Error| DataError::io(target, "cannot write", &e);
        // A device or a pipe is written to, never replaced.
        if fs::metadata(target).is_ok_and(|m| !m.is_file() && !m.is_dir()) {
            let mut file = OpenOptions::new().write(true).open(target).map_err(fail)?;
            for part in parts {
                file.write_all(part).map_err(fail)?;
            }
            return Ok(Staged {
                target: target.to_path_buf(),
                temporary: PathBuf::new(),
                done: true,
            });
        }
        let staged = Staged::reserve(target)?;
        let mut file = OpenOptions::new()
            .write(true)
            .open(&staged.temporary)
            .map_err(fail)?;
        for part in parts {
            file.write_all(part).map_err(fail)?;
        }
        file.sync_all().map_err(fail)?;
        Ok(staged)
    }

    /// Creates the temporary file, empty.
    fn reserve(target: &Path) -> Result<Staged, DataError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let Some(name) = target.file_name() else {
            return Err(DataError::new("is not a file name").in_file(target));
        };
        loop {
            let mut temporary = std::ffi::OsString::from(".");
            temporary.push(name);
            let n = COUNT.fetch_add(1, Ordering::Relaxed);
            temporary.push(format!(".{}.{n}.tmp", std::process::id()));
            let temporary = target.with_file_name(temporary);
            match OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&temporary)
            {
                Ok(_) => {
                    return Ok(Staged {
                        target: target.to_path_buf(),
                        temporary,
                        done: false,
                    });
                }
                // Left by a process of this id that was killed: the next count is free.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(DataError::io(target, "cannot write", &e)),
            }
        }
    }

    /// The final name.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Renames the file into place.
    ///
    /// # Errors
    /// If the rename is refused; the temporary file is then removed.
    pub fn commit(mut self) -> Result<(), DataError> {
        if self.done {
            return Ok(());
        }
        fs::rename(&self.temporary, &self.target)
            .map_err(|e| DataError::io(&self.target, "cannot rename into place", &e))?;
        self.done = true;
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.done {
            // Nothing useful is left to do if this fails.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
