//! Cycles of a machine for the work of ops.
//!
//! An op takes the cycles of its products on the matrix unit (each of m, n and k rounded up to the
//! unit's) or on the vector unit, whichever takes fewer, those of its scalar operations on the vector unit, and those of its bytes on the DMA
//! engine. They are summed, not overlapped: what saves any of them is worth something even where
//! another one dominates. An edge that fuses moves no bytes: neither are they read again, nor does
//! the consumer write more than the producer would have.

use tir::{Name, Product, Work};
use tir_accel::MachineInfo;
use tir_accel::machine::IntrinsicInfo;

/// The matrix unit of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MatrixUnit {
    /// Rows of a tile of the result.
    pub m: u64,
    /// Columns of it.
    pub n: u64,
    /// What is summed over at once.
    pub k: u64,
    /// Cycles of a tile.
    pub cycles: u64,
}

/// What of a machine the cost depends on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CostModel {
    /// The matrix unit, by its quickest tile.
    pub matrix: MatrixUnit,
    /// Other tiles of matrix units: a product takes those that it fills best.
    pub others: Vec<MatrixUnit>,
    /// Scalar operations at once of the vector unit, or of the thread if there is none.
    pub lanes: u64,
    /// Cycles of so many scalar operations.
    pub scalar: u64,
    /// Bytes that a DMA engine moves in a cycle.
    pub bytes_per_cycle: u64,
    /// Cycles before a transfer begins.
    pub latency: u64,
    /// Bytes that a contiguous run of a transfer costs at least.
    pub granule: u64,
    /// Whether an edge that fuses moves no bytes; else each op is priced by itself.
    pub fuses: bool,
}

/// The machine that is assumed if none is attached: a unit of 16 x 16 x 16 in 16 cycles, 16 lanes,
/// 8 bytes per cycle after 64 cycles.
impl Default for CostModel {
    fn default() -> Self {
        Self {
            matrix: MatrixUnit {
                m: 16,
                n: 16,
                k: 16,
                cycles: 16,
            },
            others: Vec::new(),
            lanes: 16,
            scalar: 1,
            bytes_per_cycle: 8,
            latency: 64,
            granule: 1,
            fuses: true,
        }
    }
}

/// Which values of an op go through no memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fused {
    /// Operands that are there already, by number.
    pub operands: Vec<usize>,
}

impl CostModel {
    /// The model of a machine: its intrinsic with most multiply-adds per cycle, the one with most
    /// elements per cycle among the others and vector units, and the engine that fills a space of its
    /// operands.
    pub fn of(machine: &MachineInfo) -> Self {
        let positive = |n: i64| u64::try_from(n).unwrap_or(0).max(1);
        let mut model = Self::default();
        let mut best = 0;
        let mut lanes = 0;
        // Of units for floats and for integers those for floats count: what a product is of is not known here.
        let is_float = |intrinsic: &IntrinsicInfo| {
            let result = intrinsic.operands.first();
            result.is_some_and(|ty| ty.elem().is_float())
        };
        let floats = machine.intrinsics.iter().any(|i| i.macs > 0 && is_float(i));
        let counted = machine.intrinsics.iter();
        for intrinsic in counted.filter(|i| i.macs <= 0 || !floats || is_float(i)) {
            let Some(shape) = intrinsic.operands.first().and_then(|ty| ty.shape()) else {
                continue;
            };
            let cycles = positive(intrinsic.cycles);
            let elements: u64 = shape.iter().map(|d| positive(*d)).product();
            if intrinsic.macs <= 0 {
                lanes = lanes.max(elements / cycles);
                continue;
            }
            let macs = positive(intrinsic.macs);
            let n = shape.last().map_or(1, |d| positive(*d));
            let unit = MatrixUnit {
                m: (elements / n).max(1),
                n,
                k: (macs / elements).max(1),
                cycles,
            };
            if macs / cycles > best {
                best = macs / cycles;
                model.matrix = unit;
            }
            if !model.others.contains(&unit) {
                model.others.push(unit);
            }
        }
        let quickest = model.matrix;
        model.others.retain(|unit| *unit != quickest);
        if best == 0 {
            // The thread: two factors loaded, their product added to what is loaded and stored.
            let cycles = machine.thread_cycles(6).max(1);
            model.matrix = MatrixUnit {
                m: 1,
                n: 1,
                k: 1,
                cycles,
            };
        }
        let vectors = machine.vectors.iter().map(|v| positive(v.lanes));
        model.lanes = vectors.fold(lanes.max(1), u64::max);
        if lanes == 0 && machine.vectors.is_empty() {
            // The thread: an operation between a load and a store.
            model.scalar = machine.thread_cycles(3).max(1);
        }
        // Sums may lie where nothing is loaded.
        let operands = machine.intrinsics.first().map(|i| i.spaces.iter().copied());
        let mut near = operands.into_iter().flatten();
        let mut vectors = machine.vectors.iter().map(|v| v.space);
        let far = machine.far().map(|space| space.name);
        let fills = |to: Name| machine.engine_between(far?, to);
        let engine = near.find_map(fills).or_else(|| vectors.find_map(fills));
        let engine = engine.or(machine.engines.first());
        if let Some(engine) = engine {
            model.bytes_per_cycle = positive(engine.bytes_per_cycle);
            model.latency = u64::try_from(engine.latency).unwrap_or(0);
            model.granule = positive(engine.granule);
        }
        model
    }

    /// The cycles of a product: on the matrix unit, whose columns are those of the result, by the tile that it fills best, or
    /// on the vector unit, which multiplies and adds.
    pub fn product(&self, product: &Product) -> u64 {
        let Product { times, m, n, k } = *product;
        let cycles = |unit: &MatrixUnit| {
            let tiles = m.div_ceil(unit.m).saturating_mul(n.div_ceil(unit.n));
            let calls = tiles.saturating_mul(k.div_ceil(unit.k));
            times.saturating_mul(calls).saturating_mul(unit.cycles)
        };
        let others = self.others.iter().map(cycles);
        let on_matrix = others.fold(cycles(&self.matrix), u64::min);
        let steps = product.macs().saturating_mul(2).div_ceil(self.lanes);
        on_matrix.min(steps.saturating_mul(self.scalar))
    }

    /// The cycles of a product that no tile can do without: its multiply-adds on the unit that has the most in a cycle.
    pub fn least_product(&self, product: &Product) -> u64 {
        let macs = u128::from(product.macs());
        let cycles = |unit: &MatrixUnit| {
            let points = [unit.m, unit.n, unit.k].map(u128::from);
            let points = points.into_iter().product::<u128>().max(1);
            macs.saturating_mul(u128::from(unit.cycles)) / points
        };
        let units = std::iter::once(&self.matrix).chain(&self.others);
        let on_matrix = units.map(cycles).min().unwrap_or(0);
        let by_lanes = macs.saturating_mul(2) / u128::from(self.lanes.max(1));
        let least = on_matrix.min(by_lanes.saturating_mul(u128::from(self.scalar)));
        u64::try_from(least).unwrap_or(u64::MAX)
    }

    /// The bytes that are paid for where they are in contiguous runs of so many.
    pub fn paid(&self, bytes: u64, run: u64) -> u64 {
        match run {
            0 => bytes,
            run => bytes.max((bytes / run).saturating_mul(self.granule)),
        }
    }

    /// The cycles to move bytes in one transfer.
    pub fn transfer(&self, bytes: u64) -> u64 {
        match bytes {
            0 => 0,
            bytes => self.latency + bytes.div_ceil(self.bytes_per_cycle),
        }
    }

    /// The bytes that an op moves, each operand and the result: none of what is fused.
    fn moved(work: &Work, fused: &Fused) -> impl Iterator<Item = u64> {
        let read = work.reads.iter().enumerate();
        let read = read.filter(|(at, _)| !fused.operands.contains(at));
        // What takes the place of a fused operand is written instead of it.
        let kept = fused.operands.iter().filter_map(|at| work.reads.get(*at));
        let saved = kept.max().copied().unwrap_or(0);
        let wrote: u64 = work.writes.iter().sum();
        let write = wrote.saturating_sub(saved);
        read.map(|(_, bytes)| *bytes).chain([write])
    }

    /// The bytes that an op moves to and from memory, without those of what is fused: as they are paid for, so that
    /// short runs count as more.
    pub fn bytes(work: &Work, fused: &Fused) -> u64 {
        Self::moved(work, fused).sum()
    }

    /// The cycles of an op: its work, without the bytes of what is fused.
    pub fn cycles(&self, work: &Work, fused: &Fused) -> u64 {
        let products: u64 = work.products.iter().map(|p| self.product(p)).sum();
        let moved: u64 = Self::moved(work, fused).map(|n| self.transfer(n)).sum();
        let scalars = work.scalars.div_ceil(self.lanes);
        products + scalars.saturating_mul(self.scalar) + moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_channels_use_three_sixteenths_of_the_unit() {
        let model = CostModel::default();
        let cycles = |k| {
            let product = Product {
                times: 1,
                m: 16,
                n: 16,
                k,
            };
            model.product(&product)
        };
        assert_eq!(cycles(3), cycles(16));
        assert_eq!(cycles(17), 2 * cycles(16));
    }

    #[test]
    fn a_product_takes_the_tile_that_it_fills_best() {
        let mut model = CostModel::default();
        let product = Product {
            times: 1,
            m: 7,
            n: 16,
            k: 16,
        };
        let (whole, wide) = (model.product(&product), Product { m: 16, ..product });
        model.others.push(MatrixUnit {
            m: 8,
            cycles: 9,
            ..model.matrix
        });
        assert_eq!([whole, model.product(&product)], [16, 9]);
        assert_eq!(model.product(&wide), 16);
    }

    #[test]
    fn lanes_and_transfers_of_a_vector_unit_count() {
        let space = |name: &str| tir_accel::machine::SpaceInfo {
            name: Name::new(name),
            of: Name::new(name),
            core: None,
            bytes: 4096,
            align: 1,
            banks: 1,
            ports: 0,
            bytes_per_cycle: 64,
            latency: 0,
        };
        let engine = |name: &str, to: &str, rate| tir_accel::machine::EngineInfo {
            name: Name::new(name),
            from: Name::new("far"),
            to: Name::new(to),
            bytes_per_cycle: rate,
            latency: 0,
            dims: 4,
            queue: 1,
            granule: 1,
            square: 0,
            pad: true,
            packs: false,
            issue: 0,
        };
        let machine = MachineInfo {
            name: Name::new("m"),
            clock_mhz: 1,
            in_order: false,
            scalar_cycles: 1,
            spaces: vec![space("far"), space("other"), space("near")],
            engines: vec![engine("a", "other", 2), engine("b", "near", 32)],
            units: Vec::new(),
            intrinsics: Vec::new(),
            routes: Vec::new(),
            vectors: vec![tir_accel::vector::VectorInfo {
                name: Name::new("v"),
                unit: Name::new("u"),
                space: Name::new("near"),
                types: Vec::new(),
                ops: Vec::new(),
                any: Some(1),
                reduce: Vec::new(),
                lanes: 32,
                start: 0,
                chain: 1,
                port: 0,
                strided: false,
                apart: 1,
            }],
        };
        let model = CostModel::of(&machine);
        assert_eq!((model.lanes, model.bytes_per_cycle), (32, 32));
    }

    #[test]
    fn a_fused_edge_moves_nothing() {
        let model = CostModel::default();
        let work = Work {
            scalars: 64,
            reads: vec![256],
            writes: vec![256],
            ..Work::default()
        };
        let alone = model.cycles(&work, &Fused::default());
        let fused = model.cycles(&work, &Fused { operands: vec![0] });
        assert_eq!(alone, 64 / 16 + 2 * (64 + 256 / 8));
        assert_eq!(fused, 64 / 16);
    }
}
