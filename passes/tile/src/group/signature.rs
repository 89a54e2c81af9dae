//! What a plan depends on of a group, as words: groups of equal signatures get equal plans.
//!
//! Values and ops are named by their places, so that two layers of a network are equal whose shapes,
//! positions and scalar computations are. The names of the tensors that are read, and what is read
//! outside of them, decide nothing.
//!
//! Each list begins with its length and each choice with its number, so no two groups have the same words that differ in
//! what is written.

use std::fmt;
use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};
use tir::{AffineExpr, AffineMap, Attr, Ir, LinearMap, Name, RegionId, Type, Value};

use super::{Cut, Group, Inner, Input, Operand, Slot, Step, StepRef};

/// A part of a signature.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Word {
    Number(i64),
    Type(Type),
    Attr(Attr),
    Name(Name),
    /// A value from outside of what is described: it is what it is.
    Value(Value),
}

/// What something depends on, as words: a key.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Signature(Vec<Word>);

impl Signature {
    pub(crate) fn number(&mut self, number: i64) {
        self.0.push(Word::Number(number));
    }
    pub(crate) fn count(&mut self, count: usize) {
        self.number(count as i64);
    }
    pub(crate) fn flag(&mut self, flag: bool) {
        self.number(i64::from(flag));
    }
    fn optional(&mut self, number: Option<i64>) {
        self.flag(number.is_some());
        number.into_iter().for_each(|number| self.number(number));
    }
    /// Numbers, and how many they are.
    pub(crate) fn numbers(&mut self, numbers: impl IntoIterator<Item = i64>) {
        let at = self.0.len();
        self.count(0);
        self.0.extend(numbers.into_iter().map(Word::Number));
        self.0[at] = Word::Number((self.0.len() - at - 1) as i64);
    }
    pub(crate) fn counts(&mut self, counts: impl IntoIterator<Item = usize>) {
        self.numbers(counts.into_iter().map(|count| count as i64));
    }
    fn flags(&mut self, flags: &[bool]) {
        self.numbers(flags.iter().map(|flag| i64::from(*flag)));
    }
    fn map(&mut self, map: &AffineMap) {
        self.count(map.dims);
        self.count(map.syms);
        self.count(map.exprs.len());
        map.exprs.iter().for_each(|expr| self.expr(expr));
    }
    fn expr(&mut self, expr: &AffineExpr) {
        let (number, [a, b]) = match expr {
            AffineExpr::Dim(d) => {
                self.number(0);
                return self.count(*d);
            }
            AffineExpr::Sym(s) => {
                self.number(1);
                return self.count(*s);
            }
            AffineExpr::Const(c) => {
                self.number(2);
                return self.number(*c);
            }
            AffineExpr::Add(a, b) => (3, [a, b]),
            AffineExpr::Mul(a, b) => (4, [a, b]),
            AffineExpr::FloorDiv(a, b) => (5, [a, b]),
            AffineExpr::CeilDiv(a, b) => (6, [a, b]),
            AffineExpr::Mod(a, b) => (7, [a, b]),
        };
        self.number(number);
        self.expr(a);
        self.expr(b);
    }
    fn linear(&mut self, map: &LinearMap) {
        self.count(map.len());
        for form in map.iter() {
            self.number(form.constant);
            let terms = form.terms();
            self.numbers(terms.flat_map(|(d, by)| [d as i64, by]));
        }
    }

    /// The ops of a region, values by number.
    pub(crate) fn body(&mut self, ir: &Ir, region: RegionId) {
        let mut numbers: FxHashMap<Value, usize> = FxHashMap::default();
        let mut work = vec![region];
        while let Some(region) = work.pop() {
            for block in ir.blocks(region) {
                for arg in ir.args(block) {
                    let number = numbers.len();
                    numbers.insert(arg, number);
                }
                self.count(ir.args(block).len());
                for op in ir.ops_in(block) {
                    self.0.push(Word::Name(ir.name(op)));
                    for (name, attr) in ir.attrs(op) {
                        self.0.extend([Word::Name(*name), Word::Attr(*attr)]);
                    }
                    self.count(ir.operands(op).len());
                    for operand in ir.operands(op) {
                        let word = match (numbers.get(&operand), ir.constant(operand)) {
                            (Some(number), _) => Word::Number(*number as i64),
                            (None, Some(constant)) => Word::Attr(constant),
                            (None, None) => Word::Value(operand),
                        };
                        self.0.push(word);
                    }
                    self.count(ir.results(op).len());
                    for result in ir.results(op) {
                        let number = numbers.len();
                        numbers.insert(result, number);
                        self.0.push(Word::Type(ir.ty(result)));
                    }
                    self.count(ir.regions(op).len());
                    work.extend(ir.regions(op));
                }
                self.number(-1);
            }
        }
    }

    /// A group.
    pub(crate) fn group(&mut self, ir: &Ir, group: &Group) {
        let Group {
            domain,
            core,
            reductions,
            whole,
            reduce,
            maps,
            operands,
            out,
            outs,
            outer,
            into,
            ops: _,
            named: _,
        } = group;
        self.numbers(domain.iter().copied());
        self.count(*core);
        self.flags(reductions);
        self.counts(whole.iter().copied());
        self.map(out);
        self.count(*outer);
        self.flag(into.is_some());
        if let Some(slot) = into {
            self.slot(slot);
        }
        self.flag(reduce.is_some());
        if let Some((reduce, combine, start)) = reduce {
            self.number(*combine as i64);
            self.0.push(Word::Attr(*start));
            self.step(ir, reduce);
        }
        self.count(maps.len());
        maps.iter().for_each(|map| self.step(ir, map));
        self.count(operands.len());
        operands
            .iter()
            .for_each(|operand| self.operand(ir, operand));
        self.count(outs.len());
        for out in outs {
            self.number(match out.step {
                StepRef::Reduced => -1,
                StepRef::Mapped(i) => i as i64,
            });
            self.map(&out.map);
        }
    }

    fn slot(&mut self, slot: &Slot) {
        let Slot {
            shape,
            at,
            again,
            divided,
            rows,
            rank,
            turns,
            cut,
        } = slot;
        self.numbers(shape.iter().copied());
        self.numbers(at.iter().copied());
        self.flag(*again);
        self.flag(*divided);
        self.number(*rows);
        self.count(*rank);
        self.optional(turns.map(|dim| dim as i64));
        self.count(cut.len());
        for Cut { start, sizes } in cut {
            self.number(*start);
            self.numbers(sizes.iter().copied());
        }
    }

    fn step(&mut self, ir: &Ir, step: &Step) {
        let Step {
            body,
            inputs,
            maps,
            ty,
            work: _,
        } = step;
        self.0.push(Word::Type(*ty));
        let inputs = inputs.iter().flat_map(|input| match input {
            Input::Operand(i) => [0, *i as i64],
            Input::Reduced => [1, 0],
            Input::Mapped(i) => [2, *i as i64],
        });
        self.numbers(inputs);
        self.count(maps.len());
        maps.iter().for_each(|map| self.map(map));
        self.body(ir, *body);
    }

    fn operand(&mut self, ir: &Ir, operand: &Operand) {
        let Operand {
            source,
            map,
            padding: _,
            cut,
            leaves,
            made,
            constant,
            near,
            joint,
            shape,
            flat: _,
            diagonal,
            inner,
        } = operand;
        self.0.push(Word::Type(ir.ty(*source).elem()));
        self.numbers(shape.iter().copied());
        self.map(map);
        self.flags(&[*cut, *leaves, *made, *near, *joint, *constant]);
        let diagonal = diagonal.iter().flat_map(|found| {
            let dims = [found.row as i64, found.column as i64];
            dims.into_iter()
                .chain([found.rows, found.columns, found.times])
        });
        self.numbers(diagonal);
        self.flag(inner.is_some());
        if let Some(Inner {
            body,
            reduce,
            inputs,
            rows,
            reductions,
            work: _,
        }) = inner
        {
            self.flag(reduce.is_some());
            if let Some((combine, start)) = reduce {
                self.number(*combine as i64);
                self.0.push(Word::Attr(*start));
            }
            self.counts(inputs.iter().copied());
            self.count(rows.len());
            rows.iter().for_each(|rows| self.linear(rows));
            self.counts(reductions.iter().copied());
            self.body(ir, *body);
        }
    }
}

/// What is written as text is part of it: eight bytes of it are a number.
impl fmt::Write for Signature {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.numbers(text.as_bytes().chunks(8).map(|bytes| {
            let mut all = [0; 8];
            all[..bytes.len()].copy_from_slice(bytes);
            i64::from_le_bytes(all)
        }));
        Ok(())
    }
}

impl Group {
    /// The signature of a group.
    pub fn signature(&self, ir: &Ir) -> Signature {
        let mut signature = Signature::default();
        signature.group(ir, self);
        signature
    }

    /// The signature of an operand.
    pub(crate) fn operand_signature(&self, ir: &Ir, operand: usize) -> Signature {
        let mut words = Signature::default();
        words.operand(ir, &self.operands[operand]);
        words
    }

    /// What groups have in common that differ in their elementwise steps alone, and in the order of the operands that only those
    /// read; `None` of a group without such steps, of several results, or that computes what it reads.
    pub fn frame(&self, ir: &Ir) -> Option<Signature> {
        let last = self.maps.len().checked_sub(1)?;
        let [out] = &self.outs[..] else {
            return None;
        };
        if out.step != StepRef::Mapped(last) || self.has_inner() {
            return None;
        }
        let reduced = |i: usize| {
            let mut steps = self.reduce.iter();
            steps.any(|(step, ..)| step.inputs.contains(&Input::Operand(i)))
        };
        let mut frame = Signature::default();
        let bare = Self {
            maps: Vec::new(),
            operands: Vec::new(),
            outs: Vec::new(),
            ..self.clone()
        };
        frame.group(ir, &bare);
        frame.map(&out.map);
        let words = |i: &usize| self.operand_signature(ir, *i);
        let (first, others): (Vec<usize>, Vec<usize>) =
            (0..self.operands.len()).partition(|i| reduced(*i));
        frame.counts(first.iter().copied());
        let mut others: Vec<Signature> = others.iter().map(words).collect();
        // Any order will do that is the same each time.
        others.sort_by_cached_key(|words| FxBuildHasher.hash_one(words));
        for words in first.iter().map(words).chain(others) {
            frame.count(words.0.len());
            frame.0.extend(words.0);
        }
        Some(frame)
    }
}
