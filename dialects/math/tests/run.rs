//! Running arith and math gives what folding gives, bit for bit.
#![allow(missing_docs, clippy::unwrap_used)]

use tir::data::Random;
use tir::interp::Scalar;
use tir::*;

/// Builds a function of the operands' types around one op, runs it, and folds it.
fn both(
    operands: &[Attr],
    extra: &[(&str, Attr)],
    name: &str,
    results: &[Type],
) -> (Option<Attr>, Result<Attr, String>) {
    let types: Vec<Type> = operands.iter().map(|a| a.type_of().unwrap()).collect();
    let make = |ir: &mut Ir, block: BlockId, args: &[Value]| {
        let mut state = OpState::new(name);
        state.operands.extend(args.iter().copied());
        state.results.extend(results.iter().copied());
        extra
            .iter()
            .for_each(|(key, value)| state.set_attr(*key, *value));
        ir.at(block).try_create(state).unwrap()
    };
    // Run on arguments.
    let first = {
        let (mut probe, block) = tir_func::function("probe", Type::function(types.clone(), []));
        let args: Vec<Value> = probe.args(block).collect();
        let op = make(&mut probe, block, &args);
        probe.result_types(op)
    };
    let (mut f, block) = tir_func::function("f", Type::function(types, first.clone()));
    let args: Vec<Value> = f.args(block).collect();
    let op = make(&mut f, block, &args);
    let operands_out = f.results(op).collect();
    f.add(
        block,
        tir_func::Return {
            operands: operands_out,
        },
    );
    let mut module = Ir::new("builtin.module");
    let region = module.new_region();
    let root = module.root();
    module.attach_region(root, region);
    let top = module.new_block(region);
    module.adopt(top, f);
    let inputs = operands
        .iter()
        .map(|a| Data::Scalar(Scalar::from_attr(*a).unwrap()))
        .collect();
    let ran = Interpreter::new(&module).run(Name::new("f"), inputs);
    let ran = ran
        .map(|v| v[0].as_scalar().unwrap().to_attr(first[0]))
        .map_err(|e| e[0].message.clone());
    // Fold on constants.
    let (mut g, block) = tir_func::function("g", Type::function([], []));
    let constants: Vec<Value> = operands
        .iter()
        .map(|a| g.add(block, tir_arith::Constant { value: *a }))
        .collect();
    let op = make(&mut g, block, &constants);
    let folded = g.try_fold(op).and_then(|folds| match folds.0[0] {
        Folded::Attr(attr) => Some(attr),
        Folded::Value(value) => g.constant(value),
    });
    (folded, ran)
}

fn load() {
    tir_func::DIALECT.load();
    tir_arith::DIALECT.load();
    tir_math::DIALECT.load();
}

fn same(name: &str, operands: &[Attr], extra: &[(&str, Attr)], results: &[Type]) -> bool {
    let (folded, ran) = both(operands, extra, name, results);
    match (folded, ran) {
        (Some(folded), Ok(ran)) => {
            let nan = |a: Attr| a.as_float().is_some_and(f64::is_nan);
            let one_bit = |a: Attr| a.type_of() == Some(Type::int(1)) && a.as_int().is_some();
            let truth = |a: Attr| a.as_int().map(|v| v & 1);
            let equal = folded == ran
                || nan(folded) && nan(ran)
                || one_bit(folded) && truth(folded) == truth(ran);
            assert!(
                equal,
                "{name} {operands:?} {extra:?}: folds to {folded}, runs to {ran}"
            );
            true
        }
        _ => false,
    }
}

#[test]
fn integers() {
    load();
    let mut random = Random::new(1);
    let names = "addi subi muli divsi divui ceildivsi floordivsi remsi remui andi ori xori shli shrsi shrui \
                 maxsi maxui minsi minui";
    let mut checked = 0;
    for name in names.split_whitespace() {
        for ty in [
            Type::int(1),
            Type::int(8),
            Type::int(13),
            Type::int(32),
            Type::int(64),
            Type::index(),
        ] {
            for _ in 0..40 {
                let mut number = || {
                    let wide = random.next_u64() as i64;
                    let value = if random.below(2) == 0 {
                        wide
                    } else {
                        wide % 20
                    };
                    let value = sign_extend(value as u64, ty);
                    Attr::int(
                        if ty.bits() == Some(1) {
                            value & 1
                        } else {
                            value
                        },
                        ty,
                    )
                };
                let operands = [number(), number()];
                checked += usize::from(same(&format!("arith.{name}"), &operands, &[], &[]));
                let predicate = ("predicate", Attr::i64(random.below(10) as i64));
                checked += usize::from(same("arith.cmpi", &operands, &[predicate], &[]));
            }
        }
    }
    assert!(checked > 8000, "{checked}");
}

#[test]
fn floats() {
    load();
    let mut random = Random::new(2);
    let names = "arith.addf arith.subf arith.mulf arith.divf arith.remf arith.maximumf arith.minimumf math.powf";
    let unary = "arith.negf math.exp math.exp2 math.log math.sqrt math.rsqrt math.tanh math.erf math.sin math.cos \
                 math.absf math.floor math.ceil math.roundeven";
    let mut checked = 0;
    for format in FloatType::ALL {
        let ty = Type::new(format);
        for k in 0..150 {
            let mut number = || {
                let value = match random.below(8) {
                    0 => [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0][k % 6],
                    1 => (random.next_u64() as i64) as f64,
                    _ => (random.next_u64() as i64) as f64 / 2f64.powi(60),
                };
                Attr::float(float_value(float_bits(value, format), format), ty)
            };
            let (x, y) = (number(), number());
            for name in names.split_whitespace() {
                checked += usize::from(same(name, &[x, y], &[], &[]));
            }
            for name in unary.split_whitespace() {
                checked += usize::from(same(name, &[x], &[], &[]));
            }
            let predicate = ("predicate", Attr::i64(random.below(16) as i64));
            checked += usize::from(same("arith.cmpf", &[x, y], &[predicate], &[]));
        }
    }
    assert!(checked > 10000, "{checked}");
}

#[test]
fn conversions() {
    load();
    let mut random = Random::new(3);
    let (i8, i32, i64) = (Type::int(8), Type::int(32), Type::int(64));
    let (f16, f32, f64) = (
        Type::new(FloatType::F16),
        Type::f32(),
        Type::new(FloatType::F64),
    );
    let casts = [
        ("extsi", i8, i32),
        ("extui", i8, i32),
        ("extsi", Type::int(1), i8),
        ("extui", Type::int(1), i8),
        ("trunci", i64, i8),
        ("index_cast", i32, Type::index()),
        ("index_castui", i8, Type::index()),
        ("index_cast", Type::index(), i32),
        ("sitofp", i32, f32),
        ("uitofp", i8, f16),
        ("fptosi", f32, i32),
        ("fptoui", f64, i8),
        ("extf", f16, f64),
        ("truncf", f64, f16),
        ("truncf", f64, f32),
        ("bitcast", i32, f32),
        ("bitcast", f16, Type::int(16)),
    ];
    for (name, from, to) in casts {
        let mut checked = 0;
        for _ in 0..60 {
            let wide = random.next_u64() as i64;
            let operand = match from.get::<FloatType>() {
                Some(&format) => {
                    let value = (wide % 2000) as f64 / 8.0;
                    Attr::float(float_value(float_bits(value, format), format), from)
                }
                None => {
                    let value = sign_extend(wide as u64, from);
                    Attr::int(
                        if from.bits() == Some(1) {
                            value & 1
                        } else {
                            value
                        },
                        from,
                    )
                }
            };
            checked += usize::from(same(&format!("arith.{name}"), &[operand], &[], &[to]));
        }
        assert!(checked > 3, "{name}: {checked}");
    }
}
