//! What was found once, for all threads of a run.

use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

/// Answers by what they depend on, and on nothing else: whoever asks first, on whichever thread, the answer is the same. Passes have
/// them in what they [share](crate::PassCx::shared).
pub struct Memo<K, V>(Mutex<FxHashMap<K, V>>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Memo<K, V> {
    fn open(&self) -> MutexGuard<'_, FxHashMap<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to what was asked before.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<V> {
        self.open().get(key).cloned()
    }

    /// The answer, found now unless it is known. Others may find the same meanwhile: nobody waits for it.
    pub fn or_find(&self, key: K, find: impl FnOnce() -> V) -> V {
        if let Some(known) = self.get(&key) {
            return known;
        }
        let found = find();
        self.open().entry(key).or_insert(found).clone()
    }
}

impl<K: Eq + Hash, V: Clone> Memo<K, Vec<V>> {
    /// Adds to a list of answers.
    pub fn push(&self, key: K, found: V) {
        self.open().entry(key).or_default().push(found);
    }
}
