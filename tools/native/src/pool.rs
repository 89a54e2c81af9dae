//! Threads that share the tasks of a library's functions.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::thread::Thread;

/// What a library calls for each task: its argument, and the number of the task.
type Task = unsafe extern "C" fn(*mut c_void, i64);

/// What a function of a library takes.
#[repr(C)]
pub struct Threads {
    count: i64,
    parallel_for: unsafe extern "C" fn(*mut c_void, Task, i64, *mut c_void),
    context: *mut c_void,
}

/// How often a thread looks for work before it sleeps: about a millisecond, as long as a large nest that is not shared.
const LOOKS: usize = 50_000;

/// Threads beside the one that makes it, which calls the library.
///
/// Each has a *place* of its own, a line of the cache that goes from one processor to the other and back once for each
/// piece of work. A thread that sleeps is woken; what it has not begun when the one that calls is ready, that one does.
pub struct Pool {
    places: Vec<Arc<Place>>,
    threads: Vec<Thread>,
    sleeps: Vec<Arc<AtomicBool>>,
}

/// Where a thread is told what to do.
#[repr(align(128))]
struct Place {
    /// Four times the number of the work, and how far it is.
    state: AtomicU64,
    task: AtomicPtr<c_void>,
    argument: AtomicPtr<c_void>,
    /// The first task, how many tasks there are, and how many threads divide them.
    first: AtomicU64,
    count: AtomicU64,
    step: AtomicU64,
}

/// How far a work is; nothing is left to do of the one before.
const IDLE: u64 = 0;
const TOLD: u64 = 1;
const BEGUN: u64 = 2;

impl Place {
    fn new() -> Self {
        Self {
            state: AtomicU64::new(IDLE),
            task: AtomicPtr::new(null_mut()),
            argument: AtomicPtr::new(null_mut()),
            first: AtomicU64::new(0),
            count: AtomicU64::new(0),
            step: AtomicU64::new(1),
        }
    }

    /// Does what was told, unless another thread has begun it.
    fn work(&self) {
        let state = self.state.load(Ordering::Acquire);
        if state & 3 != TOLD {
            return;
        }
        let begun = state - TOLD + BEGUN;
        let taken = self
            .state
            .compare_exchange(state, begun, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_err() {
            return;
        }
        let argument = self.argument.load(Ordering::Relaxed);
        // SAFETY: what is told is a task, and nothing else is told before this is done.
        let task =
            unsafe { std::mem::transmute::<*mut c_void, Task>(self.task.load(Ordering::Relaxed)) };
        let [first, count, step] =
            [&self.first, &self.count, &self.step].map(|n| n.load(Ordering::Relaxed));
        for index in (first..count).step_by(step.max(1) as usize) {
            // SAFETY: its caller says that it may be run so.
            unsafe { task(argument, index as i64) };
        }
        self.state.store(begun - BEGUN + 4, Ordering::Release);
    }
}

impl Pool {
    /// So many threads with the one that calls.
    pub fn new(count: usize) -> Self {
        let mut pool = Self {
            places: Vec::new(),
            threads: Vec::new(),
            sleeps: Vec::new(),
        };
        for _ in 1..count {
            let (place, sleeps) = (Arc::new(Place::new()), Arc::new(AtomicBool::new(false)));
            let (own, rests) = (place.clone(), sleeps.clone());
            // They end with the program.
            let made = std::thread::spawn(move || serve(&own, &rests));
            pool.places.push(place);
            pool.sleeps.push(sleeps);
            pool.threads.push(made.thread().clone());
        }
        pool
    }

    /// As a function of a library takes it; the pool must live as long.
    pub fn threads(&self) -> Threads {
        Threads {
            count: self.places.len() as i64 + 1,
            parallel_for,
            context: std::ptr::from_ref(self).cast_mut().cast(),
        }
    }

    fn run(&self, task: Task, count: u64, argument: *mut c_void) {
        let step = self.places.len() as u64 + 1;
        let told = self.places.iter().take(count.saturating_sub(1) as usize);
        for ((k, place), (sleeps, thread)) in
            told.enumerate().zip(self.sleeps.iter().zip(&self.threads))
        {
            place.task.store(task as *mut c_void, Ordering::Relaxed);
            place.argument.store(argument, Ordering::Relaxed);
            place.first.store(k as u64 + 1, Ordering::Relaxed);
            place.count.store(count, Ordering::Relaxed);
            place.step.store(step, Ordering::Relaxed);
            let state = place.state.load(Ordering::Relaxed);
            place.state.store(state + TOLD, Ordering::SeqCst);
            if sleeps.load(Ordering::SeqCst) && sleeps.swap(false, Ordering::SeqCst) {
                thread.unpark();
            }
        }
        for index in (0..count).step_by(step as usize) {
            // SAFETY: its caller says that it may be run so.
            unsafe { task(argument, index as i64) };
        }
        for place in &self.places {
            place.work();
            let mut looks = 0;
            while place.state.load(Ordering::Acquire) & 3 != IDLE {
                looks += 1;
                match looks < LOOKS {
                    true => std::hint::spin_loop(),
                    false => std::thread::yield_now(),
                }
            }
        }
    }
}

/// Works, looks for work, sleeps.
fn serve(place: &Place, sleeps: &AtomicBool) {
    let told = |order| place.state.load(order) & 3 == TOLD;
    loop {
        place.work();
        let mut looks = 0;
        while !told(Ordering::Acquire) {
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
                continue;
            }
            sleeps.store(true, Ordering::SeqCst);
            if !told(Ordering::SeqCst) {
                std::thread::park();
            }
            sleeps.store(false, Ordering::SeqCst);
            looks = 0;
        }
    }
}

unsafe extern "C" fn parallel_for(
    context: *mut c_void,
    task: Task,
    count: i64,
    argument: *mut c_void,
) {
    // SAFETY: the library gives back what it was given, a pool that lives.
    let pool = unsafe { &*context.cast::<Pool>() };
    pool.run(task, count.max(0) as u64, argument);
}
