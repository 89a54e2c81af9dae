//! The façade: the one API boundary for who writes a dialect, a pass or a tool.
#![forbid(unsafe_code)]

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
pub mod rule_file;

pub use cost::{Cost, Product, Work};

/// What `#[op(…, word)]` may name.
pub mod hooks {
    pub use crate::cost::cost;
    pub use crate::rule_file::is_rule;
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
    (@load [] [] []) => { None };
    (@load [] [] [$load:expr]) => { Some($load) };
    (@load [$($rules:expr)?] [$($patterns:expr)?] [$($load:expr)?]) => {
        Some(|| {
            $crate::register_patterns(&DIALECT, |set| {
                $(set.rules($rules);)?
                $(($patterns)(set);)?
            });
            $(($load)();)?
        })
    };
    (@option) => { None };
    (@option $value:expr) => { Some($value) };
}

/// Declares an enumeration that is an attribute.
///
/// `attr_enum! { pub enum Kind { Add = "add", … } }` is a string attribute;
/// `attr_enum! { pub enum Predicate: i64 { Eq = "eq" = 0, … } }` an integer one.
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
    ($(#[$meta:meta])* pub enum $name:ident: i64 { $($(#[$vmeta:meta])* $variant:ident = $text:literal = $number:literal),* $(,)? }) => {
        $crate::attr_enum!(@enum $(#[$meta])* $name { $($(#[$vmeta])* $variant = $text),* });
        impl $crate::AttrValue for $name {
            const WHAT: &'static str = concat!("a number for one of" $(, " ", $text)*);
            const KEYWORDS: Option<&'static $crate::Keywords> = Some(&Self::TEXT);
            fn to_attr(&self) -> $crate::Attr {
                $crate::Attr::i64(match self { $(Self::$variant => $number),* })
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
