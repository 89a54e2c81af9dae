//! Memory planning: gives every buffer of one space an offset such that buffers that live at the
//! same time do not overlap.
//!
//! A [`Problem`] is a list of buffers with either live intervals or an [`Interference`] graph.
//! [`plan`] tries the planners and keeps the lowest plan; [`check`] judges any plan and shares
//! nothing with them; [`Problem::largest_live_set`] is what no plan can be lower than.
//!
//! ```
//! use tir_packing::*;
//!
//! let buffers = vec![Buffer::new("a", 64), Buffer::new("b", 32), Buffer::new("c", 64)];
//! let lives = vec![vec![0..4], vec![2..8], vec![4..8]];
//! let problem = Problem::from_lives(buffers, lives)?;
//! let plan = plan(&problem, 128)?;
//! assert_eq!((plan.height, plan.lower_bound.bytes), (96, 96));
//! assert!(check(&problem, &plan.offsets, plan.height).is_empty());
//!
//! let failure = tir_packing::plan(&problem, 80).unwrap_err();
//! assert_eq!(
//!     failure.to_string(),
//!     "does not fit: 96 bytes needed, 80 available\n  96 bytes live at time 2, held by\n    a: 64\n    b: 32"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod apart;
mod bound;
mod check;
mod colour;
mod crowd;
mod exact;
mod first_fit;
mod graph;
mod keep;
mod part;
mod placed;
mod plan;
mod problem;
mod random;
mod reuse;
mod sets;
mod skyline;
mod solve;

pub use apart::{Conflicts, apart, cost};
pub use bound::{LiveSet, NODE_LIMIT};
pub use check::{OVERLAPS, Violation, check};
pub use colour::colour;
pub use first_fit::{Fit, Order, first_fit, refine};
pub use graph::Interference;
pub use keep::{Kept, keep_apart};
pub use plan::{
    DoesNotFit, Effort, LONG_STEPS, PLAN_STEPS, Partition, Plan, REFINE_ROUNDS, plan, plan_with,
};
pub use problem::{Buffer, DENSE, Live, Problem, ProblemError};
pub use reuse::{Reuse, apart_in_time, reuse_cost, shared};
pub use solve::{Algorithm, Certificate, Options, Progress, STEPS, Solution, solve};
