//! Which groups run as one nest: of all ways to cut the sequence of groups in chains, the quickest.
//!
//! A chain is a root and groups before it without a gap, each of which computes for those behind it alone. A
//! group alone is a chain too, so no partition is slower than that into single groups, as far as the estimate
//! goes. From the last group back, the fewest cycles of all groups behind are known: each chain that may begin there is
//! tried, a group longer each time, until a longer one cannot gain.
//!
//! With the nests decided, `resident` takes up the tensors that still go through far memory between them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use tir::pass::Memo;
use tir::{Ir, Name, OpId, Value};
use tir_tensor::{CollapseShape, ExpandShape, Generic, InsertSlice, TransferRead};

use super::between::Between;
use super::cores::Cores;
use super::cost::alone;
use super::flat::FlatChain;
use super::grow::Grow;
use super::plans::{Known, Nests};
use super::resident::{Far, Nest, Planner, Policy, Settled};
use super::ring::Rows;
use super::search::{Found, MARGIN, Refused, chain};
use super::stage::{Context, Homes, Makers};
use super::ways::{cut, least_cycles, least_moved, quickest};
use super::{Resident, Stage};
use crate::group::{Group, Signature};
use crate::plan::{Budget, Excess, Plan, Price, Target, takes_any_rows};

/// A group of the sequence, the last one first.
pub struct Single {
    /// The generic that it ends in.
    pub op: OpId,
    /// The group.
    pub group: Group,
    /// Its plan as a stage, or where something that it reads or computes stays.
    pub plan: Plan,
    /// A quicker form of it, and that one's plan, for a nest of it alone that goes through far memory.
    pub spread: Option<(Group, Plan)>,
}

impl Single {
    /// The group and its plan where it runs alone.
    pub(crate) fn apart(&self) -> (&Group, &Plan) {
        match &self.spread {
            Some((group, plan)) => (group, plan),
            None => (&self.group, &self.plan),
        }
    }
}

/// How groups run otherwise than one by one as they were planned.
#[derive(Default, Debug)]
pub struct Chains {
    /// Estimated cycles of all nests, each for itself, before tensors stay between them.
    pub cycles: i64,
    /// What all nests take one behind another, where they are to be written.
    pub price: Option<Price>,
    /// Estimated cycles of all nests, each for itself, with what stays between them, where nests are to be written.
    pub stay: Option<i64>,
    /// What each nest computes, where only cycles are asked for, and how many it takes.
    pub nests: Vec<(HashSet<OpId>, i64)>,
    /// The generics in which nests of several stages end.
    pub several: HashSet<OpId>,
    /// By the generic that they end in, the root and the generics that the others compute.
    pub roots: HashMap<OpId, (Stage, Vec<OpId>)>,
    /// What stays in near memory from nest to nest.
    pub residents: Vec<Resident>,
    /// By the generic that computes it, why another tensor between nests does not.
    pub far: Vec<Far>,
    /// What was estimated for chains that end in a generic, where candidates are listed.
    pub candidates: Vec<(OpId, Vec<String>)>,
    /// By the generic that they end in, how many stages do not fit at the least, and what they need.
    pub too_large: Vec<(OpId, usize, Excess)>,
}

/// What is remembered of a chain.
struct Kept {
    /// The plan of its root before the others were known.
    plan: Plan,
    cycles: i64,
    text: String,
    /// Whether its stages take neighbouring iterators as one.
    flat: bool,
    /// Whether some compute their sums in parts.
    parts: bool,
}

impl Kept {
    fn new(cx: &Context<'_>, found: Found, flat: bool) -> Self {
        Self {
            parts: found.stage.sums_in_parts(),
            text: found.text(cx),
            plan: found.plan,
            cycles: found.cycles,
            flat,
        }
    }
}

/// How far chains are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Groups in a chain at most.
    pub stages: usize,
    /// Divisions of a root that are estimated at most.
    pub plans: usize,
    /// Whether tensors between nests may stay in near memory.
    pub resident: bool,
    /// Which of them do.
    pub policy: Policy,
    /// Whether nests are to be written; if not, only their cycles are asked for.
    pub written: bool,
}

/// What is known of chains by the signatures of their groups: of one function, and of the same in another form.
#[derive(Default)]
pub struct Cuts {
    known: Memo<Signature, Arc<Result<Kept, Refused>>>,
    producers: Known,
    nests: Nests,
}

/// One in so many bytes of near memory stays free where a nest has several stages.
pub(super) const SPARE: i64 = 64;

/// Which group computes a tensor, by its number.
pub(super) struct Who {
    /// Those that can be stages.
    pub(super) stages: HashMap<Value, usize>,
    /// All that give it in its own shape.
    pub(super) outs: HashMap<Value, usize>,
    /// What a group behind a stage does to the rows of its result.
    through: HashMap<Value, Through>,
}

/// A group that does something to the rows of what the stage before it computes, for its readers.
struct Through {
    group: usize,
    stage: usize,
    between: Arc<Between>,
}

impl Who {
    fn new(ir: &Ir, singles: &[Single], target: &Target<'_>) -> Self {
        let stages = singles.iter().enumerate();
        let stages = stages.filter(|(_, single)| is_stage(ir, single, target));
        let stages = stages.map(|(i, single)| (single.group.outs[0].value, i));
        let all = singles.iter().enumerate();
        let outs = all.flat_map(|(i, single)| {
            let own = single.group.outs.iter().filter(|out| out.flat.is_none());
            own.map(move |out| (out.value, i))
        });
        let mut who = Self {
            stages: stages.collect(),
            outs: outs.collect(),
            through: HashMap::new(),
        };
        for (i, single) in singles
            .iter()
            .enumerate()
            .filter(|(_, s)| s.group.has_inner())
        {
            let Some((read, between)) = Between::of(ir, &single.group) else {
                continue;
            };
            let ops = single.group.ops.iter().copied().collect();
            let stage = who
                .stages
                .get(&read)
                .copied()
                .filter(|stage| *stage == i + 1);
            let stage = stage.filter(|stage| {
                let here = ir.block_of(singles[*stage].op) == ir.block_of(single.op);
                here && only_for(ir, read, &ops) && singles[*stage].group.outs[0].flat.is_none()
            });
            if let Some(stage) = stage {
                let (group, between) = (i, Arc::new(between));
                let through = Through {
                    group,
                    stage,
                    between,
                };
                who.through.insert(single.group.outs[0].value, through);
            }
        }
        who
    }

    /// The stage that computes a tensor, and what is done to its result before.
    pub(super) fn maker(&self, value: Value) -> Option<(usize, Option<&Arc<Between>>)> {
        if let Some(stage) = self.stages.get(&value) {
            return Some((*stage, None));
        }
        let through = self.through.get(&value)?;
        Some((through.stage, Some(&through.between)))
    }

    /// The stage behind which a group does something to rows.
    pub(super) fn behind(&self, group: usize) -> Option<usize> {
        let mut all = self.through.values();
        Some(all.find(|through| through.group == group)?.stage)
    }
}

/// Whether a value is needed by nothing but some generics, read directly, as a part of another value, or through what only
/// moves its elements and is none of them.
pub(crate) fn only_for(ir: &Ir, value: Value, inside: &HashSet<OpId>) -> bool {
    let mut work = vec![value];
    while let Some(value) = work.pop() {
        for u in ir.uses(value) {
            if is_view(ir, u.op, inside) {
                work.extend(ir.results(u.op));
            } else if !(ir.is::<Generic>(u.op) && inside.contains(&u.op)) {
                return false;
            }
        }
    }
    true
}

/// Whether an op shows a tensor in another shape, as a part of another one, or in another order of its elements and is none of some
/// generics.
pub(super) fn is_view(ir: &Ir, op: OpId, inside: &HashSet<OpId>) -> bool {
    let moves = || {
        let generic = ir.get::<Generic>(op);
        !inside.contains(&op) && generic.is_some_and(|generic| generic.moves(ir))
    };
    ir.is::<TransferRead>(op)
        || ir.is::<ExpandShape>(op)
        || ir.is::<CollapseShape>(op)
        || ir.is::<InsertSlice>(op)
        || moves()
}

/// Whether a group can be a stage: it computes on a unit, block by block, what lies in one tensor.
pub(super) fn is_stage(ir: &Ir, single: &Single, target: &Target<'_>) -> bool {
    let group = &single.group;
    let vectors = single.plan.quicker && takes_any_rows(ir, group, target);
    (single.plan.unit.is_some() || vectors)
        && !group.has_inner()
        && group.outs.len() == 1
        && group.core == group.domain.len()
}

/// Cycles of the unit that some groups keep busy longest.
fn busiest(singles: &[Single]) -> i64 {
    let mut all: BTreeMap<Name, i64> = BTreeMap::new();
    for (unit, cycles) in singles.iter().flat_map(|single| &single.plan.busy) {
        let sum = all.entry(*unit).or_default();
        *sum = sum.saturating_add(*cycles);
    }
    all.into_values().max().unwrap_or(0)
}

/// The sequence in chains.
pub fn partition(
    ir: &Ir,
    singles: &[Single],
    target: &Target<'_>,
    budget: Budget,
    limits: Limits,
    cuts: &Cuts,
) -> Chains {
    let count = singles.len();
    let made = Who::new(ir, singles, target);
    let listed = budget.listed;
    let budget = Budget {
        spare: SPARE,
        limit: limits.plans,
        listed: 0,
        // What chains take is divided when all of it is known.
        cores: false,
        ..budget
    };
    let thread = i64::try_from(target.info.thread_cycles(1)).unwrap_or(i64::MAX);
    let Cuts {
        known,
        producers,
        nests,
    } = cuts;
    let homes = Homes::new();
    let none = Makers::new();
    let base = Context {
        ir,
        target,
        budget,
        makers: &none,
        known: producers,
        rows: Rows::Anew,
        engines: false,
        shares: false,
        most: i64::MAX,
        // Other ways are looked at for the chains that are taken.
        joint: Some(false),
        homes: &homes,
        seen: None,
    };
    let mut chains = Chains::default();
    // Of the chains that begin with each group, how many groups they have, and their cycles.
    let mut all: Vec<Vec<(usize, i64)>> = vec![Vec::new(); count];
    for first in (0..count).rev() {
        all[first].push((1, alone(singles[first].apart().1, thread)));
        let mut notes = Vec::new();
        let mut search = Grow::new(ir, singles, &made, first);
        while search.members.len() < limits.stages.max(1) && search.grow() {
            let Some((makers, signature)) = search.makers() else {
                continue;
            };
            let cx = Context {
                makers: &makers,
                ..base
            };
            let n = search.members.len();
            let members = &singles[first..first + n];
            let here = members.iter().map(|single| alone(single.apart().1, thread));
            let here = here.fold(0, i64::saturating_add);
            // What the busiest unit has to do takes as long in any nest: no time is left to gain.
            let least_work = busiest(members);
            if least_work.saturating_add(least_work / MARGIN) >= here {
                if listed > 0 {
                    notes.push(format!(
                        "{n} stages: not tried, a unit is busy for {least_work} of {here} cycles"
                    ));
                }
                continue;
            }
            let found = known.or_find(signature, || {
                let root = &singles[first].group;
                let found = chain(&cx, root, None, here).map(|found| Kept::new(&cx, found, false));
                let flat = FlatChain::new(root, &makers).and_then(|flat| {
                    let makers = flat.makers();
                    let cx = Context {
                        makers: &makers,
                        ..cx
                    };
                    let found = chain(&cx, &flat.root, None, here).ok()?;
                    Some(Kept::new(&cx, found, true))
                });
                let better = |flat: &Kept| match &found {
                    Ok(found) => flat.cycles < found.cycles,
                    Err(_) => true,
                };
                Arc::new(flat.filter(better).map_or(found, Ok))
            });
            let found = &*found;
            if listed > 0 {
                let text = match found {
                    Ok(Kept { cycles, text, .. }) => {
                        format!("{n} stages: {cycles} cycles, apart {here}; {text}")
                    }
                    Err(why) => format!("{n} stages: none, {why}; apart {here} cycles"),
                };
                notes.push(text);
            }
            if let Err(Refused::TooLarge(excess)) = found {
                chains.too_large.push((singles[first].op, n, *excess));
            }
            // With more groups there is no less in the way, and what is far slower is not made good.
            // Sums are computed in parts only where memory is short, and more groups need more.
            let short =
                |found: &&Kept| found.cycles / 2 > here || found.parts && found.cycles > here;
            let Some(cycles) = found.as_ref().ok().filter(|found| !short(found)) else {
                break;
            };
            all[first].push((n, cycles.cycles));
        }
        if let Some(why) = search.stopped
            && listed > 0
        {
            notes.push(format!(
                "no more than {} stages: {why}",
                search.members.len()
            ));
        }
        if !notes.is_empty() {
            chains.candidates.push((singles[first].op, notes));
        }
    }
    let best = quickest(&all, usize::MAX);
    chains.cycles = best[0].0;
    if !limits.written {
        for (first, n) in cut(&best) {
            let ops = singles[first..first + n].iter();
            let ops = ops.flat_map(|single| single.group.ops.clone());
            chains
                .nests
                .push((ops.collect(), best[first].0 - best[first + n].0));
        }
        return chains;
    }
    // What stays would lie in the memory of one core.
    let one = Cores::of(&base).is_none();
    let limits = Limits {
        resident: limits.resident && one,
        ..limits
    };
    let planner = Planner {
        ir,
        singles,
        made: &made,
        target,
        budget,
        limits,
        known: producers,
        nests,
        found: Default::default(),
        thread,
    };
    let chosen = Cut {
        cx: base,
        singles,
        made: &made,
        known,
    };
    // The same with blocks that are moved back: what stays takes less room where it does not fill the blocks of a unit.
    let moved_back = Planner {
        budget: Budget {
            shifts: true,
            ..budget
        },
        found: Default::default(),
        ..planner
    };
    let stays = |way: &[(usize, usize)]| {
        let nests = chosen.nests(way).into_iter();
        let nests = nests.map(|(first, n, stage)| Nest::new(&planner, first, n, stage));
        let nests: Vec<Nest> = nests.collect();
        let found = planner.residents(nests.clone());
        if limits.policy != Policy::Bytes || !found.far.iter().any(Far::has_no_room) {
            return found;
        }
        let other = moved_back.residents(nests);
        match other.price.weighed < found.price.weighed {
            true => other,
            false => found,
        }
    };
    let Settled {
        nests,
        residents,
        mut far,
        price,
    } = match limits.policy {
        Policy::Bytes if limits.resident => least_moved(&all, limits.stages.max(1), stays),
        Policy::Cycles if limits.resident => least_cycles(&all, limits.stages.max(1), stays),
        _ => stays(&cut(&best)),
    };
    if limits.resident {
        far.extend(planner.never(&nests, &residents));
    }
    (chains.price, chains.residents, chains.far) = (Some(price), residents, far);
    let each = nests.iter().map(|nest| nest.cycles());
    chains.stay = Some(each.fold(0, i64::saturating_add));
    for nest in nests {
        let nest = Rc::unwrap_or_clone(nest);
        let others = &singles[nest.first + 1..nest.first + nest.count];
        let others = others.iter().flat_map(|single| single.group.ops.clone());
        if nest.count > 1 {
            chains.several.insert(singles[nest.first].op);
        }
        if let Some(stage) = nest.stage {
            let root = (stage, others.collect());
            chains.roots.insert(singles[nest.first].op, root);
        }
    }
    chains
}

/// What nests of a way to cut the sequence are made with.
struct Cut<'a> {
    cx: Context<'a>,
    singles: &'a [Single],
    made: &'a Who,
    known: &'a Memo<Signature, Arc<Result<Kept, Refused>>>,
}

impl Cut<'_> {
    /// The first group of each nest, how many it has, and how it runs if they are several.
    fn nests(&self, chains: &[(usize, usize)]) -> Vec<(usize, usize, Option<Stage>)> {
        let mut nests = Vec::new();
        for (first, n) in chains {
            match self.chain(*first, *n) {
                Some(stage) => nests.push((*first, *n, Some(stage))),
                None => nests.extend((*first..first + n).map(|single| (single, 1, None))),
            }
        }
        nests
    }

    /// How a chain runs that was estimated before; `None` if it has one group.
    fn chain(&self, first: usize, n: usize) -> Option<Stage> {
        if n < 2 {
            return None;
        }
        let mut search = Grow::new(self.cx.ir, self.singles, self.made, first);
        while search.members.len() < n && search.grow() {}
        let (makers, signature) = search.makers()?;
        let cx = Context {
            makers: &makers,
            joint: None,
            ..self.cx
        };
        let root = &self.singles[first].group;
        let found = self.known.get(&signature);
        let plan = found.as_deref().and_then(|found| found.as_ref().ok());
        let flat = plan.filter(|found| found.flat);
        let flat = flat.and_then(|_| FlatChain::new(root, &makers));
        let plan = plan.map(|found| &found.plan);
        let found = match &flat {
            Some(flat) => {
                let makers = flat.makers();
                let cx = Context {
                    makers: &makers,
                    ..cx
                };
                chain(&cx, &flat.root, plan, i64::MAX)
            }
            None => chain(&cx, root, plan, i64::MAX),
        };
        Some(found.ok()?.stage)
    }
}
