//! The numerics contract, held with `==` on bits: logits depend on the ids before them and on nothing else.

mod support;

use kinglet_engine::{Engine, Options, Session, Want};
use kinglet_model::source::Precision;
use kinglet_model::{Mixer, Model};
use support::{bits, engine, load};

/// A fixed sequence of pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

fn prompt(model: &Model, len: usize, seed: u64) -> Vec<u32> {
    let mut random = Random(seed);
    (0..len).map(|_| random.below(model.plan.vocab) as u32).collect()
}

/// An int8 model with heads in pairs, the demo model (widths around and above a block), and bundles in both dialects,
/// whose own runtime carries state from one session into the next.
fn models() -> Vec<(&'static str, Model)> {
    [
        "fixtures/golden/ckpt/text-ratio2",
        "models/demo",
        "fixtures/bundles/tiny4b/tiny4b_wi8fc.litertlm",
        "fixtures/bundles/tiny/tinyc_float.litertlm",
    ]
    .into_iter()
    .map(|path| (path, load(path, Precision::Int8)))
    .collect()
}

/// The bits of everything a session remembers.
fn state_bits(model: &Model, session: &Session) -> Vec<u32> {
    let mut all = Vec::new();
    for (i, mixer) in model.plan.layers.iter().enumerate() {
        match mixer {
            Mixer::GatedDeltaNet => {
                let (tail, state) = session.delta_state(i).expect("delta");
                all.extend(bits(tail));
                all.extend(bits(state));
            }
            Mixer::GatedAttention => {
                for head in 0..model.plan.attention.kv_heads {
                    for p in 0..session.position() {
                        let (key, value) = session.key_value(i, head, p).expect("cached");
                        all.extend(bits(key));
                        all.extend(bits(value));
                    }
                }
            }
        }
    }
    all
}

/// Logits of the last id and the session after reading `ids` in pieces of the given lengths.
fn read(engine: &mut Engine, ids: &[u32], mut piece: impl FnMut(usize) -> usize) -> (Vec<u32>, Session) {
    let mut session = engine.session(ids.len() + 8);
    let mut logits = vec![0.0; engine.plan().vocab];
    let mut done = 0;
    while done < ids.len() {
        let end = done + piece(ids.len() - done);
        let want = if end == ids.len() { Want::Last(&mut logits) } else { Want::Nothing };
        engine.advance(&mut session, &ids[done..end], want).expect("fits");
        done = end;
    }
    (bits(&logits), session)
}

#[test]
fn every_chunk_plan_gives_the_same_bits() {
    for (path, model) in models() {
        let ids = prompt(&model, 200, 1);
        let mut engine = engine(&model, &Options::new(2));
        let (whole, session) = read(&mut engine, &ids, |left| left);
        let state = state_bits(&model, &session);
        let mut random = Random(7);
        for plan in 0..200 {
            let (logits, session) = read(&mut engine, &ids, |left| 1 + random.below(200).min(left - 1));
            assert!(logits == whole, "{path}: plan {plan}");
            assert!(state_bits(&model, &session) == state, "{path}: state of plan {plan}");
        }
        let (logits, session) = read(&mut engine, &ids, |_| 1);
        assert!(logits == whole && state_bits(&model, &session) == state, "{path}: one by one");
    }
}

#[test]
fn logits_of_every_position_equal_those_of_stepping_there() {
    for (path, model) in models() {
        let ids = prompt(&model, 140, 2);
        let vocab = model.plan.vocab;
        let mut engine = engine(&model, &Options::new(2));
        let mut every = vec![0.0; ids.len() * vocab];
        let mut session = engine.session(ids.len());
        engine.advance(&mut session, &ids, Want::Every(&mut every)).expect("fits");
        let mut session = engine.session(ids.len());
        let mut one = vec![0.0; vocab];
        for (i, id) in ids.iter().enumerate() {
            engine.advance(&mut session, &[*id], Want::Last(&mut one)).expect("fits");
            assert!(bits(&one) == bits(&every[i * vocab..(i + 1) * vocab]), "{path}: position {i}");
        }
    }
}

#[test]
fn threads_tiers_and_pass_sizes_change_no_bit() {
    for (path, model) in models() {
        let ids = prompt(&model, 150, 3);
        let portable = Options { kernels: kinglet_kernels::by_name("portable").expect("always"), ..Options::new(1) };
        let (wanted, session) = read(&mut engine(&model, &portable), &ids, |left| left);
        let state = state_bits(&model, &session);
        let check = |options: Options, what: String| {
            let (logits, session) = read(&mut engine(&model, &options), &ids, |left| left.min(90));
            assert!(logits == wanted, "{path}: {what}");
            assert!(state_bits(&model, &session) == state, "{path}: state, {what}");
        };
        for kernels in kinglet_kernels::available() {
            for threads in [1, 2, 3, 5] {
                check(Options { kernels, ..Options::new(threads) }, format!("{} x{threads}", kernels.name));
            }
        }
        for chunk in [1, 2, 31, 64, 100] {
            check(Options { chunk, ..Options::new(2) }, format!("passes of {chunk}"));
        }
    }
    for tier in kinglet_kernels::compiled() {
        if kinglet_kernels::by_name(tier).is_none() {
            eprintln!("NOT TESTED: this CPU cannot run the tier {tier}");
        }
    }
}

#[test]
fn other_sessions_in_between_change_no_bit() {
    for (path, model) in models() {
        let prompts: Vec<Vec<u32>> = (0..3).map(|seed| prompt(&model, 60 + seed as usize * 7, 10 + seed)).collect();
        let mut engine = engine(&model, &Options::new(2));
        let alone: Vec<_> = prompts.iter().map(|ids| read(&mut engine, ids, |left| left).0).collect();
        let mut sessions: Vec<Session> = prompts.iter().map(|_| engine.session(100)).collect();
        let mut logits = vec![vec![0.0; model.plan.vocab]; prompts.len()];
        for step in 0..prompts.iter().map(Vec::len).max().expect("three") {
            for (i, ids) in prompts.iter().enumerate() {
                if let Some(id) = ids.get(step) {
                    engine.advance(&mut sessions[i], &[*id], Want::Last(&mut logits[i])).expect("fits");
                }
            }
        }
        for (i, alone) in alone.iter().enumerate() {
            assert!(bits(&logits[i]) == *alone, "{path}: session {i}");
        }
    }
}

#[test]
fn thirty_sessions_of_one_engine_equal_thirty_fresh_engines() {
    for (path, model) in models() {
        let mut shared = engine(&model, &Options::new(2));
        for seed in 0..30 {
            let ids = prompt(&model, 20 + seed as usize, 100 + seed);
            let fresh = read(&mut engine(&model, &Options::new(2)), &ids, |left| left).0;
            assert!(read(&mut shared, &ids, |left| left).0 == fresh, "{path}: session {seed}");
        }
    }
}

#[test]
fn forks_and_snapshots_continue_as_if_nothing_happened() {
    for (path, model) in models() {
        let ids = prompt(&model, 300, 5);
        let mut engine = engine(&model, &Options::new(2));
        let (wanted, _) = read(&mut engine, &ids, |left| left);
        let other = prompt(&model, 40, 6);
        // Around the borders of a page of keys and values, and inside.
        for cut in [1, 5, 127, 128, 129, 200, 256, 299] {
            let mut session = engine.session(ids.len() + 40);
            engine.advance(&mut session, &ids[..cut], Want::Nothing).expect("fits");
            let snapshot = session.snapshot();
            let mut fork = session.fork();
            engine.advance(&mut session, &other, Want::Nothing).expect("fits");
            let mut finish = |session: &mut Session, what: &str| {
                let mut logits = vec![0.0; model.plan.vocab];
                engine.advance(session, &ids[cut..], Want::Last(&mut logits)).expect("fits");
                assert!(bits(&logits) == wanted, "{path}: {what} at {cut}");
            };
            finish(&mut fork, "fork");
            session.restore(&snapshot).expect("same model");
            finish(&mut session, "restore");
            fork.restore(&snapshot).expect("same model");
            finish(&mut fork, "restore into another session");
            session.clear();
            assert_eq!(session.position(), 0);
        }
    }
}

#[test]
fn a_call_that_cannot_be_served_changes_nothing() {
    let model = load("models/demo", Precision::Int8);
    let mut engine = engine(&model, &Options::new(1));
    let mut session = engine.session(10);
    engine.advance(&mut session, &[1, 2, 3], Want::Nothing).expect("fits");
    let before = state_bits(&model, &session);
    let error = engine.advance(&mut session, &[5; 8], Want::Nothing).expect_err("too many");
    assert_eq!(error.to_string(), "context is full: 3 of 10 positions are used and 8 more are asked for");
    let error = engine.advance(&mut session, &[1, 4096], Want::Nothing).expect_err("no such id");
    assert_eq!(error.to_string(), "id 4096 at index 1: expected less than 4096, the model's vocabulary");
    assert!(engine.advance(&mut session, &[], Want::Nothing).is_err());
    assert!(engine.advance(&mut session, &[1], Want::Last(&mut [0.0; 3])).is_err());
    let stranger = load("models/demo", Precision::Int8);
    let other = support::engine(&stranger, &Options::new(1));
    assert!(engine.advance(&mut other.session(4), &[1], Want::Nothing).is_err());
    assert_eq!(session.position(), 3);
    assert!(state_bits(&model, &session) == before);
}
