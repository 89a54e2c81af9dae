//! `AsmPrinter`: the pretty text of one operation, and the layout of what is long.

use std::fmt::{Display, Write};

use pretty::RcDoc;
use tir_core::{Attr, BlockId, Ir, Name, OpId, OpRef, RegionId, Type, Value, quote, symbol_text};

use crate::print::Printer;
use crate::print_region::{Entry, Style};

/// When a list is broken over several lines.
#[derive(Clone, Copy)]
enum Break {
    /// If its end is beyond the width of a line.
    Beyond,
    /// If it alone is longer than so many lines.
    Long(usize),
}

/// Writes the pretty text of one operation: the mirror of [`AsmParser`](crate::AsmParser).
///
/// The op's name is written already; what follows brings its own spaces.
pub struct AsmPrinter<'a> {
    pub(crate) p: &'a mut Printer,
    pub(crate) op: OpRef<'a>,
}

impl<'a> AsmPrinter<'a> {
    /// The op that is printed.
    pub fn op(&self) -> OpRef<'a> {
        self.op
    }
    /// Text as it is: keywords, punctuation, spaces.
    pub fn text(&mut self, text: &str) {
        self.p.out.push_str(text);
    }
    /// Anything that prints: numbers and the like.
    pub fn display(&mut self, item: impl Display) {
        let _ = write!(self.p.out, "{item}");
    }
    /// A use of a value.
    pub fn value(&mut self, value: Value) {
        self.p.value(value);
    }
    /// `%a, %b`; over several lines where it is longer than one.
    pub fn values(&mut self, values: &[Value]) {
        self.lay_out("", "", values, Break::Long(1), |p, value| p.value(*value));
    }
    /// Items with `, ` between them.
    pub fn commas<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut item: impl FnMut(&mut Self, T),
    ) {
        for (i, one) in items.into_iter().enumerate() {
            if i > 0 {
                self.text(", ");
            }
            item(self, one);
        }
    }
    /// `open item, item close`, broken over several lines where it goes beyond the line.
    pub fn list<T>(
        &mut self,
        open: &str,
        close: &str,
        items: impl IntoIterator<Item = T>,
        item: impl FnMut(&mut Self, T),
    ) {
        self.lay_out(open, close, items, Break::Beyond, item);
    }

    fn lay_out<T>(
        &mut self,
        open: &str,
        close: &str,
        items: impl IntoIterator<Item = T>,
        when: Break,
        mut item: impl FnMut(&mut Self, T),
    ) {
        let start = self.p.out.len();
        self.text(open);
        let mut cuts = Vec::new();
        for one in items {
            if !cuts.is_empty() {
                self.text(", ");
            }
            cuts.push(self.p.out.len());
            item(self, one);
        }
        self.text(close);
        let width = self.p.width();
        let breaks = match when {
            Break::Beyond => cuts.len() > 1 && self.p.column() > width,
            Break::Long(lines) => cuts.len() > 1 && self.p.out.len() - start > lines * width,
        };
        if breaks {
            self.break_up(start, &cuts, open, close);
        }
    }

    /// Lays out what was written from `start` again: as many items on a line as fit.
    fn break_up(&mut self, start: usize, cuts: &[usize], open: &str, close: &str) {
        let written = self.p.out.split_off(start);
        let end = written.len() - close.len();
        let items = cuts.iter().enumerate().map(|(i, cut)| {
            let to = cuts
                .get(i + 1)
                .map_or(end, |next| next - start - ", ".len());
            RcDoc::<()>::text(&written[cut - start..to])
        });
        let separator = RcDoc::text(",").append(RcDoc::line().group());
        let last = cuts.len().saturating_sub(1);
        let docs = items.enumerate().map(|(i, item)| match i == last {
            true => item,
            false => item.append(separator.clone()),
        });
        let docs = docs.collect();
        let indent = self.p.indentation() as isize + 4;
        let doc = RcDoc::text(open)
            .append(RcDoc::line_())
            .append(balanced(docs))
            .nest(indent)
            .append(RcDoc::text(close));
        let mut out = String::new();
        let width = self.p.width();
        let laid_out = !written.contains('\n') && doc.render_fmt(width, &mut out).is_ok();
        // Without a bracket the line ends with the space before the list.
        if laid_out && open.is_empty() {
            let kept = self.p.out.trim_end_matches(' ').len();
            self.p.out.truncate(kept);
        }
        self.p.out.push_str(if laid_out { &out } else { &written });
    }

    /// A type.
    pub fn ty(&mut self, ty: Type) {
        self.p.ty(ty);
    }
    /// `t, t`; over several lines where it is longer than two.
    pub fn types(&mut self, types: &[Type]) {
        self.lay_out("", "", types, Break::Long(2), |p, ty| p.p.ty(*ty));
    }
    /// `t`, `(t, t)` or `()`: the results of a function type.
    pub fn result_types(&mut self, types: &[Type]) {
        self.p.result_types(types);
    }
    /// `(t, t) -> t`.
    pub fn function_type(&mut self, inputs: &[Type], results: &[Type]) {
        self.lay_out("(", ")", inputs, Break::Long(2), |p, ty| p.p.ty(*ty));
        self.text(" -> ");
        self.result_types(results);
    }
    /// The types of values.
    pub fn types_of(&self, values: impl IntoIterator<Item = Value>) -> Vec<Type> {
        values
            .into_iter()
            .map(|value| self.op.ir.ty(value))
            .collect()
    }
    /// An attribute, with the type of a number.
    pub fn attr(&mut self, attr: Attr) {
        self.p.attr(attr);
    }
    /// A constant and its type, as [`AsmParser::constant`](crate::AsmParser::constant) reads it.
    pub fn constant(&mut self, attr: Attr, ty: Type) {
        self.p.attr(attr);
        if attr.type_of().is_none() {
            self.text(" : ");
            self.ty(ty);
        }
    }
    /// `@name`.
    pub fn symbol(&mut self, name: &str) {
        let _ = symbol_text(&mut self.p.out, name);
    }
    /// A string in quotes.
    pub fn string(&mut self, text: &str) {
        let _ = quote(&mut self.p.out, text);
    }
    /// `[1, 2]`.
    pub fn ints(&mut self, numbers: &[i64]) {
        self.lay_out("[", "]", numbers, Break::Long(1), |p, n| p.display(n));
    }
    /// A mixed list: numbers, and values where the number is [`DYNAMIC`](tir_core::DYNAMIC).
    pub fn indices(&mut self, dynamic: &[Value], fixed: &[i64]) {
        let mut values = dynamic.iter();
        self.list("[", "]", fixed, |p, n| {
            if *n == tir_core::DYNAMIC {
                if let Some(value) = values.next() {
                    p.value(*value);
                }
            } else {
                p.display(n);
            }
        });
    }
    /// `{a = 1, b}`; nothing at all if there are no entries.
    pub fn dictionary(&mut self, entries: &[(Name, Attr)]) {
        if !entries.is_empty() {
            self.list("{", "}", entries, |p, entry| p.p.entry(*entry));
        }
    }
    fn rest(&self, except: &[&str]) -> Vec<(Name, Attr)> {
        let info = self.op.info();
        let attrs = self.op.ir.attrs(self.op.id).iter().copied();
        attrs
            .filter(|(name, value)| {
                let default = info
                    .and_then(|info| info.field(name))
                    .and_then(|f| f.default);
                !except.contains(&name.as_str())
                    && default != Some(*value)
                    && *name != tir_core::SEGMENTS
            })
            .collect()
    }
    /// The attributes of the op that are not in `except` and not at their default: ` {a = 1}`.
    pub fn attr_dict_except(&mut self, except: &[&str]) {
        let entries = self.rest(except);
        if !entries.is_empty() {
            self.text(" ");
            self.dictionary(&entries);
        }
    }
    /// The same behind a keyword: ` attributes {a = 1}`.
    pub fn attributes_except(&mut self, except: &[&str]) {
        let entries = self.rest(except);
        if !entries.is_empty() {
            self.text(" attributes ");
            self.dictionary(&entries);
        }
    }
    /// `^block`.
    pub fn successor(&mut self, block: BlockId) {
        self.p.block_name(block);
    }
    /// `^block(%a, %b : t, t)`.
    pub fn successor_with_args(&mut self, block: BlockId, args: &[Value]) {
        self.successor(block);
        if !args.is_empty() {
            self.text("(");
            self.values(args);
            self.text(" : ");
            let types = self.types_of(args.iter().copied());
            self.types(&types);
            self.text(")");
        }
    }

    /// The names that hold in the op's regions are in use while `run` prints: for arguments of a
    /// region that stand in the op's own text.
    pub fn arguments(&mut self, region: usize, run: impl FnOnce(&mut Self, &Ir, &[Value])) {
        let (ir, id) = self.op.inner();
        let Some(region) = ir.regions(id).nth(region) else {
            return;
        };
        let args: Vec<Value> = match ir.entry(region) {
            Some(block) => ir.args(block).collect(),
            None => Vec::new(),
        };
        let child = self.p.enter(self.op, ir);
        run(self, ir, &args);
        self.p.leave(child);
    }

    /// The op's region of this index in braces. `args_said`: the arguments of its first block
    /// stand in the op's own text, so that the block shows no label.
    pub fn region(&mut self, index: usize, args_said: bool) {
        self.region_with(index, args_said, None);
    }
    /// The same; a terminator of this name that says nothing is left out.
    pub fn region_without(&mut self, index: usize, args_said: bool, terminator: impl Into<Name>) {
        self.region_with(index, args_said, Some(terminator.into()));
    }
    pub(crate) fn region_with(&mut self, index: usize, args_said: bool, implicit: Option<Name>) {
        let (ir, id): (&Ir, OpId) = self.op.inner();
        let Some(region): Option<RegionId> = ir.regions(id).nth(index) else {
            return;
        };
        // An empty region and one of an empty block look alike: the op says which it is.
        let empty_is_block = args_said
            || implicit.is_some()
            || self.op.info().is_none_or(|info| {
                info.has(tir_core::Traits::SingleBlock) || info.has(tir_core::Traits::NoTerminator)
            });
        let entry = match (args_said, empty_is_block) {
            (true, _) => Entry::Hidden,
            (false, true) => Entry::Named,
            (false, false) => Entry::Label,
        };
        let style = Style {
            entry,
            implicit,
            generic: false,
        };
        self.p
            .with_names(self.op, ir, |p| p.region(ir, region, style));
    }
    /// A new line at the indentation of the op, `deeper` levels in.
    pub fn newline(&mut self, deeper: usize) {
        self.p.indent += deeper;
        self.p.newline();
        self.p.indent -= deeper;
    }
}

/// Documents one behind the other, as a tree that is not deep: what is as deep as a list is long overflows the stack when it is
/// dropped.
fn balanced<'a>(mut docs: Vec<RcDoc<'a, ()>>) -> RcDoc<'a, ()> {
    while docs.len() > 1 {
        let pairs = docs.chunks(2).map(|pair| RcDoc::concat(pair.to_vec()));
        docs = pairs.collect();
    }
    docs.pop().unwrap_or_else(RcDoc::nil)
}
