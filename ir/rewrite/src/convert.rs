//! Dialect conversion: patterns applied until only what a target allows is left.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tir_core::{At, Attr, Definition, Diagnostic, Ir, Name, Op, OpId, Type, TypeAttr, Value};

use crate::cast::{CAST, TypeConverter, cast_source, reconcile, type_attrs};
use crate::decline::Decline;
use crate::pattern::{Pattern, PatternSet, Patterns};
use crate::rewriter::{Event, Rewriter};
use crate::target::{Legality, Target};

/// How much must be legal at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// What the target calls illegal must be gone.
    Partial,
    /// Only what the target calls legal may be left.
    Full,
}

/// A dialect conversion.
///
/// Ops are visited in program order, holders first, and those that may not stay are handed to the
/// patterns, with their operands adapted to the converted types; what a pattern makes is visited
/// in turn. Uses that still need an old type get a `builtin.unrealized_conversion_cast`; casts
/// that cancel are removed at the end. Isolated ops below are converted as well. An isolated op
/// that is the root of its arena can be changed in place but not replaced.
#[derive(Clone, Copy)]
pub struct Conversion<'a> {
    /// What may be left.
    pub target: &'a Target,
    /// The patterns.
    pub patterns: &'a Patterns,
    /// What types become.
    pub types: Option<&'a TypeConverter>,
    /// How much must be legal at the end; default [`Mode::Partial`].
    pub mode: Mode,
    /// How long a chain of ops may be in which each is made by a pattern on the one before;
    /// default 64.
    pub max_depth: usize,
}

impl<'a> Conversion<'a> {
    /// A partial conversion that leaves types as they are.
    pub fn new(target: &'a Target, patterns: &'a Patterns) -> Self {
        Self {
            target,
            patterns,
            types: None,
            mode: Mode::Partial,
            max_depth: 64,
        }
    }
    /// Converts types as well.
    #[must_use]
    pub fn types(mut self, types: &'a TypeConverter) -> Self {
        self.types = Some(types);
        self
    }
    /// Only what the target calls legal may be left.
    #[must_use]
    pub fn full(mut self) -> Self {
        self.mode = Mode::Full;
        self
    }

    /// Converts an isolated op and all below it. On failure it is as it was before, though its
    /// ids are new, and there is one error for each op that is left, with what each pattern said.
    pub fn run(&self, ir: &mut Ir) -> Result<(), Vec<Diagnostic>> {
        let backup = ir.clone();
        let mut errors = Vec::new();
        self.arena(ir, &mut errors);
        if errors.is_empty() {
            return Ok(());
        }
        *ir = backup;
        Err(errors)
    }

    fn arena(&self, ir: &mut Ir, errors: &mut Vec<Diagnostic>) {
        let mut run = Converter {
            cx: self,
            work: VecDeque::new(),
            declined: FxHashMap::default(),
            origin: FxHashMap::default(),
        };
        let mut ops = Vec::new();
        self.collect(ir, ir.root(), &mut ops);
        run.work.extend(ops.into_iter().map(|op| (op, 0)));
        while let Some((op, depth)) = run.work.pop_front() {
            let there = ir.contains(op) && (ir.block_of(op).is_some() || op == ir.root());
            if there && ir.child(op).is_none() {
                run.visit(ir, op, depth);
            }
        }
        reconcile(ir, self.types);
        let mut ops = Vec::new();
        self.collect(ir, ir.root(), &mut ops);
        for op in &ops {
            if ir.child(*op).is_none() && self.must_go(ir, *op) {
                errors.push(run.left(ir, *op));
            }
        }
        for slot in ops {
            if let Some(child) = ir.child_mut(slot) {
                self.arena(child, errors);
            }
        }
    }

    /// An op and those below it that are not below a recursively legal one, holders first.
    fn collect(&self, ir: &Ir, op: OpId, out: &mut Vec<OpId>) {
        let (inner, id) = ir.op(op).inner();
        if self.target.is_recursively_legal(inner, id) {
            return;
        }
        out.push(op);
        for region in ir.regions(op) {
            for block in ir.blocks(region) {
                for op in ir.ops_in(block) {
                    self.collect(ir, op, out);
                }
            }
        }
    }

    fn must_go(&self, ir: &Ir, op: OpId) -> bool {
        match self.target.legality(ir, op) {
            Legality::Legal => false,
            Legality::Illegal => true,
            Legality::Unknown => self.mode == Mode::Full,
        }
    }
}

type Declined = (Arc<dyn Pattern>, Decline);

struct Converter<'a> {
    cx: &'a Conversion<'a>,
    work: VecDeque<(OpId, usize)>,
    /// What the patterns said of an op that is still there.
    declined: FxHashMap<OpId, Vec<Declined>>,
    /// The pattern that made an op.
    origin: FxHashMap<OpId, Arc<dyn Pattern>>,
}

impl Converter<'_> {
    fn visit(&mut self, ir: &mut Ir, op: OpId, depth: usize) {
        let cast = ir.name(op) == CAST;
        let legality = self.cx.target.legality(ir, op);
        if legality == Legality::Legal || cast && legality == Legality::Unknown {
            return;
        }
        if depth > self.cx.max_depth {
            return;
        }
        let originals: Vec<Value> = ir.operands(op).collect();
        let adapted = self.adapt(ir, op, &originals);
        if adapted != originals {
            ir.set_operands(op, &adapted);
        }
        let mut declined = Vec::new();
        let name = ir.name(op);
        for pattern in self.cx.patterns.of(name) {
            let mut rw = Rewriter::new(ir, op).with_types(self.cx.types);
            rw.originals.clone_from(&originals);
            match pattern.rewrite(op, &mut rw) {
                Ok(()) => {
                    let events = rw.take_events();
                    self.applied(ir, op, depth, pattern, &events);
                    return;
                }
                Err(why) => {
                    assert!(
                        rw.events().is_empty(),
                        "internal error: pattern '{}' declined '{name}' ({why}) after it had \
                         changed the IR",
                        pattern.name()
                    );
                    declined.push((pattern.clone(), why));
                }
            }
        }
        if adapted != originals {
            ir.set_operands(op, &originals);
        }
        self.declined.insert(op, declined);
    }

    /// Queues what a pattern made, to be visited next, in order.
    fn applied(
        &mut self,
        ir: &Ir,
        op: OpId,
        depth: usize,
        pattern: &Arc<dyn Pattern>,
        events: &[Event],
    ) {
        let mut next: Vec<OpId> = Vec::new();
        for event in events {
            if let Event::Inserted(new) = event
                && ir.contains(*new)
                && ir.name(*new) != CAST
            {
                next.push(*new);
                self.origin.insert(*new, pattern.clone());
            }
        }
        if ir.contains(op) && !next.contains(&op) {
            next.push(op);
        }
        for op in next.into_iter().rev() {
            self.work.push_front((op, depth + 1));
        }
    }

    /// The operands in their converted types: through casts where nothing has made them yet.
    fn adapt(&self, ir: &mut Ir, op: OpId, operands: &[Value]) -> Vec<Value> {
        let Some(types) = self.cx.types else {
            return operands.to_vec();
        };
        let mut adapted = Vec::with_capacity(operands.len());
        for &value in operands {
            adapted.push(match types.convert(ir.ty(value)) {
                Some(ty) if ty != ir.ty(value) => adapted_value(ir, op, value, ty),
                _ => value,
            });
        }
        adapted
    }

    /// The error about an op that is left.
    fn left(&self, ir: &Ir, op: OpId) -> Diagnostic {
        let name = ir.name(op);
        let mut error = Diagnostic::error(format!("cannot convert '{name}'")).at(ir.loc(op));
        if name == CAST {
            let types = |all: Vec<Type>| match &all[..] {
                [one] => one.to_string(),
                all => format!("{all:?}"),
            };
            let from = types(ir.operands(op).map(|v| ir.ty(v)).collect());
            let to = types(ir.result_types(op));
            let user = ir.results(op).find_map(|v| ir.uses(v).next());
            let user = user.map_or_else(String::new, |u| format!(" by '{}'", ir.name(u.op)));
            error.message = format!("a value of type {from} is still needed as {to}{user}");
            return error;
        }
        if let Some(pattern) = self.origin.get(&op) {
            error = error.note(format!("it was made by pattern '{}'", pattern.name()));
        }
        match self.declined.get(&op) {
            Some(declined) if !declined.is_empty() => {
                for (pattern, why) in declined {
                    let name = pattern.name();
                    error = error.note(format!("pattern '{name}' declined: {why}"));
                }
            }
            Some(_) => error = error.note("no pattern applies to an op of this name"),
            None if self.origin.contains_key(&op) => {
                let depth = self.cx.max_depth;
                error = error.note(format!("patterns made illegal ops {depth} times in a row"));
            }
            None => error = error.note("the patterns left it as it is"),
        }
        error
    }
}

/// A value as one of another type: what it was cast from, or a new cast behind its definition.
fn adapted_value(ir: &mut Ir, op: OpId, value: Value, ty: Type) -> Value {
    if let Some(source) = ir.owner(value).and_then(|owner| cast_source(ir, owner))
        && ir.ty(source) == ty
    {
        return source;
    }
    for one in ir.uses(value).collect::<Vec<_>>() {
        if cast_source(ir, one.op) == Some(value)
            && ir.ty(ir.result(one.op, 0)) == ty
            && follows_definition(ir, one.op, value)
        {
            return ir.result(one.op, 0);
        }
    }
    let mut rw = Rewriter::new(ir, op);
    let at = match rw.definition(value) {
        Definition::Argument(block, _) => At::Start(block),
        Definition::Result(owner, _) => At::After(owner),
    };
    rw.cast(value, ty, at)
}

/// Whether a cast stands right behind the definition of the value or other casts there, so that
/// it can be used wherever the value can.
fn follows_definition(ir: &Ir, cast: OpId, value: Value) -> bool {
    let mut before = ir.prev(cast);
    while let Some(op) = before.filter(|op| Some(*op) != ir.owner(value)) {
        if ir.name(op) != CAST {
            return false;
        }
        before = ir.prev(op);
    }
    ir.block_of(cast) == ir.value_block(value) && before == ir.owner(value)
}

/// A pattern that changes nothing of an op but types: operands as adapted; results, block arguments
/// and attributes that are types (the signature of a function) as the converter says.
struct Retype {
    name: String,
    root: Name,
}

impl Pattern for Retype {
    fn name(&self) -> &str {
        &self.name
    }
    fn root(&self) -> Option<Name> {
        Some(self.root)
    }
    fn rewrite(&self, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
        let results: Vec<Value> = rw.results(op).collect();
        for value in &results {
            rw.convert_type(rw.ty(*value))?;
        }
        let regions: Vec<_> = rw.regions(op).collect();
        let args = regions.iter().flat_map(|r| rw.blocks(*r));
        for arg in args.flat_map(|b| rw.args(b)) {
            rw.convert_type(rw.ty(arg))?;
        }
        let attrs = type_attrs(rw, op)
            .into_iter()
            .map(|(name, ty)| Ok((name, rw.convert_type(ty)?)));
        let attrs = attrs.collect::<Result<Vec<_>, Decline>>()?;
        for region in regions {
            rw.convert_region(region)?;
        }
        for (name, ty) in attrs {
            rw.set_attr(op, name, Attr::new(TypeAttr(ty)));
        }
        for value in results {
            let ty = rw.convert_type(rw.ty(value))?;
            rw.retype_result(value, ty);
        }
        rw.modify(op, |_| ());
        Ok(())
    }
}

impl PatternSet {
    /// Adds a pattern for conversions that changes nothing of these ops but types: operands,
    /// results, block arguments, and attributes that are types, as the signature of a function.
    pub fn retype<T: Op>(&mut self) -> &mut Self {
        self.retype_op(T::SPEC.name)
    }
    /// The same by name.
    pub fn retype_op(&mut self, op: &str) -> &mut Self {
        self.add(Retype {
            name: format!("retype-{}", op.replace(['.', '_'], "-")),
            root: Name::new(op),
        })
    }
}
