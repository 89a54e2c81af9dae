//! Loading the blobs that a parsed program names.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tir_core::{BlobAttr, Diagnostic, Failure, Ir};
use tir_data::{Array, SafeTensors, blob};
use tir_interp::tensor_form;

use crate::blobs;
use crate::paths::absolute;

/// Loads every blob of a program whose text lies in `folder`: the file beside it is mapped, and
/// key, element type, shape, length and hash are checked.
///
/// # Errors
/// One for each op with a blob that cannot be loaded, at the op.
pub fn load_blobs(ir: &Ir, folder: &Path) -> Result<(), Vec<Diagnostic>> {
    let mut cx = Load {
        folder,
        files: HashMap::new(),
        seen: HashMap::new(),
    };
    let mut errors = Vec::new();
    blobs::each(ir, &mut |op, blob| {
        if let Err(error) = cx.load(blob) {
            let named = format!("'{}': ", op.name());
            errors.push((*error).context(named).or_at(op.loc()));
        }
    });
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

struct Load<'a> {
    folder: &'a Path,
    files: HashMap<PathBuf, Result<SafeTensors, String>>,
    /// What was checked already.
    seen: HashMap<&'static BlobAttr, Result<(), Failure>>,
}

impl Load<'_> {
    fn load(&mut self, blob: &'static BlobAttr) -> Result<(), Failure> {
        if let Some(known) = self.seen.get(blob) {
            return known.clone();
        }
        let done = self.check(blob);
        self.seen.insert(blob, done.clone());
        done
    }

    fn check(&mut self, blob: &BlobAttr) -> Result<(), Failure> {
        let (file, key) = (&*blob.file, &*blob.key);
        let well_formed = |hex: &str| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit());
        if !blob.hash.strip_prefix("sha256:").is_some_and(well_formed) {
            let hash = &blob.hash;
            return Err(format!(
                "blob '{key}' has hash '{hash}', expected 'sha256:' and 64 hexadecimal digits"
            )
            .into());
        }
        if file.is_empty() {
            return match blob::len(&blob.hash) {
                Some(bytes) => same_length(blob, bytes),
                None => Err(format!("blob '{key}' names no file").into()),
            };
        }
        let path = absolute(&self.folder.join(file));
        let open = || SafeTensors::open(&path).map_err(|e| e.to_string());
        let opened = self.files.entry(path.clone()).or_insert_with(open);
        let opened = opened.as_ref().map_err(|e| Failure::from(e.as_str()))?;
        let array = opened.get(key).map_err(|e| Failure::from(e.to_string()))?;
        same_form(blob, &array)?;
        let found = blob::insert_from(&array, &path, key);
        if *found != *blob.hash {
            let wanted = &blob.hash;
            return Err(
                format!("blob '{key}' of '{file}' has hash {found}, expected {wanted}").into(),
            );
        }
        Ok(())
    }
}

fn same_length(blob: &BlobAttr, found: usize) -> Result<(), Failure> {
    let (dtype, shape) = tensor_form(blob.ty)?;
    match dtype.byte_len(&shape) {
        Some(wanted) if wanted == found => Ok(()),
        _ => Err(format!(
            "blob '{}' has {found} bytes, its type is {}",
            blob.key, blob.ty
        )
        .into()),
    }
}

fn same_form(blob: &BlobAttr, array: &Array) -> Result<(), Failure> {
    let (dtype, shape) = tensor_form(blob.ty)?;
    if array.dtype() == dtype && array.shape() == shape {
        return Ok(());
    }
    let found = tir_interp::type_of(array);
    Err(format!(
        "blob '{}' of '{}' is a {found}, expected a {}",
        blob.key, blob.file, blob.ty
    )
    .into())
}
