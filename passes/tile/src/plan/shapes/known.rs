//! What is known by the sizes of some iterators.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::layout::Space;

/// A hash of sizes: they are small, and nobody chooses them so that they collide.
#[derive(Default)]
struct Sizes(u64);

impl Hasher for Sizes {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
    fn write(&mut self, bytes: &[u8]) {
        for eight in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..eight.len()].copy_from_slice(eight);
            self.write_u64(u64::from_le_bytes(word));
        }
    }
    fn write_u64(&mut self, n: u64) {
        // The golden ratio as a fraction of 64 bits: multiples of it lie far apart.
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}

/// What is known by the sizes of some iterators.
pub(super) struct Known<T> {
    pub(super) iterators: Vec<usize>,
    by_sizes: HashMap<Vec<i64>, T, BuildHasherDefault<Sizes>>,
    /// The sizes that were asked for last.
    sizes: Vec<i64>,
}

impl<T: Clone> Known<T> {
    pub(super) fn new(iterators: Vec<usize>) -> Self {
        Self {
            iterators,
            by_sizes: HashMap::default(),
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
