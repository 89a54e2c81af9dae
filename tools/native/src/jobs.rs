//! Parts of a library, compiled by threads.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use melior::Context;
use melior::ir::Module;

use crate::cache::key;
use crate::clock::Clock;
use crate::llvm::Emit;
use crate::lower::{compile, context};
use crate::options::Options;
use crate::parts::Part;

/// Where objects lie: in the cache, or in a folder of their own that goes with this.
pub struct Objects {
    folder: PathBuf,
    kept: bool,
}

impl Objects {
    pub fn new(options: &Options, output: &Path) -> Result<Self, String> {
        let kept = options.cache.clone();
        let own = || output.with_extension(format!("{}.parts", std::process::id()));
        let made = Self {
            kept: kept.is_some(),
            folder: kept.unwrap_or_else(own),
        };
        let folder = &made.folder;
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(made)
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        if !self.kept {
            // What is left lies beside the output, with its name.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// Parts that are compiled.
pub struct Jobs<'a> {
    options: &'a Options,
    parts: &'a [Part],
    files: Vec<PathBuf>,
    /// Numbers of parts, the largest first.
    order: Vec<usize>,
    next: AtomicUsize,
    errors: Mutex<Vec<(usize, String)>>,
}

impl<'a> Jobs<'a> {
    pub fn new(options: &'a Options, parts: &'a [Part], objects: &Objects) -> Self {
        let files = parts.iter().map(|part| {
            let mut key = key(options, &part.text, "part");
            key += ".o";
            objects.folder.join(key)
        });
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|k| std::cmp::Reverse(parts[*k].text.len()));
        Self {
            options,
            parts,
            files: files.collect(),
            order,
            next: AtomicUsize::new(0),
            errors: Mutex::default(),
        }
    }

    /// Compiles what nobody has begun, until nothing is left.
    pub fn work(&self, clock: &mut Clock) {
        let mut own = None;
        while let Some(k) = self.order.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let file = &self.files[*k];
            if !self.options.fresh && file.exists() {
                continue;
            }
            let context = own.get_or_insert_with(|| context(true));
            if let Err(why) = self.one(context, &self.parts[*k], file, clock) {
                let errors = self.errors.lock();
                errors.unwrap_or_else(|p| p.into_inner()).push((*k, why));
            }
        }
    }

    fn one(
        &self,
        context: &Context,
        part: &Part,
        file: &Path,
        clock: &mut Clock,
    ) -> Result<(), String> {
        let input = &self.options.input;
        let module = Module::parse(context, &part.text);
        let mut module = module.ok_or_else(|| format!("a part of '{input}' does not parse"))?;
        clock.lap("parse parts");
        let symbols = part.symbols(false);
        // Others may make the same at the same time: whole files alone appear under the name.
        let own = file.with_extension(format!("{}.tmp", std::process::id()));
        let (options, emit) = (self.options, Emit::Object);
        compile(options, context, &mut module, &symbols, emit, &own, clock)?;
        std::fs::rename(&own, file).map_err(|e| format!("{}: {e}", file.display()))
    }

    /// The objects in the order of the parts, or the first error in that order.
    pub fn done(&self) -> Result<Vec<PathBuf>, String> {
        let errors = self.errors.lock().unwrap_or_else(|p| p.into_inner());
        match errors.iter().min_by_key(|(k, _)| *k) {
            Some((_, why)) => Err(why.clone()),
            None => Ok(self.files.clone()),
        }
    }
}
