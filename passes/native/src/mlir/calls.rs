//! What private functions take beyond what the program says: constants, and memory for what they allocate.

use std::collections::HashMap;

use tir::{Ir, MemRefType, Name, OpId, Type};
use tir_func::{Call, Func};
use tir_loop::RANGE;
use tir_memref::{Alloc, GetGlobal};

/// What a function needs from its caller, for itself and for what it calls.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Needs {
    /// It uses constants of the module.
    pub weights: bool,
    /// Bytes of memory.
    pub scratch: usize,
    /// Its first two arguments are a range of iterations that threads may share, each with memory of its own.
    pub range: bool,
}

/// The needs of all functions that have a body; none where one calls itself, by way of others perhaps: what it allocates is
/// not of one size.
pub(super) fn needs(module: &Ir, align: usize) -> HashMap<Name, Needs> {
    let mut graph = Graph {
        functions: HashMap::new(),
        done: HashMap::new(),
        align,
    };
    for op in module.walk_ids() {
        let child = module.child(op);
        let function = child.and_then(|ir| Some((ir, ir.get::<Func>(ir.root())?)));
        if let Some((ir, function)) = function
            && ir.entry(function.body).is_some()
        {
            graph.functions.insert(function.sym_name, (ir, function));
        }
    }
    let names: Vec<Name> = graph.functions.keys().copied().collect();
    for name in names {
        graph.of(name);
    }
    let done = graph.done.into_iter();
    let all: Option<HashMap<Name, Needs>> = done.map(|(n, needs)| Some((n, needs?))).collect();
    all.unwrap_or_default()
}

struct Graph<'a> {
    functions: HashMap<Name, (&'a Ir, Func)>,
    /// None for a function that is looked at now, or that calls itself.
    done: HashMap<Name, Option<Needs>>,
    align: usize,
}

impl Graph<'_> {
    fn of(&mut self, name: Name) -> Option<Needs> {
        if let Some(known) = self.done.get(&name) {
            return *known;
        }
        let (ir, function) = self.functions.get(&name)?;
        let ir = *ir;
        let mut needs = Needs {
            scratch: places(ir, function, self.align)
                .iter()
                .map(|place| place.bytes)
                .sum(),
            weights: false,
            range: ir.attr(ir.root(), RANGE).is_some(),
        };
        self.done.insert(name, None);
        let (mut most, mut loops) = (0, false);
        for op in ir.walk_ids() {
            needs.weights |= ir.is::<GetGlobal>(op);
            if let Some(call) = ir.get::<Call>(op).map(|call| call.callee.0)
                && self.functions.contains_key(&call)
            {
                match self.of(call) {
                    Some(callee) => {
                        needs.weights |= callee.weights;
                        most = most.max(callee.scratch);
                    }
                    None => loops = true,
                }
            }
        }
        needs.scratch += most;
        let needs = (!loops).then_some(needs);
        self.done.insert(name, needs);
        needs
    }
}

/// What ends the name of a function that shares the range of another one among threads. `tir-native` makes it: it takes the
/// threads, the bytes of memory of each, and what the other one takes, whose memory is the last of it and that of the first
/// thread.
pub(super) const SHARED: &str = ".shared";

/// A buffer of a function that gets a place in memory that is given to the function.
pub(super) struct Place {
    pub op: OpId,
    pub ty: Type,
    /// Its size, a multiple of the alignment.
    pub bytes: usize,
}

/// What a function allocates once, outside of loops, dense and of known size; nothing if it may give it away.
pub(super) fn places(ir: &Ir, function: &Func, align: usize) -> Vec<Place> {
    let results = function.signature().map_or(&[][..], |ty| &ty.results);
    let Some(block) = ir
        .entry(function.body)
        .filter(|_| !results.iter().any(|ty| ty.is::<MemRefType>()))
    else {
        return Vec::new();
    };
    let place = |op: OpId| {
        let ty = ir.get::<Alloc>(op)?.memref.0;
        let (elements, size) = (ty.elements()?, ty.elem().bytes()?);
        let memref = ty.get::<MemRefType>()?;
        let bytes = (elements * size).next_multiple_of(align.max(1));
        (memref.layout == tir::Layout::Identity).then_some(Place { op, ty, bytes })
    };
    ir.ops_in(block).filter_map(place).collect()
}
