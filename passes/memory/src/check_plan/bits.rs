//! Sets of numbers that lie near each other.

use smallvec::SmallVec;

/// A set of numbers; takes as many bits as there are from the least to the greatest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits {
    /// Where the first word begins, in words.
    base: usize,
    words: SmallVec<[u64; 2]>,
}

impl Bits {
    pub(super) fn has(&self, number: u32) -> bool {
        let (word, bit) = place(number);
        let word = word.checked_sub(self.base);
        let word = word.and_then(|word| self.words.get(word));
        word.is_some_and(|word| word & bit != 0)
    }

    pub(super) fn insert(&mut self, number: u32) {
        let (word, bit) = place(number);
        self.cover(word, word + 1);
        self.words[word - self.base] |= bit;
    }

    /// Adds all of another set; whether one was new.
    pub(super) fn extend(&mut self, other: &Bits) -> bool {
        if other.words.is_empty() {
            return false;
        }
        self.cover(other.base, other.base + other.words.len());
        let mut new = false;
        let words = self.words[other.base - self.base..].iter_mut();
        for (word, more) in words.zip(&other.words) {
            new |= more & !*word != 0;
            *word |= more;
        }
        new
    }

    /// How many numbers there is room for.
    pub(super) fn spread(&self) -> usize {
        64 * self.words.len()
    }

    /// Makes room for the words from one to below another.
    fn cover(&mut self, from: usize, to: usize) {
        if self.words.is_empty() {
            self.base = from;
        }
        if from < self.base {
            let more = SmallVec::<[u64; 2]>::from_elem(0, self.base - from);
            self.words.insert_many(0, more);
            self.base = from;
        }
        let words = (to - self.base).max(self.words.len());
        self.words.resize(words, 0);
    }
}

fn place(number: u32) -> (usize, u64) {
    (number as usize / 64, 1 << (number % 64))
}
