//! Nests, planned again with what stays in near memory.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tir::Value;

use super::super::cost::{alone, used};
use super::super::home::Why;
use super::super::partition::SPARE;
use super::super::ring::Rows;
use super::super::search::chain;
use super::super::stage::{Context, Homes, Maker, Makers, No, Stays};
use super::super::{Between, Made, Stage};
use super::{Home, Nest, Planner, State};
use crate::group::{Group, Signature};
use crate::parts::parts;
use crate::plan::{Budget, Plan};

/// A tensor that a group of a nest reads, and who computes it: the number of a group in the nest, where its part begins, and what
/// is done to it.
type Inside<'a> = (Value, Vec<(usize, Vec<i64>, Option<&'a Arc<Between>>)>);

/// A home, and what computes parts of it.
pub(super) struct Parts {
    /// Its borders.
    pub(super) made: Made,
    /// The groups that compute parts, each by the number of its maker.
    pub(super) groups: Vec<(usize, Group)>,
    /// The indices between its borders, for each sequence that is computed by itself.
    pub(super) inside: Vec<Vec<(i64, i64)>>,
}

/// The same group with an iterator as two, for each that counts what lies as interleaved sequences in near memory: rows of a unit are
/// then parts of one sequence.
fn in_sequences(group: &Group, homes: &Homes) -> Vec<Group> {
    let mut ways: Vec<(usize, i64)> = Vec::new();
    for operand in group.operands.iter().filter(|operand| operand.near) {
        let (Some(lies), Some(forms)) = (homes.get(&operand.source), operand.map.linear()) else {
            continue;
        };
        for (s, count) in lies.placed.sequences() {
            let mut counts = forms[s].terms().filter(|(d, _)| !group.reductions[*d]);
            if let (Some((d, 1)), None) = (counts.next(), counts.next())
                && group.domain[d] % count == 0
                && !ways.contains(&(d, count))
            {
                ways.push((d, count));
            }
        }
    }
    let split = ways.iter().filter_map(|(d, size)| group.split(*d, *size));
    split.collect()
}

/// Stages of the nests of a sequence, by the groups of the nest, what the plan of a stage depends on, and the tensors that the stage
/// reads and computes; none where there is no way to compute one. Each policy and order of tensors plans the same nests again beside
/// the same tensors.
pub(in crate::chain) type Found =
    RefCell<FxHashMap<((usize, usize), Signature, Vec<Value>), Vec<Tried>>>;

/// The quickest stage that was found within so many bytes of near memory, of those that take fewer cycles than `most`.
pub(in crate::chain) struct Tried {
    bytes: i64,
    most: i64,
    stage: Option<Stage>,
}

impl Tried {
    /// Whether the same is found within so many bytes, below `most` cycles: what is the quickest within more bytes and fits is so
    /// within fewer, and where there was none there is none.
    fn answers(&self, bytes: i64, most: i64, fits: &dyn Fn(&Stage) -> bool) -> bool {
        if bytes > self.bytes {
            return false;
        }
        match &self.stage {
            _ if bytes == self.bytes && most == self.most => true,
            Some(stage) => stage.plan.cycles < most.min(self.most) && fits(stage),
            None => most <= self.most,
        }
    }
}

/// Divisions of a nest of one stage that are estimated.
const DIVISIONS: usize = 512;

impl Nest {
    pub(in crate::chain) fn new(
        cx: &Planner<'_>,
        first: usize,
        count: usize,
        stage: Option<Stage>,
    ) -> Self {
        let single = &cx.singles[first];
        let ((cycles, bytes), cost) = match &stage {
            Some(stage) => (cx.priced(stage), &stage.plan.cost),
            None => {
                let (_, plan) = single.apart();
                ((alone(plan, cx.thread), plan.bytes), &plan.cost)
            }
        };
        let moved = cost.load.saturating_add(cost.store);
        Self {
            first,
            count,
            near: HashSet::new(),
            writes: None,
            stage,
            cycles,
            moved,
            bytes,
        }
    }
    pub(super) fn groups(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.count
    }
    /// Estimated cycles.
    pub(in crate::chain) fn cycles(&self) -> i64 {
        self.cycles
    }
}
impl Planner<'_> {
    /// What a nest is planned with that keeps no rows of its producers, and whose loads engines fill.
    pub(super) fn context<'c>(
        &'c self,
        budget: Budget,
        makers: &'c Makers<'c>,
        homes: &'c Homes,
    ) -> Context<'c> {
        Context {
            ir: self.ir,
            target: self.target,
            budget,
            makers,
            known: self.known,
            rows: Rows::Anew,
            engines: true,
            shares: false,
            most: i64::MAX,
            joint: None,
            homes,
            seen: None,
        }
    }

    /// The budget of a nest that may take so many bytes beside what stays.
    pub(super) fn spare(&self, bytes: i64) -> Budget {
        Budget {
            spare: SPARE,
            bytes,
            ..self.budget
        }
    }

    /// Cycles and bytes of near memory of a stage with all that compute for it.
    pub(super) fn priced(&self, stage: &Stage) -> (i64, i64) {
        let cycles = stage.plan.cost.total(self.thread);
        (cycles, used(stage, self.target.near.name))
    }

    /// A group whose operands may lie in near memory.
    pub(super) fn group(&self, number: usize, near: &HashSet<Value>) -> Group {
        let mut group = self.singles[number].group.clone();
        for operand in &mut group.operands {
            operand.near = near.contains(&operand.source);
        }
        group
    }

    /// The nest planned again: its stages, one for each part that it computes of what stays.
    pub(in crate::chain) fn plan(
        &self,
        state: &State,
        number: usize,
        homes: &Homes,
    ) -> Option<Vec<Stage>> {
        let nest = &state.nests[number];
        let groups: Vec<Group> = nest
            .groups()
            .map(|number| self.group(number, &nest.near))
            .collect();
        // Who computes what the stages read.
        let mut inside: Vec<Inside<'_>> = Vec::new();
        for operand in groups.iter().flat_map(|group| &group.operands) {
            let parts = parts(self.ir, operand.source).into_iter().flatten();
            let own = parts.filter_map(|(value, at)| {
                let (member, between) = self.made.maker(value)?;
                let member = member.checked_sub(nest.first)?;
                (0 < member && member < nest.count).then_some((member, at, between))
            });
            let own: Vec<_> = own.collect();
            if !own.is_empty() && inside.iter().all(|(value, _)| *value != operand.source) {
                inside.push((operand.source, own));
            }
        }
        let mut makers: Makers<'_> = HashMap::new();
        for (value, parts) in &inside {
            let parts = parts.iter().map(|(member, at, between)| Maker {
                group: &groups[*member],
                at,
                between: *between,
            });
            makers.insert(*value, parts.collect());
        }
        let free = self.room(&state.homes, number);
        let limit = if nest.count > 1 {
            self.limits.plans
        } else {
            DIVISIONS
        };
        let budget = Budget {
            limit: self.budget.limit.min(limit),
            listed: 0,
            ..self.spare(free)
        };
        let cx = self.context(budget, &makers, homes);
        let roots = match nest.writes {
            None => vec![groups[0].clone()],
            Some(value) => {
                let home = state.homes.iter().find(|home| home.value == value)?;
                // What copies a part does nothing.
                if !home.writers.contains(&number) {
                    return None;
                }
                let all = self.producers(state, home).ok()?.groups;
                let own = |(maker, _): &(usize, Group)| home.writers[*maker] == number;
                let own = all.into_iter().filter(own).map(|(_, mut group)| {
                    group.into.iter_mut().for_each(|slot| slot.divided = true);
                    group
                });
                own.collect()
            }
        };
        let most = nest.cycles.saturating_mul(2).saturating_add(1);
        let mut like = Signature::default();
        let all = Budget {
            bytes: 0,
            ..cx.budget
        };
        // Writing to a signature never fails.
        let _ = write!(like, "{all:?}");
        let mut read = Vec::new();
        for group in &groups {
            self.tell(&mut like, &mut read, group, homes, &inside);
        }
        let stage = |root: &Group| {
            let (mut key, mut read) = (like.clone(), read.clone());
            self.tell(&mut key, &mut read, root, homes, &inside);
            read.extend(root.outs.iter().map(|out| out.value));
            let own = ((nest.first, nest.count), key, read);
            let fits = |stage: &Stage| {
                let mut spaces = self.target.info.spaces.iter();
                spaces.all(|space| used(stage, space.name) <= budget.free(space))
            };
            let known = |tried: &Vec<Tried>| {
                let mut tried = tried.iter();
                let known = tried.find(|tried| tried.answers(free, most, &fits))?;
                Some(known.stage.clone())
            };
            if let Some(stage) = self.found.borrow().get(&own).and_then(known) {
                return stage;
            }
            let found = || {
                let mut key = own.1.clone();
                // Writing to a signature never fails.
                let _ = write!(key, "\n{free} {most}");
                let plan = self.remembered(key, &cx, root, most)?;
                Some(chain(&cx, root, Some(&plan), most).ok()?.stage)
            };
            let stage = found();
            let tried = Tried {
                bytes: free,
                most,
                stage: stage.clone(),
            };
            self.found.borrow_mut().entry(own).or_default().push(tried);
            stage
        };
        let found = roots.iter().map(|root| {
            let whole = stage(root);
            if whole.is_some() || nest.writes.is_some() {
                return whole;
            }
            in_sequences(root, homes).iter().find_map(stage)
        });
        found.collect()
    }

    /// The plan of a group in its quickest nest, as of an equal nest before: nests alike are planned again and again with what
    /// stays, and those of layers that repeat for each layer.
    fn remembered(
        &self,
        key: Signature,
        cx: &Context<'_>,
        root: &Group,
        most: i64,
    ) -> Option<Plan> {
        // Plans are those of sequences one by one; what is quicker as one sequence is seen where it is made.
        let cx = Context {
            joint: Some(false),
            ..*cx
        };
        let find = || chain(&cx, root, None, most).ok().map(|found| found.plan);
        self.nests.or_find(key, find)
    }

    /// What the plan of a group in a nest depends on: itself, how what it reads lies in near memory, what of that is
    /// one tensor with what others `read`, and which groups of the nest compute it.
    fn tell(
        &self,
        signature: &mut Signature,
        read: &mut Vec<Value>,
        group: &Group,
        homes: &Homes,
        inside: &[Inside<'_>],
    ) {
        signature.group(self.ir, group);
        for operand in &group.operands {
            let source = operand.source;
            let known = read.iter().position(|other| *other == source);
            let number = known.unwrap_or(read.len());
            if known.is_none() {
                read.push(source);
            }
            let lies = homes.get(&source);
            let made = inside.iter().find(|(value, _)| *value == source);
            let made = made.into_iter().flat_map(|(_, parts)| parts);
            let made: Vec<_> = made.map(|(member, at, _)| (member, at)).collect();
            // Writing to a signature never fails.
            let _ = write!(signature, "\n{number} {lies:?} {made:?}");
        }
    }

    /// The borders of a tensor in its home, and the groups that compute its parts.
    pub(super) fn producers(&self, state: &State, home: &Home) -> Result<Parts, Why> {
        let groups = home.writers.iter().enumerate().map(|(maker, writer)| {
            let nest = &state.nests[*writer];
            let group = self.group(nest.first, &nest.near);
            let mut through = home.through.iter();
            match through.find(|part| part.maker == maker) {
                Some(part) => self.through(group, part.load.value),
                None => Some(group),
            }
        });
        let groups: Option<Vec<Group>> = groups.collect();
        let groups = groups.ok_or("a part has another order")?;
        let makers = home.places.iter().zip(&groups);
        let makers = makers.map(|(at, group)| Maker {
            group,
            at,
            between: None,
        });
        let makers: Makers<'_> = HashMap::from([(home.value, makers.collect())]);
        let lies = state.homes.iter().flat_map(|home| home.all_lies());
        let homes: Homes = lies.collect();
        let cx = self.context(self.budget, &makers, &homes);
        let Stage { group, plan, .. } = &home.stage;
        let reads = home.writers.iter().map(|writer| {
            let near = &state.nests[*writer].near;
            let read = home.shared.iter().filter(|part| near.contains(&part.value));
            let mut dims: Vec<usize> = read.flat_map(|part| part.beside.clone()).collect();
            dims.sort_unstable();
            dims.dedup();
            dims
        });
        let reads: Vec<Vec<usize>> = reads.collect();
        let stays = Stays {
            reads: &reads,
            zeros: &home.zeros,
            loaded: !home.loads.is_empty(),
            ascends: home.writers.is_sorted_by(|a, b| a >= b),
        };
        let found = cx.producers(group, plan, home.number(), &[], Some(stays));
        let found = found.map_err(|no| match no {
            No::Never(why) => why,
            No::Cut { .. } => "parts begin inside of a tile",
        })?;
        let groups = found.producers.into_iter();
        Ok(Parts {
            made: found.made,
            groups: groups.map(|own| (own.which, own.group)).collect(),
            inside: found.inside,
        })
    }
}
