//! How an op may be fused with its neighbours: TVM's four classes (Chen et al., "TVM: An
//! Automated End-to-End Optimizing Compiler for Deep Learning", OSDI 2018, section 3).

use std::marker::PhantomData;

use tir::{At, Hook, Ir, Op, OpId, OpInfo, OpRef, Rets, Traits, Type, Value};

use crate::{Fused, Yield};

/// A fusion class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum FusionKind {
    /// One output element depends on one element of each input: add, relu, transpose.
    Injective,
    /// Reduces: sum, pooling, softmax. Takes injective producers in.
    Reduction,
    /// Injective ops may be fused to its output: conv2d, matmul.
    ComplexOutFusable,
    /// Cannot be fused.
    Opaque,
}

/// An op that says its fusion class.
pub trait Fusable: Op {
    /// The class.
    const KIND: FusionKind;
    /// Whether it is lowered to several steps that are to run as one: it is a group even alone.
    const STEPS: bool = false;
    /// Whether it reads outside of its input, where padding is: what computes its input is then not
    /// computed in its loop nest, which knows no padding around values that nobody stores.
    fn pads(&self) -> bool {
        false
    }
}

/// [`Fusable`] as an interface.
pub trait FusionClass: Send + Sync {
    /// The class.
    fn kind(&self) -> FusionKind;
    /// Whether it is a group even alone.
    fn steps(&self) -> bool;
    /// Whether an op reads padding.
    fn pads(&self, op: OpRef<'_>) -> bool;
}
struct Class<T>(PhantomData<fn() -> T>);
impl<T: Fusable> FusionClass for Class<T> {
    fn kind(&self) -> FusionKind {
        T::KIND
    }
    fn steps(&self) -> bool {
        T::STEPS
    }
    fn pads(&self, op: OpRef<'_>) -> bool {
        op.ir.get::<T>(op.id).is_some_and(|op| op.pads())
    }
}

/// Hands over the class of an op.
pub fn fusion<T: Fusable>() -> Hook {
    let class: &'static dyn FusionClass = const { &Class::<T>(PhantomData) };
    Hook::interface(class)
}

/// What the rules of fusion look at of an op: nothing of who uses it, so that an e-graph, which
/// knows no users, can ask the same questions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FusionInfo {
    /// The class.
    pub kind: FusionKind,
    /// Whether elements of the result are at the place of those of the operands, up to
    /// broadcasting.
    pub elementwise: bool,
    /// Whether it is a group even alone.
    pub steps: bool,
    /// Whether it reads padding; not known, and not said, where there is no op.
    pub pads: bool,
    /// The result; absent if there is not exactly one.
    pub result: Option<Type>,
}

impl FusionInfo {
    /// An op by what is known of it and the types of its results. Without a class, or without
    /// exactly one result, it is opaque.
    pub fn new(info: Option<&OpInfo>, results: &[Type]) -> Self {
        let class = info.and_then(|info| info.interface::<dyn FusionClass>());
        let (kind, result) = match (class, results) {
            (Some(class), [result]) => (class.kind(), Some(*result)),
            (_, [result]) => (FusionKind::Opaque, Some(*result)),
            _ => (FusionKind::Opaque, None),
        };
        let elementwise = kind == FusionKind::Injective
            && info.is_some_and(|i| i.traits.has(Traits::Elementwise));
        Self {
            kind,
            elementwise,
            steps: kind != FusionKind::Opaque && class.is_some_and(|class| class.steps()),
            pads: false,
            result,
        }
    }
    /// An op of an arena.
    pub fn of(ir: &Ir, op: OpId) -> Self {
        let class = ir.info(op).and_then(|i| i.interface::<dyn FusionClass>());
        Self {
            pads: class.is_some_and(|class| class.pads(ir.op(op))),
            ..Self::new(ir.info(op), &ir.result_types(op))
        }
    }
    /// The shape of the result, where it is static.
    pub fn shape(&self) -> Option<&'static [i64]> {
        let shape = self.result?.shape()?;
        shape.iter().all(|d| *d >= 0).then_some(shape)
    }
    /// Whether elements are computed one by one at the places of another op's result.
    pub fn is_elementwise_like(&self, other: &FusionInfo) -> bool {
        self.elementwise && self.shape().is_some() && self.shape() == other.shape()
    }
}

/// Whether a consumer may run in the loop nest of what it reads: injective ops go with each other
/// and into reductions, elementwise ones behind convolutions and products of their shape; nothing
/// goes behind a reduction or into a product or before what reads padding, and opaque ops stay alone.
///
/// This is a necessary condition. A group also holds one reduction or product at most, and what
/// leaves it is what its last op computes ([`anchor`] says which op decides).
pub fn edge_fuses(producer: &FusionInfo, consumer: &FusionInfo) -> bool {
    use FusionKind::{ComplexOutFusable, Injective, Reduction};
    match (producer.kind, consumer.kind) {
        (Injective, Injective | Reduction) => !consumer.pads,
        (ComplexOutFusable, Injective) => consumer.is_elementwise_like(producer),
        _ => false,
    }
}

/// The op of a group that decides its loops: the reduction or product; the place of the first
/// op if all are injective. `None` if the ops cannot run as one: an opaque one, two that decide,
/// or beside a product something that is not elementwise on its result.
pub fn anchor(parts: &[FusionInfo]) -> Option<usize> {
    use FusionKind::{ComplexOutFusable, Injective, Opaque};
    if parts.iter().any(|p| p.kind == Opaque) {
        return None;
    }
    let mut deciding = (0..parts.len()).filter(|i| parts[*i].kind != Injective);
    let first = deciding.next();
    if deciding.next().is_some() || parts.is_empty() {
        return None;
    }
    let Some(at) = first else {
        return Some(0);
    };
    let fits = |i: usize| i == at || parts[i].is_elementwise_like(&parts[at]);
    (parts[at].kind != ComplexOutFusable || (0..parts.len()).all(fits)).then_some(at)
}

/// Moves ops, in their order, into a group at the place of the last one; what is needed outside are its results.
pub fn group(ir: &mut Ir, group: &[OpId]) -> OpId {
    let results = group.iter().flat_map(|op| ir.results(*op));
    let outside = |v: &Value| {
        ir.uses(*v)
            .any(|u| !group.iter().any(|op| u.op == *op || ir.is_below(u.op, *op)))
    };
    let old: Vec<Value> = results.filter(outside).collect();
    let types: Vec<Type> = old.iter().map(|v| ir.ty(*v)).collect();
    let body = ir.new_region();
    let block = ir.new_block(body);
    let last = group[group.len() - 1];
    let state = tir::Op::state(Fused {
        body,
        results: Rets(types),
    });
    let made = ir.at(At::After(last)).create(state);
    for op in group {
        ir.move_op(*op, block);
    }
    let new: Vec<Value> = ir.results(made).collect();
    for (old, new) in old.iter().zip(&new) {
        ir.replace_uses_if(*old, *new, |ir, u| !ir.is_below(u.op, made));
        let hint = ir.hint(*old);
        ir.set_hint(*new, hint);
    }
    ir.add(block, Yield { values: old });
    made
}

/// Takes the ops of a group out of it; gives them.
pub fn ungroup(ir: &mut Ir, op: OpId) -> Vec<OpId> {
    let Some(block) = ir.body_block(op, 0) else {
        return Vec::new();
    };
    let Some(end) = ir.last(block) else {
        return Vec::new();
    };
    let Some(Yield { values }) = ir.get(end) else {
        return Vec::new();
    };
    ir.erase(end);
    let ops: Vec<OpId> = ir.ops_in(block).collect();
    for inner in &ops {
        ir.move_op(*inner, At::Before(op));
    }
    ir.replace(op, &values);
    ops
}
