//! Reads an operation by its declared format.

use tir_core::{
    Attr, BlockId, DYNAMIC, Failure, FieldInfo, FunctionType, OpInfo, OpState, Role, Traits, Type,
    Value,
};

use crate::format::{Arg, Bare, Elem, Format, Of, bare};
use crate::parser::{AsmParser, Operand};

/// What an operation's text said so far, by field of its table.
pub struct Parts<'a> {
    info: &'static OpInfo,
    operands: Vec<Vec<Operand<'a>>>,
    /// Types of operand and result fields, where said.
    types: Vec<Option<Vec<Type>>>,
    /// Types of results that have a name only, where said.
    results: Vec<Option<Type>>,
    all_operands: Option<Vec<Type>>,
    all_results: Option<Vec<Type>>,
    blocks: Vec<Option<(BlockId, Vec<Value>)>>,
    loose: Option<Vec<Operand<'a>>>,
}

impl<'a> Parts<'a> {
    fn new(info: &'static OpInfo) -> Self {
        let n = info.fields.len();
        Self {
            info,
            operands: vec![Vec::new(); n],
            types: vec![None; n],
            results: vec![None; info.results.len()],
            all_operands: None,
            all_results: None,
            blocks: vec![None; n],
            loose: None,
        }
    }
    /// The name of a field.
    pub fn name(&self, field: Arg) -> tir_core::Name {
        match field {
            Arg::Field(i) | Arg::TypeOf(i) => self.info.fields[i].name,
            Arg::TypeOfResult(i) => self.info.results[i],
        }
    }
    /// Sets the operands of a field.
    pub fn set_operands(&mut self, field: Arg, operands: Vec<Operand<'a>>) {
        if let Arg::Field(i) = field {
            self.operands[i] = operands;
        }
    }
    /// Sets the types of the operands or results of a field.
    pub fn set_types(&mut self, field: Arg, types: Vec<Type>) {
        match field {
            Arg::Field(i) | Arg::TypeOf(i) => self.types[i] = Some(types),
            Arg::TypeOfResult(i) => {
                if let Some(slot) = self.results.get_mut(i) {
                    *slot = types.first().copied();
                }
            }
        }
    }
}

/// A `custom<name>(…)` of one op's format, in Rust.
pub trait Directive: Send + Sync {
    /// Reads what the directive stands for.
    fn parse<'a>(
        &self,
        p: &mut AsmParser<'a>,
        args: &[Arg],
        parts: &mut Parts<'a>,
        state: &mut OpState,
    ) -> Result<(), Failure>;
    /// Prints it.
    fn print(&self, p: &mut crate::AsmPrinter<'_>, args: &[Arg]);
}

/// The directives of an op's format: attached by the hook word `directives`.
pub trait Directives: tir_core::Op {
    /// The directive of this name.
    fn directive(name: &str) -> Option<&'static dyn Directive>;
}

/// [`Directives`] as an interface.
pub trait DirectivesObject: Send + Sync {
    /// See [`Directives::directive`].
    fn directive(&self, name: &str) -> Option<&'static dyn Directive>;
}
struct OfDirectives<T>(std::marker::PhantomData<fn() -> T>);
impl<T: Directives> DirectivesObject for OfDirectives<T> {
    fn directive(&self, name: &str) -> Option<&'static dyn Directive> {
        T::directive(name)
    }
}
/// The hook behind the word `directives`.
pub fn directives<T: Directives>() -> tir_core::Hook {
    let object = &OfDirectives::<T>(std::marker::PhantomData);
    tir_core::Hook::interface::<dyn DirectivesObject>(object)
}

/// Reads an operation by its format.
pub(crate) fn parse(
    p: &mut AsmParser<'_>,
    info: &'static OpInfo,
    format: &Format,
    state: &mut OpState,
) -> Result<(), Failure> {
    let mut parts = Parts::new(info);
    elems(p, &format.elems, &mut parts, state)?;
    if let Some(name) = format.implicit {
        for region in state.regions.clone() {
            p.terminate(region, name);
        }
    }
    // Regions that are one block each have it even where nothing is written.
    if info.has(Traits::SingleBlock) || info.has(Traits::NoTerminator) {
        for region in state.regions.clone() {
            let child = p.child.as_deref_mut();
            if p.cx.blocks(region, child) == 0 {
                let child = p.child.as_deref_mut();
                p.cx.add_block(region, child);
            }
        }
    }
    finish(p, parts, state)
}

fn elems<'a>(
    p: &mut AsmParser<'a>,
    list: &[Elem],
    parts: &mut Parts<'a>,
    state: &mut OpState,
) -> Result<(), Failure> {
    for elem in list {
        one(p, elem, parts, state)?;
    }
    Ok(())
}

fn literal_next(p: &mut AsmParser<'_>, literal: &str) -> bool {
    if literal.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        p.peek_word() == Some(literal)
    } else {
        p.sees(literal)
    }
}

/// Whether the text goes on with this element.
fn begins(p: &mut AsmParser<'_>, elem: &Elem, info: &OpInfo) -> bool {
    match elem {
        Elem::Literal(literal) => literal_next(p, literal),
        Elem::Symbol(_) => p.sees("@"),
        Elem::AttrDict { keyword } => {
            if *keyword {
                p.peek_word() == Some("attributes")
            } else {
                p.sees("{")
            }
        }
        Elem::Type(_) => p.sees_type(),
        Elem::FunctionalType(..) => p.sees("("),
        Elem::Operands => p.sees("%"),
        Elem::Successors => p.sees("^"),
        Elem::Regions => p.sees("{"),
        Elem::Space(_) => false,
        Elem::Group { then, .. } => then.first().is_some_and(|first| begins(p, first, info)),
        Elem::Custom { name, .. } => match &**name {
            "indices" => p.sees("["),
            "typed-args" => p.sees("("),
            _ => !p.at_end(),
        },
        Elem::Field(i) => {
            let field = &info.fields[*i];
            match field.role {
                role if role.is_operands() && role != Role::Successor => p.sees("%"),
                Role::Successor | Role::Successors => p.sees("^"),
                Role::Region | Role::Regions => p.sees("{"),
                _ => match bare(info, *i) {
                    Bare::Keyword => {
                        let all = field.keywords.map_or(&[][..], |k| k.all);
                        p.peek_word().is_some_and(|word| all.contains(&word))
                    }
                    Bare::Integers => p.sees("["),
                    Bare::Text => p.sees("\""),
                    Bare::Flag => true,
                    Bare::Bool => matches!(p.peek_word(), Some("true" | "false")),
                    Bare::Integer => {
                        let mut cursor = p.cursor;
                        cursor.number().is_some()
                    }
                    Bare::Attr => {
                        let mut cursor = p.cursor;
                        cursor.attr_text(true).is_some()
                    }
                },
            }
        }
    }
}

fn one<'a>(
    p: &mut AsmParser<'a>,
    elem: &Elem,
    parts: &mut Parts<'a>,
    state: &mut OpState,
) -> Result<(), Failure> {
    let info = parts.info;
    match elem {
        Elem::Literal(literal) => {
            if literal.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                p.keyword(literal)
            } else {
                p.punct(literal)
            }
        }
        Elem::Space(_) => Ok(()),
        Elem::Field(i) => field(p, *i, &info.fields[*i], parts, state),
        Elem::Symbol(i) => {
            let field = &info.fields[*i];
            let optional = matches!(field.role, Role::OptionalAttribute(_));
            let name = if optional {
                p.try_symbol()?
            } else {
                Some(p.symbol()?)
            };
            if let Some(name) = name {
                state.set_attr(field.name, Attr::str(&name));
            }
            Ok(())
        }
        Elem::Type(of) => {
            let variadic = match of {
                Of::Field(i) => !matches!(info.fields[*i].role, Role::Operand | Role::Result),
                Of::Result(_) => false,
                Of::Operands | Of::Results => true,
            };
            let types = if !variadic {
                vec![p.ty()?]
            } else if empty(*of, parts) == Some(true) || p.at_end() || !p.sees_type() {
                Vec::new()
            } else {
                p.items(|p| p.ty())?
            };
            set_types(parts, *of, types);
            Ok(())
        }
        Elem::FunctionalType(from, to) => {
            let (inputs, results) = p.function_type()?;
            set_types(parts, *from, inputs);
            set_types(parts, *to, results);
            Ok(())
        }
        Elem::AttrDict { keyword } => {
            if *keyword {
                if p.peek_word() != Some("attributes") {
                    return Ok(());
                }
                p.keyword("attributes")?;
                if !p.sees("{") {
                    return Err(p.expected("`{`"));
                }
            }
            p.attr_dict(state)
        }
        Elem::Operands => {
            let all = p.operands()?;
            parts.loose = Some(all);
            Ok(())
        }
        Elem::Regions => {
            while p.sees("{") {
                let region = p.region(None)?;
                state.regions.push(region);
                if !p.eat(",") {
                    break;
                }
            }
            Ok(())
        }
        Elem::Successors => {
            if p.sees("^") {
                let blocks = p.items(|p| p.successor())?;
                state.successors.extend(blocks);
            }
            Ok(())
        }
        Elem::Group {
            then,
            anchor,
            other,
        } => {
            let first = then.iter().find(|elem| !matches!(elem, Elem::Space(_)));
            let present = first.is_some_and(|first| match first {
                // A flag is present with the literal beside it only.
                Elem::Field(i)
                    if bare(info, *i) == Bare::Flag && info.fields[*i].role.is_attribute() =>
                {
                    then.iter()
                        .find(|e| matches!(e, Elem::Literal(_)))
                        .is_some_and(|e| begins(p, e, info))
                }
                first => begins(p, first, info),
            });
            if present {
                elems(p, then, parts, state)?;
                if let Elem::Field(i) = &then[*anchor] {
                    let field = &info.fields[*i];
                    if field.role.is_attribute()
                        && bare(info, *i) == Bare::Flag
                        && state.attr(&field.name).is_none()
                    {
                        state.set_attr(field.name, Attr::unit());
                    }
                }
                Ok(())
            } else {
                elems(p, other, parts, state)
            }
        }
        Elem::Custom { name, args } => custom(p, name, args, parts, state),
    }
}

/// Whether what the types are of is known to be empty.
fn empty(of: Of, parts: &Parts<'_>) -> Option<bool> {
    match of {
        Of::Field(i) if parts.info.fields[i].role.is_operands() => {
            Some(parts.operands[i].is_empty())
        }
        Of::Operands => {
            let loose = parts.loose.as_ref().is_none_or(Vec::is_empty);
            Some(loose && parts.operands.iter().all(Vec::is_empty))
        }
        _ => None,
    }
}

fn set_types(parts: &mut Parts<'_>, of: Of, types: Vec<Type>) {
    match of {
        Of::Field(i) => parts.types[i] = Some(types),
        Of::Result(i) => {
            if types.len() == 1 {
                parts.results[i] = types.first().copied();
            } else {
                // Of the wrong number: reported with the number of results.
                parts.all_results = Some(types);
            }
        }
        Of::Operands => parts.all_operands = Some(types),
        Of::Results => parts.all_results = Some(types),
    }
}

fn field<'a>(
    p: &mut AsmParser<'a>,
    index: usize,
    field: &FieldInfo,
    parts: &mut Parts<'a>,
    state: &mut OpState,
) -> Result<(), Failure> {
    match field.role {
        Role::Operand => {
            let operand = p.operand()?;
            parts.operands[index] = vec![operand];
        }
        Role::OptionalOperand => parts.operands[index] = p.try_operand().into_iter().collect(),
        Role::Operands => parts.operands[index] = p.operands()?,
        Role::Region => {
            let region = p.region(None)?;
            state.regions.push(region);
        }
        Role::Regions => {
            while p.sees("{") {
                let region = p.region(None)?;
                state.regions.push(region);
                if !p.eat(",") {
                    break;
                }
            }
        }
        Role::Successor => parts.blocks[index] = Some(p.successor_with_args()?),
        Role::Successors => {
            let blocks = p.items(|p| p.successor())?;
            state.successors.extend(blocks);
        }
        Role::Attribute(_) | Role::OptionalAttribute(_) => {
            let value = attribute(p, index, field, parts.info)?;
            if let Some(value) = value {
                if let Some(constraint) = field.constraint {
                    let _ = constraint;
                }
                state.set_attr(field.name, value);
            }
        }
        Role::Result | Role::Results => {}
    }
    Ok(())
}

fn attribute(
    p: &mut AsmParser<'_>,
    index: usize,
    field: &FieldInfo,
    info: &OpInfo,
) -> Result<Option<Attr>, Failure> {
    Ok(Some(match bare(info, index) {
        Bare::Keyword => {
            let Some(keywords) = field.keywords else {
                return Ok(None);
            };
            let before = p.cursor;
            let parsed = p.cursor.word().and_then(keywords.parse);
            match parsed {
                Some(attr) => attr,
                None => {
                    p.cursor = before;
                    let mut all: Vec<String> = keywords
                        .all
                        .iter()
                        .map(|word| format!("`{word}`"))
                        .collect();
                    let last = all.pop().unwrap_or_default();
                    let what = if all.is_empty() {
                        last
                    } else {
                        format!("{} or {last}", all.join(", "))
                    };
                    return Err(p.expected(&what));
                }
            }
        }
        Bare::Integer => Attr::i64(p.int()?),
        Bare::Bool => match p.peek_word() {
            Some("true") => {
                p.keyword("true")?;
                Attr::bool(true)
            }
            Some("false") => {
                p.keyword("false")?;
                Attr::bool(false)
            }
            _ => return Err(p.expected("`true` or `false`")),
        },
        Bare::Integers => Attr::ints(&p.ints()?),
        Bare::Text => Attr::str(&p.string()?),
        Bare::Flag => return Ok(None),
        Bare::Attr => p.attr()?,
    }))
}

fn custom<'a>(
    p: &mut AsmParser<'a>,
    name: &str,
    args: &[Arg],
    parts: &mut Parts<'a>,
    state: &mut OpState,
) -> Result<(), Failure> {
    if let Some(object) = parts.info.interface::<dyn DirectivesObject>()
        && let Some(directive) = object.directive(name)
    {
        return directive.parse(p, args, parts, state);
    }
    match (name, args) {
        ("indices", [dynamic, fixed]) => {
            let mut operands = Vec::new();
            let numbers = p.list("[", "]", |p| match p.try_operand() {
                Some(operand) => {
                    operands.push(operand);
                    Ok(DYNAMIC)
                }
                None => match p.try_int()? {
                    Some(number) => Ok(number),
                    None => Err(p.expected("an index value or a number")),
                },
            })?;
            let count = operands.len();
            parts.set_operands(*dynamic, operands);
            parts.set_types(*dynamic, vec![Type::index(); count]);
            state.set_attr(parts.name(*fixed), Attr::ints(&numbers));
            Ok(())
        }
        ("typed-args", [args]) => {
            let pairs = p.list("(", ")", |p| {
                let operand = p.operand()?;
                p.punct(":")?;
                Ok((operand, p.ty()?))
            })?;
            parts.set_operands(*args, pairs.iter().map(|(o, _)| *o).collect());
            parts.set_types(*args, pairs.iter().map(|(_, ty)| *ty).collect());
            Ok(())
        }
        ("constant", [value, ty]) => {
            let (attr, found) = p.constant()?;
            state.set_attr(parts.name(*value), attr);
            parts.set_types(*ty, vec![found]);
            Ok(())
        }
        _ => Err(p.error(format!(
            "there is no directive `custom<{name}>` of {} arguments",
            args.len()
        ))),
    }
}

/// Resolves operands and result types.
fn finish<'a>(
    p: &mut AsmParser<'a>,
    mut parts: Parts<'a>,
    state: &mut OpState,
) -> Result<(), Failure> {
    let info = parts.info;
    let fields = &info.fields;
    let operand_fields: Vec<usize> = (0..fields.len())
        .filter(|i| fields[*i].role.is_operands())
        .collect();
    if let Some(loose) = parts.loose.take() {
        // All operands in one list: the fixed fields take one each, the open one the rest.
        let fixed = operand_fields
            .iter()
            .filter(|i| !fields[**i].role.is_variadic())
            .count();
        let mut rest = loose.len().saturating_sub(fixed);
        let mut all = loose.into_iter();
        for i in &operand_fields {
            let n = if fields[*i].role.is_variadic() {
                std::mem::take(&mut rest)
            } else {
                1
            };
            parts.operands[*i] = all.by_ref().take(n).collect();
        }
        let left = all.count();
        if left > 0 {
            return Err(p.error(format!("{left} operands too many for '{}'", info.name)));
        }
    }
    // One type for all, where the op has that trait and one is written.
    let same = if info.has(Traits::SameType) {
        let said = parts.types.iter().flatten().flatten().copied();
        let results = parts.results.iter().flatten().copied();
        said.chain(results)
            .chain(parts.all_operands.iter().flatten().copied())
            .chain(parts.all_results.iter().flatten().copied())
            .next()
    } else {
        None
    };
    let mut listed = parts.all_operands.clone().map(Vec::into_iter);
    if let Some(types) = &parts.all_operands {
        let count: usize = operand_fields
            .iter()
            .map(|i| parts.operands[*i].len())
            .sum();
        if count != types.len() {
            return Err(p.error(format!(
                "{count} operands but {} operand types",
                types.len()
            )));
        }
    }
    for i in operand_fields {
        if fields[i].role == Role::Successor {
            let Some((block, args)) = parts.blocks[i].take() else {
                continue;
            };
            state.successors.push(block);
            state.segments.push(args.len() as i64);
            state.operands.extend(args);
            continue;
        }
        let operands = std::mem::take(&mut parts.operands[i]);
        state.segments.push(operands.len() as i64);
        let types = parts.types[i].take();
        if let Some(types) = &types
            && types.len() != operands.len()
        {
            let (name, n, m) = (fields[i].name, operands.len(), types.len());
            return Err(p.error(format!("{n} values but {m} types for '{name}'")));
        }
        for (at, operand) in operands.into_iter().enumerate() {
            let listed = listed.as_mut().and_then(Iterator::next);
            let ty = types.as_ref().map(|types| types[at]).or(listed).or(same);
            let value = match ty {
                Some(ty) => p.resolve(operand, ty)?,
                None => p.resolve_known(operand)?,
            };
            state.operands.push(value);
        }
    }
    results(p, &mut parts, state, same)
}

fn results(
    p: &mut AsmParser<'_>,
    parts: &mut Parts<'_>,
    state: &mut OpState,
    same: Option<Type>,
) -> Result<(), Failure> {
    let info = parts.info;
    if let Some(types) = parts.all_results.take() {
        if let Some(count) = info.result_count()
            && count != types.len()
        {
            let found = types.len();
            let message = format!(
                "'{}' has {count} results, but {found} types are written",
                info.name
            );
            return Err(p.error(message));
        }
        state.results.extend(types);
        return Ok(());
    }
    let mut missing = None;
    for (i, field) in info.fields.iter().enumerate() {
        match field.role {
            Role::Result | Role::Results => match parts.types[i].take() {
                Some(types) => state.results.extend(types),
                // Open results that are not said are none.
                None if field.role == Role::Results && !info.infers() => {}
                None => missing = Some(field.name),
            },
            _ => {}
        }
    }
    for (i, name) in info.results.iter().enumerate() {
        match parts.results[i] {
            Some(ty) => state.results.push(ty),
            None => missing = Some(*name),
        }
    }
    let Some(missing) = missing else {
        return Ok(());
    };
    if info.infers() {
        // By `Ir::create`.
        if info.has(Traits::SameType)
            && state.operands.is_empty()
            && let Some(ty) = same
        {
            state.results = std::iter::repeat_n(ty, info.result_count().unwrap_or(1)).collect();
            return Ok(());
        }
        state.results.clear();
        return Ok(());
    }
    let message = format!(
        "the format of '{}' does not say the type of `{missing}`, and the operation does not infer it",
        info.name
    );
    Err(p.error(message))
}

/// The parts of a function type.
pub(crate) fn function_parts(ty: Type) -> Option<(&'static [Type], &'static [Type])> {
    let function = ty.get::<FunctionType>()?;
    Some((&function.inputs, &function.results))
}
