//! What running an op takes, whatever the machine: an interface for cost models.
//!
//! An op that says nothing gets [`Work::by_types`]: it reads its operands, writes its results and
//! does one scalar operation for each element of a result. An op that knows better implements
//! [`Cost`] and names the hook: `#[op("my.op", …, cost)]`. A cost model (the one of the pass
//! `egraph`, say) turns work into cycles of a machine.

use tir_core::{Hook, Op, OpRef, Traits, Type};
use tir_rewrite::interfaces::Typed;

/// Products of matrices: `times` products of m x k with k x n elements, accumulated.
///
/// A unit that multiplies tiles of fixed size is used at the share of the tile that m, n and k
/// fill, so the three say how the work is laid out, not only how many multiply-adds there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Product {
    /// How many there are.
    pub times: u64,
    /// Rows of the left matrix and of the result.
    pub m: u64,
    /// Columns of the right matrix and of the result.
    pub n: u64,
    /// Columns of the left matrix, rows of the right one: what is summed over.
    pub k: u64,
}

impl Product {
    /// The number of multiply-adds.
    pub fn macs(&self) -> u64 {
        let Self { times, m, n, k } = *self;
        times.saturating_mul(m).saturating_mul(n).saturating_mul(k)
    }
}

/// What running an op takes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Products of matrices.
    pub products: Vec<Product>,
    /// Scalar operations besides: additions, maxima, divisions, each counted once.
    pub scalars: u64,
    /// Bytes read of each operand. 0 for one that is not touched (a view looks at none).
    pub reads: Vec<u64>,
    /// Bytes written of each result.
    pub writes: Vec<u64>,
}

impl Work {
    /// No work at all: a constant, or a view of what is there.
    pub fn none(op: OpRef<'_>) -> Self {
        Self {
            reads: vec![0; op.ir.operands(op.id).len()],
            writes: vec![0; op.ir.results(op.id).len()],
            ..Self::default()
        }
    }

    /// What follows from the types of operands and results: all operands are read, all results written,
    /// and each element of a result takes a scalar operation. A constant takes nothing.
    pub fn by_types(op: OpRef<'_>) -> Self {
        let (ir, id) = (op.ir, op.id);
        if ir.has(id, Traits::ConstantLike) {
            return Self::none(op);
        }
        let all = |ty: Type| ty.elements().unwrap_or(1) as u64;
        Self {
            products: Vec::new(),
            scalars: ir.results(id).map(|v| all(ir.ty(v))).sum(),
            reads: ir.operands(id).map(|v| bytes(ir.ty(v))).collect(),
            writes: ir.results(id).map(|v| bytes(ir.ty(v))).collect(),
        }
    }

    /// What follows from the types, but no scalar operations: for data that only moves.
    pub fn moved(op: OpRef<'_>) -> Self {
        Self {
            scalars: 0,
            ..Self::by_types(op)
        }
    }

    /// As [`moved`](Self::moved) where of the first operand only what is kept is read.
    pub fn kept(op: OpRef<'_>) -> Self {
        let mut work = Self::moved(op);
        let kept = work.writes.iter().sum();
        if let Some(first) = work.reads.first_mut() {
            *first = kept;
        }
        work
    }

    /// The work of an op: what it says, or what follows from its types.
    pub fn of(op: OpRef<'_>) -> Self {
        match op.info().and_then(|info| info.interface::<dyn CostOf>()) {
            Some(cost) => cost.work(op),
            None => Self::by_types(op),
        }
    }
}

/// The bytes of all elements of a value of a type in memory; 0 for a scalar, which is in a
/// register, and for a shape that is not known.
pub fn bytes(ty: Type) -> u64 {
    let all = || Some(ty.elements()? as u64 * ty.bytes()? as u64);
    match ty.shape() {
        Some(_) => all().unwrap_or(0),
        None => 0,
    }
}

/// An op that says what running it takes.
pub trait Cost: Op {
    /// The work, by the types and attributes of the op.
    fn work(&self, op: OpRef<'_>) -> Work;
}

/// [`Cost`] as an interface.
pub trait CostOf: Send + Sync {
    /// The work of `op`.
    fn work(&self, op: OpRef<'_>) -> Work;
}
impl<T: Cost> CostOf for Typed<T> {
    fn work(&self, op: OpRef<'_>) -> Work {
        match T::read(op.ir, op.id) {
            Some(record) => record.work(op),
            None => Work::by_types(op),
        }
    }
}

/// `cost`: the hook that hands over [`Cost`].
pub fn cost<T: Cost>() -> Hook {
    Hook::interface::<dyn CostOf>(Typed::<T>::NEW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_has_the_bytes_of_all_its_elements() {
        assert_eq!(bytes(Type::tensor([2, 3], Type::f32())), 24);
        assert_eq!(bytes(Type::tensor([], Type::int(64))), 8);
        assert_eq!(bytes(Type::f32()), 0);
        assert_eq!(bytes(Type::tensor([tir_core::DYNAMIC], Type::f32())), 0);
    }
}
