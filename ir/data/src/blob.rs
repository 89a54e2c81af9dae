//! The elements of large constants: one process-wide store, addressed by content.
//!
//! The store knows where elements lie, and has them in memory only if they are few: those of a file are mapped while somebody
//! looks at them, and those that were made here go to a file without a name in the folder for temporary files
//! ([`FilePart::spill`]). So a program's constants take the memory of those that are worked on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::RwLock;

use bytes::Bytes;

use crate::array::filled;
use crate::part::READ;
use crate::{Array, DataError, FilePart};

/// Where the bytes of a blob lie outside of this process.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// Nowhere: they were made here.
    Memory,
    /// In a `.safetensors` file.
    File {
        /// Its absolute path.
        path: PathBuf,
        /// The name of the array in it.
        key: String,
    },
}

#[derive(Clone)]
struct Blob {
    data: Held,
    origin: Origin,
}

/// How the store holds bytes.
#[derive(Clone)]
enum Held {
    Memory(Bytes),
    File(FilePart),
}

impl Held {
    fn new(bytes: &Bytes) -> Self {
        if bytes.len() <= READ {
            // A slice would keep all that it is a slice of.
            let copy = filled(bytes.len(), |to| {
                to.copy_from_slice(bytes);
                Ok::<(), std::convert::Infallible>(())
            });
            return copy.map_or_else(|never| match never {}, Self::Memory);
        }
        // Without a folder for temporary files they stay where they are.
        let part = FilePart::of(bytes).or_else(|| FilePart::spill(bytes).ok());
        part.map_or_else(|| Self::Memory(bytes.clone()), Self::File)
    }
    fn bytes(&self) -> Result<Bytes, DataError> {
        match self {
            Self::Memory(bytes) => Ok(bytes.clone()),
            Self::File(part) => part.bytes(),
        }
    }
}

/// By `sha256:…`. Entries stay for the life of the process: attributes that name them do too.
static STORE: RwLock<Option<HashMap<String, Blob>>> = RwLock::new(None);

fn lookup(hash: &str) -> Option<Blob> {
    let store = STORE.read().unwrap_or_else(|p| p.into_inner());
    store.as_ref()?.get(hash).cloned()
}

fn put(array: &Array, origin: Origin) -> String {
    let hash = hash(array);
    // What lies in a file need not be written again: that origin is the better one.
    let known = lookup(&hash);
    if known.is_none_or(|blob| blob.origin == Origin::Memory && origin != Origin::Memory) {
        let data = Held::new(array.data());
        let mut store = STORE.write().unwrap_or_else(|p| p.into_inner());
        let blobs = store.get_or_insert_with(HashMap::new);
        blobs.insert(hash.clone(), Blob { data, origin });
    }
    hash
}

/// `sha256:` and the hash of the array's bytes (not of type and shape).
pub fn hash(array: &Array) -> String {
    format!("sha256:{}", array.sha256())
}

/// Keeps the bytes of an array that was made here; gives their hash.
pub fn insert(array: &Array) -> String {
    put(array, Origin::Memory)
}

/// Keeps the bytes of an array that lies in a file, at an absolute path; gives their hash.
pub fn insert_from(array: &Array, path: &Path, key: &str) -> String {
    let (path, key) = (path.to_path_buf(), key.to_string());
    put(array, Origin::File { path, key })
}

/// The bytes behind `sha256:…`; `None` if they were never inserted.
///
/// # Errors
/// If they lie in a file and cannot be read.
pub fn get(hash: &str) -> Result<Option<Bytes>, DataError> {
    lookup(hash).map(|blob| blob.data.bytes()).transpose()
}

/// How many bytes there are behind `sha256:…`; `None` if they were never inserted.
pub fn len(hash: &str) -> Option<usize> {
    Some(match lookup(hash)?.data {
        Held::Memory(bytes) => bytes.len(),
        Held::File(part) => part.len(),
    })
}

/// Where the bytes behind `sha256:…` lie.
pub fn origin(hash: &str) -> Option<Origin> {
    Some(lookup(hash)?.origin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn content_is_the_address() {
        let array = |seed| Array::random(DType::F32, &[3, 5], seed).unwrap();
        let (a, b) = (array(1), array(2));
        let key = insert(&a);
        assert_eq!(key, insert(&a.reshaped(&[15]).unwrap()));
        assert_ne!(key, insert(&b));
        assert_eq!(get(&key).unwrap().as_deref(), Some(a.bytes()));
        assert_eq!(origin(&key), Some(Origin::Memory));
        assert_eq!(get("sha256:00").unwrap(), None);
    }

    #[test]
    fn large_ones_are_in_memory_while_somebody_looks() {
        let array = Array::random(DType::F32, &[2 * READ], 9).unwrap();
        let key = insert(&array);
        let bytes = get(&key).unwrap().unwrap();
        assert_eq!(bytes, array.bytes());
        let part = FilePart::of(&bytes).unwrap();
        assert_eq!(Some(part.len()), len(&key));
        // What is mapped is found again where it lies, and not written once more.
        let half = Array::new(DType::U8, &[4 * READ], bytes.slice(..4 * READ)).unwrap();
        let own = FilePart::of(&get(&insert(&half)).unwrap().unwrap()).unwrap();
        assert_eq!(
            own.slice(0..1).unwrap().place(),
            part.slice(0..1).unwrap().place()
        );
    }

    #[test]
    fn a_file_is_the_better_origin() {
        let a = Array::random(DType::F32, &[7], 3).unwrap();
        let key = insert(&a);
        let path = Path::new("/f.safetensors");
        let from_file = Origin::File {
            path: path.into(),
            key: "w".into(),
        };
        assert_eq!(insert_from(&a, path, "w"), key);
        assert_eq!(origin(&key), Some(from_file.clone()));
        insert(&a);
        assert_eq!(origin(&key), Some(from_file));
    }
}
