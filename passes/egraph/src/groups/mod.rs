//! Groups: e-nodes that run as one nest, chosen with all else that is chosen, at what a nest of them takes.
//!
//! A *cut* of a class is a set of e-nodes, one of each of some classes, that computes it from other classes: it can be
//! one group of `fuse-graph`. Cuts are enumerated for all classes once, after saturation (`cuts.rs`); the rules never see
//! them. A cut is a node of the extraction problem: what it costs are the cycles that its ops take as one nest
//! ([`Price`]), of which nothing depends on who reads it, and its children are what it reads. So costs add up over a
//! program, and what is extracted is chosen by what runs.
//!
//! To plan a nest takes milliseconds and there are thousands of cuts, so each begins with a bound: its products at the
//! unit's peak or its bytes at the engine's, whichever takes longer. Extraction runs with what is known, what it chose
//! by bounds alone is planned, and it runs again, until all that is chosen is planned ([`choose()`]).
//!
//! Cuts as choices: Chatterjee and others, "Reducing structural bias in technology mapping", 2006; priority cuts:
//! Mishchenko and others, "Combinational and sequential mapping with priority cuts", 2007.

mod body;
mod choose;
mod cuts;
mod outline;

pub use body::{Body, Input, Part, Price, Source};
pub use choose::{Chosen, Grouped, Terms, choose};
pub use outline::outline;
