//! Sections in pieces: what lies in memory at once is what a part of the results needs.
//!
//! Where a level's memory does not hold the tensors of a section, its results are computed part by part, along one of
//! their dimensions. What a part needs of each tensor is a box ([`Extent`]), found from the results back through the
//! maps of the generics; where windows overlap, neighbouring pieces compute the rows that both need. Pieces stand one behind
//! the other, so each has its own boxes: those at the rim of an image are smaller, and padding stays what it was.

use std::collections::HashMap;

use tir::{Attr, Interval, Ir, LinearMap, OpId, Value};
use tir_tensor::{Empty, Generic, TransferRead};

use super::tensors::{fills, is_view, shown};
use crate::parts::{Part, inserted};

/// Where a box of a tensor begins and ends in each dimension.
pub(super) type Extent = Vec<(i64, i64)>;

/// The parts of a section's results that are computed behind one another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cut {
    /// The dimension that is cut.
    pub(super) dim: usize,
    /// In how many parts.
    pub(super) pieces: usize,
}

/// What a piece computes and reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Boxes {
    /// Of each value that the section computes, or puts together, what is needed.
    pub(super) inside: HashMap<Value, Extent>,
    /// Of what it reads from outside.
    pub(super) outside: HashMap<Value, Extent>,
    /// Of what is stored, what this piece stores.
    pub(super) stores: Vec<(Value, Extent)>,
}

pub(super) fn whole(ir: &Ir, value: Value) -> Option<Extent> {
    Some(ir.ty(value).shape()?.iter().map(|n| (0, *n)).collect())
}

pub(super) fn sizes(extent: &Extent) -> Vec<i64> {
    extent.iter().map(|(low, high)| high - low).collect()
}

pub(super) fn elements(extent: &Extent) -> i64 {
    sizes(extent).into_iter().fold(1, i64::saturating_mul)
}

/// The ranges of the iterators of a generic for a box of its result.
pub(super) fn domain(ir: &Ir, generic: &Generic, result: &Extent) -> Option<Extent> {
    let out = generic.indexing_maps.last()?.as_projection()?;
    let all = generic.domain(ir).ok()?;
    let mut domain: Extent = all.into_iter().map(|n| (0, n)).collect();
    for (d, range) in out.iter().zip(result) {
        *domain.get_mut(*d)? = *range;
    }
    Some(domain)
}

/// What is read at a position over iterators in ranges.
pub(super) fn read(map: &LinearMap, domain: &Extent) -> Option<Extent> {
    let ranges = |d: usize| match domain.get(d) {
        Some((low, high)) => Interval::new(*low, (high - 1).max(*low)),
        None => Interval::point(0),
    };
    let places = map.iter().map(|form| {
        let range = form.over(ranges)?;
        Some((range.low, range.high + 1))
    });
    places.collect()
}

/// The parts of what is put together, with where they begin, and what they lie in.
pub(super) fn parts(ir: &Ir, value: Value) -> Option<(Vec<Part>, Value)> {
    let (parts, whole) = inserted(ir, value)?;
    let filled =
        ir.def::<Empty>(whole).is_some() || ir.owner(whole).is_some_and(|op| fills(ir, op));
    (filled && !parts.is_empty()).then_some((parts, whole))
}

/// What a generic computes in: a constant for all elements, or nothing yet; `None` where it is something else.
pub(super) fn starts(ir: &Ir, generic: &Generic) -> Option<Option<Attr>> {
    let [out] = generic.outputs[..] else {
        return None;
    };
    match ir.def::<Generic>(out) {
        Some(fill) => Some(Some(fill.constant(ir)?)),
        None => ir.def::<Empty>(out).map(|_| None),
    }
}

/// A view at the same place in its source but for where it begins.
pub(super) fn shifted(ir: &Ir, value: Value) -> Option<TransferRead> {
    let read = ir.def::<TransferRead>(value).filter(is_view)?;
    read.access.is_identity().then_some(read)
}

/// What a part begins at, of what a box of the whole needs of it; none of it if they do not meet.
pub(super) fn meets(whole: &Extent, at: &[i64], part: &Extent) -> Option<Extent> {
    let own = whole.iter().zip(at).zip(part);
    let own = own.map(|(((low, high), at), (_, end))| ((low - at).max(0), (high - at).min(*end)));
    let own: Extent = own.collect();
    own.iter().all(|(low, high)| low < high).then_some(own)
}

impl Boxes {
    /// What one piece of a section needs, with its generics in order; `None` where something is read in another shape, or in
    /// a way that has no boxes.
    pub(super) fn of(
        ir: &Ir,
        ops: &[OpId],
        stored: &[Value],
        cut: Cut,
        piece: usize,
    ) -> Option<Self> {
        let mut boxes = Self::default();
        for value in stored {
            let mut own = whole(ir, *value)?;
            let (_, size) = own.get(cut.dim)?;
            let at = |k: usize| i64::try_from(k).ok()?.checked_mul(*size);
            let pieces = i64::try_from(cut.pieces).ok()?;
            let (low, high) = (at(piece)? / pieces, at(piece + 1)? / pieces);
            if low >= high {
                return None;
            }
            own[cut.dim] = (low, high);
            boxes.stores.push((*value, own.clone()));
            boxes.add(*value, own);
        }
        for op in ops.iter().rev() {
            let generic: Generic = ir.get(*op)?;
            let Some(result) = boxes.inside.get(&ir.result(*op, 0)).cloned() else {
                // Nothing of it is needed.
                continue;
            };
            starts(ir, &generic)?;
            let domain = domain(ir, &generic, &result)?;
            for (value, map) in generic.inputs.iter().zip(&generic.indexing_maps) {
                let own = read(&map.linear()?, &domain)?;
                boxes.need(ir, *value, own, ops)?;
            }
        }
        Some(boxes)
    }

    /// Makes what is needed of a value large enough for a box.
    fn add(&mut self, value: Value, own: Extent) {
        let known = self.inside.entry(value).or_insert_with(|| own.clone());
        for (known, own) in known.iter_mut().zip(own) {
            *known = (known.0.min(own.0), known.1.max(own.1));
        }
    }

    fn need(&mut self, ir: &Ir, value: Value, own: Extent, ops: &[OpId]) -> Option<()> {
        let all = whole(ir, value)?;
        let inside = all.iter().zip(&own);
        let inside = inside.map(|((_, size), (low, high))| ((*low).max(0), (*high).min(*size)));
        let own: Extent = inside.collect();
        // All that is read is padding.
        if own.iter().any(|(low, high)| low >= high) {
            return None;
        }
        let computed = |value: Value| ir.owner(value).is_some_and(|op| ops.contains(&op));
        if computed(value) {
            self.add(value, own);
            return Some(());
        }
        if let Some(view) = shifted(ir, value) {
            let moved = own.iter().zip(&view.static_offsets);
            let moved = moved.map(|((low, high), at)| (low + at, high + at));
            self.add(value, own.clone());
            return self.need(ir, view.source, moved.collect(), ops);
        }
        if let Some((parts, _)) = parts(ir, value)
            && parts.iter().any(|(part, _)| computed(shown(ir, *part)))
        {
            for (part, at) in &parts {
                let end = whole(ir, *part)?;
                let Some(own) = meets(&own, at, &end) else {
                    continue;
                };
                // What a part is has to be all that is computed of it.
                if !computed(*part) || self.inside.get(part).is_some_and(|known| *known != own) {
                    return None;
                }
                self.add(*part, own);
            }
            // Another reader must not need another box of its parts.
            if self.inside.get(&value).is_some_and(|known| *known != own) {
                return None;
            }
            self.add(value, own);
            return Some(());
        }
        // What is read in another shape is read as a whole, from outside.
        let source = shown(ir, value);
        if computed(source)
            || parts(ir, source)
                .is_some_and(|(parts, _)| parts.iter().any(|(part, _)| computed(shown(ir, *part))))
        {
            return None;
        }
        let own = if source == value {
            own
        } else {
            whole(ir, source)?
        };
        let known = self.outside.entry(source).or_insert_with(|| own.clone());
        for (known, own) in known.iter_mut().zip(own) {
            *known = (known.0.min(own.0), known.1.max(own.1));
        }
        Some(())
    }
}
