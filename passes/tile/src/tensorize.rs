//! `tensorize`: puts calls of intrinsics in place of generics on tiles whose behaviour is theirs, and
//! nests of vector units in place of those whose region they compute.

use tir::{AffineMap, At, Attr, Builder, Diagnostic, Ir, Name, OpId, Rets, Sym, Value};
use tir_accel::machine::IntrinsicInfo;
use tir_accel::vector::VectorInfo;
use tir_accel::{Apply, Call, Yield};
use tir_arith::OpFoldResult;
use tir_tensor::{Generic, InsertSlice};

use crate::emit::slice::Slice;
use crate::matching::{Behaviour, Exact, match_exact, without_units};
use crate::near::{Side, is_far, side};
use crate::plan::Target;
use crate::scalar::Immediates;
use crate::sequence::{Found, Sequence};
use crate::tile::{Unmatched, on_tiles};

/// What was replaced.
#[derive(Default)]
pub struct Tensorized {
    /// The number of calls made.
    pub made: usize,
    /// The number of generics left.
    pub left: usize,
    /// A remark for each call that makes the thread copy tiles.
    pub remarks: Vec<Diagnostic>,
    /// Of each place, what the thread computes on tiles.
    pub unmatched: Vec<Unmatched>,
}

/// Replaces what matches, what intrinsics of several generics compute first. Of several intrinsics that compute the same, the first is taken whose call
/// needs no copy; a vector unit that computes it takes it where that is quicker.
pub fn tensorize(func: &mut Ir, target: &Target<'_>) -> Tensorized {
    let mut generics: Vec<OpId> = func.walk_ids();
    generics.retain(|op| func.is::<Generic>(*op));
    let mut out = Tensorized {
        made: sequences(func, &generics, target),
        ..Tensorized::default()
    };
    for op in &mut generics {
        if let Some(fused) = begun(func, *op, target) {
            *op = fused;
        }
    }
    generics.retain(|op| func.contains(*op));
    for op in generics {
        let Some(generic) = func.get::<Generic>(op) else {
            continue;
        };
        // No unit reaches a tensor in far memory; some fills are left to engines.
        let meant = func.attr(op, tir_accel::BY).and_then(|by| by.as_str());
        let engine = meant.is_some_and(|by| target.info.engine(Name::new(by)).is_some());
        if is_far(func, op) || engine {
            out.left += 1;
            continue;
        }
        let called = exact(func, &generic, target);
        if called.0.is_none() && without_ones(func, op, &generic, target).is_some() {
            out.made += 1;
            continue;
        }
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
        if done {
            out.made += 1;
            continue;
        }
        out.left += 1;
        let unmatched = on_tiles(func, op, target);
        match out
            .unmatched
            .iter_mut()
            .find(|other| other.is_beside(&unmatched))
        {
            Some(other) => other.add(unmatched),
            None => out.unmatched.push(unmatched),
        }
    }
    out
}

/// Calls an intrinsic for a generic on tiles that have dimensions of one element which the intrinsic's operands lack, on the same
/// tiles without those; `None` if there is no such intrinsic. What vector units compute they compute with them.
fn without_ones(func: &mut Ir, op: OpId, generic: &Generic, target: &Target<'_>) -> Option<()> {
    let domain = generic.domain(func).ok()?;
    if target.vector(func, generic).is_some() {
        return None;
    }
    let (kept, counted) = without_units(&domain, &generic.indexing_maps);
    let (mut slices, mut maps, mut dropped) = (Vec::new(), Vec::new(), false);
    for (value, map) in generic.operands().zip(counted) {
        let shape = func.ty(value).shape()?.to_vec();
        let dims = (0..shape.len()).filter(|t| shape[*t] != 1);
        let dims: Vec<usize> = dims.collect();
        dropped |= dims.len() < shape.len();
        let own: Vec<i64> = dims.iter().map(|t| shape[*t]).collect();
        let start = vec![OpFoldResult::Number(0); shape.len()];
        slices.push(Slice::new(&start, shape, own));
        let exprs = dims.iter().map(|t| map.exprs[*t].clone());
        maps.push(AffineMap::new(kept.len(), exprs.collect()));
    }
    if !dropped {
        return None;
    }
    let mut b = Builder::new(func, At::Before(op));
    b.loc = b.ir.loc(op);
    let values: Vec<Value> = generic.operands().collect();
    let taken = values.iter().zip(&slices);
    let taken: Vec<Value> = taken.map(|(v, slice)| slice.take(&mut b, *v)).collect();
    let (dest, inputs) = taken.split_last()?;
    let ty = b.ty(*dest);
    let less = Generic {
        inputs: inputs.to_vec(),
        outputs: vec![*dest],
        indexing_maps: maps,
        iterator_types: kept.iter().map(|d| generic.iterator_types[*d]).collect(),
        combine: generic.combine,
        sizes: generic
            .sizes
            .as_ref()
            .map(|_| kept.iter().map(|d| domain[*d]).collect()),
        body: generic.body,
        results: Rets(vec![ty]),
    };
    let (Some(calling), false) = exact(b.ir, &less, target) else {
        let made = taken.iter().zip(&values).filter(|(new, old)| new != old);
        let made: Vec<OpId> = made.filter_map(|(new, _)| func.owner(*new)).collect();
        func.erase_all(&made);
        return None;
    };
    let done = called(&mut b, &less, target, &calling)?;
    let whole = slices.last()?.put(&mut b, done, *values.last()?);
    func.replace(op, &[whole]);
    Some(())
}

/// The nest that combines a constant with values, in place of a fill and a nest without reductions that accumulates over it, if
/// a vector unit computes that and no intrinsic does.
fn begun(func: &mut Ir, op: OpId, target: &Target<'_>) -> Option<OpId> {
    let generic: Generic = func.contains(op).then(|| func.get(op))??;
    let combine = generic.combine?;
    let ([filled], [result]) = (&generic.outputs[..], &generic.results.0[..]) else {
        return None;
    };
    let fill: Generic = func.def(*filled)?;
    let start = fill.constant(func)?;
    let before = func.owner(*filled)?;
    let alone = func.uses(*filled).count() == 1 && func.attr(before, tir_accel::BY).is_none();
    let same = func.block_of(before) == func.block_of(op);
    if generic.reductions().contains(&true) || !alone || !same {
        return None;
    }
    target.vector(func, &generic)?;
    if is_far(func, op) || exact(func, &generic, target).0.is_some() {
        return None;
    }
    let end = func.last(func.entry(generic.body)?)?;
    let value = func.operands(end).next()?;
    let mut b = Builder::new(func, At::Before(end));
    let start = tir_arith::materialize(&mut b, start, result.elem())?;
    let value = combine.build(&mut b, start, value);
    func.set_operand(end, 0, value);
    let dest = fill.outputs[0];
    func.detach_region(generic.body);
    let nest = Generic {
        outputs: vec![dest],
        combine: None,
        ..generic
    };
    let (old, loc) = (func.result(op, 0), func.loc(op));
    let mut b = func.at(At::Before(op));
    b.loc = loc;
    let new = b.add(nest)[0];
    func.replace_uses(old, new);
    func.erase_all(&[op, before]);
    func.owner(new)
}

/// Calls intrinsics of several generics where that takes no longer than to call one for each; gives how many
/// calls were made.
fn sequences(func: &mut Ir, generics: &[OpId], target: &Target<'_>) -> usize {
    let mut made = 0;
    // The last generic of one comes first.
    for op in generics.iter().rev() {
        if !func.contains(*op) || is_far(func, *op) {
            continue;
        }
        let all = target.sequences.iter();
        let mut found = all.filter_map(|sequence| {
            let info = &target.info.intrinsics[sequence.intrinsic];
            let found = sequence.find(func, *op, info.operands.len())?;
            let mut operands = found.operands.iter().flatten().zip(&info.spaces);
            let here = |value: Value, space: Name| match side(func, value) {
                Some(Side::Near(found)) => found == space,
                _ => true,
            };
            let apart = found
                .ops
                .iter()
                .flatten()
                .map(|op| alone(func, *op, target));
            let apart = apart.sum::<Option<i64>>();
            let quick = apart.is_none_or(|apart| info.cycles <= apart);
            let fits = quick && operands.all(|(value, space)| here(*value, *space));
            fits.then_some((sequence, found))
        });
        if let Some((sequence, found)) = found.next() {
            let info = &target.info.intrinsics[sequence.intrinsic];
            made += usize::from(call_sequence(func, *op, info, sequence, &found));
        }
    }
    made
}

/// Cycles of a generic where an intrinsic or a vector unit computes it by itself.
fn alone(func: &Ir, op: OpId, target: &Target<'_>) -> Option<i64> {
    let generic: Generic = func.get(op)?;
    let called = exact(func, &generic, target).0;
    let called = called.map(|call| target.info.intrinsics[call.intrinsic].cycles);
    let applied = target.vector(func, &generic).map(|(_, cycles)| cycles);
    called.into_iter().chain(applied).min()
}

/// Puts a call in place of the generics of a sequence, where the last of them is.
fn call_sequence(
    func: &mut Ir,
    last: OpId,
    info: &IntrinsicInfo,
    sequence: &Sequence<'_>,
    found: &Found,
) -> bool {
    let operands: Option<Vec<Value>> = found.operands.iter().copied().collect();
    let (Some(operands), Some(immediates)) = (operands, immediates(info, &found.immediates)) else {
        return false;
    };
    let written = operands[..info.writes].iter();
    let results = Rets(written.map(|v| func.ty(*v)).collect());
    let mut b = Builder::new(func, At::Before(last));
    let results = b.add(Call {
        callee: Sym(info.name),
        operands,
        after: Vec::new(),
        writes: i64::try_from(info.writes).unwrap_or(1),
        unit: None,
        immediates,
        results,
    });
    for (op, result) in sequence.results(found).into_iter().zip(results) {
        let old = func.result(op, 0);
        func.replace_uses(old, result);
    }
    let ops: Vec<OpId> = found.ops.iter().copied().flatten().collect();
    func.erase_all(&ops);
    true
}

/// The immediates of a call as its attribute; `None` if one was not found.
fn immediates(info: &IntrinsicInfo, found: &Immediates) -> Option<Option<Vec<Attr>>> {
    let all = 0..info.immediates.len();
    let values: Vec<Attr> = all.map(|i| found.get(&i).copied()).collect::<Option<_>>()?;
    Some(Some(values).filter(|values| !values.is_empty()))
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
        let ways = match_exact(func, generic, behaviour).into_iter();
        let ways = ways.map(|exact| (misplaced(behaviour, &exact), exact));
        let (misplaced, exact) = ways.min_by_key(|(misplaced, _)| *misplaced)?;
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
    let mut b = Builder::new(func, At::Before(op));
    let Some(result) = called(&mut b, generic, target, calling) else {
        return false;
    };
    func.replace(op, &[result]);
    true
}

/// The result of a call that computes a generic.
fn called(
    b: &mut Builder<'_>,
    generic: &Generic,
    target: &Target<'_>,
    calling: &Calling,
) -> Option<Value> {
    let info = &target.info.intrinsics[calling.intrinsic];
    let behaviour = target.behaviours[calling.intrinsic].as_ref().ok()?;
    let dest = generic.outputs[0];
    let mut operands: Vec<Option<Value>> = vec![None; info.operands.len()];
    operands[0] = Some(dest);
    for (j, operand) in behaviour.inputs.iter().enumerate() {
        operands[*operand] = Some(generic.inputs[calling.exact.inputs[j]]);
    }
    let operands = operands.into_iter().collect::<Option<Vec<Value>>>()?;
    let immediates = immediates(info, &calling.exact.immediates)?;
    let results = Rets(vec![b.ty(dest)]);
    let results = b.add(Call {
        callee: Sym(info.name),
        operands,
        after: Vec::new(),
        writes: 1,
        unit: None,
        immediates,
        results,
    });
    results.first().copied()
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
