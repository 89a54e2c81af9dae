//! Conflicts of the banks of a space.
//!
//! A space is cut into equal banks, one behind the other, each with so many *ports*. Work takes a port of
//! each bank in which one of its operands lies, for as long as it runs: one for each operand that it reads
//! and one for each that it writes. Where it has more operands in a bank than that has ports it takes as
//! many times longer; where too few ports are free it begins later. As with bandwidth, ports are given in
//! the order in which work is ordered; what comes later may run before, if it fits.
//!
//! Spaces that say no number of ports have no conflicts. The thread's own accesses take no port.

use std::collections::BTreeMap;

use crate::alloc::Buffers;
use crate::spec::MachineSpec;
use crate::timeline::Timeline;
use crate::work::{Cost, Work};
use tir_data::StridedBox;

/// The banks of all spaces.
#[derive(Clone, Debug)]
pub(crate) struct Banks {
    /// Of each space, if conflicts are counted there.
    spaces: Vec<Option<Space>>,
}

#[derive(Clone, Debug)]
struct Space {
    /// Bytes of a bank.
    bytes: u64,
    ports: u64,
    banks: Vec<Timeline>,
}

/// The banks that work uses, with the number of its operands in each.
pub(crate) type Uses = BTreeMap<(u32, usize), u64>;

impl Banks {
    pub(crate) fn new(spec: &MachineSpec) -> Self {
        let space = |s: &crate::SpaceSpec| {
            (s.ports > 0).then(|| Space {
                bytes: s.bytes.div_ceil(s.banks.max(1)).max(1),
                ports: s.ports,
                banks: vec![Timeline::new(); usize::try_from(s.banks).unwrap_or(1)],
            })
        };
        Self {
            spaces: spec.spaces.iter().map(space).collect(),
        }
    }

    /// Whether conflicts are counted anywhere.
    pub(crate) fn any(&self) -> bool {
        self.spaces.iter().any(Option::is_some)
    }

    /// The banks that work uses.
    pub(crate) fn uses(&self, buffers: &Buffers, work: &Work) -> Uses {
        let mut uses = Uses::new();
        for list in [work.reads, work.writes] {
            let before = uses.clone();
            for access in list {
                for bank in self.touched(buffers, access) {
                    let count = uses.entry(bank).or_default();
                    // The boxes of a transfer are parts of one operand.
                    *count = match work.cost {
                        Cost::Transfer { .. } => before.get(&bank).copied().unwrap_or(0) + 1,
                        Cost::Cycles(_) => *count + 1,
                    };
                }
            }
        }
        uses
    }

    fn touched(
        &self,
        buffers: &Buffers,
        access: &StridedBox,
    ) -> impl Iterator<Item = (u32, usize)> + use<> {
        let buffer = buffers.get(access.buffer);
        let (number, address) = (buffer.space, buffer.address);
        let space = self.spaces.get(number as usize).and_then(Option::as_ref);
        let extent = access.extent().filter(|_| !access.is_empty());
        let range = space.zip(extent).map(|(space, (low, high))| {
            let bank = |at: i128| {
                let at = u64::try_from(i128::from(address) + at).unwrap_or(0);
                usize::try_from(at / space.bytes).unwrap_or(usize::MAX)
            };
            bank(low)..bank(high - 1).min(space.banks.len() - 1) + 1
        });
        range.into_iter().flatten().map(move |bank| (number, bank))
    }

    /// How many times longer work takes for its own operands.
    pub(crate) fn slower(&self, uses: &Uses) -> u64 {
        let times = uses
            .iter()
            .map(|((space, _), count)| count.div_ceil(self.ports(*space)));
        times.max().unwrap_or(1)
    }

    /// The first time from `time` on at which work of so many cycles finds free ports.
    pub(crate) fn free(&self, uses: &Uses, time: u64, cycles: u64) -> u64 {
        let mut begin = time;
        loop {
            let before = begin;
            for ((space, bank), count) in uses {
                let ports = self.ports(*space);
                let most = ports - (*count).min(ports);
                if let Some(Some(space)) = self.spaces.get(*space as usize) {
                    begin = space.banks[*bank].free(begin, cycles, most);
                }
            }
            if begin == before {
                return begin;
            }
        }
    }

    /// Takes the ports for the time in which work runs.
    pub(crate) fn take(&mut self, uses: &Uses, begin: u64, end: u64) {
        for ((space, bank), count) in uses {
            if let Some(Some(space)) = self.spaces.get_mut(*space as usize) {
                space.banks[*bank].reserve(begin, end, (*count).min(space.ports));
            }
        }
    }

    /// What is taken in each bank.
    pub(crate) fn timelines(&self) -> impl Iterator<Item = &Timeline> {
        self.spaces.iter().flatten().flat_map(|space| &space.banks)
    }

    /// Forgets what was taken before a time.
    pub(crate) fn forget(&mut self, before: u64) {
        let spaces = self.spaces.iter_mut().flatten();
        spaces
            .flat_map(|space| &mut space.banks)
            .for_each(|bank| bank.forget(before));
    }

    fn ports(&self, space: u32) -> u64 {
        let space = self.spaces.get(space as usize).and_then(Option::as_ref);
        space.map_or(u64::MAX, |space| space.ports)
    }
}
