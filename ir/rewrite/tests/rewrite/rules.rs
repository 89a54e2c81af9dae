//! Rules: guards, literals, several roots, wrong ones; equality of ops.

use std::collections::BTreeSet;
use std::sync::Arc;

use tir::rewrite::{Functions, apply_rule, canonicalization, ops_are_equal};
use tir::*;

use crate::dialect::{
    Add, Const, For, Neg, RULES, Turn, Two, Use, Yield, func, functions, greedy, int, load, text,
};

#[test]
fn guards_literals_attributes_and_results() {
    let (mut ir, b) = func();
    let (i, f) = (Type::int(32), Type::f32());
    let x = ir.add_arg(b, Type::tensor([2, 3], f));
    let y = ir.add_arg(b, i);
    let z = ir.add_arg(b, f);
    let zero = int(&mut ir, b, 0);
    let y0 = ir.add(b, Add { x: zero, y });
    let yy = ir.add(b, Add { x: y0, y: y0 });
    let zz = ir.add(b, Add { x: z, y: z });
    let turn = |ir: &mut Ir, x, shape: [i64; 2]| {
        let ty = Ret(Type::tensor(shape, f));
        ir.add(
            b,
            Turn {
                x,
                perm: vec![1, 0],
                ty,
            },
        )
    };
    let t = turn(&mut ir, x, [3, 2]);
    let tt = turn(&mut ir, t, [2, 3]);
    let [p, q] = ir.add(
        b,
        Two {
            x: y,
            a: Ret(i),
            b: Ret(i),
        },
    );
    ir.add(
        b,
        Use {
            values: vec![yy, zz, tt, p, q],
        },
    );
    greedy(&mut ir);
    assert_eq!(
        text(&ir),
        "3 = t.const value=2 : i32 : i32\n\
         4 = t.mul a1 3 : i32\n\
         5 = t.add a2 a2 : f32\n\
         6 7 = t.two a1 : i32 : i32\n\
         = t.use 4 5 a0 a1 7\n"
    );
}

#[test]
fn several_roots_types_that_are_computed_and_shared_ops() {
    let (mut ir, b) = func();
    let [i32, i64] = [32, 64].map(Type::int);
    let args = [i32, i64].map(|ty| ir.add_arg(b, ty));
    let negated = args.map(|x| ir.add(b, Neg { x }));
    let text = rule!(equal "merge-signs", "(t.neg ?x) (t.neg ?y)"
        => "(t.turn (t.two ?x):(wide ?y) {perm = [0]}):(wide ?x) (t.neg (t.two ?x):(wide ?y))");
    let rule = Arc::new(Rule::parse(&text).expect("right"));
    assert_eq!(
        rule.to_string(),
        "merge-signs: (t.neg ?x) (t.neg ?y) = \
         (t.turn (t.two ?x):(wide ?y) {perm = [0]}):(wide ?x) (t.neg (t.two ?x):(wide ?y))"
    );
    let mut functions = Functions::default();
    assert!(rule.check(&functions).is_err(), "the function is not known");
    let wide: fn(&[Arg]) -> Option<Attr> = |args| Some(Attr::ty(args[0].ty()?));
    functions.attrs.insert(Name::new("wide"), wide);
    rule.check(&functions).expect("right");
    let root = ir.root();
    let mut rw = Rewriter::new(&mut ir, root);
    rw.set_at(b);
    let made = apply_rule(&rule, &Arc::new(functions), &mut rw, &negated);
    let made = made.expect("can be built").expect("matches");
    assert_eq!(
        made.iter().map(|v| rw.ty(*v)).collect::<Vec<_>>(),
        [i32, i64]
    );
    let shared = rw.walk_ids().into_iter();
    let shared = shared.filter(|op| rw.name(*op) == "t.two").count();
    assert_eq!(shared, 1, "an op that is said twice is made once");
}

#[test]
fn any_result_of_an_op() {
    let text = rule!(equal "sign-of-part", "(t.neg (t.for ?x).?k)" => "(t.for (t.neg ?x)).?k",
        if "(< ?k 2)");
    let rule = Rule::parse(&text).expect("right");
    assert_eq!(
        rule.to_string(),
        "sign-of-part: (t.neg (t.for ?x).?k) = (t.for (t.neg ?x)).?k if (< ?k 2)"
    );
    assert!(rule.has_results());
    assert_eq!(
        rule.with_results(1).to_string(),
        "sign-of-part: (t.neg (t.for ?x).1) = (t.for (t.neg ?x)).1 if (< 1 2)"
    );
    let wrong = |left, right| {
        let text = RuleText {
            left,
            right,
            ..rule!("wrong", "(t.neg ?x)" => "?x")
        };
        Rule::parse(&text).expect_err("wrong").message
    };
    assert_eq!(
        wrong("(t.for ?x).y", "?x"),
        "rule 'wrong': expected the number of a result, or a variable at column 12 of its left side"
    );
    assert_eq!(
        wrong("(t.for ?x)", "(t.for ?x).?k"),
        "rule 'wrong': 'k' does not occur on the left at column 14 of its right side"
    );
    assert_eq!(
        wrong("(t.for ?k).?k", "?k"),
        "rule 'wrong': 'k' stands for a value and an attribute at column 14 of its left side"
    );
}

#[test]
fn disabled_and_wrong_rules() {
    load();
    let disabled = BTreeSet::from(["drop-add-zero".to_string()]);
    let patterns = canonicalization().finish(&disabled).expect("right");
    assert_eq!(patterns.rules().len(), RULES.len() - 1);
    let commute = patterns.rules().last().expect("one");
    assert_eq!(
        commute.to_string(),
        "commute: (t.mul ?x ?y) = (t.mul ?y ?x)"
    );
    let compose = patterns.rules().iter().find(|r| r.name == "merge-turns");
    assert_eq!(
        compose.expect("it").to_string(),
        "merge-turns: (t.turn (t.turn ?x {perm = ?p}) {perm = ?q}) => \
         (t.turn ?x {perm = (compose ?p ?q)})"
    );

    let mut set = PatternSet::new();
    set.rules([
        rule!("a", "(t.add ?x" => "?x"),
        rule!("b", "(t.add ?x 0)" => "?y"),
        rule!("c", "(t.ad ?x 0)" => "?x"),
        rule!("d", "(t.add ?x)" => "?x"),
        rule!("e", "(t.add ?x 0)" => "?x", if "(is-it ?x)"),
        rule!("f", "(t.turn ?x {prm = ?p})" => "?x"),
        rule!("g", "?x" => "?x"),
        rule!("h", "(t.add ?x 0) (t.neg ?x)" => "?x"),
    ]);
    functions(&mut set);
    let errors = match set.finish(&BTreeSet::new()) {
        Ok(_) => Vec::new(),
        Err(errors) => errors,
    };
    let errors: Vec<String> = errors
        .into_iter()
        .map(|e| {
            let notes: Vec<String> = e.notes.into_iter().map(|n| n.message).collect();
            format!("{} | {}", e.message, notes.join(" | "))
        })
        .collect();
    assert_eq!(
        errors,
        [
            "rule 'a': expected a term, found the end at column 10 of its left side | (t.add ?x\n         ^",
            "rule 'b': 'y' does not occur on the left at column 3 of its right side | ?y\n  ^",
            "rule 'g': each term on the left is an op | ",
            "rule 'h': has 2 terms on the left and 1 on the right | ",
            "rule 'c': unknown op 't.ad' | did you mean 't.add'?",
            "rule 'd': 't.add' has 2 operands, found 1 | ",
            "rule 'e': unknown guard 'is-it' | did you mean 'is-int'?",
            "rule 'f': unknown attribute of 't.turn': 'prm' | did you mean 'perm'?",
        ]
    );
}

#[test]
fn equality_sees_regions() {
    let (mut ir, b) = func();
    let ty = Type::int(32);
    let x = ir.add_arg(b, ty);
    let mut make = |n: i64| {
        let body = ir.at(b).body(&[ty], |b, args| {
            let c = b.add(Const {
                value: Attr::int(n, ty),
                ty: Ret(ty),
            });
            let s = b.add(Add { x: c, y: args[0] });
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
        ir.owner(out[0]).expect("an op")
    };
    let (a, b, c) = (make(1), make(1), make(2));
    assert!(ops_are_equal(&ir, a, b));
    assert!(!ops_are_equal(&ir, a, c));
}
