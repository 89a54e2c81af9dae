//! The ops of graph by theme.

pub mod conv;
pub mod elementwise;
pub mod layout;
pub mod movement;
pub mod normalize;
pub mod pool;
pub mod reduce;
pub mod resize;
pub mod select;
pub mod structure;
pub mod views;
