//! Views with strides of their own.

use tir::{At, Attr, Failure, MemRefType, Op, OpId, OpState, Type, Value};
use tir_memref::ReinterpretCast;

use super::{Code, int32s};

impl Code<'_> {
    /// A view with the strides that its type says.
    pub(super) fn reshaped(&mut self, op: OpId, source: Value, ty: Type) -> Result<(), Failure> {
        let dynamic = ty.get::<MemRefType>().and_then(MemRefType::strides);
        let mut operands = vec![source];
        if dynamic.is_some_and(|(_, offset)| offset == tir::DYNAMIC) {
            operands.push(self.offset(op, source)?);
        }
        let view = self.viewed(At::Before(op), &operands, ty)?;
        self.ir.replace(op, &[view]);
        Ok(())
    }

    /// Elements of a buffer, the first operand, as another type says; an offset that the type does not say is the second
    /// operand.
    pub(super) fn viewed(
        &mut self,
        at: At,
        operands: &[Value],
        ty: Type,
    ) -> Result<Value, Failure> {
        let memref: &MemRefType = ty.get().ok_or("gives no buffer")?;
        let (strides, offset) = memref
            .strides()
            .ok_or("has a layout that is no strided one")?;
        if [&strides, &memref.shape]
            .iter()
            .any(|all| all.contains(&tir::DYNAMIC))
        {
            return Err(format!("gives a {ty}, expected known sizes and strides").into());
        }
        let mut state = OpState {
            operands: operands.iter().copied().collect(),
            results: [ty].into_iter().collect(),
            ..OpState::new(<ReinterpretCast as Op>::name())
        };
        state.set_attr("static_offsets", Attr::ints(&[offset]));
        state.set_attr("static_sizes", Attr::ints(&memref.shape));
        state.set_attr("static_strides", Attr::ints(&strides));
        let dynamic = operands.len() as i64 - 1;
        state.set_attr(tir::SEGMENTS, int32s(&[1, dynamic, 0, 0]));
        let new = self.ir.create_raw(state);
        self.ir.insert(new, at);
        Ok(self.ir.result(new, 0))
    }

    /// Where a buffer begins, in elements.
    pub(super) fn offset(&mut self, op: OpId, source: Value) -> Result<Value, Failure> {
        let ty = self.ir.ty(source);
        let rank = ty.shape().map_or(0, <[i64]>::len);
        let mut results = vec![Type::memref([], ty.elem(), None)];
        results.extend(std::iter::repeat_n(Type::index(), 1 + 2 * rank));
        let state = OpState {
            loc: self.ir.loc(op),
            operands: [source].into_iter().collect(),
            results: results.into(),
            ..OpState::new("memref.extract_strided_metadata")
        };
        let new = self.ir.create_raw(state);
        self.ir.insert(new, At::Before(op));
        Ok(self.ir.result(new, 1))
    }
}
