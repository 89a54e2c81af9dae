//! The ops of graph by theme.

pub mod conv;
pub mod elementwise;
pub mod layout;
pub mod pool;
pub mod structure;
pub mod views;
