//! Graphs of small plans, read back: what signatures take and give, what operators they are made of, where constants lie.

use std::collections::HashSet;

use kinglet_blob::Blob;
use kinglet_model::{Attention, DeltaNet, Mixer, Plan};
use kinglet_tflite::{ElementType, Model, Subgraph};

use super::*;

const MIXERS: [Mixer; 4] = [Mixer::GatedDeltaNet, Mixer::GatedDeltaNet, Mixer::GatedDeltaNet, Mixer::GatedAttention];

fn plan(ratio: usize) -> Plan {
    Plan {
        vocab: 40,
        hidden: 16,
        ffn: 24,
        layers: MIXERS.to_vec(),
        attention: Attention { heads: 4, kv_heads: 2, head_dim: 8, inverse_frequencies: vec![1.0, 0.1] },
        delta: DeltaNet { key_heads: 2, value_heads: 2 * ratio, key_dim: 4, value_dim: 6, taps: 4 },
        eps: 1e-6,
        max_positions: 1000,
    }
}

/// All constants of a plan; matrices that an int8 model holds as integers have scales of `scale`.
fn constants(plan: &Plan, scale: Option<f32>, tied: bool) -> Vec<Constant> {
    let (a, d) = (&plan.attention, &plan.delta);
    let mut all = Vec::new();
    let mut add = |name: String, shape: &[usize], is_linear: bool| {
        let scales = scale.filter(|_| is_linear).map(|scale| vec![scale; shape[0]]);
        all.push(Constant { name, shape: shape.to_vec(), scales });
    };
    add("embed_tokens".into(), &[plan.vocab, plan.hidden], true);
    for (i, mixer) in plan.layers.iter().enumerate() {
        let mut part = |name: &str, shape: &[usize], linear| add(format!("layers.{i}.{name}"), shape, linear);
        part("input_layernorm", &[plan.hidden], false);
        match mixer {
            Mixer::GatedDeltaNet => {
                part("in_proj_qkv", &[d.channels(), plan.hidden], true);
                part("in_proj_z", &[d.values(), plan.hidden], true);
                part("in_proj_b", &[d.value_heads, plan.hidden], false);
                part("in_proj_a", &[d.value_heads, plan.hidden], false);
                part("dt_bias", &[d.value_heads], false);
                part("A_log", &[d.value_heads], false);
                part("conv1d", &[d.taps, d.channels()], false);
                part("norm", &[d.value_dim], false);
                part("out_proj", &[plan.hidden, d.values()], true);
            }
            Mixer::GatedAttention => {
                part("q_proj", &[2 * a.heads * a.head_dim, plan.hidden], true);
                part("k_proj", &[a.kv_heads * a.head_dim, plan.hidden], true);
                part("v_proj", &[a.kv_heads * a.head_dim, plan.hidden], true);
                part("q_norm", &[a.head_dim], false);
                part("k_norm", &[a.head_dim], false);
                part("o_proj", &[plan.hidden, a.heads * a.head_dim], true);
            }
        }
        part("post_attention_layernorm", &[plan.hidden], false);
        part("gate_proj", &[plan.ffn, plan.hidden], true);
        part("up_proj", &[plan.ffn, plan.hidden], true);
        part("down_proj", &[plan.hidden, plan.ffn], true);
    }
    add("final_norm".into(), &[plan.hidden], false);
    if !tied {
        add("lm_head".into(), &[plan.vocab, plan.hidden], true);
    }
    all
}

fn options(ladder: &[usize]) -> GraphOptions {
    GraphOptions { ladder: ladder.to_vec(), cache_length: 192 }
}

fn read(written: &Written) -> Model {
    let mut section = written.flatbuffer.clone();
    section.resize(written.length as usize, 0);
    Model::parse(Blob::from_vec(section), None).expect("a sound model")
}

fn shapes(model: &Model, graph: &Subgraph, of: &[(String, usize)]) -> Vec<String> {
    let show = |(name, tensor): &(String, usize)| {
        let tensor = &graph.tensors()[*tensor];
        assert!(!model.name(tensor).is_empty());
        format!("{name} {}{}", tensor.element, tensor.shape)
    };
    of.iter().map(show).collect()
}

#[test]
fn signatures_take_tokens_positions_mask_and_states_and_give_states_and_logits() {
    let plan = plan(2);
    let model = read(&write(&plan, &constants(&plan, Some(0.5), true), &options(&[128, 8, 1])).expect("a graph"));
    let keys: Vec<&str> = model.signatures().iter().map(|signature| signature.key.as_str()).collect();
    assert_eq!(keys, ["prefill_128", "prefill_8", "prefill_1", "decode"]);
    let states = |layer: usize| match MIXERS[layer] {
        Mixer::GatedDeltaNet => {
            vec![format!("kv_cache_c_{layer} f32[1, 40, 3]"), format!("kv_cache_r_{layer} f32[1, 4, 4, 6]")]
        }
        Mixer::GatedAttention => {
            vec![format!("kv_cache_k_{layer} f32[1, 2, 192, 8]"), format!("kv_cache_v_{layer} f32[1, 2, 8, 192]")]
        }
    };
    let states: Vec<String> = (0..4).flat_map(states).collect();
    for (signature, rows) in model.signatures().iter().zip([128, 8, 1, 1]) {
        let graph = model.subgraph_of(signature);
        let inputs = [
            format!("tokens i32[1, {rows}]"),
            format!("input_pos i32[{rows}]"),
            format!("mask f32[1, 1, {rows}, 192]"),
        ];
        let wanted: HashSet<String> = inputs.into_iter().chain(states.iter().cloned()).collect();
        assert_eq!(HashSet::from_iter(shapes(&model, graph, &signature.inputs)), wanted, "{}", signature.key);
        let mut wanted: HashSet<String> = states.iter().cloned().collect();
        if signature.key == "decode" {
            wanted.insert("logits f32[1, 1, 40]".to_owned());
        }
        assert_eq!(HashSet::from_iter(shapes(&model, graph, &signature.outputs)), wanted, "{}", signature.key);
    }
}

/// The operators that a graph may hold; a backend of the official runtime has each of them.
const OPERATORS: &[&str] = &[
    "ABS",
    "ADD",
    "BATCH_MATMUL",
    "CAST",
    "CONCATENATION",
    "COS",
    "DEPTHWISE_CONV_2D",
    "DYNAMIC_UPDATE_SLICE",
    "EMBEDDING_LOOKUP",
    "EXP",
    "FULLY_CONNECTED",
    "LOG",
    "LOGISTIC",
    "MAXIMUM",
    "MEAN",
    "MINIMUM",
    "MUL",
    "RELU",
    "RESHAPE",
    "RSQRT",
    "SIN",
    "SLICE",
    "SOFTMAX",
    "SUB",
    "SUM",
    "TRANSPOSE",
];

#[test]
fn tensors_have_rank_4_at_most_and_operators_are_plain() {
    for ratio in [1, 2] {
        let plan = plan(ratio);
        let model = read(&write(&plan, &constants(&plan, None, false), &options(&[192, 64, 2])).expect("a graph"));
        for graph in model.subgraphs() {
            for tensor in graph.tensors() {
                assert!((1..=4).contains(&tensor.shape.len()), "{} {}", model.name(tensor), tensor.shape);
                assert!(matches!(tensor.element, ElementType::F32 | ElementType::I32), "{}", model.name(tensor));
            }
            for operator in model.operators(graph) {
                let kind = operator.kind().to_string();
                assert!(OPERATORS.contains(&kind.as_str()), "{kind}");
            }
        }
    }
}

#[test]
fn weights_are_stored_once_behind_the_flatbuffer_and_shared_by_all_signatures() {
    let plan = plan(1);
    let constants = constants(&plan, Some(0.5), true);
    let written = write(&plan, &constants, &options(&[64, 1])).expect("a graph");
    let mut end = written.flatbuffer.len() as u64;
    for (constant, at) in constants.iter().zip(&written.placements) {
        assert!(*at >= end && at.is_multiple_of(64), "{} at {at}", constant.name);
        end = at + constant.bytes();
    }
    assert_eq!(end.next_multiple_of(16), written.length.next_multiple_of(16));
    let model = read(&written);
    let base = model.data(&model.subgraphs()[0].tensors()[0]);
    assert!(base.is_none(), "the first tensor is an input");
    let mut used = HashSet::new();
    for graph in model.subgraphs() {
        for tensor in graph.tensors().iter().filter(|tensor| tensor.element == ElementType::I8) {
            used.insert(model.data(tensor).expect("a constant").as_ptr() as usize);
            assert_eq!(model.quantization(tensor).expect("int8 has scales").scales.len(), tensor.shape[0] as usize);
        }
    }
    let linears = constants.iter().filter(|constant| constant.scales.is_some()).count();
    assert_eq!(used.len(), linears);
}

#[test]
fn nothing_lies_elsewhere_because_scales_have_other_values() {
    let plan = plan(1);
    let with = |scale| write(&plan, &constants(&plan, Some(scale), true), &options(&[64, 1])).expect("a graph");
    let (zeros, real) = (with(0.0), with(0.012_345));
    assert_eq!((&zeros.placements, zeros.length), (&real.placements, real.length));
    assert_eq!(zeros.flatbuffer.len(), real.flatbuffer.len());
    assert_ne!(zeros.flatbuffer, real.flatbuffer);
    assert_eq!(real.flatbuffer, with(0.012_345).flatbuffer, "the same bytes every time");
}

#[test]
fn names_are_short() {
    let mut plan = plan(2);
    plan.layers = MIXERS.repeat(8);
    let ladder = [192, 128, 64, 32, 16, 8, 4, 2, 1];
    let model = read(&write(&plan, &constants(&plan, Some(0.5), true), &options(&ladder)).expect("a graph"));
    let tensors = model.subgraphs().iter().flat_map(|graph| graph.tensors());
    let names: usize = tensors.map(|tensor| model.name(tensor).len()).sum();
    assert!(names < 1_000_000, "{names} bytes of names in 32 layers with {} prefills", ladder.len());
}

#[test]
fn prefill_ends_with_the_last_cache_and_has_no_head() {
    let plan = plan(1);
    let model = read(&write(&plan, &constants(&plan, None, false), &options(&[8])).expect("a graph"));
    let uses = |key: &str, name: &str| {
        let graph = model.subgraph_of(model.signature(key).expect("there"));
        graph.tensors().iter().any(|tensor| model.name(tensor).ends_with(name))
    };
    for name in ["layers.3.q_proj", "layers.3.o_proj", "layers.3.gate_proj", "final_norm", "lm_head"] {
        assert!(uses("decode", name) && !uses("prefill_8", name), "{name}");
    }
    for name in ["layers.3.k_proj", "layers.3.v_proj", "layers.2.down_proj"] {
        assert!(uses("decode", name) && uses("prefill_8", name), "{name}");
    }
}

#[test]
fn what_no_graph_can_be_made_for_is_refused() {
    let plan = plan(1);
    let full = constants(&plan, None, true);
    let refusal = |constants: &[Constant], ladder: &[usize], cache_length| {
        let options = GraphOptions { ladder: ladder.to_vec(), cache_length };
        write(&plan, constants, &options).expect_err("refused").to_string()
    };
    let table: &[(&[usize], usize, &str)] = &[
        (&[], 192, "is empty"),
        (&[1, 8], 192, "does not fall"),
        (&[8, 8], 192, "does not fall"),
        (&[96, 1], 192, "has 96, expected 1 to 64 or a multiple of 64"),
        (&[8, 0], 192, "has 0"),
        (&[256], 192, "192 positions, expected 256"),
        (&[8], 1 << 21, "expected 8 to 1048576"),
    ];
    for (ladder, cache_length, expected) in table {
        let text = refusal(&full, ladder, *cache_length);
        assert!(text.contains(expected), "{text}");
    }
    let text = refusal(&full[1..], &[8], 192);
    assert!(text.contains("no constant `embed_tokens`"), "{text}");
    let mut other = full.clone();
    other[1].shape = vec![17];
    let text = refusal(&other, &[8], 192);
    assert!(text.contains("layers.0.input_layernorm") && text.contains("[17]"), "{text}");
    let mut other = full;
    other[1].scales = Some(vec![1.0; 16]);
    let text = refusal(&other, &[8], 192);
    assert!(text.contains("is int8, expected f32"), "{text}");
}
