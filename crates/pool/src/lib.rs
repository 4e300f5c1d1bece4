//! One spin-then-park thread pool: closures over disjoint parts of a slice go in, they are run on all threads; it never
//! allocates per call and never queues.
//!
//! Workers spin a bounded while for the next call and then sleep. Parts are claimed from one counter, so a slow thread
//! holds nobody up; the caller works too.

use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Turns of a spin loop before a worker sleeps: some tens of microseconds.
const SPINS: u32 = 4000;
/// Chunks that each thread gets of a matrix's columns, so that a slow thread does not hold up the rest.
const CHUNKS_PER_THREAD: usize = 4;

thread_local! {
    /// Whether this thread is inside a part: calls from there run inline.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

type Task = *const (dyn Fn(usize) + Sync);

/// What caller and workers share.
struct Shared {
    /// Number of the current call; workers wait for it to change.
    epoch: AtomicU64,
    /// The current call's task and number of parts; valid from the epoch's change until `busy` is 0.
    job: Mutex<Option<Job>>,
    next: AtomicUsize,
    /// Workers that have not finished the current call.
    busy: AtomicUsize,
    panicked: AtomicBool,
    stop: AtomicBool,
    sleepers: Mutex<()>,
    wake: Condvar,
}

#[derive(Clone, Copy)]
struct Job {
    task: Task,
    parts: usize,
}

// SAFETY: the task behind the pointer is `Sync`, and `Pool::run` keeps it alive until every worker is done with it.
unsafe impl Send for Job {}

/// A fixed set of threads.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Held for the length of a call: two callers take turns.
    call: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// A pool of `threads`, the caller included; clamped to `1..=256`.
    pub fn new(threads: usize) -> Pool {
        let shared = Arc::new(Shared {
            epoch: AtomicU64::new(0),
            job: Mutex::new(None),
            next: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            sleepers: Mutex::new(()),
            wake: Condvar::new(),
        });
        let worker = |_| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name("kinglet-worker".into()).spawn(move || work(&shared)).ok()
        };
        let workers = (1..threads.clamp(1, 256)).filter_map(worker).collect();
        Pool { workers, shared, call: Mutex::new(()) }
    }

    /// Threads that work, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `f(part)` once for each part in `0..parts`, and returns when all are done. A call from inside a part runs
    /// inline. A panic in a part is carried to the caller once all threads have stopped.
    pub fn run(&self, parts: usize, f: &(dyn Fn(usize) + Sync)) {
        if parts <= 1 || self.workers.is_empty() || INSIDE.get() {
            (0..parts).for_each(f);
            return;
        }
        let call = lock(&self.call);
        let shared = &*self.shared;
        let task: *const (dyn Fn(usize) + Sync + '_) = f;
        // SAFETY: only the lifetime is erased; this function returns after `busy` is 0, when no worker holds the task.
        let task: Task = unsafe { std::mem::transmute(task) };
        *lock(&shared.job) = Some(Job { task, parts });
        shared.next.store(0, Ordering::Relaxed);
        shared.busy.store(self.workers.len(), Ordering::Relaxed);
        {
            let _guard = lock(&shared.sleepers);
            shared.epoch.fetch_add(1, Ordering::Release);
            shared.wake.notify_all();
        }
        let mine = catch_unwind(AssertUnwindSafe(|| claim(shared, f, parts)));
        let mut spins = 0u32;
        while shared.busy.load(Ordering::Acquire) != 0 {
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        let theirs = shared.panicked.swap(false, Ordering::Relaxed);
        drop(call);
        if let Err(panic) = mine {
            resume_unwind(panic);
        }
        assert!(!theirs, "a part panicked on another thread");
    }

    /// Each row of `row_len` values once; the last may be shorter.
    pub fn rows<T: Send>(&self, out: &mut [T], row_len: usize, f: &(dyn Fn(usize, &mut [T]) + Sync)) {
        let parts = Parts::new(out, row_len);
        self.run(parts.count(), &|i| {
            // SAFETY: `run` hands out each index once.
            f(i, unsafe { parts.take(i) });
        });
    }

    /// Row `i` of both slices together, for each `i` once.
    pub fn pairs<A: Send, B: Send>(
        &self,
        a: &mut [A],
        a_len: usize,
        b: &mut [B],
        b_len: usize,
        f: &(dyn Fn(usize, &mut [A], &mut [B]) + Sync),
    ) {
        let (a, b) = (Parts::new(a, a_len), Parts::new(b, b_len));
        assert_eq!(a.count(), b.count(), "pairs: numbers of rows differ");
        self.run(a.count(), &|i| {
            // SAFETY: `run` hands out each index once.
            let first = unsafe { a.take(i) };
            // SAFETY: as above.
            let second = unsafe { b.take(i) };
            f(i, first, second);
        });
    }

    /// Each item once.
    pub fn each<T: Send>(&self, items: &mut [T], f: &(dyn Fn(usize, &mut T) + Sync)) {
        self.rows(items, 1, &|i, row: &mut [T]| f(i, &mut row[0]));
    }

    /// The columns `0..width` of `out` `[t, width]`, row-major, in chunks of a multiple of `granule`, each chunk once.
    pub fn columns(&self, out: &mut [f32], width: usize, granule: usize, f: &(dyn Fn(Columns<'_>) + Sync)) {
        if width == 0 {
            return;
        }
        assert!(granule > 0 && out.len().is_multiple_of(width), "columns: out is not [t, width]");
        let granules = width.div_ceil(granule);
        let chunks = if self.threads() == 1 { 1 } else { granules.min(self.threads() * CHUNKS_PER_THREAD) };
        let step = granules.div_ceil(chunks) * granule;
        let shared = SharedMatrix { base: out.as_mut_ptr(), rows: out.len() / width, width };
        self.run(width.div_ceil(step), &|i| {
            let first = i * step;
            f(shared.columns(first, step.min(width - first)));
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        {
            let _guard = lock(&self.shared.sleepers);
            self.shared.stop.store(true, Ordering::Release);
            self.shared.wake.notify_all();
        }
        for worker in self.workers.drain(..) {
            // A worker catches its parts' panics, so there is no error to report.
            let _ = worker.join();
        }
    }
}

/// Runs parts until none is left.
fn claim(shared: &Shared, f: &(dyn Fn(usize) + Sync), parts: usize) {
    INSIDE.set(true);
    let restore = Restore;
    loop {
        let part = shared.next.fetch_add(1, Ordering::Relaxed);
        if part >= parts {
            break;
        }
        f(part);
    }
    drop(restore);
}

struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

fn work(shared: &Shared) {
    let mut seen = 0;
    loop {
        if !wait(shared, seen) {
            return;
        }
        // A caller starts the next call only after this worker has left this one, so the epoch moves by one.
        seen += 1;
        let job = *lock(&shared.job);
        if let Some(job) = job {
            // SAFETY: the caller keeps the task alive until `busy` is 0, and this worker counts in it until below.
            let task = unsafe { &*job.task };
            if catch_unwind(AssertUnwindSafe(|| claim(shared, task, job.parts))).is_err() {
                shared.panicked.store(true, Ordering::Relaxed);
            }
        }
        shared.busy.fetch_sub(1, Ordering::Release);
    }
}

/// Waits for the call after `seen`; `false` when the pool ends.
fn wait(shared: &Shared, seen: u64) -> bool {
    for _ in 0..SPINS {
        if shared.epoch.load(Ordering::Acquire) != seen {
            return true;
        }
        if shared.stop.load(Ordering::Acquire) {
            return false;
        }
        std::hint::spin_loop();
    }
    let mut guard = lock(&shared.sleepers);
    loop {
        if shared.epoch.load(Ordering::Acquire) != seen {
            return true;
        }
        if shared.stop.load(Ordering::Acquire) {
            return false;
        }
        guard = shared.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Disjoint rows of one exclusive slice, to be taken by several threads.
struct Parts<'a, T> {
    base: *mut T,
    len: usize,
    row_len: usize,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: each row goes to one thread only (the condition of `take`), and `T` may move between threads.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<'a, T> Parts<'a, T> {
    fn new(slice: &'a mut [T], row_len: usize) -> Parts<'a, T> {
        assert!(row_len > 0, "rows: a row has no values");
        Parts { base: slice.as_mut_ptr(), len: slice.len(), row_len, owner: PhantomData }
    }

    fn count(&self) -> usize {
        self.len.div_ceil(self.row_len)
    }

    /// Row `i`.
    ///
    /// # Safety
    /// No other row `i` of this value is alive.
    #[expect(clippy::mut_from_ref, reason = "the caller promises that each row is taken once")]
    unsafe fn take(&self, i: usize) -> &mut [T] {
        assert!(i < self.count(), "rows: no such row");
        let first = i * self.row_len;
        let len = self.row_len.min(self.len - first);
        // SAFETY: `first < len` by the assertion, so the pointer stays inside the slice.
        let start = unsafe { self.base.add(first) };
        // SAFETY: inside the slice borrowed by `owner`, and exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }
}

struct SharedMatrix {
    base: *mut f32,
    rows: usize,
    width: usize,
}

// SAFETY: `Pool::columns` makes disjoint column ranges of it only.
unsafe impl Sync for SharedMatrix {}

impl SharedMatrix {
    fn columns(&self, first: usize, len: usize) -> Columns<'_> {
        Columns { base: self.base, rows: self.rows, width: self.width, first, len, owner: PhantomData }
    }
}

/// Exclusive access to some columns of every row of a matrix.
pub struct Columns<'a> {
    base: *mut f32,
    rows: usize,
    width: usize,
    first: usize,
    len: usize,
    owner: PhantomData<&'a mut f32>,
}

impl Columns<'_> {
    /// The first column.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Number of columns.
    #[expect(clippy::len_without_is_empty, reason = "there is always a column")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// These columns of row `t`.
    pub fn row_mut(&mut self, t: usize) -> &mut [f32] {
        assert!(t < self.rows, "columns: no such row");
        // SAFETY: row `t` and columns `first..first + len` are inside the matrix that `Pool::columns` borrowed.
        let start = unsafe { self.base.add(t * self.width + self.first) };
        // SAFETY: inside as above; `Pool::columns` hands out each range of columns once.
        unsafe { std::slice::from_raw_parts_mut(start, self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_runs_once_however_many_threads() {
        for threads in 1..6 {
            let pool = Pool::new(threads);
            for parts in 0..50 {
                let mut hits = vec![0u32; parts];
                pool.each(&mut hits, &|i, hit: &mut u32| *hit += 1 + i as u32);
                assert!(hits.iter().enumerate().all(|(i, hit)| *hit == 1 + i as u32));
            }
        }
    }

    #[test]
    fn thousands_of_tiny_calls_end() {
        let pool = Pool::new(4);
        let mut values = [0u64; 16];
        for _ in 0..20_000 {
            pool.each(&mut values, &|_, v: &mut u64| *v += 1);
        }
        assert_eq!(values, [20_000; 16]);
    }

    #[test]
    fn columns_cover_a_matrix_exactly() {
        for threads in [1, 3] {
            let pool = Pool::new(threads);
            for width in [1, 5, 16, 17, 100] {
                for granule in [1, 4, 16] {
                    let mut out = vec![0.0; 3 * width];
                    pool.columns(&mut out, width, granule, &|mut columns| {
                        for t in 0..columns.rows() {
                            let first = columns.first();
                            for (i, v) in columns.row_mut(t).iter_mut().enumerate() {
                                *v += (t * 1000 + first + i + 1) as f32;
                            }
                        }
                    });
                    for (i, v) in out.iter().enumerate() {
                        assert_eq!(*v, (i / width * 1000 + i % width + 1) as f32);
                    }
                }
            }
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = Pool::new(3);
        for bad in 0..8 {
            let result = catch_unwind(AssertUnwindSafe(|| pool.run(8, &|i| assert!(i != bad))));
            assert!(result.is_err(), "part {bad}");
            let mut values = [0; 8];
            pool.each(&mut values, &|i, v: &mut usize| *v = i);
            assert_eq!(values, [0, 1, 2, 3, 4, 5, 6, 7]);
        }
    }

    #[test]
    fn a_call_inside_a_part_runs_inline() {
        let pool = Pool::new(3);
        let count = AtomicUsize::new(0);
        pool.run(4, &|_| pool.run(5, &|_| {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        assert_eq!(count.into_inner(), 20);
    }
}
