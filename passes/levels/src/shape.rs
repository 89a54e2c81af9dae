//! What a function computes, apart from the names of its values: equal shapes are the same program.

use std::collections::HashMap;

use tir::{Attr, Ir, Name, OpId, Type, Value};

/// An op: its name, the place of the op around it, attributes, operands by number, and the types of its results.
type Line = (
    Name,
    Option<usize>,
    Vec<(Name, Attr)>,
    Vec<usize>,
    Vec<Type>,
);

/// The ops of a function in order, values by the order in which they are first met, and the types of all of these: that of an argument
/// is said nowhere else.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Shape(Vec<Line>, Vec<Type>);

impl Shape {
    pub(crate) fn of(ir: &Ir) -> Self {
        let ops = ir.walk_ids();
        let places: HashMap<OpId, usize> = ops.iter().copied().zip(0..).collect();
        let mut numbers: HashMap<Value, usize> = HashMap::new();
        let mut types = Vec::new();
        let mut number = |value: Value| {
            *numbers.entry(value).or_insert_with(|| {
                types.push(ir.ty(value));
                types.len() - 1
            })
        };
        let mut lines = Vec::with_capacity(ops.len());
        for op in &ops {
            let around = ir.parent(*op).and_then(|parent| places.get(&parent));
            let operands = ir.operands(*op).map(&mut number).collect();
            ir.results(*op).for_each(|result| {
                number(result);
            });
            for region in ir.regions(*op) {
                for block in ir.blocks(region) {
                    ir.args(block).for_each(|argument| {
                        number(argument);
                    });
                }
            }
            lines.push((
                ir.name(*op),
                around.copied(),
                ir.attrs(*op).to_vec(),
                operands,
                ir.result_types(*op),
            ));
        }
        Self(lines, types)
    }
}
