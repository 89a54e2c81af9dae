//! Why bytes were moved: the first touch of a byte of an argument, result or constant is
//! compulsory, that of a buffer of the program is intermediate; what is read again is reload, and
//! what is written again is spill. What one core hands to another is passed on.

use std::collections::{BTreeMap, HashMap};

use fixedbitset::FixedBitSet;
use tir::Name;
use tir_machine::{BufferId, CauseReport, StridedBox};

/// Which bytes of a buffer were moved in one direction.
#[derive(Default)]
struct Touched(FixedBitSet);

impl Touched {
    /// Marks a range; gives how many of its bytes were not marked.
    fn mark(&mut self, from: u64, to: u64) -> u64 {
        let range = from as usize..to as usize;
        self.0.grow(range.end);
        let marked = self.0.count_ones(range.clone());
        self.0.insert_range(range.clone());
        (range.len() - marked) as u64
    }
}

/// Counts bytes by cause.
#[derive(Default)]
pub(super) struct Causes {
    touched: BTreeMap<(BufferId, bool), Touched>,
    counts: Vec<CauseReport>,
    /// The same of each layer.
    by_layer: HashMap<Name, Vec<CauseReport>>,
}

impl Causes {
    /// Notes a transfer of a layer: the boxes on the far side, whether it reads them, whether they
    /// are of a buffer of the program.
    pub(super) fn note(
        &mut self,
        layer: Option<Name>,
        far: &[StridedBox],
        read: bool,
        local: bool,
        from: &str,
        to: &str,
    ) {
        let (mut new, mut all) = (0, 0);
        for access in far {
            let touched = self.touched.entry((access.buffer, read)).or_default();
            access.each_row(|at, run| {
                all += run;
                if let Ok(at) = u64::try_from(at) {
                    new += touched.mark(at, at + run);
                }
            });
        }
        let first = match (all, local) {
            // What lies outside of its source as a whole fills a tile.
            (0, _) if read => "fill",
            (_, true) => "intermediate",
            (_, false) => "compulsory",
        };
        let again = if read { "reload" } else { "spill" };
        // The transfer counts where most of its bytes do.
        let again_bytes = all - new;
        let parts = [(first, new), (again, again_bytes)];
        let most = usize::from(new < again_bytes);
        let own = layer.map(|layer| self.by_layer.entry(layer).or_default());
        for counts in [Some(&mut self.counts), own].into_iter().flatten() {
            for (i, (cause, bytes)) in parts.into_iter().enumerate() {
                add(counts, cause, [from, to], bytes, u64::from(i == most));
            }
        }
    }

    /// Notes a transfer from one core to another.
    pub(super) fn pass_on(
        &mut self,
        layer: Option<Name>,
        from: &[StridedBox],
        source: &str,
        target: &str,
    ) {
        let bytes = from.iter().map(StridedBox::bytes).sum();
        let own = layer.map(|layer| self.by_layer.entry(layer).or_default());
        for counts in [Some(&mut self.counts), own].into_iter().flatten() {
            add(counts, "passed on", [source, target], bytes, 1);
        }
    }

    /// The counts of a layer in the order of their first transfer.
    pub(super) fn of_layer(&self, layer: &str) -> Vec<CauseReport> {
        let found = self.by_layer.get(&Name::new(layer));
        found.cloned().unwrap_or_default()
    }

    /// The counts in the order of their first transfer.
    pub(super) fn report(&self) -> Vec<CauseReport> {
        self.counts.clone()
    }
}

fn add(
    counts: &mut Vec<CauseReport>,
    cause: &str,
    [from, to]: [&str; 2],
    bytes: u64,
    transfers: u64,
) {
    let same = |c: &&mut CauseReport| c.cause == cause && c.from == from && c.to == to;
    if let Some(found) = counts.iter_mut().find(same) {
        found.bytes += bytes;
        found.transfers += transfers;
    } else if bytes + transfers > 0 {
        let (cause, from, to) = (cause.to_string(), from.to_string(), to.to_string());
        counts.push(CauseReport {
            cause,
            from,
            to,
            bytes,
            transfers,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::Touched;

    #[test]
    fn marks_count_once() {
        let mut t = Touched::default();
        assert_eq!(t.mark(3, 200), 197);
        assert_eq!(t.mark(0, 200), 3);
        assert_eq!(t.mark(128, 192), 0);
        assert_eq!(t.mark(192, 257), 57);
    }
}
