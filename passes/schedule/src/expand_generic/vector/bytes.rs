//! Sums of products of bytes as [`tir_vector::Dot`]: a group of steps at once.

use std::collections::HashMap;

use tir::{Builder, Failure, Ir, LinearMap, MemRefType, Ret, Value};
use tir_arith::OpFoldResult;
use tir_memref::{CollapseShape, collapsed_type};
use tir_tensor::{Generic, reassociation};
use tir_vector::Interleave;

use super::super::place;
use super::{Block, Course, course, load};

/// Products that a lane sums up at once.
pub(super) const GROUP: i64 = tir_vector::Dot::GROUP;

/// A sum of products of integers of 8 bits as [`tir_vector::Dot`]: some steps of a reduction at once.
pub(super) struct Dot {
    /// The iterator of these steps.
    pub(super) steps: usize,
    /// The input whose numbers lie beside each other along it, the same for all lanes.
    few: usize,
    /// The other input, whose numbers lie beside each other along the lanes.
    many: usize,
}

impl Dot {
    /// How a nest is summed up by groups: none if it is another sum.
    pub(super) fn of(
        ir: &Ir,
        generic: &Generic,
        maps: &[LinearMap],
        courses: &[Course],
        domain: &[i64],
    ) -> Option<Self> {
        if !generic.sums_products_of_bytes(ir) {
            return None;
        }
        let few = courses[..2].iter().position(|c| *c == Course::Constant)?;
        let many = 1 - few;
        let beside = |d: &usize| {
            generic.reductions()[*d]
                && domain[*d] % GROUP == 0
                && course(ir, generic.inputs[few], &maps[few], *d) == Some(Course::Contiguous)
        };
        let steps = (0..domain.len()).find(beside)?;
        let lie = match courses[many] {
            Course::Contiguous => true,
            Course::Grouped => domain[steps] == GROUP && maps[many].last()?.as_dim() == Some(steps),
            Course::Constant => false,
        };
        lie.then_some(Self { steps, few, many })
    }
}

/// Whether steps of a sum lie beside each other for each lane, and the lanes behind each other.
pub(super) fn grouped(ir: &Ir, value: Value, map: &LinearMap, lanes: usize) -> Option<Course> {
    let memref: &MemRefType = ir.ty(value).get()?;
    let [others @ .., lane, step] = &map[..] else {
        return None;
    };
    let strides = memref.strides()?.0;
    let beside = step.as_dim().is_some_and(|d| d != lanes) && lane.as_dim() == Some(lanes);
    let dense = strides.ends_with(&[GROUP, 1]) && memref.shape.last() == Some(&GROUP);
    (beside && dense && others.iter().all(|row| row.at(lanes) == 0)).then_some(Course::Grouped)
}

impl Block<'_> {
    /// The sums at a point with the products of a group of steps.
    pub(super) fn dot(
        &self,
        b: &mut Builder<'_>,
        dot: &Dot,
        at: &[Option<Value>],
        (j, i): (usize, usize),
        sums: Value,
        known: &mut HashMap<[usize; 3], Value>,
    ) -> Result<Value, Failure> {
        let plan = self.plan;
        let at: Vec<Value> = at.iter().copied().flatten().collect();
        let row = |k: usize| self.row(k, j);
        let [few, many] = [[dot.few, row(dot.few), 0], [dot.many, row(dot.many), i]];
        for key @ [k, ..] in [few, many] {
            if known.contains_key(&key) {
                continue;
            }
            let (memref, access) = (plan.generic.inputs[k], &plan.generic.indexing_maps[k]);
            let value = if k == dot.few {
                let at = place(b, access, &at)?;
                load(b, memref, &at, GROUP)
            } else if plan.courses[k] == Course::Grouped {
                let mut at = place(b, access, &at)?;
                // The first step of a group.
                at.pop();
                let lane = at.pop().ok_or("has no lanes")?;
                let lane = OpFoldResult::Value(lane).times(b, GROUP);
                at.push(lane.value(b));
                let flat = flattened(b, memref).ok_or("has groups that lie apart")?;
                load(b, flat, &at, GROUP * self.width)
            } else {
                // The numbers of a lane lie in rows below each other: first the even ones and the odd ones.
                let mut rows = Vec::new();
                for step in [0, 2, 1, 3] {
                    let mut at = at.clone();
                    let here = OpFoldResult::Value(at[dot.steps]).plus(b, step);
                    at[dot.steps] = here.value(b);
                    let at = place(b, access, &at)?;
                    rows.push(self.load(b, memref, &at));
                }
                let even = interleave(b, rows[0], rows[1]);
                let odd = interleave(b, rows[2], rows[3]);
                interleave(b, even, odd)
            };
            known.insert(key, value);
        }
        Ok(b.add(tir_vector::Dot {
            few: known[&few],
            many: known[&many],
            sums,
            result: Ret(b.ty(sums)),
        }))
    }
}

/// A buffer whose last two dimensions are one.
fn flattened(b: &mut Builder<'_>, src: Value) -> Option<Value> {
    let memref: &MemRefType = b.ty(src).get()?;
    let [others @ .., lanes, steps] = &memref.shape[..] else {
        return None;
    };
    let flat = [others, &[lanes * steps]].concat();
    let last = others.len() as i64;
    let groups = (0..last).map(|d| vec![d]).chain([vec![last, last + 1]]);
    let reassociation = reassociation(&groups.collect::<Vec<_>>());
    let result = Ret(collapsed_type(memref, &flat, &reassociation)?);
    Some(b.add(CollapseShape {
        src,
        reassociation,
        result,
    }))
}

/// The elements of two vectors in turn.
fn interleave(b: &mut Builder<'_>, lhs: Value, rhs: Value) -> Value {
    let ty = b.ty(lhs);
    let length = ty.shape().map_or(0, |shape| shape.iter().product::<i64>());
    b.add(Interleave {
        lhs,
        rhs,
        result: Ret(tir_vector::of(2 * length, ty.elem())),
    })
}
