//! What an intrinsic computes, compiled once: its generics as kernels, one after the other.

use std::collections::HashMap;
use std::rc::Rc;

use tir::data::Array;
use tir::interp::{Scalar, tensor_form, zeros};
use tir::{Attr, Env, Failure, Ir, Name, Type, Value};
use tir_tensor::eval::GenericKernel;
use tir_tensor::{Empty, Generic};

use crate::machine::{IntrinsicInfo, MachineInfo};
use crate::{Intrinsic, Yield};

/// An intrinsic, ready to run on arrays.
pub struct Body {
    /// What is known of it.
    pub info: IntrinsicInfo,
    steps: Vec<Step>,
    /// Slots of what is yielded.
    yields: Vec<usize>,
    /// What lies in each slot.
    slots: Vec<Type>,
}

struct Step {
    kernel: GenericKernel,
    /// Which immediate each scalar is that the region captures.
    captures: Vec<usize>,
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
        let mut types = Vec::new();
        let scalars: Vec<Value> = ir.args(block).skip(info.operands.len()).collect();
        for arg in ir.args(block).take(info.operands.len()) {
            slots.insert(arg, slots.len());
            types.push(ir.ty(arg));
        }
        let (mut steps, mut yields) = (Vec::new(), Vec::new());
        for op in ir.ops_in(block) {
            if ir.is::<Yield>(op) {
                yields = find(&slots, ir.operands(op))?;
                continue;
            }
            if let Some(generic) = ir.get::<Generic>(op) {
                steps.push(step(ir, &generic, &slots, &scalars, slots.len())?);
            } else if !ir.is::<Empty>(op) {
                let name = ir.name(op);
                let text = format!("has '{name}' in its body, expected tensor.generic");
                return Err(text.into());
            }
            for result in ir.results(op) {
                slots.insert(result, slots.len());
                types.push(ir.ty(result));
            }
        }
        Ok(Self {
            info: info.clone(),
            steps,
            yields,
            slots: types,
        })
    }

    /// An array for an operand whose content is not read.
    pub fn blank(ty: Type) -> Result<Array, Failure> {
        let (dtype, shape) = tensor_form(ty)?;
        zeros(dtype, &shape)
    }

    /// The new content of the operands that are written.
    pub fn run(&self, operands: Vec<Array>, immediates: &[Scalar]) -> Result<Vec<Array>, Failure> {
        let mut values: Vec<Option<Array>> = operands.into_iter().map(Some).collect();
        values.resize(self.slots.len(), None);
        // What was not computed is a `tensor.empty`: steps come in the order of their values.
        let get = |values: &[Option<Array>], slot: usize| -> Result<Array, Failure> {
            match &values[slot] {
                Some(value) => Ok(value.clone()),
                None => Self::blank(self.slots[slot]),
            }
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
            let captures = step.captures.iter().map(|i| immediates.get(*i).copied());
            let captures: Option<Vec<Scalar>> = captures.collect();
            let captures = captures.ok_or("is called without its immediates")?;
            let results = step.kernel.on_arrays(&inputs, outputs, &captures)?;
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

/// A step whose results lie in slots from `first` on.
fn step(
    ir: &Ir,
    generic: &Generic,
    slots: &HashMap<Value, usize>,
    scalars: &[Value],
    first: usize,
) -> Result<Step, Failure> {
    let kernel = GenericKernel::new(ir, generic)?;
    let captured = kernel.captured().iter();
    let captures = captured.map(|value| scalars.iter().position(|scalar| scalar == value));
    let captures: Option<Vec<usize>> = captures.collect();
    let captures = captures.ok_or("uses scalars from outside of its region")?;
    let inputs = find(slots, generic.inputs.iter().copied())?;
    let outputs = find(slots, generic.outputs.iter().copied())?;
    let results = (first..first + generic.outputs.len()).collect();
    Ok(Step {
        kernel,
        captures,
        inputs,
        outputs,
        results,
    })
}

/// The values of a call's immediates.
pub(super) fn immediates(attrs: Option<&[Attr]>) -> Result<Rc<[Scalar]>, Failure> {
    let scalar = |attr: &Attr| {
        let text = || format!("has the immediate {attr}, which is no number").into();
        Scalar::from_attr(*attr).ok_or_else(text)
    };
    attrs.unwrap_or_default().iter().map(scalar).collect()
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
