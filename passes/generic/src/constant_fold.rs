//! `constant-fold`: what folds to constants, and nothing else.

use tir::{Greedy, Ir, Pass, PassCx, PassResult, Patterns, pass};

use crate::canonicalize::greedily;

pass! {
    /// Folds ops whose results are known, without any rules or patterns.
    pub struct ConstantFold = "constant-fold" {}
}

impl Pass for ConstantFold {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let patterns = Patterns::none();
        let greedy = Greedy::new(&patterns);
        cx.each(ir, &|ir, cx| {
            greedily(ir, cx, &greedy);
            Ok(())
        })
    }
}
