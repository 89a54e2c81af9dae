//! Types of all values and attributes of an arena, replaced.

use tir::{ArrayAttr, Attr, DictAttr, FunctionType, IntAttr, Ir, OpId, Type, TypeAttr, Value};

/// Gives each value, and each type in an attribute, what `ty` makes of its type; function types by their inputs and
/// results. Gives the number of values that changed.
pub(crate) fn retype(ir: &mut Ir, ty: &dyn Fn(Type) -> Type) -> usize {
    let mut retyped = 0;
    let ops: Vec<OpId> = std::iter::once(ir.root()).chain(ir.walk_ids()).collect();
    for op in ops {
        let attrs: Vec<_> = ir.attrs(op).to_vec();
        for (name, attr) in attrs {
            let new = attribute(attr, ty);
            if new != attr {
                ir.set_attr(op, name, new);
            }
        }
        let mut values: Vec<Value> = ir.results(op).collect();
        for region in ir.regions(op) {
            for block in ir.blocks(region) {
                values.extend(ir.args(block));
            }
        }
        for value in values {
            let new = inside(ir.ty(value), ty);
            if new != ir.ty(value) {
                ir.set_type(value, new);
                retyped += 1;
            }
        }
    }
    retyped
}

fn inside(old: Type, ty: &dyn Fn(Type) -> Type) -> Type {
    let Some(function) = old.get::<FunctionType>() else {
        return ty(old);
    };
    let all = |types: &[Type]| -> Vec<Type> { types.iter().map(|old| inside(*old, ty)).collect() };
    Type::function(all(&function.inputs), all(&function.results))
}

fn attribute(attr: Attr, ty: &dyn Fn(Type) -> Type) -> Attr {
    if let Some(old) = attr.get::<TypeAttr>() {
        return Attr::ty(inside(old.0, ty));
    }
    if let Some(array) = attr.get::<ArrayAttr>() {
        let items: Vec<Attr> = array.0.iter().map(|a| attribute(*a, ty)).collect();
        return Attr::array(items);
    }
    if let Some(dict) = attr.get::<DictAttr>() {
        let entries = dict.entries().iter();
        let entries = entries.map(|(key, value)| (*key, attribute(*value, ty)));
        return Attr::new(DictAttr::new(entries.collect()));
    }
    if let Some(number) = attr.get::<IntAttr>() {
        return Attr::new(IntAttr {
            value: number.value,
            ty: ty(number.ty),
        });
    }
    attr
}
