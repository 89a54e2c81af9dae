//! `place-buffers`: plans of memory in which reuse of bytes makes no queue wait, where there is room.
//!
//! *What reuse costs.* A run in which each buffer has bytes of its own says when each piece of work runs if nothing waits for
//! bytes. Where work on a buffer would begin before work on another one has ended that comes earlier in the program, both in
//! the same bytes would make it wait: for the cycles between the two, each time the program goes from one buffer to the other.
//!
//! *The choice.* Plans in which pairs that cost something are apart, the dearest first, are run with tokens on the machine model;
//! the plan with the fewest cycles is taken. The lowest plan is one of them, so none is slower than it.

use std::collections::{BTreeMap, HashMap};

use tir::{Ir, Name, OpId};
use tir_accel::MachineInfo;
use tir_machine::{Step, Touch};
use tir_memory::far::room;
use tir_memory::liveness::{Buffer, timeline};
use tir_memory::plan_memory::{NoPlan, Planned, Plans, plans, problem};
use tir_memory::problem_file::{Texts, texts};
use tir_memref::{Alloc, View};
use tir_packing::{Plan, Reuse, apart_in_time, reuse_cost, shared};

use crate::dry_run::dry_run;
use crate::insert_tokens::InsertTokens;
use crate::stream::{Stream, starts_work};

/// What limits the search.
#[derive(Clone, Debug)]
pub struct Place {
    /// Steps of the command stream at most; with more, the lowest plan is taken.
    pub steps: u64,
    /// Times that work of one buffer is compared with work of another one at most; with more, the lowest plan is taken.
    pub looks: usize,
    /// Plans that are run at most, beside the lowest one and the run without reuse; 0: the lowest plan is taken.
    pub tries: usize,
    /// Whether what is planned is given as texts.
    pub texts: bool,
}

/// The plan that was taken.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The plan of each space.
    pub planned: Vec<Planned>,
    /// Cycles of the lowest plan, of the one that was taken, and of a run in which each buffer has bytes of its own, where
    /// plans were compared.
    pub cycles: Option<Cycles>,
    /// Whether there is too much of the program to tell what reuse costs, so that plans were not compared.
    pub too_long: bool,
    /// What was planned, if that is asked for.
    pub texts: Option<Texts>,
    /// Each space in which the plan that was taken is not the lowest one, the bytes of the lowest, and those of the plan.
    pub higher: Vec<(Name, u64, u64)>,
}

/// Cycles by plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycles {
    /// Of the lowest plan.
    pub lowest: u64,
    /// Of the plan that was taken.
    pub taken: u64,
    /// Without reuse of bytes, as if there were room for it.
    pub free: u64,
}

/// An access of a buffer: when it is issued, and the cycles in which it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    step: usize,
    begin: u64,
    end: u64,
}

/// The program cannot be run within the limits.
struct TooLong;

impl Place {
    /// Plans every space of the function at the root of an arena, and rewrites its allocations.
    ///
    /// # Errors
    /// As [`plans`]; nothing is changed then.
    pub fn apply(&self, ir: &mut Ir, machine: &MachineInfo) -> Result<Placed, NoPlan> {
        let lowest = plans(ir, machine)?;
        let found = match self.tries > 0 && starts_work(ir, ir.root()) {
            true => self.choose(ir, machine, &lowest),
            false => Ok(None),
        };
        let too_long = found.is_err();
        let heights = lowest.planned.iter().map(|p| (p.space, p.plan.height));
        let heights: Vec<(Name, u64)> = heights.collect();
        let (plans, cycles) = match found.ok().flatten() {
            Some((plans, cycles)) => (plans, Some(cycles)),
            None => (lowest, None),
        };
        let texts = self.texts.then(|| texts(ir, machine, &plans));
        plans.apply(ir, machine).map_err(NoPlan::Other)?;
        let taken = plans.planned.iter().map(|planned| planned.plan.height);
        let higher = heights.into_iter().zip(taken);
        let higher = higher.filter(|((_, lowest), taken)| taken > lowest);
        Ok(Placed {
            higher: higher
                .map(|((space, lowest), taken)| (space, lowest, taken))
                .collect(),
            planned: plans.planned,
            texts,
            cycles,
            too_long,
        })
    }

    /// The plans with the fewest cycles; `None` if no reuse costs any.
    fn choose(
        &self,
        ir: &Ir,
        machine: &MachineInfo,
        lowest: &Plans,
    ) -> Result<Option<(Plans, Cycles)>, TooLong> {
        let (free, mut costs) = self.costs(ir, machine, lowest).ok_or(TooLong)?;
        let price = |plans: &Plans, costs: &[Reuse]| {
            let spaces = plans.planned.iter().zip(plans.spaces.values()).zip(costs);
            spaces.fold(0u64, |sum, ((planned, buffers), costs)| {
                let cost = problem(buffers).map(|p| reuse_cost(&p, &planned.plan.offsets, costs));
                sum.saturating_add(cost.unwrap_or(0))
            })
        };
        if price(lowest, &costs) == 0 {
            return Ok(None);
        }
        let first = self.cycles(ir, machine, lowest).ok_or(TooLong)?;
        let (mut best, mut fewest) = (lowest.clone(), first);
        for _ in 0..self.tries {
            if fewest <= free {
                break;
            }
            let Some(next) = apart(ir, machine, lowest, &costs) else {
                break;
            };
            let cycles = self.cycles(ir, machine, &next).unwrap_or(u64::MAX);
            // What is still shared counts more in the next plan.
            let mut more = false;
            for ((planned, buffers), costs) in next
                .planned
                .iter()
                .zip(next.spaces.values())
                .zip(&mut costs)
            {
                let Ok(problem) = problem(buffers) else {
                    continue;
                };
                let pairs: Vec<_> = shared(&problem, &planned.plan.offsets, costs).collect();
                for (pair, cost) in pairs {
                    costs.insert(pair, cost.saturating_mul(4));
                    more = true;
                }
            }
            if cycles < fewest {
                (best, fewest) = (next, cycles);
            }
            if !more {
                break;
            }
        }
        let cycles = Cycles {
            lowest: first,
            taken: fewest,
            free,
        };
        Ok(Some((best, cycles)))
    }

    /// The function with a plan and tokens; `None` if the thread waits for each start.
    fn ordered(&self, ir: &Ir, machine: &MachineInfo, plans: &Plans) -> Option<Ir> {
        let mut trial = ir.clone();
        plans.twin(&trial, ir).apply(&mut trial, machine).ok()?;
        let tokens = InsertTokens {
            full: u64::MAX,
            limit: self.steps,
            ..InsertTokens::default()
        };
        let warned = tokens.apply(&mut trial, machine).ok()?;
        warned.is_none().then_some(trial)
    }

    fn cycles(&self, ir: &Ir, machine: &MachineInfo, plans: &Plans) -> Option<u64> {
        let trial = self.ordered(ir, machine, plans)?;
        let report = dry_run(&trial, None, machine, self.steps.saturating_mul(2)).ok()?;
        Some(report.cycles)
    }

    /// Cycles of a run without reuse, and by it what reuse costs between buffers of each space.
    fn costs(&self, ir: &Ir, machine: &MachineInfo, plans: &Plans) -> Option<(u64, Vec<Reuse>)> {
        let (mut plans, mut machine) = (plans.clone(), machine.clone());
        for (planned, buffers) in plans.planned.iter_mut().zip(plans.spaces.values()) {
            let mut top = 0u64;
            let align = buffers.iter().map(|b| b.align).max().unwrap_or(1);
            for (offset, buffer) in planned.plan.offsets.iter_mut().zip(buffers) {
                *offset = top.next_multiple_of(align);
                top = offset.checked_add(buffer.bytes)?;
            }
            planned.plan.height = top;
            let room = i64::try_from(top).ok()?;
            let mut spaces = machine.spaces.iter_mut();
            let space = spaces.find(|s| s.name == planned.space)?;
            space.bytes = space.bytes.max(room.checked_mul(2)?);
        }
        let trial = self.ordered(ir, &machine, &plans)?;
        let limit = self.steps.saturating_mul(2);
        let stream = Stream::record(&trial, None, &machine, limit).ok()?;
        let (report, times) = stream.recording.times().ok()?;
        let accesses = Accesses::new(ir, &trial, &plans, &stream, &times);
        let mut looks = self.looks;
        let spaces = plans.spaces.iter();
        let costs = spaces.map(|(space, buffers)| accesses.costs(*space, buffers, &mut looks));
        Some((report.cycles, costs.collect::<Option<_>>()?))
    }
}

/// Plans in which pairs that cost something are apart; `None` if these are the given ones.
fn apart(ir: &Ir, machine: &MachineInfo, lowest: &Plans, costs: &[Reuse]) -> Option<Plans> {
    let mut next = lowest.clone();
    let mut changed = false;
    for ((planned, buffers), costs) in next.planned.iter_mut().zip(next.spaces.values()).zip(costs)
    {
        let space = machine.space(planned.space)?;
        let capacity = room(ir, machine, space);
        let problem = problem(buffers).ok()?;
        let plan: Plan = apart_in_time(&problem, &planned.plan, capacity, costs);
        changed |= plan.offsets != planned.plan.offsets;
        planned.plan = plan;
    }
    changed.then_some(next)
}

/// Accesses of the buffers of each space, in the order of the program.
struct Accesses {
    /// By space and number of the buffer: accesses with none of others between that do not live at the same time.
    runs: BTreeMap<Name, Vec<Vec<Access>>>,
}

impl Accesses {
    fn new(ir: &Ir, trial: &Ir, plans: &Plans, stream: &Stream, times: &[(u64, u64)]) -> Accesses {
        let known = Text::new(ir, trial);
        let arenas = arenas(trial, plans);
        let places = stream.recording.places();
        let forms: Vec<_> = (0..stream.recording.form_count() as u32)
            .map(|form| stream.recording.form(form))
            .collect();
        // The space of a recorded buffer that is one allocation for all.
        let mut space_of: HashMap<usize, Name> = HashMap::new();
        let none =
            |(space, buffers): (&Name, &Vec<Buffer>)| (*space, vec![Vec::new(); buffers.len()]);
        let mut runs: BTreeMap<Name, Vec<Vec<Access>>> = plans.spaces.iter().map(none).collect();
        let planned: BTreeMap<Name, &Plan> =
            plans.planned.iter().map(|p| (p.space, &p.plan)).collect();
        let mut last: HashMap<(Name, usize), Key> = HashMap::new();
        for (step, (recorded, (begin, end))) in stream.recording.steps().zip(times).enumerate() {
            let op = stream.ops[recorded.site.index()].id;
            if let Step::Alloc(buffer) = recorded.step {
                if let Some(space) = arenas.get(&op) {
                    space_of.insert(buffer.index(), *space);
                }
                continue;
            }
            for Touch {
                buffer,
                form,
                offset,
                ..
            } in recorded.touches
            {
                let (root, base, _) = places[buffer.index()];
                let Some(space) = space_of.get(&root.index()) else {
                    continue;
                };
                let form = &forms[*form as usize];
                if form.is_empty() {
                    continue;
                }
                let at = (base + form.start).wrapping_add_signed(*offset);
                let offsets = &planned[space].offsets;
                let buffers = &plans.spaces[space];
                let above = offsets.partition_point(|o| *o <= at);
                let Some(number) = above.checked_sub(1) else {
                    continue;
                };
                let Some(key) = known.key(op, &buffers[number]) else {
                    continue;
                };
                let list = &mut runs.entry(*space).or_default()[number];
                let before = last.insert((*space, number), key);
                match list
                    .last_mut()
                    .filter(|_| before.is_some_and(|b| b.goes_on(key)))
                {
                    Some(run) => run.end = run.end.max(*end),
                    None => list.push(Access {
                        step,
                        begin: *begin,
                        end: *end,
                    }),
                }
            }
        }
        Accesses { runs }
    }

    /// What reuse costs between buffers of a space; `None` if there are too many accesses to tell.
    fn costs(&self, space: Name, buffers: &[Buffer], looks: &mut usize) -> Option<Reuse> {
        let runs = &self.runs[&space];
        let problem = problem(buffers).ok()?;
        let mut costs = Reuse::new();
        for a in 0..buffers.len() {
            for b in a + 1..buffers.len() {
                if problem.graph().has(a, b) || runs[a].is_empty() || runs[b].is_empty() {
                    continue;
                }
                *looks = looks.checked_sub(runs[a].len() + runs[b].len())?;
                let cost = waits(&runs[a], &runs[b]);
                if cost > 0 {
                    costs.insert((a, b), cost);
                }
            }
        }
        Some(costs)
    }
}

/// For how long accesses of two buffers would wait for each other.
fn waits(a: &[Access], b: &[Access]) -> u64 {
    let (mut i, mut j, mut sum) = (0, 0, 0u64);
    // The last end of the buffer that was accessed last, and which it is.
    let mut now: Option<(bool, u64)> = None;
    while i < a.len() || j < b.len() {
        let first = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => x.step <= y.step,
            (x, _) => x.is_some(),
        };
        let access = if first { a[i] } else { b[j] };
        match &mut now {
            Some((which, end)) if *which == first => *end = access.end.max(*end),
            _ => {
                let end = now.map_or(0, |(_, end)| end);
                sum = sum.saturating_add(end.saturating_sub(access.begin));
                now = Some((first, access.end));
            }
        }
        i += usize::from(first);
        j += usize::from(!first);
    }
    sum
}

/// Which allocation of a planned function holds which space.
fn arenas(trial: &Ir, plans: &Plans) -> HashMap<OpId, Name> {
    let mut arenas = HashMap::new();
    for op in trial.walk_ids() {
        let Some(view) = trial.get::<View>(op) else {
            continue;
        };
        let arena = trial.owner(view.source).filter(|op| trial.is::<Alloc>(*op));
        let hint = trial.hint(view.source);
        if let (Some(arena), Some(space)) = (arena, hint) {
            let mut spaces = plans.spaces.keys();
            spaces
                .find(|s| **s == space)
                .map(|s| arenas.insert(arena, *s));
        }
    }
    arenas
}

/// Where an access of a buffer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    /// The op of the function's body that it stands in.
    outermost: u64,
    /// Whether the buffer lives all through that.
    through: bool,
    /// Its time, and which of the buffer's live ranges that is in.
    time: u64,
    range: usize,
}

impl Key {
    /// Whether no buffer that lives at other times alone is accessed between an access here and a next one.
    fn goes_on(self, next: Key) -> bool {
        self.outermost == next.outermost
            && (self.through || self.range == next.range && self.time <= next.time)
    }
}

/// Where ops stand in the text.
struct Text {
    /// By op of the clone: its time, and the times of the op of the body that it stands in.
    times: HashMap<OpId, (u64, u64, u64)>,
}

impl Text {
    fn new(ir: &Ir, trial: &Ir) -> Text {
        let all = timeline(ir);
        let mut times = HashMap::new();
        let (mut first, mut end) = (0, 0);
        for (time, op) in all.iter().enumerate() {
            let time = time as u64;
            if time >= end {
                first = time;
                end = time + 1 + ir.walk_below(*op).len() as u64;
            }
            times.insert(trial.twin(*op, ir), (time, first, end));
        }
        Text { times }
    }

    fn key(&self, op: OpId, buffer: &Buffer) -> Option<Key> {
        let (time, first, end) = *self.times.get(&op)?;
        let mut ranges = buffer.live.iter();
        let range = ranges.position(|r| r.contains(&time))?;
        let live = &buffer.live[range];
        Some(Key {
            outermost: first,
            through: live.start <= first && end <= live.end,
            time,
            range,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_waits_for_the_other_each_time_they_take_turns() {
        let at = |step, begin, end| Access { step, begin, end };
        let a = [at(0, 0, 100), at(5, 130, 180)];
        let b = [at(2, 60, 140)];
        // 60 would wait until 100, 130 until 140.
        assert_eq!(waits(&a, &b), 50);
        assert_eq!(waits(&a, &[at(9, 200, 210)]), 0);
        // Accesses of one buffer in a row: the last end counts.
        assert_eq!(waits(&[at(0, 0, 100), at(1, 10, 20)], &[at(2, 90, 95)]), 10);
    }
}
