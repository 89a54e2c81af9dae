//! The command stream of a function: what it starts on which queue, and which bytes that touches,
//! found by running its index arithmetic and nothing else.
//!
//! Loops must have bounds, and buffers shapes and strides, that do not depend on data. Buffers
//! are told apart by their root: the argument, global or allocation behind all views.

mod compile;
mod int;
mod run;
mod step;
mod work;

use std::collections::HashMap;
use std::rc::Rc;

use tir::{Failure, Ir, MemRefType, Name, OpId, Value};
use tir_accel::{Call, DmaStart, MachineInfo};

use compile::Compile;
use run::Run;
use step::{Step, Val};

/// Memory that views go back to.
#[derive(Clone, Debug)]
pub struct Root {
    /// The argument, or the result of the op that makes it.
    pub value: Value,
    /// Its name, for messages.
    pub name: String,
    /// Its space.
    pub space: Name,
    /// Its size.
    pub bytes: i64,
    /// Whether it holds data at the start: an argument that is read, or a global.
    pub defined: bool,
    /// Whether it is an allocation of this function.
    pub local: bool,
}

/// Who does the work of a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Actor {
    /// The program thread.
    Thread,
    /// A queue, by its number: engines, then units, as the machine lists them.
    Queue(usize),
    /// The thread, which waits here for tokens.
    Wait,
    /// The thread, which returns.
    Return,
}

/// What one op does each time it runs.
#[derive(Clone, Debug)]
pub struct Site {
    /// The op.
    pub op: OpId,
    /// Who does it.
    pub actor: Actor,
    /// Cycles of a call.
    pub cycles: u64,
    /// The intrinsic or engine.
    pub label: Option<Name>,
}

/// A strided box of bytes of a root.
#[derive(Clone, Debug)]
pub struct Area {
    /// Which root.
    pub root: usize,
    /// First byte.
    pub offset: i64,
    /// `(count, stride in bytes)`, outermost first.
    pub dims: Rc<[(i64, i64)]>,
    /// Bytes of an element.
    pub elem: i64,
}

/// A token: the first `.1` pieces of work of queue `.0`.
pub type TokenId = (usize, u32);

/// A run of a site.
#[derive(Debug)]
pub struct Event<'a> {
    /// Which site.
    pub site: usize,
    /// Bytes read.
    pub reads: &'a [Area],
    /// Bytes written.
    pub writes: &'a [Area],
    /// Work it begins after.
    pub after: &'a [TokenId],
}

/// What a run tells.
pub trait Sink {
    /// A site runs.
    fn event(&mut self, event: &Event<'_>) -> Result<(), Failure>;
    /// An op that holds starts, or is one, has run.
    fn point(&mut self, point: usize);
}

/// A function, ready to be run any number of times.
pub struct Stream {
    /// Names of the queues.
    pub queues: Vec<Name>,
    /// Memory.
    pub roots: Vec<Root>,
    /// Sites in the order of the text.
    pub sites: Vec<Site>,
    /// Ops that hold starts, or are one, in the order of the text.
    pub points: Vec<OpId>,
    steps: Vec<Step>,
    init: Vec<Val>,
}

/// Whether an op, or one below it, starts work on a queue.
pub fn starts_work(ir: &Ir, op: OpId) -> bool {
    let start = |op: OpId| {
        ir.is::<DmaStart>(op)
            || ir.is::<Call>(op) && ir.operands(op).any(|v| ir.ty(v).is::<MemRefType>())
    };
    start(op) || ir.walk_below(op).into_iter().any(start)
}

impl Stream {
    /// The stream of the function at the root of an arena.
    pub fn new(ir: &Ir, machine: &MachineInfo) -> Result<Self, Failure> {
        let queues = machine.engines.iter().map(|e| e.name);
        let queues = queues.chain(machine.units.iter().map(|u| u.name)).collect();
        let out = Stream {
            queues,
            roots: vec![],
            sites: vec![],
            points: vec![],
            steps: vec![],
            init: vec![],
        };
        let mut c = Compile {
            ir,
            machine,
            slots: HashMap::new(),
            known: vec![],
            out,
        };
        let Some(body) = ir.body_block(ir.root(), 0) else {
            return Ok(c.out);
        };
        let attrs = ir.attr(ir.root(), "arg_attrs");
        for (i, arg) in ir.args(body).enumerate() {
            let slot = c.slot(arg);
            if ir.ty(arg).is::<MemRefType>() {
                let out = attrs.is_some_and(|a| is_out(a, i));
                c.root(arg, slot, format!("argument {i}"), !out, false)?;
            }
        }
        let Some(region) = ir.region_of(body) else {
            return Ok(c.out);
        };
        let steps = c.region(region)?;
        c.out.steps = steps;
        Ok(c.out)
    }

    /// The number of the queue of this name.
    pub fn queue(&self, name: Name) -> Option<usize> {
        self.queues.iter().position(|q| *q == name)
    }

    /// Runs it; fails after `limit` events and iterations.
    pub fn run(&self, ir: &Ir, limit: u64, sink: &mut dyn Sink) -> Result<(), Failure> {
        let mut run = Run {
            stream: self,
            ir,
            vals: self.init.clone(),
            counts: vec![0; self.queues.len()],
            left: limit,
            limit,
            reads: Vec::new(),
            writes: Vec::new(),
            after: Vec::new(),
        };
        run.steps(&self.steps, sink)
    }
}

fn is_out(attrs: tir::Attr, index: usize) -> bool {
    let dict = attrs.get::<tir::ArrayAttr>().and_then(|a| a.0.get(index));
    let dict = dict.and_then(|d| d.get::<tir::DictAttr>());
    dict.is_some_and(|d| d.get("func.out").is_some())
}
