//! What can be written in place: one walk over a function, deciding for each written operand.
//!
//! An op may write a tensor's buffer in place unless somebody reads, after the write, what the
//! buffer held before it: a read of a tensor of that buffer whose content was made before the
//! write and is read behind it (or by the next iteration of a loop around both). The form of the
//! question is that of MLIR's one-shot analysis; values are decided in program order, holders
//! first.

use std::collections::{HashMap, HashSet};

use tir::{BlockId, Diagnostic, Failure, Ir, OpId, RegionId, TensorType, Traits, Value};
use tir_loop::{For, If, Yield};
use tir_memref::bufferize::{Bufferizable, Home, Part, Plan, bufferizable};

use super::alias::{Aliases, Root};
use super::conflict::Write;

/// What the walk finds out.
pub struct Analysis<'a> {
    pub(super) ir: &'a Ir,
    pub(super) known: HashMap<OpId, Box<dyn Bufferizable>>,
    pub(super) aliases: Aliases,
    /// Tensors whose content is not defined.
    pub(super) undefined: HashSet<Value>,
    /// The tensor that a view shows, that an in-place write changes, or that a loop begins with.
    pub(super) before: HashMap<Value, Value>,
    /// Parts taken out so far.
    pub(super) taken: Vec<Part>,
    /// What was decided.
    pub plan: Plan,
    /// Why something is not in place.
    pub remarks: Vec<Diagnostic>,
}

pub(crate) fn is_tensor(ir: &Ir, value: Value) -> bool {
    ir.ty(value).is::<TensorType>()
}

/// Whether an op has to do with tensors, apart from what is in its regions.
pub(crate) fn touches_tensors(ir: &Ir, op: OpId) -> bool {
    ir.operands(op)
        .chain(ir.results(op))
        .any(|v| is_tensor(ir, v))
}

impl<'a> Analysis<'a> {
    /// Analyses a function whose body is one block; what may be wrong is an op that is not known
    /// to work on buffers.
    pub fn run(ir: &'a Ir, body: RegionId, plan: Plan) -> Result<Self, Vec<Diagnostic>> {
        let mut this = Self {
            ir,
            known: HashMap::new(),
            aliases: Aliases::default(),
            undefined: HashSet::new(),
            before: HashMap::new(),
            taken: Vec::new(),
            plan,
            remarks: Vec::new(),
        };
        for op in ir.walk_ids() {
            if touches_tensors(ir, op)
                && let Some(known) = bufferizable(ir, op)
            {
                this.known.insert(op, known);
            }
        }
        let mut errors = Vec::new();
        for (index, block) in ir.blocks(body).enumerate() {
            let tensors: Vec<Value> = ir.args(block).filter(|v| is_tensor(ir, *v)).collect();
            if index > 0 && !tensors.is_empty() {
                let error = "tensors are handed from block to block; buffers take structured loops and conditions only";
                errors.push(Diagnostic::error(error).at(ir.loc(ir.root())));
            }
            tensors
                .into_iter()
                .for_each(|v| this.aliases.add(v, Root::Argument));
        }
        if errors.is_empty() {
            ir.blocks(body)
                .for_each(|block| this.block(block, &mut errors));
        }
        if errors.is_empty() {
            Ok(this)
        } else {
            Err(errors)
        }
    }

    /// Where the buffer of a tensor comes from.
    pub fn root(&self, value: Value) -> Option<Root> {
        self.aliases.root(value)
    }
    /// Whether two tensors are one buffer.
    pub fn same(&self, a: Value, b: Value) -> bool {
        self.aliases.same(a, b)
    }
    /// Whether two tensors may overlap.
    pub fn near(&self, a: Value, b: Value) -> bool {
        self.aliases.near(a, b)
    }

    fn block(&mut self, block: BlockId, errors: &mut Vec<Diagnostic>) {
        for op in self.ir.ops_in(block) {
            if let Err(error) = self.op(op, errors) {
                let name = self.ir.name(op);
                errors.push(
                    error
                        .or_at(self.ir.loc(op))
                        .context(format_args!("'{name}' ")),
                );
            }
        }
    }

    fn op(&mut self, op: OpId, errors: &mut Vec<Diagnostic>) -> Result<(), Failure> {
        let ir = self.ir;
        if let Some(record) = ir.get::<For>(op) {
            self.enter_loop(op, &record);
            ir.blocks(record.body)
                .for_each(|block| self.block(block, errors));
            self.leave_loop(op, &record);
            return Ok(());
        }
        if let Some(record) = ir.get::<If>(op) {
            for region in [record.then_region, record.else_region] {
                ir.blocks(region)
                    .for_each(|block| self.block(block, errors));
            }
            self.leave_if(op, &record);
            return Ok(());
        }
        if !touches_tensors(ir, op) {
            // Regions of ops that are not about tensors may hold some that are.
            for region in ir.regions(op) {
                ir.blocks(region)
                    .for_each(|block| self.block(block, errors));
            }
            return Ok(());
        }
        if ir.has(op, Traits::ReturnLike) {
            return Ok(());
        }
        if ir.has(op, Traits::ConstantLike) {
            ir.results(op)
                .for_each(|v| self.aliases.add(v, Root::Constant));
            return Ok(());
        }
        if ir.is::<tir_func::Call>(op) {
            for (i, value) in ir
                .results(op)
                .enumerate()
                .filter(|(_, v)| is_tensor(ir, *v))
            {
                self.aliases.add(value, Root::Made(Home::Result(op, i)));
            }
            return Ok(());
        }
        let Some(known) = self.known.get(&op) else {
            return Err("works on tensors, and is not known to work on buffers".into());
        };
        let ties = known.ties(ir.op(op));
        if known.is_undefined(ir.op(op)) {
            self.undefined.extend(ir.results(op));
        }
        self.taken.extend(known.takes(ir.op(op)));
        for (index, result) in ir
            .results(op)
            .enumerate()
            .filter(|(_, v)| is_tensor(ir, *v))
        {
            let Some(tie) = ties.iter().find(|tie| tie.result == index) else {
                self.aliases
                    .add(result, Root::Made(Home::Result(op, index)));
                continue;
            };
            let operand = ir.operand(op, tie.operand);
            if !tie.writes {
                self.aliases.join(result, operand, false);
                self.before.insert(result, operand);
            } else {
                self.write(
                    Write {
                        op,
                        operand: tie.operand,
                    },
                    result,
                );
            }
        }
        self.mark_placed(op);
        Ok(())
    }

    /// Decides a write whose result is a tensor: in place, or into a buffer of its own.
    fn write(&mut self, w: Write, result: Value) {
        let operand = self.ir.operand(w.op, w.operand);
        match self.obstacle(w) {
            None => {
                self.aliases.join(result, operand, true);
                self.before.insert(result, operand);
            }
            Some(reason) => {
                let copy = self.reads(w.op, w.operand) && !self.is_undefined(operand);
                if copy {
                    let name = self.ir.name(w.op);
                    let text = format!(
                        "'{name}' copies operand {}, a {}, before it writes it",
                        w.operand,
                        self.ir.ty(operand)
                    );
                    self.remarks
                        .push(reason(Diagnostic::remark(text).at(self.ir.loc(w.op))));
                }
                self.plan.apart.insert((w.op, w.operand), copy);
                self.aliases
                    .add(result, Root::Made(Home::Operand(w.op, w.operand)));
            }
        }
    }

    /// Carried tensors: one buffer for what comes in, the argument and the result.
    fn enter_loop(&mut self, op: OpId, record: &For) {
        let ir = self.ir;
        let Some(block) = ir.entry(record.body) else {
            return;
        };
        let Some(end) = ir.last(block).filter(|end| ir.is::<Yield>(*end)) else {
            return;
        };
        let first = record.bounds.len();
        for (i, init) in record
            .init
            .iter()
            .enumerate()
            .filter(|(_, v)| is_tensor(ir, **v))
        {
            let (arg, result) = (ir.arg(block, i + 1), ir.result(op, i));
            // What is handed on as it is, is not written.
            if ir.operand(end, i) == arg {
                self.aliases.join(arg, *init, true);
                self.before.insert(arg, *init);
            } else {
                self.write(
                    Write {
                        op,
                        operand: first + i,
                    },
                    arg,
                );
            }
            self.aliases.join(result, arg, true);
            self.before.insert(result, arg);
        }
    }

    /// What is handed on in another buffer is copied; if that is the buffer of another carried
    /// tensor, the copies go by way of buffers of their own.
    fn leave_loop(&mut self, op: OpId, record: &For) {
        let ir = self.ir;
        let Some(block) = ir.entry(record.body) else {
            return;
        };
        let Some(end) = ir.last(block).filter(|end| ir.is::<Yield>(*end)) else {
            return;
        };
        let carried: Vec<(Value, Value)> = ir
            .operands(end)
            .zip(ir.args(block).skip(1))
            .filter(|(v, _)| is_tensor(ir, *v))
            .collect();
        let moved: Vec<(Value, Value)> = carried
            .into_iter()
            .filter(|(new, arg)| !self.same(*new, *arg))
            .collect();
        for (i, (new, _)) in moved.iter().enumerate() {
            let text = format!(
                "'{}' copies a {} to where it is carried",
                ir.name(end),
                ir.ty(*new)
            );
            self.remarks.push(Diagnostic::remark(text).at(ir.loc(end)));
            if moved
                .iter()
                .enumerate()
                .any(|(j, (_, arg))| i != j && self.near(*new, *arg))
            {
                self.plan.crossing.insert(op);
            }
        }
    }

    /// The memory space that a tensor's buffer is to lie in; none is the far one.
    pub fn space(&self, value: Value) -> Option<&'static str> {
        let mut value = value;
        loop {
            match self.root(value)? {
                Root::Argument | Root::Constant => return None,
                Root::View => value = *self.before.get(&value)?,
                Root::Made(Home::Result(op, _)) => return self.ir.attr(op, "space")?.as_str(),
                Root::Made(Home::Operand(op, operand)) => value = self.ir.operand(op, operand),
            }
        }
    }

    /// The result of a condition is the tensor that both sides come from, if it is one.
    fn leave_if(&mut self, op: OpId, record: &If) {
        let ir = self.ir;
        let ends = [record.then_region, record.else_region].map(|region| {
            let last = ir.entry(region).and_then(|block| ir.last(block));
            last.filter(|end| ir.is::<Yield>(*end))
        });
        for (i, result) in ir
            .results(op)
            .enumerate()
            .filter(|(_, v)| is_tensor(ir, *v))
        {
            if let [Some(a), Some(b)] = ends {
                let (a, b) = (ir.operand(a, i), ir.operand(b, i));
                let shared = std::iter::successors(Some(a), |v| self.before.get(v).copied());
                let outside = |v: &Value| {
                    let owner = ir.value_block(*v).and_then(|block| ir.block_parent(block));
                    self.same(*v, a) && !owner.is_some_and(|owner| ir.is_below(owner, op))
                };
                if self.same(a, b)
                    && let Some(base) = shared.into_iter().find(outside)
                {
                    self.aliases.join(result, base, true);
                    self.before.insert(result, base);
                    self.plan.joined.insert(result, base);
                    continue;
                }
            }
            self.aliases.add(result, Root::Made(Home::Result(op, i)));
        }
    }

    fn is_undefined(&self, value: Value) -> bool {
        let mut value = value;
        loop {
            if self.undefined.contains(&value) {
                return true;
            }
            // A view of it; what is written or carried is defined.
            match (self.ir.owner(value), self.before.get(&value)) {
                (Some(op), Some(base))
                    if self
                        .known
                        .get(&op)
                        .is_some_and(|k| !k.ties(self.ir.op(op)).iter().any(|t| t.writes)) =>
                {
                    value = *base
                }
                _ => return false,
            }
        }
    }

    pub(super) fn reads(&self, op: OpId, operand: usize) -> bool {
        let known = self.known.get(&op);
        known.is_none_or(|known| known.reads(self.ir.op(op), operand))
    }

    /// A put in place of a part that stands there costs nothing.
    fn mark_placed(&mut self, op: OpId) {
        let Some(put) = self
            .known
            .get(&op)
            .and_then(|known| known.puts(self.ir.op(op)))
        else {
            return;
        };
        let written = self.ir.operands(op).position(|v| v == put.whole);
        let apart = written.is_none_or(|operand| self.plan.apart.contains_key(&(op, operand)));
        if !apart && self.stands_at(put.part, &put) {
            self.plan.placed.insert(op);
        } else {
            let name = self.ir.name(op);
            let text = format!(
                "'{name}' copies a {} to where it belongs",
                self.ir.ty(put.part)
            );
            self.remarks
                .push(Diagnostic::remark(text).at(self.ir.loc(op)));
        }
    }
}
