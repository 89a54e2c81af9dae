//! A small dialect that runs: constants, arithmetic, loops, memory, calls.
#![allow(missing_docs, dead_code, unreachable_pub)]

use tir::interp::{CountedLoop, FloatOp, IntCmp, IntOp, Kind, ScalarOp};
use tir::*;

fn result(op: OpRef<'_>) -> Value {
    op.ir.result(op.id, 0)
}

#[derive(Op)]
#[op("t.const", Pure, ConstantLike)]
pub struct Const {
    pub value: Attr,
    pub ty: Ret,
}

macro_rules! binary {
    ($($name:ident $text:literal |$kind:ident| $op:expr;)*) => {$(
        #[derive(Op)]
        #[op($text, Pure, SameType, results(r), lower_to_eval)]
        pub struct $name {
            pub x: Value,
            pub y: Value,
        }
        impl LowerToEval for $name {
            fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
                let $kind = Kind::of(op.ir.ty(self.x).elem()).ok_or("no number")?;
                cx.scalar($op, result(op), &[self.x, self.y])
            }
        }
    )*};
}
fn either(int: IntOp, float: FloatOp, kind: Kind) -> ScalarOp {
    if kind.is_float() {
        ScalarOp::Float(float, kind)
    } else {
        ScalarOp::Int(int, kind)
    }
}
binary! {
    Add "t.add" |k| either(IntOp::Add, FloatOp::Add, k);
    Sub "t.sub" |k| either(IntOp::Sub, FloatOp::Sub, k);
    Mul "t.mul" |k| either(IntOp::Mul, FloatOp::Mul, k);
    Div "t.div" |k| either(IntOp::DivS, FloatOp::Div, k);
    Max "t.max" |k| either(IntOp::MaxS, FloatOp::Maximum, k);
}

#[derive(Op)]
#[op("t.less", Pure, lower_to_eval)]
pub struct Less {
    pub x: Value,
    pub y: Value,
    pub ty: Ret,
}
impl LowerToEval for Less {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let kind = Kind::of(op.ir.ty(self.x)).ok_or("no number")?;
        cx.scalar(
            ScalarOp::CmpInt(IntCmp::Slt, kind),
            result(op),
            &[self.x, self.y],
        )
    }
}

#[derive(Op)]
#[op("t.iterator", Pure, lower_to_eval)]
pub struct Iterator_ {
    pub dim: i64,
    pub ty: Ret,
}
impl LowerToEval for Iterator_ {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let from = cx.iterator(self.dim as usize)?;
        let to = cx.reg(result(op))?;
        cx.emit(ScalarOp::Copy(Kind::Index), to, &[from])
    }
}

#[derive(Op)]
#[op("t.for", lower_to_eval)]
pub struct For {
    pub lower: Value,
    pub upper: Value,
    pub step: Value,
    pub init: Vec<Value>,
    pub body: RegionId,
    pub results: Rets,
}
impl LowerToEval for For {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let results: Vec<Value> = op.ir.results(op.id).collect();
        let spec = CountedLoop {
            lower: cx.reg(self.lower)?,
            upper: cx.reg(self.upper)?,
            step: cx.reg(self.step)?,
            init: &self.init,
            body: self.body,
            results: &results,
        };
        cx.counted_loop(&spec)
    }
}

#[derive(Op)]
#[op("t.yield", Terminator, Pure)]
pub struct Yield {
    pub values: Vec<Value>,
}

#[derive(Op)]
#[op("t.br", Terminator, lower_to_eval)]
pub struct Br {
    pub dest: Successor,
}
impl LowerToEval for Br {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.branch(self.dest.block, &self.dest.args)
    }
}
#[derive(Op)]
#[op("t.cond", Terminator, lower_to_eval)]
pub struct Cond {
    pub cond: Value,
    pub yes: Successor,
    pub no: Successor,
}
impl LowerToEval for Cond {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let yes = (self.yes.block, &self.yes.args[..]);
        cx.branch_if(self.cond, yes, (self.no.block, &self.no.args))
    }
}

#[derive(Op)]
#[op("t.load", lower_to_eval)]
pub struct Load {
    pub from: Value,
    pub at: Vec<Value>,
    pub ty: Ret,
}
impl LowerToEval for Load {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.load(result(op), self.from, &self.at)
    }
}
#[derive(Op)]
#[op("t.store", lower_to_eval)]
pub struct Store {
    pub value: Value,
    pub to: Value,
    pub at: Vec<Value>,
}
impl LowerToEval for Store {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.store(self.value, self.to, &self.at)
    }
}
#[derive(Op)]
#[op("t.alloc", lower_to_eval)]
pub struct Alloc {
    pub ty: Ret,
}
impl LowerToEval for Alloc {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let ty = self.ty.0;
        cx.native(&[], &[result(op)], move |env, _| {
            let kind = Kind::of(ty.elem()).ok_or("no number")?;
            Ok(vec![
                env.alloc(kind, ty.shape().unwrap_or(&[]), 64, None)?.into(),
            ])
        });
        Ok(())
    }
}
#[derive(Op)]
#[op("t.free", lower_to_eval)]
pub struct Free {
    pub what: Value,
}
impl LowerToEval for Free {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.native(&[self.what], &[], |env, inputs| {
            let buffer = inputs[0].as_view()?.buffer;
            env.dealloc(buffer)?;
            Ok(vec![])
        });
        Ok(())
    }
}
/// Sets element `at` of a tensor: in place if nobody else has it.
#[derive(Op)]
#[op("t.set", Pure, lower_to_eval)]
pub struct Set {
    pub tensor: Value,
    pub at: Value,
    pub value: Value,
    pub ty: Ret,
}
impl LowerToEval for Set {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.native(
            &[self.tensor, self.at, self.value],
            &[result(op)],
            |env, inputs| {
                let (at, value) = (inputs[1].as_int()? as usize, inputs[2].as_f64()? as f32);
                let tensor = inputs[0].take_tensor()?;
                let before = tensor.bytes().as_ptr();
                let (tensor, ()) = interp::update(tensor, |bytes| {
                    bytes[at * 4..at * 4 + 4].copy_from_slice(&value.to_le_bytes());
                })?;
                if tensor.bytes().as_ptr() != before {
                    let copies = env.ext::<Copies>().map_or(0, |c| c.0);
                    env.put_ext(Copies(copies + 1));
                }
                Ok(vec![tensor.into()])
            },
        );
        Ok(())
    }
}
/// How often a tensor was copied.
pub struct Copies(pub u32);

/// Does nothing, in Rust: loops around it are not straight.
#[derive(Op)]
#[op("t.nothing", lower_to_eval)]
pub struct Nothing {}
impl LowerToEval for Nothing {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.native(&[], &[], |_, _| Ok(vec![]));
        Ok(())
    }
}

/// Doubles a tensor: by evaluation.
#[derive(Op)]
#[op("t.double", Pure, SameType, results(r), evaluate)]
pub struct Double {
    pub x: Value,
}
impl Evaluate for Double {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let elem = op.ir.ty(self.x).elem();
        let kind = Kind::of(elem).ok_or("no number")?;
        let add = either(IntOp::Add, FloatOp::Add, kind);
        Ok(vec![interp::elementwise(
            add,
            &[inputs[0].clone(), inputs[0].clone()],
            elem,
        )?])
    }
}

#[derive(Op)]
#[op("t.call", lower_to_eval)]
pub struct Call {
    pub callee: Sym,
    pub args: Vec<Value>,
    pub results: Rets,
}
impl LowerToEval for Call {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let results: Vec<Value> = op.ir.results(op.id).collect();
        cx.call(self.callee.0, &self.args, &results);
        Ok(())
    }
}
#[derive(Op)]
#[op("t.return", Terminator, ReturnLike)]
pub struct Return {
    pub values: Vec<Value>,
}
#[derive(Op)]
#[op("t.func", IsolatedFromAbove, Symbol, NoTerminator)]
pub struct Func {
    pub sym_name: Name,
    pub function_type: Type,
    pub body: RegionId,
}
#[derive(Op)]
#[op("t.module", IsolatedFromAbove, SymbolTable, NoTerminator)]
pub struct Module {
    pub body: RegionId,
}
dialect! {
    /// For tests.
    t { ops: [Const, Add, Sub, Mul, Div, Max, Less, Iterator_, For, Yield, Br, Cond, Load, Store, Alloc, Free,
              Set, Nothing, Double, Call, Return, Func, Module] }
}

/// A function `name`, filled by `fill` with a builder at its end and its arguments.
pub fn func(
    name: &str,
    inputs: &[Type],
    results: &[Type],
    fill: impl FnOnce(&mut Builder<'_>, &[Value]),
) -> Ir {
    DIALECT.load();
    let mut ir = Ir::new("t.func");
    let root = ir.root();
    ir.set_attr(root, "sym_name", Attr::str(name));
    ir.set_attr(
        root,
        "function_type",
        Attr::ty(Type::function(inputs.to_vec(), results.to_vec())),
    );
    let region = ir.new_region();
    ir.attach_region(root, region);
    let block = ir.new_block(region);
    let args: Vec<Value> = inputs.iter().map(|ty| ir.add_arg(block, *ty)).collect();
    let mut b = Builder::new(&mut ir, block);
    b.loc = Loc::file(Name::new("t.tir"), 7, 3);
    fill(&mut b, &args);
    ir
}

/// A module of functions.
pub fn module(funcs: Vec<Ir>) -> Ir {
    let mut module = Ir::new("t.module");
    let region = module.new_region();
    let root = module.root();
    module.attach_region(root, region);
    let block = module.new_block(region);
    for func in funcs {
        module.adopt(block, func);
    }
    module
}

/// An index constant.
pub fn index(b: &mut Builder<'_>, value: i64) -> Value {
    b.add(Const {
        value: Attr::index(value),
        ty: Ret(Type::index()),
    })
}
/// An f32 constant.
pub fn f32(b: &mut Builder<'_>, value: f64) -> Value {
    b.add(Const {
        value: Attr::float(value, Type::f32()),
        ty: Ret(Type::f32()),
    })
}
/// A loop from 0 to `n`.
pub fn repeat(
    b: &mut Builder<'_>,
    n: i64,
    init: &[Value],
    fill: impl FnOnce(&mut Builder<'_>, Value, &[Value]) -> Vec<Value>,
) -> Vec<Value> {
    let (lower, upper, step) = (index(b, 0), index(b, n), index(b, 1));
    let carried: Vec<Type> = init.iter().map(|v| b.ty(*v)).collect();
    let types: Vec<Type> = std::iter::once(Type::index())
        .chain(carried.iter().copied())
        .collect();
    let body = b.body(&types, |b, args| {
        let values = fill(b, args[0], &args[1..]);
        b.add(Yield { values });
    });
    b.add(For {
        lower,
        upper,
        step,
        init: init.to_vec(),
        body,
        results: Rets(carried),
    })
}

/// A convolution of seven loops with a carried sum: x `[c,h,w]`, weights `[o,c,kh,kw]`, y
/// `[o,oh,ow]`, all memrefs.
pub fn conv(x: [i64; 3], k: [i64; 4]) -> Ir {
    let mem = |shape: &[i64]| Type::memref(shape.to_vec(), Type::f32(), None);
    let (oh, ow) = (x[1] - k[2] + 1, x[2] - k[3] + 1);
    let types = [mem(&x), mem(&k), mem(&[k[0], oh, ow])];
    func("conv", &types, &[], |b, args| {
        let (x, w, y) = (args[0], args[1], args[2]);
        let ty = Ret(Type::f32());
        repeat(b, k[0], &[], |b, o, _| {
            repeat(b, oh, &[], |b, i, _| {
                repeat(b, ow, &[], |b, j, _| {
                    let zero = f32(b, 0.0);
                    let sum = repeat(b, k[1], &[zero], |b, c, s| {
                        repeat(b, k[2], s, |b, kh, s| {
                            repeat(b, k[3], s, |b, kw, s| {
                                let (h, v) =
                                    (b.add(Add { x: i, y: kh }), b.add(Add { x: j, y: kw }));
                                let p = b.add(Load {
                                    from: x,
                                    at: vec![c, h, v],
                                    ty,
                                });
                                let q = b.add(Load {
                                    from: w,
                                    at: vec![o, c, kh, kw],
                                    ty,
                                });
                                let m = b.add(Mul { x: p, y: q });
                                vec![b.add(Add { x: s[0], y: m })]
                            })
                        })
                    });
                    b.add(Store {
                        value: sum[0],
                        to: y,
                        at: vec![o, i, j],
                    });
                    vec![]
                });
                vec![]
            });
            vec![]
        });
        b.add(Return { values: vec![] });
    })
}
