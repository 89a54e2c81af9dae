//! What there is to say of groups: errors of what does not fit, remarks on what no unit computes and on what goes to
//! far memory, candidates.

use tir::interp::GIVEN_ALIGN;
use tir::remarks::{FAR_TENSOR, NO_UNIT, SINGLE_NEST};
use tir::{DenseElements, Diagnostic, Ir, Loc, OpId, TensorType, Type, Value};
use tir_arith::{CmpI, CmpIPredicate};
use tir_loop::{For, If};
use tir_tensor::Generic;

use crate::chain::{Chains, Far};
use crate::group::{Group, filled};
use crate::plan::{Excess, Nearest, Plan, Target, TooLarge, nearest, otherwise, pays_for_elements};
use crate::section::Sections;

/// An operator that no unit computes.
#[derive(Debug)]
pub struct Unmatched {
    /// Its place and what it is.
    at: Diagnostic,
    /// Whether that is usual: units multiply and add, other work is the thread's.
    pub expected: bool,
    nearest: Option<Nearest>,
}

impl Unmatched {
    /// The cycles that the thread takes for it.
    pub fn cycles(&self) -> u64 {
        self.at.cycles
    }

    /// Where it stands.
    pub fn loc(&self) -> Loc {
        self.at.loc
    }

    /// Whether both are parts of what stands in one place.
    pub fn is_beside(&self, other: &Self) -> bool {
        self.at.loc == other.at.loc
    }

    /// Adds another part, and names the one that costs more.
    pub fn add(&mut self, other: Self) {
        let cycles = self.at.cycles.saturating_add(other.at.cycles);
        if other.at.cycles > self.at.cycles {
            *self = other;
        }
        self.at.cycles = cycles;
    }

    /// As a remark.
    pub fn remark(self) -> Diagnostic {
        match self.nearest {
            Some(Nearest {
                kind,
                name,
                mismatch,
            }) => self
                .at
                .note(format!("the nearest {kind} is @{name}: {mismatch}")),
            None => self.at,
        }
    }
}

/// What there is to report of a function that was tiled.
#[derive(Default, Debug)]
pub struct Tiled {
    /// The operators that no unit computes.
    pub unmatched: Vec<Unmatched>,
    /// The quickest candidates of each group, where they were asked for.
    pub candidates: Vec<Diagnostic>,
    /// Why there are no nests of several stages, or no longer ones.
    pub apart: Vec<Diagnostic>,
    /// Products whose groups are joined.
    pub joined: Vec<Diagnostic>,
}

/// An error for each value that is larger than far memory, before anything is planned for it; else one if that does not hold
/// the arguments and constants of a function together.
pub(super) fn oversized(func: &Ir, target: &Target<'_>) -> Vec<Diagnostic> {
    let far = target.far;
    let too_large = |ty: Type| -> Option<String> {
        let tensor = ty.get::<TensorType>()?;
        let size = i64::try_from(ty.elem().bytes().unwrap_or(1)).ok()?;
        let mut extents = tensor.shape.iter();
        let bytes = extents.try_fold(size, |n, extent| n.checked_mul(*extent));
        if tensor.shape.contains(&0) || bytes.is_some_and(|bytes| bytes <= far.bytes) {
            return None;
        }
        let bytes = bytes.map_or("over 2^63".to_string(), |bytes| bytes.to_string());
        let (space, free) = (far.name, far.bytes);
        Some(format!("a {ty} has {bytes} bytes, \"{space}\" has {free}"))
    };
    let mut errors = Vec::new();
    let arguments = func.regions(func.root()).filter_map(|r| func.entry(r));
    for argument in arguments.flat_map(|block| func.args(block)) {
        let text = too_large(func.ty(argument));
        errors.extend(text.map(|text| Diagnostic::error(text).at(func.loc(func.root()))));
    }
    let ops = func.walk_ids();
    // Where there are tiles, values are theirs: what lies far is counted when buffers get their places.
    if ops.iter().any(|op| func.placed(*op).is_some()) {
        return errors;
    }
    for op in ops {
        let text = func.results(op).find_map(|value| too_large(func.ty(value)));
        errors.extend(text.map(|text| Diagnostic::error(text).at(func.loc(op))));
    }
    if errors.is_empty() {
        errors.extend(crowded(func, target));
    }
    errors
}

/// Arguments and constants that an error names, the largest ones.
const SHOWN: usize = 8;

/// An error if far memory does not hold the arguments and constants of a function together, whatever becomes of the rest.
/// Constants of one value need not lie there.
fn crowded(func: &Ir, target: &Target<'_>) -> Option<Diagnostic> {
    let far = target.far;
    let align = i64::try_from(GIVEN_ALIGN).map_or(far.align, |least| far.align.max(least));
    let bytes = |value: Value| -> Option<(i64, i64)> {
        let tensor = func.ty(value).get::<TensorType>()?;
        let size = i64::try_from(tensor.elem.bytes()?).ok()?;
        let mut extents = tensor.shape.iter();
        let bytes = extents.try_fold(size, |n, extent| n.checked_mul(*extent))?;
        Some((bytes, (align - bytes.rem_euclid(align)) % align))
    };
    let name = |value: Value, other: &str| {
        let hint = func.hint(value);
        hint.map_or(other.to_string(), |name| format!("%{name}"))
    };
    let entries = func.regions(func.root()).filter_map(|r| func.entry(r));
    let arguments = entries.flat_map(|block| func.args(block));
    let arguments = arguments.map(|v| (v, name(v, "an argument"), func.loc(func.root())));
    let mut seen = Vec::new();
    let constants = func.walk_ids().into_iter().filter_map(|op| {
        let value = func.results(op).next()?;
        let attr = func.constant(value)?;
        let several = attr.get::<DenseElements>().is_none_or(|e| !e.is_splat());
        let new = several && func.ty(value).is::<TensorType>() && !seen.contains(&attr);
        new.then(|| seen.push(attr))?;
        Some((value, name(value, "a constant"), func.loc(op)))
    });
    let all = arguments.chain(constants);
    let mut all: Vec<((i64, i64), String, Loc)> = all
        .filter_map(|(value, name, loc)| Some((bytes(value)?, name, loc)))
        .collect();
    let sum = all.iter().fold(0i64, |sum, ((bytes, rest), ..)| {
        sum.saturating_add(*bytes).saturating_add(*rest)
    });
    // Behind the last one, whichever that will be, nothing is aligned.
    let rest = all.iter().map(|((_, rest), ..)| *rest).max();
    let sum = sum - rest.unwrap_or(0);
    if sum <= far.bytes {
        return None;
    }
    all.sort_by_key(|(bytes, ..)| std::cmp::Reverse(*bytes));
    let text = format!(
        "arguments and constants do not fit \"{}\": {sum} bytes needed for them alone, {} available",
        far.name, far.bytes
    );
    let error = Diagnostic::error(text).at(func.loc(func.root()));
    let largest = all.iter().take(SHOWN);
    Some(largest.fold(error, |error, ((bytes, _), name, loc)| {
        error.note_at(*loc, format!("{bytes} bytes for {name}"))
    }))
}

/// Groups of a level of memory that are in no section, if there are such beside others.
pub(super) fn outside(ir: &Ir, found: &Sections, target: &Target<'_>) -> Option<Diagnostic> {
    let Sections { groups, alone, .. } = found;
    if *groups < 2 || *alone == 0 {
        return None;
    }
    let (far, near) = (target.far.name, target.near.name);
    let text = format!(
        "{alone} of {groups} nests are tiled one by one for \"{near}\": what they compute goes to \"{far}\""
    );
    let remark = Diagnostic::remark(text).category(SINGLE_NEST);
    Some(remark.at(ir.loc(ir.root())).note(format!(
        "\"{near}\" does not hold their tensors beside each other, or that would take longer"
    )))
}

pub(super) fn too_large(
    ir: &Ir,
    op: OpId,
    group: &Group,
    large: &TooLarge,
    target: &Target<'_>,
) -> Diagnostic {
    let Excess {
        space,
        needed,
        free,
    } = large.excess;
    let mut error = Diagnostic::error(format!(
        "'{}' does not fit \"{space}\": the smallest tiles need {needed} bytes, {free} are free",
        ir.name(op)
    ))
    .at(ir.loc(op));
    for (i, bytes) in large.holders.iter().enumerate() {
        if *bytes == 0 {
            continue;
        }
        let what = match (group.operands.get(i), group.result()) {
            (Some(operand), _) => {
                let name = ir.hint(operand.source);
                let name = name.map_or(format!("operand {i}"), |name| format!("%{name}"));
                format!("{name}, a {}", ir.ty(operand.source))
            }
            (None, Some(ty)) if i == group.operands.len() => format!("the result, a {ty}"),
            _ => "what is accumulated".to_string(),
        };
        error = error.note(format!("{bytes} bytes for {what}"));
    }
    let align = target.info.space(space).map_or(1, |space| space.align);
    match align > 1 {
        true => error.note(format!(
            "each is a multiple of {align} bytes, which \"{space}\" is aligned to"
        )),
        false => error,
    }
}

/// A product whose groups are joined, if they are.
pub(super) fn joined(ir: &Ir, group: &Group) -> Option<Diagnostic> {
    let (diagonal, operand) = group.operands.iter().find_map(|o| Some((o.diagonal?, o)))?;
    let text = format!(
        "{} groups of this '{}' are one: a unit has place for {} x {} of each",
        diagonal.times,
        ir.name(group.named),
        diagonal.rows,
        diagonal.columns
    );
    let remark = Diagnostic::remark(text).at(ir.loc(group.named));
    Some(match ir.ty(operand.source).elem().is_float() {
        true => remark.note("an infinity or NaN in one makes NaN of those beside it"),
        false => remark,
    })
}

/// A group that no unit computes.
pub(super) fn without_unit(
    ir: &Ir,
    group: &Group,
    nearest: Nearest,
    target: &Target<'_>,
) -> Unmatched {
    let op = group.named;
    let points = u64::try_from(group.points()).unwrap_or(0);
    let steps = group.reduce.iter().map(|(step, ..)| step).take(1);
    let work: u64 = match group.reduce {
        Some(_) => steps.map(|step| step.work).sum(),
        None => group.maps.iter().map(|step| step.work).sum(),
    };
    let cycles = target.info.thread_cycles(points.saturating_mul(work));
    // A contraction is what units are for.
    let reduce = group.reduce.as_ref();
    let product = reduce.is_some_and(|(step, ..)| step.inputs.len() > 1);
    Unmatched {
        at: Diagnostic::remark(format!("no unit computes this '{}'", ir.name(op)))
            .category(NO_UNIT)
            .cycles(cycles)
            .at(ir.loc(op)),
        expected: !product,
        nearest: Some(nearest),
    }
}

/// A generic that is the end of no group, and why.
pub(super) fn left_over(ir: &Ir, op: OpId, target: &Target<'_>) -> Option<Unmatched> {
    let generic: Generic = ir.get(op)?;
    let (name, far) = (ir.name(op), target.far.name);
    let text = format!("the thread computes this '{name}' element by element in \"{far}\"");
    let mut maps = generic.indexing_maps.iter();
    let why = if generic.outputs.len() != 1 {
        format!("it has {} results", generic.outputs.len())
    } else if let Some(map) = maps.find(|map| map.linear().is_none()) {
        format!("it reads at {map}, which is not linear")
    } else if generic.combine.is_some() && filled(ir, generic.outputs[0]).is_none() {
        "it reduces into a tensor that is not filled with a constant".to_string()
    } else {
        "it is no part of a loop nest that can be tiled".to_string()
    };
    let points = generic.domain(ir).unwrap_or_default();
    let points = points.iter().map(|n| u64::try_from(*n).unwrap_or(0));
    let points = points.fold(generic.point_work(ir), u64::saturating_mul);
    Some(Unmatched {
        at: Diagnostic::remark(text)
            .category(NO_UNIT)
            .cycles(target.info.thread_cycles(points))
            .at(ir.loc(op))
            .note(why),
        expected: false,
        nearest: nearest(ir, &generic, target),
    })
}

/// How often each loop around an op runs it: once, where it is in a branch that is taken in one of its iterations.
fn trips(ir: &Ir, op: OpId) -> Vec<i64> {
    let mut counts = Vec::new();
    let mut once: Vec<Value> = Vec::new();
    let mut inside = op;
    while let Some(holder) = ir.parent(inside) {
        let region = ir.block_of(inside).and_then(|block| ir.region_of(block));
        if let Some(branch) = ir.get::<If>(holder)
            && region == Some(branch.then_region)
            && let Some(CmpI {
                predicate: CmpIPredicate::Eq,
                lhs,
                rhs,
                ..
            }) = ir.def(branch.condition)
        {
            once.extend([lhs, rhs]);
        }
        if let Some(looped) = ir.get::<For>(holder) {
            let counter = ir
                .entry(looped.body)
                .and_then(|block| ir.args(block).next());
            let single = counter.is_some_and(|counter| once.contains(&counter));
            let known = looped.trip_count();
            counts.extend(known.map(|n| if single { n.min(1) } else { n }));
        }
        inside = holder;
    }
    counts
}

/// A generic on tiles that neither an intrinsic nor a vector unit computes.
pub fn on_tiles(ir: &Ir, op: OpId, target: &Target<'_>) -> Unmatched {
    let mut text = format!("no unit computes this '{}'", ir.name(op));
    let (mut points, mut nearest, mut note) = (0u64, None, None);
    if let Some(generic) = ir.get::<Generic>(op) {
        let domain = generic.domain(ir).unwrap_or_default().into_iter();
        let counts = domain.chain(trips(ir, op));
        let counts = counts.map(|n| u64::try_from(n).unwrap_or(0));
        points = counts.fold(generic.point_work(ir), u64::saturating_mul);
        let elem = ir.ty(generic.outputs[0]).elem();
        let granule = target.info.engines.iter().map(|e| e.granule).max();
        match granule.filter(|_| generic.moves(ir) && pays_for_elements(elem, target)) {
            Some(granule) => {
                text = format!(
                    "the thread brings the elements of this '{}' into another order",
                    ir.name(op)
                );
                let why = "an engine would move them one by one, each as if it were";
                note = Some(format!("{why} {granule} bytes"));
            }
            None => {
                nearest = crate::plan::nearest(ir, &generic, target)
                    .or_else(|| otherwise(ir, &generic, target));
            }
        }
    }
    let at = Diagnostic::remark(text).category(NO_UNIT);
    let at = at.cycles(target.info.thread_cycles(points)).at(ir.loc(op));
    Unmatched {
        at: note.into_iter().fold(at, Diagnostic::note),
        expected: true,
        nearest,
    }
}

/// The candidates of a group, if they are listed.
pub(super) fn listed(ir: &Ir, op: OpId, group: &Group, plan: &Plan) -> Option<Diagnostic> {
    if plan.listed.is_empty() {
        return None;
    }
    let text = format!("candidates for tiles of this '{}'", ir.name(op));
    let remark = Diagnostic::remark(text).at(ir.loc(group.named));
    Some(plan.listed.iter().fold(remark, Diagnostic::note))
}

/// The chains of groups that end in one, if they are listed.
pub(super) fn listed_chains(
    ir: &Ir,
    op: OpId,
    group: &Group,
    chains: &Chains,
) -> Option<Diagnostic> {
    let mut candidates = chains.candidates.iter();
    let (_, notes) = candidates.find(|(root, _)| *root == op)?;
    let text = format!("nests of several stages that end in this '{}'", ir.name(op));
    let remark = Diagnostic::remark(text).at(ir.loc(group.named));
    Some(notes.iter().fold(remark, Diagnostic::note))
}

/// A tensor between two nests that does not stay in near memory.
pub(super) fn to_far(ir: &Ir, far: &Far, target: &Target<'_>) -> Diagnostic {
    let name = ir.name(far.op);
    let why = far.why;
    let text = format!("what this '{name}' computes goes to far memory and back: {why}");
    let engine = (target.info).engine_between(target.far.name, target.near.name);
    let cycles = engine.map_or(0, |engine| engine.cycles(far.bytes, 0, 1));
    let remark = Diagnostic::remark(text).category(FAR_TENSOR);
    let remark = remark.cycles(u64::try_from(cycles).unwrap_or(0));
    let bytes = format!("about {} bytes are moved for it", far.bytes);
    let remark = remark.at(ir.loc(far.op)).note(bytes);
    match &far.help {
        Some(help) => remark.note(help),
        None => remark,
    }
}

/// A chain that does not fit near memory.
pub(super) fn no_room(ir: &Ir, op: OpId, stages: usize, excess: &Excess) -> Diagnostic {
    let Excess {
        space,
        needed,
        free,
    } = excess;
    let text = format!(
        "the {stages} stages that end in this '{}' are not one nest: their tiles need {needed} bytes of \
         \"{space}\", {free} are free",
        ir.name(op)
    );
    let over = needed - free;
    let help = format!("{over} bytes more would do; each tile has one slot in that");
    let remark = Diagnostic::remark(text).category(SINGLE_NEST);
    remark.at(ir.loc(op)).note(help)
}
