//! Convolutions and matrix products.

use tir::constraints::{FLOAT_TENSOR, INT_TENSOR};
use tir::{Failure, Infer, Op, OpRef, Type, Value};

use crate::fusion::{Fusable, FusionKind};
use crate::layout::{Keeps, Layout, LayoutRule, windows_in};
use crate::number::holds;
use crate::shape::{Window, axis, broadcast, ranked, tensor, windows};

/// Convolution of `x` (NCHW) with `w` (OIHW, I = C / groups), plus `bias` (O).
///
/// The result is N x O x H' x W': the number of windows that fit the padded input.
#[derive(Op)]
#[op(
    "graph.conv2d",
    StrictAttributes,
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
        self.form().windows(op)
    }
    fn form(&self) -> Form<'_> {
        Form {
            x: self.x,
            w: self.w,
            bias: self.bias,
            windows: [&self.strides, &self.pads, &self.dilations],
            groups: self.groups,
        }
    }
}
impl Infer for Conv2d {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let (elem, w_elem) = (tensor(op, self.x, "x")?.1, tensor(op, self.w, "w")?.1);
        if elem != w_elem {
            return Err(format!("has an input of {elem} and weights of {w_elem}").into());
        }
        self.form().infer(op, elem)
    }
}

/// What convolutions of floats and of integers share.
struct Form<'a> {
    x: Value,
    w: Value,
    bias: Option<Value>,
    /// Strides, pads, dilations.
    windows: [&'a [i64]; 3],
    groups: i64,
}
impl Form<'_> {
    fn windows(&self, op: OpRef<'_>) -> Result<[Window; 2], Failure> {
        let ([_, _, h, w], _) = ranked(op, self.x, "x")?;
        let ([_, _, kh, kw], _) = ranked(op, self.w, "w")?;
        let [strides, pads, dilations] = self.windows;
        windows([h, w], &[kh, kw], strides, pads, dilations, false)
    }

    /// The type of the result, whose elements, and those of a bias, are `elem`.
    fn infer(&self, op: OpRef<'_>, elem: Type) -> Result<Vec<Type>, Failure> {
        let ([n, c, ..], _) = ranked::<4>(op, self.x, "x")?;
        let ([o, i, ..], _) = ranked::<4>(op, self.w, "w")?;
        let groups = self.groups;
        if groups < 1 || c % groups != 0 || o % groups != 0 {
            return Err(format!(
                "has {groups} groups, which do not divide {c} input and {o} output channels"
            )
            .into());
        }
        if i != c / groups {
            let wanted = c / groups;
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

    /// [`LayoutRule::prefers`]: of the products of pixels with filters channels are rows and columns, unless each is a
    /// convolution for itself; of those of filters with pixels the latter are columns, where neighbours are read as such.
    fn prefers(&self, op: OpRef<'_>) -> Vec<[usize; 2]> {
        let Ok(([_, inputs, ..], _)) = ranked::<4>(op, self.w, "w") else {
            return Vec::new();
        };
        if self.groups > 1 && inputs <= 1 {
            return Vec::new();
        }
        let [strides, ..] = self.windows;
        let beside = (strides.last() == Some(&1)).then_some([3, 1]);
        [[1, 0]].into_iter().chain(beside).collect()
    }

    /// [`LayoutRule::admits`].
    fn admits(&self, op: OpRef<'_>, layout: &Layout) -> Result<(), Failure> {
        let ([outputs, inputs, ..], _) = ranked::<4>(op, self.w, "w")?;
        let (groups, block) = (self.groups, layout.blocks().get(1).copied().unwrap_or(1));
        let lanes = inputs == 1 && outputs == groups;
        let own = outputs / groups.max(1);
        if groups != 1 && !lanes && (inputs % block != 0 || own % block != 0) {
            return Err(format!(
                "has groups of {inputs} input and {own} output channels, which blocks of {layout} do not divide"
            )
            .into());
        }
        windows_in(layout)
    }

    /// [`LayoutRule::weights`].
    fn weights(&self, op: OpRef<'_>, layout: Option<&Layout>) -> Option<Layout> {
        let ([outputs, inputs, rows, columns], _) = ranked::<4>(op, self.w, "w").ok()?;
        let Some(layout) = layout else {
            // The filters are the rows of a product with pixels: input channels lie beside each other for each element.
            let apart = inputs > 1 && rows * columns > 1;
            return apart.then(|| Layout::new("HWOI").ok()).flatten();
        };
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

/// Convolution of integers: as [`Conv2d`], each element and each product taken as an `i32`, in
/// which the sum wraps.
///
/// Around the input is `padding`: for an input that stands for real numbers, what stands for zero.
/// The zero points of input and weights are in the bias: `Σ (x - zx) · w` is `Σ x · w` plus
/// `-zx · Σ w`, a number for each output channel.
#[derive(Op)]
#[op(
    "graph.conv2d_integer",
    StrictAttributes,
    Pure,
    results(y),
    crate::layout::infer,
    evaluate,
    crate::fusion::fusion,
    crate::layout::layouts,
    cost
)]
#[asm("$x `,` $w (`,` $bias^)? attr-dict `:` functional-type(operands, results)")]
pub struct Conv2dInteger {
    /// Input, N x C x H x W.
    #[is(INT_TENSOR)]
    pub x: Value,
    /// Weights, O x C/groups x KH x KW, in any layout.
    #[is(INT_TENSOR)]
    pub w: Value,
    /// Bias, O x i32.
    #[is(INT_TENSOR)]
    pub bias: Option<Value>,
    /// What is around the input, of the input's elements.
    #[default(0)]
    pub padding: i64,
    /// Distance of windows: vertical, horizontal.
    #[default(vec![1, 1])]
    pub strides: Vec<i64>,
    /// Elements around the input: top, left, bottom, right.
    #[default(vec![0, 0, 0, 0])]
    pub pads: Vec<i64>,
    /// Distance of kernel elements: vertical, horizontal.
    #[default(vec![1, 1])]
    pub dilations: Vec<i64>,
    /// Number of groups that channels are divided into.
    #[default(1)]
    pub groups: i64,
}
impl Conv2dInteger {
    /// The vertical and horizontal window.
    pub fn windows(&self, op: OpRef<'_>) -> Result<[Window; 2], Failure> {
        self.form().windows(op)
    }
    fn form(&self) -> Form<'_> {
        Form {
            x: self.x,
            w: self.w,
            bias: self.bias,
            windows: [&self.strides, &self.pads, &self.dilations],
            groups: self.groups,
        }
    }
}
impl Infer for Conv2dInteger {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let elem = tensor(op, self.x, "x")?.1;
        if !holds(elem, self.padding) {
            let padding = self.padding;
            return Err(format!("has padding {padding}, which {elem} does not hold").into());
        }
        self.form().infer(op, Type::int(32))
    }
}
impl Fusable for Conv2dInteger {
    const KIND: FusionKind = FusionKind::ComplexOutFusable;
}
impl LayoutRule for Conv2dInteger {
    const KEEPS: Keeps = Keeps::Weighted;

    fn prefers(&self, op: OpRef<'_>) -> Vec<[usize; 2]> {
        self.form().prefers(op)
    }
    fn admits(&self, op: OpRef<'_>, layout: &Layout) -> Result<(), Failure> {
        self.form().admits(op, layout)
    }
    fn weights(&self, op: OpRef<'_>, layout: Option<&Layout>) -> Option<Layout> {
        self.form().weights(op, layout)
    }
}
impl Fusable for Conv2d {
    const KIND: FusionKind = FusionKind::ComplexOutFusable;
}
impl LayoutRule for Conv2d {
    const KEEPS: Keeps = Keeps::Weighted;

    fn prefers(&self, op: OpRef<'_>) -> Vec<[usize; 2]> {
        self.form().prefers(op)
    }

    fn admits(&self, op: OpRef<'_>, layout: &Layout) -> Result<(), Failure> {
        self.form().admits(op, layout)
    }

    fn weights(&self, op: OpRef<'_>, layout: Option<&Layout>) -> Option<Layout> {
        self.form().weights(op, layout)
    }
}

/// Matrix product of the last two dimensions; the others broadcast.
///
/// The result is … x M x N.
#[derive(Op)]
#[op(
    "graph.matmul",
    StrictAttributes,
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
        let (elem, b_elem) = (tensor(op, self.a, "a")?.1, tensor(op, self.b, "b")?.1);
        product(op, self.a, self.b, (elem == b_elem).then_some(elem))
    }
}

/// Product of a matrix with each column along one axis: element `j` of the axis is the sum over `i` of `m[j, i]` times element
/// `i`. What is linear along an axis and the same at all other places is such a product: sums of windows, means, resampling.
///
/// This is the n-mode product of Kolda and Bader, "Tensor Decompositions and Applications", SIAM Review 51(3), 2009.
#[derive(Op)]
#[op(
    "graph.mode_product",
    StrictAttributes,
    Pure,
    results(y),
    crate::layout::infer,
    evaluate,
    crate::fusion::fusion,
    crate::layout::layouts,
    cost
)]
#[asm("$x `,` $m attr-dict `:` functional-type(operands, results)")]
pub struct ModeProduct {
    /// Input, with I elements along the axis.
    #[is(FLOAT_TENSOR)]
    pub x: Value,
    /// Matrix, J x I: the result has J elements along the axis.
    #[is(FLOAT_TENSOR)]
    pub m: Value,
    /// The axis.
    pub axis: i64,
}
impl Infer for ModeProduct {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let (mut shape, elem) = tensor(op, self.x, "x")?;
        let ([rows, columns], m_elem) = ranked(op, self.m, "m")?;
        let at = axis(self.axis, shape.len())?;
        let size = &mut shape[at];
        if *size != columns || elem != m_elem {
            let text = format!("multiplies {rows} x {columns} of {m_elem} with {size} of {elem}");
            return Err(text.into());
        }
        *size = rows;
        Ok(vec![Type::tensor(shape, elem)])
    }
}
impl Fusable for ModeProduct {
    const KIND: FusionKind = FusionKind::ComplexOutFusable;
}
impl LayoutRule for ModeProduct {
    const KEEPS: Keeps = Keeps::First;
    fn admits(&self, _: OpRef<'_>, layout: &Layout) -> Result<(), Failure> {
        let at = usize::try_from(self.axis).ok();
        match at.and_then(|at| layout.blocks().get(at)) {
            None | Some(1) => Ok(()),
            Some(_) => Err(format!("multiplies along blocks of {layout}").into()),
        }
    }
}

/// The type of a product of matrices, whose elements are `elem`; a failure if there are none.
fn product(op: OpRef<'_>, a: Value, b: Value, elem: Option<Type>) -> Result<Vec<Type>, Failure> {
    let (a, a_elem) = tensor(op, a, "a")?;
    let (b, b_elem) = tensor(op, b, "b")?;
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
    let Some(elem) = elem.filter(|_| k == k2) else {
        return Err(format!("multiplies {m} x {k} of {a_elem} with {k2} x {n} of {b_elem}").into());
    };
    let mut shape = broadcast(a_outer, b_outer)?;
    shape.extend([m, n]);
    Ok(vec![Type::tensor(shape, elem)])
}

/// Product of matrices of integers: as [`MatMul`], each element and each product taken as an
/// `i32`, in which the sum wraps.
#[derive(Op)]
#[op(
    "graph.matmul_integer",
    StrictAttributes,
    Pure,
    results(y),
    infer,
    evaluate,
    crate::fusion::fusion,
    cost
)]
#[asm("$a `,` $b attr-dict `:` functional-type(operands, results)")]
pub struct MatMulInteger {
    /// Left matrices, … x M x K.
    #[is(INT_TENSOR)]
    pub a: Value,
    /// Right matrices, … x K x N.
    #[is(INT_TENSOR)]
    pub b: Value,
}
impl Infer for MatMulInteger {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        product(op, self.a, self.b, Some(Type::int(32)))
    }
}
impl Fusable for MatMulInteger {
    const KIND: FusionKind = FusionKind::ComplexOutFusable;
}
impl Fusable for MatMul {
    const KIND: FusionKind = FusionKind::ComplexOutFusable;
}

/// `a · b + c` on matrices, either of them transposed first; `c` broadcasts to the result.
#[derive(Op)]
#[op(
    "graph.gemm",
    StrictAttributes,
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
