//! Means of quantized elements: a sum of integers, and one factor `sx / (sy · n)` for the step to the result's scale.

use tir::data::Array;
use tir::interp::attr_of;
use tir::rewrite::Rewriter;
use tir::{Ir, OpId, Ret, Type, Value};
use tir_graph::{Add, Cast, Constant, GlobalAvgPool, Quantize, ReduceMean, ReduceSum};

use super::parameters::{Quantized, activation};

/// A mean as an operator on integers.
pub(super) struct Mean {
    x: Quantized,
    axes: Vec<i64>,
    keepdims: bool,
    /// Elements that a mean is of.
    count: i64,
}

/// The mean that an op computes; none if it computes something else.
pub(super) fn mean(ir: &Ir, op: OpId) -> Result<Option<Mean>, &'static str> {
    let (value, axes, keepdims): (Value, Vec<i64>, bool) =
        if let Some(pool) = ir.get::<GlobalAvgPool>(op) {
            (pool.x, vec![2, 3], true)
        } else if let Some(mean) = ir.get::<ReduceMean>(op) {
            (mean.x, mean.axes, mean.keepdims)
        } else {
            return Ok(None);
        };
    let x = activation(ir, value)?;
    let ty = ir.ty(x.x);
    let shape = ty.shape().unwrap_or_default();
    let sizes = axes.iter().map(|axis| shape.get(*axis as usize).copied());
    let count = sizes.product::<Option<i64>>().unwrap_or(0);
    if count <= 0 {
        return Err("its means are of no elements");
    }
    // A sum of unsigned numbers minus their zero points takes one bit more than they have.
    let bits = ty.elem().bits().unwrap_or(32);
    if bits > 16 || count > 1 << (30 - bits) {
        return Err("its sums may not fit 32 bits");
    }
    Ok(Some(Mean {
        x,
        axes,
        keepdims,
        count,
    }))
}

impl Mean {
    /// What a sum is multiplied by for a result of a scale.
    pub(super) fn factor(&self, scale: f64) -> f32 {
        (self.x.scale / (scale * self.count as f64)) as f32
    }

    /// The sums of `i32`, for a result like that of a step to integers.
    pub(super) fn sum(&self, rw: &mut Rewriter<'_>, quantize: &Quantize) -> Value {
        let wide = Type::int(32);
        let ty = rw.ty(self.x.x).with_elem(wide);
        let x = rw.add(Cast {
            x: self.x.x,
            y: Ret(ty),
        });
        let sum = rw.add(ReduceSum {
            x,
            axes: self.axes.clone(),
            keepdims: self.keepdims,
        });
        if self.x.zero == 0 {
            return sum;
        }
        let rank = quantize.y.0.shape().map_or(0, <[i64]>::len);
        let zeros = vec![(-self.x.zero * self.count) as i32];
        let zeros = Array::from_vec(&vec![1; rank], zeros);
        let Ok(zeros) = zeros else {
            unreachable!("one number is a tensor of sizes 1");
        };
        let value = attr_of(&zeros);
        let y = rw.add(Constant { value });
        rw.add(Add { x: sum, y })
    }
}
