//! The printer: generic form, and what all forms share.

use std::fmt::Write;

use rustc_hash::FxHashMap;
use tir_core::{
    Attr, BlockId, DenseElements, DictAttr, Ir, Loc, Name, OpRef, PROPERTIES, RegionId, Traits,
    Type, UnitAttr, key_text,
};

use crate::lower::{MODULE, Syntax};
use crate::names::{Names, number};
use crate::printer::AsmPrinter;

/// How to print.
#[derive(Clone, Debug)]
pub struct PrintOptions {
    /// All operations in generic form.
    pub generic: bool,
    /// With `loc(…)` behind each operation.
    pub locations: bool,
    /// Constants of more elements than this are left out; the text does not read back.
    pub elide_constants: Option<usize>,
    /// Columns of a line: longer lists of a pretty form are broken over several lines. Generic
    /// form has one line for an operation.
    pub width: usize,
}

impl Default for PrintOptions {
    fn default() -> Self {
        Self {
            generic: false,
            locations: false,
            elide_constants: None,
            width: 100,
        }
    }
}

/// Constants of more elements than this print as the hexadecimal digits of their bytes.
const HEX: usize = 100;
/// Lines that stand deeper than this are indented no further: otherwise the text of regions in
/// regions grows with the square of their number.
const DEEPEST: usize = 200;

/// The text of a module or another isolated operation.
pub fn print(ir: &Ir, opts: &PrintOptions) -> String {
    let mut p = Printer::new(opts);
    p.top(ir);
    p.out
}

/// The text of one operation and all below it, as it stands in its function.
pub fn print_op(op: OpRef<'_>, opts: &PrintOptions) -> String {
    let mut p = Printer::new(opts);
    if op.id == op.ir.root() {
        p.root(op.ir);
    } else {
        p.names.push(Names::new(op.ir));
        p.op(op);
        p.names.pop();
    }
    p.out
}

pub(crate) struct Printer {
    pub(crate) out: String,
    opts: PrintOptions,
    pub(crate) indent: usize,
    pub(crate) names: Vec<Names>,
    /// The names that held last, and of which arena: a function's header and its body ask for the
    /// same.
    left: Option<(usize, Names)>,
    types: FxHashMap<Type, Box<str>>,
    attrs: FxHashMap<Attr, Box<str>>,
    syntax: FxHashMap<Name, std::rc::Rc<Syntax>>,
}

impl Printer {
    fn new(opts: &PrintOptions) -> Self {
        Self {
            out: String::new(),
            opts: opts.clone(),
            indent: 0,
            names: Vec::new(),
            left: None,
            types: FxHashMap::default(),
            attrs: FxHashMap::default(),
            syntax: FxHashMap::default(),
        }
    }

    /// The outermost operation: a module that says nothing of its own is left out.
    fn top(&mut self, ir: &Ir) {
        let root = ir.root();
        let mut regions = ir.regions(root);
        let region = regions.next();
        let block = region.and_then(|region| ir.entry(region));
        let bare = &*ir.root_name() == MODULE
            && !self.opts.generic
            && !self.opts.locations
            && ir.attrs(root).is_empty()
            && regions.next().is_none()
            && region.is_some_and(|region| ir.blocks(region).len() == 1);
        match block {
            Some(block) if bare && ir.args(block).len() == 0 && !self.lone_module(ir, block) => {
                self.names.push(Names::new(ir));
                for op in ir.ops_in(block) {
                    self.op(ir.op(op));
                    self.out.push('\n');
                }
                self.names.pop();
            }
            _ => {
                self.root(ir);
                self.out.push('\n');
            }
        }
    }

    /// Whether a block holds nothing but a module, which would be read as the file's.
    fn lone_module(&self, ir: &Ir, block: BlockId) -> bool {
        match (ir.first(block), ir.last(block)) {
            (Some(first), Some(last)) => first == last && &*ir.name(first) == MODULE,
            _ => false,
        }
    }

    /// An isolated operation that is a root: its results and operands are unknown.
    fn root(&mut self, ir: &Ir) {
        self.names.push(Names::new(ir));
        self.body(ir.root_ref());
        self.names.pop();
    }

    /// Where the current line began.
    pub(crate) fn column(&self) -> usize {
        let line = self.out.rfind('\n').map_or(0, |at| at + 1);
        self.out[line..].chars().count()
    }

    pub(crate) fn newline(&mut self) {
        self.out.push('\n');
        let blank = "                                ";
        let mut left = self.indentation();
        while left > 0 {
            let step = left.min(blank.len());
            self.out.push_str(&blank[..step]);
            left -= step;
        }
    }
    /// The columns that a line is indented by.
    pub(crate) fn indentation(&self) -> usize {
        2 * self.indent.min(DEEPEST)
    }
    pub(crate) fn width(&self) -> usize {
        self.opts.width
    }

    pub(crate) fn value(&mut self, value: tir_core::Value) {
        if let Some(names) = self.names.last() {
            names.value(&mut self.out, value);
        }
    }

    pub(crate) fn ty(&mut self, ty: Type) {
        if let Some(text) = self.types.get(&ty) {
            self.out.push_str(text);
            return;
        }
        let text = ty.to_string();
        self.out.push_str(&text);
        self.types.insert(ty, text.into());
    }

    pub(crate) fn attr(&mut self, attr: Attr) {
        if let Some(dense) = attr.get::<DenseElements>() {
            return self.dense(attr, dense);
        }
        if let Some(text) = self.attrs.get(&attr) {
            self.out.push_str(text);
            return;
        }
        let text = attr.to_string();
        self.out.push_str(&text);
        if text.len() <= 4096 {
            self.attrs.insert(attr, text.into());
        }
    }

    fn dense(&mut self, attr: Attr, dense: &DenseElements) {
        let stored = dense.stored();
        if self
            .opts
            .elide_constants
            .is_some_and(|limit| stored > limit)
        {
            self.out.push_str("dense_resource<__elided__> : ");
            return self.ty(dense.ty);
        }
        let packed = dense.ty.elem().bits() == Some(1);
        if stored <= HEX || packed {
            let _ = write!(self.out, "{attr}");
            return;
        }
        self.out.reserve(dense.data.len() * 2 + 64);
        self.out.push_str("dense<\"0x");
        for byte in &dense.data {
            for digit in [byte >> 4, byte & 15] {
                let base = if digit < 10 { b'0' } else { b'A' - 10 };
                self.out.push((base + digit) as char);
            }
        }
        self.out.push_str("\"> : ");
        self.ty(dense.ty);
    }

    /// `a = 1, b`: entries of a dictionary without braces.
    pub(crate) fn entry(&mut self, (name, value): (Name, Attr)) {
        let _ = key_text(&mut self.out, &name);
        if !value.is::<UnitAttr>() {
            self.out.push_str(" = ");
            self.attr(value);
        }
    }

    fn entries(&mut self, entries: impl Iterator<Item = (Name, Attr)>) {
        for (i, entry) in entries.enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.entry(entry);
        }
    }

    /// An operation with its results, without indentation and line end.
    pub(crate) fn op(&mut self, op: OpRef<'_>) {
        let results = op.ir.results(op.id);
        if results.len() > 0
            && let Some(names) = self.names.last()
        {
            let mut open = 0u32;
            for value in results {
                if names.begins(value) {
                    if open > 1 {
                        self.out.push(':');
                        number(&mut self.out, open);
                    }
                    if open > 0 {
                        self.out.push_str(", ");
                    }
                    names.definition(&mut self.out, value);
                    open = 0;
                }
                open += 1;
            }
            if open > 1 {
                self.out.push(':');
                number(&mut self.out, open);
            }
            self.out.push_str(" = ");
        }
        self.body(op);
    }

    /// An operation without its results.
    fn body(&mut self, op: OpRef<'_>) {
        let name = op.name();
        if self.opts.generic || !self.pretty(op, name) {
            self.generic(op, name);
        }
        if self.opts.locations {
            self.out.push(' ');
            self.loc(op.loc());
        }
    }

    fn loc(&mut self, loc: Loc) {
        let _ = write!(self.out, "{loc}");
    }

    pub(crate) fn syntax(&mut self, name: Name) -> std::rc::Rc<Syntax> {
        let make = || std::rc::Rc::new(Syntax::of(name, name.info()));
        self.syntax.entry(name).or_insert_with(make).clone()
    }

    fn pretty(&mut self, op: OpRef<'_>, name: Name) -> bool {
        let syntax = self.syntax(name);
        match &*syntax {
            Syntax::Custom(object) => {
                self.out.push_str(&name);
                let object = *object;
                object.print(op, &mut AsmPrinter { p: self, op });
                true
            }
            Syntax::Format(format) => match op.info() {
                Some(info) if crate::format_print::fits(op, info, format) => {
                    self.out.push_str(&name);
                    let mut p = AsmPrinter { p: self, op };
                    crate::format_print::print(&mut p, info, format);
                    true
                }
                _ => false,
            },
            _ if &*name == MODULE => self.module(op),
            _ => false,
        }
    }

    /// `builtin.module` where its dialect does not say how it is written.
    fn module(&mut self, op: OpRef<'_>) -> bool {
        let regions: Vec<_> = op.regions().collect();
        let [(ir, region)] = regions[..] else {
            return false;
        };
        let plain = ir.blocks(region).len() == 1
            && ir
                .entry(region)
                .is_some_and(|block| ir.args(block).len() == 0);
        if !plain {
            return false;
        }
        self.out.push_str(MODULE);
        let mut p = AsmPrinter { p: self, op };
        let symbol = op
            .attr("sym_name")
            .filter(|a| a.as_str().is_some() && a.type_of().is_none());
        if let Some(name) = symbol.and_then(Attr::as_str) {
            p.text(" ");
            p.symbol(name);
            p.attributes_except(&["sym_name"]);
        } else {
            p.attributes_except(&[]);
        }
        p.text(" ");
        p.region(0, false);
        true
    }

    fn generic(&mut self, op: OpRef<'_>, name: Name) {
        self.out.push('"');
        self.out.push_str(&name);
        self.out.push_str("\"(");
        for (i, value) in op.ir.operands(op.id).enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.value(value);
        }
        self.out.push(')');
        let successors = op.ir.successors(op.id);
        if successors.len() > 0 {
            self.out.push('[');
            for (i, block) in successors.enumerate() {
                if i > 0 {
                    self.out.push_str(", ");
                }
                self.block_name(block);
            }
            self.out.push(']');
        }
        let attrs = op.ir.attrs(op.id);
        let info = op.info();
        let kept = |name: Name| info.is_none() && name == PROPERTIES;
        let declared = |name: Name| kept(name) || info.is_some_and(|info| info.declares(name));
        let properties = match info {
            Some(_) => None,
            None => op.attr(PROPERTIES),
        };
        if let Some(dictionary) = properties.and_then(|a| a.get::<DictAttr>()) {
            self.out.push_str(" <{");
            self.entries(dictionary.entries().iter().copied());
            self.out.push_str("}>");
        } else if attrs.iter().any(|(name, _)| declared(*name)) {
            self.out.push_str(" <{");
            self.entries(attrs.iter().copied().filter(|(name, _)| declared(*name)));
            self.out.push_str("}>");
        }
        let (ir, inner) = op.inner();
        if ir.regions(inner).len() > 0 {
            self.out.push_str(" (");
            self.with_names(op, ir, |p| {
                for (i, region) in ir.regions(inner).enumerate() {
                    if i > 0 {
                        p.out.push_str(", ");
                    }
                    p.region(ir, region, Style::generic());
                }
            });
            self.out.push(')');
        }
        if attrs.iter().any(|(name, _)| !declared(*name)) {
            self.out.push_str(" {");
            self.entries(attrs.iter().copied().filter(|(name, _)| !declared(*name)));
            self.out.push('}');
        }
        self.out.push_str(" : (");
        for (i, value) in op.ir.operands(op.id).enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.ty(op.ir.ty(value));
        }
        self.out.push_str(") -> ");
        let results = op.ir.results(op.id);
        let types: tir_core::SmallVec<[Type; 2]> = results.map(|v| op.ir.ty(v)).collect();
        self.result_types(&types);
    }

    /// `t`, `(t, t)` or `()`: a function type alone in parentheses too.
    pub(crate) fn result_types(&mut self, types: &[Type]) {
        match types {
            [one] if !one.is::<tir_core::FunctionType>() => self.ty(*one),
            _ => {
                self.out.push('(');
                self.type_list(types);
                self.out.push(')');
            }
        }
    }
    pub(crate) fn type_list(&mut self, types: &[Type]) {
        for (i, ty) in types.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.ty(*ty);
        }
    }

    pub(crate) fn block_name(&mut self, block: BlockId) {
        if let Some(names) = self.names.last() {
            names.block(&mut self.out, block);
        }
    }

    /// A region in braces; the names of its arena are the current ones.
    pub(crate) fn region(&mut self, ir: &Ir, region: RegionId, style: Style) {
        self.out.push('{');
        let count = ir.blocks(region).len();
        let mut preds = None;
        for (i, block) in ir.blocks(region).enumerate() {
            let has_args = ir.args(block).len() > 0;
            let ops = ir.first(block).is_some();
            let label = i > 0
                || match style.entry {
                    Entry::Label => has_args || !ops,
                    Entry::Named => has_args,
                    Entry::Hidden => false,
                }
                || i == 0 && has_preds(ir, block, &mut preds, region, count);
            if label {
                self.newline();
                self.label(ir, block);
                if i > 0 {
                    self.predecessors(ir, region, block, &mut preds);
                }
            }
            self.indent += 1;
            for op in ir.ops_in(block) {
                if Some(op) == ir.last(block)
                    && i + 1 == count
                    && style
                        .implicit
                        .is_some_and(|name| says_nothing(ir.op(op), name))
                {
                    continue;
                }
                self.newline();
                self.op(ir.op(op));
            }
            self.indent -= 1;
        }
        // A region without blocks is `{}` in pretty form.
        if count > 0 || style.generic {
            self.newline();
        }
        self.out.push('}');
    }

    fn label(&mut self, ir: &Ir, block: BlockId) {
        self.block_name(block);
        if ir.args(block).len() > 0 {
            self.out.push('(');
            for (i, value) in ir.args(block).enumerate() {
                if i > 0 {
                    self.out.push_str(", ");
                }
                self.value(value);
                self.out.push_str(": ");
                self.ty(ir.ty(value));
            }
            self.out.push(')');
        }
        self.out.push(':');
    }

    /// `  // pred: ^bb0`, as MLIR writes it.
    fn predecessors(
        &mut self,
        ir: &Ir,
        region: RegionId,
        block: BlockId,
        preds: &mut Option<Preds>,
    ) {
        let preds = preds.get_or_insert_with(|| predecessors(ir, region));
        let empty = Vec::new();
        let mine = preds.get(&block).unwrap_or(&empty).clone();
        match mine.len() {
            0 => self.out.push_str("  // no predecessors"),
            1 => self.out.push_str("  // pred: "),
            n => {
                let _ = write!(self.out, "  // {n} preds: ");
            }
        }
        for (i, pred) in mine.into_iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.block_name(pred);
        }
    }

    /// Runs with the names of the arena that the regions of an op live in.
    pub(crate) fn with_names(&mut self, op: OpRef<'_>, ir: &Ir, run: impl FnOnce(&mut Self)) {
        let child = self.enter(op, ir);
        run(self);
        self.leave(child);
    }

    /// The names of the arena that the regions of an op live in hold from now on; says whether
    /// they are others than before, as [`leave`](Self::leave) asks.
    pub(crate) fn enter(&mut self, op: OpRef<'_>, ir: &Ir) -> Option<usize> {
        if std::ptr::eq(ir, op.ir) {
            return None;
        }
        // Nothing changes while it is printed: the address says which arena it is.
        let address = std::ptr::from_ref(ir).addr();
        let names = match (self.left.take(), self.names.last()) {
            (Some((left, names)), _) if left == address => names,
            (_, Some(outer)) => outer.child(op, ir),
            (_, None) => Names::new(ir),
        };
        self.names.push(names);
        Some(address)
    }
    /// The names before hold again.
    pub(crate) fn leave(&mut self, child: Option<usize>) {
        if let Some(address) = child {
            self.left = self.names.pop().map(|names| (address, names));
        }
    }
}

type Preds = FxHashMap<BlockId, Vec<BlockId>>;

fn predecessors(ir: &Ir, region: RegionId) -> Preds {
    let mut preds = Preds::default();
    for block in ir.blocks(region) {
        if let Some(last) = ir.last(block) {
            for successor in ir.successors(last) {
                let list = preds.entry(successor).or_default();
                if !list.contains(&block) {
                    list.push(block);
                }
            }
        }
    }
    preds
}

/// Whether the entry block must show its label, since something branches to it.
fn has_preds(
    ir: &Ir,
    block: BlockId,
    preds: &mut Option<Preds>,
    region: RegionId,
    count: usize,
) -> bool {
    if count < 2 && ir.last(block).is_none_or(|op| ir.successors(op).len() == 0) {
        return false;
    }
    preds
        .get_or_insert_with(|| predecessors(ir, region))
        .contains_key(&block)
}

/// Whether an op is a terminator of this name that says nothing.
fn says_nothing(op: OpRef<'_>, name: Name) -> bool {
    op.name() == name
        && op.ir.operands(op.id).len() == 0
        && op.ir.results(op.id).len() == 0
        && op.ir.attrs(op.id).is_empty()
        && op.ir.regions(op.id).len() == 0
        && op.ir.successors(op.id).len() == 0
        && op.ir.has(op.id, Traits::Terminator)
}

/// When the first block of a region shows its label.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// If it has arguments or no operations.
    Label,
    /// If it has arguments.
    Named,
    /// Never: its arguments are said elsewhere.
    Hidden,
}

/// How a region prints.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    pub(crate) entry: Entry,
    pub(crate) implicit: Option<Name>,
    pub(crate) generic: bool,
}
impl Style {
    fn generic() -> Self {
        Self {
            entry: Entry::Label,
            implicit: None,
            generic: true,
        }
    }
}
