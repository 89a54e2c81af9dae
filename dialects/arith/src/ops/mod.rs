//! The ops of arith by theme.

pub mod cast;
pub mod constant;
pub mod float;
pub mod int;
