//! The pool under load: every part once, whoever runs it, through panics, nesting, several callers and crowds.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use kinglet_pool::Pool;

/// The interpreter that checks for undefined behaviour is thousands of times slower.
const fn scaled(n: usize) -> usize {
    if cfg!(miri) { n / 500 + 1 } else { n }
}

fn once_each(pool: &Pool, parts: usize) {
    let hits: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
    pool.run(parts, &|part| _ = hits[part].fetch_add(1, Ordering::Relaxed));
    let hits: Vec<usize> = hits.into_iter().map(AtomicUsize::into_inner).collect();
    assert_eq!(hits, vec![1; parts], "{} threads, {parts} parts", pool.threads());
}

#[test]
fn threads_are_counted_with_the_caller_and_clamped() {
    assert_eq!(Pool::new(0).threads(), 1);
    assert_eq!(Pool::new(1).threads(), 1);
    assert_eq!(Pool::new(3).threads(), 3);
    if !cfg!(miri) {
        assert_eq!(Pool::new(usize::MAX).threads(), 256);
    }
}

#[test]
fn each_part_runs_once_whatever_the_number_of_threads() {
    for threads in 1..9 {
        let pool = Pool::new(threads);
        for parts in (0..scaled(70)).chain([scaled(1000)]) {
            once_each(&pool, parts);
        }
    }
}

/// Calls `f` from a frame that lies `depth` frames deeper, so that what a call leaves on the stack lies elsewhere.
#[inline(never)]
fn deeper(depth: usize, f: &dyn Fn()) {
    let frame = std::hint::black_box([depth; 64]);
    if depth == 0 {
        f()
    } else {
        deeper(depth - 1, f)
    }
    std::hint::black_box(frame);
}

#[test]
fn tiny_calls_in_close_order_never_mix() {
    for threads in 1..=8 {
        let pool = Pool::new(threads);
        for call in 0..scaled(100_000) / 8 {
            // The closure and what it adds to live for this call only; a late worker would use another call's.
            deeper(call % 7, &|| {
                let parts = 2 + call % 3;
                let sum = AtomicUsize::new(0);
                pool.run(parts, &|part| _ = sum.fetch_add(call + part, Ordering::Relaxed));
                assert_eq!(sum.into_inner(), call * parts + parts * (parts - 1) / 2);
            });
        }
    }
}

#[test]
fn hundred_thousand_tiny_calls_end() {
    let pool = Pool::new(2);
    let mut counts = [0usize; 6];
    let calls = scaled(100_000);
    for _ in 0..calls {
        pool.each(&mut counts, &|_, count: &mut usize| *count += 1);
    }
    assert_eq!(counts, [calls; 6]);
}

#[test]
fn more_threads_than_processors_do_the_work_too() {
    let pool = Pool::new(scaled(64).max(4));
    for parts in [1, 2, 63, scaled(500)] {
        for _ in 0..scaled(100) {
            once_each(&pool, parts);
        }
    }
}

#[test]
fn workers_that_fell_asleep_are_woken_to_help() {
    let pool = Pool::new(2);
    for _ in 0..3 {
        thread::sleep(std::time::Duration::from_millis(20));
        let arrived = AtomicUsize::new(0);
        // Two parts that wait for each other: one thread alone would wait for ever.
        pool.run(2, &|_| {
            arrived.fetch_add(1, Ordering::SeqCst);
            while arrived.load(Ordering::SeqCst) < 2 {
                thread::yield_now();
            }
        });
    }
}

#[test]
fn the_caller_sleeps_until_a_long_part_has_ended() {
    let pool = Pool::new(2);
    for _ in 0..3 {
        let mut ends = [0u32; 2];
        let caller = thread::current().id();
        pool.each(&mut ends, &|i, end: &mut u32| {
            if thread::current().id() != caller {
                thread::sleep(std::time::Duration::from_millis(20));
            }
            *end = i as u32 + 1;
        });
        assert_eq!(ends, [1, 2]);
    }
}

#[test]
fn several_threads_take_part() {
    let pool = Pool::new(4);
    let seen = Mutex::new(HashSet::new());
    let arrived = AtomicUsize::new(0);
    pool.run(4, &|_| {
        seen.lock().expect("no part panics").insert(thread::current().id());
        arrived.fetch_add(1, Ordering::SeqCst);
        while arrived.load(Ordering::SeqCst) < 4 {
            thread::yield_now();
        }
    });
    assert_eq!(seen.into_inner().expect("no part panicked").len(), 4);
}

#[test]
fn one_part_and_one_thread_stay_on_the_caller() {
    let caller = thread::current().id();
    Pool::new(4).run(1, &|_| assert_eq!(thread::current().id(), caller));
    Pool::new(1).run(100, &|_| assert_eq!(thread::current().id(), caller));
}

#[test]
fn rows_are_each_written_once() {
    for threads in [1, 2, 5] {
        let pool = Pool::new(threads);
        for row_len in [1, 2, 7] {
            for rows in (0..scaled(40)).chain([scaled(300)]) {
                let mut out = vec![0usize; rows * row_len];
                pool.rows(&mut out, row_len, &|i, row: &mut [usize]| {
                    assert_eq!(row.len(), row_len);
                    row.iter_mut().for_each(|value| *value += i + 1);
                });
                assert!(out.iter().enumerate().all(|(at, value)| *value == at / row_len + 1), "{rows} x {row_len}");
            }
        }
    }
}

#[test]
fn pairs_bring_the_same_row_of_both() {
    for threads in [1, 3] {
        let pool = Pool::new(threads);
        let (mut a, mut b) = (vec![0usize; 3 * 50], vec![0u8; 2 * 50]);
        pool.pairs(&mut a, 3, &mut b, 2, &|i, a: &mut [usize], b: &mut [u8]| {
            a.fill(i + 1);
            b.fill(i as u8 + 1);
        });
        assert!(a.iter().enumerate().all(|(at, value)| *value == at / 3 + 1));
        assert!(b.iter().enumerate().all(|(at, value)| usize::from(*value) == at / 2 + 1));
    }
}

#[test]
#[should_panic(expected = "differ in rows")]
fn pairs_of_different_length_are_refused() {
    Pool::new(1).pairs(&mut [0; 4], 2, &mut [0; 3], 1, &|_, _: &mut [i32], _: &mut [i32]| {});
}

#[test]
fn values_without_size_are_handed_out_too() {
    let count = AtomicUsize::new(0);
    Pool::new(3).each(&mut [(); 100], &|_, _: &mut ()| _ = count.fetch_add(1, Ordering::Relaxed));
    assert_eq!(count.into_inner(), 100);
}

#[test]
fn columns_cover_a_matrix_once_and_are_cut_at_granules() {
    let widths = if cfg!(miri) { vec![1, 17, 70] } else { (1..=70).chain([1000, 1003]).collect() };
    for threads in [1, 2, 3, 8] {
        let pool = Pool::new(threads);
        for &width in &widths {
            for granule in [1, 4, 16, 64, 2000, usize::MAX] {
                for rows in [1, 3] {
                    let mut out = vec![0.0f32; rows * width];
                    let cuts = Mutex::new(Vec::new());
                    pool.columns(&mut out, width, granule, &|mut columns| {
                        assert_eq!(columns.rows(), rows);
                        let (first, len) = (columns.first(), columns.len());
                        cuts.lock().expect("no part panics").push((first, len));
                        for t in 0..rows {
                            let row = columns.row_mut(t);
                            assert_eq!(row.len(), len);
                            for (i, value) in row.iter_mut().enumerate() {
                                *value += (t * 5000 + first + i + 1) as f32;
                            }
                        }
                    });
                    for (at, value) in out.iter().enumerate() {
                        assert_eq!(*value, (at / width * 5000 + at % width + 1) as f32, "{width} by {granule}");
                    }
                    let cuts = cuts.into_inner().expect("no part panicked");
                    for &(first, len) in &cuts {
                        assert!(len > 0 && first % granule == 0, "{width} by {granule}: {first}, {len}");
                        assert!(first + len == width || len % granule == 0, "{width} by {granule}: {first}, {len}");
                    }
                    let granules = width.div_ceil(granule);
                    let expected = if threads == 1 { 1 } else { granules.min(threads * 4) };
                    assert_eq!(cuts.len(), expected, "{width} by {granule}");
                }
            }
        }
    }
}

#[test]
fn a_matrix_without_values_has_no_columns() {
    let pool = Pool::new(2);
    for width in [0, 5] {
        pool.columns(&mut [], width, 1, &|_| panic!("there is nothing to hand out"));
    }
}

#[test]
fn columns_of_a_broken_matrix_are_refused() {
    for (len, width, granule) in [(7, 2, 1), (7, 0, 1), (8, 2, 0)] {
        let mut out = vec![0.0; len];
        let refused = catch_unwind(AssertUnwindSafe(|| Pool::new(1).columns(&mut out, width, granule, &|_| {})));
        assert!(refused.is_err(), "{len} values, width {width}, granule {granule}");
    }
}

#[test]
#[should_panic(expected = "no such row")]
fn columns_refuse_a_row_below_the_last() {
    Pool::new(1).columns(&mut [0.0; 6], 3, 1, &|mut columns| _ = columns.row_mut(2).len());
}

#[test]
fn a_panic_reaches_the_caller_with_its_payload_and_the_pool_lives_on() {
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads);
        for bad in 0..scaled(200) {
            let parts = 40;
            let run = || {
                pool.run(parts, &|part| {
                    if part == bad % parts {
                        panic_any(part)
                    }
                })
            };
            let payload = catch_unwind(run_quietly(run)).expect_err("a part panicked");
            assert_eq!(payload.downcast_ref::<usize>(), Some(&(bad % parts)));
            once_each(&pool, 10);
        }
    }
}

#[test]
fn when_all_parts_panic_the_caller_gets_one() {
    let pool = Pool::new(4);
    for _ in 0..scaled(200) {
        assert!(catch_unwind(run_quietly(|| pool.run(8, &|_| panic_any(())))).is_err());
    }
    once_each(&pool, 100);
}

#[test]
#[cfg_attr(miri, ignore = "leaks by intention")]
fn a_payload_that_panics_when_dropped_takes_no_worker_along() {
    struct Spiteful;
    impl Drop for Spiteful {
        fn drop(&mut self) {
            if !thread::panicking() {
                panic_any("dropped");
            }
        }
    }
    let pool = Pool::new(3);
    for _ in 0..scaled(50) {
        let arrived = AtomicUsize::new(0);
        let spite = catch_unwind(run_quietly(|| {
            pool.run(3, &|_| {
                arrived.fetch_add(1, Ordering::SeqCst);
                while arrived.load(Ordering::SeqCst) < 3 {
                    thread::yield_now();
                }
                panic_any(Spiteful);
            });
        }));
        std::mem::forget(spite.expect_err("all parts panicked"));
    }
    once_each(&pool, 100);
    assert_eq!(pool.threads(), 3);
}

#[test]
fn nothing_runs_after_a_panic_was_carried_out() {
    let pool = Pool::new(4);
    for _ in 0..scaled(500) {
        let mut running = [0usize; 64];
        let result = catch_unwind(run_quietly(|| {
            pool.each(&mut running, &|i, value: &mut usize| {
                *value = 1;
                assert_ne!(i, 20);
            });
        }));
        assert!(result.is_err());
        let before = running;
        thread::yield_now();
        assert_eq!(running, before);
    }
}

#[test]
fn a_call_inside_a_part_runs_inline() {
    let pool = Pool::new(3);
    let other = Pool::new(2);
    let count = AtomicUsize::new(0);
    pool.run(6, &|_| {
        let here = thread::current().id();
        for nested in [&pool, &other] {
            nested.run(5, &|_| {
                assert_eq!(thread::current().id(), here);
                count.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(count.into_inner(), 60);
    once_each(&pool, 50);
}

#[test]
fn a_panic_inside_a_nested_call_is_carried_through_both() {
    let pool = Pool::new(3);
    let nested = || pool.run(4, &|_| pool.run(4, &|part| assert_ne!(part, 2)));
    assert!(catch_unwind(run_quietly(nested)).is_err());
    once_each(&pool, 50);
}

#[test]
fn callers_on_several_threads_take_turns() {
    let pool = Pool::new(3);
    let working = AtomicUsize::new(0);
    thread::scope(|scope| {
        for caller in 0..4 {
            let (pool, working) = (&pool, &working);
            scope.spawn(move || {
                for _ in 0..scaled(2000) {
                    let mut values = [0; 16];
                    pool.each(&mut values, &|i, value: &mut usize| {
                        let here = working.fetch_add(1, Ordering::SeqCst);
                        assert!(here < pool.threads(), "calls overlap");
                        *value = caller * 100 + i;
                        working.fetch_sub(1, Ordering::SeqCst);
                    });
                    assert!(values.iter().enumerate().all(|(i, value)| *value == caller * 100 + i));
                }
            });
        }
    });
}

#[test]
fn a_pool_can_be_dropped_at_any_moment() {
    for calls in 0..scaled(100) {
        let pool = Pool::new(1 + calls % 5);
        for _ in 0..calls % 4 {
            once_each(&pool, 7);
        }
    }
}

/// Marks `f` as safe to unwind out of, and keeps its panics from being printed.
fn run_quietly<R>(f: impl FnOnce() -> R) -> AssertUnwindSafe<impl FnOnce() -> R> {
    static QUIET: std::sync::Once = std::sync::Once::new();
    QUIET.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let named = thread::current().name().is_some_and(|name| name.contains("::") || name == "kinglet-worker");
            if !named {
                loud(info);
            }
        }));
    });
    AssertUnwindSafe(f)
}
