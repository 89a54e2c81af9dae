//! Interned strings: op names, attribute keys, symbol names, value name hints.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::OnceLock;

use crate::intern::{Cell, Local, Object, Table, stable_hash};
use crate::op::OpInfo;

struct Text {
    text: Box<str>,
    /// What the framework knows of the op of this name, once a dialect that holds it is loaded.
    info: OnceLock<&'static OpInfo>,
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
            let value = Text {
                text: text.into(),
                info: OnceLock::new(),
            };
            Self(local.intern(&NAMES, hash, value, Box::new))
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

    /// The op registered under this name.
    pub fn info(self) -> Option<&'static OpInfo> {
        self.0.object.info.get().copied()
    }

    /// Registers what is known of the op of this name; the first registration stays.
    pub(crate) fn set_info(self, info: impl FnOnce() -> &'static OpInfo) -> &'static OpInfo {
        self.0.object.info.get_or_init(info)
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
