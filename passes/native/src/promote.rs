//! `promote-memory`: what a loop loads and stores at one place is a value that it carries, and what is loaded where it was
//! stored is the value that was.
//!
//! In the order from inner loops to outer ones: a sum that an inner loop carries is loaded before it and stored behind
//! it, and so an outer loop may carry it too. (LLVM's `licm` does this where it knows that nothing else is at the place;
//! here buffers are still apart, and what was allocated by itself is no other buffer.) Then, within each block, loads are
//! replaced by what is known to lie there, and buffers that are only stored to go: so the sums of a block of results stay
//! values from their zeros to what becomes of them.

use std::collections::{BTreeSet, HashMap};

use tir::{Access, At, Ir, MemRefType, OpId, Pass, PassCx, PassResult, Type, Value, pass};
use tir_loop::{For, Yield};
use tir_memref::Alloc;
use tir_memref::alias::{Origin, accesses, accesses_others, ended, is_reached, may_alias, origins};

pass! {
    /// Carries through loops what they load and store at one place, if nothing else that they access may be there; drops
    /// loads of what was stored or loaded before, and buffers that are only stored to.
    ///
    /// The value is loaded before the loop and stored behind it. Loops of at least one iteration are looked at; several
    /// places of one buffer are distinguished by constant indices.
    pub struct PromoteMemory = "promote-memory" on "func.func" {
        /// Maximum number of values that a loop carries.
        pub most: usize = 64,
        /// Maximum number of places in a block whose values are known at a time.
        pub window: usize = 256,
    }
}

impl Pass for PromoteMemory {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let mut promoted = 0;
        let mut known = HashMap::new();
        // Inner loops stand behind those around them.
        for op in ir.walk_ids().into_iter().rev() {
            let looped = ir
                .get::<For>(op)
                .filter(|l| l.trip_count().is_some_and(|n| n > 0));
            if let Some(looped) = looped {
                let room = self.most.saturating_sub(looped.init.len());
                promoted += promote(ir, op, looped, room, &mut known);
            }
        }
        let forwarded = forward(ir, self.window);
        let dropped = drop_stored(ir);
        if promoted + forwarded + dropped == 0 {
            cx.unchanged();
        }
        cx.count("places promoted", promoted);
        cx.count("loads and stores forwarded", forwarded);
        cx.count("buffers dropped", dropped);
        Ok(())
    }
}

/// One element or a vector in a buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Place {
    base: Value,
    indices: Vec<Value>,
    ty: Type,
}

/// A load, or a store of a value.
struct Moved {
    op: OpId,
    place: Place,
    stored: Option<Value>,
}

impl Moved {
    fn of(ir: &Ir, op: OpId) -> Option<Self> {
        let made = |base, indices, ty, stored| Self {
            op,
            place: Place { base, indices, ty },
            stored,
        };
        if let Some(load) = ir.get::<tir_memref::Load>(op) {
            return Some(made(
                load.memref,
                load.indices,
                ir.ty(ir.result(op, 0)),
                None,
            ));
        }
        if let Some(store) = ir.get::<tir_memref::Store>(op) {
            let ty = ir.ty(store.value);
            return Some(made(store.memref, store.indices, ty, Some(store.value)));
        }
        if let Some(load) = ir.get::<tir_vector::Load>(op) {
            return Some(made(load.base, load.indices, load.result.0, None));
        }
        let store = ir.get::<tir_vector::Store>(op)?;
        let ty = ir.ty(store.value);
        Some(made(store.base, store.indices, ty, Some(store.value)))
    }
}

impl Place {
    /// Elements along the last dimension.
    fn length(&self) -> i64 {
        self.ty
            .shape()
            .and_then(|s| s.first().copied())
            .unwrap_or(1)
    }

    /// Whether two places of one buffer share no element.
    fn is_apart(&self, other: &Self, ir: &Ir) -> bool {
        let last = self.indices.len().saturating_sub(1);
        let pairs = self.indices.iter().zip(&other.indices).enumerate();
        let mut pairs =
            pairs.filter_map(|(d, (a, b))| Some((d, ir.constant_int(*a)?, ir.constant_int(*b)?)));
        pairs.any(|(d, a, b)| match d == last {
            true => a + self.length() <= b || b + other.length() <= a,
            false => a != b,
        })
    }
}

/// What is known to lie where, within a block.
#[derive(Default)]
struct Held {
    places: Vec<(Place, Value)>,
    /// Stores of what was not read since.
    unread: Vec<(Place, OpId)>,
    /// Whether two buffers may have elements in common.
    overlap: HashMap<(Value, Value), bool>,
}

impl Held {
    /// Forgets what is known of a block.
    fn clear(&mut self) {
        self.places.clear();
        self.unread.clear();
    }

    /// Whether two buffers may have elements in common.
    fn may_overlap(&mut self, ir: &Ir, one: Value, other: Value) -> bool {
        let known = self.overlap.entry((one, other));
        *known.or_insert_with(|| may_alias(ir, one, &origins(ir, other)))
    }

    /// Whether something at a place may be in a buffer, or at a place of it.
    fn meets(&mut self, ir: &Ir, at: &Place, base: Value, place: Option<&Place>) -> bool {
        match place {
            Some(place) if at.base == base => !at.is_apart(place, ir),
            _ => self.may_overlap(ir, at.base, base),
        }
    }

    /// Forgets what may lie where something is put.
    fn written(&mut self, ir: &Ir, base: Value, place: Option<&Place>) {
        let places = std::mem::take(&mut self.places).into_iter();
        self.places = places
            .filter(|(at, _)| !self.meets(ir, at, base, place))
            .collect();
    }

    /// Stores of what may be read now are needed.
    fn read(&mut self, ir: &Ir, base: Value, place: Option<&Place>) {
        let unread = std::mem::take(&mut self.unread).into_iter();
        self.unread = unread
            .filter(|(at, _)| !self.meets(ir, at, base, place))
            .collect();
    }

    /// Forgets what an op may change, and keeps what it may read.
    fn pass(&mut self, ir: &Ir, op: OpId) {
        if self.places.is_empty() && self.unread.is_empty() {
            return;
        }
        let Some(effects) = ir.effects(op) else {
            return self.clear();
        };
        for effect in effects {
            let on = match effect.on {
                Some(on) if ir.ty(on).is::<MemRefType>() => on,
                Some(_) => continue,
                None if effect.access == Access::Allocate => continue,
                None => return self.clear(),
            };
            match effect.access {
                Access::Read => self.read(ir, on, None),
                Access::Write => self.written(ir, on, None),
                Access::Free => {
                    self.read(ir, on, None);
                    self.written(ir, on, None);
                }
                Access::Allocate | Access::Fetch => {}
            }
        }
    }
}

/// Replaces loads of what the same block stored or loaded there before, and drops stores of what another one overwrites unread;
/// gives their number. So many places are known at a time.
fn forward(ir: &mut Ir, window: usize) -> usize {
    let mut blocks = Vec::new();
    for op in std::iter::once(ir.root()).chain(ir.walk_ids()) {
        for region in ir.regions(op) {
            blocks.extend(ir.blocks(region));
        }
    }
    let (mut forwarded, mut held) = (0, Held::default());
    for block in blocks {
        held.clear();
        let ops: Vec<OpId> = ir.ops_in(block).collect();
        for op in ops {
            let Some(Moved { place, stored, .. }) = Moved::of(ir, op) else {
                held.pass(ir, op);
                continue;
            };
            let known = held.places.iter().find(|(at, _)| *at == place);
            let value = match (stored, known) {
                (None, Some((_, value))) => {
                    let value = *value;
                    ir.replace(op, &[value]);
                    forwarded += 1;
                    continue;
                }
                (None, None) => {
                    held.read(ir, place.base, Some(&place));
                    ir.result(op, 0)
                }
                (Some(value), _) => {
                    if let Some(k) = held.unread.iter().position(|(at, _)| *at == place) {
                        let (_, before) = held.unread.remove(k);
                        ir.erase(before);
                        forwarded += 1;
                    }
                    held.written(ir, place.base, Some(&place));
                    held.unread.push((place.clone(), op));
                    value
                }
            };
            held.places.push((place, value));
            if held.places.len() > window {
                held.places.remove(0);
            }
            if held.unread.len() > window {
                held.unread.remove(0);
            }
        }
    }
    forwarded
}

/// Drops what is made, stored to and ended, and nothing else; gives the number of buffers.
fn drop_stored(ir: &mut Ir) -> usize {
    let mut dropped = 0;
    for op in ir.walk_ids() {
        if !ir.contains(op) || !ir.is::<Alloc>(op) {
            continue;
        }
        let buffer = ir.result(op, 0);
        let users: BTreeSet<OpId> = ir.uses(buffer).map(|used| used.op).collect();
        let only_stored = users.iter().all(|user| {
            let stored = Moved::of(ir, *user).and_then(|moved| moved.stored);
            ended(ir, *user) == Some(buffer) || stored.is_some_and(|value| value != buffer)
        });
        if only_stored {
            users.into_iter().for_each(|user| ir.erase(user));
            ir.erase(op);
            dropped += 1;
        }
    }
    dropped
}

/// Carries what it can through a loop; gives the number of places.
fn promote(
    ir: &mut Ir,
    op: OpId,
    looped: For,
    room: usize,
    known: &mut HashMap<Value, Vec<Origin>>,
) -> usize {
    let Some(block) = ir.entry(looped.body) else {
        return 0;
    };
    let own: Vec<Moved> = ir
        .ops_in(block)
        .filter_map(|op| Moved::of(ir, op))
        .collect();
    if !own.iter().any(|moved| moved.stored.is_some()) {
        return 0;
    }
    let below = ir.walk_below(op);
    let mut found = Vec::new();
    for (k, store) in own.iter().enumerate().filter(|(_, m)| m.stored.is_some()) {
        let place = &store.place;
        let outside = |value: &Value| match ir.owner(*value) {
            Some(owner) => !ir.is_below(owner, op),
            None => ir
                .value_block(*value)
                .and_then(|b| ir.block_parent(b))
                .is_none_or(|holder| holder != op && !ir.is_below(holder, op)),
        };
        if !outside(&place.base) || !place.indices.iter().all(outside) {
            continue;
        }
        let same: Vec<usize> = (0..own.len()).filter(|m| own[*m].place == *place).collect();
        let (stores, loads): (Vec<usize>, Vec<usize>) =
            same.iter().partition(|m| own[**m].stored.is_some());
        if stores != [k] || loads.is_empty() || loads.iter().any(|load| *load > k) {
            continue;
        }
        let written = known
            .entry(place.base)
            .or_insert_with(|| origins(ir, place.base))
            .clone();
        let apart = |other: &OpId| {
            if own.iter().any(|m| m.op == *other && m.place == *place) {
                return true;
            }
            if accesses_others(ir, *other) && written.iter().any(|at| is_reached(ir, *at)) {
                return false;
            }
            accesses(ir, *other).into_iter().all(|(access, value)| {
                let matters = matches!(access, Access::Read | Access::Write | Access::Free);
                let beside = own
                    .iter()
                    .find(|m| m.op == *other && m.place.base == place.base);
                !matters
                    || beside.is_some_and(|m| m.place.is_apart(place, ir))
                    || !may_alias(ir, value, &written)
            })
        };
        if found.len() < room && below.iter().all(apart) {
            found.push((k, loads));
        }
    }
    if found.is_empty() {
        return 0;
    }
    let count = found.len();
    carry(ir, op, looped, block, &own, &found);
    count
}

/// Makes a loop carry what it loads and stores.
fn carry(
    ir: &mut Ir,
    op: OpId,
    looped: For,
    block: tir::BlockId,
    own: &[Moved],
    found: &[(usize, Vec<usize>)],
) {
    let Some(end) = ir.last(block).filter(|end| ir.is::<Yield>(*end)) else {
        return;
    };
    let mut init = looped.init.clone();
    let mut next: Vec<Value> = ir.operands(end).collect();
    for (store, loads) in found {
        let arg = ir.add_arg(block, own[*store].place.ty);
        init.push(load(ir, At::Before(op), &own[*store].place));
        for load in loads {
            ir.replace(own[*load].op, &[arg]);
        }
    }
    for (store, _) in found {
        // What is stored may be a load's result, which is replaced by now.
        next.extend(ir.operands(own[*store].op).next());
    }
    ir.set_operands(end, &next);
    let mut types = looped.results.0.clone();
    types.extend(found.iter().map(|(store, _)| own[*store].place.ty));
    ir.detach_region(looped.body);
    let carried = looped.results.0.len();
    let made = ir.add(
        At::Before(op),
        For {
            init,
            parallel: false,
            results: tir::Rets(types),
            ..looped
        },
    );
    for ((k, _), value) in found.iter().zip(&made[carried..]) {
        store(ir, At::Before(op), &own[*k].place, *value);
        ir.erase(own[*k].op);
    }
    ir.replace(op, &made[..carried]);
}

fn load(ir: &mut Ir, at: At, place: &Place) -> Value {
    let (base, indices) = (place.base, place.indices.clone());
    match place.ty.shape() {
        Some(_) => ir.add(
            at,
            tir_vector::Load {
                base,
                indices,
                result: tir::Ret(place.ty),
            },
        ),
        None => ir.add(
            at,
            tir_memref::Load {
                memref: base,
                indices,
                nontemporal: None,
            },
        ),
    }
}

fn store(ir: &mut Ir, at: At, place: &Place, value: Value) {
    let (base, indices) = (place.base, place.indices.clone());
    match place.ty.shape() {
        Some(_) => ir.add(
            at,
            tir_vector::Store {
                value,
                base,
                indices,
            },
        ),
        None => ir.add(
            at,
            tir_memref::Store {
                value,
                memref: base,
                indices,
                nontemporal: None,
            },
        ),
    };
}
