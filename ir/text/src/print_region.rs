//! The printer of regions and blocks.

use std::fmt::Write;

use rustc_hash::FxHashMap;
use tir_core::{BlockId, Ir, Name, OpRef, RegionId, Traits};

use crate::print::Printer;

impl Printer {
    /// A region in braces; the names of its arena are the current ones.
    pub(crate) fn region(&mut self, ir: &Ir, region: RegionId, style: Style) {
        self.out.push('{');
        let count = ir.blocks(region).len();
        let mut preds = None;
        for (i, block) in ir.blocks(region).enumerate() {
            let has_args = ir.args(block).len() > 0;
            let ops = ir.first(block).is_some();
            let label = i > 0
                || match style.entry {
                    Entry::Label => has_args || !ops,
                    Entry::Named => has_args,
                    Entry::Hidden => false,
                }
                || i == 0 && has_preds(ir, block, &mut preds, region, count);
            if label {
                self.newline();
                self.label(ir, block);
                if i > 0 {
                    self.predecessors(ir, region, block, &mut preds);
                }
            }
            self.indent += 1;
            for op in ir.ops_in(block) {
                if Some(op) == ir.last(block)
                    && i + 1 == count
                    && style
                        .implicit
                        .is_some_and(|name| says_nothing(ir.op(op), name))
                {
                    continue;
                }
                self.newline();
                self.op(ir.op(op));
            }
            self.indent -= 1;
        }
        // A region without blocks is `{}` in pretty form.
        if count > 0 || style.generic {
            self.newline();
        }
        self.out.push('}');
    }

    fn label(&mut self, ir: &Ir, block: BlockId) {
        self.block_name(block);
        if ir.args(block).len() > 0 {
            self.out.push('(');
            for (i, value) in ir.args(block).enumerate() {
                if i > 0 {
                    self.out.push_str(", ");
                }
                self.value(value);
                self.out.push_str(": ");
                self.ty(ir.ty(value));
            }
            self.out.push(')');
        }
        self.out.push(':');
    }

    /// `  // pred: ^bb0`, as MLIR writes it.
    fn predecessors(
        &mut self,
        ir: &Ir,
        region: RegionId,
        block: BlockId,
        preds: &mut Option<Preds>,
    ) {
        let preds = preds.get_or_insert_with(|| predecessors(ir, region));
        let empty = Vec::new();
        let mine = preds.get(&block).unwrap_or(&empty).clone();
        match mine.len() {
            0 => self.out.push_str("  // no predecessors"),
            1 => self.out.push_str("  // pred: "),
            n => {
                let _ = write!(self.out, "  // {n} preds: ");
            }
        }
        for (i, pred) in mine.into_iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.block_name(pred);
        }
    }
}

type Preds = FxHashMap<BlockId, Vec<BlockId>>;

fn predecessors(ir: &Ir, region: RegionId) -> Preds {
    let mut preds = Preds::default();
    for block in ir.blocks(region) {
        if let Some(last) = ir.last(block) {
            for successor in ir.successors(last) {
                let list = preds.entry(successor).or_default();
                if !list.contains(&block) {
                    list.push(block);
                }
            }
        }
    }
    preds
}

/// Whether the entry block must show its label, since something branches to it.
fn has_preds(
    ir: &Ir,
    block: BlockId,
    preds: &mut Option<Preds>,
    region: RegionId,
    count: usize,
) -> bool {
    if count < 2 && ir.last(block).is_none_or(|op| ir.successors(op).len() == 0) {
        return false;
    }
    preds
        .get_or_insert_with(|| predecessors(ir, region))
        .contains_key(&block)
}

/// Whether an op is a terminator of this name that says nothing.
fn says_nothing(op: OpRef<'_>, name: Name) -> bool {
    op.name() == name
        && op.ir.operands(op.id).len() == 0
        && op.ir.results(op.id).len() == 0
        && op.ir.attrs(op.id).is_empty()
        && op.ir.regions(op.id).len() == 0
        && op.ir.successors(op.id).len() == 0
        && op.ir.has(op.id, Traits::Terminator)
}

/// When the first block of a region shows its label.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// If it has arguments or no operations.
    Label,
    /// If it has arguments.
    Named,
    /// Never: its arguments are said elsewhere.
    Hidden,
}

/// How a region prints.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    pub(crate) entry: Entry,
    pub(crate) implicit: Option<Name>,
    pub(crate) generic: bool,
}
impl Style {
    pub(crate) fn generic() -> Self {
        Self {
            entry: Entry::Label,
            implicit: None,
            generic: true,
        }
    }
}
