//! `reorder`: the ops of a function on tensors in an order in which fewer bytes live at once.
//!
//! A step ([`order`](crate::order)) is an op of the function's body; what stands in its regions goes with it. A tensor that no
//! op says to lie in the buffer of an operand ([`BufferizableOp`]) has a buffer of its own, but for arguments and constants,
//! which are there whatever the order. What an op writes in place has to come behind all that reads it before, so that
//! no order needs a copy that the text does not need. Ops with effects stay in their order.

use std::collections::{HashMap, HashSet};

use tir::{At, Diagnostic, Ir, OpId, Value};
use tir_memref::bufferize::BufferizableOp;

use crate::order::{Held, Options, Order, Program, Step};

/// What became of a function.
#[derive(Clone, Debug)]
pub struct Reordered {
    /// Bytes that live at once at most, in the order of the text.
    pub before: u64,
    /// The order that was found.
    pub order: Order,
}

/// Orders the ops of the function at the root of an arena; `None`, and nothing is changed, where it has several
/// blocks. The order of the text stays unless another has a lower peak.
///
/// Errors: a tensor whose size is not known.
pub fn reorder(ir: &mut Ir, options: &Options) -> Result<Option<Reordered>, Diagnostic> {
    let Some((ops, end)) = steps(ir) else {
        return Ok(None);
    };
    let program = program(ir, &ops, end)?;
    let source: Vec<usize> = (0..ops.len()).collect();
    let before = program.peak(&source);
    let order = program.order(options);
    if order.steps != source {
        for step in &order.steps {
            ir.move_op(ops[*step], At::Before(end));
        }
    }
    Ok(Some(Reordered { before, order }))
}

/// Bytes that live at once at most in the order of the text; `None` where a function has several blocks, or sizes that are not
/// known.
pub fn peak(ir: &Ir) -> Option<u64> {
    let (ops, end) = steps(ir)?;
    let program = program(ir, &ops, end).ok()?;
    let source: Vec<usize> = (0..ops.len()).collect();
    Some(program.peak(&source))
}

/// The ops of a function of one block, and the one that ends it.
fn steps(ir: &Ir) -> Option<(Vec<OpId>, OpId)> {
    let body = ir.regions(ir.root()).next()?;
    let mut blocks = ir.blocks(body);
    let (block, None) = (blocks.next()?, blocks.next()) else {
        return None;
    };
    let mut ops: Vec<OpId> = ir.ops_in(block).collect();
    let end = ops.pop()?;
    Some((ops, end))
}

/// The steps of ops that end in one which keeps what it reads.
fn program(ir: &Ir, ops: &[OpId], end: OpId) -> Result<Program, Diagnostic> {
    let number: HashMap<OpId, usize> = ops.iter().enumerate().map(|(i, op)| (*op, i)).collect();
    let mut program = Program::default();
    // The buffer of each value, and the steps that touch each buffer.
    let mut lies: HashMap<Value, usize> = HashMap::new();
    let mut touched: Vec<Vec<usize>> = Vec::new();
    let mut effect: Option<usize> = None;
    let last = last_uses(ir, ops, &number);
    for (at, op) in ops.iter().enumerate() {
        let mut step = Step::default();
        let mut touches: Vec<usize> = Vec::new();
        for value in reads(ir, *op) {
            step.needs.extend(ir.owner(value).and_then(|by| {
                let by = std::iter::successors(Some(by), |op| ir.parent(*op));
                by.into_iter().find_map(|op| number.get(&op).copied())
            }));
            touches.extend(lies.get(&value));
        }
        step.needs.retain(|before| *before != at);
        if !ir.is_pure(*op) {
            step.needs.extend(effect.replace(at));
        }
        let rules = ir
            .info(*op)
            .and_then(|i| i.interface::<dyn BufferizableOp>());
        let undefined = rules.is_some_and(|rules| rules.results_are_undefined(ir.op(*op)));
        let shared = rules.map_or_else(Vec::new, |rules| rules.aliasing_operands(ir.op(*op)));
        for (index, result) in ir.results(*op).enumerate() {
            if ir.ty(result).shape().is_none() || ir.constant(result).is_some() {
                continue;
            }
            let from = shared.iter().find(|alias| alias.result == index);
            let operand = from.and_then(|alias| ir.operands(*op).nth(alias.operand));
            let buffer = operand.and_then(|operand| lies.get(&operand)).copied();
            let writes = from.is_some_and(|alias| alias.writes);
            // What others read later is copied before it is written; so is what is not of this function.
            let free = |buffer: usize| {
                let mut others = lies.iter().filter(|(_, of)| **of == buffer);
                others.all(|(value, _)| last.get(value).is_none_or(|last| *last <= at))
            };
            match buffer {
                Some(buffer) if !writes => {
                    lies.insert(result, buffer);
                    continue;
                }
                Some(buffer) if free(buffer) => {
                    step.needs.extend(&touched[buffer]);
                    lies.insert(result, buffer);
                    continue;
                }
                // A view of what is there in any case.
                None if from.is_some() && !writes => continue,
                _ => {}
            }
            let ty = ir.ty(result);
            let bytes = ty.elements().zip(ty.bytes()).map(|(n, b)| n * b);
            let bytes = bytes.and_then(|n| u64::try_from(n).ok()).ok_or_else(|| {
                let text = format!("the size of this {ty} is not known");
                Diagnostic::error(text).at(ir.loc(*op))
            })?;
            let new = program.buffers.len();
            program.buffers.push(Held { bytes, kept: false });
            touched.push(Vec::new());
            lies.insert(result, new);
            if !undefined {
                touches.push(new);
            }
        }
        touches.sort_unstable();
        touches.dedup();
        for buffer in &touches {
            touched[*buffer].push(at);
        }
        step.touches = touches;
        step.needs.sort_unstable();
        step.needs.dedup();
        program.steps.push(step);
    }
    for value in reads(ir, end) {
        if let Some(buffer) = lies.get(&value) {
            program.buffers[*buffer].kept = true;
        }
    }
    Ok(program)
}

/// The last step that uses each value; what ends the function comes behind all.
fn last_uses(ir: &Ir, ops: &[OpId], number: &HashMap<OpId, usize>) -> HashMap<Value, usize> {
    let mut last = HashMap::new();
    for op in ops {
        for result in ir.results(*op) {
            let steps = ir.uses(result).map(|used| {
                let mut around = std::iter::successors(Some(used.op), |op| ir.parent(*op));
                let step = around.find_map(|op| number.get(&op).copied());
                step.unwrap_or(usize::MAX)
            });
            last.extend(steps.max().map(|step| (result, step)));
        }
    }
    last
}

/// The values that an op uses, itself or in its regions, each once, in order.
fn reads(ir: &Ir, op: OpId) -> Vec<Value> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    let mut work = vec![op];
    while let Some(op) = work.pop() {
        found.extend(ir.operands(op).filter(|value| seen.insert(*value)));
        let inner = ir.regions(op).flat_map(|region| ir.blocks(region));
        work.extend(inner.flat_map(|block| ir.ops_in(block)));
    }
    found
}
