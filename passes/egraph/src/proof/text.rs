//! Proofs as text, written and read.
//!
//! ```text
//! proof of @f, block 0, class nnan_nsz
//!   %x = leaf 0
//!   %t = op 4
//! step 1: rule add-zero at f.tir:8:3
//!   before
//!     %t = arith.addi(%x, %z) : i32
//!   after
//!   so %t = %x
//! result
//!   so %t = %x
//! ```
//!
//! The first line says which [classes](Class) the rules of all steps have: what may be lost, all in
//! all. Leaves and ops are those of the block, by number: a leaf is a value that the e-graph does not
//! look into, an op one without effects. Before a step stand the ops that its rule looks at, and
//! those of equal operands that they need; behind it the ops that it makes. What is computed by an
//! op with the regions of one of the input, or with its large attributes, says which (`like op 4`).

use std::collections::BTreeSet;
use std::fmt::Write;

use rustc_hash::{FxHashMap, FxHashSet};
use tir::{Attr, Class, Diagnostic, DictAttr, Ir, Loc, Name, Type};

use crate::build::Program;
use crate::graph::Graph;
use crate::matching::Compiled;
use crate::node::Head;
use crate::proof::explain::Proof;
use crate::proof::journal::Reason;
use crate::proof::terms::Term;

/// Attributes with more text than this are not written where they are not needed, nor where an op of the input has
/// them.
const LONG: usize = 200;
/// Attributes with more text than this are written once for people, and then no more.
const REPEATED: usize = 60;

/// The text of the proof of a block. `canonical` are the classes of the rules that made the
/// canonical form; `symbol` and `block` say which block it is.
pub fn write(
    ir: &Ir,
    graph: &Graph,
    program: &Program,
    (rules, canonical): (&[Compiled], &BTreeSet<Class>),
    proof: &Proof,
    (symbol, block): (&str, usize),
) -> String {
    let mut writer = Writer {
        ir,
        graph,
        program,
        proof,
        ops: FxHashMap::default(),
        heads: FxHashMap::default(),
        said: FxHashSet::default(),
        names: FxHashMap::default(),
        taken: FxHashSet::default(),
        next: 0,
        sources: Vec::new(),
        bound: vec![false; proof.terms.len()],
        out: String::new(),
    };
    for (at, term) in proof.input.iter().enumerate() {
        writer.ops.entry(*term).or_insert(at);
        writer.heads.entry(proof.terms.head(*term)).or_insert(at);
        writer.bound[*term] = true;
    }
    for (number, step) in proof.steps.iter().enumerate() {
        let reason = step.reason.text(rules);
        let place = step.at.and_then(|op| ir.loc(op).place());
        let place = place.map_or(String::new(), |(f, l, c)| format!(" at {f}:{l}:{c}"));
        let _ = writeln!(writer.out, "step {}: {reason}{place}\n  before", number + 1);
        for term in &step.matched {
            for child in proof.terms.children(*term) {
                writer.define(child);
            }
            writer.line(*term, false);
        }
        for (left, _) in &step.equal {
            writer.define(*left);
        }
        writer.out.push_str("  after\n");
        for term in &step.made {
            writer.line(*term, true);
        }
        writer.so(&step.equal);
    }
    writer.out.push_str("result\n");
    for (_, new) in &proof.roots {
        writer.define(*new);
    }
    writer.so(&proof.roots);
    let mut classes = BTreeSet::new();
    for step in &proof.steps {
        match step.reason {
            Reason::Rule(at) => classes.extend([rules[at].rule.class]),
            Reason::Canonicalize => classes.extend(canonical),
            Reason::Fold | Reason::Layout => {}
        }
    }
    let classes = words(&classes);
    let mut text = format!("proof of @{symbol}, block {block}, class {classes}\n");
    writer.sources.sort_by_key(|(order, _)| *order);
    for (_, line) in &writer.sources {
        text += line;
    }
    text + &writer.out
}

/// What classes of rules allow together: nothing beside `exact` counts.
fn words(classes: &BTreeSet<Class>) -> String {
    let beside = classes.iter().filter(|class| **class != Class::Exact);
    let words: Vec<&str> = beside.map(|class| class.keyword()).collect();
    match words.is_empty() {
        true => Class::Exact.keyword().to_string(),
        false => words.join(" "),
    }
}

struct Writer<'a> {
    ir: &'a Ir,
    graph: &'a Graph,
    program: &'a Program,
    proof: &'a Proof,
    /// The op of the input that is a term, and one of each head.
    ops: FxHashMap<Term, usize>,
    heads: FxHashMap<Head, usize>,
    /// Heads whose long attributes were written already.
    said: FxHashSet<Head>,
    names: FxHashMap<Term, String>,
    taken: FxHashSet<String>,
    next: usize,
    /// The lines of leaves and ops of the input, with what sorts them.
    sources: Vec<((bool, usize), String)>,
    /// Whether a term is there by now.
    bound: Vec<bool>,
    out: String,
}

impl Writer<'_> {
    fn name(&mut self, term: Term) -> String {
        let head = self.proof.terms.head(term);
        if let Head::Result(index) = head {
            let tuple = self.proof.terms.children(term).next();
            let tuple = tuple.map(|tuple| self.name(tuple)).unwrap_or_default();
            return format!("{tuple}#{index}");
        }
        if let Some(name) = self.names.get(&term) {
            return name.clone();
        }
        let op = self.ops.get(&term).copied();
        let value = match (head, op) {
            (Head::Leaf(index), _) => Some(self.program.leaves[index as usize].value),
            (_, Some(at)) => self.ir.results(self.program.ops[at].0).next(),
            _ => None,
        };
        let hint = value.and_then(|value| self.ir.hint(value));
        let name = loop {
            let name = match hint {
                Some(hint) if !self.taken.contains(hint.as_str()) => hint.to_string(),
                _ => {
                    self.next += 1;
                    (self.next - 1).to_string()
                }
            };
            if self.taken.insert(name.clone()) {
                break format!("%{name}");
            }
        };
        let source = match (head, op) {
            (Head::Leaf(index), _) => Some(((false, index as usize), "leaf", index as usize)),
            (_, Some(at)) => Some(((true, at), "op", at)),
            _ => None,
        };
        if let Some((order, what, number)) = source {
            let line = format!("  {name} = {what} {number}\n");
            self.sources.push((order, line));
        }
        self.names.insert(term, name.clone());
        name
    }

    /// Writes lines for what of a term is not there by now.
    fn define(&mut self, term: Term) {
        if self.bound[term] {
            return;
        }
        let proof = self.proof;
        for child in proof.terms.children(term) {
            self.define(child);
        }
        self.line(term, false);
    }

    /// Writes the line of an op; of one that a rule makes, attributes are for people.
    fn line(&mut self, term: Term, made: bool) {
        let was_bound = std::mem::replace(&mut self.bound[term], true);
        let head = self.proof.terms.head(term);
        let Head::Op {
            name,
            attrs,
            types,
            region,
        } = head
        else {
            return;
        };
        let operands: Vec<Term> = self.proof.terms.children(term).collect();
        let operands: Vec<String> = operands.into_iter().map(|t| self.name(t)).collect();
        let result = self.name(term);
        let tables = &self.graph.analysis.tables;
        let (name, types) = (tables.names.get(name), tables.types.get(types));
        let types: Vec<String> = types.iter().map(Type::to_string).collect();
        let (operands, types) = (operands.join(", "), types.join(" ; "));
        let _ = write!(self.out, "    {result} = {name}({operands}) : {types}");
        let attrs = tables.attrs.get(attrs);
        let mut text = String::new();
        if !attrs.is_empty() {
            text = format!(" with {}", Attr::new(DictAttr::new(attrs.to_vec())));
        }
        // What is there already, or will be made by the step, is written for people only.
        let needed = !made && !was_bound;
        let again = text.len() > REPEATED && !self.said.insert(head);
        let of_input = self.heads.get(&head);
        if let Some(at) = of_input
            && needed
            && (text.len() > LONG || again || region.is_some())
        {
            text = format!(" like op {at}");
        } else if (text.len() > LONG || again) && !needed {
            text = " with ...".to_string();
        }
        self.out.push_str(&text);
        self.out.push('\n');
    }

    fn so(&mut self, pairs: &[(Term, Term)]) {
        for (left, right) in pairs {
            let (left, right) = (self.name(*left), self.name(*right));
            let _ = writeln!(self.out, "  so {left} = {right}");
        }
    }
}

/// A proof as it was read.
#[derive(Debug)]
pub struct Written {
    /// The symbol of the isolated op that the block is in.
    pub symbol: String,
    /// Which block of it.
    pub block: usize,
    /// The classes that its rules have, as it says; `None` if it does not.
    pub classes: Option<BTreeSet<Class>>,
    /// The names of leaves and ops of the input.
    pub sources: Vec<(String, Source)>,
    /// The steps; the last is the result.
    pub steps: Vec<WrittenStep>,
}

/// What of the input a name is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A leaf.
    Leaf(usize),
    /// An op.
    Op(usize),
}

/// Why a step may be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Because {
    /// A rule.
    Rule(Name),
    /// An op folds.
    Fold,
    /// An op computes in another layout.
    Layout,
    /// The program is brought into its canonical form.
    Canonicalize,
    /// It is the result of the steps before.
    Result,
}

/// A step as it was read.
#[derive(Debug)]
pub struct WrittenStep {
    /// Where it stands.
    pub loc: Loc,
    /// Why.
    pub because: Because,
    /// What must be there.
    pub before: Vec<Line>,
    /// What is there afterwards.
    pub after: Vec<Line>,
    /// Names of what is equal.
    pub equal: Vec<(String, String)>,
}

/// An op as it was read.
#[derive(Debug)]
pub struct Line {
    /// Where it stands.
    pub loc: Loc,
    /// What it is called.
    pub name: String,
    /// The op.
    pub op: Name,
    /// Names of its operands.
    pub operands: Vec<String>,
    /// Types of its results, as text.
    pub types: String,
    /// The op of the input whose attributes and regions it has.
    pub like: Option<usize>,
    /// Its attributes, as text.
    pub attrs: String,
}

/// Reads proofs.
///
/// # Errors
/// The first line that is none of a proof, at its place.
pub fn read(file: Name, text: &str) -> Result<Vec<Written>, Diagnostic> {
    let mut proofs: Vec<Written> = Vec::new();
    let mut after = false;
    for (number, line) in text.lines().enumerate() {
        let loc = Loc::file(file, number as u32 + 1, 1);
        let wrong = || Diagnostic::error("this is no line of a proof").at(loc);
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if let Some(rest) = line.strip_prefix("proof of @") {
            let (symbol, rest) = rest.rsplit_once(", block ").ok_or_else(wrong)?;
            let (block, classes) = match rest.split_once(", class ") {
                None => (rest, None),
                Some((block, words)) => {
                    let classes = words.split(' ').map(Class::from_keyword);
                    (
                        block,
                        Some(classes.collect::<Option<_>>().ok_or_else(wrong)?),
                    )
                }
            };
            proofs.push(Written {
                symbol: symbol.to_string(),
                block: block.parse().map_err(|_| wrong())?,
                classes,
                sources: Vec::new(),
                steps: Vec::new(),
            });
            continue;
        }
        let proof = proofs.last_mut().ok_or_else(wrong)?;
        if let Some(because) = because(line) {
            proof.steps.push(WrittenStep {
                loc,
                because,
                before: Vec::new(),
                after: Vec::new(),
                equal: Vec::new(),
            });
            after = false;
            continue;
        }
        let Some(step) = proof.steps.last_mut() else {
            proof.sources.push(source(line).ok_or_else(wrong)?);
            continue;
        };
        match line {
            "before" => after = false,
            "after" => after = true,
            _ => match line.strip_prefix("so ") {
                Some(pair) => {
                    let (a, b) = pair.split_once(" = ").ok_or_else(wrong)?;
                    step.equal.push((a.to_string(), b.to_string()));
                }
                None => {
                    let line = op_line(loc, line).ok_or_else(wrong)?;
                    match after {
                        true => step.after.push(line),
                        false => step.before.push(line),
                    }
                }
            },
        }
    }
    Ok(proofs)
}

fn because(line: &str) -> Option<Because> {
    if line == "result" {
        return Some(Because::Result);
    }
    let (_, rest) = line.strip_prefix("step ")?.split_once(": ")?;
    let reason = rest.split(" at ").next()?;
    match reason {
        "fold" => Some(Because::Fold),
        "layout" => Some(Because::Layout),
        "canonicalize" => Some(Because::Canonicalize),
        _ => Some(Because::Rule(Name::new(reason.strip_prefix("rule ")?))),
    }
}

fn source(line: &str) -> Option<(String, Source)> {
    let (name, what) = line.split_once(" = ")?;
    let source = match what.split_once(' ')? {
        ("leaf", number) => Source::Leaf(number.parse().ok()?),
        ("op", number) => Source::Op(number.parse().ok()?),
        _ => return None,
    };
    Some((name.to_string(), source))
}

fn op_line(loc: Loc, line: &str) -> Option<Line> {
    let (name, rest) = line.split_once(" = ")?;
    let (op, rest) = rest.split_once('(')?;
    let (operands, rest) = rest.split_once(") : ")?;
    let (rest, attrs) = rest.split_once(" with ").unwrap_or((rest, ""));
    let (types, like) = match rest.split_once(" like op ") {
        Some((types, number)) => (types, Some(number.parse().ok()?)),
        None => (rest, None),
    };
    let operands = operands.split(", ").filter(|name| !name.is_empty());
    Some(Line {
        loc,
        name: name.to_string(),
        op: Name::new(op),
        operands: operands.map(str::to_string).collect(),
        types: types.to_string(),
        like,
        attrs: attrs.to_string(),
    })
}
