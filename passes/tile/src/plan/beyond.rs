//! Which reductions may be rounded up: what lies beyond adds nothing.
//!
//! Beyond its range a reduction reads what a transfer fills in where a tensor ends. That is known to add
//! nothing where values are added up and the scalar computation gives zero for it, whatever the other
//! operands hold. Whether it does is tried out: on numbers of every sign, by the interpreter. The same is asked of what blocks
//! of a unit compute beyond the end of a tensor that stays near, where another nest reads it.

use tir::data::Array;
use tir::interp::{Data, Kernel, KernelSpec, Scalar, dtype_of, tensor_form, zeros};
use tir::{AffineExpr, AffineMap, Ir, Type};
use tir_tensor::Combine;

use crate::group::{Group, Input, Operand, Step, StepRef};

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

/// Whether a group gives zero beyond the end of an iterator, which its blocks may exceed: where each operand whose dimension it counts
/// is what is read outside of it, whatever the others hold. `known` says whether that is so for an operand which no transfer fills.
pub fn gives_zero(
    ir: &Ir,
    group: &Group,
    d: usize,
    known: &dyn Fn(&Operand, usize) -> bool,
) -> bool {
    tried(ir, group, d, known) == Some(true)
}

fn tried(
    ir: &Ir,
    group: &Group,
    d: usize,
    known: &dyn Fn(&Operand, usize) -> bool,
) -> Option<bool> {
    // What operands hold there; `None`: anything.
    let mut held: Vec<Option<Array>> = Vec::new();
    for operand in &group.operands {
        let counted = operand.map.exprs.iter().position(|at| at.uses(d));
        let Some(s) = counted else {
            held.push(None);
            continue;
        };
        if operand.inner.is_some() || operand.cut {
            return None;
        }
        let filled = !operand.made && !operand.near && ends(group, operand, d);
        held.push(match filled || known(operand, s) {
            true => Some(outside(ir, operand)?),
            false => None,
        });
    }
    let mut reduced = None;
    if let Some((step, combine, start)) = &group.reduce {
        let found = run(ir, group, step, &|input| match input {
            Input::Operand(i) => held[*i].clone(),
            _ => None,
        })?;
        // Zeros that are added up, or the first of what is combined otherwise and says nothing of the rest.
        let begins = Data::Scalar(Scalar::from_attr(*start)?).to_array().ok()?;
        let adds = *combine == Combine::Add && is_zero(&found) && is_zero(&begins);
        reduced = adds.then_some(begins);
    }
    let last = group.outs.first()?.step;
    let mut mapped: Vec<Option<Array>> = Vec::new();
    for step in &group.maps {
        let found = run(ir, group, step, &|input| match input {
            Input::Operand(i) => held[*i].clone(),
            Input::Reduced => reduced.clone(),
            Input::Mapped(i) => mapped[*i].clone(),
        });
        // The same for all that was tried, or anything.
        let zero = found.filter(is_zero);
        mapped.push(match zero {
            Some(_) => zeros(dtype_of(step.ty.elem())?, &[]).ok(),
            None => None,
        });
    }
    Some(match last {
        StepRef::Reduced => reduced.is_some(),
        StepRef::Mapped(i) => mapped.get(i)?.is_some(),
    })
}

fn is_zero(found: &Array) -> bool {
    found.iter_f64().all(|x| x == 0.0)
}

/// What is read outside of an operand.
fn outside(ir: &Ir, operand: &Operand) -> Option<Array> {
    let outside = match operand.padding {
        Some(padding) => Data::Scalar(Scalar::from_attr(ir.constant(padding)?)?).to_array(),
        None => zeros(dtype_of(ir.ty(operand.source).elem())?, &[]),
    };
    outside.ok()
}

/// Whether a step gives zero where an input is what is read outside of an operand.
fn zero(ir: &Ir, group: &Group, step: &Step, input: usize, operand: &Operand) -> Option<bool> {
    let outside = outside(ir, operand)?;
    let own = step.inputs.get(input)?;
    let others = step.inputs.iter().filter(|of| *of != own);
    if !others.into_iter().all(|of| matches!(of, Input::Operand(_))) {
        return None;
    }
    let found = run(ir, group, step, &|of| (of == own).then(|| outside.clone()))?;
    Some(is_zero(&found))
}

/// What a step gives, element by element, where `held` says what an input holds; others hold numbers of every sign.
fn run(
    ir: &Ir,
    group: &Group,
    step: &Step,
    held: &dyn Fn(&Input) -> Option<Array>,
) -> Option<Array> {
    let mut arrays = Vec::new();
    let mut maps = Vec::new();
    for (at, of) in step.inputs.iter().enumerate() {
        if let Some(held) = held(of) {
            arrays.push(held);
            maps.push(AffineMap::project(1, &[]));
            continue;
        }
        let elem = match of {
            Input::Operand(i) => ir.ty(group.operands[*i].source).elem(),
            Input::Reduced => group.reduce.as_ref()?.0.ty.elem(),
            Input::Mapped(i) => group.maps.get(*i)?.ty.elem(),
        };
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
    let found = kernel.run_arrays(&[TRIED], &arrays, vec![zero], &[]);
    found.ok()?.into_iter().next()
}
