//! The cuts of all classes.

use rustc_hash::FxHashSet;
use tir::SmallVec;
use tir_graph::fusion::{FusionInfo, FusionKind, anchor, edge_fuses};
use tir_graph::layout::Layout;

/// What is looked at of an e-node.
pub(super) struct Candidate {
    /// The class that it computes.
    pub(super) class: usize,
    /// The classes that it reads, each once.
    pub(super) needs: SmallVec<[usize; 4]>,
    /// Those of them that are not known when the program is compiled.
    pub(super) children: SmallVec<[usize; 4]>,
    /// How it fuses; `None` for what is always by itself.
    pub(super) info: Option<FusionInfo>,
    /// Cycles of its products at the unit's peak.
    pub(super) products: u64,
    /// Cycles of the engine to load what it reads that is known.
    pub(super) known: u64,
    /// Cycles of the engine for runs shorter than it moves at once, where nothing is fused.
    pub(super) short: u64,
    /// Cycles that its products take at least, on tiles of any shape.
    pub(super) least: u64,
    /// Classes that it reads, and cycles of the engine for what it reads of each: none where it only sees it otherwise.
    pub(super) reads: SmallVec<[(usize, u64); 4]>,
    /// The layout that it computes in, if it is one of those that are worth a change of layout.
    pub(super) computes_in: Option<Option<&'static Layout>>,
    /// Whether it only puts parts together: they may be written where they are to lie.
    pub(super) joins: bool,
}

/// Nodes of a cut, or the classes that it reads: with no more than that, they are kept where they are.
type Few = SmallVec<[usize; 6]>;

/// A set of e-nodes, one of a class, that computes the class of the first.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Cut {
    /// The nodes: the one whose result leaves, then the others, ascending.
    pub(super) nodes: Few,
    /// The classes read, ascending.
    pub(super) inputs: Few,
}

/// What is kept of cuts.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    /// Cuts of a class, apart from those of one node.
    pub(super) cuts: usize,
    /// Nodes of a cut.
    pub(super) nodes: usize,
}

/// All nodes, and what moving each class takes.
pub(super) struct Cutter {
    pub(super) nodes: Vec<Candidate>,
    /// The nodes of each class.
    pub(super) classes: Vec<Vec<usize>>,
    /// Cycles of the engine to move each class.
    pub(super) moves: Vec<u64>,
    pub(super) kept: Kept,
    /// The nodes of programs of which cuts are kept beside those of all.
    pub(super) seeds: Vec<FxHashSet<usize>>,
}

impl Cutter {
    /// Cycles that no nest of the cut can do without, whatever its tiles: its products at the peak of the unit, or what it reads at
    /// that of the engine.
    pub(super) fn bound(&self, cut: &Cut) -> u64 {
        let share = |n: &usize| self.share(&cut.nodes, *n);
        let of = |cycles: u64, share: f64| (cycles as f64 * share) as u64;
        let products = cut.nodes.iter().map(|n| of(self.nodes[*n].least, share(n)));
        let products = products.sum();
        if cut.nodes.iter().any(|n| self.nodes[*n].joins) {
            return products;
        }
        let mut read: SmallVec<[(usize, u64); 8]> = SmallVec::new();
        for node in &cut.nodes {
            for (class, cycles) in &self.nodes[*node].reads {
                if self.node_of(&cut.nodes, *class).is_some() {
                    continue;
                }
                let cycles = of(*cycles, share(node));
                // What is read several times is there after the first.
                match read.iter_mut().find(|(known, _)| known == class) {
                    Some((_, most)) => *most = (*most).max(cycles),
                    None => read.push((*class, cycles)),
                }
            }
        }
        let read = read.iter().map(|(_, cycles)| cycles).sum();
        u64::max(products, read)
    }

    /// The share of what a node of a cut gives that the others read: what none does need not be computed.
    fn share(&self, cut: &[usize], node: usize) -> f64 {
        let class = self.class(node);
        if node == cut[0] {
            return 1.0;
        }
        let users = cut
            .iter()
            .filter(|user| self.nodes[**user].children.contains(&class));
        let read = users.map(|user| {
            let reads = self.nodes[*user].reads.iter();
            let cycles = reads.filter(|(of, _)| *of == class).map(|(_, n)| *n).max();
            // What sees it otherwise reads what is read of that.
            let own = cycles.map_or(1.0, |n| n as f64 / self.moves[class].max(1) as f64);
            own.min(1.0) * self.share(cut, *user)
        });
        read.fold(0.0, f64::max)
    }

    /// Cycles that a nest of the cut may be expected to take: its products by the tile that they fill best, or its bytes, each run
    /// paid for as it is where nothing is fused.
    pub(super) fn guess(&self, cut: &Cut) -> u64 {
        let products = cut.nodes.iter().map(|n| self.nodes[*n].products).sum();
        let known: u64 = cut.nodes.iter().map(|n| self.nodes[*n].known).sum();
        let short: u64 = cut.nodes.iter().map(|n| self.nodes[*n].short).sum();
        let read: u64 = cut.inputs.iter().map(|class| self.moves[*class]).sum();
        u64::max(products, read + known + short)
    }

    fn class(&self, node: usize) -> usize {
        self.nodes[node].class
    }

    fn node_of(&self, cut: &[usize], class: usize) -> Option<usize> {
        cut.iter().copied().find(|n| self.class(*n) == class)
    }

    /// All cuts, class by class: each node alone, and of the others, and of those of each seed, those of which the fewest
    /// cycles are expected, with what they read.
    pub(super) fn cuts(&self) -> Vec<Vec<Cut>> {
        // What reads its own result computes nothing.
        let computes = |node: &&usize| {
            let node = &self.nodes[**node];
            !node.needs.contains(&node.class)
        };
        let alone = |node: &usize| {
            let mut inputs: Few = self.nodes[*node].children[..].into();
            inputs.sort_unstable();
            Cut {
                nodes: SmallVec::from_elem(*node, 1),
                inputs,
            }
        };
        let singles: Vec<Vec<Cut>> = self
            .classes
            .iter()
            .map(|nodes| nodes.iter().filter(computes).map(alone).collect())
            .collect();
        let mut all = singles.clone();
        let mut fresh = vec![true; all.len()];
        // What a longer chain of nodes gives is new in each round, where what its operands give was in the one before.
        for _ in 1..self.kept.nodes {
            let mut changed = Vec::new();
            for (class, nodes) in self.classes.iter().enumerate() {
                let mut operands = nodes.iter().flat_map(|n| &self.nodes[*n].children);
                if !operands.any(|operand| fresh[*operand]) {
                    continue;
                }
                let mut found: FxHashSet<Cut> = FxHashSet::default();
                for node in nodes {
                    found.extend(self.with_operands(*node, &all));
                }
                let mut found: Vec<Cut> = found.into_iter().filter(|c| c.nodes.len() > 1).collect();
                let rank = |cut: &Cut| {
                    let read: u64 = cut.inputs.iter().map(|class| self.moves[*class]).sum();
                    (self.guess(cut) + read, cut.nodes.len())
                };
                found.sort_by_cached_key(|cut| (rank(cut), cut.nodes.clone()));
                self.keep(&mut found);
                let mut cuts = singles[class].clone();
                cuts.append(&mut found);
                if cuts != all[class] {
                    changed.push((class, cuts));
                }
            }
            if changed.is_empty() {
                break;
            }
            fresh.fill(false);
            for (class, cuts) in changed {
                fresh[class] = true;
                all[class] = cuts;
            }
        }
        all
    }

    /// Of the cuts of a class, the first ones, and the first ones of each seed.
    fn keep(&self, cuts: &mut Vec<Cut>) {
        let mut all = 0;
        let mut own = vec![0; self.seeds.len()];
        cuts.retain(|cut| {
            all += 1;
            let mut kept = all <= self.kept.cuts;
            for (seed, count) in self.seeds.iter().zip(&mut own) {
                if cut.nodes.iter().all(|node| seed.contains(node)) {
                    *count += 1;
                    kept |= *count <= self.kept.cuts;
                }
            }
            kept
        });
    }

    /// The cuts that a node makes with cuts of its operands.
    fn with_operands(&self, node: usize, of: &[Vec<Cut>]) -> Vec<Cut> {
        let candidate = &self.nodes[node];
        let Some(own) = &candidate.info else {
            return Vec::new();
        };
        if own.kind == FusionKind::Opaque {
            return Vec::new();
        }
        let mut made: Vec<Few> = vec![SmallVec::from_elem(node, 1)];
        for child in &candidate.children {
            let before = made.len();
            for at in 0..before {
                for cut in &of[*child] {
                    let top = self.nodes[cut.nodes[0]].info.as_ref();
                    if !top.is_some_and(|top| edge_fuses(top, own)) {
                        continue;
                    }
                    if let Some(joined) = self.joined(&made[at], &cut.nodes) {
                        made.push(joined);
                    }
                }
            }
            // What is cheap by bounds comes first anyway; the rest would grow with the power of operands.
            made.truncate(4 * self.kept.cuts + 1);
        }
        made.into_iter()
            .filter_map(|nodes| self.whole(nodes))
            .collect()
    }

    /// The nodes of two sets, if they agree about each class.
    fn joined(&self, a: &[usize], b: &[usize]) -> Option<Few> {
        let mut nodes: Few = a.into();
        for node in b {
            match self.node_of(a, self.class(*node)) {
                Some(other) if other == *node => {}
                Some(_) => return None,
                None => nodes.push(*node),
            }
        }
        (nodes.len() <= self.kept.nodes).then_some(nodes)
    }

    /// Nodes as a cut, if they run as one: no class is both computed and read from outside, as none may be that its
    /// own operands need, one op decides the loops, and all that fuse may.
    fn whole(&self, mut nodes: Few) -> Option<Cut> {
        nodes[1..].sort_unstable();
        let mut inputs: Few = SmallVec::new();
        for node in &nodes {
            let user = self.nodes[*node].info.as_ref()?;
            for child in &self.nodes[*node].children {
                match self.node_of(&nodes, *child) {
                    Some(inner) if inner == nodes[0] => return None,
                    Some(inner) => {
                        let producer = self.nodes[inner].info.as_ref()?;
                        edge_fuses(producer, user).then_some(())?;
                    }
                    None if !inputs.contains(child) => inputs.push(*child),
                    None => {}
                }
            }
        }
        if nodes.len() > 1 {
            let infos = nodes.iter().map(|n| self.nodes[*n].info);
            let infos: Option<SmallVec<[FusionInfo; 6]>> = infos.collect();
            anchor(&infos?)?;
        }
        self.order(&nodes)?;
        inputs.sort_unstable();
        Some(Cut { nodes, inputs })
    }

    /// The nodes with operands first; `None` if they need each other.
    pub(super) fn order(&self, nodes: &[usize]) -> Option<Few> {
        let mut left: Few = nodes.into();
        left.sort_unstable();
        let mut order = Few::new();
        while !left.is_empty() {
            let ready = left.iter().position(|node| {
                let mut children = self.nodes[*node].children.iter();
                children.all(|child| self.node_of(&left, *child).is_none())
            });
            order.push(left.remove(ready?));
        }
        // The result is the last one: nothing reads it inside.
        let top = order.iter().position(|node| *node == nodes[0])?;
        let top = order.remove(top);
        order.push(top);
        Some(order)
    }
}
