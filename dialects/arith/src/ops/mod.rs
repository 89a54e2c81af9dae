//! The ops of arith by theme.

pub(crate) mod cast;
pub(crate) mod constant;
pub(crate) mod float;
pub(crate) mod int;
