//! What lies in memory beside the buffers that are planned: constants, and the arguments and constants of far memory.

use std::collections::HashSet;

use tir::interp::GIVEN_ALIGN;
use tir::{Diagnostic, Ir, Loc, MemRefType, OpId, Value};
use tir_accel::MachineInfo;
use tir_accel::machine::SpaceInfo;
use tir_memref::alias::{Origin, origins};

use crate::plan_memory::Planned;

/// Arguments and constants that an error names, the largest ones.
const SHOWN: usize = 8;

/// What lies in a space whatever is planned: a function's arguments, and the constants that it uses.
pub(crate) struct Given {
    align: u64,
    /// How many of them are arguments.
    arguments: usize,
    /// The name, the bytes and the place of each, arguments first, constants in the order of the text.
    each: Vec<(String, u64, Loc)>,
}

impl Given {
    /// Those of a function in a space; what names none lies in the far one.
    pub(crate) fn of(ir: &Ir, machine: &MachineInfo, space: &SpaceInfo) -> Self {
        let is_far = machine.far().is_some_and(|far| far.name == space.name);
        let entry = ir
            .regions(ir.root())
            .next()
            .and_then(|region| ir.entry(region));
        let args = entry.into_iter().flat_map(|block| ir.args(block));
        let args = args.map(|value| (value, ir.loc(ir.root())));
        let constant = |op: &OpId| {
            let all = ir
                .results(*op)
                .next()
                .map_or(Vec::new(), |v| origins(ir, v));
            matches!(all[..], [Origin::Global(_)])
        };
        let mut seen: HashSet<Vec<Origin>> = HashSet::new();
        let ops = ir.walk_ids().into_iter();
        let constants = ops.filter(|op| ir.operands(*op).len() == 0 && constant(op));
        let constants = constants.map(|op| (ir.result(op, 0), ir.loc(op)));
        let constants = constants.filter(|(value, _)| seen.insert(origins(ir, *value)));
        let here = |value: Value| {
            let ty = ir.ty(value).get::<MemRefType>();
            ty.is_some_and(|ty| ty.space_name().map_or(is_far, |named| named == space.name))
        };
        let bytes = |value: Value| {
            let ty = ir.ty(value);
            let bytes = ty
                .elements()
                .zip(ty.bytes())
                .map(|(n, b)| n.saturating_mul(b));
            let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
            bytes.unwrap_or(0)
        };
        let name = |value: Value| {
            let of_global = origins(ir, value)
                .into_iter()
                .find_map(|origin| match origin {
                    Origin::Global(name) => Some(name),
                    _ => None,
                });
            let name = ir.hint(value).or(of_global);
            name.map_or("an argument".to_string(), |name| name.to_string())
        };
        let known = |(value, loc): (Value, Loc)| (name(value), bytes(value), loc);
        let args = args.filter(|(value, _)| here(*value)).map(known);
        let mut each: Vec<_> = args.collect();
        let arguments = each.len();
        let constants = constants.filter(|(value, _)| here(*value));
        each.extend(constants.map(known));
        Self {
            align: u64::try_from(space.align).unwrap_or(1).max(1),
            arguments,
            each,
        }
    }

    /// Bytes that the constants take together, at most.
    fn constants(&self) -> u64 {
        let align = self.align.max(GIVEN_ALIGN);
        let constants = self.each[self.arguments..].iter();
        constants.fold(0, |sum: u64, (_, bytes, _)| {
            sum.saturating_add(bytes.checked_next_multiple_of(align).unwrap_or(u64::MAX))
        })
    }

    /// Bytes of all and of one allocation of so many bytes: they lie one behind another, in the order in which the program comes
    /// to them, each at a multiple of the alignment.
    pub(crate) fn with(&self, height: u64) -> u64 {
        let next = |end: u64, align: u64| end.checked_next_multiple_of(align).unwrap_or(u64::MAX);
        let align = self.align.max(GIVEN_ALIGN);
        let (arguments, constants) = self.each.split_at(self.arguments);
        let (mut end, mut held) = (0, height == 0);
        for (_, bytes, _) in arguments.iter().filter(|(_, bytes, _)| *bytes > 0) {
            // A small one has its place in a gap.
            held |= next(end, self.align).saturating_add(height) <= next(end, align);
            end = next(end, align).saturating_add(*bytes);
        }
        if !held {
            end = next(end, self.align).saturating_add(height);
        }
        for (_, bytes, _) in constants.iter().filter(|(_, bytes, _)| *bytes > 0) {
            end = next(end, align).saturating_add(*bytes);
        }
        end
    }
}

/// What is left of a space for the buffers of a function: all but the constants that lie in near memory. What else the far one holds
/// is another question ([`too_full`]).
pub fn room(ir: &Ir, machine: &MachineInfo, space: &SpaceInfo) -> u64 {
    let all = u64::try_from(space.bytes).unwrap_or(0);
    match machine.far().is_some_and(|far| far.name == space.name) {
        true => all,
        false => all.saturating_sub(Given::of(ir, machine, space).constants()),
    }
}

/// An error if the far memory of a machine does not hold a function's arguments and constants beside its buffers there.
#[must_use]
pub fn too_full(ir: &Ir, machine: &MachineInfo, planned: &[Planned]) -> Option<Diagnostic> {
    let far = machine.far()?;
    let capacity = u64::try_from(far.bytes).unwrap_or(0);
    let mut own = planned.iter().filter(|planned| planned.space == far.name);
    let height = own.next().map_or(0, |planned| planned.plan.height);
    let given = Given::of(ir, machine, far);
    let needed = given.with(height);
    if needed <= capacity {
        return None;
    }
    let (name, missing) = (far.name, needed - capacity);
    let text = format!(
        "the arguments, constants and buffers in \"{name}\" do not fit: {needed} bytes needed, {capacity} available"
    );
    let mut error = Diagnostic::error(text).at(ir.loc(ir.root())).note(format!(
        "{} bytes for arguments and constants, {height} for what is stored there between loop nests",
        needed.saturating_sub(height)
    ));
    let mut largest: Vec<_> = given.each.iter().collect();
    largest.sort_by_key(|(_, bytes, _)| std::cmp::Reverse(*bytes));
    for (name, bytes, loc) in largest.into_iter().take(SHOWN) {
        error = error.note_at(*loc, format!("{bytes} bytes for {name}"));
    }
    let mut help = format!("help: {missing} bytes more would do");
    if given.with(0) <= capacity {
        help += "; near-policy=bytes keeps more tensors in near memory, reorder=true has fewer live at once";
    }
    Some(error.note(help))
}
