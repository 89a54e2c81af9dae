//! What a group computes, apart from the e-graph: what its price depends on, and nothing else.

use egg::Id;
use tir::{At, Attr, BlockId, Ir, Name, OpState, PassCx, Rets, SmallVec, Type, Value};
use tir_graph::{Fused, Yield};

use crate::graph::{Graph, GraphExt};
use crate::node::{Head, Node};
use crate::one_op::constant_of;

/// An operand of a part.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// What an earlier part computes.
    Part(usize),
    /// An input.
    Input(usize),
}

/// An op of a group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// Its name.
    pub name: Name,
    /// Its attributes.
    pub attrs: Vec<(Name, Attr)>,
    /// The type of its result.
    pub ty: Type,
    /// What it reads.
    pub operands: SmallVec<[Source; 4]>,
}

/// What a group reads.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Input {
    /// Its type.
    pub ty: Type,
    /// Whether it is known when the program is compiled.
    pub known: bool,
    /// Whether it comes from outside of the block, as an argument does, so that no nest writes it where it is read; said of what one
    /// op alone reads.
    pub given: bool,
    /// The name of the op and the attributes that it is a constant by, if it is one.
    pub constant: Option<(Name, Vec<(Name, Attr)>)>,
}

/// A group: its ops, operands first; the last one's result is what it computes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Body {
    /// The ops.
    pub parts: Vec<Part>,
    /// What it reads.
    pub inputs: Vec<Input>,
}

impl Body {
    /// The dimensions of its tensors that have most.
    pub fn rank(&self) -> usize {
        let computed = self.parts.iter().map(|part| part.ty);
        let all = computed.chain(self.inputs.iter().map(|input| input.ty));
        let ranks = all.map(|ty| ty.shape().map_or(0, <[_]>::len));
        ranks.max().unwrap_or(0)
    }
}

/// What a group takes by itself.
pub trait Price: Sync {
    /// Cycles of a group as a nest; `None` where it does not run as one.
    fn cycles(&self, body: &Body, cx: &PassCx<'_>) -> Option<u64>;
}

impl Body {
    /// A group of chosen nodes, operands first, each by class; the last one computes what leaves.
    pub(super) fn of(graph: &Graph, nodes: &[(Id, &Node)]) -> Option<Self> {
        let mut body = Self {
            parts: Vec::new(),
            inputs: Vec::new(),
        };
        let mut inputs: Vec<Id> = Vec::new();
        for (at, (_, node)) in nodes.iter().enumerate() {
            let Head::Op { types, .. } = node.head else {
                return None;
            };
            let &[ty] = &graph.analysis.tables.types.get(types)[..] else {
                return None;
            };
            let mut operands = SmallVec::new();
            for child in &node.children {
                let earlier = nodes[..at].iter().position(|(class, _)| class == child);
                let source = earlier.map(Source::Part).unwrap_or_else(|| {
                    let known = inputs.iter().position(|id| id == child);
                    Source::Input(known.unwrap_or_else(|| {
                        inputs.push(*child);
                        body.inputs.push(input(graph, *child));
                        inputs.len() - 1
                    }))
                });
                operands.push(source);
            }
            body.parts.push(Part {
                name: graph.name_of(node)?,
                attrs: graph.attrs_of(node).to_vec(),
                ty,
                operands,
            });
        }
        if body.parts.len() == 1 {
            for (input, id) in body.inputs.iter_mut().zip(&inputs) {
                let mut nodes = graph[*id].nodes.iter();
                input.given = !input.known && nodes.any(|node| matches!(node.head, Head::Leaf(_)));
            }
        }
        Some(body)
    }

    /// Makes the ops in a block, of these inputs, as one group; gives its result.
    pub fn build(&self, ir: &mut Ir, block: BlockId, inputs: &[Value]) -> Option<Value> {
        let ty = self.parts.last()?.ty;
        let region = ir.new_region();
        let inner = ir.new_block(region);
        let fused = tir::Op::state(Fused {
            body: region,
            results: Rets(vec![ty]),
        });
        let group = ir.create_raw(fused);
        ir.insert(group, At::End(block));
        let mut values: Vec<Value> = Vec::new();
        for part in &self.parts {
            let mut state = OpState::new(part.name);
            let operands = part.operands.iter().map(|source| match source {
                Source::Part(at) => values[*at],
                Source::Input(at) => inputs[*at],
            });
            state.operands = operands.collect();
            state.attrs = part.attrs.iter().copied().collect();
            state.results.push(part.ty);
            let op = ir.create_raw(state);
            ir.insert(op, At::End(inner));
            values.push(ir.result(op, 0));
        }
        let last = *values.last()?;
        ir.add(At::End(inner), Yield { values: vec![last] });
        Some(ir.result(group, 0))
    }
}

fn input(graph: &Graph, id: Id) -> Input {
    let constant = constant_of(graph, id);
    Input {
        ty: graph.ty(id),
        known: graph[id].data.known,
        given: false,
        constant: constant.map(|(name, attrs)| (name, attrs.to_vec())),
    }
}
