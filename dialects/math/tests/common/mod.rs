//! What the comparison of numbers is made of.

pub mod groups;
pub mod mlir;
