//! The rules of graph by family, and the guards and functions that they name.

mod about;
pub mod algebra;
pub mod conv;
mod extremes;
mod functions;
mod layout;
mod matrices;
pub mod normalize;
pub mod parts;
pub mod pool;
pub mod resize;
pub mod siblings;
pub mod unary;
pub mod views;

use tir::{PatternSet, RuleText};

/// Every rule of graph, a list for each family.
pub const FAMILIES: &[(&str, &[RuleText])] = &[
    ("algebra", algebra::RULES),
    ("conv", conv::RULES),
    ("siblings", siblings::RULES),
    ("views", views::RULES),
    ("pool", pool::RULES),
    ("normalize", normalize::RULES),
    ("resize", resize::RULES),
    ("parts", parts::RULES),
    ("unary", unary::RULES),
];

/// Adds guards, functions and rules.
pub fn register(set: &mut PatternSet) {
    functions::register(set);
    extremes::register(set);
    matrices::register(set);
    layout::register(set);
    set.about(about::ABOUT);
    for (_, rules) in FAMILIES {
        set.rules(*rules);
    }
}
