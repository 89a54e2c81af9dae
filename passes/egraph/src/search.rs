//! E-matching: where the left side of a rule stands in an e-graph, all of its roots together.
//!
//! Terms are visited in the order of their numbers, which is that of the text: a term has its
//! class from the op above it, or is a root and is looked for above a variable that is bound
//! already. Bindings are undone on the way back. A guard is asked as soon as all of its variables
//! are bound.

use egg::Id;
use rustc_hash::FxHashSet;
use tir::rewrite::{AttrTerm, TermKind, TypeTerm, Var, VarKind};

use crate::matching::{Bindings, Bound, Compiled, Match, Pick, arguments, constant_node};
use crate::node::{Head, Index, Node};
use crate::view::View;

/// The classes of the roots of a match, and what its variables stand for.
pub type Place = (Vec<Id>, Bindings);

/// What is looked for.
pub struct Query<'a> {
    /// Where.
    pub view: &'a View<'a>,
    /// Only places of which a root changed at this time or later, to the depth of the rule.
    pub since: u32,
    /// Places that are known already, and are left out.
    pub known: &'a FxHashSet<Place>,
    /// One more than this many places are enough.
    pub limit: usize,
}

impl Compiled {
    /// The places where it applies, in the order of their classes.
    pub fn find(&self, query: &Query<'_>) -> Vec<Match> {
        let tables = &query.view.graph.analysis.tables;
        let name = |at: usize| match &self.terms[at].term.kind {
            TermKind::Op(op) => Some(tables.names.find(&op.name)),
            _ => None,
        };
        let mut names = Vec::with_capacity(self.terms.len());
        for at in 0..self.terms.len() {
            match name(at) {
                Some(None) => return Vec::new(),
                index => names.push(index.flatten().unwrap_or_default()),
            }
        }
        let mut search = Search {
            query,
            view: query.view,
            rule: self,
            names,
            classes: vec![Id::from(0); self.terms.len()],
            picks: vec![None; self.terms.len()],
            roots: Vec::new(),
            fresh: false,
            bindings: vec![None; self.rule.vars.len()],
            bound: Vec::new(),
            found: Vec::new(),
        };
        search.step(0);
        search.found
    }
}

struct Search<'a> {
    query: &'a Query<'a>,
    view: &'a View<'a>,
    rule: &'a Compiled,
    /// By term, the index of its op.
    names: Vec<Index>,
    /// By term, its class, once it has one.
    classes: Vec<Id>,
    /// By term, the e-node and whether its operands are swapped.
    picks: Vec<Option<(&'a Node, bool)>>,
    roots: Vec<Id>,
    /// Whether any of the roots has changed.
    fresh: bool,
    bindings: Bindings,
    /// The variables that are bound, in order.
    bound: Vec<Var>,
    found: Vec<Match>,
}

impl<'a> Search<'a> {
    fn is_done(&self) -> bool {
        self.found.len() > self.query.limit
    }

    /// Binds a variable; says whether it was free or bound to the same.
    fn bind(&mut self, var: Var, to: Bound) -> bool {
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
            self.finish();
        } else if rule.roots.get(self.roots.len()) == Some(&at) {
            self.root(at);
        } else if rule.is_tail(at) {
            self.step(at + 1);
        } else {
            let kept = self.bound.len();
            self.enter(at);
            self.undo(kept);
        }
    }

    fn finish(&mut self) {
        let place = (self.roots.clone(), self.bindings.clone());
        if self.query.known.contains(&place) {
            return;
        }
        let pick = |pick: &Option<(&Node, bool)>| {
            pick.map(|(node, swapped)| Pick {
                node: node.clone(),
                swapped,
            })
        };
        self.found.push(Match {
            roots: place.0,
            bindings: place.1,
            picks: self.picks.iter().map(pick).collect(),
        });
    }

    fn holds(&self, guard: usize) -> bool {
        let functions = &self.rule.functions;
        let guard = &self.rule.rule.guards[guard];
        let args = arguments(self.view.graph, &self.bindings, &guard.args, functions);
        let function = functions.guards.get(&guard.function);
        function.zip(args).is_some_and(|(guard, args)| guard(&args))
    }

    /// Tries the classes that a root may be.
    fn root(&mut self, at: usize) {
        let rule = self.rule;
        let number = self.roots.len();
        let is_last = number + 1 == rule.roots.len();
        let was_fresh = self.fresh;
        for class in self.candidates(at) {
            let ordered = || self.roots.iter().all(|other| *other < class);
            if self.roots.contains(&class) || rule.mirrored && !ordered() {
                continue;
            }
            let fresh =
                was_fresh || self.view.changed(class, rule.depths[number]) >= self.query.since;
            if is_last && !fresh {
                continue;
            }
            self.fresh = fresh;
            self.roots.push(class);
            self.classes[at] = class;
            let kept = self.bound.len();
            self.enter(at);
            self.undo(kept);
            self.roots.pop();
            if self.is_done() {
                break;
            }
        }
        self.fresh = was_fresh;
    }

    /// The classes in which a root may stand, ascending: above a variable that is bound already,
    /// else all that hold the op.
    fn candidates(&self, root: usize) -> Vec<Id> {
        let mut path = Vec::new();
        let mut classes = match self.anchor(root, &mut path) {
            Some(class) => {
                let mut classes = vec![class];
                for term in path.iter().rev() {
                    classes = self.above(&classes, *term);
                    classes.sort_unstable();
                    classes.dedup();
                }
                return classes;
            }
            None => self.view.holding(self.names[root]).to_vec(),
        };
        let TermKind::Op(op) = &self.rule.terms[root].term.kind else {
            return Vec::new();
        };
        if op.result != 0 || classes.iter().any(|class| !self.view.is_value(*class)) {
            let mut values = Vec::new();
            for class in classes {
                self.value_of(class, op.result, &mut values);
            }
            values.sort_unstable();
            values.dedup();
            classes = values;
        }
        classes
    }

    /// A bound variable below a term, and the terms on the way down to it.
    fn anchor(&self, at: usize, path: &mut Vec<usize>) -> Option<Id> {
        path.push(at);
        for operand in &self.rule.terms[at].operands {
            if let TermKind::Var(var) = self.rule.terms[*operand].term.kind {
                match &self.bindings[var.0] {
                    Some(Bound::Value(class)) => return Some(*class),
                    Some(Bound::Values(all)) if !all.is_empty() => return Some(all[0]),
                    _ => {}
                }
            }
        }
        for operand in &self.rule.terms[at].operands {
            if let Some(class) = self.anchor(*operand, path) {
                return Some(class);
            }
        }
        path.pop();
        None
    }

    /// The classes of a term's op that use one of these.
    fn above(&self, classes: &[Id], term: usize) -> Vec<Id> {
        let mut found = Vec::new();
        let TermKind::Op(op) = &self.rule.terms[term].term.kind else {
            return found;
        };
        let graph = self.view.graph;
        for class in classes {
            for parent in self.view.class(*class).parents() {
                if graph.nodes()[usize::from(parent)].name() == Some(self.names[term]) {
                    self.value_of(graph.find(parent), op.result, &mut found);
                }
            }
        }
        found
    }

    /// The class of a result of an op in this class.
    fn value_of(&self, class: Id, result: usize, found: &mut Vec<Id>) {
        if result == 0 && self.view.is_value(class) {
            found.push(class);
            return;
        }
        let graph = self.view.graph;
        for parent in self.view.class(class).parents() {
            if graph.nodes()[usize::from(parent)].head == Head::Result(result as u32) {
                found.push(graph.find(parent));
            }
        }
    }

    /// Goes on with a term that has its class.
    fn enter(&mut self, at: usize) {
        let (view, rule) = (self.view, self.rule);
        let class = self.classes[at];
        let term = &rule.terms[at].term;
        let typed = match &term.ty {
            Some(TypeTerm::Var(var)) => self.bind(*var, Bound::Type(view.ty(class))),
            Some(TypeTerm::Text(text)) => view.ty(class).to_string() == text.as_str(),
            Some(TypeTerm::Call(_)) => false,
            None => true,
        };
        if !typed {
            return;
        }
        match &term.kind {
            TermKind::Var(var) => {
                let constant = rule.rule.vars[var.0].1 == VarKind::Constant;
                if (!constant || view.constant(class).is_some())
                    && self.bind(*var, Bound::Value(class))
                {
                    self.step(at + 1);
                }
            }
            TermKind::Literal(literal) => {
                let constant = view.constant(class);
                if constant.is_some_and(|attr| literal.matches(attr, None)) {
                    let node = constant_node(view.graph, class);
                    self.picks[at] = node.map(|node| (node, false));
                    self.step(at + 1);
                }
            }
            TermKind::Op(op) => {
                let is_value = op.result == 0 && view.is_value(class);
                for node in &view.class(class).nodes {
                    match node.head {
                        Head::Op { .. } if is_value => self.node(at, node),
                        Head::Result(index) if index as usize == op.result => {
                            for inner in &view.class(node.children[0]).nodes {
                                self.node(at, inner);
                            }
                        }
                        _ => {}
                    }
                    if self.is_done() {
                        return;
                    }
                }
            }
        }
    }

    /// Goes on with an e-node in place of an op term.
    fn node(&mut self, at: usize, node: &'a Node) {
        if let Head::Op {
            name,
            attrs,
            region: None,
            ..
        } = node.head
            && name == self.names[at]
        {
            let kept = self.bound.len();
            if self.attributes(at, attrs) {
                self.operands(at, node);
            }
            self.undo(kept);
        }
    }

    fn attributes(&mut self, at: usize, attrs: Index) -> bool {
        let rule = self.rule;
        let TermKind::Op(op) = &rule.terms[at].term.kind else {
            return false;
        };
        let said = self.view.graph.analysis.tables.attrs.get(attrs);
        op.attrs
            .iter()
            .zip(&rule.terms[at].fields)
            .all(|((name, wanted), field)| {
                let found = said.iter().find(|(key, _)| key == name);
                let found = found.map(|(_, attr)| *attr);
                let found = found.or(field.and_then(|field| field.default));
                match wanted {
                    AttrTerm::Var(var) => self.bind(*var, Bound::Attr(found)),
                    AttrTerm::Literal(literal) => found.is_some_and(|a| literal.matches(a, *field)),
                    AttrTerm::Call(_) => false,
                }
            })
    }

    /// Gives the operands of a term their classes, in both orders if the op commutes.
    fn operands(&mut self, at: usize, node: &'a Node) {
        let rule = self.rule;
        let numbered = &rule.terms[at];
        let mut terms = &numbered.operands[..];
        let mut operands = &node.children[..];
        if let Some((last, first)) = terms.split_last()
            && rule.is_tail(*last)
            && let TermKind::Var(var) = rule.terms[*last].term.kind
        {
            let Some((head, rest)) = operands.split_at_checked(first.len()) else {
                return;
            };
            if !self.bind(var, Bound::Values(rest.to_vec())) {
                return;
            }
            (terms, operands) = (first, head);
        }
        if operands.len() != terms.len() {
            return;
        }
        for (term, class) in terms.iter().zip(operands) {
            self.classes[*term] = *class;
        }
        self.picks[at] = Some((node, false));
        self.step(at + 1);
        if numbered.commutes
            && let ([a, b], [x, y]) = (terms, operands)
            && x != y
        {
            (self.classes[*a], self.classes[*b]) = (*y, *x);
            self.picks[at] = Some((node, true));
            self.step(at + 1);
        }
    }
}
