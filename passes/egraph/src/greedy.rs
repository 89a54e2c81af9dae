//! The greedy canonical form beside the input: what the choice must not be dearer than.

use std::collections::BTreeSet;

use egg::Id;
use tir::{BlockId, Class, Greedy, Ir, OpId, Patterns, Traits, Value};

use crate::build::{Program, is_inside};
use crate::graph::Graph;
use crate::proof::journal::{Equation, Journal, Reason, Tree};

/// A block in its greedy canonical form: a copy of the arena that it is in.
pub struct Canonical {
    /// The copy.
    pub ir: Ir,
    /// The block in it.
    pub block: BlockId,
    /// The classes of the rules that made it.
    pub classes: BTreeSet<Class>,
}

/// Canonicalizes a copy of the body of an arena's root. `None` if anything in it but its end has
/// effects: what those compute from might come to mean something else.
pub fn canonical(ir: &Ir, block: BlockId, patterns: &Patterns) -> Option<Canonical> {
    end(ir, block)?;
    let body = |ir: &Ir| {
        let region = ir.regions(ir.root()).next()?;
        (ir.blocks(region).len() == 1).then_some(())?;
        ir.entry(region)
    };
    (body(ir)? == block).then_some(())?;
    let mut copy = ir.clone();
    let stats = Greedy::new(patterns).run(&mut copy).stats;
    let block = body(&copy)?;
    let rules = patterns.rules().iter();
    let applied = rules.filter(|rule| stats.applied.contains_key(rule.name.as_str()));
    let classes = applied.map(|rule| rule.class).collect();
    let ir = copy;
    Some(Canonical { ir, block, classes })
}

/// The end of a block, if nothing else has effects.
fn end(ir: &Ir, block: BlockId) -> Option<OpId> {
    let end = ir.terminator(block)?;
    let mut others = ir.ops_in(block).filter(|op| *op != end);
    let alone = others.all(|op| is_inside(ir, op)) && ir.successors(end).len() == 0;
    (alone && ir.has(end, Traits::Terminator)).then_some(end)
}

/// What is equal in a block and its canonical form: the operands of their ends.
pub fn ends(ir: &Ir, block: BlockId, canonical: &Canonical) -> Option<Vec<(Value, Value)>> {
    let (old, new) = (end(ir, block)?, end(&canonical.ir, canonical.block)?);
    let alike = ir.name(old) == canonical.ir.name(new)
        && ir.operands(old).len() == canonical.ir.operands(new).len();
    let pairs = ir.operands(old).zip(canonical.ir.operands(new));
    alike.then(|| pairs.collect())
}

/// The canonical form in the e-graph of its input.
pub struct Added {
    /// The classes of its ops in order.
    pub ops: Vec<Id>,
    /// Classes of the input and of the canonical form that are equal.
    pairs: Vec<(Id, Id)>,
    /// The classes of the rules that made it.
    classes: BTreeSet<Class>,
}

/// Adds the ops of the canonical form of a program to its e-graph, in which nothing is united yet.
/// `None` if the two cannot be compared.
pub fn add(
    ir: &Ir,
    canonical: &Canonical,
    graph: &mut Graph,
    program: &mut Program,
) -> Option<Added> {
    let pairs = ends(ir, program.block, canonical)?;
    let leaves = program.leaves.iter().map(|leaf| leaf.value);
    let leaves = leaves.map(|v| (canonical.ir.twin_value(v, ir), program.values[&v]));
    let leaves = leaves.collect();
    let (ops, values) = program.add_ops(&canonical.ir, canonical.block, graph, leaves)?;
    let class = |(old, new)| Some((*program.values.get(&old)?, *values.get(&new)?));
    let pairs = pairs.into_iter().map(class).collect::<Option<_>>()?;
    let classes = canonical.classes.clone();
    Some(Added {
        ops,
        pairs,
        classes,
    })
}

impl Added {
    /// Makes the canonical form equal to the input, once rules have shown what they can: most of it
    /// is equal by then, by the rules that the greedy driver uses too.
    pub fn unite(&self, graph: &mut Graph, journal: &mut Journal) {
        let mut news = false;
        for (old, new) in &self.pairs {
            news |= graph.union(*old, *new);
        }
        graph.rebuild();
        if news {
            journal.canonical.clone_from(&self.classes);
            let (left, right) = self.pairs.iter().copied().unzip::<_, _, Vec<Id>, Vec<Id>>();
            journal.add(Equation {
                reason: Reason::Canonicalize,
                left: left.into_iter().map(Tree::Class).collect(),
                right: right.into_iter().map(Tree::Class).collect(),
                made: self.ops.clone(),
            });
        }
    }
}
