//! The ops of vector.

use tir::constraints::{INDEX, MEMREF, SCALAR};
use tir::{
    Access, Constraint, Effect, Effects, Failure, HasEffects, MemRefType, Op, OpRef, Ret, Type,
    Value, VectorType, Verify, smallvec,
};

/// Expects a vector of one dimension.
pub(crate) static VECTOR: Constraint =
    Constraint::new("a vector of one dimension", |ty| length(ty).is_some());

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
