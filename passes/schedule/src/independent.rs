//! `find-parallel`: loops whose iterations are independent, as their accesses show.
//!
//! *Terms.* An *address* is a linear form of indices: the byte of its buffer that an element begins at, views resolved. Of the
//! form, one part moves with the counter of the loop, one stands still while the loop runs, and the *rest* moves with loops inside.
//!
//! *Invariant.* Iterations are independent if, for each buffer from outside that the loop writes, the addresses of all its
//! accesses have one part that moves with the counter, by a step, one part that stands still, and rests that lie closer
//! together than the step. Addresses of channels of a pixel recur for each pixel: so all this may hold modulo a number, of
//! which parts of the rest are multiples, if the counter does not go round. It may also hold of the indices in one dimension
//! of a memref by which all go: these do not go round, as they lie inside, though ranges of what computes them would
//! (channels of a last block that sticks out, of which a mask leaves some). What is allocated in an iteration is its own.

use std::collections::HashMap;

use tir::{
    Access, Attr, DYNAMIC, Interval, Ir, Layout, LinearExpr, MemRefType, OpId, Traits, Value,
};
use tir_loop::{For, THROUGH};
use tir_memref::alias::{Origin, accesses, accesses_others, origins};
use tir_memref::{Cast, CollapseShape, ExpandShape, ReinterpretCast, SubView, View};

use crate::index::Counter;
use crate::range::{Facts, linear};

/// Marks loops of a function whose iterations are independent, outermost ones and those directly inside of marked ones
/// which are alone there; gives how many. Of an outermost loop that is not, the one that is alone in it is marked if its
/// iterations are independent of others in all iterations of both.
pub(crate) fn find(ir: &mut Ir) -> usize {
    let blocks = ir.regions(ir.root()).flat_map(|region| ir.blocks(region));
    let mut work: Vec<OpId> = blocks.flat_map(|block| ir.ops_in(block)).collect();
    let mut found = 0;
    while let Some(op) = work.pop() {
        let Some(looped) = ir.get::<For>(op) else {
            continue;
        };
        let inside = alone(ir, &looped);
        if !looped.parallel && !is_independent(ir, op, &looped) {
            if let Some(inner) = inside.filter(|inner| is_independent_through(ir, op, *inner)) {
                ir.set_attr(op, THROUGH, Attr::unit());
                work.push(inner);
            }
            continue;
        }
        ir.set_attr(op, "parallel", Attr::bool(true));
        found += 1;
        work.extend(inside);
    }
    found
}

/// The loop that is the only one directly in a loop.
fn alone(ir: &Ir, looped: &For) -> Option<OpId> {
    let body = ir.entry(looped.body)?;
    let mut inside = ir.ops_in(body).filter(|op| ir.is::<For>(*op));
    inside.next().filter(|_| inside.next().is_none())
}

/// Bytes of a buffer that an op accesses.
pub(crate) struct Elements {
    /// The first one.
    pub(crate) begin: LinearExpr,
    /// What is added to it: indices of which no more is known than that they lie inside of a buffer, each with its stride in
    /// bytes.
    inside: Vec<(i64, Interval)>,
    /// How many.
    length: i64,
}

/// Where an op reads or writes a buffer.
struct Place {
    writes: bool,
    /// Which elements; none if not known.
    at: Option<Elements>,
    memref: Value,
    /// The counter of the loop that it is in.
    iv: Value,
    op: OpId,
}

/// What an op accesses by indices: as many elements from them on, of which a mask may leave out some.
struct Indexed {
    indices: Vec<Value>,
    length: i64,
    masked: bool,
}

fn is_independent(ir: &Ir, op: OpId, looped: &For) -> bool {
    let Some(counter) = Counter::of(ir, op).filter(|_| looped.init.is_empty()) else {
        return false;
    };
    match counter.trips < 2 {
        // There are no two.
        true => counter.trips == 1,
        false => are_independent(ir, &[counter]),
    }
}

/// Whether iterations of a loop in another one are independent of those at another count in all iterations of the outer one.
fn is_independent_through(ir: &Ir, outer: OpId, inner: OpId) -> bool {
    let carries = |op| {
        ir.get::<For>(op)
            .is_none_or(|looped| !looped.init.is_empty())
    };
    let Some(counter) = Counter::of(ir, inner).filter(|counter| counter.trips > 1) else {
        return false;
    };
    // Both loops together, counted by the inner one.
    let both = Counter {
        op: outer,
        ..counter
    };
    !carries(outer) && !carries(inner) && independent_of(ir, &[both], &[inner])
}

/// Whether iterations of loops that count alike are independent of all those at another count, of each of the loops.
pub(crate) fn are_independent(ir: &Ir, loops: &[Counter]) -> bool {
    let ops: Vec<OpId> = loops.iter().map(|l| l.op).collect();
    independent_of(ir, loops, &ops)
}

/// Whether what loops do is independent of what they do at another count; what is allocated in some of their ops is each
/// time another buffer.
fn independent_of(ir: &Ir, loops: &[Counter], own: &[OpId]) -> bool {
    let Some(counter) = loops.first() else {
        return true;
    };
    // The values that addresses are made of, the counter first.
    let mut leaves = vec![counter.iv];
    let mut places = HashMap::<Origin, Vec<Place>>::new();
    let mut order = Vec::new();
    let bodies = loops
        .iter()
        .flat_map(|l| ir.walk_below(l.op).into_iter().map(|op| (l.iv, op)));
    for (iv, below) in bodies {
        leaves[0] = iv;
        if ir.has(below, Traits::Terminator) {
            continue;
        }
        // In which order it happens may matter.
        if accesses_others(ir, below) {
            return false;
        }
        for (access, memref) in accesses(ir, below) {
            let writes = match access {
                Access::Read => false,
                Access::Write => true,
                Access::Free => true,
                _ => continue,
            };
            for origin in origins(ir, memref) {
                match origin {
                    Origin::Allocated(made)
                        if ir
                            .owner(made)
                            .is_some_and(|made| own.iter().any(|op| ir.is_below(made, *op))) =>
                    {
                        continue;
                    }
                    // What it is, nobody knows.
                    Origin::Unknown(_) => return false,
                    _ if access == Access::Free => return false,
                    _ => {}
                }
                let at = element(ir, below, memref, &mut leaves);
                let all = places.entry(origin).or_insert_with(|| {
                    order.push(origin);
                    Vec::new()
                });
                all.push(Place {
                    writes,
                    at,
                    memref,
                    iv,
                    op: below,
                });
            }
        }
    }
    order.iter().all(|origin| {
        let places = &places[origin];
        !places.iter().any(|place| place.writes)
            || apart(ir, loops, places, &leaves) == Some(true)
            || in_one_dimension(ir, loops, places)
    })
}

/// Whether an op is in one of some loops.
fn is_inside(ir: &Ir, loops: &[Counter], op: OpId) -> bool {
    loops.iter().any(|l| l.op == op || ir.is_below(op, l.op))
}

/// Whether a value does not change while loops run.
fn stands_still(ir: &Ir, loops: &[Counter], value: Value) -> bool {
    match ir.owner(value) {
        Some(owner) => !is_inside(ir, loops, owner),
        None => {
            let holder = ir.value_block(value).and_then(|b| ir.block_parent(b));
            holder.is_none_or(|holder| !is_inside(ir, loops, holder))
        }
    }
}

/// Whether all accesses go by one memref, of which different iterations access different indices in some dimension.
fn in_one_dimension(ir: &Ir, loops: &[Counter], places: &[Place]) -> bool {
    let Some(memref) = places.first().map(|place| place.memref) else {
        return true;
    };
    let ty = ir.ty(memref).get::<MemRefType>();
    let dense = ty.is_some_and(|ty| ty.layout == Layout::Identity);
    if !dense
        || !stands_still(ir, loops, memref)
        || places.iter().any(|place| place.memref != memref)
    {
        return false;
    }
    let Some(all) = places
        .iter()
        .map(|place| indexed(ir, place.op))
        .collect::<Option<Vec<_>>>()
    else {
        return false;
    };
    let rank = all.first().map_or(0, |indexed| indexed.indices.len());
    (0..rank).any(|d| in_dimension(ir, loops, places, &all, d) == Some(true))
}

/// Whether different iterations access different indices in a dimension of the memref that all accesses go by.
fn in_dimension(
    ir: &Ir,
    loops: &[Counter],
    places: &[Place],
    all: &[Indexed],
    d: usize,
) -> Option<bool> {
    let counter = loops.first()?;
    let mut leaves = vec![counter.iv];
    let mut forms = Vec::new();
    for (indexed, place) in all.iter().zip(places) {
        leaves[0] = place.iv;
        forms.push(linear(ir, *indexed.indices.get(d)?, &mut leaves)?);
    }
    let first = forms.first()?;
    let step = first.at(0).checked_mul(counter.step)?.checked_abs()?;
    let (mut low, mut high) = (i64::MAX, i64::MIN);
    for ((form, indexed), place) in forms.iter().zip(all).zip(places) {
        let last = d + 1 == indexed.indices.len();
        let mut rest = Interval::new(form.constant, form.constant);
        if last {
            rest = rest.plus(Interval::new(0, indexed.length - 1))?;
        }
        let facts = Facts::at(ir, place.op);
        for (k, leaf) in leaves.iter().enumerate() {
            if k == 0 || stands_still(ir, loops, *leaf) {
                if form.at(k) != first.at(k) {
                    return Some(false);
                }
            } else if form.at(k) != 0 {
                let range = facts.range(ir, *leaf)?;
                rest = rest.plus(range.times(Interval::point(form.at(k)))?)?;
            }
        }
        (low, high) = (low.min(rest.low), high.max(rest.high));
    }
    Some(high.checked_sub(low)? < step)
}

/// Whether different iterations access different elements of a buffer.
fn apart(ir: &Ir, loops: &[Counter], places: &[Place], leaves: &[Value]) -> Option<bool> {
    let counter = loops.first()?;
    let mut forms = Vec::new();
    for place in places {
        let elements = place.at.as_ref()?;
        forms.push((&elements.begin, elements, place.op));
    }
    let (first, ..) = forms.first()?;
    let step = first.at(0).checked_mul(counter.step)?.checked_abs()?;
    let still = |leaf: Value| stands_still(ir, loops, leaf);
    let mut sizes = Vec::new();
    for (d, leaf) in leaves.iter().enumerate() {
        let same = forms.iter().all(|(form, ..)| form.at(d) == first.at(d));
        if (d == 0 || still(*leaf)) && !same {
            return Some(false);
        }
        if d > 0 && !still(*leaf) {
            sizes.extend(forms.iter().map(|(form, ..)| form.at(d).saturating_abs()));
        }
    }
    for (_, elements, _) in &forms {
        sizes.extend(
            elements
                .inside
                .iter()
                .map(|(stride, _)| stride.saturating_abs()),
        );
    }
    // Rows that were written out are as far apart as those of a loop.
    let distance = |form: &LinearExpr| form.constant.checked_sub(first.constant)?.checked_abs();
    sizes.extend(forms.iter().filter_map(|(form, ..)| distance(form)));
    // Without going round, and for numbers that parts of the rests are multiples of.
    sizes.retain(|size| *size > step);
    sizes.sort_unstable();
    sizes.dedup();
    let moduli = std::iter::once(None).chain(sizes.into_iter().map(Some));
    let reach = step.checked_mul(counter.trips - 1)?;
    for modulus in moduli {
        let mut all: Option<Interval> = None;
        for (form, elements, at) in &forms {
            let begin = form.constant.checked_sub(first.constant)?;
            let begin = match modulus {
                // The nearest to that of the first.
                Some(m) => (begin + m / 2).rem_euclid(m) - m / 2,
                None => begin,
            };
            let facts = Facts::at(ir, *at);
            let mut rest = Some(Interval::new(
                begin,
                begin.checked_add(elements.length - 1)?,
            ));
            for (stride, index) in &elements.inside {
                if modulus.is_none_or(|m| stride % m != 0) {
                    let all = index.times(Interval::point(*stride));
                    rest = rest.zip(all).and_then(|(rest, all)| rest.plus(all));
                }
            }
            for (d, c) in form.terms() {
                if d == 0 || still(leaves[d]) || modulus.is_some_and(|m| c % m == 0) {
                    continue;
                }
                let range = facts.range(ir, leaves[d]);
                rest = rest
                    .zip(range)
                    .and_then(|(rest, range)| rest.plus(range.times(Interval::point(c))?));
            }
            all = match (rest, all) {
                (Some(rest), Some(all)) => Some(Interval::new(
                    rest.low.min(all.low),
                    rest.high.max(all.high),
                )),
                (rest, None) => rest,
                (None, _) => None,
            };
            if all.is_none() {
                break;
            }
        }
        if let Some(all) = all {
            let width = all.high.checked_sub(all.low)?;
            let round = modulus.is_none_or(|m| reach.saturating_add(width) < m);
            if width < step && round {
                return Some(true);
            }
        }
    }
    Some(false)
}

/// What an op accesses by a memref, by indices.
pub(crate) fn element(
    ir: &Ir,
    op: OpId,
    memref: Value,
    leaves: &mut Vec<Value>,
) -> Option<Elements> {
    let Indexed {
        indices,
        length,
        masked,
    } = indexed(ir, op)?;
    let memref_ty: &MemRefType = ir.ty(memref).get()?;
    let (strides, _) = memref_ty.strides()?;
    let bytes = bytes(ir, memref)?;
    if length > 1 && strides.last() != Some(&1) {
        return None;
    }
    let mut begin = begin(ir, memref, leaves)?;
    let (facts, mut inside) = (Facts::at(ir, op), Vec::new());
    for (d, (index, stride)) in indices.iter().zip(strides).enumerate() {
        let size = *memref_ty.shape.get(d)?;
        if stride == DYNAMIC {
            return None;
        }
        let stride = stride.checked_mul(bytes)?;
        let form = linear(ir, *index, leaves)?;
        let last = d + 1 == indices.len();
        let first = if last && masked { 1 - length } else { 0 };
        let room = match last && !masked {
            true => size - length,
            false => size - 1,
        };
        let reach = facts.range(ir, *index);
        let beyond = size != DYNAMIC && !reach.is_some_and(|all| all.is_inside(room + 1));
        match beyond && form.at(0) == 0 {
            // Wherever it is, it is inside.
            true => inside.push((stride, Interval::new(first, room.max(0)))),
            false => begin = begin.plus(&form, stride)?,
        }
    }
    Some(Elements {
        begin,
        inside,
        length: length.checked_mul(bytes)?,
    })
}

/// How an op accesses a buffer by indices.
fn indexed(ir: &Ir, op: OpId) -> Option<Indexed> {
    // A mask leaves out what lies beyond an end of the last dimension.
    let (indices, length, masked) = if let Some(load) = ir.get::<tir_memref::Load>(op) {
        (load.indices, 1, false)
    } else if let Some(store) = ir.get::<tir_memref::Store>(op) {
        (store.indices, 1, false)
    } else if let Some(load) = ir.get::<tir_vector::Load>(op) {
        (load.indices, length(load.result.0)?, false)
    } else if let Some(store) = ir.get::<tir_vector::Store>(op) {
        (store.indices, length(ir.ty(store.value))?, false)
    } else if let Some(load) = ir.get::<tir_vector::MaskedLoad>(op) {
        let (length, masked) = first(ir, load.mask, length(load.result.0)?);
        (load.indices, length, masked)
    } else {
        let store = ir.get::<tir_vector::MaskedStore>(op)?;
        let (length, masked) = first(ir, store.mask, length(ir.ty(store.value))?);
        (store.indices, length, masked)
    };
    Some(Indexed {
        indices,
        length,
        masked,
    })
}

/// How many elements of a vector of so many a mask may hold, and whether they are not known to be the first ones.
fn first(ir: &Ir, mask: Value, length: i64) -> (i64, bool) {
    let made = ir
        .owner(mask)
        .and_then(|op| ir.get::<tir_vector::CreateMask>(op));
    match made.and_then(|made| ir.constant_int(made.size)) {
        Some(held) if (1..=length).contains(&held) => (held, false),
        _ => (length, true),
    }
}

fn length(ty: tir::Type) -> Option<i64> {
    ty.shape()?.first().copied()
}

/// The bytes of an element of a memref.
fn bytes(ir: &Ir, memref: Value) -> Option<i64> {
    i64::try_from(ir.ty(memref).elem().bytes()?).ok()
}

/// The byte of its buffer that a memref begins with.
fn begin(ir: &Ir, memref: Value, leaves: &mut Vec<Value>) -> Option<LinearExpr> {
    let Some(op) = ir.owner(memref) else {
        let block = ir.value_block(memref)?;
        return (ir.block_parent(block) == Some(ir.root())).then(LinearExpr::default);
    };
    let bytes = bytes(ir, memref)?;
    if let Some(view) = ir.get::<SubView>(op) {
        let mut sum = begin(ir, view.source, leaves)?;
        let source: &MemRefType = ir.ty(view.source).get()?;
        let (strides, _) = source.strides()?;
        let mut offsets = view.offsets.iter();
        for (offset, stride) in view.static_offsets.iter().zip(strides) {
            let offset = match *offset {
                DYNAMIC => linear(ir, *offsets.next()?, leaves)?,
                offset => LinearExpr::number(offset),
            };
            if stride == DYNAMIC {
                return None;
            }
            sum = sum.plus(&offset, stride.checked_mul(bytes)?)?;
        }
        return Some(sum);
    }
    if let Some(view) = ir.get::<ReinterpretCast>(op) {
        let sum = begin(ir, view.source, leaves)?;
        let offset = match view.static_offsets[..] {
            [DYNAMIC] => linear(ir, *view.offsets.first()?, leaves)?,
            [offset] => LinearExpr::number(offset),
            _ => return None,
        };
        return sum.plus(&offset, bytes);
    }
    if let Some(view) = ir.get::<View>(op) {
        let sum = begin(ir, view.source, leaves)?;
        return sum.plus(&linear(ir, view.byte_shift, leaves)?, 1);
    }
    let collapsed = ir.get::<CollapseShape>(op).map(|view| view.src);
    let expanded = ir.get::<ExpandShape>(op).map(|view| view.src);
    let cast = ir.get::<Cast>(op).map(|view| view.source);
    if let Some(source) = collapsed.or(expanded).or(cast) {
        return begin(ir, source, leaves);
    }
    let made = ir.operands(op).all(|v| !ir.ty(v).is::<MemRefType>());
    made.then(LinearExpr::default)
}
