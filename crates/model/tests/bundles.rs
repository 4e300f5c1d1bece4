//! Bundles by the official exporter: what is bound equals the checkpoint that they were made from, number for number.

#[path = "../../flat/tests/builder/mutation.rs"]
mod mutation;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kinglet_bundle::Bundle;
use kinglet_model::family::qwen35::graph::{Bound, bind};
use kinglet_model::{Attention, DeltaNet, Matrix, Mixer, MixerWeights, Plan, Rows};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/bundles")
}

fn bound(path: &Path) -> Bound {
    let bundle = Bundle::open(path).expect("a sound bundle");
    bind(&bundle).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The tensors of a checkpoint with one file, as `f32`.
fn checkpoint(directory: &Path) -> BTreeMap<String, Vec<f32>> {
    let bytes = std::fs::read(directory.join("model.safetensors")).expect("a checkpoint");
    let len = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + len]).expect("json");
    let tensors = header.as_object().expect("an object").iter().filter(|(name, _)| *name != "__metadata__");
    let read = |facts: &serde_json::Value| {
        let at = |n: usize| facts["data_offsets"][n].as_u64().expect("an offset") as usize + 8 + len;
        let data = &bytes[at(0)..at(1)];
        match facts["dtype"].as_str() {
            Some("F32") => data.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            _ => data.as_chunks::<2>().0.iter().map(|b| half::bf16::from_le_bytes(*b).to_f32()).collect(),
        }
    };
    tensors.map(|(name, facts)| (name.replace("language_model.", "").replacen("model.", "", 1), read(facts))).collect()
}

fn tiny_plan(key_heads: usize) -> Plan {
    let delta = Mixer::GatedDeltaNet;
    Plan {
        vocab: 1024,
        hidden: 64,
        ffn: 160,
        layers: vec![delta, delta, delta, Mixer::GatedAttention],
        attention: Attention { heads: 4, kv_heads: 2, head_dim: 32, inverse_frequencies: Vec::new() },
        delta: DeltaNet { key_heads, value_heads: 4, key_dim: 16, value_dim: 16, taps: 4 },
        eps: 1e-6,
        max_positions: 256,
    }
}

/// A matrix must hold these numbers: bit for bit, or what the official quantiser makes of them.
fn assert_matrix(name: &str, matrix: &Matrix, expected: &[f32]) {
    match matrix.slice(0, matrix.rows()) {
        Rows::F32(found) => assert!(same_bits(found, expected), "{name}"),
        Rows::I8(found, scales) => {
            for ((q, row), scale) in found.chunks(matrix.columns()).zip(expected.chunks(matrix.columns())).zip(scales) {
                let largest = row.iter().fold(0.0f32, |m, w| m.max(w.abs()));
                assert_eq!(*scale, largest / 127.0, "{name}");
                let quantised: Vec<i8> = row.iter().map(|w| (w / scale).round_ties_even() as i8).collect();
                assert_eq!(q, quantised, "{name}");
            }
        }
        _ => panic!("{name}: f32 or int8"),
    }
}

fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

/// Every parameter of the checkpoint is in the bundle; `conv_scaled` where the convolution was made int8.
fn assert_equal(bound: &Bound, mut hf: BTreeMap<String, Vec<f32>>, conv_scaled: bool) {
    let mut take = |name: String| hf.remove(&name).unwrap_or_else(|| panic!("{name} in the checkpoint"));
    let plus_one = |values: Vec<f32>| -> Vec<f32> { values.into_iter().map(|w| w + 1.0).collect() };
    let norm = |name: &str, found: &[f32], stored: Vec<f32>| assert!(same_bits(found, &plus_one(stored)), "{name}");
    assert_matrix("embed_tokens", &bound.weights.embedding, &take("embed_tokens.weight".into()));
    norm("norm", &bound.weights.final_norm, take("norm.weight".into()));
    for (i, layer) in bound.weights.layers.iter().enumerate() {
        let p = format!("layers.{i}.");
        for part in ["input_layernorm", "post_attention_layernorm"] {
            let found = if part.starts_with('i') { &layer.input_norm } else { &layer.mlp_norm };
            norm(&format!("{p}{part}"), found, take(format!("{p}{part}.weight")));
        }
        let mlp = [("gate", &layer.mlp.gate), ("up", &layer.mlp.up), ("down", &layer.mlp.down)];
        for (part, matrix) in mlp {
            assert_matrix(&format!("{p}{part}"), matrix, &take(format!("{p}mlp.{part}_proj.weight")));
        }
        match &layer.mixer {
            MixerWeights::Attention(w) => {
                let p = format!("{p}self_attn.");
                let matrices = [("q", &w.query), ("k", &w.key), ("v", &w.value), ("o", &w.output)];
                for (part, matrix) in matrices {
                    assert_matrix(&format!("{p}{part}"), matrix, &take(format!("{p}{part}_proj.weight")));
                }
                norm("q_norm", &w.query_norm, take(format!("{p}q_norm.weight")));
                norm("k_norm", &w.key_norm, take(format!("{p}k_norm.weight")));
            }
            MixerWeights::Delta(w) => {
                let p = format!("{p}linear_attn.");
                let parts = ["in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b", "out_proj"];
                for (part, matrix) in parts.into_iter().zip([&w.qkv, &w.z, &w.a, &w.b, &w.output]) {
                    assert_matrix(&format!("{p}{part}"), matrix, &take(format!("{p}{part}.weight")));
                }
                assert!(same_bits(&w.norm, &take(format!("{p}norm.weight"))), "{p}norm");
                assert!(same_bits(&w.dt_bias, &take(format!("{p}dt_bias"))), "{p}dt_bias");
                let decay: Vec<f32> = take(format!("{p}A_log")).iter().map(|a| -(f64::from(*a).exp() as f32)).collect();
                assert!(w.decay_rate.iter().zip(&decay).all(|(a, b)| (a - b).abs() <= 1.2e-7 * b.abs()), "{p}A_log");
                assert_convolution(&format!("{p}conv1d"), &w.conv, &take(format!("{p}conv1d.weight")), conv_scaled);
            }
        }
    }
    assert_eq!(hf.keys().collect::<Vec<_>>(), Vec::<&String>::new(), "parameters of the checkpoint that are nowhere");
}

/// The checkpoint has `[channels, taps]`, the plan `[taps, channels]`.
fn assert_convolution(name: &str, found: &[f32], stored: &[f32], scaled: bool) {
    let taps = 4;
    let channels = stored.len() / taps;
    for c in 0..channels {
        let row = &stored[c * taps..(c + 1) * taps];
        let scale = row.iter().fold(0.0f32, |m, w| m.max(w.abs())) / 127.0;
        for (j, w) in row.iter().enumerate() {
            let expected = if scaled { (w / scale).round_ties_even() * scale } else { *w };
            assert_eq!(found[j * channels + c], expected, "{name} channel {c} tap {j}");
        }
    }
}

#[test]
fn each_tiny_bundle_holds_its_checkpoint() {
    let cases = [
        ("tiny", "tiny_float", 4, false),
        ("tiny", "tiny_wi8fc", 4, false),
        ("tiny", "tiny_wi8all", 4, true),
        ("tiny", "tinyc_float", 4, false),
        ("tiny", "tinyc_wi8fc", 4, false),
        ("tiny4b", "tiny4b_float", 2, false),
        ("tiny4b", "tiny4b_wi8fc", 2, false),
    ];
    for (folder, file, key_heads, conv_scaled) in cases {
        let folder = fixtures().join(folder);
        let bound = bound(&folder.join(format!("{file}.litertlm")));
        let mut plan = bound.plan.clone();
        let frequencies = std::mem::take(&mut plan.attention.inverse_frequencies);
        assert_eq!(plan, tiny_plan(key_heads), "{file}");
        assert_eq!(frequencies.len(), 4, "{file}: 8 of 32 dimensions are rotated");
        for (i, found) in frequencies.iter().enumerate() {
            let expected = 1e7f64.powf(-2.0 * i as f64 / 8.0) as f32;
            assert!((found - expected).abs() <= 1.2e-7 * expected, "{file}: {found} {expected}");
        }
        assert!(bound.weights.head.is_none(), "{file}: the embedding is the head");
        assert_equal(&bound, checkpoint(&folder.join("ckpt")), conv_scaled);
        println!("{file}: {:?} {:?}", bound.weights.footprint(), bound.notices);
    }
}

/// The demo bundles hold a third party's template, so they are not part of this repository.
#[test]
fn the_demo_bundles_hold_the_demo_model() {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    for file in ["demo_wi8fc", "democ_wi8fc"] {
        let path = shared.join(format!("bundles/demo/{file}.litertlm"));
        if !path.exists() {
            println!("SKIPPED: {} is absent", path.display());
            continue;
        }
        let bound = bound(&path);
        assert_equal(&bound, checkpoint(&shared.join("demo-model")), false);
        let owned = bound.weights.footprint().owned;
        let scales: usize = bound.weights.matrices().map(|(_, m)| 4 * m.rows()).sum();
        assert!(owned as usize <= scales, "{file}: {owned} bytes copied, {scales} of them scales");
    }
}

/// Binds a bundle of the fixtures after replacing bytes, at every place or at one.
fn rebound(file: &str, from: &[u8], to: &[u8], places: usize) -> Result<Bound, kinglet_model::Error> {
    assert_eq!(from.len(), to.len(), "the file keeps its layout");
    let mut bytes = std::fs::read(fixtures().join(file)).expect("a fixture");
    let mut replaced = 0;
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(from.len()).position(|w| w == from) {
        at += found;
        bytes[at..at + to.len()].copy_from_slice(to);
        at += to.len();
        replaced += 1;
        if replaced == places {
            break;
        }
    }
    assert!(replaced > 0, "{file} has {}", from.escape_ascii());
    let bundle = Bundle::from_blob(kinglet_blob::Blob::from_vec(bytes), file).expect("the container is untouched");
    bind(&bundle)
}

const OFFICIAL: &str = "tiny/tiny_float.litertlm";
const COMMUNITY: &str = "tiny/tinyc_float.litertlm";

#[test]
fn weights_are_recognised_without_their_names() {
    for file in [OFFICIAL, COMMUNITY] {
        let bound = rebound(file, b"Linear_", b"weight_", usize::MAX).expect("names are not needed");
        assert_equal(&bound, checkpoint(&fixtures().join("tiny/ckpt")), false);
    }
}

#[test]
fn a_name_that_contradicts_the_graph_is_refused() {
    for file in [OFFICIAL, COMMUNITY] {
        let error = rebound(file, b"Linear_down_proj", b"Linear_gate_proj", usize::MAX).expect_err("down is not gate");
        let text = error.to_string();
        assert!(text.contains("down_proj of layer 0") && text.contains("`gate_proj` in its name"), "{text}");
        let error = rebound(file, b"DecoderLayer_2", b"DecoderLayer_1", usize::MAX).expect_err("2 is not 1");
        assert!(error.to_string().contains("of layer 2, as the graph has it"), "{error}");
    }
}

#[test]
fn another_family_is_refused_by_the_states_it_has() {
    let cases: [(&[u8], &[u8], &str); 3] = [
        (b"kv_cache_c_", b"kv_cache_x_", "found a state `kv_cache_x_0`"),
        (b"kv_cache_c_1", b"kv_cache_c_0", "found a second `kv_cache_c_0`"),
        (b"kv_cache_", b"xx_cache_", "found no states among [input_pos, xx_cache_c_0"),
    ];
    for (from, to, expected) in cases {
        let error = rebound(OFFICIAL, from, to, usize::MAX).expect_err(expected);
        assert!(error.to_string().contains(expected), "{error} / {expected}");
    }
    let error = rebound(COMMUNITY, b"kv_cache_", b"xx_cache_", usize::MAX).expect_err("no states");
    assert!(error.to_string().contains("the bundle calls itself `generic_model`"), "{error}");
    assert_eq!(error.kind(), kinglet_model::ErrorKind::Unsupported);
    assert!(error.hint().is_some(), "what would run here");
}

#[test]
fn a_missing_decode_signature_is_told_with_those_there_are() {
    let error = rebound(OFFICIAL, b"\x06\0\0\0decode\0", b"\x06\0\0\0recode\0", usize::MAX).expect_err("no decode");
    assert!(error.to_string().contains("found [prefill_32, prefill_8, prefill_1, recode]"), "{error}");
}

#[test]
fn a_foreign_operator_is_refused_by_name() {
    let error = rebound(OFFICIAL, b"gated_delta_update", b"gated_gamma_update", usize::MAX).expect_err("unknown");
    assert!(error.to_string().contains("the graph computes CUSTOM:gated_gamma_update"), "{error}");
    let error = rebound(OFFICIAL, b"odml.rms_norm\0", b"odml.lay_norm\0", usize::MAX).expect_err("unknown");
    assert!(error.to_string().contains("the graph computes COMPOSITE:odml.lay_norm"), "{error}");
}

/// 0.17677669 is 32 to the power of -1/2, by which queries are scaled.
#[test]
fn a_constant_that_has_no_place_is_refused_with_its_value() {
    for file in [OFFICIAL, COMMUNITY] {
        let (scale, other) = ((1.0f32 / 32.0f32.sqrt()).to_le_bytes(), 0.2f32.to_le_bytes());
        let error = rebound(file, &scale, &other, usize::MAX).expect_err("another scale");
        assert!(error.to_string().contains("computes MUL with the constant 0.2"), "{error}");
    }
}

#[test]
fn the_guard_that_drops_tokens_is_told_to_the_user() {
    for (file, token) in [(OFFICIAL, 998), (COMMUNITY, 0)] {
        let bound = bound(&fixtures().join(file));
        assert!(bound.notices.iter().any(|n| n.contains(&format!("takes token {token} for padding"))), "{file}");
    }
}

#[test]
fn float_weights_of_a_mapped_bundle_are_not_copied() {
    for file in [OFFICIAL, COMMUNITY] {
        let footprint = bound(&fixtures().join(file)).weights.footprint();
        assert_eq!(footprint.owned, 0, "{file}");
        assert!(footprint.mapped > 500_000, "{file}");
    }
}

#[test]
fn damaged_graphs_never_panic() {
    for file in ["tiny/tiny_wi8all.litertlm", "tiny/tinyc_wi8fc.litertlm"] {
        let sound = std::fs::read(fixtures().join(file)).expect("a fixture");
        let mut bound = 0;
        for seed in 0..150 {
            let mut bytes = sound.clone();
            // The graph begins after three sections of metadata and tokenizer.
            mutation::damage(&mut bytes, 4 << 14..sound.len(), &mut mutation::Numbers::new(seed));
            let bundle = Bundle::from_blob(kinglet_blob::Blob::from_vec(bytes), file).expect("an untouched header");
            bound += usize::from(bind(&bundle).is_ok());
        }
        assert!(bound > 0, "{file}: most of it is weights and names, whose damage no reader sees");
    }
}
