//! What is known by the sizes of some iterators.

use rustc_hash::FxHashMap;

use crate::layout::Space;

/// What is known by the sizes of some iterators.
pub(super) struct Known<T> {
    pub(super) iterators: Vec<usize>,
    by_sizes: FxHashMap<Vec<i64>, T>,
    /// The sizes that were asked for last.
    sizes: Vec<i64>,
}

impl<T: Clone> Known<T> {
    pub(super) fn new(iterators: Vec<usize>) -> Self {
        Self {
            iterators,
            by_sizes: FxHashMap::default(),
            sizes: Vec::new(),
        }
    }

    pub(super) fn get(&mut self, space: &Space, make: impl FnOnce() -> T) -> T {
        self.sizes.clear();
        self.sizes
            .extend(self.iterators.iter().map(|d| space.tile[*d]));
        if let Some(known) = self.by_sizes.get(&self.sizes) {
            return known.clone();
        }
        let made = make();
        self.by_sizes.insert(self.sizes.clone(), made.clone());
        made
    }
}
