//! Which reductions may be rounded up: what lies beyond adds nothing.
//!
//! Beyond its range a reduction reads what a transfer fills in where a tensor ends. That is known to add
//! nothing where values are added up and the scalar computation gives zero for it, whatever the other
//! operands hold. Whether it does is tried out: on numbers of every sign, by the interpreter.

use tir::data::compare;
use tir::interp::{Data, Kernel, KernelSpec, Scalar, dtype_of, tensor_form, zeros};
use tir::{AffineExpr, AffineMap, Ir, Type};
use tir_tensor::Combine;

use crate::group::{Group, Input, Operand, Step};

/// How many numbers of each operand are tried.
const TRIED: i64 = 16;

/// For each iterator of the core whether it may be rounded up.
pub(super) fn may_exceed(ir: &Ir, group: &Group) -> Vec<bool> {
    let mut may = vec![false; group.core];
    let Some((step, Combine::Add, _)) = &group.reduce else {
        return may;
    };
    for (at, input) in step.inputs.iter().enumerate() {
        let Input::Operand(i) = input else { continue };
        let operand = &group.operands[*i];
        let ends: Vec<usize> = group
            .iterators(true)
            .filter(|d| ends(group, operand, *d))
            .collect();
        if !ends.is_empty() && zero(ir, group, step, at, operand) == Some(true) {
            ends.into_iter().for_each(|d| may[d] = true);
        }
    }
    may
}

/// Whether an operand ends where an iterator does.
fn ends(group: &Group, operand: &Operand, d: usize) -> bool {
    let mut dims = operand.map.exprs.iter().zip(&operand.shape);
    let last =
        |(at, size): (&AffineExpr, &i64)| *at == AffineExpr::Dim(d) && *size == group.domain[d];
    !operand.cut && operand.inner.is_none() && dims.any(last)
}

/// Whether what a group sums is zero where an input is what is read outside of its operand.
pub fn adds_nothing(ir: &Ir, group: &Group, input: usize) -> bool {
    let Some((step, Combine::Add, _)) = &group.reduce else {
        return false;
    };
    let Some(Input::Operand(i)) = step.inputs.get(input) else {
        return false;
    };
    zero(ir, group, step, input, &group.operands[*i]) == Some(true)
}

/// Whether a step gives zero where an input is what is read outside of an operand.
fn zero(ir: &Ir, group: &Group, step: &Step, input: usize, operand: &Operand) -> Option<bool> {
    let outside = match operand.padding {
        Some(padding) => Data::Scalar(Scalar::from_attr(ir.constant(padding)?)?).to_array(),
        None => zeros(dtype_of(ir.ty(operand.source).elem())?, &[]),
    };
    let outside = outside.ok()?;
    let mut arrays = Vec::new();
    let mut maps = Vec::new();
    for (at, of) in step.inputs.iter().enumerate() {
        if at == input {
            arrays.push(outside.clone());
            maps.push(AffineMap::project(1, &[]));
            continue;
        }
        let Input::Operand(i) = of else { return None };
        let elem = ir.ty(group.operands[*i].source).elem();
        let made = Data::random(Type::tensor([TRIED], elem), at as u64 + 1);
        arrays.push(made.ok()?.to_array().ok()?);
        maps.push(AffineMap::identity(1));
    }
    maps.push(AffineMap::identity(1));
    let spec = KernelSpec {
        body: ir.entry(step.body)?,
        maps: &maps,
        inputs: arrays.len(),
        combine: None,
    };
    let kernel = Kernel::compile(ir, &spec).ok()?;
    if !kernel.captures().is_empty() {
        return None;
    }
    let (dtype, shape) = tensor_form(Type::tensor([TRIED], step.ty.elem())).ok()?;
    let zero = zeros(dtype, &shape).ok()?;
    let found = kernel.run_arrays(&[TRIED], &arrays, vec![zero.clone()], &[]);
    Some(compare(&zero, found.ok()?.first()?, 0.0, 0.0).ok)
}
