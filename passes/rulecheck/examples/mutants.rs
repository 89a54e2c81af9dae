//! Writes mutants of the rules of graph as a file of rules: what `tests/mutants.tir` is.
//!
//! `cargo run --release -p tir-rulecheck --example mutants > passes/rulecheck/tests/mutants.tir`
//!
//! Each operator below changes a rule at one place, and only there. Of each rule and operator one
//! mutant is kept, of these every third.

use std::collections::BTreeSet;
use std::sync::Arc;

use tir::rewrite::{AttrTerm, Literal, OpTerm, Rule, Term, TermKind, Var, VarKind};
use tir::{Name, Traits};

/// An operator: every mutant of a rule, in order.
type Operator = fn(&Rule) -> Vec<Rule>;

const OPERATORS: &[(&str, Operator)] = &[
    ("swapped", swapped),
    ("unguarded", unguarded),
    ("other-number", other_number),
    ("without-attribute", without_attribute),
    ("other-attribute", other_attribute),
    ("other-call", other_call),
    ("other-operand", other_operand),
    ("exchanged-roots", exchanged_roots),
    ("other-op", other_op),
    ("other-constant", other_constant),
    ("generalized", generalized),
    ("without-op", without_op),
    ("untied", untied),
];

/// Ops that take each other's place.
const SIBLINGS: &[(&str, &str)] = &[
    ("graph.add", "graph.sub"),
    ("graph.sub", "graph.add"),
    ("graph.mul", "graph.add"),
    ("graph.div", "graph.mul"),
    ("graph.max", "graph.min"),
    ("graph.min", "graph.max"),
    ("graph.relu", "graph.abs"),
    ("graph.abs", "graph.relu"),
    ("graph.neg", "graph.abs"),
    ("graph.exp", "graph.sigmoid"),
    ("graph.reduce_sum", "graph.reduce_max"),
    ("graph.reduce_mean", "graph.reduce_sum"),
    ("graph.reduce_max", "graph.reduce_sum"),
    ("graph.max_pool", "graph.avg_pool"),
];

/// Calls a function on every op of terms, outermost first.
fn ops(terms: &mut [Term], visit: &mut dyn FnMut(&mut OpTerm)) {
    for term in terms {
        if let TermKind::Op(op) = &mut term.kind {
            visit(op);
            ops(&mut op.operands, visit);
        }
    }
}

/// The rules in which `change` took effect on one op of the right side (`left`: the left side).
fn each_op(rule: &Rule, left: bool, change: &dyn Fn(&mut OpTerm) -> bool) -> Vec<Rule> {
    let mut all = Vec::new();
    for at in 0.. {
        let (mut mutant, mut seen, mut changed) = (rule.clone(), 0, false);
        let side = if left { &mut mutant.left } else { &mut mutant.right };
        ops(side, &mut |op| {
            if seen == at {
                changed = change(op);
            }
            seen += 1;
        });
        if seen <= at {
            return all;
        }
        if changed {
            all.push(mutant);
        }
    }
    all
}

fn swapped(rule: &Rule) -> Vec<Rule> {
    each_op(rule, false, &|op| {
        let info = op.name.info();
        let swaps = op.operands.len() > 1
            && op.operands[0] != op.operands[1]
            && info.is_some_and(|info| !info.has(Traits::Commutative));
        if swaps {
            op.operands.swap(0, 1);
        }
        swaps
    })
}

fn unguarded(rule: &Rule) -> Vec<Rule> {
    let without = |i| {
        let mut mutant = rule.clone();
        mutant.guards.remove(i);
        mutant
    };
    (0..rule.guards.len()).map(without).collect()
}

/// Another value, not far off.
fn other(literal: &Literal) -> Option<Literal> {
    Some(match literal {
        Literal::Int(n) => Literal::Int(if *n == 0 { 1 } else { n - 1 }),
        Literal::Float(x) => Literal::Float(if *x == 0.0 { 1.0 } else { x - 1.0 }),
        Literal::Bool(b) => Literal::Bool(!b),
        Literal::Ints(list) => {
            let mut reversed = list.clone();
            reversed.reverse();
            if reversed == *list {
                *reversed.last_mut()? += 1;
            }
            Literal::Ints(reversed)
        }
        _ => return None,
    })
}

fn other_number(rule: &Rule) -> Vec<Rule> {
    each_op(rule, false, &|op| {
        let literals = op.attrs.iter_mut().filter_map(|(_, attr)| match attr {
            AttrTerm::Literal(literal) => Some(literal),
            _ => None,
        });
        for literal in literals {
            if let Some(changed) = other(literal) {
                *literal = changed;
                return true;
            }
        }
        false
    })
}

fn without_attribute(rule: &Rule) -> Vec<Rule> {
    each_op(rule, false, &|op| {
        let info = op.name.info();
        let default = |name: &Name| info.and_then(|i| i.field(name)?.default).is_some();
        match op.attrs.iter().position(|(name, _)| default(name)) {
            Some(at) => {
                op.attrs.remove(at);
                true
            }
            None => false,
        }
    })
}

fn other_attribute(rule: &Rule) -> Vec<Rule> {
    let vars: Vec<Var> = (0..rule.vars.len())
        .filter(|v| rule.vars[*v].1 == VarKind::Attr)
        .map(Var)
        .collect();
    each_op(rule, false, &|op| {
        for (_, attr) in &mut op.attrs {
            if let AttrTerm::Var(var) = attr
                && let Some(at) = vars.iter().position(|v| v == var)
                && vars.len() > 1
            {
                *var = vars[(at + 1) % vars.len()];
                return true;
            }
        }
        false
    })
}

fn other_call(rule: &Rule) -> Vec<Rule> {
    each_op(rule, false, &|op| {
        for (_, attr) in &mut op.attrs {
            if let AttrTerm::Call(call) = attr {
                match &mut call.args[..] {
                    [a, b, ..] if a != b => std::mem::swap(a, b),
                    [AttrTerm::Var(var)] if rule.vars[var.0].1 == VarKind::Attr => {
                        *attr = AttrTerm::Var(*var);
                    }
                    _ => continue,
                }
                return true;
            }
        }
        false
    })
}

fn other_operand(rule: &Rule) -> Vec<Rule> {
    let vars: Vec<Var> = (0..rule.vars.len())
        .filter(|v| matches!(rule.vars[*v].1, VarKind::Value | VarKind::Constant))
        .map(Var)
        .collect();
    each_op(rule, false, &|op| {
        for operand in &mut op.operands {
            if let TermKind::Var(var) = &mut operand.kind
                && let Some(at) = vars.iter().position(|v| v == var)
                && vars.len() > 1
            {
                *var = vars[(at + 1) % vars.len()];
                return true;
            }
        }
        false
    })
}

fn exchanged_roots(rule: &Rule) -> Vec<Rule> {
    let mut mutant = rule.clone();
    mutant.right.reverse();
    if rule.right.len() > 1 { vec![mutant] } else { Vec::new() }
}

fn other_op(rule: &Rule) -> Vec<Rule> {
    each_op(rule, false, &|op| {
        match SIBLINGS.iter().find(|(from, _)| op.name == *from) {
            Some((_, to)) => {
                op.name = Name::new(to);
                true
            }
            None => false,
        }
    })
}

fn other_constant(rule: &Rule) -> Vec<Rule> {
    each_op(rule, true, &|op| {
        for operand in &mut op.operands {
            if let TermKind::Literal(literal) = &mut operand.kind
                && let Some(changed) = other(literal)
            {
                *literal = changed;
                return true;
            }
        }
        false
    })
}

fn generalized(rule: &Rule) -> Vec<Rule> {
    each_op(rule, true, &|op| {
        let literal = |(_, attr): &(Name, AttrTerm)| matches!(attr, AttrTerm::Literal(_));
        match op.attrs.iter().position(literal) {
            Some(at) => {
                op.attrs.remove(at);
                true
            }
            None => false,
        }
    })
}

fn without_op(rule: &Rule) -> Vec<Rule> {
    let mut all = Vec::new();
    for at in 0..rule.right.len() {
        let mut mutant = rule.clone();
        if let TermKind::Op(op) = &mutant.right[at].kind
            && let Some(first) = op.operands.first().cloned()
        {
            mutant.right[at].kind = first.kind;
            all.push(mutant);
        }
    }
    all
}

/// What occurs twice on the left need not be equal any more.
fn untied(rule: &Rule) -> Vec<Rule> {
    let mut all = Vec::new();
    for v in 0..rule.vars.len() {
        let (name, kind) = rule.vars[v];
        let mut mutant = rule.clone();
        mutant.vars.push((Name::new(&format!("{name}2")), kind));
        let fresh = Var(rule.vars.len());
        let mut seen = 0;
        ops(&mut mutant.left, &mut |op| {
            for operand in &mut op.operands {
                if operand.kind == TermKind::Var(Var(v)) {
                    seen += 1;
                    if seen == 2 {
                        operand.kind = TermKind::Var(fresh);
                    }
                }
            }
            for (_, attr) in &mut op.attrs {
                if *attr == AttrTerm::Var(Var(v)) {
                    seen += 1;
                    if seen == 2 {
                        *attr = AttrTerm::Var(fresh);
                    }
                }
            }
        });
        if seen > 1 {
            all.push(mutant);
        }
    }
    all
}

fn main() {
    for dialect in [&tir_builtin::DIALECT, &tir_graph::DIALECT, &tir_rule::DIALECT] {
        dialect.load();
    }
    let patterns = match tir::rewrite::canonicalization().finish(&BTreeSet::new()) {
        Ok(patterns) => patterns,
        Err(errors) => panic!("{errors:?}"),
    };
    let mut mutants = Vec::new();
    let mut count = 0;
    for rule in patterns.rules() {
        let text = rule.texts();
        for (name, operator) in OPERATORS {
            let all = operator(rule);
            let differs = |mutant: &&Rule| mutant.texts() != text;
            let Some(mut mutant) = all.into_iter().find(|m| differs(&m)) else {
                continue;
            };
            count += 1;
            if count % 3 == 0 {
                mutant.name = Name::new(&format!("{}-{name}", rule.name));
                mutants.push(Arc::new(mutant));
            }
        }
    }
    let module = tir_rule::module(&mutants);
    print!("{}", tir::text::print(&module, &tir::PrintOptions::default()));
}
