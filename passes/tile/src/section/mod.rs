//! Sections: nests of an inner level whose tensors lie in the memory of the level around it.
//!
//! Where memory has levels, the outer one is tiled group by group, and each result goes to far memory and back. If that
//! memory holds the tensors that some nests hand on, these need not leave it: a *section* is a run of nests that are
//! planned as for a machine on which it were far memory, with several stages each and with what stays near between them.
//! What they read from outside, weights above all, is loaded as a whole, as early as memory has room for it; what others
//! need of their results is stored as a whole. What one nest hands on between its stages takes no place at all.
//!
//! A section takes as long as its nests do, one behind the other, each of which waits for what it loads (`times`). Of
//! all ways to cut the sequence of nests in sections and in groups that are tiled one by one, the quickest is taken.
//! Where memory does not hold the tensors of a section, its results are computed in `pieces`, one behind the other.
//! `tensors` knows who reads and writes which tensor; `write` makes the transfers, `pieces_write` those of pieces.

mod pieces;
mod pieces_write;
mod tensors;
mod times;
mod write;

use std::collections::{HashMap, HashSet};

use tir::{Ir, Name, OpId};
use tir_tensor::Generic;

use crate::chain::Single;
use crate::plan::Target;
use pieces::{Boxes, Cut, domain, elements};
use tensors::{Needs, Read, Tensors};
use times::{Link, Load, Runs, run};

/// Nests in a section at most: the time to look for sections grows with its square.
const MOST: usize = 96;

/// Nests at most in a section that is computed in pieces: more of them have more rows in common.
const PIECED: usize = 12;

/// In how many pieces sections are computed.
const PIECES: [usize; 3] = [2, 4, 8];

/// Sections load and store their first and last tensors as wholes, and pieces are estimated by their share of that: what
/// saves less than one in so many cycles is no gain.
const MARGIN: i64 = 12;

/// A nest of the inner level as it is planned.
#[derive(Debug)]
pub(crate) struct Nest {
    /// The generic that it ends in.
    pub(crate) root: OpId,
    /// The generics that it computes.
    pub(crate) ops: HashSet<OpId>,
    /// Estimated cycles.
    pub(crate) cycles: i64,
    /// Whether units compute all of it.
    pub(crate) helps: bool,
}

/// Nests that are computed in the memory of a level.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// The generics that they compute.
    pub(crate) ops: HashSet<OpId>,
    /// The same by nests, in order, the one that the nest ends in last.
    nests: Vec<Vec<OpId>>,
    /// What they read from outside, in the order in which it is loaded, and before which nest.
    loads: Vec<(Read, usize)>,
    /// What each piece computes, if it is computed in pieces.
    pieces: Vec<Boxes>,
    /// Estimated cycles.
    pub(crate) cycles: i64,
}

/// How a section may run.
#[derive(Clone, Debug)]
struct Way {
    runs: Runs,
    pieces: Vec<Boxes>,
}

/// What a generic of a section is a copy of, and for which piece.
pub(crate) type Copied = (OpId, OpId, usize);

/// Makes the generics of a section work in a space; gives them all.
pub(crate) fn write(func: &mut Ir, section: &Section, space: Name) -> Vec<Copied> {
    match section.pieces.is_empty() {
        true => write::write(func, section, space),
        false => pieces_write::write(func, section, space),
    }
}

/// How a function is computed on the outer one of two levels.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    /// The sections, in order.
    pub(crate) sections: Vec<Section>,
    /// Estimated cycles of all.
    pub(crate) cycles: i64,
    /// How many groups there are, and how many of them are in no section.
    pub(crate) groups: usize,
    pub(crate) alone: usize,
}

/// The quickest way to compute some groups, tiled one by one (`singles`, the last one first), or in sections of nests, in
/// order.
pub(crate) fn choose(
    ir: &Ir,
    singles: &[Single],
    nests: &[Nest],
    target: &Target<'_>,
    thread: i64,
) -> Sections {
    let count = nests.len();
    let alone = |cycles: i64| Sections {
        sections: Vec::new(),
        cycles,
        groups: singles.len(),
        alone: singles.len(),
    };
    let all = singles.iter().map(|single| single.plan.cycles);
    let all = all.fold(0, i64::saturating_add);
    let Some(link) = Link::of(target, thread) else {
        return alone(all);
    };
    let place: HashMap<OpId, usize> = nests
        .iter()
        .enumerate()
        .flat_map(|(i, nest)| nest.ops.iter().map(move |op| (*op, i)))
        .collect();
    // Groups of the outer level that are in several nests, and cycles of those that are in one.
    let mut whole = vec![true; count + 1];
    let mut tiled = vec![0i64; count];
    for single in singles {
        let within = single.group.ops.iter().map(|op| place.get(op).copied());
        let Some(within) = within.collect::<Option<Vec<usize>>>() else {
            return alone(all);
        };
        let (Some(first), Some(last)) = (within.iter().min(), within.iter().max()) else {
            continue;
        };
        whole[first + 1..=*last].fill(false);
        tiled[*first] = tiled[*first].saturating_add(single.plan.cycles);
    }
    let numbers = ir.walk_ids().into_iter().enumerate();
    let numbers: HashMap<OpId, usize> = numbers.map(|(i, op)| (op, i)).collect();
    let ops = nests.iter().map(|nest| {
        let mut ops: Vec<OpId> = nest.ops.iter().copied().collect();
        ops.sort_unstable_by_key(|op| numbers.get(op));
        ops
    });
    let search = Search {
        ir,
        nests,
        ops: ops.collect(),
        tensors: Tensors::new(ir, nests, &place),
        link,
    };
    let block = |i: usize| ir.block_of(nests[i].root);
    // Of the nests before each one the fewest cycles, where the last piece begins, and that if it is a section.
    let mut best: Vec<Option<(i64, usize, Option<Way>)>> = vec![None; count + 1];
    best[0] = Some((0, 0, None));
    for end in (1..=count).filter(|end| whole[*end]).collect::<Vec<_>>() {
        let mut apart = 0i64;
        let mut least: Option<(i64, usize, Option<Way>)> = None;
        let mut single = true;
        for start in (end.saturating_sub(MOST)..end).rev() {
            apart = apart.saturating_add(tiled[start]);
            let Some((before, ..)) = best[start].as_ref().filter(|_| whole[start]) else {
                continue;
            };
            let before = *before;
            if std::mem::take(&mut single) {
                least = Some((before.saturating_add(apart), start, None));
            }
            if !nests[start].helps || block(start) != block(end - 1) {
                break;
            }
            let Some(way) = search.way(start..end) else {
                continue;
            };
            let all = before.saturating_add(way.runs.cycles);
            if least.as_ref().is_none_or(|(least, ..)| all < *least) {
                least = Some((all, start, Some(way)));
            }
        }
        best[end] = least;
    }
    let mut sections = Vec::new();
    let mut end = count;
    while end > 0 {
        let Some((_, start, way)) = best[end].take() else {
            return alone(all);
        };
        if let Some(Way { runs, pieces }) = way {
            let ops = nests[start..end].iter().flat_map(|nest| &nest.ops);
            let loads = runs.loads.into_iter();
            let loads = loads.map(|Load { read, at, .. }| (read, at));
            sections.push(Section {
                ops: ops.copied().collect(),
                nests: search.ops[start..end].to_vec(),
                loads: loads.collect(),
                pieces,
                cycles: runs.cycles,
            });
        }
        end = start;
    }
    sections.reverse();
    let outside = |single: &&Single| {
        let mut ops = single.group.ops.iter();
        !ops.any(|op| sections.iter().any(|section| section.ops.contains(op)))
    };
    let alone: Vec<&Single> = singles.iter().filter(outside).collect();
    let cycles = alone.iter().map(|single| single.plan.cycles);
    let cycles = cycles.chain(sections.iter().map(|section| section.cycles));
    Sections {
        cycles: cycles.fold(0, i64::saturating_add),
        groups: singles.len(),
        alone: alone.len(),
        sections,
    }
}

/// What ways to run sections are looked for in.
struct Search<'a> {
    ir: &'a Ir,
    nests: &'a [Nest],
    /// The generics of each nest, in order.
    ops: Vec<Vec<OpId>>,
    tensors: Tensors<'a>,
    link: Link<'a>,
}

impl Search<'_> {
    /// How some nests run as a section, if they can: as a whole, or in pieces where memory does not hold that.
    fn way(&self, nests: std::ops::Range<usize>) -> Option<Way> {
        let needs = self.tensors.of(nests.clone())?;
        let cycles: Vec<i64> = self.nests[nests.clone()]
            .iter()
            .map(|nest| nest.cycles)
            .collect();
        if let Some(runs) = self.run(&cycles, &needs) {
            let pieces = Vec::new();
            return Some(Way { runs, pieces });
        }
        if nests.len() > PIECED {
            return None;
        }
        let ops: Vec<OpId> = self.ops[nests.clone()].concat();
        let stored = self.tensors.stored(&ops);
        let dims = stored.iter().filter_map(|value| self.ir.ty(*value).shape());
        let rank = dims.map(<[i64]>::len).min()?;
        for pieces in PIECES {
            let ways = (0..rank).filter_map(|dim| {
                let cut = Cut { dim, pieces };
                self.in_pieces(nests.clone(), (&needs, &cycles), (&ops, &stored), cut)
            });
            let best = ways.min_by_key(|way| way.runs.cycles);
            if best.is_some() {
                return best;
            }
        }
        None
    }

    fn in_pieces(
        &self,
        nests: std::ops::Range<usize>,
        (needs, cycles): (&Needs, &[i64]),
        (ops, stored): (&[OpId], &[tir::Value]),
        cut: Cut,
    ) -> Option<Way> {
        let pieces = (0..cut.pieces).map(|piece| Boxes::of(self.ir, ops, stored, cut, piece));
        let pieces: Vec<Boxes> = pieces.collect::<Option<_>>()?;
        let needs = self.tensors.in_pieces(needs, nests.len(), &pieces)?;
        let mut all = Vec::new();
        for own in &pieces {
            for (nest, cycles) in nests.clone().zip(cycles) {
                let (mut whole, mut part) = (0i64, 0i64);
                for op in &self.ops[nest] {
                    let generic = self.ir.get::<Generic>(*op)?;
                    let result = self.ir.result(*op, 0);
                    let full = domain(self.ir, &generic, &pieces::whole(self.ir, result)?)?;
                    whole = whole.saturating_add(elements(&full));
                    if let Some(result) = own.inside.get(&result) {
                        let domain = domain(self.ir, &generic, result)?;
                        part = part.saturating_add(elements(&domain));
                    }
                }
                let share = i128::from(*cycles) * i128::from(part) / i128::from(whole.max(1));
                all.push(i64::try_from(share).ok()?);
            }
        }
        let runs = self.run(&all, &needs)?;
        Some(Way { runs, pieces })
    }

    fn run(&self, nests: &[i64], needs: &Needs) -> Option<Runs> {
        let mut runs = run(nests, needs, &self.link)?;
        runs.cycles = runs.cycles.saturating_add(runs.cycles / MARGIN);
        Some(runs)
    }
}
