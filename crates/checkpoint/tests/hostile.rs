//! Damaged checkpoints: whatever the bytes, reading ends with a value or an error, in little memory.

#![expect(unsafe_code, reason = "an allocator that counts is an unsafe trait")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kinglet_checkpoint::{Checkpoint, Config};
use proptest::prelude::*;
use support::{EMBEDDING, INDEX, Scratch, golden, raw, shard};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator with its arguments unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
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

/// Tests of this file take turns, so that each sees only its own memory.
static TURN: Mutex<()> = Mutex::new(());

/// Most bytes that reading any file may hold.
const MEMORY: usize = 128 << 20;

/// Opens what is there, and says how much memory it took at most.
fn peak_of_opening(scratch: &Scratch) -> usize {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    drop(Checkpoint::open(&scratch.0));
    PEAK.load(Relaxed) - before
}

/// `unit`, many times, with commas between, in between of `start` and `end`.
fn filled(start: &str, unit: &str, end: &str, len: usize) -> Vec<u8> {
    let count = (len - start.len() - end.len() + 1) / (unit.len() + 1);
    format!("{start}{}{end}", vec![unit; count].join(",")).into_bytes()
}

/// Text that becomes as many values as its size allows: what parsing multiplies.
fn bombs(len: usize) -> Vec<Vec<u8>> {
    vec![
        filled("[", "0", "]", len),
        filled("[", "[]", "]", len),
        filled(r#"{"weight_map":{"a":["#, "0", "]}}", len),
        filled(r#"{"a":{"dtype":"BF16","data_offsets":[0,0],"shape":["#, "0", "]}}", len),
        filled(r#"{"__metadata__":{"a":["#, "{}", "]}}", len),
        filled(r#"{"a":{"dtype":"BF16","shape":[0],"data_offsets":[0,0]},"b":["#, "{}", "]}", len),
    ]
}

#[test]
fn no_file_takes_much_memory() {
    let _turn = TURN.lock().expect("no test failed");
    for (i, bomb) in bombs((4 << 20) - 8).into_iter().enumerate() {
        let single = Scratch::new().write("model.safetensors", raw(&bomb, 0));
        let index = Scratch::new().write(INDEX, &bomb);
        let config = Scratch::new().write("config.json", &bomb[..1 << 20]);
        for (what, scratch) in [("shard", single), ("index", index), ("config", config)] {
            let peak = peak_of_opening(&scratch);
            assert!(peak <= MEMORY, "{what} {i}: {peak} bytes");
        }
    }
    let claims = Scratch::new().write("model.safetensors", u64::MAX.to_le_bytes());
    assert!(peak_of_opening(&claims) < 1 << 20, "a length is not believed");
    let shape = r#"{"a":{"dtype":"BF16","shape":[1099511627776],"data_offsets":[0,2199023255552]}}"#;
    assert!(peak_of_opening(&Scratch::new().write("model.safetensors", raw(shape, 9))) < 1 << 20, "nor is a shape");
}

#[test]
fn opening_takes_memory_for_names_and_not_for_weights() {
    let _turn = TURN.lock().expect("no test failed");
    let small = Scratch::new().write("model.safetensors", shard(&[(EMBEDDING, &[1])]));
    let large = Scratch::new().write("model.safetensors", shard(&[(EMBEDDING, &[1 << 24])]));
    assert!(peak_of_opening(&large) < peak_of_opening(&small) + 1024);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn damaged_headers_and_configs_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        cut in prop::option::weighted(0.3, any::<prop::sample::Index>()),
    ) {
        let _turn = TURN.lock().expect("no test failed");
        let source = golden("text-ratio2");
        let weights = std::fs::read(source.join("model.safetensors")).expect("weights");
        let header = 8 + u64::from_le_bytes(weights[..8].try_into().expect("eight")) as usize;
        let damage = |bytes: &mut Vec<u8>, within: usize| {
            for (at, value) in &changes {
                bytes[at.index(within)] = *value;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
        };
        let mut shard = weights[..header + 64].to_vec();
        damage(&mut shard, header);
        prop_assert!(Scratch::new().write("model.safetensors", &shard).open().is_err(), "the tensors are cut off");
        let mut config = std::fs::read(source.join("config.json")).expect("config");
        let len = config.len();
        damage(&mut config, len);
        let _ = Config::parse(&config);
        let sharded = golden("text-untied-8layer");
        let mut index = std::fs::read(sharded.join(INDEX)).expect("index");
        let len = index.len();
        damage(&mut index, len);
        prop_assert!(Scratch::new().write(INDEX, &index).open().is_err(), "its shards are elsewhere");
    }
}
