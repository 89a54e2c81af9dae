//! The rules of graph by family, and the guards and functions that they name.

use tir::{PatternSet, RuleText};

/// Every rule of graph, a list for each family.
pub const FAMILIES: &[(&str, &[RuleText])] = &[];

/// Adds guards, functions and rules.
pub fn register(set: &mut PatternSet) {
    for (_, rules) in FAMILIES {
        set.rules(*rules);
    }
}
