//! The steps that a choice rests on.

use std::collections::BTreeSet;

use egg::Id;
use rustc_hash::FxHashMap;
use tir::{OpId, Traits};

use crate::build::Program;
use crate::graph::Graph;
use crate::node::{Head, Node};
use crate::proof::closure::Closure;
use crate::proof::journal::{Equation, Reason, Tree};
use crate::proof::terms::{Term, Terms};

/// Why a choice equals the input.
pub struct Proof {
    /// The terms in it.
    pub terms: Terms,
    /// The terms of the input's ops: one for each of the program's.
    pub input: Vec<Term>,
    /// What was learned on the way, in order.
    pub steps: Vec<Step>,
    /// What each root was and what was chosen for it, where they differ.
    pub roots: Vec<(Term, Term)>,
}

/// Terms that are equal, and why.
pub struct Step {
    /// Why.
    pub reason: Reason,
    /// The op of the input that computes the first of them, if one does.
    pub at: Option<OpId>,
    /// The ops that were looked at, operands first.
    pub matched: Vec<Term>,
    /// The ops that were made, operands first.
    pub made: Vec<Term>,
    /// Each is equal to the other.
    pub equal: Vec<(Term, Term)>,
}

/// Finds out why the choice equals the input, of all that was learned.
///
/// # Errors
/// If it does not follow that they are equal, and of which root: a bug.
pub fn explain(
    graph: &Graph,
    program: &Program,
    equations: &[Equation],
    choice: &FxHashMap<Id, Node>,
) -> Result<Proof, String> {
    let mut terms = Terms::default();
    let input = program.ops.iter().map(|(_, id)| terms.of_id(graph, *id));
    let input: Vec<Term> = input.collect();
    let said = equations.iter().map(|e| Said::new(&mut terms, graph, e));
    let said: Vec<Said> = said.collect();
    let mut chosen = Chosen {
        graph,
        choice,
        terms: &mut terms,
        done: FxHashMap::default(),
    };
    let mut roots = Vec::new();
    for (_, id) in &program.roots {
        let new = chosen.class(*id);
        roots.push((chosen.terms.of_id(graph, *id), new));
    }
    let commutes = |head| commutes(graph, head);
    let after = |numbers: &BTreeSet<usize>| {
        let mut closure = Closure::new(&terms, &commutes);
        // What rules show is shown by them; the greedy driver's word counts last.
        let greedy = |number: &&usize| equations[**number].reason == Reason::Canonicalize;
        let (last, first): (Vec<&usize>, Vec<&usize>) = numbers.iter().partition(greedy);
        for number in first.into_iter().chain(last) {
            for (left, right) in &said[*number].equal {
                closure.say(*left, *right, *number);
            }
        }
        closure
    };
    let mut needed: BTreeSet<usize> = (0..said.len()).collect();
    // What follows from everything may follow from less of what it was found to follow from.
    for _ in 0..2 {
        let closure = after(&needed);
        if let Some(at) = roots
            .iter()
            .position(|(old, new)| !closure.equal(*old, *new))
        {
            return Err(format!("nothing says why root {at} equals what was chosen"));
        }
        needed = closure.why(roots.iter().copied());
    }
    add_makers(&terms, &input, &said, &roots, &mut needed);
    let closure = after(&needed);
    let mut homes: FxHashMap<Term, OpId> = FxHashMap::default();
    for ((op, _), term) in program.ops.iter().zip(&input) {
        homes.entry(closure.class(*term)).or_insert(*op);
    }
    let greedy = |number: &usize| equations[*number].reason == Reason::Canonicalize;
    let mut order: Vec<usize> = needed.into_iter().collect();
    // It is done on the input as it is, before anything else.
    order.sort_by_key(|number| !greedy(number));
    let steps = order.iter().map(|number| {
        let Said {
            made,
            matched,
            equal,
        } = &said[*number];
        let home = |(left, _): &(Term, Term)| homes.get(&closure.class(*left)).copied();
        Step {
            reason: equations[*number].reason,
            at: equal.iter().find_map(home),
            matched: matched.clone(),
            made: made.clone(),
            equal: equal.clone(),
        }
    });
    let steps = steps.collect();
    roots.retain(|(old, new)| old != new);
    Ok(Proof {
        terms,
        input,
        steps,
        roots,
    })
}

/// Whether two operands of what has this head may change places.
pub(crate) fn commutes(graph: &Graph, head: Head) -> bool {
    let Head::Op { name, .. } = head else {
        return false;
    };
    let info = graph.analysis.tables.names.get(name).info();
    info.is_some_and(|info| info.has(Traits::Commutative))
}

/// An equation in terms.
struct Said {
    matched: Vec<Term>,
    made: Vec<Term>,
    equal: Vec<(Term, Term)>,
}

impl Said {
    fn new(terms: &mut Terms, graph: &Graph, equation: &Equation) -> Self {
        let mut side = |trees: &[Tree]| {
            let mut found = Vec::new();
            let roots = trees
                .iter()
                .map(|tree| nodes(terms, graph, tree, &mut found));
            (roots.collect::<Vec<Term>>(), found)
        };
        let (left, matched) = side(&equation.left);
        let (right, mut made) = side(&equation.right);
        for id in &equation.made {
            let term = terms.of_id(graph, *id);
            if !made.contains(&term) {
                made.push(term);
            }
        }
        Self {
            matched,
            made,
            equal: left.into_iter().zip(right).collect(),
        }
    }
}

/// The term of a tree; those of its e-nodes are added to `found`, operands first.
fn nodes(terms: &mut Terms, graph: &Graph, tree: &Tree, found: &mut Vec<Term>) -> Term {
    let Tree::Node(head, children) = tree else {
        return terms.of_tree(graph, tree);
    };
    let children = children.iter().map(|c| nodes(terms, graph, c, found));
    let children: Vec<Term> = children.collect();
    let term = terms.add(*head, children);
    if !found.contains(&term) {
        found.push(term);
    }
    term
}

/// Adds the equations that made what is needed of terms that the input has not: so that ops are
/// made where rules made them.
fn add_makers(
    terms: &Terms,
    input: &[Term],
    said: &[Said],
    roots: &[(Term, Term)],
    needed: &mut BTreeSet<usize>,
) {
    let mut there = vec![false; terms.len()];
    for term in input {
        there[*term] = true;
    }
    let mut maker: FxHashMap<Term, usize> = FxHashMap::default();
    for (number, said) in said.iter().enumerate() {
        for term in &said.made {
            maker.entry(*term).or_insert(number);
        }
    }
    // A term, and the equation before which it must be there.
    let mut work: Vec<(Term, usize)> = roots.iter().map(|(_, new)| (*new, said.len())).collect();
    let lefts = |number: usize| {
        said[number]
            .equal
            .iter()
            .map(move |(left, _)| (*left, number))
    };
    work.extend(needed.iter().flat_map(|number| lefts(*number)));
    let mut done: FxHashMap<Term, usize> = FxHashMap::default();
    while let Some((term, before)) = work.pop() {
        if there[term] || done.get(&term).is_some_and(|known| *known <= before) {
            continue;
        }
        done.insert(term, before);
        match maker.get(&term) {
            Some(number) if *number < before => {
                if needed.insert(*number) {
                    work.extend(lefts(*number));
                }
            }
            _ => work.extend(terms.children(term).map(|child| (child, before))),
        }
    }
}

/// The terms of what was chosen.
struct Chosen<'a> {
    graph: &'a Graph,
    choice: &'a FxHashMap<Id, Node>,
    terms: &'a mut Terms,
    done: FxHashMap<Id, Term>,
}

impl Chosen<'_> {
    fn class(&mut self, id: Id) -> Term {
        let id = self.graph.find(id);
        if let Some(done) = self.done.get(&id) {
            return *done;
        }
        let choice = self.choice;
        // As in `rebuild`: extraction gives a node to each class that is reached along chosen nodes.
        let Some(node) = choice.get(&id) else {
            panic!("internal error: class {id} is needed by what was chosen, and has no node");
        };
        let children: Vec<Term> = node.children.iter().map(|c| self.class(*c)).collect();
        let term = self.terms.add(node.head, children);
        self.done.insert(id, term);
        term
    }
}
