//! Categories of remarks: what the compiler did otherwise than a machine could do best, by a name
//! that `--fail-on` takes.

/// No unit computes an operator; the thread does, element by element.
pub const NO_UNIT: &str = "no-unit";
/// The thread moves a tile, or a part of one, that no engine can.
pub const THREAD_TRANSFER: &str = "thread-transfer";
/// The thread copies a tile between calls of units.
pub const THREAD_COPY: &str = "thread-copy";
/// A transfer became several, for its engine has too few dimensions.
pub const SPLIT_TRANSFER: &str = "split-transfer";
/// A buffer has one slot, where its plan has several: what is moved into it waits for the tile before.
pub const FEWER_SLOTS: &str = "fewer-slots";
/// A load starts later than planned, as memory does not hold what it loads until then.
pub const LATE_LOAD: &str = "late-load";
/// More transfers are started at once than their queue holds, so the thread waits.
pub const QUEUE_FULL: &str = "queue-full";
/// An operator that could be computed inside the loops of its reader is a nest of its own.
pub const SINGLE_NEST: &str = "single-nest";
/// A tensor between two nests goes to far memory and back.
pub const FAR_TENSOR: &str = "far-tensor";
/// The thread waits for each start at once, so nothing overlaps.
pub const SYNCHRONOUS: &str = "synchronous";
/// A function uses no intrinsic of a unit.
pub const UNUSED_UNIT: &str = "unused-unit";
/// A function has no buffer in a space.
pub const UNUSED_SPACE: &str = "unused-space";
/// Native code calls the C library for each element of a function.
pub const LIBRARY_CALL: &str = "library-call";

/// What fills a memory and why: a report that is asked for, of nothing that was done otherwise than it could be.
pub const MEMORY: &str = "memory-report";

/// All categories that a remark can be an error by.
pub const ALL: [&str; 13] = [
    FEWER_SLOTS,
    LATE_LOAD,
    LIBRARY_CALL,
    NO_UNIT,
    QUEUE_FULL,
    SINGLE_NEST,
    FAR_TENSOR,
    SPLIT_TRANSFER,
    SYNCHRONOUS,
    THREAD_COPY,
    THREAD_TRANSFER,
    UNUSED_SPACE,
    UNUSED_UNIT,
];
