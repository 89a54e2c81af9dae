//! Integer and index arithmetic, comparison, selection.

use tir::constraints::{BOOL_LIKE, INT_LIKE};
use tir::interp::{fold_scalar, splat_int};
use tir::text::{Arg, Parts};
use tir::{
    AsmParser, AsmPrinter, Directive, Directives, Failure, Flag, Fold, Folded, Folds, Infer, Op,
    OpRef, OpState, Type, Value, Verify,
};

use crate::attrs::{CmpIPredicate, Overflow};
use crate::fold::{fold, is_int, number, same, truth};

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident $text:literal [$($traits:ident),*] {$($flags:ident)?}
        $identity:expr;)*) => {$(
        binary!(@flags $($flags)?; {$(#[$doc])*} $name $text [$($traits),*] ($identity));
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
        [$($traits:ident),*] ($identity:expr)) => {
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
                fold(self, op).or_else(|| identity(op, self.lhs, self.rhs))
            }
        }
    };
}

/// `x op n = x` for the right operand `n`.
fn right(op: OpRef<'_>, x: Value, y: Value, n: i128) -> Option<Folds> {
    is_int(op, y, n).then(|| x.into())
}
/// `x op n = n` for the right operand `n`.
fn absorbed(op: OpRef<'_>, y: Value, n: i128) -> Option<Folds> {
    is_int(op, y, n).then(|| y.into())
}
/// `x op 1 = 0` of a remainder.
fn no_rest(op: OpRef<'_>, x: Value, y: Value) -> Option<Folds> {
    is_int(op, y, 1).then(|| number(op, x, 0))?
}
/// `x op 1 = x` of a signed division; the one of one bit is -1.
fn by_one(op: OpRef<'_>, x: Value, y: Value) -> Option<Folds> {
    (op.ir.ty(x).elem().bits() != Some(1)).then(|| right(op, x, y, 1))?
}
/// `x op x = 0`.
fn zero_of_same(op: OpRef<'_>, x: Value, y: Value) -> Option<Folds> {
    if x == y { number(op, x, 0) } else { None }
}

binary! {
    /// Sum, wrapping.
    AddI "arith.addi" [Commutative] {overflow} |op, x, y| right(op, x, y, 0);
    /// Difference, wrapping.
    SubI "arith.subi" [] {overflow}
        |op, x, y| right(op, x, y, 0).or_else(|| zero_of_same(op, x, y));
    /// Product, wrapping.
    MulI "arith.muli" [Commutative] {overflow}
        |op, x, y| right(op, x, y, 1).or_else(|| absorbed(op, y, 0));
    /// Signed quotient, rounded to zero; by zero, or if it does not fit, an error at run time.
    DivSI "arith.divsi" [MayStop] {exact} |op, x, y| by_one(op, x, y);
    /// Unsigned quotient; by zero an error at run time.
    DivUI "arith.divui" [MayStop] {exact} |op, x, y| right(op, x, y, 1);
    /// Signed quotient, rounded up; by zero, or if it does not fit, an error at run time.
    CeilDivSI "arith.ceildivsi" [MayStop] {} |op, x, y| by_one(op, x, y);
    /// Unsigned quotient, rounded up; by zero an error at run time.
    CeilDivUI "arith.ceildivui" [MayStop] {} |op, x, y| right(op, x, y, 1);
    /// Signed quotient, rounded down; by zero, or if it does not fit, an error at run time.
    FloorDivSI "arith.floordivsi" [MayStop] {} |op, x, y| by_one(op, x, y);
    /// Signed remainder, of the sign of the dividend; by zero an error at run time.
    RemSI "arith.remsi" [MayStop] {} |op, x, y| no_rest(op, x, y);
    /// Unsigned remainder; by zero an error at run time.
    RemUI "arith.remui" [MayStop] {} |op, x, y| no_rest(op, x, y);
    /// Bitwise and.
    AndI "arith.andi" [Commutative, Idempotent] {}
        |op, x, y| right(op, x, y, -1).or_else(|| same(x, y)).or_else(|| absorbed(op, y, 0));
    /// Bitwise or.
    OrI "arith.ori" [Commutative, Idempotent] {}
        |op, x, y| right(op, x, y, 0).or_else(|| same(x, y)).or_else(|| absorbed(op, y, -1));
    /// Bitwise exclusive or.
    XOrI "arith.xori" [Commutative] {}
        |op, x, y| right(op, x, y, 0).or_else(|| zero_of_same(op, x, y));
    /// Shift left; by the width or more is poison in MLIR, here an error at run time.
    ShLI "arith.shli" [MayStop] {overflow} |op, x, y| right(op, x, y, 0);
    /// Arithmetic shift right; by the width or more an error at run time.
    ShRSI "arith.shrsi" [MayStop] {exact} |op, x, y| right(op, x, y, 0);
    /// Logical shift right; by the width or more an error at run time.
    ShRUI "arith.shrui" [MayStop] {exact} |op, x, y| right(op, x, y, 0);
    /// Signed maximum.
    MaxSI "arith.maxsi" [Commutative, Idempotent] {} |_, x, y| same(x, y);
    /// Unsigned maximum.
    MaxUI "arith.maxui" [Commutative, Idempotent] {} |_, x, y| same(x, y);
    /// Signed minimum.
    MinSI "arith.minsi" [Commutative, Idempotent] {} |_, x, y| same(x, y);
    /// Unsigned minimum.
    MinUI "arith.minui" [Commutative, Idempotent] {} |_, x, y| same(x, y);
}

/// The type of a truth value for each element of a type.
pub(crate) fn bool_like(ty: Type) -> Type {
    ty.with_elem(Type::int(1))
}

/// Sum of unsigned integers, wrapping, and whether it wrapped.
#[derive(Op)]
#[op(
    "arith.addui_extended",
    Pure,
    Commutative,
    Elementwise,
    results(sum, overflow),
    infer,
    fold,
    verify,
    lower_to_eval
)]
#[asm("$lhs `,` $rhs attr-dict `:` type($sum) `,` type($overflow)")]
pub struct AddUIExtended {
    /// Left operand.
    #[is(INT_LIKE)]
    pub lhs: Value,
    /// Right operand.
    #[is(INT_LIKE)]
    pub rhs: Value,
}
impl Infer for AddUIExtended {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let ty = op.ir.ty(self.lhs);
        Ok(vec![ty, bool_like(ty)])
    }
}
impl Verify for AddUIExtended {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        one_type(op, self.lhs, self.rhs)
    }
}
impl Fold for AddUIExtended {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        if is_int(op, self.rhs, 0) {
            let Folds(never) = truth(false, bool_like(op.ir.ty(self.lhs)))?;
            let sum = Folded::Value(self.lhs);
            return Some(Folds(std::iter::once(sum).chain(never).collect()));
        }
        let mut all = Folds(Default::default());
        for (result, how) in op.ir.results(op.id).zip(self.scalars(op.ir).ok()?) {
            let constants = [op.ir.constant(self.lhs)?, op.ir.constant(self.rhs)?];
            let value = fold_scalar(how, &constants, op.ir.ty(result))?;
            all.0.push(Folded::Attr(value));
        }
        Some(all)
    }
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
impl Fold for CmpI {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        if self.lhs == self.rhs {
            use CmpIPredicate as P;
            let holds = matches!(self.predicate, P::Eq | P::Sle | P::Sge | P::Ule | P::Uge);
            return truth(holds, bool_like(op.ir.ty(self.lhs)));
        }
        fold(self, op)
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
        match op.ir.constant(self.condition).and_then(splat_int) {
            Some((0, _)) => Some(self.false_value.into()),
            Some(_) => Some(self.true_value.into()),
            None => fold(self, op),
        }
    }
}
