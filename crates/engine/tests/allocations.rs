//! A step allocates nothing: neither in decode nor, once the engine stands, in prefill.

#![expect(unsafe_code, reason = "an allocator that counts is an unsafe trait")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kinglet_engine::{MemoryUse, Options, Sampler, Sampling, Want};
use kinglet_model::source::Precision;
use support::{engine, load};

struct Counting;

static CALLS: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator with its arguments unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Relaxed);
        LIVE.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn steps_allocate_nothing_and_the_stated_memory_is_what_is_taken() {
    let model = load("models/demo", Precision::Int8);
    let options = Options::new(2);
    let before = LIVE.load(Relaxed);
    let mut engine = engine(&model, &options);
    let mut session = engine.session(400);
    let taken = LIVE.load(Relaxed) - before;
    let stated = MemoryUse::of(&model.plan, 400, engine.chunk()).total() as usize;
    // Handles of pages, rows and threads are not in the statement.
    assert!(taken >= stated && taken < stated + stated / 20, "{taken} taken, {stated} stated");

    let sampling = Sampling { temperature: 0.8, top_k: 20, presence_penalty: 1.0, ..Sampling::default() };
    let mut sampler = Sampler::new(sampling, model.plan.vocab, &[1]);
    let mut logits = vec![0.0; model.plan.vocab];
    let prompt: Vec<u32> = (1..200).collect();
    let calls = CALLS.load(Relaxed);
    engine.advance(&mut session, &prompt, Want::Last(&mut logits)).expect("fits");
    for _ in 0..150 {
        let id = sampler.choose(&mut logits).expect("finite");
        engine.advance(&mut session, &[id], Want::Last(&mut logits)).expect("fits");
    }
    assert_eq!(CALLS.load(Relaxed) - calls, 0, "allocations");
}
