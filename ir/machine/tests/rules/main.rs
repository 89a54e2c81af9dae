//! Each rule of the machine, on programs of a few operations.

mod bench;
mod faults;
mod memory;
mod order;
mod semaphores;
mod time;
