//! Mutants: rules with one mistake, as people make them, to see whether tests find it.
//!
//! *Terms.* An **operator** makes mutants of one kind of mistake: operands exchanged, a guard left
//! out, another number, another op of the same fields (mutation testing; DeMillo, Lipton, Sayward,
//! "Hints on test data selection", 1978).
//!
//! *Invariants.* A mutant differs from its rule in one place, and in its form: mutants that are the
//! same but for the order of operands of a commutative op, or a default that is written out, are left
//! out. The list for a rule is the same in each run.

use std::collections::BTreeSet;

use tir::rewrite::{
    AttrTerm, Functions, Kind, Literal, OpTerm, Rule, Term, TermKind, TypeTerm, Var, VarKind,
};
use tir::{Dialect, FieldInfo, Name, OpInfo, Traits};

/// A rule with one mistake.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// The rule; its name is that of the rule it was made of, the operator, and a number.
    pub rule: Rule,
    /// The rule it was made of.
    pub base: Name,
    /// What was changed.
    pub change: String,
}

impl Mutant {
    /// Whether it is the same as the rule it was made of, or says that something is itself, by its
    /// text alone: operands of commutative ops stand in any order, guards too.
    pub fn is_equivalent(&self, base: &Rule) -> bool {
        let [left, right, guards] = form(&self.rule);
        let says_nothing = self.rule.kind == Kind::Equal && left == right;
        says_nothing || [left, right, guards] == form(base)
    }
}

/// An operator: mutants of a rule, each with what was changed.
type Operator = fn(&Rule) -> Vec<(Rule, String)>;

const OPERATORS: &[(&str, Operator)] = &[
    ("swapped", swapped),
    ("unguarded", unguarded),
    ("other-bound", other_bound),
    ("other-number", other_number),
    ("without-attribute", without_attribute),
    ("exchanged-attributes", exchanged_attributes),
    ("other-attribute", other_attribute),
    ("other-call", other_call),
    ("other-operand", other_operand),
    ("exchanged-roots", exchanged_roots),
    ("other-op", other_op),
    ("other-constant", other_constant),
    ("generalized", generalized),
    ("without-op", without_op),
    ("untied", untied),
    ("untyped", untyped),
];

/// The mutants of a rule: of each operator those at its first `places` places.
pub fn mutants(rule: &Rule, places: usize) -> Vec<Mutant> {
    let texts = rule.texts();
    let mut all = Vec::new();
    for (operator, apply) in OPERATORS {
        let mut seen = BTreeSet::new();
        let made = apply(rule).into_iter().filter(|(m, _)| m.texts() != texts);
        let made = made.filter(|(m, _)| seen.insert(m.texts()));
        let made: Vec<_> = made.take(places).collect();
        for (i, (mut mutant, change)) in made.into_iter().enumerate() {
            let number = if i == 0 {
                String::new()
            } else {
                format!("-{}", i + 1)
            };
            mutant.name = Name::new(&format!("{}/{operator}{number}", rule.name));
            all.push(Mutant {
                rule: mutant,
                base: rule.name,
                change,
            });
        }
    }
    all
}

/// The texts of a rule with operands of commutative ops and guards in the order of their texts, and
/// without attributes on the right that are the default.
fn form(rule: &Rule) -> [String; 3] {
    fn sort(term: &mut Term, right: bool) {
        let TermKind::Op(op) = &mut term.kind else {
            return;
        };
        op.operands
            .iter_mut()
            .for_each(|operand| sort(operand, right));
        let Some(info) = op.name.info() else {
            return;
        };
        if info.has(Traits::Commutative) {
            op.operands.sort_by_key(|operand| format!("{operand:?}"));
        }
        op.attrs
            .retain(|(name, attr)| match (attr, info.field(name)) {
                (AttrTerm::Literal(literal), Some(field)) if right => {
                    field.default.is_none() || literal.attr(Some(field)) != field.default
                }
                _ => true,
            });
    }
    let mut sorted = rule.clone();
    sorted.guards.sort_by_key(|guard| format!("{guard:?}"));
    sorted.left.iter_mut().for_each(|term| sort(term, false));
    sorted.right.iter_mut().for_each(|term| sort(term, true));
    sorted.texts()
}

/// Calls a function on every op of terms, outermost first.
fn ops(terms: &mut [Term], visit: &mut dyn FnMut(&mut OpTerm)) {
    for term in terms {
        if let TermKind::Op(op) = &mut term.kind {
            visit(op);
            ops(&mut op.operands, visit);
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

/// What a change does with an op: the number of the change to make on it counts down, and the text
/// says what was done.
type Change<'a> = &'a dyn Fn(&mut OpTerm, usize) -> Option<String>;

/// The rules in which one change took effect on one op of a side.
fn each_op(rule: &Rule, side: Side, change: Change<'_>) -> Vec<(Rule, String)> {
    let mut all = Vec::new();
    for at in 0.. {
        for way in 0.. {
            let (mut mutant, mut seen, mut done) = (rule.clone(), 0, None);
            let terms = match side {
                Side::Left => &mut mutant.left,
                Side::Right => &mut mutant.right,
            };
            ops(terms, &mut |op| {
                if seen == at {
                    let name = op.name;
                    done = change(op, way).map(|what| format!("{name}: {what}"));
                }
                seen += 1;
            });
            if seen <= at {
                return all;
            }
            match done {
                Some(what) => all.push((mutant, what)),
                None => break,
            }
        }
    }
    all
}

fn info(op: &OpTerm) -> Option<&'static OpInfo> {
    op.name.info()
}

/// The variables of a rule that stand for ops that all commute.
fn commuting(rule: &Rule) -> Vec<Var> {
    let ops = rule.ops_of(&Functions::default()).into_iter();
    let commutes = |name: &Name| {
        name.info()
            .is_some_and(|info| info.has(Traits::Commutative))
    };
    let all = ops.filter(|(_, names)| names.iter().all(commutes));
    all.map(|(var, _)| var).collect()
}

fn swapped(rule: &Rule) -> Vec<(Rule, String)> {
    let commuting = commuting(rule);
    each_op(rule, Side::Right, &|op, way| {
        let commutes = match op.var {
            Some(var) => commuting.contains(&var),
            None => info(op).is_some_and(|info| info.has(Traits::Commutative)),
        };
        let pairs = (1..op.operands.len()).filter(|i| op.operands[i - 1] != op.operands[*i]);
        let at = pairs.filter(|_| !commutes).nth(way)?;
        op.operands.swap(at - 1, at);
        Some(format!("operands {} and {at} exchanged", at - 1))
    })
}

fn unguarded(rule: &Rule) -> Vec<(Rule, String)> {
    let without = |i| {
        let mut mutant = rule.clone();
        let guard = mutant.guards.remove(i);
        (mutant, format!("without guard {}", guard.function))
    };
    (0..rule.guards.len()).map(without).collect()
}

fn other_bound(rule: &Rule) -> Vec<(Rule, String)> {
    let mut all = Vec::new();
    for (i, guard) in rule.guards.iter().enumerate() {
        for (k, arg) in guard.args.iter().enumerate() {
            if let AttrTerm::Literal(Literal::Int(n)) = arg {
                let mut mutant = rule.clone();
                mutant.guards[i].args[k] = AttrTerm::Literal(Literal::Int(n + 1));
                all.push((
                    mutant,
                    format!("guard {}: {n} is {}", guard.function, n + 1),
                ));
            }
        }
    }
    all
}

/// Another value, not far off.
fn other(literal: &Literal) -> Option<Literal> {
    Some(match literal {
        Literal::Int(n) => Literal::Int(if *n == 0 { 1 } else { n - 1 }),
        Literal::Float(x) => Literal::Float(x + 1.0),
        Literal::Bool(b) => Literal::Bool(!b),
        Literal::Ints(list) => {
            let mut other: Vec<i64> = list.iter().rev().copied().collect();
            if other == *list {
                *other.last_mut()? += 1;
            }
            Literal::Ints(other)
        }
        _ => return None,
    })
}

fn other_number(rule: &Rule) -> Vec<(Rule, String)> {
    each_op(rule, Side::Right, &|op, way| {
        let mut found = op.attrs.iter_mut().filter_map(|(name, attr)| match attr {
            AttrTerm::Literal(literal) => Some((*name, other(literal)?, literal)),
            _ => None,
        });
        let (name, other, literal) = found.nth(way)?;
        let what = format!("{name} is {other} instead of {literal}");
        *literal = other;
        Some(what)
    })
}

fn without_attribute(rule: &Rule) -> Vec<(Rule, String)> {
    each_op(rule, Side::Right, &|op, way| {
        let info = info(op)?;
        let default = |name: &Name| info.field(name).is_some_and(|f| f.default.is_some());
        let mut places = (0..op.attrs.len()).filter(|i| default(&op.attrs[*i].0));
        let (name, _) = op.attrs.remove(places.nth(way)?);
        Some(format!("without {name}"))
    })
}

fn exchanged_attributes(rule: &Rule) -> Vec<(Rule, String)> {
    each_op(rule, Side::Right, &|op, way| {
        let info = info(op)?;
        let role = |i: usize| info.field(&op.attrs[i].0).map(|f| f.role);
        let all = (0..op.attrs.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
        let mut pairs =
            all.filter(|(a, b)| role(*a) == role(*b) && op.attrs[*a].1 != op.attrs[*b].1);
        let (a, b) = pairs.nth(way)?;
        let [x, y] = [a, b].map(|i| op.attrs[i].1.clone());
        (op.attrs[a].1, op.attrs[b].1) = (y, x);
        Some(format!("{} and {} exchanged", op.attrs[a].0, op.attrs[b].0))
    })
}

/// The variables of some kinds.
fn vars(rule: &Rule, kinds: &[VarKind]) -> Vec<Var> {
    let all = 0..rule.vars.len();
    all.filter(|v| kinds.contains(&rule.vars[*v].1))
        .map(Var)
        .collect()
}

/// The variable behind another, the first behind the last.
fn next(all: &[Var], var: Var) -> Option<Var> {
    let at = all.iter().position(|v| *v == var)?;
    (all.len() > 1).then(|| all[(at + 1) % all.len()])
}

fn other_attribute(rule: &Rule) -> Vec<(Rule, String)> {
    let all = vars(rule, &[VarKind::Attr]);
    each_op(rule, Side::Right, &|op, way| {
        let mut found = op.attrs.iter_mut().filter_map(|(name, attr)| match attr {
            AttrTerm::Var(var) => Some((*name, next(&all, *var)?, var)),
            _ => None,
        });
        let (name, other, var) = found.nth(way)?;
        *var = other;
        Some(format!("{name} is ?{}", rule.vars[other.0].0))
    })
}

fn other_call(rule: &Rule) -> Vec<(Rule, String)> {
    each_op(rule, Side::Right, &|op, way| {
        let mut ways = 0;
        for (name, attr) in &mut op.attrs {
            let AttrTerm::Call(call) = attr else {
                continue;
            };
            let function = call.function;
            let bare = call.args.iter().find_map(|arg| match arg {
                AttrTerm::Var(var) if rule.vars[var.0].1 == VarKind::Attr => Some(*var),
                _ => None,
            });
            if let Some(var) = bare {
                if ways == way {
                    *attr = AttrTerm::Var(var);
                    let var = rule.vars[var.0].0;
                    return Some(format!("{name} is ?{var} without {function}"));
                }
                ways += 1;
            }
            // Arguments of one kind: others are no mistake that people make.
            let kind = |arg: &AttrTerm| match arg {
                AttrTerm::Var(var) => Some(rule.vars[var.0].1),
                _ => None,
            };
            for at in 1..call.args.len() {
                let [a, b] = [at - 1, at].map(|i| &call.args[i]);
                if a == b || kind(a).is_none() || kind(a) != kind(b) {
                    continue;
                }
                if ways == way {
                    call.args.swap(at - 1, at);
                    return Some(format!("{name}: arguments of {function} exchanged"));
                }
                ways += 1;
            }
        }
        None
    })
}

fn other_operand(rule: &Rule) -> Vec<(Rule, String)> {
    let all = vars(rule, &[VarKind::Value, VarKind::Constant]);
    each_op(rule, Side::Right, &|op, way| {
        let operands = op.operands.iter_mut().enumerate();
        let mut found = operands.filter_map(|(i, operand)| match &mut operand.kind {
            TermKind::Var(var) => Some((i, next(&all, *var)?, var)),
            _ => None,
        });
        let (i, other, var) = found.nth(way)?;
        *var = other;
        Some(format!("operand {i} is {}", rule.vars[other.0].0))
    })
}

fn exchanged_roots(rule: &Rule) -> Vec<(Rule, String)> {
    let mut mutant = rule.clone();
    mutant.right.reverse();
    match rule.right.len() {
        0 | 1 => Vec::new(),
        _ => vec![(mutant, "roots of the right side exchanged".to_string())],
    }
}

/// The op behind this one in its dialect among those that have the same fields.
fn sibling(name: Name) -> Option<Name> {
    let roles = |info: &'static OpInfo| -> Vec<_> {
        let field = |f: &FieldInfo| (f.name, f.role);
        info.fields.iter().map(field).collect()
    };
    let info = name.info()?;
    let all = Dialect::named(name.dialect())?.ops.iter();
    let all = all.map(|spec| Name::new(spec.name));
    let alike = |n: &Name| {
        let other = n.info();
        other.is_some_and(|i| roles(i) == roles(info) && i.results.len() == info.results.len())
    };
    let all: Vec<Name> = all.filter(alike).collect();
    let at = all.iter().position(|n| *n == name)?;
    (all.len() > 1).then(|| all[(at + 1) % all.len()])
}

fn other_op(rule: &Rule) -> Vec<(Rule, String)> {
    each_op(rule, Side::Right, &|op, way| {
        let other = sibling(op.name).filter(|_| way == 0)?;
        op.name = other;
        Some(format!("is {other}"))
    })
}

fn other_constant(rule: &Rule) -> Vec<(Rule, String)> {
    each_op(rule, Side::Left, &|op, way| {
        let literals = op
            .operands
            .iter_mut()
            .filter_map(|term| match &mut term.kind {
                TermKind::Literal(literal) => Some((other(literal)?, literal)),
                _ => None,
            });
        let (other, literal) = { literals }.nth(way)?;
        let what = format!("constant {other} instead of {literal} on the left");
        *literal = other;
        Some(what)
    })
}

fn generalized(rule: &Rule) -> Vec<(Rule, String)> {
    each_op(rule, Side::Left, &|op, way| {
        let literal = |i: &usize| matches!(op.attrs[*i].1, AttrTerm::Literal(_));
        let at = (0..op.attrs.len()).filter(literal).nth(way)?;
        let (name, _) = op.attrs.remove(at);
        Some(format!("any {name} on the left"))
    })
}

fn without_op(rule: &Rule) -> Vec<(Rule, String)> {
    let mut all = Vec::new();
    for at in 0..rule.right.len() {
        let mut mutant = rule.clone();
        if let TermKind::Op(op) = &rule.right[at].kind
            && let Some(first) = op.operands.first().cloned()
        {
            mutant.right[at].kind = first.kind;
            all.push((
                mutant,
                format!("{}: its first operand in its place", op.name),
            ));
        }
    }
    all
}

/// What occurs twice on the left need not be equal any more.
fn untied(rule: &Rule) -> Vec<(Rule, String)> {
    let mut all = Vec::new();
    for v in 0..rule.vars.len() {
        let (name, kind) = rule.vars[v];
        let mut mutant = rule.clone();
        mutant.vars.push((Name::new(&format!("{name}2")), kind));
        let fresh = Var(rule.vars.len());
        let mut seen = 0;
        let mut free = |var: &mut Var| {
            seen += usize::from(var.0 == v);
            if var.0 == v && seen == 2 {
                *var = fresh;
            }
        };
        ops(&mut mutant.left, &mut |op| {
            for operand in &mut op.operands {
                if let TermKind::Var(var) = &mut operand.kind {
                    free(var);
                }
            }
            for (_, attr) in &mut op.attrs {
                if let AttrTerm::Var(var) = attr {
                    free(var);
                }
            }
        });
        if seen > 1 {
            all.push((mutant, format!("{name} need not be the same on the left")));
        }
    }
    all
}

/// One of the types on the left that are to be equal is any.
fn untyped(rule: &Rule) -> Vec<(Rule, String)> {
    fn visit(terms: &mut [Term], visitor: &mut dyn FnMut(&mut Option<TypeTerm>)) {
        for term in terms {
            visitor(&mut term.ty);
            if let TermKind::Op(op) = &mut term.kind {
                visit(&mut op.operands, visitor);
            }
        }
    }
    let mut all = Vec::new();
    for v in vars(rule, &[VarKind::Type]) {
        let mut mutant = rule.clone();
        let (mut seen, mut changed) = (0, false);
        visit(&mut mutant.left, &mut |ty| {
            if *ty == Some(TypeTerm::Var(v)) {
                seen += 1;
                if seen == 2 {
                    (*ty, changed) = (None, true);
                }
            }
        });
        if changed {
            let name = rule.vars[v.0].0;
            all.push((mutant, format!("a type need not be {name} on the left")));
        }
    }
    all
}
