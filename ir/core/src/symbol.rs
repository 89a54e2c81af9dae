//! Symbol tables: which isolated or plain op defines a name, and what a reference means.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::attrs::{Attr, SymbolRef};
use crate::id::OpId;
use crate::ir::{Ir, OpRef};
use crate::name::Name;
use crate::op::Traits;

/// The symbols defined directly in an op that is a symbol table.
pub struct SymbolTable<'a> {
    ir: &'a Ir,
    names: BTreeMap<Name, OpId>,
    doubles: Vec<(Name, OpId)>,
}

impl<'a> SymbolTable<'a> {
    /// The symbols in the regions of the root of an arena.
    pub fn new(ir: &'a Ir) -> Self {
        Self::of(ir, ir.root())
    }

    /// The symbols in the regions of an op that is no slot.
    pub fn of(ir: &'a Ir, op: OpId) -> Self {
        let mut names = BTreeMap::new();
        let mut doubles = Vec::new();
        for region in ir.regions(op) {
            for block in ir.blocks(region) {
                for op in ir.ops_in(block) {
                    let Some(name) = ir.op(op).symbol() else {
                        continue;
                    };
                    match names.entry(name) {
                        Entry::Occupied(_) => doubles.push((name, op)),
                        Entry::Vacant(free) => {
                            free.insert(op);
                        }
                    }
                }
            }
        }
        Self { ir, names, doubles }
    }

    /// The op that defines a name.
    pub fn get(&self, name: Name) -> Option<OpRef<'a>> {
        self.names.get(&name).map(|op| self.ir.op(*op))
    }
    /// All symbols, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (Name, OpRef<'a>)> + '_ {
        self.names.iter().map(|(name, op)| (*name, self.ir.op(*op)))
    }
    /// Definitions of a name that was taken.
    pub fn doubles(&self) -> &[(Name, OpId)] {
        &self.doubles
    }
}

/// The symbol tables around a place, outermost first: what a walk downward holds.
#[derive(Default)]
pub struct Scopes<'a> {
    tables: Vec<SymbolTable<'a>>,
}

impl<'a> Scopes<'a> {
    /// Enters a table.
    pub fn push(&mut self, table: SymbolTable<'a>) {
        self.tables.push(table);
    }
    /// Leaves the innermost table.
    pub fn pop(&mut self) {
        self.tables.pop();
    }
    /// The op behind a name in the nearest table that has it.
    pub fn get(&self, name: Name) -> Option<OpRef<'a>> {
        self.tables.iter().rev().find_map(|table| table.get(name))
    }
    /// The first symbol, from the nearest table outward and by name in each, that fulfils a
    /// condition.
    pub fn find(&self, holds: impl Fn(&OpRef<'a>) -> bool) -> Option<OpRef<'a>> {
        let mut tables = self.tables.iter().rev();
        tables.find_map(|table| table.iter().map(|(_, op)| op).find(&holds))
    }
    /// The op behind a reference `@a::@b`.
    pub fn resolve(&self, attr: Attr) -> Option<OpRef<'a>> {
        let path = &attr.get::<SymbolRef>()?.path;
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.get(*first)?, |op, name| {
            let (ir, id) = op.inner();
            SymbolTable::of(ir, id).get(*name)
        })
    }
}

/// Names of symbols that an op and all below it refer to, in its attributes and types.
pub fn symbol_uses(ir: &Ir, visit: &mut dyn FnMut(OpRef<'_>, &SymbolRef)) {
    ir.walk(&mut |op| {
        let attrs: Vec<(Name, Attr)> = if op.ir.child(op.id).is_some() {
            op.ir.attrs(op.id).to_vec()
        } else {
            op.ir.data(op.id).attrs.to_vec()
        };
        for (_, attr) in attrs {
            attr_symbols(attr, &mut |symbol| visit(op, symbol));
        }
    });
}

/// The symbol references in an attribute.
pub fn attr_symbols(attr: Attr, visit: &mut dyn FnMut(&'static SymbolRef)) {
    if let Some(symbol) = attr.get::<SymbolRef>() {
        visit(symbol);
    } else if let Some(array) = attr.get::<crate::attrs::ArrayAttr>() {
        array.0.iter().for_each(|a| attr_symbols(*a, visit));
    } else if let Some(dict) = attr.get::<crate::attrs::DictAttr>() {
        let entries = dict.entries().iter();
        entries.for_each(|(_, a)| attr_symbols(*a, visit));
    }
}

/// Whether a symbol may be used from outside its table: its `sym_visibility` is not `private`.
pub fn is_public(op: OpRef<'_>) -> bool {
    let visibility = op.attr("sym_visibility").and_then(Attr::as_str);
    !matches!(visibility, Some("private" | "nested"))
}

/// Whether the op is a symbol table.
pub fn is_table(ir: &Ir, op: OpId) -> bool {
    ir.has(op, Traits::SymbolTable)
}
