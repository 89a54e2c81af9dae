//! The elements of large constants: one process-wide store, addressed by content.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::RwLock;

use bytes::Bytes;

use crate::Array;

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
    data: Bytes,
    origin: Origin,
}

/// By `sha256:…`. Entries stay for the life of the process: attributes that name them do too.
static STORE: RwLock<Option<HashMap<String, Blob>>> = RwLock::new(None);

fn lookup(hash: &str) -> Option<Blob> {
    let store = STORE.read().unwrap_or_else(|p| p.into_inner());
    store.as_ref()?.get(hash).cloned()
}

fn put(array: &Array, origin: Origin) -> String {
    let hash = hash(array);
    let mut store = STORE.write().unwrap_or_else(|p| p.into_inner());
    let blobs = store.get_or_insert_with(HashMap::new);
    let known = blobs.get(&hash);
    // What lies in a file need not be written again: that origin is the better one.
    if known.is_none_or(|blob| blob.origin == Origin::Memory && origin != Origin::Memory) {
        let data = array.data().clone();
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
pub fn get(hash: &str) -> Option<Bytes> {
    Some(lookup(hash)?.data)
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
        assert_eq!(get(&key).as_deref(), Some(a.bytes()));
        assert_eq!(origin(&key), Some(Origin::Memory));
        assert_eq!(get("sha256:00"), None);
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
