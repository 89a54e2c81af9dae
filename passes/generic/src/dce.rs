//! `dce`: what nobody needs goes.

use std::collections::{BTreeSet, HashSet};

use tir::rewrite::{drop_passed, erase_unreachable, passed_operands};
use tir::{BlockId, Definition, Ir, OpId, Pass, PassCx, PassResult, RegionId, Value, pass};

pass! {
    /// Erases dead ops without side effects, unreachable blocks and dead block arguments.
    ///
    /// An op is needed if it has effects, or if a needed op uses a result of it; so ops that only
    /// use each other, also around a loop of blocks, go together.
    pub struct Dce = "dce" {}
}

impl Pass for Dce {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.each(ir, &|ir, cx| {
            let blocks = erase_unreachable(ir);
            let mut live = Live::default();
            live.op(ir, ir.root());
            live.spread(ir);
            let (ops, args) = live.sweep(ir);
            cx.count("erased ops", ops);
            cx.count("erased block arguments", args);
            cx.count("unreachable blocks", blocks);
            if ops + args + blocks == 0 {
                cx.unchanged();
            }
            Ok(())
        })
    }
}

#[derive(Default)]
struct Live {
    ops: HashSet<OpId>,
    args: HashSet<Value>,
    work: Vec<Value>,
}

/// The blocks of a region that a terminator goes to which does not say what it passes.
fn unsaid(ir: &Ir, region: RegionId) -> Vec<BlockId> {
    let mut found = Vec::new();
    for op in ir.blocks(region).filter_map(|block| ir.last(block)) {
        let successors = ir.successors(op).enumerate();
        let unsaid = successors.filter(|(i, _)| passed_operands(ir, op, *i).is_none());
        found.extend(unsaid.map(|(_, block)| block));
    }
    found
}

impl Live {
    /// Marks an op, those around it, and what has effects below it.
    fn op(&mut self, ir: &Ir, op: OpId) {
        let mut stack = vec![op];
        while let Some(op) = stack.pop() {
            if !self.ops.insert(op) {
                continue;
            }
            stack.extend(ir.parent(op));
            self.operands(ir, op);
            for region in ir.regions(op) {
                // Arguments of an entry block belong to the op.
                for arg in ir.entry(region).into_iter().flat_map(|b| ir.args(b)) {
                    self.args.insert(arg);
                }
                // What is passed for an argument stays where one of those who go to its block does not say what that is.
                for block in unsaid(ir, region) {
                    self.args.extend(ir.args(block));
                }
                let ops = ir.blocks(region).flat_map(|b| ir.ops_in(b));
                stack.extend(ops.filter(|op| !ir.is_removable(*op)));
            }
        }
    }

    /// Marks operands, but not those that only become arguments of blocks.
    fn operands(&mut self, ir: &Ir, op: OpId) {
        let passed = passed(ir, op);
        for (i, value) in ir.operands(op).enumerate() {
            match passed.iter().find(|(operand, _)| *operand == i) {
                Some((_, arg)) if !self.args.contains(arg) => {}
                _ => self.work.push(value),
            }
        }
    }

    fn spread(&mut self, ir: &Ir) {
        while let Some(value) = self.work.pop() {
            match ir.definition(value) {
                Definition::Result(op, _) => self.op(ir, op),
                Definition::Argument(block, index) => {
                    if self.args.insert(value) {
                        self.passed_for(ir, block, index);
                    }
                }
            }
        }
    }

    /// Marks what is passed for an argument.
    fn passed_for(&mut self, ir: &Ir, block: BlockId, index: usize) {
        let Some(region) = ir.region_of(block) else {
            return;
        };
        for op in ir.blocks(region).filter_map(|b| ir.last(b)) {
            for (successor, to) in ir.successors(op).enumerate() {
                if to == block
                    && let Some(range) = passed_operands(ir, op, successor)
                    && index < range.len()
                {
                    self.work.push(ir.operand(op, range.start + index));
                }
            }
        }
    }

    /// Erases ops and arguments that are not marked; says how many.
    fn sweep(&self, ir: &mut Ir) -> (usize, usize) {
        let mut dead = Vec::new();
        self.collect(ir, ir.root(), &mut dead);
        // Each region once: what is passed is dropped by its place.
        let holders: BTreeSet<OpId> = self.ops.iter().copied().chain([ir.root()]).collect();
        let regions: Vec<RegionId> = holders
            .into_iter()
            .flat_map(|op| ir.regions(op).collect::<Vec<_>>())
            .collect();
        let mut args = Vec::new();
        for region in regions {
            let blocks: Vec<BlockId> = ir.blocks(region).skip(1).collect();
            for block in blocks {
                for (index, arg) in ir
                    .args(block)
                    .collect::<Vec<_>>()
                    .into_iter()
                    .enumerate()
                    .rev()
                {
                    if !self.args.contains(&arg) && drop_passed(ir, block, index) {
                        args.push((block, index));
                    }
                }
            }
        }
        // Nothing that stays uses these ops or arguments any more.
        ir.erase_all(&dead);
        for (block, index) in &args {
            ir.erase_arg(*block, *index);
        }
        (dead.len(), args.len())
    }

    fn collect(&self, ir: &Ir, op: OpId, dead: &mut Vec<OpId>) {
        for region in ir.regions(op) {
            for block in ir.blocks(region) {
                for op in ir.ops_in(block) {
                    if self.ops.contains(&op) {
                        self.collect(ir, op, dead);
                    } else {
                        dead.push(op);
                    }
                }
            }
        }
    }
}

/// The operands of a terminator that become arguments of its successors, with those arguments.
fn passed(ir: &Ir, op: OpId) -> Vec<(usize, Value)> {
    let mut out = Vec::new();
    for (successor, block) in ir.successors(op).enumerate() {
        if let Some(range) = passed_operands(ir, op, successor) {
            out.extend(range.zip(ir.args(block)));
        }
    }
    out
}
