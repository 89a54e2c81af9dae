//! A run of a stream as instances of work, and the hazards between them.

use std::collections::HashMap;

use tir_machine::{BufferId, Footprint, Recorded, Site, Step, Touch, gcd};

use super::shadow_memory::ShadowMemory;
use crate::stream::Stream;

/// A token: the first `.1` pieces of work of queue `.0`.
pub type TokenId = (usize, u32);

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
    /// Of instances whose hazards in near memory do not count: those in far memory, for each queue,
    /// and those that do not count.
    far_alone: HashMap<u32, [Vec<u32>; 2]>,
    actors: Vec<Option<usize>>,
    on_thread: Vec<u32>,
}

impl Record {
    /// The instances of a stream and their hazards.
    pub fn new(stream: &Stream) -> Self {
        let recording = &stream.recording;
        let queues = recording.queue_count();
        let forms: Vec<Footprint> = (0..recording.form_count() as u32)
            .map(|form| recording.form(form))
            .collect();
        let mut maker: Vec<Option<Site>> = Vec::new();
        for recorded in recording.steps() {
            if let Step::Alloc(buffer) = recorded.step {
                maker.resize(maker.len().max(buffer.index() + 1), None);
                maker[buffer.index()] = Some(recorded.site);
            }
        }
        let mut recorder = Recorder {
            stream,
            places: recording.places(),
            maker,
            forms,
            shadow: Vec::new(),
            reasons: 0,
            record: Record {
                queues,
                instances: Vec::new(),
                hazards: Vec::new(),
                by_queue: vec![Vec::new(); queues],
                points: vec![Vec::new(); stream.points.len()],
                by_site: vec![Vec::new(); stream.sites.len()],
                tokens: Vec::new(),
                far_alone: HashMap::new(),
                actors: vec![None; stream.sites.len()],
                on_thread: Vec::new(),
            },
        };
        recorder.make_shadow();
        for recorded in recording.steps() {
            recorder.step(&recorded);
        }
        recorder.record
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
    /// What an instance needs of each queue as far as it is to be fulfilled: the rest is fulfilled
    /// where that of another run is.
    pub fn counted(&self, id: u32) -> &[u32] {
        self.far_alone
            .get(&id)
            .map_or(self.hazards_of(id), |[far, _]| far)
    }
    /// What an instance needs of each queue that is fulfilled where that of another run is.
    pub fn assumed(&self, id: u32) -> Option<&[u32]> {
        self.far_alone.get(&id).map(|[_, near]| &near[..])
    }
    /// Whether all hazards of an instance count.
    pub fn counts(&self, id: u32) -> bool {
        !self.far_alone.contains_key(&id)
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

struct Recorder<'a> {
    stream: &'a Stream,
    /// Of each buffer: the outermost one around it, where it lies in that, its size.
    places: Vec<(BufferId, u64, u64)>,
    /// Who made each buffer: what the maker does with it comes before all other uses.
    maker: Vec<Option<Site>>,
    forms: Vec<Footprint>,
    /// For each outermost buffer who used which bytes; none where there can be no hazard.
    shadow: Vec<Option<ShadowMemory>>,
    /// For how many reasons hazards in near memory do not count.
    reasons: usize,
    record: Record,
}

impl Recorder<'_> {
    /// Whether a use of a buffer is no hazard for that its maker does it.
    fn is_making(&self, buffer: BufferId, site: Site) -> bool {
        self.maker[buffer.index()] == Some(site)
    }

    /// Shadow memory for what somebody writes, in grains that every access takes whole.
    fn make_shadow(&mut self) {
        let mut grains = vec![0u64; self.places.len()];
        let mut written = vec![false; self.places.len()];
        let inner: Vec<u64> = self
            .forms
            .iter()
            .map(|f| f.outer.iter().fold(f.run, |g, d| gcd(g, d.1)))
            .collect();
        for recorded in self.stream.recording.steps() {
            for touch in recorded.touches {
                let form = &self.forms[touch.form as usize];
                if form.is_empty() || self.is_making(touch.buffer, recorded.site) {
                    continue;
                }
                let (root, base, _) = self.places[touch.buffer.index()];
                let start = form.start.wrapping_add_signed(touch.offset) + base;
                let grain = &mut grains[root.index()];
                *grain = gcd(start, gcd(inner[touch.form as usize], *grain));
                written[root.index()] |= touch.write;
            }
        }
        for (buffer, (_, _, bytes)) in self.places.iter().enumerate() {
            // A buffer may be larger than what is used of it; the last grain is cut off then.
            let shadow = written[buffer].then(|| {
                ShadowMemory::new(
                    *bytes as i64,
                    grains[buffer].max(1) as i64,
                    self.record.queues,
                )
            });
            self.shadow.push(shadow);
        }
    }

    /// Notes an access of instance `id`, and in `need` what it must come after.
    fn access(&mut self, touch: &Touch, id: u32, actor: Option<usize>, need: &mut [u32]) {
        let (root, base, _) = self.places[touch.buffer.index()];
        let form = &self.forms[touch.form as usize];
        let Some(shadow) = &mut self.shadow[root.index()] else {
            return;
        };
        let mut after = after(&self.record, id, need);
        form.each_at(base.wrapping_add_signed(touch.offset), |at, run| {
            let run = (at as i64, run as i64);
            match (touch.write, actor) {
                (true, _) => shadow.write(run, id + 1, &mut after),
                (false, Some(q)) => shadow.read(run, q, id + 1, &mut after),
                (false, None) => shadow.look(run, &mut after),
            }
        });
    }

    fn step(&mut self, recorded: &Recorded<'_>) {
        let actor = match recorded.step {
            Step::Note(point) => {
                let now = self.record.instances.len() as u32;
                let point = point as usize;
                match point.checked_sub(self.record.points.len()) {
                    None => self.record.points[point].push(now),
                    Some(marker) if self.stream.markers[marker] => self.reasons += 1,
                    Some(_) => self.reasons = self.reasons.saturating_sub(1),
                }
                return;
            }
            Step::Start(queue) => Some(queue.index()),
            _ => None,
        };
        let id = self.record.instances.len() as u32;
        let mut need = vec![0; self.record.queues];
        let mut near = need.clone();
        let counts = self.reasons == 0;
        let mut uses = !matches!(recorded.step, Step::Thread(_) | Step::Alloc(_));
        for touch in recorded.touches {
            if !self.is_making(touch.buffer, recorded.site) {
                uses = true;
                // A write comes after all that a read of the same bytes does.
                let write = Touch {
                    write: true,
                    ..*touch
                };
                if touch.write || !recorded.touches.contains(&write) {
                    let apart = !counts && self.stream.near[touch.buffer.index()];
                    let need = if apart { &mut near } else { &mut need };
                    self.access(touch, id, actor, need);
                }
            }
        }
        if let Step::Dealloc(buffer) = recorded.step {
            // All uses must be over: as before a write of all of it.
            let (root, base, bytes) = self.places[buffer.index()];
            if let Some(shadow) = &mut self.shadow[root.index()] {
                let mut after = after(&self.record, id, &mut need);
                shadow.write((base as i64, bytes as i64), id + 1, &mut after);
            }
        }
        // What the host does needs no order.
        let Some(site) = self.stream.number(recorded.site).filter(|_| uses) else {
            return;
        };
        let record = &mut self.record;
        let index = match actor {
            Some(q) => {
                (need[q], near[q]) = (0, 0);
                record.by_queue[q].push(id);
                record.by_queue[q].len() as u32
            }
            None => {
                record.on_thread.push(id);
                0
            }
        };
        if recorded.step == Step::Finish {
            for (need, all) in need.iter_mut().zip(&record.by_queue) {
                *need = all.len() as u32;
            }
        }
        if !counts {
            let all = need.iter().zip(&near).map(|(far, near)| *far.max(near));
            let all = all.collect();
            let far = std::mem::replace(&mut need, all);
            record.far_alone.insert(id, [far, near]);
        }
        record.actors[site] = actor;
        record.hazards.extend(need);
        record.by_site[site].push(id);
        record.instances.push(Instance {
            site: site as u32,
            index,
        });
        for (operand, token) in recorded.tokens.iter().enumerate() {
            let token = self.stream.recording.start_of(*token);
            let token = token.map_or((0, 0), |(queue, count)| (queue.index(), count));
            record.tokens.push((id, operand as u32, token));
        }
    }
}

/// Notes in `need` that instance `id` comes after others, by their numbers plus one.
fn after<'a>(record: &'a Record, id: u32, need: &'a mut [u32]) -> impl FnMut(u32) + 'a {
    let mut last = 0;
    move |other: u32| {
        // Neighbours were mostly used by the same.
        if other == last {
            return;
        }
        last = other;
        let Some(other) = other.checked_sub(1).filter(|o| *o != id) else {
            return;
        };
        let other = record.instances[other as usize];
        if let Some(q) = record.actors[other.site as usize] {
            need[q] = need[q].max(other.index);
        }
    }
}
