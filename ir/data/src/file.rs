//! Files: reading whole, and writing so that a name holds all of a file or nothing new.

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

/// Writes to standard output, all of it. A reader that has gone (`| head`) is no error.
///
/// # Errors
/// If it cannot be written, as on a disk that is full.
pub fn write_stdout(bytes: &[u8]) -> Result<(), DataError> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(DataError::new(format!(
            "cannot write to standard output: {e}"
        ))),
        _ => Ok(()),
    }
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
        Staged::write_with(target, |file| {
            for part in parts {
                file.put(part)?;
            }
            Ok(())
        })
    }

    /// As [`Staged::write`]; `parts` puts them one by one, so that they need not be in memory together.
    ///
    /// # Errors
    /// If the folder cannot be written, the disk is full, or `parts` fails.
    pub fn write_with(
        target: &Path,
        parts: impl FnOnce(&mut Sink<'_>) -> Result<(), DataError>,
    ) -> Result<Staged, DataError> {
        let fail = |e: std::io::Error| DataError::io(target, "cannot write", &e);
        // A device or a pipe is written to, never replaced.
        if fs::metadata(target).is_ok_and(|m| !m.is_file() && !m.is_dir()) {
            let file = OpenOptions::new().write(true).open(target).map_err(fail)?;
            parts(&mut Sink { file, target })?;
            return Ok(Staged {
                target: target.to_path_buf(),
                temporary: PathBuf::new(),
                done: true,
            });
        }
        let staged = Staged::reserve(target)?;
        let file = OpenOptions::new().write(true).open(&staged.temporary);
        let mut to = Sink {
            file: file.map_err(fail)?,
            target,
        };
        parts(&mut to)?;
        to.file.sync_all().map_err(fail)?;
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

/// Where the parts of a [`Staged`] file go.
#[derive(Debug)]
pub struct Sink<'a> {
    file: File,
    target: &'a Path,
}

impl Sink<'_> {
    /// Writes the next part.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn put(&mut self, part: &[u8]) -> Result<(), DataError> {
        let fail = |e: std::io::Error| DataError::io(self.target, "cannot write", &e);
        self.file.write_all(part).map_err(fail)
    }
}
