//! The compiler: what ops call to become instructions.
//!
//! *Terms.* A **slot** is where a value lives: a scalar register (64 bits of one kind) or an object
//! register (a tensor, view, wide integer or a dialect's object). A **port** is a slot at a place
//! where it is read, with whether that is the last time. A **native** is a function of the dialect
//! that runs as one instruction. A **site** is the op that an instruction was made for.
//!
//! *Invariants.* A value has one slot in a function and is written before it is read, which the
//! verifier's dominance gives. The kind of a scalar register is fixed when it is made, so running code
//! never looks at kinds. Recursion is as deep as regions nest, and that has a limit.

mod scalars;

use std::collections::HashMap;
use std::rc::Rc;

use tir_core::{BlockId, Failure, Ir, Name, OpId, OpRef, RegionId, Traits, Value};

use crate::code::{CallSite, Code, Instr, Label, Native, Offset, Port, Reg, Slot, Subview};
use crate::data::Data;
use crate::env::Env;
use crate::hooks::{EvaluateOp, LowerOp};
use crate::interpreter::Evaluation;
use crate::memory::Site;
use crate::ops::ScalarOp;
use crate::scalar::{Kind, Scalar};
use crate::work::computes;

/// How deep regions may nest: lowering recurses.
const NESTING: u32 = 200;

/// Turns the ops of a function into instructions.
///
/// A value has a register of its own: a scalar register if its type is a scalar, an object
/// register else. Ops name values; [`Compiler::reg`] and [`Compiler::temp`] give scalar registers
/// where one op becomes several instructions.
pub struct Compiler<'m> {
    pub(crate) ir: &'m Ir,
    pub(crate) code: Code<'m>,
    slots: HashMap<Value, Slot>,
    numbers: HashMap<Scalar, Reg>,
    labels: u32,
    pub(crate) blocks: HashMap<BlockId, Label>,
    pub(crate) op: Option<OpId>,
    nesting: u32,
    /// Whether this is the region of a kernel: only scalar operations are allowed.
    pub(crate) kernel: bool,
    /// Registers of a kernel's iterators.
    pub(crate) iterators: Vec<Reg>,
    /// Ops whose end the memory is told.
    watched: Option<Rc<HashMap<OpId, u32>>>,
    /// Loops whose iterations the memory is asked about.
    watched_loops: Option<Rc<HashMap<OpId, u32>>>,
    /// Whether the memory is told of scalar operations on data.
    counts_work: bool,
}

impl<'m> Compiler<'m> {
    pub(crate) fn new(ir: &'m Ir, name: Name) -> Self {
        let code = Code {
            name,
            params: Vec::new(),
            instrs: Vec::new(),
            sites: Vec::new(),
            ops: vec![Site {
                host: true,
                ..Site::of(ir.op(ir.root()))
            }],
            scalars: Vec::new(),
            objects: 0,
            constants: Vec::new(),
            lists: Vec::new(),
            natives: Vec::new(),
            calls: Vec::new(),
            returns: Vec::new(),
            cursors: Vec::new(),
            messages: Vec::new(),
            parts: Vec::new(),
        };
        Self {
            ir,
            code,
            slots: HashMap::new(),
            numbers: HashMap::new(),
            labels: 0,
            blocks: HashMap::new(),
            op: None,
            nesting: 0,
            kernel: false,
            iterators: Vec::new(),
            watched: None,
            watched_loops: None,
            counts_work: false,
        }
    }

    /// The arena of the function.
    pub fn ir(&self) -> &'m Ir {
        self.ir
    }

    // Registers.

    /// The scalar register of a value.
    pub fn reg(&mut self, value: Value) -> Result<Reg, Failure> {
        match self.slot(value) {
            Slot::Scalar(reg) => Ok(reg),
            Slot::Object(_) => Err(format!("{} is not a scalar", self.ir.ty(value)).into()),
        }
    }
    /// The object register of a value.
    pub(crate) fn object(&mut self, value: Value) -> Result<u32, Failure> {
        match self.slot(value) {
            Slot::Object(index) => Ok(index),
            Slot::Scalar(_) => Err(format!("{} is a scalar", self.ir.ty(value)).into()),
        }
    }
    pub(crate) fn slot(&mut self, value: Value) -> Slot {
        if let Some(slot) = self.slots.get(&value) {
            return *slot;
        }
        let slot = match Kind::of(self.ir.ty(value)) {
            Some(kind) => Slot::Scalar(self.temp(kind)),
            None => Slot::Object(self.new_object()),
        };
        self.slots.insert(value, slot);
        slot
    }
    pub(crate) fn slots_equal(&self, value: Value, slot: Slot) -> bool {
        self.slots.get(&value) == Some(&slot)
    }
    pub(crate) fn has_slot(&self, value: Value) -> bool {
        self.slots.contains_key(&value)
    }
    pub(crate) fn set_slot(&mut self, value: Value, slot: Slot) {
        self.slots.insert(value, slot);
    }
    /// A new scalar register.
    pub fn temp(&mut self, kind: Kind) -> Reg {
        self.code.scalars.push(0);
        Reg {
            index: self.code.scalars.len() as u32 - 1,
            kind,
        }
    }
    pub(crate) fn new_object(&mut self) -> u32 {
        self.code.objects += 1;
        self.code.objects - 1
    }
    /// The register of iterator `dim`, in the region of a kernel.
    pub fn iterator(&self, dim: usize) -> Result<Reg, Failure> {
        let found = self.iterators.get(dim).copied();
        found.ok_or_else(|| format!("iterator {dim} does not exist here").into())
    }

    /// Whether the op that is being lowered is the last to use the value, so that the value may
    /// be moved away from its register. Conservative.
    pub(crate) fn last_use(&self, value: Value) -> bool {
        let Some(op) = self.op else {
            return false;
        };
        let Some(block) = self.ir.value_block(value) else {
            return false;
        };
        // Constants are there from the start of the function; their block may run again.
        let is_constant = |owner| self.ir.has(owner, Traits::ConstantLike);
        if self.ir.owner(value).is_some_and(is_constant) {
            return false;
        }
        if self.ir.block_of(op) != Some(block) || self.ir.uses(value).len() > 64 {
            return false;
        }
        self.ir.uses(value).all(|u| {
            u.op == op
                || self
                    .ir
                    .ancestor_in(u.op, block)
                    .is_some_and(|a| self.ir.is_before(a, op))
        })
    }
    pub(crate) fn ports(&mut self, values: &[Value]) -> Vec<Port> {
        let mut ports: Vec<Port> = Vec::with_capacity(values.len());
        for (i, value) in values.iter().enumerate() {
            // Of several uses by one op the last one moves.
            let last = !values[i + 1..].contains(value) && self.last_use(*value);
            ports.push(Port {
                slot: self.slot(*value),
                last,
            });
        }
        ports
    }

    // Instructions.

    pub(crate) fn push(&mut self, instr: Instr) {
        self.code.instrs.push(instr);
        self.code.sites.push(self.code.ops.len() as u32 - 1);
    }
    /// Reads the element of a memref.
    pub fn load(&mut self, result: Value, view: Value, indices: &[Value]) -> Result<(), Failure> {
        let (dst, view) = (self.reg(result)?, self.object(view)?);
        let (list, rank) = self.list(indices)?;
        self.push(Instr::Load {
            dst: dst.index,
            view,
            list,
            rank,
            kind: dst.kind,
        });
        Ok(())
    }
    /// Writes the element of a memref.
    pub fn store(&mut self, value: Value, view: Value, indices: &[Value]) -> Result<(), Failure> {
        let (src, view) = (self.reg(value)?, self.object(view)?);
        let (list, rank) = self.list(indices)?;
        self.push(Instr::Store {
            src: src.index,
            view,
            list,
            rank,
            kind: src.kind,
        });
        Ok(())
    }
    fn list(&mut self, values: &[Value]) -> Result<(u32, u8), Failure> {
        let at = self.code.lists.len() as u32;
        let regs = values.iter().map(|v| Ok(self.reg(*v)?.index));
        let regs = regs.collect::<Result<Vec<u32>, Failure>>()?;
        let rank = u8::try_from(regs.len()).map_err(|_| "too many indices")?;
        self.code.lists.extend(regs);
        Ok((at, rank))
    }
    /// Runs Rust code: `run` gets the operands (a value used for the last time is moved in, so
    /// that a tensor can be taken and changed in place) and gives a value for each result.
    pub fn native(
        &mut self,
        inputs: &[Value],
        results: &[Value],
        run: impl Fn(&mut Env<'m>, &mut [Data]) -> Result<Vec<Data>, Failure> + 'm,
    ) {
        let inputs = self.ports(inputs);
        self.push_native(inputs, results, run);
    }
    /// As [`native`](Self::native) for code that only looks at its operands: they stay in their
    /// registers, so that a view there can be made anew in place.
    pub fn native_by_ref(
        &mut self,
        inputs: &[Value],
        results: &[Value],
        run: impl Fn(&mut Env<'m>, &mut [Data]) -> Result<Vec<Data>, Failure> + 'm,
    ) {
        let mut inputs = self.ports(inputs);
        inputs.iter_mut().for_each(|port| port.last = false);
        self.push_native(inputs, results, run);
    }
    fn push_native(
        &mut self,
        inputs: Vec<Port>,
        results: &[Value],
        run: impl Fn(&mut Env<'m>, &mut [Data]) -> Result<Vec<Data>, Failure> + 'm,
    ) {
        let outputs = results.iter().map(|v| self.slot(*v)).collect();
        self.code.natives.push(Native {
            run: Rc::new(run),
            inputs,
            outputs,
        });
        self.push(Instr::Native(self.code.natives.len() as u32 - 1));
    }
    /// A part of a view: `offsets` are numbers, or values where they are [`tir_core::DYNAMIC`];
    /// sizes and steps are numbers. `keep` says which dimensions are left.
    pub fn part(
        &mut self,
        result: Value,
        source: Value,
        (offsets, values): (&[i64], &[Value]),
        (sizes, steps): (&[i64], &[i64]),
        keep: &[bool],
    ) -> Result<(), Failure> {
        let (dst, src) = (self.object(result)?, self.object(source)?);
        if [sizes.len(), steps.len(), keep.len()] != [offsets.len(); 3] {
            return Err("has offsets, sizes and strides of different numbers".into());
        }
        let mut values = values.iter();
        let mut list = Vec::with_capacity(offsets.len());
        for n in offsets {
            list.push(match *n {
                tir_core::DYNAMIC => {
                    let value = values.next().ok_or("has too few offsets")?;
                    Offset::Reg(self.reg(*value)?.index)
                }
                n => Offset::Number(n),
            });
        }
        self.code.parts.push(Subview {
            dst,
            src,
            offsets: list,
            sizes: sizes.to_vec(),
            steps: steps.to_vec(),
            keep: keep.to_vec(),
        });
        self.push(Instr::Subview(self.code.parts.len() as u32 - 1));
        Ok(())
    }
    /// Calls a function of the module.
    pub fn call(&mut self, callee: Name, args: &[Value], results: &[Value]) {
        let inputs = self.ports(args);
        let outputs = results.iter().map(|v| self.slot(*v)).collect();
        let code = std::cell::OnceCell::new();
        self.code.calls.push(CallSite {
            callee,
            inputs,
            outputs,
            code,
        });
        self.push(Instr::Call(self.code.calls.len() as u32 - 1));
    }
    /// Returns from the function.
    pub fn ret(&mut self, values: &[Value]) {
        let ports = self.ports(values);
        self.code.returns.push(ports);
        self.push(Instr::Return(self.code.returns.len() as u32 - 1));
    }
    /// Fails when it is reached: `cf.assert`, `ub.unreachable`.
    pub fn fail(&mut self, message: impl Into<String>) {
        self.code.messages.push(message.into());
        self.push(Instr::Fail(self.code.messages.len() as u32 - 1));
    }
    /// Fails unless an `i1` is true. A run without data takes one that depends on data to be: what comes behind is only of
    /// interest if it holds.
    pub fn check(&mut self, cond: Reg, message: impl Into<String>) {
        self.code.messages.push(message.into());
        self.push(Instr::Check {
            cond: cond.index,
            message: self.code.messages.len() as u32 - 1,
        });
    }
    /// A new place to jump to, not placed yet.
    pub fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    // Ops.

    /// The number of the loop that is lowered, if it is watched.
    pub(crate) fn watched_loop(&self) -> Option<u32> {
        let loops = self.watched_loops.as_ref()?;
        loops.get(&self.op?).copied()
    }

    /// Lowers an op: by its hook, as a constant, or as a call of its `evaluate`.
    pub fn lower(&mut self, id: OpId) -> Result<(), Failure> {
        let outer = (self.op, self.code.ops.len() as u32 - 1);
        let op = self.ir.op(id);
        let site = Site::of(op);
        self.code.ops.push(site);
        self.op = Some(id);
        self.nesting += 1;
        let done = self.lower_op(op).map_err(|e| placed(e, site));
        if self.counts_work && computes(self.ir, id) {
            self.push(Instr::Work(1));
        }
        let number = self.watched.as_ref().and_then(|w| w.get(&id).copied());
        if let Some(number) = number {
            self.push(Instr::Passed(number));
        }
        self.nesting -= 1;
        self.op = outer.0;
        // Later instructions of the op around belong to that op again.
        if let Some(site) = self.code.ops.get(outer.1 as usize).copied() {
            self.code.ops.push(site);
        }
        done
    }
    fn lower_op(&mut self, op: OpRef<'m>) -> Result<(), Failure> {
        if self.nesting > NESTING {
            return Err(format!("regions nest deeper than {NESTING}").into());
        }
        let info = op.info().ok_or("the op is not known, so it cannot run")?;
        if let Some(hook) = info.interface::<dyn LowerOp>() {
            return hook.lower(op, self);
        }
        let results: Vec<Value> = self.ir.results(op.id).collect();
        if info.has(Traits::ConstantLike)
            && let ([result], Some(value)) = (&results[..], op.attr("value"))
        {
            return self.constant(*result, value);
        }
        let operands: Vec<Value> = self.ir.operands(op.id).collect();
        if let Some(hook) = info.interface::<dyn EvaluateOp>() {
            let count = results.len();
            let evaluation = Evaluation::of(hook, op);
            self.native(&operands, &results, move |_, inputs| {
                if inputs.iter().any(Data::is_unknown) {
                    return Ok(vec![Data::Unknown; count]);
                }
                evaluation.run(inputs)
            });
            return Ok(());
        }
        if info.has(Traits::ReturnLike) && self.ir.parent(op.id) == Some(self.ir.root()) {
            self.ret(&operands);
            return Ok(());
        }
        Err("the op says neither how it is evaluated nor how it is lowered to run".into())
    }
    /// Lowers the ops of a block but its terminator, and gives the terminator's operands.
    pub fn block(&mut self, block: BlockId) -> Result<Vec<Value>, Failure> {
        let last = self.ir.last(block);
        let end = last.filter(|op| self.ir.info(*op).is_none_or(|i| i.has(Traits::Terminator)));
        let ops: Vec<OpId> = self.ir.ops_in(block).collect();
        for op in ops {
            if Some(op) != end {
                self.lower(op)?;
            }
        }
        Ok(end.map_or_else(Vec::new, |op| self.ir.operands(op).collect()))
    }
    /// The only block of a region.
    pub fn only_block(&self, region: RegionId) -> Result<BlockId, Failure> {
        let mut blocks = self.ir.blocks(region);
        match (blocks.next(), blocks.next()) {
            (Some(block), None) => Ok(block),
            _ => Err("a region without exactly one block cannot run here".into()),
        }
    }
    /// Runs the only block of a region in place: its arguments become `args`; gives the operands
    /// of its terminator.
    pub fn inline(&mut self, region: RegionId, args: &[Value]) -> Result<Vec<Value>, Failure> {
        let block = self.only_block(region)?;
        let params: Vec<Value> = self.ir.args(block).collect();
        self.assign(args, &params)?;
        self.block(block)
    }

    /// Ends the code: labels become positions.
    pub(crate) fn finish(mut self) -> Result<Code<'m>, Failure> {
        let mut at = vec![0u32; self.labels as usize];
        let mut kept = 0;
        for instr in &self.code.instrs {
            match instr {
                Instr::Label(l) => at[*l as usize] = kept,
                _ => kept += 1,
            }
        }
        let place = |l: &mut u32| *l = at[*l as usize];
        let mut instrs = Vec::with_capacity(kept as usize);
        let mut sites = Vec::with_capacity(kept as usize);
        for (mut instr, site) in self.code.instrs.into_iter().zip(self.code.sites) {
            match &mut instr {
                Instr::Label(_) => continue,
                Instr::Jump(to) | Instr::JumpIf { to, .. } | Instr::JumpUnless { to, .. } => {
                    place(to)
                }
                Instr::LoopEnter { exit, .. } => place(exit),
                Instr::LoopNext { body, .. } => place(body),
                _ => {}
            }
            instrs.push(hot(instr));
            sites.push(site);
        }
        self.code.instrs = instrs;
        self.code.sites = sites;
        Ok(self.code)
    }
}

/// The undispatched form of the most frequent operations.
fn hot(instr: Instr) -> Instr {
    use crate::ops::{FloatOp, IntOp};
    let Instr::Op { op, dst, a, b, .. } = instr else {
        return instr;
    };
    match op {
        ScalarOp::Int(IntOp::Add, k) if k.width() == 64 => Instr::AddI { dst, a, b },
        ScalarOp::Int(IntOp::Mul, k) if k.width() == 64 => Instr::MulI { dst, a, b },
        ScalarOp::Float(FloatOp::Add, Kind::F32) => Instr::AddF { dst, a, b },
        ScalarOp::Float(FloatOp::Sub, Kind::F32) => Instr::SubF { dst, a, b },
        ScalarOp::Float(FloatOp::Mul, Kind::F32) => Instr::MulF { dst, a, b },
        _ => instr,
    }
}

/// The failure with name and place of the op it is of, unless it has a place already.
pub(crate) fn placed(error: Failure, site: Site) -> Failure {
    if !error.loc.is_unknown() || error.message.starts_with('\'') {
        return error;
    }
    Box::new(
        (*error)
            .at(site.loc)
            .context(format_args!("'{}': ", site.op)),
    )
}

/// Compiles the function that defines a symbol.
pub(crate) fn compile_function<'m>(
    env: &Env<'m>,
    name: Name,
    op: OpRef<'m>,
) -> Result<Code<'m>, Failure> {
    let site = Site::of(op);
    let (ir, id) = op.inner();
    let region = ir.regions(id).next().filter(|r| ir.entry(*r).is_some());
    let region = region.ok_or_else(|| placed(format!("@{name} has no body").into(), site))?;
    let mut cx = Compiler::new(ir, name);
    cx.watched = env.watched();
    cx.watched_loops = env.watched_loops();
    cx.counts_work = env.counts_work;
    cx.function(region).map_err(|e| placed(e, site))?;
    cx.finish()
}
