//! The ops of builtin.

use tir::{Failure, Fold, Folds, Name, Op, OpRef, RegionId, Rets, Value, Verify};

/// A container of functions, globals and machines; the root of every file.
#[derive(Op)]
#[op(
    "builtin.module",
    IsolatedFromAbove,
    SymbolTable,
    Symbol,
    SingleBlock,
    GraphRegion,
    NoTerminator,
    verify
)]
#[asm("(symbol($sym_name)^)? attr-dict-with-keyword $body")]
pub struct Module {
    /// Its name, if it is a symbol of a module around it.
    pub sym_name: Option<Name>,
    /// What it holds.
    pub body: RegionId,
}
impl Verify for Module {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (ir, _) = op.inner();
        let arguments = ir.entry(self.body).map_or(0, |block| ir.args(block).len());
        if arguments > 0 {
            return Err(format!("has a body with {arguments} arguments, expected none").into());
        }
        Ok(())
    }
}

/// Values of some types as values of other types, where a conversion has converted only the
/// producer or only the users. A chain that returns to the first types folds away.
#[derive(Op)]
#[op("builtin.unrealized_conversion_cast", Pure, fold)]
#[asm("($inputs^ `:` type($inputs))? `to` type($outputs) attr-dict")]
pub struct UnrealizedConversionCast {
    /// What is cast.
    pub inputs: Vec<Value>,
    /// Types it is cast to.
    pub outputs: Rets,
}
impl Fold for UnrealizedConversionCast {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        let types: Vec<_> = self.inputs.iter().map(|v| op.ir.ty(*v)).collect();
        let folds = |values: &[Value]| {
            let all: Vec<_> = values.iter().map(|v| (*v).into()).collect();
            Some(all.into())
        };
        if types == self.outputs.0 && !types.is_empty() {
            return folds(&self.inputs);
        }
        let source = op.ir.owner(*self.inputs.first()?)?;
        let before: Self = op.ir.get(source)?;
        let whole = op.ir.results(source).eq(self.inputs.iter().copied());
        let types: Vec<_> = before.inputs.iter().map(|v| op.ir.ty(*v)).collect();
        if whole && types == self.outputs.0 {
            folds(&before.inputs)
        } else {
            None
        }
    }
}
