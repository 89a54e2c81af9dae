//! `graph-to-tensor`: operators become index expressions.

mod conv;
mod elementwise;
mod gather;
mod layout;
mod movement;
mod nest;
mod pool;
mod quantize;
mod reduce;
mod resize;
mod select;
mod views;
mod winograd;

use std::collections::BTreeSet;

use gather::Slices;
use quantize::Steps;
use tir::rewrite::{Conversion, PatternSet, Target};
use tir::{Diagnostic, Ir, Op, Pass, PassCx, PassResult, Patterns, pass};
use tir_accel::{AttachedMachine, MachineInfo};
use tir_graph::{Fused, Relayout, Transpose, Yield};

pass! {
    /// Lowers graph ops to `tensor.generic`; fusion groups are kept.
    ///
    /// A reduction becomes three steps: a `tensor.generic` that fills the start value, one that
    /// combines into it, and an elementwise one for what follows (bias, scale). Padding is a
    /// `tensor.transfer_read` of the padded whole. Sums of integers are scaled in floats, or, where all
    /// factors are powers of two and the vector units of the attached machine compute integers alone,
    /// by shifts, which give the same numbers. Linear `graph.resize` becomes a product with all weights of a dimension, so an infinity
    /// or NaN spreads along it.
    pub struct GraphToTensor = "graph-to-tensor" {
        /// Arguments and results of functions that are stored in a layout become tensors of the shape of their storage,
        /// instead of an error.
        pub stored_arguments: bool = false,
    }
}

impl Pass for GraphToTensor {
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.analysis::<AttachedMachine>(parent);
        Ok(())
    }
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let attached = cx.outer::<AttachedMachine>();
        let machine = attached.as_deref().and_then(|a| a.0.as_ref());
        let how = How::on(machine.map(|(info, _)| info));
        let disabled = &cx.settings().disabled_rules;
        let shared = cx.shared(|| Prepared(how, patterns(disabled, how)));
        // What is shared was prepared for the first machine of the run.
        match shared.0 == how {
            true => convert(ir, shared.1.as_ref().map_err(Clone::clone)?)?,
            false => convert(ir, &patterns(disabled, how)?)?,
        }
        cx.each(ir, &|ir, cx| {
            let packed = cx.shared(layout::Packed::default);
            layout::lower(ir, self.stored_arguments, &packed)
        })
    }

    fn pattern_names() -> Vec<String> {
        set(How::on(None)).names()
    }
}

/// What of the lowering depends on the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
struct How {
    steps: Steps,
    slices: Slices,
}

impl How {
    fn on(machine: Option<&MachineInfo>) -> Self {
        Self {
            steps: Steps::on(machine),
            slices: Slices::on(machine),
        }
    }
}

/// The patterns for a machine.
struct Prepared(How, Result<Patterns, Vec<Diagnostic>>);

fn patterns(disabled: &BTreeSet<String>, how: How) -> Result<Patterns, Vec<Diagnostic>> {
    set(how).finish(disabled)
}

/// The patterns, one for each operator.
fn set(how: How) -> PatternSet {
    let mut set = PatternSet::new();
    conv::patterns(&mut set);
    elementwise::patterns(&mut set);
    movement::patterns(&mut set);
    pool::patterns(&mut set);
    quantize::patterns(&mut set, how.steps);
    set.on("gather-to-loop", move |op, id, rw| {
        how.slices.gather(op, id, rw)
    });
    resize::patterns(&mut set);
    select::patterns(&mut set);
    reduce::patterns(&mut set);
    views::patterns(&mut set);
    winograd::patterns(&mut set);
    set
}

fn convert(ir: &mut Ir, patterns: &Patterns) -> PassResult {
    let target = Target::new()
        .illegal_dialects(&["graph"])
        .legal::<Fused>()
        .legal::<Relayout>()
        .legal_if(Transpose::SPEC.name, layout::renames)
        .legal::<Yield>();
    Conversion::new(&target, patterns).run(ir)
}
