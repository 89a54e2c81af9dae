//! `choose-graph`: what the e-graph makes of a function, where its nests take fewer cycles.
//!
//! The e-graph sums costs of operators, which nests of several of them do not have. So what it chooses is compared with
//! the function as it is by the estimate that chooses tiles, of both with their operators fused: by the price of programs.

use tir::{Diagnostic, Ir, Pass, PassCx, PassResult, Pipeline, pass};
use tir_accel::{AttachedMachine, Processor};
use tir_convert::{FuseElementwise, FuseGraph, GraphToTensor};
use tir_egraph::Egraph;
use tir_generic::{Canonicalize, ConstantFold};
use tir_tile::Tile;

/// Cycles below which estimates are too rough to choose by: latencies and starts, which queues overlap, are most of them.
const SMALL: i64 = 20_000;

pass! {
    /// Runs `egraph` and `constant-fold` on a copy of a function, and keeps the copy if all its nests take fewer cycles on the
    /// attached machine, by the estimate of `tile`, than those of the function as it is, operators of both fused.
    ///
    /// For processors, for functions of fewer than 20,000 cycles, and where the function as it is cannot be estimated, `egraph`
    /// is run where layouts matter.
    pub struct ChooseGraph = "choose-graph" on "func.func" {
        /// How operators are fused: `fuse-graph`'s `partition`.
        pub partition: String = "cost".to_string(),
        /// Allow fusion groups with several results.
        pub multi_output: bool = false,
        /// Multi-buffering depth that tile sizes leave room for: slots per loop buffer.
        pub depth: i64 = 2,
        /// Stages of one loop nest at most.
        pub max_stages: usize = 8,
        /// Whether a tensor between two nests stays in near memory where that is no slower.
        pub resident: bool = true,
        /// Which products in groups `tile` may join: `all`, `exact`, or `none`.
        pub join_groups: String = "all".to_string(),
        /// Print the estimates of both.
        pub print: bool = false,
    }
}

impl ChooseGraph {
    /// The cycles of a function's nests by the estimate.
    fn price(&self, ir: &Ir, cx: &PassCx<'_>) -> Option<i64> {
        let attached = cx.outer::<AttachedMachine>()?;
        let (info, machine) = attached.0.as_ref()?;
        let mut lowered = ir.clone();
        let mut pipeline = Pipeline::new();
        pipeline.add(FuseGraph {
            partition: self.partition.clone(),
            multi_output: self.multi_output,
            ..FuseGraph::default()
        });
        tir_graph::lowering::join(&mut pipeline);
        pipeline.add(GraphToTensor::default());
        pipeline.add(FuseElementwise::default());
        pipeline.add(Canonicalize::default());
        cx.attempt(&pipeline, &mut lowered).ok()?;
        let tile = Tile {
            depth: self.depth,
            max_stages: self.max_stages,
            resident: self.resident,
            join_groups: self.join_groups.clone(),
            ..Tile::default()
        };
        tile.price(&lowered, cx, (info, machine))
    }
}

/// What the e-graph makes of a function, with what it remarks.
fn rewritten(
    ir: &Ir,
    cx: &PassCx<'_>,
    always: bool,
) -> Result<(Ir, Vec<Diagnostic>), Vec<Diagnostic>> {
    let mut other = ir.clone();
    let mut pipeline = Pipeline::new();
    pipeline.add(Egraph {
        always,
        ..Egraph::default()
    });
    pipeline.add(ConstantFold::default());
    let said = cx.attempt(&pipeline, &mut other)?;
    Ok((other, said))
}

impl Pass for ChooseGraph {
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.analysis::<AttachedMachine>(parent);
        cx.analysis::<OnProcessor>(parent);
        Ok(())
    }

    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let processor = cx.outer::<OnProcessor>().is_some_and(|found| found.0);
        let before = if processor { None } else { self.price(ir, cx) };
        let before = before.filter(|cycles| *cycles >= SMALL);
        let (other, said) = rewritten(ir, cx, before.is_some())?;
        let after = before.and_then(|_| self.price(&other, cx));
        if let (true, Some(before)) = (self.print, before) {
            let after = after.map_or("does not fit".to_string(), |n| format!("takes {n}"));
            let text = format!(
                "as it is the function takes {before} cycles by the estimate, rewritten it {after}"
            );
            cx.remark(Diagnostic::remark(text).at(ir.loc(ir.root())));
        }
        let better = match (before, after) {
            (Some(before), after) => after.is_some_and(|after| after < before),
            (None, _) => true,
        };
        if better {
            said.into_iter().for_each(|remark| cx.remark(remark));
            cx.count("functions rewritten", usize::from(before.is_some()));
            *ir = other;
        } else {
            cx.unchanged();
        }
        Ok(())
    }
}

/// Whether a module's machine is a processor.
struct OnProcessor(bool);

impl tir::Analysis for OnProcessor {
    fn new(module: &Ir) -> Self {
        Self(Processor::of_module(module).is_some())
    }
}
