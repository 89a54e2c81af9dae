//! Folds, rules, patterns and conversions on a dialect for tests.
#![allow(missing_docs)]

use std::collections::BTreeSet;
use std::sync::Arc;

use tir::rewrite::{Functions, Mode, Stopped, apply_rule, canonicalization, ops_are_equal};
use tir::*;

/// A constant.
#[derive(Op, Debug, PartialEq)]
#[op("t.const", Pure, ConstantLike)]
pub struct Const {
    pub value: Attr,
    pub ty: Ret,
}
/// A sum.
#[derive(Op, Debug, PartialEq)]
#[op("t.add", Pure, Commutative, SameType, results(sum), fold)]
pub struct Add {
    pub x: Value,
    pub y: Value,
}
impl Fold for Add {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        let x = op.ir.constant_int(self.x)?;
        let y = op.ir.constant_int(self.y)?;
        let ty = op.ir.ty(self.x);
        Some(Attr::int(x + y, ty).into())
    }
}
/// A product.
#[derive(Op, Debug, PartialEq)]
#[op("t.mul", Pure, Commutative, SameType, results(product))]
pub struct Mul {
    pub x: Value,
    pub y: Value,
}
/// A negation.
#[derive(Op, Debug, PartialEq)]
#[op("t.neg", Pure, Involution, SameType, results(out), canonicalize)]
pub struct Neg {
    pub x: Value,
}
impl Canonicalize for Neg {
    fn patterns(set: &mut PatternSet) {
        set.on("move-neg-into-add", |Neg { x }, op, rw| {
            let Some(Add { x, y }) = rw.def(x) else {
                return Err("the operand is no sum".into());
            };
            let x = rw.add(Neg { x });
            let y = rw.add(Neg { x: y });
            rw.replace_with(op, Add { x, y });
            Ok(())
        });
    }
}
/// Moves dimensions.
#[derive(Op, Debug, PartialEq)]
#[op("t.turn", Pure)]
pub struct Turn {
    pub x: Value,
    pub perm: Vec<i64>,
    pub ty: Ret,
}
/// Two results.
#[derive(Op)]
#[op("t.two", Pure)]
pub struct Two {
    pub x: Value,
    pub a: Ret,
    pub b: Ret,
}
/// Anything with an effect.
#[derive(Op)]
#[op("t.use")]
pub struct Use {
    pub values: Vec<Value>,
}
/// Ends a region.
#[derive(Op)]
#[op("t.yield", Terminator, Pure)]
pub struct Yield {
    pub values: Vec<Value>,
}
/// Holds a region.
#[derive(Op)]
#[op("t.for", SingleBlock)]
pub struct For {
    pub init: Vec<Value>,
    pub body: RegionId,
    pub results: Rets,
}
/// A function.
#[derive(Op)]
#[op("t.func", IsolatedFromAbove, Symbol, NoTerminator)]
pub struct Func {
    pub sym_name: Name,
    pub body: RegionId,
}
mod low {
    use tir::*;
    /// A sum of a lower level.
    #[derive(Op)]
    #[op("u.add", Pure, SameType, results(sum))]
    pub(crate) struct Low {
        pub x: Value,
        pub y: Value,
    }
    dialect! {
        /// For tests.
        u { ops: [Low] }
    }
}
use low::Low;

const RULES: &[RuleText] = &[
    rule!("drop-add-zero", "(t.add ?x 0)" => "?x"),
    rule!("drop-mul-one", "(t.mul ?x 1)" => "?x"),
    rule!("gather-constants", "(t.add (t.add ?x #a) #b)" => "(t.add ?x (t.add #a #b))"),
    rule!("double", "(t.add ?x ?x)" => "(t.mul ?x 2)", if "(is-int ?x)"),
    rule!("merge-turns", "(t.turn (t.turn ?x {perm = ?p}) {perm = ?q})"
        => "(t.turn ?x {perm = (compose ?p ?q)})"),
    rule!("drop-turn", "(t.turn ?x:?T {perm = [0, 1]}):?T" => "?x"),
    rule!("first-of-two", "(t.two ?x).0" => "?x"),
    rule!(equal "commute", "(t.mul ?x ?y)" => "(t.mul ?y ?x)"),
];

fn functions(set: &mut PatternSet) {
    set.guard("is-int", |args| {
        args[0].ty().is_some_and(|ty| ty.elem().is_int())
    });
    set.attr_fn("compose", |args| {
        let (p, q) = (args[0].ints()?, args[1].ints()?);
        let at = |i: &i64| p.get(usize::try_from(*i).ok()?).copied();
        Some(Attr::ints(&q.iter().map(at).collect::<Option<Vec<_>>>()?))
    });
}

dialect! {
    /// For tests.
    t {
        ops: [Const, Add, Mul, Neg, Turn, Two, Use, Yield, For, Func],
        constant: |b, value, ty| Some(b.add(Const { value, ty: Ret(ty) })),
        rules: RULES,
        patterns: functions
    }
}

fn load() {
    DIALECT.load();
    low::DIALECT.load();
}

fn patterns() -> Patterns {
    load();
    canonicalization().finish(&BTreeSet::new()).expect("right")
}

fn func() -> (Ir, BlockId) {
    load();
    let mut ir = Ir::new("t.func");
    let root = ir.root();
    ir.set_attr(root, "sym_name", Attr::str("f"));
    let region = ir.new_region();
    ir.attach_region(root, region);
    let block = ir.new_block(region);
    (ir, block)
}

fn int(ir: &mut Ir, b: BlockId, value: i64) -> Value {
    let ty = Type::int(32);
    let value = Attr::int(value, ty);
    ir.add(b, Const { value, ty: Ret(ty) })
}

/// A line for each op, values numbered as they come.
fn text(ir: &Ir) -> String {
    let mut names = std::collections::HashMap::new();
    let mut out = String::new();
    let blocks = ir.regions(ir.root()).flat_map(|r| ir.blocks(r));
    for (i, arg) in blocks.flat_map(|b| ir.args(b)).enumerate() {
        names.insert(arg, format!("a{i}"));
    }
    for op in ir.walk_ids() {
        for region in ir.regions(op) {
            for arg in ir.blocks(region).flat_map(|b| ir.args(b)) {
                let n = names.len();
                names.insert(arg, format!("b{n}"));
            }
        }
        for value in ir.results(op) {
            let n = names.len();
            names.insert(value, format!("{n}"));
            out += &format!("{} ", names[&value]);
        }
        out += &format!("= {}", ir.name(op));
        for value in ir.operands(op) {
            out += &format!(" {}", names.get(&value).map_or("?", |n| n));
        }
        for (name, attr) in ir.attrs(op) {
            out += &format!(" {name}={attr}");
        }
        for value in ir.results(op) {
            out += &format!(" : {}", ir.ty(value));
        }
        out += "\n";
    }
    out
}

fn greedy(ir: &mut Ir) -> tir::rewrite::Outcome {
    let patterns = patterns();
    let outcome = Greedy::new(&patterns).run(ir);
    assert_eq!(verify(ir), Ok(()));
    outcome
}

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
fn disabled_and_wrong_rules() {
    DIALECT.load();
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
