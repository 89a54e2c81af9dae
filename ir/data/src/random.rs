//! Seeded random arrays whose bytes never change: splitmix64 and exact conversions.

use bytes::Bytes;

use crate::array::free_len;
use crate::{Array, DType, DataError};

/// The generator splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", OOPSLA 2014), seeded with its state. Its outputs for a seed are fixed for ever.
///
/// It fits tests and made-up inputs; it is no source of secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator whose state is `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A generator that depends on a seed and a name: its state is the seed with the bits flipped that the hash FNV-1a
    /// (Fowler, Noll, Vo) of the name has set.
    pub fn named(seed: u64, name: &str) -> Random {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Random(seed ^ name.bytes().fold(0xcbf2_9ce4_8422_2325, step))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound` (0 if `bound` is 0): the high word of bits times bound, so very
    /// slightly uneven for bounds near 2^64.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, cases: usize) -> bool {
        self.below(100) < cases
    }

    /// One of some; none of none.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        match from.len() {
            0 => None,
            n => from.get(self.below(n)).cloned(),
        }
    }

    /// Brings things into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

impl Array {
    /// A seeded random array; the bytes for a type, shape and seed are fixed for ever.
    ///
    /// Element k is made from the k-th output u of [`Random::new`]`(seed)`:
    /// floats are uniform in [-1, 1) on the grid that the type holds exactly
    /// (f64: u's top 53 bits, f32: 24, f16: 11, bf16: 8; divided by half their range, less 1),
    /// signed integers uniform in -8..=7 and unsigned ones in 0..=15 (top 4 bits), bool the top bit.
    ///
    /// # Errors
    /// If its size in bytes overflows, or is more than there is memory.
    pub fn random(dtype: DType, shape: &[usize], seed: u64) -> Result<Array, DataError> {
        let len = free_len(dtype, shape)?;
        let count = len / dtype.size();
        let mut rng = Random::new(seed);
        // The top `bits` bits as a fraction in [-1, 1).
        let mut unit = |bits: u32| {
            let half = (1u64 << (bits - 1)) as f64;
            ((rng.next_u64() >> (64 - bits)) as f64 - half) / half
        };
        match dtype {
            DType::F64 => Array::from_vec(shape, (0..count).map(|_| unit(53)).collect()),
            DType::F32 => Array::from_vec(shape, (0..count).map(|_| unit(24) as f32).collect()),
            DType::F16 => Array::from_vec(
                shape,
                (0..count).map(|_| half::f16::from_f64(unit(11))).collect(),
            ),
            DType::BF16 => Array::from_vec(
                shape,
                (0..count).map(|_| half::bf16::from_f64(unit(8))).collect(),
            ),
            DType::Bool => {
                let values: Vec<bool> = (0..count).map(|_| rng.next_u64() >> 63 == 1).collect();
                Array::from_bools(shape, &values)
            }
            _ => {
                let offset = match dtype {
                    DType::U8 | DType::U16 | DType::U32 | DType::U64 => 0,
                    _ => 8,
                };
                let mut data = Vec::with_capacity(len);
                for _ in 0..count {
                    // Two's complement: the low bytes of an i64 are the narrower integer.
                    let v = (rng.next_u64() >> 60) as i64 - offset;
                    data.extend(v.to_le_bytes().into_iter().take(dtype.size()));
                }
                Array::new(dtype, shape, Bytes::from(data))
            }
        }
    }
}
