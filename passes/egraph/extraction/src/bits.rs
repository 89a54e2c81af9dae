//! Sets of small numbers.

/// A set of numbers below a limit given when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    /// The empty set of numbers below `limit`.
    pub fn none(limit: usize) -> Bits {
        Bits(vec![0; limit.div_ceil(64)])
    }

    /// All numbers below `limit`.
    pub fn all(limit: usize) -> Bits {
        let mut words = vec![u64::MAX; limit.div_ceil(64)];
        if let (Some(last), 1..) = (words.last_mut(), limit % 64) {
            *last = (1 << (limit % 64)) - 1;
        }
        Bits(words)
    }

    pub fn has(&self, i: usize) -> bool {
        self.0[i / 64] >> (i % 64) & 1 == 1
    }

    /// Puts `i` in; whether it was not there.
    pub fn add(&mut self, i: usize) -> bool {
        let new = !self.has(i);
        self.0[i / 64] |= 1 << (i % 64);
        new
    }

    pub fn remove(&mut self, i: usize) {
        self.0[i / 64] &= !(1 << (i % 64));
    }

    /// The members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(i, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                (left != 0).then(|| left &= left - 1)?;
                Some(i * 64 + bit)
            })
        })
    }
}
