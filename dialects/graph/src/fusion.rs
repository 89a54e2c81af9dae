//! How an op may be fused with its neighbours: TVM's four classes (Chen et al., "TVM: An
//! Automated End-to-End Optimizing Compiler for Deep Learning", OSDI 2018, section 3).

use tir::{Hook, Op};

/// A fusion class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum FusionKind {
    /// One output element depends on one element of each input: add, relu, transpose.
    Injective,
    /// Reduces: sum, pooling. Takes injective producers in.
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
}

/// [`Fusable`] as an interface.
pub trait FusionClass: Send + Sync {
    /// The class.
    fn kind(&self) -> FusionKind;
}
struct Class(FusionKind);
impl FusionClass for Class {
    fn kind(&self) -> FusionKind {
        self.0
    }
}

/// Hands over the class of an op.
pub fn fusion<T: Fusable>() -> Hook {
    let class: &'static dyn FusionClass = match T::KIND {
        FusionKind::Injective => &Class(FusionKind::Injective),
        FusionKind::Reduction => &Class(FusionKind::Reduction),
        FusionKind::ComplexOutFusable => &Class(FusionKind::ComplexOutFusable),
        FusionKind::Opaque => &Class(FusionKind::Opaque),
    };
    Hook::interface(class)
}
