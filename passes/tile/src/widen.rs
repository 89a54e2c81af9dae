//! Sums of 16-bit floats on units of wider ones.
//!
//! Above, the operands of an f16 sum are extended in its region, element by element, where it is
//! accumulated in f32. A unit that takes f16 computes just that and matches as it is. For a machine whose
//! units take f32 alone, the extension becomes a nest of its own here, of the sum's group: its tiles are
//! computed in near memory from f16 tiles, and far memory never holds the wide tensor.

use std::collections::HashMap;

use tir::{AffineMap, At, Builder, Ir, OpId, Ret, Rets, Type, Value};
use tir_arith::ExtF;
use tir_tensor::generic::iterators;
use tir_tensor::{Empty, Generic, Yield};

use crate::matching::Candidate;
use crate::plan::Target;
use crate::scalar::Scalar;

/// Takes extensions out of sums that no unit takes with them, and some unit without.
pub(crate) fn widen(func: &mut Ir, target: &Target<'_>, group: &mut HashMap<OpId, usize>) {
    for op in func.walk_ids() {
        if !func.contains(op) || func.parent(op) != Some(func.root()) {
            continue;
        }
        let Some(generic) = func.get::<Generic>(op).filter(|g| g.combine.is_some()) else {
            continue;
        };
        let found = extensions(func, &generic);
        if found.is_empty() || fits(func, &generic, target, &[]) {
            continue;
        }
        if !fits(func, &generic, target, &found) {
            continue;
        }
        let number = match group.get(&op) {
            Some(number) => *number,
            None => fresh(func, op, group),
        };
        // What is read in two ways is extended once.
        let mut known: HashMap<Value, Value> = HashMap::new();
        for extension in found {
            let source = func.operand(op, extension.input);
            let made = match known.get(&source) {
                Some(made) => *made,
                None => extended(func, op, source, extension.wide),
            };
            known.insert(source, made);
            group.extend(func.owner(made).map(|nest| (nest, number)));
            func.set_operand(op, extension.input, made);
            for ext in extension.ops {
                func.replace(ext, &[extension.arg]);
            }
            func.set_type(extension.arg, extension.wide);
        }
    }
}

/// An input of a nest of which only an extension is used.
struct Extension {
    input: usize,
    arg: Value,
    wide: Type,
    ops: Vec<OpId>,
}

fn extensions(ir: &Ir, generic: &Generic) -> Vec<Extension> {
    let args = ir.entry(generic.body).into_iter();
    let args = args
        .flat_map(|block| ir.args(block))
        .take(generic.inputs.len());
    let extension = |(input, arg): (usize, Value)| {
        let users: Vec<OpId> = ir.uses(arg).map(|u| u.op).collect();
        let wide = |op: &OpId| Some(ir.get::<ExtF>(*op)?.output.0);
        let first = users.first().and_then(wide)?;
        let all = users.iter().all(|op| wide(op) == Some(first));
        all.then_some(Extension {
            input,
            arg,
            wide: first,
            ops: users,
        })
    };
    args.enumerate().filter_map(extension).collect()
}

/// Whether some unit takes the points of a nest as it is.
pub(crate) fn takes(ir: &Ir, generic: &Generic, target: &Target<'_>) -> bool {
    fits(ir, generic, target, &[])
}

/// Whether some unit takes the points of a nest, these extensions being made before.
fn fits(ir: &Ir, generic: &Generic, target: &Target<'_>, without: &[Extension]) -> bool {
    let values = generic.inputs.iter().chain(&generic.outputs);
    let mut elems: Vec<Type> = values.map(|v| ir.ty(*v).elem()).collect();
    for extension in without {
        elems[extension.input] = extension.wide;
    }
    let reductions = generic.reductions();
    let candidate = Candidate {
        scalar: Scalar {
            ir,
            body: generic.body,
            extended: !without.is_empty(),
        },
        combine: generic.combine,
        elems,
        maps: &generic.indexing_maps,
        reductions: &reductions,
        joined: &[],
    };
    generic.domain(ir).is_ok() && !target.known.ways(ir, &candidate, target).0.is_empty()
}

/// A group for a nest that is in none, and for the only nest that reads it.
fn fresh(ir: &Ir, op: OpId, group: &mut HashMap<OpId, usize>) -> usize {
    let number = group.values().max().map_or(0, |most| most + 1);
    // Numbers of groups are places of ops, so none is used by a later group.
    let number = number.max(ir.walk_ids().len());
    group.insert(op, number);
    let mut readers = ir.results(op).flat_map(|v| ir.uses(v)).map(|u| u.op);
    if let (Some(reader), None) = (readers.next(), readers.next())
        && ir
            .get::<Generic>(reader)
            .is_some_and(|g| g.combine.is_none())
        && !group.contains_key(&reader)
    {
        group.insert(reader, number);
    }
    number
}

/// A nest before another one that extends the elements of a tensor.
fn extended(func: &mut Ir, before: OpId, source: Value, elem: Type) -> Value {
    let wide = func.ty(source).with_elem(elem);
    let extend = |b: &mut Builder<'_>, args: &[Value]| b.add(ExtF::new(args[0], elem));
    each_element(func, before, &[source], wide, &extend)
}

/// A nest before an op that computes each element of a tensor from those of others of its shape.
pub(crate) fn each_element(
    func: &mut Ir,
    before: OpId,
    inputs: &[Value],
    ty: Type,
    element: &dyn Fn(&mut Builder<'_>, &[Value]) -> Value,
) -> Value {
    let rank = ty.shape().map_or(0, <[i64]>::len);
    let body = func.new_region();
    let block = func.new_block(body);
    let args = inputs.iter().map(|value| func.ty(*value).elem());
    let args: Vec<Type> = args.collect();
    let args: Vec<Value> = args.into_iter().map(|ty| func.add_arg(block, ty)).collect();
    let mut b = Builder::new(func, At::End(block));
    let value = element(&mut b, &args);
    b.add(Yield {
        values: vec![value],
    });
    let loc = func.loc(before);
    let mut b = func.at(At::Before(before));
    b.loc = loc;
    let out = b.add(Empty {
        dynamic_sizes: Vec::new(),
        space: None,
        result: Ret(ty),
    });
    let results = b.add(Generic {
        inputs: inputs.to_vec(),
        outputs: vec![out],
        indexing_maps: vec![AffineMap::identity(rank); inputs.len() + 1],
        iterator_types: iterators(rank, 0),
        combine: None,
        sizes: None,
        body,
        results: Rets(vec![ty]),
    });
    results.first().copied().unwrap_or(out)
}
