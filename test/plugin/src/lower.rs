//! `fixed-to-tensor`: fixed-point numbers become integers, ops on them index expressions.

use std::collections::BTreeSet;

use tir::pass;
use tir::rewrite::{Conversion, PatternSet, Patterns, Rewriter, Target, TypeConverter};
use tir::{
    AffineExpr as E, AffineMap, Attr, BlobAttr, Decline, DenseElements, Diagnostic, Ir, OpId, Pass,
    PassCx, PassResult, Ret, Rets, Type, Value,
};
use tir_arith::{
    ExtSI, FPToSI, MaximumF, MinimumF, MulF, MulI, SIToFP, constant_float, constant_int,
};
use tir_graph::{Constant, Fused};
use tir_math::RoundEven;
use tir_tensor::generic::iterators;
use tir_tensor::{Combine, Empty, Generic, Yield};

use crate::ops::{Dequantize, MatMul, Quantize};
use crate::point::Point;

pass! {
    /// Turns fixed-point numbers into integers, and ops on them into index expressions.
    ///
    /// Signatures of functions, constants and groups are changed with them.
    pub struct FixedToTensor = "fixed-to-tensor" {}
}

impl Pass for FixedToTensor {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let prepared = cx.shared(|| Prepared(patterns(&cx.settings().disabled_rules)));
        let patterns = prepared.0.as_ref().map_err(Clone::clone)?;
        let types = types();
        let target = Target::new()
            .illegal_dialects(&["fixed"])
            .other_if(|ir, op| self::types().is_legal_op(ir, op));
        Conversion::new(&target, patterns).types(&types).run(ir)
    }

    fn pattern_names() -> Vec<String> {
        set().names()
    }
}

struct Prepared(Result<Patterns, Vec<Diagnostic>>);

/// What types become.
fn types() -> TypeConverter {
    TypeConverter::new().rule(|ty, _| Point::of(ty).map(|_| ty.with_elem(ty.elem().storage())))
}

fn patterns(disabled: &BTreeSet<String>) -> Result<Patterns, Vec<Diagnostic>> {
    set().finish(disabled)
}

fn set() -> PatternSet {
    let mut set = PatternSet::new();
    set.on("quantize-to-generic", quantize);
    set.on("dequantize-to-generic", dequantize);
    set.on("fixed-matmul-to-generic", matmul);
    set.on("fixed-constant-as-stored", constant);
    set.retype::<tir_func::Func>()
        .retype::<tir_func::Return>()
        .retype::<tir_func::Call>()
        .retype::<Fused>()
        .retype::<tir_graph::Yield>();
    set
}

fn quantize(Quantize { x, q }: Quantize, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let point = Point::of(q.0).ok_or(Decline::NO_MATCH)?;
    let ty = rw.convert_type(q.0)?;
    let result = nest(rw, &[x], &Nest::elementwise(ty), |rw, args| {
        let [one, low, high] =
            float_constants(rw, [point.one(), point.range()[0], point.range()[1]]);
        let scaled = rw.add(MulF::new(args[0], one));
        let above = rw.add(MaximumF::new(scaled, low));
        let within = rw.add(MinimumF::new(above, high));
        let input = rw.add(RoundEven::new(within));
        let output = Ret(ty.elem());
        rw.add(FPToSI { input, output })
    });
    rw.replace(op, &[result]);
    Ok(())
}

fn dequantize(
    Dequantize { q }: Dequantize,
    op: OpId,
    rw: &mut Rewriter<'_>,
) -> Result<(), Decline> {
    let from = rw.original_operands().first().map(|value| rw.ty(*value));
    let point = from.and_then(Point::of).ok_or(Decline::NO_MATCH)?;
    let ty = rw.ty(rw.result(op, 0));
    let result = nest(rw, &[q], &Nest::elementwise(ty), |rw, args| {
        let float = rw.add(SIToFP {
            input: args[0],
            output: Ret(Type::f32()),
        });
        let [unit] = float_constants(rw, [point.one().recip()]);
        rw.add(MulF::new(float, unit))
    });
    rw.replace(op, &[result]);
    Ok(())
}

fn matmul(MatMul { a, b }: MatMul, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let ty = rw.convert_type(rw.ty(rw.result(op, 0)))?;
    let result = nest(rw, &[a, b], &Nest::matmul(ty), |rw, args| {
        let wide = |rw: &mut Rewriter<'_>, input| {
            let output = Ret(ty.elem());
            rw.add(ExtSI { input, output })
        };
        let (lhs, rhs) = (wide(rw, args[0]), wide(rw, args[1]));
        let overflow = None;
        rw.add(MulI { lhs, rhs, overflow })
    });
    rw.replace(op, &[result]);
    Ok(())
}

/// Elements are stored as the integers they are.
fn constant(Constant { value }: Constant, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let value = match (value.get::<DenseElements>(), value.get::<BlobAttr>()) {
        (Some(dense), _) => Attr::new(DenseElements {
            ty: rw.convert_type(dense.ty)?,
            ..dense.clone()
        }),
        (None, Some(blob)) => Attr::new(BlobAttr {
            ty: rw.convert_type(blob.ty)?,
            ..blob.clone()
        }),
        (None, None) => return Err(Decline::NO_MATCH),
    };
    let result = rw.add(Constant { value });
    rw.replace(op, &[result]);
    Ok(())
}

fn float_constants<const N: usize>(rw: &mut Rewriter<'_>, values: [f64; N]) -> [Value; N] {
    values.map(|value| rw.build(|b| constant_float(b, value, Type::f32())))
}

/// The loops of an op.
struct Nest {
    /// Type of the result.
    ty: Type,
    /// A map for each input, then that of the result.
    maps: Vec<AffineMap>,
    /// How many iterators the result has, and how many are summed over.
    iterators: [usize; 2],
}

impl Nest {
    /// Inputs and result have one element for each point.
    fn elementwise(ty: Type) -> Self {
        let rank = ty.shape().map_or(0, <[i64]>::len);
        Self {
            ty,
            maps: vec![AffineMap::identity(rank); 2],
            iterators: [rank, 0],
        }
    }
    /// A sum over k for each (m, n).
    fn matmul(ty: Type) -> Self {
        let map = |dims: [usize; 2]| AffineMap::new(3, dims.map(E::Dim).to_vec());
        Self {
            ty,
            maps: vec![map([0, 2]), map([2, 1]), map([0, 1])],
            iterators: [2, 1],
        }
    }
}

/// `tensor.generic` over these loops.
fn nest(
    rw: &mut Rewriter<'_>,
    inputs: &[Value],
    nest: &Nest,
    compute: impl FnOnce(&mut Rewriter<'_>, &[Value]) -> Value,
) -> Value {
    let [parallel, summed] = nest.iterators;
    let mut start = rw.add(Empty {
        dynamic_sizes: Vec::new(),
        space: None,
        result: Ret(nest.ty),
    });
    if summed > 0 {
        let zero = Nest {
            ty: nest.ty,
            maps: vec![AffineMap::identity(parallel)],
            iterators: [parallel, 0],
        };
        let body = rw.body(&[], |rw, _| {
            let value = rw.build(|b| constant_int(b, 0, nest.ty.elem()));
            rw.add(Yield {
                values: vec![value],
            });
        });
        start = generic(rw, &[], start, &zero, body);
    }
    let args: Vec<Type> = inputs.iter().map(|value| rw.ty(*value).elem()).collect();
    let body = rw.body(&args, |rw, args| {
        let value = compute(rw, args);
        rw.add(Yield {
            values: vec![value],
        });
    });
    generic(rw, inputs, start, nest, body)
}

fn generic(
    rw: &mut Rewriter<'_>,
    inputs: &[Value],
    start: Value,
    nest: &Nest,
    body: tir::RegionId,
) -> Value {
    let [parallel, summed] = nest.iterators;
    let results = rw.add(Generic {
        inputs: inputs.to_vec(),
        outputs: vec![start],
        indexing_maps: nest.maps.clone(),
        iterator_types: iterators(parallel, summed),
        combine: (summed > 0).then_some(Combine::Add),
        sizes: None,
        body,
        results: Rets(vec![nest.ty]),
    });
    // One output, so one result.
    results.first().copied().unwrap_or(start)
}
