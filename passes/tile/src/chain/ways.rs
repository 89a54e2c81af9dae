//! Ways to cut the sequence of groups in chains, and the one that is quickest, or moves the fewest bytes, with what stays
//! between its nests.
//!
//! A nest of several stages keeps what they hand on in near memory that tensors between nests could stay in. Which of them
//! moves less is known when all is decided. So several ways are: the quickest with chains of so many groups at most, for each
//! number. Then, where a tensor of the best one does not stay, the groups between which it lies are cut as in another way.

use super::resident::Settled;

/// The first group of each chain, and how many it has.
pub(super) type Way = Vec<(usize, usize)>;

/// Of the chains that begin with a group, how many groups each has, and its cycles.
pub(super) type Priced = Vec<(usize, i64)>;

/// Ways that are tried at most beside those of chains of so many groups.
const CROSSED: usize = 12;

/// Other ways are tried for time where all nests are quicker by one in so many cycles for what stays between them: where it
/// matters little what stays, so does how that is cut.
const STAYS: i64 = 10;

/// Of ways that take one in so many cycles more before anything stays none is tried for time, but nests of one group each.
const SLOWER: i64 = 12;

/// A way is quicker by one in so many cycles, as estimates are not exact.
const QUICKER: i64 = 50;

/// Of the groups from one on, the fewest cycles with chains of so many groups at most, and how many the first one has; given
/// the chains that begin with each group.
pub(super) fn quickest(all: &[Priced], most: usize) -> Vec<(i64, usize)> {
    let mut best = vec![(0i64, 0usize); all.len() + 1];
    for (first, chains) in all.iter().enumerate().rev() {
        let inside = |n: usize| n <= most && first + n <= all.len();
        let chains = chains.iter().filter(|(n, _)| inside(*n));
        let chains = chains.map(|(n, cycles)| (cycles.saturating_add(best[first + n].0), *n));
        // Of equal ones the shorter.
        best[first] = chains.min().unwrap_or((0, 1));
    }
    best
}

/// The chains of a way to cut the sequence: the first group of each, and how many it has.
pub(super) fn cut(best: &[(i64, usize)]) -> Way {
    let (mut chains, mut first) = (Vec::new(), 0);
    while first + 1 < best.len() {
        let n = best[first].1.max(1);
        chains.push((first, n));
        first += n;
    }
    chains
}

/// The ways with chains of so many groups at most and of fewer, each with its cycles before anything stays.
fn ways(all: &[Priced], most: usize) -> Vec<(Way, i64)> {
    let mut ways: Vec<(Way, i64)> = Vec::new();
    for n in (1..=most.min(all.len().max(1))).rev() {
        let best = quickest(all, n);
        let (way, cycles) = (cut(&best), best[0].0);
        if ways.iter().all(|(known, _)| *known != way) {
            ways.push((way, cycles));
        }
    }
    ways
}

/// What stays between the nests of the way that is quickest with it, where much is quicker for what stays.
///
/// Nests of several stages are quicker than their groups apart, whose tensors go through far memory; where these could
/// stay, nests of fewer are quicker still.
pub(super) fn least_cycles(
    all: &[Priced],
    most: usize,
    stays: impl Fn(&[(usize, usize)]) -> Settled,
) -> Settled {
    let ways = ways(all, most);
    let (first, apart) = &ways[0];
    let best = stays(first);
    if apart.saturating_sub(best.price.cycles) < apart / STAYS {
        return best;
    }
    let limit = apart.saturating_add(apart / SLOWER);
    let others = ways[1..].iter();
    let others =
        others.filter(|(way, cycles)| *cycles <= limit || way.iter().all(|(_, n)| *n == 1));
    let others: Vec<Settled> = others.map(|(way, _)| stays(way)).collect();
    let enough = |settled: &Settled| {
        let cycles = settled.price.cycles;
        cycles.saturating_add(cycles / QUICKER)
    };
    let least = others.iter().map(enough).min();
    let Some(least) = least.filter(|least| *least < best.price.cycles) else {
        return best;
    };
    // Of about equal ones that with the shortest chains, of which estimates are most exact.
    let shortest = others
        .into_iter()
        .rev()
        .find(|other| other.price.cycles <= least);
    shortest.unwrap_or(best)
}

/// What stays between the nests of the way that moves the least, with chains of so many groups at most.
pub(super) fn least_moved(
    all: &[Priced],
    most: usize,
    stays: impl Fn(&[(usize, usize)]) -> Settled,
) -> Settled {
    let ways: Vec<Way> = ways(all, most).into_iter().map(|(way, _)| way).collect();
    let mut best = stays(&ways[0]);
    let mut taken = ways[0].clone();
    for way in &ways[1..] {
        let other = stays(way);
        if other.price.weighed < best.price.weighed {
            (best, taken) = (other, way.clone());
        }
    }
    let mut tried = ways.clone();
    let mut left = CROSSED;
    while let Some(way) = next(&best, &taken, &ways, &tried).filter(|_| left > 0) {
        left -= 1;
        let other = stays(&way);
        if other.price.weighed < best.price.weighed {
            (best, taken) = (other, way.clone());
        }
        tried.push(way);
    }
    best
}

/// A way that was not tried yet: that of what is best, with the groups around a tensor that does not stay, the largest first,
/// cut as in another one.
fn next(best: &Settled, taken: &Way, ways: &[Way], tried: &[Way]) -> Option<Way> {
    let mut far: Vec<_> = best.far.iter().collect();
    far.sort_by_key(|far| std::cmp::Reverse(far.bytes));
    let mut crossed = far.into_iter().flat_map(|far| {
        let ways = ways.iter().rev();
        ways.map(move |other| crossed(taken, other, far.groups))
    });
    crossed.find(|way| !tried.contains(way))
}

/// A way with some groups, from the first to the last one, in chains of another way.
fn crossed(way: &Way, other: &Way, (mut first, mut last): (usize, usize)) -> Way {
    // From where both have a chain that begins to where both have one that ends.
    loop {
        let meets = |(start, n): &&(usize, usize)| *start <= last && start + n > first;
        let chains = way.iter().chain(other).filter(meets);
        let (start, end) = chains.fold((first, last), |(start, end), (s, n)| {
            (start.min(*s), end.max(s + n - 1))
        });
        if (start, end) == (first, last) {
            break;
        }
        (first, last) = (start, end);
    }
    let inside = |(start, _): &(usize, usize)| (first..=last).contains(start);
    let kept = way.iter().filter(|chain| !inside(chain));
    let new = other.iter().filter(|chain| inside(chain));
    let mut crossed: Way = kept.chain(new).copied().collect();
    crossed.sort_unstable();
    crossed
}

#[cfg(test)]
mod tests {
    use super::{Settled, crossed, cut, least_cycles, quickest};
    use crate::plan::Price;

    /// Nests that take so many cycles with what stays between them; told apart by what they are worth.
    fn settled(cycles: i64, weighed: i64) -> Settled {
        Settled {
            nests: Vec::new(),
            residents: Vec::new(),
            far: Vec::new(),
            price: Price { cycles, weighed },
        }
    }

    #[test]
    fn other_ways_are_tried_where_much_is_quicker_for_what_stays() {
        // Chains of three take 100, of two 105, of one 140.
        let all = [
            vec![(1, 60), (2, 65), (3, 100)],
            vec![(1, 40), (2, 80)],
            vec![(1, 40)],
        ];
        let of = |cycles: [i64; 3]| {
            let tried = std::cell::Cell::new(0);
            let found = least_cycles(&all, 3, |way| {
                tried.set(tried.get() + 1);
                let longest = way.iter().map(|(_, n)| *n).max().unwrap_or(0);
                settled(cycles[longest - 1], longest as i64)
            });
            (found.price.weighed, tried.get())
        };
        assert_eq!(of([50, 50, 91]), (3, 1));
        assert_eq!(of([90, 70, 80]), (2, 3));
        // About as quick is quicker with shorter chains, and not quicker than the longest ones.
        assert_eq!(of([71, 70, 80]), (1, 3));
        assert_eq!(of([79, 79, 80]), (3, 3));
        assert_eq!(of([90, 90, 80]), (3, 3));
    }

    #[test]
    fn chains_of_so_many_groups_at_most() {
        let all = [vec![(1, 5), (2, 6), (3, 6)], vec![(1, 4)], vec![(1, 3)]];
        assert_eq!(cut(&quickest(&all, 9)), [(0, 3)]);
        assert_eq!(cut(&quickest(&all, 2)), [(0, 2), (2, 1)]);
        assert_eq!(cut(&quickest(&all, 1)), [(0, 1), (1, 1), (2, 1)]);
    }

    #[test]
    fn crosses_where_both_begin_a_chain() {
        let way = vec![(0, 2), (2, 2), (4, 1)];
        let other = vec![(0, 1), (1, 2), (3, 1), (4, 1)];
        assert_eq!(crossed(&way, &other, (2, 2)), other);
        assert_eq!(crossed(&way, &other, (4, 4)), way);
    }
}
