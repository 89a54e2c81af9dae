//! What tiles are cut for: two neighbouring levels of a machine's memory, and what computes there.

use std::sync::Arc;

use tir::{Ir, Name};
use tir_accel::machine::{EngineInfo, MachineInfo, SpaceInfo};
use tir_accel::vector::VectorInfo;

use super::Ways;
use crate::matching::{Assignment, Behaviour, By, Mismatch, Place};
use crate::sequence::Sequence;

/// What computes the points of a block at once: an intrinsic, or a vector unit.
#[derive(Clone, Copy, Debug)]
pub struct Called<'a> {
    /// Its name.
    pub name: Name,
    /// The unit that runs it.
    pub unit: Name,
    /// Cycles of a block.
    pub cycles: i64,
    /// Points of its iterators.
    pub domain: &'a [i64],
    /// For each input and then the output, what each of its dimensions is.
    pub places: &'a [Vec<Place>],
    spaces: Spaces<'a>,
}

/// Where operands lie.
#[derive(Clone, Copy, Debug)]
enum Spaces<'a> {
    /// Those of an intrinsic's operands, and which operand each input is.
    Of(&'a [Name], &'a [usize]),
    All(Name),
}

impl Called<'_> {
    /// The space of the result.
    pub fn held(&self) -> Name {
        match self.spaces {
            // An intrinsic has an operand: it writes one.
            Spaces::Of(spaces, _) => spaces[0],
            Spaces::All(space) => space,
        }
    }
    /// The space of an input.
    pub fn space(&self, input: usize) -> Name {
        match self.spaces {
            Spaces::Of(spaces, inputs) => spaces[inputs[input]],
            Spaces::All(space) => space,
        }
    }
    /// The shape of the result.
    pub fn result(&self) -> Vec<i64> {
        let dims = self.places.last().into_iter().flatten();
        dims.map(|at| at.dim.map_or(1, |d| self.domain[d]))
            .collect()
    }
}

/// A machine, with what its intrinsics compute, at two neighbouring levels of its memory.
pub struct Target<'a> {
    /// The machine.
    pub info: &'a MachineInfo,
    /// Behaviours, by index of the intrinsic, or why none can be matched.
    pub behaviours: Vec<Result<Behaviour<'a>, Mismatch>>,
    /// What intrinsics of several generics compute; those of most generics first.
    pub sequences: Arc<[Sequence<'a>]>,
    /// Where what is tiled lies: arguments, results and constants, or the tiles of the level around.
    pub far: &'a SpaceInfo,
    /// Where tiles are loaded that no unit wants elsewhere.
    pub near: &'a SpaceInfo,
    /// Where results are computed that no unit gives elsewhere: `near`, if an engine stores from it.
    pub held: &'a SpaceInfo,
    /// The far spaces of the levels around this one.
    around: Vec<Name>,
    /// What is computed on vectors in near memory.
    pub vectors: Vec<&'a VectorInfo>,
    /// The next level, where no engine joins what computes with `far`: tiles are cut once more, and
    /// `near` is the far space there.
    pub inner: Option<Box<Target<'a>>>,
    /// Which intrinsics compute which steps.
    pub(crate) known: Ways,
}

impl<'a> Target<'a> {
    /// The outermost level. Its far space is the first one; the near one is the smallest that engines join
    /// with it in both directions, or, if there is none, the smallest that an engine loads, and results are
    /// held in the smallest that an engine stores. Where none of the spaces of units and vector units is
    /// joined with far memory, the near space is one on the way to them.
    pub fn new(info: &'a MachineInfo, ir: &'a Ir) -> Option<Self> {
        Self::from(info, ir, info.far()?, Vec::new())
    }

    fn from(
        info: &'a MachineInfo,
        ir: &'a Ir,
        far: &'a SpaceInfo,
        around: Vec<Name>,
    ) -> Option<Self> {
        let loaded = |s: &&SpaceInfo| info.engine_between(far.name, s.name).is_some();
        let stored = |s: &&SpaceInfo| info.engine_between(s.name, far.name).is_some();
        let smallest = |fits: &dyn Fn(&&SpaceInfo) -> bool| {
            let others = info.spaces.iter().filter(|s| s.name != far.name);
            others.filter(fits).min_by_key(|s| s.bytes)
        };
        let behaviours = info.intrinsics.iter().map(|i| Behaviour::of(ir, i));
        let behaviours = behaviours.collect();
        let sequences = info.intrinsics.iter().enumerate();
        let mut sequences: Vec<Sequence<'_>> = sequences
            .filter_map(|(i, of)| Sequence::of(ir, i, of))
            .collect();
        sequences.sort_by_key(|sequence| std::cmp::Reverse(sequence.steps.len()));
        let sequences = sequences.into();
        if let Some(stage) = info.stage(far.name)
            && let Some(inner) = Self::from(info, ir, stage, [&around[..], &[far.name]].concat())
        {
            return Some(Self {
                info,
                behaviours,
                sequences,
                vectors: Vec::new(),
                far,
                near: stage,
                held: stage,
                around,
                inner: Some(Box::new(inner)),
                known: Ways::default(),
            });
        }
        let joined = smallest(&|s| loaded(s) && stored(s));
        let near = joined.or_else(|| smallest(&loaded))?;
        let held = joined.or_else(|| smallest(&stored))?;
        Some(Self {
            info,
            behaviours,
            sequences,
            vectors: info
                .vectors
                .iter()
                .filter(|v| [near.name, held.name] == [v.space; 2])
                .collect(),
            far,
            near,
            held,
            around,
            inner: None,
            known: Ways::default(),
        })
    }

    /// The engines that load tiles.
    pub fn loads(&self) -> impl Iterator<Item = &'a EngineInfo> + '_ {
        let from = |engine: &&EngineInfo| engine.from == self.far.name;
        let engines = self.info.engines.iter().filter(from);
        engines.filter(|engine| !self.around.contains(&engine.to))
    }

    pub(super) fn behaviour(&self, assignment: &Assignment) -> Option<&Behaviour<'a>> {
        self.behaviours[assignment.intrinsic()?].as_ref().ok()
    }

    /// What computes the points of an assignment.
    pub fn called<'t>(&'t self, assignment: &'t Assignment) -> Option<Called<'t>> {
        Some(match &assignment.by {
            By::Intrinsic(index) => {
                let (info, behaviour) =
                    (&self.info.intrinsics[*index], self.behaviour(assignment)?);
                Called {
                    name: info.name,
                    unit: info.unit,
                    cycles: info.cycles,
                    domain: &behaviour.domain,
                    places: &behaviour.places,
                    spaces: Spaces::Of(&info.spaces, &behaviour.inputs),
                }
            }
            By::Vector(block) => Called {
                name: block.name,
                unit: block.unit,
                cycles: block.cycles,
                domain: &block.domain,
                places: &block.places,
                spaces: Spaces::All(block.space),
            },
        })
    }

    /// The level where units work.
    pub fn innermost(&self) -> &Self {
        self.inner.as_deref().map_or(self, Self::innermost)
    }

    /// The space that tensors of this level are in, where that is not the one of arguments.
    pub fn stage(&self) -> Option<Name> {
        let home = self.info.far()?.name;
        (self.far.name != home).then_some(self.far.name)
    }
}
