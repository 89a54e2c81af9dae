//! Slices chosen by numbers: a loop over the numbers, in which a slice is read at an offset that is
//! loaded. What it costs does not depend on how many there are to choose from.

use tir::rewrite::Rewriter;
use tir::{AffineMap, Decline, Name, OpId, Ret, Type, Value};
use tir_accel::MachineInfo;
use tir_arith::{
    AddI, CmpI, CmpIPredicate, Constant, IndexCast, IndexCastUI, MaxSI, MinSI, Select,
};
use tir_graph::Gather;
use tir_loop::{Bounds, For, Yield};
use tir_tensor::{Extract, TransferRead, TransferWrite};

use super::nest::{E, empty, form, map, scalar};
use super::select::{chosen, unsigned};

/// Where slices lie on their way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slices {
    /// A memory that engines fill and drain; none: where the tensors lie.
    space: Option<Name>,
    /// Bytes of a slice at most.
    bytes: i64,
}

/// The part of a memory that a slice takes at most: two of them, read and written, and others'
/// tiles beside.
const PART: i64 = 8;

impl Slices {
    /// The largest memory that far memory is joined with both ways.
    pub(super) fn on(machine: Option<&MachineInfo>) -> Self {
        let found = machine.and_then(|info| {
            let far = info.far()?.name;
            let joined = |from: Name, to: Name| {
                let mut engines = info.engines.iter();
                engines.any(|e| e.from == from && e.to == to)
            };
            let near = info.spaces.iter().skip(1);
            let near = near.filter(|s| joined(far, s.name) && joined(s.name, far));
            near.max_by_key(|s| s.bytes)
        });
        Self {
            space: found.map(|space| space.name),
            bytes: found.map_or(i64::MAX, |space| space.bytes / PART),
        }
    }

    pub(super) fn gather(
        self,
        gather: Gather,
        op: OpId,
        rw: &mut Rewriter<'_>,
    ) -> Result<(), Decline> {
        let Gather { x, indices, axis } = gather;
        let at = usize::try_from(axis).map_err(|_| "has a negative axis")?;
        let ty = rw.ty(rw.result(op, 0));
        let (shape, elem) = form(rw, x)?;
        let (counts, _) = form(rw, indices)?;
        let count = *shape.get(at).ok_or("has an axis that is no dimension")?;
        if count == 0 {
            return none(gather, op, rw);
        }
        // The leading dimensions are loops as long as the rest is too large.
        let size = elem
            .bytes()
            .and_then(|n| i64::try_from(n).ok())
            .unwrap_or(1);
        let mut kept: Vec<usize> = (0..shape.len()).filter(|d| *d != at).collect();
        let mut looped = Vec::new();
        let bytes = |kept: &[usize]| kept.iter().map(|d| shape[*d]).product::<i64>() * size;
        while bytes(&kept) > self.bytes && !kept.is_empty() {
            looped.push(kept.remove(0));
        }
        let rank = counts.len();
        let trips: Vec<i64> = looped
            .iter()
            .map(|d| shape[*d])
            .chain(counts.to_vec())
            .collect();
        let out = empty(rw, ty);
        let tile = Type::tensor(kept.iter().map(|d| shape[*d]).collect::<Vec<_>>(), elem);
        let y = nest(rw, &trips, Vec::new(), out, &mut |rw, ivs, y| {
            let (outer, numbers) = ivs.split_at(looped.len());
            let number = rw.add(Extract {
                tensor: indices,
                indices: numbers.to_vec(),
            });
            let number = position(rw, number, count);
            let mut from = Place::default();
            for d in 0..shape.len() {
                from.push(match (d == at, looped.iter().position(|l| *l == d)) {
                    (true, _) => Some(number),
                    (false, loop_at) => loop_at.map(|at| outer[at]),
                });
            }
            let slice = rw.add(TransferRead {
                source: x,
                offsets: from.offsets,
                padding: None,
                into: None,
                static_offsets: from.fixed,
                access: AffineMap::new(kept.len(), from.access),
                space: self.space.map(|space| space.to_string()),
                result: Ret(tile),
            });
            let mut to = Place::default();
            for d in 0..shape.len() - 1 + rank {
                let number = d.checked_sub(at).filter(|k| *k < rank);
                // Behind the numbers come the dimensions behind the one that they choose from.
                let from = if d < at {
                    d
                } else {
                    (d + 1).saturating_sub(rank)
                };
                to.push(match (number, looped.iter().position(|l| *l == from)) {
                    (Some(k), _) => Some(numbers[k]),
                    (None, loop_at) => loop_at.map(|at| outer[at]),
                });
            }
            rw.add(TransferWrite {
                source: slice,
                dest: y,
                offsets: to.offsets,
                static_offsets: to.fixed,
                access: map(kept.len(), to.access),
                result: Ret(ty),
            })
        });
        rw.replace(op, &[y]);
        Ok(())
    }
}

/// Where a slice lies in a tensor, dimension by dimension.
#[derive(Default)]
struct Place {
    offsets: Vec<Value>,
    fixed: Vec<i64>,
    access: Vec<E>,
    /// Dimensions of the slice so far.
    dims: usize,
}

impl Place {
    /// A dimension at one position, or all of it.
    fn push(&mut self, at: Option<Value>) {
        match at {
            Some(at) => {
                self.offsets.push(at);
                self.fixed.push(tir::DYNAMIC);
                self.access.push(E::Const(0));
            }
            None => {
                self.fixed.push(0);
                self.access.push(E::Dim(self.dims));
                self.dims += 1;
            }
        }
    }
}

/// Loops around each other that carry a tensor.
fn nest(
    rw: &mut Rewriter<'_>,
    trips: &[i64],
    ivs: Vec<Value>,
    carried: Value,
    inner: &mut dyn FnMut(&mut Rewriter<'_>, &[Value], Value) -> Value,
) -> Value {
    let Some((first, rest)) = trips.split_first() else {
        return inner(rw, &ivs, carried);
    };
    let ty = rw.ty(carried);
    let body = rw.body(&[Type::index(), ty], |rw, args| {
        let ivs = [&ivs[..], &args[..1]].concat();
        let values = vec![nest(rw, rest, ivs, args[1], inner)];
        rw.add(Yield { values });
    });
    let bounds = [0, *first, 1].map(Bounds::Static);
    let results = rw.add(For::new(bounds, vec![carried], body, vec![ty]));
    results.first().copied().unwrap_or(carried)
}

/// A number as a position among `count`: from the end if it is negative, the nearest one if there is
/// none.
fn position(rw: &mut Rewriter<'_>, number: Value, count: i64) -> Value {
    let index = Type::index();
    let known = |rw: &mut Rewriter<'_>, n: i64| {
        let value = scalar(n as f64, index);
        rw.add(Constant { value })
    };
    let (zero, last) = (known(rw, 0), known(rw, count - 1));
    let (input, output) = (number, Ret(index));
    let mut at = if unsigned(rw.ty(number)) {
        rw.add(IndexCastUI { input, output })
    } else {
        let at = rw.add(IndexCast { input, output });
        let below = rw.add(CmpI {
            predicate: CmpIPredicate::Slt,
            lhs: at,
            rhs: zero,
        });
        let all = known(rw, count);
        let from_end = rw.add(AddI {
            lhs: at,
            rhs: all,
            overflow: None,
        });
        rw.add(Select {
            condition: below,
            true_value: from_end,
            false_value: at,
        })
    };
    at = rw.add(MaxSI { lhs: at, rhs: zero });
    rw.add(MinSI { lhs: at, rhs: last })
}

/// Of nothing to choose from: zeros.
fn none(gather: Gather, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let Gather { x, indices, axis } = gather;
    let at = usize::try_from(axis).map_err(|_| "has a negative axis")?;
    let ty = rw.ty(rw.result(op, 0));
    let (shape, _) = form(rw, x)?;
    let rank = form(rw, indices)?.0.len();
    let dims = ty.shape().map_or(0, <[i64]>::len);
    // (outer …, index …, inner …, k)
    let place = |d: usize| match d {
        d if d < at => E::Dim(d),
        d if d == at => E::Dim(dims),
        d => E::Dim(d + rank - 1),
    };
    let x_map = map(dims + 1, (0..shape.len()).map(place).collect::<Vec<_>>());
    let all: Vec<usize> = (at..at + rank).collect();
    let index_map = AffineMap::project(dims + 1, &all);
    let y = chosen(rw, ty, (x, x_map), (indices, index_map), shape[at])?;
    rw.replace(op, &[y]);
    Ok(())
}
