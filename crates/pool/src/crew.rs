//! The threads: one call's task goes in, its parts are run by the workers and the caller; it never keeps a task beyond
//! its call.
//!
//! # Why no thread can run a part of another call, or use a task that is gone
//!
//! `unclaimed` counts the parts of the current call that nobody has claimed, `unfinished` those that have not ended. A
//! caller, holding `turn`, writes `job` and `unfinished`, and then publishes the call with one store to `unclaimed`.
//!
//! * A thread claims a part by counting `unclaimed` down by compare-exchange, and only *then* reads `job`. Between its
//!   claim and its report to `unfinished` the call cannot end, so no other call can begin, and `job` is the task that
//!   the claim belongs to. A worker that slept through any number of calls between reading `unclaimed` and exchanging
//!   it either fails, or claims a part of the call that is current now, and reads that call's `job`: there is no
//!   state from an older call that it could carry over.
//! * What it reads is there: the exchange acquires, and it reads the caller's store or the end of a chain of exchanges
//!   that began with it, which is a release sequence.
//! * A caller returns after it read 0 from `unfinished` (acquire; reports release). By then every claimed part has been
//!   reported, so no thread holds a reference to the task, and everything that parts wrote is visible to the caller.
//!
//! # Why no thread sleeps for ever
//!
//! Workers are never waited for unless they hold a part, and a thread that holds a part does not sleep. A worker that
//! misses a wake-up would cost speed only; it does not miss one: it counts itself in `asleep` and then reads
//! `unclaimed`, the caller writes `unclaimed` and then reads `asleep`, all in one total order (`SeqCst`), so one of the
//! two sees the other. The caller waits for the last report by the same scheme with `caller_asleep` and `unfinished`.
//! Both re-check under the mutex that the waking side takes before it notifies.

use std::any::Any;
use std::cell::Cell;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Turns of a spin loop before a thread sleeps: 30 to 100 microseconds, depending on the processor's pause.
const SPINS: u32 = 2000;
/// The same with more threads than processors, where a spinning thread keeps a working one waiting.
const SPINS_WHEN_CROWDED: u32 = 20;

type Payload = Box<dyn Any + Send>;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is running a part of some call.
pub(crate) fn inside_a_part() -> bool {
    INSIDE.get()
}

/// One call, in its caller's frame.
struct Job<'a> {
    f: &'a (dyn Fn(usize) + Sync),
    parts: usize,
}

/// A value on cache lines of its own.
#[repr(align(128))]
struct Alone<T>(T);

/// What caller and workers share.
struct Shared {
    unclaimed: Alone<AtomicUsize>,
    unfinished: Alone<AtomicUsize>,
    /// The task of the current call; null or dangling between calls.
    job: AtomicPtr<Job<'static>>,
    /// The first panic of the current call.
    panic: Mutex<Option<Payload>>,
    spins: u32,
    stop: AtomicBool,
    asleep: AtomicUsize,
    caller_asleep: AtomicBool,
    /// Taken to sleep and to wake; guards no data.
    bed: Mutex<()>,
    work: Condvar,
    done: Condvar,
}

/// Threads that wait for a task, all for the same.
pub(crate) struct Crew {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Held by the caller for the length of a call.
    turn: Mutex<()>,
}

impl Crew {
    /// Starts `workers` threads, or as many as the system allows.
    pub(crate) fn new(workers: usize) -> Crew {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let spins = if workers < processors { SPINS } else { SPINS_WHEN_CROWDED };
        let shared = Arc::new(Shared::new(spins));
        let start = |_| {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name("kinglet-worker".into()).spawn(move || shared.serve()).ok()
        };
        let workers = (0..workers).map_while(start).collect();
        Crew { shared, workers, turn: Mutex::new(()) }
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Runs `f(part)` for each part in `0..parts` on all threads, `parts` being at least 1; carries a panic of `f` to
    /// the caller. The calling thread must not be inside a part.
    pub(crate) fn run(&self, parts: usize, f: &(dyn Fn(usize) + Sync)) {
        let turn = lock(&self.turn);
        let job = Job { f, parts };
        self.shared.publish(&job);
        self.shared.work_through();
        self.shared.wait_for_the_last();
        // From here on no thread refers to `job`.
        let panic = lock(&self.shared.panic).take();
        drop(turn);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.wake(&self.shared.work);
        for worker in self.workers.drain(..) {
            worker.join().expect("a worker catches the panics of its parts");
        }
    }
}

impl Shared {
    fn new(spins: u32) -> Shared {
        Shared {
            unclaimed: Alone(AtomicUsize::new(0)),
            unfinished: Alone(AtomicUsize::new(0)),
            job: AtomicPtr::new(ptr::null_mut()),
            panic: Mutex::new(None),
            spins,
            stop: AtomicBool::new(false),
            asleep: AtomicUsize::new(0),
            caller_asleep: AtomicBool::new(false),
            bed: Mutex::new(()),
            work: Condvar::new(),
            done: Condvar::new(),
        }
    }

    /// Makes `job` the current call. The caller holds the turn, and keeps `job` until [`Shared::wait_for_the_last`].
    fn publish(&self, job: &Job<'_>) {
        self.job.store(ptr::from_ref(job).cast::<Job<'static>>().cast_mut(), Ordering::Relaxed);
        self.unfinished.0.store(job.parts, Ordering::Relaxed);
        self.unclaimed.0.store(job.parts, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) > 0 {
            self.wake(&self.work);
        }
    }

    /// Counts one part as claimed by this thread and returns how many were left with it.
    fn claim(&self) -> Option<usize> {
        let mut left = self.unclaimed.0.load(Ordering::Relaxed);
        while left > 0 {
            match self.unclaimed.0.compare_exchange_weak(left, left - 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(left),
                Err(now) => left = now,
            }
        }
        None
    }

    /// Runs parts of the current call until none is left to claim.
    fn work_through(&self) {
        let Some(left) = self.claim() else { return };
        // SAFETY: this thread has claimed a part and reports it below, so the call has not ended, and its caller, who
        // waits for that report in `Crew::run`, keeps the job alive.
        let job = unsafe { &*self.job.load(Ordering::Relaxed) };
        let mut settled = 0;
        INSIDE.set(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut next = Some(left);
            while let Some(left) = next {
                settled += 1;
                (job.f)(job.parts - left);
                next = self.claim();
            }
        }));
        INSIDE.set(false);
        if let Err(payload) = outcome {
            // The parts that nobody has claimed are this call's, since this thread has not reported its own.
            settled += self.unclaimed.0.swap(0, Ordering::Relaxed);
            self.keep(payload);
        }
        self.report(settled);
    }

    /// Keeps the first panic of a call for its caller.
    fn keep(&self, payload: Payload) {
        let mut first = lock(&self.panic);
        if first.is_none() {
            *first = Some(payload);
            return;
        }
        drop(first);
        // A payload may panic when dropped, and this thread has yet to report.
        if let Err(worse) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(worse);
        }
    }

    /// Counts parts as ended. Afterwards the job may be gone.
    fn report(&self, settled: usize) {
        let before = self.unfinished.0.fetch_sub(settled, Ordering::SeqCst);
        if before == settled && self.caller_asleep.load(Ordering::SeqCst) {
            self.wake(&self.done);
        }
    }

    /// Returns when every part of the current call has ended.
    fn wait_for_the_last(&self) {
        if self.spin_until(|| self.unfinished.0.load(Ordering::Acquire) == 0) {
            return;
        }
        let mut bed = lock(&self.bed);
        self.caller_asleep.store(true, Ordering::SeqCst);
        while self.unfinished.0.load(Ordering::SeqCst) != 0 {
            bed = self.done.wait(bed).unwrap_or_else(PoisonError::into_inner);
        }
        self.caller_asleep.store(false, Ordering::Relaxed);
    }

    /// The life of a worker.
    fn serve(&self) {
        while !self.stop.load(Ordering::SeqCst) {
            if self.spin_until(|| self.unclaimed.0.load(Ordering::Relaxed) != 0) {
                self.work_through();
            } else {
                self.sleep();
            }
        }
    }

    /// Sleeps until a call or the end is announced; may return early.
    fn sleep(&self) {
        let bed = lock(&self.bed);
        self.asleep.fetch_add(1, Ordering::SeqCst);
        if self.unclaimed.0.load(Ordering::SeqCst) == 0 && !self.stop.load(Ordering::SeqCst) {
            drop(self.work.wait(bed).unwrap_or_else(PoisonError::into_inner));
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes all who sleep on `bell`. Taking the mutex first means: whoever was about to sleep now does, and hears it.
    fn wake(&self, bell: &Condvar) {
        drop(lock(&self.bed));
        bell.notify_all();
    }

    fn spin_until(&self, ready: impl Fn() -> bool) -> bool {
        for _ in 0..self.spins {
            if ready() {
                return true;
            }
            spin_loop();
        }
        false
    }
}

/// No data of ours is left half changed by a panic, so poison means nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
