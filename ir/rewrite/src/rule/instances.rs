//! What a rule says of each op, of so many values, and of one result.

use std::collections::BTreeMap;

use tir_core::{Name, OpInfo, Role};

use super::functions::EACH;
use super::{
    AttrTerm, Call, Functions, Literal, OpTerm, Rule, Term, TermKind, TypeTerm, Var, VarKind, Which,
};

impl Rule {
    /// By variable that stands for an op, the loaded ops that it may be: they are in its classes and
    /// [pure](tir_core::Traits::Pure), and take the operands, attributes and results that the rule says.
    pub fn ops_of(&self, functions: &Functions) -> Vec<(Var, Vec<Name>)> {
        if self.ops.is_empty() {
            return Vec::new();
        }
        let mut terms = Vec::new();
        for term in self.left.iter().chain(&self.right) {
            op_terms(term, &mut terms);
        }
        let one = |(var, classes): &(Var, Vec<Name>)| {
            let is_it = |term: &&&OpTerm| term.var == Some(*var);
            let terms: Vec<&OpTerm> = terms.iter().filter(is_it).copied().collect();
            let all = functions.in_classes(classes).into_iter();
            let fit = all.filter(|info| terms.iter().all(|term| self.takes(info, term)));
            (*var, fit.map(|info| info.name).collect())
        };
        self.ops.iter().map(one).collect()
    }

    /// Whether an op has what a term says of it.
    fn takes(&self, info: &OpInfo, term: &OpTerm) -> bool {
        let count = |role: Role| info.fields.iter().filter(|f| f.role == role).count();
        let open = info.fields.iter().any(|f| f.role.is_variadic());
        // In a term that stands for several, variables stand for one value each.
        let mut all = self.left.iter().chain(&self.right);
        let each = all.any(|root| is_each(root, term));
        let tail = !each
            && term.operands.iter().any(|operand| match &operand.kind {
                TermKind::Var(var) => self.vars[var.0].1 == VarKind::Values,
                TermKind::Each(_) => true,
                _ => false,
            });
        let (found, fixed) = (term.operands.len(), count(Role::Operand));
        let operands = match (tail, open) {
            (false, false) => found == fixed,
            (false, true) => found >= fixed,
            (true, _) => true,
        };
        let attribute = |name: &Name| info.field(name).is_some_and(|f| f.role.is_attribute());
        operands
            && info.result_count().is_none_or(|n| term.result.fits(n))
            && count(Role::Region) + count(Role::Regions) == 0
            && term.attrs.iter().all(|(name, _)| attribute(name))
    }

    /// The attributes that the rule names of the op that a variable stands for.
    pub fn named_attrs(&self, var: Var) -> Vec<Name> {
        let mut terms = Vec::new();
        for term in self.left.iter().chain(&self.right) {
            op_terms(term, &mut terms);
        }
        let terms = terms.into_iter().filter(|term| term.var == Some(var));
        let mut names: Vec<Name> = terms
            .flat_map(|t| &t.attrs)
            .map(|(name, _)| *name)
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The rule for each choice of ops that its variables may stand for, with all their attributes
    /// as variables; itself if it has none. No choice is left out: two variables have the product.
    pub fn instances(&self, functions: &Functions) -> Vec<Rule> {
        let mut made = vec![self.clone()];
        for (var, names) in self.ops_of(functions) {
            let named = self.named_attrs(var);
            let one = |rule: Rule| {
                let named = &named;
                names
                    .iter()
                    .filter_map(move |name| rule.with_op(var, *name, named))
            };
            made = made.into_iter().flat_map(one).collect();
        }
        made
    }

    /// The rule with this op for a variable.
    fn with_op(&self, var: Var, name: Name, named: &[Name]) -> Option<Rule> {
        let mut rule = self.clone();
        let fields = name.info()?.fields.iter();
        let mut rest = Vec::new();
        for field in fields.filter(|f| f.role.is_attribute() && !named.contains(&f.name)) {
            let text = format!("{}_{}", self.vars[var.0].0, field.name);
            rule.vars.push((Name::new(&text), VarKind::Attr));
            rest.push((field.name, AttrTerm::Var(Var(rule.vars.len() - 1))));
        }
        rule.ops.retain(|(other, _)| *other != var);
        for term in rule.left.iter_mut().chain(&mut rule.right) {
            replace_op(term, var, name, &rest);
        }
        Some(rule)
    }

    /// Whether it has terms that stand for any result of an op.
    pub fn has_results(&self) -> bool {
        let mut terms = Vec::new();
        for term in self.left.iter().chain(&self.right) {
            op_terms(term, &mut terms);
        }
        terms.iter().any(|t| matches!(t.result, Which::Var(_)))
    }

    /// The rule in which such terms stand for the result of this number: what it says of that.
    pub fn with_results(&self, number: usize) -> Rule {
        let mut rule = self.clone();
        let mut vars = Vec::new();
        let sides = rule.left.iter_mut().chain(&mut rule.right);
        sides.for_each(|term| fix_results(term, number, &mut vars));
        let fixed = |arg: &AttrTerm| match arg {
            AttrTerm::Var(var) if vars.contains(var) => {
                Some(AttrTerm::Literal(Literal::Int(number as i64)))
            }
            _ => None,
        };
        rule.guards = rule.guards.iter().map(|g| g.map_args(&fixed)).collect();
        let sides = rule.left.iter_mut().chain(&mut rule.right);
        sides.for_each(|term| fix_attrs(term, &fixed));
        rule
    }

    /// Whether it has terms that stand for several values each.
    pub fn has_lists(&self) -> bool {
        fn has(term: &Term) -> bool {
            match &term.kind {
                TermKind::Each(_) => true,
                TermKind::Op(op) => op.operands.iter().any(has),
                _ => false,
            }
        }
        self.left.iter().chain(&self.right).any(has)
    }

    /// The rule in which terms that stand for several values stand there so many times, with a
    /// variable for each value: what it says of so many.
    pub fn with_lists(&self, count: usize) -> Rule {
        let mut rule = self.clone();
        let mut ones: BTreeMap<Var, Vec<Var>> = BTreeMap::new();
        let mut terms = Vec::new();
        for term in self.left.iter().chain(&self.right) {
            op_terms(term, &mut terms);
        }
        let roots = || self.left.iter().chain(&self.right);
        for op in terms
            .into_iter()
            .filter(|op| roots().any(|root| is_each(root, op)))
        {
            for operand in &op.operands {
                if let TermKind::Var(var) = operand.kind
                    && self.vars[var.0].1 == VarKind::Values
                    && !ones.contains_key(&var)
                {
                    let name = |i: usize| Name::new(&format!("{}_{i}", self.vars[var.0].0));
                    let first = rule.vars.len();
                    rule.vars
                        .extend((0..count).map(|i| (name(i), VarKind::Value)));
                    ones.insert(var, (first..first + count).map(Var).collect());
                }
            }
        }
        for term in rule.left.iter_mut().chain(&mut rule.right) {
            spread(term, &ones, count);
        }
        let guards = self.guards.iter().flat_map(|guard| {
            let args = match (guard.function.as_str(), &guard.args[..]) {
                (EACH, [AttrTerm::Literal(Literal::Word(word)), args @ ..]) => (*word, args),
                _ => return vec![guard.clone()],
            };
            let one = |i: usize| Call {
                function: args.0,
                args: args.1.iter().map(|arg| nth_of(arg, &ones, i)).collect(),
            };
            (0..count).map(one).collect()
        });
        rule.guards = guards.collect();
        rule
    }
}

/// Whether a term, or one below it, stands for several by this op.
fn is_each(term: &Term, op: &OpTerm) -> bool {
    match &term.kind {
        TermKind::Each(each) if std::ptr::eq(each, op) => true,
        TermKind::Op(outer) => outer.operands.iter().any(|operand| is_each(operand, op)),
        _ => false,
    }
}

fn op_terms<'a>(term: &'a Term, all: &mut Vec<&'a OpTerm>) {
    if let TermKind::Op(op) | TermKind::Each(op) = &term.kind {
        all.push(op);
        op.operands
            .iter()
            .for_each(|operand| op_terms(operand, all));
    }
}

fn replace_op(term: &mut Term, var: Var, name: Name, attrs: &[(Name, AttrTerm)]) {
    let (TermKind::Op(op) | TermKind::Each(op)) = &mut term.kind else {
        return;
    };
    if op.var == Some(var) {
        (op.name, op.var) = (name, None);
        op.attrs.extend_from_slice(attrs);
    }
    for operand in &mut op.operands {
        replace_op(operand, var, name, attrs);
    }
}

/// Makes terms that stand for any result stand for this one; adds the variables of their numbers.
fn fix_results(term: &mut Term, number: usize, vars: &mut Vec<Var>) {
    let (TermKind::Op(op) | TermKind::Each(op)) = &mut term.kind else {
        return;
    };
    if let Which::Var(var) = op.result {
        op.result = Which::At(number);
        vars.push(var);
    }
    let operands = op.operands.iter_mut();
    operands.for_each(|operand| fix_results(operand, number, vars));
}

/// Puts other terms in the place of attributes, in calls too, wherever `other` gives one.
fn fix_attrs(term: &mut Term, other: &dyn Fn(&AttrTerm) -> Option<AttrTerm>) {
    if let Some(TypeTerm::Call(call)) = &mut term.ty {
        *call = call.map_args(other);
    }
    if let TermKind::Op(op) | TermKind::Each(op) = &mut term.kind {
        for (_, attr) in &mut op.attrs {
            *attr = match (other(attr), &*attr) {
                (Some(other), _) => other,
                (None, AttrTerm::Call(call)) => AttrTerm::Call(call.map_args(other)),
                (None, attr) => attr.clone(),
            };
        }
        let operands = op.operands.iter_mut();
        operands.for_each(|operand| fix_attrs(operand, other));
    }
}

fn nth_of(arg: &AttrTerm, ones: &BTreeMap<Var, Vec<Var>>, i: usize) -> AttrTerm {
    match arg {
        AttrTerm::Var(var) => AttrTerm::Var(ones.get(var).map_or(*var, |ones| ones[i])),
        other => other.clone(),
    }
}

fn spread(term: &mut Term, ones: &BTreeMap<Var, Vec<Var>>, count: usize) {
    let TermKind::Op(op) = &mut term.kind else {
        return;
    };
    let one = |operand: &Term| -> Vec<Term> {
        let var = |var: Var| Term {
            kind: TermKind::Var(var),
            ty: operand.ty.clone(),
        };
        match &operand.kind {
            TermKind::Var(list) if ones.contains_key(list) => {
                ones[list].iter().map(|one| var(*one)).collect()
            }
            TermKind::Each(each) => {
                let copy = |i: usize| {
                    let mut each = each.clone();
                    for inner in &mut each.operands {
                        if let TermKind::Var(list) = &mut inner.kind
                            && let Some(ones) = ones.get(list)
                        {
                            *list = ones[i];
                        }
                    }
                    Term {
                        kind: TermKind::Op(each),
                        ty: operand.ty.clone(),
                    }
                };
                (0..count).map(copy).collect()
            }
            _ => {
                let mut operand = operand.clone();
                spread(&mut operand, ones, count);
                vec![operand]
            }
        }
    };
    op.operands = op.operands.iter().flat_map(one).collect();
}
