//! The machine model behind `accel`: it runs a command stream and says whether it was allowed to.
//!
//! One program thread starts work on in-order queues (one per DMA engine and unit). [`Machine`]
//! keeps the bytes of every memory space, a state per byte, a vector clock per piece of work,
//! and a time. It knows nothing of the IR: whoever evaluates a program calls it.
//!
//! **Order.** Work starts after everything its thread did before the start, after the work before
//! it in its queue, and after its `after` tokens; the thread is after a piece of work once it has
//! waited for it. Two uses of a byte, one of them a write, which this order does not relate are a
//! race. Time plays no part, so one run finds the races of every latency.
//! A full queue holds the thread back but orders nothing.
//!
//! **Effects** run when the work is started: in a program without races this cannot be told from
//! running them later. Only work that waits for a semaphore nobody has released yet runs later,
//! when the release has come.
//!
//! **Time** is counted in cycles of the machine. A start costs the thread nothing but what the
//! caller counts for it. Work begins at
//! the latest of: its issue, the end of the work before it in its queue, the ends of its tokens. A
//! transfer holds its engine for latency + ceildiv(bytes, rate), longer when the engines ask more
//! of a space than it gives (the `bandwidth` module says how it is shared).
//! A queue of depth `n` holds `n` pieces of work, the one that runs included; a start on a full
//! queue blocks the thread until the oldest has ended. Work whose operands lie in banks with too few
//! ports waits for them, or takes longer (the `banks` module). The latency of a space and the traffic of
//! units (their cycle formulas contain it) are not modelled.
//!
//! ```
//! use tir_machine::*;
//!
//! let spec = MachineSpec {
//!     spaces: vec![SpaceSpec::new("dram", 4096, 64, 8), SpaceSpec::new("spm", 1024, 64, 64)],
//!     engines: vec![EngineSpec::new("load", "dram", "spm", 8, 64)],
//!     units: vec![UnitSpec::new("vector", 4)],
//!     ..MachineSpec::default()
//! };
//! let mut m = Machine::new(spec, Options::default())?;
//! let (load, vector) = (m.queue("load").unwrap(), m.queue("vector").unwrap());
//! let (dram, spm) = (m.space("dram").unwrap(), m.space("spm").unwrap());
//! let site = m.site("accel.dma_start @load", "a.tir:3:5");
//! let call = m.site("accel.call @double", "a.tir:4:5");
//! let x = m.alloc(dram, Alloc::new("x", 16, site))?;
//! let y = m.alloc(spm, Alloc::new("y", 16, site))?;
//! m.init(x, site, &[3; 16])?;
//!
//! let (from, to) = (StridedBox::contiguous(x, 0, 16), StridedBox::contiguous(y, 0, 16));
//! let cost = m.transfer_cost(load, &from, &to)?;
//! let (reads, writes) = ([from.clone()], [to.clone()]);
//! let work = Work { reads: &reads, writes: &writes, ..Work::new(site, cost) };
//! let arrived = m.start(load, &work, move |memory| memory.copy(&from, &to))?;
//!
//! // Without `after` this call would read what may still be arriving.
//! let reads = [StridedBox::contiguous(y, 0, 16)];
//! let early = Work { reads: &reads, ..Work::new(call, Cost::Cycles(4)) };
//! let fault = m.start(vector, &early, |_| Ok(())).unwrap_err();
//! assert_eq!(fault.kind, FaultKind::Race);
//!
//! let late = Work { after: &[arrived], ..early };
//! let done = m.start(vector, &late, |_| Ok(()))?;
//! m.wait(call, &[done])?;
//! m.finish(call)?;
//! assert_eq!(m.report().cycles, 64 + 2 + 4);
//! # Ok::<(), Box<Fault>>(())
//! ```

mod alloc;
mod bandwidth;
mod banks;
mod check;
mod deadlock;
mod fault;
mod layers;
mod machine;
mod memory;
mod pending;
mod recording;
mod region;
mod report;
mod rounds;
mod spec;
mod timeline;
mod trace;
mod work;

pub use alloc::{Alloc, Placement};
pub use fault::{Fault, FaultKind, Note, Result, Site};
pub use layers::LayerReport;
pub use machine::{Frame, Machine, Options};
pub use memory::{Effect, Memory};
pub use recording::{Recorded, Recording, Step, Touch, Verdict};
pub use report::{Bound, CauseReport, LabelReport, QueueReport, Report, SpaceReport, ThreadReport};
pub use rounds::Snapshot;
pub use spec::{EngineSpec, MachineSpec, QueueId, SpaceId, SpaceSpec, UnitSpec};
pub use tir_data::{BufferId, Footprint, Rows, StridedBox, gcd};
pub use trace::{Event, Held, Life, Waited, chrome_trace};
pub use work::{Cost, Label, Semaphore, Token, Work};
