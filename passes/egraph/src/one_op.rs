//! One op at a time in an arena of its own, so that its hooks can be asked: result types, what it
//! folds to, what it takes to run.

use egg::Id;
use rustc_hash::FxHashMap;
use tir::interp::{EvaluateOp, attr_of};
use tir::{
    At, Attr, BlockId, Builder, Data, Dialect, Failure, Folded, Ir, Name, OpId, OpRef, OpState,
    Traits, Type, Value, Work, verify_local,
};

use crate::graph::{Graph, GraphExt};
use crate::node::{Head, Index, Node};

/// An op in an arena.
struct Alone {
    ir: Ir,
    op: OpId,
    operands: Vec<Value>,
}

/// What an op with operands of these facts is: the key under which answers are kept.
type Key = (Index, Index, Option<Index>, Vec<(Index, Option<Index>)>);

/// Asks ops, and remembers the answers.
#[derive(Default)]
pub struct OpCache {
    types: FxHashMap<Key, Option<Index>>,
    work: FxHashMap<Key, Work>,
}

/// What an op folds to, for each result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fold {
    /// A constant.
    Constant(Attr),
    /// An operand.
    Operand(Id),
}

impl OpCache {
    /// The head of an op with these operands, with result types that it infers if none are said;
    /// `None` if it is not well typed.
    pub fn head(
        &mut self,
        graph: &mut Graph,
        name: Name,
        attrs: &[(Name, Attr)],
        said: &[Type],
        operands: &[Id],
    ) -> Option<Head> {
        let tables = &mut graph.analysis.tables;
        let head = tables.op(name, attrs.iter().copied(), said.to_vec());
        let key = key(graph, head, operands)?;
        let types = match self.types.get(&key) {
            Some(known) => *known,
            None => {
                let types = typed(graph, name, attrs, said, operands);
                let types = types.ok().map(|t| graph.analysis.tables.types.add(t));
                self.types.insert(key, types);
                types
            }
        };
        match head {
            Head::Op {
                name,
                attrs,
                region,
                ..
            } => Some(Head::Op {
                name,
                attrs,
                region,
                types: types?,
            }),
            _ => None,
        }
    }

    /// What running the op of a node takes; nothing for other nodes.
    pub fn work(&mut self, graph: &Graph, node: &Node) -> Work {
        let Some(key) = key(graph, node.head, &node.children) else {
            return Work::default();
        };
        if let Some(known) = self.work.get(&key) {
            return known.clone();
        }
        let types = graph.analysis.tables.types.get(key.2.unwrap_or_default());
        let (name, attrs) = (graph.name_of(node), graph.attrs_of(node));
        let alone = name.map(|name| alone(graph, name, attrs, types, &node.children));
        let work = match alone {
            Some(Ok(alone)) => Work::of(alone.ir.op(alone.op)),
            _ => Work::default(),
        };
        self.work.insert(key, work.clone());
        work
    }

    /// What the op of a node folds to, if no more than `limit` elements are read and written.
    pub fn fold(&mut self, graph: &Graph, node: &Node, limit: usize) -> Option<Vec<Fold>> {
        let Head::Op {
            types,
            region: None,
            ..
        } = node.head
        else {
            return None;
        };
        let name = graph.name_of(node)?;
        let info = name.info()?;
        let results = graph.analysis.tables.types.get(types).clone();
        let inputs = node
            .children
            .iter()
            .filter_map(|id| graph.types(*id).first());
        let elements = |ty: &Type| {
            ty.shape()
                .map_or(1, |_| ty.elements().unwrap_or(usize::MAX))
        };
        if inputs.chain(&results).any(|ty| elements(ty) > limit) || results.is_empty() {
            return None;
        }
        let attrs = graph.attrs_of(node);
        let alone = alone(graph, name, attrs, &results, &node.children).ok()?;
        if let Some(folds) = alone.ir.try_fold(alone.op) {
            let operand = |value: Value| {
                let at = alone.operands.iter().position(|v| *v == value)?;
                Some(Fold::Operand(node.children[at]))
            };
            let folds = folds.0.iter().map(|fold| match fold {
                Folded::Attr(attr) => Some(Fold::Constant(*attr)),
                Folded::Value(value) => operand(*value),
            });
            let folds: Option<Vec<Fold>> = folds.collect();
            return folds.filter(|all| all.len() == results.len());
        }
        if node.children.is_empty() {
            return None;
        }
        let evaluate = info.interface::<dyn EvaluateOp>()?;
        let inputs = node.children.iter().map(|id| {
            let array = tir::interp::elements(graph.constant(*id)?).ok()?;
            Some(Data::from(array))
        });
        let inputs: Vec<Data> = inputs.collect::<Option<_>>()?;
        let outputs = evaluate.evaluate(alone.ir.op(alone.op), &inputs).ok()?;
        let folded = outputs.iter().zip(&results).map(|(data, ty)| {
            let attr = attr_of(data.as_tensor().ok()?);
            (attr.type_of() == Some(*ty)).then_some(Fold::Constant(attr))
        });
        folded.collect()
    }
}

/// Asks the op of a node, by itself, with operands of their types; `None` for other nodes.
pub fn ask<R>(graph: &Graph, node: &Node, question: impl FnOnce(OpRef<'_>) -> R) -> Option<R> {
    let Head::Op { types, .. } = node.head else {
        return None;
    };
    let types = graph.analysis.tables.types.get(types);
    let (name, attrs) = (graph.name_of(node)?, graph.attrs_of(node));
    let alone = alone(graph, name, attrs, types, &node.children).ok()?;
    Some(question(alone.ir.op(alone.op)))
}

fn key(graph: &Graph, head: Head, operands: &[Id]) -> Option<Key> {
    let Head::Op {
        name, attrs, types, ..
    } = head
    else {
        return None;
    };
    let facts = operands.iter().map(|id| {
        let facts = graph[*id].data;
        (facts.types, facts.constant)
    });
    Some((name, attrs, Some(types), facts.collect()))
}

/// An op in an arena of its own. Operands that are constants are constants there, the others are
/// arguments of its block.
fn alone(
    graph: &Graph,
    name: Name,
    attrs: &[(Name, Attr)],
    said: &[Type],
    operands: &[Id],
) -> Result<Alone, Failure> {
    let (mut ir, block) = arena();
    let operands: Vec<Value> = operands
        .iter()
        .map(|id| operand(graph, &mut ir, block, *id))
        .collect();
    let mut state = OpState::new(name);
    state.operands = operands.iter().copied().collect();
    state.attrs = attrs.iter().copied().collect();
    state.results = said.iter().copied().collect();
    let op = ir.create(state)?;
    ir.insert(op, block);
    Ok(Alone { ir, op, operands })
}

fn arena() -> (Ir, BlockId) {
    let mut ir = Ir::new("egraph.op");
    let region = ir.new_region();
    let root = ir.root();
    ir.attach_region(root, region);
    let block = ir.new_block(region);
    (ir, block)
}

/// The op that a class is a constant by: its name and attributes.
pub fn constant_of(graph: &Graph, id: Id) -> Option<(Name, &[(Name, Attr)])> {
    let index = graph[id].data.constant?;
    let name = graph[id].nodes.iter().find_map(|node| {
        let is_it = matches!(node.head, Head::Op { attrs, .. } if attrs == index);
        let name = graph.name_of(node).filter(|_| is_it)?;
        name.info()?.has(Traits::ConstantLike).then_some(name)
    });
    Some((name?, graph.analysis.tables.attrs.get(index)))
}

/// Adds a constant of these attributes to a block.
pub fn add_constant(
    ir: &mut Ir,
    block: BlockId,
    ty: Type,
    (name, attrs): (Name, &[(Name, Attr)]),
) -> Value {
    let mut state = OpState::new(name);
    state.attrs = attrs.iter().copied().collect();
    state.results.push(ty);
    let op = ir.create_raw(state);
    ir.insert(op, At::End(block));
    ir.result(op, 0)
}

fn operand(graph: &Graph, ir: &mut Ir, block: BlockId, id: Id) -> Value {
    let ty = graph.ty(id);
    match constant_of(graph, id) {
        Some(of) => add_constant(ir, block, ty, of),
        None => ir.add_arg(block, ty),
    }
}

fn typed(
    graph: &Graph,
    name: Name,
    attrs: &[(Name, Attr)],
    said: &[Type],
    operands: &[Id],
) -> Result<Vec<Type>, Failure> {
    let alone = alone(graph, name, attrs, said, operands)?;
    verify_local(&alone.ir).map_err(|mut errors| Box::new(errors.remove(0)))?;
    Ok(alone.ir.result_types(alone.op))
}

/// The node of a constant: made by the dialect of this name, else by `arith`.
pub fn constant(graph: &mut Graph, dialect: &str, attr: Attr, ty: Type) -> Option<Node> {
    [dialect, "arith"].into_iter().find_map(|dialect| {
        let make = Dialect::named(dialect)?.constant?;
        let (mut ir, block) = arena();
        let value = make(&mut Builder::new(&mut ir, block), attr, ty)?;
        let op = ir.owner(value).filter(|_| ir.ty(value) == ty)?;
        if ir.operands(op).len() > 0 || ir.results(op).len() != 1 {
            return None;
        }
        let attrs = ir.attrs(op).iter().copied();
        let head = graph.analysis.tables.op(ir.name(op), attrs, vec![ty]);
        Some(Node::new(head, []))
    })
}
