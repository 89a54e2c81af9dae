//! The dialect of the tutorial: arithmetic modulo a number.
//!
//! Elements of tensors are residues, `!toy.mod<7>`: the numbers 0 to 6. They are stored as `i32`.

mod eval;
mod lower;
mod modulo;
mod ops;

pub use lower::ToyToTensor;
pub use modulo::Mod;
pub use ops::{Add, MatMul, Mul, Power, Transpose};

// ANCHOR: dialect
tir::dialect! {
    /// Arithmetic modulo a number.
    toy {
        ops: [Add, Mul, Power, Transpose, MatMul],
        types: [Mod],
        rules: [
            // (B^T A^T) = (A B)^T: one transposition instead of two.
            tir::rule!(
                "transpose-of-product",
                "(toy.matmul (toy.transpose ?b) (toy.transpose ?a))"
                    => "(toy.transpose (toy.matmul ?a ?b))"
            ),
        ],
        load: || {
            // `to-tensor` and the pipelines behind it run our lowering too.
            tir_graph::lowering::register(&DIALECT, |pipeline| {
                pipeline.add(ToyToTensor::default());
            });
        },
    }
}

/// The passes of the dialect.
pub fn passes() -> Vec<tir::PassInfo> {
    vec![tir::PassInfo::of::<ToyToTensor>()]
}
// ANCHOR_END: dialect
