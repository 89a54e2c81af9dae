//! `tensorize`: puts calls of intrinsics in place of generics on tiles whose behaviour is theirs.

use tir::{At, Builder, Diagnostic, Ir, OpId, Rets, Sym, Value};
use tir_accel::Call;
use tir_tensor::{Generic, InsertSlice};

use crate::matching::{Behaviour, Exact, match_exact};
use crate::near::is_far;
use crate::plan::Target;

/// What was replaced.
#[derive(Default)]
pub struct Tensorized {
    /// The number of calls made.
    pub made: usize,
    /// The number of generics left.
    pub left: usize,
    /// A remark for each call that makes the thread copy tiles.
    pub remarks: Vec<Diagnostic>,
}

/// Replaces what matches. Of several intrinsics that compute the same, the first is taken whose call
/// needs no copy.
pub fn tensorize(func: &mut Ir, target: &Target<'_>) -> Tensorized {
    let mut generics: Vec<OpId> = func.walk_ids();
    generics.retain(|op| func.is::<Generic>(*op));
    let mut out = Tensorized::default();
    for op in generics {
        let Some(generic) = func.get::<Generic>(op) else {
            continue;
        };
        // No unit reaches a tensor in far memory.
        if is_far(func, op) {
            out.left += 1;
            continue;
        }
        let all = target.behaviours.iter().enumerate();
        let dest = generic.outputs[0];
        // What an intrinsic writes in place is not where the result belongs, unless it is both.
        let misplaced = |behaviour: &Behaviour<'_>, exact: &Exact| {
            let read = behaviour.inputs.iter().position(|operand| *operand == 0);
            read.is_some_and(|j| generic.inputs[exact.inputs[j]] != dest)
        };
        let found = all
            .filter_map(|(i, b)| Some((i, b.as_ref().ok()?)))
            .filter_map(|(i, behaviour)| {
                let exact = match_exact(func, &generic, behaviour)?;
                Some((i, behaviour, exact))
            })
            .min_by_key(|(_, behaviour, exact)| misplaced(behaviour, exact));
        let Some((index, behaviour, exact)) = found else {
            out.left += 1;
            continue;
        };
        let info = &target.info.intrinsics[index];
        let is_put = |func: &Ir| {
            let mut users = func.uses(func.result(op, 0));
            users.any(|u| func.is::<InsertSlice>(u.op))
        };
        if is_put(func) && misplaced(behaviour, &exact) {
            let text = format!(
                "the thread copies tiles for @{}, which writes the operand that it reads",
                info.name
            );
            let note = "the result belongs to another tile; an intrinsic whose 'outs' is an operand \
                        of its own, not one of its 'ins', needs no copy";
            let remark = Diagnostic::remark(text).category(tir::remarks::THREAD_COPY);
            let remark = remark.at(func.loc(op)).note(note);
            out.remarks.push(remark);
        }
        let mut operands: Vec<Option<Value>> = vec![None; info.operands.len()];
        operands[0] = Some(dest);
        for (j, operand) in behaviour.inputs.iter().enumerate() {
            operands[*operand] = Some(generic.inputs[exact.inputs[j]]);
        }
        let Some(operands) = operands.into_iter().collect::<Option<Vec<Value>>>() else {
            out.left += 1;
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
        out.made += 1;
    }
    out
}
