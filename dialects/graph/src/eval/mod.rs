//! Reference evaluation: what each op of graph computes. Sums are taken in the type of the
//! elements, 16-bit floats in f32 and rounded once.

mod conv;
mod elementwise;
mod layout;
mod movement;
mod panel;
mod pool;
mod quantize;
mod real;
mod reduce;
mod resize;
mod select;
mod structure;
mod views;
mod winograd;

pub(crate) use movement::gathered;
