//! Programs beside the one of the least sum of prices: what products in one layout share, no price of one says.

use tir_extraction::Solution;
use tir_graph::layout::Layout;

use super::{Grouped, Groups};
use crate::extract::Listed;
use crate::groups::cuts::Candidate;

/// The share of what products take each by itself that they are allowed to take as nests of several stages, and with what stays
/// near between nests, where programs are looked for that no sum of prices finds.
const FAVOUR: f64 = 0.75;

/// Other programs are compared whole that take no more than so many times the cycles of the best, each group by itself.
const ALIKE: f64 = 1.1;

/// The layouts that products are computed in, if there are several.
pub(super) fn layouts(nodes: &[Candidate]) -> Vec<Option<&'static Layout>> {
    let mut layouts: Vec<Option<&Layout>> = Vec::new();
    for layout in nodes.iter().filter_map(|node| node.computes_in) {
        if !layouts.contains(&layout) {
            layouts.push(layout);
        }
    }
    match layouts.len() {
        1 => Vec::new(),
        _ => layouts,
    }
}

impl Groups {
    /// Programs of other choices that may take fewer cycles than a choice, each once.
    pub(super) fn others(
        &self,
        listed: &Listed,
        others: Vec<Solution>,
        best: &Solution,
    ) -> Vec<Grouped> {
        let mut seen = vec![self.chosen(best)];
        let mut programs = Vec::new();
        for other in others {
            let chosen = self.chosen(&other);
            let cost: f64 = chosen
                .iter()
                .map(|group| self.problem.nodes[*group].cost)
                .sum();
            if cost > ALIKE * best.cost || seen.contains(&chosen) {
                continue;
            }
            seen.push(chosen);
            programs.extend(self.program(listed, &other.choice));
        }
        programs
    }

    /// The groups of a choice that are needed.
    fn chosen(&self, solution: &Solution) -> Vec<usize> {
        let groups = solution.order.iter();
        let mut groups: Vec<usize> = groups.filter_map(|class| solution.choice[*class]).collect();
        groups.sort_unstable();
        groups
    }

    /// The share of its price that a group counts as where products in a layout are favoured.
    pub(super) fn share_in(&self, at: usize, layout: Option<&Layout>) -> f64 {
        let nodes = self.cuts[at].nodes.iter();
        let mut own = nodes.filter_map(|node| self.cutter.nodes[*node].computes_in);
        match own.any(|own| own == layout) {
            true => FAVOUR,
            false => 1.0,
        }
    }
}
