//! The ops of accel: those that describe a machine, and those that run on it.

pub mod describe;
pub mod run;
pub mod semaphore;
