//! Nests of vector units on the machine model.

use std::cell::OnceCell;
use std::rc::Rc;

use tir::data::Array;
use tir::interp::{Compiler, Scalar, StridedBox, array_of};
use tir::{Data, Failure, LowerToEval, MemRefType, OpRef, SmallVec, Type, Value};
use tir_machine as sim;
use tir_tensor::eval::GenericKernel;

use super::{Body, MachineMemory, Prepared, tokens};
use crate::Apply;
use crate::machine::{MachineInfo, multiply_adds};
use crate::vector::NestShape;

/// A nest, ready to run. Without data there are no captured scalars.
struct Nest {
    kernel: GenericKernel,
    inputs: usize,
    /// Types of the operands of the nest.
    types: Vec<Type>,
    /// Whether the outputs are read.
    combines: bool,
}

impl LowerToEval for Apply {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let ir = op.ir;
        let generic = self.nest();
        let nest = Rc::new(Nest {
            kernel: GenericKernel::new(ir, &generic)?,
            inputs: self.inputs.len(),
            types: generic.operands().map(|v| ir.ty(v)).collect(),
            combines: self.combine.is_some(),
        });
        let count = nest.types.len();
        let scalars = count + nest.kernel.captured().len();
        let mut operands: Vec<Value> = generic.operands().collect();
        operands.extend(nest.kernel.captured());
        operands.extend(&self.after);
        let results: Vec<Value> = ir.results(op.id).collect();
        if !self.outputs.iter().any(|v| ir.ty(*v).is::<MemRefType>()) {
            cx.native(&operands, &results, move |env, data| {
                nest.kernel.on_tensors(env, data)
            });
            return Ok(());
        }
        let (name, macs) = (self.vector.0, multiply_adds(ir, &generic));
        let unit = self.unit.map(|unit| unit.0);
        let shape = NestShape::of(ir, &generic).ok_or("has strides that are not known")?;
        let body = generic.body;
        let elems: Vec<Type> = nest.types.iter().map(|ty| ty.elem()).collect();
        let find = move |machine: &MachineInfo| {
            let vector = machine.vector(name)?;
            let region = vector.covers(ir, body, generic.combine, &elems).ok()?;
            Some((unit.unwrap_or(vector.unit), vector.cycles(region, &shape)))
        };
        let prepared = OnceCell::new();
        cx.native(&operands, &results, move |env, data| {
            if env.memory_as::<MachineMemory>().is_none() {
                return nest.kernel.on_buffers(env, &mut data[..scalars]);
            }
            let captures = match env.is_dataless() {
                true => None,
                false => Some(nest.kernel.captures(&data[..scalars])?),
            };
            let (views, after) = (&data[..count], tokens(&data[scalars..])?);
            Prepared::with(&prepared, env, name, &find, |memory, prepared| {
                nest.start(memory, prepared, views, &after, macs, captures)
            })?;
            Ok(Vec::new())
        });
        Ok(())
    }
}

impl Nest {
    fn start(
        self: &Rc<Self>,
        memory: &mut MachineMemory,
        prepared: &Prepared<i64>,
        views: &[Data],
        after: &[sim::Token],
        macs: i64,
        captures: Option<Vec<Scalar>>,
    ) -> Result<(), Failure> {
        let mut all: SmallVec<[StridedBox; 4]> = SmallVec::new();
        for view in views {
            all.push(memory.strided(view.as_view()?)?);
        }
        let (inputs, outputs) = all.split_at(self.inputs);
        let work = sim::Work {
            reads: if self.combines { &all } else { inputs },
            writes: outputs,
            after,
            label: Some(prepared.label),
            macs: u64::try_from(macs).unwrap_or(0),
            overhead: inputs.is_empty(),
            ..sim::Work::new(
                prepared.at,
                sim::Cost::Cycles(u64::try_from(prepared.known).unwrap_or(0)),
            )
        };
        memory.issue(prepared.at, prepared.issue)?;
        let started = match captures {
            None => memory.machine.start(prepared.queue, &work, |_| Ok(())),
            Some(captures) => {
                let (nest, operands) = (self.clone(), all.clone());
                memory.machine.start(prepared.queue, &work, move |memory| {
                    let done = nest.run(memory, &operands, &captures);
                    done.map_err(|e| e.message.clone())
                })
            }
        };
        memory.check(started).map(|_| ())
    }

    fn run(
        &self,
        memory: &mut sim::Memory,
        all: &[StridedBox],
        captures: &[Scalar],
    ) -> Result<(), Failure> {
        let mut arrays: Vec<Array> = Vec::new();
        for (i, (place, ty)) in all.iter().zip(&self.types).enumerate() {
            arrays.push(if i < self.inputs || self.combines {
                let bytes = memory.load(place)?;
                array_of(ty.elem(), ty.shape().unwrap_or(&[]), bytes)?
            } else {
                Body::blank(Type::tensor(ty.shape().unwrap_or(&[]), ty.elem()))?
            });
        }
        let outputs = arrays.split_off(self.inputs);
        let results = self.kernel.on_arrays(&arrays, outputs, captures)?;
        for (place, result) in all[self.inputs..].iter().zip(results) {
            memory.store(place, result.bytes())?;
        }
        Ok(())
    }
}
