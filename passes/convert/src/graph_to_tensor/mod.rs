//! `graph-to-tensor`: operators become index expressions.

mod conv;
mod elementwise;
mod layout;
mod movement;
mod nest;
mod pool;
mod quantize;
mod reduce;
mod resize;
mod select;
mod views;

use std::collections::BTreeSet;

use tir::rewrite::{Conversion, PatternSet, Target};
use tir::{Diagnostic, Ir, Op, Pass, PassCx, PassResult, Patterns, pass};
use tir_graph::{Fused, Relayout, Transpose, Yield};

pass! {
    /// Lowers graph ops to `tensor.generic`; fusion groups are kept.
    ///
    /// A reduction becomes three steps: a `tensor.generic` that fills the start value, one that
    /// combines into it, and an elementwise one for what follows (bias, scale). Padding is a
    /// `tensor.transfer_read` of the padded whole.
    pub struct GraphToTensor = "graph-to-tensor" {}
}

impl Pass for GraphToTensor {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let patterns = cx.shared(|| Prepared(patterns(&cx.settings().disabled_rules)));
        convert(ir, patterns.0.as_ref().map_err(Clone::clone)?)?;
        cx.each(ir, &|ir, _| layout::lower(ir))
    }

    fn pattern_names() -> Vec<String> {
        set().names()
    }
}

struct Prepared(Result<Patterns, Vec<Diagnostic>>);

fn patterns(disabled: &BTreeSet<String>) -> Result<Patterns, Vec<Diagnostic>> {
    set().finish(disabled)
}

/// The patterns, one for each operator.
fn set() -> PatternSet {
    let mut set = PatternSet::new();
    conv::patterns(&mut set);
    elementwise::patterns(&mut set);
    movement::patterns(&mut set);
    pool::patterns(&mut set);
    quantize::patterns(&mut set);
    resize::patterns(&mut set);
    select::patterns(&mut set);
    reduce::patterns(&mut set);
    views::patterns(&mut set);
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
