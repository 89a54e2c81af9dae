//! What the machine is: plain data, filled from a machine file.

/// A memory space of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub(crate) u32);

/// An in-order queue: of an engine or of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub(crate) u32);

impl SpaceId {
    /// Its number, from 0.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl QueueId {
    /// Its number, from 0.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One machine: spaces, DMA engines and units. Times are cycles of one clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineSpec {
    /// Name, for reports.
    pub name: String,
    /// Clock in MHz, for reports (0: not stated).
    pub clock_mhz: u64,
    /// Whether the thread itself does what is started on queues, before it goes on.
    pub in_order: bool,
    /// Memory spaces.
    pub spaces: Vec<SpaceSpec>,
    /// DMA engines; each has a queue of its own.
    pub engines: Vec<EngineSpec>,
    /// Compute units; each has a queue of its own.
    pub units: Vec<UnitSpec>,
}

/// A memory space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceSpec {
    /// Name.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Alignment of every allocation, in bytes.
    pub align: u64,
    /// Bytes a cycle for all engines together, reads and writes added.
    pub bytes_per_cycle: u64,
    /// Number of equal banks, one behind the other.
    pub banks: u64,
    /// Ports of each bank: operands of running work that may lie in it; 0: no limit.
    pub ports: u64,
}

/// A DMA engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineSpec {
    /// Name, also of its queue.
    pub name: String,
    /// Name of the space it reads.
    pub from: String,
    /// Name of the space it writes.
    pub to: String,
    /// Bytes a cycle at most.
    pub bytes_per_cycle: u64,
    /// Cycles before the first byte of each transfer; the engine is held.
    pub latency: u64,
    /// Depth of its queue, the running transfer included.
    pub queue: u32,
    /// Dimensions of a transfer at most, after merging.
    pub dims: u32,
    /// A contiguous row shorter than this many bytes costs this many.
    pub granule: u64,
    /// Bytes of the rows of a square that it transposes: rows that are contiguous along one dimension at one side and along
    /// another at the other side count as so long, if they are; 0: it transposes none.
    pub square: u64,
    /// Whether it can fill the border of its destination.
    pub pad: bool,
}

/// A compute unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitSpec {
    /// Name, also of its queue.
    pub name: String,
    /// Depth of its queue, the running call included.
    pub queue: u32,
}

impl SpaceSpec {
    /// A space of one bank without a limit of ports.
    pub fn new(name: &str, bytes: u64, align: u64, bytes_per_cycle: u64) -> SpaceSpec {
        let name = name.to_string();
        SpaceSpec {
            name,
            bytes,
            align,
            bytes_per_cycle,
            banks: 1,
            ports: 0,
        }
    }
}

impl EngineSpec {
    /// An engine with a queue of 8, 4 dimensions, a granule of 1 and no padding.
    pub fn new(name: &str, from: &str, to: &str, bytes_per_cycle: u64, latency: u64) -> EngineSpec {
        EngineSpec {
            name: name.to_string(),
            from: from.to_string(),
            to: to.to_string(),
            bytes_per_cycle,
            latency,
            queue: 8,
            dims: 4,
            granule: 1,
            square: 0,
            pad: false,
        }
    }
}

impl UnitSpec {
    /// A unit with a queue of the given depth.
    pub fn new(name: &str, queue: u32) -> UnitSpec {
        UnitSpec {
            name: name.to_string(),
            queue,
        }
    }
}

impl MachineSpec {
    /// What is wrong with the description, one line each; empty when nothing is.
    pub fn problems(&self) -> Vec<String> {
        let mut out = Vec::new();
        let mut positive = |kind: &str, name: &str, what: &str, value: u64| {
            if value == 0 {
                out.push(format!(
                    "{kind} @{name} has {what} = 0, expected at least 1"
                ));
            }
        };
        for s in &self.spaces {
            positive("space", &s.name, "bytes", s.bytes);
            positive("space", &s.name, "align", s.align);
            positive("space", &s.name, "bytes_per_cycle", s.bytes_per_cycle);
            positive("space", &s.name, "banks", s.banks);
        }
        for e in &self.engines {
            positive("engine", &e.name, "bytes_per_cycle", e.bytes_per_cycle);
            positive("engine", &e.name, "queue", e.queue.into());
            positive("engine", &e.name, "dims", e.dims.into());
        }
        for u in &self.units {
            positive("unit", &u.name, "queue", u.queue.into());
        }
        for e in &self.engines {
            for end in [&e.from, &e.to] {
                if !self.spaces.iter().any(|s| s.name == *end) {
                    out.push(format!("engine @{} names the unknown space @{end}", e.name));
                }
            }
        }
        let spaces = self.spaces.iter().map(|s| &s.name);
        let mut names: Vec<_> = spaces.chain(self.queue_names()).collect();
        names.sort();
        for pair in names.windows(2) {
            if pair[0] == pair[1] {
                out.push(format!("@{} is declared twice", pair[0]));
            }
        }
        out
    }

    /// Names of the queues in the order of their ids: engines, then units.
    pub(crate) fn queue_names(&self) -> impl Iterator<Item = &String> {
        let engines = self.engines.iter().map(|e| &e.name);
        engines.chain(self.units.iter().map(|u| &u.name))
    }

    pub(crate) fn space_index(&self, name: &str) -> Option<usize> {
        self.spaces.iter().position(|s| s.name == name)
    }
}
