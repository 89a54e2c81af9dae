//! What nearly every dialect and pass needs: `use tir::prelude::*;`.

pub use crate::{
    Asm, AsmParser, AsmPrinter, Attr, AttrData, AttrValue, BlockId, Builder, Canonicalize, Cost,
    Diagnostic, Dialect, Effects, Evaluate, Failure, Flag, Fold, Folds, Greedy, HasEffects, Infer,
    Ir, LowerToEval, Name, Op, OpId, OpRef, ParseAttr, ParseOptions, ParseType, Pass, PassCx,
    Pattern, PatternSet, PrintOptions, RegionId, Ret, Rets, Rewriter, Sym, TextCx, Traits, Type,
    TypeData, Value, Verify, VerifySymbols,
};
