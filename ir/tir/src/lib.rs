//! The façade: the one API boundary for who writes a dialect, a pass or a tool.
//!
//! # Map
//!
//! [`prelude`] holds what nearly every dialect needs. The rest, by what you want to do:
//!
//! | you want to | start at |
//! |---|---|
//! | declare an op | [`derive(Op)`](derive@Op) on a record; its fields are [`Value`], [`Ret`], [`RegionId`], [`BlockId`], and what is an [`AttrValue`] |
//! | say what an op is | [`Traits`]; [`Verify`], [`Fold`], [`Infer`], [`HasEffects`]; [`constraints`]; [`hooks`] for `#[op(…, word)]` |
//! | say how it is written | `#[asm("…")]`: the elements are in [`text`]; [`Directive`], [`Asm`] where they do not suffice |
//! | declare types, attributes, words | [`TypeData`] and [`ParseType`], [`AttrData`] and [`ParseAttr`], [`attr_enum!`] |
//! | put them into a dialect | [`dialect!`], [`Dialect`] |
//! | read and change IR | [`Ir`], [`OpRef`], [`Builder`], [`OpState`]; [`Type`], [`Attr`], [`Name`]; [`AffineMap`] |
//! | check IR | [`verify()`], [`Diagnostic`], [`Failure`]; [`Dominance`], [`SymbolTable`] |
//! | read and print text | [`text::parse`](text::parse()), [`text::print`](text::print()), [`parse_type`], [`parse_attr`]; [`Scanner`] for small languages |
//! | rewrite | [`rule!`], [`Pattern`], [`Canonicalize`], [`Rewriter`], [`Greedy`]; [`Conversion`], [`Target`], [`TypeConverter`]; all in [`rewrite`] |
//! | write a pass | [`pass!`](pass!), [`Pass`], [`PassCx`], [`PassManager`], [`Pipeline`], [`Analysis`]; all in [`pass`](mod@pass) |
//! | run IR | [`Interpreter`], [`Evaluate`], [`LowerToEval`]; all in [`interp`]; arrays and files in [`data`] |
//! | say what an op costs | [`Cost`], [`Work`] |
//!
//! # Example
//!
//! A dialect of two ops, a program of it, a fold and a rule at work:
//!
//! ```
//! use tir::prelude::*;
//! use tir::rewrite::canonicalization;
//! use tir::text;
//!
//! /// A constant.
//! #[derive(Op)]
//! #[op("toy.const", Pure, ConstantLike, results(out), infer, fold)]
//! #[asm("$value attr-dict")]
//! pub struct Const {
//!     pub value: Attr,
//! }
//! impl Infer for Const {
//!     fn infer(&self, _: OpRef<'_>) -> Result<Vec<Type>, Failure> {
//!         self.value.type_of().map(|ty| vec![ty]).ok_or_else(|| "has no type".into())
//!     }
//! }
//! impl Fold for Const {
//!     fn fold(&self, _: OpRef<'_>) -> Option<Folds> {
//!         Some(self.value.into())
//!     }
//! }
//!
//! /// Sum, wrapping.
//! #[derive(Op)]
//! #[op("toy.add", Pure, Commutative, SameType, results(sum), fold)]
//! #[asm("$x `,` $y attr-dict `:` type($sum)")]
//! pub struct Add {
//!     pub x: Value,
//!     pub y: Value,
//! }
//! impl Fold for Add {
//!     fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
//!         let (x, y) = (op.ir.constant_int(self.x)?, op.ir.constant_int(self.y)?);
//!         Some(Attr::int(x.wrapping_add(y), op.ir.ty(self.x)).into())
//!     }
//! }
//!
//! /// Something with an effect.
//! #[derive(Op)]
//! #[op("toy.print")]
//! #[asm("$x attr-dict `:` type($x)")]
//! pub struct Print {
//!     pub x: Value,
//! }
//!
//! tir::dialect! {
//!     /// Arithmetic of an example.
//!     toy {
//!         ops: [Const, Add, Print],
//!         constant: |b, value, _| Some(b.add(Const { value })),
//!         rules: &[tir::rule!("drop-add-zero", "(toy.add ?x 0)" => "?x")],
//!     }
//! }
//!
//! DIALECT.load();
//! let program = "
//!     %zero = toy.const 0 : i64
//!     %a = toy.const 20 : i64
//!     %b = toy.add %a, %a : i64
//!     %c = toy.add %b, %zero : i64
//!     toy.print %c : i64
//! ";
//! let mut ir = text::parse(program, Name::new("example.tir"), &ParseOptions::default()).unwrap();
//! tir::verify(&ir).unwrap();
//! let patterns = canonicalization().finish(&Default::default()).unwrap();
//! Greedy::new(&patterns).run(&mut ir);
//! assert_eq!(
//!     text::print(&ir, &PrintOptions::default()),
//!     "%b = toy.const 40 : i64\ntoy.print %b : i64\n",
//! );
//! ```
//!
//! `test/plugin` in the repository is a larger one, with types and a lowering of its own.
#![forbid(unsafe_code)]

pub mod prelude;

pub use tir_core::*;
pub use tir_macros::Op;
pub use tir_pass as pass;
pub use tir_pass::{
    Alias, Analysis, Pass, PassCx, PassInfo, PassManager, PassOptions, PassRegistry, PassResult,
    Pipeline, pass,
};
pub use tir_rewrite as rewrite;
pub use tir_rewrite::{
    Arg, Canonicalize, Class, Conversion, Decline, Greedy, Pattern, PatternSet, Patterns, Rewriter,
    Rule, RuleText, Target, TypeConverter, interfaces, interfaces::LoopLike, register_patterns,
    rule,
};

pub use tir_text as text;
pub use tir_text::{
    Asm, AsmParser, AsmPrinter, Directive, Directives, ParseOptions, PrintOptions, parse_attr,
    parse_type,
};

pub use tir_data as data;
pub use tir_interp as interp;
pub use tir_interp::{Compiler, Data, Env, Evaluate, Interpreter, LowerToEval};

pub mod constraints;
pub mod cost;
mod digits;
pub mod remarks;
pub mod rule_file;
pub mod workload;

pub use cost::{Cost, Product, Work};
pub use digits::grouped;

/// What `#[op(…, word)]` may name.
pub mod hooks {
    pub use crate::cost::cost;
    pub use crate::rule_file::{is_definition, is_rule};
    pub use tir_core::hooks::*;
    pub use tir_interp::hooks::{evaluate, lower_to_eval};
    pub use tir_rewrite::canonicalize;
    pub use tir_rewrite::interfaces::{keeps_constants, loop_like, region_branch};
    pub use tir_text::{asm, directives};
}

/// The name of a dialect whose Rust name may be written `r#loop`.
#[doc(hidden)]
pub const fn dialect_name(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// Declares a dialect: `dialect! { /// One sentence. graph { ops: [Add, …], … } }` makes
/// `pub static DIALECT`.
#[macro_export]
macro_rules! dialect {
    (
        $(#[doc = $doc:literal])*
        $name:ident {
            ops: [$($op:ty),* $(,)?]
            $(, types: [$($ty:ty),* $(,)?])?
            $(, attrs: [$($attr:ty),* $(,)?])?
            $(, constant: $constant:expr)?
            $(, rules: $rules:expr)?
            $(, patterns: $patterns:expr)?
            $(, load: $load:expr)?
            $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        pub static DIALECT: $crate::Dialect = $crate::Dialect {
            name: $crate::dialect_name(stringify!($name)),
            doc: concat!($($doc, "\n"),*),
            ops: &[$($crate::op_spec::<$op>()),*],
            types: &[$($($crate::type_info::<$ty>()),*)?],
            attrs: &[$($($crate::attr_info::<$attr>()),*)?],
            constant: $crate::dialect!(@option $($constant)?),
            load: $crate::dialect!(@load [$($rules)?] [$($patterns)?] [$($load)?]),
            attached: $crate::Attached::new(),
        };
    };
    (@load [] [] [$($load:expr)?]) => {
        Some(|| {
            $crate::dialect!(@formats);
            $(($load)();)?
        })
    };
    (@load [$($rules:expr)?] [$($patterns:expr)?] [$($load:expr)?]) => {
        Some(|| {
            $crate::dialect!(@formats);
            $crate::register_patterns(&DIALECT, |set| {
                $(set.rules($rules);)?
                $(($patterns)(set);)?
            });
            $(($load)();)?
        })
    };
    (@formats) => {
        // A format that cannot be read back is a mistake in the dialect, found where it is loaded
        // first and not at the first text that holds the op.
        if let Err(error) = $crate::text::check_formats(&DIALECT) {
            panic!("{error}");
        }
    };
    (@option) => { None };
    (@option $value:expr) => { Some($value) };
}

/// Declares an enumeration that is an attribute.
///
/// `attr_enum! { pub enum Kind { Add = "add", … } }` is a string attribute;
/// `attr_enum! { pub enum Predicate: i64 { Eq = "eq" = 0, … } }` an integer one, `i32` or `i64`.
#[macro_export]
macro_rules! attr_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $crate::attr_enum!(@enum $(#[$meta])* $name { $($(#[$vmeta])* $variant = $text),* });
        impl $crate::AttrValue for $name {
            const WHAT: &'static str = concat!("one of" $(, " ", $text)*);
            const KEYWORDS: Option<&'static $crate::Keywords> = Some(&Self::TEXT);
            fn to_attr(&self) -> $crate::Attr { $crate::Attr::str(self.keyword()) }
            fn from_attr(attr: $crate::Attr) -> Option<Self> { Self::from_keyword(attr.as_str()?) }
        }
    };
    ($(#[$meta:meta])* pub enum $name:ident: i32 $body:tt) => {
        $crate::attr_enum!(@int 32 $(#[$meta])* $name $body);
    };
    ($(#[$meta:meta])* pub enum $name:ident: i64 $body:tt) => {
        $crate::attr_enum!(@int 64 $(#[$meta])* $name $body);
    };
    (@int $width:literal $(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal = $number:literal),* $(,)? }) => {
        $crate::attr_enum!(@enum $(#[$meta])* $name { $($(#[$vmeta])* $variant = $text),* });
        impl $crate::AttrValue for $name {
            const WHAT: &'static str = concat!("a number for one of" $(, " ", $text)*);
            const KEYWORDS: Option<&'static $crate::Keywords> = Some(&Self::TEXT);
            fn to_attr(&self) -> $crate::Attr {
                let number = match self { $(Self::$variant => $number),* };
                $crate::Attr::int(number, $crate::Type::int($width))
            }
            fn from_attr(attr: $crate::Attr) -> Option<Self> {
                match attr.as_int()? { $($number => Some(Self::$variant),)* _ => None }
            }
        }
    };
    (@enum $(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal),* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        pub enum $name { $($(#[$vmeta])* #[doc = concat!("`", $text, "`")] $variant),* }
        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            const TEXT: $crate::Keywords = $crate::Keywords {
                all: &[$($text),*],
                print: |attr| Some(<Self as $crate::AttrValue>::from_attr(attr)?.keyword()),
                parse: |text| Some($crate::AttrValue::to_attr(&Self::from_keyword(text)?)),
            };
            /// Its word in text.
            pub fn keyword(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
            /// The one behind a word.
            pub fn from_keyword(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)* _ => None }
            }
        }
    };
}
