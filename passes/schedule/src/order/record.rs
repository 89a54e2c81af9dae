//! A run of a stream as instances of work, and the hazards between them.

use tir::{Failure, Ir};

use super::cells::Cells;
use crate::stream::{Actor, Area, Event, Sink, Stream, TokenId};

/// A run of a site.
#[derive(Clone, Copy, Debug)]
pub struct Instance {
    /// Which site.
    pub site: u32,
    /// Its number on its queue, from 1; 0 on the thread.
    pub index: u32,
}

/// A run of a stream.
pub struct Record {
    /// Number of queues.
    pub queues: usize,
    /// In the order in which the thread does or starts them.
    pub instances: Vec<Instance>,
    /// For each instance and queue, how many pieces of its work must be complete: `queues`
    /// entries an instance.
    pub hazards: Vec<u32>,
    /// Instances of each queue in order.
    pub by_queue: Vec<Vec<u32>>,
    /// For each point, the number of instances at each of its runs.
    pub points: Vec<Vec<u32>>,
    /// Instances of each site in order.
    pub by_site: Vec<Vec<u32>>,
    /// Tokens that each instance names in the text: instance, operand, token.
    pub tokens: Vec<(u32, u32, TokenId)>,
    actors: Vec<Option<usize>>,
    on_thread: Vec<u32>,
}

impl Record {
    /// Runs a stream; fails after `limit` steps.
    pub fn new(ir: &Ir, stream: &Stream, limit: u64) -> Result<Self, Failure> {
        let roots = stream.roots.len();
        let mut grains = Grains {
            grain: vec![0; roots],
            written: vec![false; roots],
        };
        stream.run(ir, limit, &mut grains)?;
        let queues = stream.queues.len();
        let cells = (0..roots).map(|r| {
            // What nobody writes has no hazards.
            let grain = grains.grain[r].max(1);
            grains.written[r].then(|| Cells::new(stream.roots[r].bytes, grain, queues))
        });
        let actors = stream.sites.iter().map(|site| match site.actor {
            Actor::Queue(q) => Some(q),
            _ => None,
        });
        let record = Record {
            queues,
            instances: Vec::new(),
            hazards: Vec::new(),
            by_queue: vec![Vec::new(); queues],
            points: vec![Vec::new(); stream.points.len()],
            by_site: vec![Vec::new(); stream.sites.len()],
            tokens: Vec::new(),
            actors: actors.collect(),
            on_thread: Vec::new(),
        };
        let mut recorder = Recorder {
            stream,
            cells: cells.collect(),
            record,
        };
        stream.run(ir, limit, &mut recorder)?;
        Ok(recorder.record)
    }

    /// The queue of an instance.
    pub fn actor(&self, id: u32) -> Option<usize> {
        self.actors[self.instances[id as usize].site as usize]
    }
    /// What an instance needs of a queue.
    pub fn hazard(&self, id: u32, queue: usize) -> u32 {
        self.hazards[id as usize * self.queues + queue]
    }
    /// What an instance needs of each queue.
    pub fn hazards_of(&self, id: u32) -> &[u32] {
        let at = id as usize * self.queues;
        &self.hazards[at..at + self.queues]
    }
    /// The last thing that the thread does itself before instance `time`.
    pub fn on_thread_before(&self, time: u32) -> Option<u32> {
        let count = self.on_thread.partition_point(|id| *id < time);
        self.on_thread.get(count.checked_sub(1)?).copied()
    }
    /// The number of pieces of work started on a queue before instance `time`.
    pub fn started(&self, queue: usize, time: u32) -> u32 {
        self.by_queue[queue].partition_point(|id| *id < time) as u32
    }
    /// The `index`-th instance of a queue, from 1.
    pub fn nth(&self, queue: usize, index: u32) -> Option<u32> {
        self.by_queue[queue]
            .get(index.checked_sub(1)? as usize)
            .copied()
    }
}

struct Grains {
    grain: Vec<i64>,
    written: Vec<bool>,
}

fn gcd(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.abs()
}

/// The contiguous run of an area's inner dimensions, and the dimensions around it.
fn rows(area: &Area) -> (i64, &[(i64, i64)]) {
    let (mut run, mut dims) = (area.elem, &area.dims[..]);
    while let [rest @ .., (count, stride)] = dims
        && (*count == 1 || *stride == run)
    {
        run *= count;
        dims = rest;
    }
    (run, dims)
}

impl Sink for Grains {
    fn event(&mut self, event: &Event<'_>) -> Result<(), Failure> {
        for area in event.writes {
            self.written[area.root] = true;
        }
        for area in event.reads.iter().chain(event.writes) {
            let (run, dims) = rows(area);
            let g = &mut self.grain[area.root];
            *g = gcd(gcd(*g, area.offset), run);
            for (count, stride) in dims {
                if *count > 1 {
                    *g = gcd(*g, *stride);
                }
            }
        }
        Ok(())
    }
    fn point(&mut self, _: usize) {}
}

struct Recorder<'a> {
    stream: &'a Stream,
    cells: Vec<Option<Cells>>,
    record: Record,
}

fn each(dims: &[(i64, i64)], at: i64, f: &mut impl FnMut(i64)) {
    match dims {
        [] => f(at),
        [(count, stride), rest @ ..] => (0..*count).for_each(|i| each(rest, at + i * stride, f)),
    }
}

impl Recorder<'_> {
    /// Notes an access of instance `id`, and in `need` what it must come after.
    fn access(
        &mut self,
        area: &Area,
        write: bool,
        id: u32,
        actor: Option<usize>,
        need: &mut [u32],
    ) {
        let Some(cells) = &mut self.cells[area.root] else {
            return;
        };
        let (run, dims) = rows(area);
        if run == 0 {
            return;
        }
        let (instances, actors) = (&self.record.instances, &self.record.actors);
        let mut last = 0;
        let mut after = |other: u32| {
            // Neighbours were mostly used by the same.
            if other == last {
                return;
            }
            last = other;
            let Some(other) = other.checked_sub(1).filter(|o| *o != id) else {
                return;
            };
            let other = instances[other as usize];
            if let Some(q) = actors[other.site as usize] {
                need[q] = need[q].max(other.index);
            }
        };
        each(dims, area.offset, &mut |at| match (write, actor) {
            (true, _) => cells.write((at, run), id + 1, &mut after),
            (false, Some(q)) => cells.read((at, run), q, id + 1, &mut after),
            (false, None) => cells.look((at, run), &mut after),
        });
    }
}

impl Sink for Recorder<'_> {
    fn event(&mut self, event: &Event<'_>) -> Result<(), Failure> {
        let actor = self.record.actors[event.site];
        let id = self.record.instances.len() as u32;
        let queues = self.record.queues;
        let mut need = vec![0; queues];
        for area in event.reads {
            self.access(area, false, id, actor, &mut need);
        }
        for area in event.writes {
            self.access(area, true, id, actor, &mut need);
        }
        let record = &mut self.record;
        let index = match actor {
            Some(q) => {
                need[q] = 0;
                record.by_queue[q].push(id);
                record.by_queue[q].len() as u32
            }
            None => {
                record.on_thread.push(id);
                0
            }
        };
        if self.stream.sites[event.site].actor == Actor::Return {
            for (need, all) in need.iter_mut().zip(&record.by_queue) {
                *need = all.len() as u32;
            }
        }
        record.hazards.extend(need);
        record.by_site[event.site].push(id);
        record.instances.push(Instance {
            site: event.site as u32,
            index,
        });
        for (operand, token) in event.after.iter().enumerate() {
            record.tokens.push((id, operand as u32, *token));
        }
        Ok(())
    }
    fn point(&mut self, point: usize) {
        let now = self.record.instances.len() as u32;
        self.record.points[point].push(now);
    }
}
