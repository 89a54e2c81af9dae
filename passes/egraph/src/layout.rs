//! Layouts in the e-graph: each op in each layout that the machine asks for.
//!
//! An op `y = f(x, …)` that computes in a layout gives one more e-node, `f` on operands stored so,
//! and two that change its result's layout there and back. So changes of layout can be anywhere
//! between ops, which of them stay is for the extraction to choose, and the e-graph grows by a
//! constant for each op and layout: what rules that move single changes step by step would find
//! after as many rounds as ops, and with a change at every edge, is there at once.
//!
//! What an op says of layouts is its [`LayoutClass`](tir_graph::layout::LayoutClass); no op is
//! named here but the one that changes layouts.

use egg::Id;
use tir::{Name, Op, Type, Work};
use tir_graph::Relayout;
use tir_graph::layout::{Keeps, Layout, operands_in, result_in, retyped, rule_of};

use crate::cost_model::CostModel;
use crate::graph::{Graph, GraphExt};
use crate::node::{Head, Node};
use crate::one_op::{self, OpCache};
use crate::proof::journal::{Journal, Reason, Tree};

/// The layouts of activations that a machine asks for: channels last, and channels in blocks of
/// its matrix unit. None if runs of single elements cost no more than long ones.
pub fn wanted(model: &CostModel) -> Vec<Layout> {
    if model.granule <= 4 {
        return Vec::new();
    }
    let block = model.matrix.n;
    let mut names = vec!["NHWC".to_string()];
    if block > 1 && block == model.matrix.k {
        names.push(format!("NCHW{block}c"));
    }
    names.iter().filter_map(|n| Layout::new(n).ok()).collect()
}

/// Adds every op in every layout; says how many ops were added.
pub fn add(
    graph: &mut Graph,
    op_cache: &mut OpCache,
    layouts: &[Layout],
    journal: &mut Journal,
) -> usize {
    let ids = graph.ids();
    let mut store = Store {
        graph,
        op_cache,
        journal,
    };
    let mut added = 0;
    for id in ids {
        // What is known at compile time is stored as it is wanted, from whatever it is.
        if store.graph[id].data.known {
            continue;
        }
        // An op without results, or with several, has no layout; results of the latter are values.
        let &[ty] = store.graph.types(id) else {
            continue;
        };
        store.graph.analysis.origin = store.graph[id].data.origin;
        for node in store.graph[id].nodes.clone() {
            let home = Layout::of(ty);
            let keeps = keeps(store.graph, &node);
            let renames = keeps == Some(Keeps::Order);
            // In the layout that it has, it may read its weights in another one.
            let packs = keeps == Some(Keeps::Weighted) && !layouts.is_empty();
            let back = (home.is_some() || renames || packs).then_some(None);
            for layout in layouts.iter().map(Some).chain(back) {
                let news = layout != home || renames || packs;
                if news && store.in_layout(id, &node, layout).is_some() {
                    added += 1;
                }
            }
        }
    }
    store.graph.rebuild();
    added
}

/// Which operands of an op share the layout of its results.
fn keeps(graph: &Graph, node: &Node) -> Option<Keeps> {
    Some(rule_of(graph.name_of(node)?.info()?)?.keeps())
}

/// A class and a term of it.
type Stored = (Id, Tree);

/// Adds ops in layouts, and writes down why they are what they are. Terms have each change of
/// layout that is meant; those that are there already, or undo another one, fold.
struct Store<'a> {
    graph: &'a mut Graph,
    op_cache: &'a mut OpCache,
    journal: &'a mut Journal,
}

impl Store<'_> {
    /// Adds an op in a layout, and the changes between it and the class that it is in.
    fn in_layout(&mut self, id: Id, node: &Node, layout: Option<&Layout>) -> Option<()> {
        let Head::Op { region: None, .. } = node.head else {
            return None;
        };
        let name = self.graph.name_of(node)?;
        let rule = rule_of(name.info()?)?;
        if !rule.offered() {
            return None;
        }
        let layouts = one_op::ask(self.graph, node, |op| operands_in(rule, op, layout))??;
        let leaves = node.children.iter().map(|c| Tree::of(self.graph, *c));
        let plain = Tree::Node(node.head, leaves.collect());
        let mut operands: Vec<Stored> = Vec::new();
        for (child, layout) in node.children.iter().zip(&layouts) {
            operands.push(self.stored(*child, layout.as_ref())?);
        }
        let (operands, trees): (Vec<Id>, Vec<Tree>) = operands.into_iter().unzip();
        let ty = self.graph.ty(id);
        let to = result_in(rule, layout, ty);
        let attrs = self.graph.attrs_of(node).to_vec();
        let head = self
            .op_cache
            .head(self.graph, name, &attrs, &[to], &operands)?;
        if to == ty && head == node.head && operands[..] == node.children[..] {
            return None;
        }
        let made = self.graph.add(Node::new(head, operands));
        let tree = Tree::Node(head, trees);
        if to == ty {
            self.journal.note(Reason::Layout, plain, tree);
            self.graph.union(id, made);
            return Some(());
        }
        let (there, _) = self.stored(id, layout)?;
        let (back, home) = self.change(made, ty)?;
        let home_tree = Tree::Node(home, vec![tree.clone()]);
        self.journal.note(Reason::Layout, plain, home_tree.clone());
        if let Some(head) = self.head(id, to) {
            let again = Tree::Node(head, vec![home_tree]);
            self.journal.note(Reason::Fold, again, tree);
        }
        self.graph.union(made, there);
        self.graph.union(id, back);
        Some(())
    }

    /// A value stored in a layout; constants are stored so at once.
    fn stored(&mut self, id: Id, layout: Option<&Layout>) -> Option<Stored> {
        let id = self.graph.find(id);
        let of = Tree::of(self.graph, id);
        let (from, to) = (self.graph.ty(id), Layout::on(layout, self.graph.ty(id)));
        if Layout::of(from) == layout {
            return Some((id, of));
        }
        if let Some(constant) = self.graph.constant(id) {
            let node = self.graph[id].nodes.iter();
            let node = node.filter_map(|node| self.graph.name_of(node)).next();
            let dialect = node.map_or("graph", |name| name.dialect());
            let attr = retyped(constant, to)?;
            let node = one_op::constant(self.graph, dialect, attr, to)?;
            let tree = Tree::Node(self.head(id, to)?, vec![of]);
            let folded = Tree::Node(node.head, Vec::new());
            self.journal.note(Reason::Fold, tree.clone(), folded);
            return Some((self.graph.add(node), tree));
        }
        self.relayout(id, to)
    }

    fn relayout(&mut self, id: Id, to: Type) -> Option<Stored> {
        let is_change = |node: &&Node| self.graph.name_of(node) == Some(Relayout::name());
        let changes = self.graph[id].nodes.iter().filter(is_change);
        // What it was changed from is there already.
        let mut sources = changes.map(|node| (node.head, self.graph.find(node.children[0])));
        let source = sources.find(|(_, source)| self.graph.ty(*source) == to);
        let of = Tree::of(self.graph, id);
        let Some((back, source)) = source else {
            let (made, head) = self.change(id, to)?;
            return Some((made, Tree::Node(head, vec![of])));
        };
        let head = self.head(id, to)?;
        let plain = Tree::of(self.graph, source);
        let changed = Tree::Node(back, vec![plain.clone()]);
        let again = Tree::Node(head, vec![changed]);
        self.journal.note(Reason::Fold, again, plain);
        Some((source, Tree::Node(head, vec![of])))
    }

    /// The head of the op that changes a layout.
    fn head(&mut self, id: Id, to: Type) -> Option<Head> {
        let name = Relayout::name();
        self.op_cache.head(self.graph, name, &[], &[to], &[id])
    }

    /// The e-node that changes a layout, whatever is there.
    fn change(&mut self, id: Id, to: Type) -> Option<(Id, Head)> {
        let head = self.head(id, to)?;
        Some((self.graph.add(Node::new(head, [id])), head))
    }
}

/// The layout that an op computes in, if changes of layout are worth their cost for it.
pub fn computes_in(graph: &Graph, node: &Node) -> Option<Option<&'static Layout>> {
    let rule = rule_of(graph.name_of(node)?.info()?)?;
    let prefers = one_op::ask(graph, node, |op| rule.prefers(op.ir, op.id))?;
    let weighted = rule.keeps() == Keeps::Weighted && !prefers.is_empty();
    let Head::Op { types, .. } = node.head else {
        return None;
    };
    let results = graph.analysis.tables.types.get(types);
    Some(Layout::of(*results.first().filter(|_| weighted)?))
}

/// The classes that hold a class's value in other layouts.
pub fn forms(graph: &Graph, id: Id) -> impl Iterator<Item = Id> {
    let nodes = graph[graph.find(id)].nodes.iter();
    let changes = nodes.filter(|node| graph.name_of(node) == Some(Relayout::name()));
    changes.map(|node| graph.find(node.children[0]))
}

/// The work of an op with the bytes that are paid for: runs below the machine's granule cost as
/// much as one. An op that prefers a dimension reads and writes runs along it, by the first way that it is computed;
/// changing a layout is contiguous on one side only. Loading and storing are side by side but wait for each other at
/// times, so of what short runs cost besides their bytes the cheaper side counts by half.
pub fn paid(graph: &Graph, model: &CostModel, node: &Node, work: Work) -> Work {
    paid_by(graph, model, node, work, 1)
}

/// The same by the way in which the fewest bytes are paid for.
pub fn least_paid(graph: &Graph, model: &CostModel, node: &Node, work: Work) -> Work {
    paid_by(graph, model, node, work, usize::MAX)
}

/// The same by the best of the first ways, so many.
fn paid_by(graph: &Graph, model: &CostModel, node: &Node, mut work: Work, ways: usize) -> Work {
    let Head::Op { types, .. } = node.head else {
        return work;
    };
    let Some(info) = graph.name_of(node).and_then(Name::info) else {
        return work;
    };
    let results = graph.analysis.tables.types.get(types);
    if info.name == Relayout::name() {
        let (from, to) = (graph.ty(node.children[0]), results[0]);
        let run = common_run(from, to);
        if run == 0 {
            return Work {
                scalars: 0,
                reads: vec![0],
                writes: vec![0],
                ..work
            };
        }
        work.scalars = 0;
        for bytes in &mut work.writes {
            *bytes = model.paid(*bytes, run * size(to));
        }
        return work;
    }
    let Some(rule) = rule_of(info) else {
        return work;
    };
    let prefers = one_op::ask(graph, node, |op| rule.prefers(op.ir, op.id)).unwrap_or_default();
    let ways = prefers.into_iter().take(ways).map(|way| {
        paid_along(
            (graph, model),
            (node, results),
            (rule.keeps(), way),
            work.clone(),
        )
    });
    let all = |work: &Work| -> u64 { work.reads.iter().chain(&work.writes).sum() };
    ways.min_by_key(all).unwrap_or(work)
}

/// The same of an op that is computed as products in which neighbours along these dimensions of data and result, and of
/// weights, lie beside each other.
fn paid_along(
    (graph, model): (&Graph, &CostModel),
    (node, results): (&Node, &[Type]),
    (keeps, [data, weights]): (Keeps, [usize; 2]),
    mut work: Work,
) -> Work {
    let run = |ty: Type, dim: usize| contiguous(ty, dim, model.matrix.n) * size(ty);
    let paid = |bytes: u64, ty: Type, dim: usize| model.paid(bytes, run(ty, dim));
    let read = work.reads.iter().zip(&node.children).zip([data, weights]);
    let reads = read.map(|((bytes, child), dim)| paid(*bytes, graph.ty(*child), dim));
    let mut reads: Vec<u64> = reads.collect();
    reads.extend(work.reads.iter().skip(reads.len()));
    let written = work.writes.iter().zip(results);
    let mut writes: Vec<u64> = written.map(|(bytes, ty)| paid(*bytes, *ty, data)).collect();
    // What is not in the layout has other dimensions, and runs as the op wants them.
    let stored = match keeps {
        Keeps::Operand => {
            writes.clone_from(&work.writes);
            node.children.first().map(|child| graph.ty(*child))
        }
        Keeps::Result => {
            reads.clone_from(&work.reads);
            results.first().copied()
        }
        _ => None,
    };
    if let Some(ty) = stored {
        // Lanes are along that dimension, so elements of it that lie apart are computed one by one.
        let lanes = contiguous(ty, data, model.lanes).clamp(1, model.lanes.max(1));
        work.scalars = work.scalars.saturating_mul(model.lanes) / lanes;
    }
    let more = |paid: &[u64], bytes: &[u64]| {
        let paid: u64 = paid.iter().sum();
        paid.saturating_sub(bytes.iter().sum())
    };
    let both = (more(&reads, &work.reads), more(&writes, &work.writes));
    work.reads = reads;
    work.writes = writes;
    let (side, less) = match both {
        (read, write) if read < write => (&mut work.reads, read),
        (_, write) => (&mut work.writes, write),
    };
    if let Some(bytes) = side.iter_mut().max() {
        *bytes = bytes.saturating_sub(less / 2);
    }
    work
}

fn size(ty: Type) -> u64 {
    ty.elem()
        .bits()
        .map_or(1, |bits| u64::from(bits.div_ceil(8)))
}

/// The dimensions of storage that are no unit dimensions, innermost first: the dimension of the
/// shape and the number of positions.
fn axes(ty: Type) -> Vec<(usize, u64)> {
    let shape = ty.shape().unwrap_or(&[]);
    let (dims, sizes): (Vec<usize>, Vec<i64>) = match Layout::of(ty) {
        Some(layout) => {
            let dims = layout.axes().iter().map(|axis| axis.dim);
            (dims.collect(), layout.shape(shape))
        }
        None => ((0..shape.len()).collect(), shape.to_vec()),
    };
    let all = dims.into_iter().zip(sizes).rev();
    let all = all.map(|(d, n)| (d, u64::try_from(n).unwrap_or(0)));
    all.filter(|(_, n)| *n != 1).collect()
}

/// Elements in a run of a tile that takes `block` positions of a dimension at a time.
fn contiguous(ty: Type, dim: usize, block: u64) -> u64 {
    match axes(ty)[..] {
        [] => 1,
        [(d, n), (_, next), ..] if d == dim && n == block => n * next,
        [(d, n), ..] if d == dim => n.min(block),
        _ => 1,
    }
}

/// Elements in a row that is contiguous in both layouts; 0 if nothing moves.
fn common_run(from: Type, to: Type) -> u64 {
    let (from, to) = (axes(from), axes(to));
    match (&from[..], &to[..]) {
        (a, b) if a == b => 0,
        ([(d, n), ..], [(e, m), ..]) if d == e => *n.min(m),
        _ => 1,
    }
}
