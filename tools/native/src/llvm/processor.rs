//! What processor machine code is made for, and what a library has to ask of the one that it runs on.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::sync::LazyLock;

use crate::features::KNOWN;

use super::raw::{
    FUNCTION, LLVMGetHostCPUFeatures, LLVMGetHostCPUName, LLVMGetStringAttributeAtIndex,
    LLVMGetStringAttributeValue, Ref, tir_x86_features,
};
use super::symbols::functions;
use super::{taken, text};

/// What machine code is made for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Processor {
    /// LLVM's name of it.
    pub name: String,
    /// What it has beyond, or lacks, of what the name says: `+avx2,-avx512f`.
    pub features: String,
    /// Bits of vectors to use.
    pub vector: u32,
}

impl Processor {
    /// The one that this program runs on, asked once: each part is for it, and a virtual machine is slow to answer.
    pub fn host() -> &'static Self {
        static HOST: LazyLock<Processor> = LazyLock::new(|| {
            // SAFETY: both give text that is to be disposed.
            let (name, features) =
                unsafe { (taken(LLVMGetHostCPUName()), taken(LLVMGetHostCPUFeatures())) };
            Processor {
                vector: vector_bits(&features),
                name,
                features,
            }
        });
        &HOST
    }
    /// One of a name.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_string(),
            features: String::new(),
            vector: 256,
        }
    }
    /// The one that the functions of a module say they are for, if they do.
    ///
    /// # Safety
    /// `module` is a module of LLVM.
    unsafe fn said(module: Ref) -> Option<Self> {
        let function = unsafe { functions(module) }.into_iter().next()?;
        let value = |key: &CStr| unsafe {
            let length = key.count_bytes() as c_uint;
            let attribute = LLVMGetStringAttributeAtIndex(function, FUNCTION, key.as_ptr(), length);
            if attribute.is_null() {
                return None;
            }
            let mut length = 0;
            let text = LLVMGetStringAttributeValue(attribute, &mut length);
            let bytes = std::slice::from_raw_parts(text.cast::<u8>(), length as usize);
            Some(String::from_utf8_lossy(bytes).to_string())
        };
        let named = Self::named(&value(c"target-cpu")?);
        let vector = value(c"prefer-vector-width").and_then(|bits| bits.parse().ok());
        Some(Self {
            features: value(c"target-features").unwrap_or_default(),
            vector: vector.unwrap_or(named.vector),
            ..named
        })
    }
    /// What code for it needs, of what there is a question for: LLVM's names, in the order of [`KNOWN`].
    ///
    /// # Errors
    /// If the processor is not known, or is said to have something that no library can ask for.
    pub(super) fn needs(&self) -> Result<Vec<&'static str>, String> {
        unsafe extern "C" fn take(to: *mut c_void, text: *const c_char, length: usize) {
            // SAFETY: as `tir_x86_features` is called below.
            let (all, bytes) = unsafe {
                let all = &mut *to.cast::<Vec<String>>();
                (all, std::slice::from_raw_parts(text.cast::<u8>(), length))
            };
            all.push(String::from_utf8_lossy(bytes).to_string());
        }
        let mut all: Vec<String> = Vec::new();
        if cfg!(target_arch = "x86_64") {
            let name = text(&self.name)?;
            // SAFETY: `take` gets the list that it is called with.
            let known = unsafe { tir_x86_features(name.as_ptr(), take, (&raw mut all).cast()) };
            // That of the host may be new to LLVM: then its features say all.
            if !known && self.features.is_empty() {
                return Err(format!("LLVM knows no processor '{}'", self.name));
            }
        }
        for feature in self.features.split(',').filter(|f| !f.is_empty()) {
            match feature.split_at_checked(1) {
                Some(("+", name)) => all.push(name.to_string()),
                Some(("-", name)) => all.retain(|had| had != name),
                _ => return Err(format!("feature '{feature}': expected +NAME or -NAME")),
            }
        }
        let known = KNOWN.iter().copied();
        Ok(known
            .filter(|name| all.iter().any(|had| had == name))
            .collect())
    }
    /// The same with other features behind its own.
    fn with(mut self, features: &str) -> Self {
        if !self.features.is_empty() && !features.is_empty() {
            self.features.push(',');
        }
        self.features += features;
        self
    }
}

/// The first feature that is wanted and that no library can ask for.
fn unknown<'a>(lists: &[&'a str]) -> Option<&'a str> {
    let all = lists.iter().flat_map(|list| list.split(','));
    let mut wanted = all.filter_map(|feature| feature.strip_prefix('+'));
    wanted.find(|name| !KNOWN.contains(name))
}

/// What is asked for of a processor.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    /// The processor; without one that which the functions say they are for, else this one.
    pub processor: Option<Processor>,
    /// What it has beyond, or lacks: behind what is known of it.
    pub features: String,
    /// Bits of vectors to use; without it as many as it has.
    pub vector: Option<u32>,
}

impl Asked {
    /// The processor for a module.
    ///
    /// # Safety
    /// `module` is a module of LLVM.
    pub(super) unsafe fn resolve(&self, module: Ref) -> Result<Processor, String> {
        let processor = self.processor.clone();
        let named = processor.or_else(|| unsafe { Processor::said(module) });
        // What LLVM finds out of this processor goes beyond what code is made of.
        let said = named.as_ref().filter(|p| *p != Processor::host());
        let said = said.map_or("", |p| &p.features);
        if let Some(unknown) = unknown(&[said, &self.features]) {
            return Err(format!(
                "a library cannot find out whether a processor has '{unknown}'; it can for {}",
                KNOWN.join(", ")
            ));
        }
        let processor = named
            .unwrap_or_else(|| Processor::host().clone())
            .with(&self.features);
        let vector = self.vector.unwrap_or(processor.vector);
        Ok(Processor {
            vector,
            ..processor
        })
    }
}

/// Bits of the vectors that a processor with these features has.
fn vector_bits(features: &str) -> u32 {
    let has = |wanted: &str| features.split(',').any(|f| f == wanted);
    match () {
        () if has("+avx512f") => 512,
        () if has("+avx") => 256,
        () => 128,
    }
}
