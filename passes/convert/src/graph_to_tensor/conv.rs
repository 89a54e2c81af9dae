//! Convolutions and matrix products.

use tir::rewrite::{PatternSet, Rewriter};
use tir::{AffineMap, Decline, OpId, Ret, Type, Value};
use tir_arith::{AddF, AddI, MulF, MulI};
use tir_graph::layout::Layout;
use tir_graph::shape::{Window, axis};
use tir_graph::{Conv2d, Conv2dInteger, Gemm, MatMul, MatMulInteger, ModeProduct};
use tir_tensor::{CollapseShape, Combine, reassociation};

use super::nest::{
    E, Reduction, broadcast, form, map, padded, ranked, rounded, truncated, wide, window,
};
use super::select::converted;

pub(super) fn patterns(set: &mut PatternSet) {
    set.on("conv2d-to-generic", conv2d);
    set.on("conv2d-integer-to-generic", conv2d_integer);
    set.on("matmul-integer-to-generic", matmul_integer);
    set.on("matmul-to-generic", matmul);
    set.on("mode-product-to-generic", mode_product);
    set.on("gemm-to-generic", gemm);
}

/// A sum of products, in what elements of `ty` are accumulated in: integers are widened to it.
fn contraction(
    rw: &mut Rewriter<'_>,
    ty: Type,
    iterators: [usize; 2],
    a: (Value, AffineMap),
    b: (Value, AffineMap),
) -> Value {
    let sum = Reduction {
        ty: wide(ty),
        start: None,
        combine: Combine::Add,
        iterators,
        sizes: None,
    };
    let elem = ty.elem();
    sum.make(rw, &[a, b], |rw, args| {
        let (a, b) = (args[0], args[1]);
        if elem.is_float() {
            return rw.add(MulF::new(a, b));
        }
        let [lhs, rhs] = [a, b].map(|x| converted(rw, x, elem));
        rw.add(MulI {
            lhs,
            rhs,
            overflow: None,
        })
    })
}

/// A sum with an addend, if there is one, which is read by a map; rounded to elements of type
/// `elem`.
fn plus(rw: &mut Rewriter<'_>, y: Value, addend: Option<(Value, AffineMap)>, elem: Type) -> Value {
    let Some(addend) = addend else {
        return truncated(rw, y, elem);
    };
    let ty = rw.ty(y).with_elem(elem);
    let inputs = [(y, AffineMap::identity(addend.1.dims)), addend];
    rounded(rw, ty, &inputs, |rw, args| match elem.is_float() {
        true => rw.add(AddF::new(args[0], args[1])),
        false => rw.add(AddI {
            lhs: args[0],
            rhs: args[1],
            overflow: None,
        }),
    })
}

fn conv2d(conv: Conv2d, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let conv = Conv {
        x: conv.x,
        w: conv.w,
        bias: conv.bias,
        groups: conv.groups,
        windows: conv.windows(rw.op(op))?,
        padding: None,
    };
    conv.lower(op, rw)
}

fn conv2d_integer(conv: Conv2dInteger, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let conv = Conv {
        x: conv.x,
        w: conv.w,
        bias: conv.bias,
        groups: conv.groups,
        windows: conv.windows(rw.op(op))?,
        padding: (conv.padding != 0).then_some(conv.padding as f64),
    };
    conv.lower(op, rw)
}

/// A convolution of floats or integers.
struct Conv {
    x: Value,
    w: Value,
    bias: Option<Value>,
    groups: i64,
    windows: [Window; 2],
    /// What is around the input; zero if absent.
    padding: Option<f64>,
}

impl Conv {
    fn lower(self, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
        let (conv, windows) = (&self, self.windows);
        let ([outputs, inner, ..], _) = ranked::<4>(rw, conv.w)?;
        let result = rw.ty(rw.result(op, 0));
        let ([n, _, height, width], elem) = ranked::<4>(rw, rw.result(op, 0))?;
        let x = padded(rw, conv.x, windows, conv.padding)?;
        let [vertical, horizontal] = &windows;
        let per_group = outputs / conv.groups;
        let y = if conv.groups == 1 {
            // (n, o, h, w, i, kh, kw)
            let rows = window(vertical, 2, 5);
            let cols = window(horizontal, 3, 6);
            let x_map = map(7, [E::Dim(0), E::Dim(4), rows, cols]);
            let w_map = AffineMap::project(7, &[1, 4, 5, 6]);
            contraction(rw, result, [4, 3], (x, x_map), (conv.w, w_map))
        } else if per_group == 1 && inner == 1 {
            // One channel in, one out: (n, c, h, w, kh, kw)
            let rows = window(vertical, 2, 4);
            let cols = window(horizontal, 3, 5);
            let x_map = map(6, [E::Dim(0), E::Dim(1), rows, cols]);
            let w_map = map(6, [E::Dim(1), E::Const(0), E::Dim(4), E::Dim(5)]);
            contraction(rw, result, [4, 2], (x, x_map), (conv.w, w_map))
        } else {
            // (n, g, o, h, w, i, kh, kw), o and i within a group
            let within = |size: i64, at: usize| E::Dim(1) * E::Const(size) + E::Dim(at);
            let rows = window(vertical, 3, 6);
            let cols = window(horizontal, 4, 7);
            let x_map = map(8, [E::Dim(0), within(inner, 5), rows, cols]);
            let w_map = map(8, [within(per_group, 2), E::Dim(5), E::Dim(6), E::Dim(7)]);
            let grouped = Type::tensor([n, conv.groups, per_group, height, width], elem);
            let stored = Layout::of(result)
                .map(|layout| layout.split(1))
                .transpose()?;
            let grouped = Layout::on(stored.as_ref(), grouped);
            let y = contraction(rw, grouped, [5, 3], (x, x_map), (conv.w, w_map));
            rw.add(CollapseShape {
                src: y,
                reassociation: reassociation(&[vec![0], vec![1, 2], vec![3], vec![4]]),
                result: Ret(wide(result)),
            })
        };
        let bias = conv.bias.map(|b| (b, AffineMap::project(4, &[1])));
        let y = plus(rw, y, bias, elem);
        rw.replace(op, &[y]);
        Ok(())
    }
}

fn matmul(product: MatMul, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    matrices(product.a, product.b, op, rw)
}

fn matmul_integer(product: MatMulInteger, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    matrices(product.a, product.b, op, rw)
}

fn matrices(a: Value, b: Value, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let result = rw.ty(rw.result(op, 0));
    let (whole, _) = form(rw, rw.result(op, 0))?;
    let (a_shape, b_shape) = (form(rw, a)?.0, form(rw, b)?.0);
    let rank = whole.len();
    let Some(outer) = rank.checked_sub(2) else {
        return Err("has a result of rank less than 2".into());
    };
    // (outer …, m, n, k)
    let operand = |shape: &[i64], last: [usize; 2]| {
        let outer_shape = shape.get(..shape.len().saturating_sub(2)).unwrap_or(&[]);
        let mut exprs = broadcast(outer_shape, &whole[..outer], rank + 1).exprs;
        exprs.extend(last.map(E::Dim));
        map(rank + 1, exprs)
    };
    let (m, n, k) = (rank - 2, rank - 1, rank);
    let a = (a, operand(a_shape, [m, k]));
    let b = (b, operand(b_shape, [k, n]));
    let y = contraction(rw, result, [rank, 1], a, b);
    let y = truncated(rw, y, result.elem());
    rw.replace(op, &[y]);
    Ok(())
}

fn mode_product(product: ModeProduct, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let result = rw.ty(rw.result(op, 0));
    let rank = form(rw, rw.result(op, 0))?.0.len();
    let axis = axis(product.axis, rank)?;
    // (outer …, j, inner …, i)
    let of_x = (0..rank).map(|d| if d == axis { rank } else { d });
    let of_x: Vec<usize> = of_x.collect();
    let x = (product.x, AffineMap::project(rank + 1, &of_x));
    let m = (product.m, AffineMap::project(rank + 1, &[axis, rank]));
    let y = contraction(rw, result, [rank, 1], m, x);
    let y = truncated(rw, y, result.elem());
    rw.replace(op, &[y]);
    Ok(())
}

fn gemm(gemm: Gemm, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let result = rw.ty(rw.result(op, 0));
    let (shape, _) = form(rw, rw.result(op, 0))?;
    let swapped = |[row, col]: [usize; 2], swap: bool| {
        let dims = if swap { [col, row] } else { [row, col] };
        AffineMap::project(3, &dims)
    };
    let addend = gemm
        .c
        .map(|c| Ok::<_, Decline>((c, broadcast(form(rw, c)?.0, shape, 2))))
        .transpose()?;
    // (m, n, k)
    let a = (gemm.a, swapped([0, 2], gemm.trans_a));
    let b = (gemm.b, swapped([2, 1], gemm.trans_b));
    let y = contraction(rw, result, [2, 1], a, b);
    let y = plus(rw, y, addend, result.elem());
    rw.replace(op, &[y]);
    Ok(())
}
