//! `tiles-in-place`: tiles are read and written where they lie, without a copy.
//!
//! *Terms.* A **tile** is a buffer that is allocated in the block of its transfer, the **large** buffer is the other side.
//! In **place** a tile is a view of the large buffer, with the strides that the access map says.
//!
//! *Invariants.* All of the tile lies inside of the large buffer, so there is nothing to pad and nothing to leave out. While
//! a tile that was read is used, nothing writes the large buffer; from where a tile that is written is allocated to its
//! transfer nothing touches the large buffer, and after it nothing the tile.
//!
//! *When not.* Rows that are no vectors, and sums that would walk in long steps through memory, stay copies.

use std::collections::HashMap;

use tir::{
    Access, At, DYNAMIC, Ir, MemRefType, OpId, Pass, PassCx, PassResult, Ret, Type, Value, pass,
};
use tir_accel::Direction;
use tir_accel::transfer::Pattern;
use tir_arith::OpFoldResult;
use tir_loop::For;
use tir_memref::alias::{Origin, aliases, ended, is_filled_once, may_access, may_alias, origins};
use tir_memref::{Alloc, CollapseShape, ExpandShape, ReinterpretCast, SubView, strided_type};
use tir_tensor::Generic;

use crate::range::{Facts, inside};
use crate::transfer::Transfer;
use crate::views;

pass! {
    /// Replaces tiles that are copies of a part of a large buffer by views of it, where all of the tile lies inside.
    ///
    /// For programs on one memory, where a transfer is work and nothing else.
    pub struct TilesInPlace = "tiles-in-place" on "func.func" {}
}

impl Pass for TilesInPlace {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let mut known = HashMap::new();
        let mut done = 0;
        let transfers = ir.walk_ids().into_iter();
        let transfers: Vec<OpId> = transfers
            .filter(|op| Transfer::of(ir, *op).is_some())
            .collect();
        for op in transfers {
            let Some(t) = Transfer::of(ir, op) else {
                continue;
            };
            if let Some(place) = Place::of(ir, op, &t, &mut known) {
                place.take(ir, op, &t).map_err(|error| vec![*error])?;
                done += 1;
            }
        }
        cx.count("tiles in place", done);
        if done == 0 {
            cx.unchanged();
        }
        Ok(())
    }
}

/// Where a tile lies in a large buffer.
struct Place {
    /// What allocates the tile.
    alloc: OpId,
    /// The buffer that the large one is a part of, or it itself; it begins at its first element.
    whole: Value,
    /// The first element of the large buffer in that one.
    start: i64,
    /// The elements of a step in each dimension of the large buffer.
    steps: Vec<i64>,
    strides: Vec<i64>,
    shape: Vec<i64>,
}

impl Place {
    /// The place of a transfer's tile, if it can be used there.
    fn of(
        ir: &Ir,
        op: OpId,
        t: &Transfer,
        known: &mut HashMap<Value, Vec<Origin>>,
    ) -> Option<Self> {
        let alloc = ir.owner(t.tile).filter(|a| ir.is::<Alloc>(*a))?;
        if ir.block_of(alloc) != ir.block_of(op) {
            return None;
        }
        let far: &MemRefType = ir.ty(t.far).get()?;
        let near: &MemRefType = ir.ty(t.tile).get()?;
        if far.space != near.space {
            return None;
        }
        let (steps, start) = far.strides()?;
        let whole = whole(ir, t.far).filter(|_| start != DYNAMIC)?;
        let pattern = Pattern::new(ir.ty(t.far), ir.ty(t.tile), &t.access).ok()?;
        let facts = Facts::at(ir, op);
        let mut dims = t
            .offsets
            .iter()
            .zip(pattern.access.iter())
            .zip(&pattern.far_shape);
        let all_inside = dims.all(|((offset, form), size)| {
            inside(ir, &facts, *offset, form, &pattern.tile_shape, *size)
        });
        if !all_inside || !is_left_alone(ir, op, alloc, t, known) {
            return None;
        }
        let strides = |d: usize| {
            let parts = pattern.access.iter().zip(&steps);
            parts.map(|(form, step)| form.at(d) * step).sum::<i64>()
        };
        let place = Self {
            alloc,
            whole,
            start,
            strides: (0..pattern.tile_shape.len()).map(strides).collect(),
            steps,
            shape: pattern.tile_shape,
        };
        // Rows of elements that do not lie beside each other are no vectors: a copy is made once, and read more often.
        let mut dims = place.shape.iter().zip(&place.strides).rev();
        if dims
            .find(|(n, _)| **n > 1)
            .is_some_and(|(_, stride)| *stride != 1)
        {
            return None;
        }
        let apart = t.direction == Direction::Read || place.is_apart();
        let ty = place.ty(ir, t, DYNAMIC)?;
        let types = views::types_as(ir, t.tile, ty).ok()?;
        let far_apart =
            t.direction == Direction::Read && strides_over(ir, alloc, &place.shape, &types);
        (apart && !far_apart).then_some(place)
    }

    /// Whether each element of the tile has a place of its own.
    fn is_apart(&self) -> bool {
        let dims = self.shape.iter().zip(&self.strides);
        let mut dims: Vec<(i64, i64)> = dims
            .filter(|(n, _)| **n > 1)
            .map(|(n, s)| (s.abs(), *n))
            .collect();
        dims.sort_unstable();
        let mut reach = 1;
        dims.iter().all(|(stride, n)| {
            let fits = *stride >= reach;
            reach = stride.saturating_mul(*n);
            fits
        })
    }

    fn ty(&self, ir: &Ir, t: &Transfer, offset: i64) -> Option<Type> {
        let far: &MemRefType = ir.ty(t.far).get()?;
        Some(strided_type(far, &self.shape, self.strides.clone(), offset))
    }

    /// Uses the tile in its place.
    fn take(&self, ir: &mut Ir, op: OpId, t: &Transfer) -> Result<(), tir::Failure> {
        let at = match t.direction {
            Direction::Read => op,
            Direction::Write => {
                for value in &t.offsets {
                    if let OpFoldResult::Value(value) = value {
                        raise(ir, *value, self.alloc);
                    }
                }
                raise(ir, self.whole, self.alloc);
                self.alloc
            }
        };
        let mut b = ir.at(At::Before(at));
        let mut offset = OpFoldResult::Number(self.start);
        for (part, step) in t.offsets.iter().zip(&self.steps) {
            let part = part.times(&mut b, *step);
            offset = offset.plus(&mut b, part);
        }
        let (offsets, static_offset) = match offset {
            OpFoldResult::Number(n) => (vec![], n),
            OpFoldResult::Value(value) => (vec![value], DYNAMIC),
        };
        let ty = self.ty(b.ir, t, static_offset).ok_or("has no type")?;
        let view = b.add(ReinterpretCast {
            source: self.whole,
            offsets,
            sizes: vec![],
            strides: vec![],
            static_offsets: vec![static_offset],
            static_sizes: self.shape.clone(),
            static_strides: self.strides.clone(),
            result: Ret(ty),
        });
        ir.erase(op);
        let ends: Vec<OpId> = ir
            .uses(t.tile)
            .map(|used| used.op)
            .filter(|op| ended(ir, *op) == Some(t.tile))
            .collect();
        ir.erase_all(&ends);
        views::retype(ir, t.tile, ty)?;
        ir.replace(self.alloc, &[view]);
        Ok(())
    }
}

/// The buffer that a value is a part of at a known place, as its type says, or the value itself: one that begins at its first
/// element.
fn whole(ir: &Ir, value: Value) -> Option<Value> {
    let (_, start) = ir.ty(value).get::<MemRefType>()?.strides()?;
    if start == 0 {
        return Some(value);
    }
    let op = ir.owner(value)?;
    let part = ir.get::<SubView>(op).map(|view| view.source);
    let part = part.or_else(|| ir.get::<ReinterpretCast>(op).map(|view| view.source));
    let part = part.or_else(|| ir.get::<CollapseShape>(op).map(|view| view.src));
    let part = part.or_else(|| ir.get::<ExpandShape>(op).map(|view| view.src));
    whole(ir, part?)
}

/// Bytes from one step of a sum to the next one beyond which a processor does not fetch ahead: a quarter of a page, in which
/// it follows steps.
const FAR_STEP: i64 = 1024;
/// Steps of a sum that make a walk.
const WALK: i64 = 8;
/// Uses of an element for which a copy is worth its time.
const OFTEN: i64 = 32;

/// Whether sums over a tile would walk through the large buffer in long steps, and often: then a copy, whose elements lie
/// beside each other, is the quicker one.
///
/// `types` are those of the tile and its views in place.
fn strides_over(ir: &Ir, alloc: OpId, shape: &[i64], types: &[(Value, Type)]) -> bool {
    let elements: i64 = shape.iter().product();
    let mut points = 0_i64;
    let mut walks = false;
    for (value, ty) in types {
        let mut users: Vec<OpId> = ir.uses(*value).map(|used| used.op).collect();
        users.dedup();
        for op in users {
            let Some(generic) = ir.get::<Generic>(op) else {
                continue;
            };
            let Ok(domain) = generic.domain(ir) else {
                continue;
            };
            let around = trips(ir, op, alloc);
            points = points.saturating_add(domain.iter().fold(around, |n, d| n.saturating_mul(*d)));
            let operands = generic.operands().zip(&generic.indexing_maps);
            for (_, map) in operands.filter(|(operand, _)| operand == value) {
                walks |= walks_far(*ty, map, &domain, &generic.reductions());
            }
        }
    }
    walks && points / elements.max(1) >= OFTEN
}

/// Whether a sum over elements of a buffer goes in long steps.
fn walks_far(ty: Type, map: &tir::AffineMap, domain: &[i64], reductions: &[bool]) -> bool {
    let memref: Option<&MemRefType> = ty.get();
    let (Some((strides, _)), Some(map)) = (memref.and_then(|m| m.strides()), map.linear()) else {
        return false;
    };
    let bytes = ty.elem().bytes().unwrap_or(1) as i64;
    (0..domain.len()).any(|d| {
        let parts = map.iter().zip(&strides);
        let step: i64 = parts.map(|(row, stride)| row.at(d) * stride).sum();
        reductions[d] && domain[d] >= WALK && step.abs() * bytes >= FAR_STEP
    })
}

/// How often an op runs for each time that one of a block around it does; 1 for loops of unknown length.
fn trips(ir: &Ir, op: OpId, around: OpId) -> i64 {
    let (mut count, mut op) = (1_i64, op);
    while ir.block_of(op) != ir.block_of(around) {
        let Some(parent) = ir.parent(op) else {
            return count;
        };
        let looped = ir.get::<For>(parent);
        let trip = looped.and_then(|l| l.trip_count()).unwrap_or(1);
        count = count.saturating_mul(trip);
        op = parent;
    }
    count
}

/// Moves what a value is made of before an op of its block.
fn raise(ir: &mut Ir, value: Value, before: OpId) {
    let Some(op) = ir.owner(value) else {
        return;
    };
    if ir.block_of(op) != ir.block_of(before) || ir.is_before(op, before) {
        return;
    }
    let operands: Vec<Value> = ir.operands(op).collect();
    for operand in operands {
        raise(ir, operand, before);
    }
    ir.move_op(op, At::Before(before));
}

/// Whether what an index is made of may move before an op.
fn may_raise(ir: &Ir, value: Value, before: OpId) -> bool {
    let Some(op) = ir.owner(value) else {
        return true;
    };
    if ir.block_of(op) != ir.block_of(before) || ir.is_before(op, before) {
        return true;
    }
    ir.is_pure(op)
        && ir.regions(op).next().is_none()
        && ir.operands(op).all(|v| may_raise(ir, v, before))
}

/// Whether nothing is in the way of a tile in its place.
fn is_left_alone(
    ir: &Ir,
    op: OpId,
    alloc: OpId,
    t: &Transfer,
    known: &mut HashMap<Value, Vec<Origin>>,
) -> bool {
    let Some(block) = ir.block_of(op) else {
        return false;
    };
    let far = known
        .entry(t.far)
        .or_insert_with(|| origins(ir, t.far))
        .clone();
    // A tile that may be the large buffer itself is none.
    if may_alias(ir, t.tile, &far) {
        return false;
    }
    let all = aliases(ir, t.tile);
    let users = all
        .iter()
        .flat_map(|value| ir.uses(*value))
        .map(|used| used.op);
    let users = users.filter(|user| *user != op && ended(ir, *user).is_none());
    let own: Option<Vec<OpId>> = users.map(|user| ir.ancestor_in(user, block)).collect();
    let Some(own) = own else {
        return false;
    };
    let (from, to) = match t.direction {
        Direction::Read => {
            if !is_filled_once(ir, op, t.tile) {
                return false;
            }
            let last = own
                .into_iter()
                .reduce(|a, b| if ir.is_before(a, b) { b } else { a });
            (op, last.unwrap_or(op))
        }
        Direction::Write => {
            let before = own.iter().all(|user| ir.is_before(*user, op));
            let values = t.offsets.iter().filter_map(|o| match o {
                OpFoldResult::Value(value) => Some(*value),
                OpFoldResult::Number(_) => None,
            });
            let mut values = values.chain([t.far]);
            if !before || !values.all(|value| may_raise(ir, value, alloc)) {
                return false;
            }
            (alloc, op)
        }
    };
    let harms: &[Access] = match t.direction {
        Direction::Read => &[Access::Write, Access::Free],
        Direction::Write => &[Access::Write, Access::Free, Access::Read],
    };
    let between = ir
        .ops_in(block)
        .filter(|other| *other != op && !ir.is_before(*other, from) && !ir.is_before(to, *other));
    let mut between = between.flat_map(|other| std::iter::once(other).chain(ir.walk_below(other)));
    between.all(|other| !may_access(ir, other, harms, &far))
}
