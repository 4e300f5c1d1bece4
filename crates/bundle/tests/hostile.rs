//! Damaged bundles: whatever the bytes, reading ends with a value or an error, in little memory.

#![expect(unsafe_code, reason = "an allocator that counts is an unsafe trait")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kinglet_blob::Blob;
use kinglet_bundle::Bundle;
use support::mutation::{Numbers, damage};
use support::{file, fixture, model_part, part};

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

/// Most bytes that reading a damaged file may hold beside the file.
const MEMORY: usize = 64 << 20;

/// Reads everything that a bundle offers and says how many of the parts were sound.
fn read_all(blob: Blob) -> usize {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let sound = Bundle::from_blob(blob, "damaged").map_or(0, |bundle| {
        let mut sound = 1 + usize::from(bundle.llm_metadata().is_ok()) + usize::from(bundle.tokenizer_json().is_ok());
        sound += usize::from(bundle.executor_metadata().is_ok());
        if let Ok(model) = bundle.model() {
            sound += 1;
            assert!(!model.listing(true).to_string().is_empty() || model.signatures().is_empty());
            for signature in model.signatures() {
                let subgraph = model.subgraph_of(signature);
                for tensor in subgraph.tensors() {
                    let bytes = model.data(tensor).map_or(0, |data| data.len());
                    assert!(bytes == 0 || model.quantization(tensor).is_none_or(|q| !q.scales.is_empty()));
                }
            }
        }
        sound
    });
    let peak = PEAK.load(Relaxed) - before;
    assert!(peak <= MEMORY, "{peak} bytes held while reading");
    sound
}

/// The sections before the graph, and a graph that is not read.
fn without_graph() -> Vec<u8> {
    let bundle = Bundle::open(&fixture("tiny/tiny_float.litertlm")).expect("sound");
    let kinds = [5, 9, 6];
    let mut parts: Vec<_> = bundle.sections().iter().zip(kinds).map(|(s, kind)| part(kind, &s.data)).collect();
    parts.push(model_part(3, "tf_lite_prefill_decode", b"none"));
    file(&parts)
}

#[test]
fn damaged_headers_metadata_and_tokenizers_are_survived() {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let sound = without_graph();
    let header_end = u64::from_le_bytes(sound[24..32].try_into().expect("eight")) as usize;
    let regions = [0..header_end, 32..header_end, 16384..16384 + 2048, 32768..32768 + 1024, 49152..49152 + 4096];
    let mut outcomes = std::collections::BTreeMap::new();
    for seed in 0..5000 {
        let mut numbers = Numbers::new(seed);
        let mut bytes = sound.clone();
        damage(&mut bytes, regions[seed as usize % regions.len()].clone(), &mut numbers);
        if numbers.below(16) == 0 {
            bytes.truncate(numbers.below(sound.len()));
        }
        *outcomes.entry(read_all(Blob::from_vec(bytes))).or_insert(0) += 1;
    }
    assert!(outcomes.len() >= 4, "some are refused at the door, some in one part, some not at all: {outcomes:?}");
}

#[test]
fn damaged_graphs_are_survived() {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    for (name, cases) in [("tiny/tiny_wi8fc.litertlm", 600), ("tiny/tinyc_wi8fc.litertlm", 150)] {
        let sound = std::fs::read(fixture(name)).expect("a fixture");
        let graph = 4 * 16384;
        for seed in 0..cases {
            let mut numbers = Numbers::new(seed);
            let mut bytes = sound.clone();
            // The first bytes hold the root, from which all else hangs.
            let region = if seed % 4 == 0 { graph..graph + 4096 } else { graph..sound.len() };
            damage(&mut bytes, region, &mut numbers);
            assert!(read_all(Blob::from_vec(bytes)) >= 4, "the other parts are whole");
        }
    }
}

#[test]
fn every_truncation_is_refused() {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let path = fixture("tiny/tiny_wi8fc.litertlm");
    let whole = Blob::map(&path).expect("a fixture");
    let bundle = Bundle::open(&path).expect("sound");
    let mut lengths: Vec<usize> = (0..700).chain((0..whole.len()).step_by(40_009)).collect();
    for section in bundle.sections() {
        let edges = [section.range.start, section.range.end].map(|edge| edge as usize);
        lengths.extend(edges.iter().flat_map(|edge| [edge - 1, *edge, edge + 1]));
    }
    for len in lengths.into_iter().filter(|len| *len < whole.len()) {
        let error = Bundle::from_blob(whole.slice(0..len).expect("shorter"), "cut").expect_err("cut");
        assert!(!error.to_string().is_empty());
    }
}

/// A graph that is cut inside its section, as a writer that failed would leave it.
#[test]
fn a_graph_that_ends_early_is_refused() {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let bundle = Bundle::open(&fixture("tiny/tiny_wi8fc.litertlm")).expect("sound");
    let graph = &bundle.sections().last().expect("sections").data;
    for len in (0..64).chain((64..graph.len() - 16).step_by(29_989)) {
        let bytes = file(&[model_part(3, "tf_lite_prefill_decode", &graph[..len])]);
        assert_eq!(read_all(Blob::from_vec(bytes)), 2, "the container is sound, and executor metadata is optional");
    }
}

#[test]
fn a_zlib_bomb_is_stopped_where_it_said_it_would_end() {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    use std::io::Write;
    for stated in [10u64, 1 << 20, 63 << 20] {
        let mut encoder = flate2::write::ZlibEncoder::new(stated.to_le_bytes().to_vec(), flate2::Compression::best());
        for _ in 0..300 {
            encoder.write_all(&[0; 1 << 20]).expect("memory");
        }
        let bomb = encoder.finish().expect("memory");
        assert!(bomb.len() < 400_000);
        let bundle = Bundle::from_blob(Blob::from_vec(file(&[part(6, &bomb)])), "bomb").expect("sound");
        PEAK.store(LIVE.load(Relaxed), Relaxed);
        let before = LIVE.load(Relaxed);
        let error = bundle.tokenizer_json().expect_err("a bomb");
        assert!(error.to_string().contains("holds more"), "{error}");
        let peak = (PEAK.load(Relaxed) - before) as u64;
        // A vector that grows holds its old and its new memory for a moment.
        assert!(peak <= 3 * stated + (1 << 20), "{peak} bytes for a stated {stated}");
    }
}
