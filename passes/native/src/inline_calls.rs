//! `inline-calls`: what units compute, written out where they are called.
//!
//! The region of an intrinsic works on tensors, each of which has a value; a call works on buffers, which it writes.
//! So each tensor of the region gets a *place*: that of an operand is the call's own buffer, and a result goes straight
//! into the buffer that it is yielded for, unless something that is read then or later may lie there. Then it goes into
//! a buffer of its own, which is copied last.

use std::collections::HashMap;

use tir::{
    At, Attr, Failure, Ir, Mapping, MemRefType, OpId, Pass, PassCx, PassResult, Rets, Type, Value,
    pass,
};
use tir_accel::machine::MachineInfo;
use tir_accel::{Apply, AttachedMachine, Call, Intrinsic};
use tir_arith::Constant;
use tir_memref::alias::{may_alias, origins};
use tir_memref::{Alloc, Copy, Dealloc};
use tir_tensor::{Empty, Generic, Yield};

pass! {
    /// Replaces calls of intrinsics, and nests of vector units, by what they compute, as `tensor.generic` on the
    /// buffers of the call.
    ///
    /// A result is written where it belongs at once, unless what is still read may lie there: then by way of a buffer
    /// of its own.
    pub struct InlineCalls = "inline-calls" on "func.func" {}
}

impl Pass for InlineCalls {
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.analysis::<AttachedMachine>(parent);
        Ok(())
    }
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let attached = cx.outer::<AttachedMachine>();
        let machine = attached.as_deref().and_then(|a| a.0.as_ref());
        let done = inline(ir, machine).map_err(|e| vec![*e])?;
        cx.count("calls inlined", done.calls);
        cx.count("results by way of a buffer", done.buffers);
        Ok(())
    }
}

/// What was done.
#[derive(Default)]
struct Done {
    calls: usize,
    buffers: usize,
}

fn inline(ir: &mut Ir, machine: Option<&(MachineInfo, Ir)>) -> Result<Done, Failure> {
    let mut done = Done::default();
    for op in ir.walk_ids() {
        let expanded = if let Some(apply) = ir.get::<Apply>(op) {
            nest(ir, op, &apply)
        } else if let Some(call) = ir.get::<Call>(op) {
            match machine {
                Some((info, machine)) => body(ir, op, &call, info, machine, &mut done),
                None => Err(Box::new(AttachedMachine::none(ir))),
            }
        } else {
            continue;
        };
        expanded.map_err(|error| {
            let name = ir.name(op);
            Box::new(
                (*error)
                    .or_at(ir.loc(op))
                    .context(format_args!("'{name}': ")),
            )
        })?;
        ir.erase(op);
        done.calls += 1;
    }
    Ok(done)
}

/// Tokens are of a program that starts work and waits for it.
fn at_once(ir: &Ir, operands: &[Value], after: &[Value]) -> Result<(), Failure> {
    if !after.is_empty() {
        return Err(
            "waits for tokens, expected the memref level, before transfers are started".into(),
        );
    }
    match operands.iter().find(|v| !ir.ty(**v).is::<MemRefType>()) {
        Some(value) => Err(format!("works on a {}, expected buffers", ir.ty(*value)).into()),
        None => Ok(()),
    }
}

/// A nest of a vector unit is a generic with the same region.
fn nest(ir: &mut Ir, op: OpId, apply: &Apply) -> Result<(), Failure> {
    let generic = apply.nest();
    let operands: Vec<Value> = generic.operands().collect();
    at_once(ir, &operands, &apply.after)?;
    let end = ir.entry(generic.body).and_then(|block| ir.last(block));
    let end = end.ok_or("has an empty region")?;
    ir.rename(end, <Yield as tir::Op>::name());
    ir.detach_region(generic.body);
    ir.add(At::Before(op), generic);
    Ok(())
}

/// Where a tensor of an intrinsic's region lies.
#[derive(Clone, Copy)]
enum Place {
    Buffer(Value),
    /// It has no content.
    Nowhere(Type),
}

/// A generic of a region, and where what it reads and makes lies.
struct Step {
    op: OpId,
    generic: Generic,
    inputs: Vec<Value>,
    /// For each output the tensor that it begins with, and that it gives.
    outputs: Vec<[Value; 2]>,
}

fn body(
    ir: &mut Ir,
    op: OpId,
    call: &Call,
    info: &MachineInfo,
    machine: &Ir,
    done: &mut Done,
) -> Result<(), Failure> {
    at_once(ir, &call.operands, &call.after)?;
    let name = call.callee.0;
    let found = info.intrinsic(name);
    let found = found.ok_or_else(|| format!("machine @{} has no @{name}", info.name))?;
    let record: Intrinsic = machine.get(found.op).ok_or("is no intrinsic")?;
    let block = machine.entry(record.body).ok_or("has an empty region")?;
    let args: Vec<Value> = machine.args(block).collect();
    let (tensors, scalars) = args.split_at(found.operands.len());
    if tensors.len() != call.operands.len() {
        let (given, wanted) = (call.operands.len(), tensors.len());
        return Err(format!("passes {given} operands to @{name}, expected {wanted}").into());
    }
    let mut map = Mapping::default();
    immediates(ir, op, call, scalars, &mut map)?;
    let mut places: HashMap<Value, Place> = HashMap::new();
    for (tensor, buffer) in tensors.iter().zip(&call.operands) {
        places.insert(*tensor, Place::Buffer(*buffer));
    }
    let (steps, yields) = steps(machine, block, &mut places)?;
    let mut temporary = Vec::new();
    // What is handed on as it came is taken aside first: its buffer may be written.
    for (tensor, target) in yields.iter().zip(&call.operands) {
        if let Some(Place::Buffer(buffer)) = places.get(tensor).copied()
            && buffer != *target
        {
            let aside = allocate(ir, op, machine.ty(*tensor), &mut temporary);
            ir.add(
                At::Before(op),
                Copy {
                    source: buffer,
                    target: aside,
                },
            );
            places.insert(*tensor, Place::Buffer(aside));
        }
    }
    for (number, step) in steps.iter().enumerate() {
        let mut targets = Vec::new();
        for (k, [begin, made]) in step.outputs.iter().enumerate() {
            let wanted = becomes(&steps[number + 1..], *made);
            let wanted = yields.iter().position(|tensor| *tensor == wanted);
            let wanted = wanted.map(|at| call.operands[at]);
            let direct = wanted
                .filter(|target| !is_read(ir, &steps[number..], k, *target, &places))
                .or_else(|| own(&steps, *begin, &places, &temporary));
            let target = match direct {
                Some(target) => target,
                None => allocate(ir, op, machine.ty(*made), &mut temporary),
            };
            if step.generic.combine.is_some() {
                match places
                    .get(begin)
                    .copied()
                    .ok_or("uses a value from outside")?
                {
                    Place::Buffer(source) if source != target => {
                        ir.add(At::Before(op), Copy { source, target });
                    }
                    Place::Buffer(_) => {}
                    Place::Nowhere(ty) => {
                        return Err(format!("sums up in @{name} in a {ty} without content").into());
                    }
                }
            }
            targets.push(target);
        }
        emit(ir, op, step, &targets, machine, &places, &mut map)?;
        for ([_, made], target) in step.outputs.iter().zip(targets) {
            places.insert(*made, Place::Buffer(target));
        }
    }
    for (tensor, target) in yields.iter().zip(&call.operands) {
        match places
            .get(tensor)
            .copied()
            .ok_or("yields a value from outside")?
        {
            Place::Buffer(source) if source != *target => {
                ir.add(
                    At::Before(op),
                    Copy {
                        source,
                        target: *target,
                    },
                );
            }
            _ => {}
        }
    }
    done.buffers += temporary.len();
    for memref in temporary {
        ir.add(At::Before(op), Dealloc { memref });
    }
    Ok(())
}

/// The scalars of a call as constants.
fn immediates(
    ir: &mut Ir,
    op: OpId,
    call: &Call,
    scalars: &[Value],
    map: &mut Mapping,
) -> Result<(), Failure> {
    let given: &[Attr] = call.immediates.as_deref().unwrap_or_default();
    if given.len() != scalars.len() {
        let (given, wanted) = (given.len(), scalars.len());
        return Err(format!("has {given} immediates, expected {wanted}").into());
    }
    for (scalar, value) in scalars.iter().zip(given) {
        let constant = ir.add(At::Before(op), Constant { value: *value });
        map.map(*scalar, constant);
    }
    Ok(())
}

/// The generics of a region in their order, and what it yields; tensors without content get their places.
fn steps(
    machine: &Ir,
    block: tir::BlockId,
    places: &mut HashMap<Value, Place>,
) -> Result<(Vec<Step>, Vec<Value>), Failure> {
    let (mut steps, mut yields) = (Vec::new(), Vec::new());
    for op in machine.ops_in(block) {
        if let Some(generic) = machine.get::<Generic>(op) {
            let results = machine.results(op);
            let outputs = generic.outputs.iter().zip(results);
            steps.push(Step {
                op,
                inputs: generic.inputs.clone(),
                outputs: outputs.map(|(begin, made)| [*begin, made]).collect(),
                generic,
            });
        } else if machine.is::<Empty>(op) {
            let value = machine.result(op, 0);
            places.insert(value, Place::Nowhere(machine.ty(value)));
        } else if machine.is::<tir_accel::Yield>(op) {
            yields = machine.operands(op).collect();
        } else {
            let name = machine.name(op);
            return Err(format!("has '{name}' in its body, expected tensor.generic").into());
        }
    }
    Ok((steps, yields))
}

/// What a tensor is in the end, if all that is done with it is to add to it.
fn becomes(later: &[Step], tensor: Value) -> Value {
    let reads = later.iter().flat_map(|step| &step.inputs);
    if reads.filter(|input| **input == tensor).count() > 0 {
        return tensor;
    }
    let outputs = later.iter().enumerate().flat_map(|(number, step)| {
        let sums = step.generic.combine.is_some();
        step.outputs
            .iter()
            .map(move |output| (number, sums, output))
    });
    let mut outputs = outputs.filter(|(.., [begin, _])| *begin == tensor);
    match (outputs.next(), outputs.next()) {
        (Some((number, true, [_, made])), None) => becomes(&later[number + 1..], *made),
        _ => tensor,
    }
}

/// The buffer that a sum begins in, if it was made for this call and nothing else reads it.
fn own(
    steps: &[Step],
    begin: Value,
    places: &HashMap<Value, Place>,
    temporary: &[Value],
) -> Option<Value> {
    let Some(Place::Buffer(buffer)) = places.get(&begin) else {
        return None;
    };
    let inputs = steps.iter().flat_map(|step| step.inputs.iter());
    let begins = steps
        .iter()
        .flat_map(|step| step.outputs.iter().map(|[begin, _]| begin));
    let uses = inputs.chain(begins).filter(|tensor| **tensor == begin);
    (temporary.contains(buffer) && uses.count() == 1).then_some(*buffer)
}

/// Whether output `k` of the first step may not be written to `target` at once: it may be where something lies that is
/// read then, but for the element that is written, or later.
fn is_read(
    ir: &Ir,
    steps: &[Step],
    k: usize,
    target: Value,
    places: &HashMap<Value, Place>,
) -> bool {
    let written = origins(ir, target);
    let there = |tensor: &Value| match places.get(tensor) {
        Some(Place::Buffer(buffer)) => may_alias(ir, *buffer, &written),
        // Without content, or made later.
        _ => false,
    };
    let same =
        |tensor: &Value| matches!(places.get(tensor), Some(Place::Buffer(b)) if *b == target);
    let Some((now, later)) = steps.split_first() else {
        return false;
    };
    let count = now.generic.inputs.len();
    let access = now.generic.indexing_maps.get(count + k);
    let once = !now.generic.reductions().contains(&true) && now.outputs.len() == 1;
    let inputs = now.inputs.iter().zip(&now.generic.indexing_maps);
    let mut inputs = inputs.filter(|(tensor, _)| there(tensor));
    if inputs.any(|(tensor, map)| !(once && same(tensor) && Some(map) == access)) {
        return true;
    }
    let sums = |step: &Step| step.generic.combine.is_some();
    // What it begins with lies there, or is copied there: from elsewhere.
    let begins = now.outputs.iter().enumerate().filter(|_| sums(now));
    let mut begins = begins.filter(|(_, [begin, _])| there(begin));
    if begins.any(|(other, [begin, _])| other != k || !same(begin)) {
        return true;
    }
    later.iter().any(|step| {
        let begins = step.outputs.iter().filter(|_| sums(step));
        step.inputs.iter().any(there) || begins.map(|[begin, _]| begin).any(there)
    })
}

/// A buffer for a tensor of a region.
fn allocate(ir: &mut Ir, op: OpId, ty: Type, all: &mut Vec<Value>) -> Value {
    let ty = Type::memref(ty.shape().unwrap_or(&[]), ty.elem(), None);
    let made = ir.add(At::Before(op), Alloc::new(ty));
    all.push(made);
    made
}

/// Puts a copy of a generic before the call.
fn emit(
    ir: &mut Ir,
    op: OpId,
    step: &Step,
    targets: &[Value],
    machine: &Ir,
    places: &HashMap<Value, Place>,
    map: &mut Mapping,
) -> Result<(), Failure> {
    let mut inputs = Vec::new();
    for tensor in &step.inputs {
        match places.get(tensor) {
            Some(Place::Buffer(buffer)) => inputs.push(*buffer),
            Some(Place::Nowhere(ty)) => {
                return Err(format!("reads a {ty} without content").into());
            }
            None => return Err("uses a value from outside".into()),
        }
    }
    // The copy has tensors for results; its region goes to one that has none.
    for (tensor, buffer) in step.inputs.iter().zip(&inputs) {
        map.map(*tensor, *buffer);
    }
    for ([begin, _], target) in step.outputs.iter().zip(targets) {
        map.map(*begin, *target);
    }
    let copy = ir.copy_op(machine, step.op, At::Before(op), map);
    ir.set_loc(copy, ir.loc(op));
    let region = ir.regions(copy).next().ok_or("has no region")?;
    ir.detach_region(region);
    let generic = Generic {
        inputs,
        outputs: targets.to_vec(),
        indexing_maps: step.generic.indexing_maps.clone(),
        iterator_types: step.generic.iterator_types.clone(),
        combine: step.generic.combine,
        sizes: step.generic.sizes.clone(),
        body: region,
        results: Rets(vec![]),
    };
    ir.add(At::Before(copy), generic);
    ir.erase(copy);
    Ok(())
}
