//! The ops of graph by theme.

pub mod conv;
pub mod elementwise;
pub mod pool;
pub mod structure;
pub mod views;
