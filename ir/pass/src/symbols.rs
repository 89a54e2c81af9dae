//! What a pass on an isolated op may know of the symbols around it: a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use tir_core::{Attr, Ir, Loc, Name, OpRef, SymbolTable, is_public, is_table};

/// What is known of a symbol of a table around.
#[derive(Clone, Debug)]
pub struct SymbolInfo {
    /// Its name.
    pub name: Name,
    /// The name of the op that defines it.
    pub op: Name,
    /// Whether it may be used from outside its table.
    pub public: bool,
    /// The attributes of that op.
    pub attrs: Vec<(Name, Attr)>,
    /// Where it is defined.
    pub loc: Loc,
}

impl SymbolInfo {
    fn new(name: Name, op: OpRef<'_>) -> Self {
        Self {
            name,
            op: op.name(),
            public: is_public(op),
            attrs: op.ir.attrs(op.id).to_vec(),
            loc: op.loc(),
        }
    }
    /// An attribute of the op that defines it.
    pub fn attr(&self, name: &str) -> Option<Attr> {
        let found = self.attrs.iter().find(|(key, _)| *key == name)?;
        Some(found.1)
    }
}

/// The tables around a place, the nearest first.
pub(crate) struct SymbolScope {
    table: BTreeMap<Name, SymbolInfo>,
    outer: Option<Arc<SymbolScope>>,
}

impl SymbolScope {
    /// The scope of what is directly below an isolated op.
    pub(crate) fn below(ir: &Ir, outer: Option<&Arc<SymbolScope>>) -> Option<Arc<SymbolScope>> {
        if !is_table(ir, ir.root()) {
            return outer.cloned();
        }
        let table = SymbolTable::new(ir);
        let infos = table
            .iter()
            .map(|(name, op)| (name, SymbolInfo::new(name, op)));
        Some(Arc::new(SymbolScope {
            table: infos.collect(),
            outer: outer.cloned(),
        }))
    }

    pub(crate) fn get(&self, name: Name) -> Option<&SymbolInfo> {
        let found = self.table.get(&name);
        found.or_else(|| self.outer.as_ref()?.get(name))
    }
}
