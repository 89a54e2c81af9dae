//! Ways between the blocks of a region: what is handed over, and a block of its own for a way.

use tir::{
    At, Attr, BlockId, DenseArray, Ir, OpId, Role, SEGMENTS, Successor, Value, operand_groups,
};
use tir_func::cf::Br;

/// The values that a branch hands to its successors; `None` if its declaration does not say.
pub(crate) fn successor_operands(ir: &Ir, branch: OpId) -> Option<Vec<Vec<Value>>> {
    let groups = operand_groups(ir, branch, ir.info(branch)?)?;
    let groups = groups
        .into_iter()
        .filter(|(f, _)| f.role == Role::Successor);
    let groups: Vec<Vec<Value>> = groups.map(|(_, values)| values).collect();
    (groups.len() == ir.successors(branch).len()).then_some(groups)
}

/// Makes a branch hand other values to a successor.
pub(crate) fn set_successor_operands(ir: &mut Ir, branch: OpId, index: usize, values: &[Value]) {
    let Some(info) = ir.info(branch) else { return };
    let Some(mut groups) = operand_groups(ir, branch, info) else {
        return;
    };
    let mut successors = groups.iter_mut().filter(|(f, _)| f.role == Role::Successor);
    if let Some((_, group)) = successors.nth(index) {
        *group = values.to_vec();
    }
    let sizes: Vec<i64> = groups.iter().map(|(_, group)| group.len() as i64).collect();
    let all: Vec<Value> = groups.into_iter().flat_map(|(_, group)| group).collect();
    ir.set_operands(branch, &all);
    let segments = ir.attr(branch, SEGMENTS);
    if let Some(old) = segments.and_then(|a| a.get::<DenseArray>()) {
        let new = DenseArray {
            elem: old.elem,
            bits: sizes,
        };
        ir.set_attr(branch, SEGMENTS, Attr::new(new));
    }
}

/// Puts a block on the way of a branch to a successor; gives its end. `None` if the declaration of
/// the branch does not say what it hands over.
pub(crate) fn split_edge(ir: &mut Ir, branch: OpId, index: usize) -> Option<OpId> {
    let args = successor_operands(ir, branch)?.into_iter().nth(index)?;
    let to: BlockId = ir.successors(branch).nth(index)?;
    let between = ir.new_block_after(ir.block_of(branch)?);
    let dest = Successor { block: to, args };
    let loc = ir.loc(branch);
    let mut b = ir.at(At::End(between));
    b.loc = loc;
    let end = b.add(Br { dest });
    set_successor_operands(ir, branch, index, &[]);
    ir.set_successor(branch, index, between);
    Some(end)
}
