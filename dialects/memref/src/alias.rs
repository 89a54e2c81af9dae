//! Which memrefs may lie in one buffer.
//!
//! A memref is *handed on* where it becomes a result or a block argument: by a view of it, by an op
//! that chooses among memrefs, by the end of a region, by a branch, by a call. [`flows`] lists what
//! one op hands on; everything else here follows these edges, forwards ([`aliases`]) or backwards
//! ([`origins`]). It is MLIR's `BufferViewFlowAnalysis`, asked on demand, so that passes may ask
//! while they rewrite.
//!
//! What is known of an op comes from [`ViewFlow`], from
//! [`RegionBranch`](tir::interfaces::RegionBranch) and from its declared successors. Of any other
//! op it is assumed that each memref result which the op does not allocate lies in the buffer of
//! each memref operand.
//!
//! Trusted: an op keeps no memref for later runs of itself or of others (nothing is *captured*),
//! and two arguments of a function lie in different buffers, as do an argument and a global.

use std::collections::HashSet;

use tir::interfaces::{Typed, region_edges, successor_edges};
use tir::{Access, Definition, Hook, Ir, MemRefType, Name, Op, OpId, OpRef, Traits, Type, Value};

/// Which operands the memref results of an op lie in: what a record implements (MLIR's
/// `BufferViewFlowOpInterface`). An op needs it only where the assumption above says too much.
pub trait ViewFlowLike: Op {
    /// Operands, each with a result that may lie in its buffer.
    fn aliases(&self, op: OpRef<'_>) -> Vec<(Value, Value)>;
    /// The buffer of the module that the results are.
    fn global(&self) -> Option<Name> {
        None
    }
}

/// [`ViewFlowLike`] as an interface: `info.interface::<dyn ViewFlow>()`.
pub trait ViewFlow: Send + Sync {
    /// Operands, each with a result that may lie in its buffer; `None` if the op has not the
    /// structure of its record.
    fn aliases(&self, ir: &Ir, op: OpId) -> Option<Vec<(Value, Value)>>;
    /// The buffer of the module that the results are.
    fn global(&self, ir: &Ir, op: OpId) -> Option<Name>;
}
impl<T: ViewFlowLike> ViewFlow for Typed<T> {
    fn aliases(&self, ir: &Ir, op: OpId) -> Option<Vec<(Value, Value)>> {
        Some(T::read(ir, op)?.aliases(ir.op(op)))
    }
    fn global(&self, ir: &Ir, op: OpId) -> Option<Name> {
        T::read(ir, op)?.global()
    }
}

/// `tir_memref::alias::view_flow`, for `#[op(…)]`.
pub fn view_flow<T: ViewFlowLike>() -> Hook {
    Hook::interface::<dyn ViewFlow>(Typed::<T>::NEW)
}

/// Where the buffer behind a memref comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// It is allocated: the result of the op that does so.
    Allocated(Value),
    /// It is given to the function.
    Argument(Value),
    /// It is a buffer of the module.
    Global(Name),
    /// It is not known; no buffer that this function allocates.
    Unknown(Value),
}

impl Origin {
    /// Whether two buffers may be one.
    pub fn may_be(self, other: Origin) -> bool {
        match (self, other) {
            (Origin::Allocated(a), Origin::Allocated(b)) => a == b,
            (Origin::Allocated(_), _) | (_, Origin::Allocated(_)) => false,
            (Origin::Unknown(_), _) | (_, Origin::Unknown(_)) => true,
            (a, b) => a == b,
        }
    }
}

fn is_memref(ty: Type) -> bool {
    ty.is::<MemRefType>()
}
fn memrefs<'a>(ir: &'a Ir, values: impl Iterator<Item = Value> + 'a) -> Vec<Value> {
    values.filter(|v| is_memref(ir.ty(*v))).collect()
}
fn allocates(ir: &Ir, op: OpId, value: Value) -> bool {
    let own = |e: &tir::Effect| e.access == Access::Allocate && e.on == Some(value);
    ir.effects(op)
        .is_some_and(|effects| effects.iter().any(own))
}

/// The memrefs that an op hands on: each with the result or block argument that it may become.
/// What the ends of its regions hand on is listed with the op.
pub fn flows(ir: &Ir, op: OpId) -> Vec<(Value, Value)> {
    if op == ir.root() {
        // What a function returns goes to its callers.
        return Vec::new();
    }
    if ir.regions(op).len() > 0 {
        let edges = region_edges(ir, op, &is_memref);
        return edges.into_iter().flat_map(|edge| edge.values).collect();
    }
    if ir.successors(op).len() > 0 {
        let edges = successor_edges(ir, op, &is_memref);
        return edges.into_iter().flat_map(|(_, values)| values).collect();
    }
    if !ir.results(op).any(|v| is_memref(ir.ty(v))) {
        return Vec::new();
    }
    let known = ir.info(op).and_then(|i| i.interface::<dyn ViewFlow>());
    if let Some(pairs) = known.and_then(|flow| flow.aliases(ir, op)) {
        return pairs;
    }
    let operands = memrefs(ir, ir.operands(op));
    let results = memrefs(ir, ir.results(op)).into_iter();
    let made = results.filter(|r| !allocates(ir, op, *r));
    made.flat_map(|r| operands.iter().map(move |o| (*o, r)))
        .collect()
}

/// Lists up to so many are looked through.
const FEW: usize = 16;

/// The memref itself and all memrefs that may lie in its buffer because it was handed on.
pub fn aliases(ir: &Ir, memref: Value) -> Vec<Value> {
    let mut out = vec![memref];
    // What is in the list, once it is too long to be looked through.
    let mut seen: HashSet<Value> = HashSet::new();
    let mut next = 0;
    while let Some(value) = out.get(next).copied() {
        next += 1;
        for u in ir.uses(value) {
            let end = ir.has(u.op, Traits::Terminator) && ir.successors(u.op).len() == 0;
            let holder = if end { ir.parent(u.op) } else { Some(u.op) };
            let pairs = holder.map_or_else(Vec::new, |op| flows(ir, op));
            for (_, to) in pairs.into_iter().filter(|(from, _)| *from == value) {
                let new = if out.len() < FEW {
                    !out.contains(&to)
                } else {
                    if seen.is_empty() {
                        seen.extend(&out);
                    }
                    seen.insert(to)
                };
                if new {
                    out.push(to);
                }
            }
        }
    }
    out
}

/// The memrefs that may become this one at the op or the branches that define it.
fn before(ir: &Ir, memref: Value) -> Vec<Value> {
    let holders: Vec<OpId> = match ir.definition(memref) {
        Definition::Result(op, _) => vec![op],
        Definition::Argument(block, _) => {
            let Some(region) = ir.region_of(block) else {
                return Vec::new();
            };
            let branches = ir.blocks(region).filter_map(|b| ir.last(b));
            let branches = branches.filter(|op| ir.successors(*op).any(|b| b == block));
            let entry = ir.entry(region) == Some(block);
            let holder = ir.region_owner(region).filter(|_| entry);
            holder
                .filter(|op| *op != ir.root())
                .into_iter()
                .chain(branches)
                .collect()
        }
    };
    let pairs = holders.into_iter().flat_map(|op| flows(ir, op));
    pairs
        .filter(|(_, to)| *to == memref)
        .map(|(from, _)| from)
        .collect()
}

/// The origin of a memref at its own definition, apart from memrefs that it comes from.
fn own_origin(ir: &Ir, memref: Value, comes_from_others: bool) -> Option<Origin> {
    match ir.definition(memref) {
        Definition::Argument(block, _) => {
            let function = ir.block_parent(block) == Some(ir.root());
            let entry = ir.region_of(block).and_then(|r| ir.entry(r)) == Some(block);
            if function && entry {
                return Some(Origin::Argument(memref));
            }
            (!comes_from_others).then_some(Origin::Unknown(memref))
        }
        Definition::Result(op, _) if allocates(ir, op, memref) => Some(Origin::Allocated(memref)),
        Definition::Result(op, _) => {
            let known = ir.info(op).and_then(|i| i.interface::<dyn ViewFlow>());
            if let Some(name) = known.and_then(|flow| flow.global(ir, op)) {
                return Some(Origin::Global(name));
            }
            // What an op with effects gives back need not be one of its operands.
            let plain = ir.regions(op).len() > 0 || ir.is_pure(op) || known.is_some();
            (!plain || !comes_from_others).then_some(Origin::Unknown(memref))
        }
    }
}

/// The buffers that a memref may lie in.
pub fn origins(ir: &Ir, memref: Value) -> Vec<Origin> {
    let (mut seen, mut work) = (HashSet::from([memref]), vec![memref]);
    let mut out = Vec::new();
    while let Some(value) = work.pop() {
        let from = before(ir, value);
        out.extend(own_origin(ir, value, !from.is_empty()));
        work.extend(from.into_iter().filter(|v| seen.insert(*v)));
    }
    out
}

/// Whether a memref may lie in one of some buffers: those of another memref are its [`origins`].
pub fn may_alias(ir: &Ir, memref: Value, buffers: &[Origin]) -> bool {
    let own = origins(ir, memref);
    own.iter().any(|x| buffers.iter().any(|y| x.may_be(*y)))
}

/// The memrefs whose memory an op itself accesses, apart from what the ops in its regions do, with
/// how. An op of which nothing is known reads and writes all its operands; what the function
/// returns is read. Memory that no operand stands for may be accessed beside, where
/// [`accesses_others`] says so.
pub fn accesses(ir: &Ir, op: OpId) -> Vec<(Access, Value)> {
    let all = |access: &[Access]| -> Vec<(Access, Value)> {
        let operands = memrefs(ir, ir.operands(op));
        let each = |v: Value| access.iter().map(move |a| (*a, v)).collect::<Vec<_>>();
        operands.into_iter().flat_map(each).collect()
    };
    let says = ends_with_effects(ir, op);
    if ir.has(op, Traits::Terminator) && ir.successors(op).len() == 0 && !says {
        let leaves = ir.parent(op) == Some(ir.root());
        return if leaves {
            all(&[Access::Read])
        } else {
            Vec::new()
        };
    }
    if accesses_others(ir, op) {
        return all(&[Access::Read, Access::Write]);
    }
    let effects = effects(ir, op).unwrap_or_default();
    let known = effects.iter().filter_map(|e| Some((e.access, e.on?)));
    known.filter(|(_, v)| is_memref(ir.ty(*v))).collect()
}

/// Whether an op itself may access memory that none of its operands stands for, apart from what the ops in its regions do: it has
/// an effect on memory that is not known, or nothing is known of it, as of a call. Which buffers that may be, [`is_reached`]
/// says.
pub fn accesses_others(ir: &Ir, op: OpId) -> bool {
    if ir.has(op, Traits::Terminator) && !ends_with_effects(ir, op) {
        return false;
    }
    let unknown = |e: &tir::Effect| e.on.is_none() && e.access != Access::Allocate;
    effects(ir, op).is_none_or(|effects| effects.iter().any(unknown))
}

/// Whether ops that are not given a buffer may access it. One that the function allocates no other reaches, unless work goes on
/// with it in the background: who waits for that accesses it, too.
pub fn is_reached(ir: &Ir, buffer: Origin) -> bool {
    let Origin::Allocated(made) = buffer else {
        return true;
    };
    let all = aliases(ir, made);
    let mut users = all.iter().flat_map(|value| ir.uses(*value));
    users.any(|used| ir.has(used.op, Traits::Asynchronous))
}

/// The effects of an op itself; those of the ops in its regions, too, where these are an arena of their own, which a walk over
/// this one does not enter.
fn effects(ir: &Ir, op: OpId) -> Option<tir::Effects> {
    match ir.child(op) {
        Some(_) => ir.effects(op),
        None => ir.own_effects(op),
    }
}

/// Whether an op is an end of its block that says of effects of its own.
fn ends_with_effects(ir: &Ir, op: OpId) -> bool {
    let effects = ir.own_effects(op).unwrap_or_default();
    ir.has(op, Traits::Terminator) && !effects.is_empty()
}

/// Whether an op itself may access one of some buffers in one of the ways that are asked for, apart from what the ops in its
/// regions do.
pub fn may_access(ir: &Ir, op: OpId, ways: &[Access], buffers: &[Origin]) -> bool {
    if accesses_others(ir, op) && buffers.iter().any(|buffer| is_reached(ir, *buffer)) {
        return true;
    }
    let mut all = accesses(ir, op).into_iter();
    all.any(|(access, value)| ways.contains(&access) && may_alias(ir, value, buffers))
}

/// The memref whose buffer an op ends, if the op does nothing else: it goes where the buffer does.
pub fn ended(ir: &Ir, op: OpId) -> Option<Value> {
    if ir.results(op).len() > 0 || ir.regions(op).len() > 0 {
        return None;
    }
    match ir.effects(op)?[..] {
        [
            tir::Effect {
                access: Access::Free,
                on,
            },
        ] => on,
        _ => None,
    }
}

/// Whether an op is the first that touches an allocated buffer in the block that allocates it, and nothing else writes it.
pub fn is_filled_once(ir: &Ir, filling: OpId, buffer: Value) -> bool {
    let Some(block) = ir.value_block(buffer) else {
        return false;
    };
    let all = aliases(ir, buffer);
    let mut users = all
        .iter()
        .flat_map(|value| ir.uses(*value))
        .map(|used| used.op);
    ir.block_of(filling) == Some(block)
        && users.all(|user| {
            if user == filling {
                return true;
            }
            let own = ir.ancestor_in(user, block);
            let behind = own.is_some_and(|own| ir.is_before(filling, own));
            let touched = accesses(ir, user).into_iter();
            let mut touched = touched.filter(|(_, value)| all.contains(value));
            behind
                && touched.all(|(access, value)| {
                    access == Access::Read || access == Access::Free && value == buffer
                })
        })
}
