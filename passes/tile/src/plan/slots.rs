//! Which of the tiles that lie in near memory at once have one slot.

use tir_accel::machine::SpaceInfo;

use super::places::Excess;
use super::traffic::Holder;

/// Which holders get one slot so that all fit: those that expose the fewest cycles for the bytes they give,
/// where one is not enough.
pub fn fit(
    holders: &[Holder],
    spaces: &[&SpaceInfo],
    excess: impl Fn(&[i64]) -> Option<Excess>,
) -> Vec<bool> {
    let mut single = vec![false; holders.len()];
    let mut bytes: Vec<i64> = holders.iter().map(|holder| holder.bytes).collect();
    while let Some(excess) = excess(&bytes) {
        let over = excess.needed - excess.free;
        let gain = |i: usize| holders[i].bytes - holders[i].one;
        let here = |i: &usize| spaces[*i].name == excess.space;
        let left = (0..holders.len()).filter(|i| !single[*i] && gain(*i) > 0);
        // More than what is over is no use.
        let price = |i: &usize| {
            let cycles = holders[*i].exposed.saturating_mul(1 << 10);
            (cycles / gain(*i).min(over), std::cmp::Reverse(gain(*i)))
        };
        let Some(next) = left.filter(here).min_by_key(price) else {
            break;
        };
        single[next] = true;
        bytes[next] = holders[next].one;
    }
    // What a later one made needless, those that expose the most first.
    let mut given: Vec<usize> = (0..holders.len()).filter(|i| single[*i]).collect();
    given.sort_by_key(|i| (std::cmp::Reverse(holders[*i].exposed), *i));
    for i in given {
        bytes[i] = holders[i].bytes;
        single[i] = excess(&bytes).is_some();
        if single[i] {
            bytes[i] = holders[i].one;
        }
    }
    single
}
