//! How many bytes of each space are allocated at the points of a function, in the order of its text: what checks go by.

use std::collections::HashMap;

use tir::{Access, BlockId, Ir, MemRefType, Name, OpId, Value};
use tir_memref::Alloc;

/// Bytes that are allocated in each space.
pub(crate) type Held = HashMap<Name, i64>;

/// Calls `at` behind each op of the function at the root of an arena with what is allocated there by the allocations that
/// count. Of branches one is taken; a loop holds no more in its second iteration than in its first.
pub(crate) fn each_point(ir: &Ir, counts: &dyn Fn(OpId) -> bool, at: &mut dyn FnMut(OpId, &Held)) {
    if let Some(body) = ir.body_block(ir.root(), 0) {
        let mut walk = Walk { ir, counts, at };
        walk.block(body, &mut Held::new());
    }
}

struct Walk<'a> {
    ir: &'a Ir,
    counts: &'a dyn Fn(OpId) -> bool,
    at: &'a mut dyn FnMut(OpId, &Held),
}

impl Walk<'_> {
    fn block(&mut self, block: BlockId, held: &mut Held) {
        let ir = self.ir;
        for op in ir.ops_in(block) {
            if let Some(alloc) = ir.get::<Alloc>(op).filter(|_| (self.counts)(op)) {
                let made = ir.result(op, 0);
                if let Some(space) = space(ir, made) {
                    let now = held.entry(space).or_insert(0);
                    *now = aligned(*now, alloc.alignment.unwrap_or(1));
                    *now = now.saturating_add(bytes(ir, made).unwrap_or(0));
                }
            }
            let ended = ir.own_effects(op).into_iter().flatten();
            let ended = ended.filter(|effect| effect.access == Access::Free);
            for value in ended.filter_map(|effect| effect.on) {
                let made = ir
                    .owner(value)
                    .filter(|op| ir.is::<Alloc>(*op) && (self.counts)(*op));
                if let (Some(_), Some(space)) = (made, space(ir, value))
                    && let Some(now) = held.get_mut(&space)
                {
                    *now = now.saturating_sub(bytes(ir, value).unwrap_or(0));
                }
            }
            let mut most = held.clone();
            for region in ir.regions(op) {
                let mut own = held.clone();
                for block in ir.blocks(region) {
                    self.block(block, &mut own);
                }
                for (space, bytes) in own {
                    let most = most.entry(space).or_insert(0);
                    *most = (*most).max(bytes);
                }
            }
            *held = most;
            (self.at)(op, held);
        }
    }
}

/// The multiple of an alignment that is no less.
pub(crate) fn aligned(bytes: i64, align: i64) -> i64 {
    let rest = bytes.rem_euclid(align.max(1));
    match rest {
        0 => bytes,
        rest => bytes.saturating_add(align - rest),
    }
}

/// The bytes of a memref; none if they are not known, or not to be counted.
pub(crate) fn bytes(ir: &Ir, memref: Value) -> Option<i64> {
    let ty = ir.ty(memref);
    let bytes = ty.elements()?.checked_mul(ty.bytes()?)?;
    i64::try_from(bytes).ok()
}

/// The space of a memref, if it says one.
pub(crate) fn space(ir: &Ir, memref: Value) -> Option<Name> {
    ir.ty(memref).get::<MemRefType>()?.space_name()
}
