//! What fits an op, found by trying and shared by all rules that have it on the left.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tir::data::Random;
use tir::{Name, Type};

use crate::Options;
use crate::corpus::Corpus;
use crate::sample::{self, Sampler};

/// Attempts to learn what fits an op.
const WARM_UP: usize = 300;

/// What fits ops, found once for all rules.
pub(crate) struct WarmUp {
    seed: u64,
    types: Arc<[Type]>,
    ops: Mutex<BTreeMap<&'static str, Arc<Corpus>>>,
}

impl WarmUp {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            seed: options.seed,
            types: options.types.as_slice().into(),
            ops: Mutex::default(),
        }
    }
    /// Nothing is known of ops yet.
    pub(crate) fn corpus(&self) -> Corpus {
        Corpus::new(self.types.clone())
    }
    /// What fits an op, the same whoever asks first; `None` if it is not known.
    pub(crate) fn of(&self, name: Name) -> Option<Arc<Corpus>> {
        let lock = || self.ops.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(name.as_str()) {
            return Some(known.clone());
        }
        let any = sample::any(name.info()?)?;
        let mut corpus = self.corpus();
        let mut random = Random::named(self.seed, name.as_str());
        for _ in 0..WARM_UP {
            Sampler::new(&any, &mut corpus, &mut random).sample();
        }
        let corpus = Arc::new(corpus);
        lock().insert(name.as_str(), corpus.clone());
        Some(corpus)
    }
}
