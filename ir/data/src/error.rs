//! The one error type of readers and writers: file, place in it, message.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where in a file something is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ErrorPlace {
    /// At this byte, counted from the file's start.
    Byte(u64),
    /// At a named part, as it should be printed: `header field 'shape'`, `tensor 'w'`.
    Part(String),
}

impl fmt::Display for ErrorPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorPlace::Byte(offset) => write!(f, "byte {offset}"),
            ErrorPlace::Part(name) => f.write_str(name),
        }
    }
}

/// What is wrong, and where. Prints as `file.npy: byte 8: header is cut off …`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataError {
    /// The file, if the bytes came from one.
    pub path: Option<PathBuf>,
    /// The place within it, if it is known.
    pub place: Option<ErrorPlace>,
    /// The broken fact with both values; lower case, no full stop.
    pub message: String,
}

impl DataError {
    /// An error with no place.
    pub fn new(message: impl Into<String>) -> DataError {
        DataError {
            path: None,
            place: None,
            message: message.into(),
        }
    }

    /// An error at byte `offset` of the file.
    pub fn at_byte(offset: usize, message: impl Into<String>) -> DataError {
        DataError {
            place: Some(ErrorPlace::Byte(offset as u64)),
            ..DataError::new(message)
        }
    }

    /// An error in the named part of the file.
    pub fn at_part(part: impl Into<String>, message: impl Into<String>) -> DataError {
        DataError {
            place: Some(ErrorPlace::Part(part.into())),
            ..DataError::new(message)
        }
    }

    /// The same error, naming `path` unless it names a file already.
    pub fn in_file(mut self, path: &Path) -> DataError {
        self.path.get_or_insert_with(|| path.to_path_buf());
        self
    }

    /// The same error, placed in `part` unless it has a place already.
    pub fn in_part(mut self, part: impl Into<String>) -> DataError {
        self.place
            .get_or_insert_with(|| ErrorPlace::Part(part.into()));
        self
    }

    /// An operating system's error on `path`; `what` says what was tried (`cannot open`).
    pub fn io(path: &Path, what: &str, error: &std::io::Error) -> DataError {
        DataError::new(format!("{what}: {error}")).in_file(path)
    }
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for DataError {}
