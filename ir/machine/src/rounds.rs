//! Iterations of a loop that are left out: a state of the machine that comes again, and what is known of the iterations
//! from there on.
//!
//! *Terms.* A **period** is so many iterations. A **snapshot** is what the order and the time of later work depend on, but
//! for far memory (the first space): what is complete for the thread, for the last work of each queue and for the tokens
//! at hand, who used each byte of the near spaces last, and when queues are free. Two snapshots **repeat** if one becomes the
//! other by numbering work otherwise: of each actor the work up to some point keeps its number, all later work has that
//! of the work a period later; and if the times from now on are the same.
//!
//! *Why iterations may be left out.* The caller knows that the iterations to come start the same work as those of the last
//! period, on bytes whose place moves by as much in each period (it must not say so otherwise). Whether an access is a
//! race is a comparison of numbers of work, which numbering otherwise keeps, and times count from now. So a period whose
//! snapshots at start and end repeat is followed by periods of the same verdict, length and account. What snapshots do not
//! tell of is checked here for all that is left out: near memory must be used at the same places in each period; far
//! memory only where nobody else writes, and by whom all that was done there before is complete.
//!
//! *What is left behind.* The machine stays as it is behind the last period that ran: what is left out counts in its account
//! alone. To far memory that was used in it the last work is noted, so that it may look younger than it is but never
//! older: a fault behind iterations that were left out may be none, and only a run of all can tell; but no fault is lost.

use std::collections::BTreeMap;

use crate::fault::Site;
use crate::machine::Machine;
use crate::region::View;
use crate::report::{Account, QueueAccount};
use crate::work::{THREAD, Token, WRITER_THREAD};
use tir_data::{BufferId, StridedBox};

/// Queues of more places are taken as never full.
const DEEP: u32 = 1 << 20;

/// Most accesses of a period.
const MOST: usize = 1 << 20;

/// What the order and the time of later work depend on.
#[derive(Clone)]
pub struct Snapshot {
    /// Pieces of work of each actor.
    counts: Vec<u32>,
    clock: Vec<u32>,
    now: u64,
    /// Of each queue the clock of its last work, and how long from now each of those takes that may hold a place of it.
    queues: Vec<(Vec<u32>, Vec<u64>)>,
    tokens: Vec<Known>,
    places: Vec<u32>,
    near: Vec<Near>,
    /// What is reserved from now on, in all timelines.
    reserved: Vec<Vec<(u64, u64)>>,
    buffers: usize,
    held: Vec<u64>,
    account: Account,
    accounts: Vec<QueueAccount>,
}

/// What is known of a piece of work.
#[derive(Clone)]
struct Known {
    actor: u32,
    index: u32,
    left: u64,
    clock: Vec<u32>,
}

/// Who used the bytes of near memory last.
#[derive(Clone)]
struct Near {
    region: u32,
    granule: u64,
    /// Last writer of each cell: nobody, the thread at a site, or a queue's work by actor and number.
    writers: Vec<Writer>,
    owners: Vec<u32>,
    readers: Vec<(usize, Vec<u32>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer {
    Fixed(u32),
    Work(u32, u32),
}

/// An access in a period.
#[derive(Clone)]
struct Used {
    actor: usize,
    site: Site,
    write: bool,
    access: StridedBox,
    /// How far it moves in a period; known in the second one.
    moves: i64,
    /// What is complete before it.
    clock: Vec<u32>,
}

/// The accesses of a period, and how they move to the next one.
#[derive(Clone)]
pub(crate) struct Log {
    used: Vec<Used>,
    /// In the second period, which comes next.
    next: Option<usize>,
    /// The second period is unlike the first.
    unlike: bool,
}

impl Log {
    /// Notes an access.
    pub(crate) fn note(
        &mut self,
        (actor, site): (usize, Site),
        access: &StridedBox,
        write: bool,
        (near, clock): (bool, &[u32]),
    ) {
        let Some(next) = &mut self.next else {
            if self.used.len() >= MOST {
                self.unlike = true;
                return;
            }
            let access = access.clone();
            self.used.push(Used {
                actor,
                site,
                write,
                access,
                moves: 0,
                clock: Vec::new(),
            });
            return;
        };
        let Some(used) = self.used.get_mut(*next) else {
            self.unlike = true;
            return;
        };
        *next += 1;
        let (a, b) = (&used.access, access);
        let same = (used.actor, used.site, used.write) == (actor, site, write)
            && (a.buffer, a.elem) == (b.buffer, b.elem)
            && a.shape == b.shape
            && a.strides == b.strides;
        used.moves = b.offset.wrapping_sub(a.offset);
        self.unlike |= !same || near && used.moves != 0;
        if !near {
            used.access.offset = b.offset;
            used.clock = clock.to_vec();
        }
    }
}

/// Pairs of numbers of one actor's work, a period apart.
#[derive(Clone, Copy)]
struct Pairs {
    /// How many pieces of work a period has.
    period: u32,
    /// The last of those that keep their number.
    kept: Option<u32>,
    /// The first of those that do not.
    moved: Option<u32>,
}

impl Pairs {
    fn add(&mut self, a: u32, b: u32) -> bool {
        if self.period == 0 {
            return a == b;
        }
        if a == b {
            self.kept = self.kept.max(Some(a));
        } else if b == a.wrapping_add(self.period) {
            self.moved = Some(self.moved.map_or(a, |m| m.min(a)));
        } else {
            return false;
        }
        match (self.kept, self.moved) {
            (Some(kept), Some(moved)) => kept < moved,
            _ => true,
        }
    }
}

/// Ends of a range of bytes in a region.
type Range = (u64, u64);

/// Accesses of a region by one actor through one buffer: where they lie in all periods, and what is complete before all
/// of them.
struct Swept {
    ranges: Vec<Range>,
    clock: Vec<u32>,
}

impl Machine<'_> {
    /// What later work depends on, at the start of an iteration. `tokens` are those at hand, `places` where each is held.
    pub fn snapshot(&self, tokens: &[Token], places: &[u32]) -> Snapshot {
        let left = |end: u64| end.saturating_sub(self.now);
        let queues = self.queues.iter().enumerate().map(|(q, queue)| {
            let (actor, last) = (q + 1, self.works.last(q + 1));
            let count = self.works.count(actor);
            let held = match queue.depth < DEEP {
                true => queue.depth.min(count).max(1),
                false => 1,
            };
            let first = (count + 1).saturating_sub(held);
            let ends = (first..=count).map(|n| left(self.works.get(self.works.nth(actor, n)).end));
            (self.works.clock(last).to_vec(), ends.collect())
        });
        let known = |token: &Token| {
            let record = self.works.get(token.0);
            Known {
                actor: record.actor,
                index: record.index,
                left: left(record.end),
                clock: self.works.clock(token.0).to_vec(),
            }
        };
        let timelines = self.bandwidth.timelines().chain(self.banks.timelines());
        Snapshot {
            counts: (0..self.clock.len()).map(|a| self.works.count(a)).collect(),
            clock: self.clock.clone(),
            now: self.now,
            queues: queues.collect(),
            tokens: tokens.iter().map(known).collect(),
            places: places.to_vec(),
            near: self.near_memory(),
            reserved: timelines.map(|t| t.from(self.now)).collect(),
            buffers: self.buffers.list.len(),
            held: self.buffers.live_bytes.clone(),
            account: self.account.clone(),
            accounts: self.queues.iter().map(|q| q.account.clone()).collect(),
        }
    }

    fn near_memory(&self) -> Vec<Near> {
        let mut near: Vec<Near> = Vec::new();
        for (number, region) in self.buffers.near_regions() {
            let writer = |code: &u32| match *code {
                0 => Writer::Fixed(0),
                code if code & WRITER_THREAD != 0 => Writer::Fixed(code),
                code => {
                    let record = self.works.get(code);
                    Writer::Work(record.actor, record.index)
                }
            };
            near.push(Near {
                region: number,
                granule: region.granule(),
                writers: region.writers().iter().map(writer).collect(),
                owners: region.owners().to_vec(),
                readers: region.readers().to_vec(),
            });
        }
        near
    }

    /// Whether a snapshot repeats an earlier one. Without `time`, times may differ: what order alone tells is the same.
    pub fn repeats(&self, a: &Snapshot, b: &Snapshot, time: bool) -> bool {
        if !self.semaphores.is_empty()
            || (a.buffers, &a.held) != (b.buffers, &b.held)
            || (a.tokens.len(), &a.places) != (b.tokens.len(), &b.places)
            || a.near.len() != b.near.len()
        {
            return false;
        }
        let counts = a.counts.iter().zip(&b.counts);
        let mut pairs: Vec<Pairs> = counts
            .map(|(a, b)| Pairs {
                period: b - a,
                kept: None,
                moved: None,
            })
            .collect();
        let clock = |pairs: &mut [Pairs], a: &[u32], b: &[u32]| {
            let mut both = pairs.iter_mut().zip(a.iter().zip(b));
            both.all(|(pairs, (a, b))| pairs.add(*a, *b))
        };
        if !clock(&mut pairs, &a.clock, &b.clock) {
            return false;
        }
        for (q, (before, after)) in a.queues.iter().zip(&b.queues).enumerate() {
            // A queue that could get full for the first time is not as it was.
            let fills = self.queues[q].depth < DEEP && a.counts[q + 1] < self.queues[q].depth;
            let used = pairs[q + 1].period > 0;
            if !clock(&mut pairs, &before.0, &after.0)
                || time && (used && fills || before.1 != after.1)
            {
                return false;
            }
        }
        for (a, b) in a.tokens.iter().zip(&b.tokens) {
            let same = a.actor == b.actor && pairs[a.actor as usize].add(a.index, b.index);
            if !same || time && a.left != b.left || !clock(&mut pairs, &a.clock, &b.clock) {
                return false;
            }
        }
        for (a, b) in a.near.iter().zip(&b.near) {
            if (a.region, a.granule, &a.owners) != (b.region, b.granule, &b.owners)
                || a.writers.len() != b.writers.len()
                || a.readers.len() != b.readers.len()
            {
                return false;
            }
            let mut last = None;
            for both in a.writers.iter().zip(&b.writers) {
                // Neighbours are mostly alike.
                if last == Some(both) {
                    continue;
                }
                let same = match both {
                    (Writer::Work(a, i), Writer::Work(b, j)) => {
                        a == b && pairs[*a as usize].add(*i, *j)
                    }
                    (a, b) => a == b,
                };
                if !same {
                    return false;
                }
                last = Some(both);
            }
            for ((actor, a), (other, b)) in a.readers.iter().zip(&b.readers) {
                let mut cells = a.iter().zip(b);
                if actor != other || !cells.all(|(a, b)| pairs[*actor].add(*a, *b)) {
                    return false;
                }
            }
        }
        !time || a.reserved == b.reserved
    }

    /// Notes the accesses of the period that begins; `again` if it is the second one, which is compared with the first.
    pub fn watch_period(&mut self, again: bool) {
        match &mut self.log {
            Some(log) if again => log.next = Some(0),
            log => {
                *log = Some(Box::new(Log {
                    used: Vec::new(),
                    next: None,
                    unlike: again,
                }));
            }
        }
    }

    /// Notes no more accesses.
    pub fn stop_watching(&mut self) {
        self.log = None;
    }

    /// Leaves out so many periods, which are as that since the snapshot `from`, the second of two that were watched; it
    /// repeats `from`. Gives whether they may be left out; nothing is changed otherwise.
    pub fn leave_out(&mut self, from: &Snapshot, periods: u64) -> bool {
        let Some(log) = self.log.take() else {
            return false;
        };
        let all = log.next == Some(log.used.len()) && !log.unlike;
        let Ok(times) = i64::try_from(periods) else {
            return false;
        };
        if !all || !self.options.track || self.options.trace || self.layers.any() {
            return false;
        }
        let far = log.used.iter().filter(|u| self.is_far(u.access.buffer));
        let far: Vec<&Used> = far.filter(|u| !u.access.is_empty()).collect();
        let Some(swept) = self.swept(&far, times) else {
            return false;
        };
        if !self.apart(&swept) || !self.complete(&far, &swept, times) {
            return false;
        }
        for ((region, buffer, actor, write), swept) in &swept {
            if !*write && *actor != THREAD {
                let index = self.works.count(*actor);
                let at = BufferId(*buffer);
                debug_assert_eq!(self.buffers.place(at).region, *region);
                let region = self.buffers.region(at);
                for (low, high) in &swept.ranges {
                    region.read_range(*low, *high, *actor, index);
                }
            }
        }
        let dense = self.write_dense(from, &far, &swept, times);
        let loose = |used: &&&Used| {
            let key = (used.access.buffer.0, used.actor);
            used.write && !dense.contains(&key)
        };
        for used in far.iter().filter(loose) {
            let code = match used.actor {
                THREAD => WRITER_THREAD | used.site.0,
                actor => self.works.last(actor),
            };
            let mut access = used.access.clone();
            for _ in 0..if used.moves == 0 { 1 } else { times } {
                access.offset += used.moves;
                self.record_write(&access, code);
            }
        }
        let time = (self.now - from.now).saturating_mul(periods);
        self.left_out = self.left_out.saturating_add(time);
        self.account.repeat(&from.account, periods);
        for (queue, before) in self.queues.iter_mut().zip(&from.accounts) {
            queue.account.repeat(before, periods);
        }
        true
    }

    /// Writes what lies in one range without a gap in each period, next to that of the period before; gives by whom and in
    /// which buffer.
    fn write_dense(
        &mut self,
        from: &Snapshot,
        far: &[&Used],
        swept: &BTreeMap<(u32, u32, usize, bool), Swept>,
        times: i64,
    ) -> Vec<(u32, usize)> {
        let mut done = Vec::new();
        for ((_, buffer, actor, write), swept) in swept {
            let own = |u: &&&Used| (u.access.buffer.0, u.actor, u.write) == (*buffer, *actor, true);
            let mut own = far.iter().filter(own);
            let Some(first) = own.next().filter(|_| *write && *actor != THREAD) else {
                continue;
            };
            let moves = first.moves;
            let [(low, high)] = swept.ranges[..] else {
                continue;
            };
            if moves == 0 || !own.all(|u| u.moves == moves) {
                continue;
            }
            // Where the period that ran lies: at one end.
            let far = moves.unsigned_abs().saturating_mul(times.unsigned_abs());
            let ran = match moves > 0 {
                true => (low, high - far),
                false => (low + far, high),
            };
            let id = self.works.last(*actor);
            let since = from.counts[*actor];
            let Machine { buffers, works, .. } = &mut *self;
            let region = buffers.region(BufferId(*buffer));
            let fresh = |code: u32| {
                let record = works.get(code);
                record.actor as usize == *actor && record.index > since
            };
            let whole = ran.1 - ran.0 >= moves.unsigned_abs()
                && region.divides(ran.0, ran.1)
                && region.divides(low, high)
                && region.written_by(ran.0, ran.1, |code| {
                    code != 0 && code & WRITER_THREAD == 0 && fresh(code)
                });
            if whole {
                region.write_range(low, high, id, *buffer);
                done.push((*buffer, *actor));
            }
        }
        done
    }

    /// Whether a buffer is in the first space.
    pub(crate) fn is_far(&self, buffer: BufferId) -> bool {
        self.buffers.get(buffer).space == 0
    }

    /// Where accesses lie in the period that ran and in those left out; `None` if one leaves its buffer.
    fn swept(&self, far: &[&Used], times: i64) -> Option<BTreeMap<(u32, u32, usize, bool), Swept>> {
        let mut out: BTreeMap<(u32, u32, usize, bool), Swept> = BTreeMap::new();
        for used in far {
            let (low, high) = used.access.extent()?;
            let end = i128::from(used.moves) * i128::from(times);
            let (low, high) = (low + end.min(0), high + end.max(0));
            let place = self.buffers.place(used.access.buffer);
            if low < 0 || high > i128::from(place.bytes) {
                return None;
            }
            let at = |n: i128| u64::try_from(n).ok().map(|n| n + place.offset);
            let key = (place.region, used.access.buffer.0, used.actor, used.write);
            let swept = out.entry(key).or_insert_with(|| Swept {
                ranges: Vec::new(),
                clock: used.clock.clone(),
            });
            swept.ranges.push((at(low)?, at(high)?));
            for (least, n) in swept.clock.iter_mut().zip(&used.clock) {
                *least = (*least).min(*n);
            }
        }
        for swept in out.values_mut() {
            swept.ranges.sort_unstable();
            let mut merged: Vec<Range> = Vec::new();
            for range in &swept.ranges {
                match merged.last_mut() {
                    Some(last) if range.0 <= last.1 => last.1 = last.1.max(range.1),
                    _ => merged.push(*range),
                }
            }
            swept.ranges = merged;
        }
        Some(out)
    }

    /// Whether what one writes is used by nobody else.
    fn apart(&self, swept: &BTreeMap<(u32, u32, usize, bool), Swept>) -> bool {
        let mut all: Vec<(u32, Range, usize, bool)> = Vec::new();
        for ((region, _, actor, write), swept) in swept {
            let ranges = swept.ranges.iter();
            all.extend(ranges.map(|range| (*region, *range, *actor, *write)));
        }
        all.sort_unstable();
        // How far those reach that begin before, by who and how.
        let mut reach: BTreeMap<(usize, bool), u64> = BTreeMap::new();
        let mut region = None;
        for (number, (low, high), actor, write) in all {
            if region != Some(number) {
                reach.clear();
                region = Some(number);
            }
            let other = |((a, w), end): (&(usize, bool), &u64)| {
                (*a, *w) != (actor, write) && (*w || write) && *end > low
            };
            if reach.iter().any(other) {
                return false;
            }
            let end = reach.entry((actor, write)).or_default();
            *end = (*end).max(high);
        }
        true
    }

    /// Whether all that was done before where accesses lie is complete before them, and what they read is written.
    fn complete(
        &mut self,
        far: &[&Used],
        swept: &BTreeMap<(u32, u32, usize, bool), Swept>,
        times: i64,
    ) -> bool {
        for ((_, buffer, actor, write), swept) in swept {
            let clock = &swept.clock[..];
            let fine = self.check_at(BufferId(*buffer), *actor, clock, |region, view| {
                let mut ranges = swept.ranges.iter();
                ranges.all(|(low, high)| region.check_range(*low, *high, *write, view))
            });
            if fine {
                continue;
            }
            // The range holds bytes that are not accessed: one by one.
            let own =
                |u: &&&Used| (u.access.buffer.0, u.actor, u.write) == (*buffer, *actor, *write);
            for used in far.iter().filter(own) {
                let mut access = used.access.clone();
                for _ in 0..times {
                    access.offset += used.moves;
                    let place = self.buffers.place(access.buffer).offset;
                    let f = self
                        .buffers
                        .region(access.buffer)
                        .cells(access.footprint(place));
                    let fine = self.check_at(access.buffer, *actor, &used.clock, |region, view| {
                        match *write {
                            true => region.check_write(&f, view).is_ok(),
                            false => region.check_read(&f, view).is_ok(),
                        }
                    });
                    if !fine {
                        return false;
                    }
                    if used.moves == 0 {
                        break;
                    }
                }
            }
        }
        true
    }

    fn check_at(
        &mut self,
        buffer: BufferId,
        actor: usize,
        clock: &[u32],
        check: impl FnOnce(&mut crate::region::Region, &View<'_>) -> bool,
    ) -> bool {
        // Work of a queue comes after all before it there.
        let mut clock = clock.to_vec();
        if actor != THREAD {
            clock[actor] = self.works.count(actor);
        }
        let Machine { buffers, works, .. } = self;
        let list = std::mem::take(&mut buffers.list);
        let number = buffer.0;
        let related = |owner: u32| crate::alloc::Buffers::related(&list, owner, number);
        let view = View {
            works,
            clock: &clock,
            code: u32::MAX,
            buffer: number,
            related: &related,
        };
        let fine = check(buffers.region(buffer), &view);
        buffers.list = list;
        fine
    }
}
