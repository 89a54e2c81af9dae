//! The ways to run steps on intrinsics, remembered by what they depend on: equal layers, and the stages of
//! every division of a nest, differ in ranges and positions, which decide nothing.

use std::cell::RefCell;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tir::{AffineMap, Ir, Type};
use tir_tensor::Combine;

use super::{Nearest, Target};
use crate::group::Signature;
use crate::matching::{Assignment, Candidate, Joined, assignments};

/// How many ways to run a step on one intrinsic are looked at.
const LIMIT: usize = 64;

/// The ways to run a step on each intrinsic, and the nearest one that does not compute it.
pub(crate) type Found = (Vec<Assignment>, Option<Nearest>);

/// What the ways to run a step depend on.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    /// The scalar computation: regions of ops that are erased may be reused.
    scalar: Signature,
    extended: bool,
    combine: Option<Combine>,
    elems: Vec<Type>,
    reductions: Vec<bool>,
    /// For each map and each iterator, whether it is used.
    uses: Vec<bool>,
    /// The maps themselves, where an intrinsic reads windows: how far they move matters.
    maps: Vec<AffineMap>,
    joined: Vec<Joined>,
}

/// The ways that were looked for.
#[derive(Default)]
pub(crate) struct Ways(RefCell<FxHashMap<Key, Arc<Found>>>);

impl Ways {
    /// The ways to run a step on each intrinsic of a machine, and the nearest one that does not compute it.
    pub(crate) fn ways(
        &self,
        ir: &Ir,
        candidate: &Candidate<'_>,
        target: &Target<'_>,
    ) -> Arc<Found> {
        let dims = 0..candidate.reductions.len();
        let mut scalar = Signature::default();
        scalar.body(ir, candidate.scalar.body);
        let uses = candidate.maps.iter().flat_map(|map| {
            let exprs = &map.exprs;
            dims.clone().map(|d| exprs.iter().any(|e| e.uses(d)))
        });
        let mut places = target.behaviours.iter().flatten().flat_map(|b| &b.places);
        let windows = places.any(|places| places.iter().any(|place| !place.window.is_empty()));
        let key = Key {
            scalar,
            extended: candidate.scalar.extended,
            combine: candidate.combine,
            elems: candidate.elems.clone(),
            reductions: candidate.reductions.to_vec(),
            uses: uses.collect(),
            maps: candidate.maps.iter().filter(|_| windows).cloned().collect(),
            joined: candidate.joined.to_vec(),
        };
        let mut known = self.0.borrow_mut();
        let found = known.entry(key);
        Arc::clone(found.or_insert_with(|| Arc::new(all(candidate, target))))
    }
}

fn all(candidate: &Candidate<'_>, target: &Target<'_>) -> Found {
    let (mut found, mut nearest) = (Vec::new(), None);
    for (i, behaviour) in target.behaviours.iter().enumerate() {
        let ways = match behaviour {
            Ok(behaviour) => assignments(candidate, i, behaviour, LIMIT),
            Err(mismatch) => Err(mismatch.clone()),
        };
        match ways {
            Ok(ways) => found.extend(ways),
            Err(mismatch) => {
                let name = target.info.intrinsics[i].name;
                Nearest::improve(&mut nearest, "intrinsic", name, mismatch);
            }
        }
    }
    (found, nearest)
}
