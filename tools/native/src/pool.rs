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

/// How often a thread looks for work before it sleeps: about as long as waking one takes.
const LOOKS: usize = 2000;

/// Threads beside the one that makes it, which calls the library.
pub struct Pool {
    state: Arc<State>,
    sleepers: Vec<(Arc<AtomicBool>, Thread)>,
}

/// The work that there is.
struct State {
    /// A number of the work in the upper half, the next task in the lower one: a task is taken by adding one, which fails
    /// where the work has changed.
    next: AtomicU64,
    tasks: AtomicU64,
    done: AtomicU64,
    task: AtomicPtr<c_void>,
    argument: AtomicPtr<c_void>,
}

impl State {
    /// Does tasks of the present work until there are none; its number.
    fn work(&self) -> u64 {
        loop {
            let next = self.next.load(Ordering::Acquire);
            let (work, index) = (next >> 32, next & u64::from(u32::MAX));
            if index >= self.tasks.load(Ordering::Relaxed) {
                return work;
            }
            let (task, argument) = (&self.task, &self.argument);
            let (task, argument) = (
                task.load(Ordering::Relaxed),
                argument.load(Ordering::Relaxed),
            );
            let taken =
                self.next
                    .compare_exchange(next, next + 1, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_ok() {
                // SAFETY: the work is what it was when its task was read, since no other begins before this one is done;
                // its caller says that it may be run so.
                unsafe {
                    let task = std::mem::transmute::<*mut c_void, Task>(task);
                    task(argument, index as i64);
                }
                self.done.fetch_add(1, Ordering::Release);
            }
        }
    }
}

impl Pool {
    /// So many threads with the one that calls.
    pub fn new(count: usize) -> Self {
        let state = Arc::new(State {
            next: AtomicU64::new(0),
            tasks: AtomicU64::new(0),
            done: AtomicU64::new(0),
            task: AtomicPtr::new(null_mut()),
            argument: AtomicPtr::new(null_mut()),
        });
        let sleepers = (1..count).map(|_| {
            let (state, sleeps) = (state.clone(), Arc::new(AtomicBool::new(false)));
            let own = sleeps.clone();
            // They end with the program.
            let made = std::thread::spawn(move || serve(&state, &own));
            (sleeps, made.thread().clone())
        });
        Self {
            sleepers: sleepers.collect(),
            state,
        }
    }

    /// As a function of a library takes it; the pool must live as long.
    pub fn threads(&self) -> Threads {
        Threads {
            count: self.sleepers.len() as i64 + 1,
            parallel_for,
            context: std::ptr::from_ref(self).cast_mut().cast(),
        }
    }

    fn run(&self, task: Task, count: u64, argument: *mut c_void) {
        let state = &self.state;
        // No task is left: nobody reads these now.
        state.done.store(0, Ordering::Relaxed);
        state.task.store(task as *mut c_void, Ordering::Relaxed);
        state.argument.store(argument, Ordering::Relaxed);
        let next = state.next.load(Ordering::Relaxed);
        // Those that look at the old work find no task in it, whatever count they see.
        let begin = ((next >> 32) + 1) << 32;
        let none = next | u64::from(u32::MAX);
        state.next.store(none, Ordering::Release);
        state.tasks.store(count, Ordering::Release);
        state.next.store(begin, Ordering::Release);
        for (sleeps, thread) in &self.sleepers {
            if sleeps.swap(false, Ordering::AcqRel) {
                thread.unpark();
            }
        }
        state.work();
        let mut looks = 0;
        while state.done.load(Ordering::Acquire) < count {
            looks += 1;
            match looks < LOOKS {
                true => std::hint::spin_loop(),
                false => std::thread::yield_now(),
            }
        }
    }
}

/// Works, looks for work, sleeps.
fn serve(state: &State, sleeps: &AtomicBool) {
    loop {
        let known = state.work();
        let fresh = || state.next.load(Ordering::Acquire) >> 32 != known;
        let mut looks = 0;
        while !fresh() {
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
                continue;
            }
            sleeps.store(true, Ordering::SeqCst);
            if !fresh() {
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
