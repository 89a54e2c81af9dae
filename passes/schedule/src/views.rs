//! Views: parts of buffers by lists of indices, and their types after the buffer's has changed.

use tir::{Builder, Failure, Ir, MemRefType, Ret, Type, Value};
use tir_memref::{
    CollapseShape, ExpandShape, ReinterpretCast, SubView, collapsed_type, expanded_type,
    sub_view_type,
};

use tir_arith::{OpFoldResult, dispatch_values};

/// A part of a buffer of unit steps, with the shape `part`.
pub fn sub_view(
    b: &mut Builder<'_>,
    source: Value,
    offsets: &[OpFoldResult],
    sizes: &[i64],
    part: &[i64],
) -> Result<Value, Failure> {
    let ty = b.ty(source);
    let memref = ty
        .get::<MemRefType>()
        .ok_or_else(|| format!("views a {ty}"))?;
    let (values, numbers) = dispatch_values(offsets);
    let ones = vec![1; sizes.len()];
    let result = sub_view_type(memref, &numbers, sizes, &ones, part);
    let result =
        result.ok_or_else(|| format!("makes a part of a {ty}, whose layout is no strided one"))?;
    Ok(b.add(SubView {
        source,
        offsets: values,
        sizes: vec![],
        strides: vec![],
        static_offsets: numbers,
        static_sizes: sizes.to_vec(),
        static_strides: ones,
        result: Ret(result),
    }))
}

/// Gives a value another type, and recomputes the types of all views of it.
///
/// # Errors
/// If a view has no type then; nothing is changed.
pub fn retype(ir: &mut Ir, value: Value, ty: Type) -> Result<(), Failure> {
    for (value, ty) in types_as(ir, value, ty)? {
        ir.set_type(value, ty);
    }
    Ok(())
}

/// The types of a value and of all views of it, as far as they change, if it has this one.
///
/// # Errors
/// If a view has no type then.
pub fn types_as(ir: &Ir, value: Value, ty: Type) -> Result<Vec<(Value, Type)>, Failure> {
    let mut all = Vec::new();
    retyped(ir, value, ty, &mut all)?;
    Ok(all)
}

fn retyped(ir: &Ir, value: Value, ty: Type, all: &mut Vec<(Value, Type)>) -> Result<(), Failure> {
    if ir.ty(value) == ty {
        return Ok(());
    }
    all.push((value, ty));
    for op in ir.uses(value).map(|u| u.op) {
        let fail = |ty: Type| Failure::from(format!("cannot view a {ty}"));
        let new = if let Some(view) = ir.get::<SubView>(op) {
            let source = ty.get::<MemRefType>().ok_or_else(|| fail(ty))?;
            let part = view.result.0.shape().unwrap_or(&[]);
            sub_view_type(
                source,
                &view.static_offsets,
                &view.static_sizes,
                &view.static_strides,
                part,
            )
        } else if let Some(view) = ir.get::<CollapseShape>(op) {
            reshaped(ty, view.result.0, |source, shape| {
                collapsed_type(source, shape, &view.reassociation)
            })
        } else if let Some(view) = ir.get::<ExpandShape>(op) {
            reshaped(ty, view.result.0, |source, shape| {
                expanded_type(source, shape, &view.reassociation)
            })
        } else if ir.is::<ReinterpretCast>(op) {
            // It says where elements lie in the whole buffer as it was.
            None
        } else {
            continue;
        };
        let new = new.ok_or_else(|| Box::new((*fail(ty)).at(ir.loc(op))))?;
        retyped(ir, ir.result(op, 0), new, all)?;
    }
    Ok(())
}

/// The type of a reshaped view that had the type `old`.
fn reshaped(
    source: Type,
    old: Type,
    ty: impl Fn(&MemRefType, &[i64]) -> Option<Type>,
) -> Option<Type> {
    ty(source.get::<MemRefType>()?, old.shape()?)
}
