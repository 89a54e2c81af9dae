//! Convolutions by Winograd's filtering, in parts: transforms of input, filters and result, around a
//! [`MatMul`](crate::MatMul) for each point.

use tir::constraints::FLOAT_TENSOR;
use tir::{Failure, Infer, Op, OpRef, Ret, Type, Value, Verify};

use crate::fusion::{Fusable, FusionKind};
use crate::layout::{Keeps, Layout, LayoutRule, windows_in};
use crate::shape::{Window, ranked, tensor, windows};
use crate::winograd::{KERNEL, Winograd};

/// Filters of 3x3 convolutions as matrices of Winograd's points: G g Gᵀ.
///
/// The result is P x C x O, with P = (tile + 2)² points, row by row. It is computed in `f64` and rounded once.
#[derive(Op)]
#[op(
    "graph.winograd_filter",
    StrictAttributes,
    Pure,
    results(u),
    infer,
    evaluate,
    crate::fusion::fusion,
    cost
)]
#[asm("$w attr-dict `:` functional-type(operands, results)")]
pub struct WinogradFilter {
    /// Weights, O x C x 3 x 3.
    #[is(FLOAT_TENSOR)]
    pub w: Value,
    /// Side of a tile of the result: 2 or 4.
    pub tile: i64,
}
impl Infer for WinogradFilter {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let form = Winograd::new(self.tile)?;
        let ([o, c, kh, kw], elem) = ranked(op, self.w, "w")?;
        let side = KERNEL as i64;
        if [kh, kw] != [side, side] {
            return Err(format!("has filters of {kh} x {kw}, expected {side} x {side}").into());
        }
        Ok(vec![Type::tensor([form.points() as i64, c, o], elem)])
    }
}
impl Fusable for WinogradFilter {
    const KIND: FusionKind = FusionKind::Opaque;
}

/// Overlapping tiles of the input of a 3x3 convolution as matrices of Winograd's points: Bᵀ d B.
///
/// A tile has (tile + 2)² elements, every `tile` rows and columns there is one; what is outside of the input is zero. The
/// result is P x T x C, with P = (tile + 2)² points and T = N x rows x columns of tiles.
#[derive(Op)]
#[op(
    "graph.winograd_input",
    StrictAttributes,
    Pure,
    results(v),
    crate::layout::infer,
    evaluate,
    crate::fusion::fusion,
    crate::layout::layouts,
    cost
)]
#[asm("$x attr-dict `:` functional-type(operands, results)")]
pub struct WinogradInput {
    /// Input, N x C x H x W, in any order of storage.
    #[is(FLOAT_TENSOR)]
    pub x: Value,
    /// Side of a tile of the result: 2 or 4.
    pub tile: i64,
    /// Zeros around the input: top, left, bottom, right.
    #[default(vec![0, 0, 0, 0])]
    pub pads: Vec<i64>,
}
impl WinogradInput {
    /// The vertical and horizontal window of the convolution.
    pub fn windows(&self, op: OpRef<'_>) -> Result<[Window; 2], Failure> {
        let ([_, _, h, w], _) = ranked(op, self.x, "x")?;
        let side = KERNEL as i64;
        windows([h, w], &[side, side], &[1, 1], &self.pads, &[1, 1], false)
    }
}
impl Infer for WinogradInput {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let form = Winograd::new(self.tile)?;
        let ([n, c, ..], elem) = ranked::<4>(op, self.x, "x")?;
        let [vertical, horizontal] = self.windows(op)?;
        let rows = form.tiles(vertical.output()?);
        let tiles = rows.checked_mul(form.tiles(horizontal.output()?));
        let tiles = tiles.and_then(|tiles| tiles.checked_mul(n));
        let tiles = tiles.ok_or("has a number of tiles beyond 64 bits")?;
        Ok(vec![Type::tensor([form.points() as i64, tiles, c], elem)])
    }
}
impl Fusable for WinogradInput {
    const KIND: FusionKind = FusionKind::Opaque;
}
impl LayoutRule for WinogradInput {
    const KEEPS: Keeps = Keeps::Operand;

    /// The result has channels beside each other.
    fn prefers(&self, _: OpRef<'_>) -> Vec<[usize; 2]> {
        vec![[1, 0]]
    }
    fn admits(&self, _: OpRef<'_>, layout: &Layout) -> Result<(), Failure> {
        match layout.blocks().iter().all(|b| *b == 1) {
            true => Ok(()),
            false => Err(format!("takes tensors without blocks, found {layout}").into()),
        }
    }
}

/// The result of a 3x3 convolution from the products of Winograd's points, Aᵀ m A, plus `bias`.
///
/// Of the last tiles of a row or column what sticks out is not computed.
#[derive(Op)]
#[op(
    "graph.winograd_output",
    StrictAttributes,
    Pure,
    verify,
    evaluate,
    crate::fusion::fusion,
    crate::layout::layouts,
    cost
)]
#[asm("$m (`,` $bias^)? attr-dict `:` functional-type(operands, results)")]
pub struct WinogradOutput {
    /// Products, P x T x O: (tile + 2)² points, N x rows x columns of tiles, filters.
    #[is(FLOAT_TENSOR)]
    pub m: Value,
    /// Bias, O.
    #[is(FLOAT_TENSOR)]
    pub bias: Option<Value>,
    /// Side of a tile of the result: 2 or 4.
    pub tile: i64,
    /// Type of the result, N x O x H' x W'.
    #[is(FLOAT_TENSOR)]
    pub y: Ret,
}
impl Verify for WinogradOutput {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let form = Winograd::new(self.tile)?;
        let (found, elem) = ranked::<3>(op, self.m, "m")?;
        let y = self.y.0;
        let &[n, o, h, w] = y.shape().unwrap_or(&[]) else {
            return Err(format!("makes a {y}, expected a tensor of rank 4").into());
        };
        let tiles = form.tiles(h).checked_mul(form.tiles(w));
        let tiles = tiles.and_then(|tiles| tiles.checked_mul(n));
        let wanted = [form.points() as i64, tiles.unwrap_or(-1), o];
        if found != wanted || y.elem() != elem || [n, o, h, w].iter().any(|d| *d < 0) {
            let wanted = Type::tensor(wanted, y.elem());
            let m = op.ir.ty(self.m);
            return Err(format!("makes a {y} of a {m}, expected a {wanted}").into());
        }
        if let Some(layout) = Layout::of(y) {
            layout.check(y)?;
            self.admits(op, layout)?;
        }
        if let Some(bias) = self.bias {
            let (bias, bias_elem) = tensor(op, bias, "bias")?;
            if bias != [o] || bias_elem != elem {
                let bias = Type::tensor(bias, bias_elem);
                return Err(format!("has a bias of {bias}, expected {o} x {elem}").into());
            }
        }
        Ok(())
    }
}
impl Fusable for WinogradOutput {
    const KIND: FusionKind = FusionKind::ComplexOutFusable;
}
impl LayoutRule for WinogradOutput {
    const KEEPS: Keeps = Keeps::Result;

    /// Operands have filters beside each other.
    fn prefers(&self, _: OpRef<'_>) -> Vec<[usize; 2]> {
        vec![[1, 0]]
    }
    fn admits(&self, _: OpRef<'_>, layout: &Layout) -> Result<(), Failure> {
        windows_in(layout)
    }
}
