//! Text to IR and IR to text: one grammar for all dialects, declared formats, the printer.
//!
//! [`parse`] reads a file, [`print`] writes one. What an op looks like is declared by its format
//! (see the crate's README) or, where a format cannot say it, by Rust code ([`Asm`]).
#![forbid(unsafe_code)]

// The parser that the grammar becomes names it, as it does without the standard library.
extern crate alloc;

mod affine;
mod attr;
mod cursor;
mod equal;
mod error;
mod format;
mod format_print;
mod lower;
mod matcher;
mod names;
mod number;
mod parse;
mod parser;
mod print;
mod printer;
mod scope;
mod source;
mod texts;
#[allow(missing_docs)]
mod tree;

pub use equal::equal;
pub use format::Arg;
pub use matcher::{Directive, Directives, DirectivesObject, Parts, directives};
pub use parse::{ParseOptions, parse, parse_attr, parse_type};
pub use parser::{Argument, Asm, AsmObject, AsmParser, Operand, asm};
pub use print::{PrintOptions, print, print_op};
pub use printer::AsmPrinter;
pub use source::split_input;

/// Brackets may nest this deep, if nothing else is said.
pub(crate) const DEPTH: usize = 200;
