//! The matcher: where the left side of a rule stands.

use std::sync::Arc;

use tir_core::{Attr, Name, SmallVec, Traits, smallvec};

use super::numbered::{Numbered, bind_earlier, number, ready, result_var};
use super::{Binding, Bindings, TermGraph, arguments};
use crate::rule::{
    AttrTerm, Functions, OpTerm, Rule, Term, TermKind, TypeTerm, Var, VarKind, is_stop_class,
};

/// A rule made ready to look for.
#[derive(Clone)]
pub struct Compiled {
    /// The rule.
    pub rule: Arc<Rule>,
    /// The functions that it names.
    pub functions: Arc<Functions>,
    /// The terms of its left side, each before its operands.
    pub terms: Vec<Numbered>,
    /// The numbers of the roots.
    pub roots: Vec<usize>,
    /// The guards that can be asked before the term of this number, since their variables are
    /// bound; one list more than there are terms.
    ready: Vec<Vec<usize>>,
    /// By variable: the ops that it may stand for.
    ops: Vec<Option<OpChoice>>,
    /// The number of terms, if one of them stands for several values, else 0.
    several: usize,
}

/// What a variable for an op may stand for.
#[derive(Clone)]
struct OpChoice {
    /// The ops.
    names: Vec<Name>,
    /// The attributes that the rule names itself.
    named: Vec<Name>,
    /// Whether an op may be one that stops the program for these operands: rules move what variables stand for to where it
    /// would not have run, unless they name the class.
    may_stop: bool,
}

impl Compiled {
    /// Makes a rule ready. The dialects of its ops are to be loaded, and those whose ops its
    /// variables may stand for.
    pub fn new(rule: Arc<Rule>, functions: Arc<Functions>) -> Self {
        let mut terms = Vec::new();
        let roots: Vec<usize> = rule.left.iter().map(|t| number(t, &mut terms)).collect();
        bind_earlier(&rule, &mut terms);
        let ready = ready(&rule, &terms);
        let mut ops: Vec<Option<OpChoice>> = vec![None; rule.vars.len()];
        for (var, names) in rule.ops_of(&functions) {
            let named = rule.named_attrs(var);
            let mut classes = rule.ops.iter().filter(|(other, _)| *other == var);
            let stops = |(_, classes): &(Var, Vec<Name>)| classes.iter().any(|c| is_stop_class(*c));
            let may_stop = classes.any(stops);
            ops[var.0] = Some(OpChoice {
                names,
                named,
                may_stop,
            });
        }
        let each = |numbered: &Numbered| matches!(numbered.term.kind, TermKind::Each(_));
        let several = if terms.iter().any(each) {
            terms.len()
        } else {
            0
        };
        Self {
            rule,
            functions,
            terms,
            roots,
            ready,
            ops,
            several,
        }
    }

    /// One for each choice of ops that its variables may stand for, in order; itself if it has
    /// none.
    pub fn for_each_op(self) -> Vec<Self> {
        let mut all = vec![self];
        for var in 0..all[0].ops.len() {
            let one = |rule: Self| match &rule.ops[var] {
                None => vec![rule],
                Some(choice) => {
                    let names = choice.names.iter();
                    names.map(|name| rule.with_op(var, *name)).collect()
                }
            };
            all = all.into_iter().flat_map(one).collect();
        }
        all
    }

    fn with_op(&self, var: usize, name: Name) -> Self {
        let mut rule = self.clone();
        if let Some(choice) = &mut rule.ops[var] {
            choice.names = vec![name];
        }
        rule
    }

    /// The names of the ops that a term may be.
    pub fn op_names<'a>(&'a self, term: &'a OpTerm) -> &'a [Name] {
        match term.var {
            None => std::slice::from_ref(&term.name),
            Some(var) => self.ops[var.0].as_ref().map_or(&[], |choice| &choice.names),
        }
    }

    /// Whether a term stands for all further operands.
    pub fn is_tail(&self, at: usize) -> bool {
        let kind = &self.terms[at].term.kind;
        matches!(kind, TermKind::Var(var) if self.rule.vars[var.0].1 == VarKind::Values)
    }

    /// The op of a term that stands for several values.
    fn each(&self, at: usize) -> Option<&OpTerm> {
        match &self.terms[at].term.kind {
            TermKind::Each(op) => Some(op),
            _ => None,
        }
    }

    /// How many operands down a term looks.
    pub fn depth(&self, at: usize) -> usize {
        if self.each(at).is_some() {
            return 1;
        }
        let below = self.terms[at].operands.iter().map(|t| 1 + self.depth(*t));
        below.max().unwrap_or(0)
    }
}

/// Says which values roots may be, and takes what is found.
pub trait Driver<G: TermGraph>: Sized {
    /// Calls [`Search::enter_root`] for each value that the next root, term `at`, may be.
    fn root(search: &mut Search<'_, G, Self>, at: usize);
    /// Takes a match.
    fn found(search: &mut Search<'_, G, Self>);
    /// Called for each op that is tried for a term: a search that finds nothing new may try very many.
    fn tries(&mut self) {}
    /// Whether enough was found or tried.
    fn is_done(&self) -> bool;
}

/// The op that a term of the left side stands for, and whether its two operands stand for those of
/// the term in the other order.
pub type Definer<N> = Option<(N, bool)>;

/// A search for the left side of a rule.
pub struct Search<'a, G: TermGraph, D> {
    /// Where.
    pub graph: &'a G,
    /// What.
    pub rule: &'a Compiled,
    /// Who says what roots may be.
    pub driver: D,
    /// What the variables are bound to.
    pub bindings: Bindings<G::Value>,
    /// The values of the roots so far.
    pub roots: SmallVec<[G::Value; 2]>,
    /// By term, the op that it stands for.
    pub definers: SmallVec<[Definer<G::Node>; 8]>,
    /// By term that stands for several values, the ops that it stands for.
    pub several: Vec<Vec<G::Node>>,
    /// By term that stands for several values, those.
    lists: Vec<Vec<G::Value>>,
    /// By term, its value, once it has one.
    values: SmallVec<[Option<G::Value>; 8]>,
    /// The variables that are bound, in order.
    bound: SmallVec<[Var; 8]>,
}

impl<'a, G: TermGraph, D: Driver<G>> Search<'a, G, D> {
    /// Looks for the left side of a rule; gives the driver back.
    pub fn run(graph: &'a G, rule: &'a Compiled, driver: D) -> D {
        let mut search = Search {
            graph,
            rule,
            driver,
            bindings: vec![None; rule.rule.vars.len()],
            roots: SmallVec::new(),
            definers: smallvec![None; rule.terms.len()],
            several: vec![Vec::new(); rule.several],
            lists: vec![Vec::new(); rule.several],
            values: smallvec![None; rule.terms.len()],
            bound: SmallVec::new(),
        };
        search.step(0);
        search.driver
    }

    /// Goes on with this value for the next root, which is term `at`.
    pub fn enter_root(&mut self, at: usize, value: G::Value) {
        self.roots.push(value);
        self.values[at] = Some(value);
        let kept = self.bound.len();
        self.enter(at);
        self.undo(kept);
        self.roots.pop();
    }

    /// Binds a variable; says whether it was free or bound to the same.
    fn bind(&mut self, var: Var, to: Binding<G::Value>) -> bool {
        match &self.bindings[var.0] {
            Some(bound) => *bound == to,
            None => {
                self.bindings[var.0] = Some(to);
                self.bound.push(var);
                true
            }
        }
    }

    /// Forgets all but this many variables.
    fn undo(&mut self, kept: usize) {
        for var in self.bound.drain(kept..) {
            self.bindings[var.0] = None;
        }
    }

    /// Goes on with this term; all before it are matched.
    fn step(&mut self, at: usize) {
        let rule = self.rule;
        if !rule.ready[at].iter().all(|guard| self.holds(*guard)) {
            return;
        }
        if at == rule.terms.len() {
            D::found(self);
        } else if rule.roots.get(self.roots.len()) == Some(&at) {
            D::root(self, at);
        } else if rule.is_tail(at) {
            self.step(at + 1);
        } else if rule.each(at).is_some() {
            self.several[at].clear();
            self.each(at);
        } else {
            let kept = self.bound.len();
            self.enter(at);
            self.undo(kept);
        }
    }

    /// Goes on with the next value of a term that stands for several.
    fn each(&mut self, at: usize) {
        let (graph, rule) = (self.graph, self.rule);
        let Some(op) = rule.each(at) else { return };
        let done = self.several[at].len();
        let Some(value) = self.lists[at].get(done).copied() else {
            return self.collect(at, op);
        };
        for (node, result) in graph.definers(value, at, op) {
            self.driver.tries();
            let kept = self.bound.len();
            if self.head(op, node)
                && self.result(op, result)
                && self.attributes(at, op, node)
                && self.same(op, node)
            {
                self.several[at].push(node);
                self.each(at);
                self.several[at].truncate(done);
            }
            self.undo(kept);
            if self.driver.is_done() {
                return;
            }
        }
    }

    /// Whether the operands of an op are as many as those of a term, and those that the term has in
    /// common for all values are what they are bound to.
    fn same(&self, op: &OpTerm, node: G::Node) -> bool {
        let found = self.graph.operands(node);
        let fits = |(term, value): (&Term, &G::Value)| match term.kind {
            TermKind::Var(var) if self.rule.rule.vars[var.0].1 != VarKind::Values => {
                self.bindings[var.0] == Some(Binding::Value(*value))
            }
            _ => true,
        };
        found.len() == op.operands.len() && op.operands.iter().zip(&found).all(fits)
    }

    /// Binds the lists of a term that stands for several values, all of which are found.
    fn collect(&mut self, at: usize, op: &OpTerm) {
        let kept = self.bound.len();
        let mut bound = true;
        for (place, operand) in op.operands.iter().enumerate() {
            if let TermKind::Var(var) = operand.kind
                && self.rule.rule.vars[var.0].1 == VarKind::Values
            {
                let nodes = self.several[at].iter();
                let list = nodes.map(|node| self.graph.operands(*node)[place]);
                let list = Binding::Values(list.collect());
                bound &= self.bind(var, list);
            }
        }
        if bound {
            self.step(at + 1);
        }
        self.undo(kept);
    }

    fn holds(&self, guard: usize) -> bool {
        let functions = &self.rule.functions;
        let guard = &self.rule.rule.guards[guard];
        let args = arguments(self.graph, &self.bindings, guard, functions);
        args.is_some_and(|args| functions.holds(guard.function, &args))
    }

    /// Goes on with a term that has its value.
    fn enter(&mut self, at: usize) {
        let (graph, rule) = (self.graph, self.rule);
        let Some(value) = self.values[at] else { return };
        let term = &rule.terms[at].term;
        let typed = match &term.ty {
            Some(TypeTerm::Var(var)) => self.bind(*var, Binding::Type(graph.ty(value))),
            Some(TypeTerm::Text(text)) => graph.ty(value).to_string() == text.as_str(),
            Some(TypeTerm::Call(_)) => false,
            None => true,
        };
        if !typed {
            return;
        }
        match &term.kind {
            TermKind::Var(var) => {
                let constant = rule.rule.vars[var.0].1 == VarKind::Constant;
                if (!constant || graph.constant(value).is_some())
                    && self.bind(*var, Binding::Value(value))
                {
                    self.step(at + 1);
                }
            }
            TermKind::Literal(literal) => {
                let constant = graph.constant(value);
                if constant.is_some_and(|attr| literal.matches(attr, None)) {
                    self.definers[at] = graph.constant_node(value).map(|node| (node, false));
                    self.step(at + 1);
                }
            }
            // Its values are looked at one after another.
            TermKind::Each(_) => {}
            TermKind::Op(op) => {
                for (node, result) in graph.definers(value, at, op) {
                    if !self.agrees(at, node) {
                        continue;
                    }
                    self.driver.tries();
                    let kept = self.bound.len();
                    let fits = self.head(op, node) && self.result(op, result);
                    if fits && self.attributes(at, op, node) {
                        self.operands(at, node);
                    }
                    self.undo(kept);
                    if self.driver.is_done() {
                        return;
                    }
                }
            }
        }
    }

    /// Binds the variable that stands for an op, if there is one.
    fn head(&mut self, op: &OpTerm, node: G::Node) -> bool {
        let Some(var) = op.var else { return true };
        let name = self.graph.name(node);
        match (&self.bindings[var.0], &self.rule.ops[var.0]) {
            (Some(Binding::Op(bound, _)), _) if *bound != name => false,
            (_, Some(choice)) if choice.names.contains(&name) => {
                let operands = || self.graph.operands(node);
                let types = || operands().into_iter().map(|value| self.graph.ty(value));
                let info = name.info().filter(|_| !choice.may_stop);
                if info.is_some_and(|info| info.may_stop(types())) {
                    return false;
                }
                let mut rest = self.graph.attrs(node);
                rest.retain(|(attr, _)| !choice.named.contains(attr));
                self.bind(var, Binding::Op(name, rest))
            }
            _ => false,
        }
    }

    /// Binds the variable that the number of the result is, if there is one.
    fn result(&mut self, op: &OpTerm, number: usize) -> bool {
        match result_var(op) {
            None => true,
            Some(var) => self.bind(var, Binding::Attr(Some(Attr::i64(number as i64)))),
        }
    }

    fn attributes(&mut self, at: usize, op: &OpTerm, node: G::Node) -> bool {
        let rule = self.rule;
        let info = match op.var {
            Some(_) => self.graph.name(node).info(),
            None => None,
        };
        let mut attrs = op.attrs.iter().zip(&rule.terms[at].fields);
        attrs.all(|((name, wanted), field)| {
            let field = &field.or_else(|| info?.field(name));
            let found = self.graph.attr(node, *name);
            let found = found.or(field.and_then(|field| field.default));
            match wanted {
                AttrTerm::Var(var) => self.bind(*var, Binding::Attr(found)),
                AttrTerm::Literal(literal) => found.is_some_and(|a| literal.matches(a, *field)),
                AttrTerm::Call(_) => false,
            }
        })
    }

    /// Whether an op may stand for a term by those of its operands that are bound: asked first, as numbers are compared
    /// alone.
    fn agrees(&self, at: usize, node: G::Node) -> bool {
        let numbered = &self.rule.terms[at];
        if numbered.earlier.is_empty() {
            return true;
        }
        let operands = self.graph.operands(node);
        let is = |place: usize, var: Var| match (&self.bindings[var.0], operands.get(place)) {
            (Some(Binding::Value(bound)), Some(value)) => bound == value,
            // Looked at ahead, before it is bound.
            (None, Some(_)) => true,
            _ => false,
        };
        let mut earlier = numbered.earlier.iter();
        // Of two operands the order may be the other one.
        earlier.clone().all(|(place, var)| is(*place, *var))
            || numbered.operands.len() == 2
                && operands.len() == 2
                && self.commutes(at, node)
                && earlier.all(|(place, var)| is(1 - place, *var))
    }

    /// Whether some op may stand for a term that has its value, by what is bound.
    fn may_hold(&self, at: usize) -> bool {
        let term = &self.rule.terms[at].term;
        match (&term.kind, self.values[at]) {
            (TermKind::Op(op), Some(value)) => {
                let definers = self.graph.definers(value, at, op);
                definers.iter().any(|(node, _)| self.agrees(at, *node))
            }
            _ => true,
        }
    }

    /// Whether the op that a term stands for commutes.
    fn commutes(&self, at: usize, node: G::Node) -> bool {
        let numbered = &self.rule.terms[at];
        match &numbered.term.kind {
            TermKind::Op(op) | TermKind::Each(op) if op.var.is_some() => {
                let info = self.graph.name(node).info();
                info.is_some_and(|info| info.has(Traits::Commutative))
            }
            _ => numbered.commutes,
        }
    }

    /// Gives the operands of a term their values, in both orders if the op commutes.
    fn operands(&mut self, at: usize, node: G::Node) {
        let rule = self.rule;
        let numbered = &rule.terms[at];
        let mut terms = &numbered.operands[..];
        let all = self.graph.operands(node);
        let mut operands = &all[..];
        if let Some((last, first)) = terms.split_last()
            && rule.is_tail(*last)
            && let TermKind::Var(var) = rule.terms[*last].term.kind
        {
            let Some((head, rest)) = operands.split_at_checked(first.len()) else {
                return;
            };
            if !self.bind(var, Binding::Values(rest.to_vec())) {
                return;
            }
            (terms, operands) = (first, head);
        }
        if let Some((last, first)) = terms.split_last()
            && rule.each(*last).is_some()
        {
            let Some((head, rest)) = operands.split_at_checked(first.len()) else {
                return;
            };
            if rest.is_empty() {
                return;
            }
            self.lists[*last] = rest.to_vec();
            (terms, operands) = (first, head);
        }
        if operands.len() != terms.len() {
            return;
        }
        for (term, value) in terms.iter().zip(operands) {
            self.values[*term] = Some(*value);
        }
        self.definers[at] = Some((node, false));
        // A later operand that cannot be is seen before all that the earlier ones may be.
        if terms.iter().all(|term| self.may_hold(*term)) {
            self.step(at + 1);
        }
        if self.commutes(at, node)
            && let ([a, b], [x, y]) = (terms, operands)
            && x != y
            && !self.driver.is_done()
        {
            (self.values[*a], self.values[*b]) = (Some(*y), Some(*x));
            self.definers[at] = Some((node, true));
            if self.may_hold(*a) && self.may_hold(*b) {
                self.step(at + 1);
            }
        }
    }
}
