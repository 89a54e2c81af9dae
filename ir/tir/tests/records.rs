//! Ops as records: building, reading, folding, verifying, copying.
#![allow(missing_docs)]

use tir::*;

static FLOAT: Constraint = Constraint::new("a float", |ty| ty.elem().is_float());

attr_enum! {
    /// An order.
    pub enum Order { Less = "less", More = "more" }
}

/// A constant.
#[derive(Op, Debug, PartialEq)]
#[op("t.const", Pure, ConstantLike)]
pub struct Const {
    pub value: i64,
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
        Some(Attr::i64(x + y).into())
    }
}
/// Two results, inferred.
#[derive(Op)]
#[op("t.divrem", Pure, results(quotient, remainder), infer)]
pub struct DivRem {
    pub x: Value,
    pub y: Value,
}
impl Infer for DivRem {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        Ok(vec![op.ir.ty(self.x), op.ir.ty(self.y)])
    }
}
/// Groups.
#[derive(Op, Debug, PartialEq)]
#[op("t.dma")]
pub struct Dma {
    #[is(FLOAT)]
    pub source: Value,
    pub offsets: Vec<Value>,
    pub token: Option<Value>,
    pub order: Order,
    #[default(7)]
    pub depth: i64,
    pub bank: Option<i64>,
}
/// A region.
#[derive(Op)]
#[op("t.for", SingleBlock, terminator(Yield))]
pub struct For {
    pub init: Vec<Value>,
    pub body: RegionId,
    pub results: Rets,
}
/// Its end.
#[derive(Op)]
#[op("t.yield", Terminator, Pure)]
pub struct Yield {
    pub values: Vec<Value>,
}
/// An end of another op.
#[derive(Op)]
#[op("t.done", Terminator, Pure)]
pub struct Done {}
/// An end that nothing comes behind.
#[derive(Op)]
#[op("t.stop", Terminator, MayStop)]
pub struct Stop {}
/// Stands in a loop.
#[derive(Op)]
#[op("t.step", parent(For))]
pub struct Step {}
/// A function.
#[derive(Op)]
#[op("t.func", IsolatedFromAbove, Symbol, NoTerminator)]
pub struct Func {
    pub sym_name: Name,
    pub body: RegionId,
}
dialect! {
    /// For tests.
    t { ops: [Const, Add, DivRem, Dma, For, Yield, Done, Stop, Step, Func] }
}

fn func() -> (Ir, BlockId) {
    DIALECT.load();
    let mut ir = Ir::new("t.func");
    let root = ir.root();
    ir.set_attr(root, "sym_name", Attr::str("f"));
    let region = ir.new_region();
    ir.attach_region(root, region);
    let block = ir.new_block(region);
    (ir, block)
}

#[test]
fn build_and_read() {
    let (mut ir, b) = func();
    let x = ir.add(
        b,
        Const {
            value: 3,
            ty: Ret(Type::f32()),
        },
    );
    let s = ir.add(b, Add { x, y: x });
    let [q, r] = ir.add(b, DivRem { x: s, y: x });
    let dma = Dma {
        source: x,
        offsets: vec![q, r],
        token: None,
        order: Order::More,
        depth: 7,
        bank: None,
    };
    let op = ir.add(b, dma);
    assert_eq!(ir.def::<Add>(s), Some(Add { x, y: x }));
    let read = ir.get::<Dma>(op).expect("it is one");
    assert_eq!(read.offsets, [q, r]);
    assert_eq!((read.token, read.order, read.depth), (None, Order::More, 7));
    assert_eq!(verify(&ir), Ok(()));
    assert_eq!(ir.uses(x).len(), 4);
}

#[test]
fn regions_and_copies() {
    let (mut ir, b) = func();
    let ty = Type::int(32);
    let x = ir.add(
        b,
        Const {
            value: 3,
            ty: Ret(ty),
        },
    );
    let body = ir.at(b).body(&[ty], |b, args| {
        let y = b.add(Add { x: args[0], y: x });
        b.add(Yield { values: vec![y] });
    });
    let out = ir.add(
        b,
        For {
            init: vec![x],
            body,
            results: Rets(vec![ty]),
        },
    );
    assert_eq!(verify(&ir), Ok(()));
    let twin = ir.clone();
    assert_eq!(verify(&twin), Ok(()));
    let op = ir.owner(out[0]).expect("an op");
    let copy = ir.duplicate(op, b, &mut Mapping::default());
    assert_eq!(verify(&ir), Ok(()));
    assert_eq!(ir.uses(x).len(), 4);
    ir.erase(copy);
    assert_eq!(ir.uses(x).len(), 2);
    ir.erase(op);
    assert!(ir.is_unused(x));
}

#[test]
#[should_panic(expected = "belongs to another Ir")]
fn foreign_ids_are_caught() {
    let (mut ir, b) = func();
    let x = ir.add(
        b,
        Const {
            value: 3,
            ty: Ret(Type::f32()),
        },
    );
    let (other, _) = func();
    other.ty(x);
}

#[test]
fn verifier_collects() {
    let (mut ir, b) = func();
    let i = ir.add(
        b,
        Const {
            value: 3,
            ty: Ret(Type::int(32)),
        },
    );
    let mut bad = OpState::new("t.dma");
    bad.operands.push(i);
    bad.set_attr(
        SEGMENTS,
        Attr::new(DenseArray {
            elem: Type::int(32),
            bits: vec![1, 0, 0],
        }),
    );
    bad.set_attr("order", Attr::str("sideways"));
    let bad = ir.create_raw(bad);
    ir.insert(bad, b);
    let mut short = OpState::new("t.add");
    short.operands.push(i);
    short.results.push(Type::int(32));
    let short = ir.create_raw(short);
    ir.insert(short, At::Start(b));
    let errors: Vec<String> = match verify(&ir) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.into_iter().map(|e| e.message).collect(),
    };
    assert_eq!(
        errors,
        [
            "'t.add' uses operand 0 before its definition",
            "'t.add' expects 2 operands (x, y), found 1",
            "'t.dma' expects a float as operand 'source', found i32",
        ]
    );
}

#[test]
fn ops_stand_where_their_tables_say() {
    let (mut ir, b) = func();
    let ends: [fn(&mut Builder<'_>) -> OpId; 3] = [
        |b| b.add(Yield { values: Vec::new() }),
        |b| b.add(Done {}),
        |b| b.add(Stop {}),
    ];
    for end in ends {
        let mut builder = ir.at(b);
        let body = builder.body(&[], |b, _| {
            b.add(Step {});
            end(b);
        });
        builder.add(For {
            init: Vec::new(),
            body,
            results: Rets(Vec::new()),
        });
    }
    ir.add(b, Step {});
    let inner = OpState::new("t.func");
    let inner = ir.create_raw(inner);
    ir.set_attr(inner, "sym_name", Attr::str("g"));
    let region = ir.new_region();
    ir.attach_region(inner, region);
    ir.insert(inner, b);
    let errors = verify(&ir).expect_err("three errors");
    let errors: Vec<String> = errors.into_iter().map(|e| e.message).collect();
    assert_eq!(
        errors,
        [
            "'t.done' ends a block of 't.for', which ends in 't.yield'",
            "'t.step' stands in 't.func', expected 't.for' around it",
            "'t.func' defines symbol 'g' in 't.func', which is no symbol table",
        ]
    );
}

#[test]
fn isolated_ops_are_arenas() {
    let (f, _) = func();
    let mut module = Ir::new("t.module");
    let region = module.new_region();
    let root = module.root();
    module.attach_region(root, region);
    let block = module.new_block(region);
    let slot = module.adopt(block, f);
    assert_eq!(module.attr(slot, "sym_name"), Some(Attr::str("f")));
    let table = SymbolTable::new(&module);
    assert_eq!(table.get(Name::new("f")).map(|op| op.id), Some(slot));
    assert_eq!(module.op_count(), 2);
    let f = module.take(slot).expect("a child");
    assert_eq!(f.root_name(), "t.func");
    assert_eq!(module.op_count(), 1);
}

#[test]
fn types_are_interned_and_print() {
    let t = || Type::tensor([1, DYNAMIC, 4], Type::f32());
    assert_eq!(t(), t());
    assert_eq!(t().to_string(), "tensor<1x?x4xf32>");
    let f = Type::function([Type::index()], [t(), Type::int(1)]);
    assert_eq!(f.to_string(), "(index) -> (tensor<1x?x4xf32>, i1)");
    assert_eq!(Attr::float(0.1, Type::f32()).to_string(), "0.1 : f32");
    assert_eq!(Attr::float(1e30, Type::f32()).to_string(), "1.0E+30 : f32");
    assert_eq!(
        Attr::float(f64::NAN, Type::f32()).to_string(),
        "0x7FC00000 : f32"
    );
    for bits in 0..=u16::MAX {
        for format in [FloatType::F16, FloatType::BF16] {
            let value = float_value(u64::from(bits), format);
            assert_eq!(
                float_bits(value, format),
                u64::from(bits),
                "{format} {bits:04X}"
            );
        }
    }
}
