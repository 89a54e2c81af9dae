//! Functions of numbers: calls of what the interpreter computes with, and casts that MLIR has no op for.

use tir::{At, Attr, Failure, FloatType, IntType, Ir, Name, Op, OpId, OpState, Type, Value};
use tir_arith::{
    Bitcast, CmpF, CmpFPredicate, Constant, DivF, ExtF, FPToSI, FPToUI, MaxNumF, MaximumF, MinNumF,
    MinimumF, OrI, Select, SubI, TruncF, TruncI,
};
use tir_math::{AbsF, Cos, Erf, Exp, Exp2, Log, Log1p, PowF, Sin, Sqrt, Tanh};
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

/// The intrinsic of LLVM that orders zeros as the interpreter does, and whether a number goes before NaN. What MLIR itself makes of
/// these ops, comparisons and selections, does not order zeros, and takes LLVM exponential time where they follow one another.
pub(super) fn extreme(name: Name) -> Option<(&'static str, bool)> {
    let all = [
        (MaximumF::name(), "llvm.intr.maximum", false),
        (MinimumF::name(), "llvm.intr.minimum", false),
        (MaxNumF::name(), "llvm.intr.maximum", true),
        (MinNumF::name(), "llvm.intr.minimum", true),
    ];
    let found = all.into_iter().find(|(own, ..)| *own == name);
    found.map(|(_, form, of_numbers)| (form, of_numbers))
}

/// Whether an op computes elements of bf16: LLVM computes with floats, and calls what not every library of GCC has to round them.
pub(super) fn computes_bf16(ir: &Ir, op: OpId) -> bool {
    let name = ir.name(op);
    let (dialect, _) = name.as_str().split_once('.').unwrap_or_default();
    // These round themselves, or copy.
    let others = [
        Constant::name(),
        TruncF::name(),
        Bitcast::name(),
        Select::name(),
    ];
    let mut results = ir.results(op).map(|v| ir.ty(v).elem());
    ["arith", "math"].contains(&dialect)
        && !others.contains(&name)
        && results.any(|elem| elem.get::<FloatType>() == Some(&FloatType::BF16))
}

/// Whether a cast rounds doubles to bf16, for which LLVM calls what not every library of GCC has.
pub(super) fn from_double_to_bf16(from: Type, to: Type) -> bool {
    let is = |ty: Type, format: FloatType| ty.elem().get::<FloatType>() == Some(&format);
    is(from, FloatType::F64) && is(to, FloatType::BF16)
}

/// Whether an op is a function that LLVM calls a library for.
pub(crate) fn is_library_function(name: Name) -> bool {
    function(name).is_some()
}

impl Code<'_> {
    /// The larger or smaller of two numbers, as [`extreme`] says.
    pub(super) fn extreme(
        &mut self,
        op: OpId,
        form: &str,
        of_numbers: bool,
    ) -> Result<(), Failure> {
        let [mut x, mut y] = [0, 1].map(|k| self.ir.operand(op, k));
        if of_numbers {
            // Where one is no number, it is the other one.
            let mut b = self.ir.at(At::Before(op));
            let mut instead = |x: Value, y: Value| {
                let condition = b.add(CmpF {
                    predicate: CmpFPredicate::Uno,
                    lhs: x,
                    rhs: x,
                    fastmath: None,
                });
                b.add(Select {
                    condition,
                    true_value: y,
                    false_value: x,
                })
            };
            (x, y) = (instead(x, y), instead(y, x));
        }
        let new = self.become_op(op, form, &[x, y], &[]);
        // Fast code does not order zeros.
        if !self.options.strict {
            let fast = tir::text::parse_attr("#llvm.fastmath<nsz>");
            let fast = fast.map_err(|e| -> Failure { format!("{e:?}").into() })?;
            self.ir.set_attr(new, "fastmathFlags", fast);
        }
        Ok(())
    }

    /// Computes in floats what [`computes_bf16`], and rounds it; whole numbers in doubles, which hold those of 32 bits.
    pub(super) fn in_floats(&mut self, op: OpId) -> Result<(), Failure> {
        let result = self.ir.ty(self.ir.result(op, 0));
        let operands: Vec<Value> = self.ir.operands(op).collect();
        let is_float = |ty: Type| ty.elem().is_float();
        let whole = !operands.iter().any(|v| is_float(self.ir.ty(*v)));
        let wide = match whole {
            true => doubles(result),
            false => result.with_elem(Type::f32()),
        };
        let is_narrow = |ty: Type| ty.elem() == result.elem();
        let mut given = Vec::new();
        for value in operands {
            let ty = self.ir.ty(value);
            given.push(match is_narrow(ty) {
                true => self.scalar(op, ExtF::name(), &[value], ty.with_elem(Type::f32())),
                false => value,
            });
        }
        let made = self.scalar(op, self.ir.name(op), &given, wide);
        let Some(new) = self.ir.owner(made) else {
            return Ok(());
        };
        for (name, attr) in self.ir.attrs(op).to_vec() {
            self.ir.set_attr(new, name.as_str(), attr);
        }
        self.narrowed(op, made)?;
        self.op(new)
    }

    /// A double as bf16, rounded once: first to an odd float, of which no bit more is lost than that something was (S. Boldo and
    /// G. Melquiond, "When double rounding is odd", 2005).
    pub(super) fn rounded_to_bf16(&mut self, op: OpId, input: Value) -> Result<(), Failure> {
        let double = self.ir.ty(input);
        let [float, int] = [Type::f32(), Type::int(32)].map(|elem| double.with_elem(elem));
        let near = self.scalar(op, TruncF::name(), &[input], float);
        let back = self.scalar(op, ExtF::name(), &[near], double);
        let [size, exact] = [back, input].map(|v| self.scalar(op, AbsF::name(), &[v], double));
        let bits = self.scalar(op, Bitcast::name(), &[near], int);
        let one = self.ir.add(
            At::Before(op),
            Constant {
                value: Attr::int(1, Type::int(32)),
            },
        );
        let one = match double.shape() {
            Some(_) => self.scalar(op, Broadcast::name(), &[one], int),
            None => one,
        };
        let mut b = self.ir.at(At::Before(op));
        let mut compare = |predicate: CmpFPredicate, lhs: Value, rhs: Value| {
            b.add(CmpF {
                predicate,
                lhs,
                rhs,
                fastmath: None,
            })
        };
        let beyond = compare(CmpFPredicate::Ogt, size, exact);
        let lost = compare(CmpFPredicate::One, size, exact);
        let less = self.scalar(op, SubI::name(), &[bits, one], int);
        let toward_zero = self.scalar(op, Select::name(), &[beyond, less, bits], int);
        let odd = self.scalar(op, OrI::name(), &[toward_zero, one], int);
        let odd = self.scalar(op, Select::name(), &[lost, odd, bits], int);
        let odd = self.scalar(op, Bitcast::name(), &[odd], float);
        self.narrowed(op, odd)
    }

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
        if from_double_to_bf16(self.ir.ty(value), ty) {
            return self.rounded_to_bf16(op, value);
        }
        let value = match self.ir.ty(value) == ty {
            true => value,
            false => self.scalar(op, TruncF::name(), &[value], ty),
        };
        self.ir.replace(op, &[value]);
        Ok(())
    }
}
