//! Elementwise nests behind a tensor that is put together from parts: computed where the parts are. What several nests
//! compute at once, each a part of the tensor, so needs no second pass over it.

use tir::{AffineExpr as E, AffineMap, At, Ir, Loc, Mapping, OpId, Ret, Rets, Type, Value};
use tir_tensor::{Empty, ExtractSlice, Generic, InsertSlice, Yield};

use super::{append, is_elementwise, place};

/// Moves nests that read assembled tensors into the nests of the parts; says how many.
pub(super) fn into(ir: &mut Ir) -> usize {
    let mut moved = 0;
    for op in ir.walk_ids() {
        if ir.contains(op) && ir.is::<Generic>(op) && move_into(ir, op).is_some() {
            moved += 1;
        }
    }
    moved
}

/// A nest and where its results go, a part for each.
struct Maker {
    op: OpId,
    generic: Generic,
    parts: Vec<InsertSlice>,
}

fn move_into(ir: &mut Ir, op: OpId) -> Option<()> {
    let reader: Generic = ir.get(op)?;
    let [out] = reader.outputs[..] else {
        return None;
    };
    if !is_elementwise(&reader) || ir.def::<Empty>(out).is_none() {
        return None;
    }
    let written = reader.indexing_maps.last()?;
    let dims = written.as_projection()?;
    let (whole, makers) = reader.inputs.iter().find_map(|value| {
        let mut reads = reader.inputs.iter().zip(&reader.indexing_maps);
        let in_place = reads.all(|(other, map)| other != value || map == written);
        let alone = ir.uses(*value).all(|u| u.op == op);
        (in_place && alone).then(|| Some((*value, makers(ir, op, *value)?)))?
    })?;
    let elem = ir.ty(out).elem();
    // The tensor without content that the reader writes to may be made behind the parts.
    let mut b = ir.at(At::Before(first(ir, &makers)?));
    b.loc = b.ir.loc(op);
    let mut to = b.add(Empty {
        dynamic_sizes: Vec::new(),
        space: None,
        result: Ret(b.ir.ty(out)),
    });
    let mut made = Vec::new();
    for maker in &makers {
        let mut b = ir.at(At::Before(maker.op));
        b.loc = b.ir.loc(op);
        let mut outputs = Vec::new();
        for part in &maker.parts {
            outputs.push(b.add(ExtractSlice {
                source: to,
                offsets: Vec::new(),
                sizes: Vec::new(),
                strides: Vec::new(),
                static_offsets: part.static_offsets.clone(),
                static_sizes: part.static_sizes.clone(),
                static_strides: part.static_strides.clone(),
                result: Ret(b.ir.ty(part.source).with_elem(elem)),
            }));
        }
        made.extend(rebuild(ir, (op, &reader), maker, (whole, &dims), &outputs)?);
    }
    // Behind all nests, as they were before.
    let mut b = ir.at(At::Before(op));
    b.loc = b.ir.loc(op);
    let parts = makers.iter().flat_map(|maker| &maker.parts);
    for (part, value) in parts.zip(made) {
        to = b.add(InsertSlice {
            source: value,
            dest: to,
            result: Ret(b.ir.ty(to)),
            offsets: Vec::new(),
            sizes: Vec::new(),
            strides: Vec::new(),
            static_offsets: part.static_offsets.clone(),
            static_sizes: part.static_sizes.clone(),
            static_strides: part.static_strides.clone(),
        });
    }
    let hint = ir.hint(ir.result(op, 0));
    ir.set_hint(to, hint);
    ir.replace(op, &[to]);
    // The parts as they were, and what only said where they went, last ones first.
    sweep(ir, whole);
    if let Some(empty) = ir.owner(out).filter(|_| ir.is_unused(out)) {
        ir.erase(empty);
    }
    Some(())
}

/// Erases a chain of parts that nobody reads.
fn sweep(ir: &mut Ir, whole: Value) {
    let mut open: Vec<OpId> = ir.owner(whole).into_iter().collect();
    while let Some(op) = open.pop() {
        if !ir.contains(op) || !ir.results(op).all(|v| ir.is_unused(v)) || !ir.is_removable(op) {
            continue;
        }
        let operands: Vec<Value> = ir.operands(op).collect();
        open.extend(operands.into_iter().filter_map(|v| ir.owner(v)));
        ir.erase(op);
    }
}

/// The nests that compute a tensor's parts, in order, if nothing else does and nothing else reads them, and if all that they
/// and the reader need is there where each of them is.
fn makers(ir: &Ir, reader: OpId, whole: Value) -> Option<Vec<Maker>> {
    let mut makers: Vec<Maker> = Vec::new();
    let mut value = whole;
    let block = ir.block_of(reader)?;
    while ir.def::<Empty>(value).is_none() {
        let part: InsertSlice = ir.def(value)?;
        let op = ir.owner(part.source)?;
        let generic: Generic = ir.get(op)?;
        let places = [
            &part.static_offsets,
            &part.static_sizes,
            &part.static_strides,
        ];
        let dynamic = places.iter().any(|list| list.contains(&tir::DYNAMIC));
        let same_rank = ir.ty(part.source).shape() == Some(&part.static_sizes[..]);
        let near = ir.block_of(op) == Some(block) && ir.block_of(ir.owner(value)?) == Some(block);
        if dynamic || !same_rank || !near || !is_elementwise(&generic) {
            return None;
        }
        if !ir.has_one_use(part.source) {
            return None;
        }
        value = part.dest;
        match makers.last_mut() {
            Some(maker) if maker.op == op => maker.parts.push(part),
            _ => makers.push(Maker {
                op,
                generic,
                parts: vec![part],
            }),
        }
        // What is between is read by the next part, and by those who say where theirs go.
        let only = |u: tir::Use| {
            ir.is::<InsertSlice>(u.op) || ir.is::<ExtractSlice>(u.op) || u.op == reader
        };
        if value != whole && !ir.uses(value).all(only) {
            return None;
        }
    }
    makers.reverse();
    for maker in &mut makers {
        maker.parts.reverse();
        // One part for each result, in their order.
        let results = ir.results(maker.op);
        if !results.eq(maker.parts.iter().map(|part| part.source)) {
            return None;
        }
    }
    let first = first(ir, &makers)?;
    let early = |value: &Value| match ir.owner(*value) {
        Some(op) if ir.block_of(op) == Some(block) => ir.is_before(op, first),
        _ => true,
    };
    let generic: Generic = ir.get(reader)?;
    let inputs = generic.inputs.iter();
    let others = inputs.filter(|value| **value != whole);
    others.into_iter().all(early).then_some(makers)
}

/// The nest that comes first. Parts may be put in place in another order than they are computed in.
fn first(ir: &Ir, makers: &[Maker]) -> Option<OpId> {
    let ops = makers.iter().map(|maker| maker.op);
    ops.reduce(|first, op| match ir.is_before(op, first) {
        true => op,
        false => first,
    })
}

/// A nest that computes of each of its parts what the reader computes of the whole; gives the parts.
fn rebuild(
    ir: &mut Ir,
    (op, reader): (OpId, &Generic),
    maker: &Maker,
    (whole, dims): (Value, &[usize]),
    outputs: &[Value],
) -> Option<Vec<Value>> {
    let own = &maker.generic;
    let mut inputs = Vec::new();
    let mut from_own = Vec::new();
    for (value, map) in own.inputs.iter().zip(&own.indexing_maps) {
        from_own.push(place(&mut inputs, *value, map.clone()));
    }
    // For each part, where the reader's inputs are.
    let mut from_reader = Vec::new();
    let outs = own.indexing_maps.iter().skip(own.inputs.len());
    for (part, out) in maker.parts.iter().zip(outs) {
        // The iterators of the reader, by those of the maker.
        let mut at = vec![None; reader.iterator_types.len()];
        for (q, (expr, d)) in out.exprs.iter().zip(dims).enumerate() {
            let (stride, offset) = (part.static_strides[q], part.static_offsets[q]);
            *at.get_mut(*d)? = Some(expr.clone() * E::Const(stride) + E::Const(offset));
        }
        let at = AffineMap::new(out.dims, at.into_iter().collect::<Option<_>>()?);
        let mut places = Vec::new();
        for (value, map) in reader.inputs.iter().zip(&reader.indexing_maps) {
            places.push(match *value == whole {
                true => None,
                false => Some(place(&mut inputs, *value, map.compose(&at))),
            });
        }
        from_reader.push(places);
    }
    let region = ir.new_region();
    let block = ir.new_block(region);
    let types: Vec<Type> = inputs.iter().map(|(v, _)| ir.ty(*v).elem()).collect();
    let args: Vec<Value> = types.into_iter().map(|ty| ir.add_arg(block, ty)).collect();
    let given: Vec<Option<Value>> = from_own.iter().map(|at| args.get(*at).copied()).collect();
    let made = append(ir, own, At::End(block), &mut Mapping::default(), &given);
    let mut values = Vec::new();
    for (value, places) in made.iter().zip(&from_reader) {
        let given: Vec<Option<Value>> = places
            .iter()
            .map(|at| at.map_or(Some(*value), |at| args.get(at).copied()))
            .collect();
        values.extend(append(
            ir,
            reader,
            At::End(block),
            &mut Mapping::default(),
            &given,
        ));
    }
    ir.add(block, Yield { values });
    let domain = own.domain(ir).ok()?;
    let results: Vec<Type> = outputs.iter().map(|v| ir.ty(*v)).collect();
    let loc = Loc::fused([ir.loc(maker.op), ir.loc(op)]);
    let mut b = ir.at(At::Before(maker.op));
    b.loc = loc;
    let maps = inputs.iter().map(|(_, map)| map.clone());
    let outs = own.indexing_maps.iter().skip(own.inputs.len()).cloned();
    Some(b.add(Generic {
        indexing_maps: maps.chain(outs).collect(),
        inputs: inputs.iter().map(|(value, _)| *value).collect(),
        outputs: outputs.to_vec(),
        iterator_types: own.iterator_types.clone(),
        combine: None,
        sizes: Some(domain),
        body: region,
        results: Rets(results),
    }))
}
