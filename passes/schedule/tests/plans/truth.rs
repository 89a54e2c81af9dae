//! What must not be done to a plan, read off the unplanned program: pairs of buffers that certainly cannot share bytes, and
//! waits that are certainly needed.
//!
//! A fault counts as one only if it is here: then the program is wrong whatever else it does, by what lies in one block that
//! runs. So this says less than is true, and never more; it shares nothing with the planner or with what looks for faults.

use tir::{BlockId, Definition, Ir, Name, OpId, Value};
use tir_accel::{Call, DmaStart, DmaWait, MachineInfo, Mark, token};
use tir_memref::{Alloc, Copy, Load, Store};

/// An access of a whole buffer, or of a part.
#[derive(Clone, Copy)]
struct Touch {
    buffer: OpId,
    write: bool,
    whole: bool,
}

/// Two buffers that must not share bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Apart {
    /// What is lost, or used by work that may still run.
    pub(crate) held: OpId,
    /// What is written over it.
    pub(crate) other: OpId,
    /// The op that writes.
    pub(crate) by: OpId,
    /// The op that runs still, if it is not a later one that reads.
    pub(crate) running: bool,
}

/// A token that one op waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needed {
    /// The op.
    pub(crate) op: OpId,
    /// Which of its operands.
    pub(crate) operand: usize,
}

/// What is known of a program.
pub(crate) struct Truth {
    /// Buffers that are not to share bytes.
    pub(crate) apart: Vec<Apart>,
    /// Tokens that must be waited for.
    pub(crate) needed: Vec<Needed>,
}

impl Truth {
    /// Reads it off the function at the root.
    pub(crate) fn of(ir: &Ir, machine: &MachineInfo) -> Truth {
        let mut truth = Truth {
            apart: Vec::new(),
            needed: Vec::new(),
        };
        let mut blocks: Vec<BlockId> = ir.body_block(ir.root(), 0).into_iter().collect();
        while let Some(block) = blocks.pop() {
            let mut run: Vec<OpId> = Vec::new();
            for op in ir.ops_in(block) {
                if ir.regions(op).len() == 0 {
                    run.push(op);
                    continue;
                }
                truth.look(ir, machine, &std::mem::take(&mut run));
                // Loops of the programs run once or more; a branch may not.
                if ir.name(op) == Name::new("loop.for") {
                    blocks.extend(ir.body_block(op, 0));
                }
            }
            truth.look(ir, machine, &run);
        }
        truth
    }

    /// Ops behind each other, without a branch between them.
    fn look(&mut self, ir: &Ir, machine: &MachineInfo, run: &[OpId]) {
        let all: Vec<Vec<Touch>> = run.iter().map(|op| touches(ir, *op)).collect();
        let space = |buffer: OpId| {
            ir.ty(ir.result(buffer, 0))
                .get::<tir::MemRefType>()?
                .space_name()
        };
        for (i, first) in all.iter().enumerate() {
            for held in first.iter().filter(|t| t.whole && t.write) {
                self.lost(run, &all, i, held.buffer, &space);
            }
            let Some(queue) = queue(ir, machine, run[i]) else {
                continue;
            };
            for (j, then) in all.iter().enumerate().skip(i + 1) {
                let order = Order { ir, machine, run };
                for (held, other) in first.iter().flat_map(|h| then.iter().map(move |o| (h, o))) {
                    if held.whole
                        && other.whole
                        && other.write
                        && held.buffer != other.buffer
                        && space(held.buffer) == space(other.buffer)
                        && !order.ordered(i, j, queue, None)
                    {
                        self.apart.push(Apart {
                            held: held.buffer,
                            other: other.buffer,
                            by: run[j],
                            running: true,
                        });
                    }
                    let conflict =
                        held.whole && held.buffer == other.buffer && (held.write || other.write);
                    if conflict && order.ordered(i, j, queue, None) {
                        for (k, op) in run.iter().enumerate().take(j + 1).skip(i + 1) {
                            for (operand, value) in ir.operands(*op).enumerate() {
                                let without = Some((k, operand));
                                if ir.ty(value) == token() && !order.ordered(i, j, queue, without) {
                                    self.needed.push(Needed { op: *op, operand });
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// What the buffer that an op writes holds is read later, and others are written as a whole before.
    fn lost(
        &mut self,
        run: &[OpId],
        all: &[Vec<Touch>],
        from: usize,
        held: OpId,
        space: &impl Fn(OpId) -> Option<Name>,
    ) {
        let mut over: Vec<Apart> = Vec::new();
        for (j, then) in all.iter().enumerate().skip(from + 1) {
            let own = |t: &&Touch| t.buffer == held;
            if then.iter().filter(own).any(|t| !t.write && t.whole) {
                self.apart.append(&mut over);
            }
            if then.iter().filter(own).any(|t| t.write) {
                return;
            }
            for other in then.iter().filter(|t| t.write && t.whole) {
                if other.buffer != held && space(other.buffer) == space(held) {
                    over.push(Apart {
                        held,
                        other: other.buffer,
                        by: run[j],
                        running: false,
                    });
                }
            }
        }
    }
}

struct Order<'a> {
    ir: &'a Ir,
    machine: &'a MachineInfo,
    run: &'a [OpId],
}

impl Order<'_> {
    /// Whether work `j` of the run begins behind the end of work `i` on a queue: by waits, and by queues that do one after
    /// the other, without what one operand says.
    fn ordered(
        &self,
        i: usize,
        j: usize,
        queue_of_i: Name,
        without: Option<(usize, usize)>,
    ) -> bool {
        let Order { ir, machine, run } = *self;
        // Ops that end behind `i`; and queues whose work, and whether the thread, comes behind it.
        let (mut behind, mut queues, mut thread) = (vec![run[i]], vec![queue_of_i], false);
        for (k, op) in run.iter().enumerate().take(j + 1).skip(i + 1) {
            let waits = ir.operands(*op).enumerate().any(|(operand, value)| {
                let Definition::Result(from, _) = ir.definition(value) else {
                    return false;
                };
                without != Some((k, operand)) && ir.ty(value) == token() && behind.contains(&from)
            });
            let on = queue(ir, machine, *op);
            let queued = on.is_some_and(|on| queues.contains(&on));
            let mark: Option<Mark> = ir.get(*op);
            let marked = mark.is_some_and(|mark| queues.contains(&mark.queue.0));
            if k == j {
                return waits || queued || thread;
            }
            if ir.is::<DmaWait>(*op) {
                thread |= waits;
            } else if waits || queued || marked || thread {
                behind.push(*op);
                queues.extend(on);
            }
        }
        false
    }
}

/// The queue that an op starts work on.
fn queue(ir: &Ir, machine: &MachineInfo, op: OpId) -> Option<Name> {
    let dma: Option<DmaStart> = ir.get(op);
    dma.map(|dma| dma.engine.0)
        .or_else(|| machine.unit_of(ir, op))
}

/// What an op of the programs does to buffers themselves; what goes by other memrefs is not known here.
fn touches(ir: &Ir, op: OpId) -> Vec<Touch> {
    let buffer = |value: Value| ir.owner(value).filter(|owner| ir.is::<Alloc>(*owner));
    let mut out = Vec::new();
    let mut touch = |value: Value, write: bool, whole: bool| {
        out.extend(buffer(value).map(|buffer| Touch {
            buffer,
            write,
            whole,
        }));
    };
    if let Some(call) = ir.get::<Call>(op) {
        touch(call.operands[1], false, true);
        let sum = call.callee.0 == Name::new("sum");
        if sum {
            touch(call.operands[0], false, true);
        }
        // What holds a sum depends on what it held.
        touch(call.operands[0], true, !sum);
    } else if let Some(copy) = ir.get::<Copy>(op) {
        touch(copy.source, false, true);
        touch(copy.target, true, true);
    } else if ir.is::<DmaStart>(op) {
        // Far memory is an argument: of the operands only the near one is a buffer.
        let write = ir.effects(op).is_some_and(|effects| {
            let mut on = effects.iter().filter(|e| e.access == tir::Access::Write);
            on.any(|e| e.on.and_then(buffer).is_some())
        });
        let operands: Vec<Value> = ir.operands(op).collect();
        operands.into_iter().for_each(|v| touch(v, write, true));
    } else if ir.is::<Load>(op) || ir.is::<Store>(op) {
        let write = ir.is::<Store>(op);
        let operands: Vec<Value> = ir.operands(op).collect();
        operands.into_iter().for_each(|v| touch(v, write, false));
    }
    out
}
