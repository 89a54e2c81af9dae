//! Buffers: made, ended, and constant ones of the module.

use tir::constraints::{INDEX, MEMREF};
use tir::text::{Arg, Parts};
use tir::{
    Access, AsmParser, AsmPrinter, Attr, Directive, Directives, Effects, Failure, Flag, HasEffects,
    MemRefType, Name, Op, OpRef, OpState, Ret, Scopes, Sym, Type, TypeAttr, Value, Verify,
    VerifySymbols, smallvec,
};

use crate::alias::ViewFlowLike;
use crate::on;

/// Makes a buffer; its content is not defined.
#[derive(Op)]
#[op("memref.alloc", effects, verify, lower_to_eval)]
#[asm("`(` ($dynamic_sizes^)? `)` (`` `[` $symbols^ `]`)? attr-dict `:` type($memref)")]
pub struct Alloc {
    /// Sizes of the dynamic dimensions.
    #[is(INDEX)]
    pub dynamic_sizes: Vec<Value>,
    /// Symbols of the layout map.
    #[is(INDEX)]
    pub symbols: Vec<Value>,
    /// What its address is a multiple of, in bytes.
    pub alignment: Option<i64>,
    /// Its type.
    #[is(MEMREF)]
    pub memref: Ret,
}
impl Alloc {
    /// A buffer of a static shape.
    pub fn new(ty: Type) -> Self {
        Self {
            dynamic_sizes: Vec::new(),
            symbols: Vec::new(),
            alignment: None,
            memref: Ret(ty),
        }
    }
}
impl HasEffects for Alloc {
    fn effects(&self, op: OpRef<'_>) -> Effects {
        op.ir
            .results(op.id)
            .map(|v| on(Access::Allocate, v))
            .collect()
    }
}
impl Verify for Alloc {
    fn verify(&self, _: OpRef<'_>) -> Result<(), Failure> {
        let shape = self.memref.0.shape().unwrap_or(&[]);
        let dynamic = shape.iter().filter(|d| **d == tir::DYNAMIC).count();
        if dynamic != self.dynamic_sizes.len() {
            let found = self.dynamic_sizes.len();
            return Err(format!("has {found} sizes for a {}", self.memref.0).into());
        }
        if let Some(alignment) = self.alignment.filter(|a| *a < 1 || a.count_ones() != 1) {
            return Err(format!("has alignment {alignment}, expected a power of two").into());
        }
        Ok(())
    }
}

/// Ends a buffer.
#[derive(Op)]
#[op("memref.dealloc", effects, lower_to_eval)]
#[asm("$memref attr-dict `:` type($memref)")]
pub struct Dealloc {
    /// Which one.
    #[is(MEMREF)]
    pub memref: Value,
}
impl HasEffects for Dealloc {
    fn effects(&self, _: OpRef<'_>) -> Effects {
        smallvec![on(Access::Free, self.memref)]
    }
}

/// A buffer of the module, with content.
#[derive(Op)]
#[op("memref.global", Symbol, Pure, verify, directives)]
#[asm(
    "($sym_visibility^)? (`constant` $constant^)? symbol($sym_name) attr-dict `:` $type (`=` custom<content>($initial_value)^)?"
)]
pub struct Global {
    /// Its name.
    pub sym_name: Name,
    /// `private`, or public if absent.
    pub sym_visibility: Option<Name>,
    /// Its type.
    pub r#type: Type,
    /// Its content; `unit` for none yet.
    pub initial_value: Option<Attr>,
    /// Whether it is never written.
    pub constant: Option<Flag>,
    /// What its address is a multiple of, in bytes.
    pub alignment: Option<i64>,
}
impl Verify for Global {
    fn verify(&self, _: OpRef<'_>) -> Result<(), Failure> {
        let Some(ty) = self.r#type.get::<MemRefType>() else {
            return Err(format!("has type {}, expected a memref", self.r#type).into());
        };
        if let Some(value) = self.initial_value
            && let Some(value) = value.type_of()
            && (value.shape() != Some(&ty.shape) || value.elem() != ty.elem)
        {
            return Err(format!("has a value of type {value} for a {}", self.r#type).into());
        }
        Ok(())
    }
}

/// Elements, whose type may be left out, or `uninitialized`.
struct Content;
impl Directive for Content {
    fn parse<'a>(
        &self,
        p: &mut AsmParser<'a>,
        args: &[Arg],
        parts: &mut Parts<'a>,
        state: &mut OpState,
    ) -> Result<(), Failure> {
        let ty = state.attr("type").and_then(|ty| ty.get::<TypeAttr>());
        let ty = ty.map(|ty| Type::tensor(ty.0.shape().unwrap_or(&[]), ty.0.elem()));
        let content = match (p.eat_keyword("uninitialized"), ty) {
            (true, _) => Attr::unit(),
            (false, Some(ty)) => p.attr_of(ty)?,
            (false, None) => p.attr()?,
        };
        if let [field] = args {
            state.set_attr(parts.name(*field), content);
        }
        Ok(())
    }
    fn print(&self, p: &mut AsmPrinter<'_>, _: &[Arg]) {
        match p.op().attr("initial_value") {
            Some(content) if content == Attr::unit() => p.text("uninitialized"),
            Some(content) => p.attr(content),
            None => {}
        }
    }
}
impl Directives for Global {
    fn directive(name: &str) -> Option<&'static dyn Directive> {
        (name == "content").then_some(&Content)
    }
}

/// A buffer of the module.
#[derive(Op)]
#[op(
    "memref.get_global",
    Pure,
    verify_symbols,
    lower_to_eval,
    crate::alias::view_flow
)]
#[asm("$name attr-dict `:` type($result)")]
pub struct GetGlobal {
    /// Its name.
    pub name: Sym,
    /// Its type.
    #[is(MEMREF)]
    pub result: Ret,
}
impl ViewFlowLike for GetGlobal {
    fn aliases(&self, _: OpRef<'_>) -> Vec<(Value, Value)> {
        Vec::new()
    }
    fn global(&self) -> Option<Name> {
        Some(self.name.0)
    }
}
impl VerifySymbols for GetGlobal {
    fn verify_symbols(&self, _: OpRef<'_>, scopes: &Scopes<'_>) -> Result<(), Failure> {
        let name = self.name.0;
        let ty = scopes.get(name).and_then(|op| op.attr("type"));
        match ty.and_then(|ty| ty.get::<TypeAttr>()) {
            Some(ty) if ty.0 == self.result.0 => Ok(()),
            Some(ty) => {
                Err(format!("gets '@{name}' as {}, it is a {}", self.result.0, ty.0).into())
            }
            None => Err(format!("gets '@{name}', which is no buffer of the module").into()),
        }
    }
}
