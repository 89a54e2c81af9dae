//! The dialect rule: rewrite rules as text, for `--rules=FILE` and `--list-rules`.
use std::sync::Arc;

use tir::rewrite::Kind;
use tir::rule_file::{IsDefinition, IsRule};
use tir::{Class, Ir, Name, Op, OpRef, OpState, Rule, RuleText, attr_enum};

attr_enum! {
    /// How the numbers of both sides of a rule agree: see [`Class`].
    pub enum RuleClass {
        Exact = "exact",
        NoNans = "nnan_nsz",
        Reassociating = "reassoc",
        Contracting = "contract",
    }
}

/// Each value of the left side may be replaced by the one on the right, which is less by the
/// measure of [`Kind::Reduce`]: the greedy driver and the e-graph use it.
///
/// `rule.reduce @drop-add-zero "(arith.addi ?x 0)" -> "?x" if "(is-small ?x)" class reassoc`
#[derive(Op)]
#[op("rule.reduce", Symbol, is_rule)]
#[asm("symbol($sym_name) $left `->` $right (`if` $guard^)? (`class` $class^)? attr-dict")]
pub struct Reduce {
    /// The name of the rule.
    pub sym_name: Name,
    /// One term or several.
    pub left: String,
    /// As many terms.
    pub right: String,
    /// Calls of guards; all must hold.
    pub guard: Option<String>,
    /// How the numbers of both sides agree: `exact`, which is the default, `nnan_nsz`, `reassoc` or
    /// `contract`.
    pub class: Option<RuleClass>,
}

/// Both sides are as good as each other: only the e-graph uses it.
#[derive(Op)]
#[op("rule.equal", Symbol, is_rule)]
#[asm("symbol($sym_name) $left `->` $right (`if` $guard^)? (`class` $class^)? attr-dict")]
pub struct Equal {
    /// The name of the rule.
    pub sym_name: Name,
    /// One term or several.
    pub left: String,
    /// As many terms.
    pub right: String,
    /// Calls of guards; all must hold.
    pub guard: Option<String>,
    /// How the numbers of both sides agree: `exact`, which is the default, `nnan_nsz`, `reassoc` or
    /// `contract`.
    pub class: Option<RuleClass>,
}

/// A guard or a function by others: behind it in its file, `(name …)` stands for its body with the
/// arguments in the place of the parameters. Of several calls in the body all must hold.
///
/// `rule.define @fits "?x ?n" "(<= (elements ?x) ?n) (has-floats ?x)"`
#[derive(Op)]
#[op("rule.define", Symbol, is_definition)]
#[asm("symbol($sym_name) $params $body attr-dict")]
pub struct Define {
    /// The name of the guard or function.
    pub sym_name: Name,
    /// The names of its parameters: `?x ?n`.
    pub params: String,
    /// Calls of guards and functions.
    pub body: String,
}

impl IsDefinition for Define {
    fn definition_text(&self, _: OpRef<'_>) -> RuleText {
        let lasting = |text: &str| Name::new(text).as_str();
        RuleText {
            name: self.sym_name.as_str(),
            kind: Kind::Equal,
            class: Class::Exact,
            left: lasting(&self.params),
            right: "",
            guard: lasting(&self.body),
            place: ("", 0, 0),
        }
    }
}

macro_rules! text {
    ($($record:ty => $kind:expr;)*) => {$(
        impl IsRule for $record {
            fn rule_text(&self, _: OpRef<'_>) -> RuleText {
                let lasting = |text: &str| Name::new(text).as_str();
                RuleText {
                    name: self.sym_name.as_str(),
                    kind: $kind,
                    class: self
                        .class
                        .and_then(|class| Class::from_keyword(class.keyword()))
                        .unwrap_or_default(),
                    left: lasting(&self.left),
                    right: lasting(&self.right),
                    guard: lasting(self.guard.as_deref().unwrap_or("")),
                    place: ("", 0, 0),
                }
            }
        }
    )*};
}
text! {
    Reduce => Kind::Reduce;
    Equal => Kind::Equal;
}

tir::dialect! {
    /// Rewrite rules as text.
    rule { ops: [Reduce, Equal, Define] }
}

/// The op of a rule, from its name and the texts of its left side, right side and guards.
pub fn rule_op(
    kind: Kind,
    class: Class,
    sym_name: Name,
    [left, right, guard]: [String; 3],
) -> OpState {
    let guard = Some(guard).filter(|g| !g.is_empty());
    let class = RuleClass::from_keyword(class.keyword()).filter(|c| *c != RuleClass::Exact);
    match kind {
        Kind::Reduce => Reduce {
            sym_name,
            left,
            right,
            guard,
            class,
        }
        .state(),
        Kind::Equal => Equal {
            sym_name,
            left,
            right,
            guard,
            class,
        }
        .state(),
    }
}

/// A module of rules: what prints as a file that reads as them.
pub fn module(rules: &[Arc<Rule>]) -> Ir {
    let mut ir = Ir::new("builtin.module");
    let region = ir.new_region();
    let root = ir.root();
    ir.attach_region(root, region);
    let block = ir.new_block(region);
    for rule in rules {
        let mut state = rule_op(rule.kind, rule.class, rule.name, rule.texts());
        state.loc = rule.loc;
        ir.at(block).create(state);
    }
    ir
}
