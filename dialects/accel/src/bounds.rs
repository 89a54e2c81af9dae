//! How long a network takes at least on a machine, by what it has to do: no schedule is quicker.
//!
//! *Terms.* The **true bound** is the largest of: useful products at the peak of the units that
//! do them, what passes lane by lane, and compulsory bytes over the engines and over the far
//! memory. The **window bound** is never smaller: for a layer, all work before it, then the bytes
//! of weights of layers behind it as far as near memory cannot hold them. When the last value is
//! computed that the layer reads, everything behind it that depends on that value is still to come,
//! and with it all weights of layers that see the layer's results through another layer between.
//!
//! *Assumptions*, without which nothing could be said of a machine given by its intrinsics: dense
//! products run on the units whose intrinsics use factors several times, lane products and
//! elements on units whose intrinsics go element by element or that are vector units, a cycle for
//! all lanes whatever is computed; what no unit has is the thread's.
//! Elements are counted once however many operations they take, for an intrinsic may do several.

use std::collections::BTreeSet;

use tir::Name;
use tir::workload::{Layer, Workload};

use crate::machine::{IntrinsicInfo, MachineInfo};

/// Lower bounds on the cycles of a network, with what gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The true bound.
    pub cycles: u64,
    /// What gives it: `products`, `lanes`, `loads`, `stores` or `far memory`.
    pub by: &'static str,
    /// The window bound.
    pub window: u64,
    /// The layer that gives the window bound; empty if it is the true bound.
    pub at: String,
    /// Useful multiply-adds.
    pub macs: u64,
    /// Compulsory bytes that are read.
    pub bytes_in: u64,
    /// Compulsory bytes that are written.
    pub bytes_out: u64,
}

/// How fast some units together do one kind of work: `amount` in `cycles`.
#[derive(Clone, Debug, Default)]
struct Rate {
    amount: u128,
    cycles: u128,
    units: BTreeSet<String>,
}

impl Rate {
    /// The best of each unit among its intrinsics that `amount` has something for, and, if `vectors`,
    /// what it computes as a vector unit.
    fn of(
        machine: &MachineInfo,
        vectors: bool,
        amount: impl Fn(&IntrinsicInfo) -> Option<i64>,
    ) -> Option<Self> {
        let mut all = Self {
            amount: 0,
            cycles: 1,
            units: BTreeSet::new(),
        };
        for unit in &machine.units {
            let own = machine.intrinsics.iter().filter(|i| i.unit == unit.of);
            let rates = own.filter_map(|i| {
                let amount = u128::try_from(amount(i)?).ok().filter(|n| *n > 0)?;
                Some((amount, i.cycles.max(1) as u128))
            });
            let lanes = machine.vectors.iter();
            let lanes = lanes.filter(|v| vectors && v.unit == unit.of);
            let lanes = lanes.map(|v| (v.lanes.max(1) as u128, 1));
            let best = rates
                .chain(lanes)
                .max_by(|(a, b), (c, d)| (a * d).cmp(&(c * b)));
            if let Some((amount, cycles)) = best {
                all.amount = all.amount * cycles + amount * all.cycles;
                all.cycles *= cycles;
                all.units.insert(unit.of.to_string());
            }
        }
        (all.amount > 0).then_some(all)
    }

    fn thread(machine: &MachineInfo, ops: u64) -> Self {
        Self {
            amount: 1,
            cycles: machine.thread_cycles(ops).into(),
            units: BTreeSet::new(),
        }
    }

    fn time(&self, amount: u64) -> u64 {
        let time = (u128::from(amount) * self.cycles).div_ceil(self.amount.max(1));
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// Whether two kinds of work are done by one and the same unit.
    fn shares(&self, other: &Self) -> bool {
        self.units.len() <= 1 && self.units == other.units
    }
}

/// What a machine does at its best.
struct Peak {
    dense: Rate,
    lanes: Rate,
    elements: Rate,
}

impl Peak {
    fn of(machine: &MachineInfo) -> Self {
        let size = |i: &IntrinsicInfo| {
            let shapes = i.operands.iter().filter_map(|ty| ty.elements());
            shapes.max().map_or(0, |n| n as i64)
        };
        let reads = |i: &&IntrinsicInfo| i.reads.contains(&true);
        let dense = |i: &IntrinsicInfo| (i.macs > size(i)).then_some(i.macs);
        let lane = |i: &IntrinsicInfo| (i.macs > 0 && i.macs <= size(i)).then_some(i.macs);
        let plain = |i: &IntrinsicInfo| {
            let first = i.operands.first().and_then(|ty| ty.elements());
            let plain = (i.macs == 0).then_some(first? as i64);
            plain.filter(|_| reads(&i))
        };
        let lanes = Rate::of(machine, true, lane);
        let dense = Rate::of(machine, false, dense).or_else(|| lanes.clone());
        // A product takes two operations of the thread.
        let dense = dense.unwrap_or_else(|| Rate::thread(machine, 2));
        let lanes = lanes.unwrap_or_else(|| dense.clone());
        let elements = Rate::of(machine, true, plain).unwrap_or_else(|| Rate::thread(machine, 1));
        Self {
            dense,
            lanes,
            elements,
        }
    }

    /// Cycles of products and of what goes lane by lane, for layers that anything may overlap.
    fn time<'a>(&self, layers: impl Iterator<Item = &'a Layer>) -> (u64, u64) {
        let (mut macs, mut lane_macs, mut elements) = (0u64, 0u64, 0u64);
        for layer in layers {
            macs = macs.saturating_add(layer.macs);
            lane_macs = lane_macs.saturating_add(layer.lane_macs);
            elements = elements.saturating_add(layer.elements);
        }
        let mut dense = self.dense.time(macs);
        let (lanes, plain) = (self.lanes.time(lane_macs), self.elements.time(elements));
        let mut vector = match self.lanes.shares(&self.elements) {
            true => lanes.saturating_add(plain),
            false => lanes.max(plain),
        };
        if self.dense.shares(&self.elements) && self.dense.shares(&self.lanes) {
            dense = dense.saturating_add(vector);
            vector = 0;
        }
        (dense, vector)
    }
}

impl Bounds {
    /// The bounds of a workload on a machine.
    pub fn of(work: &Workload, machine: &MachineInfo) -> Self {
        let peak = Peak::of(machine);
        let far = machine.far();
        let name: Option<Name> = far.map(|far| far.name);
        let rate = |far_end: fn(&crate::machine::EngineInfo) -> Name| {
            let engines = machine.engines.iter();
            let rates = engines.filter(|e| Some(far_end(e)) == name);
            rates.map(|e| e.bytes_per_cycle.max(0) as u64).sum::<u64>()
        };
        let (load, store) = (rate(|e| e.from), rate(|e| e.to));
        // Without an engine the thread may be as quick as it likes.
        let over = |bytes: u64, rate: u64| match rate {
            0 => 0,
            rate => bytes.div_ceil(rate),
        };
        let (bytes_in, bytes_out) = (work.bytes_in(), work.bytes_out());
        let (dense, vector) = peak.time(work.layers.iter());
        let shared = far.map_or(0, |far| far.bytes_per_cycle.max(0) as u64);
        let all = [
            ("products", dense),
            ("lanes", vector),
            ("loads", over(bytes_in, load)),
            ("stores", over(bytes_out, store)),
            (
                "far memory",
                over(bytes_in.saturating_add(bytes_out), shared),
            ),
        ];
        let (by, cycles) = all
            .into_iter()
            .rev()
            .max_by_key(|(_, n)| *n)
            .unwrap_or_default();
        let near = machine.spaces.iter().skip(1).map(|s| s.bytes.max(0) as u64);
        let near = near.fold(0, u64::saturating_add);
        let mut bounds = Self {
            cycles,
            by,
            window: cycles,
            at: String::new(),
            macs: work.macs(),
            bytes_in,
            bytes_out,
        };
        let graph = Graph::of(work);
        for (j, layer) in work.layers.iter().enumerate() {
            let Some(behind) = graph.behind(work, j) else {
                continue;
            };
            let (dense, vector) = peak.time(graph.before(work, j));
            let rest = over(behind.saturating_sub(near), load);
            let window = dense.max(vector).saturating_add(rest);
            if window > bounds.window {
                bounds.window = window;
                bounds.at.clone_from(&layer.name);
            }
        }
        bounds
    }
}

/// Which layers come before which, as sets of bits.
struct Graph {
    before: Vec<Vec<u64>>,
    /// Layers with products that read it, through layers without.
    next: Vec<BTreeSet<usize>>,
}

fn has(set: &[u64], i: usize) -> bool {
    set[i / 64] >> (i % 64) & 1 == 1
}

fn products(layer: &Layer) -> bool {
    layer.macs > 0 || layer.lane_macs > 0
}

impl Graph {
    fn of(work: &Workload) -> Self {
        let count = work.layers.len();
        let words = count.div_ceil(64);
        let mut before: Vec<Vec<u64>> = Vec::with_capacity(count);
        for layer in &work.layers {
            let mut set = vec![0u64; words];
            for i in &layer.after {
                set[i / 64] |= 1 << (i % 64);
                set.iter_mut().zip(&before[*i]).for_each(|(a, b)| *a |= b);
            }
            before.push(set);
        }
        let mut next = vec![BTreeSet::new(); count];
        for (i, layer) in work.layers.iter().enumerate().rev() {
            let own: BTreeSet<usize> = match products(layer) {
                true => BTreeSet::from([i]),
                false => next[i].clone(),
            };
            for j in &layer.after {
                next[*j].extend(&own);
            }
        }
        Self { before, next }
    }

    fn before<'a>(&'a self, work: &'a Workload, j: usize) -> impl Iterator<Item = &'a Layer> {
        let layers = work.layers.iter().enumerate();
        layers
            .filter(move |(i, _)| has(&self.before[j], *i))
            .map(|(_, layer)| layer)
    }

    /// Bytes of weights that are needed after the last value has come that layer `j` reads. `None`
    /// if nothing can be said: the layer has no products, or neither it nor what follows it sums
    /// over all that it reads.
    fn behind(&self, work: &Workload, j: usize) -> Option<u64> {
        let layer = &work.layers[j];
        let lane = |i: &usize| work.layers[*i].macs == 0;
        if !products(layer) || lane(&j) && self.next[j].iter().any(lane) {
            return None;
        }
        let mut seen = BTreeSet::new();
        let mut todo: Vec<usize> = self.next[j]
            .iter()
            .flat_map(|i| &self.next[*i])
            .copied()
            .collect();
        while let Some(i) = todo.pop() {
            if seen.insert(i) {
                todo.extend(&self.next[i]);
            }
        }
        Some(seen.iter().map(|i| work.layers[*i].weights).sum())
    }
}
