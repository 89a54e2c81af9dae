//! From buffers to a machine's command stream.
#![forbid(unsafe_code)]
