//! Equal cores and equal units: what a machine file declares once is there several times.
//!
//! Invariants: the first copy has the name that the file gives, the others that name with `.1`, `.2`, …;
//! intrinsics and vector capabilities are there once, for the first copies, and an op that runs on
//! another one names it. Copies come behind all that the file declares.

use std::collections::HashMap;

use tir::{BlockId, Diagnostic, Failure, Ir, Name, OpId};

use crate::machine::{EngineInfo, MachineInfo, SpaceInfo, UnitInfo, spaces};
use crate::ops::describe::{Core, Dma, Intrinsic, MOST, Space, Unit, Vector};

/// How many copies there are of what a machine file declares.
#[derive(Default)]
pub(crate) struct Copies {
    /// Of each core, and how many stand in a row.
    pub(crate) cores: Vec<(Name, i64, i64)>,
    /// Rows and columns from the core that an engine reads to the one that it writes, in the order of the
    /// file.
    pub(crate) steps: Vec<Option<Vec<i64>>>,
    /// Of each unit, in the order of the file.
    pub(crate) units: Vec<i64>,
}

/// The name of a copy; the first one has the name of the file.
fn copy(name: Name, place: usize) -> Name {
    match place {
        0 => name,
        _ => Name::new(&format!("{name}.{place}")),
    }
}

/// So many copies; a machine that says more than there may be is refused, but is looked at before.
fn copies(count: i64) -> usize {
    usize::try_from(count.clamp(1, MOST)).unwrap_or(1)
}

impl Copies {
    fn count(&self, core: Option<Name>) -> usize {
        let found = self.cores.iter().find(|(name, ..)| Some(*name) == core);
        found.map_or(1, |(_, count, _)| copies(*count))
    }

    /// The pairs of cores that a link joins, by the place of the one that is read.
    fn links(&self, core: Option<Name>, step: &[i64]) -> Vec<(usize, usize)> {
        let found = self.cores.iter().find(|(name, ..)| Some(*name) == core);
        found.map_or(Vec::new(), |(_, count, columns)| {
            pairs((*count).clamp(1, MOST), *columns, step)
        })
    }

    /// Adds all copies but the first ones, which are there.
    pub(crate) fn add(&self, info: &mut MachineInfo) {
        let core = |space: Name| info.space(space).and_then(|space| space.core);
        let linked: Vec<Option<Vec<(usize, usize)>>> = (info.engines.iter().zip(&self.steps))
            .map(|(engine, step)| Some(self.links(core(engine.from), step.as_ref()?)))
            .collect();
        let engines: Vec<EngineInfo> = (info.engines.iter().zip(&linked))
            .flat_map(|(engine, links)| {
                if let Some(links) = links {
                    let links = links.iter().enumerate().skip(1);
                    let link =
                        |(number, ends): (usize, &(usize, usize))| link(engine, number, *ends);
                    return links.map(link).collect::<Vec<_>>();
                }
                let ends = [engine.from, engine.to].map(core);
                let count = self.count(ends[0].or(ends[1]));
                let copies = (1..count).map(move |place| EngineInfo {
                    name: copy(engine.name, place),
                    from: copy(engine.from, ends[0].map_or(0, |_| place)),
                    to: copy(engine.to, ends[1].map_or(0, |_| place)),
                    ..engine.clone()
                });
                copies.collect()
            })
            .collect();
        for (engine, links) in info.engines.iter_mut().zip(&linked) {
            if let Some(ends) = links.as_ref().and_then(|links| links.first()) {
                *engine = link(engine, 0, *ends);
            }
        }
        let copied: Vec<SpaceInfo> = (info.spaces.iter())
            .flat_map(|space| {
                (1..self.count(space.core)).map(|place| SpaceInfo {
                    name: copy(space.of, place),
                    ..space.clone()
                })
            })
            .collect();
        let units: Vec<UnitInfo> = (info.units.iter().zip(&self.units))
            .flat_map(|(unit, each)| {
                let each = copies(*each);
                (1..each * self.count(unit.core)).map(move |number| UnitInfo {
                    name: copy(unit.of, number),
                    place: number / each,
                    ..unit.clone()
                })
            })
            .collect();
        info.engines.extend(engines);
        info.spaces.extend(copied);
        info.units.extend(units);
    }
}

/// The link between two cores; the first one has the name of the file.
fn link(engine: &EngineInfo, number: usize, (from, to): (usize, usize)) -> EngineInfo {
    EngineInfo {
        name: copy(engine.name, number),
        from: copy(engine.from, from),
        to: copy(engine.to, to),
        ..engine.clone()
    }
}

/// The pairs of cores of a mesh that are so many rows and columns apart, by the place of the first.
fn pairs(count: i64, columns: i64, step: &[i64]) -> Vec<(usize, usize)> {
    let columns = if columns == 0 { count } else { columns };
    let (down, right) = match step {
        [right] => (0, *right),
        [down, right] => (*down, *right),
        _ => return Vec::new(),
    };
    let pair = |place: i64| {
        let (row, column) = (place / columns + down, place % columns + right);
        let inside = (0..columns).contains(&column) && (0..count / columns).contains(&row);
        let to = usize::try_from(row * columns + column).ok()?;
        Some((usize::try_from(place).ok()?, to)).filter(|_| inside)
    };
    (0..count).filter_map(pair).collect()
}

impl MachineInfo {
    /// Whether links lead from a copy of a space to all others, so that what one core loads can be passed on.
    pub fn passes_on(&self, space: Name) -> bool {
        let Some(of) = self.space(space).map(|space| space.of) else {
            return false;
        };
        let copies: Vec<Name> = self
            .spaces
            .iter()
            .filter(|s| s.of == of)
            .map(|s| s.name)
            .collect();
        let mut reached = vec![copies.first().copied().unwrap_or(space)];
        let mut next = 0;
        while let Some(from) = reached.get(next).copied() {
            let links = self.engines.iter().filter(|e| e.from == from);
            for link in links.filter(|e| copies.contains(&e.to)) {
                if !reached.contains(&link.to) {
                    reached.push(link.to);
                }
            }
            next += 1;
        }
        copies.len() > 1 && reached.len() == copies.len()
    }
    /// The equal units of a name of the machine file, in order: those of a core after those of the one
    /// before.
    pub fn equal_units(&self, of: Name) -> impl Iterator<Item = &UnitInfo> {
        self.units.iter().filter(move |unit| unit.of == of)
    }
    /// Whether the file says of a unit or a core that there are several.
    pub fn has_equal_units(&self) -> bool {
        self.units.iter().any(|unit| unit.name != unit.of)
    }
    /// How many cores hold a copy of a space; 1 for one that is shared.
    pub fn cores_with(&self, space: Name) -> usize {
        let of = self.space(space).map_or(space, |space| space.of);
        self.spaces.iter().filter(|space| space.of == of).count()
    }
    /// The copy of a space that a core has; the space itself if it is shared.
    pub fn space_of(&self, space: Name, place: usize) -> Name {
        match self.space(space) {
            Some(space) if space.core.is_some() => copy(space.of, place),
            _ => space,
        }
    }
    /// The copy of a space in which work on a unit finds what is declared for `space`; or why an op that
    /// is declared to run on `declared` cannot run there.
    pub fn space_on(&self, unit: Name, declared: Name, space: Name) -> Result<Name, Failure> {
        let found = self.unit(unit).filter(|unit| unit.of == declared);
        let found = found.ok_or_else(|| {
            let all = self
                .equal_units(declared)
                .map(|unit| format!("@{}", unit.name));
            let all = all.collect::<Vec<_>>().join(", ");
            format!("runs on @{unit}, expected {all}")
        })?;
        Ok(self.space_of(space, found.place))
    }
}

/// What is private to a core is reached by units of that core, and no engine joins two cores.
pub(crate) fn check(ir: &Ir, block: BlockId) -> Result<(), Failure> {
    let mut cores: HashMap<Name, Name> = HashMap::new();
    let mut names: HashMap<Name, OpId> = HashMap::new();
    for op in ir.ops_in(block) {
        if let Some(Space { sym_name, core, .. }) = ir.get(op) {
            cores.extend(core.map(|core| (sym_name, core.0)));
            names.insert(sym_name, op);
        } else if let Some(Unit { sym_name, core, .. }) = ir.get(op) {
            cores.extend(core.map(|core| (sym_name, core.0)));
            names.insert(sym_name, op);
        } else if let Some(dma) = ir.get::<Dma>(op) {
            names.insert(dma.sym_name, op);
        }
    }
    let error = |op: OpId, text: String| {
        let name = ir.name(op);
        Err(Box::new(
            Diagnostic::error(format!("'{name}' {text}")).at(ir.loc(op)),
        ))
    };
    // A name with a number behind a dot is that of a copy.
    for (name, op) in &names {
        let text = name.as_str();
        let taken = text.rsplit_once('.').filter(|(of, number)| {
            names.contains_key(&Name::new(of)) && number.parse::<usize>().is_ok()
        });
        if let Some((of, _)) = taken {
            return error(*op, format!("is named @{name}, as a copy of @{of} is"));
        }
    }
    let home = ir
        .ops_in(block)
        .find_map(|op| Some((op, ir.get::<Space>(op)?)));
    if let Some((
        op,
        Space {
            core: Some(core), ..
        },
    )) = home
    {
        let text = "is the first space, where arguments lie, and private to";
        return error(op, format!("{text} @{}", core.0));
    }
    for op in ir.ops_in(block) {
        if let Some(dma) = ir.get::<Dma>(op) {
            let ends = [dma.from.0, dma.to.0].map(|space| cores.get(&space));
            if let [Some(a), Some(b)] = ends
                && a != b
            {
                return error(op, format!("joins a space of @{a} with one of @{b}"));
            }
            if let Some(step) = &dma.step {
                let [Some(core), Some(_)] = ends else {
                    let text = "has a step, but not both of its spaces are private to cores";
                    return error(op, text.to_string());
                };
                let mut all = ir.ops_in(block).filter_map(|op| ir.get::<Core>(op));
                let found = all.find(|c| c.sym_name == *core);
                if found.is_some_and(|c| pairs(c.count, c.columns, step).is_empty()) {
                    let text = format!(
                        "has step = {step:?}, which leads from no core of @{core} to another"
                    );
                    return error(op, text);
                }
            }
        }
        let uses = match (ir.get::<Intrinsic>(op), ir.get::<Vector>(op)) {
            (Some(intrinsic), _) => (intrinsic.unit.0, spaces(&intrinsic)),
            (_, Some(vector)) => (vector.unit.0, vec![vector.space.0]),
            _ => continue,
        };
        let (unit, spaces) = uses;
        for space in spaces {
            let (own, of) = (cores.get(&unit), cores.get(&space));
            if of.is_some() && own != of {
                let core = of.map_or("", |core| core.as_str());
                let text = format!("works in @{space} of @{core}, which @{unit} is no part of");
                return error(op, text);
            }
        }
    }
    Ok(())
}
