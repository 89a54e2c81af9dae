//! What an op of arith or math gives is one thing: run on scalars, on tensors, in the region of a
//! `tensor.generic`, folded, folded as constant tensors, and folded by mlir-opt where it is installed.
//!
//! Where MLIR says poison, tir differs by op: a division by zero, a quotient that does not fit and a
//! shift by the width or more do not fold and are an error at run time; a float out of the range of
//! an integer becomes the nearest integer there is, NaN 0. There mlir-opt folds nothing.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::BTreeMap;

use common::groups::{Group, groups};
use common::mlir;
use tir::interp::{constant, element, to_attr};
use tir::rewrite::{Greedy, Patterns};
use tir::*;
use tir_support::{load, read};

/// Results, one for each case; `None` is one without a value.
type Values = Vec<Option<Attr>>;

/// Folds all functions of a module; for each the constants that it returns.
fn folded(text: &str) -> Vec<Values> {
    let mut module = read(text);
    let patterns = Patterns::none();
    let functions = module.slots();
    let fold = |op: OpId| {
        let func = module.child_mut(op).unwrap();
        Greedy::new(&patterns).run(func);
        let block = func.body_block(func.root(), 0).unwrap();
        let end = func.last(block).unwrap();
        let values = func.operands(end);
        values.map(|value| func.constant(value)).collect()
    };
    functions.into_iter().map(fold).collect()
}

/// Runs a function; its results as constants.
fn run(module: &Ir, name: &str, args: &[Attr]) -> Result<Vec<Attr>, String> {
    let name = Name::new(name);
    let mut interpreter = Interpreter::new(module);
    let (_, types) = interpreter.signature(name).unwrap();
    let args = args
        .iter()
        .map(|a| constant(*a, a.type_of().unwrap()).unwrap());
    let results = interpreter.run(name, args.collect());
    let results = results.map_err(|errors| errors[0].message.clone())?;
    let attrs = results
        .iter()
        .zip(types)
        .map(|(data, ty)| to_attr(data, ty));
    Ok(attrs.collect::<Option<_>>().unwrap())
}

/// Equal but for the bits of a NaN.
fn same(a: Attr, b: Attr) -> bool {
    let nan = |a: Attr| a.as_float().is_some_and(f64::is_nan);
    let truth = |a: Attr| (a.type_of() == Some(Type::int(1))).then(|| a.as_int().map(|v| v & 1));
    a == b || nan(a) && nan(b) || truth(a).is_some() && truth(a) == truth(b)
}

/// The same but for so many units in the last place.
fn near(a: Attr, b: Attr, units: f64) -> bool {
    let (Some(x), Some(y), Some(ty)) = (a.as_float(), b.as_float(), a.type_of()) else {
        return false;
    };
    let digits = match ty.get::<FloatType>() {
        Some(FloatType::F16) => 10,
        Some(FloatType::BF16) => 7,
        Some(FloatType::F32) => 23,
        _ => 52,
    };
    (x - y).abs() <= units * y.abs() * 2f64.powi(-digits)
}

/// Tensor constants of the operands of the chosen cases.
fn columns(group: &Group, chosen: &[usize]) -> Vec<Attr> {
    (0..group.operands.len())
        .map(|k| {
            let elem = parse_type(&group.operands[k]);
            let ty = Type::tensor([chosen.len() as i64], elem);
            let size = ty.bytes().unwrap();
            let data = chosen.iter().flat_map(|case| {
                let attr = group.cases[*case][k];
                let bits = match attr.get::<FloatAttr>() {
                    Some(x) => {
                        let format = *elem.get::<FloatType>().unwrap();
                        float_bits(f64::from_bits(x.bits), format).into()
                    }
                    None => attr.get::<IntAttr>().unwrap().value as u128,
                };
                let width = elem.bits().unwrap();
                let bits = bits & (u128::MAX >> (128 - width));
                bits.to_le_bytes()
                    .into_iter()
                    .take(size)
                    .collect::<Vec<u8>>()
            });
            let data = data.collect();
            Attr::new(DenseElements { ty, data })
        })
        .collect()
}

fn parse_type(text: &str) -> Type {
    text::parse_type(text).unwrap()
}

/// All ways but mlir-opt's against the folds of scalars.
fn check_runs(group: &Group, wanted: &[Values]) {
    let results = group.results.len();
    let case = |i: usize| &wanted[i];
    let defined: Vec<usize> = (0..group.cases.len())
        .filter(|i| case(*i)[0].is_some())
        .collect();
    let compare = |how: &str, at: usize, found: &[Attr]| {
        for (r, found) in found.iter().enumerate() {
            let folded = case(at)[r].unwrap();
            let operands = &group.cases[at];
            assert!(
                same(folded, *found),
                "{} {operands:?}: folds to {folded}, {how} to {found}",
                group.title()
            );
        }
    };
    // Scalars, and what has no value.
    let module = read(&group.scalar_function());
    for (at, operands) in group.cases.iter().enumerate() {
        match run(&module, "f", operands) {
            Ok(found) if case(at)[0].is_some() => compare("runs", at, &found),
            Ok(found) => panic!(
                "{} {operands:?}: runs to {found:?}, folds to nothing",
                group.title()
            ),
            Err(why) => {
                assert!(
                    case(at)[0].is_none(),
                    "{} {operands:?}: {why}",
                    group.title()
                );
            }
        }
    }
    if defined.is_empty() {
        return;
    }
    let columns = columns(group, &defined);
    let split = |found: &[Attr]| {
        let element = |i: usize| {
            found
                .iter()
                .map(move |dense| element(*dense, i).unwrap())
                .collect::<Vec<_>>()
        };
        (0..defined.len()).map(element).collect::<Vec<_>>()
    };
    // Constant tensors.
    let text = group.constant_tensors(&columns);
    let found: Option<Vec<Attr>> = folded(&text)[0].iter().copied().collect();
    let found = found.unwrap_or_else(|| panic!("does not fold:\n{text}"));
    for (row, at) in split(&found).iter().zip(&defined) {
        compare("folds as a tensor", *at, row);
    }
    // No array holds wider integers.
    let wide = |ty: &String| parse_type(ty).bits().unwrap() > 64;
    if group.operands.iter().chain(&group.results).any(wide) {
        return;
    }
    let module = read(&group.tensor_functions(defined.len()));
    let mut functions = vec!["whole"];
    if results == 1 {
        functions.push("region");
    }
    for name in functions {
        let found = run(&module, name, &columns);
        let found = found.unwrap_or_else(|why| panic!("{}, {name}: {why}", group.title()));
        for (row, at) in split(&found).iter().zip(&defined) {
            compare(name, *at, row);
        }
    }
}

#[test]
fn all_levels_and_mlir_agree() {
    load();
    let groups = groups();
    let text: String = groups.iter().map(Group::folds).collect();
    let wanted: Vec<Vec<Values>> = folded(&text)
        .into_iter()
        .zip(&groups)
        .map(|(values, group)| {
            let count = group.results.len();
            values.chunks(count).map(<[_]>::to_vec).collect()
        })
        .collect();
    let cases: usize = groups.iter().map(|g| g.cases.len()).sum();
    assert!(cases > 10_000, "{cases} cases");
    for (group, wanted) in groups.iter().zip(&wanted) {
        assert_eq!(group.cases.len(), wanted.len());
        check_runs(group, wanted);
    }
    let Some(theirs) = mlir::folded(&text) else {
        eprintln!("mlir-opt-22 is not installed: nothing is compared with it");
        return;
    };
    assert_eq!(theirs.len(), groups.len());
    let (mut compared, mut left) = (0, BTreeMap::<&str, (usize, usize)>::new());
    for ((group, ours), theirs) in groups.iter().zip(&wanted).zip(&theirs) {
        let ours: Values = ours.iter().flatten().copied().collect();
        assert_eq!(ours.len(), theirs.len(), "{}", group.title());
        for (i, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
            let operands = &group.cases[i / group.results.len()];
            let all = left.entry(group.name).or_default();
            all.1 += 1;
            let Some(theirs) = *theirs else {
                all.0 += 1;
                continue;
            };
            compared += 1;
            let Some(ours) = *ours else {
                // MLIR takes the true of one bit for 1 where it divides by it, and for -1 else.
                let bits = group.name.ends_with("divsi") && group.operands[0] == "i1";
                assert!(
                    bits,
                    "{} {operands:?}: mlir-opt folds it to {theirs}",
                    group.title()
                );
                continue;
            };
            let equal = same(ours, theirs) || near(ours, theirs, group.units);
            assert!(
                equal,
                "{} {operands:?}: folds to {ours}, mlir-opt folds it to {theirs}",
                group.title()
            );
        }
    }
    // An op that mlir-opt never folds would hide that nothing is compared.
    let never: Vec<&&str> = left
        .iter()
        .filter(|(_, n)| n.0 == n.1)
        .map(|(op, _)| op)
        .collect();
    assert_eq!(never, mlir::NEVER.iter().collect::<Vec<_>>());
    assert!(compared * 10 > cases * 7, "{compared} of {cases} compared");
}
