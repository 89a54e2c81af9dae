//! The ops of graph by theme.

pub(crate) mod conv;
pub(crate) mod elementwise;
pub(crate) mod layout;
pub(crate) mod movement;
pub(crate) mod normalize;
pub(crate) mod pool;
pub(crate) mod quantize;
pub(crate) mod reduce;
pub(crate) mod resize;
pub(crate) mod select;
pub(crate) mod structure;
pub(crate) mod views;
pub(crate) mod winograd;
