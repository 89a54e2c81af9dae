//! `tensorize`: puts calls of intrinsics in place of generics on tiles whose behaviour is theirs, and
//! nests of vector units in place of those whose region they compute.

use tir::{At, Builder, Diagnostic, Ir, OpId, Rets, Sym, Value};
use tir_accel::machine::IntrinsicInfo;
use tir_accel::vector::VectorInfo;
use tir_accel::{Apply, Call, Yield};
use tir_tensor::{Generic, InsertSlice};

use crate::matching::{Behaviour, Exact, match_exact};
use crate::near::{Side, is_far, side};
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
/// needs no copy; a vector unit that computes it takes it where that is quicker.
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
        let called = exact(func, &generic, target);
        let applied = target.vector(func, &generic);
        let applied = applied.filter(|(vector, cycles)| {
            let mut operands = generic.operands();
            let all_here = operands.all(|v| side(func, v) == Some(Side::Near(vector.space)));
            let quicker = |(call, misplaced): &(Option<Calling>, bool)| {
                let call = call
                    .as_ref()
                    .map(|call| target.info.intrinsics[call.intrinsic].cycles);
                call.is_none_or(|call| *misplaced || *cycles < call)
            };
            all_here && quicker(&called)
        });
        let done = match (applied, called) {
            (Some((vector, _)), _) => {
                apply(func, op, generic, vector);
                true
            }
            (None, (Some(calling), misplaced)) => {
                out.remarks.extend(copies(
                    func,
                    op,
                    &target.info.intrinsics[calling.intrinsic],
                    misplaced,
                ));
                call(func, op, &generic, target, &calling)
            }
            (None, (None, _)) => false,
        };
        match done {
            true => out.made += 1,
            false => out.left += 1,
        }
    }
    out
}

/// An intrinsic that computes a generic.
struct Calling {
    /// Its index.
    intrinsic: usize,
    exact: Exact,
}

/// The intrinsic to call for a generic, and whether it writes in place where the result does not
/// belong.
fn exact(func: &Ir, generic: &Generic, target: &Target<'_>) -> (Option<Calling>, bool) {
    let dest = generic.outputs[0];
    // What an intrinsic writes in place is not where the result belongs, unless it is both.
    let misplaced = |behaviour: &Behaviour<'_>, exact: &Exact| {
        let read = behaviour.inputs.iter().position(|operand| *operand == 0);
        read.is_some_and(|j| generic.inputs[exact.inputs[j]] != dest)
    };
    let all = target.behaviours.iter().enumerate();
    let found = all.filter_map(|(intrinsic, behaviour)| {
        let behaviour = behaviour.as_ref().ok()?;
        let exact = match_exact(func, generic, behaviour)?;
        let misplaced = misplaced(behaviour, &exact);
        // A tile that lies elsewhere would have to be copied.
        let spaces = &target.info.intrinsics[intrinsic].spaces;
        let elsewhere = |value: Value, operand: usize| {
            matches!(side(func, value), Some(Side::Near(space)) if space != spaces[operand])
        };
        let mut inputs = behaviour.inputs.iter().enumerate();
        if elsewhere(dest, 0)
            || inputs.any(|(j, operand)| elsewhere(generic.inputs[exact.inputs[j]], *operand))
        {
            return None;
        }
        Some((Calling { intrinsic, exact }, misplaced))
    });
    match found.min_by_key(|(_, misplaced)| *misplaced) {
        Some((calling, misplaced)) => (Some(calling), misplaced),
        None => (None, false),
    }
}

/// The remark that the thread copies tiles for a call, if it does.
fn copies(func: &Ir, op: OpId, info: &IntrinsicInfo, misplaced: bool) -> Option<Diagnostic> {
    let mut users = func.uses(func.result(op, 0));
    let is_put = users.any(|u| func.is::<InsertSlice>(u.op));
    let text = || {
        format!(
            "the thread copies tiles for @{}, which writes the operand that it reads",
            info.name
        )
    };
    let note = "the result belongs to another tile; an intrinsic whose 'outs' is an operand \
                of its own, not one of its 'ins', needs no copy";
    let copies = is_put && misplaced;
    copies.then(|| {
        let remark = Diagnostic::remark(text()).category(tir::remarks::THREAD_COPY);
        remark.at(func.loc(op)).note(note)
    })
}

/// Puts a call in place of a generic.
fn call(
    func: &mut Ir,
    op: OpId,
    generic: &Generic,
    target: &Target<'_>,
    calling: &Calling,
) -> bool {
    let info = &target.info.intrinsics[calling.intrinsic];
    let Ok(behaviour) = &target.behaviours[calling.intrinsic] else {
        return false;
    };
    let dest = generic.outputs[0];
    let mut operands: Vec<Option<Value>> = vec![None; info.operands.len()];
    operands[0] = Some(dest);
    for (j, operand) in behaviour.inputs.iter().enumerate() {
        operands[*operand] = Some(generic.inputs[calling.exact.inputs[j]]);
    }
    let Some(operands) = operands.into_iter().collect::<Option<Vec<Value>>>() else {
        return false;
    };
    let results = Rets(vec![func.ty(dest)]);
    let mut b = Builder::new(func, At::Before(op));
    let results = b.add(Call {
        callee: Sym(info.name),
        operands,
        after: Vec::new(),
        writes: 1,
        unit: None,
        results,
    });
    func.replace(op, &results);
    true
}

/// Puts a nest of a vector unit in place of a generic.
fn apply(func: &mut Ir, op: OpId, nest: Generic, vector: &VectorInfo) {
    let body = nest.body;
    func.detach_region(body);
    let end = func.entry(body).and_then(|block| func.last(block));
    if let Some(end) = end {
        let values: Vec<Value> = func.operands(end).collect();
        let mut b = Builder::new(func, At::Before(end));
        b.add(Yield { values });
        func.erase(end);
    }
    let results = nest.outputs.iter().map(|v| func.ty(*v)).collect();
    let mut b = Builder::new(func, At::Before(op));
    let results = b.add(Apply {
        vector: Sym(vector.name),
        inputs: nest.inputs,
        outputs: nest.outputs,
        after: Vec::new(),
        indexing_maps: nest.indexing_maps,
        iterator_types: nest.iterator_types,
        combine: nest.combine,
        sizes: nest.sizes,
        unit: None,
        body,
        results: Rets(results),
    });
    func.replace(op, &results);
}
