//! What can be written in place: one walk over a function, deciding for each written operand.
//!
//! An op may write a tensor's buffer in place unless there is a *read-after-write conflict*: a read
//! of a tensor of that buffer whose content was made before the write and is read behind it, in the
//! next iteration of a loop around both, or when control comes round by branches. The form of the
//! question is that of MLIR's one-shot analysis; values are decided in program order, holders
//! first, and blocks after those that dominate them.
//!
//! A tensor argument of a block is the beginning of a buffer of its own: a branch copies into it
//! what is not there already. Such a copy is no write that can conflict, since no value that lies
//! in that buffer can be used in the block before it is made anew there; only values handed over
//! together may be in each other's way ([`Decisions::crossing`]).

use std::collections::{HashMap, HashSet};

use tir::{
    Attr, BlockId, Diagnostic, Dominance, Failure, Ir, OpId, RegionId, TensorType, Traits, Value,
};
use tir_loop::{For, If, Yield};
use tir_memref::bufferize::{AliasingOperand, BufferizableOp, Subset, bufferizable};

use crate::alias_info::{Aliases, Root};
use crate::branches::successor_operands;
use crate::buffers::{AllocationSite, Decisions};
use crate::conflict::{Write, disjoint, is_whole};

/// What the walk finds out.
pub struct Analysis<'a> {
    pub(super) ir: &'a Ir,
    pub(super) known: HashMap<OpId, Known>,
    pub(super) aliases: Aliases,
    /// The tensor that a view shows, that an in-place write changes, or that a loop begins with.
    pub(super) before: HashMap<Value, Value>,
    /// Subsets extracted so far.
    pub(super) extracted: Vec<Subset>,
    /// Which of them a tensor is.
    pub(super) part: HashMap<Value, usize>,
    /// Tensors that are all of another one in another shape, and that one.
    pub(super) reshaped: Vec<(Value, Value)>,
    /// What was decided.
    pub decisions: Decisions,
    /// Why something is not in place.
    pub remarks: Vec<Diagnostic>,
}

/// What an op says of itself, asked once: ops with many operands are asked often.
pub(super) struct Known {
    op: &'static dyn BufferizableOp,
    pub(super) aliasing: Vec<AliasingOperand>,
    /// Whether each operand is read.
    reads: Vec<bool>,
}

impl Known {
    fn of(ir: &Ir, op: OpId) -> Option<Self> {
        let known = bufferizable(ir, op)?;
        let operands = 0..ir.operands(op).len();
        Some(Self {
            op: known,
            aliasing: known.aliasing_operands(ir.op(op)),
            reads: operands
                .map(|operand| known.bufferizes_to_memory_read(ir.op(op), operand))
                .collect(),
        })
    }
}

impl std::ops::Deref for Known {
    type Target = dyn BufferizableOp;
    fn deref(&self) -> &Self::Target {
        self.op
    }
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

/// The blocks of a region, each after those that dominate it; what is never reached comes last.
pub(crate) fn blocks(ir: &Ir, region: RegionId) -> Vec<BlockId> {
    let mut order = Dominance::default().order(ir, region);
    let reached: HashSet<BlockId> = order.iter().copied().collect();
    order.extend(ir.blocks(region).filter(|block| !reached.contains(block)));
    order
}

impl<'a> Analysis<'a> {
    /// Analyses a function; what may be wrong is an op that is not known to work on buffers.
    pub fn run(ir: &'a Ir, body: RegionId, decisions: Decisions) -> Result<Self, Vec<Diagnostic>> {
        let mut this = Self {
            ir,
            known: HashMap::new(),
            aliases: Aliases::default(),
            before: HashMap::new(),
            extracted: Vec::new(),
            part: HashMap::new(),
            reshaped: Vec::new(),
            decisions,
            remarks: Vec::new(),
        };
        for op in ir.walk_ids() {
            if touches_tensors(ir, op)
                && let Some(known) = Known::of(ir, op)
            {
                this.known.insert(op, known);
            }
        }
        let mut errors = Vec::new();
        let blocks = blocks(ir, body);
        for block in &blocks {
            let entry = ir.entry(body) == Some(*block);
            for arg in ir.args(*block).filter(|v| is_tensor(ir, *v)) {
                let own = Root::Allocated(AllocationSite::Argument(arg));
                this.aliases
                    .add(arg, if entry { Root::Argument } else { own });
            }
        }
        for block in &blocks {
            this.block(*block, &mut errors);
        }
        for block in &blocks {
            this.leave_block(*block, &mut errors);
        }
        this.spaces_of_arguments(&blocks);
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
        // What is returned or handed to a block is read there.
        if ir.has(op, Traits::ReturnLike) || ir.successors(op).len() > 0 {
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
                self.aliases
                    .add(value, Root::Allocated(AllocationSite::Result(op, i)));
            }
            return Ok(());
        }
        let Some(known) = self.known.get(&op) else {
            return Err("works on tensors, and is not known to work on buffers".into());
        };
        let aliasing = known.aliasing.clone();
        if known.results_are_undefined(ir.op(op)) {
            let results = ir.results(op).map(|v| (v, None));
            self.decisions.partial.extend(results);
        }
        if let Some(subset) = known.subset_extraction(ir.op(op)) {
            self.part.insert(subset.part, self.extracted.len());
            self.extracted.push(subset);
        }
        if known.reshapes(ir.op(op)) {
            self.reshaped.push((ir.result(op, 0), ir.operand(op, 0)));
        }
        for (index, result) in ir
            .results(op)
            .enumerate()
            .filter(|(_, v)| is_tensor(ir, *v))
        {
            let mut operands = aliasing.iter().filter(|a| a.result == index);
            let (first, second) = (operands.next(), operands.next());
            if second.is_some() {
                let operands = aliasing.iter().filter(|a| a.result == index);
                let bases: Vec<Value> = operands.map(|a| ir.operand(op, a.operand)).collect();
                self.one_of(result, &bases);
                continue;
            }
            let Some(operand) = first else {
                self.aliases
                    .add(result, Root::Allocated(AllocationSite::Result(op, index)));
                continue;
            };
            let base = ir.operand(op, operand.operand);
            if let Some(defined) = self.defined_part(op, base, operand.writes) {
                self.decisions.partial.insert(result, defined);
            }
            if !operand.writes {
                self.aliases.join(result, base, false);
                self.before.insert(result, base);
            } else {
                let operand = operand.operand;
                self.write(Write { op, operand }, result);
            }
        }
        self.mark_inserted_in_place(op);
        Ok(())
    }

    /// The result of an op that lies in the buffer of one of some tensors, of which is not known.
    fn one_of(&mut self, result: Value, bases: &[Value]) {
        for base in bases {
            self.aliases.join(result, *base, false);
        }
        let mut spaces: Vec<Option<&str>> = bases.iter().map(|v| self.space(*v)).collect();
        spaces.dedup();
        if let [Some(space)] = spaces[..] {
            self.decisions.spaces.insert(result, Attr::str(space));
        }
    }

    /// The operand that a result is a view of, if there is one and no other.
    pub(super) fn viewed(&self, op: OpId, result: usize) -> Option<Value> {
        let aliasing = &self.known.get(&op)?.aliasing;
        let mut operands = aliasing.iter().filter(|a| a.result == result);
        let view = operands.next().filter(|a| !a.writes)?;
        let only = operands.next().is_none();
        only.then(|| self.ir.operand(op, view.operand))
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
                self.decisions.out_of_place.insert((w.op, w.operand), copy);
                self.aliases.add(
                    result,
                    Root::Allocated(AllocationSite::Operand(w.op, w.operand)),
                );
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
                if let Some(defined) = self.decisions.partial.get(init).copied() {
                    let same = [arg, result].map(|v| (v, defined));
                    self.decisions.partial.extend(same);
                }
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
        self.leave(end, (op, 0), &moved, "to where it is carried");
    }

    /// The memory space that a tensor's buffer is to lie in; none is the far one.
    pub fn space(&self, value: Value) -> Option<&'static str> {
        let mut value = value;
        loop {
            match self.root(value)? {
                Root::Argument | Root::Constant => return None,
                Root::View => match self.before.get(&value) {
                    Some(base) => value = *base,
                    None => return self.decisions.spaces.get(&value)?.as_str(),
                },
                Root::Allocated(AllocationSite::Result(op, index)) => {
                    let joined = self.decisions.spaces.get(&self.ir.result(op, index));
                    let own = || self.ir.placed(op);
                    return joined.copied().or_else(own)?.as_str();
                }
                Root::Allocated(AllocationSite::Operand(op, operand)) => {
                    value = self.ir.operand(op, operand);
                }
                Root::Allocated(AllocationSite::Argument(arg)) => {
                    return self.decisions.spaces.get(&arg)?.as_str();
                }
            }
        }
    }

    /// What is handed to blocks in another buffer is copied; if that is the buffer of another
    /// argument, the copies go by way of buffers of their own.
    fn leave_block(&mut self, block: BlockId, errors: &mut Vec<Diagnostic>) {
        let ir = self.ir;
        let Some(branch) = ir.last(block) else { return };
        for (index, to) in ir.successors(branch).enumerate() {
            if !ir.args(to).any(|arg| is_tensor(ir, arg)) {
                continue;
            }
            let Some(groups) = successor_operands(ir, branch) else {
                let text = format!(
                    "'{}' hands tensors to a block in a way that is not declared",
                    ir.name(branch)
                );
                errors.push(Diagnostic::error(text).at(ir.loc(branch)));
                return;
            };
            let pairs = groups[index].iter().copied().zip(ir.args(to));
            let pairs = pairs.filter(|(new, arg)| is_tensor(ir, *arg) && !self.same(*new, *arg));
            let moved: Vec<(Value, Value)> = pairs.collect();
            let key = (branch, index);
            self.leave(branch, key, &moved, "to the buffer of a block argument");
        }
    }

    /// Remarks on copies of tensors to the buffers of others, and whether they cross.
    fn leave(&mut self, end: OpId, key: (OpId, usize), moved: &[(Value, Value)], why: &str) {
        let ir = self.ir;
        for (i, (new, _)) in moved.iter().enumerate() {
            let text = format!("'{}' copies a {} {why}", ir.name(end), ir.ty(*new));
            self.remarks.push(Diagnostic::remark(text).at(ir.loc(end)));
            let mut others = moved.iter().enumerate().filter(|(j, _)| *j != i);
            if others.any(|(_, (_, arg))| self.near(*new, *arg)) {
                self.decisions.crossing.insert(key);
            }
        }
    }

    /// Arguments of blocks lie in the space that all branches hand them over in.
    fn spaces_of_arguments(&mut self, blocks: &[BlockId]) {
        let ir = self.ir;
        let mut given: HashMap<Value, Vec<Value>> = HashMap::new();
        for branch in blocks.iter().filter_map(|block| ir.last(*block)) {
            let groups = successor_operands(ir, branch).unwrap_or_default();
            for (group, to) in groups.into_iter().zip(ir.successors(branch)) {
                for (value, arg) in group.into_iter().zip(ir.args(to)) {
                    if is_tensor(ir, arg) && !self.same(value, arg) {
                        given.entry(arg).or_default().push(value);
                    }
                }
            }
        }
        for arg in blocks.iter().flat_map(|block| ir.args(*block)) {
            let spaces = given
                .get(&arg)
                .into_iter()
                .flatten()
                .map(|v| self.space(*v));
            let spaces: HashSet<Option<&str>> = spaces.collect();
            if let [Some(space)] = spaces.into_iter().collect::<Vec<_>>()[..] {
                self.decisions.spaces.insert(arg, Attr::str(space));
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
                    self.decisions.joined.insert(result, base);
                    continue;
                }
            }
            self.aliases
                .add(result, Root::Allocated(AllocationSite::Result(op, i)));
            let given = ends.into_iter().flatten().map(|end| ir.operand(end, i));
            self.yield_in_place(result, &given.collect::<Vec<_>>());
        }
    }

    /// A result of a condition lies in the space that both sides yield it in, and what a side
    /// computes for it is computed there.
    fn yield_in_place(&mut self, result: Value, given: &[Value]) {
        let ir = self.ir;
        let mut spaces: Vec<Option<&str>> = given.iter().map(|v| self.space(*v)).collect();
        spaces.dedup();
        if let [Some(space)] = spaces[..] {
            self.decisions.spaces.insert(result, Attr::str(space));
        }
        let space = self.space(result);
        for value in given {
            let Some(Root::Allocated(site)) = self.root(*value) else {
                continue;
            };
            let home = match site {
                AllocationSite::Result(op, _) | AllocationSite::Operand(op, _) => ir.parent(op),
                AllocationSite::Argument(_) => None,
            };
            let inside = home.is_some() && home == ir.owner(result);
            let free = !self.decisions.yielded.contains_key(&site);
            if inside && free && self.space(*value) == space && ir.ty(*value) == ir.ty(result) {
                self.decisions.yielded.insert(site, result);
            }
        }
    }

    /// Whether no element of a tensor is defined.
    pub(super) fn is_undefined(&self, value: Value) -> bool {
        self.decisions.partial.get(&value) == Some(&None)
    }

    /// What is defined of a result that lies in the buffer of `base`, as in [`Decisions::partial`];
    /// `None` if all of it may be.
    fn defined_part(&self, op: OpId, base: Value, writes: bool) -> Option<Option<(OpId, Value)>> {
        let mut writers = self.decisions.writers(base)?;
        let known = self.known.get(&op)?;
        let written = |op: OpId| self.known.get(&op)?.written_subset(self.ir.op(op));
        if writes {
            let whole = is_whole(&written(op)?, self.ir.ty(base));
            return (!whole).then_some(Some((op, base)));
        }
        if self.is_undefined(base) {
            return Some(None);
        }
        // A part beside those that are defined.
        let part = known.subset_extraction(self.ir.op(op))?;
        let beside = |other| written(other).is_some_and(|other| disjoint(&part.position, &other));
        writers.all(beside).then_some(None)
    }

    pub(super) fn reads(&self, op: OpId, operand: usize) -> bool {
        let known = self.known.get(&op);
        known.is_none_or(|known| known.reads.get(operand).copied().unwrap_or(true))
    }

    /// An insertion in place of a subset that stands there costs nothing.
    fn mark_inserted_in_place(&mut self, op: OpId) {
        let Some(insertion) = self
            .known
            .get(&op)
            .and_then(|known| known.subset_insertion(self.ir.op(op)))
        else {
            return;
        };
        let written = self.ir.operands(op).position(|v| v == insertion.whole);
        let out_of_place =
            written.is_none_or(|operand| self.decisions.out_of_place.contains_key(&(op, operand)));
        if !out_of_place && self.is_subset_at(insertion.part, &insertion) {
            self.decisions.inserted_in_place.insert(op);
        } else {
            let name = self.ir.name(op);
            let text = format!(
                "'{name}' copies a {} to where it belongs",
                self.ir.ty(insertion.part)
            );
            self.remarks
                .push(Diagnostic::remark(text).at(self.ir.loc(op)));
        }
    }
}
