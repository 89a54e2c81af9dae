//! Which loop of a nest its threads divide: the one by which the least data go from one processor to another.
//!
//! What a thread wrote last lies in the caches of the processor that it runs on. If the nest before gave each thread some
//! rows of an image, and this one gives each some channels of all rows, then half of the image is elsewhere for either.
//!
//! *Terms.* A loop divides a buffer **in rows** if what its iterations access lies one behind the other, from one end of the
//! buffer to the other, and **across** if that comes again and again (channels of each pixel). What all iterations access
//! is **undivided**.

use std::collections::HashMap;

use tir::{Access, BlockId, Ir, Value};
use tir_memref::alias::{Origin, accesses, origins};
use tir_memref::{Cast, CollapseShape, ExpandShape, ReinterpretCast, SubView};

use crate::independent::element;
use crate::index::Counter;

/// Bytes that another loop than the outermost one has to save: about what one test for each iteration takes.
const WORTH: i64 = 8192;

/// How a loop divides a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Division {
    Undivided,
    InRows,
    Across,
}

/// A buffer that is given to a nest.
#[derive(Debug)]
struct Use {
    /// Which argument it is.
    argument: usize,
    bytes: i64,
    reads: bool,
    writes: bool,
    /// How each loop of the nest divides it.
    by: Vec<Division>,
}

/// The buffers that are given to a nest, in the order of the arguments.
#[derive(Debug)]
pub(crate) struct Uses(Vec<Use>);

impl Uses {
    /// Those of a function whose block holds a nest.
    pub(crate) fn of(ir: &Ir, block: BlockId, nest: &[Counter]) -> Self {
        let mut uses = Vec::new();
        let Some(outer) = nest.first() else {
            return Self(uses);
        };
        let below = ir.walk_below(outer.op);
        for (argument, value) in ir.args(block).enumerate() {
            let ty = ir.ty(value);
            let size = ty.elements().zip(ty.elem().bytes()).map(|(n, b)| n * b);
            let Some(bytes) = size.and_then(|size| i64::try_from(size).ok()) else {
                continue;
            };
            let mut found = Use {
                argument,
                bytes,
                reads: false,
                writes: false,
                by: Vec::new(),
            };
            // The least that each loop moves an access by; none if one of them does not go by indices.
            let mut steps: Option<Vec<i64>> = None;
            let mut known = true;
            for op in &below {
                for (access, memref) in accesses(ir, *op) {
                    if ir.regions(*op).len() > 0
                        || !origins(ir, memref).contains(&Origin::Argument(value))
                    {
                        continue;
                    }
                    found.reads |= access == Access::Read;
                    found.writes |= access == Access::Write;
                    let mut leaves = nest.iter().map(|counter| counter.iv).collect();
                    let Some(at) = element(ir, *op, memref, &mut leaves) else {
                        known = false;
                        continue;
                    };
                    let by = nest.iter().enumerate().map(|(k, counter)| {
                        at.begin.at(k).saturating_mul(counter.step).saturating_abs()
                    });
                    steps = Some(match steps {
                        None => by.collect(),
                        Some(steps) => by.zip(steps).map(|(a, b)| a.min(b)).collect(),
                    });
                }
            }
            let Some(steps) = steps else {
                continue;
            };
            let divisions = steps.iter().zip(nest).map(|(step, counter)| {
                let reach = step.saturating_mul(counter.trips);
                match (*step == 0 || !known, reach.saturating_mul(2) > bytes) {
                    (true, _) => Division::Undivided,
                    (false, true) => Division::InRows,
                    (false, false) => Division::Across,
                }
            });
            found.by = divisions.collect();
            uses.push(found);
        }
        Self(uses)
    }
}

/// How buffers were divided when they were written last.
#[derive(Default)]
pub(crate) struct Written(HashMap<Value, Division>);

impl Written {
    /// The loop of a nest that threads divide, when it is called on some buffers.
    pub(crate) fn choose(&self, ir: &Ir, nest: &[Counter], uses: &Uses, given: &[Value]) -> usize {
        let cost = |k: usize| {
            uses.0.iter().fold(0, |sum: i64, used| {
                let before = given
                    .get(used.argument)
                    .and_then(|v| self.0.get(&whole(ir, *v)));
                let other = before.is_some_and(|before| *before != used.by[k]);
                let crosses = match used.by[k] {
                    _ if !used.reads => 0,
                    Division::Undivided => used.bytes,
                    // Half of a part lies on the other side.
                    _ if other => used.bytes / 2,
                    _ => 0,
                };
                // As likely as not, the next nest sums over what lies side by side.
                let will = used.writes && used.by[k] == Division::Across;
                let all = sum.saturating_add(crosses);
                all.saturating_add(if will { used.bytes / 2 } else { 0 })
            })
        };
        let loops = (0..nest.len()).filter(|k| nest[*k].trips > 1);
        let Some(outermost) = loops.clone().next() else {
            return 0;
        };
        let best = loops.min_by_key(|k| cost(*k)).unwrap_or(outermost);
        match cost(best).saturating_add(WORTH) < cost(outermost) {
            true => best,
            false => outermost,
        }
    }

    /// Notes what a call writes.
    pub(crate) fn write(&mut self, ir: &Ir, uses: &Uses, k: usize, given: &[Value]) {
        for used in uses.0.iter().filter(|used| used.writes) {
            if let (Some(value), Some(by)) = (given.get(used.argument), used.by.get(k)) {
                self.0.insert(whole(ir, *value), *by);
            }
        }
    }
}

/// The buffer that a view of elements is a part of.
fn whole(ir: &Ir, value: Value) -> Value {
    let Some(op) = ir.owner(value) else {
        return value;
    };
    let part = ir.get::<SubView>(op).map(|view| view.source);
    let part = part.or_else(|| ir.get::<ReinterpretCast>(op).map(|view| view.source));
    let part = part.or_else(|| ir.get::<CollapseShape>(op).map(|view| view.src));
    let part = part.or_else(|| ir.get::<ExpandShape>(op).map(|view| view.src));
    let part = part.or_else(|| ir.get::<Cast>(op).map(|view| view.source));
    part.map_or(value, |source| whole(ir, source))
}
