//! The syntax of functions.
