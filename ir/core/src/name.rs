//! Interned strings: op names, attribute keys, symbol names, value name hints.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering as Atomic};

use crate::intern::{Cell, Local, Object, Store, Table, stable_hash};

struct Text {
    text: Box<str>,
    /// Which name it is: what tables beside the names are indexed by. Never printed, and no
    /// order: it depends on which thread met a name first.
    index: u32,
}

impl Object for Text {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// An interned string: `Copy`, compared by identity, ordered by its text.
#[derive(Clone, Copy)]
pub struct Name(&'static Cell<Text>);

static NAMES: Table<Text> = Table::new();
thread_local! { static LOCAL: Local<Text> = Local::new(); }

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
impl Eq for Text {}

impl Name {
    /// The name with this text.
    pub fn new(text: &str) -> Self {
        let hash = stable_hash(text);
        LOCAL.with(|local| {
            if let Some(cell) = local.find_by(hash, |cell| &*cell.object.text == text) {
                return Self(cell);
            }
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let value = Text {
                text: text.into(),
                index: 0,
            };
            Self(
                local.intern(&NAMES, hash, value, |store: &Store, mut text| {
                    text.index = NEXT.fetch_add(1, Atomic::Relaxed);
                    store.keep(text)
                }),
            )
        })
    }

    /// The text, which lives as long as the process.
    pub fn as_str(self) -> &'static str {
        &self.0.object.text
    }

    /// The part before the first dot: the dialect of an op name, `""` where there is no dot.
    pub fn dialect(self) -> &'static str {
        self.as_str().split_once('.').map_or("", |(head, _)| head)
    }

    /// Which name it is, by the order in which this process met them.
    pub(crate) fn index(self) -> u32 {
        self.0.object.index
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}
impl Eq for Name {}
impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}
impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}
impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}
impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        if self == other {
            Ordering::Equal
        } else {
            self.as_str().cmp(other.as_str())
        }
    }
}
impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}
impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}
impl From<&String> for Name {
    fn from(text: &String) -> Self {
        Self::new(text)
    }
}
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}
