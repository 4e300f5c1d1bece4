//! No call allocates, on whichever thread: an allocator that counts stands in for the system's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use kinglet_pool::Pool;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: forwards every call unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on; `alloc` took the block from the system.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn one_of_each(pool: &Pool, values: &mut [f32], counts: &mut [usize]) {
    pool.run(40, &|_| {});
    pool.columns(values, 128, 16, &|mut columns| columns.row_mut(0)[0] += 1.0);
    pool.rows(values, 64, &|i, row: &mut [f32]| row[0] += i as f32);
    pool.pairs(values, 64, counts, 1, &|_, row: &mut [f32], count: &mut [usize]| count[0] += row.len());
    pool.each(counts, &|_, count: &mut usize| *count += 1);
}

#[test]
fn no_call_allocates() {
    let pools = [Pool::new(1), Pool::new(2), Pool::new(4)];
    let (mut values, mut counts) = (vec![0.0; 512], vec![0; 8]);
    for pool in &pools {
        for _ in 0..if cfg!(miri) { 3 } else { 100 } {
            one_of_each(pool, &mut values, &mut counts);
        }
        // Threads that begin to run allocate; give all of them the time, asleep and awake.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let before = ALLOCATIONS.load(Ordering::SeqCst);
        for _ in 0..if cfg!(miri) { 3 } else { 1000 } {
            one_of_each(pool, &mut values, &mut counts);
        }
        assert_eq!(ALLOCATIONS.load(Ordering::SeqCst) - before, 0, "{} threads", pool.threads());
    }
}
