//! Ids: `Copy` keys of operations, values, blocks and regions, tagged with their arena.
//!
//! An id is valid only in the [`Ir`](crate::Ir) that made it; use in another one is caught.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use slotmap::Key;

/// Which arena an id belongs to. Tags are never printed and never compared by order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Tag(NonZeroU32);

impl Tag {
    pub(crate) fn fresh() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        loop {
            if let Some(tag) = NonZeroU32::new(NEXT.fetch_add(1, Ordering::Relaxed)) {
                return Tag(tag);
            }
        }
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $id:ident, $key:ident, $sigil:literal;)*) => {$(
        slotmap::new_key_type! { pub(crate) struct $key; }

        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $id {
            key: $key,
            tag: Tag,
        }
        impl $id {
            #[inline]
            pub(crate) fn new(key: $key, tag: Tag) -> Self {
                Self { key, tag }
            }
            /// The key, once it is sure that it belongs to the arena of this tag.
            #[inline]
            #[track_caller]
            pub(crate) fn key(self, tag: Tag) -> $key {
                assert!(self.is_of(tag), "{self} belongs to another Ir");
                self.key
            }
            #[inline]
            pub(crate) fn is_of(self, tag: Tag) -> bool {
                self.tag == tag
            }
            /// A number that is small, unique in its arena while it lives, and the same in every
            /// run that makes the same edits.
            #[inline]
            pub fn index(self) -> usize {
                (self.key.data().as_ffi() & 0xFFFF_FFFF) as usize
            }
        }
        impl PartialOrd for $id {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }
        impl Ord for $id {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                self.key.cmp(&other.key)
            }
        }
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($sigil, "{}"), self.index())
            }
        }
        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}

ids! {
    /// An operation.
    OpId, OpKey, "op";
    /// A value: the result of an operation or the argument of a block.
    Value, ValueKey, "%";
    /// A block.
    BlockId, BlockKey, "^bb";
    /// A region.
    RegionId, RegionKey, "region";
}
