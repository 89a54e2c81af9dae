//! `approximate-math`: functions become the few operations that approximate them, for whole vectors.

use tir::remarks::LIBRARY_CALL;
use tir::rewrite::interfaces::RegionBranch;
use tir::{Diagnostic, Ir, Name, OpId, Pass, PassCx, PassResult, pass};
use tir_math::Approximation;

use crate::mlir::is_library_function;

pass! {
    /// Replaces functions such as `math.exp` by multiply-adds and operations on bits, where the op has such a form
    /// (`tir_math::Approximate`).
    ///
    /// Results differ from the nearest number by less than two units in the last place. What has no such form is left,
    /// with a remark: native code then calls the C library, element by element.
    pub struct ApproximateMath = "approximate-math" on "func.func" {}
}

impl Pass for ApproximateMath {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let mut approximated = 0;
        let mut called: Vec<(Name, OpId)> = Vec::new();
        for op in ir.walk_ids() {
            if !is_code(ir, op) {
                continue;
            }
            let form = ir
                .info(op)
                .and_then(|info| info.interface::<dyn Approximation>());
            if let Some(value) = form.and_then(|form| form.build(ir, op)) {
                ir.replace(op, &[value]);
                approximated += 1;
            } else if is_library_function(ir.name(op))
                && !called.iter().any(|(name, _)| *name == ir.name(op))
            {
                called.push((ir.name(op), op));
            }
        }
        for (name, op) in called {
            let title = format!("'{name}' is a call of the C library for each element");
            let note = "its op gives no form by multiply-adds for numbers of this type ('approximate-math')";
            cx.remark(
                Diagnostic::remark(title)
                    .category(LIBRARY_CALL)
                    .at(ir.loc(op))
                    .note(note),
            );
        }
        cx.count("functions approximated", approximated);
        if approximated == 0 {
            cx.unchanged();
        }
        Ok(())
    }
}

/// Whether an op is run where it stands, by the function or by loops and branches in it: what another op computes by its
/// region is that op's.
fn is_code(ir: &Ir, op: OpId) -> bool {
    let mut around = ir.parent(op);
    while let Some(parent) = around.filter(|parent| *parent != ir.root()) {
        let info = ir.info(parent);
        if info
            .and_then(|info| info.interface::<dyn RegionBranch>())
            .is_none()
        {
            return false;
        }
        around = ir.parent(parent);
    }
    true
}
