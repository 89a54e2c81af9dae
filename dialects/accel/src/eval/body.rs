//! What an intrinsic computes, compiled once: its generics as kernels, one after the other.

use std::collections::HashMap;
use std::rc::Rc;

use tir::data::Array;
use tir::interp::{tensor_form, zeros};
use tir::{Env, Failure, Ir, Name, OpId, Type, Value};
use tir_tensor::Generic;
use tir_tensor::eval::GenericKernel;

use crate::machine::{IntrinsicInfo, MachineInfo};
use crate::{Intrinsic, Yield};

/// An intrinsic, ready to run on arrays.
pub struct Body {
    /// What is known of it.
    pub info: IntrinsicInfo,
    steps: Vec<Step>,
    /// Slots of what is yielded.
    yields: Vec<usize>,
    slots: usize,
}

struct Step {
    kernel: GenericKernel,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    results: Vec<usize>,
}

impl Body {
    /// The intrinsic at an op of a machine.
    pub fn new(ir: &Ir, info: &IntrinsicInfo) -> Result<Self, Failure> {
        let record: Intrinsic = ir.get(info.op).ok_or("is no intrinsic")?;
        let block = ir.entry(record.body).ok_or("has an empty region")?;
        let mut slots: HashMap<Value, usize> = HashMap::new();
        for arg in ir.args(block) {
            slots.insert(arg, slots.len());
        }
        let (mut steps, mut yields) = (Vec::new(), Vec::new());
        for op in ir.ops_in(block) {
            if ir.is::<Yield>(op) {
                yields = find(&slots, ir.operands(op))?;
            } else if let Some(generic) = ir.get::<Generic>(op) {
                steps.push(step(ir, op, &generic, &mut slots)?);
            } else {
                return Err(
                    format!("has '{}' in its body, expected tensor.generic", ir.name(op)).into(),
                );
            }
        }
        Ok(Self {
            info: info.clone(),
            steps,
            yields,
            slots: slots.len(),
        })
    }

    /// An array for an operand whose content is not read.
    pub fn blank(ty: Type) -> Result<Array, Failure> {
        let (dtype, shape) = tensor_form(ty)?;
        zeros(dtype, &shape)
    }

    /// The new content of the operands that are written.
    pub fn run(&self, operands: Vec<Array>) -> Result<Vec<Array>, Failure> {
        let mut values: Vec<Option<Array>> = operands.into_iter().map(Some).collect();
        values.resize(self.slots, None);
        let get = |values: &[Option<Array>], slot: usize| -> Result<Array, Failure> {
            values
                .get(slot)
                .cloned()
                .flatten()
                .ok_or_else(|| "uses what is not computed".into())
        };
        for step in &self.steps {
            let inputs = step
                .inputs
                .iter()
                .map(|s| get(&values, *s))
                .collect::<Result<Vec<_>, _>>()?;
            let outputs = step
                .outputs
                .iter()
                .map(|s| get(&values, *s))
                .collect::<Result<Vec<_>, _>>()?;
            let results = step.kernel.on_arrays(&inputs, outputs, &[])?;
            for (slot, result) in step.results.iter().zip(results) {
                values[*slot] = Some(result);
            }
        }
        self.yields.iter().map(|s| get(&values, *s)).collect()
    }
}

fn find(
    slots: &HashMap<Value, usize>,
    values: impl Iterator<Item = Value>,
) -> Result<Vec<usize>, Failure> {
    let slot = |v: Value| {
        slots
            .get(&v)
            .copied()
            .ok_or_else(|| Failure::from("uses a value from outside"))
    };
    values.map(slot).collect()
}

fn step(
    ir: &Ir,
    op: OpId,
    generic: &Generic,
    slots: &mut HashMap<Value, usize>,
) -> Result<Step, Failure> {
    let kernel = GenericKernel::new(ir, generic)?;
    if !kernel.captured().is_empty() {
        return Err("uses scalars from outside of a region".into());
    }
    let inputs = find(slots, generic.inputs.iter().copied())?;
    let outputs = find(slots, generic.outputs.iter().copied())?;
    let mut results = Vec::new();
    for result in ir.results(op) {
        let slot = slots.len();
        slots.insert(result, slot);
        results.push(slot);
    }
    Ok(Step {
        kernel,
        inputs,
        outputs,
        results,
    })
}

/// Intrinsics that were compiled.
#[derive(Default)]
struct Bodies(HashMap<Name, Rc<Body>>);

/// The intrinsic of a name of the machine attached to the running module.
pub fn body(env: &mut Env<'_>, name: Name) -> Result<Rc<Body>, Failure> {
    if let Some(body) = env.ext::<Bodies>().and_then(|b| b.0.get(&name)) {
        return Ok(body.clone());
    }
    let module = env.module();
    let machine = MachineInfo::slot(module).and_then(|slot| module.child(slot));
    let machine = machine.ok_or("no machine is attached to the module")?;
    let info = MachineInfo::of(machine).ok_or("the machine cannot be read")?;
    let intrinsic = info.intrinsic(name);
    let intrinsic = intrinsic.ok_or_else(|| format!("machine @{} has no @{name}", info.name))?;
    let body = Rc::new(Body::new(machine, intrinsic)?);
    let mut bodies = env.take_ext::<Bodies>().unwrap_or_default();
    bodies.0.insert(name, body.clone());
    env.put_ext(bodies);
    Ok(body)
}
