//! `count-work`: what a function has to do, noted on it before it is lowered.

use tir::workload::{ATTR, Workload};
use tir::{Diagnostic, Ir, Pass, PassCx, PassResult, pass};
use tir_accel::AttachedMachine;
use tir_accel::bounds::Bounds;

pass! {
    /// Notes on a function of ops on whole tensors what it has to do, as the attribute `tir.work`:
    /// useful multiply-adds, elements, and compulsory bytes of each layer.
    ///
    /// Later passes carry the attribute along, and reports compare what a schedule does with it. A
    /// function that has the attribute keeps it. Where the work of an op is not known (it has
    /// effects, or loops), no attribute is made.
    pub struct CountWork = "count-work" on "func.func" {
        /// Print the work and, with a machine, the lower bounds that it gives.
        pub print: bool = false,
    }
}

impl Pass for CountWork {
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.analysis::<AttachedMachine>(parent);
        Ok(())
    }
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let root = ir.root();
        let known = Workload::attached(ir);
        let Some(work) = known.clone().or_else(|| Workload::count(ir)) else {
            cx.unchanged();
            return Ok(());
        };
        if self.print {
            cx.remark(Diagnostic::remark(text(&work, cx)).at(ir.loc(root)));
        }
        if known.is_some() || ir.attr(root, ATTR).is_some() {
            cx.unchanged();
            return Ok(());
        }
        cx.count("layers", work.layers.len());
        ir.set_attr(root, ATTR, work.to_attr());
        Ok(())
    }
}

fn text(work: &Workload, cx: &PassCx<'_>) -> String {
    let layers = work.layers.iter();
    let elements: u64 = layers.clone().map(|l| l.elements).sum();
    let lanes: u64 = layers.map(|l| l.lane_macs).sum();
    let mut text = format!(
        "{} layers: {} multiply-adds, {lanes} of them lane by lane, {elements} elements; {} bytes \
         in, {} out",
        work.layers.len(),
        work.macs(),
        work.bytes_in(),
        work.bytes_out(),
    );
    let machine = cx.outer::<AttachedMachine>();
    if let Some((machine, _)) = machine.as_ref().and_then(|m| m.0.as_ref()) {
        let bounds = Bounds::of(work, machine);
        let (cycles, by, window) = (bounds.cycles, bounds.by, bounds.window);
        text += &format!("\nat least {cycles} cycles ({by})");
        if window > cycles {
            text += &format!(", by windows {window} (at {})", bounds.at);
        }
    }
    text
}
