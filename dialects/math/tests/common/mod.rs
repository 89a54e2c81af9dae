//! What the comparison of numbers is made of.

pub(crate) mod groups;
pub(crate) mod mlir;
