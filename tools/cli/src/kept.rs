//! What `tir compile --native` made before, of the same model in the same way.

use std::path::{Path, PathBuf};

use tir_data::{Array, Bytes, DType};

/// A file beside what was made, which says of what: written last, so that all is there and whole if it is.
pub(crate) struct Kept {
    file: PathBuf,
    digest: String,
    made: Vec<PathBuf>,
}

impl Kept {
    /// For a model, files and options that say how it is compiled, and what is made of it. None if that cannot be said of
    /// the model's bytes: its constants may lie in other files.
    pub(crate) fn new(
        file: PathBuf,
        model: &Path,
        files: &[PathBuf],
        options: &str,
        made: Vec<PathBuf>,
    ) -> Option<Self> {
        // Mapped: the file is as large as all constants.
        let model = tir_data::map_file(model).ok()?;
        // ONNX names a file of constants by a pair of this key and a path.
        const KEY: &[u8] = b"location";
        if find(&model, KEY) {
            return None;
        }
        let mut all = sha256(model)?;
        for file in files {
            all += &sha256(std::fs::read(file).ok()?.into())?;
        }
        let program = std::env::current_exe().ok()?;
        let mut programs = vec![program];
        programs.extend(tir_run::native::programs().ok()?);
        for program in programs {
            let about = program.metadata().ok()?;
            all += &format!("{} {:?} ", about.len(), about.modified().ok()?);
        }
        all += options;
        Some(Self {
            file,
            digest: sha256(all.into_bytes().into())?,
            made,
        })
    }

    /// What was said of it when it was made, if it is there and nobody has changed it since.
    pub(crate) fn said(&self) -> Option<String> {
        let time = |path: &PathBuf| path.metadata().and_then(|about| about.modified());
        let text = std::fs::read_to_string(&self.file).ok()?;
        let (digest, said) = text.split_once('\n')?;
        let written = time(&self.file).ok()?;
        let whole = |path: &PathBuf| time(path).is_ok_and(|time| time <= written);
        let same = digest == self.state()? && self.made.iter().all(whole);
        same.then(|| said.to_string())
    }

    /// What is made of, and the sizes of what was made: times of files are too coarse for what is changed at once.
    fn state(&self) -> Option<String> {
        let mut text = self.digest.clone();
        for path in &self.made {
            text += &format!(" {}", path.metadata().ok()?.len());
        }
        Some(text)
    }

    /// Nothing is kept while it is made again.
    pub(crate) fn begin(&self) {
        // If it is not there, all is well; if it stays, its digest is of what is made now.
        let _ = std::fs::remove_file(&self.file);
    }

    /// Keeps what was made, with what is said of it.
    pub(crate) fn keep(&self, said: &str) {
        // Without it, all is made again.
        if let Some(state) = self.state() {
            let _ = std::fs::write(&self.file, format!("{state}\n{said}"));
        }
    }
}

fn sha256(bytes: Bytes) -> Option<String> {
    let shape = [bytes.len()];
    let array = Array::new(DType::U8, &shape, bytes).ok()?;
    Some(array.sha256())
}

/// Whether some bytes contain others.
fn find(all: &[u8], part: &[u8]) -> bool {
    let Some((first, rest)) = part.split_first() else {
        return true;
    };
    let mut from = all;
    while let Some(at) = from.iter().position(|byte| byte == first) {
        from = &from[at + 1..];
        if from.starts_with(rest) {
            return true;
        }
    }
    false
}
