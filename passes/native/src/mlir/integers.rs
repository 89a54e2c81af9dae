//! Sums of products of integers: the processor's own instruction where it has one, multiplications of `i32` elsewhere.

use tir::{At, Attr, Failure, IntType, Name, Op, OpId, OpState, Ret, Type, Value};
use tir_arith::{AddI, ExtSI, ExtUI, MulI};
use tir_vector::{Broadcast, Dot, Shuffle};

use super::{Code, INTRINSIC, int32s};

/// LLVM's name of what a processor has that multiplies bytes in groups of four.
const VNNI: &str = "+avx512vnni";

fn unsigned(ty: Type) -> bool {
    let int: Option<&IntType> = ty.elem().get();
    int.is_some_and(IntType::is_unsigned)
}

impl Code<'_> {
    pub(super) fn dot(&mut self, op: OpId, dot: &Dot) -> Result<(), Failure> {
        let value = match self.by_groups(op, dot) {
            Some(value) => value,
            None => self.by_products(op, dot)?,
        };
        self.ir.replace(op, &[value]);
        Ok(())
    }

    /// One instruction, `vpdpbusd`, which multiplies numbers without sign by such with one, and does not saturate.
    fn by_groups(&mut self, op: OpId, dot: &Dot) -> Option<Value> {
        let features = self.processor.map_or("", |processor| &processor.features);
        let bits = self.ir.ty(dot.many).elements()? * 8;
        let signs = [dot.few, dot.many].map(|value| unsigned(self.ir.ty(value)));
        let group = self.ir.ty(dot.few).elements() == Some(4);
        let has = features.split(',').any(|feature| feature == VNNI);
        if !has || !group || ![128, 256, 512].contains(&bits) || signs[0] == signs[1] {
            return None;
        }
        // All four numbers as one, in each lane.
        let int = Type::int(32);
        let lanes = self.ir.ty(dot.sums);
        let one = self.scalar(
            op,
            Name::new("vector.bitcast"),
            &[dot.few],
            tir_vector::of(1, int),
        );
        let all = self.scalar(op, Broadcast::name(), &[one], lanes);
        let bytes = self.ir.ty(dot.many).with_elem(Type::int(8));
        let few = self.scalar(op, Name::new("vector.bitcast"), &[all], bytes);
        let factors = match signs[0] {
            true => [few, dot.many],
            false => [dot.many, few],
        };
        let mut state = OpState {
            loc: self.ir.loc(op),
            operands: [dot.sums, factors[0], factors[1]].into_iter().collect(),
            results: [lanes].into_iter().collect(),
            ..OpState::new(INTRINSIC)
        };
        let name = format!("llvm.x86.avx512.vpdpbusd.{bits}");
        state.set_attr("intrin", Attr::str(&name));
        state.set_attr("op_bundle_sizes", int32s(&[]));
        state.set_attr(tir::SEGMENTS, int32s(&[3, 0]));
        let made = self.ir.create_raw(state);
        self.ir.insert(made, tir::At::Before(op));
        Some(self.ir.result(made, 0))
    }

    /// A multiplication for each number of a group.
    fn by_products(&mut self, op: OpId, dot: &Dot) -> Result<Value, Failure> {
        let lanes = self.ir.ty(dot.sums);
        let count = |value: Value| self.ir.ty(value).elements().unwrap_or(0) as i64;
        let (numbers, groups) = (count(dot.few), count(dot.sums));
        let widen = |value: Value| match unsigned(self.ir.ty(value)) {
            true => ExtUI::name(),
            false => ExtSI::name(),
        };
        let (one, other) = (widen(dot.few), widen(dot.many));
        let mut sums = dot.sums;
        for q in 0..numbers {
            let few = self.element(op, dot.few, q);
            let few = self.scalar(op, one, &[few], Type::int(32));
            let few = self.scalar(op, Broadcast::name(), &[few], lanes);
            let part = lanes.with_elem(self.ir.ty(dot.many).elem());
            let chosen = Shuffle {
                lhs: dot.many,
                rhs: dot.many,
                mask: (0..groups).map(|i| i * numbers + q).collect(),
                result: Ret(part),
            };
            let many = self.ir.add(At::Before(op), chosen);
            let many = self.scalar(op, other, &[many], lanes);
            let product = self.scalar(op, MulI::name(), &[few, many], lanes);
            sums = self.scalar(op, AddI::name(), &[sums, product], lanes);
        }
        Ok(sums)
    }
}
