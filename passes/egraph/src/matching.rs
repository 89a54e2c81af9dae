//! Rules made ready to look for, and the places where they apply.

use std::sync::Arc;

use egg::Id;
use tir::rewrite::{Arg, AttrTerm, Call, Functions, Term, TermKind, TypeTerm, VarKind};
use tir::{Attr, FieldInfo, Name, Rule, Traits, Type};

use crate::graph::{Ask, Graph};
use crate::mirror::likeness;
use crate::node::{Head, Node};

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

/// Bindings by [`Var`](tir::rewrite::Var).
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
    /// What the op says of the attributes that the term names.
    pub(crate) fields: Vec<Option<&'static FieldInfo>>,
    /// Whether the op commutes.
    pub(crate) commutes: bool,
}

/// A rule made ready to look for.
pub struct Compiled {
    /// The rule.
    pub rule: Arc<Rule>,
    /// The functions that it names.
    pub functions: Arc<Functions>,
    /// The terms of its left side, each before its operands.
    pub terms: Vec<Numbered>,
    /// The numbers of the roots.
    pub roots: Vec<usize>,
    /// By root, how many operands it looks down.
    pub(crate) depths: Vec<usize>,
    /// The guards that can be asked before the term of this number, since their variables are
    /// bound; one list more than there are terms.
    pub(crate) ready: Vec<Vec<usize>>,
    /// Whether its two roots are alike, so that one order of them is enough.
    pub(crate) mirrored: bool,
    /// Whether they are but for what its guards say.
    pub(crate) alike: bool,
}

impl Compiled {
    /// Makes a rule ready.
    pub fn new(rule: Arc<Rule>, functions: Arc<Functions>) -> Self {
        let mut terms = Vec::new();
        let roots: Vec<usize> = rule.left.iter().map(|t| number(t, &mut terms)).collect();
        let depths = roots.iter().map(|root| depth(&terms, *root)).collect();
        let likeness = likeness(&rule);
        let ready = ready(&rule, &terms);
        Self {
            rule,
            functions,
            terms,
            roots,
            depths,
            ready,
            mirrored: likeness.mirrored,
            alike: likeness.alike,
        }
    }

    /// Whether a term stands for all further operands.
    pub fn is_tail(&self, at: usize) -> bool {
        let kind = &self.terms[at].term.kind;
        matches!(kind, TermKind::Var(var) if self.rule.vars[var.0].1 == VarKind::Values)
    }

    /// How many operands down the left side looks.
    pub fn depth(&self) -> usize {
        self.depths.iter().copied().max().unwrap_or(0)
    }
}

fn number(term: &Term, all: &mut Vec<Numbered>) -> usize {
    let at = all.len();
    let (mut fields, mut commutes) = (Vec::new(), false);
    if let TermKind::Op(op) = &term.kind {
        let info = op.name.info();
        let field = |(name, _): &(Name, AttrTerm)| info.and_then(|info| info.field(name));
        fields = op.attrs.iter().map(field).collect();
        commutes = info.is_some_and(|info| info.has(Traits::Commutative));
    }
    all.push(Numbered {
        term: term.clone(),
        operands: Vec::new(),
        fields,
        commutes,
    });
    if let TermKind::Op(op) = &term.kind {
        all[at].operands = op.operands.iter().map(|t| number(t, all)).collect();
    }
    at
}

fn depth(terms: &[Numbered], at: usize) -> usize {
    let below = terms[at].operands.iter().map(|t| 1 + depth(terms, *t));
    below.max().unwrap_or(0)
}

/// For each guard the first term before which all of its variables are bound.
fn ready(rule: &Rule, terms: &[Numbered]) -> Vec<Vec<usize>> {
    let mut bound = vec![terms.len(); rule.vars.len()];
    for (at, numbered) in terms.iter().enumerate().rev() {
        if let Some(TypeTerm::Var(var)) = &numbered.term.ty {
            bound[var.0] = at + 1;
        }
        match &numbered.term.kind {
            TermKind::Var(var) => bound[var.0] = at + 1,
            TermKind::Op(op) => {
                for (_, attr) in &op.attrs {
                    if let AttrTerm::Var(var) = attr {
                        bound[var.0] = at + 1;
                    }
                }
            }
            TermKind::Literal(_) => {}
        }
    }
    let mut ready = vec![Vec::new(); terms.len() + 1];
    for (at, guard) in rule.guards.iter().enumerate() {
        ready[last(guard, &bound)].push(at);
    }
    ready
}

fn last(call: &Call, bound: &[usize]) -> usize {
    let one = |arg: &AttrTerm| match arg {
        AttrTerm::Var(var) => bound[var.0],
        AttrTerm::Literal(_) => 0,
        AttrTerm::Call(call) => last(call, bound),
    };
    call.args.iter().map(one).max().unwrap_or(0)
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
