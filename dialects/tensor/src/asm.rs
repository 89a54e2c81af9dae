//! The syntax of tensor that formats cannot say: `tensor.generic`, and maps of transfers.

use tir::text::{Arg, Parts};
use tir::{
    AffineExpr, AffineMap, AffineMapAttr, Asm, AsmParser, AsmPrinter, Attr, Directive, Directives,
    Failure, Op, OpRef, OpState, SEGMENTS, Type, Value,
};

use crate::{Combine, Generic, TransferRead, TransferWrite};

/// The attributes that a nest says elsewhere than in its dictionary.
pub const SAID: [&str; 2] = ["combine", SEGMENTS];

/// `ins(%a, %b : t, t)`, or `ins()`.
fn print_group(p: &mut AsmPrinter<'_>, word: &str, values: &[Value]) {
    p.text(" ");
    p.text(word);
    p.text("(");
    if !values.is_empty() {
        p.values(values);
        p.text(" : ");
        let types = p.types_of(values.iter().copied());
        p.types(&types);
    }
    p.text(")");
}
fn parse_group(p: &mut AsmParser<'_>, word: &str) -> Result<Vec<Value>, Failure> {
    p.keyword(word)?;
    p.punct("(")?;
    if p.eat(")") {
        return Ok(Vec::new());
    }
    let operands = p.operands()?;
    p.punct(":")?;
    let types = p.items(|p| p.ty())?;
    let values = p.resolve_all(&operands, &types)?;
    p.punct(")")?;
    Ok(values)
}

/// Prints ` ins(%a : t) outs(%c : t) combine add`, which a nest begins with.
pub fn print_nest(p: &mut AsmPrinter<'_>, nest: &Generic) {
    print_group(p, "ins", &nest.inputs);
    print_group(p, "outs", &nest.outputs);
    if let Some(combine) = nest.combine {
        p.text(" combine ");
        p.text(combine.keyword());
    }
}
/// Reads what [`print_nest`] prints.
pub fn parse_nest(p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure> {
    let inputs = parse_group(p, "ins")?;
    let outputs = parse_group(p, "outs")?;
    state.segments = [inputs.len() as i64, outputs.len() as i64]
        .into_iter()
        .collect();
    state.operands.extend(inputs.into_iter().chain(outputs));
    if p.eat_keyword("combine") {
        let Some(combine) = p.peek_word().and_then(Combine::from_keyword) else {
            return Err(p.expected("one of `add`, `mul`, `max`, `min`"));
        };
        p.word()?;
        state.set_attr("combine", Attr::str(combine.keyword()));
    }
    Ok(())
}
/// Prints the region of a nest and ` -> t`, its results.
pub fn print_nest_body(p: &mut AsmPrinter<'_>, results: &[Type]) {
    p.text(" ");
    p.region(0, false);
    if !results.is_empty() {
        p.text(" -> ");
        p.result_types(results);
    }
}
/// Reads what [`print_nest_body`] prints.
pub fn parse_nest_body(p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure> {
    let region = p.region(None)?;
    state.regions.push(region);
    if p.eat("->") {
        state.results = p.result_types()?.into_iter().collect();
    }
    Ok(())
}

impl Asm for Generic {
    fn print(op: OpRef<'_>, p: &mut AsmPrinter<'_>) {
        let Some(record) = Generic::read(op.ir, op.id) else {
            return;
        };
        p.attr_dict_except(&SAID);
        print_nest(p, &record);
        print_nest_body(p, &record.results.0);
    }
    fn parse(p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure> {
        p.attr_dict(state)?;
        parse_nest(p, state)?;
        parse_nest_body(p, state)
    }
}

/// Prints a map of a transfer: `(d0, d1) -> (d1, 16 * d0)`.
pub fn print_map(p: &mut AsmPrinter<'_>, map: &AffineMap) {
    if map.syms == 0 && map.exprs.iter().all(|e| e.linear(map.dims).is_some()) {
        p.display(map);
    } else {
        p.attr(Attr::map(map.clone()));
    }
}

/// Reads a linear map, whose dimensions may have any names: `(p, q) -> (16 * p + q)`.
pub fn parse_map(p: &mut AsmParser<'_>) -> Result<AffineMap, Failure> {
    if !p.sees("(") {
        let attr = p.attr_untyped()?;
        let map = attr.get::<AffineMapAttr>().map(|map| map.0.clone());
        return map.ok_or_else(|| p.error("expected a map `(d0) -> (d0)`"));
    }
    let names = p.list("(", ")", |p| p.word().map(str::to_string))?;
    if let Some(i) = (1..names.len()).find(|i| names[..*i].contains(&names[*i])) {
        return Err(p.error(format!(
            "two dimensions of the map are called `{}`",
            names[i]
        )));
    }
    p.punct("->")?;
    let exprs = p.list("(", ")", |p| sum(p, &names))?;
    Ok(AffineMap::new(names.len(), exprs))
}

fn sum(p: &mut AsmParser<'_>, names: &[String]) -> Result<AffineExpr, Failure> {
    let mut all = product(p, names)?;
    loop {
        if p.eat("+") {
            all = all + product(p, names)?;
        } else if p.eat("-") {
            all = all + product(p, names)? * AffineExpr::Const(-1);
        } else if let Some(n) = p.try_int()? {
            // `d0 -1`: a negative number that follows stands for a difference.
            if n >= 0 {
                return Err(p.error("expected `+`, `-`, `,` or `)` before the number"));
            }
            all = all + AffineExpr::Const(n);
        } else {
            return Ok(all);
        }
    }
}
fn product(p: &mut AsmParser<'_>, names: &[String]) -> Result<AffineExpr, Failure> {
    let mut all = factor(p, names)?;
    while p.eat("*") {
        let next = factor(p, names)?;
        if !matches!(all, AffineExpr::Const(_)) && !matches!(next, AffineExpr::Const(_)) {
            return Err(p.error("one side of `*` must be a number"));
        }
        all = all * next;
    }
    Ok(all)
}
fn factor(p: &mut AsmParser<'_>, names: &[String]) -> Result<AffineExpr, Failure> {
    if p.eat("-") {
        return Ok(factor(p, names)? * AffineExpr::Const(-1));
    }
    if p.eat("(") {
        let inner = sum(p, names)?;
        p.punct(")")?;
        return Ok(inner);
    }
    if let Some(n) = p.try_int()? {
        return Ok(AffineExpr::Const(n));
    }
    let Some(word) = p.peek_word() else {
        return Err(p.expected("a dimension or a number"));
    };
    let Some(dim) = names.iter().position(|name| name == word) else {
        return Err(p.error(format!("`{word}` is no dimension of the map")));
    };
    p.word()?;
    Ok(AffineExpr::Dim(dim))
}

/// The directive `custom<map>($access)`: a map of a transfer, without `affine_map<…>`.
pub struct Map;
impl Directive for Map {
    fn parse<'a>(
        &self,
        p: &mut AsmParser<'a>,
        args: &[Arg],
        parts: &mut Parts<'a>,
        state: &mut OpState,
    ) -> Result<(), Failure> {
        let map = parse_map(p)?;
        if let [field] = args {
            state.set_attr(parts.name(*field), Attr::map(map));
        }
        Ok(())
    }
    fn print(&self, p: &mut AsmPrinter<'_>, _: &[Arg]) {
        if let Some(map) = p.op().attr("access").and_then(|a| a.get::<AffineMapAttr>()) {
            print_map(p, &map.0);
        }
    }
}
/// The directive of this name, for ops that transfer.
pub fn directive(name: &str) -> Option<&'static dyn Directive> {
    (name == "map").then_some(&Map as &'static dyn Directive)
}
impl Directives for TransferRead {
    fn directive(name: &str) -> Option<&'static dyn Directive> {
        directive(name)
    }
}
impl Directives for TransferWrite {
    fn directive(name: &str) -> Option<&'static dyn Directive> {
        directive(name)
    }
}

/// Reads the mixed list of a slice or transfer: `[0, %i]`.
pub fn parse_indices(p: &mut AsmParser<'_>) -> Result<(Vec<Value>, Vec<i64>), Failure> {
    let mut values = Vec::new();
    let numbers = p.list("[", "]", |p| {
        if let Some(operand) = p.try_operand() {
            values.push(p.resolve(operand, Type::index())?);
            return Ok(tir::DYNAMIC);
        }
        p.int()
    })?;
    Ok((values, numbers))
}
