//! What bounds of divisions say beside what chains are found to take: tests hold one against the other.

use std::cell::RefCell;

/// A division of a root that a chain was found for.
#[derive(Clone, Debug)]
pub struct Bounded {
    /// Cycles of the chain at the least, before any of its producers was planned; 0 where nothing was known.
    pub least: i64,
    /// Cycles of the chain that was found.
    pub found: i64,
    /// Whether a processor does one thing after the other.
    pub in_order: bool,
    /// The tile of each iterator of the root, and the order of the loops.
    pub division: String,
}

thread_local! {
    static TOLD: RefCell<Option<Vec<Bounded>>> = const { RefCell::new(None) };
}

/// Does something, and tells of each division of a root that it finds a chain for on this thread. Meanwhile no division is passed
/// over for its bound, so that those are told of, too, for which it decides, and no search ends because many in a row bring nothing:
/// what is found is no slower.
pub fn bounds<R>(work: impl FnOnce() -> R) -> (R, Vec<Bounded>) {
    let before = TOLD.replace(Some(Vec::new()));
    let done = work();
    (done, TOLD.replace(before).unwrap_or_default())
}

/// Whether someone asks.
pub(super) fn asked() -> bool {
    TOLD.with_borrow(Option::is_some)
}

/// Tells of a division, if someone asks.
pub(super) fn tell(made: impl FnOnce() -> Bounded) {
    TOLD.with_borrow_mut(|told| {
        if let Some(told) = told {
            told.push(made());
        }
    });
}
