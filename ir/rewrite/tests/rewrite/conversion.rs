//! Dialect conversion: types, casts, what fails.

use std::collections::BTreeSet;

use tir::rewrite::Mode;
use tir::*;

use crate::dialect::low::Low;
use crate::dialect::{Add, For, Func, Mul, Neg, Turn, Two, Use, Yield, func, text};

fn widen() -> TypeConverter {
    TypeConverter::new().rule(|ty, _| (ty == Type::int(32)).then(|| Type::int(64)))
}

fn conversion_patterns() -> Patterns {
    let mut set = PatternSet::new();
    set.on("add-to-low", |Add { x, y }, op, rw| {
        rw.replace_with(op, Low { x, y });
        Ok(())
    });
    set.on("two-to-add", |Two { x, .. }, op, rw| {
        let sum = rw.add(Add { x, y: x });
        rw.replace(op, &[sum, x]);
        Ok(())
    });
    set.retype::<For>().retype::<Yield>();
    set.on("neg-to-nothing", |Neg { x }, _, rw| {
        let ty = rw.ty(x);
        Err(Decline::because(move || format!("there is no neg on {ty}")))
    });
    set.finish(&BTreeSet::new()).expect("right")
}

#[test]
fn conversion_with_types() {
    let (mut ir, b) = func();
    let x = ir.add_arg(b, Type::int(32));
    let ty = Type::int(32);
    let [p, q] = ir.add(
        b,
        Two {
            x,
            a: Ret(ty),
            b: Ret(ty),
        },
    );
    let s = ir.add(b, Add { x: p, y: q });
    let body = ir.at(b).body(&[ty], |b, args| {
        let y = b.add(Add { x: args[0], y: s });
        b.add(Yield { values: vec![y] });
    });
    let out = ir.add(
        b,
        For {
            init: vec![s],
            body,
            results: Rets(vec![ty]),
        },
    );
    ir.add(b, Use { values: out });
    let types = widen();
    let inner = widen();
    let target = Target::new()
        .illegal_ops(&["t.add", "t.two"])
        .legal_dialects(&["u"])
        .legal_ops(&["t.use", "t.func"])
        .other_if(move |ir, op| inner.is_legal_op(ir, op));
    let patterns = conversion_patterns();
    let conversion = Conversion::new(&target, &patterns).types(&types);
    assert_eq!(conversion.run(&mut ir), Ok(()));
    assert_eq!(
        text(&ir),
        "1 = builtin.unrealized_conversion_cast a0 : i64\n\
         2 = u.add 1 1 : i64\n\
         3 = u.add 2 1 : i64\n\
         5 = t.for 3 : i64\n\
         6 = u.add b4 3 : i64\n\
         = t.yield 6\n\
         7 = builtin.unrealized_conversion_cast 5 : i32\n\
         = t.use 7\n"
    );
}

#[test]
fn failed_conversion_says_why_and_rolls_back() {
    let (mut ir, b) = func();
    let x = ir.add_arg(b, Type::int(32));
    let s = ir.add(b, Add { x, y: x });
    let n = ir.add(b, Neg { x: s });
    let m = ir.add(b, Mul { x: n, y: n });
    ir.add(b, Use { values: vec![m] });
    let before = text(&ir);
    let target = Target::new()
        .illegal_dialects(&["t"])
        .legal_dialects(&["u"])
        .legal_ops(&["t.use", "t.func"]);
    let patterns = conversion_patterns();
    let errors = match Conversion::new(&target, &patterns).full().run(&mut ir) {
        Ok(()) => Vec::new(),
        Err(errors) => errors,
    };
    let errors: Vec<String> = errors
        .iter()
        .map(|e| format!("{}: {}", e.message, e.notes[0].message))
        .collect();
    assert_eq!(
        errors,
        [
            "cannot convert 't.neg': pattern 'neg-to-nothing' declined: there is no neg on i32",
            "cannot convert 't.mul': no pattern applies to an op of this name",
        ]
    );
    assert_eq!(text(&ir), before);
    let partial = Conversion::new(&target, &patterns);
    assert_eq!(partial.mode, Mode::Partial);
}

#[test]
fn casts_that_stay_are_materialized() {
    let (mut ir, b) = func();
    let x = ir.add_arg(b, Type::int(32));
    let s = ir.add(b, Add { x, y: x });
    ir.add(b, Use { values: vec![s] });
    let turn = |b: &mut Builder<'_>, x: Value, ty: Type| {
        let perm = vec![];
        Some(b.add(Turn {
            x,
            perm,
            ty: Ret(ty),
        }))
    };
    let types = widen().materialize(turn);
    let target = Target::new().illegal::<Add>().legal_dialects(&["u", "t"]);
    let patterns = conversion_patterns();
    let conversion = Conversion::new(&target, &patterns).types(&types).full();
    assert_eq!(conversion.run(&mut ir), Ok(()));
    assert_eq!(
        text(&ir),
        "1 = t.turn a0 perm=array<i64> : i64\n2 = u.add 1 1 : i64\n\
         3 = t.turn 2 perm=array<i64> : i32\n= t.use 3\n"
    );
}

#[test]
fn conversions_reach_isolated_ops_and_end() {
    let mut module = Ir::new("t.module");
    let region = module.new_region();
    module.attach_region(module.root(), region);
    let block = module.new_block(region);
    let (mut ir, b) = func();
    let x = ir.add_arg(b, Type::int(32));
    ir.add(b, Use { values: vec![x] });
    module.adopt(block, ir);
    let types = widen();
    let legal = widen();
    let target = Target::new()
        .legal_ops(&["t.module"])
        .other_if(move |ir, op| legal.is_legal_op(ir, op));
    let mut set = PatternSet::new();
    set.retype::<Use>().retype::<Func>();
    let patterns = set.finish(&BTreeSet::new()).expect("right");
    let conversion = Conversion::new(&target, &patterns).types(&types);
    assert_eq!(conversion.run(&mut module), Ok(()));
    let mut children = module.children_mut();
    let child = &mut children[0].1;
    let x = child
        .args(child.body_block(child.root(), 0).expect("a body"))
        .next();
    assert_eq!(x.map(|x| child.ty(x)), Some(Type::int(64)));
    assert_eq!(text(child), "= t.use a0\n");

    let (mut ir, b) = func();
    let x = ir.add_arg(b, Type::int(32));
    let s = ir.add(b, Mul { x, y: x });
    ir.add(b, Use { values: vec![s] });
    let mut set = PatternSet::new();
    set.on("mul-to-mul", |Mul { x, y }, op, rw| {
        rw.replace_with(op, Mul { x: y, y: x });
        Ok(())
    });
    let patterns = set.finish(&BTreeSet::new()).expect("right");
    let target = Target::new().illegal::<Mul>();
    let errors = Conversion::new(&target, &patterns).run(&mut ir);
    let errors = errors.expect_err("it never ends");
    assert_eq!(
        errors[0].notes[1].message,
        "patterns made illegal ops 64 times in a row"
    );
}
