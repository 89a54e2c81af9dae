//! Elementwise nests behind a sum whose dimensions are collapsed, as those of an operator in groups
//! are: computed on the sum's own dimensions, so that both are one nest later on.

use std::collections::HashSet;

use tir::{AffineExpr as E, AffineMap, At, Ir, OpId, Ret, Rets, Type, Value};
use tir_tensor::generic::iterators;
use tir_tensor::{CollapseShape, Empty, Generic, groups};

use super::is_elementwise;

/// Moves collapses of sums below the elementwise nests that read them; says how many.
pub(super) fn below(ir: &mut Ir) -> usize {
    let mut made = HashSet::new();
    for op in ir.walk_ids() {
        if ir.contains(op)
            && ir.is::<Generic>(op)
            && let Some(new) = move_below(ir, op, &made)
        {
            made.insert(new);
        }
    }
    made.len()
}

fn move_below(ir: &mut Ir, op: OpId, made: &HashSet<OpId>) -> Option<OpId> {
    let generic: Generic = ir.get(op)?;
    let [out] = generic.outputs[..] else {
        return None;
    };
    let identity = |map: &AffineMap| map.is_identity();
    if !is_elementwise(&generic)
        || generic.sizes.is_some()
        || ir.def::<Empty>(out).is_none()
        || !generic.indexing_maps.last().is_some_and(identity)
    {
        return None;
    }
    let inputs = || generic.inputs.iter().zip(&generic.indexing_maps);
    let (whole, collapse) = inputs().find_map(|(value, map)| {
        let collapse: CollapseShape = ir.def(*value).filter(|_| identity(map))?;
        let source = ir.owner(collapse.src)?;
        let sum = ir.get::<Generic>(source)?.combine.is_some() || made.contains(&source);
        let alone = ir.uses(*value).all(|u| u.op == op) && ir.has_one_use(collapse.src);
        let near = ir.block_of(source) == ir.block_of(op);
        (sum && alone && near).then_some((*value, collapse))
    })?;
    let shape = ir.ty(collapse.src).shape()?.to_vec();
    let groups = groups(&collapse.reassociation, shape.len()).ok()?;
    // A position behind the collapse, by those before it.
    let position = |group: &Vec<usize>| {
        let sum = group.iter().fold(None, |sum: Option<E>, d| {
            let here = E::Dim(*d);
            Some(match sum {
                None => here,
                Some(sum) => sum * E::Const(shape[*d]) + here,
            })
        });
        sum.unwrap_or(E::Const(0))
    };
    let exprs = groups.iter().map(position).collect::<Vec<_>>();
    let expanded = AffineMap::new(shape.len(), exprs);
    let (mut values, mut maps) = (Vec::new(), Vec::new());
    for (value, map) in inputs() {
        let own: Option<CollapseShape> = ir.def(*value).filter(|_| identity(map));
        let same = own.filter(|own| {
            own.reassociation == collapse.reassociation
                && ir.ty(own.src).shape() == Some(&shape[..])
        });
        match same {
            Some(own) => {
                values.push(own.src);
                maps.push(AffineMap::identity(shape.len()));
            }
            None => {
                values.push(*value);
                maps.push(map.compose(&expanded));
            }
        }
    }
    maps.push(AffineMap::identity(shape.len()));
    let result = ir.result(op, 0);
    let old: Type = ir.ty(result);
    let ty = Type::tensor(shape.clone(), old.elem());
    let hint = ir.hint(result);
    let body = generic.body;
    ir.detach_region(body);
    let loc = ir.loc(op);
    let mut b = ir.at(At::Before(op));
    b.loc = loc;
    let out = b.add(Empty {
        dynamic_sizes: Vec::new(),
        space: None,
        result: Ret(ty),
    });
    let computed: Vec<Value> = b.add(Generic {
        inputs: values,
        outputs: vec![out],
        indexing_maps: maps,
        iterator_types: iterators(shape.len(), 0),
        combine: None,
        sizes: None,
        body,
        results: Rets(vec![ty]),
    });
    let src = *computed.first()?;
    let new = b.add(CollapseShape {
        src,
        reassociation: collapse.reassociation,
        result: Ret(old),
    });
    ir.set_hint(new, hint);
    ir.replace(op, &[new]);
    // It would be one more use of the sum.
    if let Some(collapse) = ir.owner(whole).filter(|_| ir.is_unused(whole)) {
        ir.erase(collapse);
    }
    ir.owner(src)
}
