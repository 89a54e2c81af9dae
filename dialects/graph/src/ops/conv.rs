//! Convolutions and matrix products.

use tir::constraints::FLOAT_TENSOR;
use tir::{Failure, Infer, Op, OpRef, Type, Value};

use crate::fusion::{Fusable, FusionKind};
use crate::layout::{Keeps, Layout, LayoutRule, windows_in};
use crate::shape::{Window, broadcast, ranked, tensor, windows};

/// Convolution of `x` (NCHW) with `w` (OIHW, I = C / groups), plus `bias` (O).
///
/// The result is N x O x H' x W': the number of windows that fit the padded input.
#[derive(Op)]
#[op(
    "graph.conv2d",
    Pure,
    results(y),
    crate::layout::infer,
    evaluate,
    crate::fusion::fusion,
    crate::layout::layouts,
    cost
)]
#[asm("$x `,` $w (`,` $bias^)? attr-dict `:` functional-type(operands, results)")]
pub struct Conv2d {
    /// Input, N x C x H x W.
    #[is(FLOAT_TENSOR)]
    pub x: Value,
    /// Weights, O x C/groups x KH x KW, in any layout.
    #[is(FLOAT_TENSOR)]
    pub w: Value,
    /// Bias, O.
    #[is(FLOAT_TENSOR)]
    pub bias: Option<Value>,
    /// Distance of windows: vertical, horizontal.
    #[default(vec![1, 1])]
    pub strides: Vec<i64>,
    /// Zeros around the input: top, left, bottom, right.
    #[default(vec![0, 0, 0, 0])]
    pub pads: Vec<i64>,
    /// Distance of kernel elements: vertical, horizontal.
    #[default(vec![1, 1])]
    pub dilations: Vec<i64>,
    /// Number of groups that channels are divided into.
    #[default(1)]
    pub groups: i64,
}
impl Conv2d {
    /// The vertical and horizontal window.
    pub fn windows(&self, op: OpRef<'_>) -> Result<[Window; 2], Failure> {
        let ([_, _, h, w], _) = ranked(op, self.x, "x")?;
        let ([_, _, kh, kw], _) = ranked(op, self.w, "w")?;
        windows(
            [h, w],
            &[kh, kw],
            &self.strides,
            &self.pads,
            &self.dilations,
            false,
        )
    }
}
impl Infer for Conv2d {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let ([n, c, ..], elem) = ranked::<4>(op, self.x, "x")?;
        let ([o, i, ..], w_elem) = ranked::<4>(op, self.w, "w")?;
        if elem != w_elem {
            return Err(format!("has an input of {elem} and weights of {w_elem}").into());
        }
        if self.groups < 1 || c % self.groups != 0 || o % self.groups != 0 {
            let groups = self.groups;
            return Err(format!(
                "has {groups} groups, which do not divide {c} input and {o} output channels"
            )
            .into());
        }
        if i != c / self.groups {
            let wanted = c / self.groups;
            return Err(format!("has weights for {i} input channels, expected {wanted}").into());
        }
        if let Some(bias) = self.bias {
            let ([b], b_elem) = ranked(op, bias, "bias")?;
            if b != o || b_elem != elem {
                return Err(format!("has a bias of {b} x {b_elem}, expected {o} x {elem}").into());
            }
        }
        let [vertical, horizontal] = self.windows(op)?;
        let shape = [n, o, vertical.output()?, horizontal.output()?];
        Ok(vec![Type::tensor(shape, elem)])
    }
}
impl Fusable for Conv2d {
    const KIND: FusionKind = FusionKind::ComplexOutFusable;
}
impl LayoutRule for Conv2d {
    const KEEPS: Keeps = Keeps::Weighted;

    /// Channels are rows and columns of products, unless each is a convolution for itself.
    fn prefers(&self, _: OpRef<'_>) -> Option<[usize; 2]> {
        (self.groups == 1).then_some([1, 0])
    }

    fn admits(&self, op: OpRef<'_>, layout: &Layout) -> Result<(), Failure> {
        let ([outputs, inputs, ..], _) = ranked::<4>(op, self.w, "w")?;
        let groups = self.groups;
        if groups != 1 && (inputs != 1 || outputs != groups) {
            return Err(format!("takes plain tensors in {groups} groups, found {layout}").into());
        }
        windows_in(layout)
    }

    fn weights(&self, op: OpRef<'_>, layout: &Layout) -> Option<Layout> {
        let ([outputs, inputs, ..], _) = ranked::<4>(op, self.w, "w").ok()?;
        let block = *layout.blocks().get(1)?;
        // A matrix unit takes rows of input channels and columns of output channels.
        let name = match (outputs % block == 0, inputs % block == 0) {
            _ if block == 1 && layout.axes().last()?.dim == 1 => "HWIO".to_string(),
            (true, true) if block > 1 => format!("OIHW{block}i{block}o"),
            (true, false) => format!("OIHW{block}o"),
            _ => return None,
        };
        Layout::new(&name).ok()
    }
}

/// Matrix product of the last two dimensions; the others broadcast.
///
/// The result is … x M x N.
#[derive(Op)]
#[op(
    "graph.matmul",
    Pure,
    results(y),
    infer,
    evaluate,
    crate::fusion::fusion,
    cost
)]
#[asm("$a `,` $b attr-dict `:` functional-type(operands, results)")]
pub struct MatMul {
    /// Left matrices, … x M x K.
    #[is(FLOAT_TENSOR)]
    pub a: Value,
    /// Right matrices, … x K x N.
    #[is(FLOAT_TENSOR)]
    pub b: Value,
}
impl Infer for MatMul {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let (a, elem) = tensor(op, self.a, "a")?;
        let (b, b_elem) = tensor(op, self.b, "b")?;
        let (Some((a_outer, &[m, k])), Some((b_outer, &[k2, n]))) =
            (a.split_last_chunk::<2>(), b.split_last_chunk::<2>())
        else {
            return Err(format!(
                "multiplies ranks {} and {}, expected at least 2",
                a.len(),
                b.len()
            )
            .into());
        };
        if k != k2 || elem != b_elem {
            return Err(
                format!("multiplies {m} x {k} of {elem} with {k2} x {n} of {b_elem}").into(),
            );
        }
        let mut shape = broadcast(a_outer, b_outer)?;
        shape.extend([m, n]);
        Ok(vec![Type::tensor(shape, elem)])
    }
}
impl Fusable for MatMul {
    const KIND: FusionKind = FusionKind::ComplexOutFusable;
}

/// `a · b + c` on matrices, either of them transposed first; `c` broadcasts to the result.
#[derive(Op)]
#[op(
    "graph.gemm",
    Pure,
    results(y),
    infer,
    evaluate,
    crate::fusion::fusion,
    cost
)]
#[asm("$a `,` $b (`,` $c^)? attr-dict `:` functional-type(operands, results)")]
pub struct Gemm {
    /// Left matrix, M x K (K x M if transposed).
    #[is(FLOAT_TENSOR)]
    pub a: Value,
    /// Right matrix, K x N (N x K if transposed).
    #[is(FLOAT_TENSOR)]
    pub b: Value,
    /// Added to the product.
    #[is(FLOAT_TENSOR)]
    pub c: Option<Value>,
    /// Whether `a` is transposed.
    #[default(false)]
    pub trans_a: bool,
    /// Whether `b` is transposed.
    #[default(false)]
    pub trans_b: bool,
}
impl Infer for Gemm {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let ([mut m, mut k], elem) = ranked(op, self.a, "a")?;
        let ([mut k2, mut n], b_elem) = ranked(op, self.b, "b")?;
        if self.trans_a {
            (m, k) = (k, m);
        }
        if self.trans_b {
            (k2, n) = (n, k2);
        }
        if k != k2 || elem != b_elem {
            return Err(
                format!("multiplies {m} x {k} of {elem} with {k2} x {n} of {b_elem}").into(),
            );
        }
        if let Some(c) = self.c {
            let (c, c_elem) = tensor(op, c, "c")?;
            if c_elem != elem || broadcast(&c, &[m, n])? != [m, n] {
                let c: Vec<String> = c.iter().map(i64::to_string).collect();
                let c = c.join(" x ");
                return Err(format!("adds {c} of {c_elem} to {m} x {n} of {elem}").into());
            }
        }
        Ok(vec![Type::tensor([m, n], elem)])
    }
}
impl Fusable for Gemm {
    const KIND: FusionKind = FusionKind::ComplexOutFusable;
}
