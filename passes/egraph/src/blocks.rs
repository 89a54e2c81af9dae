//! The blocks of an arena, in the order in which they are worked on.

use tir::{BlockId, Ir, Traits};

/// The blocks of an arena whose order counts, inner ones first.
pub fn blocks(ir: &Ir) -> Vec<BlockId> {
    let mut holders = vec![ir.root()];
    holders.extend(ir.walk_ids());
    let ordered = |op: &tir::OpId| !ir.has(*op, Traits::GraphRegion);
    let holders = holders.into_iter().rev().filter(ordered);
    let regions = holders.flat_map(|op| ir.regions(op).collect::<Vec<_>>());
    regions
        .flat_map(|region| ir.blocks(region).collect::<Vec<_>>())
        .collect()
}

/// The symbol of the root of an arena, or what kind of op it is.
pub fn symbol(ir: &Ir) -> String {
    let symbol = ir.attr(ir.root(), "sym_name");
    let symbol = symbol.and_then(|attr| attr.as_str().map(str::to_string));
    symbol.unwrap_or_else(|| ir.root_name().to_string())
}
