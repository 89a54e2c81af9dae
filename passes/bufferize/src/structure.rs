//! Loops, conditions and functions on buffers.
//!
//! *Terms.* A **tensor** place is an operand, result or argument of a structured op whose type is a
//! tensor; it goes, and a buffer stands for it. **Crossing** copies read what others of them write.
//!
//! *Invariants.* The tensor that goes round a loop, comes out of a condition or into a block is one
//! buffer that is there before the op: whoever yields another buffer copies into that one, and copies
//! that cross go through buffers of their own. A function writes its tensor results to arguments that
//! are marked `func.out` and returns only scalars. What is decided in place or not is the analysis's;
//! nothing here decides anew.

use std::collections::{BTreeSet, HashMap};

use tir::{
    At, Attr, BlockId, DictAttr, Failure, Ir, Name, OpId, RegionId, Ret, Rets, Traits, Type, Value,
};
use tir_func::{Call, Return};
use tir_loop::{For, If, Yield};
use tir_memref::bufferize::{BufferizationContext, bufferizable};
use tir_memref::{CollapseShape, ExpandShape, GetGlobal, Global};

use crate::analysis::{is_tensor, touches_tensors};
use crate::branches::{set_successor_operands, split_edge, successor_operands};
use crate::buffers::{AllocationSite, Buffers};

/// Constants that become buffers of the module; equal ones are one.
pub(crate) struct Globals {
    far: Option<Attr>,
    taken: BTreeSet<&'static str>,
    by_value: HashMap<Attr, (Name, Type)>,
    /// The ones to add, in order.
    pub made: Vec<Global>,
}

impl Globals {
    /// None yet; names in `taken` are not used.
    pub(crate) fn new(far: Option<Attr>, taken: BTreeSet<&'static str>) -> Self {
        Self {
            far,
            taken,
            by_value: HashMap::new(),
            made: Vec::new(),
        }
    }
    /// The buffer of a value.
    fn get(&mut self, value: Attr, ty: Type, hint: Option<Name>) -> (Name, Type) {
        if let Some(found) = self.by_value.get(&value) {
            return *found;
        }
        let base = hint
            .map(Name::as_str)
            .filter(|h| !h.starts_with(|c: char| c.is_ascii_digit()));
        let base = base.unwrap_or("cst");
        let mut name = Name::new(base);
        let mut number = 0;
        while !self.taken.insert(name.as_str()) {
            name = Name::new(&format!("{base}_{number}"));
            number += 1;
        }
        let ty = Type::memref(ty.shape().unwrap_or(&[]), ty.elem(), self.far);
        self.made.push(Global {
            sym_name: name,
            sym_visibility: None,
            r#type: ty,
            initial_value: Some(value),
            constant: Some(tir::Flag),
            alignment: None,
        });
        self.by_value.insert(value, (name, ty));
        (name, ty)
    }
}

/// Rewrites what is in a block.
pub(crate) fn block(
    cx: &mut Buffers<'_>,
    block: BlockId,
    globals: &mut Globals,
    outs: &[Option<Value>],
) -> Result<(), Failure> {
    let ops: Vec<OpId> = cx.ir.ops_in(block).collect();
    for op in ops {
        let (name, loc) = (cx.ir.name(op), cx.ir.loc(op));
        one(cx, op, globals, outs)
            .map_err(|e| Box::new(e.or_at(loc).context(format_args!("'{name}' "))))?;
    }
    Ok(())
}

fn region(
    cx: &mut Buffers<'_>,
    region: RegionId,
    globals: &mut Globals,
    outs: &[Option<Value>],
) -> Result<(), Failure> {
    let blocks: Vec<BlockId> = cx.ir.blocks(region).collect();
    blocks
        .into_iter()
        .try_for_each(|b| block(cx, b, globals, outs))
}

fn one(
    cx: &mut Buffers<'_>,
    op: OpId,
    globals: &mut Globals,
    outs: &[Option<Value>],
) -> Result<(), Failure> {
    if let Some(record) = cx.ir.get::<For>(op) {
        return for_(cx, op, record, globals, outs);
    }
    if let Some(record) = cx.ir.get::<If>(op) {
        return if_(cx, op, record, globals, outs);
    }
    if cx.ir.is::<Return>(op) {
        return return_(cx, op, outs);
    }
    if let Some(record) = cx.ir.get::<Call>(op) {
        return call(cx, op, record);
    }
    // The arguments of the function are buffers by now; what works on them alone has no tensors
    // any more, but is to be rewritten all the same.
    if let Some(known) = bufferizable(cx.ir, op)
        && cx
            .ir
            .operands(op)
            .chain(cx.ir.results(op))
            .any(|v| is_shaped(cx.ir, v))
    {
        return known.bufferize(op, cx);
    }
    if cx.ir.has(op, Traits::ConstantLike) && touches_tensors(cx.ir, op) {
        return constant(cx, op, globals);
    }
    let regions: Vec<RegionId> = cx.ir.regions(op).collect();
    regions
        .into_iter()
        .try_for_each(|r| region(cx, r, globals, outs))
}

fn is_shaped(ir: &Ir, value: Value) -> bool {
    is_tensor(ir, value) || ir.ty(value).is::<tir::MemRefType>()
}

fn constant(cx: &mut Buffers<'_>, op: OpId, globals: &mut Globals) -> Result<(), Failure> {
    let value = cx.ir.attr(op, "value").ok_or("has no value")?;
    let result = cx.ir.result(op, 0);
    let (name, ty) = globals.get(value, cx.ir.ty(result), cx.ir.hint(result));
    let buffer = cx.ir.add(
        At::Before(op),
        GetGlobal {
            name: tir::Sym(name),
            result: Ret(ty),
        },
    );
    cx.set_buffer(result, buffer);
    cx.erase_later(op);
    Ok(())
}

/// The tensors among values, with their places.
fn tensors(ir: &Ir, values: &[Value]) -> Vec<(usize, Value)> {
    let all = values.iter().copied().enumerate();
    all.filter(|(_, v)| is_tensor(ir, *v)).collect()
}
/// The values that stay: all but tensors.
fn scalars(ir: &Ir, values: &[Value]) -> Vec<Value> {
    values
        .iter()
        .copied()
        .filter(|v| !is_tensor(ir, *v))
        .collect()
}
fn types(ir: &Ir, values: &[Value]) -> Vec<Type> {
    values.iter().map(|v| ir.ty(*v)).collect()
}
fn replace_scalars(ir: &mut Ir, old: OpId, new: &[Value]) {
    let results: Vec<Value> = ir.results(old).collect();
    for (old, new) in scalars(ir, &results).into_iter().zip(new) {
        let hint = ir.hint(old);
        ir.set_hint(*new, hint);
        ir.replace_uses(old, *new);
    }
}

fn for_(
    cx: &mut Buffers<'_>,
    op: OpId,
    record: For,
    globals: &mut Globals,
    outs: &[Option<Value>],
) -> Result<(), Failure> {
    let block = cx.ir.entry(record.body).ok_or("has an empty region")?;
    let end = cx.ir.last(block).ok_or("has an empty block")?;
    let results: Vec<Value> = cx.ir.results(op).collect();
    let carried: Vec<usize> = tensors(cx.ir, &results)
        .into_iter()
        .map(|(i, _)| i)
        .collect();
    let mut homes = Vec::new();
    for &i in &carried {
        let buffer = cx.destination(op, record.bounds.len() + i)?;
        let arg = cx.ir.arg(block, i + 1);
        cx.set_buffer(arg, buffer);
        cx.set_buffer(results[i], buffer);
        homes.push(buffer);
    }
    region(cx, record.body, globals, outs)?;
    if carried.is_empty() {
        return Ok(());
    }
    let mut moved = Vec::new();
    for (&i, home) in carried.iter().zip(homes) {
        let tensor = cx.ir.operand(end, i);
        moved.push((tensor, cx.buffer(tensor)?, home));
    }
    let crossing = cx.decisions.crossing.contains(&(op, 0));
    parallel_copies(cx, end, crossing, moved)?;
    yield_(cx, end, &carried);
    for &i in carried.iter().rev() {
        let arg = cx.ir.arg(block, i + 1);
        cx.erase_argument_later(arg);
    }
    cx.ir.detach_region(record.body);
    let init = without(&record.init, &carried);
    let kept = scalars(cx.ir, &results);
    let results = Rets(types(cx.ir, &kept));
    let new = cx.ir.add(
        At::Before(op),
        For {
            init,
            results,
            ..record
        },
    );
    replace_scalars(cx.ir, op, &new);
    cx.erase_later(op);
    Ok(())
}

/// Values but for those at some places, which are rising.
fn without(values: &[Value], places: &[usize]) -> Vec<Value> {
    let kept = values.iter().enumerate();
    let kept = kept.filter(|(i, _)| !places.contains(i));
    kept.map(|(_, v)| *v).collect()
}

/// Copies buffers of tensors to others before an op: as if all at once, if they are `crossing`.
fn parallel_copies(
    cx: &mut Buffers<'_>,
    end: OpId,
    crossing: bool,
    mut moved: Vec<(Value, Value, Value)>,
) -> Result<(), Failure> {
    moved.retain(|(_, source, target)| source != target);
    if crossing {
        for (number, (tensor, source, _)) in moved.iter_mut().enumerate() {
            let ty = cx.ir.ty(*tensor);
            let space = cx.ir.ty(*source).get::<tir::MemRefType>();
            let space = space.and_then(|m| m.space);
            let site = AllocationSite::Operand(end, number);
            let between = cx.allocate_for(site, end, ty, space, Vec::new())?;
            cx.copy_content(end, *tensor, *source, between)?;
            *source = between;
        }
    }
    for (tensor, source, target) in moved {
        cx.copy_content(end, tensor, source, target)?;
    }
    Ok(())
}

/// Ends a region without the tensors at some places.
fn yield_(cx: &mut Buffers<'_>, end: OpId, tensors: &[usize]) {
    let values: Vec<Value> = cx.ir.operands(end).collect();
    let values = without(&values, tensors);
    cx.ir.add(At::Before(end), Yield { values });
    cx.erase_later(end);
}

fn if_(
    cx: &mut Buffers<'_>,
    op: OpId,
    record: If,
    globals: &mut Globals,
    outs: &[Option<Value>],
) -> Result<(), Failure> {
    let results: Vec<Value> = cx.ir.results(op).collect();
    let regions = [record.then_region, record.else_region];
    let mut homes = Vec::new();
    for (i, result) in tensors(cx.ir, &results) {
        let home = match cx.decisions.joined.get(&result) {
            Some(base) => cx.buffer(*base)?,
            None => {
                let space = cx.space_of(result);
                let ty = cx.ir.ty(result);
                cx.allocate_for(AllocationSite::Result(op, i), op, ty, space, Vec::new())?
            }
        };
        homes.push((i, home));
        cx.set_buffer(result, home);
    }
    for r in regions {
        region(cx, r, globals, outs)?;
        let end = cx.ir.entry(r).and_then(|block| cx.ir.last(block));
        let Some(end) = end.filter(|_| !homes.is_empty()) else {
            continue;
        };
        for (i, home) in &homes {
            let value = cx.ir.operand(end, *i);
            cx.copy(end, value, *home)?;
        }
        let places: Vec<usize> = homes.iter().map(|(i, _)| *i).collect();
        yield_(cx, end, &places);
    }
    if homes.is_empty() {
        return Ok(());
    }
    regions.into_iter().for_each(|r| cx.ir.detach_region(r));
    let kept = scalars(cx.ir, &results);
    let results = Rets(types(cx.ir, &kept));
    let new = cx.ir.add(At::Before(op), If { results, ..record });
    replace_scalars(cx.ir, op, &new);
    cx.erase_later(op);
    Ok(())
}

/// Gives the tensor arguments of blocks buffers, which are there before any branch.
pub(crate) fn block_arguments(
    cx: &mut Buffers<'_>,
    entry: BlockId,
    blocks: &[BlockId],
) -> Result<(), Failure> {
    let Some(first) = cx.ir.first(entry) else {
        return Ok(());
    };
    for block in blocks.iter().filter(|block| **block != entry) {
        let args: Vec<Value> = cx.ir.args(*block).collect();
        for (_, arg) in tensors(cx.ir, &args) {
            let (ty, space) = (cx.ir.ty(arg), cx.space_of(arg));
            let site = AllocationSite::Argument(arg);
            let buffer = cx.allocate_for(site, first, ty, space, Vec::new())?;
            cx.set_buffer(arg, buffer);
            cx.erase_argument_later(arg);
        }
    }
    Ok(())
}

/// Copies what branches hand over to the buffers of the arguments: before the branch if there is
/// one way only, else on the way.
pub(crate) fn branches(cx: &mut Buffers<'_>, blocks: &[BlockId]) -> Result<(), Failure> {
    for block in blocks {
        let Some(branch) = cx.ir.last(*block) else {
            continue;
        };
        let to: Vec<BlockId> = cx.ir.successors(branch).collect();
        for (index, to_block) in to.iter().enumerate() {
            let args: Vec<Value> = cx.ir.args(*to_block).collect();
            if tensors(cx.ir, &args).is_empty() {
                continue;
            }
            let given = successor_operands(cx.ir, branch).unwrap_or_default();
            let Some(given) = given.into_iter().nth(index) else {
                continue;
            };
            let (mut moved, mut kept) = (Vec::new(), Vec::new());
            for (arg, value) in args.iter().zip(&given) {
                // The arguments of the function have the types of buffers by now.
                if !is_tensor(cx.ir, *arg) {
                    kept.push(*value);
                    continue;
                }
                let (target, source) = (cx.buffer(*arg)?, cx.buffer(*value)?);
                if target != source {
                    moved.push((*value, source, target));
                }
            }
            let mut end = branch;
            if to.len() > 1 && !moved.is_empty() {
                let split = split_edge(cx.ir, branch, index);
                end = split.ok_or("hands tensors to a block in a way that is not declared")?;
            }
            let crossing = cx.decisions.crossing.contains(&(branch, index));
            parallel_copies(cx, end, crossing, moved)?;
            let index = if end == branch { index } else { 0 };
            set_successor_operands(cx.ir, end, index, &kept);
        }
    }
    Ok(())
}

/// Results that are tensors are written to their arguments, `outs`, which has none for others.
fn return_(cx: &mut Buffers<'_>, op: OpId, outs: &[Option<Value>]) -> Result<(), Failure> {
    let values: Vec<Value> = cx.ir.operands(op).collect();
    let mut kept = Vec::new();
    for (value, out) in values.into_iter().zip(outs) {
        let Some(out) = out else {
            kept.push(value);
            continue;
        };
        let buffer = cx.buffer(value)?;
        if !is_shaped_back(cx.ir, buffer, *out) {
            cx.copy(op, value, *out)?;
        }
    }
    cx.ir.add(At::Before(op), Return { operands: kept });
    cx.erase_later(op);
    Ok(())
}

/// Whether a buffer is another one, seen in other shapes and then in its own again.
fn is_shaped_back(ir: &Ir, buffer: Value, other: Value) -> bool {
    let mut base = buffer;
    while base != other {
        let expand = ir.def::<ExpandShape>(base).map(|view| view.src);
        let collapse = ir.def::<CollapseShape>(base).map(|view| view.src);
        match expand.or(collapse) {
            Some(src) => base = src,
            None => return false,
        }
    }
    ir.ty(buffer).shape() == ir.ty(other).shape()
}

/// A call hands over buffers for the results. What it hands over lies as arguments do: a part of a larger tensor is copied.
fn call(cx: &mut Buffers<'_>, op: OpId, record: Call) -> Result<(), Failure> {
    let results: Vec<Value> = cx.ir.results(op).collect();
    let mut operands = Vec::new();
    for (number, value) in record.operands.iter().enumerate() {
        let (buffer, far) = (cx.buffer(*value)?, cx.memory_space(None));
        let (found, wanted) = (cx.ir.ty(buffer), argument_type(cx.ir.ty(*value), far));
        if found == wanted || !is_tensor(cx.ir, *value) {
            operands.push(buffer);
            continue;
        }
        let site = AllocationSite::Operand(op, number);
        let whole = cx.allocate_for(site, op, cx.ir.ty(*value), far, Vec::new())?;
        cx.copy(op, *value, whole)?;
        cx.told_copy(op, number, found);
        operands.push(whole);
    }
    for (i, result) in tensors(cx.ir, &results) {
        let (ty, space) = (cx.ir.ty(result), cx.memory_space(None));
        let buffer = cx.allocate_for(AllocationSite::Result(op, i), op, ty, space, Vec::new())?;
        operands.push(buffer);
        cx.set_buffer(result, buffer);
    }
    let kept = scalars(cx.ir, &results);
    let results = Rets(types(cx.ir, &kept));
    let new = cx.ir.add(
        At::Before(op),
        Call {
            operands,
            results,
            ..record
        },
    );
    replace_scalars(cx.ir, op, &new);
    cx.erase_later(op);
    Ok(())
}

/// The type of a tensor as an argument: a buffer in the far space.
pub(crate) fn argument_type(ty: Type, far: Option<Attr>) -> Type {
    match ty.get::<tir::TensorType>() {
        Some(tensor) => Type::memref(tensor.shape.clone(), tensor.elem, far),
        None => ty,
    }
}

/// The attributes of arguments and results once tensor results are arguments, which are marked
/// `func.out`.
pub(crate) fn argument_attrs(
    args: Option<Vec<Attr>>,
    inputs: usize,
    results: Option<Vec<Attr>>,
    outputs: &[Type],
) -> (Vec<Attr>, Option<Vec<Attr>>) {
    let empty = || Attr::new(DictAttr::new(Vec::new()));
    let mut args = args.unwrap_or_else(|| vec![empty(); inputs]);
    let results = results.unwrap_or_else(|| vec![empty(); outputs.len()]);
    let mut kept = Vec::new();
    for (attr, ty) in results.into_iter().zip(outputs) {
        if ty.is::<tir::TensorType>() {
            let mut entries = attr
                .get::<DictAttr>()
                .map_or(Vec::new(), |d| d.entries().to_vec());
            entries.push((Name::new(tir::interp::OUT_ARGUMENT), Attr::unit()));
            args.push(Attr::new(DictAttr::new(entries)));
        } else {
            kept.push(attr);
        }
    }
    let said = kept.iter().any(|attr| *attr != empty());
    (args, said.then_some(kept))
}
