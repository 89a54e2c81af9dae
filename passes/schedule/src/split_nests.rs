//! `split-nests`: functions of a range of iterations, which threads may share.
//!
//! Iterations are counted through with the loop that threads divide first, so that a range is as little of it as can be. If
//! that is not the outermost loop, loops stay in their order, in which one thread computes best, and each iteration is
//! tested: one test for a tile of a nest is less than what another order may cost.

use std::collections::HashMap;

use tir::{Access, At, Attr, BlockId, Ir, Mapping, Name, OpId, SymbolTable, Traits, Type};
use tir_arith::{AndI, CmpI, CmpIPredicate, OpFoldResult, constant_index};
use tir_func::{Call, Func};
use tir_loop::{Bounds, For, RANGE, THROUGH};

use crate::division::{Uses, Written};
use crate::index::{Counter, guard, indices, linear, total};

/// What was done.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Split {
    /// Functions that take a range.
    pub(crate) functions: usize,
    /// Work of all calls, and of those of such functions.
    pub(crate) work: [u64; 2],
}

/// A function that may take a range.
struct Candidate {
    /// The loops whose iterations are counted through.
    nest: Vec<Counter>,
    /// How many loops there are around each of them.
    depths: Vec<usize>,
    uses: Uses,
    /// The loop that threads divide, once the function is called.
    divided: Option<usize>,
}

/// Gives each private function that is one nest of independent iterations, of at least so much work, the range of
/// iterations as its first two arguments; loops are counted through together until there are `pieces` iterations.
pub(crate) fn split(module: &mut Ir, least: u64, pieces: i64) -> Split {
    let mut done = Split::default();
    let names: HashMap<OpId, Name> = SymbolTable::new(module)
        .iter()
        .map(|(name, op)| (op.id, name))
        .collect();
    let (mut candidates, mut works) = (HashMap::new(), HashMap::new());
    for (slot, child) in module.children_mut() {
        let Some(function) = child.get::<Func>(child.root()) else {
            continue;
        };
        let (Some(name), Some(block)) = (names.get(&slot), child.entry(function.body)) else {
            continue;
        };
        let work = work(child, block);
        works.insert(*name, work);
        if function.sym_visibility.is_none_or(|v| v != "private") || work < least {
            continue;
        }
        if let Some((nest, depths)) = nest(child, &function, block, pieces) {
            let candidate = Candidate {
                uses: Uses::of(child, block, &nest),
                nest,
                depths,
                divided: None,
            };
            candidates.insert(*name, candidate);
        }
    }
    for (_, child) in module.children_mut() {
        let mut written = Written::default();
        for op in child.walk_ids() {
            let Some(call) = child.get::<Call>(op) else {
                continue;
            };
            let name = call.callee.0;
            let work = works.get(&name).copied().unwrap_or(0);
            done.work[0] += work;
            let Some(callee) = candidates.get_mut(&name) else {
                continue;
            };
            done.work[1] += work;
            // One function is divided in one way, as its first call has it.

            let divided = *callee.divided.get_or_insert_with(|| {
                written.choose(child, &callee.nest, &callee.uses, &call.operands)
            });

            written.write(child, &callee.uses, divided, &call.operands);
            let mut b = child.at(At::Before(op));
            let trips = total(&callee.nest);
            let mut operands = vec![constant_index(&mut b, 0), constant_index(&mut b, trips)];
            operands.extend(call.operands);
            child.set_operands(op, &operands);
        }
    }
    done.functions = candidates.len();
    for (slot, child) in module.children_mut() {
        let Some(found) = names.get(&slot).and_then(|name| candidates.get(name)) else {
            continue;
        };
        let function = child.get::<Func>(child.root());
        let block = function
            .as_ref()
            .and_then(|function| child.entry(function.body));
        if let Some((function, block)) = function.zip(block) {
            *child = with_range(child, &function, block, found);
        }
    }
    done
}

/// Ops that run in a block, as far as bounds of loops are numbers; others count once.
fn work(ir: &Ir, block: BlockId) -> u64 {
    ir.ops_in(block).fold(0, |sum: u64, op| {
        let regions = ir.regions(op).flat_map(|region| ir.blocks(region));
        let inside = regions.fold(0, |sum: u64, block| sum.saturating_add(work(ir, block)));
        let trips = Counter::of(ir, op).map_or(1, |counter| counter.trips.max(0) as u64);
        let own = u64::from(!ir.is_pure(op) || ir.regions(op).len() == 0);
        sum.saturating_add(inside.saturating_mul(trips))
            .saturating_add(own)
    })
}

/// Whether an op computes, or makes or ends a buffer.
fn prepares(ir: &Ir, op: OpId) -> bool {
    let Some(effects) = ir.effects(op) else {
        return false;
    };
    ir.regions(op).len() == 0
        && effects
            .iter()
            .all(|e| matches!(e.access, Access::Allocate | Access::Free))
}

/// The loops of a function that are counted through together, outermost first, and how deep each is: all that it does.
fn nest(
    ir: &Ir,
    function: &Func,
    block: BlockId,
    pieces: i64,
) -> Option<(Vec<Counter>, Vec<usize>)> {
    let several = ir
        .region_of(block)
        .is_none_or(|region| ir.blocks(region).len() > 1);
    if several || ir.attr(ir.root(), RANGE).is_some() || !function.signature()?.results.is_empty() {
        return None;
    }
    let (mut nest, mut depths, mut block) = (Vec::new(), Vec::new(), block);
    for depth in 0.. {
        let ops = ir.ops_in(block);
        let ops = ops.filter(|op| !ir.has(*op, Traits::Terminator));
        // In the function buffers are made; between loops indices alone are computed.
        let (plain, rest): (Vec<OpId>, Vec<OpId>) = ops.partition(|op| match depth {
            0 => prepares(ir, *op),
            _ => ir.is_pure(*op) && ir.regions(*op).len() == 0,
        });
        let found = match rest[..] {
            [op] => independent(ir, op)
                .filter(|_| depth == 0 || plain.iter().all(|op| ir.results(*op).len() > 0)),
            _ => None,
        };
        let Some((counter, inside)) = found else {
            break;
        };
        if ir.attr(counter.op, THROUGH).is_none() {
            nest.push(counter);
            depths.push(depth);
        }
        block = inside;
        // Through a loop that is not divided, the next one alone is known to be independent.
        let through = depths.len() <= depth && !depths.is_empty();
        if through || total(&nest) >= pieces {
            break;
        }
    }
    (total(&nest) > 1).then_some((nest, depths))
}

/// A loop that says that its iterations are independent, or those of the loop in it, and its body.
fn independent(ir: &Ir, op: OpId) -> Option<(Counter, BlockId)> {
    let looped = ir.get::<For>(op)?;
    let counter = Counter::of(ir, op)?;
    let says = looped.parallel || ir.attr(op, THROUGH).is_some();
    let may = says && looped.init.is_empty() && counter.trips > 0;
    ir.entry(looped.body).filter(|_| may).map(|b| (counter, b))
}

/// The function with a range of the iterations of a nest.
fn with_range(ir: &Ir, function: &Func, block: BlockId, found: &Candidate) -> Ir {
    let given = ir.args(block).map(|v| ir.ty(v));
    let types: Vec<Type> = [Type::index(), Type::index()]
        .into_iter()
        .chain(given)
        .collect();
    let (mut new, into) = tir_func::function(function.sym_name.as_str(), Type::function(types, []));
    let root = new.root();
    new.set_loc(root, ir.loc(ir.root()));
    for (name, value) in ir.attrs(ir.root()) {
        // What is said of arguments would be said of others; nests say nothing.
        if new.attr(root, name.as_str()).is_none() && *name != "arg_attrs" {
            new.set_attr(root, *name, *value);
        }
    }
    new.set_attr(root, RANGE, Attr::unit());
    let mut map = Mapping::default();
    for (k, old) in ir.args(block).enumerate() {
        let arg = new.arg(into, k + 2);
        new.set_hint(arg, ir.hint(old));
        map.map(old, arg);
    }
    let (nest, divided) = (&found.nest, found.divided.unwrap_or(0));
    let counted = |op| nest.iter().any(|counter| counter.op == op);
    let first = ir.ops_in(block).find(|op| ir.is::<For>(*op));
    let others = nest[..divided].iter().any(|counter| counter.trips > 1);
    let outermost = !others && first.is_some_and(counted);
    for op in ir.ops_in(block) {
        match Some(op) == first && outermost {
            true => ranged(ir, &mut new, into, nest, &mut map),
            false => {
                let copy = new.copy_op(ir, op, At::End(into), &mut map);
                if Some(op) == first && tested(&mut new, into, copy, found).is_none() {
                    unreachable!("a copy of a nest has its loops");
                }
            }
        }
    }
    new
}

/// Leaves out the iterations of a nest that are not in the range, whose loop that is divided counts first.
fn tested(new: &mut Ir, into: BlockId, nest: OpId, found: &Candidate) -> Option<()> {
    let deepest = *found.depths.last()?;
    let (mut counters, mut next, mut innermost) = (Vec::new(), Some(nest), nest);
    for depth in 0..=deepest {
        innermost = next?;
        if found.depths.contains(&depth) {
            counters.push(Counter::of(new, innermost)?);
        }
        let body = new.entry(new.get::<For>(innermost)?.body)?;
        next = new.ops_in(body).find(|op| new.is::<For>(*op));
    }
    let body = new.entry(new.get::<For>(innermost)?.body)?;
    let ops: Vec<OpId> = new.ops_in(body).collect();
    counters[..=found.divided.unwrap_or(0)].rotate_right(1);
    let mut b = new.at(At::Start(body));
    let number = linear(&mut b, &counters).value(&mut b);
    let [low, high] = [0, 1].map(|k| b.ir.arg(into, k));
    let mut compare = |predicate, rhs| {
        b.add(CmpI {
            predicate,
            lhs: number,
            rhs,
        })
    };
    let lhs = compare(CmpIPredicate::Sge, low);
    let rhs = compare(CmpIPredicate::Slt, high);
    let inside = b.add(AndI { lhs, rhs });
    let end = guard(&mut b, inside);
    for op in ops {
        if !new.has(op, Traits::Terminator) {
            new.move_op(op, end);
        }
    }
    Some(())
}

/// The loop over a range of the iterations of a nest.
fn ranged(ir: &Ir, new: &mut Ir, into: BlockId, nest: &[Counter], map: &mut Mapping) {
    let region = new.new_region();
    let body = new.new_block(region);
    let count = new.add_arg(body, Type::index());
    let mut b = new.at(At::End(body));
    let at = indices(&mut b, nest, OpFoldResult::Value(count));
    for (counter, index) in nest.iter().zip(at) {
        let index = index.value(&mut b);
        map.map(counter.iv, index);
    }
    let mut inner = nest[1..].iter().map(|counter| counter.op);
    let mut holder = nest.first().map(|counter| counter.op);
    while let Some(op) = holder {
        holder = inner.next();
        let block = ir.get::<For>(op).and_then(|l| ir.entry(l.body));
        for op in block.into_iter().flat_map(|block| ir.ops_in(block)) {
            let end = holder.is_some() && ir.has(op, Traits::Terminator);
            if Some(op) != holder && !end {
                new.copy_op(ir, op, At::End(body), map);
            }
        }
    }
    let [low, high] = [0, 1].map(|k| Bounds::Dynamic(new.arg(into, k)));
    let looped = For {
        parallel: true,
        ..For::new([low, high, Bounds::Static(1)], vec![], region, vec![])
    };
    new.add(At::End(into), looped);
}
