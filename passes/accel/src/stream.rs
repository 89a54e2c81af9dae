//! The command stream of a function: what it starts on which queue, and which bytes that touches,
//! found by running its index arithmetic and nothing else.
//!
//! Loops must have bounds, and buffers shapes and strides, that do not depend on data. Buffers
//! are told apart by their root: the argument, global or allocation behind all views.

use std::collections::HashMap;
use std::rc::Rc;

use tir::{DYNAMIC, Failure, Ir, MemRefType, Name, OpId, RegionId, Value};
use tir_accel::transfer::{Pattern, strided};
use tir_accel::{Call, Direction, DmaStart, DmaWait, MachineInfo, Mark, Ready};
use tir_loop::{Bounds, For, If};
use tir_memref::{CollapseShape, ExpandShape, GetGlobal, SubView, View};
use tir_tensor::Generic;

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

#[derive(Clone, Copy, Default, Debug)]
struct Val {
    a: i64,
    root: usize,
}
type Slot = usize;

#[derive(Debug)]
struct Foot {
    view: Slot,
    dims: Rc<[(i64, i64)]>,
    elem: i64,
}

#[derive(Debug)]
enum Step {
    Int {
        dst: Slot,
        op: Name,
        args: [Slot; 3],
        predicate: i64,
    },
    Shift {
        dst: Slot,
        src: Slot,
        terms: Vec<(Slot, i64)>,
        plus: i64,
    },
    Loop {
        bounds: [Slot; 3],
        iv: Slot,
        init: Vec<(Slot, Slot)>,
        body: Vec<Step>,
        carry: Vec<(Slot, Slot)>,
        out: Vec<(Slot, Slot)>,
        op: OpId,
    },
    If {
        condition: Slot,
        branches: [Vec<Step>; 2],
        yields: [Vec<(Slot, Slot)>; 2],
    },
    Work {
        site: usize,
        reads: Vec<Foot>,
        writes: Vec<Foot>,
        after: Vec<Slot>,
        token: Option<Slot>,
    },
    Move {
        site: usize,
        pattern: Box<Pattern>,
        far: Slot,
        tile: Slot,
        offsets: Vec<Slot>,
        read: bool,
        after: Vec<Slot>,
        token: Option<Slot>,
    },
    Mark {
        dst: Slot,
        queue: usize,
    },
    Point {
        point: usize,
    },
}

struct Compile<'a> {
    ir: &'a Ir,
    machine: &'a MachineInfo,
    slots: HashMap<Value, Slot>,
    known: Vec<bool>,
    out: Stream,
}

/// The functions that hold starts: whether an op, or one below it, starts work on a queue.
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

impl Compile<'_> {
    fn slot(&mut self, value: Value) -> Slot {
        if let Some(slot) = self.slots.get(&value) {
            return *slot;
        }
        let slot = self.fresh(0);
        self.slots.insert(value, slot);
        slot
    }
    fn fresh(&mut self, a: i64) -> Slot {
        self.out.init.push(Val { a, root: 0 });
        self.known.push(true);
        self.out.init.len() - 1
    }
    fn root(
        &mut self,
        value: Value,
        slot: Slot,
        name: String,
        defined: bool,
        local: bool,
    ) -> Result<(), Failure> {
        let ty = self.ir.ty(value);
        let (shape, strides, elem) = strided(ty)?;
        let reach = shape
            .iter()
            .zip(&strides)
            .map(|(n, s)| (n - 1).max(0) * s.abs())
            .sum::<i64>();
        let bytes = if shape.contains(&0) { 0 } else { reach + elem };
        let space = ty.get::<MemRefType>().and_then(MemRefType::space_name);
        let far = self.machine.far().map(|s| s.name);
        let space = space.or(far).ok_or("has no memory space")?;
        self.out.init[slot] = Val {
            a: 0,
            root: self.out.roots.len(),
        };
        let name = self.ir.hint(value).map_or(name, |h| h.as_str().to_string());
        self.out.roots.push(Root {
            value,
            name,
            space,
            bytes,
            defined,
            local,
        });
        Ok(())
    }
    fn foot(&mut self, value: Value) -> Result<Foot, Failure> {
        let (shape, strides, elem) = strided(self.ir.ty(value))?;
        let dims = shape.into_iter().zip(strides).collect();
        Ok(Foot {
            view: self.slot(value),
            dims,
            elem,
        })
    }
    fn site(&mut self, op: OpId, actor: Actor, cycles: u64, label: Option<Name>) -> usize {
        self.out.sites.push(Site {
            op,
            actor,
            cycles,
            label,
        });
        self.out.sites.len() - 1
    }
    fn slots_of(&mut self, values: &[Value]) -> Vec<Slot> {
        values.iter().map(|v| self.slot(*v)).collect()
    }

    fn region(&mut self, region: RegionId) -> Result<Vec<Step>, Failure> {
        let mut steps = Vec::new();
        let Some(block) = self.ir.entry(region) else {
            return Ok(steps);
        };
        let ir = self.ir;
        for op in ir.ops_in(block) {
            let done = self.op(op, &mut steps);
            done.map_err(|e| {
                Box::new(
                    (*e).or_at(ir.loc(op))
                        .context(format_args!("'{}': ", ir.name(op))),
                )
            })?;
            if starts_work(ir, op) {
                self.out.points.push(op);
                steps.push(Step::Point {
                    point: self.out.points.len() - 1,
                });
            }
        }
        Ok(steps)
    }

    fn op(&mut self, op: OpId, steps: &mut Vec<Step>) -> Result<(), Failure> {
        let ir = self.ir;
        if let Some(value) = ir
            .attr(op, "value")
            .filter(|_| ir.has(op, tir::Traits::ConstantLike))
        {
            let slot = self.slot(ir.result(op, 0));
            self.out.init[slot].a = value.as_int().unwrap_or(0);
        } else if let Some(looped) = ir.get::<For>(op) {
            self.looped(op, &looped, steps)?;
        } else if let Some(branch) = ir.get::<If>(op) {
            self.branch(op, &branch, steps)?;
        } else if let Some(view) = ir.get::<SubView>(op) {
            self.sub_view(op, &view, steps)?;
        } else if let Some(view) = ir.get::<View>(op) {
            let (dst, src) = (self.slot(ir.result(op, 0)), self.slot(view.source));
            let shift = self.slot(view.byte_shift);
            steps.push(Step::Shift {
                dst,
                src,
                terms: vec![(shift, 1)],
                plus: 0,
            });
        } else if ir.is::<CollapseShape>(op) || ir.is::<ExpandShape>(op) {
            let (dst, src) = (self.slot(ir.result(op, 0)), self.slot(ir.operand(op, 0)));
            steps.push(Step::Shift {
                dst,
                src,
                terms: vec![],
                plus: 0,
            });
        } else if ir.is::<tir_memref::Alloc>(op) || ir.is::<GetGlobal>(op) {
            let value = ir.result(op, 0);
            let slot = self.slot(value);
            let local = ir.is::<tir_memref::Alloc>(op);
            let name = format!("buffer {}", self.out.roots.len());
            let name = ir
                .get::<GetGlobal>(op)
                .map_or(name, |g| g.name.0.as_str().to_string());
            self.root(value, slot, name, !local, local)?;
        } else if let Some(start) = ir.get::<DmaStart>(op) {
            let pattern = Pattern::new(ir.ty(start.far), ir.ty(start.tile), &start.access)?;
            let queue = self
                .out
                .queue(start.engine.0)
                .ok_or("starts what is no queue")?;
            let site = self.site(op, Actor::Queue(queue), 0, Some(start.engine.0));
            let offsets = self.offsets(&start.offsets, &start.static_offsets);
            let (far, tile) = (self.slot(start.far), self.slot(start.tile));
            let (after, token) = (
                self.slots_of(&start.after),
                Some(self.slot(ir.result(op, 0))),
            );
            let read = start.direction == Direction::Read;
            steps.push(Step::Move {
                site,
                pattern: pattern.into(),
                far,
                tile,
                offsets,
                read,
                after,
                token,
            });
        } else if let Some(call) = ir.get::<Call>(op) {
            self.call(op, &call, steps)?;
        } else if let Some(mark) = ir.get::<Mark>(op) {
            let queue = self
                .out
                .queue(mark.queue.0)
                .ok_or("marks what is no queue")?;
            let dst = self.slot(ir.result(op, 0));
            steps.push(Step::Mark { dst, queue });
        } else if ir.is::<Ready>(op) {
            self.slot(ir.result(op, 0));
        } else if let Some(wait) = ir.get::<DmaWait>(op) {
            let (site, after) = (
                self.site(op, Actor::Wait, 0, None),
                self.slots_of(&wait.tokens),
            );
            steps.push(Step::Work {
                site,
                reads: vec![],
                writes: vec![],
                after,
                token: None,
            });
        } else if ir.name(op) == "func.return" {
            let site = self.site(op, Actor::Return, 0, None);
            steps.push(Step::Work {
                site,
                reads: vec![],
                writes: vec![],
                after: vec![],
                token: None,
            });
        } else if !self.transfer(op, steps)? {
            self.other(op, steps)?;
        }
        Ok(())
    }

    /// Transfers of the memref level: the thread does them.
    fn transfer(&mut self, op: OpId, steps: &mut Vec<Step>) -> Result<bool, Failure> {
        let ir = self.ir;
        let (far, tile, offsets, fixed, access, read) =
            if let Some(t) = ir.get::<tir_memref::TransferRead>(op) {
                (
                    t.source,
                    t.tile,
                    t.offsets,
                    t.static_offsets,
                    t.access,
                    true,
                )
            } else if let Some(t) = ir.get::<tir_memref::TransferWrite>(op) {
                (t.dest, t.tile, t.offsets, t.static_offsets, t.access, false)
            } else {
                return Ok(false);
            };
        let pattern = Pattern::new(ir.ty(far), ir.ty(tile), &access)?;
        let site = self.site(op, Actor::Thread, 0, None);
        let offsets = self.offsets(&offsets, &fixed);
        let (far, tile) = (self.slot(far), self.slot(tile));
        steps.push(Step::Move {
            site,
            pattern: pattern.into(),
            far,
            tile,
            offsets,
            read,
            after: vec![],
            token: None,
        });
        Ok(true)
    }

    fn call(&mut self, op: OpId, call: &Call, steps: &mut Vec<Step>) -> Result<(), Failure> {
        let name = call.callee.0;
        let intrinsic = self
            .machine
            .intrinsic(name)
            .ok_or("calls what the machine has not")?;
        let queue = self
            .out
            .queue(intrinsic.unit)
            .ok_or("runs on what is no queue")?;
        let site = self.site(
            op,
            Actor::Queue(queue),
            intrinsic.cycles.max(0) as u64,
            Some(name),
        );
        let (mut reads, mut writes) = (vec![], vec![]);
        for (i, value) in call.operands.iter().enumerate() {
            if i < intrinsic.writes {
                writes.push(self.foot(*value)?);
            }
            if intrinsic.reads.get(i) == Some(&true) {
                reads.push(self.foot(*value)?);
            }
        }
        let after = self.slots_of(&call.after);
        steps.push(Step::Work {
            site,
            reads,
            writes,
            after,
            token: None,
        });
        Ok(())
    }

    /// What the thread does itself: accesses by effects, and arithmetic.
    fn other(&mut self, op: OpId, steps: &mut Vec<Step>) -> Result<(), Failure> {
        let ir = self.ir;
        if let Some(generic) = ir.get::<Generic>(op) {
            let (mut reads, mut writes) = (vec![], vec![]);
            for value in &generic.inputs {
                reads.push(self.foot(*value)?);
            }
            for value in &generic.outputs {
                writes.push(self.foot(*value)?);
                if generic.combine.is_some() {
                    reads.push(self.foot(*value)?);
                }
            }
            let site = self.site(op, Actor::Thread, 0, None);
            steps.push(Step::Work {
                site,
                reads,
                writes,
                after: vec![],
                token: None,
            });
            return Ok(());
        }
        let effects = ir.effects(op).ok_or("is not known to the machine")?;
        if effects.is_empty() {
            for value in ir.results(op) {
                let slot = self.slot(value);
                let scalar = ir.ty(value).is_index() || ir.ty(value).is_int();
                if !scalar {
                    continue;
                }
                let mut args = [0; 3];
                for (arg, value) in args.iter_mut().zip(ir.operands(op)) {
                    *arg = self.slot(value);
                }
                let known = ir
                    .operands(op)
                    .all(|v| self.slots.get(&v).is_some_and(|s| self.known[*s]));
                self.known[slot] = known
                    && ir
                        .operands(op)
                        .all(|v| ir.ty(v).is_index() || ir.ty(v).is_int());
                let predicate = ir
                    .attr(op, "predicate")
                    .and_then(tir::Attr::as_int)
                    .unwrap_or(0);
                steps.push(Step::Int {
                    dst: slot,
                    op: ir.name(op),
                    args,
                    predicate,
                });
            }
            return Ok(());
        }
        let (mut reads, mut writes) = (vec![], vec![]);
        for effect in effects {
            let value = effect.on.ok_or("has effects on memory that is not known")?;
            match effect.access {
                tir::Access::Read => reads.push(self.foot(value)?),
                tir::Access::Write => writes.push(self.foot(value)?),
                tir::Access::Allocate | tir::Access::Free => {}
            }
        }
        for value in ir.results(op) {
            let slot = self.slot(value);
            self.known[slot] = false;
        }
        if !reads.is_empty() || !writes.is_empty() {
            let site = self.site(op, Actor::Thread, 0, None);
            steps.push(Step::Work {
                site,
                reads,
                writes,
                after: vec![],
                token: None,
            });
        }
        Ok(())
    }

    fn offsets(&mut self, values: &[Value], numbers: &[i64]) -> Vec<Slot> {
        let mut values = values.iter();
        let mut slots = Vec::new();
        for n in numbers {
            slots.push(match (*n, values.clone().next()) {
                (DYNAMIC, Some(v)) => {
                    values.next();
                    self.slot(*v)
                }
                (n, _) => self.fresh(n),
            });
        }
        slots
    }

    fn sub_view(&mut self, op: OpId, view: &SubView, steps: &mut Vec<Step>) -> Result<(), Failure> {
        let (dst, src) = (self.slot(self.ir.result(op, 0)), self.slot(view.source));
        let (_, strides, _) = strided(self.ir.ty(view.source))?;
        let (mut terms, mut plus) = (vec![], 0i64);
        let mut dynamic = view.offsets.iter();
        for (n, stride) in view.static_offsets.iter().zip(strides) {
            if *n == DYNAMIC {
                let value = dynamic.next().ok_or("has too few offsets")?;
                terms.push((self.slot(*value), stride));
            } else {
                plus = plus.saturating_add(n.saturating_mul(stride));
            }
        }
        steps.push(Step::Shift {
            dst,
            src,
            terms,
            plus,
        });
        Ok(())
    }

    fn looped(&mut self, op: OpId, looped: &For, steps: &mut Vec<Step>) -> Result<(), Failure> {
        let ir = self.ir;
        let bounds = looped.all_bounds().ok_or("has no bounds")?;
        let bounds = bounds.map(|b| match b {
            Bounds::Static(n) => self.fresh(n),
            Bounds::Dynamic(v) => self.slot(v),
        });
        if bounds.iter().any(|b| !self.known[*b]) {
            return Err("has bounds that depend on data".into());
        }
        let block = ir.entry(looped.body).ok_or("has an empty region")?;
        let args: Vec<Value> = ir.args(block).collect();
        let args = self.slots_of(&args);
        let inits = self.slots_of(&looped.init);
        let body = self.region(looped.body)?;
        let end = ir.last(block).ok_or("has an empty region")?;
        let yields: Vec<Value> = ir.operands(end).collect();
        let yields = self.slots_of(&yields);
        let results: Vec<Value> = ir.results(op).collect();
        let results = self.slots_of(&results);
        steps.push(Step::Loop {
            bounds,
            iv: args[0],
            init: inits.into_iter().zip(args[1..].iter().copied()).collect(),
            body,
            carry: yields.into_iter().zip(args[1..].iter().copied()).collect(),
            out: args[1..].iter().copied().zip(results).collect(),
            op,
        });
        Ok(())
    }

    fn branch(&mut self, op: OpId, branch: &If, steps: &mut Vec<Step>) -> Result<(), Failure> {
        let ir = self.ir;
        let condition = self.slot(branch.condition);
        if !self.known[condition] && starts_work(ir, op) {
            return Err("starts work or not depending on data".into());
        }
        let results: Vec<Value> = ir.results(op).collect();
        let results = self.slots_of(&results);
        let mut branches = [vec![], vec![]];
        let mut yields = [vec![], vec![]];
        for (i, region) in [branch.then_region, branch.else_region]
            .into_iter()
            .enumerate()
        {
            branches[i] = self.region(region)?;
            if let Some(end) = ir.entry(region).and_then(|b| ir.last(b)) {
                let values: Vec<Value> = ir.operands(end).collect();
                yields[i] = self
                    .slots_of(&values)
                    .into_iter()
                    .zip(results.iter().copied())
                    .collect();
            }
        }
        steps.push(Step::If {
            condition,
            branches,
            yields,
        });
        Ok(())
    }
}

struct Run<'a> {
    stream: &'a Stream,
    ir: &'a Ir,
    vals: Vec<Val>,
    counts: Vec<u32>,
    left: u64,
    limit: u64,
    reads: Vec<Area>,
    writes: Vec<Area>,
    after: Vec<TokenId>,
}

impl Run<'_> {
    fn step(&mut self) -> Result<(), Failure> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            Failure::from(format!("the stream has more than {} steps", self.limit))
        })?;
        Ok(())
    }
    fn copy(&mut self, pairs: &[(Slot, Slot)]) {
        // All are read before any is written: carried values may be permuted.
        let vals: Vec<Val> = pairs.iter().map(|(from, _)| self.vals[*from]).collect();
        for ((_, to), val) in pairs.iter().zip(vals) {
            self.vals[*to] = val;
        }
    }
    fn steps(&mut self, steps: &[Step], sink: &mut dyn Sink) -> Result<(), Failure> {
        for step in steps {
            match step {
                Step::Int {
                    dst,
                    op,
                    args,
                    predicate,
                } => {
                    let [a, b, c] = args.map(|s| self.vals[s].a);
                    self.vals[*dst].a = int(*op, a, b, c, *predicate);
                }
                Step::Shift {
                    dst,
                    src,
                    terms,
                    plus,
                } => {
                    let mut val = self.vals[*src];
                    val.a += plus + terms.iter().map(|(s, n)| self.vals[*s].a * n).sum::<i64>();
                    self.vals[*dst] = val;
                }
                Step::Loop {
                    bounds,
                    iv,
                    init,
                    body,
                    carry,
                    out,
                    op,
                } => {
                    let [low, high, by] = bounds.map(|b| self.vals[b].a);
                    if by < 1 {
                        let error =
                            tir::Diagnostic::error(format!("has step {by}, expected at least 1"));
                        return Err(error.at(self.ir.loc(*op)).into());
                    }
                    self.copy(init);
                    let mut i = low;
                    while i < high {
                        self.step()?;
                        self.vals[*iv].a = i;
                        self.steps(body, sink)?;
                        self.copy(carry);
                        i += by;
                    }
                    self.copy(out);
                }
                Step::If {
                    condition,
                    branches,
                    yields,
                } => {
                    let which = usize::from(self.vals[*condition].a & 1 == 0);
                    self.steps(&branches[which], sink)?;
                    self.copy(&yields[which]);
                }
                Step::Mark { dst, queue } => {
                    self.vals[*dst] = Val {
                        a: self.counts[*queue].into(),
                        root: *queue,
                    };
                }
                Step::Point { point } => sink.point(*point),
                Step::Work {
                    site,
                    reads,
                    writes,
                    after,
                    token,
                } => {
                    for (feet, which) in [(reads, false), (writes, true)] {
                        let areas = if which {
                            &mut self.writes
                        } else {
                            &mut self.reads
                        };
                        areas.clear();
                        for foot in feet {
                            let val = self.vals[foot.view];
                            areas.push(Area {
                                root: val.root,
                                offset: val.a,
                                dims: foot.dims.clone(),
                                elem: foot.elem,
                            });
                        }
                    }
                    self.event(*site, after, *token, sink)?;
                }
                Step::Move {
                    site,
                    pattern,
                    far,
                    tile,
                    offsets,
                    read,
                    after,
                    token,
                } => {
                    let at: Vec<i64> = offsets.iter().map(|o| self.vals[*o].a).collect();
                    let (far, tile) = (self.vals[*far], self.vals[*tile]);
                    let (mut fars, mut tiles) = (vec![], vec![]);
                    for piece in pattern.pieces(&at) {
                        let side = |stride: fn(&(i64, i64, i64)) -> i64| {
                            piece.dims.iter().map(|d| (d.0, stride(d))).collect()
                        };
                        fars.push(Area {
                            root: far.root,
                            offset: far.a + piece.far,
                            dims: side(|d| d.1),
                            elem: pattern.elem,
                        });
                        tiles.push(Area {
                            root: tile.root,
                            offset: tile.a + piece.tile,
                            dims: side(|d| d.2),
                            elem: pattern.elem,
                        });
                    }
                    if *read {
                        // Padding is written too: the tile as a whole.
                        let dims = pattern
                            .tile_shape
                            .iter()
                            .copied()
                            .zip(pattern.tile_strides.iter().copied());
                        tiles = vec![Area {
                            root: tile.root,
                            offset: tile.a,
                            dims: dims.collect(),
                            elem: pattern.elem,
                        }];
                        (self.reads, self.writes) = (fars, tiles);
                    } else {
                        (self.reads, self.writes) = (tiles, fars);
                    }
                    self.event(*site, after, *token, sink)?;
                }
            }
        }
        Ok(())
    }

    fn event(
        &mut self,
        site: usize,
        after: &[Slot],
        token: Option<Slot>,
        sink: &mut dyn Sink,
    ) -> Result<(), Failure> {
        self.step()?;
        self.after.clear();
        for slot in after {
            let val = self.vals[*slot];
            self.after.push((val.root, val.a as u32));
        }
        for area in self.reads.iter().chain(&self.writes) {
            self.check(site, area)?;
        }
        if let Actor::Queue(queue) = self.stream.sites[site].actor {
            self.counts[queue] += 1;
            if let Some(token) = token {
                self.vals[token] = Val {
                    a: self.counts[queue].into(),
                    root: queue,
                };
            }
        }
        sink.event(&Event {
            site,
            reads: &self.reads,
            writes: &self.writes,
            after: &self.after,
        })
    }

    /// Views stay inside their buffers.
    fn check(&self, site: usize, area: &Area) -> Result<(), Failure> {
        let (mut low, mut high) = (area.offset, area.offset);
        for (count, stride) in area.dims.iter() {
            if *count == 0 {
                return Ok(());
            }
            let reach = (count - 1) * stride;
            low += reach.min(0);
            high += reach.max(0);
        }
        let root = &self.stream.roots[area.root];
        if low < 0 || high + area.elem > root.bytes {
            let (op, bytes) = (self.stream.sites[site].op, root.bytes);
            let text = format!(
                "'{}' touches bytes {low} to {} of {}, which has {bytes}",
                self.ir.name(op),
                high + area.elem,
                root.name
            );
            return Err(tir::Diagnostic::error(text).at(self.ir.loc(op)).into());
        }
        Ok(())
    }
}

/// Integer arithmetic on indices; what is not known gives 0 (and never reaches an address: loads
/// are the only source of what is not known).
fn int(op: Name, a: i64, b: i64, c: i64, predicate: i64) -> i64 {
    let unsigned = |a: i64| a as u64;
    match op.as_str() {
        "arith.addi" => a.wrapping_add(b),
        "arith.subi" => a.wrapping_sub(b),
        "arith.muli" => a.wrapping_mul(b),
        "arith.divsi" => a.checked_div(b).unwrap_or(0),
        "arith.divui" => unsigned(a).checked_div(unsigned(b)).unwrap_or(0) as i64,
        "arith.floordivsi" => a.checked_div_euclid(b).unwrap_or(0),
        "arith.ceildivsi" => a
            .wrapping_neg()
            .checked_div_euclid(b)
            .unwrap_or(0)
            .wrapping_neg(),
        "arith.remsi" => a.checked_rem(b).unwrap_or(0),
        "arith.remui" => unsigned(a).checked_rem(unsigned(b)).unwrap_or(0) as i64,
        "arith.andi" => a & b,
        "arith.ori" => a | b,
        "arith.xori" => a ^ b,
        "arith.minsi" => a.min(b),
        "arith.maxsi" => a.max(b),
        "arith.minui" => unsigned(a).min(unsigned(b)) as i64,
        "arith.maxui" => unsigned(a).max(unsigned(b)) as i64,
        "arith.select" => {
            if a & 1 != 0 {
                b
            } else {
                c
            }
        }
        "arith.cmpi" => i64::from(match predicate {
            0 => a == b,
            1 => a != b,
            2 => a < b,
            3 => a <= b,
            4 => a > b,
            5 => a >= b,
            6 => unsigned(a) < unsigned(b),
            7 => unsigned(a) <= unsigned(b),
            8 => unsigned(a) > unsigned(b),
            _ => unsigned(a) >= unsigned(b),
        }),
        "arith.index_cast" | "arith.index_castui" | "arith.extsi" | "arith.extui"
        | "arith.trunci" => a,
        _ => 0,
    }
}
