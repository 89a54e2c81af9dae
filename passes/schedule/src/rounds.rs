//! What the text of a loop says of its later iterations, for runs that leave them out (`tir_accel::eval::Periods`).
//!
//! *Terms.* A value **moves evenly** over a range of iterations if, whatever counters of loops inside are, it grows by the same
//! number from each period to the next one. A value is **fixed** if that number is 0.
//!
//! *What is shown.* Over so many iterations all branches and bounds are fixed, and all that memory is accessed by moves
//! evenly: then iterations a period apart do the same work, on bytes whose place moves by as much each time. A remainder is
//! fixed where its dividend moves by a multiple; a quotient, a comparison where the range of the iterations does not let them
//! change. The fewer iterations, the narrower their ranges, so the most are found by bisection.
//!
//! Nothing here is shared with `insert-tokens`, whose result is checked by such runs.

use std::cell::RefCell;
use std::collections::HashMap;

use tir::{Access, BlockId, DYNAMIC, Definition, Interval, Ir, MemRefType, OpId, Traits, Value};
use tir_accel::eval::{Iterations, Periods};
use tir_accel::transfer::Pattern;
use tir_accel::{Acquire, DmaStart, Release};
use tir_arith::{AddI, CmpI, CmpIPredicate, DivUI, MulI, RemUI, SubI};
use tir_loop::{Bounds, For, If};
use tir_memref::{Load, Store, SubView, View};

use crate::range::is_narrow;
use crate::stream::starts_work;

/// Loops of a function whose iterations may be left out: those that start work.
pub(crate) fn loops(ir: &Ir) -> Vec<OpId> {
    let all = ir.walk_ids().into_iter();
    all.filter(|op| ir.is::<For>(*op) && starts_work(ir, *op))
        .collect()
}

/// What finds the iterations of these loops that are left out, where so many pieces of work are to be started yet.
pub(crate) fn periods(ir: &Ir, loops: &[OpId], worth: u64) -> Periods {
    let number = |op: OpId| loops.iter().position(|l| *l == op).map(|n| n as u32);
    let parents = loops.iter().map(|op| {
        let around = std::iter::successors(ir.parent(*op), |op| ir.parent(*op));
        around.filter_map(number).next()
    });
    let parents = parents.collect();
    let clone = ir.clone();
    let loops: Vec<OpId> = loops.iter().map(|op| clone.twin(*op, ir)).collect();
    let ahead = move |around: &[(u32, i64)], iterations: Iterations| {
        let Some(op) = loops.get(iterations.number as usize) else {
            return 0;
        };
        let counter = |op: OpId| {
            let body = clone.get::<For>(op)?.body;
            clone.args(clone.entry(body)?).next()
        };
        let known = around.iter().filter_map(|(number, at)| {
            let op = loops.get(*number as usize)?;
            Some((counter(*op)?, *at))
        });
        let known: HashMap<Value, i64> = known.collect();
        let even = |count: u64| {
            let alike = Alike::new(
                &clone,
                *op,
                &known,
                Iterations {
                    count,
                    ..iterations
                },
            );
            alike.is_some_and(|alike| alike.holds(*op))
        };
        // The most iterations over which it holds: over fewer it holds, too.
        let (mut low, mut high) = (0, iterations.count);
        if even(high) {
            return high;
        }
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            match even(middle) {
                true => low = middle,
                false => high = middle,
            }
        }
        low
    };
    Periods::Find {
        parents,
        ahead: Box::new(ahead),
        worth,
    }
}

/// What is known of a value over the iterations.
#[derive(Clone, Copy, Debug)]
struct Moves {
    /// How far it moves in a period, if it moves evenly; of a memref 0 where it is fixed, else 1.
    by: Option<i64>,
    /// What it may be.
    range: Option<Interval>,
}

const UNKNOWN: Moves = Moves {
    by: None,
    range: None,
};

impl Moves {
    fn fixed(range: Option<Interval>) -> Self {
        Self { by: Some(0), range }
    }
    fn is_fixed(&self) -> bool {
        self.by == Some(0)
    }
    /// The number that it is.
    fn number(&self) -> Option<i64> {
        let range = self.range.filter(|r| r.low == r.high)?;
        Some(range.low)
    }
}

/// A loop over some iterations.
struct Alike<'a> {
    ir: &'a Ir,
    op: OpId,
    counter: Value,
    /// How far the counter moves in a period, and what it is.
    moves: Moves,
    /// Counters of loops around.
    around: &'a HashMap<Value, i64>,
    known: RefCell<HashMap<Value, Moves>>,
}

impl<'a> Alike<'a> {
    fn new(
        ir: &'a Ir,
        op: OpId,
        around: &'a HashMap<Value, i64>,
        iterations: Iterations,
    ) -> Option<Self> {
        let Iterations {
            at,
            step,
            count,
            period,
            ..
        } = iterations;
        let body = ir.get::<For>(op)?.body;
        let far = i64::try_from(count)
            .ok()?
            .checked_sub(1)?
            .checked_mul(step)?;
        let last = at.checked_add(far)?;
        Some(Self {
            ir,
            op,
            counter: ir.args(ir.entry(body)?).next()?,
            moves: Moves {
                by: Some(step.checked_mul(i64::try_from(period).ok()?)?),
                range: Some(Interval::new(at, last)),
            },
            around,
            known: RefCell::default(),
        })
    }

    /// Whether iterations a period apart do the same.
    fn holds(&self, op: OpId) -> bool {
        let regions = self.ir.regions(op);
        let blocks: Vec<BlockId> = regions.flat_map(|r| self.ir.blocks(r)).collect();
        let mut ops = blocks.into_iter().flat_map(|b| self.ir.ops_in(b));
        ops.all(|op| self.alike(op))
    }

    fn alike(&self, op: OpId) -> bool {
        let ir = self.ir;
        if let Some(inner) = ir.get::<For>(op) {
            let bounds = inner.all_bounds();
            let fixed = |bound: &Bounds| match bound {
                Bounds::Static(_) => true,
                Bounds::Dynamic(value) => self.of(*value).is_fixed(),
            };
            return bounds.is_some_and(|b| b.iter().all(fixed)) && self.holds(op);
        }
        if let Some(branch) = ir.get::<If>(op) {
            return self.of(branch.condition).is_fixed() && self.holds(op);
        }
        // What is computed of numbers alone counts where it is used.
        let memref = |value: Value| ir.ty(value).is::<MemRefType>();
        if ir.is_pure(op) && !ir.results(op).any(memref) || ir.has(op, Traits::Terminator) {
            return true;
        }
        if ir.is_pure(op) {
            return ir.results(op).all(|value| self.of(value).by.is_some());
        }
        let touches = |access: Access| !matches!(access, Access::Allocate | Access::Free);
        let effects = ir.effects(op);
        let known = effects.is_some_and(|e| e.iter().all(|effect| touches(effect.access)));
        if !known || ir.is::<Acquire>(op) || ir.is::<Release>(op) {
            return false;
        }
        let mut memrefs = ir.operands(op).filter(|value| memref(*value));
        if !memrefs.all(|value| self.of(value).by.is_some()) {
            return false;
        }
        if let Some(start) = ir.get::<DmaStart>(op) {
            return self.transfers_alike(&start).unwrap_or(false);
        } else if let Some(load) = ir.get::<Load>(op) {
            return self.inside(load.memref, &load.indices);
        } else if let Some(store) = ir.get::<Store>(op) {
            return self.inside(store.memref, &store.indices);
        }
        let mut indices = ir.operands(op).filter(|value| ir.ty(*value).is_index());
        indices.all(|value| self.of(value).is_fixed())
    }

    /// Whether indices that move stay inside of what they index.
    fn inside(&self, memref: Value, indices: &[Value]) -> bool {
        let shape = self.ir.ty(memref).get::<MemRefType>().map(|ty| &ty.shape);
        let fine = |(index, size): (&Value, &i64)| {
            let moves = self.of(*index);
            let within = moves.range.is_some_and(|range| range.is_inside(*size));
            moves.is_fixed() || moves.by.is_some() && *size != DYNAMIC && within
        };
        shape.is_some_and(|shape| indices.iter().zip(shape).all(fine))
    }

    /// Whether the places that a transfer accesses move evenly: where they move, nothing of it lies outside.
    fn transfers_alike(&self, start: &DmaStart) -> Option<bool> {
        let (far, tile) = (self.ir.ty(start.far), self.ir.ty(start.tile));
        let pattern = Pattern::new(far, tile, &start.access).ok()?;
        let mut values = start.offsets.iter();
        for (dim, offset) in start.static_offsets.iter().enumerate() {
            if *offset != DYNAMIC {
                continue;
            }
            let moves = self.of(*values.next()?);
            if moves.is_fixed() {
                continue;
            }
            moves.by?;
            if !pattern.is_inside(dim, moves.range?) {
                return Some(false);
            }
        }
        Some(true)
    }

    /// What is known of a value.
    fn of(&self, value: Value) -> Moves {
        if let Some(known) = self.known.borrow().get(&value) {
            return *known;
        }
        let found = self.find(value);
        self.known.borrow_mut().insert(value, found);
        found
    }

    fn find(&self, value: Value) -> Moves {
        let ir = self.ir;
        if value == self.counter {
            return self.moves;
        }
        if let Some(at) = self.around.get(&value) {
            return Moves::fixed(Some(Interval::point(*at)));
        }
        if let Some(number) = ir.constant_int(value) {
            return Moves::fixed(Some(Interval::point(number)));
        }
        match ir.definition(value) {
            Definition::Argument(block, nth) => {
                let owner = ir.block_parent(block);
                let inside = owner.is_some_and(|op| op == self.op || ir.is_below(op, self.op));
                let range = owner
                    .filter(|_| nth == 0)
                    .and_then(|op| ir.get::<For>(op))
                    .and_then(|inner| self.counted(&inner));
                match (inside, range) {
                    // A counter inside does not depend on the iteration if its bounds do not.
                    (true, Some(range)) => Moves::fixed(Some(range)),
                    (true, None) => UNKNOWN,
                    (false, range) => Moves::fixed(range),
                }
            }
            Definition::Result(op, _) => {
                let found = self.result(op, value);
                match op == self.op || ir.is_below(op, self.op) {
                    true => found,
                    false => Moves::fixed(found.range),
                }
            }
        }
    }

    /// What a counter of another loop may be.
    fn counted(&self, inner: &For) -> Option<Interval> {
        let bound = |bound: Bounds| match bound {
            Bounds::Static(n) => Some(Interval::point(n)),
            Bounds::Dynamic(value) => self.of(value).range.filter(|_| self.of(value).is_fixed()),
        };
        let [low, high, _] = inner.all_bounds()?;
        let (low, high) = (bound(low)?, bound(high)?);
        Some(Interval::new(low.low, (high.high - 1).max(low.low)))
    }

    fn result(&self, op: OpId, value: Value) -> Moves {
        let ir = self.ir;
        if !ir.is_pure(op) || ir.regions(op).len() > 0 {
            return UNKNOWN;
        }
        let operands: Vec<Moves> = ir.operands(op).map(|v| self.of(v)).collect();
        if ir.ty(value).is::<MemRefType>() {
            return self.memref(op, &operands);
        }
        if let [a, b] = operands[..]
            && ir.ty(ir.result(op, 0)) == ir.ty(value)
            && let Some(found) = self.arithmetic(op, a, b)
        {
            return found;
        }
        match operands.iter().all(Moves::is_fixed) {
            true => Moves::fixed(None),
            false => UNKNOWN,
        }
    }

    /// A memref that is a part of another one.
    fn memref(&self, op: OpId, operands: &[Moves]) -> Moves {
        let ir = self.ir;
        let moved = Moves {
            by: Some(1),
            range: None,
        };
        let part = ir.get::<SubView>(op);
        let mut moves = false;
        for (value, operand) in ir.operands(op).zip(operands) {
            let offset = part.as_ref().is_some_and(|p| {
                let other = p.sizes.contains(&value) || p.strides.contains(&value);
                p.offsets.contains(&value) && !other
            });
            match operand.by {
                None => return UNKNOWN,
                Some(0) => {}
                Some(_) if ir.ty(value).is::<MemRefType>() || offset => moves = true,
                Some(_) => return UNKNOWN,
            }
        }
        if !moves {
            return Moves::fixed(None);
        }
        // A view at another byte is another buffer of the machine.
        let fine = match &part {
            Some(part) => self.part_inside(part).unwrap_or(false),
            None => !ir.is::<View>(op),
        };
        if fine { moved } else { UNKNOWN }
    }

    /// Whether a part whose offsets move stays inside.
    fn part_inside(&self, part: &SubView) -> Option<bool> {
        let shape = &self.ir.ty(part.source).get::<MemRefType>()?.shape;
        let mut values = part.offsets.iter();
        for (dim, offset) in part.static_offsets.iter().enumerate() {
            if *offset != DYNAMIC {
                continue;
            }
            let value = *values.next()?;
            let moves = self.of(value);
            if moves.is_fixed() {
                continue;
            }
            let (size, stride) = (part.static_sizes[dim], part.static_strides[dim]);
            if size == DYNAMIC || stride == DYNAMIC || shape[dim] == DYNAMIC {
                return None;
            }
            let reach = Interval::new(0, (size - 1).max(0).checked_mul(stride)?);
            if !moves.range?.plus(reach)?.is_inside(shape[dim]) {
                return Some(false);
            }
        }
        Some(true)
    }

    fn arithmetic(&self, op: OpId, a: Moves, b: Moves) -> Option<Moves> {
        let ir = self.ir;
        let ranges = a.range.zip(b.range);
        if let Some(cmp) = ir.get::<CmpI>(op) {
            let fixed = a.is_fixed() && b.is_fixed();
            let decided = ranges.is_some_and(|(a, b)| decided(cmp.predicate, a, b));
            return Some(if fixed || decided {
                Moves::fixed(None)
            } else {
                UNKNOWN
            });
        }
        if is_narrow(ir.ty(ir.result(op, 0))) {
            return None;
        }
        let both = a.by.zip(b.by);
        if ir.is::<AddI>(op) {
            return Some(Moves {
                by: both.and_then(|(a, b)| a.checked_add(b)),
                range: ranges.and_then(|(a, b)| a.plus(b)),
            });
        } else if ir.is::<SubI>(op) {
            return Some(Moves {
                by: both.and_then(|(a, b)| a.checked_sub(b)),
                range: ranges.and_then(|(a, b)| a.minus(b)),
            });
        } else if ir.is::<MulI>(op) {
            let by = match (a.number(), b.number()) {
                (_, Some(n)) => a.by.and_then(|by| by.checked_mul(n)),
                (Some(n), _) => b.by.and_then(|by| by.checked_mul(n)),
                _ => both.filter(|both| *both == (0, 0)).map(|_| 0),
            };
            return Some(Moves {
                by,
                range: ranges.and_then(|(a, b)| a.times(b)),
            });
        }
        let by = b.number().filter(|n| *n > 0)?;
        let range = a.range.filter(|range| range.low >= 0)?;
        let one = range.low / by == range.high / by;
        if ir.is::<DivUI>(op) {
            let moves = match a.by {
                _ if one => Some(0),
                Some(moves) if moves % by == 0 => Some(moves / by),
                _ => None,
            };
            return Some(Moves {
                by: moves,
                range: Some(Interval::new(range.low / by, range.high / by)),
            });
        } else if ir.is::<RemUI>(op) {
            let moves = match a.by {
                Some(moves) if moves % by == 0 => Some(0),
                Some(moves) if one => Some(moves),
                _ => None,
            };
            let range = match one {
                true => Interval::new(range.low % by, range.high % by),
                false => Interval::new(0, by - 1),
            };
            return Some(Moves {
                by: moves,
                range: Some(range),
            });
        }
        None
    }
}

/// Whether a comparison has the same outcome for all values of two ranges.
fn decided(predicate: CmpIPredicate, a: Interval, b: Interval) -> bool {
    use CmpIPredicate as P;
    let (below, above) = (a.high < b.low, a.low > b.high);
    let (not_above, not_below) = (a.high <= b.low, a.low >= b.high);
    match predicate {
        P::Eq | P::Ne => below || above,
        P::Slt | P::Sge => below || not_below,
        P::Sle | P::Sgt => not_above || above,
        _ if a.low < 0 || b.low < 0 => false,
        P::Ult | P::Uge => below || not_below,
        P::Ule | P::Ugt => not_above || above,
    }
}
