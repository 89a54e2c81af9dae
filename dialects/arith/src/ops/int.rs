//! Integer and index arithmetic, comparison, selection.

use tir::constraints::{BOOL_LIKE, INT_LIKE};
use tir::text::{Arg, Parts};
use tir::{
    AsmParser, AsmPrinter, Attr, Directive, Directives, Failure, Flag, Fold, Folds, Infer, Op,
    OpRef, OpState, Type, Value, Verify, sign_extend,
};

use crate::attrs::{CmpIPredicate, Overflow};
use crate::fold::{Int, fold_int, is_int, same};

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident $text:literal [$($traits:ident),*] {$($flags:ident)?}
        $compute:expr, $identity:expr;)*) => {$(
        binary!(@flags $($flags)?; {$(#[$doc])*} $name $text [$($traits),*] ($compute) ($identity));
    )*};
    (@flags; $($rest:tt)*) => {
        binary!(@op "$lhs `,` $rhs attr-dict `:` type($result)" {} $($rest)*);
    };
    (@flags overflow; $($rest:tt)*) => {
        binary!(@op "$lhs `,` $rhs (`overflow` `` body($overflowFlags)^)? attr-dict `:` type($result)" {
            /// Overflow that cannot happen, as promised.
            #[name("overflowFlags")]
            pub overflow: Option<Overflow>,
        } $($rest)*);
    };
    (@flags exact; $($rest:tt)*) => {
        binary!(@op "$lhs `,` $rhs (`exact` $isExact^)? attr-dict `:` type($result)" {
            /// Whether it is promised that no digits are lost.
            #[name("isExact")]
            pub exact: Option<Flag>,
        } $($rest)*);
    };
    (@op $asm:literal {$($field:tt)*} {$(#[$doc:meta])*} $name:ident $text:literal
        [$($traits:ident),*] ($compute:expr) ($identity:expr)) => {
        $(#[$doc])*
        #[derive(Op)]
        #[op($text, Pure, SameType, Elementwise, $($traits,)* results(result), fold, lower_to_eval)]
        #[asm($asm)]
        pub struct $name {
            /// Left operand.
            #[is(INT_LIKE)]
            pub lhs: Value,
            /// Right operand.
            #[is(INT_LIKE)]
            pub rhs: Value,
            $($field)*
        }
        impl Fold for $name {
            fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
                let identity: fn(OpRef<'_>, Value, Value) -> Option<Folds> = $identity;
                fold_int(op, self.lhs, self.rhs, $compute).or_else(|| identity(op, self.lhs, self.rhs))
            }
        }
    };
}

/// `x op n = x` for the right operand `n`.
fn right(op: OpRef<'_>, x: Value, y: Value, n: i64) -> Option<Folds> {
    is_int(op, y, n).then(|| x.into())
}
/// The constant `n` of the type of `x`.
fn number(op: OpRef<'_>, x: Value, n: i64) -> Option<Folds> {
    let ty = op.ir.ty(x);
    (ty.is_int() || ty.is_index()).then(|| Attr::int(n, ty).into())
}

/// The signed quotient, rounded to zero; none by zero, or if it does not fit.
fn quotient(a: Int, b: Int) -> Option<i64> {
    let quotient = a.value.checked_div(b.value)?;
    let fits = sign_extend(quotient as u64, Type::int(a.width)) == quotient;
    fits.then_some(quotient)
}

binary! {
    /// Sum, wrapping.
    AddI "arith.addi" [Commutative] {overflow}
        |a, b| Some(a.value.wrapping_add(b.value)), |op, x, y| right(op, x, y, 0);
    /// Difference, wrapping.
    SubI "arith.subi" [] {overflow}
        |a, b| Some(a.value.wrapping_sub(b.value)),
        |op, x, y| right(op, x, y, 0).or_else(|| if x == y { number(op, x, 0) } else { None });
    /// Product, wrapping.
    MulI "arith.muli" [Commutative] {overflow}
        |a, b| Some(a.value.wrapping_mul(b.value)),
        |op, x, y| right(op, x, y, 1).or_else(|| if is_int(op, y, 0) { Some(y.into()) } else { None });
    /// Signed quotient, rounded to zero; by zero, or if it does not fit, an error at run time.
    DivSI "arith.divsi" [MayStop] {exact} quotient, |op, x, y| right(op, x, y, 1);
    /// Unsigned quotient.
    DivUI "arith.divui" [MayStop] {exact}
        |a, b| Some(a.unsigned().checked_div(b.unsigned())? as i64), |op, x, y| right(op, x, y, 1);
    /// Signed quotient, rounded up.
    CeilDivSI "arith.ceildivsi" [MayStop] {}
        |a, b| { let q = quotient(a, b)?; let exact = q.wrapping_mul(b.value) == a.value;
                 Some(if !exact && (a.value < 0) == (b.value < 0) { q + 1 } else { q }) },
        |op, x, y| right(op, x, y, 1);
    /// Signed quotient, rounded down.
    FloorDivSI "arith.floordivsi" [MayStop] {}
        |a, b| { let q = quotient(a, b)?; let exact = q.wrapping_mul(b.value) == a.value;
                 Some(if !exact && (a.value < 0) != (b.value < 0) { q - 1 } else { q }) },
        |op, x, y| right(op, x, y, 1);
    /// Signed remainder, of the sign of the dividend.
    RemSI "arith.remsi" [MayStop] {} |a, b| a.value.checked_rem(b.value),
        |op, x, y| if is_int(op, y, 1) { number(op, x, 0) } else { None };
    /// Unsigned remainder.
    RemUI "arith.remui" [MayStop] {}
        |a, b| Some(a.unsigned().checked_rem(b.unsigned())? as i64),
        |op, x, y| if is_int(op, y, 1) { number(op, x, 0) } else { None };
    /// Bitwise and.
    AndI "arith.andi" [Commutative, Idempotent] {} |a, b| Some(a.value & b.value),
        |op, x, y| right(op, x, y, -1).or_else(|| same(x, y))
            .or_else(|| if is_int(op, y, 0) { Some(y.into()) } else { None });
    /// Bitwise or.
    OrI "arith.ori" [Commutative, Idempotent] {} |a, b| Some(a.value | b.value),
        |op, x, y| right(op, x, y, 0).or_else(|| same(x, y));
    /// Bitwise exclusive or.
    XOrI "arith.xori" [Commutative] {} |a, b| Some(a.value ^ b.value),
        |op, x, y| right(op, x, y, 0).or_else(|| if x == y { number(op, x, 0) } else { None });
    /// Shift left; by the width or more is poison, here an error at run time.
    ShLI "arith.shli" [MayStop] {overflow}
        |a, b| if b.unsigned() < u64::from(a.width) { Some(a.value << b.value) } else { None },
        |op, x, y| right(op, x, y, 0);
    /// Arithmetic shift right.
    ShRSI "arith.shrsi" [MayStop] {exact}
        |a, b| if b.unsigned() < u64::from(a.width) { Some(a.value >> b.value) } else { None },
        |op, x, y| right(op, x, y, 0);
    /// Logical shift right.
    ShRUI "arith.shrui" [MayStop] {exact}
        |a, b| if b.unsigned() < u64::from(a.width) { Some((a.unsigned() >> b.value) as i64) } else { None },
        |op, x, y| right(op, x, y, 0);
    /// Signed maximum.
    MaxSI "arith.maxsi" [Commutative, Idempotent] {} |a, b| Some(a.value.max(b.value)), |_, x, y| same(x, y);
    /// Unsigned maximum.
    MaxUI "arith.maxui" [Commutative, Idempotent] {}
        |a, b| Some(if a.unsigned() >= b.unsigned() { a.value } else { b.value }), |_, x, y| same(x, y);
    /// Signed minimum.
    MinSI "arith.minsi" [Commutative, Idempotent] {} |a, b| Some(a.value.min(b.value)), |_, x, y| same(x, y);
    /// Unsigned minimum.
    MinUI "arith.minui" [Commutative, Idempotent] {}
        |a, b| Some(if a.unsigned() <= b.unsigned() { a.value } else { b.value }), |_, x, y| same(x, y);
}

/// The type of a truth value for each element of a type.
pub(crate) fn bool_like(ty: Type) -> Type {
    ty.with_elem(Type::int(1))
}

/// Comparison of integers.
#[derive(Op)]
#[op(
    "arith.cmpi",
    Pure,
    Elementwise,
    results(result),
    infer,
    fold,
    verify,
    lower_to_eval
)]
#[asm("$predicate `,` $lhs `,` $rhs attr-dict `:` type($lhs)")]
pub struct CmpI {
    /// How to compare.
    pub predicate: CmpIPredicate,
    /// Left operand.
    #[is(INT_LIKE)]
    pub lhs: Value,
    /// Right operand.
    #[is(INT_LIKE)]
    pub rhs: Value,
}
impl Infer for CmpI {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        Ok(vec![bool_like(op.ir.ty(self.lhs))])
    }
}
impl Verify for CmpI {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        one_type(op, self.lhs, self.rhs)
    }
}
/// Both operands have one type.
pub(crate) fn one_type(op: OpRef<'_>, x: Value, y: Value) -> Result<(), Failure> {
    let (x, y) = (op.ir.ty(x), op.ir.ty(y));
    if x == y {
        Ok(())
    } else {
        Err(format!("expects operands of one type, found {x} and {y}").into())
    }
}
impl CmpIPredicate {
    /// Whether it holds between two integers of one type.
    pub fn holds(self, a: Int, b: Int) -> bool {
        let (s, u) = (a.value.cmp(&b.value), a.unsigned().cmp(&b.unsigned()));
        match self {
            Self::Eq => s.is_eq(),
            Self::Ne => s.is_ne(),
            Self::Slt => s.is_lt(),
            Self::Sle => s.is_le(),
            Self::Sgt => s.is_gt(),
            Self::Sge => s.is_ge(),
            Self::Ult => u.is_lt(),
            Self::Ule => u.is_le(),
            Self::Ugt => u.is_gt(),
            Self::Uge => u.is_ge(),
        }
    }
}
impl Fold for CmpI {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        let truth = if self.lhs == self.rhs && op.ir.ty(self.lhs).shape().is_none() {
            use CmpIPredicate as P;
            matches!(self.predicate, P::Eq | P::Sle | P::Sge | P::Ule | P::Uge)
        } else {
            let (a, b) = (Int::of(op, self.lhs)?, Int::of(op, self.rhs)?);
            self.predicate.holds(a, b)
        };
        Some(Attr::bool(truth).into())
    }
}

/// One of two values: the first where the condition is true.
#[derive(Op)]
#[op(
    "arith.select",
    Pure,
    Elementwise,
    results(result),
    infer,
    fold,
    verify,
    lower_to_eval,
    directives
)]
#[asm(
    "$condition `,` $true_value `,` $false_value attr-dict `:` custom<condition-type>($condition, type($true_value), type($false_value))"
)]
pub struct Select {
    /// Which one.
    #[is(BOOL_LIKE)]
    pub condition: Value,
    /// Taken where it is true.
    pub true_value: Value,
    /// Taken where it is false.
    pub false_value: Value,
}
/// `t`, or `vector<4xi1>, t` where the condition is no single truth value.
struct ConditionType;
impl Directive for ConditionType {
    fn parse<'a>(
        &self,
        p: &mut AsmParser<'a>,
        args: &[Arg],
        parts: &mut Parts<'a>,
        _: &mut OpState,
    ) -> Result<(), Failure> {
        let [condition, values @ ..] = args else {
            return Err(p.error("`custom<condition-type>` takes the condition and the values"));
        };
        let mut ty = p.ty()?;
        if p.eat(",") {
            parts.set_types(*condition, vec![ty]);
            ty = p.ty()?;
        }
        for value in values {
            parts.set_types(*value, vec![ty]);
        }
        Ok(())
    }
    fn print(&self, p: &mut AsmPrinter<'_>, _: &[Arg]) {
        let op = p.op();
        let types: Vec<Type> = op.ir.operands(op.id).take(2).map(|v| op.ir.ty(v)).collect();
        match types[..] {
            [condition, ty] if condition == Type::int(1) => p.ty(ty),
            _ => p.types(&types),
        }
    }
}
impl Directives for Select {
    fn directive(name: &str) -> Option<&'static dyn Directive> {
        (name == "condition-type").then_some(&ConditionType)
    }
}
impl Infer for Select {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        Ok(vec![op.ir.ty(self.true_value)])
    }
}
impl Verify for Select {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        one_type(op, self.true_value, self.false_value)?;
        let (condition, value) = (op.ir.ty(self.condition), op.ir.ty(self.true_value));
        if condition == Type::int(1) || condition == bool_like(value) {
            return Ok(());
        }
        let text = format!("has a condition of type {condition} for values of type {value}");
        Err(text.into())
    }
}
impl Fold for Select {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        if self.true_value == self.false_value {
            return Some(self.true_value.into());
        }
        let chosen = match op.ir.constant_int(self.condition)? {
            0 => self.false_value,
            _ => self.true_value,
        };
        Some(chosen.into())
    }
}
