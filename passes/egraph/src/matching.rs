//! E-matching: where the left side of a rule stands in an e-graph, all of its roots together.

use std::sync::Arc;

use egg::Id;
use tir::rewrite::{
    Arg, AttrTerm, Call, Functions, Literal, OpTerm, Term, TermKind, TypeTerm, Var, VarKind,
};
use tir::{Attr, Name, Rule, Traits, Type};

use crate::graph::{Ask, Graph};
use crate::node::{Head, Node, Sort};

/// What a variable of a rule is bound to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Bound {
    /// A class.
    Value(Id),
    /// Several.
    Values(Vec<Id>),
    /// An attribute, or that there is none.
    Attr(Option<Attr>),
    /// A type.
    Type(Type),
}

/// Bindings by [`Var`].
pub type Bindings = Vec<Option<Bound>>;

/// A place where a rule applies.
#[derive(Clone, Debug)]
pub struct Match {
    /// The class of each root.
    pub roots: Vec<Id>,
    /// What the variables stand for.
    pub bindings: Bindings,
    /// The e-nodes that the ops and literals of the left side stand for, by the order in which
    /// [`Compiled`] numbers terms.
    pub picks: Vec<Option<Pick>>,
}

/// The e-node that a term of the left side stands for.
#[derive(Clone, Debug)]
pub struct Pick {
    /// The e-node.
    pub node: Node,
    /// Whether its two operands stand for those of the term in the other order.
    pub swapped: bool,
}

/// A term on the left side, its operands by number.
pub struct Numbered {
    /// The term.
    pub term: Term,
    /// Numbers of its operands.
    pub operands: Vec<usize>,
}

impl Numbered {
    fn op(&self) -> Option<&OpTerm> {
        match &self.term.kind {
            TermKind::Op(op) => Some(op),
            _ => None,
        }
    }
}

/// A rule made ready to look for.
pub struct Compiled {
    /// The rule.
    pub rule: Arc<Rule>,
    /// The functions that it names.
    pub functions: Arc<Functions>,
    /// The terms of its left side.
    pub terms: Vec<Numbered>,
    /// The numbers of the roots.
    pub roots: Vec<usize>,
    /// Whether its two roots are alike, so that one order of them is enough.
    mirrored: bool,
}

impl Compiled {
    /// Makes a rule ready.
    pub fn new(rule: Arc<Rule>, functions: Arc<Functions>) -> Self {
        let mut terms = Vec::new();
        let roots = rule.left.iter().map(|t| number(t, &mut terms)).collect();
        let mirrored = mirrored(&rule);
        Self {
            rule,
            functions,
            terms,
            roots,
            mirrored,
        }
    }

    /// Whether a term stands for all further operands.
    pub fn is_tail(&self, at: usize) -> bool {
        let kind = &self.terms[at].term.kind;
        matches!(kind, TermKind::Var(var) if self.rule.vars[var.0].1 == VarKind::Values)
    }

    /// The places where it applies, in the order of their classes; at most `limit` and one.
    pub fn find(&self, graph: &Graph, limit: usize) -> Vec<Match> {
        let mut search = Search {
            graph,
            rule: self,
            limit: limit.saturating_add(1),
            found: Vec::new(),
        };
        let start = Match {
            roots: Vec::new(),
            bindings: vec![None; self.rule.vars.len()],
            picks: vec![None; self.terms.len()],
        };
        search.root(start);
        search.found
    }
}

fn number(term: &Term, all: &mut Vec<Numbered>) -> usize {
    let at = all.len();
    all.push(Numbered {
        term: term.clone(),
        operands: Vec::new(),
    });
    if let TermKind::Op(op) = &term.kind {
        all[at].operands = op.operands.iter().map(|t| number(t, all)).collect();
    }
    at
}

struct Search<'a> {
    graph: &'a Graph,
    rule: &'a Compiled,
    limit: usize,
    found: Vec<Match>,
}

type Goals = Vec<(usize, Id)>;

impl Search<'_> {
    /// Goes on with the next root.
    fn root(&mut self, so_far: Match) {
        let Some(root) = self.rule.roots.get(so_far.roots.len()) else {
            if self.guards_hold(&so_far.bindings) {
                self.found.push(so_far);
            }
            return;
        };
        for class in self.candidates(*root, &so_far) {
            let ordered = || so_far.roots.iter().all(|other| *other < class);
            if so_far.roots.contains(&class) || self.rule.mirrored && !ordered() {
                continue;
            }
            let mut next = so_far.clone();
            next.roots.push(class);
            self.solve(vec![(*root, class)], next);
            if self.found.len() >= self.limit {
                return;
            }
        }
    }

    /// The classes in which a root may stand: above a variable that is bound already, else all
    /// that hold the op.
    fn candidates(&self, root: usize, so_far: &Match) -> Vec<Id> {
        let mut path = Vec::new();
        let mut classes = match self.anchor(root, so_far, &mut path) {
            Some(class) => {
                let mut classes = vec![class];
                for term in path.iter().rev() {
                    classes = self.above(&classes, *term);
                }
                classes
            }
            None => self.holding(root),
        };
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// A bound variable below a term, and the terms on the way down to it.
    fn anchor(&self, at: usize, so_far: &Match, path: &mut Vec<usize>) -> Option<Id> {
        path.push(at);
        for operand in &self.rule.terms[at].operands {
            if let TermKind::Var(var) = self.rule.terms[*operand].term.kind
                && let Some(Bound::Value(class)) = &so_far.bindings[var.0]
            {
                return Some(*class);
            }
        }
        for operand in &self.rule.terms[at].operands {
            if let Some(class) = self.anchor(*operand, so_far, path) {
                return Some(class);
            }
        }
        path.pop();
        None
    }

    fn is(&self, node: &Node, op: &OpTerm) -> bool {
        self.graph.name_of(node) == Some(op.name)
    }

    /// The classes of a term's op that use one of these.
    fn above(&self, classes: &[Id], term: usize) -> Vec<Id> {
        let Some(op) = self.rule.terms[term].op() else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for class in classes {
            for parent in self.graph[*class].parents() {
                if self.is(&self.graph.nodes()[usize::from(parent)], op) {
                    self.value_of(self.graph.find(parent), op, &mut found);
                }
            }
        }
        found
    }

    fn holding(&self, term: usize) -> Vec<Id> {
        let Some(op) = self.rule.terms[term].op() else {
            return Vec::new();
        };
        let name = self.graph.analysis.tables.names.find(&op.name);
        let classes = name.and_then(|name| self.graph.classes_for_op(&Sort::Op(name)));
        let mut found = Vec::new();
        for class in classes.into_iter().flatten() {
            self.value_of(class, op, &mut found);
        }
        found
    }

    /// The class of the result that a term means of an op in this class.
    fn value_of(&self, class: Id, op: &OpTerm, found: &mut Vec<Id>) {
        if self.graph.types(class).len() == 1 && op.result == 0 {
            found.push(class);
            return;
        }
        for parent in self.graph[class].parents() {
            let head = self.graph.nodes()[usize::from(parent)].head;
            if head == Head::Result(op.result as u32) {
                found.push(self.graph.find(parent));
            }
        }
    }

    /// Fulfils the goals, then goes on with the next root.
    fn solve(&mut self, mut goals: Goals, mut m: Match) {
        while let Some((at, class)) = goals.pop() {
            let rule = self.rule;
            let term = &rule.terms[at].term;
            let ty = self.graph.ty(class);
            let typed = match &term.ty {
                Some(TypeTerm::Var(var)) => bind(&mut m.bindings, *var, Bound::Type(ty)),
                Some(TypeTerm::Text(text)) => ty.to_string() == text.as_str(),
                Some(TypeTerm::Call(_)) => false,
                None => true,
            };
            if !typed {
                return;
            }
            match &term.kind {
                TermKind::Var(var) => {
                    let constant = rule.rule.vars[var.0].1 == VarKind::Constant;
                    if constant && self.graph.constant(class).is_none()
                        || !bind(&mut m.bindings, *var, Bound::Value(class))
                    {
                        return;
                    }
                }
                TermKind::Literal(literal) => {
                    if !self.is_literal(class, literal) {
                        return;
                    }
                    let node = constant_node(self.graph, class).cloned();
                    m.picks[at] = node.map(|node| Pick {
                        node,
                        swapped: false,
                    });
                }
                TermKind::Op(op) => {
                    self.op(at, op, class, &goals, &m);
                    return;
                }
            }
        }
        self.root(m);
    }

    fn is_literal(&self, class: Id, literal: &Literal) -> bool {
        let constant = self.graph.constant(class);
        constant.is_some_and(|attr| literal.matches(attr, None))
    }

    fn op(&mut self, at: usize, op: &OpTerm, class: Id, goals: &Goals, m: &Match) {
        let graph = self.graph;
        for node in &graph[class].nodes {
            match node.head {
                Head::Op { .. } if op.result == 0 && graph.types(class).len() == 1 => {
                    self.node(at, op, node, goals, m);
                }
                Head::Result(index) if index as usize == op.result => {
                    for inner in &graph[node.children[0]].nodes {
                        self.node(at, op, inner, goals, m);
                    }
                }
                _ => {}
            }
            if self.found.len() >= self.limit {
                return;
            }
        }
    }

    /// Goes on with an e-node in place of an op term.
    fn node(&mut self, at: usize, op: &OpTerm, node: &Node, goals: &Goals, m: &Match) {
        let graph = self.graph;
        if !self.is(node, op) || !matches!(node.head, Head::Op { region: None, .. }) {
            return;
        }
        let mut m = m.clone();
        let info = op.name.info();
        for (name, wanted) in &op.attrs {
            let field = info.and_then(|info| info.field(name));
            let said = graph.attrs_of(node).iter().find(|(key, _)| key == name);
            let found = said.map(|(_, attr)| *attr);
            let found = found.or(field.and_then(|f| f.default));
            let fits = match wanted {
                AttrTerm::Var(var) => bind(&mut m.bindings, *var, Bound::Attr(found)),
                AttrTerm::Literal(literal) => found.is_some_and(|a| literal.matches(a, field)),
                AttrTerm::Call(_) => false,
            };
            if !fits {
                return;
            }
        }
        let mut terms = &self.rule.terms[at].operands[..];
        let mut operands = &node.children[..];
        if let Some((last, first)) = terms.split_last()
            && let TermKind::Var(var) = self.rule.terms[*last].term.kind
            && self.rule.rule.vars[var.0].1 == VarKind::Values
        {
            let Some((head, rest)) = operands.split_at_checked(first.len()) else {
                return;
            };
            if !bind(&mut m.bindings, var, Bound::Values(rest.to_vec())) {
                return;
            }
            (terms, operands) = (first, head);
        }
        if operands.len() != terms.len() {
            return;
        }
        let pick = |swapped| {
            let node = node.clone();
            Some(Pick { node, swapped })
        };
        m.picks[at] = pick(false);
        let mut next = goals.clone();
        next.extend(terms.iter().copied().zip(operands.iter().copied()).rev());
        let swaps = operands.len() == 2
            && operands[0] != operands[1]
            && info.is_some_and(|info| info.has(Traits::Commutative));
        if swaps {
            let mut swapped = goals.clone();
            swapped.extend([(terms[1], operands[0]), (terms[0], operands[1])]);
            self.solve(next, m.clone());
            m.picks[at] = pick(true);
            self.solve(swapped, m);
        } else {
            self.solve(next, m);
        }
    }

    fn guards_hold(&self, bindings: &Bindings) -> bool {
        let functions = &self.rule.functions;
        self.rule.rule.guards.iter().all(|guard| {
            let args = arguments(self.graph, bindings, &guard.args, functions);
            let function = functions.guards.get(&guard.function);
            function.zip(args).is_some_and(|(guard, args)| guard(&args))
        })
    }
}

/// The e-node of the constant that a class is.
pub fn constant_node(graph: &Graph, class: Id) -> Option<&Node> {
    let index = graph[class].data.constant?;
    let is_it = |node: &&Node| {
        let info = graph.name_of(node).and_then(Name::info);
        matches!(node.head, Head::Op { attrs, .. } if attrs == index)
            && info.is_some_and(|info| info.has(Traits::ConstantLike))
    };
    graph[class].nodes.iter().find(is_it)
}

/// Binds a variable; says whether it was free or bound to the same.
fn bind(bindings: &mut Bindings, var: Var, to: Bound) -> bool {
    match &bindings[var.0] {
        Some(bound) => *bound == to,
        None => {
            bindings[var.0] = Some(to);
            true
        }
    }
}

/// What a function that a rule names is given.
pub fn arguments(
    graph: &Graph,
    bindings: &Bindings,
    args: &[AttrTerm],
    functions: &Functions,
) -> Option<Vec<Arg>> {
    let value = |id: &Id| (graph.ty(*id), graph.constant(*id));
    let argument = |arg: &AttrTerm| {
        Some(match arg {
            AttrTerm::Var(var) => match bindings[var.0].as_ref()? {
                Bound::Value(id) => {
                    let (ty, constant) = value(id);
                    Arg::Value(ty, constant)
                }
                Bound::Values(all) => Arg::Values(all.iter().map(value).collect()),
                Bound::Attr(Some(attr)) => Arg::Attr(*attr),
                Bound::Attr(None) => Arg::Absent,
                Bound::Type(ty) => Arg::Type(*ty),
            },
            AttrTerm::Literal(literal) => Arg::Attr(literal.attr(None)?),
            AttrTerm::Call(call) => Arg::Attr(computed(graph, bindings, call, functions)?),
        })
    };
    args.iter().map(argument).collect()
}

/// What an attribute function gives.
pub fn computed(
    graph: &Graph,
    bindings: &Bindings,
    call: &Call,
    functions: &Functions,
) -> Option<Attr> {
    let function = functions.attrs.get(&call.function)?;
    function(&arguments(graph, bindings, &call.args, functions)?)
}

/// Whether a rule has two roots that differ in the names of variables only, and its guards say
/// the same of both.
fn mirrored(rule: &Rule) -> bool {
    let [a, b] = &rule.left[..] else { return false };
    let mut swap: Vec<Option<Var>> = vec![None; rule.vars.len()];
    if !alike(a, b, &mut swap) {
        return false;
    }
    let involution =
        |(at, to): (usize, &Option<Var>)| to.is_none_or(|to| swap[to.0] == Some(Var(at)));
    if !swap.iter().enumerate().all(involution) {
        return false;
    }
    let renamed = |call: &Call| rename(call, &swap);
    rule.guards
        .iter()
        .all(|guard| rule.guards.contains(&renamed(guard)))
}

fn pair(a: Var, b: Var, swap: &mut [Option<Var>]) -> bool {
    for (from, to) in [(a, b), (b, a)] {
        if swap[from.0].is_some_and(|known| known != to) {
            return false;
        }
        swap[from.0] = Some(to);
    }
    true
}

fn alike(a: &Term, b: &Term, swap: &mut [Option<Var>]) -> bool {
    let types = match (&a.ty, &b.ty) {
        (Some(TypeTerm::Var(x)), Some(TypeTerm::Var(y))) => pair(*x, *y, swap),
        (x, y) => x == y,
    };
    let kinds = match (&a.kind, &b.kind) {
        (TermKind::Var(x), TermKind::Var(y)) => pair(*x, *y, swap),
        (TermKind::Op(x), TermKind::Op(y)) => {
            let heads = x.name == y.name
                && x.result == y.result
                && x.operands.len() == y.operands.len()
                && x.attrs.len() == y.attrs.len();
            heads
                && x.operands
                    .iter()
                    .zip(&y.operands)
                    .all(|(x, y)| alike(x, y, swap))
                && x.attrs.iter().zip(&y.attrs).all(|((m, x), (n, y))| {
                    m == n
                        && match (x, y) {
                            (AttrTerm::Var(x), AttrTerm::Var(y)) => pair(*x, *y, swap),
                            (x, y) => x == y,
                        }
                })
        }
        (x, y) => x == y,
    };
    types && kinds
}

fn rename(call: &Call, swap: &[Option<Var>]) -> Call {
    let args = call.args.iter().map(|arg| match arg {
        AttrTerm::Var(var) => AttrTerm::Var(swap[var.0].unwrap_or(*var)),
        AttrTerm::Call(call) => AttrTerm::Call(rename(call, swap)),
        AttrTerm::Literal(literal) => AttrTerm::Literal(literal.clone()),
    });
    Call {
        function: call.function,
        args: args.collect(),
    }
}
