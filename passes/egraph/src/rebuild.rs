//! From a choice of e-nodes back to the block it came from.
//!
//! An op of the input that was chosen stays where it is, with its name hints and its place in the
//! text, but for constants that another block has for it; a new one goes right before the first op that needs it. A new op is from where the values of its class are from,
//! those that a change of layout makes of it too; else from where the op is from that needs it, if that is one of the input;
//! else from where the op is from that rules began from.

use egg::Id;
use rustc_hash::{FxHashMap, FxHashSet};
use tir::{At, Ir, Loc, OpId, OpState, Use, Value};

use crate::build::{Program, is_inside};
use crate::extract::canonical;
use crate::graph::{Graph, GraphExt};
use crate::layout;
use crate::node::{Head, Node};
use crate::region::captures;

/// What was made of a choice.
pub struct Rebuilt {
    /// How many ops were made.
    pub made: usize,
    /// The results of each class that is computed.
    pub values: FxHashMap<Id, Vec<Value>>,
}

/// Changes the block so that it computes what was chosen.
pub fn rebuild(
    ir: &mut Ir,
    graph: &Graph,
    program: &Program,
    choice: &FxHashMap<Id, Node>,
) -> Rebuilt {
    let mut homes: FxHashMap<Node, OpId> = FxHashMap::default();
    for (op, id) in &program.ops {
        homes.entry(canonical(graph, *id)).or_insert(*op);
    }
    let mut outside: FxHashMap<Node, Value> = FxHashMap::default();
    for (value, id) in &program.constants {
        outside.entry(canonical(graph, *id)).or_insert(*value);
    }
    // Names and places for new ops: those of the first value that their class was.
    let mut named: FxHashMap<Id, Value> = FxHashMap::default();
    for (op, _) in &program.ops {
        for result in ir.results(*op) {
            let class = graph.find(program.values[&result]);
            named.entry(class).or_insert(result);
        }
    }
    for (op, _) in &program.ops {
        for result in ir.results(*op) {
            for stored in layout::forms(graph, program.values[&result]) {
                named.entry(stored).or_insert(result);
            }
        }
    }
    let mut run = Rebuilder {
        ir,
        graph,
        program,
        choice,
        inside: program.ops.iter().copied().collect(),
        homes,
        outside,
        named,
        done: FxHashMap::default(),
        kept: FxHashSet::default(),
        made: 0,
    };
    run.run();
    Rebuilt {
        made: run.made,
        values: run.done,
    }
}

struct Rebuilder<'a> {
    ir: &'a mut Ir,
    graph: &'a Graph,
    program: &'a Program,
    choice: &'a FxHashMap<Id, Node>,
    inside: FxHashMap<OpId, Id>,
    /// Ops of the input by their e-nodes.
    homes: FxHashMap<Node, OpId>,
    /// Constants of other blocks by their e-nodes.
    outside: FxHashMap<Node, Value>,
    named: FxHashMap<Id, Value>,
    /// The results of classes that stand in the block by now.
    done: FxHashMap<Id, Vec<Value>>,
    kept: FxHashSet<OpId>,
    made: usize,
}

/// Where an op is from.
#[derive(Clone, Copy)]
struct Place {
    loc: Loc,
    /// Whether it computes what an op of the input does.
    known: bool,
}

impl Rebuilder<'_> {
    fn run(&mut self) {
        let ops: Vec<OpId> = self.ir.ops_in(self.program.block).collect();
        let roots: Vec<(Value, Id)> = self.program.roots.clone();
        let classes: FxHashMap<Value, Id> = roots.iter().copied().collect();
        for op in ops {
            if self.kept.contains(&op) {
                continue;
            }
            if self.inside.contains_key(&op) {
                self.visit(op);
                continue;
            }
            let mut needed: Vec<Value> = self.ir.operands(op).collect();
            if self.ir.regions(op).len() > 0 {
                needed.extend(captures(self.ir, op));
            }
            for id in needed.iter().filter_map(|value| classes.get(value)) {
                self.class(*id, op, self.place(op));
            }
        }
        // What only other blocks need stands before the end.
        let end = self.ir.last(self.program.block);
        let end = end.filter(|op| !is_inside(self.ir, *op));
        if let Some(end) = end {
            for (_, id) in &roots {
                self.class(*id, end, self.place(end));
            }
        }
        for (old, id) in &roots {
            if let Some(new) = self.done.get(&self.graph.find(*id)) {
                self.ir.replace_uses(*old, new[0]);
            }
        }
        let dead: Vec<OpId> = self.program.ops.iter().map(|(op, _)| *op).collect();
        for op in dead.into_iter().rev() {
            if !self.kept.contains(&op) && self.ir.results(op).all(|v| self.ir.is_unused(v)) {
                self.ir.erase(op);
            }
        }
    }

    fn place(&self, op: OpId) -> Place {
        Place {
            loc: self.ir.loc(op),
            known: true,
        }
    }

    /// An op of the input at its place: it stays if it was chosen.
    fn visit(&mut self, op: OpId) {
        let id = self.inside[&op];
        let class = self.graph.find(id);
        let node = canonical(self.graph, id);
        let chosen = self.choice.get(&class) == Some(&node);
        if chosen && self.homes.get(&node) == Some(&op) {
            self.class(class, op, self.place(op));
        }
    }

    /// Makes sure that a class stands before an op, for an op at a location; gives its results.
    fn class(&mut self, id: Id, before: OpId, user: Place) -> Vec<Value> {
        let id = self.graph.find(id);
        if let Some(done) = self.done.get(&id) {
            return done.clone();
        }
        // Extraction checks its solution: every class that a chosen node needs has a node, and only from the roots
        // on along chosen nodes are classes asked for.
        let Some(node) = self.choice.get(&id).cloned() else {
            panic!("internal error: class {id} is needed by what was chosen, and has no node");
        };
        let results = match node.head {
            Head::Leaf(index) => vec![self.program.leaves[index as usize].value],
            Head::Result(index) => {
                let tuple = self.class(node.children[0], before, user);
                vec![tuple[index as usize]]
            }
            Head::Op { .. } => self.op(id, &node, before, user),
        };
        self.done.insert(id, results.clone());
        results
    }

    fn op(&mut self, id: Id, node: &Node, before: OpId, user: Place) -> Vec<Value> {
        if let Some(constant) = self.outside.get(node) {
            return vec![*constant];
        }
        let home = self.homes.get(node).copied();
        let named = self.named.get(&id).copied();
        let origin = || {
            let number = self.graph[id].data.origin.filter(|_| !user.known)?;
            Some(self.program.ops.get(number as usize)?.0)
        };
        let place = match (home.or_else(|| self.ir.owner(named?)), origin()) {
            (Some(op), _) => self.place(op),
            (None, origin) => Place {
                loc: origin.map_or(user.loc, |op| self.ir.loc(op)),
                known: false,
            },
        };
        let mut operands = Vec::new();
        for child in &node.children {
            operands.push(self.class(*child, before, place)[0]);
        }
        if let Some(op) = home {
            let old: Vec<Value> = self.ir.operands(op).collect();
            let count = old.len();
            if op != before {
                self.ir.move_op(op, At::Before(before));
            }
            if old[..] != operands[..count] {
                self.ir.set_operands(op, &operands[..count]);
            }
            // All at once: what one becomes may be another one.
            let captured = self.program.captured.get(&op).into_iter().flatten();
            let mut changes = Vec::new();
            for (old, new) in captured.zip(&operands[count..]) {
                let below = |used: &Use| used.op != op && self.ir.is_below(used.op, op);
                let uses = self.ir.uses(*old).filter(below);
                changes.extend(uses.map(|used| (used, *new)));
            }
            for (used, new) in changes {
                self.ir.set_operand(used.op, used.operand, new);
            }
            self.kept.insert(op);
            return self.ir.results(op).collect();
        }
        let op = self.make(node, &operands, place.loc, before);
        if let Some(value) = named
            && self.ir.results(op).len() == 1
        {
            let hint = self.ir.hint(value);
            self.ir.set_hint(self.ir.result(op, 0), hint);
        }
        self.ir.results(op).collect()
    }

    fn make(&mut self, node: &Node, operands: &[Value], loc: Loc, before: OpId) -> OpId {
        // Leaves and results of other nodes have no op of their own: `class` looks at them before.
        let (Some(name), Head::Op { types, region, .. }) = (self.graph.name_of(node), node.head)
        else {
            panic!("internal error: {node:?} is no op");
        };
        self.made += 1;
        // Regions that no op of the block has are those of its canonical form.
        if let Some(region) = region {
            let regions = self.program.regions();
            let op = regions.make(region, operands, self.ir, At::Before(before));
            self.ir.set_loc(op, loc);
            return op;
        }
        let mut state = OpState::new(name);
        state.loc = loc;
        state.operands = operands.iter().copied().collect();
        state.attrs = self.graph.attrs_of(node).iter().copied().collect();
        let types = self.graph.analysis.tables.types.get(types);
        state.results = types.iter().copied().collect();
        let op = self.ir.create_raw(state);
        self.ir.insert(op, At::Before(before));
        op
    }
}
