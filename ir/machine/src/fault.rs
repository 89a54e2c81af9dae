//! What can be wrong with a command stream, told with both operations by name.

use crate::work::Label;
use std::fmt;

/// An operation of the program: its name and place, kept by the machine.
/// Made by [`Machine::site`](crate::Machine::site).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site(pub(crate) u32);

impl Site {
    /// The site of a number.
    pub fn numbered(number: usize) -> Self {
        Self(number as u32)
    }
    /// Its number: sites are numbered from 0 as they are made.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Result of a step of the machine. After a fault the machine's state is not meaningful.
pub type Result<T> = std::result::Result<T, Box<Fault>>;

/// The kinds of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// Two uses of a byte, one a write, that nothing orders.
    Race,
    /// A read of bytes never written.
    Uninitialised,
    /// A use of a buffer's byte that holds the data of another buffer at the same address.
    Overlap,
    /// A use of a buffer after its release, or a second release.
    UseAfterFree,
    /// A release of a buffer that started work may still use.
    FreedInUse,
    /// An access outside its buffer.
    OutOfBounds,
    /// A space has no room for a buffer.
    OutOfSpace,
    /// A placement outside the space or not aligned.
    Placement,
    /// A transfer its engine cannot do, or a use in the wrong space.
    Transfer,
    /// Started work that may still run when the function returns.
    NotWaited,
    /// Work or the thread waits for what can never happen.
    Deadlock,
    /// A semaphore with two releasing or two acquiring queues.
    Semaphore,
    /// The effect of an operation failed.
    Effect,
    /// The description of the machine is wrong.
    Spec,
    /// A command stream is longer than the recording may be.
    Limit,
}

/// One fault: the operation it shows at, the broken fact, and the other operations involved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// The operation that the fault shows at.
    pub site: Option<Site>,
    /// The broken fact, naming operations and buffers.
    pub message: String,
    /// Other operations involved, and what would mend it.
    pub notes: Vec<Note>,
}

/// A remark below a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The operation it is about.
    pub site: Option<Site>,
    /// The remark.
    pub text: String,
}

impl Fault {
    pub(crate) fn new(kind: FaultKind, site: Option<Site>, message: String) -> Box<Fault> {
        Box::new(Fault {
            kind,
            site,
            message,
            notes: Vec::new(),
        })
    }

    pub(crate) fn note(mut self: Box<Self>, site: Option<Site>, text: String) -> Box<Fault> {
        self.notes.push(Note { site, text });
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)?;
        for note in &self.notes {
            write!(f, "\n  note: {}", note.text)?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}

/// Names and places of operations, by site, and what layer each is of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sites(Vec<(String, String)>, Vec<Option<Label>>);

impl Sites {
    pub(crate) fn add(&mut self, op: &str, location: &str) -> Site {
        self.0.push((op.to_string(), location.to_string()));
        Site(self.0.len() as u32 - 1)
    }

    pub(crate) fn put_in_layer(&mut self, site: Site, layer: Label) {
        let at = site.0 as usize;
        if self.1.len() <= at {
            self.1.resize(at + 1, None);
        }
        self.1[at] = Some(layer);
    }

    /// The layer it is of.
    pub(crate) fn layer(&self, site: Site) -> Option<Label> {
        self.1.get(site.0 as usize).copied().flatten()
    }

    /// Its name and its place.
    pub(crate) fn parts(&self, site: Site) -> (&str, &str) {
        let (op, location) = &self.0[site.0 as usize];
        (op, location)
    }

    /// The operation for a message: its name quoted, and its place if it has one.
    pub(crate) fn show(&self, site: Site) -> String {
        let (op, location) = &self.0[site.0 as usize];
        match location.as_str() {
            "" => format!("`{op}`"),
            at => format!("`{op}` ({at})"),
        }
    }
}
