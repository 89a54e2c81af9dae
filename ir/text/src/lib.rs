//! Text to IR and IR to text: one grammar for all dialects, declared formats, the printer.
//!
//! [`parse`](parse()) reads a file, [`print`](print()) writes one, [`equal`] compares what was read. A text goes
//! through a scan (brackets, depth, cut at the outermost operations), the grammar
//! (`grammar.pest`: where operations and regions lie), and the op's own syntax.
//!
//! # Formats
//!
//! `#[asm("$x `,` $y attr-dict `:` type($sum)")]` declares what stands behind the op's name:
//!
//! | element | stands for |
//! |---|---|
//! | `` `word` ``, `` `(` `` | a keyword without dots, or punctuation; several may share backticks |
//! | `` `` ``, `` ` ` ``, `` `\n` `` | printed space: none, one, a new line; nothing to read |
//! | `$field` | an operand (`%a`), operands (`%a, %b`); an attribute: a word of an enumeration, `16`, `true`, `[1, 2]`, `"text"`, else as it is; a region; a successor `^b(%a : t)` |
//! | `symbol($field)` | a string attribute as `@name` |
//! | `body($field)` | what stands behind `#d.name` in an attribute of that kind: `<fast>` |
//! | `type($field)`, `type($result)`, `type(operands)`, `type(results)` | types; operand types that are not said come from the values, result types from `infer` |
//! | `functional-type(operands, results)` | `(t, t) -> t`; takes fields too |
//! | `attr-dict`, `attr-dict-with-keyword` | the attributes that the format does not say and that are not at their default: `{a = 1}`, `attributes {a = 1}` |
//! | `operands`, `regions`, `successors` | all of them |
//! | `(… $x^ …)?`, `(… $x^ …)? : (…)` | there if the anchor is (for an attribute: and not at its default); the text is taken to have it if its first element comes next |
//! | `implicit-terminator(d.op)` | regions may leave out this terminator when it says nothing |
//! | `custom<indices>($dynamic, $static)` | `[%i, 0]`: operands of type index, and an array with [`DYNAMIC`](tir_core::DYNAMIC) in their places |
//! | `custom<typed-args>($args)` | `(%a : t, %b : t)` |
//! | `custom<constant>($value, type($result))` | `4 : index`, `true`, `#d.a<…> : t` |
//! | `custom<name>(…)` | code of the op: [`Directives`] |
//!
//! No format may write what begins another operation: a dotted word, a string and then `(`, `%x =`
//! and then one of these, and the words `module`, `return` and `call`, which MLIR writes without
//! their dialect; nor `:` behind a successor, nor `#a =`. [`check_formats`] finds these. An op that its format cannot say
//! prints in generic form. Where a format cannot say the syntax, Rust code does: [`Asm`].
//!
//! # Example
//!
//! ```
//! use tir_core::Name;
//! use tir_text::{ParseOptions, PrintOptions, equal, parse, parse_type, print};
//!
//! let options = ParseOptions {
//!     allow_unregistered: true,
//!     ..ParseOptions::default()
//! };
//! let text = "%x:2 = \"d.pair\"() : () -> (i32, tensor<4xf32>)\n";
//! let module = parse(text, Name::new("pair.tir"), &options).unwrap();
//! let printed = print(&module, &PrintOptions::default());
//! assert_eq!(printed, text);
//! let again = parse(&printed, Name::new("again.tir"), &options).unwrap();
//! assert!(equal(&module, &again, false).is_ok());
//!
//! let wrong = parse("%x = \"d.op\"() : () -> (i33x)", Name::new("x.tir"), &options);
//! let errors = wrong.err().unwrap_or_default();
//! assert_eq!(errors[0].loc.to_string(), "loc(\"x.tir\":1:26)");
//! assert_eq!(parse_type("tuple<f32>").unwrap().to_string(), "tuple<f32>");
//! ```
#![forbid(unsafe_code)]
// A `Name` is hashed by its text, which does not change.
#![allow(clippy::mutable_key_type)]

// The parser that the grammar becomes names it, as it does without the standard library.
extern crate alloc;

mod affine;
mod attr;
mod cursor;
mod directive;
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
mod preamble;
mod print;
mod printer;
mod regions;
mod resolve;
mod scope;
mod source;
mod texts;
#[allow(missing_docs)]
mod tree;

pub use directive::{Directive, Directives, DirectivesObject, Parts, directives};
pub use equal::equal;
pub use format::{Arg, check_format, check_formats};
pub use parse::{ParseOptions, STACK_PER_LEVEL, parse, parse_attr, parse_type};
pub use parser::{Argument, Asm, AsmObject, AsmParser, Operand, asm};
pub use print::{PrintOptions, print, print_op};
pub use printer::AsmPrinter;
pub use source::split_input;

/// Brackets may nest this deep, if nothing else is said.
pub(crate) const DEPTH: usize = 200;
