//! From a block to an e-graph: ops without effects become e-nodes, the others a skeleton outside.

use egg::Id;
use rustc_hash::FxHashMap;
use tir::{BlockId, Ir, OpId, Traits, Value};

use crate::graph::{Graph, GraphExt};
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
    /// The constants of other blocks that its ops use, with their classes: what rules ask of a constant does not depend on
    /// the block it stands in.
    pub constants: Vec<(Value, Id)>,
    /// What the regions of its ops use from outside, in the order of the last children of their e-nodes.
    pub captured: FxHashMap<OpId, Vec<Value>>,
    /// The regions of its ops.
    regions: Regions,
}

impl Program {
    /// Adds the ops without effects of another block, which uses these leaves and no others; gives
    /// their classes and those of all values. `None` if a value is none of both.
    #[allow(clippy::type_complexity)]
    pub fn add_ops(
        &mut self,
        ir: &Ir,
        block: BlockId,
        graph: &mut Graph,
        leaves: FxHashMap<Value, Id>,
    ) -> Option<(Vec<Id>, FxHashMap<Value, Id>)> {
        // Another block's ops are none of this one.
        graph.analysis.origin = None;
        let mut values = leaves;
        let mut ops = Vec::new();
        for op in ir.ops_in(block).filter(|op| is_inside(ir, *op)) {
            let value = |value: Value| values.get(&value).copied();
            let (id, _) = add_op(ir, op, graph, &mut self.regions, value)?;
            ops.push(id);
            for (index, result) in ir.results(op).enumerate() {
                values.insert(result, result_of(graph, id, index));
            }
        }
        Some((ops, values))
    }
}

impl Program {
    /// The regions of its ops, and of what was added to it.
    pub(crate) fn regions(&self) -> &Regions {
        &self.regions
    }

    /// What the regions of an op use from outside, in the order of the last children of its e-node.
    pub(crate) fn captured_by(&mut self, ir: &Ir, op: OpId) -> Vec<Value> {
        match ir.regions(op).len() {
            0 => Vec::new(),
            _ => self.regions.add(ir, op).1,
        }
    }
}

/// Adds an op whose operands are in these classes; gives its class, and what its regions use from outside in the order of the e-node's
/// last children. `None` if an operand is in no class.
fn add_op(
    ir: &Ir,
    op: OpId,
    graph: &mut Graph,
    regions: &mut Regions,
    mut class: impl FnMut(Value) -> Option<Id>,
) -> Option<(Id, Vec<Value>)> {
    let mut operands: Vec<Value> = ir.operands(op).collect();
    let (mut region, mut captured) = (None, Vec::new());
    if ir.regions(op).len() > 0 {
        let (number, used) = regions.add(ir, op);
        operands.extend(&used);
        (region, captured) = (Some(number), used);
    }
    let children: Option<Vec<Id>> = operands.into_iter().map(&mut class).collect();
    let attrs = ir.attrs(op).iter().copied();
    let tables = &mut graph.analysis.tables;
    let mut head = tables.op(ir.name(op), attrs, ir.result_types(op));
    if let Head::Op { region: slot, .. } = &mut head {
        *slot = region;
    }
    Some((graph.add(Node::new(head, children?)), captured))
}

/// The class of a result of an op.
fn result_of(graph: &mut Graph, op: Id, index: usize) -> Id {
    match graph.types(op).len() {
        1 => op,
        _ => graph.add(Node::new(Head::Result(index as u32), [op])),
    }
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
        && !is_place(ir, op)
}

/// Whether what an op makes is a place: a tensor without content, made of nothing that is a constant, or one that is put
/// in a memory space by name, such as a tile that is loaded. Two of them are two places, and one that all share would be
/// held for as long as any is used.
fn is_place(ir: &Ir, op: OpId) -> bool {
    let constant = ir.has(op, Traits::ConstantLike);
    let nothing = ir.operands(op).len() == 0 && ir.regions(op).len() == 0;
    !constant && nothing || ir.placed(op).is_some()
}

/// Adds the ops of a block to an e-graph.
pub fn build(ir: &Ir, block: BlockId, graph: &mut Graph) -> Program {
    let mut build = Build {
        ir,
        graph,
        program: Program {
            regions: Regions::default(),
            block,
            ops: Vec::new(),
            values: FxHashMap::default(),
            roots: Vec::new(),
            live: Vec::new(),
            leaves: Vec::new(),
            constants: Vec::new(),
            captured: FxHashMap::default(),
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

    /// The class of an operand; values of other blocks are leaves, but for constants.
    fn value(&mut self, value: Value) -> Id {
        if let Some(id) = self.program.values.get(&value) {
            return *id;
        }
        let constant =
            |op: &OpId| is_inside(self.ir, *op) && self.ir.has(*op, Traits::ConstantLike);
        match self.ir.owner(value).filter(constant) {
            Some(op) => self.constant(value, op),
            None => self.leaf(value, 0),
        }
    }

    /// The class of a constant of another block.
    fn constant(&mut self, value: Value, op: OpId) -> Id {
        let attrs = self.ir.attrs(op).iter().copied();
        let tables = &mut self.graph.analysis.tables;
        let head = tables.op(self.ir.name(op), attrs, self.ir.result_types(op));
        let id = self.graph.add(Node::new(head, []));
        self.program.values.insert(value, id);
        self.program.constants.push((value, id));
        id
    }

    fn op(&mut self, op: OpId) {
        let ir = self.ir;
        let mut regions = std::mem::take(&mut self.program.regions);
        let mut operands: Vec<Value> = ir.operands(op).collect();
        if ir.regions(op).len() > 0 {
            operands.extend(captures(ir, op));
        }
        for operand in operands {
            self.value(operand);
        }
        let values = &self.program.values;
        let class = |value: Value| values.get(&value).copied();
        self.graph.analysis.origin = Some(self.program.ops.len() as u32);
        let id = add_op(ir, op, self.graph, &mut regions, class);
        // `value` gave each of them, and of what the regions use, a class right above.
        let (id, captured) = id.expect("each operand of an op has a class before the op is added");
        if !captured.is_empty() {
            self.program.captured.insert(op, captured);
        }
        self.program.regions = regions;
        self.program.ops.push((op, id));
        for (index, result) in ir.results(op).enumerate() {
            let value = result_of(self.graph, id, index);
            self.program.values.insert(result, value);
        }
        self.graph.analysis.origin = None;
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
