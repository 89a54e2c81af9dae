//! The generic passes on a dialect for tests.
#![allow(missing_docs)]

use std::collections::HashMap;

use tir::*;

/// A constant.
#[derive(Op)]
#[op("t.const", Pure, ConstantLike)]
pub struct Const {
    pub value: Attr,
    pub ty: Ret,
}
/// A sum.
#[derive(Op)]
#[op("t.add", Pure, Commutative, SameType, results(sum), fold)]
pub struct Add {
    pub x: Value,
    pub y: Value,
}
impl Fold for Add {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        let x = op.ir.constant_int(self.x)?;
        let y = op.ir.constant_int(self.y)?;
        Some(Attr::int(x + y, op.ir.ty(self.x)).into())
    }
}
/// Anything with an effect.
#[derive(Op)]
#[op("t.use")]
pub struct Use {
    pub values: Vec<Value>,
}
/// Refers to a symbol.
#[derive(Op)]
#[op("t.call")]
pub struct Call {
    pub callee: Sym,
}
/// Ends a region.
#[derive(Op)]
#[op("t.yield", Terminator, Pure)]
pub struct Yield {
    pub values: Vec<Value>,
}
/// Goes on.
#[derive(Op)]
#[op("t.br", Terminator, Pure)]
pub struct Br {
    pub to: Successor,
}
/// Goes on with one of two.
#[derive(Op)]
#[op("t.cond_br", Terminator, Pure)]
pub struct CondBr {
    pub condition: Value,
    pub yes: Successor,
    pub no: Successor,
}
/// A loop.
#[derive(Op)]
#[op("t.for", SingleBlock, RecursiveEffects, loop_like)]
pub struct For {
    pub init: Vec<Value>,
    pub body: RegionId,
    pub results: Rets,
}
impl LoopLike for For {
    fn bodies(&self, _: OpRef<'_>) -> Vec<RegionId> {
        vec![self.body]
    }
}
/// A function.
#[derive(Op)]
#[op("t.func", IsolatedFromAbove, Symbol, NoTerminator)]
pub struct Func {
    pub sym_name: Name,
    pub body: RegionId,
}
/// A module.
#[derive(Op)]
#[op("t.module", IsolatedFromAbove, SymbolTable, NoTerminator)]
pub struct Module {
    pub body: RegionId,
}

const RULES: &[RuleText] = &[rule!("drop-add-zero", "(t.add ?x 0)" => "?x")];

dialect! {
    /// For tests.
    t {
        ops: [Const, Add, Use, Call, Yield, Br, CondBr, For, Func, Module],
        constant: |b, value, ty| Some(b.add(Const { value, ty: Ret(ty) })),
        rules: RULES
    }
}

fn int() -> Type {
    Type::int(32)
}

fn isolated(name: &str) -> (Ir, BlockId) {
    DIALECT.load();
    let mut ir = Ir::new(name);
    let root = ir.root();
    let region = ir.new_region();
    ir.attach_region(root, region);
    let block = ir.new_block(region);
    (ir, block)
}

fn func(name: &str) -> (Ir, BlockId) {
    let (mut ir, block) = isolated("t.func");
    ir.set_attr(ir.root(), "sym_name", Attr::str(name));
    (ir, block)
}

/// The ops in order, with values numbered as they come.
fn text(ir: &Ir) -> String {
    let mut names: HashMap<Value, String> = HashMap::new();
    let mut out = String::new();
    let mut lines = Vec::new();
    for op in std::iter::once(ir.root()).chain(ir.walk_ids()) {
        for value in ir.results(op) {
            names.insert(value, format!("%{}", names.len()));
        }
        for region in ir.regions(op) {
            for arg in ir.blocks(region).flat_map(|b| ir.args(b)) {
                names.insert(arg, format!("%{}", names.len()));
            }
        }
        lines.push(op);
    }
    for op in lines.into_iter().skip(1) {
        for value in ir.results(op) {
            out += &format!("{} = ", names[&value]);
        }
        out += &ir.name(op)[2..];
        for value in ir.operands(op) {
            out += &format!(" {}", names[&value]);
        }
        if let Some(value) = ir.attr(op, "value").or(ir.attr(op, "sym_name")) {
            out += &format!(" {value}");
        }
        out += "; ";
    }
    out.trim_end_matches("; ").to_string()
}

fn run(pass: &str, ir: &mut Ir) -> pass::Report {
    let mut registry = PassRegistry::new();
    registry.add(tir_generic::passes());
    let pipeline = registry.parse(pass).expect("a pipeline");
    assert_eq!(pipeline.to_string(), pass);
    assert_eq!(verify(ir), Ok(()));
    let report = PassManager::new(pipeline).run(ir);
    assert_eq!(report.errors, []);
    report
}

fn constant(ir: &mut Ir, b: BlockId, value: i64) -> Value {
    let value = Attr::int(value, int());
    ir.add(
        b,
        Const {
            value,
            ty: Ret(int()),
        },
    )
}

#[test]
fn canonicalize_reaches_all_functions() {
    let (mut module, block) = isolated("t.module");
    for name in ["f", "g"] {
        let (mut ir, b) = func(name);
        let x = ir.add_arg(b, int());
        let (one, minus) = (constant(&mut ir, b, 1), constant(&mut ir, b, -1));
        let zero = ir.add(b, Add { x: one, y: minus });
        let y = ir.add(b, Add { x: zero, y: x });
        ir.add(
            b,
            Use {
                values: vec![y, zero],
            },
        );
        module.adopt(block, ir);
    }
    let mut folded = module.clone();
    let report = run("canonicalize", &mut module);
    let statistics = &report.statistics["canonicalize"];
    assert_eq!(statistics["applied drop-add-zero"], 2);
    assert_eq!(statistics["folded"], 2);
    for (_, f) in module.children_mut() {
        assert_eq!(text(f), "%1 = const 0 : i32; use %0 %1");
    }
    run("constant-fold", &mut folded);
    for (_, f) in folded.children_mut() {
        assert_eq!(text(f), "%1 = const 0 : i32; %2 = add %0 %1; use %2 %1");
    }
}

#[test]
fn disabled_rules_and_limits() {
    let (mut ir, b) = func("f");
    let x = ir.add_arg(b, int());
    let zero = constant(&mut ir, b, 0);
    let y = ir.add(b, Add { x, y: zero });
    ir.add(b, Use { values: vec![y] });
    run("canonicalize{disable=drop-add-zero}", &mut ir);
    assert_eq!(text(&ir), "%1 = const 0 : i32; %2 = add %0 %1; use %2");
    let report = run("canonicalize{max-rewrites=0}", &mut ir);
    assert_eq!(report.remarks.len(), 1);
    run("canonicalize", &mut ir);
    assert_eq!(text(&ir), "use %0");
}

#[test]
fn cse_goes_by_dominance() {
    let (mut ir, b) = func("f");
    let region = ir.region_of(b).expect("in a region");
    let (x, y) = (ir.add_arg(b, int()), ir.add_arg(b, int()));
    let (left, right) = (ir.new_block(region), ir.new_block(region));
    let s = ir.add(b, Add { x, y });
    let go = |block| Successor {
        block,
        args: vec![],
    };
    ir.add(
        b,
        CondBr {
            condition: s,
            yes: go(left),
            no: go(right),
        },
    );
    for block in [left, right] {
        let t = ir.add(block, Add { x: y, y: x });
        let u = ir.add(block, Add { x: t, y: t });
        ir.add(block, Use { values: vec![u] });
        ir.add(block, Yield { values: vec![] });
    }
    run("cse", &mut ir);
    assert_eq!(
        text(&ir),
        "%2 = add %0 %1; cond_br %2; %3 = add %2 %2; use %3; yield; %4 = add %2 %2; use %4; yield"
    );
}

#[test]
fn cse_merges_ops_with_regions() {
    let (mut ir, b) = func("f");
    let x = ir.add_arg(b, int());
    let mut outs = Vec::new();
    for _ in 0..2 {
        let body = ir.at(b).body(&[int()], |b, args| {
            let s = b.add(Add { x: args[0], y: x });
            b.add(Yield { values: vec![s] });
        });
        outs.extend(ir.add(
            b,
            For {
                init: vec![x],
                body,
                results: Rets(vec![int()]),
            },
        ));
    }
    ir.add(b, Use { values: outs });
    run("cse", &mut ir);
    assert_eq!(
        text(&ir),
        "%1 = for %0; %3 = add %2 %0; yield %3; use %1 %1"
    );
}

#[test]
fn dce_takes_cycles_and_blocks() {
    let (mut ir, b) = func("f");
    let region = ir.region_of(b).expect("in a region");
    let x = ir.add_arg(b, int());
    let (again, end, never) = (
        ir.new_block(region),
        ir.new_block(region),
        ir.new_block(region),
    );
    let (kept, dead) = (ir.add_arg(again, int()), ir.add_arg(again, int()));
    ir.add(
        b,
        Br {
            to: Successor {
                block: again,
                args: vec![x, x],
            },
        },
    );
    // The second argument only feeds itself around the loop.
    let next = ir.add(again, Add { x: dead, y: dead });
    ir.add(again, Use { values: vec![kept] });
    let yes = Successor {
        block: again,
        args: vec![kept, next],
    };
    ir.add(
        again,
        CondBr {
            condition: x,
            yes,
            no: Successor {
                block: end,
                args: vec![],
            },
        },
    );
    ir.add(end, Yield { values: vec![] });
    ir.add(never, Use { values: vec![x] });
    ir.add(never, Yield { values: vec![] });
    let body = ir.at(At::Start(end)).body(&[int()], |b, args| {
        b.add(Yield {
            values: vec![args[0]],
        });
    });
    ir.add(
        At::Start(end),
        For {
            init: vec![x],
            body,
            results: Rets(vec![int()]),
        },
    );
    let report = run("dce", &mut ir);
    assert_eq!(text(&ir), "br %0; use %1; cond_br %0 %1; yield");
    assert_eq!(report.statistics["dce"]["erased block arguments"], 1);
    assert_eq!(report.statistics["dce"]["unreachable blocks"], 1);
    assert_eq!(report.statistics["dce"]["erased ops"], 2);
}

#[test]
fn licm_moves_out_of_nests() {
    let (mut ir, b) = func("f");
    let x = ir.add_arg(b, int());
    let body = ir.at(b).body(&[int()], |b, outer| {
        let body = b.body(&[int()], |b, inner| {
            let once = b.add(Add { x, y: x });
            let outer_only = b.add(Add {
                x: outer[0],
                y: once,
            });
            let each = b.add(Add {
                x: inner[0],
                y: outer_only,
            });
            b.add(Use { values: vec![each] });
            b.add(Yield { values: vec![each] });
        });
        let out = b.add(For {
            init: vec![outer[0]],
            body,
            results: Rets(vec![int()]),
        });
        b.add(Yield { values: out });
    });
    ir.add(
        b,
        For {
            init: vec![x],
            body,
            results: Rets(vec![int()]),
        },
    );
    run("licm", &mut ir);
    assert_eq!(
        text(&ir),
        "%1 = add %0 %0; %2 = for %0; %4 = add %3 %1; %5 = for %3; %7 = add %6 %4; use %7; \
         yield %7; yield %5"
    );
}

#[test]
fn symbol_dce_takes_private_cycles() {
    let (mut module, block) = isolated("t.module");
    for (name, callee, private) in [
        ("main", "used", false),
        ("used", "used", true),
        ("a", "b", true),
        ("b", "a", true),
    ] {
        let (mut ir, b) = func(name);
        if private {
            ir.set_attr(ir.root(), "sym_visibility", Attr::str("private"));
        }
        ir.add(
            b,
            Call {
                callee: Sym(Name::new(callee)),
            },
        );
        module.adopt(block, ir);
    }
    run("symbol-dce", &mut module);
    assert_eq!(text(&module), "func \"main\"; func \"used\"");
}
