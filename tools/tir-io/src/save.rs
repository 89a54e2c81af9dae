//! Saving a program together with its blobs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use tir_core::{BlobAttr, Diagnostic, Failure, Ir};
use tir_data::blob::{self, Origin};
use tir_data::{Bytes, DType, DataError, Staged, stage_safetensors_with, write_stdout};
use tir_interp::tensor_form;

use crate::blobs;
use crate::paths::{absolute, relative};

/// Where a program goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Out<'a> {
    /// To a file.
    File(&'a Path),
    /// To standard output.
    Stdout,
}

/// Writes a program and what it holds in memory. Blobs that lie in a file keep pointing to it; those that were made in memory go to
/// `weights`, and if it is not given to the `.safetensors` of the program's name. `print` gives the text. Files are renamed into place together at the end.
///
/// # Errors
/// If a file cannot be written, a blob is not loaded, or there is no file named for blobs; then
/// nothing has been written.
pub fn save(
    ir: &mut Ir,
    out: Out<'_>,
    weights: Option<&Path>,
    print: impl FnOnce(&Ir) -> String,
) -> Result<(), Failure> {
    let (folder, beside) = match out {
        Out::File(path) => (
            absolute(path).parent().map(Path::to_path_buf),
            Some(path.with_extension("safetensors")),
        ),
        Out::Stdout => (std::env::current_dir().ok(), None),
    };
    let weights = weights.map(Path::to_path_buf).or(beside);
    let folder = folder.unwrap_or_default();
    let staged = place_blobs(ir, &folder, weights.as_deref())?;
    let text = print(ir);
    match out {
        Out::File(path) => {
            let program = Staged::write(path, &[text.as_bytes()]).map_err(failure)?;
            // The weights first: a program without its weights is worse than the reverse.
            staged.map_or(Ok(()), Staged::commit).map_err(failure)?;
            program.commit().map_err(failure)
        }
        Out::Stdout => {
            staged.map_or(Ok(()), Staged::commit).map_err(failure)?;
            write_stdout(text.as_bytes()).map_err(failure)
        }
    }
}

fn failure(error: DataError) -> Failure {
    error.to_string().into()
}

/// The blobs of one hash and form are one array of the file.
type Content = (Box<str>, tir_core::Type);

/// An array that is to be written: its bytes are looked up then, so that they are not in memory before.
struct Stored<'a> {
    blob: &'a BlobAttr,
    dtype: DType,
    shape: Vec<usize>,
}

impl<'a> Stored<'a> {
    fn new(blob: &'a BlobAttr) -> Result<Self, Failure> {
        let (file, key) = (&blob.file, &blob.key);
        let found = blob::len(&blob.hash)
            .ok_or_else(|| format!("blob '{key}' of '{file}' is not loaded"))?;
        let (dtype, shape) = tensor_form(blob.ty)?;
        match dtype.byte_len(&shape) {
            Some(wanted) if wanted == found => Ok(Self { blob, dtype, shape }),
            _ => Err(format!("blob '{key}' has {found} bytes, its type is {}", blob.ty).into()),
        }
    }

    fn bytes(&self) -> Result<Bytes, DataError> {
        let found = blob::get(&self.blob.hash)?;
        found.ok_or_else(|| DataError::new(format!("blob '{}' is not loaded", self.blob.key)))
    }
}

/// Says for every blob where it will lie, and stages the file for those that lie nowhere yet.
fn place_blobs(
    ir: &mut Ir,
    folder: &Path,
    weights: Option<&Path>,
) -> Result<Option<Staged>, Failure> {
    let target = weights.map(absolute);
    let mut found: Vec<&'static BlobAttr> = Vec::new();
    let mut seen = HashSet::new();
    blobs::each(ir, &mut |_, blob| {
        if seen.insert(blob) {
            found.push(blob);
        }
    });
    if found.is_empty() {
        return Ok(None);
    }
    let mut places: HashMap<Content, (PathBuf, String)> = HashMap::new();
    let mut arrays: BTreeMap<String, Stored<'_>> = BTreeMap::new();
    let mut homeless: Vec<&BlobAttr> = Vec::new();
    for blob in found {
        let content = (blob.hash.clone(), blob.ty);
        if places.contains_key(&content) {
            continue;
        }
        let array = Stored::new(blob)?;
        match blob::origin(&blob.hash) {
            // What lies in the file that is about to be replaced goes into the new one. Another
            // form of bytes that lie in a file under their first form is an array of its own, here and
            // where it was saved before.
            Some(Origin::File { path, key })
                if Some(&path) != target.as_ref()
                    && *key == *blob.key
                    && path.file_name() == Path::new(&*blob.file).file_name() =>
            {
                places.insert(content, (path, key));
            }
            _ => match &target {
                Some(target) => {
                    let key = free_key(&arrays, &blob.key);
                    arrays.insert(key.clone(), array);
                    places.insert(content, (target.clone(), key));
                }
                None => homeless.push(blob),
            },
        }
    }
    if let Some(first) = homeless.first() {
        let (count, key) = (homeless.len(), &first.key);
        let what = if count == 1 { "constant" } else { "constants" };
        let error = format!("no file is named for {count} {what} in memory, first '{key}'");
        let error = Diagnostic::error(error).note("--weights-out FILE says where they go");
        return Err(Box::new(error));
    }
    let staged = match (&target, arrays.is_empty()) {
        (Some(target), false) => {
            let forms = arrays.iter();
            let forms = forms.map(|(key, array)| (key.as_str(), array.dtype, array.shape.clone()));
            let all: Vec<&Stored<'_>> = arrays.values().collect();
            let staged = stage_safetensors_with(target, forms.collect(), |k| all[k].bytes());
            Some(staged.map_err(failure)?)
        }
        _ => None,
    };
    blobs::replace(ir, &|blob| {
        let mut blob = blob.clone();
        if let Some((path, key)) = places.get(&(blob.hash.clone(), blob.ty)) {
            blob.file = relative(folder, path).into();
            blob.key = key.as_str().into();
        }
        blob
    });
    Ok(staged)
}

/// The key, or the key with a number behind it, that no array has yet.
fn free_key(arrays: &BTreeMap<String, Stored<'_>>, key: &str) -> String {
    let key = match key {
        "" | "__metadata__" => "constant",
        key => key,
    };
    let numbered = (1..).map(|n| format!("{key}_{n}"));
    let mut names = std::iter::once(key.to_string()).chain(numbered);
    names
        .find(|name| !arrays.contains_key(name))
        .unwrap_or_default()
}
