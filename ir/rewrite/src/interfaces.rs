//! Interfaces that generic passes ask, each with the trait that a record implements and the hook
//! that hands it over (`#[op(…, loop_like)]`).

use std::collections::HashSet;
use std::marker::PhantomData;

use tir_core::{
    BlockId, Hook, Interval, Ir, Op, OpId, OpRef, RegionId, Role, Type, Value, operand_groups,
};

/// Makes a trait object of what a record implements.
pub struct Typed<T>(PhantomData<fn() -> T>);

impl<T: 'static> Typed<T> {
    /// The object; there is nothing in it.
    pub const NEW: &'static Self = &Self(PhantomData);
}

/// Which buffers an op writes as a whole: what a record implements. An op needs it only where it writes every element, whatever
/// the buffer held before; of any other write it is assumed that it leaves elements as they are.
pub trait OverwritesLike: Op {
    /// Memrefs of which the op writes all elements. It may read them too; its effects say so.
    fn overwrites(&self, op: OpRef<'_>) -> Vec<Value>;
}

/// [`OverwritesLike`] as an interface: `info.interface::<dyn Overwrites>()`.
pub trait Overwrites: Send + Sync {
    /// Memrefs of which `op` writes all elements.
    fn overwrites(&self, ir: &Ir, op: OpId) -> Vec<Value>;
}

impl<T: OverwritesLike> Overwrites for Typed<T> {
    fn overwrites(&self, ir: &Ir, op: OpId) -> Vec<Value> {
        T::read(ir, op).map_or(Vec::new(), |record| record.overwrites(ir.op(op)))
    }
}

/// `tir::interfaces::overwrites`, for `#[op(…)]`.
pub fn overwrites<T: OverwritesLike>() -> Hook {
    Hook::interface::<dyn Overwrites>(Typed::<T>::NEW)
}

/// Memrefs of which an op writes all elements; none, if it does not say so.
pub fn overwritten(ir: &Ir, op: OpId) -> Vec<Value> {
    let known = ir.info(op).and_then(|i| i.interface::<dyn Overwrites>());
    known.map_or(Vec::new(), |known| known.overwrites(ir, op))
}

/// Which regions of an op run many times: what a record implements.
pub trait LoopLike: Op {
    /// The regions that are loop bodies.
    fn bodies(&self, op: OpRef<'_>) -> Vec<RegionId>;
    /// How often the bodies run each time that control reaches the op, if it is known.
    fn trip_count(&self, _op: OpRef<'_>) -> Option<i64> {
        None
    }
    /// The argument of a body that counts, and what it may be: no iteration has another number. `None` if there is none, or
    /// its numbers are not known.
    fn counter(&self, _op: OpRef<'_>) -> Option<(Value, Interval)> {
        None
    }
}

/// [`LoopLike`] as an interface: `info.interface::<dyn Loop>()`.
pub trait Loop: Send + Sync {
    /// The regions of `op` that are loop bodies.
    fn bodies(&self, ir: &Ir, op: OpId) -> Vec<RegionId>;
    /// How often the bodies of `op` run each time that control reaches it, if it is known.
    fn trip_count(&self, ir: &Ir, op: OpId) -> Option<i64>;
    /// The argument of a body that counts, and what it may be.
    fn counter(&self, ir: &Ir, op: OpId) -> Option<(Value, Interval)>;
}

impl<T: LoopLike> Loop for Typed<T> {
    fn bodies(&self, ir: &Ir, op: OpId) -> Vec<RegionId> {
        T::read(ir, op).map_or_else(Vec::new, |record| record.bodies(ir.op(op)))
    }
    fn trip_count(&self, ir: &Ir, op: OpId) -> Option<i64> {
        T::read(ir, op)?.trip_count(ir.op(op))
    }
    fn counter(&self, ir: &Ir, op: OpId) -> Option<(Value, Interval)> {
        T::read(ir, op)?.counter(ir.op(op))
    }
}

/// `loop_like`.
pub fn loop_like<T: LoopLike>() -> Hook {
    Hook::interface::<dyn Loop>(Typed::<T>::NEW)
}

/// How often the bodies of an op run each time that control reaches it; `None` if it is no loop, or the number is not known.
pub fn trip_count(ir: &Ir, op: OpId) -> Option<i64> {
    let known = ir.info(op)?.interface::<dyn Loop>()?;
    known.trip_count(ir, op)
}

/// The argument of a body of a loop that counts, and what it may be; `None` if the op is no loop, or that is not known.
pub fn counter(ir: &Ir, op: OpId) -> Option<(Value, Interval)> {
    let known = ir.info(op)?.interface::<dyn Loop>()?;
    known.counter(ir, op)
}

/// Marks ops whose regions keep the constants that folding makes in them, instead of handing
/// them to the entry block around.
pub trait KeepsConstants: Send + Sync {}
impl<T: Op> KeepsConstants for Typed<T> {}

/// `keeps_constants`.
pub fn keeps_constants<T: Op>() -> Hook {
    Hook::interface::<dyn KeepsConstants>(Typed::<T>::NEW)
}

/// Where control is with respect to the regions of an op.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RegionPoint {
    /// At the op itself: before its regions run, or behind them.
    Parent,
    /// At the begin or the end of the region of this number.
    Region(usize),
}

/// A way that control may take at an op with regions: from the op or the end of a region to the
/// begin of a region or behind the op.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegionEdge {
    /// Where it begins.
    pub from: RegionPoint,
    /// Where it ends.
    pub to: RegionPoint,
    /// The values handed over: each with the block argument or the result that it becomes.
    pub values: Vec<(Value, Value)>,
}

/// How control flows between an op and its regions: what a record implements (MLIR's
/// `RegionBranchOpInterface`).
pub trait RegionBranchLike: Op {
    /// All edges. A region that may run again has one to itself.
    fn edges(&self, op: OpRef<'_>) -> Vec<RegionEdge>;
}

/// [`RegionBranchLike`] as an interface: `info.interface::<dyn RegionBranch>()`.
pub trait RegionBranch: Send + Sync {
    /// All edges of `op`; `None` if the op has not the structure of its record.
    fn edges(&self, ir: &Ir, op: OpId) -> Option<Vec<RegionEdge>>;
}

impl<T: RegionBranchLike> RegionBranch for Typed<T> {
    fn edges(&self, ir: &Ir, op: OpId) -> Option<Vec<RegionEdge>> {
        Some(T::read(ir, op)?.edges(ir.op(op)))
    }
}

/// `region_branch`.
pub fn region_branch<T: RegionBranchLike>() -> Hook {
    Hook::interface::<dyn RegionBranch>(Typed::<T>::NEW)
}

/// How control may flow between an op and its regions, with the values whose type `track` holds.
///
/// An op without the interface may run its regions in any order and any number of times, and may
/// hand every operand of it or of the ends of its regions to every region and to its results.
pub fn region_edges(ir: &Ir, op: OpId, track: &dyn Fn(Type) -> bool) -> Vec<RegionEdge> {
    let known = ir.info(op).and_then(|i| i.interface::<dyn RegionBranch>());
    if let Some(mut edges) = known.and_then(|branch| branch.edges(ir, op)) {
        for edge in &mut edges {
            edge.values.retain(|(from, _)| track(ir.ty(*from)));
        }
        return edges;
    }
    let tracked = |values: &mut dyn Iterator<Item = Value>| -> Vec<Value> {
        values.filter(|v| track(ir.ty(*v))).collect()
    };
    let mut points = vec![(
        RegionPoint::Parent,
        tracked(&mut ir.operands(op)),
        tracked(&mut ir.results(op)),
    )];
    for (index, region) in ir.regions(op).enumerate() {
        let Some(entry) = ir.entry(region) else {
            continue;
        };
        let ends = ir.blocks(region).filter_map(|block| ir.last(block));
        let ends = ends.filter(|end| ir.successors(*end).len() == 0);
        let given = tracked(&mut ends.flat_map(|end| ir.operands(end)));
        let args = tracked(&mut ir.args(entry));
        points.push((RegionPoint::Region(index), given, args));
    }
    let mut edges = Vec::new();
    for (from, given, _) in &points {
        for (to, _, taken) in &points {
            let pairs = given.iter().flat_map(|a| taken.iter().map(|b| (*a, *b)));
            edges.push(RegionEdge {
                from: *from,
                to: *to,
                values: pairs.collect(),
            });
        }
    }
    edges
}

/// The same, without the ways that the number of iterations of a loop of one region rules out ([`trip_count`]): past a loop that runs, into
/// one that does not, and round one that runs once.
pub fn taken_edges(ir: &Ir, op: OpId, track: &dyn Fn(Type) -> bool) -> Vec<RegionEdge> {
    let mut edges = region_edges(ir, op, track);
    if let Some(trips) = trip_count(ir, op).filter(|_| ir.regions(op).len() == 1) {
        edges.retain(|edge| match (edge.from, edge.to) {
            (RegionPoint::Parent, RegionPoint::Parent) => trips <= 0,
            (RegionPoint::Parent, RegionPoint::Region(_)) => trips > 0,
            (RegionPoint::Region(_), RegionPoint::Region(_)) => trips > 1,
            (RegionPoint::Region(_), RegionPoint::Parent) => true,
        });
    }
    edges
}

/// Whether region `next` of an op may run behind region `first` of it before control leaves the op; of one region, whether
/// it may run again. Regions have their numbers; of an op without [`RegionBranch`] any may run behind any.
pub fn may_run_after(ir: &Ir, op: OpId, first: usize, next: usize) -> bool {
    let edges = region_edges(ir, op, &|_| false);
    let (mut seen, mut work) = (HashSet::new(), vec![RegionPoint::Region(first)]);
    while let Some(at) = work.pop() {
        let onward = edges
            .iter()
            .filter(|edge| edge.from == at)
            .map(|edge| edge.to);
        for to in onward.filter(|to| *to != RegionPoint::Parent) {
            if to == RegionPoint::Region(next) {
                return true;
            }
            if seen.insert(to) {
                work.push(to);
            }
        }
    }
    false
}

/// The successors of a terminator, each with the values handed over and the arguments they become
/// (MLIR's `BranchOpInterface`, read off the declared fields of the op).
///
/// Of an op that is not declared every operand may become every argument whose type `track` holds.
pub fn successor_edges(
    ir: &Ir,
    op: OpId,
    track: &dyn Fn(Type) -> bool,
) -> Vec<(BlockId, Vec<(Value, Value)>)> {
    let blocks: Vec<BlockId> = ir.successors(op).collect();
    if blocks.is_empty() {
        return Vec::new();
    }
    let groups = ir.info(op).and_then(|info| operand_groups(ir, op, info));
    let groups: Vec<Vec<Value>> = groups
        .into_iter()
        .flatten()
        .filter(|(field, _)| field.role == Role::Successor)
        .map(|(_, values)| values)
        .collect();
    let known = groups.len() == blocks.len();
    let edge = |(index, block): (usize, BlockId)| {
        let pairs: Vec<(Value, Value)> = if known {
            groups[index].iter().copied().zip(ir.args(block)).collect()
        } else {
            let all = ir.operands(op);
            all.flat_map(|a| ir.args(block).map(move |b| (a, b)))
                .collect()
        };
        let both = |(a, b): &(Value, Value)| track(ir.ty(*a)) && track(ir.ty(*b));
        (block, pairs.into_iter().filter(both).collect())
    };
    blocks.into_iter().enumerate().map(edge).collect()
}
