//! Functions of numbers: calls of what the interpreter computes with, and casts that MLIR has no op for.

use tir::{At, Attr, Failure, IntType, Name, Op, OpId, OpState, Type, Value};
use tir_arith::{
    CmpF, CmpFPredicate, Constant, DivF, ExtF, FPToSI, FPToUI, Select, TruncF, TruncI,
};
use tir_math::{Cos, Erf, Exp, Exp2, Log, Log1p, PowF, Sin, Sqrt, Tanh};
use tir_vector::Broadcast;

use super::{Callee, Code, INTRINSIC, doubles, int32s, mangled, signless};

/// The interpreter's function of doubles that an op of math is, if it is no single instruction.
pub(super) fn function(name: Name) -> Option<&'static str> {
    let all = [
        (Exp::name(), "tir_math_exp"),
        (Exp2::name(), "tir_math_exp2"),
        (Log::name(), "tir_math_log"),
        (Log1p::name(), "tir_math_log1p"),
        (Tanh::name(), "tir_math_tanh"),
        (Erf::name(), "tir_math_erf"),
        (Sin::name(), "tir_math_sin"),
        (Cos::name(), "tir_math_cos"),
        (PowF::name(), "tir_math_pow"),
    ];
    let found = all.into_iter().find(|(own, _)| *own == name);
    found.map(|(_, function)| function)
}

/// Whether an op is a function that LLVM calls a library for.
pub(crate) fn is_library_function(name: Name) -> bool {
    function(name).is_some()
}

impl Code<'_> {
    /// Calls a function of the interpreter, on doubles.
    pub(super) fn function(&mut self, op: OpId, name: &'static str) -> Result<(), Failure> {
        let operands: Vec<Value> = self.ir.operands(op).collect();
        let callee = Callee {
            name,
            arguments: operands.len(),
        };
        if !self.called.contains(&callee) {
            self.called.push(callee);
        }
        let wide: Vec<Value> = operands.iter().map(|v| self.widened(op, *v)).collect();
        let ty = doubles(self.ir.ty(self.ir.result(op, 0)));
        let value = match ty.shape() {
            None => self.called(op, name, &wide),
            Some(shape) => {
                // Element by element.
                let count = shape.iter().product();
                let made: Vec<Value> = (0..count)
                    .map(|k| {
                        let parts: Vec<Value> =
                            wide.iter().map(|v| self.element(op, *v, k)).collect();
                        self.called(op, name, &parts)
                    })
                    .collect();
                self.scalar(op, Name::new("vector.from_elements"), &made, ty)
            }
        };
        self.narrowed(op, value)
    }

    /// The call of a function of doubles.
    pub(super) fn called(&mut self, op: OpId, name: &str, operands: &[Value]) -> Value {
        let double = doubles(Type::f32());
        let call = self.scalar(op, <tir_func::Call as Op>::name(), operands, double);
        if let Some(made) = self.ir.owner(call) {
            let callee = Attr::symbol(Name::new(name));
            self.ir.set_attr(made, "callee", callee);
        }
        call
    }

    /// An element of a vector.
    pub(super) fn element(&mut self, op: OpId, vector: Value, k: i64) -> Value {
        let elem = self.ir.ty(vector).elem();
        let value = self.scalar(op, Name::new("vector.extract"), &[vector], elem);
        if let Some(made) = self.ir.owner(value) {
            self.ir.set_attr(made, "static_position", Attr::ints(&[k]));
        }
        value
    }

    /// The nearest integer that there is: an intrinsic of LLVM.
    pub(super) fn saturated(&mut self, op: OpId, input: Value, how: &str) -> Result<(), Failure> {
        let (from, to) = (self.ir.ty(input), self.ir.ty(self.ir.result(op, 0)));
        if let Some(value) = self.clamped(op, input) {
            self.ir.replace(op, &[value]);
            return Ok(());
        }
        let to = signless(to);
        let new = self.become_op(op, INTRINSIC, &[input], &[]);
        let name = format!("llvm.{how}.sat.{}.{}", mangled(to), mangled(from));
        self.ir.set_attr(new, "intrin", Attr::str(&name));
        self.ir.set_attr(new, "op_bundle_sizes", int32s(&[]));
        self.ir.set_attr(new, tir::SEGMENTS, int32s(&[1, 0]));
        Ok(())
    }

    /// Vectors of small integers, which LLVM makes of the intrinsic element by element: the range is cut off in floats,
    /// which hold its ends, and the rest is exact.
    fn clamped(&mut self, op: OpId, input: Value) -> Option<Value> {
        let (from, to) = (self.ir.ty(input), self.ir.ty(self.ir.result(op, 0)));
        let int: &IntType = to.elem().get()?;
        let fits = int.width <= 16 && matches!(from.elem().float_width(), Some(32 | 64));
        if from.shape().is_none() || !fits {
            return None;
        }
        let (low, high) = match (int.is_unsigned() || self.ir.is::<FPToUI>(op), int.width) {
            (true, width) => (0.0, f64::from(width).exp2() - 1.0),
            (false, width) => {
                let half = f64::from(width - 1).exp2();
                (-half, half - 1.0)
            }
        };
        let mut all = |value: f64| {
            let value = Attr::float(value, from.elem());
            let one = self.ir.add(At::Before(op), Constant { value });
            self.scalar(op, Broadcast::name(), &[one], from)
        };
        let (zero, low, high) = (all(0.0), all(low), all(high));
        let mut b = self.ir.at(At::Before(op));
        let mut unless = |predicate: CmpFPredicate, value: Value, other: Value, instead: Value| {
            let condition = b.add(CmpF {
                predicate,
                lhs: value,
                rhs: other,
                fastmath: None,
            });
            b.add(Select {
                condition,
                true_value: instead,
                false_value: value,
            })
        };
        let number = unless(CmpFPredicate::Uno, input, input, zero);
        let above = unless(CmpFPredicate::Olt, number, low, low);
        let within = unless(CmpFPredicate::Ogt, above, high, high);
        // More than the range of either sign, so one cast does for both.
        let wide = from.with_elem(Type::int(32));
        let wide = self.scalar(op, FPToSI::name(), &[within], wide);
        Some(self.scalar(op, TruncI::name(), &[wide], to))
    }

    /// One by the square root, rounded once.
    pub(super) fn rsqrt(&mut self, op: OpId) -> Result<(), Failure> {
        let operand = self.ir.operand(op, 0);
        let wide = self.widened(op, operand);
        let ty = self.ir.ty(wide);
        let root = self.scalar(op, Sqrt::name(), &[wide], ty);
        let value = Attr::float(1.0, ty.elem());
        let mut one = self.ir.add(At::Before(op), Constant { value });
        if ty.shape().is_some() {
            one = self.scalar(op, Broadcast::name(), &[one], ty);
        }
        let value = self.scalar(op, DivF::name(), &[one, root], ty);
        self.narrowed(op, value)
    }

    pub(super) fn scalar(&mut self, op: OpId, name: Name, operands: &[Value], ty: Type) -> Value {
        let state = OpState {
            loc: self.ir.loc(op),
            operands: operands.iter().copied().collect(),
            results: [ty].into_iter().collect(),
            ..OpState::new(name)
        };
        let new = self.ir.create_raw(state);
        self.ir.insert(new, At::Before(op));
        self.ir.result(new, 0)
    }

    pub(super) fn widened(&mut self, op: OpId, value: Value) -> Value {
        let ty = doubles(self.ir.ty(value));
        match self.ir.ty(value) == ty {
            true => value,
            false => self.scalar(op, ExtF::name(), &[value], ty),
        }
    }

    /// Replaces an op by a double, rounded to the type of its result.
    pub(super) fn narrowed(&mut self, op: OpId, value: Value) -> Result<(), Failure> {
        let ty = self.ir.ty(self.ir.result(op, 0));
        let value = match self.ir.ty(value) == ty {
            true => value,
            false => self.scalar(op, TruncF::name(), &[value], ty),
        };
        self.ir.replace(op, &[value]);
        Ok(())
    }
}
