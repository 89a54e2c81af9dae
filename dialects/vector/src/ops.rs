//! The ops of vector.

use tir::constraints::{INDEX, MEMREF, SCALAR};
use tir::{
    Access, Constraint, Effect, Effects, Failure, HasEffects, MemRefType, Op, OpRef, Ret, Type,
    Value, VectorType, Verify, smallvec,
};

/// Expects a vector of one dimension.
pub(crate) static VECTOR: Constraint =
    Constraint::new("a vector of one dimension", |ty| length(ty).is_some());

/// Expects a vector of one dimension of `i1`.
pub(crate) static MASK: Constraint = Constraint::new("a vector of one dimension of i1", |ty| {
    length(ty).is_some() && ty.elem() == Type::int(1)
});

/// The number of elements of a vector of one dimension.
fn length(ty: Type) -> Option<i64> {
    let vector: &VectorType = ty.get()?;
    match (&vector.shape[..], &vector.scalable[..]) {
        ([n], [false]) if *n > 0 => Some(*n),
        _ => None,
    }
}

/// The type of vectors of so many elements.
pub fn of(length: i64, elem: Type) -> Type {
    Type::new(VectorType {
        shape: vec![length],
        scalable: vec![false],
        elem,
    })
}

/// Reads neighbouring elements along the last dimension of a buffer, which lie beside each other.
///
/// All of them must be inside of the buffer.
#[derive(Op)]
#[op("vector.load", effects, verify, lower_to_eval)]
#[asm("$base `` `[` ($indices^)? `]` attr-dict `:` type($base) `,` type($result)")]
pub struct Load {
    /// The buffer.
    #[is(MEMREF)]
    pub base: Value,
    /// The position of the first element.
    #[is(INDEX)]
    pub indices: Vec<Value>,
    /// The elements.
    #[is(VECTOR)]
    pub result: Ret,
}
impl HasEffects for Load {
    fn effects(&self, _: OpRef<'_>) -> Effects {
        smallvec![Effect {
            access: Access::Read,
            on: Some(self.base),
        }]
    }
}
impl Verify for Load {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        check(op, self.base, &self.indices, self.result.0)
    }
}

/// Writes neighbouring elements along the last dimension of a buffer, which lie beside each other.
///
/// All of them must be inside of the buffer.
#[derive(Op)]
#[op("vector.store", effects, verify, lower_to_eval)]
#[asm("$value `,` $base `` `[` ($indices^)? `]` attr-dict `:` type($base) `,` type($value)")]
pub struct Store {
    /// The elements.
    #[is(VECTOR)]
    pub value: Value,
    /// The buffer.
    #[is(MEMREF)]
    pub base: Value,
    /// The position of the first element.
    #[is(INDEX)]
    pub indices: Vec<Value>,
}
impl HasEffects for Store {
    fn effects(&self, _: OpRef<'_>) -> Effects {
        smallvec![Effect {
            access: Access::Write,
            on: Some(self.base),
        }]
    }
}
impl Verify for Store {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        check(op, self.base, &self.indices, op.ir.ty(self.value))
    }
}

/// Reads those of neighbouring elements that a mask holds; the others are neither read nor need to be inside of the buffer.
///
/// Where the mask is false the result is that of another vector.
#[derive(Op)]
#[op("vector.maskedload", effects, verify, lower_to_eval)]
#[asm(
    "$base `` `[` ($indices^)? `]` `,` $mask `,` $pass_thru attr-dict `:` type($base) `,` type($mask) `,` type($pass_thru) `into` type($result)"
)]
pub struct MaskedLoad {
    /// The buffer.
    #[is(MEMREF)]
    pub base: Value,
    /// The position of the first element, inside or not.
    #[is(INDEX)]
    pub indices: Vec<Value>,
    /// Which elements are read.
    #[is(MASK)]
    pub mask: Value,
    /// The elements that are not read.
    #[is(VECTOR)]
    pub pass_thru: Value,
    /// The elements.
    #[is(VECTOR)]
    pub result: Ret,
}
impl HasEffects for MaskedLoad {
    fn effects(&self, _: OpRef<'_>) -> Effects {
        smallvec![Effect {
            access: Access::Read,
            on: Some(self.base),
        }]
    }
}
impl Verify for MaskedLoad {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let [others, result] = [op.ir.ty(self.pass_thru), self.result.0];
        if others != result {
            return Err(format!("makes a {result} of a {others}").into());
        }
        check(op, self.base, &self.indices, result)?;
        masks(op, self.mask, result)
    }
}

/// Writes those of neighbouring elements that a mask holds; the places of others need not be inside of the buffer.
#[derive(Op)]
#[op("vector.maskedstore", effects, verify, lower_to_eval)]
#[asm(
    "$base `` `[` ($indices^)? `]` `,` $mask `,` $value attr-dict `:` type($base) `,` type($mask) `,` type($value)"
)]
pub struct MaskedStore {
    /// The buffer.
    #[is(MEMREF)]
    pub base: Value,
    /// The position of the first element, inside or not.
    #[is(INDEX)]
    pub indices: Vec<Value>,
    /// Which elements are written.
    #[is(MASK)]
    pub mask: Value,
    /// The elements.
    #[is(VECTOR)]
    pub value: Value,
}
impl HasEffects for MaskedStore {
    fn effects(&self, _: OpRef<'_>) -> Effects {
        smallvec![Effect {
            access: Access::Write,
            on: Some(self.base),
        }]
    }
}
impl Verify for MaskedStore {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let ty = op.ir.ty(self.value);
        check(op, self.base, &self.indices, ty)?;
        masks(op, self.mask, ty)
    }
}

/// Whether a mask has an element for each of a vector.
fn masks(op: OpRef<'_>, mask: Value, vector: Type) -> Result<(), Failure> {
    let ty = op.ir.ty(mask);
    match length(ty) == length(vector) {
        true => Ok(()),
        false => Err(format!("masks a {vector} by a {ty}").into()),
    }
}

fn check(op: OpRef<'_>, base: Value, indices: &[Value], vector: Type) -> Result<(), Failure> {
    let ty = op.ir.ty(base);
    let memref: &MemRefType = ty.get().ok_or("has no buffer")?;
    if memref.shape.len() != indices.len() || indices.is_empty() {
        let found = indices.len();
        return Err(
            format!("has {found} indices for a {ty}, expected one for each dimension").into(),
        );
    }
    if memref.elem != vector.elem() {
        return Err(format!("moves a {vector} of a {ty}").into());
    }
    let strides = memref.strides().map(|(strides, _)| strides);
    if strides.and_then(|s| s.last().copied()) != Some(1) {
        return Err(format!("moves neighbours of a {ty}, expected rows of stride 1").into());
    }
    Ok(())
}

/// A vector whose elements are all one scalar.
#[derive(Op)]
#[op("vector.broadcast", Pure, verify, lower_to_eval)]
#[asm("$source attr-dict `:` type($source) `to` type($result)")]
pub struct Broadcast {
    /// The scalar.
    #[is(SCALAR)]
    pub source: Value,
    /// The elements.
    #[is(VECTOR)]
    pub result: Ret,
}
impl Verify for Broadcast {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (from, to) = (op.ir.ty(self.source), self.result.0);
        match to.elem() == from {
            true => Ok(()),
            false => Err(format!("makes a {to} of a {from}").into()),
        }
    }
}

/// A mask whose first elements are true, as many as a number says: none if it is below one, all if it is above their number.
#[derive(Op)]
#[op("vector.create_mask", Pure, lower_to_eval)]
#[asm("$size attr-dict `:` type($result)")]
pub struct CreateMask {
    /// How many.
    #[is(INDEX)]
    pub size: Value,
    /// The mask.
    #[is(MASK)]
    pub result: Ret,
}

/// Elements of two vectors in an order that is known: element `i` of the result is element `mask[i]` of both, one behind the
/// other.
#[derive(Op)]
#[op("vector.shuffle", Pure, verify, lower_to_eval)]
#[asm("$lhs `,` $rhs attr-dict `:` functional-type(operands, results)")]
pub struct Shuffle {
    /// The elements from 0 on.
    #[is(VECTOR)]
    pub lhs: Value,
    /// Those behind them.
    #[is(VECTOR)]
    pub rhs: Value,
    /// The number of each element.
    pub mask: Vec<i64>,
    /// As many elements as the mask has.
    #[is(VECTOR)]
    pub result: Ret,
}
impl Verify for Shuffle {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let [lhs, rhs] = [self.lhs, self.rhs].map(|value| op.ir.ty(value));
        let result = self.result.0;
        let count = self.mask.len();
        if lhs != rhs || result.elem() != lhs.elem() || length(result) != Some(count as i64) {
            return Err(
                format!("makes a {result} of {count} elements of a {lhs} and a {rhs}").into(),
            );
        }
        let all = 2 * length(lhs).unwrap_or(0);
        match self.mask.iter().find(|k| !(0..all).contains(*k)) {
            Some(k) => Err(format!("takes element {k} of two of a {lhs}").into()),
            None => Ok(()),
        }
    }
}

/// The elements of two vectors in turn: the first of each, the second of each, and so on.
#[derive(Op)]
#[op("vector.interleave", Pure, verify, lower_to_eval)]
#[asm("$lhs `,` $rhs attr-dict `:` functional-type(operands, results)")]
pub struct Interleave {
    /// Elements at even places.
    #[is(VECTOR)]
    pub lhs: Value,
    /// Elements at odd places.
    #[is(VECTOR)]
    pub rhs: Value,
    /// All of them.
    #[is(VECTOR)]
    pub result: Ret,
}
impl Verify for Interleave {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (half, whole) = (op.ir.ty(self.lhs), self.result.0);
        match op.ir.ty(self.rhs) == half
            && whole.elem() == half.elem()
            && length(whole) == length(half).map(|n| 2 * n)
        {
            true => Ok(()),
            false => {
                let other = op.ir.ty(self.rhs);
                Err(format!("makes a {whole} of a {half} and a {other}").into())
            }
        }
    }
}

/// Sums of products of integers: to each sum is added the product of one group of numbers with its own group of as many.
///
/// With `n` numbers in `few`, `sums[i] + Σ few[q] · many[n · i + q]` for `q` below `n`. Numbers are widened as their types
/// say, those of `ui8` with zeros; products and sums wrap.
#[derive(Op)]
#[op("vector.dot", Pure, verify, lower_to_eval)]
#[asm("$few `,` $many `,` $sums attr-dict `:` functional-type(operands, results)")]
pub struct Dot {
    /// The numbers that all groups are multiplied with.
    #[is(VECTOR)]
    pub few: Value,
    /// Groups, one behind the other.
    #[is(VECTOR)]
    pub many: Value,
    /// What is added to.
    #[is(VECTOR)]
    pub sums: Value,
    /// The sums.
    #[is(VECTOR)]
    pub result: Ret,
}
impl Dot {
    /// Numbers of a group as processors take them: integers of 8 bits, as many as an `i32` has bytes.
    pub const GROUP: i64 = 4;
}
impl Verify for Dot {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let [few, many, sums] = [self.few, self.many, self.sums].map(|value| op.ir.ty(value));
        let numbers = [few, many].map(|ty| ty.elem().is_int() && ty.elem().bits() == Some(8));
        if numbers.contains(&false) || sums.elem() != Type::int(32) || self.result.0 != sums {
            return Err(format!(
                "adds products of {few} and {many} to {sums}, expected integers of 8 bits and i32"
            )
            .into());
        }
        let product = length(few).zip(length(sums)).map(|(n, m)| n * m);
        match product == length(many) {
            true => Ok(()),
            false => Err(
                format!("has a {many}, expected a group of a {few} for each of a {sums}").into(),
            ),
        }
    }
}
