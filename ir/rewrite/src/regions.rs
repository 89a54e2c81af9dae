//! Simplification of control flow between blocks: unreachable blocks, unused block arguments.

use std::collections::HashSet;
use std::ops::Range;

use tir_core::{
    Attr, BlockId, DenseArray, Dominance, Ir, OpId, RegionId, Role, SEGMENTS, Value, operand_groups,
};

/// All regions of an arena that have more than one block.
fn branching(ir: &Ir) -> Vec<RegionId> {
    let ops = std::iter::once(ir.root()).chain(ir.walk_ids());
    let regions = ops.flat_map(|op| ir.regions(op).collect::<Vec<_>>());
    regions
        .filter(|region| ir.blocks(*region).len() > 1)
        .collect()
}

/// Erases the blocks of an arena that no path from their region's entry reaches; says how many.
pub fn erase_unreachable(ir: &mut Ir) -> usize {
    let mut erased = 0;
    for region in branching(ir) {
        // A region inside an unreachable block went with it.
        if !ir.contains_region(region) {
            continue;
        }
        let reached: HashSet<BlockId> =
            Dominance::default().order(ir, region).into_iter().collect();
        let dead: Vec<BlockId> = ir.blocks(region).filter(|b| !reached.contains(b)).collect();
        let ops: Vec<OpId> = dead
            .iter()
            .flat_map(|b| ir.ops_in(*b).collect::<Vec<_>>())
            .collect();
        ir.erase_all(&ops);
        for block in &dead {
            ir.erase_block(*block);
        }
        erased += dead.len();
    }
    erased
}

/// The operands of a terminator that become the arguments of its successor `index`; `None` if
/// its table does not say.
pub fn passed_operands(ir: &Ir, op: OpId, index: usize) -> Option<Range<usize>> {
    let info = ir.info(op)?;
    if info.fields.iter().any(|f| f.role == Role::Successors) {
        return None;
    }
    let mut at = 0;
    let mut successor = 0;
    for (field, values) in operand_groups(ir, op, info)? {
        if field.role == Role::Successor {
            if successor == index {
                return Some(at..at + values.len());
            }
            successor += 1;
        }
        at += values.len();
    }
    None
}

/// Erases the arguments that nobody uses of blocks that are not entries, with what is passed for
/// them; says how many.
pub fn erase_dead_args(ir: &mut Ir) -> usize {
    let mut erased = 0;
    for region in branching(ir) {
        let blocks: Vec<BlockId> = ir.blocks(region).skip(1).collect();
        for block in blocks {
            let count = ir.args(block).len();
            for index in (0..count).rev() {
                if ir.is_unused(ir.arg(block, index)) && drop_passed(ir, block, index) {
                    ir.erase_arg(block, index);
                    erased += 1;
                }
            }
        }
    }
    erased
}

/// Erases what is passed for an argument of a block; says whether all terminators that go there
/// say what that is. The argument itself stays.
pub fn drop_passed(ir: &mut Ir, block: BlockId, index: usize) -> bool {
    let Some(region) = ir.region_of(block) else {
        return false;
    };
    let mut places = Vec::new();
    let terminators: Vec<OpId> = ir.blocks(region).filter_map(|b| ir.last(b)).collect();
    for op in terminators {
        for (i, to) in ir.successors(op).enumerate() {
            if to == block {
                match passed_operands(ir, op, i) {
                    Some(range) if index < range.len() => places.push((op, i, range.start + index)),
                    _ => return false,
                }
            }
        }
    }
    // The last first, so that positions before it stay.
    for (op, successor, operand) in places.into_iter().rev() {
        erase_operand(ir, op, successor, operand);
    }
    true
}

/// Erases an operand that is passed to a successor.
fn erase_operand(ir: &mut Ir, op: OpId, successor: usize, operand: usize) {
    let group = ir.info(op).and_then(|info| {
        let groups = info.fields.iter().filter(|f| f.role.is_operands());
        let mut groups = groups.enumerate();
        groups
            .by_ref()
            .filter(|(_, f)| f.role == Role::Successor)
            .nth(successor)
            .map(|(i, _)| i)
    });
    let mut operands: Vec<Value> = ir.operands(op).collect();
    operands.remove(operand);
    ir.set_operands(op, &operands);
    if let Some(group) = group
        && let Some(sizes) = ir.attr(op, SEGMENTS).and_then(Attr::get::<DenseArray>)
    {
        let mut sizes = sizes.clone();
        if let Some(size) = sizes.bits.get_mut(group) {
            *size -= 1;
        }
        ir.set_attr(op, SEGMENTS, Attr::new(sizes));
    }
}
