//! When each part of a function was done: cycles that the processor counts, stored behind each outermost op that holds
//! others or calls a function.

use tir::{At, BlockId, Failure, Loc, OpId, OpState, Type};
use tir_arith::constant_index;
use tir_func::Call;
use tir_memref::Store;

use super::{Code, INTRINSIC, int32s};

impl Code<'_> {
    /// Adds an argument of 64-bit counts to a function: one of its beginning, and one behind each op whose location is given back.
    pub(super) fn marks(&mut self, block: BlockId) -> Result<Vec<Loc>, Failure> {
        let ops = self.ir.ops_in(block);
        let parts =
            ops.filter(|op| self.ir.regions(*op).next().is_some() || self.ir.is::<Call>(*op));
        let parts: Vec<OpId> = parts.collect();
        let counts = Type::memref([parts.len() as i64 + 1], Type::int(64), None);
        let counts = self.ir.add_arg(block, counts);
        let places = std::iter::once(At::Start(block)).chain(parts.iter().map(|op| At::After(*op)));
        for (k, place) in places.enumerate() {
            let mut state = OpState {
                results: [Type::int(64)].into_iter().collect(),
                ..OpState::new(INTRINSIC)
            };
            state.set_attr("intrin", tir::Attr::str("llvm.readcyclecounter"));
            state.set_attr("op_bundle_sizes", int32s(&[]));
            state.set_attr(tir::SEGMENTS, int32s(&[0, 0]));
            let read = self.ir.create_raw(state);
            self.ir.insert(read, place);
            let value = self.ir.result(read, 0);
            let mut b = self.ir.at(At::After(read));
            let index = constant_index(&mut b, k as i64);
            let store = Store {
                value,
                memref: counts,
                indices: vec![index],
                nontemporal: None,
            };
            b.add(store);
        }
        Ok(parts.into_iter().map(|op| self.ir.loc(op)).collect())
    }
}
