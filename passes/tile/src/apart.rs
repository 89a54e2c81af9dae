//! What reads a tensor that is put together from parts, part by part.
//!
//! A reduction over windows of such a tensor, along each of whose parts it only counts through, is one for each part, put
//! together in the same way. Each stands right behind what computes its part, so that it can be a stage of the same nest,
//! and what is put together is smaller. Whether that is quicker the planner says, which is asked both ways.

use std::collections::HashMap;

use tir::{At, Builder, Ir, OpId, RegionId, Ret, Rets, Type, Value};
use tir_tensor::{Empty, Generic, InsertSlice};

use crate::emit::copy_body;
use crate::group::reduction;
use crate::parts::{Part, parts};

/// A reduction that may be computed part by part.
pub(crate) struct Apart {
    op: OpId,
    /// The iterator that counts through the parts.
    iterator: usize,
    /// The dimension of the result that it counts.
    place: usize,
    /// The parts, and where each begins.
    parts: Vec<(Value, i64)>,
}

impl Apart {
    /// The reduction, and what computes the parts.
    pub(crate) fn ops<'a>(&'a self, func: &'a Ir) -> impl Iterator<Item = OpId> + 'a {
        let parts = self
            .parts
            .iter()
            .filter_map(|(value, _)| func.owner(*value));
        std::iter::once(self.op).chain(parts)
    }
}

/// The reductions of a function that may be computed part by part, in order.
pub(crate) fn candidates(func: &Ir) -> Vec<Apart> {
    let all = func.walk_ids().into_iter();
    all.filter_map(|op| candidate(func, op)).collect()
}

fn candidate(func: &Ir, op: OpId) -> Option<Apart> {
    let (generic, source, start) = reduction(func, op)?;
    let (whole, result) = (func.ty(source), func.ty(start));
    let fill: Generic = func.def(start)?;
    if fill.sizes.is_some() {
        return None;
    }
    let all = parts(func, source)?;
    if all.len() < 2 || func.uses(source).count() != 1 {
        return None;
    }
    // Parts lie behind each other along one dimension.
    let rank = whole.shape()?.len();
    let s = (0..rank).find(|s| {
        all.iter()
            .any(|(_, at)| at.get(*s).is_some_and(|at| *at != 0))
    })?;
    let [from, to] = &generic.indexing_maps[..] else {
        return None;
    };
    let (from, to) = (from.linear()?, to.as_projection()?);
    let iterator = from[s].as_dim()?;
    let place = to.iter().position(|d| *d == iterator)?;
    let alone = from
        .iter()
        .enumerate()
        .all(|(t, form)| t == s || form.at(iterator) == 0);
    let counted = !generic.reductions()[iterator] && result.shape()?[place] == whole.shape()?[s];
    // A part is computed by a generic that stands before, for this alone.
    let block = func.block_of(op);
    let made = |(value, _): &Part| {
        let mut uses = func.uses(*value);
        let only = uses.all(|u| func.is::<InsertSlice>(u.op)) && func.uses(*value).count() == 1;
        let maker = func.owner(*value);
        only && maker.is_some_and(|op| func.is::<Generic>(op) && func.block_of(op) == block)
    };
    let parts = all.iter().map(|(value, at)| (*value, at[s])).collect();
    (alone && counted && all.iter().all(made)).then_some(Apart {
        op,
        iterator,
        place,
        parts,
    })
}

/// Computes a reduction part by part. `group` says which fused group generics are in.
pub(crate) fn split(func: &mut Ir, apart: &Apart, group: &mut HashMap<OpId, usize>) {
    let Some(generic) = func.get::<Generic>(apart.op) else {
        return;
    };
    let (loc, whole) = (func.loc(apart.op), func.ty(generic.outputs[0]));
    let Some(constant) = func.def::<Generic>(generic.outputs[0]) else {
        return;
    };
    let Some(shape) = whole.shape().map(<[i64]>::to_vec) else {
        return;
    };
    let mut computed = Vec::new();
    for (value, _) in &apart.parts {
        let Some(maker) = func.owner(*value) else {
            return;
        };
        let size = func
            .ty(*value)
            .shape()
            .map_or(0, |own| own[along(&generic, apart.iterator)]);
        let mut own = shape.clone();
        own[apart.place] = size;
        let ty = Type::tensor(own, whole.elem());
        let behind = func.next(maker).map_or(At::After(maker), At::Before);
        let mut b = func.at(behind);
        b.loc = loc;
        let empty = b.add(Empty {
            dynamic_sizes: Vec::new(),
            space: None,
            result: Ret(ty),
        });
        let like = |b: &mut Builder<'_>, of: &Generic, inputs: Vec<Value>, start: Value| {
            let sizes = of.sizes.clone().map(|mut sizes| {
                sizes[apart.iterator] = size;
                sizes
            });
            let body: RegionId = copy_body(b, of.body);
            let results = b.add(Generic {
                inputs,
                outputs: vec![start],
                indexing_maps: of.indexing_maps.clone(),
                iterator_types: of.iterator_types.clone(),
                combine: of.combine,
                sizes,
                body,
                results: Rets(vec![ty]),
            });
            results[0]
        };
        let start = like(&mut b, &constant, Vec::new(), empty);
        let made = like(&mut b, &generic, vec![*value], start);
        computed.push(made);
    }
    let mut b = func.at(At::Before(apart.op));
    b.loc = loc;
    let mut dest = b.add(Empty {
        dynamic_sizes: Vec::new(),
        space: None,
        result: Ret(whole),
    });
    for (source, (_, start)) in computed.into_iter().zip(&apart.parts) {
        let mut offsets = vec![0; shape.len()];
        offsets[apart.place] = *start;
        let sizes = b.ty(source).shape().unwrap_or(&[]).to_vec();
        dest = b.add(InsertSlice {
            source,
            dest,
            offsets: Vec::new(),
            sizes: Vec::new(),
            strides: Vec::new(),
            static_offsets: offsets,
            static_sizes: sizes,
            static_strides: vec![1; shape.len()],
            result: Ret(whole),
        });
    }
    group.remove(&apart.op);
    let mut gone = vec![apart.op];
    func.replace(apart.op, &[dest]);
    // What nobody reads any more: what put the parts together, and what the reduction started from.
    for value in [generic.inputs[0], generic.outputs[0]] {
        let mut next = func.owner(value);
        while let Some(op) = next.take() {
            let dead = func.contains(op) && func.results(op).all(|value| func.is_unused(value));
            if !dead || gone.contains(&op) {
                break;
            }
            next = func
                .get::<InsertSlice>(op)
                .and_then(|insert| func.owner(insert.dest));
            let filled: Option<Generic> = func.get(op);
            next = next.or_else(|| filled.and_then(|of| func.owner(*of.outputs.first()?)));
            group.remove(&op);
            gone.push(op);
            func.erase(op);
        }
    }
}

/// The dimension of the input that an iterator counts.
fn along(generic: &Generic, iterator: usize) -> usize {
    let forms = generic.indexing_maps[0].linear().unwrap_or_default();
    let s = forms
        .iter()
        .position(|form| form.as_dim() == Some(iterator));
    s.unwrap_or(0)
}
