//! Congruence closure that can say why (Nieuwenhuis and Oliveras, "Proof-producing congruence
//! closure", RTA 2005): a forest in which each edge has its reason.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::node::Head;
use crate::proof::terms::{Term, Terms};

/// Why two terms are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    /// It was said to be so, in this equation.
    Said(usize),
    /// They are the same of equal terms.
    Congruent {
        /// Whether the two operands stand in the other order.
        swapped: bool,
    },
}

/// Equality of terms under what was said.
pub struct Closure<'a> {
    terms: &'a Terms,
    commutes: &'a dyn Fn(Head) -> bool,
    /// Of each term, the one that stands for its class.
    class: Vec<Term>,
    /// By the one that stands for it: the terms of a class, and those that use one of them.
    members: Vec<Vec<Term>>,
    users: Vec<Vec<Term>>,
    /// A term of this head of these classes.
    known: FxHashMap<(Head, Vec<Term>), Term>,
    /// A step on the way from a term to the root of its tree.
    up: Vec<Option<(Term, Why)>>,
}

impl<'a> Closure<'a> {
    /// Nothing said yet of these terms. `commutes` says of which heads two operands may change
    /// places.
    pub fn new(terms: &'a Terms, commutes: &'a dyn Fn(Head) -> bool) -> Self {
        let n = terms.len();
        let mut closure = Closure {
            terms,
            commutes,
            class: (0..n).collect(),
            members: (0..n).map(|t| vec![t]).collect(),
            users: vec![Vec::new(); n],
            known: FxHashMap::default(),
            up: vec![None; n],
        };
        let mut work = Vec::new();
        for term in 0..n {
            for child in terms.children(term) {
                closure.users[child].push(term);
            }
            work.extend(closure.enter(term));
        }
        closure.join(work);
        closure
    }

    /// The term that stands for all that are equal to this one.
    pub fn class(&self, term: Term) -> Term {
        self.class[term]
    }
    /// Whether two terms are equal.
    pub fn equal(&self, a: Term, b: Term) -> bool {
        self.class[a] == self.class[b]
    }

    /// Says that two terms are equal by equation `number`.
    pub fn say(&mut self, a: Term, b: Term, number: usize) {
        self.join(vec![(a, b, Why::Said(number))]);
    }

    fn signature(&self, term: Term) -> (Head, Vec<Term>) {
        let head = self.terms.head(term);
        let children = self.terms.children(term).map(|c| self.class[c]);
        let mut children: Vec<Term> = children.collect();
        if children.len() == 2 && (self.commutes)(head) {
            children.sort_unstable();
        }
        (head, children)
    }

    /// Enters a term under what it is by now; gives a term that is the same.
    fn enter(&mut self, term: Term) -> Option<(Term, Term, Why)> {
        let signature = self.signature(term);
        if signature.1.is_empty() {
            return None;
        }
        let other = *self.known.entry(signature).or_insert(term);
        if self.equal(term, other) {
            return None;
        }
        let pairs = self.terms.children(term).zip(self.terms.children(other));
        let mut pairs = pairs.map(|(a, b)| self.equal(a, b));
        let swapped = !pairs.all(|same| same);
        Some((term, other, Why::Congruent { swapped }))
    }

    fn join(&mut self, mut work: Vec<(Term, Term, Why)>) {
        while let Some((a, b, why)) = work.pop() {
            if self.equal(a, b) {
                continue;
            }
            let size =
                |t: Term| self.members[self.class[t]].len() + self.users[self.class[t]].len();
            let (a, b) = if size(a) <= size(b) { (a, b) } else { (b, a) };
            self.hang(a, b, why);
            let (from, to) = (self.class[a], self.class[b]);
            let members = std::mem::take(&mut self.members[from]);
            for member in &members {
                self.class[*member] = to;
            }
            self.members[to].extend(members);
            let users = std::mem::take(&mut self.users[from]);
            for user in &users {
                work.extend(self.enter(*user));
            }
            self.users[to].extend(users);
        }
    }

    /// Makes `a` the root of its tree and hangs it below `b`.
    fn hang(&mut self, a: Term, b: Term, why: Why) {
        let mut step = Some((b, why));
        let mut at = a;
        loop {
            let next = std::mem::replace(&mut self.up[at], step);
            let Some((parent, why)) = next else { return };
            step = Some((at, why));
            at = parent;
        }
    }

    /// The equations from which it follows that pairs of terms are equal, which they must be.
    pub fn why(&self, pairs: impl IntoIterator<Item = (Term, Term)>) -> BTreeSet<usize> {
        let mut said = BTreeSet::new();
        let mut work: Vec<(Term, Term)> = pairs.into_iter().collect();
        let mut done: FxHashSet<(Term, Term)> = FxHashSet::default();
        while let Some((a, b)) = work.pop() {
            if a == b || !done.insert((a, b)) {
                continue;
            }
            for (from, to, why) in self.path(a, b) {
                match why {
                    Why::Said(number) => {
                        said.insert(number);
                    }
                    Why::Congruent { swapped } => {
                        let from = self.terms.children(from);
                        let mut to: Vec<Term> = self.terms.children(to).collect();
                        if swapped {
                            to.reverse();
                        }
                        work.extend(from.zip(to));
                    }
                }
            }
        }
        said
    }

    /// The edges between two terms of one tree.
    fn path(&self, a: Term, b: Term) -> Vec<(Term, Term, Why)> {
        let up = |t: Term| std::iter::successors(Some(t), |t| Some(self.up[*t]?.0));
        let above: FxHashSet<Term> = up(a).collect();
        let meet = up(b).find(|t| above.contains(t));
        let steps = |t: Term| {
            let way = up(t).take_while(move |t| Some(*t) != meet);
            way.filter_map(|t| Some((t, self.up[t]?.0, self.up[t]?.1)))
        };
        steps(a).chain(steps(b)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(terms: &mut Terms, number: u32) -> Term {
        terms.add(Head::Leaf(number), [])
    }
    /// Some function of its operands.
    fn of(terms: &mut Terms, name: u32, operands: &[Term]) -> Term {
        let head = Head::Op {
            name,
            attrs: 0,
            types: 0,
            region: None,
        };
        terms.add(head, operands.iter().copied())
    }

    #[test]
    fn what_follows_is_equal_and_says_from_what() {
        let mut terms = Terms::default();
        let [a, b, c, d] = [0, 1, 2, 3].map(|n| leaf(&mut terms, n));
        let (fa, fb) = (of(&mut terms, 0, &[a]), of(&mut terms, 0, &[b]));
        let (gfa, gd) = (of(&mut terms, 1, &[fa]), of(&mut terms, 1, &[d]));
        let never = |_| false;
        let mut closure = Closure::new(&terms, &never);
        closure.say(fb, d, 10);
        closure.say(c, d, 11);
        assert!(!closure.equal(gfa, gd));
        closure.say(a, b, 12);
        assert!(closure.equal(gfa, gd));
        assert_eq!(closure.why([(gfa, gd)]), BTreeSet::from([10, 12]));
        assert_eq!(closure.why([(fa, c)]), BTreeSet::from([10, 11, 12]));
        assert!(closure.why([(a, a)]).is_empty());
    }

    #[test]
    fn operands_change_places_only_where_they_may() {
        let mut terms = Terms::default();
        let [a, b] = [0, 1].map(|n| leaf(&mut terms, n));
        let (ab, ba) = (of(&mut terms, 0, &[a, b]), of(&mut terms, 0, &[b, a]));
        let (never, always) = (|_| false, |_| true);
        assert!(!Closure::new(&terms, &never).equal(ab, ba));
        let closure = Closure::new(&terms, &always);
        assert!(closure.equal(ab, ba));
        assert!(closure.why([(ab, ba)]).is_empty());
    }
}
