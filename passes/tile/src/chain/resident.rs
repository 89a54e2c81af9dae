//! Tensors that stay: from the nests that compute them to the last one that reads them they lie in near memory.
//!
//! A tensor that nests read needs no transfers if it is computed into near memory, as a whole and as its readers
//! want it: what is read is a *home*, a tile that no loop moves, of which each reader has a part
//! ([`Placed::find`]). The nests that compute it are producers of that tile as those of a chain are, with no loops
//! around them; borders are filled as theirs are. So all nests concerned are planned again, with nothing to load
//! or store for the tensor, and with what it leaves of near memory, in which it takes a place from its first
//! writer to its last reader.
//!
//! Which tensors stay is decided one by one, those first that save the most for each byte and nest that they are
//! held: a tensor stays if the nests concerned are no slower by the estimate and all find place. A place is at an end
//! of what is free for as long as the tensor lives, so that tensors of nests one behind the other lie at both ends of
//! near memory in turn; the tiles of a nest lie between them, in the largest part that is free while it runs. So there
//! is always a plan of near memory.
//!
//! A tensor that is put together from parts lies in near memory from the first writer of a part on. Who reads a part by
//! itself, as the layers do that a skip connection goes around, reads it there ([`shared`]).

mod brought;
mod candidates;
mod choose;
mod nest;
mod never;
mod places;
mod price;
mod shared;
mod stays;
mod through;

pub use brought::Brought;
pub use choose::Far;
use choose::{LOADED_ONCE, Refused};
pub(super) use shared::Shared;

use std::collections::HashSet;
use std::rc::Rc;

use tir::{BlockId, Ir, OpId, Value};

use super::Stage;
use super::cost::widen;
use super::home::Why;
use super::keep::keep;
use super::partition::{Limits, Single, Who, is_view};
use super::plans::{Known, Nests};
use super::series::series;
use super::stage::{Homes, Lies, Makers};
use crate::placed::Placed;
use crate::plan::{Budget, Price, Target, load_cycles};
use brought::Load;
use shared::with_parts;
use through::Through;

/// A nest may be slower by one in so many cycles: bytes that are moved cost more than the time that they take.
pub(super) const SLACK: i64 = 100;

/// What is loaded once, not several times, may take one in so many cycles more.
const TIE: i64 = 200;

/// A cycle that a nest takes more counts as so many that another one saves: estimates are not exact, and a nest that
/// is planned with fewer choices is the one that they are least exact for.
const LOSS: i64 = 2;

/// Near memory is plenty for a tensor that takes no more than one in so many bytes of it.
pub(super) const PLENTY: i64 = 16;

/// Why a tensor does not stay beside which a nest has no room.
const TOO_LARGE: Why = "it does not fit near memory with the tiles of a nest";

/// Why a tensor does not stay that makes nests slower.
const SLOWER: Why = "the nests concerned are slower";

/// Why a tensor does not stay that finds no place.
const NO_PLACE: Why = "near memory has no place for it beside other tensors";

/// Which tensors stay, of those that have a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// Those with which the nests concerned are no slower by the estimate.
    #[default]
    Cycles,
    /// Those with which fewer bytes move, whatever that takes.
    Bytes,
    /// As a compiler does that looks at tensors alone, as the static policy of S. Pal, S. Venkataramani and others,
    /// "OnSRAM: Efficient Inter-Node On-Chip Scratchpad Management in Deep Learning Accelerators" (ACM Transactions on Embedded Computing Systems): ranked
    /// by how often they are read and written for each nest that they are held, pinned as long as there is room.
    Static,
}

impl Policy {
    /// The policy of a name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "cycles" => Some(Self::Cycles),
            "bytes" => Some(Self::Bytes),
            "static" => Some(Self::Static),
            _ => None,
        }
    }
}

/// When a tensor stays that has a place.
#[derive(Clone, Copy)]
enum Accept {
    /// If the nests concerned are no slower, a cycle lost counting as two won; where near memory is plenty, a cycle of an
    /// engine counts as one of theirs.
    Nests,
    /// If they are no slower, whatever engines save.
    Quicker,
    /// If they are no slower together, and fewer bytes move.
    All,
    /// If fewer bytes move.
    Fewer,
    /// In any case.
    Any,
}

/// A tensor that stays.
#[derive(Clone, Debug)]
pub struct Resident {
    /// The tensor.
    pub value: Value,
    /// Its home: a stage that reads it, of which nothing else is of use. Its producers compute the parts.
    pub home: Stage,
    /// By the generic that each writer ends in, in the order of the program: which parts it computes, and the
    /// generics that are computed with it. None where it is loaded before the first nest that reads it.
    pub writers: Vec<(OpId, Vec<usize>, Vec<OpId>)>,
    /// The parts that are loaded before the first nest that reads it.
    pub brought: Vec<Brought>,
    /// Generics that would copy such parts in another order: nothing computes them.
    pub copied: Vec<OpId>,
    /// Parts that nests read by themselves, where each begins, and behind how many of the writers it is computed.
    pub shared: Vec<(Value, Vec<i64>, usize)>,
    /// The block that all nests concerned stand in.
    pub block: Option<BlockId>,
    /// The generic that the first nest which reads it ends in.
    pub reader: OpId,
}

impl Resident {
    /// Whether it is loaded as it is before the first nest that reads it.
    pub fn is_loaded(&self) -> bool {
        self.writers.is_empty() && self.brought.is_empty()
    }
}

/// A nest: some groups of the sequence.
#[derive(Clone, Debug)]
pub(super) struct Nest {
    /// Its last group, and how many there are.
    pub(super) first: usize,
    pub(super) count: usize,
    /// What it reads that stays.
    near: HashSet<Value>,
    /// What it computes that stays.
    writes: Option<Value>,
    /// How it runs, if it was planned again or has several stages; what it computes that stays is in its home.
    pub(super) stage: Option<Stage>,
    /// Estimated cycles.
    cycles: i64,
    /// Estimated cycles of the engines.
    moved: i64,
    /// Bytes of near memory.
    bytes: i64,
}

/// What stays, as far as it is decided.
#[derive(Clone, Default)]
pub(super) struct State {
    /// Shared with other states: one more tensor changes a few of them.
    nests: Vec<Rc<Nest>>,
    homes: Vec<Rc<Home>>,
}

/// Nests with what stays between them.
pub(super) struct Settled {
    pub(super) nests: Vec<Rc<Nest>>,
    pub(super) residents: Vec<Resident>,
    /// Why other tensors do not stay.
    pub(super) far: Vec<Far>,
    /// What all nests take one behind another.
    pub(super) price: Price,
}

/// Where a tensor lies.
#[derive(Clone)]
struct Home {
    value: Value,
    stage: Stage,
    /// The dimensions of the tensor beyond whose ends it is zero.
    zeros: Vec<usize>,
    /// Which maker computes each part.
    makers: Vec<usize>,
    /// The nests that compute it, by maker, and where what they compute begins in the tensor.
    writers: Vec<usize>,
    places: Vec<Vec<i64>>,
    /// The other parts, and what brings them.
    loads: Vec<Load>,
    brought: Vec<Brought>,
    /// Parts that are read by themselves.
    shared: Vec<Shared>,
    /// Parts that are computed in another order than their groups' results.
    through: Vec<Through>,
    /// The nests from the last reader to the first writer.
    life: (usize, usize),
    /// Where in near memory, and how many bytes.
    at: i64,
    bytes: i64,
    /// The first nest that reads it, and cycles of the engine that loads it, or parts of it, before that.
    reader: usize,
    load: i64,
}

impl Home {
    fn tile(&self) -> &crate::layout::Tile {
        &self.stage.plan.tiles[self.number()]
    }
    fn lies(&self) -> Lies {
        Lies {
            placed: Placed::of(self.tile()),
            zeros: self.zeros.clone(),
            beside: Vec::new(),
            grows: false,
        }
    }
    /// How the tensor lies, and the parts of it that are read by themselves.
    fn all_lies(&self) -> impl Iterator<Item = (Value, Lies)> {
        let own = self.lies();
        let shared = self.shared.iter().map(|part| (part.value, part.lies(&own)));
        let shared: Vec<_> = shared.collect();
        std::iter::once((self.value, own)).chain(shared)
    }
    fn number(&self) -> usize {
        self.stage.made().next().map_or(0, |made| made.operand)
    }
}

/// What nests are planned with.
pub(super) struct Planner<'a> {
    pub(super) ir: &'a Ir,
    pub(super) singles: &'a [Single],
    pub(super) made: &'a Who,
    pub(super) target: &'a Target<'a>,
    pub(super) budget: Budget,
    pub(super) limits: Limits,
    pub(super) known: &'a Known,
    pub(super) nests: &'a Nests,
    pub(super) found: nest::Found,
    pub(super) thread: i64,
}

/// A tensor that may stay.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) value: Value,
    /// The nests that compute it, by maker, and where what they compute begins in the tensor; none where it is loaded once for all
    /// its readers.
    writers: Vec<usize>,
    places: Vec<Vec<i64>>,
    /// Parts of it that are loaded.
    loads: Vec<Load>,
    /// Parts that nests read by themselves, where they lie.
    pub(super) shared: Vec<Shared>,
    /// Parts that are computed in another order than their groups' results.
    through: Vec<Through>,
    /// The same without these, if it has some.
    apart: Option<Box<Candidate>>,
    pub(super) readers: Vec<usize>,
    /// How many stages of theirs read it.
    reads: usize,
    life: (usize, usize),
}

impl Planner<'_> {
    /// Bytes of a tensor.
    fn bytes(&self, value: Value) -> i64 {
        let ty = self.ir.ty(value);
        let elem = ty.elem().bytes().unwrap_or(1) as i64;
        let elements = ty.shape().unwrap_or(&[]).iter().copied();
        elements.fold(elem, i64::saturating_mul)
    }

    /// Lets nests keep in near memory that is free what they load more than once.
    fn fill(&self, state: &mut State) {
        let (makers, homes) = (Makers::new(), Homes::new());
        for number in 0..state.nests.len() {
            let free = self.room(&state.homes, number);
            let cx = self.context(self.spare(free), &makers, &homes);
            let keep = |stage: &mut Stage| {
                let mut cost = stage.plan.cost.clone();
                let cycles = cost.total(self.thread);
                let most = cycles.saturating_add(cycles / TIE);
                let before = cost.load;
                keep(&cx, stage, &mut cost, Some(most));
                stage.plan.cost = cost;
                stage.plan.cost.load < before
            };
            let nest = Rc::make_mut(&mut state.nests[number]);
            if let Some(stage) = &mut nest.stage {
                keep(stage);
                continue;
            }
            let Some(value) = nest.writes else {
                let single = &self.singles[nest.first];
                let plan = &single.plan;
                // What is loaded strip by strip is so since that is quicker.
                let whole = plan.strips.is_none() && !plan.moves;
                let here = plan.unit.is_some();
                if here && whole && !single.group.has_inner() {
                    let mut stage = Stage::alone(single.group.clone(), plan.clone());
                    nest.stage = keep(&mut stage).then_some(stage);
                }
                continue;
            };
            let home = state.homes.iter_mut().find(|home| home.value == value);
            let Some(home) = home.map(Rc::make_mut) else {
                continue;
            };
            let made = home
                .stage
                .segments
                .iter_mut()
                .flat_map(|segment| &mut segment.made);
            let parts = made.flat_map(|made| &mut made.parts).zip(&home.makers);
            for (part, maker) in parts {
                if home.writers[*maker] == number {
                    keep(part);
                }
            }
        }
    }

    /// Whether a tensor is read in far memory: as another shape, in another order or as a part of another one by a nest, or by
    /// what is no nest, as what the thread computes.
    fn is_seen_otherwise(&self, value: Value) -> bool {
        let nests = self.singles.iter().filter(|single| single.plan.helps);
        let inside: HashSet<OpId> = nests.flat_map(|nest| nest.group.ops.clone()).collect();
        let mut work = vec![value];
        while let Some(seen) = work.pop() {
            for user in self.ir.uses(seen).map(|u| u.op) {
                if is_view(self.ir, user, &inside) {
                    work.extend(self.ir.results(user));
                } else if seen != value || !inside.contains(&user) {
                    return true;
                }
            }
        }
        false
    }

    /// A stage that stands for a home until it is known.
    fn target_stage(&self, value: Value) -> Option<Stage> {
        let mut singles = self.singles.iter();
        let reads = |single: &&Single| {
            let mut operands = single.group.operands.iter();
            operands.any(|operand| operand.source == value)
        };
        let single = singles.find(reads)?;
        Some(Stage::alone(single.group.clone(), single.plan.clone()))
    }

    /// Cycles of the engine that loads a home as a whole.
    fn load(&self, home: &Home) -> Result<i64, Why> {
        let (far, near) = (self.target.far.name, self.target.near.name);
        let engine = self.target.info.engine_between(far, near);
        let engine = engine.ok_or("no engine loads it")?;
        if home.stage.group.operands[home.number()].flat.is_some() {
            return Err("it is read as another shape");
        }
        let tile = home.tile();
        let shape = self.ir.ty(home.value).shape().unwrap_or(&[]);
        if Placed::of(tile).leaves(shape) && !engine.pad {
            return Err("the engine that would load it fills no border");
        }
        let operand = &home.stage.group.operands[home.number()];
        let elem = self.ir.ty(home.value).elem();
        Ok(load_cycles(tile, elem, operand, engine))
    }

    /// Keeps how a nest runs.
    fn take(&self, state: &mut State, number: usize, mut stages: Vec<Stage>) {
        // What it is the first to read it waits for.
        let first = |home: &&Rc<Home>| home.reader == number;
        let loads = state.homes.iter().filter(first).map(|home| home.load);
        let loads = loads.fold(0, i64::saturating_add);
        if let Some(stage) = stages.first_mut() {
            let cost = &mut stage.plan.cost;
            cost.load = cost.load.saturating_add(loads);
            cost.first = cost.first.saturating_add(loads);
        }
        let (mut cycles, mut moved, mut bytes) = (0i64, 0i64, 0i64);
        for stage in &stages {
            let cost = &stage.plan.cost;
            moved = moved.saturating_add(cost.load.saturating_add(cost.store));
            let (own, near) = self.priced(stage);
            cycles = cycles.saturating_add(own);
            bytes = bytes.max(near);
        }
        let nest = Rc::make_mut(&mut state.nests[number]);
        (nest.cycles, nest.moved, nest.bytes) = (cycles, moved, bytes);
        let Some(value) = nest.writes else {
            nest.stage = stages.into_iter().next();
            return;
        };
        nest.stage = None;
        let home = state.homes.iter_mut().find(|home| home.value == value);
        let Some(home) = home.map(Rc::make_mut) else {
            return;
        };
        let Some(made) = home
            .stage
            .segments
            .first_mut()
            .and_then(|s| s.made.first_mut())
        else {
            return;
        };
        // The parts of other nests stay as they are.
        let mut stages = stages.into_iter();
        let mut parts = std::mem::take(&mut made.parts).into_iter();
        let full = parts.len() == home.makers.len();
        for maker in &home.makers {
            let own = home.writers[*maker] == number;
            let old = if full || !own { parts.next() } else { None };
            made.parts.extend(if own { stages.next() } else { old });
        }
        if made.parts.len() == home.makers.len() {
            widen(self.ir, self.target, &mut home.stage);
        }
    }

    /// Which of some tensors stay by the policy, and which do not.
    fn decided(&self, before: &State, candidates: &[Candidate]) -> (State, Vec<Refused>) {
        let accept = match self.limits.policy {
            Policy::Cycles => Accept::Nests,
            Policy::Bytes => Accept::Fewer,
            Policy::Static => Accept::Any,
        };
        let (mut state, mut refused) = match self.limits.policy {
            Policy::Bytes => self.refused_first(before, candidates, accept),
            Policy::Cycles | Policy::Static => self.chosen(before, candidates, accept),
        };
        if self.limits.policy == Policy::Cycles && !refused.is_empty() {
            (state, refused) = self.cheapest(&state, refused, candidates, before);
        }
        if self.limits.policy == Policy::Cycles && !candidates.is_empty() {
            (state, refused) = self.no_slower((state, refused), candidates, before.clone());
        }
        (state, refused)
    }

    /// Lets tensors stay.
    pub(super) fn residents(&self, nests: Vec<Nest>) -> Settled {
        let mut state = State {
            nests: nests.into_iter().map(Rc::new).collect(),
            homes: Vec::new(),
        };
        let before = state.clone();
        let candidates = match self.limits.resident {
            true => self.candidates(&state.nests, false),
            false => Vec::new(),
        };
        let mut refused;
        (state, refused) = self.decided(&before, &candidates);
        // Where parts are read by themselves, with those where they lie in what they are parts of.
        let mut sharing = match self.limits.policy {
            Policy::Static => Vec::new(),
            Policy::Cycles | Policy::Bytes if candidates.len() < 2 => Vec::new(),
            Policy::Cycles | Policy::Bytes => self.candidates(&before.nests, true),
        };
        sharing.retain(|candidate| !candidate.shared.is_empty());
        let mut candidates = candidates;
        if !sharing.is_empty() {
            let mut least = self.together(&state);
            for all in with_parts(&candidates, &sharing) {
                let (other, others) = self.decided(&before, &all);
                let then = self.together(&other);
                if then < least {
                    least = then;
                    (state, refused, candidates) = (other, others, all);
                }
            }
        }
        refused.retain(|(number, _)| !self.is_elsewhere(&state, candidates[*number].value));
        let why = refused.into_iter();
        let why = why.filter(|(number, _)| candidates[*number].is_put_together());
        let far = why.map(|(number, why)| self.far(&state, &candidates[number], why));
        let once = self.loaded_once(&state, &candidates).into_iter();
        let once = once.map(|number| self.far(&state, &candidates[number], LOADED_ONCE));
        let far = far.chain(once).collect();
        if self.limits.resident {
            self.fill(&mut state);
        }
        let all = 0..state.nests.len();
        let played = self.played(&state, all, true);
        let (cycles, weighed) = (series(self.ir, &played), self.worth(&played));
        let ops = |numbers: std::ops::Range<usize>| {
            let all = numbers.flat_map(|number| &self.singles[number].group.ops);
            all.copied().collect::<Vec<OpId>>()
        };
        let residents = state.homes.iter().map(|home| {
            let writer = |(maker, number): (usize, &usize)| {
                let nest = &state.nests[*number];
                let parts = (0..home.makers.len()).filter(|part| home.makers[*part] == maker);
                (
                    nest.first,
                    (
                        self.singles[nest.first].op,
                        parts.collect(),
                        ops(nest.groups()),
                    ),
                )
            };
            let mut writers: Vec<_> = home.writers.iter().enumerate().map(writer).collect();
            writers.sort_by_key(|(first, _)| std::cmp::Reverse(*first));
            let mut readers = state.nests.iter().rev();
            let first = readers.find(|nest| nest.near.contains(&home.value));
            let first = first.map_or(0, |nest| nest.first);
            let reader = self.singles[first].op;
            Resident {
                value: home.value,
                home: home.stage.clone(),
                block: self.ir.block_of(reader),
                reader,
                shared: home.told(),
                writers: writers.into_iter().map(|(_, writer)| writer).collect(),
                brought: home.brought.clone(),
                copied: self.copied(home),
            }
        });
        let residents = residents.collect();
        Settled {
            nests: state.nests,
            residents,
            far,
            price: Price { cycles, weighed },
        }
    }
}

impl Candidate {
    /// Whether nests compute it or parts of it there, or engines bring it in another order; else it is loaded as it is.
    fn is_put_together(&self) -> bool {
        !self.writers.is_empty() || !self.loads.is_empty()
    }
    /// The nests that read it or a part of it where it lies, each once.
    pub(super) fn all_readers(&self) -> Vec<usize> {
        let shared = self.shared.iter().flat_map(|part| &part.readers);
        let mut all: Vec<usize> = self.readers.iter().chain(shared).copied().collect();
        let mut seen = HashSet::new();
        all.retain(|nest| seen.insert(*nest));
        all
    }
    /// The first and the last of the nests in its life or concerned otherwise, by number.
    fn span(&self) -> (usize, usize) {
        let concerned = concerned(self).into_iter();
        concerned.fold(self.life, |(last, first), n| (last.min(n), first.max(n)))
    }
    /// The nests that would copy parts of it.
    fn copiers(&self) -> impl Iterator<Item = usize> + '_ {
        let through = self.through.iter().map(|part| &part.load);
        let all = self.loads.iter().chain(through);
        let shared = self.shared.iter().flat_map(|part| &part.copiers);
        all.filter_map(|load| load.nest).chain(shared.copied())
    }
}

/// The nests that compute a tensor, copy parts of it or read it.
fn concerned(candidate: &Candidate) -> Vec<usize> {
    let all = candidate.all_readers().into_iter();
    let all = all.chain(candidate.writers.iter().copied());
    all.chain(candidate.copiers()).collect()
}
