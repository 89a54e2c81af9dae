//! From buffers in spaces to the command stream of one machine: rotating buffers, transfers on
//! engines, tokens between queues.
#![forbid(unsafe_code)]

pub mod dry_run;
pub mod edit;
pub mod index;
pub mod insert_dma;
pub mod insert_tokens;
pub mod multi_buffer;
pub mod order;
pub mod prefetch;
mod ring;
pub mod stream;
pub mod views;
