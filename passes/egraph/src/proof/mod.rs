//! Proofs: why the chosen program equals the input, as steps that can be done again.
//!
//! Whatever the e-graph learns is written down as an equation between terms ([`journal`]). The
//! equations that the choice rests on are found by congruence closure over these terms
//! ([`closure`], [`explain`]); they are written as text ([`text`]), and done again on the input by
//! the rules themselves ([`replay`]), which trusts nothing that the text says but the names of
//! rules and places.

pub mod closure;
pub mod explain;
pub mod journal;
mod reorder;
pub mod replay;
pub mod terms;
pub mod text;
