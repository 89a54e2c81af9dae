//! The pass `egraph`: equal programs side by side, and the cheapest of them.
//!
//! The ops without effects of a block become an e-graph ([`build`]), rules of the loaded dialects
//! and of files add what is equal ([`saturate`]), every op is added in the layouts that the machine
//! asks for ([`layout`]), a cost model of the attached machine
//! ([`cost_model`]) tells what is cheap, `tir-extraction` picks one program for all roots together
//! ([`extract`]), and the block is rewritten to it ([`rebuild`]). Ops with effects stay outside as
//! a skeleton: their operands are the roots, their results leaves.
//!
//! What the greedy driver makes of the block, in each layout, is among the choices ([`greedy`],
//! [`seed`]), so nothing dearer is chosen. Why the choice equals the input is a list of steps that can
//! be done again ([`proof`]).
//!
//! **For who adds an op**: an op takes part by being `Pure`. It says what running it takes by
//! [`tir::cost::Cost`] (`#[op(…, cost)]`); an op that says nothing reads its operands, writes its
//! results and does one scalar operation per element. An op computed from constants alone costs
//! nothing, since `constant-fold` takes it.
//!
//! **For who writes rules**: both kinds take part, with one root or several; a match needs
//! different classes for different roots. A rule does not apply where a function gives nothing or
//! where the right side is not well typed (that is counted); if both sides are well typed and of
//! different types, the pass fails and names the rule. `?x:?T` on the left and the same on the
//! right say that both sides have one type.
#![forbid(unsafe_code)]
// Names compare and hash by what never changes.
#![allow(clippy::mutable_key_type)]

pub mod apply;
pub mod blocks;
pub mod build;
pub mod cost_model;
mod dump;
pub mod extract;
mod files;
pub mod graph;
pub mod greedy;
pub mod groups;
pub mod layout;
pub mod matching;
pub mod multi_pattern;
pub mod node;
pub mod one_op;
pub mod optimize;
mod pass;
pub mod proof;
pub mod rebuild;
pub mod region;
mod replay_pass;
pub mod report;
pub mod saturate;
pub mod search;
pub mod seed;
mod symmetry;
pub mod view;

pub use pass::{Asked, Egraph};
pub use replay_pass::Replay;

use tir::PassInfo;

/// All passes of this crate.
pub fn passes() -> Vec<PassInfo> {
    vec![PassInfo::of::<Egraph>(), PassInfo::of::<Replay>()]
}
