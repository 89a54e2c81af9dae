//! Reads an operation by its declared format.

use tir_core::{Attr, Failure, FieldInfo, FunctionType, OpInfo, OpState, Role, Traits, Type};

use crate::directive::{Parts, custom};
use crate::format::{Bare, Elem, Format, Of, bare};
use crate::parser::AsmParser;
use crate::resolve::finish;

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
        Elem::Body(..) => p.sees("<"),
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
        Elem::Body(i, kind) => {
            p.cursor.ws();
            let attr = match p.cursor.byte() {
                Some(b'<') => p.cursor.balanced(),
                _ => None,
            };
            let Some(body) = attr else {
                return Err(p.expected("`<`"));
            };
            let inner = &body[1..body.len() - 1];
            let attr = p.cx.attr_of(kind, body, inner)?;
            state.set_attr(info.fields[*i].name, attr);
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

/// The parts of a function type.
pub(crate) fn function_parts(ty: Type) -> Option<(&'static [Type], &'static [Type])> {
    let function = ty.get::<FunctionType>()?;
    Some((&function.inputs, &function.results))
}
