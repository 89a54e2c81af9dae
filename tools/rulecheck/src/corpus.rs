//! The corpus: what fitted before, from which more is made that may fit.
//!
//! *Terms.* An op was **begun** with a kind of elements if an instance was started with them, and **stuck** if nothing that
//! was tried for it verified.
//!
//! *Invariants.* What it holds verified. Each example counts once, however often it fitted, so that rare ones are drawn as
//! often; of each operand and attribute there are at most [`REMEMBERED`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tir::data::Random;
use tir::{Attr, Name, TensorType, Type};

use crate::sample::ints;

/// Most fitting examples that are remembered of each operand and attribute.
const REMEMBERED: usize = 64;
/// How often a kind of elements is begun with before it is given up for most instances.
const BEGUN: usize = 12;

/// What fitted before: ranks of operands (`None`: a scalar), and attributes, by op and name. All
/// ranks count alike, however often they fitted.
#[derive(Clone, Default)]
pub(crate) struct Corpus {
    ranks: HashMap<(Name, usize), BTreeSet<Option<usize>>>,
    attrs: HashMap<(Name, Name), Vec<Known>>,
    counts: HashMap<Name, BTreeSet<usize>>,
    /// Kinds of elements: how often an instance was begun with them, and how often it verified.
    elems: BTreeMap<ElemKind, (usize, usize)>,
    /// Of ops that are told their result types: how these were like the first operand.
    results: HashMap<Name, BTreeSet<Likeness>>,
    /// How often nothing that was tried verified.
    stuck: BTreeMap<&'static str, usize>,
    /// Element types to draw besides those that are built in.
    pub types: Arc<[Type]>,
}

/// An attribute that fitted, and the integers that it is if it is a list of them.
pub(crate) type Known = (Option<Attr>, Option<Arc<[i64]>>);

impl Corpus {
    /// Nothing, but element types to draw besides those that are built in.
    pub(crate) fn new(types: Arc<[Type]>) -> Self {
        Self {
            types,
            ..Self::default()
        }
    }
    /// Adds what is known of other ops.
    pub(crate) fn merge(&mut self, other: &Corpus) {
        let Corpus {
            ranks,
            attrs,
            counts,
            results,
            ..
        } = other.clone();
        self.ranks.extend(ranks);
        self.attrs.extend(attrs);
        self.counts.extend(counts);
        self.results.extend(results);
    }
    /// Whether an instance with these elements verified, or too few were begun to say.
    pub(crate) fn takes(&self, elem: Type) -> bool {
        let known = self.elems.get(&ElemKind::of(elem));
        known.is_none_or(|(begun, built)| *built > 0 || *begun < BEGUN)
    }
    /// An instance was begun with these elements, and verified or not.
    pub(crate) fn begun(&mut self, elem: Type, built: bool) {
        let known = self.elems.entry(ElemKind::of(elem)).or_default();
        *known = (known.0 + 1, known.1 + usize::from(built));
    }
    /// A result type that an op was told, beside the type of its first operand.
    pub(crate) fn result(&mut self, op: Name, first: Type, result: Type) {
        let likeness = Likeness {
            shape: first.shape() == result.shape(),
            elem: first.elem() == result.elem(),
        };
        self.results.entry(op).or_default().insert(likeness);
    }
    /// How result types that this op was told were like that of its first operand.
    pub(crate) fn results_of(&self, op: Name) -> Vec<Likeness> {
        self.results
            .get(&op)
            .into_iter()
            .flatten()
            .copied()
            .collect()
    }
    /// A type that an operand of an op had.
    pub(crate) fn operand(&mut self, op: Name, index: usize, ty: Type) {
        let rank = ty.get::<TensorType>().map(|t| t.shape.len());
        self.ranks.entry((op, index)).or_default().insert(rank);
    }
    /// The ranks that an operand of an op had.
    pub(crate) fn ranks_of(&self, op: Name, index: usize) -> Vec<Option<usize>> {
        let known = self.ranks.get(&(op, index));
        known.into_iter().flatten().copied().collect()
    }
    /// Nothing that was tried for an op verified.
    pub(crate) fn stuck_at(&mut self, op: Name) {
        *self.stuck.entry(op.as_str()).or_default() += 1;
    }
    /// The op for which nothing verified most often.
    pub(crate) fn stuck(&self) -> Option<&'static str> {
        let most = self.stuck.iter().max_by_key(|(_, count)| **count);
        most.map(|(op, _)| *op)
    }
    /// So many operands an op had.
    pub(crate) fn operands(&mut self, op: Name, count: usize) {
        self.counts.entry(op).or_default().insert(count);
    }
    /// How many operands there are besides `others`.
    pub(crate) fn count(&self, op: Name, others: usize, random: &mut Random) -> usize {
        let known = self.counts.get(&op).into_iter().flatten();
        let known: Vec<usize> = known.filter_map(|n| n.checked_sub(others)).collect();
        match random.pick(&known) {
            Some(count) if random.percent(80) => count,
            _ => random.below(4),
        }
    }
    /// What an attribute of an op was; `None` where it was not there.
    pub(crate) fn attr(&mut self, op: Name, name: Name, attr: Option<Attr>, random: &mut Random) {
        let all = self.attrs.entry((op, name)).or_default();
        // Each counts once, so that rare ones are as likely.
        if all.iter().any(|(known, _)| *known == attr) {
            return;
        }
        let list = attr.and_then(ints).map(Arc::from);
        if all.len() < REMEMBERED {
            all.push((attr, list));
        } else {
            all[random.below(REMEMBERED)] = (attr, list);
        }
    }
    /// What fitted an attribute of an op.
    pub(crate) fn attrs_of(&self, op: Name, name: Name) -> &[Known] {
        let known = self.attrs.get(&(op, name));
        known.map_or(&[][..], |all| &all[..])
    }
}

/// What of a result type is that of the first operand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Likeness {
    pub(crate) shape: bool,
    pub(crate) elem: bool,
}

/// Kinds of element types that ops take alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ElemKind {
    Truth,
    Integer,
    Float,
    Other,
}

impl ElemKind {
    fn of(elem: Type) -> Self {
        match elem {
            _ if elem.is_float() => ElemKind::Float,
            _ if elem.bits() == Some(1) => ElemKind::Truth,
            _ if elem.is_int() => ElemKind::Integer,
            _ => ElemKind::Other,
        }
    }
}
