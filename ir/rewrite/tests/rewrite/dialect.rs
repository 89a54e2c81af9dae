//! The dialect of the tests: ops, rules and patterns, and functions of them.

use std::collections::BTreeSet;

use tir::rewrite::canonicalization;
use tir::*;

/// A constant.
#[derive(Op, Debug, PartialEq)]
#[op("t.const", Pure, ConstantLike)]
pub(crate) struct Const {
    pub value: Attr,
    pub ty: Ret,
}
/// A sum.
#[derive(Op, Debug, PartialEq)]
#[op("t.add", Pure, Commutative, SameType, results(sum), fold)]
pub(crate) struct Add {
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
pub(crate) struct Mul {
    pub x: Value,
    pub y: Value,
}
/// A negation.
#[derive(Op, Debug, PartialEq)]
#[op("t.neg", Pure, Involution, SameType, results(out), canonicalize)]
pub(crate) struct Neg {
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
pub(crate) struct Turn {
    pub x: Value,
    pub perm: Vec<i64>,
    pub ty: Ret,
}
/// Two results.
#[derive(Op)]
#[op("t.two", Pure)]
pub(crate) struct Two {
    pub x: Value,
    pub a: Ret,
    pub b: Ret,
}
/// Anything with an effect.
#[derive(Op)]
#[op("t.use")]
pub(crate) struct Use {
    pub values: Vec<Value>,
}
/// Ends a region.
#[derive(Op)]
#[op("t.yield", Terminator, Pure)]
pub(crate) struct Yield {
    pub values: Vec<Value>,
}
/// Holds a region.
#[derive(Op)]
#[op("t.for", SingleBlock)]
pub(crate) struct For {
    pub init: Vec<Value>,
    pub body: RegionId,
    pub results: Rets,
}
/// A function.
#[derive(Op)]
#[op("t.func", IsolatedFromAbove, Symbol, NoTerminator)]
pub(crate) struct Func {
    pub sym_name: Name,
    pub body: RegionId,
}
pub(crate) mod low {
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
pub(crate) const RULES: &[RuleText] = &[
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

pub(crate) fn functions(set: &mut PatternSet) {
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

pub(crate) fn load() {
    DIALECT.load();
    low::DIALECT.load();
}

pub(crate) fn patterns() -> Patterns {
    load();
    canonicalization().finish(&BTreeSet::new()).expect("right")
}

pub(crate) fn func() -> (Ir, BlockId) {
    load();
    let mut ir = Ir::new("t.func");
    let root = ir.root();
    ir.set_attr(root, "sym_name", Attr::str("f"));
    let region = ir.new_region();
    ir.attach_region(root, region);
    let block = ir.new_block(region);
    (ir, block)
}

pub(crate) fn int(ir: &mut Ir, b: BlockId, value: i64) -> Value {
    let ty = Type::int(32);
    let value = Attr::int(value, ty);
    ir.add(b, Const { value, ty: Ret(ty) })
}

/// A line for each op, values numbered as they come.
pub(crate) fn text(ir: &Ir) -> String {
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

pub(crate) fn greedy(ir: &mut Ir) -> tir::rewrite::Outcome {
    let patterns = patterns();
    let outcome = Greedy::new(&patterns).run(ir);
    assert_eq!(verify(ir), Ok(()));
    outcome
}
