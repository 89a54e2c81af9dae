//! The time that processors work for a pass, on all threads.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cpu_time::ThreadTime;

/// Who the time of some work counts for, in nanoseconds.
pub(crate) type Account = Arc<AtomicU64>;

/// What a thread works on.
#[derive(Default)]
struct Work {
    account: Option<Account>,
    /// Time of other work that the thread did meanwhile: who waits for other threads takes up what they have not begun.
    other: Duration,
}

thread_local! {
    static NOW: RefCell<Work> = RefCell::default();
}

/// Who the work of this thread counts for, if its time is measured.
pub(crate) fn account() -> Option<Account> {
    NOW.with_borrow(|now| now.account.clone())
}

/// Does something; the time of this thread counts for one account.
pub(crate) fn measure<R>(account: Account, work: impl FnOnce() -> R) -> R {
    let new = Work {
        account: Some(account),
        other: Duration::ZERO,
    };
    let _running = Running {
        around: NOW.replace(new),
        start: ThreadTime::now(),
    };
    work()
}

/// Work that is measured until this is dropped, if it panics, too.
struct Running {
    around: Work,
    start: ThreadTime,
}

impl Drop for Running {
    fn drop(&mut self) {
        let all = self.start.elapsed();
        let mut around = std::mem::take(&mut self.around);
        around.other += all;
        let done = NOW.replace(around);
        if let Some(account) = done.account {
            let own = all.saturating_sub(done.other).as_nanos();
            account.fetch_add(u64::try_from(own).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }
}
