//! Folds, rules, patterns and conversions on a dialect for tests.
#![allow(missing_docs)]

mod conversion;
mod dialect;
mod greedy;
mod rules;
