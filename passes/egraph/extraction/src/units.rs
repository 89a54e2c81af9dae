//! Costs as whole numbers, so that sums do not depend on their order.

use crate::Problem;

/// A scale of costs: a power of two such that all costs together stay below 2^62.
pub(crate) struct Units {
    /// What one unit is worth.
    unit: f64,
    /// Each node's cost, rounded down.
    pub costs: Vec<u64>,
}

impl Units {
    pub(crate) fn new(problem: &Problem) -> Units {
        // Halved first, so that the sum stays in range.
        let half: f64 = problem.nodes.iter().map(|n| n.cost / 2.0f64.powi(64)).sum();
        let mut unit = 2.0f64.powi(-1000);
        if half > 0.0 {
            let exponent = half.log2().ceil() as i32 + 64 - 61;
            unit = 2.0f64.powi(exponent.max(-1000));
        }
        let costs = problem.nodes.iter().map(|n| (n.cost / unit) as u64);
        Units {
            unit,
            costs: costs.collect(),
        }
    }

    /// A sum of costs, back as it was given.
    pub(crate) fn price(&self, units: u64) -> f64 {
        units as f64 * self.unit
    }
}
