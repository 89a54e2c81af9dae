//! Which buffers of a function live when.
//!
//! Times count the ops of the function in the order of the text: an op begins at one time, and
//! ends behind all that is below it. A buffer lives from its first use to its last one; what a
//! loop uses and was allocated outside lives through the whole loop. Uses by asynchronous work
//! count where it is started: that a later buffer at the same place waits for it is for tokens to
//! say, which are inserted on the bytes of the plan.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use tir::{Ir, MemRefType, Name, OpId, Value};
use tir_accel::MachineInfo;
use tir_accel::transfer::strided;
use tir_memref::Alloc;

/// A buffer to be placed.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Its allocation.
    pub op: OpId,
    /// Its name: that of the text, or a number.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its alignment.
    pub align: u64,
    /// When it lives: half-open.
    pub live: std::ops::Range<u64>,
    /// The op of its first and of its last use, if it has any.
    pub ends: Option<(OpId, OpId)>,
}

/// The buffers of each space, in the order of the text.
pub type Spaces = BTreeMap<Name, Vec<Buffer>>;

const VIEWS: [&str; 4] = [
    "memref.subview",
    "memref.view",
    "memref.collapse_shape",
    "memref.expand_shape",
];

/// The ops that use the memory behind a value.
pub(crate) fn users(ir: &Ir, value: Value) -> Vec<OpId> {
    let (mut work, mut out) = (vec![value], Vec::new());
    while let Some(value) = work.pop() {
        for u in ir.uses(value) {
            if VIEWS.contains(&ir.name(u.op).as_str()) {
                work.extend(ir.results(u.op));
            } else {
                out.push(u.op);
            }
        }
    }
    out
}

/// The buffers of static shape that a function allocates, by space.
pub fn liveness(ir: &Ir, machine: &MachineInfo) -> Spaces {
    let mut times: HashMap<OpId, (u64, u64)> = HashMap::new();
    let mut now = 0;
    if let Some(body) = ir.body_block(ir.root(), 0) {
        number(ir, ir.ops_in(body).collect(), &mut now, &mut times);
    }
    let mut spaces: Spaces = BTreeMap::new();
    let mut names: HashMap<String, usize> = HashMap::new();
    for op in ir.walk_ids() {
        let Some(alloc) = ir.get::<Alloc>(op) else {
            continue;
        };
        let memref = ir.result(op, 0);
        let ty = ir.ty(memref);
        let space = ty.get::<MemRefType>().and_then(MemRefType::space_name);
        let (Some(space), Ok(_)) = (space.or(machine.far().map(|s| s.name)), strided(ty)) else {
            continue;
        };
        let (Some(elements), Some(elem)) = (ty.elements(), ty.bytes()) else {
            continue;
        };
        let all = spaces.entry(space).or_default();
        let mut name = ir
            .hint(memref)
            .map_or(format!("buffer{}", all.len()), |h| h.to_string());
        let count = names.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            name = format!("{name}.{count}");
        }
        let own = machine.space(space).map_or(1, |s| s.align);
        let align = own.max(alloc.alignment.unwrap_or(1)).max(1) as u64;
        let (live, ends) = range(ir, op, memref, &times);
        all.push(Buffer {
            op,
            name,
            bytes: (elements * elem) as u64,
            align: align.next_power_of_two(),
            live,
            ends,
        });
    }
    spaces
}

fn number(ir: &Ir, ops: Vec<OpId>, now: &mut u64, times: &mut HashMap<OpId, (u64, u64)>) {
    for op in ops {
        let start = *now;
        *now += 1;
        for region in ir.regions(op) {
            for block in ir.blocks(region) {
                number(ir, ir.ops_in(block).collect(), now, times);
            }
        }
        times.insert(op, (start, *now));
    }
}

fn range(
    ir: &Ir,
    op: OpId,
    memref: Value,
    times: &HashMap<OpId, (u64, u64)>,
) -> (std::ops::Range<u64>, Option<(OpId, OpId)>) {
    let at = times.get(&op).map_or(0, |t| t.0);
    let Some(block) = ir.block_of(op) else {
        return (at..at, None);
    };
    // A use in a loop is one of the whole loop.
    let mut uses: Vec<(OpId, (u64, u64))> = Vec::new();
    for user in users(ir, memref) {
        if ir.name(user) == "memref.dealloc" {
            continue;
        }
        let around = ir.ancestor_in(user, block).unwrap_or(user);
        if let Some(time) = times.get(&around) {
            uses.push((user, *time));
        }
    }
    let first = uses.iter().min_by_key(|(op, t)| (t.0, *op));
    let last = uses.iter().max_by_key(|(op, t)| (t.1, *op));
    match (first, last) {
        (Some((a, from)), Some((b, to))) => (from.0..to.1, Some((*a, *b))),
        _ => (at..at, None),
    }
}

/// A table of the buffers of each space.
pub fn text(ir: &Ir, spaces: &Spaces) -> String {
    let mut out = String::new();
    let place = |op: OpId| {
        let at = ir
            .loc(op)
            .place()
            .map_or(String::new(), |(_, line, _)| format!(" line {line}"));
        format!("'{}'{at}", ir.name(op))
    };
    for (space, buffers) in spaces {
        let _ = writeln!(out, "@{space}: {} buffers", buffers.len());
        for b in buffers {
            let _ = write!(
                out,
                "  {} ({} B) lives {}..{}",
                b.name, b.bytes, b.live.start, b.live.end
            );
            let _ = match b.ends {
                Some((first, last)) => writeln!(out, ", from {} to {}", place(first), place(last)),
                None => writeln!(out, ", never used"),
            };
        }
    }
    out
}
