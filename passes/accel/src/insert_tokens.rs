//! `insert-tokens`: orders the queues with tokens, and lets the thread wait where it must.
//!
//! A run of the command stream shows which hazards no order fulfils. Each is lifted to a token of
//! the text: "all work that was started on this queue up to that point, so many runs of the point
//! ago". Such a token is a variable that is set at some points and read at others, with a history;
//! loops carry it where a later iteration reads it. An edge without which all hazards are still
//! fulfilled is taken out.

use std::collections::{BTreeMap, HashMap};

use tir::{At, Failure, Ir, OpId, Sym, Value};
use tir_accel::{Call, DmaStart, DmaWait, MachineInfo, Mark, Ready};
use tir_loop::{For, If};

pub use crate::passes::InsertTokens;

use crate::edit;
use crate::order::{Clocks, Edge, Need, Record, needs, prune};
use crate::stream::{Stream, starts_work};

/// A token as a variable: set after each run of one of the points.
type Variable = (Vec<usize>, usize);

/// A use of a variable: how many settings ago.
#[derive(Clone, Debug)]
struct Wanted {
    edge: Edge,
    points: Vec<usize>,
    back: usize,
}

/// How far back a token may lie.
const MAX_BACK: usize = 8;
/// Runs of a site that candidates are ranked by.
const SAMPLE: usize = 512;
/// The part of a period's work that may be waited for too much.
const LITTLE: u64 = 3;
/// Combinations of points that are tried for one edge.
const COMBINATIONS: usize = 256;

impl InsertTokens {
    /// Runs on the function at the root of an arena.
    pub fn apply(&self, ir: &mut Ir, machine: &MachineInfo) -> Result<(), Failure> {
        strip(ir);
        if self.sync {
            return wait_at_once(ir, machine);
        }
        let stream = Stream::new(ir, machine)?;
        let Ok(record) = Record::new(ir, &stream, self.limit) else {
            // The first run finds what is wrong with the text; a stream that is too long is not.
            stream.run(ir, u64::MAX, &mut Nothing)?;
            return wait_at_once(ir, machine);
        };
        let mut wanted = lift(ir, &stream, &record);
        if self.prune {
            let keep = prune(&record, wanted.iter().map(|w| w.edge.clone()).collect());
            let mut keep = keep.into_iter();
            wanted.retain(|_| keep.next().unwrap_or(true));
        }
        Weave::new(ir, &stream, wanted).run();
        Ok(())
    }
}

struct Nothing;
impl crate::stream::Sink for Nothing {
    fn event(&mut self, _: &crate::stream::Event<'_>) -> Result<(), Failure> {
        Ok(())
    }
    fn point(&mut self, _: usize) {}
}

/// Takes all waits and `after` tokens out of a function.
pub fn strip(ir: &mut Ir) {
    for op in ir.walk_ids() {
        if ir.is::<DmaWait>(op) {
            ir.erase(op);
        } else if let Some(group) = after_group(ir, op) {
            edit::set_group(ir, op, group, &[]);
        }
    }
    edit::drop_dead_carried(ir, tir_accel::token());
    drop_unused(ir);
}

pub(crate) fn drop_unused(ir: &mut Ir) {
    for op in ir.walk_ids() {
        if (ir.is::<Mark>(op) || ir.is::<Ready>(op)) && ir.is_unused(ir.result(op, 0)) {
            ir.erase(op);
        }
    }
}

/// The operand group of a start that holds its tokens.
pub fn after_group(ir: &Ir, op: OpId) -> Option<usize> {
    if ir.is::<Call>(op) {
        Some(1)
    } else if ir.is::<DmaStart>(op) {
        Some(4)
    } else {
        None
    }
}

fn wait_at_once(ir: &mut Ir, machine: &MachineInfo) -> Result<(), Failure> {
    for op in ir.walk_ids() {
        if !starts_work(ir, op) || after_group(ir, op).is_none() {
            continue;
        }
        let mut b = ir.at(At::After(op));
        let token = match b.ir.get::<Call>(op) {
            Some(call) => {
                let unit = machine
                    .intrinsic(call.callee.0)
                    .ok_or("calls what the machine has not")?
                    .unit;
                b.add(Mark { queue: Sym(unit) })
            }
            None => b.ir.result(op, 0),
        };
        b.add(DmaWait {
            tokens: vec![token],
        });
    }
    Ok(())
}

/// Finds an edge of the text for each hazard that is open.
fn lift(ir: &Ir, stream: &Stream, record: &Record) -> Vec<Wanted> {
    let (needs, clocks) = needs(record);
    let mut groups: BTreeMap<(usize, usize), Vec<Need>> = BTreeMap::new();
    for need in needs {
        let site = record.instances[need.id as usize].site as usize;
        groups.entry((site, need.queue)).or_default().push(need);
    }
    let points: HashMap<OpId, usize> = stream
        .points
        .iter()
        .enumerate()
        .map(|(i, op)| (*op, i))
        .collect();
    let cx = Lift {
        ir,
        stream,
        record,
        clocks: &clocks,
        points,
    };
    let mut out = Vec::new();
    for ((site, queue), needs) in groups {
        cx.edges(site, queue, &needs, &mut out);
    }
    out
}

struct Lift<'a> {
    ir: &'a Ir,
    stream: &'a Stream,
    record: &'a Record,
    clocks: &'a Clocks,
    points: HashMap<OpId, usize>,
}

struct Choice {
    points: Vec<usize>,
    back: usize,
    /// Work waited for beyond what is needed and what is little, how often the token is set, how
    /// far back it lies.
    cost: (u64, usize, usize),
}

impl Lift<'_> {
    /// The site whose work a need is about.
    fn producer(&self, need: &Need) -> Option<usize> {
        let id = self.record.nth(need.queue, need.count)?;
        Some(self.record.instances[id as usize].site as usize)
    }

    /// The points at which the work of a site has been started: behind its op and all around it.
    fn levels(&self, site: usize) -> Vec<usize> {
        let first = Some(self.stream.sites[site].op);
        let around = std::iter::successors(first, |op| self.ir.parent(*op));
        around
            .map_while(|op| self.points.get(&op).copied())
            .collect()
    }

    fn times(&self, points: &[usize]) -> Vec<u32> {
        let all = points
            .iter()
            .flat_map(|p| self.record.points[*p].iter().copied());
        let mut times: Vec<u32> = all.collect();
        times.sort_unstable();
        times
    }

    /// What a variable holds when an instance runs.
    fn value(&self, times: &[u32], queue: usize, back: usize, id: u32) -> u32 {
        let set = times.partition_point(|t| *t <= id);
        match set.checked_sub(1 + back) {
            Some(at) => self.record.started(queue, times[at]),
            None => 0,
        }
    }

    /// Adds edges that fulfil the needs of a site of one queue.
    fn edges(&self, site: usize, queue: usize, needs: &[Need], out: &mut Vec<Wanted>) {
        let mut by_producer: BTreeMap<usize, Vec<Need>> = BTreeMap::new();
        for need in needs {
            if let Some(producer) = self.producer(need) {
                by_producer.entry(producer).or_default().push(*need);
            }
        }
        let levels: Vec<Vec<usize>> = by_producer.keys().map(|p| self.levels(*p)).collect();
        let apart: Vec<Choice> = levels
            .iter()
            .zip(by_producer.values())
            .filter_map(|(levels, needs)| {
                let sets = levels.iter().map(|p| vec![*p]).collect();
                self.best(site, queue, needs, sets)
            })
            .collect();
        let apart_cost: u64 = apart.iter().map(|c| c.cost.0).sum();
        let mut chosen = apart;
        let combinations = levels
            .iter()
            .fold(1usize, |n, l| n.saturating_mul(l.len().max(1)));
        if levels.len() > 1 && combinations <= COMBINATIONS {
            let mut sets: Vec<Vec<usize>> = vec![vec![]];
            for level in &levels {
                let longer = sets.iter().flat_map(|set| {
                    level.iter().map(|p| {
                        let mut set = set.clone();
                        set.push(*p);
                        set
                    })
                });
                sets = longer.collect();
            }
            for set in &mut sets {
                set.sort_unstable();
                set.dedup();
            }
            sets.sort();
            sets.dedup();
            if let Some(one) = self.best(site, queue, needs, sets)
                && one.cost.0 <= apart_cost
            {
                chosen = vec![one];
            }
        }
        for choice in chosen {
            let times = self.times(&choice.points);
            let runs = self.record.by_site[site].iter();
            let values = runs
                .map(|id| self.value(&times, queue, choice.back, *id))
                .collect();
            let edge = Edge {
                site,
                queue,
                values,
            };
            out.push(Wanted {
                edge,
                points: choice.points,
                back: choice.back,
            });
        }
    }

    /// The variable that fulfils these needs and waits for least beyond them.
    fn best(
        &self,
        site: usize,
        queue: usize,
        needs: &[Need],
        sets: Vec<Vec<usize>>,
    ) -> Option<Choice> {
        let runs = &self.record.by_site[site];
        let stride = (runs.len() / SAMPLE).max(1);
        let sample: Vec<u32> = runs.iter().copied().step_by(stride).collect();
        let stride = (needs.len() / SAMPLE).max(1);
        // A part of the work that the queue is given between two runs counts as nothing: a token
        // of an outer loop is worth it.
        let span = |id: Option<&u32>| id.map_or(0, |id| self.record.started(queue, *id));
        let between =
            u64::from(span(runs.last()) - span(runs.first())) / (runs.len() as u64 - 1).max(1);
        let little = sample.len() as u64 * between / LITTLE;
        let mut choices = Vec::new();
        for points in sets {
            let times = self.times(&points);
            for back in 0..MAX_BACK {
                let fulfils = |n: &Need| self.value(&times, queue, back, n.id) >= n.count;
                if !needs.iter().step_by(stride).all(fulfils) {
                    break;
                }
                let beyond = |id: &u32| {
                    let value = self.value(&times, queue, back, *id);
                    u64::from(value.saturating_sub(self.clocks.of(*id)[queue]))
                };
                let total: u64 = sample.iter().map(beyond).sum();
                let cost = (if total <= little { 0 } else { total }, times.len(), back);
                choices.push((
                    Choice {
                        points: points.clone(),
                        back,
                        cost,
                    },
                    times.clone(),
                ));
            }
        }
        choices.sort_by_key(|(c, _)| c.cost);
        let fulfils = |(c, times): &(Choice, Vec<u32>)| {
            needs
                .iter()
                .all(|n| self.value(times, queue, c.back, n.id) >= n.count)
        };
        choices.into_iter().find(fulfils).map(|(c, _)| c)
    }
}

/// Puts variables into the text.
struct Weave<'a> {
    ir: &'a mut Ir,
    stream: &'a Stream,
    /// Variables with the length of their history.
    depth: BTreeMap<Variable, usize>,
    uses: HashMap<OpId, Vec<(Variable, usize)>>,
    sets: HashMap<OpId, Vec<Variable>>,
    ready: Option<Value>,
}
type State = BTreeMap<Variable, Vec<Value>>;

impl<'a> Weave<'a> {
    fn new(ir: &'a mut Ir, stream: &'a Stream, wanted: Vec<Wanted>) -> Self {
        let mut depth: BTreeMap<Variable, usize> = BTreeMap::new();
        let mut uses: HashMap<OpId, Vec<(Variable, usize)>> = HashMap::new();
        let mut sets: HashMap<OpId, Vec<Variable>> = HashMap::new();
        for w in wanted {
            let variable = (w.points, w.edge.queue);
            let long = depth.entry(variable.clone()).or_default();
            *long = (*long).max(w.back + 1);
            uses.entry(stream.sites[w.edge.site].op)
                .or_default()
                .push((variable, w.back));
        }
        for variable in depth.keys() {
            for point in &variable.0 {
                sets.entry(stream.points[*point])
                    .or_default()
                    .push(variable.clone());
            }
        }
        Self {
            ir,
            stream,
            depth,
            uses,
            sets,
            ready: None,
        }
    }

    fn run(mut self) {
        let Some(body) = self.ir.body_block(self.ir.root(), 0) else {
            return;
        };
        if self.depth.is_empty() {
            return;
        }
        let ready = self.ir.add(At::Start(body), Ready {});
        self.ready = Some(ready);
        let mut state: State = self
            .depth
            .iter()
            .map(|(v, n)| (v.clone(), vec![ready; *n]))
            .collect();
        let ops: Vec<OpId> = self.ir.ops_in(body).collect();
        self.ops(ops, &mut state);
        edit::drop_dead_carried(self.ir, tir_accel::token());
        drop_unused(self.ir);
    }

    fn ops(&mut self, ops: Vec<OpId>, state: &mut State) {
        for op in ops {
            if let Some(uses) = self.uses.remove(&op) {
                self.order(op, &uses, state);
            }
            if self.ir.is::<For>(op) {
                self.looped(op, state);
            } else if self.ir.is::<If>(op) {
                self.branch(op, state);
            }
            let mut marks: HashMap<usize, Value> = HashMap::new();
            for variable in self.sets.remove(&op).unwrap_or_default() {
                let queue = variable.1;
                let token = match marks.get(&queue) {
                    Some(token) => *token,
                    None => self.token(op, queue),
                };
                marks.insert(queue, token);
                if let Some(history) = state.get_mut(&variable) {
                    history.rotate_right(1);
                    history[0] = token;
                }
            }
        }
    }

    /// A token for what has been started on a queue when `op` has run.
    fn token(&mut self, op: OpId, queue: usize) -> Value {
        let name = self.stream.queues[queue];
        if let Some(start) = self.ir.get::<DmaStart>(op)
            && start.engine.0 == name
        {
            return self.ir.result(op, 0);
        }
        self.ir.add(At::After(op), Mark { queue: Sym(name) })
    }

    fn order(&mut self, op: OpId, uses: &[(Variable, usize)], state: &State) {
        let mut tokens = Vec::new();
        for (variable, back) in uses {
            if let Some(token) = state.get(variable).and_then(|h| h.get(*back)) {
                tokens.push(*token);
            }
        }
        match after_group(self.ir, op) {
            Some(group) => edit::set_group(self.ir, op, group, &tokens),
            None => {
                self.ir.add(At::Before(op), DmaWait { tokens });
            }
        }
    }

    /// The variables that are set below an op.
    fn set_below(&self, op: OpId) -> Vec<Variable> {
        let below = self.ir.walk_below(op);
        let mut all: Vec<Variable> = below
            .iter()
            .filter_map(|op| self.sets.get(op))
            .flatten()
            .cloned()
            .collect();
        all.sort();
        all.dedup();
        all
    }

    fn looped(&mut self, op: OpId, state: &mut State) {
        let variables = self.set_below(op);
        let Some(block) = self.ir.body_block(op, 0) else {
            return;
        };
        let ops: Vec<OpId> = self.ir.ops_in(block).collect();
        let mut inner = state.clone();
        for variable in &variables {
            for k in 0..self.depth[variable] {
                let carried = edit::carry(self.ir, op, state[variable][k]);
                if let (Some((arg, result)), Some(inside), Some(outside)) =
                    (carried, inner.get_mut(variable), state.get_mut(variable))
                {
                    (inside[k], outside[k]) = (arg, result);
                }
            }
        }
        self.ops(ops, &mut inner);
        if let Some(end) = self.ir.last(block) {
            let values: Vec<Value> = variables.iter().flat_map(|v| inner[v].clone()).collect();
            edit::yield_also(self.ir, end, &values);
        }
    }

    fn branch(&mut self, op: OpId, state: &mut State) {
        let variables = self.set_below(op);
        for region in 0..2 {
            let mut inner = state.clone();
            let block = self.ir.body_block(op, region);
            let ops: Vec<OpId> = block.map_or_else(Vec::new, |b| self.ir.ops_in(b).collect());
            self.ops(ops, &mut inner);
            let values: Vec<Value> = variables.iter().flat_map(|v| inner[v].clone()).collect();
            if !values.is_empty()
                && let Some(end) = edit::yield_of(self.ir, op, region)
            {
                edit::yield_also(self.ir, end, &values);
            }
        }
        for variable in &variables {
            for k in 0..self.depth[variable] {
                let result = self.ir.add_result(op, tir_accel::token());
                if let Some(history) = state.get_mut(variable) {
                    history[k] = result;
                }
            }
        }
    }
}
