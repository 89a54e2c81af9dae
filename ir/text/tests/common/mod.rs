//! Test ops: the hard cases of syntax, and helpers.
#![allow(missing_docs, dead_code)]

use tir::*;

attr_enum! {
    /// How values are combined.
    pub enum Combine { Add = "add", Max = "max" }
}

/// A constant.
#[derive(Op)]
#[op("t.const", Pure, ConstantLike)]
#[asm("custom<constant>($value, type($ty)) attr-dict")]
pub(crate) struct Const {
    pub value: Attr,
    pub ty: Ret,
}
/// A sum.
#[derive(Op)]
#[op("t.add", Pure, Commutative, SameType, results(sum))]
#[asm("$x `,` $y attr-dict `:` type($sum)")]
pub(crate) struct Add {
    pub x: Value,
    pub y: Value,
}
/// Everything optional.
#[derive(Op)]
#[op("t.dma")]
#[asm(
    "$source `` custom<indices>($offsets, $fixed) $order (`after` `(` $tokens^ `)`)? (`bank` $bank^)? \
     (`fast` $fast^)? attr-dict `:` type($source) (`,` type($tokens)^)?"
)]
pub(crate) struct Dma {
    pub source: Value,
    pub offsets: Vec<Value>,
    pub tokens: Vec<Value>,
    pub fixed: Vec<i64>,
    pub order: Combine,
    #[default(7)]
    pub depth: i64,
    pub bank: Option<i64>,
    pub fast: Option<Flag>,
}
/// A loop body end.
#[derive(Op)]
#[op("loop.yield", Terminator, Pure)]
#[asm("attr-dict ($values^ `:` type($values))?")]
pub(crate) struct Yield {
    pub values: Vec<Value>,
}
/// A branch.
#[derive(Op)]
#[op("cf.br", Terminator)]
#[asm("$dest attr-dict")]
pub(crate) struct Br {
    pub dest: Successor,
}
/// A branch of two ways.
#[derive(Op)]
#[op("cf.cond_br", Terminator)]
#[asm("$condition `,` $then `,` $other attr-dict")]
pub(crate) struct CondBr {
    pub condition: Value,
    pub then: Successor,
    pub other: Successor,
}
/// A loop that does something only.
#[derive(Op)]
#[op("t.repeat", SingleBlock)]
#[asm("$count $body attr-dict implicit-terminator(loop.yield)")]
pub(crate) struct Repeat {
    pub count: Value,
    pub body: RegionId,
}
/// A return.
#[derive(Op)]
#[op("func.return", Terminator, ReturnLike)]
#[asm("attr-dict ($values^ `:` type($values))?")]
pub(crate) struct Return {
    pub values: Vec<Value>,
}
/// A call.
#[derive(Op)]
#[op("func.call")]
#[asm("$callee `(` $args `)` attr-dict `:` functional-type($args, $results)")]
pub(crate) struct Call {
    pub callee: Sym,
    pub args: Vec<Value>,
    pub results: Rets,
}

/// A function.
#[derive(Op)]
#[op("func.func", IsolatedFromAbove, Symbol, asm)]
pub(crate) struct Func {
    pub sym_name: Name,
    pub function_type: Type,
    pub arg_attrs: Option<Vec<Attr>>,
    pub body: RegionId,
}
impl Asm for Func {
    fn print(op: OpRef<'_>, p: &mut AsmPrinter<'_>) {
        if let Some(word) = op.attr("sym_visibility").and_then(Attr::as_str) {
            p.text(" ");
            p.text(word);
        }
        p.text(" ");
        p.symbol(op.attr("sym_name").and_then(Attr::as_str).unwrap_or(""));
        let ty = op
            .attr("function_type")
            .and_then(|a| Some(a.get::<TypeAttr>()?.0));
        let ty = ty.and_then(|ty| ty.get::<FunctionType>());
        let (inputs, results) = ty.map_or((&[][..], &[][..]), |t| (&t.inputs, &t.results));
        let attrs = op.attr("arg_attrs").and_then(|a| a.get::<ArrayAttr>());
        let mut body = false;
        p.arguments(0, |p, _, args| {
            body = !args.is_empty() || op.regions().any(|(ir, r)| ir.blocks(r).len() > 0);
            p.list("(", ")", inputs.iter().enumerate(), |p, (i, ty)| {
                if let Some(arg) = args.get(i) {
                    p.value(*arg);
                    p.text(": ");
                }
                p.ty(*ty);
                if let Some(dict) = attrs.and_then(|a| a.0.get(i)?.get::<DictAttr>())
                    && !dict.entries().is_empty()
                {
                    p.text(" ");
                    p.dictionary(dict.entries());
                }
            });
        });
        if !results.is_empty() {
            p.text(" -> ");
            p.result_types(results);
        }
        p.attributes_except(&["sym_name", "sym_visibility", "function_type", "arg_attrs"]);
        if body {
            p.text(" ");
            p.region(0, true);
        }
    }
    fn parse(p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure> {
        if p.eat_keyword("private") {
            state.set_attr("sym_visibility", Attr::str("private"));
        }
        let name = p.symbol()?;
        state.set_attr("sym_name", Attr::str(&name));
        let args = p.list("(", ")", |p| {
            let name = if p.sees("%") {
                let name = p.argument()?;
                p.punct(":")?;
                Some(name)
            } else {
                None
            };
            let ty = p.ty()?;
            Ok((name, ty, p.dictionary()?))
        })?;
        let results = if p.eat("->") {
            p.result_types()?
        } else {
            Vec::new()
        };
        for (name, value) in p.attributes()? {
            state.set_attr(name, value);
        }
        let inputs: Vec<Type> = args.iter().map(|(_, ty, _)| *ty).collect();
        state.set_attr("function_type", Attr::ty(Type::function(inputs, results)));
        if args.iter().any(|(.., attrs)| !attrs.is_empty()) {
            let dicts = args
                .iter()
                .map(|(.., a)| Attr::new(DictAttr::new(a.clone())));
            state.set_attr("arg_attrs", Attr::array(dicts.collect::<Vec<_>>()));
        }
        let mut named = Vec::new();
        for (name, ty, _) in &args {
            match name {
                Some(name) => named.push((*name, *ty)),
                None if p.sees_region() => return Err(p.error("the arguments have no names")),
                None => {}
            }
        }
        let region = if p.sees_region() {
            p.region(Some(&named))?
        } else {
            p.no_region()
        };
        state.regions.push(region);
        Ok(())
    }
}

/// A loop.
#[derive(Op)]
#[op("loop.for", SingleBlock, asm)]
pub(crate) struct For {
    pub lower: Value,
    pub upper: Value,
    pub step: Option<Value>,
    pub init: Vec<Value>,
    pub body: RegionId,
    pub results: Rets,
}
impl Asm for For {
    fn print(op: OpRef<'_>, p: &mut AsmPrinter<'_>) {
        let Some(record) = op.ir.get::<For>(op.id) else {
            return;
        };
        p.text(" ");
        p.arguments(0, |p, _, args| {
            p.value(args[0]);
            p.text(" = ");
        });
        p.value(record.lower);
        p.text(" to ");
        p.value(record.upper);
        if let Some(step) = record.step {
            p.text(" step ");
            p.value(step);
        }
        if !record.init.is_empty() {
            p.text(" iter_args");
            p.arguments(0, |p, _, args| {
                p.list(
                    "(",
                    ")",
                    args[1..].iter().zip(&record.init),
                    |p, (arg, init)| {
                        p.value(*arg);
                        p.text(" = ");
                        p.value(*init);
                    },
                );
            });
            p.text(" -> (");
            p.types(&record.results.0);
            p.text(")");
        }
        p.text(" ");
        p.region_without(0, true, "loop.yield");
        p.attr_dict_except(&[]);
    }
    fn parse(p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure> {
        let var = p.argument()?;
        p.punct("=")?;
        let lower = p.operand()?;
        p.keyword("to")?;
        let upper = p.operand()?;
        let step = if p.eat_keyword("step") {
            Some(p.operand()?)
        } else {
            None
        };
        let mut inits = Vec::new();
        if p.eat_keyword("iter_args") {
            inits = p.list("(", ")", |p| {
                let arg = p.argument()?;
                p.punct("=")?;
                Ok((arg, p.operand()?))
            })?;
            p.punct("->")?;
            let types = p.list("(", ")", |p| p.ty())?;
            state.results.extend(types);
        }
        let index = Type::index();
        for bound in [Some(lower), Some(upper), step].into_iter().flatten() {
            let value = p.resolve(bound, index)?;
            state.operands.push(value);
        }
        let types = state.results.to_vec();
        let operands: Vec<_> = inits.iter().map(|(_, init)| *init).collect();
        let values = p.resolve_all(&operands, &types)?;
        state.operands.extend(values);
        state
            .segments
            .extend([1, 1, i64::from(step.is_some()), inits.len() as i64]);
        let mut args = vec![(var, index)];
        args.extend(inits.iter().zip(&types).map(|((arg, _), ty)| (*arg, *ty)));
        let region = p.region(Some(&args))?;
        p.terminate(region, "loop.yield");
        state.regions.push(region);
        p.attr_dict(state)
    }
}

/// An index expression.
#[derive(Op)]
#[op("tensor.generic", SingleBlock)]
#[asm(
    "attr-dict `ins` `(` ($ins^ `:` type($ins))? `)` `outs` `(` $outs `:` type($outs) `)` \
     (`combine` $combine^)? $body `->` type($results)"
)]
pub(crate) struct Generic {
    pub ins: Vec<Value>,
    pub outs: Vec<Value>,
    pub indexing_maps: Vec<AffineMap>,
    pub iterator_types: Vec<Attr>,
    pub combine: Option<Combine>,
    pub body: RegionId,
    pub results: Rets,
}
/// A view.
#[derive(Op)]
#[op("memref.subview", Pure)]
#[asm(
    "$source `` custom<indices>($offsets, $static_offsets) custom<indices>($sizes, $static_sizes) \
     attr-dict `:` type($source) `to` type($result)"
)]
pub(crate) struct Subview {
    pub source: Value,
    pub offsets: Vec<Value>,
    pub sizes: Vec<Value>,
    pub static_offsets: Vec<i64>,
    pub static_sizes: Vec<i64>,
    pub result: Ret,
}
/// A machine.
#[derive(Op)]
#[op("accel.machine", IsolatedFromAbove, SymbolTable, Symbol, NoTerminator)]
#[asm("symbol($sym_name) attr-dict-with-keyword $body")]
pub(crate) struct Machine {
    pub sym_name: Name,
    pub body: RegionId,
}
/// A unit.
#[derive(Op)]
#[op("accel.unit", Symbol)]
#[asm("symbol($sym_name) attr-dict")]
pub(crate) struct Unit {
    pub sym_name: Name,
    #[default(16)]
    pub queue: i64,
}
/// An intrinsic.
#[derive(Op)]
#[op("accel.intrinsic", IsolatedFromAbove, Symbol, asm)]
pub(crate) struct Intrinsic {
    pub sym_name: Name,
    pub unit: Sym,
    pub cycles: String,
    pub body: RegionId,
}
impl Asm for Intrinsic {
    fn print(op: OpRef<'_>, p: &mut AsmPrinter<'_>) {
        p.text(" ");
        p.symbol(op.attr("sym_name").and_then(Attr::as_str).unwrap_or(""));
        p.text(" on ");
        op.attr("unit").into_iter().for_each(|unit| p.attr(unit));
        p.text(" ");
        p.arguments(0, |p, ir, args| {
            p.list("(", ")", args, |p, arg| {
                p.value(*arg);
                p.text(": ");
                p.ty(ir.ty(*arg));
            });
        });
        p.text(" cycles ");
        p.string(op.attr("cycles").and_then(Attr::as_str).unwrap_or(""));
        p.attributes_except(&["sym_name", "unit", "cycles"]);
        p.text(" ");
        p.region(0, true);
    }
    fn parse(p: &mut AsmParser<'_>, state: &mut OpState) -> Result<(), Failure> {
        let name = p.symbol()?;
        state.set_attr("sym_name", Attr::str(&name));
        p.keyword("on")?;
        let unit = p.symbol()?;
        state.set_attr("unit", Attr::symbol(unit));
        let args = p.list("(", ")", |p| {
            let name = p.argument()?;
            p.punct(":")?;
            Ok((name, p.ty()?))
        })?;
        p.keyword("cycles")?;
        let cycles = p.string()?;
        state.set_attr("cycles", Attr::str(&cycles));
        for (name, value) in p.attributes()? {
            state.set_attr(name, value);
        }
        let region = p.region(Some(&args))?;
        state.regions.push(region);
        Ok(())
    }
}

/// A layout.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LayoutTag(pub String);
impl AttrData for LayoutTag {
    const NAME: &'static str = "graph.layout";
}
impl std::fmt::Display for LayoutTag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl ParseAttr for LayoutTag {
    fn parse(body: Option<&str>, _: &dyn TextCx) -> Result<Self, String> {
        match body {
            Some(text) if text.chars().all(char::is_alphanumeric) => Ok(Self(text.into())),
            _ => Err("expected a layout as in `#graph.layout<NCHW>`".into()),
        }
    }
}
/// A token.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Token;
impl TypeData for Token {
    const NAME: &'static str = "accel.token";
}
impl std::fmt::Display for Token {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}
impl ParseType for Token {
    fn parse(body: Option<&str>, _: &dyn TextCx) -> Result<Self, String> {
        if body.is_some() {
            Err("a token takes no parameters".into())
        } else {
            Ok(Self)
        }
    }
}

mod dialects {
    use super::*;
    pub(super) mod t {
        use super::*;
        dialect! {
            /// For tests.
            t { ops: [Const, Add, Dma, Repeat] }
        }
    }
    pub(super) mod func {
        use super::*;
        dialect! {
            /// For tests.
            func { ops: [Func, Return, Call] }
        }
    }
    pub(super) mod r#loop {
        use super::*;
        dialect! {
            /// For tests.
            r#loop { ops: [For, Yield] }
        }
    }
    pub(super) mod cf {
        use super::*;
        dialect! {
            /// For tests.
            cf { ops: [Br, CondBr] }
        }
    }
    pub(super) mod tensor {
        use super::*;
        dialect! {
            /// For tests.
            tensor { ops: [Generic] }
        }
    }
    pub(super) mod memref {
        use super::*;
        dialect! {
            /// For tests.
            memref { ops: [Subview] }
        }
    }
    pub(super) mod accel {
        use super::*;
        dialect! {
            /// For tests.
            accel { ops: [Machine, Unit, Intrinsic], types: [Token] }
        }
    }
    pub(super) mod graph {
        use super::*;
        dialect! {
            /// For tests.
            graph { ops: [], attrs: [LayoutTag] }
        }
    }
}

pub(crate) fn load() {
    dialects::t::DIALECT.load();
    dialects::func::DIALECT.load();
    dialects::r#loop::DIALECT.load();
    dialects::cf::DIALECT.load();
    dialects::tensor::DIALECT.load();
    dialects::memref::DIALECT.load();
    dialects::accel::DIALECT.load();
    dialects::graph::DIALECT.load();
}

pub(crate) fn options() -> ParseOptions {
    ParseOptions {
        allow_unregistered: true,
        ..ParseOptions::default()
    }
}

/// Reads, or shows the errors.
pub(crate) fn read(text: &str) -> Ir {
    load();
    match text::parse(text, Name::new("test.tir"), &options()) {
        Ok(ir) => ir,
        Err(errors) => panic!("{}\n{text}", rendered(text, &errors)),
    }
}

pub(crate) fn rendered(text: &str, errors: &[Diagnostic]) -> String {
    let mut sources = Sources::default();
    sources.add(Name::new("test.tir"), text);
    errors
        .iter()
        .map(|error| sources.render(error, false))
        .collect()
}

/// Prints in every form, reads back and compares; gives the pretty text.
pub(crate) fn round_trip(text: &str) -> String {
    let ir = read(text);
    let pretty = text::print(&ir, &PrintOptions::default());
    for generic in [false, true] {
        let opts = PrintOptions {
            generic,
            ..PrintOptions::default()
        };
        let printed = text::print(&ir, &opts);
        let again = read(&printed);
        if let Err(error) = text::equal(&ir, &again, false) {
            panic!("{error}\n{printed}");
        }
        assert_eq!(text::print(&again, &opts), printed, "printing is stable");
    }
    pretty
}
