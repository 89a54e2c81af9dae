//! The syntax of loops and conditions.

use tir::{
    Asm, AsmParser, AsmPrinter, DYNAMIC, Failure, Op, OpRef, OpState, SEGMENTS, Type, Value,
};

use crate::{Bounds, For, If, Yield};

fn print_bound(p: &mut AsmPrinter<'_>, bound: Bounds) {
    match bound {
        Bounds::Static(n) => p.display(n),
        Bounds::Dynamic(value) => p.value(value),
    }
}
fn parse_bound(p: &mut AsmParser<'_>, state: &mut OpState) -> Result<i64, Failure> {
    if let Some(operand) = p.try_operand() {
        let value = p.resolve(operand, Type::index())?;
        state.operands.push(value);
        return Ok(DYNAMIC);
    }
    match p.try_index()? {
        Some(n) => Ok(n),
        None => Err(p.expected("a number or a value")),
    }
}

/// ` -> (t, t)`, if there are any.
fn print_results(p: &mut AsmPrinter<'_>, types: &[Type]) {
    if !types.is_empty() {
        p.text(" -> (");
        p.types(types);
        p.text(")");
    }
}

impl Asm for For {
    fn print(op: OpRef<'_>, p: &mut AsmPrinter<'_>) {
        let Some(record) = For::read(op.ir, op.id) else {
            return;
        };
        let Some([low, high, step]) = record.all_bounds() else {
            return;
        };
        p.arguments(0, |p, _, args| {
            let Some((counter, carried)) = args.split_first() else {
                return;
            };
            p.text(" ");
            p.value(*counter);
            p.text(" = ");
            print_bound(p, low);
            p.text(" to ");
            print_bound(p, high);
            if step != Bounds::Static(1) {
                p.text(" step ");
                print_bound(p, step);
            }
            if !record.init.is_empty() {
                let pairs = carried.iter().zip(&record.init);
                p.text(" ");
                p.list("iter_args(", ")", pairs, |p, (arg, init)| {
                    p.value(*arg);
                    p.text(" = ");
                    p.value(*init);
                });
            }
        });
        print_results(p, &record.results.0);
        p.text(" ");
        p.region_without(0, true, Yield::name());
        p.attr_dict_except(&["static_bounds", SEGMENTS]);
    }

    fn parse(p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure> {
        let counter = p.argument()?;
        p.punct("=")?;
        let low = parse_bound(p, state)?;
        p.keyword("to")?;
        let high = parse_bound(p, state)?;
        let step = if p.eat_keyword("step") {
            parse_bound(p, state)?
        } else {
            1
        };
        let bounds = state.operands.len() as i64;
        let mut args = vec![counter];
        let mut init = Vec::new();
        if p.eat_keyword("iter_args") {
            for (arg, value) in p.list("(", ")", |p| {
                let arg = p.argument()?;
                p.punct("=")?;
                Ok((arg, p.operand()?))
            })? {
                args.push(arg);
                init.push(value);
            }
        }
        let types = if p.eat("->") {
            p.result_types()?
        } else {
            Vec::new()
        };
        let init = p.resolve_all(&init, &types)?;
        state.segments = [bounds, init.len() as i64].into_iter().collect();
        state.operands.extend(init);
        let all = std::iter::once(Type::index()).chain(types.iter().copied());
        let args: Vec<_> = args.into_iter().zip(all).collect();
        let region = p.region(Some(&args))?;
        if types.is_empty() {
            p.terminate(region, Yield::name());
        }
        state.regions.push(region);
        state.results = types.into_iter().collect();
        state.set_attr("static_bounds", tir::Attr::ints(&[low, high, step]));
        p.attr_dict(state)
    }
}

impl Asm for If {
    fn print(op: OpRef<'_>, p: &mut AsmPrinter<'_>) {
        let Some(record) = If::read(op.ir, op.id) else {
            return;
        };
        p.text(" ");
        p.value(record.condition);
        print_results(p, &record.results.0);
        p.text(" ");
        p.region_without(0, true, Yield::name());
        if op.ir.entry(record.else_region).is_some() {
            p.text(" else ");
            p.region_without(1, true, Yield::name());
        }
        p.attr_dict_except(&[]);
    }

    fn parse(p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure> {
        let condition = p.operand()?;
        let condition: Value = p.resolve(condition, Type::int(1))?;
        state.operands.push(condition);
        if p.eat("->") {
            state.results = p.result_types()?.into_iter().collect();
        }
        let then_region = p.region(Some(&[]))?;
        let else_region = match p.eat_keyword("else") {
            true => Some(p.region(Some(&[]))?),
            false => None,
        };
        if state.results.is_empty() {
            p.terminate(then_region, Yield::name());
            if let Some(region) = else_region {
                p.terminate(region, Yield::name());
            }
        }
        let else_region = match else_region {
            Some(region) => region,
            None => p.no_region(),
        };
        state.regions.extend([then_region, else_region]);
        p.attr_dict(state)
    }
}
