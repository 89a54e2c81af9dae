//! From a block to an e-graph: ops without effects become e-nodes, the others a skeleton outside.

use egg::Id;
use rustc_hash::FxHashMap;
use tir::{BlockId, Ir, OpId, Traits, Value};

use crate::graph::{Ask, Graph};
use crate::node::{Head, Node};
use crate::region::{Regions, captures};

/// What became of a block.
pub struct Program {
    /// The block.
    pub block: BlockId,
    /// The ops that became e-nodes, in order, with their classes.
    pub ops: Vec<(OpId, Id)>,
    /// The classes of values.
    pub values: FxHashMap<Value, Id>,
    /// The values that are needed outside of the e-graph, in the order of their definition, with
    /// their classes.
    pub roots: Vec<(Value, Id)>,
    /// Which of [`ops`](Self::ops) a root needs.
    pub live: Vec<bool>,
    /// The leaves, by number.
    pub leaves: Vec<Leaf>,
}

/// A value that the e-graph does not look into.
#[derive(Clone, Copy, Debug)]
pub struct Leaf {
    /// The value.
    pub value: Value,
    /// How many ops of the skeleton must have run before it is there.
    pub rank: usize,
    /// How many ops that became e-nodes stand before its definition, or before its first use if
    /// it comes from another block.
    pub after: usize,
}

/// Whether an op becomes an e-node.
pub fn is_inside(ir: &Ir, op: OpId) -> bool {
    ir.is_pure(op)
        && !ir.has(op, Traits::Terminator)
        && !ir.has(op, Traits::Symbol)
        && ir.child(op).is_none()
        && ir.successors(op).len() == 0
}

/// Adds the ops of a block to an e-graph.
pub fn build(ir: &Ir, block: BlockId, graph: &mut Graph) -> Program {
    let mut build = Build {
        ir,
        graph,
        regions: Regions::default(),
        program: Program {
            block,
            ops: Vec::new(),
            values: FxHashMap::default(),
            roots: Vec::new(),
            live: Vec::new(),
            leaves: Vec::new(),
        },
    };
    let mut before = 0;
    for op in ir.ops_in(block) {
        if is_inside(ir, op) {
            build.op(op);
        } else {
            before += 1;
            for result in ir.results(op) {
                build.leaf(result, before);
            }
        }
    }
    build.roots();
    build.program
}

struct Build<'a> {
    ir: &'a Ir,
    graph: &'a mut Graph,
    regions: Regions,
    program: Program,
}

impl Build<'_> {
    fn leaf(&mut self, value: Value, rank: usize) -> Id {
        let leaves = &mut self.graph.analysis.tables.leaves;
        let head = Head::Leaf(leaves.len() as u32);
        leaves.push(self.ir.ty(value));
        self.program.leaves.push(Leaf {
            value,
            rank,
            after: self.program.ops.len(),
        });
        let id = self.graph.add(Node::new(head, []));
        self.program.values.insert(value, id);
        id
    }

    /// The class of an operand; values of other blocks are leaves.
    fn value(&mut self, value: Value) -> Id {
        match self.program.values.get(&value) {
            Some(id) => *id,
            None => self.leaf(value, 0),
        }
    }

    fn op(&mut self, op: OpId) {
        let ir = self.ir;
        let mut operands: Vec<Value> = ir.operands(op).collect();
        let mut region = None;
        if ir.regions(op).len() > 0 {
            let outside = captures(ir, op);
            region = Some(self.regions.add(ir, op, &outside));
            operands.extend(outside);
        }
        let children: Vec<Id> = operands.into_iter().map(|v| self.value(v)).collect();
        let attrs = ir.attrs(op).iter().copied();
        let tables = &mut self.graph.analysis.tables;
        let mut head = tables.op(ir.name(op), attrs, ir.result_types(op));
        if let Head::Op { region: slot, .. } = &mut head {
            *slot = region;
        }
        let id = self.graph.add(Node::new(head, children));
        self.program.ops.push((op, id));
        let several = self.graph.types(id).len() != 1;
        for (index, result) in ir.results(op).enumerate() {
            let value = match several {
                true => self.graph.add(Node::new(Head::Result(index as u32), [id])),
                false => id,
            };
            self.program.values.insert(result, value);
        }
    }

    /// Finds what is used outside: by the skeleton and all below it, and in other blocks.
    fn roots(&mut self) {
        let (ir, block) = (self.ir, self.program.block);
        let outside = |value: Value| {
            ir.uses(value).any(|used| {
                let user = ir.ancestor_in(used.op, block);
                user.is_none_or(|user| !is_inside(ir, user))
            })
        };
        for (op, _) in &self.program.ops {
            for result in ir.results(*op) {
                if outside(result) {
                    self.program
                        .roots
                        .push((result, self.program.values[&result]));
                }
            }
        }
        let places = self.program.ops.iter().enumerate();
        let places: FxHashMap<OpId, usize> = places.map(|(i, (op, _))| (*op, i)).collect();
        let mut live = vec![false; places.len()];
        let mut work: Vec<Value> = self.program.roots.iter().map(|(v, _)| *v).collect();
        while let Some(value) = work.pop() {
            let owner = ir.owner(value).and_then(|op| places.get(&op));
            if let Some(&at) = owner
                && !std::mem::replace(&mut live[at], true)
            {
                let op = self.program.ops[at].0;
                work.extend(ir.operands(op));
                if ir.regions(op).len() > 0 {
                    work.extend(captures(ir, op));
                }
            }
        }
        self.program.live = live;
    }
}
