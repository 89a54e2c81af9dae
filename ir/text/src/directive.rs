//! `custom<name>(…)`: the directives that all formats may use, and those of an op.

use tir_core::{Attr, BlockId, DYNAMIC, Failure, OpInfo, OpState, Type, Value};

use crate::format::Arg;
use crate::parser::{AsmParser, Operand};

/// What an operation's text said so far, by field of its table.
pub struct Parts<'a> {
    pub(crate) info: &'static OpInfo,
    pub(crate) operands: Vec<Vec<Operand<'a>>>,
    /// Types of operand and result fields, where said.
    pub(crate) types: Vec<Option<Vec<Type>>>,
    /// Types of results that have a name only, where said.
    pub(crate) results: Vec<Option<Type>>,
    pub(crate) all_operands: Option<Vec<Type>>,
    pub(crate) all_results: Option<Vec<Type>>,
    pub(crate) blocks: Vec<Option<(BlockId, Vec<Value>)>>,
    pub(crate) loose: Option<Vec<Operand<'a>>>,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(info: &'static OpInfo) -> Self {
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

/// Reads what a directive stands for.
pub(crate) fn custom<'a>(
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
                None => match p.try_index()? {
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
