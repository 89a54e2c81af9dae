//! What happened when on a machine, and which buffer lay where: for a picture of a run.
//!
//! *Terms.* A **row** is the thread or a queue. A **stretch** is a piece of work of a row, or several alike one behind
//! the other. Times are in cycles, addresses and sizes in bytes.

use serde::Serialize;
use tir_machine::{Machine, Site};

/// A run as a picture shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    /// Cycles of the run.
    pub cycles: u64,
    /// The thread, then the queues.
    pub rows: Vec<Row>,
    /// Stretches in the order of rows, and of time in each.
    pub stretches: Vec<Stretch>,
    /// How many pieces of work they stand for.
    pub pieces: usize,
    /// Spaces with what lay in them, in the order of the machine.
    pub spaces: Vec<Space>,
}

/// The thread or a queue.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: Kind,
}

/// What a row does.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The program thread.
    Thread,
    /// An engine that moves away from the first space, by the order of spaces.
    Load,
    /// An engine that moves towards it.
    Store,
    /// A unit.
    Unit,
}

/// Work of a row.
#[derive(Clone, Debug, Serialize)]
pub struct Stretch {
    /// The number of its row.
    pub row: usize,
    /// The first cycle.
    pub start: u64,
    /// The cycle after the last.
    pub end: u64,
    /// Cycles in between in which the row was busy.
    pub busy: u64,
    /// Pieces of work.
    pub pieces: u64,
    /// What it does: an intrinsic, a transfer, or what the thread does.
    pub name: String,
    /// Where it is in the program.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub at: String,
    /// The layer it belongs to, if any.
    pub layer: String,
    /// Bytes moved.
    pub bytes: u64,
    /// Cycles that its row waited for other work, and for which that was most.
    pub waited: u64,
    /// That work; empty where nothing was waited for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub waited_for: String,
    /// Whether the thread waits.
    pub idle: bool,
}

/// A space of memory and what lay in it.
#[derive(Clone, Debug, Serialize)]
pub struct Space {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Buffers in the order of their first access.
    pub buffers: Vec<Buffer>,
}

/// A buffer, from its first access to its last.
#[derive(Clone, Debug, Serialize)]
pub struct Buffer {
    /// Its name.
    pub name: String,
    /// Its first byte.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// The cycle in which its first access begins.
    pub start: u64,
    /// The cycle in which its last access ends.
    pub end: u64,
    /// What accesses it first.
    pub first: String,
    /// What accesses it last: for this it lives so long.
    pub last: String,
    /// The layer of the first access.
    pub layer: String,
    /// The layer of the last access.
    pub until: String,
}

impl Timeline {
    /// The timeline of a machine that kept its events.
    pub(crate) fn of(machine: &Machine<'_>) -> Self {
        let spec = machine.spec();
        let place = |name: &str| spec.spaces.iter().position(|space| space.name == name);
        let mut rows = vec![Row {
            name: "thread".to_string(),
            kind: Kind::Thread,
        }];
        rows.extend(spec.engines.iter().map(|engine| Row {
            name: engine.name.clone(),
            kind: if place(&engine.to) < place(&engine.from) {
                Kind::Store
            } else {
                Kind::Load
            },
        }));
        rows.extend(spec.units.iter().map(|unit| Row {
            name: unit.name.clone(),
            kind: Kind::Unit,
        }));
        let place = |site: Site| {
            let (op, at, layer) = machine.describe(site);
            (op.to_string(), at.to_string(), layer.unwrap_or_default())
        };
        let mut stretches: Vec<Stretch> = machine
            .events()
            .iter()
            .map(|event| {
                let (op, at, layer) = place(event.site);
                let idle = event.queue.is_none() && !event.computes;
                let name = match event.label {
                    Some(label) => machine.label_text(label).to_string(),
                    None if idle => "wait".to_string(),
                    None if event.computes => "compute".to_string(),
                    None => op,
                };
                Stretch {
                    row: event.queue.map_or(0, |queue| queue.index() + 1),
                    start: event.start,
                    end: event.end,
                    busy: event.end - event.start,
                    pieces: 1,
                    name,
                    at,
                    layer: layer.to_string(),
                    bytes: event.bytes,
                    waited: event.waited.map_or(0, |waited| waited.cycles),
                    waited_for: event.waited.map_or(String::new(), |waited| {
                        let (op, at, layer) = place(waited.site);
                        format!("{op} of {}", if layer.is_empty() { &at } else { layer })
                    }),
                    idle,
                }
            })
            .collect();
        stretches.sort_by_key(|stretch| (stretch.row, stretch.start, stretch.end));
        let pieces = stretches.len();
        let mut spaces: Vec<Space> = spec
            .spaces
            .iter()
            .map(|space| Space {
                name: space.name.clone(),
                bytes: space.bytes,
                buffers: Vec::new(),
            })
            .collect();
        for life in machine.lives() {
            let Some((name, space, address, bytes)) = machine.buffer(life.buffer) else {
                continue;
            };
            let (first, last) = (place(life.first.1), place(life.last.1));
            if let Some(space) = spaces.get_mut(space.index()) {
                space.buffers.push(Buffer {
                    name: name.to_string(),
                    address,
                    bytes,
                    start: life.first.0,
                    end: life.last.0,
                    first: format!("{} at {}", first.0, first.1),
                    last: format!("{} at {}", last.0, last.1),
                    layer: first.2.to_string(),
                    until: last.2.to_string(),
                });
            }
        }
        Self {
            cycles: machine.now(),
            rows,
            stretches,
            pieces,
            spaces,
        }
    }

    /// Joins pieces of work until there are at most `most` stretches, if that can be: first those of one layer that do
    /// the same one right behind the other, then across gaps that grow, then whatever their layer does.
    pub fn join(&mut self, most: usize) {
        let same: [fn(&Stretch, &Stretch) -> bool; 4] = [
            |a, b| a.layer == b.layer && a.name == b.name && a.idle == b.idle,
            |a, b| a.layer == b.layer && a.idle == b.idle,
            // Layers that take turns, and waits between work: rows alone are told apart.
            |a, b| a.layer == b.layer,
            |_, _| true,
        ];
        for alike in same {
            let mut gap = 0;
            while self.stretches.len() > most && gap <= self.cycles / 64 {
                let all = std::mem::take(&mut self.stretches);
                self.stretches = joined(all, gap, alike);
                gap = (gap * 4).max(16);
            }
        }
    }

    /// Cycles in which units compute, and of the others those in which loads, stores, the thread or nothing at all is
    /// busy: each cycle is counted once, by the first of these that holds.
    pub fn shares(&self) -> Vec<(&'static str, u64)> {
        let names = [
            "units compute",
            "only the thread computes",
            "only loads",
            "only stores",
            "nothing is busy",
        ];
        let rank = |stretch: &Stretch| match self.rows[stretch.row].kind {
            _ if stretch.idle => None,
            Kind::Unit => Some(0),
            Kind::Thread => Some(1),
            Kind::Load => Some(2),
            Kind::Store => Some(3),
        };
        let mut steps: Vec<(u64, usize, i64)> = Vec::new();
        for stretch in &self.stretches {
            if let Some(rank) = rank(stretch) {
                steps.push((stretch.start, rank, 1));
                steps.push((stretch.end, rank, -1));
            }
        }
        steps.sort_unstable();
        let (mut busy, mut sums, mut now) = ([0i64; 4], [0u64; 5], 0);
        for (at, rank, by) in steps {
            let what = busy.iter().position(|n| *n > 0).unwrap_or(4);
            sums[what] += at - now;
            now = at;
            busy[rank] += by;
        }
        sums[4] += self.cycles.saturating_sub(now);
        names.into_iter().zip(sums).collect()
    }
}

/// Stretches with those joined that lie at most `gap` behind another one of their row that is alike.
fn joined(all: Vec<Stretch>, gap: u64, alike: fn(&Stretch, &Stretch) -> bool) -> Vec<Stretch> {
    let mut out: Vec<Stretch> = Vec::with_capacity(all.len());
    // How long the longest wait of the last stretch was.
    let mut longest = 0;
    for next in all {
        if let Some(last) = out.last_mut()
            && last.row == next.row
            && next.start.saturating_sub(last.end) <= gap
            && alike(last, &next)
        {
            if next.waited > longest {
                longest = next.waited;
                last.waited_for = next.waited_for;
            }
            if last.name != next.name {
                last.name = "several".to_string();
            }
            if last.layer != next.layer {
                last.layer = String::new();
            }
            if last.idle != next.idle {
                // Of both only the work is busy.
                last.busy = if last.idle { next.busy } else { last.busy };
                last.idle = false;
            } else {
                last.busy += next.busy;
            }
            last.end = last.end.max(next.end);
            last.pieces += next.pieces;
            last.bytes = last.bytes.saturating_add(next.bytes);
            last.waited = last.waited.saturating_add(next.waited);
            continue;
        }
        longest = next.waited;
        out.push(next);
    }
    out
}
