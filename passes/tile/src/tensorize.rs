//! `tensorize`: puts calls of intrinsics in place of generics on tiles whose behaviour is theirs.

use tir::{At, Builder, Ir, OpId, Rets, Sym, Value};
use tir_accel::Call;
use tir_tensor::Generic;

use crate::matching::match_exact;
use crate::near::is_far;
use crate::plan::Target;

/// Replaces what matches; gives the number of calls made and of generics left.
pub fn tensorize(func: &mut Ir, target: &Target<'_>) -> (usize, usize) {
    let mut generics: Vec<OpId> = func.walk_ids();
    generics.retain(|op| func.is::<Generic>(*op));
    let (mut made, mut left) = (0, 0);
    for op in generics {
        let Some(generic) = func.get::<Generic>(op) else {
            continue;
        };
        // No unit reaches a tensor in far memory.
        if is_far(func, op) {
            left += 1;
            continue;
        }
        let all = target.behaviours.iter().enumerate();
        let found = all
            .filter_map(|(i, b)| Some((i, b.as_ref().ok()?)))
            .find_map(|(i, behaviour)| {
                let exact = match_exact(func, &generic, behaviour)?;
                Some((i, behaviour, exact))
            });
        let Some((index, behaviour, exact)) = found else {
            left += 1;
            continue;
        };
        let info = &target.info.intrinsics[index];
        let dest = generic.outputs[0];
        let mut operands: Vec<Option<Value>> = vec![None; info.operands.len()];
        operands[0] = Some(dest);
        for (j, operand) in behaviour.inputs.iter().enumerate() {
            operands[*operand] = Some(generic.inputs[exact.inputs[j]]);
        }
        let Some(operands) = operands.into_iter().collect::<Option<Vec<Value>>>() else {
            left += 1;
            continue;
        };
        let results = Rets(vec![func.ty(dest)]);
        let callee = Sym(info.name);
        let mut b = Builder::new(func, At::Before(op));
        let call = Call {
            callee,
            operands,
            after: Vec::new(),
            writes: 1,
            results,
        };
        let results = b.add(call);
        func.replace(op, &results);
        made += 1;
    }
    (made, left)
}
