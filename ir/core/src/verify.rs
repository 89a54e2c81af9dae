//! The verifier: structure, constraints, traits, dominance and symbols; collects all errors.

use std::fmt::Write;
use std::ops::Range;

use smallvec::SmallVec;

use crate::attrs::DenseArray;
use crate::diag::{Diagnostic, Failure};
use crate::dominance::Dominance;
use crate::id::{BlockId, OpId, RegionId, Value};
use crate::ir::{Definition, Ir};
use crate::name::Name;
use crate::op::{FieldInfo, OpInfo, Role, SEGMENTS, Traits};
use crate::suggest::closest;
use crate::symbol::{Scopes, SymbolTable};
use crate::types::Type;

/// Checks an isolated op and all below it.
///
/// An op passes if: the number of its operands, results, regions and successors, its attributes
/// and the types of operands and results are those of its table; terminators stand last in their
/// blocks and only there; every use is dominated by its definition; successors lie in the same
/// region; it stands in an op that its table names, and blocks end in ops that theirs names;
/// symbols are unique, and stand in a table; and its own `verify` hook agrees.
pub fn verify(ir: &Ir) -> Result<(), Vec<Diagnostic>> {
    verify_in(ir, &mut Scopes::default())
}

/// The same, for an isolated op below tables of symbols.
pub fn verify_in<'a>(ir: &'a Ir, scopes: &mut Scopes<'a>) -> Result<(), Vec<Diagnostic>> {
    Verifier::run(ir, scopes, true)
}

/// The same without following references to symbols: for an isolated op whose surroundings are
/// out of reach.
pub fn verify_local(ir: &Ir) -> Result<(), Vec<Diagnostic>> {
    Verifier::run(ir, &mut Scopes::default(), false)
}

struct Verifier {
    /// Whether references to symbols are followed.
    symbols: bool,
    errors: Vec<Diagnostic>,
    dominance: Dominance,
}

impl Verifier {
    fn run<'a>(ir: &'a Ir, scopes: &mut Scopes<'a>, symbols: bool) -> Result<(), Vec<Diagnostic>> {
        let mut cx = Verifier {
            symbols,
            errors: Vec::new(),
            dominance: Dominance::default(),
        };
        cx.arena(ir, scopes);
        if cx.errors.is_empty() {
            Ok(())
        } else {
            Err(cx.errors)
        }
    }

    fn report(&mut self, ir: &Ir, op: OpId, error: impl Into<Failure>) {
        let error = error.into();
        let name = ir.name(op);
        let context = if error.message.starts_with('\'') {
            String::new()
        } else {
            format!("'{name}' ")
        };
        self.errors
            .push((*error).or_at(ir.loc(op)).context(context));
    }

    fn arena<'a>(&mut self, ir: &'a Ir, scopes: &mut Scopes<'a>) {
        let outer = std::mem::take(&mut self.dominance);
        self.op(ir, ir.root(), scopes);
        self.dominance = outer;
    }

    fn op<'a>(&mut self, ir: &'a Ir, op: OpId, scopes: &mut Scopes<'a>) {
        if let Some(child) = ir.child(op) {
            self.arena(child, scopes);
            return;
        }
        let before = self.errors.len();
        let info = ir.info(op);
        if let Some(info) = info
            && let Err(error) = self.structure(ir, op, info)
        {
            self.report(ir, op, error);
        }
        let table = ir.has(op, Traits::SymbolTable);
        if table {
            let table = SymbolTable::of(ir, op);
            let doubles = table.doubles().to_vec();
            for (name, double) in doubles {
                let first = table.get(name).map_or(ir.loc(op), |first| first.loc());
                let error = Diagnostic::error(format!("defines symbol '{name}' again"));
                self.report(ir, double, error.note_at(first, "first defined here"));
            }
            scopes.push(table);
        }
        let blocks_before = self.errors.len();
        for region in ir.regions(op) {
            self.region(ir, op, region, scopes);
        }
        // Hooks may rely on structure, of this op and of those in its regions.
        if self.errors.len() == before.max(blocks_before)
            && self.errors.len() == before
            && let Some(info) = info
        {
            if let Some(hook) = info.verify
                && let Err(error) = hook(ir, op)
            {
                self.report(ir, op, error);
            } else if self.symbols
                && let Some(hook) = info.verify_symbols
                && let Err(error) = hook(ir, op, scopes)
            {
                self.report(ir, op, error);
            }
        }
        if table {
            scopes.pop();
        }
    }

    fn region<'a>(&mut self, ir: &'a Ir, op: OpId, region: RegionId, scopes: &mut Scopes<'a>) {
        let single = ir.has(op, Traits::SingleBlock);
        if single && ir.blocks(region).len() != 1 {
            let found = ir.blocks(region).len();
            self.report(
                ir,
                op,
                format!("expects a region of one block, found {found}"),
            );
        }
        for block in ir.blocks(region) {
            self.block(ir, op, region, block, scopes);
        }
    }

    fn block<'a>(
        &mut self,
        ir: &'a Ir,
        parent: OpId,
        region: RegionId,
        block: BlockId,
        scopes: &mut Scopes<'a>,
    ) {
        let last = ir.last(block);
        // An op that is not known may be a terminator.
        let ends =
            last.is_some_and(|op| ir.info(op).is_none_or(|info| info.has(Traits::Terminator)));
        let needs = ir
            .info(parent)
            .is_some_and(|info| !info.has(Traits::NoTerminator));
        let several = ir.blocks(region).len() > 1;
        if !ends && (needs || several) {
            let place = last.unwrap_or(parent);
            let what = last.map_or_else(
                || "has an empty block where a terminator is expected".to_string(),
                |_| "stands last in its block but is no terminator".to_string(),
            );
            self.report(ir, place, what);
        }
        for op in ir.ops_in(block) {
            if Some(op) != last && ir.has(op, Traits::Terminator) {
                self.report(
                    ir,
                    op,
                    "is a terminator but does not stand last in its block",
                );
            }
            if ir.successors(op).len() > 0 {
                self.successors(ir, op, region);
            }
            if let Err(error) = surroundings(ir, parent, op) {
                self.report(ir, op, error);
            }
            for (index, value) in ir.operands(op).enumerate() {
                if !self.dominance.value_dominates(ir, value, op) {
                    let error = dominance_error(ir, index, value);
                    self.report(ir, op, error);
                }
            }
            self.op(ir, op, scopes);
        }
    }

    fn successors(&mut self, ir: &Ir, op: OpId, region: RegionId) {
        for (index, block) in ir.successors(op).enumerate() {
            if ir.region_of(block) != Some(region) {
                self.report(ir, op, format!("has successor {index} in another region"));
            } else if ir.entry(region) == Some(block) {
                self.report(ir, op, "branches to the entry block of its region");
            }
        }
        let Some(info) = ir.info(op) else { return };
        if !info.fields.iter().any(|f| f.role == Role::Successor) {
            return;
        }
        let Some(groups) = operand_groups(ir, op, info) else {
            return;
        };
        let blocks: Vec<BlockId> = ir.successors(op).collect();
        let fields = groups.iter().filter(|(f, _)| f.role == Role::Successor);
        for ((_, values), block) in fields.zip(blocks) {
            let given: Vec<Type> = values.iter().map(|v| ir.ty(*v)).collect();
            let wanted: Vec<Type> = ir.args(block).map(|v| ir.ty(v)).collect();
            if given != wanted {
                let error = format!(
                    "passes ({}) to a block that takes ({})",
                    list(&given),
                    list(&wanted)
                );
                self.report(ir, op, error);
            }
        }
    }

    fn structure(&mut self, ir: &Ir, op: OpId, info: &OpInfo) -> Result<(), Failure> {
        counts(ir, op, info)?;
        let mut results = ir.results(op);
        for field in &info.fields {
            match field.role {
                Role::Attribute(what) | Role::OptionalAttribute(what) => {
                    let optional = matches!(field.role, Role::OptionalAttribute(_));
                    let missing = !ir.attrs(op).iter().any(|(name, _)| *name == field.name);
                    if missing && !optional && field.default.is_none() {
                        let error = format!("needs attribute '{}' ({what})", field.name);
                        let error = Diagnostic::error(error);
                        // It may be there under another name.
                        let strict = info.has(Traits::StrictAttributes);
                        return Err(match declared(ir, op, info) {
                            Err(other) if strict => error.note(other.message.clone()),
                            _ => error,
                        }
                        .into());
                    }
                }
                Role::Result => {
                    if let (Some(value), Some(c)) = (results.next(), field.constraint) {
                        constraint(ir, "result", &field.name, value, c)?;
                    }
                }
                Role::Results => {
                    for value in results.by_ref() {
                        if let Some(c) = field.constraint {
                            constraint(ir, "result", &field.name, value, c)?;
                        }
                    }
                }
                _ => {}
            }
        }
        if info.has(Traits::StrictAttributes) {
            declared(ir, op, info)?;
        }
        operands(ir, op, info)?;
        if info.has(Traits::SameType) {
            let mut all = ir.operands(op).chain(ir.results(op)).map(|v| ir.ty(v));
            if let Some(first) = all.next()
                && let Some(other) = all.find(|ty| *ty != first)
            {
                return Err(format!(
                    "expects one type for all operands and results, found {first} and {other}"
                )
                .into());
            }
        }
        // Attributes of a declared name must be of the declared kind.
        if let Some(check) = info.check {
            check(ir, op)?;
        }
        // Result types are those that the op infers.
        if info.infer.is_some() {
            let inferred = ir.infer(op)?;
            let found = ir.results(op).map(|value| ir.ty(value));
            if !found.eq(inferred.iter().copied()) {
                let (inferred, found) = (list(&inferred), list(&ir.result_types(op)));
                return Err(format!("has result types ({found}), expected ({inferred})").into());
            }
        }
        Ok(())
    }
}

/// Whether an op may stand in the one around it, and end a block of it.
fn surroundings(ir: &Ir, parent: OpId, op: OpId) -> Result<(), Failure> {
    let Some(info) = ir.info(op) else {
        return Ok(());
    };
    let outer = ir.name(parent);
    if !info.parents.is_empty() && !info.parents.contains(&outer) {
        let expected = alternatives(&info.parents);
        return Err(format!("stands in '{outer}', expected {expected} around it").into());
    }
    // Of an op that is not known it is not known what it holds.
    let Some(around) = ir.info(parent) else {
        return Ok(());
    };
    if let Some(symbol) = ir.op(op).symbol()
        && !around.has(Traits::SymbolTable)
    {
        let text = format!("defines symbol '{symbol}' in '{outer}', which is no symbol table");
        return Err(text.into());
    }
    let leaves = info.has(Traits::Terminator) && ir.successors(op).len() == 0;
    let hands_on = leaves && !info.has(Traits::MayStop);
    if hands_on && !around.terminators.is_empty() && !around.terminators.contains(&info.name) {
        let expected = alternatives(&around.terminators);
        return Err(format!("ends a block of '{outer}', which ends in {expected}").into());
    }
    Ok(())
}

fn alternatives(names: &[Name]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    names.join(" or ")
}

/// Every operand is of the type that its field expects.
pub(crate) fn operands(ir: &Ir, op: OpId, info: &OpInfo) -> Result<(), Failure> {
    let groups = operand_ranges(ir, op, info).ok_or_else(|| segments_error(ir, op))?;
    for (field, range) in groups {
        if let Some(c) = field.constraint {
            for index in range {
                constraint(ir, "operand", &field.name, ir.operand(op, index), c)?;
            }
        }
    }
    Ok(())
}

fn list(types: &[Type]) -> String {
    let mut out = String::new();
    for (i, ty) in types.iter().enumerate() {
        let _ = write!(out, "{}{ty}", if i > 0 { ", " } else { "" });
    }
    out
}

fn constraint(
    ir: &Ir,
    what: &str,
    name: &str,
    value: Value,
    c: &crate::op::Constraint,
) -> Result<(), Failure> {
    let ty = ir.ty(value);
    if c.holds(ty) {
        Ok(())
    } else {
        Err(format!("expects {} as {what} '{name}', found {ty}", c.what).into())
    }
}

fn dominance_error(ir: &Ir, index: usize, value: Value) -> Diagnostic {
    let (what, loc) = match ir.definition(value) {
        Definition::Result(op, _) => ("result of this op", ir.loc(op)),
        Definition::Argument(..) => (
            "argument of a block that does not hold it",
            crate::loc::Loc::UNKNOWN,
        ),
    };
    let error = Diagnostic::error(format!("uses operand {index} before its definition"));
    if loc.is_unknown() {
        error.note(format!("the operand is an {what}"))
    } else {
        error.note_at(loc, format!("the operand is a {what}"))
    }
}

fn segments_error(ir: &Ir, op: OpId) -> Failure {
    match ir.attr(op, SEGMENTS) {
        Some(sizes) => format!(
            "has {} operands, which '{SEGMENTS}' = {sizes} does not divide up",
            ir.operands(op).len()
        )
        .into(),
        None => format!(
            "needs attribute '{SEGMENTS}', since more than one group of operands varies in size"
        )
        .into(),
    }
}

/// Whether each attribute is declared, or discardable: its name begins with that of a dialect.
fn declared(ir: &Ir, op: OpId, info: &OpInfo) -> Result<(), Failure> {
    let implied =
        |name: Name| name == SEGMENTS || info.has(Traits::Symbol) && name == "sym_visibility";
    let fields = || {
        let attribute =
            |f: &&FieldInfo| matches!(f.role, Role::Attribute(_) | Role::OptionalAttribute(_));
        info.fields.iter().filter(attribute).map(|f| f.name)
    };
    for (name, _) in ir.attrs(op) {
        let known = fields().any(|field| field == *name);
        if known || implied(*name) || name.as_str().contains('.') {
            continue;
        }
        let names = || fields().map(Name::as_str);
        let help = match closest(name.as_str(), names()) {
            Some(near) => format!("; did you mean '{near}'?"),
            None if names().next().is_none() => "; it has none".to_string(),
            None => format!(
                "; its attributes are {}",
                names().collect::<Vec<_>>().join(", ")
            ),
        };
        let error = Diagnostic::error(format!("has no attribute '{name}'{help}"));
        return Err(error
            .note(format!(
                "an attribute that is not the op's own has a prefix, as in 'my.{name}'"
            ))
            .into());
    }
    Ok(())
}

/// The numbers of operands, results, regions and successors are those of the table.
fn counts(ir: &Ir, op: OpId, info: &OpInfo) -> Result<(), Failure> {
    let check = |what: &str, found: usize, is: fn(Role) -> bool, fixed: Role, inferred: &[Name]| {
        let fields = info.fields.iter().filter(|f| is(f.role));
        let (mut least, mut all) = (inferred.len(), inferred.len());
        for field in fields.clone() {
            least += usize::from(field.role == fixed);
            all += 1;
        }
        let open = all > least;
        if found == least || open && found >= least {
            return Ok(());
        }
        let names = fields.map(|f| &f.name).chain(inferred);
        let names: Vec<&str> = names.map(|name| name.as_str()).collect();
        let bound = if open { "at least " } else { "" };
        let s = if least == 1 { "" } else { "s" };
        let names = if names.is_empty() {
            String::new()
        } else {
            format!(" ({})", names.join(", "))
        };
        Err(Failure::from(format!(
            "expects {bound}{least} {what}{s}{names}, found {found}"
        )))
    };
    let is_result = |r| matches!(r, Role::Result | Role::Results);
    let is_region = |r| matches!(r, Role::Region | Role::Regions);
    let is_successor = |r| matches!(r, Role::Successor | Role::Successors);
    let (operands, results) = (ir.operands(op).len(), ir.results(op).len());
    let (regions, successors) = (ir.regions(op).len(), ir.successors(op).len());
    check("operand", operands, Role::is_operands, Role::Operand, &[])?;
    check("result", results, is_result, Role::Result, &info.results)?;
    check("region", regions, is_region, Role::Region, &[])?;
    check("successor", successors, is_successor, Role::Successor, &[])
}

/// The operands of an op by the groups of its table; `None` if they cannot be divided up.
pub fn operand_groups<'a>(
    ir: &Ir,
    op: OpId,
    info: &'a OpInfo,
) -> Option<Vec<(&'a FieldInfo, Vec<Value>)>> {
    let groups = operand_ranges(ir, op, info)?;
    let values = |range: Range<usize>| range.map(|i| ir.operand(op, i)).collect();
    let groups = groups
        .into_iter()
        .map(|(field, range)| (field, values(range)));
    Some(groups.collect())
}

/// Fields with the indices of their operands.
type OperandRanges<'a> = SmallVec<[(&'a FieldInfo, Range<usize>); 4]>;

/// The same as indices of operands.
fn operand_ranges<'a>(ir: &Ir, op: OpId, info: &'a OpInfo) -> Option<OperandRanges<'a>> {
    let fields = info.fields.iter().filter(|f| f.role.is_operands());
    let operands = ir.operands(op).len();
    let sizes = match info.needs_segments() {
        true => Some(&ir.attr(op, SEGMENTS)?.get::<DenseArray>()?.bits),
        false => None,
    };
    if sizes.is_some_and(|sizes| sizes.len() != fields.clone().count()) {
        return None;
    }
    let fixed = fields.clone().filter(|f| !f.role.is_variadic()).count();
    // What is left for the one group whose size varies.
    let rest = operands.checked_sub(fixed);
    let mut groups = SmallVec::new();
    let mut start = 0usize;
    for (i, field) in fields.enumerate() {
        let size = match sizes {
            Some(sizes) => usize::try_from(sizes[i]).ok()?,
            None if field.role.is_variadic() => rest?,
            None => 1,
        };
        let fits = match field.role {
            Role::Operand => size == 1,
            Role::OptionalOperand => size <= 1,
            _ => true,
        };
        let end = start.checked_add(size)?;
        if !fits || end > operands {
            return None;
        }
        groups.push((field, start..end));
        start = end;
    }
    (start == operands).then_some(groups)
}
