//! The ops of accel: those that describe a machine, and those that run on it.

pub(crate) mod apply;
pub(crate) mod describe;
pub(crate) mod run;
pub(crate) mod semaphore;
