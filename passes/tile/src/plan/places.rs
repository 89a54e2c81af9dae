//! In which near space each tile of a group lies, and which engines move it there and back.

use tir::Name;
use tir_accel::machine::{EngineInfo, MachineInfo, SpaceInfo};

use super::unit::{UnitChoice, Way};
use super::{Budget, Target};
use crate::group::{Group, Input, Step};
use crate::matching::{Assignment, Mismatch};

/// Where the tile of an operand lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) space: &'a SpaceInfo,
    /// The engine that loads it; none if it is computed.
    pub(super) load: Option<&'a EngineInfo>,
    /// Spaces through which it is loaded.
    pub(super) through: &'a [Name],
}

/// Where the tiles of a group lie.
#[derive(Clone, Debug)]
pub(super) struct Places<'a> {
    pub(super) operands: Vec<Place<'a>>,
    /// Where all that is computed lies: accumulators, results, and what is held between steps.
    pub(super) held: &'a SpaceInfo,
    /// The engine that stores results.
    pub(super) store: &'a EngineInfo,
    /// Spaces through which they are stored.
    pub(super) through: &'a [Name],
    info: &'a MachineInfo,
}

impl Places<'_> {
    /// The spaces of the operands.
    pub(super) fn names(&self) -> Vec<Name> {
        self.operands.iter().map(|place| place.space.name).collect()
    }
    /// The space of an operand's tiles, or for a number behind theirs of what is computed.
    pub(super) fn of(&self, holder: usize) -> &SpaceInfo {
        self.operands
            .get(holder)
            .map_or(self.held, |place| place.space)
    }
    /// Whether all that a step reads and computes lies in one space.
    pub(super) fn step_in(&self, step: &Step, space: Name) -> bool {
        let mut inputs = step.inputs.iter();
        let here = |input: &Input| match input {
            Input::Operand(i) => self.operands[*i].space.name == space,
            _ => true,
        };
        self.held.name == space && inputs.all(here)
    }
    /// Whether the engines that load fill in what lies outside of a tensor.
    pub(super) fn pad(&self) -> bool {
        let mut loads = self.operands.iter().filter_map(|place| place.load);
        loads.all(|engine| engine.pad)
    }
    /// Whether all tiles lie in one space.
    pub(super) fn all_in(&self, space: Name) -> bool {
        let mut all = self.operands.iter().map(|place| place.space);
        self.held.name == space && all.all(|there| there.name == space)
    }
    /// The space of each of so many holders: a tile of each operand, then what is computed.
    pub(super) fn spaces(&self, holders: usize) -> Vec<&SpaceInfo> {
        (0..holders).map(|holder| self.of(holder)).collect()
    }
    /// The space in which so many bytes are missing, what is needed and what is free there; of several
    /// the first. `bytes` are those of each operand's tiles, then those of what is computed.
    pub(super) fn excess(&self, bytes: &[i64], budget: Budget) -> Option<Excess> {
        let own = (0..bytes.len()).map(|holder| (self.of(holder), bytes[holder]));
        // Tiles on their way lie in the spaces between as well.
        let loads = self.operands.iter().map(|place| place.through).zip(bytes);
        let stores = bytes
            .get(self.operands.len())
            .map(|bytes| (self.through, bytes));
        let between = loads.chain(stores).flat_map(|(through, bytes)| {
            let spaces = through.iter().filter_map(|name| self.info.space(*name));
            spaces.map(move |space| (space, *bytes))
        });
        over(own.chain(between), budget)
    }
}

/// The first space in which so many bytes are missing; `spaces` are those of what takes the bytes.
pub fn excess(spaces: &[&SpaceInfo], bytes: &[i64], budget: Budget) -> Option<Excess> {
    over(spaces.iter().copied().zip(bytes.iter().copied()), budget)
}

/// The first space in which bytes are missing, of spaces and what takes bytes of them.
fn over<'a>(
    all: impl Iterator<Item = (&'a SpaceInfo, i64)> + Clone,
    budget: Budget,
) -> Option<Excess> {
    let over = |(space, _): (&SpaceInfo, i64)| {
        let here = all.clone().filter(|(s, _)| s.name == space.name);
        let needed = here.fold(0, |sum: i64, (_, bytes)| sum.saturating_add(bytes));
        let free = budget.free(space);
        (needed > free).then_some(Excess {
            space: space.name,
            needed,
            free,
        })
    };
    all.clone().find_map(over)
}

/// A space that is too small.
#[derive(Clone, Copy, Debug)]
pub struct Excess {
    /// The space.
    pub space: Name,
    /// Bytes of the tiles in it.
    pub needed: i64,
    /// Bytes that are there.
    pub free: i64,
}

/// The spaces in which an intrinsic takes what the group computed before, and gives a result: the place
/// of the output, if all are the same.
pub(super) fn held_in(target: &Target<'_>, step: &Step, way: &Assignment) -> Option<Name> {
    let called = target.called(way)?;
    let held = called.held();
    let mut inputs = step.inputs.iter().enumerate();
    let same = inputs.all(|(at, input)| match input {
        Input::Operand(_) => true,
        _ => called.space(way.inputs[at]) == held,
    });
    same.then_some(held)
}

impl<'a> Places<'a> {
    /// Where tiles lie if points are computed in a way; or why there is no such place.
    pub(super) fn new(group: &Group, target: &Target<'a>, way: &Way) -> Result<Self, Mismatch> {
        let no_engine = |from: Name, to: Name| {
            Mismatch::new(6, format!("no engine goes from \"{from}\" to \"{to}\""))
        };
        let far = target.far.name;
        let held = match way {
            Way::Unit(choice) => {
                let called = target.called(&choice.assignment);
                called.and_then(|called| target.info.space(called.held()))
            }
            Way::Moved(_) => Some(target.near),
            Way::Whole | Way::Staged(_) => Some(target.held),
        };
        let held = held.ok_or_else(|| Mismatch::new(0, "it has no operands"))?;
        let (store, store_through) =
            engine_on_way(target.info, held.name, far).ok_or_else(|| no_engine(held.name, far))?;
        let load = |space: &SpaceInfo| engine_on_way(target.info, far, space.name);
        let mut operands = Vec::new();
        for (i, operand) in group.operands.iter().enumerate() {
            let wanted = match way {
                Way::Unit(choice) => wanted(group, target, choice, i)?,
                _ => Some(target.near),
            };
            let computed = operand.inner.is_some() || operand.made;
            // What no unit reads may lie where it can be loaded.
            let space = wanted.unwrap_or_else(|| match load(held) {
                Some(_) => held,
                None => target.near,
            });
            let (engine, through) = match load(space) {
                _ if computed => (None, &[][..]),
                None => return Err(no_engine(far, space.name)),
                Some((engine, through)) => (Some(engine), through),
            };
            operands.push(Place {
                space,
                load: engine,
                through,
            });
        }
        Ok(Self {
            operands,
            held,
            store,
            through: store_through,
            info: target.info,
        })
    }
}

/// The engine from one space to another, or one as slow as the way through others, and these.
fn engine_on_way(info: &MachineInfo, from: Name, to: Name) -> Option<(&EngineInfo, &[Name])> {
    let engine = info
        .engine_between(from, to)
        .map(|engine| (engine, &[][..]));
    engine.or_else(|| {
        let route = info.route(from, to)?;
        Some((&route.engine, &route.through[..]))
    })
}

/// The space in which the steps on units read an operand; none if no such step does.
fn wanted<'a>(
    group: &Group,
    target: &Target<'a>,
    choice: &UnitChoice,
    operand: usize,
) -> Result<Option<&'a SpaceInfo>, Mismatch> {
    let steps = group.maps.iter().zip(&choice.maps);
    let steps = steps.filter_map(|(step, way)| Some((step, way.as_ref()?)));
    let main = group.main().map(|main| (main, &*choice.assignment));
    let mut found: Option<Name> = None;
    for (step, way) in main.into_iter().chain(steps) {
        let Some(called) = target.called(way) else {
            continue;
        };
        for (at, input) in step.inputs.iter().enumerate() {
            if *input != Input::Operand(operand) {
                continue;
            }
            let space = called.space(way.inputs[at]);
            let other = *found.get_or_insert(space);
            if other != space {
                let text = format!("an operand is read in \"{other}\" and in \"{space}\"");
                return Err(Mismatch::new(6, text));
            }
        }
    }
    let behind = choice.behind.iter().find(|(of, _)| *of == operand);
    let found = found.or(behind.map(|(_, space)| *space));
    Ok(found.and_then(|name| target.info.space(name)))
}
