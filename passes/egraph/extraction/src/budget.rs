//! What may be spent on search, in steps and in whatever the caller counts, stage by stage.

/// Steps and shares of a stage of search and of all of it.
pub(crate) struct Budget<'a> {
    /// Steps taken.
    pub used: u64,
    /// What may be taken: steps, and which share of something else.
    limit: (u64, f64),
    /// Says which share of something else is spent; at 1 all is over.
    spent: Option<&'a dyn Fn() -> f64>,
    /// Where this stage ends.
    end: (u64, f64),
    is_over: bool,
}

impl<'a> Budget<'a> {
    pub(crate) fn new(max: u64, spent: Option<&'a dyn Fn() -> f64>) -> Budget<'a> {
        Budget {
            used: 0,
            limit: (max, 1.0),
            spent,
            end: (max, 1.0),
            is_over: max == 0,
        }
    }

    /// Begins a stage that may take one in `parts` of what is left.
    pub(crate) fn stage(&mut self, parts: u32) {
        let spent = self.spent.map_or(0.0, |spent| spent());
        let (max, all) = self.limit;
        let left = max.saturating_sub(self.used);
        let steps = self.used + left.div_ceil(u64::from(parts));
        let share = spent + (all - spent).max(0.0) / f64::from(parts);
        self.end = (steps, share);
        self.is_over = left == 0 || spent >= all;
    }

    /// Lets all stages from here on take one in `parts` of what is left together; gives the limit that [`Budget::widen`] takes.
    pub(crate) fn narrow(&mut self, parts: u32) -> (u64, f64) {
        let before = self.limit;
        self.stage(parts);
        self.limit = self.end;
        before
    }

    /// Gives stages back what they had before.
    pub(crate) fn widen(&mut self, limit: (u64, f64)) {
        self.limit = limit;
        self.stage(1);
    }

    /// Pays for `steps`; whether there may be more.
    pub(crate) fn pay(&mut self, steps: u64) -> bool {
        self.used = self.used.saturating_add(steps);
        let (end, share) = self.end;
        self.is_over |= self.used >= end;
        self.is_over |= self.spent.is_some_and(|spent| spent() >= share);
        self.lasts()
    }

    /// Whether this stage may take so many steps.
    pub(crate) fn has(&self, steps: u64) -> bool {
        self.end.0.saturating_sub(self.used) >= steps
    }

    /// Whether nothing is left for any stage.
    pub(crate) fn is_spent(&self) -> bool {
        let (max, all) = self.limit;
        self.used >= max || self.spent.is_some_and(|spent| spent() >= all)
    }

    /// Whether this stage may go on.
    pub(crate) fn lasts(&self) -> bool {
        !self.is_over
    }
}
