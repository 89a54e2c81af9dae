//! Scalar operations: numbers, and what is computed of registers.

use tir_core::{Failure, Type, Value, VectorType};

use super::Compiler;
use crate::code::{Instr, Reg, Slot};
use crate::data::Data;
use crate::env::constant;
use crate::ops::ScalarOp;
use crate::scalar::{Kind, Scalar};

impl Compiler<'_> {
    /// The register that holds a number from the start.
    pub fn number(&mut self, number: Scalar) -> Reg {
        if let Some(reg) = self.numbers.get(&number) {
            return *reg;
        }
        let reg = self.temp(number.kind);
        self.code.scalars[reg.index as usize] = number.bits;
        self.numbers.insert(number, reg);
        reg
    }

    pub(crate) fn is_number(&self, index: u32) -> Option<u64> {
        let held = self.numbers.values().any(|r| r.index == index);
        held.then(|| self.code.scalars[index as usize])
    }

    /// A scalar operation into a register.
    pub fn emit(&mut self, op: ScalarOp, dst: Reg, args: &[Reg]) -> Result<(), Failure> {
        let (kinds, count) = op.inputs();
        let fits = args.len() == count && args.iter().zip(kinds).all(|(r, k)| r.kind == k);
        if !fits || dst.kind != op.kind() {
            let kinds: Vec<Kind> = args.iter().map(|r| r.kind).collect();
            return Err(format!("internal error: {op:?} on {kinds:?} to {:?}", dst.kind).into());
        }
        let at = |i: usize| args.get(i).map_or(0, |r| r.index);
        let (dst, a, b) = (dst.index, at(0), at(1));
        self.push(match op {
            ScalarOp::Copy(_) => Instr::Move { dst, src: a },
            op => Instr::Op {
                op,
                dst,
                a,
                b,
                c: at(2),
            },
        });
        Ok(())
    }

    /// A scalar operation into a new register.
    pub fn compute(&mut self, op: ScalarOp, args: &[Reg]) -> Result<Reg, Failure> {
        let dst = self.temp(op.kind());
        self.emit(op, dst, args)?;
        Ok(dst)
    }

    /// A scalar operation on values; on tensors and vectors it works element by element.
    pub fn scalar(&mut self, op: ScalarOp, result: Value, args: &[Value]) -> Result<(), Failure> {
        self.scalars(&[(op, result)], args)
    }

    /// [`Compiler::scalar`] of an op with several results, each an operation on all operands.
    pub fn scalars(&mut self, all: &[(ScalarOp, Value)], args: &[Value]) -> Result<(), Failure> {
        let held = |v: &Value| Kind::of(self.ir.ty(*v)).is_some();
        let results: Vec<Value> = all.iter().map(|(_, result)| *result).collect();
        if results.iter().chain(args).all(held) {
            let regs = args.iter().map(|v| self.reg(*v));
            let regs = regs.collect::<Result<Vec<_>, _>>()?;
            for (op, result) in all {
                let dst = self.reg(*result)?;
                self.emit(*op, dst, &regs)?;
            }
            return Ok(());
        }
        let wide = all.iter().find_map(|(op, _)| {
            let (kinds, count) = op.inputs();
            let kinds = kinds[..count].iter().copied();
            kinds.chain([op.kind()]).find(|kind| kind.width() > 64)
        });
        let of_elements: Vec<(ScalarOp, Type)> = all
            .iter()
            .map(|(op, result)| (*op, self.ir.ty(*result).elem()))
            .collect();
        if let Some(kind) = wide {
            let shaped = |v: &Value| self.ir.ty(*v).shape().is_some();
            if self.kernel || results.iter().any(shaped) {
                let width = kind.width();
                return Err(format!(
                    "integers of {width} bits run as scalars of functions only, not as elements"
                )
                .into());
            }
            self.native(args, &results, move |_, inputs| {
                if inputs.iter().any(Data::is_unknown) {
                    return Ok(vec![Data::Unknown; of_elements.len()]);
                }
                of_elements
                    .iter()
                    .map(|(op, _)| op.on_data(inputs))
                    .collect()
            });
            return Ok(());
        }
        if let [(op, result)] = all
            && self.ir.ty(*result).is::<VectorType>()
        {
            let (op, ty) = (*op, self.ir.ty(*result));
            self.native_by_ref(args, &results, move |_, inputs| {
                Ok(vec![crate::lanes::vector(op, inputs, ty)?])
            });
            return Ok(());
        }
        self.native(args, &results, move |_, inputs| {
            if inputs.iter().any(Data::is_unknown) {
                return Ok(vec![Data::Unknown; of_elements.len()]);
            }
            let one = |(op, elem): &(ScalarOp, Type)| crate::lanes::elementwise(*op, inputs, *elem);
            of_elements.iter().map(one).collect()
        });
        Ok(())
    }

    /// `cond ? a : b` on values of any type. The condition is an `i1`, or a tensor of them.
    pub fn select(
        &mut self,
        result: Value,
        cond: Value,
        a: Value,
        b: Value,
    ) -> Result<(), Failure> {
        let ty = self.ir.ty(result);
        if Kind::of(self.ir.ty(cond)).is_none() {
            let kind = Kind::of(ty.elem()).ok_or("select by elements needs elements")?;
            return self.scalar(ScalarOp::Select(kind), result, &[cond, a, b]);
        }
        if let Some(kind) = Kind::of(ty) {
            return self.scalar(ScalarOp::Select(kind), result, &[cond, a, b]);
        }
        let (dst, cond) = (self.object(result)?, self.reg(cond)?.index);
        let (a, b) = (self.object(a)?, self.object(b)?);
        self.push(Instr::SelectObject { dst, cond, a, b });
        Ok(())
    }

    /// The constant that an attribute says.
    pub fn constant(&mut self, result: Value, attr: tir_core::Attr) -> Result<(), Failure> {
        let data = constant(attr, self.ir.ty(result))?;
        let slot = match (&data, Kind::of(self.ir.ty(result))) {
            (Data::Scalar(scalar), Some(kind)) if scalar.kind == kind => {
                Slot::Scalar(self.number(*scalar))
            }
            (_, Some(_)) => {
                return Err(
                    format!("constant {attr} is not of type {}", self.ir.ty(result)).into(),
                );
            }
            _ => {
                data.check(self.ir.ty(result))?;
                let index = self.new_object();
                self.code.constants.push((index, data));
                Slot::Object(index)
            }
        };
        self.set_slot(result, slot);
        Ok(())
    }
}
