//! The end of reading by a format: operands and result types from what the text said.

use tir_core::{Failure, OpState, Role, Traits, Type};

use crate::directive::Parts;
use crate::parser::AsmParser;

/// Resolves operands and result types.
pub(crate) fn finish<'a>(
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
                // A value that is defined later has the only type that it may have.
                None => p.resolve_known(operand).or_else(|error| {
                    let only = fields[i].constraint.and_then(tir_core::Constraint::only);
                    p.resolve(operand, only.ok_or(error)?)
                })?,
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
