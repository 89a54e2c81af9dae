//! A machine that keeps what is issued, and runs none of it.

use super::{Machine, Options};
use crate::fault::{Result, Site};
use crate::recording::{Recording, Step};
use crate::spec::MachineSpec;
use crate::work::Token;

impl Machine<'_> {
    /// A machine that keeps what is issued, at most `limit` steps, and runs none of it: tokens
    /// are names only, nothing takes time, and no order is checked.
    pub fn recorder(spec: MachineSpec, limit: u64) -> Result<Self> {
        let options = Options {
            data: false,
            ..Options::default()
        };
        let mut machine = Machine::new(spec, options)?;
        let recording = Recording::new(&machine.spec, machine.queues.len(), limit);
        machine.recording = Some(Box::new(recording));
        Ok(machine)
    }

    /// What a recorder has kept.
    pub fn into_recording(self) -> Option<Recording> {
        let mut recording = *self.recording?;
        recording.name(self.sites, self.labels);
        Some(recording)
    }

    /// Whether it keeps what is issued instead of running it.
    pub fn is_recorder(&self) -> bool {
        self.recording.is_some()
    }

    /// Whether a recorder has reached its limit.
    pub fn is_full(&self) -> bool {
        self.recording.as_ref().is_some_and(|r| r.is_full())
    }

    /// Puts a note between the steps of a recorder.
    pub fn note(&mut self, note: u32) -> Result<()> {
        match &mut self.recording {
            Some(recording) => recording.plain(Step::Note(note), Site(0)),
            None => Ok(()),
        }
    }

    /// Notes a period that is watched, or so many that are left out, in a recorder. `tokens` are those at hand.
    pub fn note_period(
        &mut self,
        site: Site,
        left_out: Option<u64>,
        again: bool,
        tokens: &[Token],
    ) -> Result<()> {
        let step = left_out.map_or(Step::Period(again), Step::LeftOut);
        match &mut self.recording {
            Some(recording) => recording.rounds(step, site, tokens),
            None => Ok(()),
        }
    }
}
