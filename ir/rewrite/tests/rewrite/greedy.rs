//! The greedy driver: folds, rules and patterns together, constants, limits, work.

use std::collections::BTreeSet;

use tir::rewrite::Stopped;
use tir::*;

use crate::dialect::{Add, Const, For, Mul, Neg, Use, Yield, func, greedy, int, text};

#[test]
fn folds_rules_and_patterns() {
    let (mut ir, b) = func();
    let x = ir.add_arg(b, Type::int(32));
    let y = ir.add_arg(b, Type::int(32));
    let (one, two) = (int(&mut ir, b, 1), int(&mut ir, b, 2));
    // (1 + x) + 2, and a neg of a sum.
    let s = ir.add(b, Add { x: one, y: x });
    let t = ir.add(b, Add { x: s, y: two });
    let xy = ir.add(b, Add { x, y });
    let n = ir.add(b, Neg { x: xy });
    let nn = ir.add(b, Neg { x: n });
    ir.add(
        b,
        Use {
            values: vec![t, nn],
        },
    );
    let outcome = greedy(&mut ir);
    assert_eq!(
        text(&ir),
        "2 = t.const value=3 : i32 : i32\n3 = t.add a0 2 : i32\n4 = t.add a0 a1 : i32\n= t.use 3 4\n"
    );
    assert_eq!(outcome.stats.applied["gather-constants"], 1);
    assert_eq!(outcome.stopped, None);
    assert!(!greedy(&mut ir).changed);
}

#[test]
fn constants_are_one_of_a_kind() {
    let (mut ir, b) = func();
    let x = ir.add_arg(b, Type::int(32));
    let ty = Type::int(32);
    let body = ir.at(b).body(&[ty], |b, args| {
        let c = b.add(Const {
            value: Attr::int(7, ty),
            ty: Ret(ty),
        });
        let s = b.add(Mul { x: c, y: args[0] });
        b.add(Yield { values: vec![s] });
    });
    let out = ir.add(
        b,
        For {
            init: vec![x],
            body,
            results: Rets(vec![ty]),
        },
    );
    let c = int(&mut ir, b, 7);
    ir.add(
        b,
        Use {
            values: vec![out[0], c],
        },
    );
    greedy(&mut ir);
    assert_eq!(
        text(&ir),
        "1 = t.const value=7 : i32 : i32\n\
         3 = t.for a0 : i32\n\
         4 = t.mul b2 1 : i32\n\
         = t.yield 4\n\
         = t.use 3 1\n"
    );
    assert!(!greedy(&mut ir).changed);
}

#[test]
fn limits_stop_what_does_not_end() {
    let (mut ir, b) = func();
    let x = ir.add_arg(b, Type::int(32));
    let y = ir.add_arg(b, Type::int(32));
    let s = ir.add(b, Mul { x, y });
    ir.add(b, Use { values: vec![s] });
    let mut set = PatternSet::new();
    set.on("swap", |Mul { x, y }, op, rw| {
        rw.set_operands(op, &[y, x]);
        Ok(())
    });
    let patterns = set.finish(&BTreeSet::new()).expect("right");
    let mut greedy = Greedy::new(&patterns);
    greedy.max_rewrites = Some(9);
    let outcome = greedy.run(&mut ir);
    assert_eq!(outcome.stopped, Some(Stopped::Rewrites));
    assert_eq!(outcome.stats.applied["swap"], 9);
}

/// Looks at ops that the driver takes for a chain of so many, each of which uses one more value:
/// one that is shared, a constant that is shared and drops every op, or a constant of its own.
fn looks(ops: usize, shared: bool, zero: bool) -> u64 {
    let (mut ir, b) = func();
    let mut last = ir.add_arg(b, Type::int(32));
    let y = ir.add_arg(b, Type::int(32));
    let mut other = if zero {
        int(&mut ir, b, 0)
    } else {
        ir.add(b, Mul { x: y, y })
    };
    for n in 0..ops {
        if !shared {
            other = int(&mut ir, b, 2 + n as i64 % 7);
        }
        last = match shared {
            true => ir.add(b, Add { x: last, y: other }),
            false => ir.add(b, Mul { x: last, y: other }),
        };
    }
    ir.add(b, Use { values: vec![last] });
    let outcome = greedy(&mut ir);
    assert_eq!(outcome.stopped, None);
    outcome.visits
}

#[test]
fn looks_grow_with_the_ops_whatever_is_shared() {
    for (shared, zero) in [(true, false), (true, true), (false, false)] {
        let (few, many) = (looks(500, shared, zero), looks(4000, shared, zero));
        assert!(few <= 500 * 10, "{few} looks at 500 ops");
        assert!(
            many <= few * 8 + 100,
            "{few} looks at 500 ops, {many} at 4,000"
        );
    }
}
