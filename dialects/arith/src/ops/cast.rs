//! Conversions between scalar types.

use tir::constraints::{FLOAT_LIKE, INT_LIKE, NUMBER_LIKE};
use tir::{Failure, Fold, Folds, Op, OpRef, Ret, Type, Value, Verify};

use crate::attrs::{FastMath, Overflow, RoundingMode};
use crate::fold::fold;

macro_rules! cast {
    ($($(#[$doc:meta])* $name:ident $text:literal {$($flags:ident)?} $from:ident $to:ident $legal:expr;)*) => {$(
        cast!(@flags $($flags)?; {$(#[$doc])*} $name $text $from $to ($legal));
    )*};
    (@flags; $($rest:tt)*) => {
        cast!(@op "$input attr-dict `:` type($input) `to` type($output)" {} [] $($rest)*);
    };
    (@flags overflow; $($rest:tt)*) => {
        cast!(@op "$input (`overflow` `` body($overflowFlags)^)? attr-dict `:` type($input) `to` type($output)" {
            /// Overflow that cannot happen, as promised.
            #[name("overflowFlags")]
            pub overflow: Option<Overflow>,
        } [overflow: None] $($rest)*);
    };
    (@flags fastmath; $($rest:tt)*) => {
        cast!(@op "$input (`fastmath` `` body($fastmath)^)? attr-dict `:` type($input) `to` type($output)" {
            /// What may be assumed.
            pub fastmath: Option<FastMath>,
        } [fastmath: None] $($rest)*);
    };
    (@flags rounding; $($rest:tt)*) => {
        cast!(@op "$input ($roundingmode^)? (`fastmath` `` body($fastmath)^)? attr-dict `:` type($input) `to` type($output)" {
            /// How it rounds; to nearest even if it is not given.
            pub roundingmode: Option<RoundingMode>,
            /// What may be assumed.
            pub fastmath: Option<FastMath>,
        } [roundingmode: None, fastmath: None] $($rest)*);
    };
    (@op $asm:literal {$($field:tt)*} [$($init:tt)*] {$(#[$doc:meta])*} $name:ident $text:literal $from:ident $to:ident
        ($legal:expr)) => {
        $(#[$doc])*
        #[derive(Op)]
        #[op($text, Pure, Elementwise, fold, verify, lower_to_eval)]
        #[asm($asm)]
        pub struct $name {
            /// What is converted.
            #[is($from)]
            pub input: Value,
            /// Type it becomes.
            #[is($to)]
            pub output: Ret,
            $($field)*
        }
        impl $name {
            /// Without flags.
            pub fn new(input: Value, ty: Type) -> Self {
                Self { input, output: Ret(ty), $($init)* }
            }
        }
        impl Fold for $name {
            fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
                fold(self, op)
            }
        }
        impl Verify for $name {
            fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
                let legal: fn(Type, Type) -> Option<&'static str> = $legal;
                let (from, to) = (op.ir.ty(self.input), self.output.0);
                if from.with_elem(to.elem()) != to {
                    return Err(format!("changes the shape from {from} to {to}").into());
                }
                match legal(from.elem(), to.elem()) {
                    Some(rule) => Err(format!("converts {from} to {to}: {rule}").into()),
                    None => Ok(()),
                }
            }
        }
    };
}

fn bits(ty: Type) -> u32 {
    ty.bits().or(ty.float_width()).unwrap_or(0)
}
fn wider(from: Type, to: Type) -> Option<&'static str> {
    (from.is_index() || to.is_index() || bits(from) >= bits(to))
        .then_some("the result must be wider")
}
fn narrower(from: Type, to: Type) -> Option<&'static str> {
    (from.is_index() || to.is_index() || bits(from) <= bits(to))
        .then_some("the result must be narrower")
}
fn index_side(from: Type, to: Type) -> Option<&'static str> {
    (from.is_index() == to.is_index()).then_some("exactly one side must be index")
}
fn any(_: Type, _: Type) -> Option<&'static str> {
    None
}
fn same_bits(from: Type, to: Type) -> Option<&'static str> {
    (bits(from) != bits(to)).then_some("both must have the same number of bits")
}
cast! {
    /// Between an integer and index, sign-extended or cut.
    IndexCast "arith.index_cast" {} INT_LIKE INT_LIKE index_side;
    /// Between an integer and index, zero-extended or cut.
    IndexCastUI "arith.index_castui" {} INT_LIKE INT_LIKE index_side;
    /// To a wider integer, sign-extended.
    ExtSI "arith.extsi" {} INT_LIKE INT_LIKE wider;
    /// To a wider integer, zero-extended.
    ExtUI "arith.extui" {} INT_LIKE INT_LIKE wider;
    /// To a narrower integer, cut.
    TruncI "arith.trunci" {overflow} INT_LIKE INT_LIKE narrower;
    /// To a wider float, exact.
    ExtF "arith.extf" {fastmath} FLOAT_LIKE FLOAT_LIKE wider;
    /// To a narrower float, rounded.
    TruncF "arith.truncf" {rounding} FLOAT_LIKE FLOAT_LIKE narrower;
    /// From a signed integer to a float, rounded to nearest even.
    SIToFP "arith.sitofp" {} INT_LIKE FLOAT_LIKE any;
    /// From an unsigned integer to a float, rounded to nearest even.
    UIToFP "arith.uitofp" {} INT_LIKE FLOAT_LIKE any;
    /// From a float to a signed integer, rounded to zero. What is out of range, poison in MLIR,
    /// becomes the nearest integer there is; NaN becomes 0.
    FPToSI "arith.fptosi" {} FLOAT_LIKE INT_LIKE any;
    /// From a float to an unsigned integer, rounded to zero. What is out of range, poison in MLIR,
    /// becomes the nearest integer there is, 0 if it is negative; NaN becomes 0.
    FPToUI "arith.fptoui" {} FLOAT_LIKE INT_LIKE any;
    /// The same bits as another type of that many bits.
    Bitcast "arith.bitcast" {} NUMBER_LIKE NUMBER_LIKE same_bits;
}
