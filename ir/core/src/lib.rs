//! What IR is: ids, storage, types, attributes, ops, verifier and diagnostics.
//!
//! An [`Ir`] owns one isolated operation (a module, a function) and all below it. Ids
//! ([`OpId`], [`Value`], [`BlockId`], [`RegionId`]) are `Copy` and belong to one `Ir`. Types and
//! attributes are interned handles. Ops are plain records that implement [`Op`].
#![forbid(unsafe_code)]

mod affine;
mod attrs;
mod build;
mod copy;
mod diag;
mod dominance;
mod edit;
mod effects;
mod fmt;
mod handle;
pub mod hooks;
mod id;
mod intern;
mod ir;
mod linear;
mod loc;
mod name;
mod op;
mod read;
mod registry;
mod scan;
mod suggest;
mod symbol;
mod types;
mod verify;
mod walk;

pub use affine::{AffineExpr, AffineMap};
pub use attrs::{
    AffineMapAttr, ArrayAttr, Attr, AttrData, BlobAttr, DenseArray, DenseElements, DictAttr,
    FloatAttr, IntAttr, LayoutAttr, LocAttr, OpaqueAttr, StrAttr, SymbolRef, TypeAttr, UnitAttr,
    dictionary_text, float_bits, float_text, float_value, key_text, sign_extend, symbol_text,
};
pub use build::{
    At, AttrValue, Builder, Field, Flag, OpState, Reader, Ret, Rets, Successor, Sym, fixed_results,
    one_result,
};
pub use copy::Mapping;
pub use diag::{Diagnostic, Failure, Note, Severity, Sources};
pub use dominance::Dominance;
pub use fmt::{quote, unescape, unquote};
pub use hooks::{Fold, HasEffects, Infer, Verify, VerifySymbols};
pub use id::{BlockId, OpId, RegionId, Value};
pub use ir::{Definition, Ir, OpRef, Use};
pub use linear::{Interval, LinearExpr, LinearMap};
pub use loc::{Loc, LocBody, LocData, LocFile};
pub use name::Name;
pub use op::{
    Access, CheckFn, Constraint, Effect, Effects, EffectsFn, FieldInfo, FieldSpec, FoldFn, Folded,
    Folds, Hook, InferFn, Keywords, Op, OpInfo, OpSpec, PROPERTIES, Role, SEGMENTS, Traits,
    VerifyFn, VerifySymbolsFn,
};
pub use registry::{
    Attached, AttrParser, Dialect, Materialize, ParseAttr, ParseType, TextCx, TextInfo, TypeParser,
    attr_info, op_spec, register, type_info,
};
pub use scan::{ScanError, Scanner};
pub use smallvec::{SmallVec, smallvec};
pub use suggest::{closest, near};
pub use symbol::{Scopes, SymbolTable, attr_symbols, is_public, is_table, op_symbols, symbol_uses};
pub use types::{
    DYNAMIC, FloatType, FunctionType, IndexType, IntType, Layout, MemRefType, NoneType, OpaqueType,
    Sign, TensorType, TupleType, Type, TypeData, UnrankedType, VectorType,
};
pub use verify::{operand_groups, verify, verify_in, verify_local};
