//! One spin-then-park thread pool: closures over disjoint parts of a slice go in, they are run on all threads; it never
//! allocates per call and never queues.
//!
//! A call is one number and one pointer: workers claim parts by counting the number down, and so does the caller. A
//! thread that is late, slow or asleep holds nobody up, since the others take its parts; a call ends when its last part
//! has. Which thread ran a part is not determined, so a closure's result must not depend on it.
//!
//! ```
//! let pool = kinglet_pool::Pool::new(4);
//! let mut squares = [0; 10];
//! pool.each(&mut squares, &|i, square: &mut usize| *square = i * i);
//! assert_eq!(squares[9], 81);
//! ```

mod crew;
mod parts;

pub use parts::Columns;

use crew::Crew;
use parts::{Matrix, Parts, split};

/// Chunks of columns per thread: the fewer, the fewer claims; the more, the less a slow thread holds up the rest.
const COLUMN_CHUNKS: usize = 4;
/// Chunks of rows per thread; more than for columns, because rows may differ in cost.
const ROW_CHUNKS: usize = 16;
/// Threads that a pool has at most.
const MOST_THREADS: usize = 256;

/// A fixed set of threads that share the work of one call at a time.
///
/// Workers spin about 50 microseconds for the next call and then sleep; with more threads than processors they hardly
/// spin. While they spin, a call makes no system call, and it never allocates. Dropping the pool ends its threads.
pub struct Pool {
    crew: Crew,
}

impl Pool {
    /// A pool of `threads`, the caller included, clamped to `1..=256`; fewer if the system refuses to start them.
    pub fn new(threads: usize) -> Pool {
        Pool { crew: Crew::new(threads.clamp(1, MOST_THREADS) - 1) }
    }

    /// Threads that work on a call, the caller included.
    pub fn threads(&self) -> usize {
        self.crew.workers() + 1
    }

    /// Calls `f(part)` once for each part in `0..parts`, and returns when all are done.
    ///
    /// A call from inside a part runs inline on that part's thread. Calls from several threads take turns, so a part
    /// must not wait for another thread's call on the same pool.
    ///
    /// # Panics
    /// With the panic of a part, once every other part has ended or was abandoned; the pool stays usable.
    pub fn run(&self, parts: usize, f: &(dyn Fn(usize) + Sync)) {
        if parts <= 1 || self.crew.workers() == 0 || crew::inside_a_part() {
            (0..parts).for_each(f);
        } else {
            self.crew.run(parts, f);
        }
    }

    /// Calls `f(i, row)` once for each row of `out` `[n, row_len]`, row-major.
    ///
    /// # Panics
    /// When `out` is not a whole number of rows, or as [`Pool::run`].
    pub fn rows<T: Send>(&self, out: &mut [T], row_len: usize, f: &(dyn Fn(usize, &mut [T]) + Sync)) {
        let rows = Parts::new(out, row_len);
        self.spread(rows.count(), &|i| {
            // SAFETY: `spread` hands out each index once.
            f(i, unsafe { rows.take(i) });
        });
    }

    /// Calls `f(i, row of a, row of b)` once for each `i`: `a` is `[n, a_len]` and `b` is `[n, b_len]`, row-major.
    ///
    /// # Panics
    /// When the slices are not the same whole number of rows, or as [`Pool::run`].
    #[expect(clippy::type_complexity, reason = "a name would hide which slice is which")]
    pub fn pairs<A: Send, B: Send>(
        &self,
        a: &mut [A],
        a_len: usize,
        b: &mut [B],
        b_len: usize,
        f: &(dyn Fn(usize, &mut [A], &mut [B]) + Sync),
    ) {
        let (a, b) = (Parts::new(a, a_len), Parts::new(b, b_len));
        assert_eq!(a.count(), b.count(), "pool: the two slices differ in rows");
        self.spread(a.count(), &|i| {
            // SAFETY: `spread` hands out each index once.
            let row_a = unsafe { a.take(i) };
            // SAFETY: as above; `b` is another slice.
            let row_b = unsafe { b.take(i) };
            f(i, row_a, row_b);
        });
    }

    /// Calls `f(i, item)` once for each item.
    ///
    /// # Panics
    /// As [`Pool::run`].
    pub fn each<T: Send>(&self, items: &mut [T], f: &(dyn Fn(usize, &mut T) + Sync)) {
        let items = Parts::new(items, 1);
        self.spread(items.count(), &|i| {
            // SAFETY: `spread` hands out each index once.
            f(i, &mut unsafe { items.take(i) }[0]);
        });
    }

    /// Cuts the columns `0..width` of `out` `[t, width]`, row-major, and calls `f` once for each cut.
    ///
    /// Cuts lie at multiples of `granule`; there are several for each thread when there are granules enough, and one
    /// when the pool has one thread.
    ///
    /// # Panics
    /// When `out` is not a whole number of rows, when `granule` is 0, or as [`Pool::run`].
    pub fn columns(&self, out: &mut [f32], width: usize, granule: usize, f: &(dyn Fn(Columns<'_>) + Sync)) {
        assert!(granule > 0, "pool: a granule of no columns");
        let matrix = Matrix::new(out, width);
        if matrix.is_empty() {
            return;
        }
        let granules = width.div_ceil(granule);
        let chunks = self.chunks(granules, COLUMN_CHUNKS);
        self.run(chunks, &|chunk| {
            let cut = split(granules, chunks, chunk);
            // SAFETY: `run` hands out each chunk once, and `split` makes them disjoint.
            f(unsafe { matrix.columns(cut.start * granule, width.min(cut.end * granule)) });
        });
    }

    /// Calls `f(i)` once for each `i` in `0..count`, claiming several at a time when there are many.
    fn spread(&self, count: usize, f: &(dyn Fn(usize) + Sync)) {
        let chunks = self.chunks(count, ROW_CHUNKS);
        self.run(chunks, &|chunk| split(count, chunks, chunk).for_each(f));
    }

    fn chunks(&self, count: usize, per_thread: usize) -> usize {
        if self.threads() == 1 { count.min(1) } else { count.min(self.threads() * per_thread) }
    }
}
