//! Buffers: where they lie, and who holds what.
//!
//! *Terms.* A **region** is the state and data of a range of addresses that live buffers share: a
//! buffer that is placed over others joins their regions into one. A **family** is a buffer and all
//! that lie within it. An **actor** is the thread or a queue.
//!
//! *Invariants.* Live buffers that overlap in addresses are of one region, so that bytes and their
//! writers are kept once. A region without live buffers is given back with its bytes; the buffers that
//! were in it are left with an empty place, and every access asks `Buffers::usable` before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tir_data::BufferId;

use crate::fault::{Fault, FaultKind, Result, Site, Sites};
use crate::memory::{BufferPlace, Memory};
use crate::region::Region;
use crate::spec::{SpaceId, SpaceSpec};

/// Where a buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// At the lowest free address.
    Anywhere,
    /// At this byte offset of the space. Buffers may lie over each other: a byte then belongs to
    /// the one it was last written through, and reading it through another is a fault.
    At(u64),
    /// At this byte offset of another buffer, as a buffer of its own: what a plan makes of one
    /// allocation. Views of views belong to the outermost.
    Within(BufferId, u64),
}

/// A request for a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Alloc<'a> {
    /// Name in faults.
    pub name: &'a str,
    /// Size in bytes.
    pub bytes: u64,
    /// Alignment in bytes, beside the space's own; 0 and 1 ask for none.
    pub align: u64,
    /// Where.
    pub placement: Placement,
    /// The operation that asks.
    pub site: Site,
}

impl<'a> Alloc<'a> {
    /// A buffer anywhere, as aligned as its space is.
    pub fn new(name: &'a str, bytes: u64, site: Site) -> Alloc<'a> {
        Alloc {
            name,
            bytes,
            align: 1,
            placement: Placement::Anywhere,
            site,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    pub name: String,
    pub space: u32,
    pub address: u64,
    pub bytes: u64,
    /// The buffer it lies in by [`Placement::Within`].
    pub parent: Option<u32>,
    /// Where it was released.
    pub freed: Option<Site>,
}

/// All buffers, the state of their bytes, and their data.
#[derive(Clone, Debug)]
pub(crate) struct Buffers {
    pub list: Vec<Buffer>,
    pub memory: Memory,
    /// State by region id; as `memory.regions`. Copies of a machine share what neither has changed since.
    regions: Vec<Arc<Region>>,
    /// Live buffers of each region, oldest first.
    members: Vec<Vec<u32>>,
    free_regions: Vec<u32>,
    /// Live buffers of each space that lie in no other: (address, id) to size.
    live: Vec<BTreeMap<(u64, u32), u64>>,
    /// For each buffer and actor, the last work that uses it: `actors` entries a buffer.
    uses: Vec<u32>,
    actors: usize,
    /// Bytes that the machine's own memory may take; none where no data is kept.
    host_limit: Option<u64>,
    host_bytes: u64,
    pub live_bytes: Vec<u64>,
    pub peak_live: Vec<u64>,
    pub peak_extent: Vec<u64>,
}

impl Buffers {
    pub(crate) fn new(spaces: usize, actors: usize, host_limit: Option<u64>) -> Buffers {
        Buffers {
            list: Vec::new(),
            memory: Memory::default(),
            regions: Vec::new(),
            members: Vec::new(),
            free_regions: Vec::new(),
            live: vec![BTreeMap::new(); spaces],
            uses: Vec::new(),
            actors,
            host_limit,
            host_bytes: 0,
            live_bytes: vec![0; spaces],
            peak_live: vec![0; spaces],
            peak_extent: vec![0; spaces],
        }
    }

    pub(crate) fn get(&self, id: BufferId) -> &Buffer {
        &self.list[id.0 as usize]
    }

    pub(crate) fn place(&self, id: BufferId) -> BufferPlace {
        self.memory.places[id.0 as usize]
    }

    pub(crate) fn region(&mut self, id: BufferId) -> &mut Region {
        Arc::make_mut(&mut self.regions[self.memory.places[id.0 as usize].region as usize])
    }

    /// The state of all memory but that of the first space, with the number of each region.
    pub(crate) fn near_regions(&self) -> impl Iterator<Item = (u32, &Region)> {
        let all = self.members.iter().zip(&self.regions).zip(0..);
        let near = all.filter(|((members, _), _)| {
            let first = members.first().and_then(|m| self.list.get(*m as usize));
            first.is_some_and(|buffer| buffer.space != 0)
        });
        near.map(|((_, region), number)| (number, &**region))
    }

    /// The last work of each actor that uses a buffer.
    pub(crate) fn uses(&mut self, id: BufferId) -> &mut [u32] {
        let at = id.0 as usize * self.actors;
        &mut self.uses[at..at + self.actors]
    }

    /// Whether one of two buffers lies in the other.
    pub(crate) fn related(list: &[Buffer], a: u32, b: u32) -> bool {
        a == b || list[a as usize].parent == Some(b) || list[b as usize].parent == Some(a)
    }

    pub(crate) fn alloc(
        &mut self,
        sites: &Sites,
        space: SpaceId,
        spec: &SpaceSpec,
        want: &Alloc,
    ) -> Result<BufferId> {
        if let Placement::Within(outer, offset) = want.placement {
            return self.view(sites, outer, offset, want);
        }
        let align = want.align.max(1);
        let address = match want.placement {
            Placement::At(offset) => {
                if !offset.is_multiple_of(align) || !offset.is_multiple_of(spec.align) {
                    let text = format!("is not a multiple of {}", align.max(spec.align));
                    return Err(misplaced(sites, want, offset, &spec.name, &text));
                }
                if offset
                    .checked_add(want.bytes)
                    .is_none_or(|end| end > spec.bytes)
                {
                    let text = format!("and {} bytes end beyond its {}", want.bytes, spec.bytes);
                    return Err(misplaced(sites, want, offset, &spec.name, &text));
                }
                offset
            }
            _ => match self.first_fit(space, spec, want.bytes, align) {
                Some(address) => address,
                None => return Err(self.no_room(sites, space, spec, want)),
            },
        };
        if let Some(limit) = self.host_limit
            && self.host_bytes.saturating_add(want.bytes) > limit
        {
            let op = sites.show(want.site);
            let text = format!(
                "{op} takes the buffers of the program beyond the {limit} bytes that the model may hold"
            );
            return Err(Fault::new(FaultKind::OutOfSpace, Some(want.site), text));
        }
        let end = address + want.bytes;
        let s = space.0 as usize;
        let below: BTreeSet<u32> = match want.placement {
            Placement::At(_) => self.live[s]
                .range(..(end, 0))
                .filter(|((a, _), bytes)| **bytes > 0 && *a + **bytes > address)
                .map(|((_, id), _)| self.memory.places[*id as usize].region)
                .collect(),
            _ => BTreeSet::new(),
        };
        let id = self.list.len() as u32;
        let (region, base) = match below.is_empty() {
            true => {
                let data = self.data(want.bytes);
                self.host_bytes += data.len() as u64;
                (self.add_region(Region::new(want.bytes), data), address)
            }
            false => self.merge(&below, address, end),
        };
        self.members[region as usize].push(id);
        self.memory.places.push(BufferPlace {
            region,
            offset: address - base,
            bytes: want.bytes,
        });
        self.push(space.0, address, want, None);
        self.live[s].insert((address, id), want.bytes);
        self.live_bytes[s] = self.live_bytes[s].saturating_add(want.bytes);
        self.peak_live[s] = self.peak_live[s].max(self.live_bytes[s]);
        self.peak_extent[s] = self.peak_extent[s].max(end);
        Ok(BufferId(id))
    }

    fn view(
        &mut self,
        sites: &Sites,
        outer: BufferId,
        offset: u64,
        want: &Alloc,
    ) -> Result<BufferId> {
        self.usable(sites, outer, want.site)?;
        let b = self.get(outer);
        let name = format!("buffer {}", b.name);
        let address = b.address.saturating_add(offset);
        if !address.is_multiple_of(want.align.max(1)) {
            let text = format!("is at address {address}, no multiple of {}", want.align);
            return Err(misplaced(sites, want, offset, &name, &text));
        }
        if offset
            .checked_add(want.bytes)
            .is_none_or(|end| end > b.bytes)
        {
            let text = format!("and {} bytes end beyond its {}", want.bytes, b.bytes);
            return Err(misplaced(sites, want, offset, &name, &text));
        }
        let (space, root) = (b.space, b.parent.unwrap_or(outer.0));
        let place = self.place(outer);
        let id = self.list.len() as u32;
        Arc::make_mut(&mut self.regions[place.region as usize]).share(root);
        self.members[place.region as usize].push(id);
        self.memory.places.push(BufferPlace {
            offset: place.offset + offset,
            bytes: want.bytes,
            ..place
        });
        self.push(space, address, want, Some(root));
        Ok(BufferId(id))
    }

    fn push(&mut self, space: u32, address: u64, want: &Alloc, parent: Option<u32>) {
        let name = want.name.to_string();
        self.list.push(Buffer {
            name,
            space,
            address,
            bytes: want.bytes,
            parent,
            freed: None,
        });
        self.uses.resize(self.uses.len() + self.actors, 0);
    }

    /// Zeros, if data is kept.
    fn data(&self, bytes: u64) -> Vec<u8> {
        vec![0; self.host_limit.map_or(0, |_| bytes as usize)]
    }

    fn add_region(&mut self, region: Region, data: Vec<u8>) -> u32 {
        if let Some(id) = self.free_regions.pop() {
            self.regions[id as usize] = Arc::new(region);
            self.memory.regions[id as usize] = data;
            return id;
        }
        self.regions.push(Arc::new(region));
        self.memory.regions.push(data);
        self.members.push(Vec::new());
        self.regions.len() as u32 - 1
    }

    /// One region of those in `parts` and `low..high`; gives its id and first address.
    fn merge(&mut self, parts: &BTreeSet<u32>, mut low: u64, mut high: u64) -> (u32, u64) {
        let bases: Vec<(u32, u64, u64)> = parts
            .iter()
            .map(|&r| {
                let first = self.members[r as usize][0] as usize;
                let base = self.list[first].address - self.memory.places[first].offset;
                (r, base, self.regions[r as usize].bytes())
            })
            .collect();
        for &(_, base, bytes) in &bases {
            (low, high) = (low.min(base), high.max(base + bytes));
        }
        let mut data = self.data(high - low);
        let (mut states, mut members) = (Vec::new(), Vec::new());
        self.host_bytes += data.len() as u64;
        for &(r, base, _) in &bases {
            let at = (base - low) as usize;
            let old = std::mem::take(&mut self.memory.regions[r as usize]);
            self.host_bytes -= old.len() as u64;
            data[at..at + old.len()].copy_from_slice(&old);
            let inside = std::mem::take(&mut self.members[r as usize]);
            states.push((
                base - low,
                inside[0],
                Arc::unwrap_or_clone(std::mem::take(&mut self.regions[r as usize])),
            ));
            members.extend(inside);
            self.free_regions.push(r);
        }
        let id = self.add_region(Region::merge(high - low, states), data);
        for &m in &members {
            let offset = self.list[m as usize].address - low;
            let bytes = self.list[m as usize].bytes;
            self.memory.places[m as usize] = BufferPlace {
                region: id,
                offset,
                bytes,
            };
        }
        members.sort_unstable();
        self.members[id as usize] = members;
        (id, low)
    }

    fn first_fit(&self, space: SpaceId, spec: &SpaceSpec, bytes: u64, align: u64) -> Option<u64> {
        let step = spec.align / tir_data::gcd(spec.align, align);
        let align = step.checked_mul(align)?;
        let mut cursor = 0u64;
        for (&(address, _), &size) in &self.live[space.0 as usize] {
            if size > 0 && cursor.checked_add(bytes)? <= address {
                return Some(cursor);
            }
            cursor = cursor.max((address + size).checked_next_multiple_of(align)?);
        }
        (cursor.checked_add(bytes)? <= spec.bytes).then_some(cursor)
    }

    fn no_room(&self, sites: &Sites, space: SpaceId, spec: &SpaceSpec, want: &Alloc) -> Box<Fault> {
        let held = self.live_bytes[space.0 as usize];
        let missing = held.saturating_add(want.bytes).saturating_sub(spec.bytes);
        let why = match missing {
            0 => " and no gap is large enough".to_string(),
            missing => format!(", {missing} too many to have it beside them"),
        };
        let text = format!(
            "{} asks for {} bytes in @{} for {}: {held} of {} are held{why}",
            sites.show(want.site),
            want.bytes,
            spec.name,
            want.name,
            spec.bytes
        );
        let fault = Fault::new(FaultKind::OutOfSpace, Some(want.site), text);
        let mut holders: Vec<_> = self.live[space.0 as usize].iter().collect();
        holders.sort_by_key(|h| std::cmp::Reverse(*h.1));
        let shown = holders
            .iter()
            .take(20)
            .fold(fault, |f, ((address, id), bytes)| {
                let name = &self.list[*id as usize].name;
                f.note(None, format!("{name} holds {bytes} bytes at {address}"))
            });
        match holders.len().saturating_sub(20) {
            0 => shown,
            n => shown.note(None, format!("and {n} more")),
        }
    }

    /// A fault if the buffer has been released.
    pub(crate) fn usable(&self, sites: &Sites, id: BufferId, site: Site) -> Result<()> {
        let b = self.get(id);
        let Some(freed) = b.freed else { return Ok(()) };
        let text = format!("{} uses {} after its release", sites.show(site), b.name);
        let fault = Fault::new(FaultKind::UseAfterFree, Some(site), text);
        Err(fault.note(Some(freed), format!("released by {}", sites.show(freed))))
    }

    /// The buffer and those that lie in it: what a release releases.
    pub(crate) fn family(&self, id: BufferId) -> Vec<u32> {
        let inside = &self.members[self.place(id).region as usize];
        let parent = Some(id.0);
        let own = |&&m: &&u32| m == id.0 || self.list[m as usize].parent == parent;
        inside.iter().filter(own).copied().collect()
    }

    /// Releases buffers of one family (the checks are done).
    pub(crate) fn release(&mut self, family: &[u32], site: Site) {
        for &m in family {
            let place = self.memory.places[m as usize];
            let region = place.region as usize;
            self.list[m as usize].freed = Some(site);
            self.members[region].retain(|&other| other != m);
            let b = &self.list[m as usize];
            let s = b.space as usize;
            if b.parent.is_none() {
                self.live[s].remove(&(b.address, m));
                self.live_bytes[s] -= b.bytes;
            }
            if self.members[region].is_empty() {
                self.host_bytes -= self.memory.regions[region].len() as u64;
                self.memory.regions[region] = Vec::new();
                self.regions[region] = Arc::default();
                self.free_regions.push(place.region);
            } else {
                Arc::make_mut(&mut self.regions[region]).forget(place.offset, place.bytes, m);
            }
            // An empty place: its bytes are gone even when the region is used again.
            self.memory.places[m as usize] = BufferPlace {
                region: u32::MAX,
                offset: 0,
                bytes: 0,
            };
        }
    }
}

fn misplaced(sites: &Sites, want: &Alloc, offset: u64, place: &str, text: &str) -> Box<Fault> {
    let op = sites.show(want.site);
    let text = format!(
        "{op} places {} in {place}: offset {offset} {text}",
        want.name
    );
    Fault::new(FaultKind::Placement, Some(want.site), text)
}
