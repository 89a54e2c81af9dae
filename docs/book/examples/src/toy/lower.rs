//! `toy-to-tensor`: residues become integers, ops on them index expressions.

use tir::rewrite::{Conversion, PatternSet, Rewriter, Target, TypeConverter};
use tir::{
    AffineMap, Decline, Ir, OpId, Pass, PassCx, PassResult, RegionId, Ret, Rets, Type, Value, pass,
};
use tir_arith::{AddI, MulI, RemUI, constant_int};
use tir_graph::Fused;
use tir_tensor::generic::iterators;
use tir_tensor::{Combine, Empty, Generic, Yield};

use crate::toy::modulo::Mod;
use crate::toy::ops::{Add, MatMul, Mul, Power, Transpose};

// ANCHOR: pass
pass! {
    /// Turns residues into integers, and ops on them into index expressions.
    pub struct ToyToTensor = "toy-to-tensor" {}
}

impl Pass for ToyToTensor {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let mut set = PatternSet::new();
        set.on("power-to-products", power);
        set.on("add-to-generic", add);
        set.on("mul-to-generic", mul);
        set.on("transpose-to-generic", transpose);
        set.on("matmul-to-generic", matmul);
        // Ops that only hand values on: their types are changed, nothing else.
        set.retype::<tir_func::Func>()
            .retype::<tir_func::Return>()
            .retype::<tir_func::Call>()
            .retype::<Fused>()
            .retype::<tir_graph::Yield>();
        let patterns = set.finish(&cx.settings().disabled_rules)?;
        let types = types();
        let target = Target::new()
            .illegal_dialects(&["toy"])
            .other_if(|ir, op| self::types().is_legal_op(ir, op));
        Conversion::new(&target, &patterns).types(&types).run(ir)
    }
}

/// Residues become what they are stored as.
fn types() -> TypeConverter {
    TypeConverter::new().rule(|ty, _| Mod::of(ty).map(|_| ty.with_elem(ty.elem().storage())))
}
// ANCHOR_END: pass

/// The modulus of the op's result, and the type that the result becomes.
fn result(op: OpId, rw: &Rewriter<'_>) -> Result<(i64, Type), Decline> {
    let ty = rw.ty(rw.result(op, 0));
    let modulus = Mod::of(ty).ok_or(Decline::NO_MATCH)?.modulus;
    Ok((modulus, rw.convert_type(ty)?))
}

// ANCHOR: patterns
fn power(Power { x, exponent }: Power, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let (modulus, ty) = result(op, rw)?;
    let map = AffineMap::identity(ty.shape().map_or(0, <[i64]>::len));
    let y = nest(rw, ty, &[(x, map.clone())], map, |rw, args| {
        let n = rw.build(|b| constant_int(b, modulus, ty.elem()));
        // All factors stay below the modulus, so no product leaves 32 bits.
        let mut power = args[0];
        for _ in 1..exponent {
            let product = rw.add(MulI {
                lhs: power,
                rhs: args[0],
                overflow: None,
            });
            power = rw.add(RemUI {
                lhs: product,
                rhs: n,
            });
        }
        power
    });
    rw.replace(op, &[y]);
    Ok(())
}

fn add(Add { a, b }: Add, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let (modulus, ty) = result(op, rw)?;
    let map = AffineMap::identity(ty.shape().map_or(0, <[i64]>::len));
    let inputs = [(a, map.clone()), (b, map.clone())];
    let y = nest(rw, ty, &inputs, map, |rw, args| {
        let sum = rw.add(AddI {
            lhs: args[0],
            rhs: args[1],
            overflow: None,
        });
        remainder(rw, sum, modulus)
    });
    rw.replace(op, &[y]);
    Ok(())
}
// ANCHOR_END: patterns

fn mul(Mul { a, b }: Mul, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let (modulus, ty) = result(op, rw)?;
    let map = AffineMap::identity(ty.shape().map_or(0, <[i64]>::len));
    let inputs = [(a, map.clone()), (b, map.clone())];
    let y = nest(rw, ty, &inputs, map, |rw, args| {
        let product = rw.add(MulI {
            lhs: args[0],
            rhs: args[1],
            overflow: None,
        });
        remainder(rw, product, modulus)
    });
    rw.replace(op, &[y]);
    Ok(())
}

fn transpose(Transpose { x }: Transpose, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let (_, ty) = result(op, rw)?;
    let from = AffineMap::project(2, &[1, 0]);
    let y = nest(rw, ty, &[(x, from)], AffineMap::identity(2), |_, args| {
        args[0]
    });
    rw.replace(op, &[y]);
    Ok(())
}

// ANCHOR: matmul
fn matmul(MatMul { a, b }: MatMul, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let (modulus, ty) = result(op, rw)?;
    // Start with zeros, add up products over k, and take the remainder once at the end.
    let zeros = nest(rw, ty, &[], AffineMap::identity(2), |rw, _| {
        rw.build(|b| constant_int(b, 0, ty.elem()))
    });
    let maps = [[0, 2], [2, 1], [0, 1]].map(|dims| AffineMap::project(3, &dims));
    let elem = ty.elem();
    let body = rw.body(&[elem, elem], |rw, args| {
        let product = rw.add(MulI {
            lhs: args[0],
            rhs: args[1],
            overflow: None,
        });
        rw.add(Yield {
            values: vec![product],
        });
    });
    let sum = rw.add(Generic {
        inputs: vec![a, b],
        outputs: vec![zeros],
        indexing_maps: maps.to_vec(),
        iterator_types: iterators(2, 1),
        combine: Some(Combine::Add),
        sizes: None,
        body,
        results: Rets(vec![ty]),
    });
    let same = AffineMap::identity(2);
    let y = nest(rw, ty, &[(sum[0], same.clone())], same, |rw, args| {
        remainder(rw, args[0], modulus)
    });
    rw.replace(op, &[y]);
    Ok(())
}
// ANCHOR_END: matmul

fn remainder(rw: &mut Rewriter<'_>, x: Value, modulus: i64) -> Value {
    let ty = rw.ty(x);
    let n = rw.build(|b| constant_int(b, modulus, ty));
    rw.add(RemUI { lhs: x, rhs: n })
}

/// An elementwise `tensor.generic`: `compute` makes an element of the result from the elements that
/// the maps find.
fn nest(
    rw: &mut Rewriter<'_>,
    ty: Type,
    inputs: &[(Value, AffineMap)],
    out: AffineMap,
    compute: impl FnOnce(&mut Rewriter<'_>, &[Value]) -> Value,
) -> Value {
    let empty = rw.add(Empty {
        dynamic_sizes: Vec::new(),
        space: None,
        result: Ret(ty),
    });
    let args: Vec<Type> = inputs.iter().map(|_| ty.elem()).collect();
    let body: RegionId = rw.body(&args, |rw, args| {
        let value = compute(rw, args);
        rw.add(Yield {
            values: vec![value],
        });
    });
    let rank = out.dims;
    let maps = inputs.iter().map(|(_, map)| map.clone());
    let results = rw.add(Generic {
        inputs: inputs.iter().map(|(value, _)| *value).collect(),
        outputs: vec![empty],
        indexing_maps: maps.chain([out]).collect(),
        iterator_types: iterators(rank, 0),
        combine: None,
        sizes: None,
        body,
        results: Rets(vec![ty]),
    });
    results[0]
}
