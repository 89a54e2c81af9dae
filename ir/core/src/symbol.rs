//! Symbol tables: which isolated or plain op defines a name, and what a reference means.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::attrs::{ArrayAttr, Attr, DictAttr, OpaqueAttr, SymbolRef, TypeAttr};
use crate::fmt::unquote;
use crate::id::OpId;
use crate::ir::{Ir, OpRef};
use crate::name::Name;
use crate::op::Traits;
use crate::types::Type;

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

/// Names of symbols that an op and all below it refer to, in attributes, and in types of results and block arguments.
pub fn symbol_uses(ir: &Ir, visit: &mut dyn FnMut(OpRef<'_>, &SymbolRef)) {
    ir.walk(&mut |op| op_symbols(op, &mut |symbol| visit(op, symbol)));
}

/// The symbols that an op itself names: in its attributes, in the types of its results and of the arguments of its blocks.
pub fn op_symbols(op: OpRef<'_>, visit: &mut dyn FnMut(&'static SymbolRef)) {
    for value in op.ir.results(op.id) {
        type_symbols(op.ir.ty(value), visit);
    }
    let (inner, holder) = op.inner();
    for (_, attr) in inner.attrs(holder) {
        attr_symbols(*attr, visit);
    }
    for block in inner.regions(holder).flat_map(|r| inner.blocks(r)) {
        for argument in inner.args(block) {
            type_symbols(inner.ty(argument), visit);
        }
    }
}

/// The symbol references in an attribute. Of a kind of a dialect, of an unknown one and of a type all names count that stand
/// behind `@` in its text.
pub fn attr_symbols(attr: Attr, visit: &mut dyn FnMut(&'static SymbolRef)) {
    if let Some(symbol) = attr.get::<SymbolRef>() {
        visit(symbol);
    } else if let Some(array) = attr.get::<ArrayAttr>() {
        array.0.iter().for_each(|a| attr_symbols(*a, visit));
    } else if let Some(dict) = attr.get::<DictAttr>() {
        let entries = dict.entries().iter();
        entries.for_each(|(_, a)| attr_symbols(*a, visit));
    } else if let Some(TypeAttr(ty)) = attr.get::<TypeAttr>() {
        type_symbols(*ty, visit);
    } else if attr.kind().contains('.') || attr.is::<OpaqueAttr>() {
        each_named(attr.symbols(), visit);
    }
}

/// The names behind `@` in a type's text.
fn type_symbols(ty: Type, visit: &mut dyn FnMut(&'static SymbolRef)) {
    each_named(ty.symbols(), visit);
}

fn each_named(names: &[Name], visit: &mut dyn FnMut(&'static SymbolRef)) {
    let symbols = names.iter().map(|name| Attr::symbol(*name));
    symbols
        .filter_map(|attr| attr.get::<SymbolRef>())
        .for_each(visit);
}

/// The names behind `@` in a text: as [`symbol_text`](crate::symbol_text) writes them, and with a `-` in them, which MLIR takes
/// for a letter.
pub(crate) fn symbols_in(text: &str) -> Vec<Name> {
    let mut names = Vec::new();
    for (at, _) in text.match_indices('@') {
        let rest = &text[at + 1..];
        if let Some(quoted) = quoted_name(rest) {
            names.push(quoted);
            continue;
        }
        for letters in ["_$.", "_$.-"] {
            let plain = |c: char| c.is_ascii_alphanumeric() || letters.contains(c);
            let end = rest.find(|c| !plain(c)).unwrap_or(rest.len());
            names.extend((end > 0).then(|| Name::new(&rest[..end])));
        }
    }
    names.dedup();
    names
}

/// The name in quotes at the begin of a text.
fn quoted_name(rest: &str) -> Option<Name> {
    rest.starts_with('"').then_some(())?;
    let mut escaped = false;
    let (end, _) = rest.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    })?;
    Some(Name::new(&unquote(&rest[..=end])?))
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
