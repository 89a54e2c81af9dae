//! The names that values and blocks print by.

use rustc_hash::{FxHashMap, FxHashSet};
use tir_core::{BlockId, FloatAttr, IntAttr, Ir, Name, OpId, OpRef, RegionId, Traits, Value};

/// The name of a value, or of the first of a group of results.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Unset,
    Number(u32),
    Argument(u32),
    Hint(Name),
    /// A hint that is taken, with a number that makes it free.
    Another(Name, u32),
}

/// Names in one arena.
pub(crate) struct Names {
    /// By the index of a value: the name, and which of a group it is, if of several.
    values: Vec<(Label, u32)>,
    blocks: FxHashMap<BlockId, (u32, Option<Name>)>,
    /// What is taken in a region that holds values and isolated operations.
    taken: FxHashMap<RegionId, Taken>,
}

/// Names that are taken around an isolated operation. It cannot use these values, but MLIR wants
/// names that differ all the same.
#[derive(Clone, Default)]
struct Taken {
    next: u32,
    arg: u32,
    hints: FxHashSet<Name>,
}

const ALONE: u32 = u32::MAX;

struct Namer<'a> {
    ir: &'a Ir,
    names: Names,
    /// Hints in use in the regions around, and how often each was asked for.
    used: FxHashSet<Name>,
    another: FxHashMap<Name, u32>,
}

impl Names {
    /// Names all values of an isolated operation. As in MLIR, those of a region come before those
    /// of the regions in it, and sibling regions use the same numbers.
    pub(crate) fn new(ir: &Ir) -> Self {
        Self::within(ir, &Taken::default())
    }

    /// Names the values of the isolated operation in the slot `op` of the arena that these names
    /// are of.
    pub(crate) fn child(&self, op: OpRef<'_>, child: &Ir) -> Self {
        let block = op.ir.block_of(op.id);
        let region = block.and_then(|block| op.ir.region_of(block));
        match region.and_then(|region| self.taken.get(&region)) {
            Some(taken) => Self::within(child, taken),
            None => Self::new(child),
        }
    }

    fn within(ir: &Ir, taken: &Taken) -> Self {
        let names = Self {
            values: Vec::new(),
            blocks: FxHashMap::default(),
            taken: FxHashMap::default(),
        };
        let mut namer = Namer {
            ir,
            names,
            used: taken.hints.clone(),
            another: FxHashMap::default(),
        };
        for region in ir.regions(ir.root()) {
            namer.region(region, taken.next, taken.arg);
        }
        namer.names
    }

    /// Writes a use of a value.
    pub(crate) fn value(&self, out: &mut String, value: Value) {
        let (label, index) = self.get(value);
        self.label(out, label, value);
        if index != ALONE {
            out.push('#');
            number(out, index);
        }
    }
    /// Writes the definition of a value: without its number in a group.
    pub(crate) fn definition(&self, out: &mut String, value: Value) {
        let (label, _) = self.get(value);
        self.label(out, label, value);
    }
    /// Whether a result begins a group.
    pub(crate) fn begins(&self, value: Value) -> bool {
        let (_, index) = self.get(value);
        index == ALONE || index == 0
    }
    fn get(&self, value: Value) -> (Label, u32) {
        self.values
            .get(value.index())
            .copied()
            .unwrap_or((Label::Unset, ALONE))
    }
    fn label(&self, out: &mut String, label: Label, value: Value) {
        out.push('%');
        match label {
            Label::Number(n) => number(out, n),
            Label::Argument(n) => {
                out.push_str("arg");
                number(out, n);
            }
            Label::Hint(name) => out.push_str(&name),
            Label::Another(name, n) => {
                out.push_str(&name);
                out.push('_');
                number(out, n);
            }
            // A value of no region: in what is broken only.
            Label::Unset => {
                out.push_str("unknown");
                number(out, value.index() as u32);
            }
        }
    }
    /// Writes the name of a block.
    pub(crate) fn block(&self, out: &mut String, block: BlockId) {
        out.push('^');
        match self.blocks.get(&block) {
            Some((_, Some(hint))) => out.push_str(hint),
            Some((n, None)) => {
                out.push_str("bb");
                number(out, *n);
            }
            None => out.push_str("unknown"),
        }
    }
}

/// Writes a number.
pub(crate) fn number(out: &mut String, n: u32) {
    let mut digits = [0u8; 10];
    let mut at = digits.len();
    let mut n = n;
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.push_str(std::str::from_utf8(&digits[at..]).unwrap_or_default());
}

/// Whether a hint can be written as a name.
fn writable(hint: &str) -> bool {
    let good = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '-');
    !hint.is_empty()
        && hint.chars().all(good)
        && !hint.bytes().all(|b| b.is_ascii_digit())
        && !hint.ends_with('-')
        && hint.len() < 200
}

impl Namer<'_> {
    fn set(&mut self, value: Value, label: Label, index: u32) {
        let at = value.index();
        let values = &mut self.names.values;
        if values.len() <= at {
            values.resize(at + 1, (Label::Unset, ALONE));
        }
        values[at] = (label, index);
    }

    /// The label of a hint, which is taken from now on; remembers it in `mine`.
    fn hint(&mut self, value: Value, mine: &mut Vec<Name>) -> Option<Label> {
        let hint = self.ir.hint(value).filter(|hint| writable(hint))?;
        Some(self.claim(hint, mine))
    }

    /// The name of a number without a hint, as in MLIR: `c4`, `c4_i32`, `true`, `cst`.
    fn constant(&mut self, op: OpId, mine: &mut Vec<Name>) -> Option<Label> {
        if !self.ir.has(op, Traits::ConstantLike) {
            return None;
        }
        let value = self.ir.attr(op, "value")?;
        let name = match value.get::<IntAttr>() {
            Some(int) if int.ty.bits() == Some(1) => (int.value != 0).to_string(),
            Some(int) if int.ty.is_index() => format!("c{}", int.value),
            Some(int) => format!("c{}_{}", int.value, int.ty),
            None if value.is::<FloatAttr>() => "cst".to_string(),
            None => return None,
        };
        Some(self.claim(Name::new(&name), mine))
    }

    /// The label of a name, or of that name with a number that makes it free.
    fn claim(&mut self, hint: Name, mine: &mut Vec<Name>) -> Label {
        if self.used.insert(hint) {
            mine.push(hint);
            return Label::Hint(hint);
        }
        let mut n = self.another.get(&hint).copied().unwrap_or(0);
        loop {
            let name = Name::new(&format!("{hint}_{n}"));
            if self.used.insert(name) {
                mine.push(name);
                self.another.insert(hint, n + 1);
                return Label::Another(hint, n);
            }
            n += 1;
        }
    }

    fn region(&mut self, region: RegionId, mut next: u32, mut arg: u32) {
        let ir = self.ir;
        let mut mine = Vec::new();
        let mut labels: FxHashSet<Name> = FxHashSet::default();
        let mut holders: Vec<OpId> = Vec::new();
        let mut isolated = false;
        for (n, block) in ir.blocks(region).enumerate() {
            let plain = |hint: &Name| {
                writable(hint)
                    && hint
                        .strip_prefix("bb")
                        .is_none_or(|r| r.parse::<u32>().is_err())
            };
            let hint = ir
                .block_hint(block)
                .filter(plain)
                .filter(|hint| labels.insert(*hint));
            self.names.blocks.insert(block, (n as u32, hint));
            for value in ir.args(block) {
                let label = match self.hint(value, &mut mine) {
                    Some(label) => label,
                    None if n > 0 => {
                        next += 1;
                        Label::Number(next - 1)
                    }
                    None => loop {
                        arg += 1;
                        let name = || Name::new(&format!("arg{}", arg - 1));
                        if self.used.is_empty() || !self.used.contains(&name()) {
                            break Label::Argument(arg - 1);
                        }
                    },
                };
                self.set(value, label, ALONE);
            }
            let mut op = ir.first(block);
            while let Some(id) = op {
                let results = ir.results(id);
                let count = results.len();
                if count == 1 {
                    let value = ir.result(id, 0);
                    let label = self.hint(value, &mut mine);
                    let label = label.or_else(|| self.constant(id, &mut mine));
                    let label = label.unwrap_or_else(|| {
                        next += 1;
                        Label::Number(next - 1)
                    });
                    self.set(value, label, ALONE);
                } else if count > 1 {
                    self.group(results.collect(), &mut next, &mut mine);
                }
                if ir.regions(id).len() > 0 {
                    holders.push(id);
                }
                isolated |= ir.child(id).is_some();
                op = ir.next(id);
            }
        }
        if isolated && (next > 0 || arg > 0 || !self.used.is_empty()) {
            let hints = self.used.clone();
            self.names.taken.insert(region, Taken { next, arg, hints });
        }
        for op in holders {
            for region in ir.regions(op) {
                self.region(region, next, arg);
            }
        }
        for name in mine {
            self.used.remove(&name);
        }
    }

    /// Names several results: a group begins at the first and at each that has a name.
    fn group(&mut self, results: Vec<Value>, next: &mut u32, mine: &mut Vec<Name>) {
        let mut at = 0;
        while at < results.len() {
            let label = self.hint(results[at], mine).unwrap_or_else(|| {
                *next += 1;
                Label::Number(*next - 1)
            });
            let named = |value: &Value| self.ir.hint(*value).is_some_and(|hint| writable(&hint));
            let rest = results[at + 1..].iter();
            let len = 1 + rest.take_while(|value| !named(value)).count();
            for (i, value) in results[at..at + len].iter().enumerate() {
                let index = if len == 1 { ALONE } else { i as u32 };
                self.set(*value, label, index);
            }
            at += len;
        }
    }
}
