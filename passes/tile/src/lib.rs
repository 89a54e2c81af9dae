//! Tiling for the near space of the attached machine, and tensorization by declared behaviour.
#![forbid(unsafe_code)]

pub mod emit;
pub mod group;
pub mod layout;
pub mod matching;
pub mod plan;
pub mod tensorize;
pub mod tile;
