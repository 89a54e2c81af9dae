//! `symbol-dce`: private symbols that nobody refers to go.

use std::collections::{BTreeMap, BTreeSet};

use tir::{
    Ir, Name, OpId, OpRef, Pass, PassCx, PassResult, SymbolRef, SymbolTable, is_public, is_table,
    op_symbols, pass,
};

pass! {
    /// Erases private symbols that are not referenced from live ops.
    ///
    /// Needed are public symbols, ops that are no symbols, and what these refer to; so private
    /// functions that only call each other go together.
    pub struct SymbolDce = "symbol-dce" {}
}

impl Pass for SymbolDce {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let mut erased = 0;
        // Outermost first: a table that goes need not be looked into.
        let mut work: Vec<&mut Ir> = vec![ir];
        while let Some(ir) = work.pop() {
            if is_table(ir, ir.root()) {
                erased += sweep(ir);
            }
            work.extend(ir.children_mut().into_iter().map(|(_, child)| child));
        }
        cx.count("erased symbols", erased);
        if erased == 0 {
            cx.unchanged();
        }
        Ok(())
    }
}

/// The names that an op and all below it refer to; of a path, each part.
fn references(op: OpRef<'_>, names: &mut BTreeSet<Name>) {
    let mut add = |symbol: &'static SymbolRef| names.extend(symbol.path.iter().copied());
    op_symbols(op, &mut add);
    if let Some(child) = op.ir.child(op.id) {
        child.walk(&mut |op| op_symbols(op, &mut add));
    } else {
        for below in op.ir.walk_below(op.id) {
            let below = op.ir.op(below);
            match below.ir.child(below.id) {
                Some(child) => child.walk(&mut |op| op_symbols(op, &mut add)),
                None => op_symbols(below, &mut add),
            }
        }
    }
}

/// Erases what is not needed of the symbols defined directly in the root.
fn sweep(ir: &mut Ir) -> usize {
    let table = SymbolTable::new(ir);
    let symbols: BTreeMap<Name, OpId> = table.iter().map(|(name, op)| (name, op.id)).collect();
    let private = |op: OpId| {
        let op = ir.op(op);
        op.symbol().is_some() && !is_public(op)
    };
    let mut needed: BTreeSet<Name> = BTreeSet::new();
    for region in ir.regions(ir.root()) {
        for op in ir.blocks(region).flat_map(|b| ir.ops_in(b)) {
            if !private(op) {
                references(ir.op(op), &mut needed);
            }
        }
    }
    let mut work: Vec<Name> = needed.iter().copied().collect();
    while let Some(name) = work.pop() {
        if let Some(op) = symbols.get(&name).filter(|op| private(**op)) {
            let mut names = BTreeSet::new();
            references(ir.op(*op), &mut names);
            work.extend(names.into_iter().filter(|name| needed.insert(*name)));
        }
    }
    let dead = symbols.into_iter();
    let dead: Vec<OpId> = dead
        .filter(|(name, op)| private(*op) && !needed.contains(name))
        .map(|(_, op)| op)
        .filter(|op| ir.results(*op).all(|value| ir.is_unused(value)))
        .collect();
    for op in &dead {
        ir.erase(*op);
    }
    dead.len()
}
