//! `schedule-transfers`: rotating buffers and transfers, with fewer slots until all fits in memory.

use std::collections::HashSet;

use tir::remarks::{FEWER_SLOTS, LATE_LOAD};
use tir::{Attr, Diagnostic, Ir, MemRefType, Name, OpId};
use tir_accel::MachineInfo;
use tir_memory::plan_memory::{NoPlan, Planned, plans, plans_of};
use tir_memref::Alloc;
use tir_packing::Effort;

use crate::early::{Early, choose};
use crate::insert_dma::InsertDma;
use crate::multi_buffer::{BUFFER, DEPTH, MultiBuffer, nest_of};
use crate::postpone::postpone;
use crate::prefetch::prefetch;
use crate::preload::{preload, too_much};
use crate::staging::stage;

/// How buffers are scheduled.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Slots of a buffer of an iteration, to begin with.
    pub depth: i64,
    /// Make windows that slide rings.
    pub ring: bool,
    /// Start loads of a nest in the nest before it, where memory suffices.
    pub preload: bool,
    /// Load first tiles of a nest that loads for longer than it computes in nests before, where memory suffices.
    pub early: bool,
    /// Spread starts of prefetched loads over an iteration.
    pub spread: bool,
    /// Plans that are tried at most.
    pub tries: usize,
    /// Plans with loads ahead, beside one that there is, that may be missed before the search for each is a short one.
    pub long_misses: usize,
    /// Misses after each of which one load less is ahead; behind them the number doubles, as each try builds the program.
    pub single_misses: usize,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Scheduled {
    /// The plan of each space.
    pub planned: Vec<Planned>,
    /// Plans that did not fit before it.
    pub retries: usize,
    /// Buffers with fewer slots than asked for.
    pub shallow: usize,
    /// Loads that are started in the nest before theirs.
    pub preloaded: usize,
    /// Tiles that are loaded in nests before theirs.
    pub early: i64,
    /// Buffers whose loads are not, as memory does not suffice.
    pub crowded: usize,
    /// Plans with loads ahead that a short search missed.
    pub missed: usize,
    /// What is to be said of transfers.
    pub remarks: Vec<Diagnostic>,
}

/// How slots and transfers are made.
#[derive(Clone, Copy)]
struct Build<'a> {
    /// Room for the first window of a sweep behind the last one of another.
    sweeps: bool,
    /// Loads of later nests move into nests before, but for those of these buffers; `None`: none moves.
    without: Option<&'a HashSet<i64>>,
    /// Tiles that are loaded in nests before theirs.
    early: &'a [Early],
}

/// Loads that start later than the text says, as nothing else made room.
#[derive(Default)]
struct Late {
    /// The buffers that they fill, in order.
    allocs: Vec<OpId>,
    /// How often some were moved.
    steps: usize,
    /// What did not fit before the first of them, and by how many bytes.
    over: Option<(Name, u64)>,
    /// Whether a plan was found with them.
    found: bool,
}

impl Late {
    /// Moves that of these buffers which is needed last behind the next work, or all, if that was tried often; whether there are
    /// such.
    fn step(&mut self, ir: &mut Ir, held: HashSet<OpId>, over: (Name, u64), tries: usize) -> bool {
        if self.steps >= tries {
            return false;
        }
        let moved = postpone(ir, &held, self.steps >= tries / 2);
        self.over.get_or_insert(over);
        let any = !moved.is_empty();
        self.steps += usize::from(any);
        for alloc in moved {
            if !self.allocs.contains(&alloc) {
                self.allocs.push(alloc);
            }
        }
        any
    }

    /// Whether this is the first plan with them.
    fn finish(&mut self) -> bool {
        !self.allocs.is_empty() && !std::mem::replace(&mut self.found, true)
    }

    fn remarks(&self, ir: &Ir) -> Vec<Diagnostic> {
        let remarks = self.allocs.iter().map(|op| {
            let text = "this load starts later than planned: less of it runs beside the work before";
            let remark = Diagnostic::remark(text).category(LATE_LOAD).at(ir.loc(*op));
            match self.over {
                Some((space, bytes)) => remark.note(format!(
                    "where it was planned, {bytes} bytes more than @{space} has would be needed, with one slot of every buffer: \
                     smaller tiles or fewer stages in one nest (max_stages) would leave room"
                )),
                None => remark,
            }
        });
        remarks.collect()
    }
}

/// A function, and how many slots its buffers have.
struct Slots<'a> {
    ir: &'a Ir,
    /// The buffers by their number.
    allocs: &'a [OpId],
    depths: &'a [i64],
}

impl Slots<'_> {
    /// A copy in which buffers whose tiles are loaded in nests before have a slot more for each.
    fn with(&self, early: &[Early]) -> Ir {
        let mut depths = self.depths.to_vec();
        for early in early {
            let number = usize::try_from(early.buffer).ok();
            if let Some(depth) = number.and_then(|i| depths.get_mut(i)) {
                *depth += early.count();
            }
        }
        marked(self.ir, self.allocs, &depths)
    }
}

impl Schedule {
    /// Runs on the function at the root of an arena. Where the buffers do not fit, the largest
    /// one of the peak that has several slots gets one less; an error holds the last report.
    pub fn apply(&self, ir: &mut Ir, machine: &MachineInfo) -> Result<Scheduled, Diagnostic> {
        stage(ir, machine).map_err(|e| *e)?;
        let allocs: Vec<OpId> = ir
            .walk_ids()
            .into_iter()
            .filter(|op| ir.is::<Alloc>(*op))
            .collect();
        let mut depths: Vec<i64> = Vec::new();
        // Buffers of loops with one slot by the plan of tiles: nothing is loaded ahead into them.
        let mut planned: HashSet<usize> = HashSet::new();
        for (i, op) in allocs.iter().enumerate() {
            ir.set_attr(*op, BUFFER, Attr::i64(i as i64));
            let said = ir.attr(*op, DEPTH).and_then(Attr::as_int);
            let looped = nest_of(ir, *op).is_some_and(|nest| !nest.is_empty());
            if looped && said == Some(1) {
                planned.insert(i);
            }
            depths.push(if looped {
                said.unwrap_or(self.depth).max(1)
            } else {
                1
            });
        }
        let twins = twins(ir, &allocs, machine);
        let lower = |depths: &mut [i64], n: usize, depth: i64| {
            let same = (0..depths.len()).filter(|i| twins[*i] == twins[n]);
            same.for_each(|i| depths[i] = depths[i].min(depth));
        };
        let asked = depths.clone();
        // Bytes by which the first plan did not fit.
        let mut over: Option<(Name, u64)> = None;
        let mut retries = 0;
        let mut sweeps = self.ring;
        let mut late = Late::default();
        loop {
            let mut trial = marked(ir, &allocs, &depths);
            let error = match self.one(&mut trial, machine, sweeps) {
                Ok(_) if late.finish() => {
                    // There is a plan with these loads later: one with all slots, perhaps.
                    (depths, sweeps, retries) = (asked.clone(), self.ring, 0);
                    continue;
                }
                Ok((planned, remarks)) => {
                    let mut done = Scheduled {
                        planned,
                        retries,
                        shallow: shallow(&asked, &depths),
                        preloaded: 0,
                        early: 0,
                        crowded: 0,
                        missed: 0,
                        remarks,
                    };
                    if self.preload {
                        let base = marked(ir, &allocs, &depths);
                        let without =
                            self.preloaded(&base, &mut trial, machine, sweeps, &mut done)?;
                        if self.early {
                            let slots = Slots {
                                ir,
                                allocs: &allocs,
                                depths: &depths,
                            };
                            let build = Build {
                                sweeps,
                                without: Some(&without),
                                early: &[],
                            };
                            self.early(&slots, machine, build, &mut trial, &mut done)?;
                        }
                    }
                    done.remarks.extend(few(ir, &allocs, &asked, &depths, over));
                    done.remarks.extend(late.remarks(ir));
                    std::mem::swap(ir, &mut trial);
                    return Ok(done);
                }
                Err(error) => error,
            };
            let NoPlan::TooLarge {
                space,
                holders,
                report,
                ..
            } = &error
            else {
                return Err(error.diagnostic(&trial, machine));
            };
            let now = (*space, report.needed.saturating_sub(report.capacity));
            over.get_or_insert(now);
            // The least that is lost is a wait at the beginning of a sweep.
            if std::mem::take(&mut sweeps) {
                continue;
            }
            if retries == 0 {
                // Where they are used they would be loaded with all of their rows in each iteration.
                let rings = self.rotate(false).rings(ir, &allocs, machine);
                planned.retain(|i| !rings.contains(&allocs[*i]));
            }
            retries += 1;
            let number = |op: &OpId| {
                let n = trial.attr(*op, BUFFER).and_then(Attr::as_int)?;
                usize::try_from(n).ok().filter(|n| *n < depths.len())
            };
            let held: Vec<usize> = holders.iter().filter_map(number).collect();
            let largest = held.iter().copied().find(|n| depths[*n] > 1);
            let single: Vec<usize> = held.iter().copied().filter(|n| depths[*n] == 1).collect();
            let inner: Vec<usize> = single
                .iter()
                .copied()
                .filter(|n| planned.contains(n))
                .collect();
            match largest {
                // What has one slot anyway lies where it is used, and not for as long as a loop around runs.
                Some(_) if retries + 2 < self.tries && !inner.is_empty() => {
                    inner.iter().for_each(|n| lower(&mut depths, *n, 0));
                }
                Some(n) if retries + 2 < self.tries => {
                    let depth = depths[n] - 1;
                    lower(&mut depths, n, depth);
                }
                // The last try but one has one slot of everything.
                Some(_) if retries + 1 < self.tries => depths.fill(1),
                // Then those of the peak lie where they are used, and not for as long as a loop around runs: inner
                // loops, branches and what stands one behind the other use the same bytes in turn.
                None if retries + 1 < self.tries && !single.is_empty() => {
                    single.iter().for_each(|n| lower(&mut depths, *n, 0));
                }
                // So does all in the last try.
                _ if retries < self.tries && depths.iter().any(|depth| *depth > 0) => {
                    depths.fill(0)
                }
                _ if late.step(
                    ir,
                    held.iter().map(|n| allocs[*n]).collect(),
                    now,
                    self.tries,
                ) => {}
                _ => {
                    // Bytes of one buffer while another one's content is not needed: the last resort, as their work waits.
                    if let Ok(plans) = plans(&trial, machine) {
                        let mut remarks = few(ir, &allocs, &asked, &depths, over);
                        remarks.extend(late.remarks(ir));
                        std::mem::swap(ir, &mut trial);
                        return Ok(Scheduled {
                            planned: plans.planned,
                            retries,
                            shallow: shallow(&asked, &depths),
                            preloaded: 0,
                            early: 0,
                            crowded: 0,
                            missed: 0,
                            remarks,
                        });
                    }
                    let tried = if retries == 1 { "time" } else { "times" };
                    return Err(error.diagnostic(&trial, machine).note(format!(
                        "planned {retries} {tried}, with fewer slots each time"
                    )));
                }
            }
        }
    }

    /// Tries the same with loads of each nest in the nest before it, but for those that memory
    /// does not suffice for: `trial` and what is known of it become that.
    fn preloaded(
        &self,
        base: &Ir,
        trial: &mut Ir,
        machine: &MachineInfo,
        sweeps: bool,
        done: &mut Scheduled,
    ) -> Result<HashSet<i64>, Diagnostic> {
        let (mut without, mut misses) = (HashSet::new(), 0);
        for _ in 0..self.tries {
            let mut next = base.clone();
            let build = Build {
                sweeps,
                without: Some(&without),
                early: &[],
            };
            let (remarks, loads) = self.build(&mut next, machine, build)?;
            let loaded: HashSet<i64> = loads.iter().copied().collect();
            if loaded.is_empty() {
                break;
            }
            let over = too_much(&next, machine, &loaded)?;
            if !over.is_empty() {
                without.extend(over);
                continue;
            }
            match fits(&next, machine, self.effort(misses)) {
                Ok(planned) => {
                    std::mem::swap(trial, &mut next);
                    (done.planned, done.remarks) = (planned, remarks);
                    done.preloaded = loads.len();
                    break;
                }
                Err(NoPlan::TooLarge { holders, .. }) => {
                    done.missed += usize::from(self.effort(misses) == Effort::Little);
                    misses += 1;
                    let number = |op: &OpId| next.attr(*op, BUFFER).and_then(Attr::as_int);
                    let largest = holders.iter().filter_map(number);
                    let largest: Vec<i64> = largest.filter(|n| loaded.contains(n)).collect();
                    if largest.is_empty() {
                        without.extend(&loaded);
                        break;
                    }
                    without.extend(largest.iter().take(self.at_once(misses)));
                }
                Err(error) => return Err(error.diagnostic(&next, machine)),
            }
        }
        done.crowded = without.len();
        Ok(without)
    }

    /// Tries the same with first tiles of nests in nests before, fewer of them until memory suffices.
    fn early(
        &self,
        slots: &Slots<'_>,
        machine: &MachineInfo,
        build: Build<'_>,
        trial: &mut Ir,
        done: &mut Scheduled,
    ) -> Result<(), Diagnostic> {
        let mut base = slots.with(&[]);
        self.rotate(build.sweeps)
            .apply(&mut base, machine)
            .map_err(|e| *e)?;
        let streamed = prefetch(&mut base, machine, &[]);
        if let Some(without) = build.without {
            preload(&mut base, machine, without);
        }
        let mut early = choose(&base, machine, &streamed);
        let mut misses = 0;
        for _ in 0..self.tries {
            if early.is_empty() {
                break;
            }
            let mut next = slots.with(&early);
            let build = Build {
                early: &early,
                ..build
            };
            let (remarks, _) = self.build(&mut next, machine, build)?;
            match fits(&next, machine, self.effort(misses)) {
                Ok(planned) => {
                    std::mem::swap(trial, &mut next);
                    (done.planned, done.remarks) = (planned, remarks);
                    done.early = early.iter().map(Early::count).sum();
                    break;
                }
                Err(NoPlan::TooLarge {
                    holders, report, ..
                }) => {
                    done.missed += usize::from(self.effort(misses) == Effort::Little);
                    misses += 1;
                    let number = |op: &OpId| next.attr(*op, BUFFER).and_then(Attr::as_int);
                    let mut largest = holders.iter().filter_map(number);
                    let of = |n: i64| early.iter().position(|early| early.buffer == n);
                    let Some(i) = largest.find_map(of) else { break };
                    early[i].shrink(report.needed.saturating_sub(report.capacity));
                    early.retain(|early| !early.tiles.is_empty());
                }
                Err(error) => return Err(error.diagnostic(&next, machine)),
            }
        }
        Ok(())
    }

    /// How long a plan is looked for where there is one already, after so many were missed.
    fn effort(&self, misses: usize) -> Effort {
        match misses < self.long_misses {
            true => Effort::Whole,
            false => Effort::Little,
        }
    }

    /// How many loads are left where they are after so many misses.
    fn at_once(&self, misses: usize) -> usize {
        1 << misses.saturating_sub(self.single_misses).min(16)
    }

    fn one(
        &self,
        ir: &mut Ir,
        machine: &MachineInfo,
        sweeps: bool,
    ) -> Result<(Vec<Planned>, Vec<Diagnostic>), NoPlan> {
        let build = Build {
            sweeps,
            without: None,
            early: &[],
        };
        let (remarks, _) = self
            .build(ir, machine, build)
            .map_err(|e| NoPlan::Other(Box::new(e)))?;
        Ok((fits(ir, machine, Effort::Whole)?, remarks))
    }

    fn rotate(&self, sweeps: bool) -> MultiBuffer {
        MultiBuffer {
            depth: self.depth,
            ring: self.ring,
            sweeps,
        }
    }

    /// Slots and transfers. Gives what is to be said, and the buffer of each load that moved into the nest before.
    fn build(
        &self,
        ir: &mut Ir,
        machine: &MachineInfo,
        build: Build<'_>,
    ) -> Result<(Vec<Diagnostic>, Vec<i64>), Diagnostic> {
        let rotate = self.rotate(build.sweeps);
        rotate.apply(ir, machine).map_err(|e| *e)?;
        prefetch(ir, machine, build.early);
        let without = build.without;
        let loads = without.map_or(Vec::new(), |without| preload(ir, machine, without));
        let transfers = InsertDma {
            prefetch: false,
            spread: self.spread,
        };
        let remarks = transfers.apply(ir, machine).map_err(|e| *e)?;
        Ok((remarks, loads))
    }
}

/// Buffers with fewer slots than asked for.
fn shallow(asked: &[i64], depths: &[i64]) -> usize {
    let slots = asked.iter().zip(depths);
    slots
        .filter(|(asked, depth)| (**depth).max(1) < **asked)
        .count()
}

/// By buffer, the first one of those that equal cores have for the same work, each in its own memory: they stand one behind
/// the other, and have as many slots.
fn twins(ir: &Ir, allocs: &[OpId], machine: &MachineInfo) -> Vec<usize> {
    let described = |op: OpId| {
        let ty = ir.ty(ir.result(op, 0)).get::<MemRefType>()?;
        let space = machine.space(ty.space_name()?)?;
        let same = (space.of, ty.shape.clone(), ty.elem, ir.block_of(op));
        Some((space.name, same))
    };
    let all: Vec<_> = allocs.iter().map(|op| described(*op)).collect();
    let mut first: Vec<usize> = Vec::new();
    for (i, own) in all.iter().enumerate() {
        let begin = first.last().copied().unwrap_or(0);
        let same = |other: usize| match (own, &all[other]) {
            (Some((name, own)), Some((other, same))) => name != other && own == same,
            _ => false,
        };
        let twin = begin < i && (begin..i).all(same);
        first.push(if twin { begin } else { i });
    }
    first
}

/// What is to be said of buffers that have one slot and were to have several.
fn few(
    ir: &Ir,
    allocs: &[OpId],
    asked: &[i64],
    depths: &[i64],
    over: Option<(Name, u64)>,
) -> Vec<Diagnostic> {
    let slots = asked.iter().zip(depths).zip(allocs);
    let few = slots.filter(|((asked, depth), _)| **asked > 1 && **depth <= 1);
    let remarks = few.map(|((asked, _), op)| {
        let text = format!("this buffer has one slot, not {asked}: what is moved into it waits for the tile before");
        let remark = Diagnostic::remark(text).category(FEWER_SLOTS).at(ir.loc(*op));
        match over {
            Some((space, bytes)) => remark.note(format!(
                "with {asked} slots everything would take {bytes} bytes more than @{space} has: `memory-report` says what fills it"
            )),
            None => remark,
        }
    });
    remarks.collect()
}

/// A copy in which the buffers say how many slots they get.
fn marked(ir: &Ir, allocs: &[OpId], depths: &[i64]) -> Ir {
    let mut out = ir.clone();
    for (op, depth) in allocs.iter().zip(depths) {
        let op = out.twin(*op, ir);
        out.set_attr(op, DEPTH, Attr::i64(*depth));
    }
    out
}

/// The plan, if there is one: what is simplified before the real one must not merge its views.
fn fits(ir: &Ir, machine: &MachineInfo, effort: Effort) -> Result<Vec<Planned>, NoPlan> {
    let plans = plans_of(ir, machine, false, effort)?;
    Ok(plans.planned)
}

/// Takes the marks of this pass out of a function.
pub fn unmark(ir: &mut Ir) {
    for op in ir.walk_ids() {
        if ir.is::<Alloc>(op) {
            for mark in [BUFFER, DEPTH] {
                ir.remove_attr(op, Name::new(mark).as_str());
            }
        }
    }
}
