//! Extraction from e-graphs: one node per needed class, acyclic, each node paid once whatever its
//! users, over all roots together.
//!
//! A [`Problem`] is classes and nodes; [`solve`] gives the best choice found and a bound that no
//! choice is below; [`check`] judges any choice and shares nothing with the solvers. Costs are of any
//! one unit, the caller's: `tir-egraph` counts cycles of the attached machine.
//!
//! ```
//! use tir_extraction::*;
//!
//! // Class 0 is either one node of cost 5 or two nodes of cost 1 over class 2, which class 1 needs
//! // too: as trees 0 is cheaper by the first, as a DAG by the second.
//! let nodes = vec![
//!     Node::new(0, 5.0, []),
//!     Node::new(0, 1.0, [2]),
//!     Node::new(1, 1.0, [2]),
//!     Node::new(2, 4.5, []),
//! ];
//! let problem = Problem { classes: 3, nodes, roots: vec![0, 1] };
//! let solution = solve(&problem, &Options::default())?;
//! assert!(check(&problem, &solution.choice).is_ok());
//! assert_eq!((solution.cost, solution.bound), (6.5, 6.5));
//! # Ok::<(), Error>(())
//! ```

mod bound;
mod budget;
mod check;
mod core;
mod diagram;
mod dot;
mod exchange;
mod greedy;
mod landmarks;
mod meetings;
mod named;
mod parts;
mod problem;
mod reduce;
mod search;
mod settle;
mod shake;
mod shares;
mod slopes;
mod solve;
mod sweep;
mod units;

pub use check::{Violation, check};
pub use dot::dot;
pub use greedy::bottom_up;
pub use named::EGraph;
pub use problem::{Blocked, Choice, Error, Node, Problem};
pub use solve::{Options, Solution, Solver, solve};
