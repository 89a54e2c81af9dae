//! The syntax of accel that formats cannot say.

use tir::{
    AffineMapAttr, Asm, AsmParser, AsmPrinter, Attr, Failure, MemRefType, Name, Op, OpRef, OpState,
    SEGMENTS, SymbolRef, Type, Value,
};
use tir_tensor::asm::{parse_indices, parse_map, print_map};

use crate::token::token;
use crate::{Call, Direction, DmaStart, Intrinsic};

/// The name that a symbol attribute holds.
pub(crate) fn symbol(attr: Attr) -> Option<Name> {
    attr.get::<SymbolRef>()?.path.first().copied()
}

impl Asm for Intrinsic {
    fn print(op: OpRef<'_>, p: &mut AsmPrinter<'_>) {
        let Some(record) = Intrinsic::read(op.ir, op.id) else {
            return;
        };
        p.text(" ");
        p.symbol(record.sym_name.as_str());
        p.text(" on ");
        p.symbol(record.unit.0.as_str());
        p.text(" ");
        let spaces = record.spaces.iter().filter_map(|space| symbol(*space));
        let spaces: Vec<Name> = spaces.collect();
        let one = spaces.windows(2).all(|pair| pair[0] == pair[1]);
        let in_space = |p: &mut AsmPrinter<'_>, space: Option<&Name>| {
            if let Some(space) = space {
                p.text(" in ");
                p.symbol(space.as_str());
            }
        };
        p.arguments(0, |p, ir, args| {
            let args: Vec<(usize, &Value)> = args.iter().enumerate().collect();
            p.list("(", ")", &args, |p, (i, arg)| {
                p.value(**arg);
                p.text(": ");
                p.ty(ir.ty(**arg));
                in_space(p, spaces.get(*i).filter(|_| !one));
            });
        });
        in_space(p, spaces.first().filter(|_| one));
        p.text(" cycles ");
        p.string(record.cycles.as_str());
        if let Some(strided) = &record.strided {
            p.text(" strided ");
            p.ints(strided);
        }
        if let Some(family) = record.family {
            p.text(" family ");
            p.attr(family);
        }
        p.attributes_except(&["sym_name", "unit", "spaces", "cycles", "strided", "family"]);
        p.text(" ");
        p.region(0, true);
    }

    fn parse(p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure> {
        let name = p.symbol()?;
        state.set_attr("sym_name", Attr::str(name.as_str()));
        p.keyword("on")?;
        let unit = p.symbol()?;
        state.set_attr("unit", Attr::symbol(unit));
        let mut spaces = Vec::new();
        let args = p.list("(", ")", |p| {
            let arg = p.argument()?;
            p.punct(":")?;
            let ty = p.ty()?;
            let own = p.eat_keyword("in").then(|| p.symbol()).transpose()?;
            // A scalar is an immediate and lies nowhere.
            if own.is_some() || !(ty.is_float() || ty.is_int()) {
                spaces.push(own);
            }
            Ok((arg, ty))
        })?;
        // One space for all operands that name none.
        let mut all = None;
        if spaces.is_empty() || spaces.contains(&None) {
            p.keyword("in")?;
            all = Some(p.symbol()?);
        }
        let spaces = spaces.into_iter().filter_map(|own| own.or(all));
        let spaces: Vec<Attr> = spaces.map(Attr::symbol).collect();
        state.set_attr("spaces", Attr::array(spaces));
        p.keyword("cycles")?;
        let cycles = p.string()?;
        state.set_attr("cycles", Attr::str(&cycles));
        if p.eat_keyword("strided") {
            let strided = p.ints()?;
            state.set_attr("strided", Attr::ints(&strided));
        }
        if p.eat_keyword("family") {
            let family = p.attr()?;
            state.set_attr("family", family);
        }
        for (name, value) in p.attributes()? {
            if state.attr(name.as_str()).is_some() {
                return Err(p.error(format!("attribute '{name}' occurs twice")));
            }
            state.set_attr(name, value);
        }
        let region = p.region(Some(&args))?;
        state.regions.push(region);
        Ok(())
    }
}

/// ` after(%t, %u)`, if there are any.
pub(crate) fn print_after(p: &mut AsmPrinter<'_>, tokens: &[Value]) {
    if !tokens.is_empty() {
        p.text(" after(");
        p.values(tokens);
        p.text(")");
    }
}
/// Reads what [`print_after`] prints.
pub(crate) fn parse_after(p: &mut AsmParser<'_>) -> Result<Vec<Value>, Failure> {
    if !p.eat_keyword("after") {
        return Ok(Vec::new());
    }
    p.list("(", ")", |p| {
        let operand = p.operand()?;
        p.resolve(operand, token())
    })
}

impl Asm for Call {
    fn print(op: OpRef<'_>, p: &mut AsmPrinter<'_>) {
        let Some(record) = Call::read(op.ir, op.id) else {
            return;
        };
        p.text(" ");
        p.symbol(record.callee.0.as_str());
        p.list("(", ")", &record.operands, |p, value| p.value(*value));
        print_after(p, &record.after);
        p.attr_dict_except(&["callee", SEGMENTS]);
        p.text(" : ");
        let types = p.types_of(record.operands.iter().copied());
        let buffers = types.iter().all(|ty| ty.is::<MemRefType>());
        if buffers && !types.is_empty() && record.results.0.is_empty() {
            p.types(&types);
        } else {
            p.function_type(&types, &record.results.0);
        }
    }

    fn parse(p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure> {
        let callee = p.symbol()?;
        state.set_attr("callee", Attr::symbol(callee));
        let operands = p.list("(", ")", |p| p.operand())?;
        let after = parse_after(p)?;
        p.attr_dict(state)?;
        p.punct(":")?;
        let types = if p.sees("(") {
            let (inputs, results) = p.function_type()?;
            state.results = results.into_iter().collect();
            inputs
        } else {
            p.items(|p| p.ty())?
        };
        let operands = p.resolve_all(&operands, &types)?;
        state.segments = [operands.len() as i64, after.len() as i64]
            .into_iter()
            .collect();
        state.operands.extend(operands.into_iter().chain(after));
        Ok(())
    }
}

impl Asm for DmaStart {
    fn print(op: OpRef<'_>, p: &mut AsmPrinter<'_>) {
        let Some(record) = DmaStart::read(op.ir, op.id) else {
            return;
        };
        p.text(" ");
        p.symbol(record.engine.0.as_str());
        p.text(" ");
        p.text(record.direction.keyword());
        p.text(" ");
        let far = |p: &mut AsmPrinter<'_>| {
            p.value(record.far);
            p.indices(&record.offsets, &record.static_offsets);
        };
        match record.direction {
            Direction::Read => {
                far(p);
                p.text(" into ");
                p.value(record.tile);
            }
            Direction::Write => {
                p.value(record.tile);
                p.text(" into ");
                far(p);
            }
        }
        if let Some(padding) = record.padding {
            p.text(" pad ");
            p.value(padding);
        }
        p.text(" access ");
        print_map(p, &record.access);
        print_after(p, &record.after);
        p.attr_dict_except(&["engine", "direction", "static_offsets", "access", SEGMENTS]);
        p.text(" : ");
        let (source, target) = record.sides();
        p.ty(op.ir.ty(source));
        p.text(" to ");
        p.ty(op.ir.ty(target));
    }

    fn parse(p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure> {
        let engine = p.symbol()?;
        state.set_attr("engine", Attr::symbol(engine));
        let Some(direction) = p.peek_word().and_then(Direction::from_keyword) else {
            return Err(p.expected("`read` or `write`"));
        };
        p.word()?;
        state.set_attr("direction", Attr::str(direction.keyword()));
        let reads = direction == Direction::Read;
        let (mut offsets, mut numbers) = (Vec::new(), Vec::new());
        let source = p.operand()?;
        if reads {
            (offsets, numbers) = parse_indices(p)?;
        }
        p.keyword("into")?;
        let target = p.operand()?;
        if !reads {
            (offsets, numbers) = parse_indices(p)?;
        }
        let padding = if p.eat_keyword("pad") {
            Some(p.operand()?)
        } else {
            None
        };
        p.keyword("access")?;
        let map = parse_map(p)?;
        let after = parse_after(p)?;
        p.attr_dict(state)?;
        p.punct(":")?;
        let from = p.ty()?;
        p.keyword("to")?;
        let to = p.ty()?;
        let (source, target) = (p.resolve(source, from)?, p.resolve(target, to)?);
        let (far, tile, elem) = match reads {
            true => (source, target, from.elem()),
            false => (target, source, to.elem()),
        };
        let padding = padding.map(|value| p.resolve(value, elem)).transpose()?;
        let counts = [1, 1, offsets.len(), padding.iter().len(), after.len()];
        state.segments = counts.iter().map(|n| *n as i64).collect();
        state.operands.extend([far, tile]);
        state
            .operands
            .extend(offsets.into_iter().chain(padding).chain(after));
        state.set_attr("static_offsets", Attr::ints(&numbers));
        state.set_attr("access", Attr::new(AffineMapAttr(map)));
        state.results = [token()].into_iter().collect::<tir::SmallVec<[Type; 2]>>();
        Ok(())
    }
}
