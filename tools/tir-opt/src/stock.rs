//! What the stock tools are built from: lists of dialects and passes, as a user's would be.

use tir::Dialect;

use crate::Tool;

/// The built-in dialects.
pub const DIALECTS: &[&Dialect] = &[
    &tir_builtin::DIALECT,
    &tir_builtin::TIR,
    &tir_func::DIALECT,
    &tir_arith::DIALECT,
    &tir_math::DIALECT,
    &tir_func::cf::DIALECT,
    &tir_graph::DIALECT,
    &tir_tensor::DIALECT,
    &tir_loop::DIALECT,
    &tir_memref::DIALECT,
    &tir_vector::DIALECT,
    &tir_accel::DIALECT,
    &tir_builtin::rule::DIALECT,
];

/// The stock driver: all built-in dialects and passes.
pub fn stock() -> Tool {
    Tool::new("tir-opt", "Runs named passes over .tir files.")
        .dialects(DIALECTS.iter().copied())
        .passes(tir_generic::passes())
        .passes(tir_convert::passes())
        .passes(tir_bufferize::passes())
        .passes(tir_egraph::passes())
        .passes(tir_tile::passes())
        .passes(tir_schedule::passes())
        .passes(tir_memory::passes())
        .passes(tir_native::passes())
        .passes(tir_levels::passes())
}
