//! `fuse-graph`: which operators run as one.
//!
//! What may run together is said by the classes of TVM (Chen et al., "TVM: An Automated
//! End-to-End Optimizing Compiler for Deep Learning", OSDI 2018, section 3; `tir_graph::fusion`);
//! what does is chosen greedily along post-dominators, or by the bytes that groups move.

mod flow;
mod greedy;
mod outline;
mod partition;
mod report;

use std::collections::BTreeSet;

use tir::data::Random;
use tir::pass::one_of;
use tir::{BlockId, Diagnostic, Ir, Pass, PassCx, PassResult, RegionId, pass};
use tir_accel::{AttachedMachine, MachineInfo};
use tir_graph::Fused;

use flow::Flow;
use partition::{Partition, Terms, search};
use report::savings;

pass! {
    /// Groups operators to be fused in `graph.fused`: elementwise ones after a convolution or
    /// matrix product, injective ones before a reduction, and chains of injective ones.
    ///
    /// Of the partitions that these classes allow, `cost` takes one that moves few bytes between
    /// groups, never more than the greedy one. With a machine attached, computing an element again
    /// is weighed against the bytes its engine moves in that time.
    pub struct FuseGraph = "fuse-graph" {
        /// Partitioning: `cost` minimizes the bytes moved between groups by local search from the
        /// greedy result; `greedy` fuses along post-dominators; `none` makes each operator its own
        /// group; `random` joins random groups (`seed`), to test what holds of all partitions.
        pub partition: String = "cost".to_string() => one_of(&["cost", "greedy", "none", "random"]),
        /// What decides about the partition `random`, with the name of the function.
        pub seed: u64 = 0,
        /// Allow groups with several results: values that are also used outside of the group, and
        /// sibling elementwise operators of one input.
        pub multi_output: bool = false,
        /// Allow an elementwise operator to be recomputed in several groups.
        pub recompute: bool = false,
        /// Maximum number of moves of the local search.
        pub max_moves: usize = 10_000,
        /// Print the groups, with the bytes that each moves and that each fused edge saves.
        pub print: bool = false,
    }
}

impl FuseGraph {
    /// Whether a partition is one.
    ///
    /// # Errors
    /// What is expected.
    pub fn check(partition: &str) -> PassResult {
        Choice::of(partition).map(|_| ())
    }
}

impl Pass for FuseGraph {
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.analysis::<AttachedMachine>(parent);
        Ok(())
    }
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let choice = Choice::of(&self.partition)?;
        cx.each(ir, &|ir, cx| {
            let attached = cx.outer::<AttachedMachine>();
            let machine = attached.as_deref().and_then(|a| a.0.as_ref());
            let terms = self.terms(machine.map(|(info, _)| info));
            let groups = self.fuse(ir, cx, choice, &terms);
            cx.count("groups", groups);
            if groups == 0 {
                cx.unchanged();
            }
            Ok(())
        })
    }
}

/// How groups are chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Cost,
    Greedy,
    Alone,
    Random,
}

impl Choice {
    fn of(partition: &str) -> Result<Self, Vec<Diagnostic>> {
        match partition {
            "cost" => Ok(Self::Cost),
            "greedy" => Ok(Self::Greedy),
            "none" => Ok(Self::Alone),
            "random" => Ok(Self::Random),
            other => {
                let error = format!("has partition={other}, expected cost, greedy, none or random");
                Err(vec![Diagnostic::error(error)])
            }
        }
    }
}

impl FuseGraph {
    fn terms(&self, machine: Option<&MachineInfo>) -> Terms {
        // From far to near is the way of what is read again.
        let engine = machine.and_then(|info| {
            let far = info.far()?;
            info.engines.iter().find(|e| e.from == far.name)
        });
        Terms {
            bytes_per_cycle: engine.map_or(1, |e| e.bytes_per_cycle.max(1)),
            element_cycles: machine.map_or(1, |info| info.thread_cycles(1).max(1) as i64),
            several: self.multi_output,
            recompute: self.recompute,
            max_moves: self.max_moves,
        }
    }

    /// Makes the groups of all blocks of an arena; says how many.
    fn fuse(&self, ir: &mut Ir, cx: &mut PassCx<'_>, choice: Choice, terms: &Terms) -> usize {
        let mut groups = 0;
        let symbol = ir.attr(ir.root(), "sym_name");
        let name = symbol.and_then(|attr| attr.as_str().map(str::to_string));
        let mut random = Random::named(self.seed, &name.unwrap_or_default());
        for block in blocks(ir) {
            let mut flow = Flow::new(ir, block);
            let seed = greedy::greedy(&flow);
            let partition = match choice {
                Choice::Greedy => Partition::new(seed.clone()),
                Choice::Alone => Partition::alone(&flow),
                Choice::Cost => search(&mut flow, seed.clone(), terms),
                Choice::Random => partition::random(&mut flow, terms, &mut random),
            };
            if self.print
                && partition
                    .groups
                    .iter()
                    .any(|set: &BTreeSet<usize>| !set.is_empty())
            {
                let text = report::report(ir, &mut flow, &partition, seed, terms);
                let place = ir.loc(ir.root());
                cx.remark(Diagnostic::remark(text.trim_end()).at(place));
            }
            flow.copied.clone_from(&partition.copied);
            let saved = partition.groups.iter().flat_map(|set| savings(&flow, set));
            let saved: i64 = saved.map(|s| s.bytes).sum();
            cx.count("saved bytes", usize::try_from(saved).unwrap_or(0));
            let least = match choice {
                Choice::Alone | Choice::Random => 1,
                Choice::Cost | Choice::Greedy => 2,
            };
            groups += outline::outline(ir, block, &flow, &partition, least);
        }
        groups
    }
}

/// The blocks of an arena but for those of groups: what is in a group already stays as it is.
fn blocks(ir: &Ir) -> Vec<BlockId> {
    let mut blocks: Vec<BlockId> = Vec::new();
    for op in std::iter::once(ir.root()).chain(ir.walk_ids()) {
        if !ir.is::<Fused>(op) {
            let regions: Vec<RegionId> = ir.regions(op).collect();
            blocks.extend(regions.into_iter().flat_map(|r| ir.blocks(r)));
        }
    }
    blocks
}
