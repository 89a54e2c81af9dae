//! Changing IR: rewriter, rules as data, patterns, greedy driver, dialect conversion.
//!
//! Three tiers, the lowest that works wins: a *fold* makes no ops; a [`Rule`] is data that the
//! greedy driver and the e-graph both read; a [`Pattern`] is code.
//!
//! # Example
//!
//! A rule is text, checked when it is made; a mistake has its place in it:
//!
//! ```
//! use tir_rewrite::{Rule, rule};
//!
//! let text = rule!("drop-add-zero", "(arith.addi ?x 0)" => "?x");
//! let rule = Rule::parse(&text).unwrap();
//! assert_eq!((rule.left.len(), rule.vars.len()), (1, 1));
//!
//! let text = rule!("wrong", "(arith.addi ?x 0)" => "?y");
//! let error = Rule::read(&text).unwrap_err();
//! assert_eq!(error.message, "'y' does not occur on the left");
//! ```
#![forbid(unsafe_code)]
// Names compare and hash by what never changes.
#![allow(clippy::mutable_key_type)]

mod apply;
mod arith;
mod cast;
mod convert;
mod decline;
mod equal;
mod fold;
mod greedy;
pub mod interfaces;
mod literal;
mod pattern;
mod regions;
mod rewriter;
mod rule;
mod rule_text;
mod target;
pub mod term;

pub use apply::{RulePattern, apply_rule};
pub use arith::{BUILTINS, Builtin};
pub use cast::{CAST, TypeConverter};
pub use convert::{Conversion, Mode};
pub use decline::Decline;
pub use equal::{hash_op, ops_are_equal};
pub use fold::Constants;
pub use greedy::{Greedy, Outcome, Stats, Step, Stopped};
pub use pattern::{
    Canonicalize, DialectPatterns, Pattern, PatternSet, Patterns, canonicalization, canonicalize,
    check_names, register_patterns,
};
pub use regions::{drop_passed, erase_dead_args, erase_unreachable, passed_operands};
pub use rewriter::{Event, Rewriter};
pub use rule::{
    About, Arg, AttrFn, AttrTerm, Call, Class, Definition, Functions, Guard, GuardFn, Kind,
    Literal, OpClass, OpTerm, Rule, RuleText, Term, TermKind, TypeTerm, Var, VarKind, Which,
};
pub use rule_text::{RuleError, RulePart};
pub use target::{Legality, Target};
