//! What a plan depends on of a group, as text: groups of equal signatures get equal plans.
//!
//! Values and ops are named by their places, so that two layers of a network are equal whose shapes,
//! positions and scalar computations are. The names of the tensors that are read, and what is read
//! outside of them, decide nothing.

use std::collections::HashMap;
use std::fmt::Write as _;

use tir::{Ir, RegionId, Value};

use super::{Group, Step};

impl Group {
    /// The signature of a group.
    pub fn signature(&self, ir: &Ir) -> String {
        let mut out = format!(
            "{:?} {} {:?} {:?} -> {} {} {:?}",
            self.domain, self.core, self.reductions, self.whole, self.out, self.outer, self.into
        );
        let text = &mut out;
        let written = || -> std::fmt::Result {
            if let Some((reduce, combine, start)) = &self.reduce {
                write!(text, "\n{combine:?} from {start} ")?;
                step(text, ir, reduce)?;
            }
            for map in &self.maps {
                step(text, ir, map)?;
            }
            for operand in &self.operands {
                let elem = ir.ty(operand.source).elem();
                write!(
                    text,
                    "\n{elem} {:?} {} {} {} {} {} {} {} {:?}",
                    operand.shape,
                    operand.map,
                    operand.cut,
                    operand.leaves,
                    operand.made,
                    operand.near,
                    operand.joint,
                    operand.constant,
                    operand.diagonal
                )?;
                if let Some(inner) = &operand.inner {
                    let reduce = inner.reduce.as_ref();
                    let reduce = reduce.map(|(combine, start)| format!("{combine:?} {start}"));
                    write!(
                        text,
                        " {reduce:?} {:?} {:?} {:?}",
                        inner.inputs, inner.rows, inner.reductions
                    )?;
                    body(text, ir, inner.body)?;
                }
            }
            for out in &self.outs {
                write!(text, "\n{:?} {}", out.step, out.map)?;
            }
            Ok(())
        };
        // Writing to a string never fails.
        let mut written = written;
        let _ = written();
        out
    }
}

fn step(out: &mut String, ir: &Ir, step: &Step) -> std::fmt::Result {
    write!(out, "\n{} {:?}", step.ty, step.inputs)?;
    for map in &step.maps {
        write!(out, " {map}")?;
    }
    body(out, ir, step.body)
}

/// The ops of a region, values by number.
pub fn body(out: &mut String, ir: &Ir, region: RegionId) -> std::fmt::Result {
    let mut numbers: HashMap<Value, usize> = HashMap::new();
    let mut work = vec![region];
    while let Some(region) = work.pop() {
        for block in ir.blocks(region) {
            for arg in ir.args(block) {
                let number = numbers.len();
                numbers.insert(arg, number);
            }
            for op in ir.ops_in(block) {
                write!(out, "\n {}", ir.name(op))?;
                for (name, attr) in ir.attrs(op) {
                    write!(out, " {name}={attr}")?;
                }
                for operand in ir.operands(op) {
                    match (numbers.get(&operand), ir.constant(operand)) {
                        (Some(number), _) => write!(out, " %{number}")?,
                        (None, Some(constant)) => write!(out, " {constant}")?,
                        // What is from outside is what it is.
                        (None, None) => write!(out, " {operand:?}")?,
                    }
                }
                for result in ir.results(op) {
                    let number = numbers.len();
                    numbers.insert(result, number);
                    write!(out, " {}", ir.ty(result))?;
                }
                work.extend(ir.regions(op));
            }
        }
    }
    Ok(())
}
