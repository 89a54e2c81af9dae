//! Estimated cycles by cause, and what they are together.

/// Of the cycles of what runs beside the longest, one in this many is not hidden.
pub(super) const HIDDEN: i64 = 16;

/// Estimated cycles by cause.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// Of the engine that loads.
    pub load: i64,
    /// Of the engine that stores.
    pub store: i64,
    /// Before anything is computed.
    pub first: i64,
    /// Of them those beside which stages compute that need none of them.
    pub hidden: i64,
    /// After everything is.
    pub last: i64,
    /// Behind the first loads, where those of a trip take longer than the trip before computes.
    pub behind: i64,
    /// Of units, and of the thread that computes elements.
    pub compute: i64,
    /// Of them those of one trip of all loops: behind the last load.
    pub trip: i64,
    /// Of them those of one tile of the results: before the first one is stored.
    pub tile: i64,
    /// Of them those of the thread behind a unit: it starts no transfer meanwhile.
    pub thread: i64,
    /// Of the engine that loads, what was started before the thread computes.
    pub ahead: i64,
    /// Transfers that the thread starts.
    pub starts: i64,
    /// Of the thread, to start transfers and calls.
    pub issue: i64,
    /// Transfers that wait for a tile to be used, and the reverse.
    pub exposed: i64,
    /// What segments take longer that run one after the other.
    pub apart: i64,
    /// What is taken off loads where several stages read one tensor that stays, though none of them loads it.
    pub taken_off: i64,
    /// Whether all is done one after the other.
    pub in_order: bool,
    /// How many cycles more each one of an engine counts as where plans are compared.
    pub worth: i64,
}

/// What nests take by the estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// Cycles.
    pub cycles: i64,
    /// The same with what cycles of engines are worth, by which programs are compared.
    pub weighed: i64,
}

impl Cost {
    /// Adds what another nest costs that runs with this one, one after the other.
    pub fn add(&mut self, other: &Cost) {
        let pairs = [
            (&mut self.load, other.load),
            (&mut self.store, other.store),
            (&mut self.first, other.first),
            (&mut self.hidden, other.hidden),
            (&mut self.last, other.last),
            (&mut self.compute, other.compute),
            (&mut self.behind, other.behind),
            (&mut self.trip, other.trip),
            (&mut self.tile, other.tile),
            (&mut self.thread, other.thread),
            (&mut self.ahead, other.ahead),
            (&mut self.issue, other.issue),
            (&mut self.starts, other.starts),
            (&mut self.exposed, other.exposed),
            (&mut self.apart, other.apart),
            (&mut self.taken_off, other.taken_off),
        ];
        for (sum, cycles) in pairs {
            *sum = sum.saturating_add(cycles);
        }
        self.in_order |= other.in_order;
        self.worth = self.worth.max(other.worth);
    }

    /// Divides what units compute among cores; so many cycles are the thread's, which is one.
    pub fn divide(&mut self, by_thread: i64, shared: impl Fn(i64) -> i64) {
        let on_units = (self.compute - by_thread).max(0);
        if on_units > 0 {
            let parts = [&mut self.trip, &mut self.tile, &mut self.ahead];
            parts.into_iter().for_each(|own| *own = shared(*own));
        }
        self.compute = (self.compute - on_units).saturating_add(shared(on_units));
    }

    /// With what was taken off loads.
    pub fn in_full(mut self) -> Self {
        let more = std::mem::take(&mut self.taken_off);
        self.load = self.load.saturating_add(more);
        self.first = self.first.saturating_add(more);
        self
    }

    /// Cycles of the first loads that units wait for.
    pub fn waited(&self) -> i64 {
        self.first.saturating_sub(self.hidden).max(0)
    }

    /// Cycles of the engines.
    pub fn moved(&self) -> i64 {
        self.load.saturating_add(self.store)
    }

    /// Until all is done. What runs beside the longest is hidden but for a part: queues fill, and
    /// share the spaces. So of divisions that the unit binds, the one that moves less is taken. With what cycles of
    /// engines are worth, by which plans are compared.
    pub fn total(&self, scalar: i64) -> i64 {
        // The thread that starts transfers does not compute meanwhile: many small tiles are no gain.
        let starts = self.starts.saturating_mul(scalar);
        if self.in_order {
            // Nothing is waited for.
            return self.work().saturating_add(starts);
        }
        let parts = [starts, self.first, self.last, self.exposed, self.apart];
        parts.into_iter().fold(self.work(), i64::saturating_add)
    }

    /// What it takes, as near as is known: units wait for the first loads, and the last store for them; after the last
    /// load there is a trip to compute, and before the first store a tile. By this programs are priced; of divisions
    /// that it finds alike, [`total`](Self::total) takes those that load less at once.
    pub fn price(&self, scalar: i64) -> i64 {
        if self.in_order {
            let starts = self.starts.saturating_mul(scalar);
            return self.taken().saturating_add(starts);
        }
        let sum = |parts: &[i64]| parts.iter().copied().fold(0, i64::saturating_add);
        let (load, longest) = (self.loading(), self.longest());
        let units = self.compute.max(self.issue);
        let first = self.waited();
        let ends = sum(&[units, first, self.behind, self.last])
            .max(sum(&[load, self.trip, self.last]))
            .max(sum(&[first, self.tile, self.store]))
            .saturating_sub(longest);
        let beside = sum(&[self.taken(), ends, self.exposed, self.apart]);
        // Never longer than one after the other.
        let serial = sum(&[self.compute, load, self.store, self.issue]);
        let starts = self.starts.saturating_mul(scalar);
        beside.min(serial).saturating_add(starts)
    }

    /// Cycles of the engine that loads, with those that it waits for the thread: what the thread has started ends while
    /// it computes.
    fn loading(&self) -> i64 {
        let idle = self.thread.saturating_sub(self.ahead).max(0);
        self.load.saturating_add(idle)
    }

    /// Of what is busy longest.
    fn longest(&self) -> i64 {
        let longest = self.compute.max(self.loading()).max(self.store);
        longest.max(self.issue)
    }

    /// The part of [`total`](Self::total) that does not come from waits and starts.
    pub(super) fn work(&self) -> i64 {
        let more = self.moved().saturating_mul(self.worth);
        self.taken().saturating_add(more)
    }

    /// The same in cycles that it takes.
    pub(crate) fn taken(&self) -> i64 {
        let moved = self.moved().saturating_add(self.issue);
        let all = self.compute.saturating_add(moved);
        if self.in_order {
            return all;
        }
        let longest = self.longest();
        let beside = all.saturating_sub(longest).max(0);
        longest.saturating_add(beside / HIDDEN)
    }
}
