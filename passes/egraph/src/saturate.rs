//! Saturation: all rules at all their places, again and again, within limits that do not depend
//! on time.
//!
//! *Terms.* A rule that has more matches than its limit is **banned** for some rounds, the next time
//! for twice as many and with twice the limit, as by egg's backoff scheduler (Willsey et al., "egg:
//! Fast and Extensible Equality Saturation", POPL 2021). A rule with several roots is a **multi-
//! pattern** (Yang et al., "Equality Saturation for Tensor Graph Superoptimization", MLSys 2021); a
//! class takes part in few of its matches in a round.
//!
//! *Invariants.* In a round all rules are looked for in one unchanging graph before any is applied,
//! so the order of rules does not matter to what is found; a rule is not applied twice at one place.
//! Every limit counts, none is a time: the same input gives the same e-graph.
//!
//! The loop is our own: what egg's `Runner` and `RewriteScheduler` would leave of it is told in
//! `docs/decisions/0031-beside-egg.md`.

use std::collections::BTreeMap;

use egg::Id;
use rustc_hash::FxHashSet;
use tir::{Diagnostic, Name, Traits};

use crate::apply::{Declined, add_right, left_tree};
use crate::graph::{Graph, GraphExt};
use crate::matching::{Compiled, Match};
use crate::multi_pattern::MultiPattern;
use crate::node::{Head, Node};
use crate::one_op::{self, Fold, OpCache};
use crate::proof::journal::{Equation, Journal, Reason, Tree};
use crate::search::{Found, MatchKey, Query};
use crate::view::View;

/// When saturation gives up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rounds over all rules.
    pub iterations: usize,
    /// E-nodes.
    pub nodes: usize,
    /// Matches of one rule in one round, of each op where a variable stands for one; a rule that has more is banned, twice as long and with
    /// twice as many allowed each time.
    pub matches: usize,
    /// E-nodes that are tried for the terms of one rule in one round; a rule that tries more is banned as well.
    pub tries: u64,
    /// Rounds in which rules with several roots take part.
    pub multi_pattern_iterations: usize,
    /// Places of a rule with several roots that a class takes part in, in a round.
    pub multi_pattern_matches: usize,
    /// Elements of a constant that is computed here; larger ones are left to `constant-fold`.
    pub fold_elements: usize,
}

/// A rule with several roots may have so many times more matches, of which few are taken.
const MULTI_PATTERN_FACTOR: usize = 16;
/// Rounds that a rule is banned the first time.
const BAN_LENGTH: usize = 5;

/// Why saturation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// No rule has anything to add.
    Saturated,
    /// [`Limits::iterations`].
    Iterations,
    /// [`Limits::nodes`].
    Nodes,
}

/// What a rule did.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Fired {
    /// Places where its left side stands.
    pub matches: usize,
    /// Classes that it united.
    pub united: usize,
    /// Places where its right side is not well typed.
    pub untyped: usize,
    /// How often it was left out since it had too many matches.
    pub banned: usize,
    /// How often it was since it tried too many e-nodes.
    pub cut_off: usize,
}

/// How saturation went.
#[derive(Debug)]
pub struct Outcome {
    /// Why it ended.
    pub stop: Stop,
    /// Rounds.
    pub iterations: usize,
    /// By the place of the rule in the list.
    pub fired: Vec<Fired>,
    /// Classes that folding united with a constant or an operand.
    pub folded: usize,
}

/// Applies rules until nothing is new or a limit is reached.
///
/// # Errors
/// If a rule makes values of different types equal.
pub fn saturate(
    graph: &mut Graph,
    op_cache: &mut OpCache,
    rules: &[Compiled],
    limits: &Limits,
    journal: &mut Journal,
) -> Result<Outcome, Diagnostic> {
    let mut run = Saturation {
        graph,
        op_cache,
        rules,
        limits,
        journal,
        bans: vec![Ban::default(); rules.len()],
        applied: vec![FxHashSet::default(); rules.len()],
        searched: vec![0; rules.len()],
        unfolded: 0,
        tried: FxHashSet::default(),
        out: Outcome {
            stop: Stop::Saturated,
            iterations: 0,
            fired: vec![Fired::default(); rules.len()],
            folded: 0,
        },
    };
    run.run()?;
    Ok(run.out)
}

#[derive(Clone, Default)]
struct Ban {
    until: usize,
    times_banned: u32,
}

struct Saturation<'a> {
    graph: &'a mut Graph,
    op_cache: &'a mut OpCache,
    rules: &'a [Compiled],
    limits: &'a Limits,
    journal: &'a mut Journal,
    bans: Vec<Ban>,
    /// Places where a rule was applied already.
    applied: Vec<FxHashSet<MatchKey>>,
    /// When a rule was last looked for: what did not change since then has been seen.
    searched: Vec<u32>,
    /// What changed at this time or later has not been folded yet.
    unfolded: u32,
    /// E-nodes that were folded already, or cannot be.
    tried: FxHashSet<(Node, Vec<Option<u32>>)>,
    out: Outcome,
}

impl Saturation<'_> {
    fn run(&mut self) -> Result<(), Diagnostic> {
        self.graph.rebuild();
        self.fold();
        let depth = self
            .rules
            .iter()
            .map(Compiled::max_depth)
            .max()
            .unwrap_or(0);
        loop {
            if self.out.iterations == self.limits.iterations {
                self.out.stop = Stop::Iterations;
                return Ok(());
            }
            self.out.iterations += 1;
            let before = (self.graph.total_number_of_nodes(), self.united());
            let mut banned = false;
            let mut found = Vec::new();
            self.graph.analysis.clock += 1;
            let now = self.graph.analysis.clock;
            let view = View::new(self.graph, depth);
            let mut choice = MultiPattern::new(&view, self.limits.multi_pattern_matches);
            for (at, rule) in self.rules.iter().enumerate() {
                let multi_pattern = rule.roots.len() > 1;
                if multi_pattern && self.out.iterations > self.limits.multi_pattern_iterations {
                    continue;
                }
                let ban = &mut self.bans[at];
                if self.out.iterations <= ban.until {
                    banned = true;
                    continue;
                }
                let factor = if multi_pattern {
                    MULTI_PATTERN_FACTOR
                } else {
                    1
                };
                let allowed = (factor * self.limits.matches) << ban.times_banned.min(32);
                let query = Query {
                    view: &view,
                    since: self.searched[at],
                    known: &self.applied[at],
                    limit: allowed,
                    tries: self.limits.tries,
                };
                let Found {
                    mut matches,
                    cut_off,
                } = rule.find(&query);
                if matches.len() > allowed || cut_off {
                    ban.until = self.out.iterations + (BAN_LENGTH << ban.times_banned.min(32));
                    ban.times_banned += 1;
                    let fired = &mut self.out.fired[at];
                    fired.banned += usize::from(!cut_off);
                    fired.cut_off += usize::from(cut_off);
                    banned = true;
                    continue;
                }
                self.searched[at] = now;
                if multi_pattern {
                    matches = choice.choose(rule, matches);
                }
                found.push((at, matches));
            }
            for (at, matches) in found {
                for found in matches {
                    if self.graph.total_size() >= self.limits.nodes {
                        self.graph.rebuild();
                        self.out.stop = Stop::Nodes;
                        return Ok(());
                    }
                    self.apply(at, &found)?;
                }
            }
            self.graph.rebuild();
            self.fold();
            if before == (self.graph.total_number_of_nodes(), self.united()) {
                if !banned {
                    return Ok(());
                }
                // Nothing else is left to do: those that are banned may go on.
                let next = self.bans.iter().map(|ban| ban.until);
                let next = next.filter(|until| *until > self.out.iterations).min();
                let skipped = next.unwrap_or_default().saturating_sub(self.out.iterations);
                for ban in &mut self.bans {
                    ban.until = ban.until.saturating_sub(skipped);
                }
            }
        }
    }

    fn united(&self) -> usize {
        self.out.folded + self.out.fired.iter().map(|f| f.united).sum::<usize>()
    }

    fn apply(&mut self, at: usize, found: &Match) -> Result<(), Diagnostic> {
        let rule = &self.rules[at];
        let key = (found.roots.clone(), found.bindings.clone());
        if !self.applied[at].insert(key) {
            return Ok(());
        }
        self.out.fired[at].matches += 1;
        let root = found.roots.first();
        self.graph.analysis.origin = root.and_then(|root| self.graph[*root].data.origin);
        let made = match add_right(self.graph, self.op_cache, rule, found) {
            Ok(made) => made,
            Err(Declined::Uncomputed) => return Ok(()),
            Err(Declined::Untyped) => {
                self.out.fired[at].untyped += 1;
                return Ok(());
            }
            Err(Declined::Clash { left, right }) => {
                let what = "makes a value of type";
                let name = rule.rule.name;
                let text = format!("rule '{name}' {what} {left} equal to one of type {right}");
                return Err(Diagnostic::error(text).at(rule.rule.loc));
            }
        };
        // Before anything is united, so that it rests on what was known before alone.
        let left = self.journal.on.then(|| {
            let left = rule.roots.iter();
            let left = left.map(|root| left_tree(self.graph, rule, found, *root));
            left.collect::<Vec<Tree>>()
        });
        let mut news = false;
        for (root, (new, _)) in found.roots.iter().zip(&made) {
            if self.graph.union(*root, *new) {
                news = true;
                self.out.fired[at].united += 1;
            }
        }
        if let Some(left) = left.filter(|_| news) {
            self.journal.add(Equation {
                reason: Reason::Rule(at),
                left,
                right: made.into_iter().map(|(_, tree)| tree).collect(),
                made: Vec::new(),
            });
        }
        Ok(())
    }

    /// Folds until nothing folds any more. What an op folds to depends on it and its operands:
    /// where neither changed, nothing new does.
    fn fold(&mut self) {
        loop {
            let mut news = false;
            for id in self.graph.ids() {
                let class = &self.graph[id];
                let is_new = |id: Id| self.graph[id].data.changed >= self.unfolded;
                let operands = || class.nodes.iter().flat_map(|node| &node.children);
                if class.data.constant.is_some() || !is_new(id) && !operands().any(|c| is_new(*c)) {
                    continue;
                }
                self.graph.analysis.origin = class.data.origin;
                for node in self.graph[id].nodes.clone() {
                    news |= self.fold_node(id, &node);
                }
            }
            if !news {
                self.unfolded = self.graph.analysis.clock + 1;
                return;
            }
            self.graph.rebuild();
        }
    }

    fn fold_node(&mut self, id: Id, node: &Node) -> bool {
        let Some(name) = self.graph.name_of(node) else {
            return false;
        };
        let constants = node.children.iter().map(|c| self.graph[*c].data.constant);
        let key = (node.clone(), constants.collect());
        if !self.tried.insert(key) {
            return self.fold_by_trait(id, node, name);
        }
        let Some(folds) = self
            .op_cache
            .fold(self.graph, node, self.limits.fold_elements)
        else {
            return self.fold_by_trait(id, node, name);
        };
        let several = self.graph.types(id).len() != 1;
        let mut news = false;
        for (index, fold) in folds.into_iter().enumerate() {
            let leaves = node.children.iter().map(|c| Tree::of(self.graph, *c));
            let mut left = Tree::Node(node.head, leaves.collect());
            let mut root = id;
            if several {
                let head = Head::Result(index as u32);
                let Some(result) = self.graph.lookup(Node::new(head, [id])) else {
                    continue;
                };
                left = Tree::Node(head, vec![left]);
                root = result;
            }
            let ty = self.graph.ty(root);
            let (new, right) = match fold {
                Fold::Operand(operand) => (operand, Tree::of(self.graph, operand)),
                Fold::Constant(attr) => {
                    let made = one_op::constant(self.graph, name.dialect(), attr, ty);
                    let Some(node) = made else { continue };
                    let tree = Tree::Node(node.head, Vec::new());
                    (self.graph.add(node), tree)
                }
            };
            if self.graph.ty(new) == ty {
                news |= self.unite(root, new, left, right);
            }
        }
        news
    }

    /// `f(f(x))` by what traits say of `f`.
    fn fold_by_trait(&mut self, id: Id, node: &Node, name: Name) -> bool {
        let Some(info) = name.info() else {
            return false;
        };
        let involution = info.has(Traits::Involution);
        let [child] = node.children[..] else {
            return false;
        };
        if !involution && !info.has(Traits::Idempotent) {
            return false;
        }
        // Regions are not compared.
        let same = |other: &&Node| match (node.head, other.head) {
            (
                Head::Op {
                    name,
                    attrs,
                    region: None,
                    ..
                },
                Head::Op {
                    name: n,
                    attrs: a,
                    region: None,
                    ..
                },
            ) => (name, attrs) == (n, a),
            _ => false,
        };
        let inner: Vec<Node> = self.graph[child]
            .nodes
            .iter()
            .filter(same)
            .cloned()
            .collect();
        let mut news = false;
        for inner in inner {
            let below = inner.children[0];
            let inside = Tree::Node(inner.head, vec![Tree::of(self.graph, below)]);
            let (new, right) = match involution {
                true => (below, Tree::of(self.graph, below)),
                false => (child, inside.clone()),
            };
            if self.graph.ty(new) == self.graph.ty(id) {
                let left = Tree::Node(node.head, vec![inside]);
                news |= self.unite(id, new, left, right);
            }
        }
        news
    }

    fn unite(&mut self, root: Id, new: Id, left: Tree, right: Tree) -> bool {
        if !self.graph.union(root, new) {
            return false;
        }
        self.out.folded += 1;
        self.journal.note(Reason::Fold, left, right);
        true
    }
}

/// The rules that did something, by name: with all ops that their variables stand for.
pub fn fired(rules: &[Compiled], outcome: &Outcome) -> BTreeMap<Name, Fired> {
    let mut by_name: BTreeMap<Name, Fired> = BTreeMap::new();
    let all = rules.iter().zip(&outcome.fired);
    for (rule, fired) in all.filter(|(_, fired)| **fired != Fired::default()) {
        let sum = by_name.entry(rule.rule.name).or_default();
        sum.matches += fired.matches;
        sum.united += fired.united;
        sum.untyped += fired.untyped;
        sum.banned += fired.banned;
        sum.cut_off += fired.cut_off;
    }
    by_name
}
