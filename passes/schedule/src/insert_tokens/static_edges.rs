//! Maps dynamic hazards to static dependence edges.
//!
//! *Terms.* A **need** is a hazard of one instance: how many pieces of a queue's work must be
//! complete before it. A **point** is an op behind which a token can stand for what has been
//! started so far. A **static edge** makes a site wait, at each of its runs, for the token that was
//! made `back` runs of its points ago.
//!
//! *Invariant.* An edge is taken only if it fulfils every need that it was made for, at every run
//! that was recorded; candidates are ranked on a sample of the runs, and checked on all. Of those
//! that do, the one is taken that waits for the least beyond what is needed.

use std::collections::{BTreeMap, HashMap};

use tir::{Ir, OpId};

use super::Wanted;
use crate::order::{Edge, Need, Record, VectorClocks, needs};
use crate::stream::Stream;

/// How far back a token may lie.
const MAX_BACK: usize = 8;
/// Runs of a site that candidates are ranked by.
const SAMPLE: usize = 512;
/// The part of a period's work that may be waited for too much.
const LITTLE: u64 = 3;
/// Combinations of points that are tried for one edge.
const COMBINATIONS: usize = 256;

/// Finds an edge of the text for each hazard that is open.
pub(super) fn static_edges(ir: &Ir, stream: &Stream, record: &Record) -> Vec<Wanted> {
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
    let cx = Candidates {
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

struct Candidates<'a> {
    ir: &'a Ir,
    stream: &'a Stream,
    record: &'a Record,
    clocks: &'a VectorClocks,
    points: HashMap<OpId, usize>,
}

struct Choice {
    points: Vec<usize>,
    back: usize,
    /// Work waited for beyond what is needed and what is little, how often the token is set, how
    /// far back it lies.
    cost: (u64, usize, usize),
}

impl Candidates<'_> {
    /// The site whose work a need is about.
    fn producer(&self, need: &Need) -> Option<usize> {
        let id = self.record.nth(need.queue, need.count)?;
        Some(self.record.instances[id as usize].site as usize)
    }

    /// The points at which the work of a site has been started: behind its op and all around it.
    fn levels(&self, site: usize) -> Vec<usize> {
        let first = Some(self.stream.sites[site]);
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
        let runs = self.record.by_site[site].iter().copied();
        let counts = |id: &u32| self.record.counts(*id);
        let runs: Vec<u32> = runs.filter(counts).collect();
        let stride = (runs.len() / SAMPLE).max(1);
        let sample: Vec<u32> = runs.iter().copied().step_by(stride).collect();
        let stride = (needs.len() / SAMPLE).max(1);
        // A part of the work that the queue is given between two runs counts as nothing: a token
        // of an outer loop is worth it.
        let all = self.record.by_site[site].windows(2);
        let neighbours = all.filter(|pair| pair.iter().all(counts));
        let started = |id: u32| u64::from(self.record.started(queue, id));
        let (spans, total) = neighbours.fold((0, 0), |(spans, total), pair| {
            (spans + 1, total + started(pair[1]) - started(pair[0]))
        });
        let between = total / u64::max(spans, 1);
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
