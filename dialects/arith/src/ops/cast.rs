//! Conversions between scalar types.

use tir::constraints::{FLOAT_LIKE, INT_LIKE, NUMBER_LIKE};
use tir::{
    Attr, AttrValue, Failure, FloatType, Fold, Folds, Op, OpRef, Ret, Type, Value, Verify,
    float_bits, float_value, sign_extend,
};

use crate::attrs::{FastMath, Overflow, RoundingMode};
use crate::fold::{Int, float};

macro_rules! cast {
    ($($(#[$doc:meta])* $name:ident $text:literal {$($flags:ident)?} $from:ident $to:ident $legal:expr, $compute:expr;)*) => {$(
        cast!(@flags $($flags)?; {$(#[$doc])*} $name $text $from $to ($legal) ($compute));
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
        ($legal:expr) ($compute:expr)) => {
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
                let compute: fn(OpRef<'_>, Value, Type) -> Option<Attr> = $compute;
                compute(op, self.input, self.output.0).map(Folds::from)
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

/// Whether a conversion rounds as folds and runs do: to nearest, ties to even.
pub(crate) fn rounds_to_even(op: OpRef<'_>) -> bool {
    let mode = op.attr("roundingmode").map(RoundingMode::from_attr);
    mode.is_none_or(|mode| mode == Some(RoundingMode::ToNearestEven))
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
fn int(value: i64, ty: Type) -> Option<Attr> {
    (ty.is_int() || ty.is_index()).then(|| Attr::int(sign_extend(value as u64, ty), ty))
}
fn signed(op: OpRef<'_>, x: Value, ty: Type) -> Option<Attr> {
    int(Int::of(op, x)?.value, ty)
}
fn unsigned(op: OpRef<'_>, x: Value, ty: Type) -> Option<Attr> {
    int(Int::of(op, x)?.unsigned() as i64, ty)
}
fn to_float(value: f64, ty: Type) -> Option<Attr> {
    let format = *ty.get::<FloatType>()?;
    Some(Attr::float(
        float_value(float_bits(value, format), format),
        ty,
    ))
}

cast! {
    /// Between an integer and index, sign-extended or cut.
    IndexCast "arith.index_cast" {} INT_LIKE INT_LIKE index_side, signed;
    /// Between an integer and index, zero-extended or cut.
    IndexCastUI "arith.index_castui" {} INT_LIKE INT_LIKE index_side, unsigned;
    /// To a wider integer, sign-extended.
    ExtSI "arith.extsi" {} INT_LIKE INT_LIKE wider, signed;
    /// To a wider integer, zero-extended.
    ExtUI "arith.extui" {} INT_LIKE INT_LIKE wider, unsigned;
    /// To a narrower integer, cut.
    TruncI "arith.trunci" {overflow} INT_LIKE INT_LIKE narrower, signed;
    /// To a wider float, exact.
    ExtF "arith.extf" {fastmath} FLOAT_LIKE FLOAT_LIKE wider, |op, x, ty| to_float(float(op, x)?, ty);
    /// To a narrower float, rounded.
    TruncF "arith.truncf" {rounding} FLOAT_LIKE FLOAT_LIKE narrower,
        |op, x, ty| if rounds_to_even(op) { to_float(float(op, x)?, ty) } else { None };
    /// From a signed integer to a float.
    SIToFP "arith.sitofp" {} INT_LIKE FLOAT_LIKE any, |op, x, ty| to_float(Int::of(op, x)?.value as f64, ty);
    /// From an unsigned integer to a float.
    UIToFP "arith.uitofp" {} INT_LIKE FLOAT_LIKE any, |op, x, ty| to_float(Int::of(op, x)?.unsigned() as f64, ty);
    /// From a float to a signed integer, rounded to zero.
    FPToSI "arith.fptosi" {} FLOAT_LIKE INT_LIKE any, |op, x, ty| {
        let value = float(op, x)?;
        let limit = 2f64.powi(bits(ty) as i32 - 1);
        (value > -limit - 1.0 && value < limit).then(|| int(value as i64, ty)).flatten()
    };
    /// From a float to an unsigned integer, rounded to zero.
    FPToUI "arith.fptoui" {} FLOAT_LIKE INT_LIKE any, |op, x, ty| {
        let value = float(op, x)?;
        (value > -1.0 && value < 2f64.powi(bits(ty) as i32)).then(|| int(value as u64 as i64, ty)).flatten()
    };
    /// The same bits as another type of that many bits.
    Bitcast "arith.bitcast" {} NUMBER_LIKE NUMBER_LIKE same_bits, |op, x, ty| {
        let from = op.ir.ty(x);
        let raw = match from.get::<FloatType>() {
            Some(&format) => float_bits(float(op, x)?, format),
            None => Int::of(op, x)?.unsigned(),
        };
        match ty.get::<FloatType>() {
            Some(&format) => Some(Attr::new(tir::FloatAttr { bits: float_value(raw, format).to_bits(), ty })),
            None => int(raw as i64, ty),
        }
    };
}
