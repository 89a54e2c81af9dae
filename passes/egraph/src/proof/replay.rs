//! Doing a proof again: its rules are applied to the input, one after another.
//!
//! Nothing is replaced on the way. A step makes the ops that its rule looks at, of those there by
//! equal operands, has the rule make its right side beside them, and remembers that both are equal.
//! At the end it must follow from these equalities alone that the values of the result are equal
//! to those of the input; then they take their places, and what nobody uses goes.

use std::collections::BTreeSet;
use std::sync::Arc;

use egg::Id;
use rustc_hash::FxHashMap;
use tir::interp::{EvaluateOp, attr_of, elements};
use tir::rewrite::{apply_rule, ops_are_equal};
use tir::{
    At, Attr, BlockId, Builder, Class, Data, Diagnostic, Dialect, DictAttr, Folded, Ir, Loc,
    Mapping, Op, OpId, OpState, Patterns, Rewriter, Traits, Type, Value, parse_attr, parse_type,
};
use tir_graph::Relayout;
use tir_graph::layout::{Keeps, Layout, operands_in, result_in, rule_of};

use crate::build::{Program, build, is_inside};
use crate::graph::Graph;
use crate::greedy::{Canonical, canonical};
use crate::node::Node;
use crate::proof::closure::Closure;
use crate::proof::explain::commutes;
use crate::proof::reorder::reorder;
use crate::proof::terms::{Term, Terms};
use crate::proof::text::{Because, Line, Source, Written, WrittenStep};

/// Does the steps of a proof in a block; says how many.
///
/// # Errors
/// A name that nothing has, a rule that is not there or does not apply, a result that does not
/// follow: at the line of the proof.
pub fn replay(
    ir: &mut Ir,
    block: BlockId,
    proof: &Written,
    patterns: &Patterns,
) -> Result<usize, Diagnostic> {
    let mut program = build(ir, block, &mut Graph::default());
    let greedy = |step: &WrittenStep| step.because == Because::Canonicalize;
    let form = proof.steps.first().filter(|step| greedy(step));
    let form = form.and_then(|_| Form::new(ir, block, patterns));
    unite(ir, &mut program);
    let mut run = Replayer {
        ir,
        block,
        patterns,
        program,
        form,
        classes: proof.classes.as_ref(),
        names: FxHashMap::default(),
        equal: Vec::new(),
        copies: Vec::new(),
    };
    for (name, source) in &proof.sources {
        let values = run.source(*source).ok_or_else(|| {
            Diagnostic::error(format!("the block has not what the proof calls '{name}'"))
        })?;
        run.names.insert(name.clone(), values);
    }
    let (mut steps, mut done) = (0, false);
    for step in &proof.steps {
        if std::mem::replace(&mut done, step.because == Because::Result) {
            let error = Diagnostic::error("a step stands behind the result, which is the end");
            return Err(error.at(step.loc));
        }
        for line in &step.before {
            run.make(line)?;
        }
        if step.because == Because::Result {
            run.result(step)?;
        } else {
            run.step(step)?;
            steps += 1;
        }
    }
    if !done {
        let at = proof.steps.last().map_or(Loc::UNKNOWN, |step| step.loc);
        return Err(Diagnostic::error("the proof ends here, without 'result'").at(at));
    }
    Ok(steps)
}

/// Equal ops are one term: all use the first of them.
fn unite(ir: &mut Ir, program: &mut Program) {
    let mut first: FxHashMap<Id, OpId> = FxHashMap::default();
    let mut united: FxHashMap<Value, Value> = FxHashMap::default();
    for (op, id) in &program.ops {
        let first = *first.entry(*id).or_insert(*op);
        let pairs: Vec<(Value, Value)> = ir.results(*op).zip(ir.results(first)).collect();
        for (old, new) in pairs.into_iter().filter(|(old, new)| old != new) {
            ir.replace_uses(old, new);
            united.insert(old, new);
        }
    }
    united.extend(share_constants(ir, program));
    for captured in program.captured.values_mut().flatten() {
        while let Some(new) = united.get(captured) {
            *captured = *new;
        }
    }
}

/// Constants that another block has for this one are those; gives what is replaced by what.
fn share_constants(ir: &mut Ir, program: &Program) -> Vec<(Value, Value)> {
    let outside = program.constants.iter().map(|(value, id)| (*id, *value));
    let outside: FxHashMap<Id, Value> = outside.collect();
    let own = program.ops.iter();
    let own = own.filter_map(|(op, id)| Some((ir.result(*op, 0), *outside.get(id)?)));
    let own: Vec<(Value, Value)> = own.collect();
    for (own, constant) in &own {
        ir.replace_uses(*own, *constant);
    }
    own
}

struct Replayer<'a> {
    ir: &'a mut Ir,
    block: BlockId,
    patterns: &'a Patterns,
    program: Program,
    /// The canonical form of the input, if it is asked for.
    form: Option<Form>,
    /// The classes that the proof says its rules have.
    classes: Option<&'a BTreeSet<Class>>,
    /// The results of what has a name.
    names: FxHashMap<String, Vec<Value>>,
    /// What steps showed.
    equal: Vec<(Value, Value)>,
    /// Ops with regions that were made like ones of the input.
    copies: Vec<Copy>,
}

/// An op with regions that was made like one of the input. Where two of the values that its regions use become one, they are
/// regions of their own, though they say the same.
struct Copy {
    op: OpId,
    like: OpId,
    operands: Vec<Value>,
    /// What each value that the regions of the other one use from outside is here.
    captured: Vec<(Value, Value)>,
}

impl Replayer<'_> {
    /// Whether rules of a class are among those that the proof says it has; nothing need be said of
    /// exact ones.
    fn allows(&self, class: Class, what: &str) -> Result<(), String> {
        match self.classes {
            Some(said) if class != Class::Exact && !said.contains(&class) => {
                let word = class.keyword();
                Err(format!(
                    "{what} has class {word}, which the proof does not say"
                ))
            }
            _ => Ok(()),
        }
    }

    fn source(&self, source: Source) -> Option<Vec<Value>> {
        match source {
            Source::Leaf(at) => Some(vec![self.program.leaves.get(at)?.value]),
            Source::Op(at) => Some(self.results(self.program.ops.get(at)?.0)),
        }
    }

    /// The results of an op: those of another block's, if it is a constant that one has.
    fn results(&self, op: OpId) -> Vec<Value> {
        let constants = self.program.constants.iter().map(|(value, _)| *value);
        let mut owners = constants.filter_map(|value| self.ir.owner(value));
        let shared = owners.find(|outside| ops_are_equal(self.ir, *outside, op));
        self.ir.results(shared.unwrap_or(op)).collect()
    }

    fn value(&self, name: &str, step: &WrittenStep) -> Result<Value, Diagnostic> {
        let (base, index) = base(name);
        let values = self.names.get(base);
        let value = values.and_then(|values| values.get(index));
        value.copied().ok_or_else(|| {
            Diagnostic::error(format!("nothing is called '{name}' by now")).at(step.loc)
        })
    }

    /// Where an op may stand that uses these values: behind the last of them.
    fn place(&self, values: &[Value]) -> At {
        let mut last: Option<OpId> = None;
        for value in values {
            let owner = self.ir.owner(*value);
            let owner = owner.filter(|op| self.ir.block_of(*op) == Some(self.block));
            last = match (last, owner) {
                (Some(a), Some(b)) if self.ir.is_before(a, b) => Some(b),
                (None, found) => found,
                (last, _) => last,
            };
        }
        last.map_or(At::Start(self.block), At::After)
    }

    /// Makes the op of a line, unless it is there.
    fn make(&mut self, line: &Line) -> Result<(), Diagnostic> {
        let error = |what: String| Diagnostic::error(what).at(line.loc);
        if self.names.contains_key(&line.name) {
            return Ok(());
        }
        let mut operands = Vec::new();
        for name in &line.operands {
            let (base, index) = base(name);
            let value = self.names.get(base).and_then(|values| values.get(index));
            let missing = || error(format!("nothing is called '{name}' by now"));
            operands.push(*value.ok_or_else(missing)?);
        }
        let at = self.place(&operands);
        let like = line.like.map(|number| {
            let op = self.program.ops.get(number).map(|(op, _)| *op);
            let op = op.filter(|op| self.ir.name(*op) == line.op);
            op.ok_or_else(|| error(format!("op {number} is no '{}'", line.op)))
        });
        let op = match like.transpose()? {
            Some(like) if self.ir.regions(like).len() > 0 => {
                // What its regions use stands in the order of the e-node's last children.
                let captured = self.program.captured.get(&like).into_iter().flatten();
                let old: Vec<Value> = self.ir.operands(like).chain(captured.copied()).collect();
                if old.len() != operands.len() {
                    let what = format!("'{}' needs {} values here", line.op, old.len());
                    return Err(error(what));
                }
                let mut map = Mapping::default();
                let count = self.ir.operands(like).len();
                for (old, new) in old.iter().zip(&operands).skip(count) {
                    map.map(*old, *new);
                }
                let copy = self.ir.duplicate(like, at, &mut map);
                self.ir.set_operands(copy, &operands[..count]);
                let captured = old.into_iter().zip(operands.iter().copied());
                self.copies.push(Copy {
                    op: copy,
                    like,
                    captured: captured.skip(count).collect(),
                    operands: operands[..count].to_vec(),
                });
                copy
            }
            like => {
                let mut state = OpState::new(line.op);
                state.operands = operands.into_iter().collect();
                state.attrs = match like {
                    Some(like) => self.ir.attrs(like).iter().copied().collect(),
                    None => attrs(&line.attrs).map_err(error)?.into_iter().collect(),
                };
                for text in line.types.split(" ; ").filter(|text| !text.is_empty()) {
                    let ty = parse_type(text).map_err(|e| error(e.to_string()))?;
                    state.results.push(ty);
                }
                let op = self.ir.create_raw(state);
                self.ir.insert(op, at);
                op
            }
        };
        let results = self.results(op);
        self.names.insert(line.name.clone(), results);
        Ok(())
    }

    fn step(&mut self, step: &WrittenStep) -> Result<(), Diagnostic> {
        let error = |what: String| Diagnostic::error(what).at(step.loc);
        let roots = step.equal.iter().map(|(left, _)| self.value(left, step));
        let roots: Vec<Value> = roots.collect::<Result<_, _>>()?;
        let at = self.place(&roots);
        let made = match &step.because {
            Because::Rule(name) => {
                let mut rules = self.patterns.rules().iter();
                let rule = rules.find(|rule| rule.name == *name).cloned();
                let rule = rule.ok_or_else(|| error(format!("there is no rule '{name}'")))?;
                self.allows(rule.class, &format!("rule '{name}'"))
                    .map_err(error)?;
                let functions = Arc::new(self.patterns.functions().clone());
                let root = self.ir.root();
                let mut rw = Rewriter::new(self.ir, root);
                rw.set_at(at);
                let made = apply_rule(&rule, &functions, &mut rw, &roots)
                    .map_err(|why| error(format!("rule '{name}' makes nothing here: {why}")))?;
                made.ok_or_else(|| error(format!("rule '{name}' does not apply here")))?
            }
            Because::Fold => {
                let folded = self.fold(roots[0], at);
                vec![folded.ok_or_else(|| error("this does not fold".to_string()))?]
            }
            Because::Layout => {
                let line = step.after.iter().rfind(|line| line.op != Relayout::name());
                let ty = line.and_then(|line| self.stored(line, step));
                let made = ty.and_then(|ty| self.in_layout(roots[0], Layout::of(ty), at));
                vec![made.ok_or_else(|| error("this has no such layout".to_string()))?]
            }
            Because::Canonicalize => {
                let classes = self.form.iter().flat_map(|form| &form.canonical.classes);
                for class in classes {
                    self.allows(*class, "a rule of the canonical form")
                        .map_err(error)?;
                }
                let made = self.form.take().and_then(|form| self.canonicalize(form));
                made.ok_or_else(|| error("this has no canonical form beside it".to_string()))?
            }
            Because::Result => Vec::new(),
        };
        for ((left, (_, name)), right) in roots.into_iter().zip(&step.equal).zip(made) {
            let right = self.bind(name, right, step)?;
            self.equal.push((left, right));
        }
        Ok(())
    }

    /// The type that says in what layout an op of a step computes: that of its result, or of its first operand if the
    /// result knows nothing of it.
    fn stored(&self, line: &Line, step: &WrittenStep) -> Option<Type> {
        let rule = line.op.info().and_then(rule_of);
        if rule.is_none_or(|rule| rule.keeps() != Keeps::Operand) {
            return parse_type(&line.types).ok();
        }
        let name = line.operands.first()?;
        match step.after.iter().find(|other| other.name == *name) {
            Some(other) => parse_type(&other.types).ok(),
            None => {
                let (base, index) = base(name);
                Some(self.ir.ty(*self.names.get(base)?.get(index)?))
            }
        }
    }

    /// Gives a value that was made its name, and those of the ops that it was made of. What has the
    /// name already takes its place, if it is the same: gives that.
    fn bind(&mut self, name: &str, value: Value, step: &WrittenStep) -> Result<Value, Diagnostic> {
        let (base, index) = base(name);
        let known = self.names.get(base).and_then(|values| values.get(index));
        let known = known.copied();
        let line = step.after.iter().find(|line| line.name == base);
        let (Some(line), Some(op)) = (line, self.ir.owner(value)) else {
            let what = format!("what is made is not what is written of '{name}'");
            let error = Diagnostic::error(what).at(step.loc);
            return known.map(|_| value).ok_or(error);
        };
        if known == Some(value) {
            return Ok(value);
        }
        let mut operands: Vec<Value> = self.ir.operands(op).collect();
        operands.extend(self.program.captured_by(self.ir, op));
        let results: Vec<Value> = self.ir.results(op).collect();
        let same = self.ir.name(op) == line.op && operands.len() == line.operands.len();
        if !same || results.get(index) != Some(&value) {
            if known.is_some() {
                return Ok(value);
            }
            let made = self.ir.name(op);
            let what = format!("what is made is '{made}', not what is written");
            return Err(Diagnostic::error(what).at(line.loc));
        }
        for (name, operand) in line.operands.iter().zip(operands) {
            self.bind(name, operand, step)?;
        }
        let Some(old) = known else {
            self.names.insert(base.to_string(), results);
            return Ok(value);
        };
        match self.ir.owner(old) {
            Some(first) if ops_are_equal(self.ir, first, op) => {
                let here = |op| self.ir.block_of(op) == Some(self.block);
                if here(op) && here(first) && self.ir.is_before(op, first) {
                    self.ir.move_op(first, At::Before(op));
                }
                let first: Vec<Value> = self.ir.results(first).collect();
                for (new, old) in results.into_iter().zip(first) {
                    self.ir.replace_uses(new, old);
                }
                Ok(old)
            }
            _ => Ok(value),
        }
    }

    /// What a value folds to: another value, or a constant that is made here.
    fn fold(&mut self, value: Value, at: At) -> Option<Value> {
        let op = self.ir.owner(value)?;
        let index = self.ir.results(op).position(|v| v == value)?;
        let folded = match self.ir.try_fold(op) {
            Some(folds) => folds.0.get(index).copied()?,
            None => match by_trait(self.ir, op) {
                Some(value) => Folded::Value(value),
                None => Folded::Attr(evaluated(self.ir, op, index)?),
            },
        };
        let attr = match folded {
            Folded::Value(value) => return Some(value),
            Folded::Attr(attr) => attr,
        };
        let ty = self.ir.ty(value);
        let dialect = self.ir.name(op).dialect();
        [dialect, "arith"].into_iter().find_map(|dialect| {
            let make = Dialect::named(dialect)?.constant?;
            let mut b = Builder::new(self.ir, at);
            make(&mut b, attr, ty)
        })
    }

    /// The same value, computed in a layout.
    fn in_layout(&mut self, value: Value, layout: Option<&Layout>, at: At) -> Option<Value> {
        let op = self.ir.owner(value)?;
        let rule = rule_of(self.ir.info(op)?)?;
        let layouts = operands_in(rule, self.ir.op(op), layout)?;
        let mut state = OpState::new(self.ir.name(op));
        state.attrs = self.ir.attrs(op).iter().copied().collect();
        let ty = self.ir.ty(value);
        state.results.push(result_in(rule, layout, ty));
        let operands: Vec<Value> = self.ir.operands(op).collect();
        let mut b = Builder::new(self.ir, at);
        for (operand, layout) in operands.into_iter().zip(&layouts) {
            let from = b.ir.ty(operand);
            let to = Layout::on(layout.as_ref(), from);
            state.operands.push(match from == to {
                true => operand,
                false => relayout(&mut b, operand, to)?,
            });
        }
        let made = b.try_create(state).ok()?;
        let made = b.ir.result(made, 0);
        match b.ir.ty(made) == ty {
            true => Some(made),
            false => relayout(&mut b, made, ty),
        }
    }

    /// Puts the canonical form beside the program; gives what is equal to the operands of its end.
    fn canonicalize(&mut self, form: Form) -> Option<Vec<Value>> {
        let end = self.ir.terminator(self.block)?;
        let Form { canonical, leaves } = form;
        let mut map = Mapping::default();
        for (copy, value) in leaves {
            map.map(copy, value);
        }
        let Canonical { ir, block, .. } = canonical;
        for op in ir.ops_in(block).filter(|op| is_inside(&ir, *op)) {
            self.ir.copy_op(&ir, op, At::Before(end), &mut map);
        }
        let new = ir.terminator(block)?;
        (ir.operands(new).len() == self.ir.operands(end).len()).then_some(())?;
        Some(ir.operands(new).map(|value| map.get(value)).collect())
    }

    /// Pairs of classes of ops that are equal since one was made like the other: as it is, and as an op with the regions of the
    /// other one.
    fn copied(&self, program: &Program, graph: &mut Graph) -> Vec<(Id, Id)> {
        let ops: FxHashMap<OpId, Id> = program.ops.iter().copied().collect();
        let mut pairs = Vec::new();
        for copy in &self.copies {
            let used = program.captured.get(&copy.like).into_iter().flatten();
            // The last one that a value of the other became is what it is here.
            let here = |value: &Value| {
                let mut captured = copy.captured.iter().rev();
                Some(captured.find(|(old, _)| old == value)?.1)
            };
            let captured: Option<Vec<Value>> = used.map(here).collect();
            let values = captured.map(|captured| [&copy.operands[..], &captured].concat());
            let classes = values.and_then(|values| {
                let class = |value: &Value| program.values.get(value).copied();
                values.iter().map(class).collect::<Option<Vec<Id>>>()
            });
            if let (Some(classes), Some(own), Some(like)) =
                (classes, ops.get(&copy.op), ops.get(&copy.like))
            {
                let head = graph.id_to_node(*like).head;
                pairs.push((*own, graph.add(Node::new(head, classes))));
            }
        }
        pairs
    }

    /// Puts the result in place, if it follows that it is equal.
    fn result(&mut self, step: &WrittenStep) -> Result<(), Diagnostic> {
        let pairs = step.equal.iter();
        let pairs = pairs.map(|(a, b)| Ok((self.value(a, step)?, self.value(b, step)?)));
        let pairs: Vec<(Value, Value)> = pairs.collect::<Result<_, Diagnostic>>()?;
        let mut graph = Graph::default();
        let program = build(self.ir, self.block, &mut graph);
        let copied = self.copied(&program, &mut graph);
        let mut terms = Terms::default();
        let copied = copied.into_iter();
        let copied = copied.map(|(a, b)| (terms.of_id(&graph, a), terms.of_id(&graph, b)));
        let copied: Vec<(Term, Term)> = copied.collect();
        let mut term = |value: Value| -> Option<Term> {
            let id = program.values.get(&value)?;
            Some(terms.of_id(&graph, *id))
        };
        let mut both = |pairs: &[(Value, Value)]| -> Vec<(Term, Term)> {
            let pairs = pairs
                .iter()
                .filter_map(|(a, b)| Some((term(*a)?, term(*b)?)));
            pairs.collect()
        };
        let (shown, wanted) = (both(&self.equal), both(&pairs));
        let commutes = |head| commutes(&graph, head);
        let mut closure = Closure::new(&terms, &commutes);
        for (number, (a, b)) in shown.into_iter().chain(copied).enumerate() {
            closure.say(a, b, number);
        }
        for ((a, b), (old, new)) in wanted.iter().zip(&step.equal) {
            if !closure.equal(*a, *b) {
                let what = format!("it does not follow that '{old}' equals '{new}'");
                return Err(Diagnostic::error(what).at(step.loc));
            }
        }
        for (old, new) in pairs {
            self.ir.replace_uses(old, new);
        }
        share_constants(self.ir, &program);
        reorder(self.ir, self.block);
        Ok(())
    }
}

/// The canonical form of the input, and what its leaves are there.
struct Form {
    canonical: Canonical,
    leaves: Vec<(Value, Value)>,
}

impl Form {
    fn new(ir: &Ir, block: BlockId, patterns: &Patterns) -> Option<Self> {
        let program = build(ir, block, &mut Graph::default());
        let canonical = canonical(ir, block, patterns)?;
        let leaves = program.leaves.iter().map(|leaf| leaf.value);
        let leaves = leaves.map(|v| (canonical.ir.twin_value(v, ir), v));
        Some(Self {
            leaves: leaves.collect(),
            canonical,
        })
    }
}

/// The op of a name, and which of its results.
fn base(name: &str) -> (&str, usize) {
    let parts = name.rsplit_once('#');
    let parts = parts.and_then(|(base, index)| Some((base, index.parse().ok()?)));
    parts.unwrap_or((name, 0))
}

fn attrs(text: &str) -> Result<Vec<(tir::Name, Attr)>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let attr = parse_attr(text).map_err(|e| e.to_string())?;
    let dict = attr
        .get::<DictAttr>()
        .ok_or("this is no list of attributes")?;
    Ok(dict.entries().to_vec())
}

fn relayout(b: &mut Builder<'_>, value: Value, to: Type) -> Option<Value> {
    let mut state = OpState::new(Relayout::name());
    state.operands.push(value);
    state.results.push(to);
    let op = b.try_create(state).ok()?;
    Some(b.ir.result(op, 0))
}

/// `f(f(x))` by what traits say of `f`.
fn by_trait(ir: &Ir, op: OpId) -> Option<Value> {
    let info = ir.info(op)?;
    let inner = ir.owner(ir.operands(op).next()?)?;
    let alike = ir.operands(op).len() == 1
        && ir.regions(op).len() + ir.regions(inner).len() == 0
        && ir.name(inner) == ir.name(op)
        && ir.attrs(inner) == ir.attrs(op);
    match alike {
        true if info.has(Traits::Involution) => Some(ir.operand(inner, 0)),
        true if info.has(Traits::Idempotent) => Some(ir.operand(op, 0)),
        _ => None,
    }
}

/// What a result of an op of constants is when it is computed.
fn evaluated(ir: &Ir, op: OpId, index: usize) -> Option<Attr> {
    let evaluate = ir.info(op)?.interface::<dyn EvaluateOp>()?;
    let inputs = ir.operands(op).map(|value| {
        let array = elements(ir.constant(value)?).ok()?;
        Some(Data::from(array))
    });
    let inputs: Vec<Data> = inputs.collect::<Option<_>>()?;
    let outputs = evaluate.evaluate(ir.op(op), &inputs).ok()?;
    Some(attr_of(outputs.get(index)?.as_tensor().ok()?))
}
