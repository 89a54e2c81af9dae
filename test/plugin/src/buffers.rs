//! Ops of fixed on buffers and indices: views that no other dialect knows, the end of a buffer, and index arithmetic.
//!
//! Nothing is attached to them beyond what they compute and their effects. Passes on buffers must take a result that
//! is a memref for a view of every memref operand, must tell the end of a buffer by its effect, and must run the
//! arithmetic to know an offset.

use tir::constraints::{INDEX, MEMREF};
use tir::{
    Access, Compiler, DYNAMIC, Data, Effect, Effects, Failure, HasEffects, Infer, Layout,
    LowerToEval, MemRefType, Op, OpRef, Ret, Type, Value, Verify,
};

/// A half of a buffer of one dimension: the first for even numbers, else the second.
#[derive(Op)]
#[op("fixed.half", Pure, results(half), infer, lower_to_eval)]
#[asm("$of `` `[` $which `]` attr-dict `:` type($of)")]
pub struct Half {
    /// The buffer; its size is even.
    #[is(MEMREF)]
    pub of: Value,
    /// Which half.
    #[is(INDEX)]
    pub which: Value,
}
/// Elements of a half, and elements between two of them.
fn half(ty: Type) -> Result<(i64, i64), Failure> {
    let strides = ty.get::<MemRefType>().and_then(MemRefType::strides);
    match (ty.shape(), strides) {
        (Some([n]), Some((strides, _))) if n % 2 == 0 && *n != DYNAMIC => Ok((n / 2, strides[0])),
        _ => Err(format!("halves {ty}, expected one dimension of even size").into()),
    }
}
impl Infer for Half {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let ty = op.ir.ty(self.of);
        let (n, stride) = half(ty)?;
        let of = ty.get::<MemRefType>().ok_or("halves no buffer")?;
        Ok(vec![Type::new(MemRefType {
            shape: vec![n],
            layout: Layout::Strided {
                strides: vec![stride],
                offset: DYNAMIC,
            },
            ..of.clone()
        })])
    }
}
impl LowerToEval for Half {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let (n, _) = half(op.ir.ty(self.of))?;
        let result = op.ir.result(op.id, 0);
        cx.native(&[self.of, self.which], &[result], move |_, data| {
            let [of, which] = data else {
                return Err("has too few operands".into());
            };
            let (of, which) = (of.as_view()?, which.as_int()?.rem_euclid(2));
            let step = of.strides.first().copied().unwrap_or(0);
            let view = of.elsewhere(of.offset + which * n * step, [n], of.strides.clone());
            Ok(vec![view.into()])
        });
        Ok(())
    }
}

/// One of two buffers: the first for even numbers, else the second.
#[derive(Op)]
#[op("fixed.either", Pure, results(one), infer, verify, lower_to_eval)]
#[asm("$first `,` $second `by` $which attr-dict `:` type($first)")]
pub struct Either {
    /// The first.
    #[is(MEMREF)]
    pub first: Value,
    /// The second, of the same type.
    #[is(MEMREF)]
    pub second: Value,
    /// Which.
    #[is(INDEX)]
    pub which: Value,
}
impl Infer for Either {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        Ok(vec![op.ir.ty(self.first)])
    }
}
impl Verify for Either {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (a, b) = (op.ir.ty(self.first), op.ir.ty(self.second));
        if a == b {
            return Ok(());
        }
        Err(format!("chooses between {a} and {b}, expected one type").into())
    }
}
impl LowerToEval for Either {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let operands = [self.first, self.second, self.which];
        cx.native(&operands, &[op.ir.result(op.id, 0)], |_, data| {
            let [first, second, which] = data else {
                return Err("has too few operands".into());
            };
            let even = which.as_int()?.rem_euclid(2) == 0;
            Ok(vec![if even { first.clone() } else { second.clone() }])
        });
        Ok(())
    }
}

/// Ends a buffer, as `memref.dealloc` does.
#[derive(Op)]
#[op("fixed.release", effects, lower_to_eval)]
#[asm("$buffer attr-dict `:` type($buffer)")]
pub struct Release {
    /// Which one.
    #[is(MEMREF)]
    pub buffer: Value,
}
impl HasEffects for Release {
    fn effects(&self, _: OpRef<'_>) -> Effects {
        let effect = Effect {
            access: Access::Free,
            on: Some(self.buffer),
        };
        [effect].into_iter().collect()
    }
}
impl LowerToEval for Release {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.native(&[self.buffer], &[], |env, data| {
            let buffer = data.first().ok_or("has no operand")?.as_view()?.buffer;
            env.dealloc(buffer)?;
            Ok(Vec::new())
        });
        Ok(())
    }
}

/// A buffer of its own, which lives to the end.
#[derive(Op)]
#[op("fixed.fresh", effects)]
#[asm("attr-dict `:` type($buffer)")]
pub struct Fresh {
    /// Its type.
    #[is(MEMREF)]
    pub buffer: Ret,
}
impl HasEffects for Fresh {
    fn effects(&self, op: OpRef<'_>) -> Effects {
        let effect = Effect {
            access: Access::Allocate,
            on: op.ir.results(op.id).next(),
        };
        [effect].into_iter().collect()
    }
}

/// Starts work that reads a buffer until its token is waited for.
#[derive(Op)]
#[op("fixed.send", Asynchronous, effects)]
#[asm("$buffer attr-dict `:` type($buffer) `to` type($sent)")]
pub struct Send {
    /// The buffer.
    #[is(MEMREF)]
    pub buffer: Value,
    /// The token.
    pub sent: Ret,
}
impl HasEffects for Send {
    fn effects(&self, _: OpRef<'_>) -> Effects {
        let effect = Effect {
            access: Access::Read,
            on: Some(self.buffer),
        };
        [effect].into_iter().collect()
    }
}

/// The rest of a division, not negative.
#[derive(Op)]
#[op("fixed.wrap", Pure, results(rest), infer, verify, lower_to_eval)]
#[asm("$x `mod` $size attr-dict")]
pub struct Wrap {
    /// What is divided.
    #[is(INDEX)]
    pub x: Value,
    /// By what; positive.
    pub size: i64,
}
impl Infer for Wrap {
    fn infer(&self, _: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        Ok(vec![Type::index()])
    }
}
impl Verify for Wrap {
    fn verify(&self, _: OpRef<'_>) -> Result<(), Failure> {
        match self.size {
            1.. => Ok(()),
            size => Err(format!("divides by {size}, expected at least 1").into()),
        }
    }
}
impl LowerToEval for Wrap {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let size = self.size;
        cx.native(&[self.x], &[op.ir.result(op.id, 0)], move |_, data| {
            let x = data.first().ok_or("has no operand")?.as_int()?;
            Ok(vec![Data::index(x.rem_euclid(size))])
        });
        Ok(())
    }
}
